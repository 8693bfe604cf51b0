/* Pages of lists. A cursor is the last key with a check over path and filters: opaque, the same after a restart, of one list only. */
#include "server/api/api.h"

#include <string.h>

#define CHECK_DIGITS 16
#define SCAN_PER_ENTRY 50      /* records looked at for a page, for each entry it may show */

static struct hash_hex cursor_check(const struct request *req, const char *filters, const char *key)
{
    cleanup(buf) struct buf text = {0};
    buf_fmt(&text, "proteus-cursor-v1\n%s\n%s\n%s", req->route->pattern, filters, key);
    return hash_of(text.data, text.size);
}

void page_cursor(const struct request *req, const char *filters, const char *key, struct buf *to)
{
    buf_fmt(to, "%.*s-%s", CHECK_DIGITS, cursor_check(req, filters, key).text, key);
}

bool page_read(const struct request *req, struct response *res, const char *filters, struct page_request *ret)
{
    const char *cursor = req->query(req, "cursor");
    int64_t limit;
    if (!request_int(req, res, "limit", 1, app_of(req)->config->max_page, 50, &limit))
        return false;
    *ret = (struct page_request){.limit = (int)limit, .filters = filters};
    if (!cursor)
        return true;
    size_t bytes = strlen(cursor);
    const char *key = cursor + CHECK_DIGITS + 1;
    if (bytes <= CHECK_DIGITS + 1 || bytes - CHECK_DIGITS - 1 >= sizeof ret->after || cursor[CHECK_DIGITS] != '-' ||
        strncmp(cursor_check(req, filters, key).text, cursor, CHECK_DIGITS)) {
        respond_bad_query(req, res, "cursor", "is not one that this list gave with these filters; start without it");
        return false;
    }
    snprintf(ret->after, sizeof ret->after, "%s", key);
    return true;
}

struct collect {
    json_t *list;
    page_keep *keep;
    void *ctx;
    size_t limit;
};

static bool collect_one(void *ctx, const char *id, const json_t *doc)
{
    (void)id;
    struct collect *c = ctx;
    cleanup(json) json_t *copy = json_copy((json_t *)(uintptr_t)doc);
    if (!c->keep || c->keep(c->ctx, copy))
        json_array_append_new(c->list, steal(&copy));
    return json_array_size(c->list) < c->limit;
}

void page_respond_of(const struct request *req, struct response *res, enum store_kind kind, const char *owner, bool backwards,
                     const char *name, const char *filters, page_keep *keep, void *ctx)
{
    struct page_request page;
    if (!page_read(req, res, filters, &page))
        return;
    struct collect c = {json_array(), keep, ctx, (size_t)page.limit};
    struct store_page ask = {.kind = kind, .owner = owner, .after = page.after[0] ? page.after : NULL, .backwards = backwards,
                             .limit = keep ? page.limit * SCAN_PER_ENTRY : page.limit};
    cleanup(str) char *next = NULL;
    int64_t as_of = 0;
    struct err err;
    json_t *doc = json_object();
    json_put(doc, name, c.list);
    if (!store_list(app_of(req)->store, &ask, collect_one, &c, &next, &as_of, &err)) {
        json_decref(doc);
        respond_err(req, res, &err);
        return;
    }
    if (next) {
        cleanup(buf) struct buf cursor = {0};
        page_cursor(req, filters, next, &cursor);
        json_put_str(doc, "next", buf_cstr(&cursor));
    } else {
        json_put(doc, "next", json_null());
    }
    json_put_int(doc, "as_of", as_of);
    respond_json(res, 200, doc);
}

void page_respond(const struct request *req, struct response *res, enum store_kind kind, bool backwards, const char *name,
                  const char *filters, page_keep *keep, void *ctx)
{
    page_respond_of(req, res, kind, NULL, backwards, name, filters, keep, ctx);
}

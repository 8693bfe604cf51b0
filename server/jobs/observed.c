/* Records of observed shapes: importing, estimates, forgetting. */
#include "server/jobs/observed.h"

#include "core/clock.h"

#include <string.h>

#define TRIES 100                        /* of a write that others got in the way of */
#define TOLD_MAX 16
#define MALFORMED_MAX 50                 /* lines of a request that are no shape at all; with more it is no log */
#define PAGE 1000

struct import {
    const struct op_set *ops;
    const char *default_target;
    json_t *shapes;                      /* by hash: {"shape","count"} */
    json_t *told;
    int64_t lines, taken, skipped, malformed;
    struct faults first;                 /* what was wrong with the first of those */
};

static void skip(struct import *im, const char *detail)
{
    im->skipped++;
    if (json_array_size(im->told) < TOLD_MAX)
        json_array_append_new(im->told, json_pack("{s:I,s:s}", "line", (json_int_t)im->lines, "detail", detail));
}

/* No object of the right form: a line that was cut off, or of something else. */
static void skip_malformed(struct import *im, const struct faults *f)
{
    if (!im->malformed++)
        im->first = *f;
    skip(im, f->list[0].detail);
}

/* The line's shape, or why it is none. What is no object of the right form at all is a fault. */
static void take_object(struct import *im, json_t *doc, struct faults *f)
{
    static const char *const keys[] = {"op", "axes", "dtypes", "target", "count", NULL};
    cleanup(str) char *where = xfmt("/%lld", (long long)im->lines - 1), *at_count = xfmt("%s/count", where);
    const json_t *given = json_object_get(doc, "count");
    int64_t count = given ? json_integer_value(given) : 1;
    struct faults own = {0};
    struct shape shape;
    json_only_keys(doc, where, keys, f);
    if ((given && !json_is_integer(given)) || count < 1 || count > OBSERVED_COUNT_MAX)
        faults_add(f, at_count, "a whole number from 1 to %lld is needed", (long long)OBSERVED_COUNT_MAX);
    if (!json_is_object(doc) || !json_is_string(json_object_get(doc, "op")) || !json_is_object(json_object_get(doc, "axes")))
        faults_add(f, where, "line %lld: an object with op and axes is needed", (long long)im->lines);
    if (f->count)
        return;
    json_object_del(doc, "count");
    if (!shape_parse(im->ops, doc, im->default_target, "", &shape, &own)) {
        skip(im, own.list[0].detail);
        return;
    }
    struct hash_hex hash = shape_hash(&shape);
    json_t *entry = json_object_get(im->shapes, hash.text);
    if (!entry) {
        entry = json_object();
        json_put(entry, "shape", shape_encode(&shape));
        json_put(im->shapes, hash.text, entry);
    }
    int64_t sum = json_int(entry, "count", 0) + count;
    json_put_int(entry, "count", sum < OBSERVED_COUNT_MAX ? sum : OBSERVED_COUNT_MAX);
    im->taken++;
}

static bool take_lines(struct import *im, const char *text, size_t bytes, int64_t most, struct faults *f, struct err *err)
{
    const size_t mark = bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;     /* some editors put a byte order mark in front */
    for (const char *at = text + mark, *end = text + bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        cleanup(json) json_t *doc = NULL;
        struct err why = {0};
        struct faults own = {0};
        im->lines++;
        if (im->lines > most)
            return err_set(err, ERR_TOO_LARGE, "more than %lld lines; send them in pieces", (long long)most);
        bool blank = size == strspn(at, " \t\r") || !size;
        if (!blank && json_parse(at, size, &doc, &why)) {
            take_object(im, doc, &own);
        } else if (!blank) {
            cleanup(str) char *where = xfmt("/%lld", (long long)im->lines - 1);
            faults_add(&own, where, "line %lld is no JSON: %.160s", (long long)im->lines, why.text);
        }
        if (own.count)
            skip_malformed(im, &own);
        at = stop ? stop + 1 : end;
    }
    if (!im->malformed || (im->taken && im->malformed <= MALFORMED_MAX))
        return true;
    *f = im->first;
    return err_set(err, ERR_INVALID, "%s: %s", f->list[0].pointer, f->list[0].detail);
}

static bool count_kept(struct store *store, int64_t *ret, struct err *err)
{
    cleanup(json) json_t *stats = NULL;
    if (!store_stats(store, &stats, err))
        return false;
    *ret = json_int(json_object_get(json_object_get(stats, "kinds"), "observed"), "count", 0);
    return true;
}

/* One transaction for all of them. *ret_new: how many were not there before. */
static bool write_shapes(struct store *store, const struct import *im, int64_t most, int64_t *ret_new, struct err *err)
{
    cleanup(str) char *now = xstrdup(clock_text(clock_wall_ns()).text);
    int64_t kept = 0;
    const char *hash;
    json_t *entry;
    if (!count_kept(store, &kept, err))
        return false;
    struct store_batch *b = store_batch_new();
    *ret_new = 0;
    json_object_foreach(im->shapes, hash, entry) {
        cleanup(json) json_t *was = NULL, *doc = NULL;
        struct err why = {0};
        bool is_there = store_get(store, STORE_OBSERVED, hash, &was, &why);
        if ((!is_there && why.code != ERR_NOT_FOUND) || (!is_there && kept + ++*ret_new > most)) {
            store_batch_free(b);
            return why.code != ERR_NOT_FOUND ? err_set(err, why.code, "%s", why.text)
                : err_set(err, ERR_BUSY, "%lld observed shapes are kept, and no more than %lld may be: forget them (DELETE /v1/observations)",
                          (long long)kept, (long long)most);
        }
        doc = is_there ? json_deep_copy(was) : json_object();
        json_put_str(doc, "shape_hash", hash);
        json_put(doc, "shape", json_incref(json_object_get(entry, "shape")));
        int64_t sum = json_int(doc, "count", 0) + json_int(entry, "count", 0);
        json_put_int(doc, "count", sum < OBSERVED_COUNT_MAX ? sum : OBSERVED_COUNT_MAX);
        if (!is_there)
            json_put_str(doc, "first", now);
        json_put_str(doc, "last", now);
        store_expect(b, STORE_OBSERVED, hash, was);
        store_put(b, STORE_OBSERVED, hash, NULL, doc);
    }
    return store_commit(store, b, NULL, err);
}

bool observed_add(struct store *store, const struct op_set *ops, const char *default_target, const char *text, size_t bytes,
                  const struct observed_limits *limits, json_t **ret, struct faults *f, struct err *err)
{
    cleanup(json) json_t *shapes = json_object(), *told = json_array();
    struct import im = {.ops = ops, .default_target = default_target, .shapes = shapes, .told = told};
    int64_t fresh = 0;
    if (!take_lines(&im, text, bytes, limits->lines, f, err))
        return false;
    for (int tries = 0; json_object_size(shapes); tries++) {
        struct err why = {0};
        if (write_shapes(store, &im, limits->shapes, &fresh, &why))
            break;
        if (why.code != ERR_CONFLICT || tries == TRIES)
            return err_set(err, why.code, "%s", why.text);
    }
    *ret = json_pack("{s:I,s:I,s:I,s:I,s:I,s:O}", "lines", (json_int_t)im.lines, "taken", (json_int_t)im.taken, "shapes",
                     (json_int_t)json_object_size(shapes), "new", (json_int_t)fresh, "skipped", (json_int_t)im.skipped, "skipped_because", told);
    return true;
}

bool observed_estimate(struct store *store, const char *hash, const json_t *estimate, struct err *err)
{
    for (int tries = 0; tries < TRIES; tries++) {
        cleanup(json) json_t *was = NULL, *doc = NULL;
        struct err why = {0};
        if (!store_get(store, STORE_OBSERVED, hash, &was, err))
            return false;
        doc = json_deep_copy(was);
        json_put(doc, "estimate", json_incref((json_t *)(uintptr_t)estimate));
        struct store_batch *b = store_batch_new();
        store_expect(b, STORE_OBSERVED, hash, was);
        store_put(b, STORE_OBSERVED, hash, NULL, doc);
        if (store_commit(store, b, NULL, &why))
            return true;
        if (why.code != ERR_CONFLICT)
            return err_set(err, why.code, "%s", why.text);
    }
    return err_set(err, ERR_BUSY, "observed shape %.12s changes too fast", hash);
}

static bool add_delete(void *ctx, const char *id, const json_t *doc)
{
    (void)doc;
    json_array_append_new(ctx, json_string(id));
    return true;
}

bool observed_clear(struct store *store, int64_t *ret_count, struct err *err)
{
    for (*ret_count = 0;;) {
        cleanup(json) json_t *ids = json_array();
        struct store_page page = {.kind = STORE_OBSERVED, .limit = PAGE};
        json_t *id;
        size_t i;
        if (!store_list(store, &page, add_delete, ids, NULL, NULL, err))
            return false;
        if (!json_array_size(ids))
            return true;
        struct store_batch *b = store_batch_new();
        json_array_foreach(ids, i, id)
            store_delete(b, STORE_OBSERVED, json_string_value(id));
        if (!store_commit(store, b, NULL, err))
            return false;
        *ret_count += (int64_t)json_array_size(ids);
    }
}

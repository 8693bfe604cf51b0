/*
 * Reading: each call is one read transaction, given up before it returns. Cursors of an owner's list are places in the order of
 * first writing, so they hold when records are added or deleted between two pages.
 */
#include "store/internal.h"

#include <string.h>

DEFINE_CLEANUP(txn, MDB_txn *, if (*it) mdb_txn_abort(*it))
DEFINE_CLEANUP(cursor, MDB_cursor *, if (*it) mdb_cursor_close(*it))

static bool begin(struct store *s, MDB_txn **ret, struct err *err)
{
    int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, ret);
    return rc == 0 || err_from_mdb(err, s, rc, "cannot begin to read");
}

static bool snapshot_event(struct store *s, MDB_txn *txn, int64_t *ret, struct err *err)
{
    uint64_t last;
    int rc = store_counter_get(s, txn, "event", &last);
    if (rc != 0)
        return err_from_mdb(err, s, rc, "cannot read the event counter");
    *ret = (int64_t)last;
    return true;
}

static bool parse_record(struct store *s, enum store_kind kind, MDB_val value, json_t **ret, struct err *err)
{
    struct store_record r;
    struct err why = {0};
    if (!store_record_split(value, &r))
        return err_set(err, ERR_INTERNAL, "store %s: a %s record is damaged", s->dir, store_kind_name(kind));
    if (!json_parse(r.text, r.text_size, ret, &why))
        return err_set(err, ERR_INTERNAL, "store %s: a %s record cannot be read: %s", s->dir, store_kind_name(kind), why.text);
    return true;
}

static bool key_possible(const char *id)
{
    size_t n = strnlen(id, STORE_KEY_BYTES + 1);
    return n && n <= STORE_KEY_BYTES;
}

static bool get_in(struct store *s, MDB_txn *txn, enum store_kind kind, const char *id, json_t **ret, struct err *err)
{
    MDB_val key = store_val(id, strlen(id)), value;
    int rc = mdb_get(txn, s->kinds[kind], &key, &value);
    if (rc == MDB_NOTFOUND)
        return err_set(err, ERR_NOT_FOUND, "there is no %s %s", store_kind_name(kind), id);
    if (rc != 0)
        return err_from_mdb(err, s, rc, "cannot read");
    return parse_record(s, kind, value, ret, err);
}

bool store_get_as_of(struct store *s, enum store_kind kind, const char *id, json_t **ret, int64_t *ret_as_of, struct err *err)
{
    cleanup(txn) MDB_txn *txn = NULL;
    int64_t as_of = 0;
    if (!key_possible(id))
        return err_set(err, ERR_NOT_FOUND, "there is no such %s", store_kind_name(kind));
    if (!begin(s, &txn, err) || !snapshot_event(s, txn, &as_of, err) || !get_in(s, txn, kind, id, ret, err))
        return false;
    if (ret_as_of)
        *ret_as_of = as_of;
    return true;
}

bool store_get(struct store *s, enum store_kind kind, const char *id, json_t **ret, struct err *err)
{
    return store_get_as_of(s, kind, id, ret, NULL, err);
}

bool store_get_blob(struct store *s, const char *digest, struct buf *ret, struct err *err)
{
    cleanup(txn) MDB_txn *txn = NULL;
    if (!hash_hex_valid(digest))
        return err_set(err, ERR_NOT_FOUND, "there is no such blob: a digest is 64 lower-case hex digits");
    if (!begin(s, &txn, err))
        return false;
    MDB_val key = store_val(digest, strlen(digest)), value;
    int rc = mdb_get(txn, s->tables[TABLE_BLOB], &key, &value);
    if (rc == MDB_NOTFOUND)
        return err_set(err, ERR_NOT_FOUND, "there is no blob %s", digest);
    if (rc != 0)
        return err_from_mdb(err, s, rc, "cannot read");
    buf_add(ret, value.mv_data, value.mv_size);
    return true;
}

/* A walk over the keys that begin with `prefix`, in one direction, from after `position` (both in the table's own bytes). */
struct walk {
    unsigned char prefix[STORE_OWNER_KEY_SIZE], position[STORE_OWNER_KEY_SIZE];
    size_t prefix_size, position_size;   /* position_size 0: from the end of the range */
    bool backwards;
};

static bool within(const struct walk *w, const MDB_val *key)
{
    return key->mv_size >= w->prefix_size && memcmp(key->mv_data, w->prefix, w->prefix_size) == 0;
}

/* The first key of the walk; MDB_NOTFOUND when there is none. */
static int walk_first(const struct walk *w, MDB_cursor *c, MDB_val *key, MDB_val *value)
{
    int rc;
    if (!w->backwards) {
        *key = w->position_size ? store_val(w->position, w->position_size) : store_val(w->prefix, w->prefix_size);
        rc = key->mv_size ? mdb_cursor_get(c, key, value, MDB_SET_RANGE) : mdb_cursor_get(c, key, value, MDB_FIRST);
        if (rc == 0 && w->position_size && key->mv_size == w->position_size && memcmp(key->mv_data, w->position, key->mv_size) == 0)
            rc = mdb_cursor_get(c, key, value, MDB_NEXT);
        return rc == 0 && !within(w, key) ? MDB_NOTFOUND : rc;
    }
    /* The first key at or past the position (or past the whole range), then one back. */
    unsigned char past[STORE_OWNER_KEY_SIZE];
    size_t size = w->position_size;
    if (size) {
        memcpy(past, w->position, size);
    } else if ((size = w->prefix_size)) {
        memcpy(past, w->prefix, size);
        past[size - 1]++;   /* a prefix ends in the byte 0 */
    }
    *key = store_val(past, size);
    rc = size ? mdb_cursor_get(c, key, value, MDB_SET_RANGE) : MDB_NOTFOUND;
    rc = mdb_cursor_get(c, key, value, rc == 0 ? MDB_PREV : MDB_LAST);
    return rc == 0 && !within(w, key) ? MDB_NOTFOUND : rc;
}

static int walk_next(const struct walk *w, MDB_cursor *c, MDB_val *key, MDB_val *value)
{
    int rc = mdb_cursor_get(c, key, value, w->backwards ? MDB_PREV : MDB_NEXT);
    return rc == 0 && !within(w, key) ? MDB_NOTFOUND : rc;
}

static bool bad_cursor(struct err *err)
{
    return err_set(err, ERR_INVALID, "the cursor is not one that a page before gave");
}

static bool walk_init(struct walk *w, const struct store_page *page, struct err *err)
{
    memset(w, 0, sizeof *w);
    w->backwards = page->backwards;
    if (page->owner) {
        if (!*page->owner || strlen(page->owner) + 10 > STORE_KEY_BYTES)
            return err_set(err, ERR_NOT_FOUND, "there is no such owner of a %s", store_kind_name(page->kind));
        w->prefix_size = store_owner_prefix(w->prefix, page->kind, page->owner, strlen(page->owner));
    }
    if (!page->after)
        return true;
    if (page->owner) {
        if (strlen(page->after) != 16 || strspn(page->after, "0123456789abcdef") != 16)
            return bad_cursor(err);
        w->position_size = store_owner_key(w->position, page->kind, page->owner, strlen(page->owner),
                                           strtoull(page->after, NULL, 16));
        return true;
    }
    if (!key_possible(page->after))
        return bad_cursor(err);
    w->position_size = strlen(page->after);
    memcpy(w->position, page->after, w->position_size);
    return true;
}

static char *cursor_text(const struct store_page *page, const MDB_val *key)
{
    if (!page->owner)
        return xstrndup(key->mv_data, key->mv_size);
    return xfmt("%016llx", (unsigned long long)store_u64_get((const unsigned char *)key->mv_data + key->mv_size - 8));
}

/* One record of the walk to the caller: an owner's entry holds the id. */
static bool give(struct store *s, MDB_txn *txn, const struct store_page *page, const MDB_val *key, const MDB_val *value,
                 store_each *each, void *ctx, bool *ret_more, struct err *err)
{
    const MDB_val *id = page->owner ? value : key;
    char text[STORE_KEY_BYTES + 1];
    if (id->mv_size > STORE_KEY_BYTES)
        return err_set(err, ERR_INTERNAL, "store %s: a list of %s records is damaged", s->dir, store_kind_name(page->kind));
    memcpy(text, id->mv_data, id->mv_size);
    text[id->mv_size] = 0;
    cleanup(json) json_t *doc = NULL;
    if (!(page->owner ? get_in(s, txn, page->kind, text, &doc, err) : parse_record(s, page->kind, *value, &doc, err)))
        return false;
    *ret_more = each(ctx, text, doc);
    return true;
}

bool store_list(struct store *s, const struct store_page *page, store_each *each, void *ctx, char **ret_next, int64_t *ret_as_of,
                struct err *err)
{
    struct walk w;
    cleanup(txn) MDB_txn *txn = NULL;
    cleanup(cursor) MDB_cursor *c = NULL;
    int64_t as_of = 0;
    int limit = page->limit < 1 ? 1 : page->limit > STORE_PAGE_MAX ? STORE_PAGE_MAX : page->limit;
    if (!walk_init(&w, page, err) || !begin(s, &txn, err) || !snapshot_event(s, txn, &as_of, err))
        return false;
    int rc = mdb_cursor_open(txn, page->owner ? s->tables[TABLE_OWNER] : s->kinds[page->kind], &c);
    if (rc != 0)
        return err_from_mdb(err, s, rc, "cannot read");
    MDB_val key, value;
    cleanup(str) char *next = NULL;
    bool more = true;
    rc = walk_first(&w, c, &key, &value);
    for (int n = 0; rc == 0 && more && n < limit; n++) {
        free(next);
        next = cursor_text(page, &key);
        if (!give(s, txn, page, &key, &value, each, ctx, &more, err))
            return false;
        rc = walk_next(&w, c, &key, &value);
    }
    if (rc != 0 && rc != MDB_NOTFOUND)
        return err_from_mdb(err, s, rc, "cannot read");
    if (ret_next)
        *ret_next = rc == 0 ? steal(&next) : NULL;
    if (ret_as_of)
        *ret_as_of = as_of;
    return true;
}

/* Events of all jobs: the table itself in order. */
static int events_of_all(struct store *s, MDB_txn *txn, uint64_t after, int limit, struct buf *to, uint64_t *last, int *count)
{
    cleanup(cursor) MDB_cursor *c = NULL;
    unsigned char bytes[8];
    store_u64_put(bytes, after + 1);
    MDB_val key = store_val(bytes, sizeof bytes), value;
    int rc = mdb_cursor_open(txn, s->tables[TABLE_EVENT], &c);
    if (rc == 0)
        rc = mdb_cursor_get(c, &key, &value, MDB_SET_RANGE);
    for (; rc == 0 && *count < limit; rc = mdb_cursor_get(c, &key, &value, MDB_NEXT)) {
        buf_add(to, value.mv_data, value.mv_size);
        *last = store_u64_get(key.mv_data);
        ++*count;
    }
    return rc;
}

static int events_of_job(struct store *s, MDB_txn *txn, const char *job, uint64_t after, int limit, struct buf *to, uint64_t *last,
                         int *count)
{
    cleanup(cursor) MDB_cursor *c = NULL;
    unsigned char bytes[8];
    store_u64_put(bytes, after + 1);
    MDB_val key = store_val(job, strlen(job)), id = store_val(bytes, sizeof bytes), value;
    int rc = mdb_cursor_open(txn, s->tables[TABLE_JOB_EVENT], &c);
    if (rc == 0)
        rc = mdb_cursor_get(c, &key, &id, MDB_GET_BOTH_RANGE);
    for (; rc == 0 && *count < limit; rc = mdb_cursor_get(c, &key, &id, MDB_NEXT_DUP)) {
        rc = mdb_get(txn, s->tables[TABLE_EVENT], &id, &value);
        if (rc != 0)
            return MDB_CORRUPTED;
        buf_add(to, value.mv_data, value.mv_size);
        *last = store_u64_get(id.mv_data);
        ++*count;
    }
    return rc;
}

bool store_events(struct store *s, const char *job, int64_t after, int limit, struct buf *to, int64_t *ret_last, int *ret_count,
                  struct err *err)
{
    cleanup(txn) MDB_txn *txn = NULL;
    uint64_t last = after > 0 ? (uint64_t)after : 0;
    int count = 0, rc = MDB_NOTFOUND;
    if (!begin(s, &txn, err))
        return false;
    if (after < INT64_MAX && (!job || key_possible(job)))
        rc = job ? events_of_job(s, txn, job, last, limit, to, &last, &count)
                 : events_of_all(s, txn, last, limit, to, &last, &count);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return err_from_mdb(err, s, rc, "cannot read events");
    if (ret_last)
        *ret_last = (int64_t)last;
    if (ret_count)
        *ret_count = count;
    return true;
}

int64_t store_last_event(struct store *s)
{
    return s->last_event;
}

bool store_stats(struct store *s, json_t **ret, struct err *err)
{
    cleanup(txn) MDB_txn *txn = NULL;
    MDB_stat st;
    MDB_envinfo info;
    if (!begin(s, &txn, err))
        return false;
    cleanup(json) json_t *doc = json_object();
    json_t *kinds = json_object();
    json_put(doc, "kinds", kinds);
    for (int i = 0; i < STORE_KIND_COUNT + TABLE_COUNT; i++) {
        static const char *const names[] = {
#define X(code, name, ...) name,
            STORE_KINDS(X) STORE_TABLES(X)
#undef X
        };
        if (mdb_stat(txn, i < STORE_KIND_COUNT ? s->kinds[i] : s->tables[i - STORE_KIND_COUNT], &st) != 0)
            continue;
        json_t *one = json_object();
        json_put_int(one, "count", (int64_t)st.ms_entries);
        json_put_int(one, "bytes", (int64_t)((st.ms_branch_pages + st.ms_leaf_pages + st.ms_overflow_pages) * st.ms_psize));
        json_put(kinds, names[i], one);
    }
    if (mdb_env_info(s->env, &info) == 0 && mdb_env_stat(s->env, &st) == 0) {
        json_put_int(doc, "used_bytes", (int64_t)((info.me_last_pgno + 1) * st.ms_psize));
        json_put_int(doc, "map_bytes", (int64_t)info.me_mapsize);
    }
    json_put_int(doc, "last_event", s->last_event);
    pthread_mutex_lock(&s->lock);
    json_put_int(doc, "commits", s->commits);
    json_put_int(doc, "batches", s->batches);
    pthread_mutex_unlock(&s->lock);
    *ret = steal(&doc);
    return true;
}

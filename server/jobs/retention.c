/*
 * What is kept of jobs that ended. A job goes, with its candidates, attempts and events, once it ended longer ago than it is to be kept
 * or enough others ended after it. What stays, whatever its age: candidates on a shelf (verified, withdrawn or held), for a manifest names
 * them, with the record of their job (its events go); what an open job judges again or plays again.
 *
 * Blobs are shared by what has the same bytes. So a removed record's digests are first written down (STORE_META "sweep"), in the same
 * transaction; later all records are read once, and of these blobs those go that none of them names. A record that comes meanwhile brings
 * its blobs along, and the store leaves these alone (store_watch_blobs).
 */
#include "server/jobs/internal.h"

#define OWNER_KEPT "kept"                /* of jobs that stay for a candidate's sake; not looked at again */
#define SWEEP "sweep"
#define PAGE 16                          /* records a transaction: of up to 1 MiB each */
#define READ_PAGE 100
#define SWEEP_MOST 20000                 /* digests that wait for one reading of all */
#define JOBS_A_LOOK 64
#define DIGEST_SIZE (HASH_HEX_SIZE - 1)

static bool collect(void *ctx, const char *id, const json_t *doc)
{
    (void)id;
    json_array_append(ctx, (json_t *)(uintptr_t)doc);
    return true;
}

/* ---- bytes that callers posted ---- */

void posted_key(const json_t *job, char *to, size_t size)
{
    snprintf(to, size, "posted/%.400s", json_str(job, "caller", "-"));
}

bool posted_add(struct jobs *j, struct store_batch *b, const json_t *job, int64_t more, int64_t *ret_all, struct err *err)
{
    char key[420];
    cleanup(json) json_t *was = NULL;
    struct err why = {0};
    posted_key(job, key, sizeof key);
    if (!store_get(j->store, STORE_META, key, &was, &why) && why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    cleanup(json) json_t *now = json_object();
    int64_t all = json_int(was, "bytes", 0) + more;
    *ret_all = all = all > 0 ? all : 0;
    json_put_int(now, "bytes", all);
    store_expect(b, STORE_META, key, was);
    if (all)
        store_put(b, STORE_META, key, NULL, now);
    else if (was)
        store_delete(b, STORE_META, key);
    return true;
}

/* ---- which job goes ---- */

/* {"jobs":{id:true},"candidates":{id:true}} that open jobs still need. */
static bool pin(void *ctx, const char *id, const json_t *job)
{
    json_t *pins = ctx;
    (void)id;
    const char *again = json_str(json_object_get(job, "revalidates"), "candidate", NULL), *replays = json_str(job, "replays", NULL);
    if (again)
        json_put_bool(json_object_get(pins, "candidates"), again, true);
    if (replays)
        json_put_bool(json_object_get(pins, "jobs"), replays, true);
    return true;
}

struct ended { const json_t *pins; int64_t count, over; char before[40]; json_t *jobs; bool enough; };

static bool count_one(void *ctx, const char *id, const json_t *job)
{
    struct ended *e = ctx;
    (void)id, (void)job;
    e->count++;
    return true;
}

/* The oldest that may go; they are listed as they ended. */
static bool find_one(void *ctx, const char *id, const json_t *job)
{
    struct ended *e = ctx;
    const bool old = *e->before && strcmp(json_str(job, "finished", "9"), e->before) < 0;
    if (!old && e->over <= 0)
        e->enough = true;
    else if (!json_object_get(json_object_get(e->pins, "jobs"), id))
        json_array_append(e->jobs, (json_t *)(uintptr_t)job);
    e->over--;
    e->enough = e->enough || json_array_size(e->jobs) >= JOBS_A_LOOK;
    return !e->enough;
}

static bool pages(struct jobs *j, enum store_kind kind, const char *owner, store_each *each, void *ctx, const bool *enough, struct err *err)
{
    cleanup(str) char *after = NULL;
    do {
        struct store_page page = {kind, owner, after, READ_PAGE, false};
        char *next = NULL;
        if (!store_list(j->store, &page, each, ctx, &next, NULL, err))
            return false;
        free(after);
        after = next;
    } while (after && !j->stopping && !(enough && *enough));
    return true;
}

/* The oldest that are to go, added to `jobs`. */
static bool jobs_to_go(struct jobs *j, json_t *pins, json_t *jobs, struct err *err)
{
    struct ended e = {.pins = pins, .jobs = jobs};
    if (!j->config.retain_ns && !j->config.retain_jobs)
        return true;
    if (!pages(j, STORE_JOB, JOBS_OWNER_OPEN, pin, pins, NULL, err) || (j->config.retain_jobs && !pages(j, STORE_JOB, JOBS_OWNER_ENDED, count_one, &e, NULL, err)))
        return false;
    e.over = j->config.retain_jobs ? e.count - j->config.retain_jobs : 0;
    if (j->config.retain_ns)
        snprintf(e.before, sizeof e.before, "%s", clock_text(clock_wall_ns() - j->config.retain_ns).text);
    return pages(j, STORE_JOB, JOBS_OWNER_ENDED, find_one, &e, &e.enough, err);
}

/* ---- what goes of it ---- */

/* Every text in it that has a digest's form. */
static void digests_of(const json_t *doc, json_t *to)
{
    const char *key, *text = json_string_value(doc);
    json_t *one;
    size_t i;
    if (text && strlen(text) == DIGEST_SIZE && hash_hex_valid(text))
        json_put_bool(to, text, true);
    json_object_foreach((json_t *)(uintptr_t)doc, key, one)
        digests_of(one, to);
    json_array_foreach(doc, i, one)
        digests_of(one, to);
}

/* To be swept later, with what is written down already. */
static bool sweep_later(struct jobs *j, struct store_batch *b, json_t *digests, struct err *err)
{
    cleanup(json) json_t *was = NULL;
    struct err why = {0};
    if (!store_get(j->store, STORE_META, SWEEP, &was, &why) && why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    store_expect(b, STORE_META, SWEEP, was);
    if (was)
        json_object_update(digests, was);
    if (json_object_size(digests))
        store_put(b, STORE_META, SWEEP, NULL, digests);
    return true;
}

/* Whether a candidate stays: on its shape's shelf, or under an open job's eyes. The batch expects that shelf to be as it was. */
static bool stays(struct jobs *j, struct store_batch *b, const json_t *record, const json_t *pins, json_t *seen, bool *ret, struct err *err)
{
    const char *hash = json_str(record, "shape_hash", ""), *id = json_str(record, "id", "");
    cleanup(shelf) struct shelf shelf = {.changed = false};
    size_t i;
    json_t *one;
    if (!shelf_open(j->store, hash, &shelf, err))
        return false;
    if (!json_object_get(seen, hash)) {
        store_expect(b, STORE_SHELF, hash, shelf.was);
        store_expect(b, STORE_KERNEL, hash, shelf.kernel_was);
        json_put_bool(seen, hash, true);
    }
    *ret = shelf_entry(&shelf, id) || json_object_get(json_object_get(pins, "candidates"), id) || !strcmp(json_str(shelf.kernel_was, "candidate", ""), id);
    json_array_foreach(json_object_get(shelf.doc, "held"), i, one)
        *ret = *ret || !strcmp(json_str(one, "candidate", ""), id);
    json_array_foreach(json_object_get(shelf.kernel_was, "history"), i, one)
        *ret = *ret || !strcmp(json_str(one, "candidate", ""), id);
    return true;
}

/* The job's own end: nothing of it is left, or only what must stay. */
static bool remove_job(struct jobs *j, struct store_batch *b, const json_t *job, int64_t kept, struct err *err)
{
    const char *id = json_str(job, "id", "");
    int64_t all;
    store_expect(b, STORE_JOB, id, job);
    store_delete(b, STORE_JOB, id);                  /* takes the events along */
    if (kept) {
        cleanup(json) json_t *now = json_copy((json_t *)(uintptr_t)job);
        json_put_bool(now, "retained", true);
        store_put(b, STORE_JOB, id, OWNER_KEPT, now);
    }
    return !json_int(job, "posted_bytes", 0) || posted_add(j, b, job, -json_int(job, "posted_bytes", 0), &all, err);
}

static bool remove_page(struct jobs *j, enum store_kind kind, const json_t *job, const json_t *pins, char **cursor, int64_t *kept, bool *ret_end, struct err *err)
{
    struct store_page page = {kind, json_str(job, "id", ""), *cursor, PAGE, false};
    cleanup(json) json_t *records = json_array(), *digests = json_object(), *seen = json_object();
    char *next = NULL;
    size_t i;
    json_t *one;
    if (!store_list(j->store, &page, collect, records, &next, NULL, err))
        return false;
    free(*cursor);
    *cursor = next;
    *ret_end = !next;
    struct store_batch *b = store_batch_new();
    json_array_foreach(records, i, one) {
        bool stay = false;
        if (kind == STORE_CANDIDATE && !stays(j, b, one, pins, seen, &stay, err)) {
            store_batch_free(b);
            return false;
        }
        *kept += stay;
        if (stay)
            continue;
        digests_of(json_object_get(one, kind == STORE_CANDIDATE ? "artifacts" : "transcript"), digests);
        store_delete(b, kind, json_str(one, "id", ""));
    }
    if (!sweep_later(j, b, digests, err)) {
        store_batch_free(b);
        return false;
    }
    return store_commit(j->store, b, NULL, err);
}

/* What is left of it after a crash or a conflict goes next time. */
static bool remove_one(struct jobs *j, const json_t *job, const json_t *pins, struct err *err)
{
    static const enum store_kind kinds[] = {STORE_CANDIDATE, STORE_ATTEMPT};
    int64_t kept = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        cleanup(str) char *cursor = NULL;
        for (bool end = false; !end;)
            if (j->stopping || !remove_page(j, kinds[k], job, pins, &cursor, &kept, &end, err))
                return j->stopping;
    }
    struct store_batch *b = store_batch_new();
    if (!remove_job(j, b, job, kept, err)) {
        store_batch_free(b);
        return false;
    }
    return store_commit(j->store, b, NULL, err);
}

bool retention_piece(struct jobs *j, bool *ret_more, struct err *err)
{
    cleanup(json) json_t *pins = json_pack("{s:{},s:{}}", "jobs", "candidates"), *jobs = json_array(), *waiting = NULL;
    struct err why = {0};
    size_t i;
    json_t *job;
    *ret_more = false;
    if (store_get(j->store, STORE_META, SWEEP, &waiting, &why) && json_object_size(waiting) >= SWEEP_MOST)
        return true;                                 /* those first */
    if (!jobs_to_go(j, pins, jobs, err))
        return false;
    json_array_foreach(jobs, i, job)
        if (!j->stopping && !remove_one(j, job, pins, err))
            return false;
    *ret_more = json_array_size(jobs) > 0;
    return true;
}

/* ---- blobs ---- */

/* What it names is needed. */
static bool spare(void *ctx, const char *id, const json_t *doc)
{
    cleanup(json) json_t *named = json_object();
    const char *key;
    json_t *one;
    if (!strcmp(id, SWEEP))
        return true;
    digests_of(doc, named);
    json_object_foreach(named, key, one)
        json_object_del(ctx, key);
    return true;
}

static bool sweep_watched(struct jobs *j, const json_t *was, struct err *err)
{
    cleanup(json) json_t *left = json_copy((json_t *)(uintptr_t)was), *mark = json_copy((json_t *)(uintptr_t)was);
    const char *digest;
    json_t *one;
    /* Written through the writer: what it wrote before it began to watch can be read after this. */
    struct store_batch *b = store_batch_new();
    store_expect(b, STORE_META, SWEEP, was);
    store_put(b, STORE_META, SWEEP, NULL, mark);
    if (!store_commit(j->store, b, NULL, err))
        return false;
    for (int kind = 0; kind < STORE_KIND_COUNT; kind++)
        if (!pages(j, (enum store_kind)kind, NULL, spare, left, NULL, err) || j->stopping)
            return j->stopping;
    b = store_batch_new();
    json_object_foreach(left, digest, one)
        store_delete_blob(b, digest);
    store_expect(b, STORE_META, SWEEP, was);
    store_delete(b, STORE_META, SWEEP);
    return store_commit(j->store, b, NULL, err);
}

bool retention_sweep(struct jobs *j, struct err *err)
{
    cleanup(json) json_t *was = NULL;
    struct err why = {0};
    if (!store_get(j->store, STORE_META, SWEEP, &was, &why))
        return why.code == ERR_NOT_FOUND || err_set(err, why.code, "%s", why.text);
    store_watch_blobs(j->store, true);
    bool ok = sweep_watched(j, was, err);
    store_watch_blobs(j->store, false);
    return ok;
}

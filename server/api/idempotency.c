/*
 * Idempotency-Key: the same key from the same caller never does its work twice. A record with a fingerprint of the request is
 * written in the transaction of the work itself (a job), so that no crash comes between; the answer's body is added within a
 * second, with those of others, in one more commit. Until then it is looked up here, or, after a crash, shown as it is now.
 *
 * The same request again gets the kept answer; another request with the key is refused; a second one while the first is at work
 * is told to wait. A thread adds bodies and removes what has expired.
 */
#include "server/api/api.h"

#include "core/clock.h"
#include "core/log.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define MAX_KEY_BYTES 255
#define MAX_AT_WORK 1024
#define MAX_LATER 1024
#define LATER_NS ((int64_t)1000000000)
#define SWEEP_NS ((int64_t)600 * 1000000000)
#define SWEEP_PAGE 1000

struct idempotency {
    struct store *store;
    int64_t keep_ns;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    pthread_t thread;
    bool stop;
    int at_work_count, later_count;
    struct hash_hex at_work[MAX_AT_WORK];
    struct { struct hash_hex id; json_t *record; } later[MAX_LATER];
};

/* ---- the thread ---- */
static void keep_bodies(struct idempotency *i)
{
    struct store_batch *b = store_batch_new();
    struct err err;
    pthread_mutex_lock(&i->lock);
    int count = i->later_count;
    for (int n = 0; n < count; n++)
        store_put(b, STORE_IDEMPOTENCY, i->later[n].id.text, NULL, i->later[n].record);
    pthread_mutex_unlock(&i->lock);
    if (!count) {
        store_batch_free(b);
        return;
    }
    /* without the body a repetition shows the job as it is then: no reason to fail anything */
    if (!store_commit(i->store, b, NULL, &err))
        log_line(LOG_WARN, "answers for idempotency keys could not be kept", "error", err.text, NULL);
    pthread_mutex_lock(&i->lock);
    for (int n = 0; n < count; n++)
        json_decref(i->later[n].record);
    i->later_count -= count;
    memmove(i->later, i->later + count, (size_t)i->later_count * sizeof i->later[0]);
    pthread_mutex_unlock(&i->lock);
}

static bool expired(const struct idempotency *i, const json_t *record)
{
    int64_t age = clock_wall_ns() - json_int(record, "created_ns", 0);
    return age < 0 || age > i->keep_ns;
}

struct sweep { struct idempotency *i; struct store_batch *batch; int count; };

static bool sweep_one(void *ctx, const char *id, const json_t *record)
{
    struct sweep *s = ctx;
    if (expired(s->i, record)) {
        store_delete(s->batch, STORE_IDEMPOTENCY, id);
        s->count++;
    }
    return true;
}

static void sweep(struct idempotency *i)
{
    cleanup(str) char *after = NULL;
    bool ok = true;
    do {
        struct sweep s = {i, store_batch_new(), 0};
        struct store_page page = {.kind = STORE_IDEMPOTENCY, .after = after, .limit = SWEEP_PAGE};
        cleanup(str) char *next = NULL;
        struct err err;
        ok = store_list(i->store, &page, sweep_one, &s, &next, NULL, &err);
        if (ok && s.count)
            ok = store_commit(i->store, s.batch, NULL, &err);
        else
            store_batch_free(s.batch);
        free(after);
        after = steal(&next);
    } while (ok && after);
}

static void *idempotency_main(void *arg)
{
    struct idempotency *i = arg;
    int64_t sweep_at = clock_mono_ns();
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LATER_NS / 1000000000;
        pthread_mutex_lock(&i->lock);
        if (!i->stop)
            pthread_cond_timedwait(&i->stopped, &i->lock, &until);
        bool stop = i->stop;
        pthread_mutex_unlock(&i->lock);
        keep_bodies(i);
        if (stop)
            return NULL;
        if (clock_mono_ns() >= sweep_at) {
            sweep(i);
            sweep_at = clock_mono_ns() + SWEEP_NS;
        }
    }
}

struct idempotency *idempotency_new(struct store *store, int64_t keep_ns)
{
    struct idempotency *i = xalloc(sizeof *i);
    i->store = store;
    i->keep_ns = keep_ns;
    pthread_mutex_init(&i->lock, NULL);
    pthread_cond_init(&i->stopped, NULL);
    BUG_ON(pthread_create(&i->thread, NULL, idempotency_main, i) != 0);
    return i;
}

void idempotency_free(struct idempotency *i)
{
    if (!i)
        return;
    pthread_mutex_lock(&i->lock);
    i->stop = true;
    pthread_cond_broadcast(&i->stopped);
    pthread_mutex_unlock(&i->lock);
    pthread_join(i->thread, NULL);
    pthread_cond_destroy(&i->stopped);
    pthread_mutex_destroy(&i->lock);
    free(i);
}

/* ---- claims ---- */
/* The key without the quotes of a structured field. False: not a key. */
static bool key_read(const char *header, char *ret, size_t size)
{
    size_t bytes = strlen(header);
    if (bytes >= 2 && header[0] == '"' && header[bytes - 1] == '"')
        header++, bytes -= 2;
    if (!bytes || bytes > MAX_KEY_BYTES || bytes >= size)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (header[i] < ' ' || header[i] > '~' || header[i] == '"' || header[i] == '\\')
            return false;
    memcpy(ret, header, bytes);
    ret[bytes] = 0;
    return true;
}

static int find(const struct idempotency *i, const char *id)
{
    for (int n = 0; n < i->at_work_count; n++)
        if (!strcmp(i->at_work[n].text, id))
            return n;
    return -1;
}

static bool enter(struct idempotency *i, const char *id, struct err *err)
{
    pthread_mutex_lock(&i->lock);
    bool known = find(i, id) >= 0, full = i->at_work_count == MAX_AT_WORK;
    if (!known && !full)
        snprintf(i->at_work[i->at_work_count++].text, HASH_HEX_SIZE, "%s", id);
    pthread_mutex_unlock(&i->lock);
    if (known)
        return err_set(err, ERR_CONFLICT, "a request with this Idempotency-Key is still being worked on; try again in a moment");
    return !full || err_set(err, ERR_BUSY, "too many requests with an Idempotency-Key at once");
}

/* The record: from memory, where it has its body already, else from the store. */
static bool record_find(struct idempotency *i, const char *id, json_t **ret, struct err *err)
{
    json_t *record = NULL;
    pthread_mutex_lock(&i->lock);
    for (int n = 0; n < i->later_count && !record; n++)
        if (!strcmp(i->later[n].id.text, id))
            record = json_deep_copy(i->later[n].record);
    pthread_mutex_unlock(&i->lock);
    if (!record)
        return store_get(i->store, STORE_IDEMPOTENCY, id, ret, err);
    *ret = record;
    return true;
}

static void replay(const struct request *req, struct response *res, const struct claim *c, const json_t *record)
{
    struct err err;
    const char *job = json_str(record, "job", NULL), *candidate = json_str(record, "candidate", NULL);
    json_t *body = json_incref(json_object_get(record, "body"));
    if (strcmp(json_str(record, "fingerprint", ""), c->fingerprint.text)) {
        json_decref(body);
        err_set(&err, ERR_UNPROCESSABLE, "this Idempotency-Key was used for another request; a key belongs to one request");
        respond_err(req, res, &err);
        return;
    }
    int64_t as_of = 0;
    if (!body && job && store_get_as_of(app_of(req)->store, STORE_JOB, job, &body, &as_of, &err))
        json_put_int(body, "as_of", as_of);
    if (!body) {
        err_set(&err, ERR_CONFLICT, "this Idempotency-Key was used, and what it made is gone");
        respond_err(req, res, &err);
        return;
    }
    respond_json(res, (int)json_int(record, "status", 200), body);
    if (job || candidate)
        respond_header(res, "Location", "/v1/%s/%s", job ? "jobs" : "candidates", job ? job : candidate);
    respond_header(res, "Idempotency-Replayed", "true");
}

static void claim_set(const struct request *req, const char *key, struct claim *ret)
{
    cleanup(buf) struct buf text = {0};
    buf_fmt(&text, "proteus-idempotency-v1\n%s\n%s", req->caller.id, key);
    ret->id = hash_of(text.data, text.size);
    buf_clear(&text);
    buf_fmt(&text, "%s\n%s\n%s\n", http_method_name(req->method), req->route->pattern, req->params[0] ? req->params[0] : "");
    buf_add(&text, req->body, req->body_bytes);
    ret->fingerprint = hash_of(text.data, text.size);
}

/* True if nothing settles the request, and nothing stands in the way of a new record. */
static bool claim_is_free(const struct request *req, struct response *res, const struct claim *c)
{
    struct idempotency *i = app_of(req)->idempotency;
    cleanup(json) json_t *record = NULL;
    struct err err;
    if (!record_find(i, c->id.text, &record, &err)) {
        if (err.code != ERR_NOT_FOUND)
            respond_err(req, res, &err);
        return err.code == ERR_NOT_FOUND;
    }
    if (!expired(i, record)) {
        replay(req, res, c, record);
        return false;
    }
    struct store_batch *b = store_batch_new();
    store_delete(b, STORE_IDEMPOTENCY, c->id.text);
    bool ok = store_commit(i->store, b, NULL, &err);
    if (!ok)
        respond_err(req, res, &err);
    return ok;
}

bool claim_begin(const struct request *req, struct response *res, struct claim *ret)
{
    const char *header = req->header(req, "Idempotency-Key");
    char key[MAX_KEY_BYTES + 1];
    struct err err;
    *ret = (struct claim){0};
    if (!header)
        return true;
    if (!key_read(header, key, sizeof key)) {
        err_set(&err, ERR_INVALID, "an Idempotency-Key is a text of 1 to 255 printable characters without \" and \\, in quotes or not");
        respond_err(req, res, &err);
        return false;
    }
    claim_set(req, key, ret);
    if (!enter(app_of(req)->idempotency, ret->id.text, &err)) {
        respond_err(req, res, &err);
        return false;
    }
    ret->held = true;
    if (claim_is_free(req, res, ret))
        return true;
    claim_end(req, ret);
    return false;
}

json_t *claim_record(const struct claim *c, int status)
{
    json_t *record = json_object();
    json_put_str(record, "fingerprint", c->fingerprint.text);
    json_put_int(record, "status", status);
    json_put_int(record, "created_ns", clock_wall_ns());
    return record;
}

static void complete(json_t *record, const char *kind, const json_t *body)
{
    json_put_str(record, kind, json_str(body, "id", ""));
    json_put(record, "body", json_deep_copy(body));
}

void claim_keep_later(const struct request *req, const struct claim *c, json_t *record, const char *kind, const json_t *body)
{
    struct idempotency *i = app_of(req)->idempotency;
    complete(record, kind, body);
    pthread_mutex_lock(&i->lock);
    if (i->later_count < MAX_LATER) {
        i->later[i->later_count].id = c->id;
        i->later[i->later_count++].record = json_deep_copy(record);
    }
    pthread_mutex_unlock(&i->lock);
}

void claim_end(const struct request *req, struct claim *c)
{
    struct idempotency *i = app_of(req)->idempotency;
    if (!c->held)
        return;
    pthread_mutex_lock(&i->lock);
    int at = find(i, c->id.text);
    BUG_ON(at < 0);
    i->at_work[at] = i->at_work[--i->at_work_count];
    pthread_mutex_unlock(&i->lock);
    c->held = false;
}

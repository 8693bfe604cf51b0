/*
 * What is left to be done after something ended, done in pieces by a thread of its own, so that neither a request nor a runner ever
 * waits for much of it: candidates that waited for an external job are dropped, a few a transaction. What is to be dropped is a
 * record (STORE_META "dropping/JOB", listed under "dropping": {"job","waiting":[ids]}), so a restart goes on where it ended. When there is
 * nothing of that, what has been kept long enough goes (retention.c).
 */
#include "server/jobs/internal.h"

#include <sys/resource.h>
#include <time.h>

#define OWNER "dropping"
#define PIECE 8                          /* candidates a transaction: of at most 256 KiB each */
#define NICE 10
#define PAUSE_AFTER_ERROR_NS ((int64_t)5 * 1000000000)
#define PAUSE_NS ((int64_t)60 * 1000000000)

static void key_of(const char *job, char *to, size_t size)
{
    snprintf(to, size, "dropping/%s", job);
}

void drop_later(struct store_batch *b, const char *job, const json_t *waiting)
{
    char key[64];
    key_of(job, key, sizeof key);
    if (!json_array_size(waiting))
        return;
    cleanup(json) json_t *doc = json_pack("{s:s,s:O}", "job", job, "waiting", waiting);
    store_put(b, STORE_META, key, OWNER, doc);
}

bool drop_candidate(struct jobs *j, struct store_batch *b, const char *job, const char *id, struct err *err)
{
    cleanup(json) json_t *record = NULL;
    if (!store_get(j->store, STORE_CANDIDATE, id, &record, err))
        return false;
    if (strcmp(json_str(record, "state", ""), "judged") == 0)
        return true;
    json_put_str(record, "state", "dropped");
    store_put(b, STORE_CANDIDATE, id, job, record);
    return true;
}

static bool take_first(void *ctx, const char *id, const json_t *doc)
{
    (void)id;
    *(json_t **)ctx = json_incref((json_t *)(uintptr_t)doc);
    return false;
}

/* *ret_more false: there was nothing to drop. */
static bool drop_piece(struct jobs *j, bool *ret_more, struct err *err)
{
    cleanup(json) json_t *was = NULL, *now = NULL;
    struct store_page page = {STORE_META, OWNER, NULL, 1, false};
    char key[64];
    *ret_more = false;
    if (!store_list(j->store, &page, take_first, &was, NULL, NULL, err))
        return false;
    if (!was)
        return true;
    const char *job = json_str(was, "job", "");
    struct store_batch *b = store_batch_new();
    now = json_deep_copy(was);
    json_t *left = json_object_get(now, "waiting");
    for (int i = 0; i < PIECE && json_array_size(left); i++) {
        struct err why = {0};
        if (!drop_candidate(j, b, job, json_string_value(json_array_get(left, 0)), &why) && why.code != ERR_NOT_FOUND) {
            store_batch_free(b);
            return err_set(err, why.code, "%s", why.text);
        }
        json_array_remove(left, 0);
    }
    key_of(job, key, sizeof key);
    store_expect(b, STORE_META, key, was);
    if (json_array_size(left))
        store_put(b, STORE_META, key, OWNER, now);
    else
        store_delete(b, STORE_META, key);
    *ret_more = true;
    return store_commit(j->store, b, NULL, err);
}

/* Waits until there is something to do, or until `until_ns`. False: the jobs stop. */
static bool wait_untidy(struct jobs *j, int64_t until_ns)
{
    struct timespec at = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_mutex_lock(&j->lock);
    while (!j->stopping && !j->untidy && clock_mono_ns() < until_ns)
        pthread_cond_timedwait(&j->work, &j->lock, &at);
    j->untidy = false;
    bool go = !j->stopping;
    pthread_mutex_unlock(&j->lock);
    return go;
}

static void *tidier_main(void *arg)
{
    struct jobs *j = arg;
    int64_t until_ns = 0, look_ns = 0;
    setpriority(PRIO_PROCESS, 0, NICE);  /* on Linux of this thread alone */
    while (wait_untidy(j, until_ns)) {
        struct err err = {0};
        bool more = false, ok = drop_piece(j, &more, &err);
        const int64_t now_ns = clock_mono_ns();
        if (ok && !more && now_ns >= look_ns) {
            ok = retention_piece(j, &more, &err) && (more || retention_sweep(j, &err));
            look_ns = ok && !more ? now_ns + j->config.retain_pass_ns : 0;
        }
        if (!ok && err.code == ERR_CONFLICT)     /* someone needs it now: looked at again with the rest */
            ok = more = true;
        if (!ok)
            log_line(LOG_WARN, "what ended cannot be tidied up now", "error", err.text, NULL);
        const int64_t pause_ns = j->config.retain_pass_ns < PAUSE_NS ? j->config.retain_pass_ns : PAUSE_NS;
        until_ns = !ok ? clock_mono_ns() + PAUSE_AFTER_ERROR_NS : more ? 0 : clock_mono_ns() + (pause_ns > 0 ? pause_ns : PAUSE_NS);
    }
    return NULL;
}

void tidy_wake(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    j->untidy = true;
    pthread_cond_broadcast(&j->work);
    pthread_mutex_unlock(&j->lock);
}

bool tidier_start(struct jobs *j)
{
    j->tidying = pthread_create(&j->tidier, NULL, tidier_main, j) == 0;
    return j->tidying;
}

void tidier_stop(struct jobs *j)
{
    if (j->tidying)
        pthread_join(j->tidier, NULL);
}

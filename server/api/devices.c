/*
 * Devices, as the judge tells them: asked for by a thread of its own, again and again, since the answer may take a scheduler's
 * time; handlers show the last answer.
 */
#include "server/api/api.h"

#include "core/clock.h"
#include "core/log.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define FIRST_WAIT_NS ((int64_t)10000000000)

struct devices {
    struct spawn_config spawn;
    int64_t refresh_ns;
    devices_told *told;
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_t thread;
    json_t *doc;                  /* the last answer; NULL: none */
    char why[504];                /* why there is none */
    bool asked, stop, done;
};

static void wait_for(struct devices *d, int64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t at = until.tv_nsec + ns;
    until.tv_sec += at / 1000000000;
    until.tv_nsec = at % 1000000000;
    pthread_cond_timedwait(&d->news, &d->lock, &until);
}

static void ask(struct devices *d)
{
    cleanup(json) json_t *now = NULL, *before = NULL;
    struct err err = {0};
    bool ok = spawn_devices(&d->spawn, &now, &err);
    pthread_mutex_lock(&d->lock);
    bool new_failure = !ok && strcmp(d->why, err.text);
    before = d->doc;
    d->doc = json_incref(now);
    snprintf(d->why, sizeof d->why, "%s", ok ? "" : err.text);
    d->asked = true;
    pthread_cond_broadcast(&d->news);
    bool stop = d->stop;
    pthread_mutex_unlock(&d->lock);
    if (stop)
        return;
    if (new_failure)
        log_line(LOG_WARN, "the judge does not tell its devices", "error", err.text, NULL);
    d->told(d->ctx, before, now);
}

static void *devices_main(void *arg)
{
    struct devices *d = arg;
    pthread_mutex_lock(&d->lock);
    while (!d->stop) {
        pthread_mutex_unlock(&d->lock);
        ask(d);
        pthread_mutex_lock(&d->lock);
        int64_t until = clock_mono_ns() + d->refresh_ns;
        while (!d->stop && clock_mono_ns() < until)
            wait_for(d, until - clock_mono_ns());
    }
    d->done = true;
    pthread_cond_broadcast(&d->news);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

struct devices *devices_new(const struct spawn_config *spawn, int64_t refresh_ns, devices_told *told, void *ctx)
{
    struct devices *d = xalloc(sizeof *d);
    d->spawn = *spawn;
    d->refresh_ns = refresh_ns;
    d->told = told;
    d->ctx = ctx;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->news, NULL);
    BUG_ON(pthread_create(&d->thread, NULL, devices_main, d) != 0);
    return d;
}

void devices_free(struct devices *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_broadcast(&d->news);
    int64_t until = clock_mono_ns() + 1000000000;
    while (!d->done && clock_mono_ns() < until)
        wait_for(d, until - clock_mono_ns());
    bool done = d->done;
    pthread_mutex_unlock(&d->lock);
    if (!done) {
        pthread_detach(d->thread);
        return;
    }
    pthread_join(d->thread, NULL);
    json_decref(d->doc);
    pthread_cond_destroy(&d->news);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

json_t *devices_get(struct devices *d, char *why, size_t why_size)
{
    pthread_mutex_lock(&d->lock);
    json_t *doc = d->doc ? json_deep_copy(d->doc) : NULL;
    snprintf(why, why_size, "%s", d->asked ? d->why : "");
    pthread_mutex_unlock(&d->lock);
    return doc;
}

void devices_await(struct devices *d, int64_t limit_ns)
{
    int64_t until = clock_mono_ns() + limit_ns;
    pthread_mutex_lock(&d->lock);
    while (!d->asked && clock_mono_ns() < until)
        wait_for(d, until - clock_mono_ns());
    pthread_mutex_unlock(&d->lock);
}

/* Each device by itself says how it is and how candidates are shut in. */
static void tell_each(json_t *doc)
{
    const char *level = json_str(json_object_get(doc, "sandbox"), "level", NULL);
    json_t *devices = json_object_get(doc, "devices"), *device;
    size_t i;
    json_array_foreach(devices, i, device) {
        if (!json_object_get(device, "health"))
            json_put_str(device, "health", json_bool(device, "healthy", true) ? "ok" : "not fit");
        if (level && !json_object_get(device, "sandbox"))
            json_put_str(device, "sandbox", level);
    }
}

void devices_list(const struct request *req, struct response *res)
{
    char why[504];
    json_t *doc = devices_get(app_of(req)->devices, why, sizeof why);
    struct err err;
    int64_t until = req->started_ns + FIRST_WAIT_NS;
    if (doc) {
        tell_each(doc);
        respond_json(res, 200, doc);
    } else if (!why[0] && clock_mono_ns() < until) {
        respond_wait(res, until);
    } else {
        err_set(&err, ERR_UNAVAILABLE, "%s", why[0] ? why : "the judge has not answered yet; a scheduler may be keeping it waiting");
        respond_err(req, res, &err);
    }
}

/*
 * Event streams: the store's events from a cursor on. Nothing is queued for a client; who comes back with the last id it saw
 * reads on from there. A job's stream ends after the last event of a job that has ended.
 */
#include "server/api/api.h"

#include "core/log.h"

#include <string.h>

#define EVENTS_PER_READ 32

struct reader {
    struct app *app;
    char job[44];                  /* "": all */
    int64_t after;
    bool ended;                    /* the job had ended when the events were last looked at */
    bool look_again;               /* something happened that may have ended the job */
};

static bool job_has_ended(struct app *app, const char *job, struct err *err, bool *ret)
{
    static const char *const final[] = {"done", "failed", "cancelled"};
    cleanup(json) json_t *doc = NULL;
    if (!store_get(app->store, STORE_JOB, job, &doc, err))
        return false;
    *ret = false;
    for (size_t i = 0; i < sizeof final / sizeof *final; i++)
        *ret |= !strcmp(json_str(doc, "state", ""), final[i]);
    return true;
}

/*
 * The job's state is read before its events: if it had ended, then all its events were there to be read. It is read only after
 * an event that may have changed it.
 */
static enum stream_state reader_read(void *ctx, struct buf *to)
{
    struct reader *r = ctx;
    struct err err;
    if (r->look_again) {
        r->look_again = false;
        if (!job_has_ended(r->app, r->job, &err, &r->ended))
            return STREAM_END;
    }
    size_t from = to->size;
    int count = 0;
    if (!store_events(r->app->store, r->job[0] ? r->job : NULL, r->after, EVENTS_PER_READ, to, &r->after, &count, &err)) {
        log_line(LOG_ERROR, "an event stream cannot read the store", "error", err.text, NULL);
        return STREAM_END;
    }
    if (count && r->job[0] && !r->ended)
        r->look_again = strstr(to->data + from, "event: job.") != NULL;
    if (count)
        return STREAM_MORE;
    return r->ended ? STREAM_END : STREAM_IDLE;
}

/* Where to start: Last-Event-ID, else ?after=, else the fallback. False: the response is set. */
static bool start_read(const struct request *req, struct response *res, int64_t fallback, int64_t *ret, bool *ret_given)
{
    const char *header = req->header(req, "Last-Event-ID"), *query = req->query(req, "after");
    const char *text = header && *header ? header : query;
    int64_t last = store_last_event(app_of(req)->store);
    *ret_given = text != NULL;
    *ret = fallback;
    if (!text)
        return true;
    size_t digits = strlen(text);
    if (!digits || digits > 18 || strspn(text, "0123456789") != digits) {
        struct err err;
        err_set(&err, ERR_INVALID, "%s must be the id of an event, a decimal integer", text == query ? "after" : "Last-Event-ID");
        respond_err(req, res, &err);
        return false;
    }
    *ret = strtoll(text, NULL, 10);
    if (*ret > last) {
        struct err err;
        err_set(&err, ERR_INVALID, "event %s has not happened yet; the last one is %lld. Is the id from another service?", text,
                (long long)last);
        respond_err(req, res, &err);
        return false;
    }
    return true;
}

static void stream(const struct request *req, struct response *res, const char *job, int64_t after)
{
    struct reader *r = xalloc(sizeof *r);
    r->app = app_of(req);
    r->after = after;
    r->look_again = *job != 0;
    snprintf(r->job, sizeof r->job, "%s", job);
    res->status = 200;
    res->content_type = "text/event-stream";
    res->stream = (struct stream){reader_read, free, r};
}

void events_of_all(const struct request *req, struct response *res)
{
    int64_t after;
    bool given;
    if (start_read(req, res, store_last_event(app_of(req)->store), &after, &given))
        stream(req, res, "", after);
}

void events_of_job(const struct request *req, struct response *res)
{
    const char *job = req->params[0];
    int64_t after;
    bool given, ended = false;
    struct err err;
    if (!id_valid(job, "job"))
        err_set(&err, ERR_NOT_FOUND, "\"%.60s\" is not the id of a job (job_...)", job);
    if (!id_valid(job, "job") || !job_has_ended(app_of(req), job, &err, &ended)) {
        if (err.code == ERR_NOT_FOUND)
            err_set(&err, ERR_NOT_FOUND, "there is no job \"%.60s\"", job);
        respond_err(req, res, &err);
        return;
    }
    if (!start_read(req, res, 0, &after, &given))
        return;
    if (given && ended) {
        cleanup(buf) struct buf rest = {0};
        int64_t last;
        int count = 0;
        if (!store_events(app_of(req)->store, job, after, 1, &rest, &last, &count, &err)) {
            respond_err(req, res, &err);
            return;
        }
        if (!count) {
            res->status = 204;    /* tells an EventSource not to come back */
            return;
        }
    }
    stream(req, res, job, after);
}

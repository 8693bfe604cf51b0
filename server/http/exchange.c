/*
 * One request on its way: head, body, handler, answer. The library calls exchange_handle again and again:
 *
 *   head ok? ─> body ─> handler here, or on a worker (suspended meanwhile) ─> wait? asleep in the hub, handler again ─> answer
 *
 * A refused request's body is read and dropped up to a bound, so that the client gets to read why.
 */
#include "server/http/edge.h"

#include "core/clock.h"
#include "core/log.h"

#include <string.h>
#include <strings.h>

void exchange_suspend(void *exchange)
{
    MHD_suspend_connection(((struct exchange *)exchange)->connection);
}

void exchange_resume(void *exchange)
{
    MHD_resume_connection(((struct exchange *)exchange)->connection);
}

static struct exchange *exchange_new(struct http_server *s, struct MHD_Connection *connection, enum http_method method)
{
    struct exchange *ex = malloc(sizeof *ex);
    BUG_ON(!ex);
    memset(ex, 0, offsetof(struct exchange, id));
    ex->server = s;
    ex->connection = connection;
    ex->phase = EXCHANGE_BODY;
    ex->sleep.wake = exchange_resume;
    ex->sleep.ctx = ex;
    ex->sleep.fd = -1;
    unsigned long long serial = atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
    memcpy(ex->id, s->id_prefix, sizeof s->id_prefix);
    for (int i = 0; i < 12; i++, serial >>= 5)
        ex->id[22 - i] = "0123456789abcdefghjkmnpqrstvwxyz"[serial & 31];
    ex->id[23] = 0;
    ex->path[0] = 0;
    ex->req = (struct request){.is_head = method == HTTP_HEAD, .method = method == HTTP_HEAD ? HTTP_GET : method,
                               .path = ex->path, .id = ex->id, .note = ex->note, .app = s->config.app, .header = header_lookup,
                               .query = query_lookup, .edge = ex, .started_ns = clock_mono_ns()};
    atomic_fetch_add_explicit(&s->in_flight, 1, memory_order_relaxed);
    return ex;
}

static void exchange_free(struct exchange *ex)
{
    struct http_server *s = ex->server;
    hub_remove(s->hub, &ex->sleep);
    if (ex->streams)
        atomic_fetch_sub(&s->streams, 1);
    if (ex->waits)
        atomic_fetch_sub(&s->waiters, 1);
    if (ex->pending_bytes)
        atomic_fetch_sub(&s->pending_body_bytes, ex->pending_bytes);
    response_done(&ex->res);
    for (int i = 0; i < ex->query_count; i++)
        free(ex->queries[i].value);
    json_decref(ex->json);
    buf_done(&ex->body);
    buf_done(&ex->pending);
    free(ex);
    atomic_fetch_sub_explicit(&s->in_flight, 1, memory_order_relaxed);
}

static void note(struct exchange *ex, int status)
{
    int64_t ns = clock_mono_ns() - ex->req.started_ns;
    metrics_count(ex->server->metrics, ex->req.route, status, ns);
    bool writes = ex->req.method != HTTP_GET && ex->req.method != HTTP_OPTIONS;
    if (status < 500 && !writes)
        return;
    char status_text[8], ms[24];
    snprintf(status_text, sizeof status_text, "%d", status);
    snprintf(ms, sizeof ms, "%.3f", (double)ns / 1e6);
    log_line(status >= 500 && status != 503 ? LOG_ERROR : LOG_INFO, "request", "method", http_method_name(ex->req.method), "route",
             ex->req.route ? ex->req.route->pattern : "", "status", status_text, "ms", ms, "request_id", ex->id, "caller",
             ex->req.caller.id, NULL);
}

static void add_headers(struct exchange *ex, struct MHD_Response *response)
{
    const struct response *res = &ex->res;
    if (res->content_type)
        MHD_add_response_header(response, "Content-Type", res->content_type);
    MHD_add_response_header(response, "Cache-Control", res->cache_control ? res->cache_control : "no-store");
    if (res->etag[0])
        MHD_add_response_header(response, "ETag", res->etag);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    MHD_add_response_header(response, "X-Request-Id", ex->id);
    for (int i = 0; i < res->header_count; i++)
        MHD_add_response_header(response, res->headers[i].name, res->headers[i].value);
    if (ex->closes)
        MHD_add_response_header(response, "Connection", "close");
}

static struct MHD_Response *plain_response(struct exchange *ex, bool empty)
{
    struct buf *body = &ex->res.body;
    struct MHD_Response *response;
    if (empty || !body->size) {
        response = MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    } else {
        size_t size = body->size;
        response = MHD_create_response_from_buffer(size, buf_take(body), MHD_RESPMEM_MUST_FREE);
    }
    if (response)
        add_headers(ex, response);
    return response;
}

static bool is_unmodified(const struct exchange *ex)
{
    const char *etag = ex->res.blob ? http_blob_etag(ex->res.blob) : ex->res.etag;
    return ex->head.if_none_match && etag[0] && ex->res.status == 200 && ex->req.method == HTTP_GET &&
           etag_matches(ex->head.if_none_match, etag);
}

static void take_stream_slot(struct exchange *ex)
{
    struct http_server *s = ex->server;
    ex->streams = true;
    if (atomic_fetch_add(&s->streams, 1) < s->config.streams)
        return;
    respond_problem(&ex->req, &ex->res, 503, "unavailable", "Something we need is missing", "as many event streams as this service "
                    "allows are open; try again later", NULL);
}

static enum MHD_Result answer(struct exchange *ex)
{
    struct response *res = &ex->res;
    ex->phase = EXCHANGE_READY;
    if (!res->status)
        res->status = 200;
    if (res->stream.read && !ex->req.is_head)
        take_stream_slot(ex);
    bool unmodified = is_unmodified(ex);
    int status = unmodified ? 304 : res->status;
    note(ex, status);
    if (res->blob)
        return MHD_queue_response(ex->connection, (unsigned)status, blob_response(res->blob, !unmodified));
    struct MHD_Response *response;
    if (res->stream.read && !ex->req.is_head) {
        response = stream_response(ex);
        if (response)
            add_headers(ex, response);
    } else {
        response = plain_response(ex, unmodified);
    }
    if (!response)
        return MHD_NO;
    enum MHD_Result queued = MHD_queue_response(ex->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return queued;
}

/* Another wait: false if the answer is set instead. */
static bool fall_asleep(struct exchange *ex, uint64_t seen)
{
    struct http_server *s = ex->server;
    if (!ex->waits) {
        ex->waits = true;
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(ex->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        ex->sleep.fd = info ? info->connect_fd : -1;
        if (atomic_fetch_add(&s->waiters, 1) >= s->config.waiters) {
            respond_problem(&ex->req, &ex->res, 503, "unavailable", "Something we need is missing", "as many requests are waiting "
                            "as this service allows; ask without ?wait", NULL);
            return false;
        }
    }
    ex->phase = EXCHANGE_WAITING;
    return hub_sleep(s->hub, &ex->sleep, seen, ex->res.wait_until_ns, exchange_suspend);
}

void exchange_keep_note(struct exchange *ex)
{
    if (ex->res.note[0])
        snprintf(ex->note, sizeof ex->note, "%s", ex->res.note);
}

static enum MHD_Result run_handler(struct exchange *ex)
{
    struct http_server *s = ex->server;
    for (;;) {
        uint64_t seen = hub_seen(s->hub);
        response_done(&ex->res);
        ex->req.route->handle(&ex->req, &ex->res);
        if (!ex->res.wait_until_ns)
            return answer(ex);
        exchange_keep_note(ex);
        if (ex->sleep.gone)
            return MHD_NO;
        if (fall_asleep(ex, seen))
            return MHD_YES;
        if (ex->res.status == 503)
            return answer(ex);
        if (atomic_load(&s->stopping)) {
            respond_problem(&ex->req, &ex->res, 503, "unavailable", "Something we need is missing", "the service is stopping", NULL);
            return answer(ex);
        }
    }
}

static bool parse_body(struct exchange *ex)
{
    const struct route *route = ex->req.route;
    ex->req.body = buf_cstr(&ex->body);
    ex->req.body_bytes = ex->body.size;
    if (!(route->flags & ROUTE_JSON) || (!ex->has_body && (route->flags & ROUTE_OPTIONAL)))
        return true;
    struct err err;
    if (!json_parse(ex->req.body, ex->body.size, &ex->json, &err)) {
        if (route->flags & ROUTE_ANSWERS_BAD)
            return true;
        respond_err(&ex->req, &ex->res, &err);
        return false;
    }
    ex->req.json = ex->json;
    return true;
}

/* The request is complete. */
static enum MHD_Result dispatch(struct exchange *ex)
{
    if (ex->refused || !queries_read(ex) || !parse_body(ex))
        return answer(ex);
    if (!(ex->req.route->flags & ROUTE_COMMITS))
        return run_handler(ex);
    ex->phase = EXCHANGE_WORKING;
    MHD_suspend_connection(ex->connection);
    if (workers_push(ex->server->workers, ex))
        return MHD_YES;
    struct err err;
    err_set(&err, ERR_BUSY, "too many writes are waiting; try again in a moment");
    respond_err(&ex->req, &ex->res, &err);
    ex->phase = EXCHANGE_READY;
    MHD_resume_connection(ex->connection);
    return MHD_YES;
}

static void refuse_body(struct exchange *ex, enum err_code code, const char *text)
{
    struct err err;
    err_set(&err, code, "%s", text);
    respond_err(&ex->req, &ex->res, &err);
    ex->refused = ex->closes = true;
    buf_done(&ex->body);
}

static enum MHD_Result take_body(struct exchange *ex, const char *data, size_t size)
{
    struct http_server *s = ex->server;
    if (!ex->refused) {
        ex->pending_bytes += (int64_t)size;
        int64_t all = atomic_fetch_add(&s->pending_body_bytes, (int64_t)size) + (int64_t)size;
        if ((int64_t)(ex->body.size + size) > s->config.body_bytes)
            refuse_body(ex, ERR_TOO_LARGE, "the body is larger than this service accepts");
        else if (all > s->config.pending_body_bytes)
            refuse_body(ex, ERR_BUSY, "the bodies of all requests together are larger than this service holds; try again in a moment");
        else
            buf_add(&ex->body, data, size);
    }
    if (ex->refused)
        ex->drained_bytes += (int64_t)size;
    return ex->drained_bytes > DRAIN_MAX_BYTES ? MHD_NO : MHD_YES;
}

static enum MHD_Result begin(struct exchange *ex, const char *url, enum http_method method, const char *version)
{
    ex->refused = !(head_read(ex) && head_check(ex, version) && head_admit(ex, url, method));
    if (ex->refused && ex->has_body) {
        bool late = ex->declared_bytes <= DRAIN_MAX_BYTES && !ex->head.expect;
        return late ? MHD_YES : answer(ex);
    }
    /* an answer in this first call would make the library close the connection */
    return ex->refused && ex->closes ? answer(ex) : MHD_YES;
}

enum MHD_Result exchange_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_bytes, void **state)
{
    struct exchange *ex = *state;
    if (!ex) {
        enum http_method m = http_method_parse(method);
        *state = ex = exchange_new(server, connection, m);
        return begin(ex, url, m, version);
    }
    if (*upload_bytes) {
        size_t size = *upload_bytes;
        *upload_bytes = 0;
        return take_body(ex, upload, size);
    }
    switch (ex->phase) {
    case EXCHANGE_BODY:
        return dispatch(ex);
    case EXCHANGE_WAITING:
        return run_handler(ex);
    case EXCHANGE_WORKING:
        return MHD_YES;
    case EXCHANGE_READY:
        return answer(ex);
    }
    return MHD_NO;
}

void exchange_completed(void *server, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why)
{
    (void)server, (void)connection, (void)why;
    if (*state)
        exchange_free(*state);
    *state = NULL;
}

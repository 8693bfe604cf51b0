/*
 * Event streams. The library asks for bytes whenever the client's socket takes more, so a slow client costs what one read gives
 * (bounded by the stream's source) and holds up nobody. With nothing to say the connection sleeps in the hub; a comment line
 * goes out every heartbeat and when the client's side was closed, and finds out who left.
 */
#include "server/http/edge.h"

#include "core/clock.h"

#include <string.h>

static ssize_t take_pending(struct exchange *ex, char *to, size_t max)
{
    size_t left = ex->pending.size - ex->pending_at, size = left < max ? left : max;
    memcpy(to, ex->pending.data + ex->pending_at, size);
    ex->pending_at += size;
    if (ex->pending_at == ex->pending.size) {
        buf_clear(&ex->pending);
        ex->pending_at = 0;
    }
    return (ssize_t)size;
}

static void say_nothing(struct exchange *ex)
{
    buf_str(&ex->pending, ":\n\n");
    ex->heartbeat_at_ns = clock_mono_ns() + ex->server->config.heartbeat_ns;
}

static ssize_t on_read(void *ctx, uint64_t position, char *to, size_t max)
{
    (void)position;
    struct exchange *ex = ctx;
    struct http_server *s = ex->server;
    for (;;) {
        if (ex->pending.size)
            return take_pending(ex, to, max);
        if (ex->sleep.gone)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (ex->stream_ended || atomic_load(&s->stopping))
            return MHD_CONTENT_READER_END_OF_STREAM;
        uint64_t seen = hub_seen(s->hub);
        enum stream_state state = ex->res.stream.read(ex->res.stream.ctx, &ex->pending);
        ex->stream_ended = state == STREAM_END;
        if (ex->pending.size) {
            ex->heartbeat_at_ns = clock_mono_ns() + s->config.heartbeat_ns;
            continue;
        }
        if (ex->stream_ended)
            continue;
        if (ex->sleep.nudged && !ex->nudge_answered) {
            ex->nudge_answered = true;
            say_nothing(ex);
        } else if (clock_mono_ns() >= ex->heartbeat_at_ns) {
            say_nothing(ex);
        } else if (hub_sleep(s->hub, &ex->sleep, seen, ex->heartbeat_at_ns, exchange_suspend)) {
            return 0;
        }
    }
}

struct MHD_Response *stream_response(struct exchange *ex)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(ex->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    ex->sleep.fd = info ? info->connect_fd : -1;
    ex->heartbeat_at_ns = clock_mono_ns() + ex->server->config.heartbeat_ns;
    /* the client learns that it is connected, and how soon to come back */
    buf_str(&ex->pending, "retry: 2000\n\n");
    ex->res.content_type = "text/event-stream";
    respond_header(&ex->res, "X-Accel-Buffering", "no");
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 * 1024, on_read, ex, NULL);
}

/*
 * Reads a stream of server-sent events as the HTML standard lays them out, from pieces cut anywhere. Bounded: an event of more than
 * SSE_MAX_EVENT_BYTES fails the stream. The id of the last whole event is kept for resuming.
 */
#pragma once
#include "core/buf.h"

#define SSE_MAX_EVENT_BYTES ((size_t)1 << 20)

struct sse {
    struct buf line, data;
    char type[64], id[32];     /* of the event being read */
    char last_id[32];          /* of the last event handed out; "" before the first */
    int64_t retry_ms;          /* as the server asked; 0: it has not */
    bool after_cr, failed, started;
};
/* An event is complete. False stops the stream. */
typedef bool sse_event(void *ctx, const char *type, const char *id, const char *data, size_t size);
/* False: the callback stopped it, or an event is too large (then `failed`). */
bool sse_feed(struct sse *s, const char *bytes, size_t size, sse_event *event, void *ctx);
/* The connection ended: what was half read is dropped, last_id stays. */
void sse_restart(struct sse *s);
void sse_done(struct sse *s);
DEFINE_CLEANUP(sse, struct sse, sse_done(it))

/*
 * What the files of this folder share.
 *
 *   embed.c    vectors of texts, by another endpoint
 *   llm.c      one call: its tries, pauses, account
 *   http.c     one try: curl, with every limit of time
 *   sse.c      the stream's events
 *   dialect.c  what the two protocols say, and how it is read
 */
#pragma once
#include "server/llm/llm.h"

#include "core/clock.h"
#include "core/hash.h"

/* ---- sse.c: text/event-stream, pure ---- */
#define SSE_NAME_SIZE 64
/* False stops. data is a NUL-ended text. */
typedef bool sse_event(void *ctx, const char *name, const char *data, size_t size);
struct sse {
    struct buf line, data;         /* their limit bounds a line and an event */
    char name[SSE_NAME_SIZE];
    bool has_data, after_cr, begun;
    sse_event *event;
    void *ctx;
};
void sse_init(struct sse *s, size_t event_bytes, sse_event *event, void *ctx);
void sse_done(struct sse *s);
/* False: an event said stop, or a line or an event passed the limit (then s->data.overflow or s->line.overflow). */
bool sse_feed(struct sse *s, const char *data, size_t size);
DEFINE_CLEANUP(sse, struct sse, sse_done(it))

/* ---- dialect.c ---- */
/* What an endpoint says about tokens; -1: not said. */
struct said_usage { int64_t input, output, cache_read, cache_write; bool cached_within_input; };
struct answer {
    struct buf text;               /* its limit is the answer's */
    struct said_usage said;
    enum llm_stop stop;
    bool has_stop, ended;          /* it said why it stopped; it said that nothing follows */
    char error[200];               /* an error within the stream; "" none */
    bool error_passes;             /* another try may go well */
};
struct dialect {
    const char *name, *path;
    json_t *(*body)(const char *model, const struct llm_call *call, const char *limit_name, int64_t output_tokens);
    const char *key_header;        /* "Authorization: Bearer " */
    const char *more_header;       /* NULL: none */
    void (*event)(struct answer *a, const json_t *doc);
    void (*whole)(struct answer *a, const json_t *doc);
};
const struct dialect *dialect_find(const char *name);
void answer_init(struct answer *a, size_t limit_bytes);
void answer_done(struct answer *a);
DEFINE_CLEANUP(answer, struct answer, answer_done(it))
/*
 * What is charged: what was said where it can be true of a request of `sent` bytes and an answer of `got`, else an estimate. Never more than was
 * reserved for it: most_in (llm_call_estimate) and output_tokens.
 */
struct llm_usage usage_judge(const struct said_usage *said, size_t sent_bytes, int64_t most_in, size_t got_bytes, int64_t output_tokens);

/* ---- llm.c ---- */
/* The base with its path; a last "/v1" may be there or not. The caller frees. */
char *endpoint_url(const char *base, const char *path);
/* Whether an endpoint can be asked so; the settings are called --NAME-url, --NAME-model, --NAME-key. */
bool endpoint_check(const char *name, const char *url, const char *model, const char *key, struct err *err) MUST_CHECK;

/* ---- http.c ---- */
enum http_how { HTTP_DONE, HTTP_ENOUGH /* the sink stopped it */, HTTP_CANCELLED, HTTP_NO_CONNECTION, HTTP_NO_FIRST_BYTE, HTTP_STALLED, HTTP_TOO_LONG, HTTP_BROKEN };
struct http_ask {
    const char *url;
    const char *headers[4];        /* NULL-ended */
    const char *body;
    size_t body_bytes;
    int64_t connect_ns, first_byte_ns, stall_ns, whole_ns;
    bool (*sink)(void *ctx, const char *data, size_t size, bool is_stream);    /* of an answer with status 200; false: enough */
    void *sink_ctx;
    bool (*stopped)(void *ctx);
    void *stopped_ctx;
};
struct http_end {
    enum http_how how;
    int status;                    /* 0: no answer came */
    bool sent;                     /* the request went out whole */
    int64_t retry_after_ns;        /* -1: not said */
    struct buf error;              /* the beginning of the body of another status than 200 */
    char text[200];                /* curl's words where it failed */
};
void http_end_done(struct http_end *e);
DEFINE_CLEANUP(http_end, struct http_end, http_end_done(it))
/* *ret is set in any case. */
void http_run(const struct http_ask *ask, struct http_end *ret);
bool http_start(struct err *err) MUST_CHECK;    /* once a process; any thread */

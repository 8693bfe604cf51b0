/*
 * HTTP for the command line, by libcurl: one call, one answer; or a stream. Follows no redirects and speaks http and https only,
 * so a token goes nowhere but to the server that was named. Blocks. Not thread-safe.
 */
#pragma once
#include "core/json.h"

#define CLIENT_MAX_JSON_BYTES ((size_t)64 << 20)
#define CLIENT_MAX_FILE_BYTES ((size_t)256 << 20)

struct client {
    const char *server;        /* "http://127.0.0.1:7070" */
    const char *token;         /* NULL: none */
    int timeout_s;             /* of a whole call; streams have none */
};
struct reply {
    int status;
    struct buf body;
    char type[96];             /* media type in lower case, without parameters */
    json_t *doc;               /* the body where it is JSON, else NULL; owned */
};
void reply_done(struct reply *r);
DEFINE_CLEANUP(reply, struct reply, reply_done(it))

/*
 * True whenever the server answered, whatever its status. ERR_UNAVAILABLE: not reached; ERR_TIMEOUT; ERR_UPSTREAM: too large, or
 * the answer is not of the form that HTTP or JSON have. `body` may be NULL; `header` ("Name: value") may be NULL.
 */
bool client_call(const struct client *c, const char *method, const char *path, const json_t *body, const char *header,
                 size_t limit_bytes, struct reply *ret, struct err *err) MUST_CHECK;

/* The same with a body of another type; content may be NULL. */
bool client_post(const struct client *c, const char *method, const char *path, const char *content, const char *type, const char *header,
                 size_t limit_bytes, struct reply *ret, struct err *err) MUST_CHECK;

/* Pieces of the body as they come; false ends the stream. */
typedef bool client_piece(void *ctx, const char *bytes, size_t size);
/* True when the server ended the stream or the callback did. An answer that is not 200 is kept in *ret, nothing is passed on. */
bool client_stream(const struct client *c, const char *path, const char *last_event_id, client_piece *piece, void *ctx,
                   struct reply *ret, struct err *err) MUST_CHECK;
/* Set by a signal handler: ends the call or stream in progress within a second (ERR_CONFLICT). */
extern volatile int client_interrupted;

/* Percent-encodes one part of a path or query; the caller frees. */
char *client_escape(const char *text);

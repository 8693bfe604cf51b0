/* Private to server/http: the server, and one exchange (a request and its answer) as libmicrohttpd takes it through. */
#pragma once
#include "server/http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#define PATH_MAX_BYTES 1024
#define DRAIN_MAX_BYTES ((int64_t)8 << 20)   /* of a refused body: read and dropped, so that the client sees the answer */
#define QUERY_MAX 16

/* X(field, name): headers that a request has once at most; two of them may be read differently by a proxy in front */
#define SINGLE_HEADERS(X)                       \
    X(host, "Host")                             \
    X(content_length, "Content-Length")         \
    X(transfer_encoding, "Transfer-Encoding")   \
    X(content_type, "Content-Type")             \
    X(content_encoding, "Content-Encoding")     \
    X(origin, "Origin")                         \
    X(authorization, "Authorization")           \
    X(idempotency_key, "Idempotency-Key")       \
    X(last_event_id, "Last-Event-ID")           \
    X(expect, "Expect")

/* What the checks need of the head, found in one walk over it. */
struct head {
#define X(field, name) const char *field;
    SINGLE_HEADERS(X)
#undef X
    const char *if_none_match, *doubled;        /* doubled: the name of one that is there more than once */
    int odd_names;
    size_t bytes;
};

enum exchange_phase {
    EXCHANGE_BODY,       /* the body is arriving */
    EXCHANGE_WAITING,    /* asleep in the hub until there is news */
    EXCHANGE_WORKING,    /* suspended; a worker has it */
    EXCHANGE_READY,      /* the response is set */
};

struct exchange {
    struct http_server *server;
    struct MHD_Connection *connection;
    struct request req;
    struct response res;
    struct head head;
    enum exchange_phase phase;
    bool has_body, refused, closes;
    bool streams, waits;                /* holds a slot of that kind */
    int64_t declared_bytes, drained_bytes, pending_bytes;
    struct buf body;
    json_t *json;
    struct hub_entry sleep;
    char note[RESPONSE_NOTE_SIZE];
    struct exchange *next;              /* in the workers' queue */
    /* a stream's */
    struct buf pending;
    size_t pending_at;
    bool stream_ended, nudge_answered;
    int64_t heartbeat_at_ns;
    int query_count;
    struct { const char *name; char *value; } queries[QUERY_MAX];
    bool query_bad;
    char id[28];
    char path[PATH_MAX_BYTES];
};

struct workers;
struct metrics;
struct http_server {
    struct http_config config;
    struct router *router;
    struct hub *hub;
    struct workers *workers;
    struct metrics *metrics;
    struct MHD_Daemon *daemon;
    int listen_fd;
    char address[80];
    char id_prefix[12];
    _Atomic uint64_t requests;
    _Atomic int64_t pending_body_bytes;
    _Atomic int in_flight, streams, waiters;
    _Atomic bool stopping;
};

/* exchange.c: called by the library */
enum MHD_Result exchange_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_bytes, void **state);
void exchange_completed(void *server, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why);
void exchange_suspend(void *exchange);     /* for hub_sleep */
void exchange_resume(void *exchange);      /* for the hub and the workers */
void exchange_keep_note(struct exchange *ex);   /* of a response that asks for a wait */

/* head.c: what is wrong with a request before its body; false: the response is set */
bool head_read(struct exchange *ex);
bool head_check(struct exchange *ex, const char *version);
bool head_admit(struct exchange *ex, const char *url, enum http_method method);
const char *query_lookup(const struct request *req, const char *name);
const char *header_lookup(const struct request *req, const char *name);
bool queries_read(struct exchange *ex);

/* stream.c */
struct MHD_Response *stream_response(struct exchange *ex);

/* blob.c */
struct MHD_Response *blob_response(struct http_blob *b, bool modified);

/* workers.c */
struct workers *workers_new(int threads, int max_queued);
bool workers_push(struct workers *w, struct exchange *ex);    /* false: too many are waiting */
void workers_free(struct workers *w);                         /* after finishing what is queued */

/* metrics.c */
struct metrics *metrics_new(const struct route *routes, int count);
void metrics_free(struct metrics *m);
void metrics_count(struct metrics *m, const struct route *route, int status, int64_t ns);
void metrics_write(struct metrics *m, struct buf *to);

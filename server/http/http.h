/*
 * The HTTP edge: our own request and response, a table of routes, and the server that joins them to sockets. libmicrohttpd is
 * behind it and in no header. Handlers see values only, so all of server/api is tested without a socket.
 *
 * Threads: handlers of one server run on several threads at once. A handler reads the store and computes; one that commits says
 * so in its route (ROUTE_COMMITS) and runs on a worker thread, so that a disk's sync never holds up readers. None may wait for a
 * judge: it asks for a wait (respond_wait) or gives a stream, and the server calls again when something happened.
 */
#pragma once
#include "core/json.h"
#include "server/http/auth.h"
#include "server/http/hub.h"

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_OPTIONS, HTTP_OTHER };
const char *http_method_name(enum http_method m);
enum http_method http_method_parse(const char *text);

#define ROUTE_MAX_PARAMS 4
struct request;
struct response;
typedef void http_handler(const struct request *req, struct response *res);

enum route_flags {
    ROUTE_JSON = 1,       /* has a JSON body, and must */
    ROUTE_COMMITS = 2,    /* writes to the store: runs on a worker thread (its first call, where it also waits) */
    ROUTE_WAITS = 4,      /* may ask for a wait; with ROUTE_COMMITS only the first call may write */
    ROUTE_HIDDEN = 8,     /* not part of the contract in openapi.yaml (files of the dashboard) */
    ROUTE_LINES = 32,     /* has a body of JSON lines, and must; the handler parses it */
    ROUTE_OPTIONAL = 16,  /* with ROUTE_JSON: the body may be left out */
    ROUTE_ANSWERS_BAD = 64,   /* with ROUTE_JSON: what is no JSON goes to the handler too, which says so in its own protocol (json is NULL) */
};
struct route {
    enum http_method method;       /* HEAD goes with GET */
    const char *pattern;           /* "/v1/jobs/{id}"; a last "{path...}" takes the rest, empty too */
    http_handler *handle;
    enum scope scope;              /* what the caller must be allowed to */
    int flags;
};

struct request {
    enum http_method method;       /* HEAD arrives as HTTP_GET */
    bool is_head;
    const char *path;              /* decoded */
    const char *params[ROUTE_MAX_PARAMS];   /* what stands for {..}, in order; decoded */
    const struct route *route;
    struct caller caller;
    const char *id;                /* of this request, for logs and problems */
    const char *body;
    size_t body_bytes;
    const json_t *json;            /* the parsed body of a ROUTE_JSON route; borrowed */
    int64_t started_ns;            /* clock_mono_ns when the head had arrived; stays over waits */
    void *app;                     /* the routes' own state */
    const char *note;              /* what the handler left for itself when it asked for a wait; "" the first time */
    const char *(*header)(const struct request *req, const char *name);   /* NULL: not there */
    const char *(*query)(const struct request *req, const char *name);    /* decoded; NULL: not there; "" without a value */
    void *edge;                    /* of whoever made the request */
};

/* A stream of text/event-stream. read() appends what is new behind its own cursor and says what follows: MORE comes with something. */
enum stream_state { STREAM_MORE, STREAM_IDLE, STREAM_END };
struct stream {
    enum stream_state (*read)(void *ctx, struct buf *to);   /* on server threads, never two at once; must not block */
    void (*done)(void *ctx);                                /* releases ctx */
    void *ctx;
};

/* Bytes that are served again and again: one reference-counted response for all. Immutable, any thread. */
struct http_blob;
struct http_blob *http_blob_new(struct buf *take, const char *content_type, const char *etag, const char *cache_control,
                                const char *extra_name, const char *extra_value);
struct http_blob *http_blob_ref(struct http_blob *b);
void http_blob_free(struct http_blob *b);                   /* gives one reference back */
const char *http_blob_etag(const struct http_blob *b);
const char *http_blob_data(const struct http_blob *b, size_t *ret_size);

#define RESPONSE_MAX_HEADERS 8
#define RESPONSE_NOTE_SIZE 64
struct response {
    int status;
    const char *content_type;      /* static text */
    struct buf body;
    char etag[80];                 /* with its quotes; "" none. If-None-Match is answered by the edge */
    const char *cache_control;     /* static text; NULL: no-store */
    struct http_blob *blob;        /* instead of body and all of the above */
    struct stream stream;          /* instead of a body, where read is set */
    int64_t wait_until_ns;         /* not 0: call again on the next event, and at this time at the latest */
    char note[RESPONSE_NOTE_SIZE]; /* with a wait: the request's note then; "" leaves it as it is */
    int header_count;
    struct { const char *name; char *value; } headers[RESPONSE_MAX_HEADERS];
};
void response_done(struct response *res);
DEFINE_CLEANUP(response, struct response, response_done(it))

void respond_json(struct response *res, int status, json_t *doc);                    /* takes the reference */
void respond_text(struct response *res, int status, const char *content_type, const char *text);
void respond_blob(struct response *res, struct http_blob *b);                        /* takes the reference */
void respond_header(struct response *res, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A strong ETag over the body as it stands, and Cache-Control. */
void respond_etag(struct response *res, const char *cache_control);
void respond_wait(struct response *res, int64_t until_ns);
/* Problems (RFC 9457): of an error; of faults (400 unless err says more, whose text then is the detail); of any status. */
void respond_err(const struct request *req, struct response *res, const struct err *err);
void respond_faults(const struct request *req, struct response *res, const struct err *err, const struct faults *f);
void respond_problem(const struct request *req, struct response *res, int status, const char *code, const char *title,
                     const char *detail, json_t *extra);    /* takes extra (members to add), may be NULL */
/* ERR_INVALID as a fault of one query parameter. */
void respond_bad_query(const struct request *req, struct response *res, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A query parameter as an integer within limits; absent: fallback. False: the response is set. */
bool request_int(const struct request *req, struct response *res, const char *name, int64_t least, int64_t most,
                 int64_t fallback, int64_t *ret);
/* Whether an If-None-Match value names this ETag (lists, weak forms and * included). */
bool etag_matches(const char *if_none_match, const char *etag);

/* ---- routing, pure ---- */
struct router;
struct router *router_new(const struct route *routes, int count);
void router_free(struct router *r);
/*
 * Finds the route for a decoded path, which is cut in place into params. NULL: ret_allowed is a bit set of the methods that the
 * path has (0: there is no such path).
 */
const struct route *router_match(const struct router *r, enum http_method method, char *path, const char *params[ROUTE_MAX_PARAMS],
                                 unsigned *ret_allowed);
void router_allow(unsigned allowed, char *to, size_t size);    /* "GET, HEAD, OPTIONS" */
/* %XX decoded in place. False: a bad escape, a NUL, or an encoded slash where those are not allowed. */
bool url_decode(char *text, bool slashes);

/* ---- checks of what a stranger sends, pure ---- */
bool host_is_local(const char *host);                           /* localhost, 127.0.0.1, [::1], each with :port or not */
bool origin_is_same(const char *origin, const char *host);
bool media_type_is_json(const char *content_type);
bool media_type_is_lines(const char *content_type);             /* application/x-ndjson, application/jsonl */

/* ---- the server ---- */
struct http_config {
    const char *listen;            /* "127.0.0.1:7070", "[::1]:0" */
    int threads, workers;
    int connections;
    int header_bytes;
    int64_t body_bytes, pending_body_bytes;     /* of one request, of all together */
    int connection_timeout_s;
    int streams, waiters;          /* event streams, long polls */
    int64_t heartbeat_ns;
    const struct route *routes;
    int route_count;
    void *app;
    struct auth *auth;
};
struct http_server;
/* Binds, but does not serve yet: ERR_UNAVAILABLE names address and reason. Refuses other addresses than loopback without tokens. */
bool http_open(const struct http_config *config, struct http_server **ret, struct err *err) MUST_CHECK;
bool http_serve(struct http_server *s, struct err *err) MUST_CHECK;
const char *http_address(const struct http_server *s);          /* "127.0.0.1:40123" */
/* Something newer exists: streams and long polls look again. Any thread, returns at once. */
void http_notify(struct http_server *s);
bool http_stopping(const struct http_server *s);
/* No new connections, streams end, requests in progress are answered (up to grace_ns), then all is closed. */
void http_stop(struct http_server *s, int64_t grace_ns);
void http_close(struct http_server *s);
void http_metrics(struct http_server *s, struct buf *to);       /* Prometheus text */

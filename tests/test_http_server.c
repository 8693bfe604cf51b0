/* The server over real sockets, with routes of its own: what hostile and unlucky clients do, streams, waits, and stopping. */
#include "core/log.h"
#include "server/http/http.h"
#include "tests/test_http.h"

#include <pthread.h>
#include <stdatomic.h>

#define HEARTBEAT_NS ((int64_t)2000000000)
#define BODY_BYTES 10000
#define STREAMS 8
#define WAITERS 4

static _Atomic int news, streams_open, slow_at_work;
static _Atomic int64_t patience_ns = 400000000;          /* of a wait */
static struct http_server *server;
static struct auth *auth;
static char address[80];

/* ---- routes ---- */
static void get_plain(const struct request *req, struct response *res)
{
    (void)req;
    respond_text(res, 200, "text/plain", "hello");
    respond_etag(res, "no-cache");
}

static void post_echo(const struct request *req, struct response *res)
{
    respond_json(res, 200, json_deep_copy(req->json));
}

static void post_slow(const struct request *req, struct response *res)
{
    (void)req;
    atomic_fetch_add(&slow_at_work, 1);
    clock_sleep_ns(300000000);
    respond_text(res, 200, "text/plain", "done");
    atomic_fetch_sub(&slow_at_work, 1);
}

static void get_query(const struct request *req, struct response *res)
{
    const char *x = req->query(req, "x");
    respond_text(res, 200, "text/plain", x ? x : "(none)");
}

static void get_wait(const struct request *req, struct response *res)
{
    int64_t until = req->started_ns + atomic_load(&patience_ns);
    if (atomic_load(&news) < 1 && clock_mono_ns() < until)
        respond_wait(res, until);
    else
        respond_text(res, 200, "text/plain", atomic_load(&news) ? "news" : "nothing");
}

/* Numbers from 1 to `news`, one an event; ends at 1000. */
struct counter { int at; };

static enum stream_state counter_read(void *ctx, struct buf *to)
{
    struct counter *c = ctx;
    int until = atomic_load(&news);
    if (c->at >= 1000)
        return STREAM_END;
    if (c->at >= until)
        return STREAM_IDLE;
    while (c->at < until)
        buf_fmt(to, "id: %d\ndata: {}\n\n", ++c->at);
    return STREAM_MORE;
}

static void counter_done(void *ctx)
{
    atomic_fetch_sub(&streams_open, 1);
    free(ctx);
}

static void get_stream(const struct request *req, struct response *res)
{
    (void)req;
    res->stream = (struct stream){counter_read, counter_done, xalloc(sizeof(struct counter))};
    atomic_fetch_add(&streams_open, 1);
}

/* Without end, as fast as it is taken. */
static enum stream_state flood_read(void *ctx, struct buf *to)
{
    (void)ctx;
    for (int i = 0; i < 100; i++)
        buf_str(to, "data: 0123456789012345678901234567890123456789012345678901234567890123456789\n\n");
    return STREAM_MORE;
}

static void flood_done(void *ctx)
{
    (void)ctx;
    atomic_fetch_sub(&streams_open, 1);
}

static void get_flood(const struct request *req, struct response *res)
{
    (void)req;
    res->stream = (struct stream){flood_read, flood_done, NULL};
    atomic_fetch_add(&streams_open, 1);
}

static const struct route routes[] = {
    {HTTP_GET, "/plain", get_plain, SCOPE_READ, 0},
    {HTTP_POST, "/echo", post_echo, SCOPE_SUBMIT, ROUTE_JSON},
    {HTTP_POST, "/slow", post_slow, SCOPE_SUBMIT, ROUTE_COMMITS},
    {HTTP_GET, "/query", get_query, SCOPE_READ, 0},
    {HTTP_GET, "/wait", get_wait, SCOPE_READ, ROUTE_WAITS},
    {HTTP_GET, "/stream", get_stream, SCOPE_READ, 0},
    {HTTP_GET, "/flood", get_flood, SCOPE_READ, 0},
    {HTTP_GET, "/open", get_plain, SCOPE_NONE, 0},
};

static void server_start(void)
{
    struct err err = {0};
    struct http_config c = {.listen = "127.0.0.1:0", .threads = 2, .workers = 4, .connections = 256, .header_bytes = 4096,
                            .body_bytes = BODY_BYTES, .pending_body_bytes = 1 << 20, .connection_timeout_s = 3, .streams = STREAMS,
                            .waiters = WAITERS, .heartbeat_ns = HEARTBEAT_NS, .routes = routes,
                            .route_count = sizeof routes / sizeof *routes, .auth = auth};
    check(http_open(&c, &server, &err) && http_serve(server, &err));
    snprintf(address, sizeof address, "%s", http_address(server));
    atomic_store(&news, 0);
}

static bool becomes(_Atomic int *value, int want, int64_t within_ns)
{
    for (int64_t until = clock_mono_ns() + within_ns; clock_mono_ns() < until; clock_sleep_ns(2000000))
        if (atomic_load(value) == want)
            return true;
    return false;
}

/* True once as many requests hold the place of a wait as the server's own gauge must say. */
static bool waiting_becomes(int want, int64_t within_ns)
{
    static const char gauge[] = "\nproteus_http_waiting_requests ";
    for (int64_t until = clock_mono_ns() + within_ns; clock_mono_ns() < until; clock_sleep_ns(2000000)) {
        cleanup(buf) struct buf text = {0};
        http_metrics(server, &text);
        const char *at = strstr(buf_cstr(&text), gauge);
        if (at && atoi(at + sizeof gauge - 1) == want)
            return true;
    }
    return false;
}

static void tell(int count)
{
    atomic_store(&news, count);
    http_notify(server);
}

/* ---- bad requests ---- */
static void bad_requests_get_a_problem_that_says_why(void)
{
    static const struct { const char *request; int status; const char *code, *says; } rows[] = {
        {"GET /plain HTTP/1.1\r\n\r\n", 400, "invalid", "Host"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, "invalid", "Host"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nX: y\r\nauthorization: Bearer b\r\n\r\n", 400, "invalid", "Authorization is there more"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a\r\nX: y\r\nidempotency-key: a\r\n\r\n", 400, "invalid", "Idempotency-Key is there more"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nX: y\r\norigin: http://localhost\r\n\r\n", 400, "invalid", "Origin is there more"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1\r\nX: y\r\nlast-event-id: 2\r\n\r\n", 400, "invalid", "Last-Event-ID is there more"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nX: y\r\nexpect: 100-continue\r\n\r\n", 400, "invalid", "Expect is there more"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 400, "invalid", "Content-Type is there more"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415, "media_type", "identity"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 400, "invalid", "Content-Encoding is there more"},
        {"GET /plain HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "forbidden", "localhost"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", 403, "forbidden", "Origin"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", 403, "forbidden", "Origin"},
        {"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "not_found", "openapi"},
        {"GET /none%2Fx HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "invalid", "escape"},
        {"GET /query?x=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "invalid", "query"},
        {"GET /query?x=1&x=2 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "invalid", "twice"},
        {"DELETE /plain HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method_not_allowed", "GET"},
        {"BREW /plain HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method_not_allowed", "GET"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi", 400, "invalid", "body"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400,
         "invalid", "Content-Length"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length : 2\r\n\r\n{}", 400, "invalid", "name"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nContent-Length\t: 2\r\n\r\nhi", 400, "invalid", "name"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nA(b): 2\r\n\r\n", 400, "invalid", "name"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\n{}", 400,
         "invalid", "Content-Length"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
         "2\r\n{}\r\n0\r\n\r\n", 400, "invalid", "Transfer-Encoding"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip\r\n\r\n{}", 400, "invalid", "chunked"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"
         "\r\n2\r\n{}\r\n0\r\n\r\n", 400, "invalid", "Transfer-Encoding"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", 415, "media_type", "application/json"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415, "media_type", "application/json"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n", 400, "invalid", "JSON"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{", 400, "invalid", "line 1"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"a\":1,\"a\":2}", 400, "invalid",
         "duplicate"},
        {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20000\r\n\r\n", 413, "too_large", "10000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client c = client_open(address);
        struct answer a = {0};
        cleanup(json) json_t *doc = NULL;
        struct err err;
        char type[100];
        cleanup(buf) struct buf request = {0};
        buf_str(&request, rows[i].request);
        if (rows[i].status == 413)
            for (int k = 0; k < 2000; k++)
                buf_str(&request, "[[[[[[[[[[");
        client_send(&c, request.data, request.size);
        bool ok = client_answer(&c, false, &a);
        if (!ok || a.status != rows[i].status)
            fprintf(stderr, "row %zu: %s", i, rows[i].request);
        check(ok);
        check_int(a.status, rows[i].status);
        check_str(answer_header(&a, "Content-Type", type, sizeof type), "application/problem+json");
        if (json_parse(buf_cstr(&a.body), a.body.size, &doc, &err)) {
            check_str(json_str(doc, "code", ""), rows[i].code);
            check_int(json_int(doc, "status", 0), rows[i].status);
            if (!strstr(json_str(doc, "detail", ""), rows[i].says))
                check_str(json_str(doc, "detail", ""), rows[i].says);
            check(strlen(json_str(doc, "request_id", "")) > 10);
        } else {
            check(!"a problem in JSON");
        }
        answer_done(&a);
        client_close(&c);
    }
}

static void large_things_are_refused(void)
{
    struct answer a = {0};
    cleanup(buf) struct buf text = {0};
    for (int i = 0; i < 4500; i++)
        buf_str(&text, i ? "a" : "X-Big: a");
    buf_str(&text, "\r\n");
    check_int(ask(address, "GET", "/plain", buf_cstr(&text), NULL, &a), 431);
    buf_clear(&text);
    buf_str(&text, "/");
    for (int i = 0; i < 2000; i++)
        buf_str(&text, "p");
    check_int(ask(address, "GET", buf_cstr(&text), NULL, NULL, &a), 414);
    /* chunked: the length shows only as it arrives; the whole of it is sent before the answer is read */
    struct client c = client_open(address);
    static const char head[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    client_send(&c, head, sizeof head - 1);
    char chunk[1100];
    memset(chunk, ' ', sizeof chunk);
    memcpy(chunk, "400\r\n", 5);
    memcpy(chunk + 5 + 1024, "\r\n", 2);
    for (int i = 0; i < 50; i++)
        client_send(&c, chunk, 5 + 1024 + 2);
    client_send(&c, "0\r\n\r\n", 5);
    check(client_answer(&c, false, &a));
    check_int(a.status, 413);
    client_close(&c);
    /* too deep for a parser that recurses */
    buf_clear(&text);
    for (int i = 0; i < 200; i++)
        buf_str(&text, "[");
    for (int i = 0; i < 200; i++)
        buf_str(&text, "]");
    check_int(ask(address, "POST", "/echo", "Content-Type: application/json\r\n", buf_cstr(&text), &a), 400);
    check(strstr(buf_cstr(&a.body), "deeper") != NULL);
    answer_done(&a);
}

static void what_is_not_http_is_not_served(void)
{
    static const char *const texts[] = {
        "GET /plain HTTP/1.1\r\nHost : localhost\r\n\r\n", "GET /plain HTTP/1.1\r\nHost\r\n\r\n", "GET\r\n\r\n", "\r\n\r\n\r\nxx\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n{}",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2x\r\n\r\n{}",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct client c = client_open(address);
        struct answer a = {0};
        client_send(&c, texts[i], strlen(texts[i]));
        shutdown(c.fd, SHUT_WR);
        bool ok = client_answer(&c, false, &a);
        check(!ok || (a.status >= 400 && a.status < 500));
        client_close(&c);
        answer_done(&a);
    }
    struct answer a = {0};
    check_int(ask(address, "GET", "/plain", NULL, NULL, &a), 200);
    answer_done(&a);
}

static void a_refused_length_does_not_smuggle_a_request(void)
{
    /* whichever length is believed, what follows must not be answered as a second request */
    static const char text[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 60\r\n\r\n{}"
                               "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct client c = client_open(address);
    struct answer a = {0};
    client_send(&c, text, sizeof text - 1);
    check(client_answer(&c, false, &a) && a.status == 400);
    check(!client_answer(&c, false, &a));
    client_close(&c);
    answer_done(&a);
}

/* Requests with bytes changed, doubled and cut at random: whatever comes back, the server serves on. */
static void garbage_is_survived(void)
{
    static const char *const seeds[] = {
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"a\":[1,2,3]}",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n2\r\n3]\r\n0\r\n\r\n",
        "GET /query?x=a+b%26c&y=2 HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"a\", W/\"b\"\r\nCookie: a=b; c=\"d\"\r\n\r\n",
        "HEAD /stream HTTP/1.0\r\nAuthorization: Bearer pk_a_b\r\nLast-Event-ID: 7\r\n\r\n"};
    unsigned seed = (unsigned)random_u64();
    printf("seed of the garbage: %u\n", seed);
    for (int i = 0; i < 600; i++) {
        struct client c = client_open(address);
        cleanup(buf) struct buf text = {0};
        buf_str(&text, seeds[i % 4]);
        for (int k = 0; k < 1 + i % 5; k++) {
            seed = seed * 1103515245u + 12345u;
            size_t at = (seed >> 8) % text.size;
            char again[40];
            size_t size = text.size - at < sizeof again ? text.size - at : sizeof again;
            memcpy(again, text.data + at, size);
            if (seed & 64)
                text.data[at] = (char)(seed >> 20);
            else
                buf_add(&text, again, size);
        }
        client_send(&c, text.data, text.size);
        shutdown(c.fd, SHUT_WR);
        if (i % 3)
            client_more(&c, clock_mono_ns() + 20000000);
        if (i % 2)
            client_reset(&c);
        client_close(&c);
    }
    struct answer a = {0};
    check_int(ask(address, "GET", "/plain", NULL, NULL, &a), 200);
    answer_done(&a);
}

/* ---- plain service ---- */
static void one_connection_serves_many_requests(void)
{
    struct client c = client_open(address);
    struct answer a = {0};
    char value[120], etag[100], request[300];
    static const char get[] = "GET /plain HTTP/1.1\r\nHost: localhost\r\n\r\n", head[] = "HEAD /plain HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char options[] = "OPTIONS /plain HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char post[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}";
    client_send(&c, get, sizeof get - 1);
    check(client_answer(&c, false, &a) && a.status == 200);
    check_str(buf_cstr(&a.body), "hello");
    check_str(answer_header(&a, "X-Content-Type-Options", value, sizeof value), "nosniff");
    answer_header(&a, "ETag", etag, sizeof etag);
    check(strlen(etag) == 66);
    client_send(&c, head, sizeof head - 1);
    check(client_answer(&c, true, &a) && a.status == 200);
    check_str(answer_header(&a, "Content-Length", value, sizeof value), "5");
    check_str(answer_header(&a, "ETag", value, sizeof value), etag);
    snprintf(request, sizeof request, "GET /plain HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: W/\"x\", %s\r\n\r\n", etag);
    client_send(&c, request, strlen(request));
    check(client_answer(&c, false, &a) && a.status == 304);
    check_str(answer_header(&a, "ETag", value, sizeof value), etag);
    check_str(answer_header(&a, "Cache-Control", value, sizeof value), "no-cache");
    client_send(&c, options, sizeof options - 1);
    check(client_answer(&c, false, &a) && a.status == 204);
    check_str(answer_header(&a, "Allow", value, sizeof value), "GET, HEAD, OPTIONS");
    /* two at once, and a refused one in between keeps the connection */
    client_send(&c, post, sizeof post - 1);
    static const char missing[] = "GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client_send(&c, missing, sizeof missing - 1);
    client_send(&c, get, sizeof get - 1);
    check(client_answer(&c, false, &a) && a.status == 200);
    check_str(buf_cstr(&a.body), "{\"a\":1}\n");
    check(client_answer(&c, false, &a) && a.status == 404);
    check(client_answer(&c, false, &a) && a.status == 200);
    client_close(&c);
    check_int(ask(address, "GET", "/query?x=a+b%26c&y=2", NULL, NULL, &a), 200);
    check_str(buf_cstr(&a.body), "a b&c");
    check_int(ask(address, "GET", "/plain", "Origin: http://127.0.0.1:1\r\n", NULL, &a), 403);
    char origin[120];
    snprintf(origin, sizeof origin, "Origin: http://%s\r\n", address);
    check_int(ask(address, "GET", "/plain", origin, NULL, &a), 200);
    answer_done(&a);
}

static void *ask_slow(void *arg)
{
    struct answer a = {0};
    *(int *)arg = ask(address, "POST", "/slow", NULL, "", &a);
    answer_done(&a);
    return NULL;
}

static void slow_writes_do_not_hold_up_readers(void)
{
    pthread_t threads[4];
    int status[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, ask_slow, &status[i]);
    check(becomes(&slow_at_work, 4, 2000000000));    /* all at once: four workers */
    struct answer a = {0};
    int64_t from = clock_mono_ns();
    for (int i = 0; i < 20; i++)
        check_int(ask(address, "GET", "/plain", NULL, NULL, &a), 200);
    check(clock_mono_ns() - from < 250000000 || atomic_load(&slow_at_work) == 4);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        check_int(status[i], 200);
    }
    answer_done(&a);
}

static void tokens_close_the_door(void)
{
    struct token_new t = token_make();
    struct err err;
    struct answer a = {0};
    char header[200], value[100];
    check(auth_add(auth, t.id, t.secret_hash.text, SCOPE_READ, &err));
    check_int(ask(address, "GET", "/plain", NULL, NULL, &a), 401);
    check(!strncmp(answer_header(&a, "WWW-Authenticate", value, sizeof value), "Bearer", 6));
    check_int(ask(address, "GET", "/open", NULL, NULL, &a), 200);
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", t.text);
    check_int(ask(address, "GET", "/plain", header, NULL, &a), 200);
    check_int(ask(address, "POST", "/slow", header, "", &a), 403);
    header[strlen(header) - 3] ^= 1;
    check_int(ask(address, "GET", "/plain", header, NULL, &a), 401);
    auth_remove(auth, t.id);
    check_int(ask(address, "GET", "/plain", NULL, NULL, &a), 200);
    answer_done(&a);
}

/* ---- waits ---- */
static void a_wait_ends_with_news_or_with_time(void)
{
    struct answer a = {0};
    int64_t from = clock_mono_ns();
    check_int(ask(address, "GET", "/wait", NULL, NULL, &a), 200);
    check_str(buf_cstr(&a.body), "nothing");
    check(clock_mono_ns() - from >= 390000000);
    struct client c = client_open(address);
    static const char get[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client_send(&c, get, sizeof get - 1);
    clock_sleep_ns(100000000);
    from = clock_mono_ns();
    tell(1);
    check(client_answer(&c, false, &a));
    check_str(buf_cstr(&a.body), "news");
    check(clock_mono_ns() - from < 250000000);
    client_close(&c);
    tell(0);
    check(waiting_becomes(0, CLIENT_WAIT_NS));         /* the place of the wait just answered is free */
    answer_done(&a);
}

static void one_wait_too_many_is_refused_and_holds_no_place(void)
{
    static const char get[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct answer a = {0};
    struct client many[WAITERS];
    atomic_store(&patience_ns, 4 * CLIENT_WAIT_NS);     /* only news ends them */
    check(waiting_becomes(0, CLIENT_WAIT_NS));
    for (int i = 0; i < WAITERS; i++) {
        many[i] = client_open(address);
        client_send(&many[i], get, sizeof get - 1);
    }
    check(waiting_becomes(WAITERS, CLIENT_WAIT_NS));
    for (int i = 0; i < 3; i++) {
        check_int(ask(address, "GET", "/wait", NULL, NULL, &a), 503);
        check(waiting_becomes(WAITERS, CLIENT_WAIT_NS));
    }
    tell(1);
    for (int i = 0; i < WAITERS; i++) {
        check(client_answer(&many[i], false, &a));
        check_int(a.status, 200);
        check_str(buf_cstr(&a.body), "news");
        client_close(&many[i]);
    }
    check(waiting_becomes(0, CLIENT_WAIT_NS));
    tell(0);
    atomic_store(&patience_ns, 400000000);
    check_int(ask(address, "GET", "/wait", NULL, NULL, &a), 200);      /* and all places serve again */
    answer_done(&a);
}

/* ---- streams ---- */
static const char get_stream_text[] = "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n";

static struct client stream_open(const char *request, struct answer *a)
{
    struct client c = client_open(address);
    client_send(&c, request, strlen(request));
    check(client_answer(&c, false, a));
    return c;
}

static void a_stream_tells_what_happens_and_breathes(void)
{
    struct answer a = {0};
    char value[100];
    tell(2);
    struct client c = stream_open(get_stream_text, &a);
    check_int(a.status, 200);
    check_str(answer_header(&a, "Content-Type", value, sizeof value), "text/event-stream");
    check_str(answer_header(&a, "Cache-Control", value, sizeof value), "no-store");
    check_str(answer_header(&a, "X-Accel-Buffering", value, sizeof value), "no");
    check(client_until(&c, "retry: 2000\n\n", CLIENT_WAIT_NS));
    size_t at = client_until(&c, "id: 2\ndata: {}\n\n", CLIENT_WAIT_NS);
    check(at > 0);
    c.at = at;
    check(client_until(&c, ":\n\n", 4 * HEARTBEAT_NS));          /* silence: a comment */
    c.at = c.in.size;
    int64_t from = clock_mono_ns();
    tell(3);
    check(client_until(&c, "id: 3\n", CLIENT_WAIT_NS));
    check(clock_mono_ns() - from < HEARTBEAT_NS);
    check(!memmem(c.in.data + c.at, c.in.size - c.at, "id: 2\n", 6));
    /* HEAD opens none; the end of the stream ends the answer */
    check_int(ask(address, "HEAD", "/stream", NULL, NULL, &a), 200);
    check(becomes(&streams_open, 1, 1000000000));
    tell(1000);
    check(client_until(&c, "id: 1000\n", CLIENT_WAIT_NS));
    check(client_until(&c, "0\r\n\r\n", CLIENT_WAIT_NS));
    client_close(&c);
    check(becomes(&streams_open, 0, 1000000000));
    tell(0);
    answer_done(&a);
}

static void streams_are_counted_and_the_gone_are_forgotten(void)
{
    struct answer a = {0};
    struct client many[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        many[i] = stream_open(get_stream_text, &a);
    check_int(ask(address, "GET", "/stream", NULL, NULL, &a), 503);
    check(strstr(buf_cstr(&a.head), "Retry-After") != NULL);
    client_close(&many[0]);            /* says goodbye */
    client_reset(&many[1]);            /* does not */
    /* their places are free long before a heartbeat would have told */
    check(becomes(&streams_open, STREAMS - 2, HEARTBEAT_NS * 7 / 10));
    many[0] = stream_open(get_stream_text, &a);
    check_int(a.status, 200);
    for (int i = 0; i < STREAMS; i++)
        if (i != 1)
            client_close(&many[i]);
    check(becomes(&streams_open, 0, 2000000000));
    answer_done(&a);
}

static void a_half_closed_reader_still_reads(void)
{
    struct answer a = {0};
    struct client c = stream_open(get_stream_text, &a);
    shutdown(c.fd, SHUT_WR);
    clock_sleep_ns(50000000);
    tell(1);
    check(client_until(&c, "id: 1\n", CLIENT_WAIT_NS));
    client_close(&c);
    check(becomes(&streams_open, 0, 3 * HEARTBEAT_NS));
    tell(0);
    answer_done(&a);
}

static long resident_kib(void)
{
    cleanup(file) FILE *f = fopen("/proc/self/statm", "r");
    long size = 0, resident = 0;
    if (!f || fscanf(f, "%ld %ld", &size, &resident) != 2)
        return 0;
    return resident * 4;
}

static void a_client_that_does_not_read_costs_nothing(void)
{
    struct answer a = {0};
    struct client c[4];
    long before = resident_kib();
    for (int i = 0; i < 4; i++)
        c[i] = stream_open("GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n", &a);
    clock_sleep_ns(300000000);
    int64_t from = clock_mono_ns();
    for (int i = 0; i < 50; i++)
        check_int(ask(address, "GET", "/plain", NULL, NULL, &a), 200);
    check(clock_mono_ns() - from < 2000000000);
    check(resident_kib() - before < 20000);
    /* standing still for longer than the connection timeout: cut off */
    check(becomes(&streams_open, 0, 8000000000));
    for (int i = 0; i < 4; i++)
        client_close(&c[i]);
    answer_done(&a);
}

/* ---- stopping ---- */
static void stopping_ends_streams_and_finishes_work(void)
{
    struct answer a = {0};
    tell(1);
    struct client c = stream_open(get_stream_text, &a), idle = client_open(address);
    static const char get[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
    check(client_until(&c, "id: 1\n", CLIENT_WAIT_NS));
    tell(0);
    struct client waiting = client_open(address);
    client_send(&waiting, get, sizeof get - 1);
    pthread_t thread;
    int status = 0;
    pthread_create(&thread, NULL, ask_slow, &status);
    check(becomes(&slow_at_work, 1, 2000000000));
    int64_t from = clock_mono_ns();
    http_stop(server, 1500000000);
    check(clock_mono_ns() - from < 900000000);
    pthread_join(thread, NULL);
    check_int(status, 200);                                   /* what was being written was finished and answered */
    check(client_until(&c, "0\r\n\r\n", CLIENT_WAIT_NS));     /* the stream ended properly */
    check(client_answer(&waiting, false, &a) && (a.status == 503 || a.status == 200));
    check_int(atomic_load(&streams_open), 0);
    struct client late = client_open(address);
    check(late.fd < 0);
    client_close(&c);
    client_close(&idle);
    client_close(&waiting);
    client_close(&late);
    http_close(server);
    answer_done(&a);
}

static void an_address_must_make_sense(void)
{
    static const char *const bad[] = {"", "7070", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "nowhere.example:80", ":80"};
    struct err err;
    struct http_server *s = NULL;
    struct http_config c = {.listen = "", .threads = 1, .workers = 1, .connections = 16, .streams = 1, .waiters = 1, .routes = routes,
                            .route_count = 1, .auth = auth};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        c.listen = bad[i];
        check(!http_open(&c, &s, &err) && err.code == ERR_INVALID);
    }
    c.listen = "0.0.0.0:0";
    check(!http_open(&c, &s, &err) && err.code == ERR_INVALID && strstr(err.text, "token"));
    c.listen = address;
    check(!http_open(&c, &s, &err) && err.code == ERR_UNAVAILABLE && strstr(err.text, address));
    auth_set_loopback(auth, true);
}

int main(void)
{
    log_threshold(LOG_ERROR + 1);
    auth = auth_new(10);
    server_start();
    an_address_must_make_sense();
    bad_requests_get_a_problem_that_says_why();
    large_things_are_refused();
    what_is_not_http_is_not_served();
    a_refused_length_does_not_smuggle_a_request();
    garbage_is_survived();
    one_connection_serves_many_requests();
    slow_writes_do_not_hold_up_readers();
    tokens_close_the_door();
    a_wait_ends_with_news_or_with_time();
    one_wait_too_many_is_refused_and_holds_no_place();
    a_stream_tells_what_happens_and_breathes();
    streams_are_counted_and_the_gone_are_forgotten();
    a_half_closed_reader_still_reads();
    a_client_that_does_not_read_costs_nothing();
    stopping_ends_streams_and_finishes_work();
    auth_free(auth);
    return test_done();
}

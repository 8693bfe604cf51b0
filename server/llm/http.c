/*
 * One request by curl, on the caller's thread: a multi handle with one transfer, so that it can be looked at ten times a second
 * whether it must stop and which of its limits has passed. Curl's own clocks know neither "first byte" nor "between bytes".
 */
#include "server/llm/internal.h"

#include <curl/curl.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#define LOOK_NS ((int64_t)50 * 1000000)
#define ERROR_BYTES ((size_t)16 << 10)
#define HEAD_BYTES_MOST ((size_t)256 << 10)
#define RETRY_AFTER_MOST_S ((int64_t)1 << 31)

struct transfer {
    const struct http_ask *ask;
    struct http_end *end;
    CURL *easy;
    int64_t began_ns, connected_ns, last_ns;     /* last: when a byte of the answer came */
    bool enough, is_stream, first_came;
    size_t head_bytes;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode started;

static void start_once(void)
{
    started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

bool http_start(struct err *err)
{
    pthread_once(&once, start_once);
    return started == CURLE_OK || err_set(err, ERR_INTERNAL, "curl: %s", curl_easy_strerror(started));
}

void http_end_done(struct http_end *e)
{
    buf_done(&e->error);
}

/* Seconds, or a date. */
static int64_t parse_retry_after(const char *value)
{
    size_t digits = strspn(value, "0123456789");
    if (digits && digits <= 10 && strspn(value + digits, " \t\r\n") == strlen(value + digits)) {
        int64_t s = strtoll(value, NULL, 10);
        return (s < RETRY_AFTER_MOST_S ? s : RETRY_AFTER_MOST_S) * 1000000000;
    }
    time_t at = curl_getdate(value, NULL);
    int64_t left_s = (int64_t)at - clock_wall_ns() / 1000000000;          /* whole seconds: a date may be as far as anybody likes */
    if (at < 0)
        return -1;
    return left_s <= 0 ? 0 : (left_s < RETRY_AFTER_MOST_S ? left_s : RETRY_AFTER_MOST_S) * 1000000000;
}

static size_t on_header(char *data, size_t one, size_t size, void *ctx)
{
    struct transfer *t = ctx;
    char line[512];
    /* Curl keeps what comes before the body: an endless head is cut off here. */
    t->head_bytes += size;
    if (t->head_bytes > HEAD_BYTES_MOST)
        return 0;
    static const char retry[] = "retry-after:", type[] = "content-type:";
    (void)one;
    snprintf(line, sizeof line, "%.*s", (int)(size < sizeof line ? size : sizeof line - 1), data);
    t->first_came = true;
    t->last_ns = clock_mono_ns();
    if (!strncmp(line, "HTTP/", 5))
        t->end->retry_after_ns = -1;
    if (!strncasecmp(line, retry, sizeof retry - 1))
        t->end->retry_after_ns = parse_retry_after(line + sizeof retry - 1 + strspn(line + sizeof retry - 1, " \t"));
    if (!strncasecmp(line, type, sizeof type - 1))
        t->is_stream = strcasestr(line, "text/event-stream") != NULL;
    return size;
}

static size_t on_body(char *data, size_t one, size_t size, void *ctx)
{
    struct transfer *t = ctx;
    long status = 0;
    (void)one;
    t->first_came = true;
    t->last_ns = clock_mono_ns();
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) {
        t->end->error.limit = ERROR_BYTES;
        buf_add(&t->end->error, data, size);
        t->enough = t->end->error.overflow;      /* what follows is not looked at */
    } else {
        t->enough = !t->ask->sink(t->ask->sink_ctx, data, size, t->is_stream);
    }
    return t->enough ? CURL_WRITEFUNC_ERROR : size;
}

static bool is_loopback(const char *url)
{
    static const char *const hosts[] = {"://127.", "://localhost", "://[::1]"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (strstr(url, hosts[i]))
            return true;
    return false;
}

static void set_up(struct transfer *t, struct curl_slist *headers)
{
    const struct http_ask *a = t->ask;
    CURL *c = t->easy;
    curl_easy_setopt(c, CURLOPT_URL, a->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);    /* the key is for the endpoint, not for a proxy's CONNECT */
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_POST, 1L);
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, a->body);
    curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)a->body_bytes);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(a->connect_ns / 1000000 + 1));
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "proteus/" PROTEUS_VERSION);
    if (is_loopback(a->url))
        curl_easy_setopt(c, CURLOPT_PROXY, "");
}

/* Which limit has passed; HTTP_DONE: none. */
static enum http_how limits(struct transfer *t)
{
    const struct http_ask *a = t->ask;
    int64_t now = clock_mono_ns();
    double connect_s = 0;
    if (!t->connected_ns && curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME, &connect_s) == CURLE_OK && connect_s > 0)
        t->connected_ns = now;
    if (a->stopped && a->stopped(a->stopped_ctx))
        return HTTP_CANCELLED;
    if (now - t->began_ns > a->whole_ns)
        return HTTP_TOO_LONG;
    if (t->connected_ns && !t->first_came && now - t->connected_ns > a->first_byte_ns)
        return HTTP_NO_FIRST_BYTE;
    return t->first_came && now - t->last_ns > a->stall_ns ? HTTP_STALLED : HTTP_DONE;
}

static enum http_how how_it_ended(const struct transfer *t, CURLcode code)
{
    static const struct { CURLcode code; enum http_how how; } table[] = {
        {CURLE_OK, HTTP_DONE}, {CURLE_COULDNT_CONNECT, HTTP_NO_CONNECTION}, {CURLE_COULDNT_RESOLVE_HOST, HTTP_NO_CONNECTION},
        {CURLE_COULDNT_RESOLVE_PROXY, HTTP_NO_CONNECTION}, {CURLE_SSL_CONNECT_ERROR, HTTP_NO_CONNECTION},
        {CURLE_PEER_FAILED_VERIFICATION, HTTP_NO_CONNECTION}};
    if (t->enough)
        return HTTP_ENOUGH;
    if (code == CURLE_OPERATION_TIMEDOUT && !t->connected_ns)
        return HTTP_NO_CONNECTION;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code)
            return table[i].how;
    return HTTP_BROKEN;
}

/* Turns the handles until the transfer has ended or must. */
static void turn(struct transfer *t, CURLM *multi)
{
    int running = 1;
    for (;;) {
        CURLMcode code = curl_multi_perform(multi, &running);
        if (code != CURLM_OK) {
            t->end->how = HTTP_BROKEN;
            snprintf(t->end->text, sizeof t->end->text, "%s", curl_multi_strerror(code));
            return;
        }
        if (!running)
            break;
        enum http_how passed = limits(t);
        if (passed != HTTP_DONE) {
            t->end->how = passed;
            return;
        }
        curl_multi_poll(multi, NULL, 0, (int)(LOOK_NS / 1000000), NULL);
    }
    int left;
    CURLMsg *m = curl_multi_info_read(multi, &left);
    CURLcode result = m && m->msg == CURLMSG_DONE ? m->data.result : CURLE_RECV_ERROR;
    t->end->how = how_it_ended(t, result);
    if (result != CURLE_OK && !t->enough)
        snprintf(t->end->text, sizeof t->end->text, "%s", curl_easy_strerror(result));
}

void http_run(const struct http_ask *ask, struct http_end *ret)
{
    *ret = (struct http_end){.how = HTTP_BROKEN, .retry_after_ns = -1};
    struct transfer t = {.ask = ask, .end = ret, .easy = curl_easy_init(), .began_ns = clock_mono_ns()};
    CURLM *multi = curl_multi_init();
    struct curl_slist *headers = NULL;
    BUG_ON(!t.easy || !multi);
    for (const char *const *h = ask->headers; *h; h++)
        headers = curl_slist_append(headers, *h);
    headers = curl_slist_append(headers, "Expect:");
    set_up(&t, headers);
    curl_multi_add_handle(multi, t.easy);
    turn(&t, multi);
    long status = 0;
    curl_off_t sent = 0;
    curl_easy_getinfo(t.easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(t.easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    ret->status = status >= 200 ? (int)status : 0;       /* what only promises an answer (1xx) is none */
    ret->sent = sent >= (curl_off_t)ask->body_bytes;
    curl_multi_remove_handle(multi, t.easy);
    curl_easy_cleanup(t.easy);
    curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
}

#include "api/cli/client.h"

#include <ctype.h>
#include <curl/curl.h>
#include <string.h>

#define CONNECT_TIMEOUT_S 10
#define SILENCE_LIMIT_S 45         /* of a stream: three heartbeats */
#define REFUSAL_MAX_BYTES ((size_t)1 << 20)

volatile int client_interrupted;

DEFINE_CLEANUP(curl, CURL *, curl_easy_cleanup(*it))
DEFINE_CLEANUP(headers, struct curl_slist *, curl_slist_free_all(*it))

struct transfer {
    CURL *curl;
    struct reply *reply;
    size_t limit;
    bool too_large, stopped;
    client_piece *piece;
    void *ctx;
};

void reply_done(struct reply *r)
{
    buf_done(&r->body);
    json_decref(r->doc);
    *r = (struct reply){0};
}

static size_t take(char *bytes, size_t one, size_t size, void *ctx)
{
    struct transfer *t = ctx;
    long status = 0;
    (void)one;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    if (t->piece && status == 200) {
        t->stopped = !t->piece(t->ctx, bytes, size);
        return t->stopped ? CURL_WRITEFUNC_ERROR : size;
    }
    if (t->reply->body.size + size > t->limit) {
        t->too_large = true;
        return CURL_WRITEFUNC_ERROR;
    }
    buf_add(&t->reply->body, bytes, size);
    return size;
}

static int progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)ctx, (void)a, (void)b, (void)c, (void)d;
    return client_interrupted;
}

static bool err_from_curl(CURLcode code, const struct client *c, const struct transfer *t, const char *text, struct err *err)
{
    if (client_interrupted)
        return err_set(err, ERR_CONFLICT, "interrupted");
    if (t->too_large)
        return err_set(err, ERR_UPSTREAM, "the answer is larger than %zu bytes", t->limit);
    const char *why = *text ? text : curl_easy_strerror(code);
    switch ((int)code) {
    case CURLE_OPERATION_TIMEDOUT:
        return err_set(err, ERR_TIMEOUT, "%s does not answer: %s", c->server, why);
    case CURLE_COULDNT_RESOLVE_HOST: case CURLE_COULDNT_CONNECT: case CURLE_SSL_CONNECT_ERROR: case CURLE_PEER_FAILED_VERIFICATION:
        return err_set(err, ERR_UNAVAILABLE, "cannot reach %s: %s (is proteusd running? --server or PROTEUS_SERVER names another)",
                       c->server, why);
    case CURLE_URL_MALFORMAT:
        return err_set(err, ERR_INVALID, "\"%s\" is not the address of a server: wanted http://HOST:PORT", c->server);
    default:
        return err_set(err, ERR_UPSTREAM, "the connection to %s failed: %s", c->server, why);
    }
}

static struct curl_slist *headers_for(const struct client *c, const char *body_type, bool stream, const char *last_event_id, const char *extra)
{
    struct curl_slist *list = NULL;
    list = curl_slist_append(list, stream ? "Accept: text/event-stream" : "Accept: application/json, */*");
    list = curl_slist_append(list, "Expect:");
    cleanup(str) char *type = xfmt("Content-Type:%s%s", body_type ? " " : "", body_type ? body_type : "");
    list = curl_slist_append(list, type);
    if (c->token) {
        cleanup(str) char *line = xfmt("Authorization: Bearer %s", c->token);
        list = curl_slist_append(list, line);
    }
    if (last_event_id && *last_event_id) {
        cleanup(str) char *line = xfmt("Last-Event-ID: %s", last_event_id);
        list = curl_slist_append(list, line);
    }
    return extra ? curl_slist_append(list, extra) : list;
}

/* A proxy from the environment is never in the way to this machine itself. */
static char *no_proxy(void)
{
    const char *lower = getenv("no_proxy"), *upper = getenv("NO_PROXY"), *given = lower ? lower : upper;
    return xfmt("%s%slocalhost,127.0.0.1,::1", given ? given : "", given && *given ? "," : "");
}

static bool base_set(CURL *curl, const struct client *c, const char *path, struct transfer *t, char *text)
{
    cleanup(str) char *url = xfmt("%.*s%s", (int)(strlen(c->server) - (c->server[strlen(c->server) - 1] == '/')), c->server, path);
    cleanup(str) char *direct = no_proxy();
    return !curl_easy_setopt(curl, CURLOPT_URL, url) && !curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl_easy_setopt(curl, CURLOPT_NOPROXY, direct) && !curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L) && !curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text) &&
           !curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S) &&
           !curl_easy_setopt(curl, CURLOPT_USERAGENT, "proteus/" PROTEUS_VERSION) &&
           !curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take) && !curl_easy_setopt(curl, CURLOPT_WRITEDATA, t) &&
           !curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, progress) && !curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

static void note_type(CURL *curl, struct reply *r)
{
    const char *type = NULL;
    if (curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type) || !type)
        return;
    size_t n = 0;
    for (; type[n] && type[n] != ';' && type[n] != ' ' && n + 1 < sizeof r->type; n++)
        r->type[n] = (char)tolower((unsigned char)type[n]);
    r->type[n] = 0;
}

static bool is_json(const char *type)
{
    size_t n = strlen(type);
    return !strcmp(type, "application/json") || (n > 5 && !strcmp(type + n - 5, "+json"));
}

static bool finish(CURL *curl, struct reply *r, struct err *err)
{
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    r->status = (int)status;
    note_type(curl, r);
    if (!is_json(r->type) || !r->body.size)
        return true;
    struct err why = {0};
    return json_parse(r->body.data, r->body.size, &r->doc, &why) || err_set(err, ERR_UPSTREAM, "the server's answer: %s", why.text);
}

static bool perform(const struct client *c, CURL *curl, struct transfer *t, const char *text, struct err *err)
{
    CURLcode code = curl_easy_perform(curl);
    if (code != CURLE_OK && !t->stopped)
        return err_from_curl(code, c, t, text, err);
    return finish(curl, t->reply, err);
}

bool client_post(const struct client *c, const char *method, const char *path, const char *content, const char *type, const char *header,
                 size_t limit_bytes, struct reply *ret, struct err *err)
{
    char text[CURL_ERROR_SIZE] = "";
    cleanup(curl) CURL *curl = curl_easy_init();
    cleanup(headers) struct curl_slist *headers = headers_for(c, content ? type : NULL, false, NULL, header);
    struct transfer t = {.curl = curl, .reply = ret, .limit = limit_bytes};
    if (!curl || !base_set(curl, c, path, &t, text) || curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers) ||
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method) || curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)c->timeout_s))
        return err_set(err, ERR_INTERNAL, "libcurl could not be set up");
    if (content || !strcmp(method, "POST")) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)(content ? strlen(content) : 0));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, content ? content : "");
    }
    return perform(c, curl, &t, text, err);
}

bool client_call(const struct client *c, const char *method, const char *path, const json_t *body, const char *header,
                 size_t limit_bytes, struct reply *ret, struct err *err)
{
    cleanup(str) char *content = body ? json_text(body) : NULL;
    return client_post(c, method, path, content, "application/json", header, limit_bytes, ret, err);
}

bool client_stream(const struct client *c, const char *path, const char *last_event_id, client_piece *piece, void *ctx,
                   struct reply *ret, struct err *err)
{
    char text[CURL_ERROR_SIZE] = "";
    cleanup(curl) CURL *curl = curl_easy_init();
    cleanup(headers) struct curl_slist *headers = headers_for(c, NULL, true, last_event_id, NULL);
    struct transfer t = {.curl = curl, .reply = ret, .limit = REFUSAL_MAX_BYTES, .piece = piece, .ctx = ctx};
    if (!curl || !base_set(curl, c, path, &t, text) || curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers) ||
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L) || curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_LIMIT_S))
        return err_set(err, ERR_INTERNAL, "libcurl could not be set up");
    return perform(c, curl, &t, text, err);
}

char *client_escape(const char *text)
{
    struct buf b = {0};
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c < 0x80 && isalnum(c)) || strchr("-._~", c))
            buf_add(&b, text, 1);
        else
            buf_fmt(&b, "%%%02X", c);
    }
    return buf_take(&b);
}

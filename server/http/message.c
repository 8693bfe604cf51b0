/* Responses and problems, and the small parsers of what a stranger's headers hold. Nothing here knows a socket. */
#include "server/http/http.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>

static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"};

const char *http_method_name(enum http_method m)
{
    return m < HTTP_OTHER ? methods[m] : "OTHER";
}

enum http_method http_method_parse(const char *text)
{
    for (int i = 0; i < HTTP_OTHER; i++)
        if (!strcmp(text, methods[i]))
            return (enum http_method)i;
    return HTTP_OTHER;
}

void response_done(struct response *res)
{
    buf_done(&res->body);
    http_blob_free(res->blob);
    if (res->stream.done)
        res->stream.done(res->stream.ctx);
    for (int i = 0; i < res->header_count; i++)
        free(res->headers[i].value);
    *res = (struct response){0};
}

void respond_json(struct response *res, int status, json_t *doc)
{
    res->status = status;
    res->content_type = "application/json";
    buf_clear(&res->body);
    json_write(&res->body, doc);
    buf_str(&res->body, "\n");
    json_decref(doc);
}

void respond_text(struct response *res, int status, const char *content_type, const char *text)
{
    res->status = status;
    res->content_type = content_type;
    buf_clear(&res->body);
    buf_str(&res->body, text);
}

void respond_blob(struct response *res, struct http_blob *b)
{
    res->status = 200;
    res->blob = b;
}

void respond_header(struct response *res, const char *name, const char *fmt, ...)
{
    BUG_ON(res->header_count >= RESPONSE_MAX_HEADERS);
    struct buf value = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(&value, fmt, ap);
    va_end(ap);
    /* a line break in a value would be a header of its own */
    for (char *c = value.data; c && *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    res->headers[res->header_count].name = name;
    res->headers[res->header_count++].value = buf_take(&value);
}

void respond_etag(struct response *res, const char *cache_control)
{
    snprintf(res->etag, sizeof res->etag, "\"%s\"", hash_of(buf_cstr(&res->body), res->body.size).text);
    res->cache_control = cache_control;
}

void respond_wait(struct response *res, int64_t until_ns)
{
    res->wait_until_ns = until_ns;
}

void respond_problem(const struct request *req, struct response *res, int status, const char *code, const char *title,
                     const char *detail, json_t *extra)
{
    response_done(res);
    json_t *doc = json_object();
    char type[80];
    snprintf(type, sizeof type, "/problems/%s", code);
    for (char *c = type; *c; c++)
        if (*c == '_')
            *c = '-';
    json_put_str(doc, "type", type);
    json_put_str(doc, "title", title);
    json_put_int(doc, "status", status);
    json_put_str(doc, "detail", detail);
    json_put_str(doc, "code", code);
    json_put_str(doc, "request_id", req->id);
    if (status == 429 || status == 503) {
        json_put_int(doc, "retry_after_s", 1);
        respond_header(res, "Retry-After", "1");
    }
    if (status == 401)
        respond_header(res, "WWW-Authenticate", "Bearer realm=\"proteus\"");
    if (extra)
        json_object_update_missing(doc, extra);
    json_decref(extra);
    respond_json(res, status, doc);
    res->content_type = "application/problem+json";
}

void respond_err(const struct request *req, struct response *res, const struct err *err)
{
    respond_problem(req, res, err_http_status(err->code), err_name(err->code), err_title(err->code), err->text, NULL);
}

void respond_faults(const struct request *req, struct response *res, const struct err *err, const struct faults *f)
{
    struct err why = err ? *err : (struct err){0};
    if (!f->count) {
        respond_err(req, res, &why);
        return;
    }
    if (why.code == ERR_OK)
        why.code = ERR_INVALID;
    json_t *errors = json_array();
    for (int i = 0; i < f->count && i < FAULTS_MAX; i++) {
        json_t *fault = json_object();
        json_put_str(fault, "pointer", f->list[i].pointer);
        json_put_str(fault, "detail", f->list[i].detail);
        json_array_append_new(errors, fault);
    }
    json_t *extra = json_object();
    json_put(extra, "errors", errors);
    char detail[640];
    if (why.text[0])
        snprintf(detail, sizeof detail, "%s", why.text);
    else if (f->count == 1)
        snprintf(detail, sizeof detail, "%s: %s", f->list[0].pointer[0] ? f->list[0].pointer : "the body", f->list[0].detail);
    else
        snprintf(detail, sizeof detail, "%d faults; the first: %s: %s", f->count,
                 f->list[0].pointer[0] ? f->list[0].pointer : "the body", f->list[0].detail);
    respond_problem(req, res, err_http_status(why.code), err_name(why.code), err_title(why.code), detail, extra);
}

void respond_bad_query(const struct request *req, struct response *res, const char *name, const char *fmt, ...)
{
    cleanup(buf) struct buf detail = {0};
    buf_fmt(&detail, "the query parameter \"%s\" ", name);
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(&detail, fmt, ap);
    va_end(ap);
    json_t *extra = json_pack("{s:[{s:s, s:s}]}", "errors", "parameter", name, "detail", buf_cstr(&detail));
    respond_problem(req, res, 400, err_name(ERR_INVALID), err_title(ERR_INVALID), buf_cstr(&detail), extra);
}

static bool decimal_parse(const char *text, int64_t *ret)
{
    size_t digits = strlen(text);
    if (!digits || digits > 18 || strspn(text, "0123456789") != digits)
        return false;
    *ret = strtoll(text, NULL, 10);
    return true;
}

bool request_int(const struct request *req, struct response *res, const char *name, int64_t least, int64_t most,
                 int64_t fallback, int64_t *ret)
{
    const char *text = req->query(req, name);
    int64_t value = fallback;
    if (text && (!decimal_parse(text, &value) || value < least || value > most)) {
        respond_bad_query(req, res, name, "must be an integer from %lld to %lld", (long long)least, (long long)most);
        return false;
    }
    *ret = value;
    return true;
}

static const char *opaque_tag(const char *etag)
{
    return strncmp(etag, "W/", 2) ? etag : etag + 2;
}

bool etag_matches(const char *if_none_match, const char *etag)
{
    const char *want = opaque_tag(etag);
    size_t want_bytes = strlen(want);
    for (const char *at = if_none_match; *at;) {
        at += strspn(at, " \t,");
        if (*at == '*')
            return true;
        at = opaque_tag(at);
        const char *end = *at == '"' ? strchr(at + 1, '"') : NULL;
        if (!end)
            return false;
        if ((size_t)(end + 1 - at) == want_bytes && !memcmp(at, want, want_bytes))
            return true;
        at = end + 1;
    }
    return false;
}

/* Length of the name in "name:port", or 0 if what follows the name is not a port. */
static size_t host_name_bytes(const char *host)
{
    const char *close = host[0] == '[' ? strchr(host, ']') : NULL;
    const char *end = close ? close + 1 : host + strcspn(host, ":");
    if (*end == ':' && (strspn(end + 1, "0123456789") != strlen(end + 1) || strlen(end + 1) > 5))
        return 0;
    return *end && *end != ':' ? 0 : (size_t)(end - host);
}

bool host_is_local(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    size_t bytes = host_name_bytes(host);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (bytes == strlen(names[i]) && !strncasecmp(host, names[i], bytes))
            return true;
    return false;
}

bool origin_is_same(const char *origin, const char *host)
{
    const char *from = !strncasecmp(origin, "http://", 7) ? origin + 7 : !strncasecmp(origin, "https://", 8) ? origin + 8 : NULL;
    return from && host && !strcasecmp(from, host);
}

static bool media_type_is(const char *content_type, const char *want)
{
    if (strncasecmp(content_type, want, strlen(want)))
        return false;
    const char *rest = content_type + strlen(want);
    rest += strspn(rest, " \t");
    if (!*rest)
        return true;
    if (*rest != ';')
        return false;
    rest += 1 + strspn(rest + 1, " \t");
    return !*rest || !strcasecmp(rest, "charset=utf-8") || !strcasecmp(rest, "charset=\"utf-8\"");
}

bool media_type_is_json(const char *content_type)
{
    return media_type_is(content_type, "application/json");
}

bool media_type_is_lines(const char *content_type)
{
    return media_type_is(content_type, "application/x-ndjson") || media_type_is(content_type, "application/jsonl");
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool url_decode(char *text, bool slashes)
{
    char *to = strchr(text, '%');
    if (!to)
        return true;
    for (const char *from = to; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);
        int byte = low < 0 ? -1 : high << 4 | low;
        if (byte <= 0 || (byte == '/' && !slashes))
            return false;
        *to++ = (char)byte;
        from += 2;
    }
    *to = 0;
    return utf8_valid(text, strlen(text));
}

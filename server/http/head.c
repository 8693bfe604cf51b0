/*
 * The head of a request: one walk over its headers, then the checks in order of how cheap they are to fail. What the library
 * lets through and a proxy in front might read otherwise (doubled lengths, odd transfer codings) is refused here. A value that goes
 * on in a second line (obsolete folding) cannot be: the library joins the lines before it shows them.
 */
#include "server/http/edge.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* A token of RFC 9110, 5.6.2. */
static const char name_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";

static const struct { const char *name; size_t offset; } singles[] = {
#define X(field, name) {name, offsetof(struct head, field)},
    SINGLE_HEADERS(X)
#undef X
};

static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct head *h = ctx;
    value = value ? value : "";
    h->bytes += strlen(name) + strlen(value) + 4;
    /* The library takes "Content-Length : 2" for a header of that name, blank included; a proxy may take it for the length. */
    if (!*name || name[strspn(name, name_characters)])
        h->odd_names++;
    if (!strcasecmp(name, "if-none-match"))
        h->if_none_match = value;
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        if ((name[0] | 0x20) == (singles[i].name[0] | 0x20) && !strcasecmp(name, singles[i].name)) {
            const char **at = (const char **)(void *)((char *)h + singles[i].offset);
            if (*at)
                h->doubled = singles[i].name;
            *at = value;
        }
    return MHD_YES;
}

static bool refuse(struct exchange *ex, bool closes, enum err_code code, const char *text)
{
    struct err err;
    err_set(&err, code, "%s", text);
    respond_err(&ex->req, &ex->res, &err);
    ex->closes |= closes;
    return false;
}

/* How long the body is must be said once and plainly. */
static bool check_framing(struct exchange *ex)
{
    const struct head *h = &ex->head;
    if (h->odd_names)
        return refuse(ex, true, ERR_INVALID, "the name of a header holds a blank or another character that none may hold");
    if (h->doubled) {
        char text[80];
        snprintf(text, sizeof text, "the header %s is there more than once", h->doubled);
        return refuse(ex, true, ERR_INVALID, text);
    }
    if (h->transfer_encoding && h->content_length)
        return refuse(ex, true, ERR_INVALID, "Content-Length and Transfer-Encoding exclude each other");
    if (h->transfer_encoding && strcasecmp(h->transfer_encoding, "chunked"))
        return refuse(ex, true, ERR_INVALID, "the only Transfer-Encoding accepted is \"chunked\"");
    if (h->content_length) {
        size_t digits = strlen(h->content_length);
        if (!digits || digits > 18 || strspn(h->content_length, "0123456789") != digits)
            return refuse(ex, true, ERR_INVALID, "Content-Length is not a plain decimal number");
        ex->declared_bytes = strtoll(h->content_length, NULL, 10);
    }
    ex->has_body = h->transfer_encoding || ex->declared_bytes > 0;
    return true;
}

/* Without tokens, a web page must not drive us through a name of its own that leads to 127.0.0.1. */
static bool check_rebinding(struct exchange *ex)
{
    const struct head *h = &ex->head;
    if (!auth_is_open(ex->server->config.auth))
        return true;
    if (h->host && !host_is_local(h->host))
        return refuse(ex, false, ERR_FORBIDDEN, "without tokens this service answers to the hosts localhost, 127.0.0.1 and [::1] "
                      "only; create a token to use another name");
    if (h->origin && !origin_is_same(h->origin, h->host))
        return refuse(ex, false, ERR_FORBIDDEN, "without tokens this service takes requests of its own pages only: Origin must "
                      "name the same host as Host");
    return true;
}

static bool check_body(struct exchange *ex)
{
    const struct route *route = ex->req.route;
    int64_t limit = ex->server->config.body_bytes;
    if (ex->declared_bytes > limit) {
        char text[96];
        snprintf(text, sizeof text, "the body has %lld bytes; at most %lld are accepted", (long long)ex->declared_bytes,
                 (long long)limit);
        return refuse(ex, false, ERR_TOO_LARGE, text);
    }
    if (ex->has_body && (route->method == HTTP_GET || route->method == HTTP_DELETE))
        return refuse(ex, true, ERR_INVALID, "a request of this method has no body");
    if (ex->has_body && ex->head.content_encoding && strcasecmp(ex->head.content_encoding, "identity"))
        return refuse(ex, false, ERR_MEDIA_TYPE, "a body is taken as it is: no Content-Encoding but \"identity\"");
    if (route->flags & ROUTE_LINES && (!ex->head.content_type || !media_type_is_lines(ex->head.content_type)))
        return refuse(ex, false, ERR_MEDIA_TYPE, "the body must be JSON lines, sent with \"Content-Type: application/x-ndjson\"");
    if (!(route->flags & ROUTE_JSON))
        return true;
    if (!ex->has_body && (route->flags & ROUTE_OPTIONAL))
        return true;
    if (!ex->head.content_type || !media_type_is_json(ex->head.content_type))
        return refuse(ex, false, ERR_MEDIA_TYPE, "the body must be JSON, sent with \"Content-Type: application/json\"");
    return true;
}

bool head_read(struct exchange *ex)
{
    MHD_get_connection_values(ex->connection, MHD_HEADER_KIND, on_header, &ex->head);
    if ((int64_t)ex->head.bytes > ex->server->config.header_bytes) {
        respond_problem(&ex->req, &ex->res, 431, "headers_too_large", "The headers are too large",
                        "the headers together are longer than this service accepts", NULL);
        ex->closes = true;
        return false;
    }
    return check_framing(ex);
}

static bool find_route(struct exchange *ex, const char *url, enum http_method method)
{
    size_t bytes = strlen(url);
    if (bytes >= sizeof ex->path) {
        respond_problem(&ex->req, &ex->res, 414, "path_too_long", "The path is too long", "a path has at most 1023 bytes", NULL);
        return false;
    }
    memcpy(ex->path, url, bytes + 1);
    ex->req.path = ex->path;
    if (!url_decode(ex->path, false))
        return refuse(ex, false, ERR_INVALID, "the path has a %-escape that is not two hex digits, not UTF-8, a NUL or a slash");
    unsigned allowed = 0;
    ex->req.route = router_match(ex->server->router, method, ex->path, ex->req.params, &allowed);
    if (ex->req.route)
        return true;
    if (!allowed)
        return refuse(ex, false, ERR_NOT_FOUND, "there is no such path; GET /openapi.yaml lists all");
    char allow[80];
    router_allow(allowed, allow, sizeof allow);
    if (method == HTTP_OPTIONS) {
        ex->res.status = 204;
    } else {
        char text[128];
        snprintf(text, sizeof text, "this path allows %s", allow);
        refuse(ex, false, ERR_METHOD, text);
    }
    respond_header(&ex->res, "Allow", "%s", allow);
    return false;
}

bool head_check(struct exchange *ex, const char *version)
{
    if (!ex->head.host && !strcmp(version, MHD_HTTP_VERSION_1_1))
        return refuse(ex, true, ERR_INVALID, "the header Host is missing");
    return check_rebinding(ex);
}

/* Route, caller and body, in this order: who may not come in learns of a path only that it exists. */
bool head_admit(struct exchange *ex, const char *url, enum http_method method)
{
    if (!find_route(ex, url, method))
        return false;
    struct err err;
    if (!auth_check(ex->server->config.auth, ex->head.authorization, ex->req.route->scope, &ex->req.caller, &err)) {
        respond_err(&ex->req, &ex->res, &err);
        return false;
    }
    return check_body(ex);
}

static enum MHD_Result on_query(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct exchange *ex = ctx;
    char *copy = xstrdup(value ? value : "");
    if (ex->query_count >= QUERY_MAX || !url_decode(copy, true)) {
        ex->query_bad = true;
        free(copy);
        return MHD_NO;
    }
    for (int i = 0; i < ex->query_count; i++)
        ex->query_bad |= !strcmp(ex->queries[i].name, name);
    ex->queries[ex->query_count].name = name;
    ex->queries[ex->query_count++].value = copy;
    return MHD_YES;
}

bool queries_read(struct exchange *ex)
{
    MHD_get_connection_values(ex->connection, MHD_GET_ARGUMENT_KIND, on_query, ex);
    return !ex->query_bad || refuse(ex, false, ERR_INVALID, "the query has a parameter twice, more than 16 of them, or a bad %-escape");
}

const char *query_lookup(const struct request *req, const char *name)
{
    const struct exchange *ex = req->edge;
    for (int i = 0; i < ex->query_count; i++)
        if (!strcmp(ex->queries[i].name, name))
            return ex->queries[i].value;
    return NULL;
}

const char *header_lookup(const struct request *req, const char *name)
{
    const struct exchange *ex = req->edge;
    return MHD_lookup_connection_value(ex->connection, MHD_HEADER_KIND, name);
}

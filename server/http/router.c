/*
 * Routes by path segments. A path is cut at its slashes once, then compared with every pattern of the same number of segments;
 * the table is small and the comparison is of lengths first.
 */
#include "server/http/http.h"

#include <string.h>

#define MAX_SEGMENTS 12

struct segment { const char *text; size_t bytes; bool param; };
struct entry {
    const struct route *route;
    int count;                      /* segments before a rest */
    bool rest;
    struct segment segments[MAX_SEGMENTS];
};
struct router {
    int count;
    struct entry *entries;
};

static void entry_compile(struct entry *e, const struct route *route)
{
    e->route = route;
    const char *at = route->pattern;
    BUG_ON(*at != '/');
    while (*at) {
        at++;
        size_t bytes = strcspn(at, "/");
        bool param = *at == '{';
        if (bytes > 4 && param && !strncmp(at + bytes - 4, "...}", 4)) {
            BUG_ON(at[bytes]);
            e->rest = true;
            return;
        }
        BUG_ON(e->count >= MAX_SEGMENTS);
        e->segments[e->count++] = (struct segment){at, bytes, param};
        at += bytes;
    }
}

struct router *router_new(const struct route *routes, int count)
{
    struct router *r = xalloc(sizeof *r);
    r->count = count;
    r->entries = xarray((size_t)count, sizeof *r->entries);
    for (int i = 0; i < count; i++)
        entry_compile(&r->entries[i], &routes[i]);
    return r;
}

void router_free(struct router *r)
{
    if (r)
        free(r->entries);
    free(r);
}

static bool entry_matches(const struct entry *e, const struct segment *path, int count)
{
    if (e->rest ? count < e->count : count != e->count)
        return false;
    for (int i = 0; i < e->count; i++) {
        const struct segment *want = &e->segments[i];
        if (want->param ? !path[i].bytes : want->bytes != path[i].bytes || memcmp(want->text, path[i].text, want->bytes))
            return false;
    }
    return true;
}

/* Ends the segments that are parameters with a NUL: nothing else of the path is read afterwards. */
static void take_params(const struct entry *e, struct segment *path, int count, const char *params[ROUTE_MAX_PARAMS])
{
    int n = 0;
    for (int i = 0; i < e->count; i++)
        if (e->segments[i].param) {
            BUG_ON(n >= ROUTE_MAX_PARAMS);
            ((char *)path[i].text)[path[i].bytes] = 0;
            params[n++] = path[i].text;
        }
    if (e->rest) {
        BUG_ON(n >= ROUTE_MAX_PARAMS);
        params[n] = count > e->count ? path[e->count].text : "";
    }
}

const struct route *router_match(const struct router *r, enum http_method method, char *path, const char *params[ROUTE_MAX_PARAMS],
                                 unsigned *ret_allowed)
{
    struct segment cut[MAX_SEGMENTS + 1];
    int count = 0;
    for (char *at = path; *at == '/' && count <= MAX_SEGMENTS;) {
        at++;
        size_t bytes = strcspn(at, "/");
        cut[count++] = (struct segment){at, bytes, false};
        at += bytes;
    }
    enum http_method want = method == HTTP_HEAD ? HTTP_GET : method;
    unsigned allowed = 0;
    for (int i = 0; i < r->count && count; i++) {
        const struct entry *e = &r->entries[i];
        if (!entry_matches(e, cut, count))
            continue;
        /* a catch-all answers what nothing else has, and says nothing about other methods */
        if (e->rest && (allowed || e->route->method != want))
            continue;
        allowed |= 1u << e->route->method;
        if (e->route->method != want)
            continue;
        take_params(e, cut, count, params);
        return e->route;
    }
    if (allowed & 1u << HTTP_GET)
        allowed |= 1u << HTTP_HEAD;
    if (allowed)
        allowed |= 1u << HTTP_OPTIONS;
    *ret_allowed = allowed;
    return NULL;
}

void router_allow(unsigned allowed, char *to, size_t size)
{
    size_t used = 0;
    to[0] = 0;
    for (int m = 0; m < HTTP_OTHER && used < size; m++)
        if (allowed & 1u << m)
            used += (size_t)snprintf(to + used, size - used, "%s%s", used ? ", " : "", http_method_name((enum http_method)m));
}

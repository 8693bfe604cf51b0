/* api/openapi.yaml and the table of routes say the same, both ways; scopes are named as they are enforced. */
#include "server/api/api.h"
#include "tests/test.h"

#include <ctype.h>

#define MAX_OPERATIONS 128
struct operation { char path[120], method[12], scope[12]; bool open, routed, body; };
static struct operation operations[MAX_OPERATIONS];
static int operation_count;

static void take_line(const char *line, size_t size, char path[120])
{
    char text[200];
    snprintf(text, sizeof text, "%.*s", (int)size, line);
    size_t indent = strspn(text, " ");
    char *end = strrchr(text, ':');
    struct operation *last = operation_count ? &operations[operation_count - 1] : NULL;
    if (indent == 2 && text[2] == '/' && end) {
        *end = 0;
        snprintf(path, 120, "%s", text + 2);
    } else if (indent == 4 && end && !end[1]) {
        static const char *const methods[] = {"get", "post", "put", "delete", "patch"};
        *end = 0;
        for (size_t i = 0; i < 5; i++)
            if (!strcmp(text + 4, methods[i]) && operation_count < MAX_OPERATIONS) {
                struct operation *o = &operations[operation_count++];
                snprintf(o->path, sizeof o->path, "%s", path);
                for (size_t k = 0; methods[i][k]; k++)
                    o->method[k] = (char)toupper((unsigned char)methods[i][k]);
            }
    } else if (last) {
        const char *scope = strstr(text, "Scope: ");
        if (scope && !last->scope[0])
            snprintf(last->scope, sizeof last->scope, "%.*s", (int)strcspn(scope + 7, ".; \""), scope + 7);
        if (indent == 6 && !strncmp(text + 6, "security: [{}]", 14))
            last->open = true;
        if (indent == 6 && !strncmp(text + 6, "requestBody:", 12))
            last->body = true;
    }
}

static void read_contract(const char *path)
{
    cleanup(buf) struct buf text = {0};
    struct err err;
    check(file_read(path, 4 << 20, &text, &err));
    char current[120] = "";
    bool inside = false;
    for (const char *line = buf_cstr(&text); *line;) {
        size_t size = strcspn(line, "\n");
        if (*line != ' ')
            inside = !strncmp(line, "paths:", 6);
        else if (inside)
            take_line(line, size, current);
        line += size + (line[size] == '\n');
    }
    check(operation_count > 20);
}

static struct operation *find(const struct route *r)
{
    for (int i = 0; i < operation_count; i++)
        if (!strcmp(operations[i].path, r->pattern) && !strcmp(operations[i].method, http_method_name(r->method)))
            return &operations[i];
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    read_contract(argv[1]);
    for (int i = 0; i < api_route_count; i++) {
        const struct route *r = &api_routes[i];
        if (r->flags & ROUTE_HIDDEN)
            continue;
        struct operation *o = find(r);
        if (!o) {
            fprintf(stderr, "%s %s is served and not in openapi.yaml\n", http_method_name(r->method), r->pattern);
            check(!"in openapi.yaml");
            continue;
        }
        o->routed = true;
        check_int(o->open, r->scope == SCOPE_NONE);
        if (r->scope != SCOPE_NONE)
            check_str(o->scope[0] ? o->scope : "read", scope_name(r->scope));
        check_int(o->body, (r->flags & (ROUTE_JSON | ROUTE_LINES)) != 0);
    }
    for (int i = 0; i < operation_count; i++) {
        if (!operations[i].routed)
            fprintf(stderr, "%s %s is in openapi.yaml and not served\n", operations[i].method, operations[i].path);
        check(operations[i].routed);
    }
    return test_done();
}

/* The pure parts of the HTTP edge: routing, validators, hosts, escapes, tokens. */
#include "server/http/http.h"
#include "tests/test.h"

static void handler_a(const struct request *req, struct response *res) { (void)req, (void)res; }
static void handler_b(const struct request *req, struct response *res) { (void)req, (void)res; }

static const struct route routes[] = {
    {HTTP_GET, "/v1/jobs", handler_a, SCOPE_READ, 0},
    {HTTP_POST, "/v1/jobs", handler_b, SCOPE_SUBMIT, 0},
    {HTTP_GET, "/v1/jobs/{id}", handler_a, SCOPE_READ, 0},
    {HTTP_GET, "/v1/k/{hash}/part/{name}", handler_b, SCOPE_READ, 0},
    {HTTP_DELETE, "/v1/t/{id}", handler_b, SCOPE_READ, 0},
    {HTTP_GET, "/", handler_a, SCOPE_NONE, 0},
    {HTTP_GET, "/{path...}", handler_b, SCOPE_NONE, 0},
};

static const struct route *match(struct router *r, enum http_method m, const char *path, const char *params[4], unsigned *allowed)
{
    static char text[200];
    snprintf(text, sizeof text, "%s", path);
    for (int i = 0; i < 4; i++)
        params[i] = NULL;
    *allowed = 0;
    return router_match(r, m, text, params, allowed);
}

static void paths_find_their_route(void)
{
    struct router *r = router_new(routes, sizeof routes / sizeof *routes);
    const char *p[4];
    unsigned allowed;
    char allow[80];
    check(match(r, HTTP_GET, "/v1/jobs", p, &allowed) == &routes[0]);
    check(match(r, HTTP_HEAD, "/v1/jobs", p, &allowed) == &routes[0]);
    check(match(r, HTTP_POST, "/v1/jobs", p, &allowed) == &routes[1]);
    check(match(r, HTTP_GET, "/v1/jobs/abc", p, &allowed) == &routes[2]);
    check_str(p[0], "abc");
    check(match(r, HTTP_GET, "/v1/k/12/part/x.bin", p, &allowed) == &routes[3]);
    check_str(p[0], "12");
    check_str(p[1], "x.bin");
    check(match(r, HTTP_GET, "/", p, &allowed) == &routes[5]);
    check(match(r, HTTP_GET, "/js/app.js", p, &allowed) == &routes[6]);
    check_str(p[0], "js/app.js");
    /* an empty id is no id; a trailing slash is another path */
    check(match(r, HTTP_GET, "/v1/jobs/", p, &allowed) == &routes[6]);
    check(match(r, HTTP_GET, "/v1/k//part/x", p, &allowed) == &routes[6]);
    /* 405 against 404 */
    check(!match(r, HTTP_DELETE, "/v1/jobs", p, &allowed) && allowed);
    router_allow(allowed, allow, sizeof allow);
    check_str(allow, "GET, HEAD, POST, OPTIONS");
    check(!match(r, HTTP_GET, "/v1/t/1", p, &allowed) && allowed);
    router_allow(allowed, allow, sizeof allow);
    check_str(allow, "DELETE, OPTIONS");
    check(!match(r, HTTP_POST, "/v1/nothing", p, &allowed) && !allowed);
    check(!match(r, HTTP_POST, "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q", p, &allowed) && !allowed);
    check(match(r, HTTP_GET, "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q", p, &allowed) == &routes[6]);
    check(!match(r, HTTP_GET, "", p, &allowed) && !allowed);
    check(!match(r, HTTP_GET, "*", p, &allowed) && !allowed);
    router_free(r);
}

static void validators_match(void)
{
    check(etag_matches("\"a\"", "\"a\""));
    check(etag_matches("W/\"a\"", "\"a\""));
    check(etag_matches("\"x\", \"y\" ,\"a\"", "\"a\""));
    check(etag_matches("*", "\"a\""));
    check(etag_matches(" \t\"b\",*", "\"a\""));
    check(!etag_matches("\"aa\"", "\"a\""));
    check(!etag_matches("a", "\"a\""));
    check(!etag_matches("\"a", "\"a\""));
    check(!etag_matches("", "\"a\""));
    check(!etag_matches("\"A\"", "\"a\""));
}

static void hosts_and_origins(void)
{
    static const char *const local[] = {"localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:7070", "[::1]", "[::1]:7070"};
    static const char *const other[] = {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2",
                                        "localhost:x", "localhost:80x", "[::1", "[::1]x", "::1", "localhost:123456", "a@localhost"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (strcmp(local[i], "localhost:"))
            check(host_is_local(local[i]));
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strcmp(other[i], "localhost:"))
            check(!host_is_local(other[i]));
    check(origin_is_same("http://127.0.0.1:7070", "127.0.0.1:7070"));
    check(origin_is_same("https://LocalHost", "localhost"));
    check(!origin_is_same("http://127.0.0.1:7071", "127.0.0.1:7070"));
    check(!origin_is_same("null", "127.0.0.1:7070"));
    check(!origin_is_same("http://evil.example", "127.0.0.1:7070"));
    check(!origin_is_same("127.0.0.1:7070", "127.0.0.1:7070"));
    check(!origin_is_same("http://127.0.0.1:7070", NULL));
}

static void media_types(void)
{
    check(media_type_is_json("application/json"));
    check(media_type_is_json("Application/JSON; charset=utf-8"));
    check(media_type_is_json("application/json;charset=\"UTF-8\""));
    check(!media_type_is_json("text/plain"));
    check(!media_type_is_json("application/jsonp"));
    check(!media_type_is_json("application/json; charset=latin1"));
    check(!media_type_is_json(""));
}

static void escapes_are_strict(void)
{
    char text[40];
    static const struct { const char *from, *to; bool slashes, ok; } rows[] = {
        {"abc", "abc", false, true}, {"a%20b", "a b", false, true}, {"%41%62", "Ab", false, true}, {"%2F", "/", true, true},
        {"%c3%a9", "\xc3\xa9", false, true}, {"%2f", NULL, false, false}, {"%00", NULL, true, false}, {"%", NULL, true, false},
        {"%4", NULL, true, false}, {"%zz", NULL, true, false}, {"%ff", NULL, true, false}, {"a%25b", "a%b", false, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "%s", rows[i].from);
        bool ok = url_decode(text, rows[i].slashes);
        check_int(ok, rows[i].ok);
        if (ok && rows[i].ok)
            check_str(text, rows[i].to);
    }
}

static void tokens_and_scopes(void)
{
    struct auth *a = auth_new(3);
    struct err err;
    struct caller who;
    check(auth_is_open(a));
    check(auth_check(a, NULL, SCOPE_ADMIN, &who, &err) && who.scope == SCOPE_ADMIN);
    auth_set_loopback(a, false);
    check(!auth_is_open(a));
    check(!auth_check(a, NULL, SCOPE_READ, &who, &err) && err.code == ERR_UNAUTHENTICATED);
    auth_set_loopback(a, true);
    struct token_new admin = token_make(), reader = token_make();
    check(strcmp(admin.text, reader.text) != 0 && strlen(admin.text) > 60);
    check(!strstr(admin.text, admin.secret_hash.text));
    check(auth_add(a, admin.id, admin.secret_hash.text, SCOPE_ADMIN, &err));
    check(auth_add(a, reader.id, reader.secret_hash.text, SCOPE_READ, &err));
    check(!auth_is_open(a));
    char header[200];
    snprintf(header, sizeof header, "Bearer %s", reader.text);
    check(auth_check(a, header, SCOPE_READ, &who, &err) && !strcmp(who.id, reader.id));
    check(!auth_check(a, header, SCOPE_SUBMIT, &who, &err) && err.code == ERR_FORBIDDEN);
    check(strstr(err.text, "submit") && strstr(err.text, "read"));
    header[strlen(header) - 1] ^= 1;
    check(!auth_check(a, header, SCOPE_READ, &who, &err) && err.code == ERR_UNAUTHENTICATED);
    snprintf(header, sizeof header, "bearer  %s", admin.text);
    check(auth_check(a, header, SCOPE_ADMIN, &who, &err));
    snprintf(header, sizeof header, "Basic %s", admin.text);
    check(!auth_check(a, header, SCOPE_READ, &who, &err) && err.code == ERR_UNAUTHENTICATED);
    /* the id of one with the secret of the other */
    snprintf(header, sizeof header, "Bearer pk_%s_%s", admin.id, strrchr(reader.text, '_') + 1);
    check(!auth_check(a, header, SCOPE_READ, &who, &err) && err.code == ERR_UNAUTHENTICATED);
    static const char *const bad[] = {"", "Bearer", "Bearer ", "Bearer pk_", "Bearer pk_a_b", "Bearer xx_a_0123456789012345678901234567890123"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(!auth_check(a, bad[i], SCOPE_READ, &who, &err) && err.code == ERR_UNAUTHENTICATED);
    check(auth_check(a, "nonsense", SCOPE_NONE, &who, &err) && who.scope == SCOPE_NONE);
    check(auth_add(a, "third", admin.secret_hash.text, SCOPE_READ, &err));
    check(!auth_add(a, "fourth", admin.secret_hash.text, SCOPE_READ, &err) && err.code == ERR_BUSY);
    auth_remove(a, reader.id);
    check_int(auth_count(a), 2);
    check_int(auth_admins(a), 1);
    auth_remove(a, admin.id);
    auth_remove(a, "third");
    check(auth_is_open(a));
    auth_free(a);
}

static const char *nothing(const struct request *req, const char *name)
{
    (void)req, (void)name;
    return NULL;
}

static void problems_say_what_is_wrong(void)
{
    struct request req = {.id = "r1", .header = nothing, .query = nothing};
    cleanup(response) struct response res = {0};
    struct faults faults = {0};
    faults_add(&faults, "/axes/B", "must be at least %d", 1);
    faults_add(&faults, "/axes/H", "is missing");
    respond_faults(&req, &res, NULL, &faults);
    cleanup(json) json_t *doc = NULL;
    struct err err;
    check_int(res.status, 400);
    check_str(res.content_type, "application/problem+json");
    check(json_parse(res.body.data, res.body.size, &doc, &err));
    check_str(json_str(doc, "type", ""), "/problems/invalid");
    check_str(json_str(doc, "request_id", ""), "r1");
    check_int(json_int(doc, "status", 0), 400);
    check_int(json_array_size(json_object_get(doc, "errors")), 2);
    check_str(json_str(json_array_get(json_object_get(doc, "errors"), 1), "pointer", ""), "/axes/H");
    err_set(&err, ERR_BUSY, "later");
    respond_err(&req, &res, &err);
    check_int(res.status, 429);
    check_int(res.header_count, 1);
    check_str(res.headers[0].name, "Retry-After");
    /* a value cannot become a header of its own */
    respond_header(&res, "X-Test", "%s", "a\r\nEvil: 1");
    check(!strpbrk(res.headers[1].value, "\r\n"));
}

int main(void)
{
    hash_init();
    paths_find_their_route();
    validators_match();
    hosts_and_origins();
    media_types();
    escapes_are_strict();
    tokens_and_scopes();
    problems_say_what_is_wrong();
    return test_done();
}

/* Endpoints for an admin's decisions about kernels and held candidates: scopes, bodies, 410, ETags, caches, waiting. */
#include "tests/test_api.h"

#include "core/clock.h"

static struct answer answer;

static int get(const char *path, const char *extra)
{
    return ask(service.address, "GET", path, extra, NULL, &answer);
}

static int post(const char *path, const char *extra, const char *body)
{
    cleanup(str) char *headers = xfmt("%s%s", extra ? extra : "", body ? JSON_TYPE : "");
    return ask(service.address, "POST", path, headers, body, &answer);
}

static bool says(const char *text)
{
    return strstr(buf_cstr(&answer.body), text) != NULL;
}

static char *kernel_path(const char *hash, const char *rest)
{
    return xfmt("/v1/kernels/%s%s", hash, rest);
}

/* As a runner leaves it: on the shelf and served. */
static void put_kernel(const char *hash, const char *candidate, double speedup, const char *evidence, const char *cubin)
{
    cleanup(json) json_t *kernel = NULL, *named = NULL;
    cleanup(shelf) struct shelf shelf = {.changed = false};
    struct err err = {0};
    struct store *s = service.app.store;
    cleanup(json) json_t *before = NULL;
    struct err none = {0};
    bool had = store_get(s, STORE_KERNEL, hash, &before, &none);
    check(fake_kernel(s, hash, NULL, evidence, cubin) && store_get(s, STORE_KERNEL, hash, &kernel, &err));
    named = json_deep_copy(kernel);
    json_put_str(named, "candidate", candidate);
    json_put(named, "speedup", json_pack("{s:f}", "median", speedup));
    struct store_batch *undo = store_batch_new();
    if (had)
        store_put(undo, STORE_KERNEL, hash, NULL, before);
    else
        store_delete(undo, STORE_KERNEL, hash);
    check(store_commit(s, undo, NULL, &err) && shelf_open(s, hash, &shelf, &err));
    shelf_offer(&shelf, named, hash_of(candidate, strlen(candidate)).text, NULL);
    struct store_batch *b = store_batch_new();
    shelf_write(&shelf, b);
    event_kernel(b, NULL, hash, candidate, "restored", NULL, shelf_serves(&shelf));
    check(store_commit(s, b, NULL, &err));
}

#define GOOD "cand_01jm0000000000000000000001"
#define NEXT "cand_01jm0000000000000000000002"

static void withdrawn(void)
{
    char hash[HASH_HEX_SIZE], etag[100], later[100];
    snprintf(hash, sizeof hash, "%s", hash_of("one", 3).text);
    cleanup(str) char *self = kernel_path(hash, ""), *cubin = kernel_path(hash, "/kernel.cubin"), *quarantine = kernel_path(hash, "/quarantine");
    cleanup(str) char *restore = kernel_path(hash, "/restore"), *bundle = kernel_path(hash, "/bundle.tar"), *list = kernel_path(hash, "/candidates");
    cleanup(str) char *measured = kernel_path(hash, "?evidence=measured");
    check_int(post(quarantine, NULL, NULL), 404);
    check_int(post(restore, NULL, "{}"), 404);
    put_kernel(hash, NEXT, 1.5, "emulated", "cubin of next");
    put_kernel(hash, GOOD, 2.5, "emulated", "cubin of good");
    check_int(get(self, NULL), 200);
    check(says(GOOD));
    answer_header(&answer, "ETag", etag, sizeof etag);
    check_int(get(cubin, NULL), 200);
    check_str(buf_cstr(&answer.body), "cubin of good");

    /* what is wrong with a request is said, and nothing happens */
    static const struct { const char *body; int status; const char *text; } bad[] = {
        {"[]", 400, "must be an object"}, {"{\"reason\":\"\"}", 400, "/reason"}, {"{\"candidate\":\"x\"}", 400, "/candidate"},
        {"{\"why\":1}", 400, "/why"}, {"{\"candidate\":\"cand_01jm0000000000000000000009\"}", 404, "no kernel that was verified"}, {"{", 400, NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int status = post(quarantine, NULL, bad[i].body);
        if (status != bad[i].status)
            fprintf(stderr, "%s: %s\n", bad[i].body, buf_cstr(&answer.body));
        check_int(status, bad[i].status);
        check(!bad[i].text || says(bad[i].text));
        check(says("\"type\""));
    }
    cleanup(buf) struct buf long_reason = {0};
    buf_str(&long_reason, "{\"reason\":\"");
    for (int i = 0; i < 600; i++)
        buf_str(&long_reason, "x");
    buf_str(&long_reason, "\"}");
    check_int(post(quarantine, NULL, buf_cstr(&long_reason)), 400);
    check_int(post("/v1/kernels/nothing/quarantine", NULL, NULL), 404);
    check_int(get(self, NULL), 200);
    check(says(GOOD));

    /* the next best, in every cache at once, with another ETag */
    check_int(post(quarantine, NULL, "{\"candidate\":\"" GOOD "\",\"reason\":\"rows are off by \\u003c1\\u003e\"}"), 200);
    check(says("\"serves\":\"" NEXT "\"") && says("quarantined") && !says("manifest"));
    check_int(get(cubin, NULL), 200);
    check_str(buf_cstr(&answer.body), "cubin of next");
    check_int(get(self, NULL), 200);
    answer_header(&answer, "ETag", later, sizeof later);
    check(strcmp(etag, later) != 0);
    int64_t event = store_last_event(service.app.store);
    check_int(post(quarantine, NULL, "{\"candidate\":\"" GOOD "\"}"), 200);   /* a repeated request means the same kernel */
    check(says("\"serves\":\"" NEXT "\"") && store_last_event(service.app.store) == event);

    /* nothing left: 410 with the reason, for the manifest and every part, and for those who wait */
    check_int(post(quarantine, NULL, NULL), 200);
    check(says("\"serves\":null"));
    const char *const gone[] = {self, cubin, bundle};
    for (size_t i = 0; i < 3; i++) {
        check_int(get(gone[i], NULL), 410);
        check(says("\"code\":\"gone\"") && says("\"candidate\":\"" NEXT "\"") && says("no reason was given") && says("/problems/gone"));
        check_int(ask(service.address, "HEAD", gone[i], NULL, NULL, &answer), 410);
    }
    check_int(get(measured, NULL), 404);                /* there never was a measured one */
    cleanup(str) char *wait = kernel_path(hash, "?wait=1");
    int64_t from = clock_mono_ns();
    check_int(get(wait, NULL), 410);
    check(clock_mono_ns() - from > 900000000);
    check_int(get("/v1/kernels", NULL), 200);
    check(!says(hash));
    check_int(get(list, NULL), 200);
    check(says(GOOD) && says("rows are off by <1>") && says("\"by\":\"anonymous\""));

    /* over a restart */
    service_down();
    service_up(1, (char *[]){"proteusd"});
    check_int(get(self, NULL), 410);

    /* back, the last one first */
    check_int(post(restore, NULL, NULL), 200);
    check_int(get(cubin, NULL), 200);
    check_str(buf_cstr(&answer.body), "cubin of next");
    check_int(post(restore, NULL, "{\"candidate\":\"" GOOD "\"}"), 200);
    check_int(get(cubin, NULL), 200);
    check_str(buf_cstr(&answer.body), "cubin of good");
    check_int(post(restore, NULL, "{\"candidate\":\"" GOOD "\"}"), 200);
    check_int(get(self, NULL), 200);
    check(says("\"history\":[{"));
}

static void judged_again(void)
{
    char hash[HASH_HEX_SIZE];
    snprintf(hash, sizeof hash, "%s", hash_of("two", 3).text);
    cleanup(str) char *path = kernel_path(hash, "/revalidate");
    char location[100];
    check_int(post(path, NULL, NULL), 404);
    put_kernel(hash, GOOD, 2, "emulated", "c");
    check_int(post(path, NULL, "{\"reason\":\"a new toolkit\"}"), 202);
    check(says("\"generator\":\"revalidate\"") && says("as_of"));
    answer_header(&answer, "Location", location, sizeof location);
    check(!strncmp(location, "/v1/jobs/job_", 13));
    check_int(get(location, NULL), 200);
}

static void put_candidate(const char *id, bool is_held)
{
    struct err err = {0};
    cleanup(json) json_t *doc = json_pack("{s:s,s:s,s:s,s:{s:s,s:{s:b}}}", "id", id, "state", "judged", "shape_hash", hash_of("x", 1).text, "verdict",
                                          "code", "implausible", "detail", "held", is_held);
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_CANDIDATE, id, "job_x", doc);
    check(store_commit(service.app.store, b, NULL, &err));
}

static void held(void)
{
    put_candidate(GOOD, true);
    put_candidate(NEXT, false);
    check_int(post("/v1/candidates/" NEXT "/release", NULL, NULL), 409);
    check_int(post("/v1/candidates/" NEXT "/refuse", NULL, NULL), 409);
    check_int(post("/v1/candidates/cand_01jm0000000000000000000009/release", NULL, NULL), 404);
    check_int(post("/v1/candidates/nothing/refuse", NULL, NULL), 404);
    check_int(post("/v1/candidates/" GOOD "/release", NULL, "{\"candidate\":\"" GOOD "\"}"), 400);
    check_int(post("/v1/candidates/" GOOD "/release", NULL, NULL), 202);
    check_int(post("/v1/candidates/" GOOD "/refuse", NULL, "{\"reason\":\"it reads a clock\"}"), 200);
    check(says("\"decision\":\"refused\"") && says("it reads a clock"));
    check_int(post("/v1/candidates/" GOOD "/refuse", NULL, NULL), 200);
    check(says("it reads a clock"));
    check_int(get("/v1/candidates/" GOOD, NULL), 200);
    check(says("\"decision\""));
}

/* Once there are tokens: an admin's alone. */
static void scopes(void)
{
    static const char *const paths[] = {"/v1/kernels/%s/quarantine", "/v1/kernels/%s/restore", "/v1/kernels/%s/revalidate"};
    static const char *const names[] = {"admin", "submit", "read"};
    char tokens[3][200];
    struct hash_hex hash = hash_of("one", 3);
    for (int i = 0; i < 3; i++) {
        cleanup(str) char *body = xfmt("{\"scopes\":[\"%s\"]}", names[i]);
        json_t *doc = NULL;
        struct err err;
        check_int(post("/v1/tokens", i ? tokens[0] : NULL, body), 201);
        check(json_parse(answer.body.data, answer.body.size, &doc, &err));
        snprintf(tokens[i], sizeof tokens[i], "Authorization: Bearer %s\r\n", json_str(doc, "token", ""));
        json_decref(doc);
    }
    for (size_t p = 0; p < 5; p++) {
        cleanup(str) char *path = p < 3 ? xfmt(paths[p], hash.text) : xstrdup(p == 3 ? "/v1/candidates/" GOOD "/refuse" : "/v1/candidates/" GOOD "/release");
        check_int(post(path, NULL, NULL), 401);
        check_int(post(path, tokens[1], NULL), 403);
        check_int(post(path, tokens[2], NULL), 403);
        int status = post(path, tokens[0], NULL);
        check(status == 200 || status == 202);
    }
    cleanup(str) char *list = kernel_path(hash.text, "/candidates");
    check_int(get(list, tokens[2]), 200);
}

int main(void)
{
    service_make();
    service_up(1, (char *[]){"proteusd"});
    withdrawn();
    judged_again();
    held();
    scopes();
    answer_done(&answer);
    service_down();
    service_remove();
    return test_done();
}

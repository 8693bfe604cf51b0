/*
 * PUT /v1/ops/{name} over sockets, with a stand-in for the judge: what is taken, what is refused and how it is told, what is there
 * after a restart. That a real judge refuses a bad operator is shown by test_check_op and by e2e_ops.
 */
#include "tests/test_api.h"

#include "core/clock.h"

#include <pthread.h>

/* The body: an operator of this name and version; `extra` goes into op.json. */
static char *body_of(const char *name, int version, const char *extra)
{
    return xfmt("{\"op\":{\"name\":\"%s\",\"version\":%d,\"axes\":{\"N\":{\"type\":\"var\"}},\"dtypes\":{\"io\":[\"f32\"]},"
                "\"inputs\":{\"x\":{\"shape\":[\"N\"],\"dtype\":\"io\"}},\"outputs\":{\"y\":{\"shape\":[\"N\"],\"dtype\":\"io\"}},"
                "\"bytes\":\"2*N*bytes_io\",\"flops\":\"N\",%s\"regimes\":{\"typical\":{\"inputs\":{}},\"b\":{\"hidden\":true},\"a\":{}}},"
                "\"reference\":\"void proteus_reference(void) {}\\n\","
                "\"baseline\":{\"language\":\"cuda\",\"source\":\"extern \\\"C\\\" __global__ void k() {}\",\"plan\":{\"steps\":[]}}}",
                name, version, extra);
}

static json_t *put(const char *name, const char *body, int *ret_status)
{
    cleanup(str) char *path = xfmt("/v1/ops/%s", name);
    json_t *doc = ask_json("PUT", path, JSON_TYPE, body, ret_status);
    check(doc != NULL);
    return doc;
}

static int put_it(const char *name, int version, const char *extra)
{
    int status;
    cleanup(str) char *body = body_of(name, version, extra);
    cleanup(json) json_t *doc = put(name, body, &status);
    return status;
}

static int version_of(const char *name)
{
    int status;
    cleanup(str) char *path = xfmt("/v1/ops/%s", name);
    cleanup(json) json_t *doc = ask_json("GET", path, NULL, NULL, &status);
    return status == 200 ? (int)json_int(doc, "version", 0) : -status;
}

static void taken(void)
{
    int status, looked = fake_ops_looked_at;
    cleanup(str) char *body = body_of("twice", 1, "");
    cleanup(json) json_t *first = put("twice", body, &status);
    check_int(status, 201);
    check_str(json_str(first, "name", ""), "twice");
    check_int(json_int(json_object_get(first, "canaries"), "caught", 0), 15);
    check(hash_hex_valid(json_str(first, "digest", "")));
    /* it is there, without what is hidden, and its regimes keep their order */
    cleanup(json) json_t *shown = ask_json("GET", "/v1/ops/twice", NULL, NULL, &status);
    check_int(status, 200);
    cleanup(str) char *regimes = json_text(json_object_get(shown, "regimes"));
    check_str(regimes, "{\"typical\":{\"inputs\":{}},\"a\":{}}");
    cleanup(json) json_t *list = ask_json("GET", "/v1/ops", NULL, NULL, &status);
    check_int((int)json_array_size(json_object_get(list, "ops")), 2);
    check_str(json_str(json_array_get(json_object_get(list, "ops"), 1), "digest", ""), json_str(first, "digest", "?"));
    /* shapes are hashed by it */
    cleanup(json) json_t *hash = ask_json("POST", "/v1/shape-hash", JSON_TYPE, "{\"op\":\"twice\",\"axes\":{\"N\":5}}", &status);
    check_int(status, 200);
    check(strstr(json_str(hash, "canonical", ""), "op=twice@1\naxis.N=5\n"));
    /* the same once more is no change, and no work for the judge */
    cleanup(json) json_t *again = put("twice", body, &status);
    check_int(status, 200);
    check_str(json_str(again, "digest", ""), json_str(first, "digest", "?"));
    check_int(fake_ops_looked_at, looked + 1);
}

static void versions(void)
{
    int looked = fake_ops_looked_at, status;
    cleanup(str) char *other = body_of("twice", 1, "\"description\":\"another\",");
    cleanup(json) json_t *refused = put("twice", other, &status);
    check_int(status, 409);
    check_str(json_str(refused, "code", ""), "conflict");
    check(strstr(json_str(refused, "detail", ""), "give yours version 2"));
    check_int(put_it("scale", 1, ""), 409);             /* nor one of the service's own */
    check_int(fake_ops_looked_at, looked);
    check_int(put_it("twice", 3, ""), 200);
    check_int(version_of("twice"), 3);
    check_int(put_it("twice", 2, ""), 409);
    check_int(put_it("scale", 2, ""), 200);
    check_int(version_of("scale"), 2);
}

static void after_a_restart(char **argv, int argc)
{
    int status, looked = fake_ops_looked_at;
    cleanup(json) json_t *list = ask_json("GET", "/v1/ops", NULL, NULL, &status);
    service_down();
    /* what lies in the folder is a copy: gone or changed, it is made again */
    cleanup(str) char *remove = xfmt("rm -rf %s/data/ops/*", service.dir);
    check(system(remove) == 0);
    service_up(argc, argv);
    cleanup(json) json_t *now = ask_json("GET", "/v1/ops", NULL, NULL, &status);
    check(json_equal(json_object_get(list, "ops"), json_object_get(now, "ops")));
    check_int(version_of("twice"), 3);
    check_int(version_of("scale"), 2);
    check_int(fake_ops_looked_at, looked);
    cleanup(str) char *body = body_of("twice", 3, "");
    cleanup(json) json_t *again = put("twice", body, &status);
    check_int(status, 200);
    check_int(fake_ops_looked_at, looked);
}

static void refused(void)
{
    static const struct { const char *judge; int status; const char *code, *pointer, *detail; } cases[] = {
        {"/op operator bad: canary gain (everything 1 % larger) passes for y (bf16) in all 8 regimes, by the table", 422, "unprocessable", "/op", "canary gain"},
        {"/reference reference.c:3:5: error: expected ';'", 422, "unprocessable", "/reference", "reference.c:3:5"},
        {"/baseline the baseline of bad: compile_error: no", 422, "unprocessable", "/baseline", "compile_error"},
        {"down", 502, "upstream", NULL, "the judge is not there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status;
        cleanup(str) char *body = body_of("bad", 1, "");
        fake_op = cases[i].judge;
        cleanup(json) json_t *doc = put("bad", body, &status);
        const json_t *fault = json_array_get(json_object_get(doc, "errors"), 0);
        check_int(status, cases[i].status);
        check_int((int)json_int(doc, "status", 0), cases[i].status);
        check_str(json_str(doc, "code", ""), cases[i].code);
        check(strstr(json_str(doc, "detail", ""), cases[i].detail));
        check(!cases[i].pointer || (!strcmp(json_str(fault, "pointer", ""), cases[i].pointer) && strstr(json_str(fault, "detail", ""), cases[i].detail)));
        check_int(version_of("bad"), -404);
    }
    fake_op = NULL;
    check_int(put_it("bad", 1, "\"unknown\":1,"), 422);         /* the stand-in reads op.json as the judge does */
    check_int(put_it("bad", 1, ""), 201);                       /* and mended it is taken */
}

static void malformed(void)
{
    static const struct { const char *path, *body; int status; const char *pointer; } cases[] = {
        {"none", "{", 400, NULL},
        {"none", "[]", 400, ""},
        {"none", "{}", 400, "/op"},
        {"none", "{\"op\":{\"name\":\"other\",\"version\":1},\"reference\":\"\",\"baseline\":{}}", 400, "/op/name"},
        {"none", "{\"op\":{\"name\":\"none\",\"version\":0},\"reference\":\"\",\"baseline\":{}}", 400, "/op/version"},
        {"none", "{\"op\":{\"name\":\"none\",\"version\":1},\"baseline\":{}}", 400, "/reference"},
        {"none", "{\"op\":{\"name\":\"none\",\"version\":1},\"reference\":\"\"}", 400, "/baseline"},
        {"none", "{\"op\":{\"name\":\"none\",\"version\":1},\"reference\":\"\",\"baseline\":{},\"templates\":[]}", 400, "/templates"},
    };
    int looked = fake_ops_looked_at;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status;
        cleanup(json) json_t *doc = put(cases[i].path, cases[i].body, &status);
        check_int(status, cases[i].status);
        if (cases[i].pointer)
            check_str(json_str(json_array_get(json_object_get(doc, "errors"), 0), "pointer", "?"), cases[i].pointer);
    }
    check_int(fake_ops_looked_at, looked);
    /* names lead into no other folder */
    check_int(put_it("..%2fup", 1, ""), 400);
    check_int(put_it("a.b", 1, ""), 422);
}

static void *put_slowly(void *arg)
{
    int *status = arg, version = *status;
    *status = put_it("slow", version, "");
    return NULL;
}

/* The same at once is looked at once and answered twice; too much at once is refused; nobody else waits. */
static void at_once(void)
{
    enum { MANY = 8 };
    pthread_t threads[MANY];
    int status[MANY], looked = fake_ops_looked_at, taken_count = 0, busy = 0;
    fake_op = "slow";
    for (int i = 0; i < MANY; i++) {
        status[i] = i < 2 ? 1 : i;
        check(pthread_create(&threads[i], NULL, put_slowly, &status[i]) == 0);
        clock_sleep_ns(30000000);
    }
    check_int(version_of("twice"), 3);
    fake_op = NULL;
    for (int i = 0; i < MANY; i++) {
        pthread_join(threads[i], NULL);
        taken_count += status[i] == 200 || status[i] == 201;
        busy += status[i] == 429;
    }
    check_int(status[0], 201);
    check_int(status[1], 201);
    check_int(taken_count, 6);                                  /* one twice, and four that waited */
    check_int(busy, MANY - 6);
    check_int(fake_ops_looked_at, looked + 5);
    check_int(version_of("slow"), 5);
}

/* A stop does not wait for a judge. */
static void stop_meanwhile(char **argv, int argc)
{
    pthread_t thread;
    int status = 9;
    fake_op = "slow";
    check(pthread_create(&thread, NULL, put_slowly, &status) == 0);
    clock_sleep_ns(100000000);
    int64_t from = clock_mono_ns();
    service_down();
    check(clock_mono_ns() - from < 3000000000);
    pthread_join(thread, NULL);
    fake_op = NULL;
    check(status != 200 && status != 201);
    service_up(argc, argv);
    check_int(version_of("slow"), 5);
}

static void limits_and_scopes(void)
{
    service.config.max_ops = 1;
    check_int(put_it("more", 1, ""), 409);
    check_int(put_it("twice", 4, ""), 200);                     /* a new version of one that is there */
    service.config.max_ops = 0;
    check_int(put_it("twice", 5, ""), 403);
    service.config.max_ops = 64;
    int status;
    cleanup(json) json_t *root = ask_json("POST", "/v1/tokens", JSON_TYPE, "{\"scopes\":[\"admin\"]}", &status);
    cleanup(str) char *admin = xfmt("Authorization: Bearer %s\r\n" JSON_TYPE, json_str(root, "token", ""));
    cleanup(json) json_t *second = ask_json("POST", "/v1/tokens", admin, "{\"scopes\":[\"submit\"]}", &status);
    cleanup(str) char *submitter = xfmt("Authorization: Bearer %s\r\n" JSON_TYPE, json_str(second, "token", ""));
    cleanup(str) char *body = body_of("twice", 5, "");
    cleanup(json) json_t *forbidden = ask_json("PUT", "/v1/ops/twice", submitter, body, &status);
    check_int(status, 403);
    cleanup(json) json_t *allowed = ask_json("PUT", "/v1/ops/twice", admin, body, &status);
    check_int(status, 200);
}

int main(void)
{
    char *argv[] = {"proteusd", "--submits-per-minute", "100000", NULL};
    service_make();
    service_up(3, argv);
    taken();
    versions();
    after_a_restart(argv, 3);
    refused();
    malformed();
    at_once();
    stop_meanwhile(argv, 3);
    limits_and_scopes();
    service_down();
    service_remove();
    return test_done();
}

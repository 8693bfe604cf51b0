/* Every endpoint over a socket: what is right, what is wrong, and that a restart forgets nothing. */
#include "tests/test_api.h"

#include "core/tar.h"

#include <pthread.h>

static char *no_flags[] = {(char *)"proteusd", NULL};
static const char submit[] = "{\"op\":\"scale\",\"shapes\":[{\"N\":64}]}";

static struct answer answer;      /* of the last request */

static int get(const char *path)
{
    return ask(service.address, "GET", path, NULL, NULL, &answer);
}

static int post(const char *path, const char *body)
{
    return ask(service.address, "POST", path, JSON_TYPE, body, &answer);
}

static const char *field(const char *name)
{
    static char text[400];
    cleanup(json) json_t *doc = NULL;
    struct err err;
    text[0] = 0;
    if (json_parse(buf_cstr(&answer.body), answer.body.size, &doc, &err))
        snprintf(text, sizeof text, "%s", json_str(doc, name, ""));
    return text;
}

static void bad_requests(void)
{
    static const struct { const char *method, *path, *body; int status; const char *code, *says; } rows[] = {
        {"GET", "/v1/jobs/x", NULL, 404, "not_found", "job_"},
        {"GET", "/v1/jobs/job_00000000000000000000000000", NULL, 404, "not_found", "no job"},
        {"GET", "/v1/candidates/job_00000000000000000000000000", NULL, 404, "not_found", "cand_"},
        {"GET", "/v1/candidates/cand_00000000000000000000000000", NULL, 404, "not_found", "no candidate"},
        {"GET", "/v1/jobs/job_00000000000000000000000000/candidates", NULL, 404, "not_found", "no job"},
        {"GET", "/v1/jobs/job_00000000000000000000000000/events", NULL, 404, "not_found", "no job"},
        {"POST", "/v1/jobs/job_00000000000000000000000000/cancel", NULL, 404, "not_found", ""},
        {"GET", "/v1/kernels/XYZ", NULL, 404, "not_found", "64 lower-case"},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000", NULL, 404, "not_found", "POST /v1/jobs"},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000?wait=x", NULL, 400, "invalid", "wait"},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000?wait=100000", NULL, 400, "invalid", "60"},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000/kernel.cubin", NULL, 404, "not_found", ""},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000/other", NULL, 404, "not_found", "no such path"},
        {"GET", "/v1/kernels?evidence=guessed", NULL, 400, "invalid", "evidence"},
        {"GET", "/v1/artifacts/0000000000000000000000000000000000000000000000000000000000000000", NULL, 404, "not_found", ""},
        {"GET", "/v1/jobs?limit=0", NULL, 400, "invalid", "limit"},
        {"GET", "/v1/jobs?limit=100000", NULL, 400, "invalid", "200"},
        {"GET", "/v1/jobs?state=asleep", NULL, 400, "invalid", "state"},
        {"GET", "/v1/jobs?limit=ten", NULL, 400, "invalid", "limit"},
        {"GET", "/v1/jobs?cursor=", NULL, 400, "invalid", "cursor"},
        {"GET", "/v1/jobs?cursor=0123456789abcdef-job_00000000000000000000000000", NULL, 400, "invalid", "cursor"},
        {"GET", "/v1/ops/none", NULL, 404, "not_found", "/v1/ops"},
        {"GET", "/v1/events?after=-1", NULL, 400, "invalid", "after"},
        {"GET", "/v1/events?after=999999", NULL, 400, "invalid", "not happened"},
        {"GET", "/problems/none", NULL, 404, "not_found", ""},
        {"GET", "/../etc/passwd", NULL, 404, "not_found", ""},
        {"GET", "/ops/../data/signing.key", NULL, 404, "not_found", ""},
        {"GET", "/data/%2e%2e/x", NULL, 404, "not_found", ""},
        {"POST", "/v1/jobs", "{\"op\":\"none\",\"shapes\":[{}]}", 400, "invalid", ""},
        {"POST", "/v1/jobs", "{\"op\":\"scale\",\"shapes\":[{\"N\":64}],\"baseline\":{}}", 422, "unprocessable", "baseline"},
        {"POST", "/v1/shape-hash", "[]", 400, "invalid", ""},
        {"POST", "/v1/tokens", "{}", 400, "invalid", "/scopes"},
        {"POST", "/v1/tokens", "{\"scopes\":[\"root\"]}", 400, "invalid", "/scopes/0"},
        {"POST", "/v1/tokens", "{\"scopes\":[\"admin\"],\"x\":1}", 400, "invalid", "/x"},
        {"POST", "/v1/tokens", "{\"scopes\":[\"read\"]}", 409, "conflict", "admin"},
        {"DELETE", "/v1/tokens/none", NULL, 404, "not_found", "none"},
        {"DELETE", "/v1/ops/scale", NULL, 405, "method_not_allowed", "GET"},
        {"DELETE", "/v1/jobs", NULL, 405, "method_not_allowed", "POST"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = ask(service.address, rows[i].method, rows[i].path, rows[i].body ? JSON_TYPE : "", rows[i].body, &answer);
        if (status != rows[i].status || strcmp(field("code"), rows[i].code))
            fprintf(stderr, "%s %s: %s\n", rows[i].method, rows[i].path, buf_cstr(&answer.body));
        check_int(status, rows[i].status);
        check_str(field("code"), rows[i].code);
        check(strstr(field("detail"), rows[i].says));
        if (strncmp(field("type"), "/problems/", 10) == 0)
            check_int(get(field("type")), 200);
    }
}

static void faults_point_at_their_place(void)
{
    static const struct { const char *body, *pointer; } rows[] = {
        {"{\"op\":\"none\",\"axes\":{}}", "/op"}, {"{\"op\":\"scale\",\"axes\":{}}", "/axes/N"},
        {"{\"op\":\"scale\",\"axes\":{\"N\":64,\"Q\":1}}", "/axes/Q"}, {"{\"op\":\"scale\",\"axes\":{\"N\":-2}}", "/axes/N"},
        {"{\"op\":\"scale\",\"axes\":{\"N\":0}}", "/axes/N"}, {"{\"op\":\"scale\",\"axes\":{\"N\":5000}}", "/axes/N"},
        {"{\"op\":\"scale\",\"axes\":{\"N\":2.5}}", "/axes/N"}, {"{\"op\":\"scale\",\"axes\":{\"N\":\"64\"}}", "/axes/N"},
        {"{\"op\":\"scale\",\"axes\":{\"N\":64},\"dtypes\":{\"io\":\"f8\"}}", "/dtypes/io"},
        {"{\"op\":\"scale\",\"axes\":{\"N\":64},\"target\":\"sm\"}", "/target"}, {"{\"op\":\"scale\",\"axes\":{\"N\":64},\"more\":1}", "/more"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status;
        cleanup(json) json_t *doc = ask_json("POST", "/v1/shape-hash", JSON_TYPE, rows[i].body, &status);
        const json_t *first = json_array_get(json_object_get(doc, "errors"), 0);
        check_int(status, 400);
        check_str(json_str(first, "pointer", ""), rows[i].pointer);
        check(*json_str(first, "detail", ""));
    }
    /* a broken constraint is named */
    check_int(post("/v1/shape-hash", "{\"op\":\"scale\",\"axes\":{\"N\":63}}"), 400);
    check(strstr(buf_cstr(&answer.body), "N % 2 == 0"));
}

static void operators_and_hashes(void)
{
    int status;
    cleanup(json) json_t *ops = ask_json("GET", "/v1/ops", NULL, NULL, &status);
    check_str(json_str(json_array_get(json_object_get(ops, "ops"), 0), "name", ""), "scale");
    check_int(get("/v1/ops/scale"), 200);
    check(!strstr(buf_cstr(&answer.body), "secret"));           /* hidden regimes stay hidden */
    check(strstr(buf_cstr(&answer.body), "typical"));
    cleanup(json) json_t *hash = ask_json("POST", "/v1/shape-hash", JSON_TYPE, "{\"op\":\"scale\",\"axes\":{\"N\":64}}", &status);
    const char *text = json_str(hash, "canonical", "");
    check_str(text, "proteus-shape-v1\nop=scale@1\naxis.M=2\naxis.N=64\ndtype.io=f32\ntarget=sm_90a\n");
    check_str(json_str(hash, "shape_hash", ""), hash_of(text, strlen(text)).text);
}

static void jobs_and_pages(char first_job[80])
{
    char path[200], value[100];
    check_int(post("/v1/jobs", submit), 202);
    snprintf(first_job, 80, "%s", field("id"));
    snprintf(path, sizeof path, "/v1/jobs/%s", first_job);
    check_str(answer_header(&answer, "Location", value, sizeof value), path);
    check_int(get(path), 200);
    check_str(field("id"), first_job);
    check_str(field("state"), "queued");
    for (int i = 0; i < 4; i++)
        check_int(post("/v1/jobs", submit), 202);
    /* five jobs in pages of two, newest first, none twice */
    char cursor[700] = "", seen[5][80];
    int count = 0, pages = 0;
    do {
        int status;
        char page[800];
        snprintf(page, sizeof page, "/v1/jobs?limit=2%s%s", *cursor ? "&cursor=" : "", cursor);
        cleanup(json) json_t *doc = ask_json("GET", page, NULL, NULL, &status);
        const json_t *job;
        size_t i;
        check_int(status, 200);
        check(json_int(doc, "as_of", 0) > 0);
        json_array_foreach(json_object_get(doc, "jobs"), i, job)
            if (count < 5)
                snprintf(seen[count++], 80, "%s", json_str(job, "id", ""));
        snprintf(cursor, sizeof cursor, "%s", json_str(doc, "next", ""));
        pages++;
    } while (*cursor && pages < 10);
    check_int(count, 5);
    check_int(pages, 3);
    for (int i = 1; i < count; i++)
        check(strcmp(seen[i - 1], seen[i]) > 0);
    check_str(seen[4], first_job);
    /* by state: all five are queued, and nothing of it ended */
    static const struct { const char *state; int count; } states[] = {{"queued", 5}, {"live", 5}, {"running", 0}, {"ended", 0}, {"done", 0}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        int status;
        snprintf(path, sizeof path, "/v1/jobs?state=%s", states[i].state);
        cleanup(json) json_t *doc = ask_json("GET", path, NULL, NULL, &status);
        check_int(status, 200);
        check_int((int)json_array_size(json_object_get(doc, "jobs")), states[i].count);
    }
    /* a cursor belongs to its list and its filters */
    check_int(get("/v1/jobs?limit=2"), 200);
    snprintf(path, sizeof path, "/v1/jobs?state=live&cursor=%s", field("next"));
    check_int(get(path), 400);
    check_int(get("/v1/jobs?limit=2"), 200);
    snprintf(path, sizeof path, "/v1/kernels?cursor=%s", field("next"));
    check_int(get(path), 400);
}

static int post_key(const char *key, const char *path, const char *body)
{
    char extra[400];
    snprintf(extra, sizeof extra, JSON_TYPE "Idempotency-Key: %s\r\n", key);
    return ask(service.address, "POST", path, extra, body, &answer);
}

/* Newest first, in pages that join, without what is large; the cursor of one job's list is no good for another's. */
static void candidates_are_listed_in_brief(const char *path)
{
    int status;
    char at[400], other[400], one[100] = "";
    snprintf(at, sizeof at, "%s?limit=1", path);
    cleanup(json) json_t *all = ask_json("GET", path, NULL, NULL, &status), *page = ask_json("GET", at, NULL, NULL, &status);
    const json_t *list = json_object_get(all, "candidates"), *newest = json_array_get(list, 0), *oldest = json_array_get(list, 1);
    check_int(json_array_size(list), 2);
    check(json_is_null(json_object_get(all, "next")) && json_int(all, "as_of", 0) > 0);
    check(strcmp(json_str(newest, "id", ""), json_str(oldest, "id", "")) > 0);
    check_str(json_str(newest, "language", ""), "cuda");
    check(json_is_null(json_object_get(newest, "verdict")) && !json_object_get(newest, "candidate") && !json_object_get(newest, "source"));
    snprintf(one, sizeof one, "%s", json_str(page, "next", ""));
    snprintf(at, sizeof at, "%s?limit=1&cursor=%s", path, one);
    cleanup(json) json_t *second = ask_json("GET", at, NULL, NULL, &status);
    check_int(status, 200);
    check_str(json_str(json_array_get(json_object_get(second, "candidates"), 0), "id", ""), json_str(oldest, "id", ""));
    check_int(post("/v1/jobs", submit), 202);
    snprintf(other, sizeof other, "/v1/jobs/%s/candidates", field("id"));
    snprintf(at, sizeof at, "%s?cursor=%s", other, one);
    check_int(get(at), 400);
    check_int(get(other), 200);
    check(strstr(buf_cstr(&answer.body), "\"candidates\":[]"));
}

static void candidates_are_taken_until_the_job_has_ended(const char *job)
{
    char path[200];
    static const char candidate[] = "{\"language\":\"cuda\",\"source\":\"x\",\"plan\":{\"steps\":[{\"kernel\":\"k\",\"grid\":[1,1,1],\"block\":[32,1,1],"
                                    "\"args\":[\"x\",\"y\"]}]}}";
    snprintf(path, sizeof path, "/v1/jobs/%s/candidates", job);
    check_int(post(path, candidate), 202);
    char location[100];
    answer_header(&answer, "Location", location, sizeof location);
    check_int(get(location), 200);
    check_str(field("job"), job);
    check_int(post(path, "{\"language\":\"cuda\"}"), 400);
    /* a repetition is answered from the store, where the key lies since the candidate does */
    char first[4000], value[100];
    check_int(post_key("candidate-1", path, candidate), 202);
    snprintf(first, sizeof first, "%s", buf_cstr(&answer.body));
    answer_header(&answer, "Location", location, sizeof location);
    check(answer_header(&answer, "Idempotency-Replayed", value, sizeof value) == NULL || !*value);
    check_int(post_key("candidate-1", path, candidate), 202);
    check_str(buf_cstr(&answer.body), first);
    check_str(answer_header(&answer, "Idempotency-Replayed", value, sizeof value), "true");
    check_str(answer_header(&answer, "Location", value, sizeof value), location);
    check_int(post_key("candidate-1", path, "{\"language\":\"cuda\"}"), 422);
    candidates_are_listed_in_brief(path);
    char cancel[200];
    snprintf(cancel, sizeof cancel, "/v1/jobs/%s/cancel", job);
    check_int(ask(service.address, "POST", cancel, NULL, "", &answer), 200);
    check_str(field("state"), "cancelled");
    check_int(post(path, candidate), 409);
}

/* ---- idempotency ---- */
static void *post_at_once(void *arg)
{
    struct answer a = {0};
    *(int *)arg = ask(service.address, "POST", "/v1/jobs", JSON_TYPE "Idempotency-Key: \"at-once\"\r\n", submit, &a);
    answer_done(&a);
    return NULL;
}

static int jobs_now(void)
{
    int status;
    cleanup(json) json_t *doc = ask_json("GET", "/v1/jobs?limit=200", NULL, NULL, &status);
    return (int)json_array_size(json_object_get(doc, "jobs"));
}

static char kept_body[4000];

static void the_same_key_makes_one_job(void)
{
    int before = jobs_now();
    char value[100], location[100];
    check_int(post_key("\"key-1\"", "/v1/jobs", submit), 202);
    snprintf(kept_body, sizeof kept_body, "%s", buf_cstr(&answer.body));
    answer_header(&answer, "Location", location, sizeof location);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            clock_sleep_ns(1500000000);      /* by now the answer lies in the store */
        check_int(post_key(i ? "key-1" : "\"key-1\"", "/v1/jobs", submit), 202);
        check_str(buf_cstr(&answer.body), kept_body);
        check_str(answer_header(&answer, "Location", value, sizeof value), location);
        check_str(answer_header(&answer, "Idempotency-Replayed", value, sizeof value), "true");
    }
    check_int(jobs_now(), before + 1);
    check_int(post_key("\"key-1\"", "/v1/jobs", "{\"op\":\"scale\",\"shapes\":[{\"N\":66}]}"), 422);
    check_int(post_key("\"a\\b\"", "/v1/jobs", submit), 400);
    check_int(post_key("\"\"", "/v1/jobs", submit), 400);
    check_int(post_key("\"key-2\"", "/v1/jobs", "{\"op\":\"none\",\"shapes\":[{}]}"), 400);
    check_int(post_key("\"key-2\"", "/v1/jobs", submit), 202);      /* a refused request used no key up */
    check_int(jobs_now(), before + 2);
    /* eight at the same moment: one is taken, the others wait or are told to */
    pthread_t threads[8];
    int status[8], taken = 0, told = 0;
    fake_submit_ns = 100000000;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, post_at_once, &status[i]);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        taken += status[i] == 202;
        told += status[i] == 409;
    }
    fake_submit_ns = 0;
    check_int(taken + told, 8);
    check(taken >= 1 && told >= 1);
    check_int(jobs_now(), before + 3);
}

/* ---- kernels ---- */
static json_t *shape_of(int n, char hash[HASH_HEX_SIZE])
{
    char body[100];
    int status;
    snprintf(body, sizeof body, "{\"op\":\"scale\",\"axes\":{\"N\":%d}}", n);
    cleanup(json) json_t *doc = ask_json("POST", "/v1/shape-hash", JSON_TYPE, body, &status);
    snprintf(hash, HASH_HEX_SIZE, "%s", json_str(doc, "shape_hash", ""));
    return json_incref(json_object_get(doc, "shape"));
}

static void *put_kernel_soon(void *arg)
{
    clock_sleep_ns(200000000);
    cleanup(json) json_t *none = NULL;
    fake_kernel(service.app.store, arg, none, "emulated", "cubin two");
    return NULL;
}

static void kernels_are_served_with_validators(void)
{
    char hash[HASH_HEX_SIZE], other[HASH_HEX_SIZE], path[200], etag[100], value[200], extra[200];
    cleanup(json) json_t *shape = shape_of(64, hash), *near = shape_of(128, other);
    check(fake_kernel(service.app.store, hash, shape, "emulated", "cubin one"));
    snprintf(path, sizeof path, "/v1/kernels/%s", hash);
    check_int(get(path), 200);
    check_str(field("evidence"), "emulated");
    check_str(answer_header(&answer, "Cache-Control", value, sizeof value), "no-cache");
    answer_header(&answer, "ETag", etag, sizeof etag);
    snprintf(extra, sizeof extra, "If-None-Match: %s\r\n", etag);
    check_int(ask(service.address, "GET", path, extra, NULL, &answer), 304);
    check_int(ask(service.address, "HEAD", path, NULL, NULL, &answer), 200);
    check_int(answer.body.size, 0);
    snprintf(path, sizeof path, "/v1/kernels/%s?evidence=measured", hash);
    check_int(get(path), 404);
    /* parts, and their immutable twins */
    static const char *const parts[] = {"kernel.cubin", "kernel.ptx", "source", "certificate.json", "certificate.json.minisig"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "/v1/kernels/%s/%s", hash, parts[i]);
        check_int(get(path), 200);
        cleanup(buf) struct buf first = {0};
        buf_add(&first, buf_cstr(&answer.body), answer.body.size);
        char digest[100];
        snprintf(digest, sizeof digest, "\"%s\"", hash_of(first.data, first.size).text);
        check_str(answer_header(&answer, "ETag", etag, sizeof etag), digest);
        answer_header(&answer, "Content-Location", value, sizeof value);
        check_int(get(path), 200);                       /* now from memory */
        check_str(buf_cstr(&answer.body), buf_cstr(&first));
        snprintf(extra, sizeof extra, "If-None-Match: %s\r\n", etag);
        check_int(ask(service.address, "GET", path, extra, NULL, &answer), 304);
        check_int(ask(service.address, "HEAD", path, NULL, NULL, &answer), 200);
        check_int(get(value), 200);
        check_str(buf_cstr(&answer.body), buf_cstr(&first));
        check_str(answer_header(&answer, "Cache-Control", value, sizeof value), "public, max-age=31536000, immutable");
        snprintf(path, sizeof path, "/v1/kernels/%s/%s?evidence=measured", hash, parts[i]);
        check_int(get(path), 404);
    }
    snprintf(path, sizeof path, "/v1/kernels/%s/bundle.tar", hash);
    check_int(get(path), 200);
    struct tar_entry entries[16];
    int count = 0;
    struct err err;
    check(tar_parse(buf_cstr(&answer.body), answer.body.size, entries, 16, &count, &err));
    check_int(count, 7);
    cleanup(buf) struct buf key = {0}, comment = {0};
    signer_public_file(&service.signer, &key);
    check_str(entries[5].name, "manifest.json");
    check_str(entries[6].name, "manifest.json.minisig");
    check(minisign_verify(key.data, key.size, entries[6].data, entries[6].size, entries[5].data, entries[5].size, &comment, &err));
    check(strstr(buf_cstr(&comment), "file:manifest.json ") && strstr(buf_cstr(&comment), hash));
    /* the next best replaces it at once, in every cache */
    snprintf(path, sizeof path, "/v1/kernels/%s/kernel.cubin", hash);
    check(fake_kernel(service.app.store, hash, shape, "measured", "cubin better"));
    check_int(get(path), 200);
    check_str(buf_cstr(&answer.body), "cubin better");
    check(fake_event(service.app.store, NULL, "device.health", 1));      /* news of something else changes nothing */
    check_int(get(path), 200);
    check_str(buf_cstr(&answer.body), "cubin better");
    snprintf(path, sizeof path, "/v1/kernels/%s?evidence=measured", hash);
    check_int(get(path), 200);
    check_int(get("/v1/kernels?op=scale&target=sm_90a&evidence=measured"), 200);
    check(strstr(buf_cstr(&answer.body), hash));
    check_int(get("/v1/kernels?op=other"), 200);
    check(!strstr(buf_cstr(&answer.body), hash));
    /* a neighbour is named */
    snprintf(path, sizeof path, "/v1/kernels/%s", other);
    check_int(get(path), 404);
    check(strstr(buf_cstr(&answer.body), "\"nearest\":[{") && strstr(buf_cstr(&answer.body), hash));
    /* and waited for */
    pthread_t thread;
    int64_t from = clock_mono_ns();
    pthread_create(&thread, NULL, put_kernel_soon, other);
    snprintf(path, sizeof path, "/v1/kernels/%s?wait=10", other);
    check_int(get(path), 200);
    check(clock_mono_ns() - from < 3000000000);
    pthread_join(thread, NULL);
    snprintf(path, sizeof path, "/v1/kernels/%s?wait=1&evidence=measured", other);
    from = clock_mono_ns();
    check_int(get(path), 404);
    check(clock_mono_ns() - from >= 990000000);
}

/* ---- service ---- */
static void the_service_tells_about_itself(void)
{
    char value[200];
    check_int(get("/healthz"), 200);
    check_str(field("status"), "ok");
    check_int(get("/readyz"), 200);
    check_int(get("/v1/devices"), 200);
    check(strstr(buf_cstr(&answer.body), "\"health\":\"ok\"") && strstr(buf_cstr(&answer.body), "\"sandbox\":\"filtered\""));
    check_int(get("/v1/signing-key"), 200);
    check(!strncmp(buf_cstr(&answer.body), "untrusted comment:", 18));
    check_int(get("/metrics"), 200);
    check(!strncmp(answer_header(&answer, "Content-Type", value, sizeof value), "text/plain; version=0.0.4", 25));
    static const char *const names[] = {"proteus_http_requests_total{method=\"POST\",route=\"/v1/jobs\",code=\"202\"}", "proteus_build_info",
                                        "proteus_store_entries{table=\"job\"}", "proteus_runners 1", "proteus_judge_up 1", "proteus_events_total", "proteus_http_request_duration_seconds_bucket", "proteus_cache_requests_total"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check(strstr(buf_cstr(&answer.body), names[i]));
    check(answer.body.size && answer.body.data[answer.body.size - 1] == '\n');
    /* each line is a comment, or a name with labels and a number; each metric is typed before it is used */
    for (const char *line = buf_cstr(&answer.body); *line; line = strchr(line, '\n') + 1) {
        if (*line == '#')
            continue;
        char name[100], typed[120];
        snprintf(name, sizeof name, "%.*s", (int)strspn(line, "abcdefghijklmnopqrstuvwxyz_"), line);
        for (size_t i = 0; i < 3; i++) {
            static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
            size_t n = strlen(name), m = strlen(suffixes[i]);
            if (!strncmp(name, "proteus_http_request_duration", 29) && n > m && !strcmp(name + n - m, suffixes[i]))
                name[n - m] = 0;
        }
        snprintf(typed, sizeof typed, "# TYPE %s ", name);
        check(!strncmp(name, "proteus_", 8) && strstr(buf_cstr(&answer.body), typed) && strstr(buf_cstr(&answer.body), typed) < line);
    }
    check_int(get("/openapi.yaml"), 404);
}

static void files_of_the_dashboard(void)
{
    char value[300], etag[100], extra[200];
    check_int(get("/"), 404);
    put_file("index.html", "<p>one");
    check_int(get("/"), 200);
    check_str(buf_cstr(&answer.body), "<p>one");
    check(strstr(answer_header(&answer, "Content-Security-Policy", value, sizeof value), "script-src 'self'"));
    check_str(answer_header(&answer, "Content-Type", value, sizeof value), "text/html; charset=utf-8");
    answer_header(&answer, "ETag", etag, sizeof etag);
    snprintf(extra, sizeof extra, "If-None-Match: %s\r\n", etag);
    check_int(ask(service.address, "GET", "/index.html", extra, NULL, &answer), 304);
    put_file("index.html", "<p>another");
    check_int(get("/"), 200);
    check_str(buf_cstr(&answer.body), "<p>another");
    put_file("app.js", "x");
    check_int(get("/app.js"), 200);
    check_str(answer_header(&answer, "Content-Type", value, sizeof value), "text/javascript; charset=utf-8");
    put_file(".hidden", "x");
    check_int(get("/.hidden"), 404);
    check_int(get("/ops"), 404);
}

static void a_restart_forgets_nothing(const char *job)
{
    char path[200];
    service_down();
    service_up(1, no_flags);
    snprintf(path, sizeof path, "/v1/jobs/%s", job);
    check_int(get(path), 200);
    check_str(field("state"), "cancelled");
    check_int(post_key("\"key-1\"", "/v1/jobs", submit), 202);
    check_str(buf_cstr(&answer.body), kept_body);
}

/* ---- tokens ---- */
static void tokens_from_the_first_to_the_last(void)
{
    char admin[200], reader[200], path[120], admin_id[40], reader_id[40];
    check_int(post("/v1/tokens", "{\"name\":\"root\",\"scopes\":[\"admin\"]}"), 201);
    check(!strstr(buf_cstr(&answer.body), "secret_hash"));
    snprintf(admin_id, sizeof admin_id, "%s", field("id"));
    snprintf(admin, sizeof admin, "Authorization: Bearer %s\r\n" JSON_TYPE, field("token"));
    check_int(get("/v1/jobs"), 401);
    check_int(get("/healthz"), 200);
    check_int(get("/"), 200);
    check_int(ask(service.address, "GET", "/v1/jobs", admin, NULL, &answer), 200);
    check_int(ask(service.address, "POST", "/v1/tokens", admin, "{\"scopes\":[\"read\"]}", &answer), 201);
    snprintf(reader_id, sizeof reader_id, "%s", field("id"));
    snprintf(reader, sizeof reader, "Authorization: Bearer %s\r\n" JSON_TYPE, field("token"));
    check_int(ask(service.address, "GET", "/v1/jobs", reader, NULL, &answer), 200);
    check_int(ask(service.address, "POST", "/v1/jobs", reader, submit, &answer), 403);
    check_int(ask(service.address, "GET", "/v1/tokens", reader, NULL, &answer), 403);
    check_int(ask(service.address, "GET", "/v1/tokens", admin, NULL, &answer), 200);
    check(strstr(buf_cstr(&answer.body), reader_id) && !strstr(buf_cstr(&answer.body), "secret_hash"));
    /* another name may be used now that strangers need a token */
    char named[300];
    snprintf(named, sizeof named, "%sOrigin: http://proteus.example\r\n", reader);
    check_int(ask(service.address, "GET", "/v1/jobs", named, NULL, &answer), 200);
    service_down();
    service_up(1, no_flags);
    check_int(get("/v1/jobs"), 401);
    check_int(ask(service.address, "GET", "/v1/jobs", reader, NULL, &answer), 200);
    snprintf(path, sizeof path, "/v1/tokens/%s", admin_id);
    check_int(ask(service.address, "DELETE", path, admin, NULL, &answer), 409);
    snprintf(path, sizeof path, "/v1/tokens/%s", reader_id);
    check_int(ask(service.address, "DELETE", path, reader, NULL, &answer), 403);
    check_int(ask(service.address, "DELETE", path, admin, NULL, &answer), 204);
    check_int(ask(service.address, "GET", "/v1/jobs", reader, NULL, &answer), 401);
    snprintf(path, sizeof path, "/v1/tokens/%s", admin_id);
    check_int(ask(service.address, "DELETE", path, admin, NULL, &answer), 204);
    check_int(get("/v1/jobs"), 200);
}

static void what_is_missing_is_told_and_limits_hold(void)
{
    static char *flags[] = {(char *)"proteusd", (char *)"--submits-per-minute=30", (char *)"--body-bytes=2000", NULL};
    service_down();
    fake_devices = NULL;
    service_up(3, flags);
    check_int(get("/v1/devices"), 503);
    check(strstr(field("detail"), "judge"));
    check_int(get("/readyz"), 503);
    check(strstr(buf_cstr(&answer.body), "the judge is not there"));
    int busy = 0;
    for (int i = 0; i < 12; i++)
        busy += post("/v1/jobs", submit) == 429;
    check(busy >= 5 && busy <= 6);
    cleanup(buf) struct buf large = {0};
    buf_str(&large, "{\"op\":\"");
    for (int i = 0; i < 3000; i++)
        buf_str(&large, "x");
    buf_str(&large, "\"}");
    check_int(post("/v1/shape-hash", buf_cstr(&large)), 413);
    service_down();
    fake_devices = "{\"devices\":[{\"kind\":\"sim\",\"healthy\":false}],\"toolkit\":{\"version\":null,\"missing\":\"no libnvrtc.so.13\"}}";
    service_up(1, no_flags);
    check_int(get("/v1/devices"), 200);
    check_int(get("/readyz"), 503);
    check(strstr(buf_cstr(&answer.body), "no libnvrtc.so.13") && strstr(buf_cstr(&answer.body), "no device"));
    /* a device that falls ill, or was found so, is an event */
    cleanup(buf) struct buf events = {0};
    struct err err;
    for (int i = 0; i < 100 && !strstr(buf_cstr(&events), "\"healthy\":false"); i++, clock_sleep_ns(20000000)) {
        buf_clear(&events);
        check(store_events(service.app.store, NULL, 0, 10000, &events, NULL, NULL, &err));
    }
    check(strstr(buf_cstr(&events), "event: device.health") && strstr(buf_cstr(&events), "\"healthy\":false"));
}

int main(void)
{
    char job[80];
    service_make();
    service_up(1, no_flags);
    operators_and_hashes();
    jobs_and_pages(job);
    bad_requests();
    faults_point_at_their_place();
    candidates_are_taken_until_the_job_has_ended(job);
    the_same_key_makes_one_job();
    kernels_are_served_with_validators();
    the_service_tells_about_itself();
    files_of_the_dashboard();
    a_restart_forgets_nothing(job);
    tokens_from_the_first_to_the_last();
    what_is_missing_is_told_and_limits_hold();
    service_down();
    service_remove();
    answer_done(&answer);
    return test_done();
}

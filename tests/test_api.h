/* A whole service in this process, with the stand-in for jobs: store in a folder of its own, operators of the test's, a free port. */
#pragma once
#include "server/api/api.h"
#include "tests/fake_jobs.h"
#include "tests/test_http.h"

#include "core/log.h"

#include <ftw.h>
#include <unistd.h>

struct service {
    char dir[64];
    struct config config;
    struct op_set ops;
    struct preset_set presets;
    struct signer signer;
    struct auth *auth;
    struct app app;
    char address[80];
};
static struct service service;

static const char test_op[] =
    "{\"name\":\"scale\",\"version\":1,\"description\":\"y = a x\",\"tags\":[],\"axes\":{\"N\":{\"type\":\"var\",\"max\":4096},"
    "\"M\":{\"type\":\"var\",\"default\":2}},\"dtypes\":{\"io\":[\"f32\",\"bf16\"]},\"inputs\":{\"x\":{\"shape\":[\"M\",\"N\"],\"dtype\":\"io\"}},"
    "\"outputs\":{\"y\":{\"shape\":[\"M\",\"N\"],\"dtype\":\"io\"}},\"constraints\":[\"N % 2 == 0\"],\"bytes\":\"2*M*N*bytes_io\",\"flops\":\"M*N\","
    "\"regimes\":{\"typical\":{},\"secret\":{\"hidden\":true}}}";

static void put_file(const char *name, const char *text)
{
    char path[200];
    struct err err;
    snprintf(path, sizeof path, "%s/%s", service.dir, name);
    check(file_write(path, text, strlen(text), 0644, &err));
}

static void on_events(void *ctx, int64_t last)
{
    (void)last;
    http_notify(ctx);
}

/* Starts on the folder as it is; `flags` are those of proteusd. */
static void service_up(int argc, char **argv)
{
    struct err err = {0};
    struct buf warnings = {0};
    enum config_action action;
    char *none[] = {NULL}, path[120];
    struct service *s = &service;
    check(config_read(argc, argv, none, &s->config, &action, &warnings, &err));
    snprintf(path, sizeof path, "%s/data", s->dir);
    free(s->config.data);
    s->config.data = xstrdup(path);
    s->app = (struct app){.config = &s->config, .ops = &s->ops, .signer = &s->signer, .default_target = "sm_90a"};
    struct store_config store = {.dir = path, .map_bytes = 64 << 20};
    check(dir_make(path, 0700, &err) && store_open(&store, &s->app.store, &err) && signer_open(path, &s->signer, &err));
    snprintf(path, sizeof path, "%s/ops", s->dir);
    check(op_set_load(path, &s->ops, &err));
    snprintf(path, sizeof path, "%s/models", s->dir);
    check(preset_set_load(path, &s->presets, &err));
    s->app.presets = &s->presets;
    s->auth = s->app.auth = auth_new(100);
    check(tokens_load(&s->app, &err));
    struct http_config http = {.listen = "127.0.0.1:0", .threads = 2, .workers = 8, .connections = 512, .header_bytes = 8192,
                               .body_bytes = s->config.body_bytes, .pending_body_bytes = 64 << 20, .connection_timeout_s = 10,
                               .streams = 64, .waiters = 16, .heartbeat_ns = s->config.heartbeat_ms * 1000000, .routes = api_routes,
                               .route_count = api_route_count, .app = &s->app, .auth = s->auth};
    check(http_open(&http, &s->app.http, &err));
    struct jobs_config jobs = {.runners = 1};
    struct spawn_config spawn = {0};
    s->app.static_dir = s->dir;
    app_open(&s->app, &spawn);
    check(jobs_start(&jobs, s->app.store, &s->ops, &s->signer, &s->app.jobs, &err));
    store_on_events(s->app.store, on_events, s->app.http);
    check(http_serve(s->app.http, &err));
    snprintf(s->address, sizeof s->address, "%s", http_address(s->app.http));
    if (err.text[0])
        fprintf(stderr, "%s\n", err.text);
}

static void service_down(void)
{
    struct service *s = &service;
    http_stop(s->app.http, 500000000);
    jobs_stop(s->app.jobs);
    store_on_events(s->app.store, NULL, NULL);
    app_close(&s->app);
    http_close(s->app.http);
    store_close(s->app.store);
    auth_free(s->auth);
    signer_done(&s->signer);
    op_set_done(&s->ops);
    preset_set_done(&s->presets);
    config_done(&s->config);
}

static void service_make(void)
{
    struct err err;
    char path[120];
    hash_init();
    log_threshold(LOG_ERROR + 1);
    snprintf(service.dir, sizeof service.dir, "/tmp/proteus-api-XXXXXX");
    check(mkdtemp(service.dir) != NULL);
    snprintf(path, sizeof path, "%s/ops/scale", service.dir);
    check(dir_make(path, 0700, &err));
    snprintf(path, sizeof path, "%s/models", service.dir);
    check(dir_make(path, 0700, &err));
    put_file("models/small.json",
             "{\"name\":\"small\",\"description\":\"d\",\"tp\":[1,2],\"batch_max\":16,\"step\":[{\"op\":\"scale\",\"what\":\"first\",\"count\":3,"
             "\"axes\":{\"N\":\"64/tp\",\"M\":\"batch\"}},{\"op\":\"scale\",\"what\":\"second\",\"axes\":{\"N\":8,\"M\":\"batch\"}}]}");
    put_file("models/lacking.json",
             "{\"name\":\"lacking\",\"tp\":[1],\"batch_max\":1,\"step\":[{\"op\":\"nowhere\",\"what\":\"first\",\"axes\":{}}]}");
    put_file("ops/scale/op.json", test_op);
    put_file("ops/scale/reference.c", "");
    put_file("ops/scale/baseline.cu", "extern \"C\" __global__ void k(const float *x, float *y) {}");
    put_file("ops/scale/baseline.json",
             "{\"language\":\"cuda\",\"plan\":{\"steps\":[{\"kernel\":\"k\",\"grid\":[1,1,1],\"block\":[32,1,1],\"args\":[\"x\",\"y\"]}]}}");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void service_remove(void)
{
    nftw(service.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#define JSON_TYPE "Content-Type: application/json\r\n"

/* A request whose answer is JSON; new reference, NULL if it is not. */
__attribute__((unused)) static json_t *ask_json(const char *method, const char *path, const char *extra, const char *body, int *ret_status)
{
    struct answer a = {0};
    json_t *doc = NULL;
    struct err err;
    *ret_status = ask(service.address, method, path, extra, body, &a);
    if (a.body.size && !json_parse(a.body.data, a.body.size, &doc, &err))
        doc = NULL;
    answer_done(&a);
    return doc;
}

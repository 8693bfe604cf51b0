/* What operators of the service look at: liveness, readiness, metrics; and the contract and the public key. */
#include "server/api/api.h"

#include "core/clock.h"
#include "know/lessons.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#define LEAST_FREE_BYTES ((int64_t)64 << 20)
#define OPENAPI_LIMIT_BYTES ((size_t)4 << 20)

void health_get(const struct request *req, struct response *res)
{
    (void)req;
    json_t *doc = json_object();
    json_put_str(doc, "status", "ok");
    json_put_str(doc, "version", PROTEUS_VERSION);
    respond_json(res, 200, doc);
}

static void missing_add(json_t *missing, const char *what, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void missing_add(json_t *missing, const char *what, const char *fmt, ...)
{
    cleanup(buf) struct buf detail = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(&detail, fmt, ap);
    va_end(ap);
    json_t *entry = json_object();
    json_put_str(entry, "what", what);
    json_put_str(entry, "detail", buf_cstr(&detail));
    json_array_append_new(missing, entry);
}

static void check_disk(const struct app *app, json_t *missing)
{
    struct statvfs v;
    if (statvfs(app->config->data, &v) != 0)
        missing_add(missing, "data", "the data folder %s cannot be looked at: %s", app->config->data, strerror(errno));
    else if ((int64_t)v.f_bavail * (int64_t)v.f_frsize < LEAST_FREE_BYTES)
        missing_add(missing, "disk", "less than 64 MiB are free for the data folder");
}

static void check_devices(const struct app *app, json_t *missing)
{
    char why[504];
    cleanup(json) json_t *doc = devices_get(app->devices, why, sizeof why);
    if (!doc) {
        missing_add(missing, "judge", "%s", why[0] ? why : "the judge has not told its devices yet");
        return;
    }
    const json_t *toolkit = json_object_get(doc, "toolkit"), *devices = json_object_get(doc, "devices"), *device;
    if (!json_str(toolkit, "version", NULL))
        missing_add(missing, "toolkit", "%s", json_str(toolkit, "missing", "the CUDA toolkit was not found: give --cuda-home or "
                    "CUDA_HOME, or install it at /usr/local/cuda; without it nothing can be judged"));
    size_t i, healthy = 0;
    json_array_foreach(devices, i, device)
        healthy += json_bool(device, "healthy", true);
    if (!healthy)
        missing_add(missing, "device", "no device is fit to judge on");
}

void ready_get(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    json_t *doc = json_object(), *missing = json_array();
    if (app->http && http_stopping(app->http))
        missing_add(missing, "service", "the service is stopping");
    if (!app->ops->count)
        missing_add(missing, "ops", "there is no operator in the operators' folder");
    check_disk(app, missing);
    check_devices(app, missing);
    bool ready = json_array_size(missing) == 0;
    json_put_bool(doc, "ready", ready);
    json_put(doc, "missing", missing);
    respond_json(res, ready ? 200 : 503, doc);
}

/* What store and jobs count, as metrics. */
struct metric { const char *key, *name, *type, *help; };
static const struct metric store_metrics[] = {
    {"used_bytes", "proteus_store_used_bytes", "gauge", "Bytes that the store uses."},
    {"map_bytes", "proteus_store_limit_bytes", "gauge", "The most that the store may grow to."},
    {"last_event", "proteus_events_total", "counter", "Events since the store was made."},
    {"commits", "proteus_store_commits_total", "counter", "Transactions synced since the start."},
    {"batches", "proteus_store_batches_total", "counter", "Batches written since the start; several share one transaction."},
    {NULL, NULL, NULL, NULL},
};
static const struct metric jobs_metrics[] = {
    {"runners", "proteus_runners", "gauge", "Jobs that can be judged at once."},
    {"queued", "proteus_jobs_queued", "gauge", "Jobs that wait for a runner."},
    {"running", "proteus_jobs_running", "gauge", "Jobs under work."},
    {"waiting", "proteus_jobs_waiting", "gauge", "Jobs that wait for candidates of an external agent."},
    {"judged", "proteus_candidates_judged_total", "counter", "Candidates judged since the start."},
    {"judge_errors", "proteus_judge_errors_total", "counter", "Judgements that failed through no fault of the candidate."},
    {NULL, NULL, NULL, NULL},
};

static const struct metric know_metrics[] = {
    {"active", "proteus_lessons_active", "gauge", "Lessons that are given to searches."},
    {"superseded", "proteus_lessons_superseded", "gauge", "Lessons in whose place another stands."},
    {"retired", "proteus_lessons_retired", "gauge", "Lessons that have ended."},
    {"vectors", "proteus_lesson_vectors", "gauge", "Lessons that have a vector of the configured endpoint."},
    {"embed_failures", "proteus_embed_failures_total", "counter", "Requests for vectors that failed."},
    {"embed_fallbacks", "proteus_embed_fallbacks_total", "counter", "Queries for lessons that went without the endpoint's vector."},
    {"measured_again", "proteus_lesson_contradictions_judged_total", "counter", "Contradictions between lessons for which candidates were laid side by side."},
    {"measured_same", "proteus_lesson_contradictions_undecided_total", "counter", "Those of them that showed no difference: both lessons stay."},
    {NULL, NULL, NULL, NULL},
};

static void write_head(struct buf *to, const char *name, const char *type, const char *help)
{
    buf_fmt(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_metrics(struct buf *to, const struct metric *table, const json_t *doc)
{
    for (const struct metric *m = table; m->key; m++) {
        if (!json_is_number(json_object_get(doc, m->key)))
            continue;
        write_head(to, m->name, m->type, m->help);
        buf_fmt(to, "%s %.17g\n", m->name, json_num(doc, m->key, 0));
    }
}

static void write_tables(struct buf *to, const json_t *kinds)
{
    static const struct { const char *key, *name, *help; } columns[] = {
        {"count", "proteus_store_entries", "Entries of each table of the store."},
        {"bytes", "proteus_store_table_bytes", "Pages of each table of the store."}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const char *table;
        json_t *figures;
        write_head(to, columns[i].name, "gauge", columns[i].help);
        json_object_foreach((json_t *)(uintptr_t)kinds, table, figures)
            buf_fmt(to, "%s{table=\"%s\"} %lld\n", columns[i].name, table, (long long)json_int(figures, columns[i].key, 0));
    }
}

/* What models were asked, by purpose. */
static void write_llm(struct buf *to, const json_t *llm)
{
    static const char *const kinds[] = {"input", "output", "cache_read", "cache_write"};
    static const struct { const char *key, *name, *help; } counts[] = {
        {"calls", "proteus_llm_calls_total", "Questions to a language model since the start."},
        {"tries", "proteus_llm_requests_total", "Requests that these took, with those that were tried again."}};
    static const struct metric attempts[] = {
        {"attempts", "proteus_llm_attempts_total", "counter", "Attempts at a candidate by a language model since the start."},
        {"attempts_failed", "proteus_llm_attempts_failed_total", "counter", "Attempts that gave no candidate."},
        {NULL, NULL, NULL, NULL}};
    const char *purpose;
    json_t *usage;
    if (!llm)
        return;
    write_metrics(to, attempts, llm);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        write_head(to, counts[i].name, "counter", counts[i].help);
        json_object_foreach(json_object_get(llm, "usage"), purpose, usage)
            buf_fmt(to, "%s{purpose=\"%s\"} %lld\n", counts[i].name, purpose, (long long)json_int(usage, counts[i].key, 0));
    }
    write_head(to, "proteus_llm_tokens_total", "counter", "Tokens that language models were charged with since the start.");
    json_object_foreach(json_object_get(llm, "usage"), purpose, usage)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            buf_fmt(to, "proteus_llm_tokens_total{purpose=\"%s\",kind=\"%s\"} %lld\n", purpose, kinds[i], (long long)json_int(usage, kinds[i], 0));
}

static void write_devices(struct buf *to, struct devices *devices)
{
    char why[504];
    cleanup(json) json_t *doc = devices_get(devices, why, sizeof why);
    const json_t *device;
    size_t i;
    write_head(to, "proteus_judge_up", "gauge", "Whether the judge told its devices when it was last asked.");
    buf_fmt(to, "proteus_judge_up %d\n", doc != NULL);
    write_head(to, "proteus_device_healthy", "gauge", "Whether a device is fit to judge on.");
    json_array_foreach(json_object_get(doc, "devices"), i, device) {
        const char *id = json_str(device, "id", "device");
        if (strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789:") == strlen(id))
            buf_fmt(to, "proteus_device_healthy{device=\"%s\"} %d\n", id, json_bool(device, "healthy", true));
    }
}

void metrics_get(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    struct buf *to = &res->body;
    struct err err;
    cleanup(json) json_t *store = NULL, *jobs = jobs_stats(app->jobs);
    write_head(to, "proteus_build_info", "gauge", "Version of the service.");
    buf_str(to, "proteus_build_info{version=\"" PROTEUS_VERSION "\"} 1\n");
    write_head(to, "proteus_start_time_seconds", "gauge", "When the service started.");
    buf_fmt(to, "proteus_start_time_seconds %.3f\n", (double)app->started_ns / 1e9);
    if (app->http)
        http_metrics(app->http, to);
    cache_metrics(app->cache, to);
    if (store_stats(app->store, &store, &err)) {
        write_metrics(to, store_metrics, store);
        write_tables(to, json_object_get(store, "kinds"));
    }
    write_metrics(to, jobs_metrics, jobs);
    cleanup(json) json_t *know = app->know ? know_stats(app->know) : NULL;
    write_metrics(to, know_metrics, know);
    write_llm(to, json_object_get(jobs, "llm"));
    write_devices(to, app->devices);
    res->status = 200;
    res->content_type = "text/plain; version=0.0.4; charset=utf-8";
}

void signing_key_get(const struct request *req, struct response *res)
{
    signer_public_file(app_of(req)->signer, &res->body);
    res->status = 200;
    res->content_type = "text/plain; charset=utf-8";
    respond_etag(res, "no-cache");
}

void openapi_get(const struct request *req, struct response *res)
{
    const struct app *app = app_of(req);
    struct err err;
    if (!app->openapi_path)
        err_set(&err, ERR_NOT_FOUND, "openapi.yaml was not found beside this program; name it with --openapi");
    else if (file_read(app->openapi_path, OPENAPI_LIMIT_BYTES, &res->body, &err)) {
        res->status = 200;
        res->content_type = "application/yaml; charset=utf-8";
        respond_etag(res, "no-cache");
        return;
    }
    respond_err(req, res, &err);
}

/* The type of a problem is an address; here is what it says. */
void problems_get(const struct request *req, struct response *res)
{
    struct err err;
    for (int code = ERR_INVALID; code <= ERR_NO_SPACE; code++) {
        char slug[40];
        snprintf(slug, sizeof slug, "%s", err_name((enum err_code)code));
        for (char *c = slug; *c; c++)
            *c = *c == '_' ? '-' : *c;
        if (strcmp(slug, req->params[0]))
            continue;
        json_t *doc = json_object();
        json_put_str(doc, "code", err_name((enum err_code)code));
        json_put_str(doc, "title", err_title((enum err_code)code));
        json_put_int(doc, "status", err_http_status((enum err_code)code));
        respond_json(res, 200, doc);
        return;
    }
    err_set(&err, ERR_NOT_FOUND, "there is no problem of the name \"%.60s\"", req->params[0]);
    respond_err(req, res, &err);
}

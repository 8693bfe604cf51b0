/* What operators of the service look at: liveness, readiness, metrics; and the contract and the public key. */
#include "server/api/api.h"

#include "core/clock.h"

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

/* Numbers of a JSON object as gauges: proteus_PREFIX_KEY, members of inner objects with a label. */
static void write_numbers(struct buf *to, const char *prefix, const json_t *doc)
{
    const char *key, *inner_key;
    json_t *value, *inner;
    json_object_foreach((json_t *)(uintptr_t)doc, key, value) {
        if (json_is_number(value))
            buf_fmt(to, "# TYPE proteus_%s_%s gauge\nproteus_%s_%s %.17g\n", prefix, key, prefix, key, json_number_value(value));
        if (!json_is_object(value))
            continue;
        buf_fmt(to, "# TYPE proteus_%s_%s gauge\n", prefix, key);
        json_object_foreach(value, inner_key, inner) {
            if (json_is_number(inner))
                buf_fmt(to, "proteus_%s_%s{name=\"%s\"} %.17g\n", prefix, key, inner_key, json_number_value(inner));
            const char *unit;
            json_t *number;
            json_object_foreach(inner, unit, number)
                if (json_is_number(number))
                    buf_fmt(to, "proteus_%s_%s{name=\"%s\",of=\"%s\"} %.17g\n", prefix, key, inner_key, unit, json_number_value(number));
        }
    }
}

void metrics_get(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    struct buf *to = &res->body;
    struct err err;
    cleanup(json) json_t *store = NULL, *jobs = jobs_stats(app->jobs);
    buf_str(to, "# HELP proteus_build_info Version of the service.\n# TYPE proteus_build_info gauge\nproteus_build_info{version=\""
            PROTEUS_VERSION "\"} 1\n");
    buf_fmt(to, "# HELP proteus_start_time_seconds When the service started.\n# TYPE proteus_start_time_seconds gauge\n"
            "proteus_start_time_seconds %.3f\n", (double)app->started_ns / 1e9);
    if (app->http)
        http_metrics(app->http, to);
    cache_metrics(app->cache, to);
    if (store_stats(app->store, &store, &err))
        write_numbers(to, "store", store);
    write_numbers(to, "jobs", jobs);
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

/* The service itself: health, metrics, the dashboard's files, what it says is missing, and its limits. */
#include "tests/test_api_ask.h"

/* Of all kinds of routes and answers, so that there is something to count. */
static void routes_are_asked(void)
{
#define NONE "0000000000000000000000000000000000000000000000000000000000000000"
    static const struct { const char *method, *path, *body; int status; } rows[] = {
        {"POST", "/v1/jobs", submit, 202},
        {"POST", "/v1/jobs", "{\"op\":\"none\",\"shapes\":[{}]}", 400}, {"GET", "/v1/jobs", NULL, 200}, {"GET", "/v1/jobs?limit=0", NULL, 400},
        {"GET", "/v1/jobs/x", NULL, 404}, {"GET", "/v1/jobs/x/candidates", NULL, 404}, {"GET", "/v1/jobs/x/events", NULL, 404},
        {"POST", "/v1/jobs/x/cancel", NULL, 404}, {"GET", "/v1/candidates/x", NULL, 404}, {"GET", "/v1/kernels", NULL, 200},
        {"GET", "/v1/kernels/" NONE, NULL, 404}, {"GET", "/v1/kernels/" NONE "/kernel.cubin", NULL, 404}, {"GET", "/v1/artifacts/" NONE, NULL, 404},
        {"GET", "/v1/ops", NULL, 200}, {"GET", "/v1/ops/scale", NULL, 200}, {"GET", "/v1/ops/none", NULL, 404}, {"DELETE", "/v1/ops/scale", NULL, 405},
        {"POST", "/v1/shape-hash", "[]", 400}, {"GET", "/v1/tokens", NULL, 200}, {"POST", "/v1/tokens", "{}", 400}, {"DELETE", "/v1/tokens/none", NULL, 404},
        {"GET", "/problems/none", NULL, 404}, {"GET", "/none", NULL, 404}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_int(ask(service.address, rows[i].method, rows[i].path, rows[i].body ? JSON_TYPE : "", rows[i].body, &answer), rows[i].status);
}

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
    service_make();
    service_up(1, no_flags);
    routes_are_asked();
    the_service_tells_about_itself();
    files_of_the_dashboard();
    what_is_missing_is_told_and_limits_hold();
    service_down();
    service_remove();
    answer_done(&answer);
    return test_done();
}

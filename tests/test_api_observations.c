/* Observed shapes over HTTP: lines in, an order out, limits, and who may. */
#include "tests/test_api.h"

#define LINES_TYPE "Content-Type: application/x-ndjson\r\n"

static char *flags[] = {(char *)"proteusd", (char *)"--max-observed", (char *)"3", (char *)"--observation-lines", (char *)"4"};
static struct answer answer;

static void lines_come_in(void)
{
    int status;
    cleanup(json) json_t *doc = ask_json("POST", "/v1/observations", LINES_TYPE,
        "{\"op\":\"scale\",\"axes\":{\"N\":64},\"count\":7}\n{\"op\":\"scale\",\"axes\":{\"N\":128},\"count\":5}\n{\"op\":\"other\",\"axes\":{}}\n", &status);
    check_int(status, 200);
    check_int(json_int(doc, "taken", 0), 2);
    check_int(json_int(doc, "skipped", 0), 1);
    check_int(fake_news, 1);                        /* the jobs are told */
    cleanup(json) json_t *list = ask_json("GET", "/v1/observations?limit=1", NULL, NULL, &status);
    const json_t *all = json_object_get(list, "observations"), *first = json_array_get(all, 0);
    check_int(json_array_size(all), 1);
    check_int(json_int(first, "count", 0), 5);      /* 5 x 128 is more than 7 x 64 */
    check_str(json_str(json_object_get(first, "order"), "based_on", ""), "byte_floor");
    check(json_is_null(json_object_get(first, "kernel")));
    check(fake_kernel(service.app.store, json_str(first, "shape_hash", ""), json_object_get(first, "shape"), "emulated", "abc"));
    cleanup(json) json_t *known = ask_json("GET", "/v1/observations?op=scale", NULL, NULL, &status);
    check_int(json_array_size(json_object_get(known, "observations")), 2);
    check(json_is_object(json_object_get(json_array_get(json_object_get(known, "observations"), 0), "kernel")) ||
          json_is_object(json_object_get(json_array_get(json_object_get(known, "observations"), 1), "kernel")));
    cleanup(json) json_t *none = ask_json("GET", "/v1/observations?op=other", NULL, NULL, &status);
    check(status == 200 && !json_array_size(json_object_get(none, "observations")));
}

static void what_is_refused(void)
{
    static const struct { const char *method, *path, *type, *body; int status; const char *says; } rows[] = {
        {"POST", "/v1/observations", JSON_TYPE, "{\"op\":\"scale\",\"axes\":{\"N\":64}}", 415, "x-ndjson"},
        {"POST", "/v1/observations", "", "", 415, "x-ndjson"},
        {"POST", "/v1/observations", LINES_TYPE, "{\"op\":\"scale\"}", 400, "\"pointer\":\"/0\""},
        {"POST", "/v1/observations", LINES_TYPE, "\xff\xfe", 400, "line 1"},
        {"POST", "/v1/observations", LINES_TYPE, "\n\n\n\n\n", 413, "4 lines"},
        {"POST", "/v1/observations", LINES_TYPE, "{\"op\":\"scale\",\"axes\":{\"N\":2}}\n{\"op\":\"scale\",\"axes\":{\"N\":4}}\n", 429, "no more than 3"},
        {"GET", "/v1/observations?limit=0", "", NULL, 400, "limit"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = ask(service.address, rows[i].method, rows[i].path, rows[i].type, rows[i].body, &answer);
        if (status != rows[i].status || !strstr(buf_cstr(&answer.body), rows[i].says))
            fprintf(stderr, "row %zu: %d %s\n", i, status, buf_cstr(&answer.body));
        check_int(status, rows[i].status);
        check(strstr(buf_cstr(&answer.body), rows[i].says));
    }
    cleanup(json) json_t *list = NULL;
    int status;
    list = ask_json("GET", "/v1/observations", NULL, NULL, &status);
    check_int(json_array_size(json_object_get(list, "observations")), 2);
}

static void all_is_forgotten(void)
{
    int status;
    cleanup(json) json_t *doc = ask_json("DELETE", "/v1/observations", "", NULL, &status);
    check(status == 200 && json_int(doc, "forgotten", 0) == 2);
    cleanup(json) json_t *list = ask_json("GET", "/v1/observations", NULL, NULL, &status);
    check_int(json_array_size(json_object_get(list, "observations")), 0);
}

int main(void)
{
    service_make();
    service_up(5, flags);
    lines_come_in();
    what_is_refused();
    all_is_forgotten();
    service_down();
    answer_done(&answer);
    service_remove();
    return test_done();
}

/* Sets and presets over HTTP: what is there comes whole, what is missing is named. */
#include "tests/test_api.h"

static char *no_flags[] = {(char *)"proteusd", (char *)"--max-shapes", (char *)"5"};
static struct answer answer;

static const json_t *at(const json_t *doc, const char *list, size_t i)
{
    return json_array_get(json_object_get(doc, list), i);
}

static void presets_are_listed(void)
{
    int status;
    cleanup(json) json_t *doc = ask_json("GET", "/v1/presets", NULL, NULL, &status);
    check_int(status, 200);
    check_int(json_array_size(json_object_get(doc, "presets")), 2);
    check_str(json_str(at(doc, "presets", 1), "name", ""), "small");
    check_int(json_array_size(json_object_get(at(doc, "presets", 1), "ops")), 1);
}

static void what_is_missing_is_named(void)
{
    int status;
    struct err err;
    cleanup(json) json_t *doc = ask_json("GET", "/v1/sets/small?tp=2&batch=1,4", NULL, NULL, &status);
    check_int(status, 200);
    check_int(json_array_size(json_object_get(doc, "missing")), 4);
    check(!json_bool(doc, "complete", true));
    check_str(json_str(doc, "target", ""), "sm_90a");
    const json_t *first = at(doc, "missing", 0);
    check_int(json_int(first, "count", 0), 3);
    check_int(json_int(json_object_get(json_object_get(first, "shape"), "axes"), "N", 0), 32);
    check_str(json_str(at(first, "launches", 0), "what", ""), "first");

    check(fake_kernel(service.app.store, json_str(first, "shape_hash", ""), json_object_get(first, "shape"), "emulated", "abc"));
    cleanup(json) json_t *more = ask_json("GET", "/v1/sets/small?tp=2&batch=1", NULL, NULL, &status);
    check_int(json_array_size(json_object_get(more, "kernels")), 1);
    check_int(json_array_size(json_object_get(more, "missing")), 1);
    const json_t *kernel = json_object_get(at(more, "kernels", 0), "kernel");
    check_str(json_str(kernel, "shape_hash", ""), json_str(first, "shape_hash", "-"));
    check(json_str(json_object_get(kernel, "links"), "bundle.tar", NULL));
    cleanup(json) json_t *measured = ask_json("GET", "/v1/sets/small?tp=2&evidence=measured", NULL, NULL, &status);
    check_int(json_array_size(json_object_get(measured, "kernels")), 0);          /* an estimate is no measurement */

    const json_t *second = at(more, "missing", 0);
    check(fake_kernel(service.app.store, json_str(second, "shape_hash", ""), json_object_get(second, "shape"), "measured", "abc"));
    cleanup(json) json_t *all = ask_json("GET", "/v1/sets/small?tp=2&batch=1", NULL, NULL, &status);
    check(json_bool(all, "complete", false));
    (void)err;
}

static void lists_of_shapes(void)
{
    int status;
    cleanup(json) json_t *doc = ask_json("POST", "/v1/sets", JSON_TYPE,
        "{\"shapes\":[{\"op\":\"scale\",\"axes\":{\"N\":32,\"M\":1}},{\"op\":\"scale\",\"axes\":{\"N\":32,\"M\":1}},{\"op\":\"scale\",\"axes\":{\"N\":2}}]}", &status);
    check_int(status, 200);
    check_int(json_array_size(json_object_get(doc, "kernels")), 1);
    check_int(json_array_size(json_object_get(doc, "missing")), 1);               /* the one that is there twice is answered once */
    cleanup(json) json_t *model = ask_json("POST", "/v1/sets", JSON_TYPE, "{\"model\":{\"preset\":\"small\",\"tp\":2}}", &status);
    check(status == 200 && json_bool(model, "complete", false));
    cleanup(json) json_t *measured = ask_json("POST", "/v1/sets", JSON_TYPE, "{\"model\":{\"preset\":\"small\",\"tp\":2},\"evidence\":\"measured\"}", &status);
    check(status == 200 && !json_bool(measured, "complete", true));
}

static void bad_requests(void)
{
    static const struct { const char *method, *path, *body; int status; const char *pointer, *says; } rows[] = {
        {"GET", "/v1/sets/none", NULL, 404, "/preset", "small"},
        {"GET", "/v1/sets/lacking", NULL, 422, "", "\\\"nowhere\\\""},
        {"GET", "/v1/sets/small?tp=4", NULL, 400, "", "1, 2"},
        {"GET", "/v1/sets/small?tp=x", NULL, 400, "/tp", "number"},
        {"GET", "/v1/sets/small?batch=1,,2,x", NULL, 400, "/batch", "number"},
        {"GET", "/v1/sets/small?batch=1,,2", NULL, 400, "/batch", "number"},
        {"GET", "/v1/sets/small?batch=1,1", NULL, 400, "/batch", "1 stands twice"},
        {"GET", "/v1/sets/small?batch=17", NULL, 400, "", "16"},
        {"GET", "/v1/sets/small?batch=1,2,3", NULL, 400, "", "6 shapes; at most 5"},
        {"GET", "/v1/sets/small?target=x", NULL, 400, "", "sm_90a"},
        {"GET", "/v1/sets/small?evidence=guessed", NULL, 400, NULL, "evidence"},
        {"POST", "/v1/sets", "{}", 400, "", "either"},
        {"POST", "/v1/sets", "[]", 400, "", "either"},
        {"POST", "/v1/sets", "{\"shapes\":[]}", 400, "/shapes", "either"},
        {"POST", "/v1/sets", "{\"shapes\":[3]}", 400, "/shapes/0", ""},
        {"POST", "/v1/sets", "{\"shapes\":[{\"op\":\"scale\",\"axes\":{}}]}", 400, "/shapes/0/axes/N", "missing"},
        {"POST", "/v1/sets", "{\"shapes\":[1,2,3,4,5,6]}", 400, "/shapes", "at most 5"},
        {"POST", "/v1/sets", "{\"model\":3}", 400, "", "either"},
        {"POST", "/v1/sets", "{\"model\":{\"preset\":\"none\"}}", 404, "/model/preset", "small"},
        {"POST", "/v1/sets", "{\"model\":{\"preset\":\"small\"},\"more\":1}", 400, "/more", ""},
        {"POST", "/v1/sets", "{\"model\":{\"preset\":\"small\"},\"evidence\":\"x\"}", 400, "/evidence", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = ask(service.address, rows[i].method, rows[i].path, rows[i].body ? JSON_TYPE : "", rows[i].body, &answer);
        cleanup(str) char *pointer = rows[i].pointer ? xfmt("\"pointer\":\"%s\"", rows[i].pointer) : NULL;
        bool good = status == rows[i].status && strstr(buf_cstr(&answer.body), rows[i].says) && (!pointer || strstr(buf_cstr(&answer.body), pointer));
        if (!good)
            fprintf(stderr, "%s %s %s: %d %s\n", rows[i].method, rows[i].path, rows[i].body ? rows[i].body : "", status, buf_cstr(&answer.body));
        check(good);
    }
}

int main(void)
{
    service_make();
    service_up(3, no_flags);
    presets_are_listed();
    what_is_missing_is_named();
    lists_of_shapes();
    bad_requests();
    service_down();
    answer_done(&answer);
    service_remove();
    return test_done();
}

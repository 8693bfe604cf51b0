/* Operators as they are shown, the hashes of their shapes, and what is said of a shape that is none. */
#include "tests/test_api_ask.h"

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

int main(void)
{
    service_make();
    service_up(1, no_flags);
    operators_and_hashes();
    faults_point_at_their_place();
    service_down();
    service_remove();
    answer_done(&answer);
    return test_done();
}

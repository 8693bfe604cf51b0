#include "core/candidate.h"
#include "tests/test.h"

static struct op_set ops;
static struct shape shape;

#define SOURCE "\"language\":\"cuda\",\"source\":\"x\""
#define STEP "{\"kernel\":\"k\",\"grid\":[\"R\"],\"block\":[32],\"args\":[\"x\"]}"

static void form_is_checked(void)
{
    static const struct { const char *doc, *pointer; } cases[] = {
        {"[]", ""},
        {"{" SOURCE ",\"plan\":{\"steps\":[" STEP "]},\"host_code\":\"system()\"}", "/host_code"},
        {"{\"language\":\"c\",\"source\":\"x\",\"plan\":{\"steps\":[" STEP "]}}", "/language"},
        {"{\"language\":\"cuda\",\"plan\":{\"steps\":[" STEP "]}}", "/source"},
        {"{" SOURCE "}", "/plan"},
        {"{" SOURCE ",\"plan\":{\"steps\":[]}}", "/plan/steps"},
        {"{" SOURCE ",\"plan\":{\"steps\":[{\"kernel\":\"k\",\"block\":[1],\"args\":[]}]}}", "/plan/steps/0/grid"},
        {"{" SOURCE ",\"plan\":{\"steps\":[" STEP "],\"streams\":2}}", "/plan/streams"},
        {"{" SOURCE ",\"plan\":{\"steps\":[" STEP "]},\"options\":{\"maxrregcount\":\"64\"}}", "/options/maxrregcount"},
        {"{" SOURCE ",\"plan\":{\"steps\":[" STEP "]},\"options\":{\"include\":true}}", "/options/include"},
        {"{" SOURCE ",\"plan\":{\"steps\":[" STEP "]},\"declares\":{\"atomics\":1}}", "/declares/atomics"},
        {"{" SOURCE ",\"plan\":{\"steps\":[" STEP "]},\"defines\":{\"A\":1.5}}", "/defines/A"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(json) json_t *doc = NULL;
        cleanup(candidate) struct candidate c = {0};
        struct faults f = {0};
        check(json_parse(cases[i].doc, strlen(cases[i].doc), &doc, NULL));
        check(!candidate_parse(doc, "", &c, &f));
        check(f.count >= 1);
        check_str(f.list[0].pointer, cases[i].pointer);
    }
}

static bool resolve(const char *plan, const char *more, struct plan *p, char *why, size_t size)
{
    cleanup(str) char *text = xfmt("{" SOURCE ",\"plan\":%s%s}", plan, more);
    cleanup(json) json_t *doc = NULL;
    cleanup(candidate) struct candidate c = {0};
    struct faults f = {0};
    struct err err = {0};
    check(json_parse(text, strlen(text), &doc, &err));
    bool parsed = candidate_parse(doc, "", &c, &f);
    if (!parsed)
        fprintf(stderr, "%s %s\n", f.list[0].pointer, f.list[0].detail);
    check(parsed);
    return plan_resolve(&c, &shape, p, why, size);
}

static void numbers_are_filled_in(void)
{
    struct plan *p = xalloc(sizeof *p);
    char why[256] = "";
    bool ok = resolve("{\"workspace\":[{\"name\":\"partial\",\"bytes\":\"4*R*SPLIT\"}],\"steps\":[{\"memset\":\"partial\",\"value\":0},"
                      "{\"kernel\":\"k\",\"grid\":[\"cdiv(N,4)\",\"R\"],\"block\":[\"32*SPLIT\",1,1],\"shared_bytes\":\"N*4\","
                      "\"args\":[\"x\",\"partial\",\"eps\",\"$N\",\"y\"]}]}",
                      ",\"defines\":{\"SPLIT\":2},\"declares\":{\"cooperative\":true}", p, why, sizeof why);
    if (!ok)
        fprintf(stderr, "%s\n", why);
    check(ok);
    check(p->cooperative);
    check_int(p->workspaces[0].bytes, 24);
    check_int(p->step_count, 2);
    check(p->steps[0].is_memset);
    check_int(p->steps[1].grid[0], 2);
    check_int(p->steps[1].grid[1], 3);
    check_int(p->steps[1].grid[2], 1);
    check_int(p->steps[1].block[0], 64);
    check_int(p->steps[1].shared_bytes, 32);
    check_int(p->steps[1].arg_count, 5);
    check_int(p->steps[1].args[2].bytes, 4);
    float eps = 1e-6f;
    check(memcmp(&p->steps[1].args[2].value, &eps, 4) == 0);
    check_int(p->steps[1].args[3].value, 8);
    cleanup(json) json_t *doc = plan_encode(p, &shape);
    struct plan *back = xalloc(sizeof *back);
    struct err err = {0};
    check(plan_parse(doc, &shape, back, &err));
    check(memcmp(p, back, sizeof *p) == 0);
    free(p);
    free(back);
}

static void bad_plans_say_why(void)
{
    static const struct { const char *plan, *more, *why; } cases[] = {
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[0],\"block\":[32],\"args\":[]}]}", "", "grid[0] is 0"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[\"R-4\"],\"block\":[32],\"args\":[]}]}", "", "grid[0] is -1"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[1,70000],\"block\":[32],\"args\":[]}]}", "", "grid[1]"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[1],\"block\":[1024,2],\"args\":[]}]}", "", "2048 in all"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[3],\"block\":[32],\"cluster\":[2],\"args\":[]}]}", "", "multiple of the cluster"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[1],\"block\":[32],\"dependent\":true,\"args\":[]}]}", "", "follows a launch"},
        {"{\"workspace\":[{\"name\":\"w\",\"bytes\":4}],\"steps\":[" STEP ",{\"memset\":\"w\",\"value\":0},"
         "{\"kernel\":\"k\",\"grid\":[1],\"block\":[32],\"dependent\":1,\"args\":[]}]}", "", "follows a launch"},
        {"{\"steps\":[" STEP ",{\"kernel\":\"k\",\"grid\":[1],\"block\":[32],\"dependent\":\"R\",\"args\":[]}]}", "", "dependent is 3"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[\"4611686018427387904*4\"],\"block\":[32],\"args\":[]}]}", "", "overflow"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[\"Z\"],\"block\":[32],\"args\":[]}]}", "", "unknown name"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[1],\"block\":[32],\"shared_bytes\":300000,\"args\":[]}]}", "", "shared_bytes"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[1],\"block\":[32],\"args\":[\"weights\"]}]}", "", "no tensor"},
        {"{\"steps\":[{\"kernel\":\"k\",\"grid\":[1],\"block\":[32],\"args\":[\"$Q\"]}]}", "", "no such axis"},
        {"{\"steps\":[{\"kernel\":\"a b\",\"grid\":[1],\"block\":[32],\"args\":[]}]}", "", "PTX entry"},
        {"{\"steps\":[{\"memset\":\"x\",\"value\":0}]}", "", "no workspace"},
        {"{\"workspace\":[{\"name\":\"w\",\"bytes\":4}],\"steps\":[{\"memset\":\"w\",\"value\":0}]}", "", "launches no kernel"},
        {"{\"workspace\":[{\"name\":\"w\",\"bytes\":4}],\"steps\":[{\"memset\":\"w\",\"value\":256}]}", "", "value is 256"},
        {"{\"workspace\":[{\"name\":\"w\\u202e\",\"bytes\":4}],\"steps\":[" STEP "]}", "", "letters, digits"},
        {"{\"workspace\":[{\"name\":\"1w\",\"bytes\":4}],\"steps\":[" STEP "]}", "", "letters, digits"},
        {"{\"workspace\":[{\"name\":\"x\",\"bytes\":4}],\"steps\":[" STEP "]}", "", "name of its own"},
        {"{\"workspace\":[{\"name\":\"w\",\"bytes\":\"4294967296*2\"}],\"steps\":[" STEP "]}", "", "bytes of workspace"},
        {"{\"workspace\":[{\"name\":\"w\",\"bytes\":3000000000},{\"name\":\"v\",\"bytes\":3000000000}],\"steps\":[" STEP "]}", "", "in all"},
    };
    struct plan *p = xalloc(sizeof *p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[256] = "";
        check(!resolve(cases[i].plan, cases[i].more, p, why, sizeof why));
        check(strstr(why, cases[i].why) != NULL);
        if (!strstr(why, cases[i].why))
            fprintf(stderr, "   %zu: %s\n", i, why);
    }
    free(p);
}

static void options_are_ours_alone(void)
{
    static const struct { const char *defines, *why; } bad[] = {
        {"{\"rows\":1}", "upper-case"}, {"{\"A B\":1}", "upper-case"}, {"{\"AXIS_R\":1}", "predefined"}, {"{\"DTYPE_io\":1}", "upper-case"},
        {"{\"A\":\"1;system\"}", "integer or an identifier"}, {"{\"A\":\"\"}", "integer or an identifier"}, {"{\"A\":\"-I/etc\"}", "integer or an identifier"},
        {"{\"A\":\"x y\"}", "integer or an identifier"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cleanup(str) char *text = xfmt("{" SOURCE ",\"plan\":{\"steps\":[" STEP "]},\"defines\":%s}", bad[i].defines);
        cleanup(json) json_t *doc = NULL;
        cleanup(candidate) struct candidate c = {0};
        cleanup(buf) struct buf options = {0};
        struct faults f = {0};
        char why[256] = "";
        check(json_parse(text, strlen(text), &doc, NULL));
        check(candidate_parse(doc, "", &c, &f));
        check(!candidate_options(&c, &shape, &options, why, sizeof why));
        check(strstr(why, bad[i].why) != NULL);
    }
    cleanup(json) json_t *doc = NULL;
    cleanup(candidate) struct candidate c = {0};
    cleanup(buf) struct buf options = {0};
    struct faults f = {0};
    char why[256] = "";
    static const char good[] = "{" SOURCE ",\"plan\":{\"steps\":[" STEP "]},\"defines\":{\"ROWS\":2,\"T\":\"float4\"},\"options\":{\"maxrregcount\":64}}";
    check(json_parse(good, sizeof good - 1, &doc, NULL));
    check(candidate_parse(doc, "", &c, &f));
    check(candidate_options(&c, &shape, &options, why, sizeof why));
    check(strstr(buf_cstr(&options), "-DROWS=2\n-DT=float4\n") != NULL);
    check(strstr(buf_cstr(&options), "-DAXIS_row_stride=0\n") != NULL);
    check(strstr(buf_cstr(&options), "AXIS_slots") == NULL);    /* not keyed: one cubin for all its values */
    check(strstr(buf_cstr(&options), "-DDTYPE_io=__nv_bfloat16\n") != NULL);
    check(strstr(buf_cstr(&options), "--maxrregcount=64\n") != NULL);
}

static void equal_work_has_equal_digests(void)
{
    static const char a[] = "{" SOURCE ",\"plan\":{\"steps\":[" STEP "]},\"notes\":\"one\"}";
    static const char b[] = "{\"plan\":{\"steps\":[" STEP "]}," SOURCE ",\"notes\":\"two\",\"parent\":\"cand_1\"}";
    static const char c[] = "{\"plan\":{\"steps\":[" STEP "]}," SOURCE ",\"defines\":{\"A\":1}}";
    cleanup(json) json_t *x = NULL, *y = NULL, *z = NULL;
    check(json_parse(a, sizeof a - 1, &x, NULL) && json_parse(b, sizeof b - 1, &y, NULL) && json_parse(c, sizeof c - 1, &z, NULL));
    check_str(candidate_digest(x).text, candidate_digest(y).text);
    check(strcmp(candidate_digest(x).text, candidate_digest(z).text) != 0);
    cleanup(json) json_t *loaded = NULL;
    struct err err = {0};
    check(candidate_load(TEST_DATA "/ops/toy", "baseline", &loaded, &err));
    check(strstr(json_str(loaded, "source", ""), "__global__") != NULL);
    check(!candidate_load(TEST_DATA "/ops/toy", "missing", &loaded, &err) && err.code == ERR_NOT_FOUND);
}

/* What a caller must provide: of a tensor that an axis outside the shape's key makes larger, all but that. */
static void free_axes_are_the_callers(void)
{
    struct op_set all = {0};
    struct err err = {0};
    struct faults f = {0};
    struct shape s;
    struct plan *p = xalloc(sizeof *p);
    check(op_set_load(TEST_DATA "/../../gpu/ops", &all, &err));
    cleanup(json) json_t *doc = json_pack("{s:s,s:{s:i,s:i,s:i,s:i,s:i}}", "op", "gdn_packed_decode", "axes", "B", 4, "H", 2, "HV", 8, "K", 128, "V", 128);
    cleanup(json) json_t *before = NULL;
    check(shape_parse(&all, doc, "sm_90a", "", &s, &f));
    check(plan_preconditions(p, &s, "13.0", &before, &err));
    const json_t *tensors = json_object_get(before, "tensors"), *state = json_object_get(tensors, "state"), *out = json_object_get(tensors, "a");
    check(json_is_null(json_array_get(json_object_get(state, "dims"), 0)) && json_is_null(json_object_get(state, "bytes")));
    check_int(json_integer_value(json_array_get(json_object_get(state, "dims"), 1)), 8);
    check_int(json_integer_value(json_array_get(json_object_get(state, "strides"), 0)), 8 * 128 * 128);
    check_int(json_array_size(json_object_get(state, "free")), 1);
    check_str(json_string_value(json_array_get(json_object_get(state, "free"), 0)), "slots");
    check(json_int(out, "bytes", 0) == 4 * 8 * 2 && !json_object_get(out, "free"));
    free(p);
    op_set_done(&all);
}

int main(void)
{
    struct err err = {0};
    struct faults f = {0};
    hash_init();
    if (!op_set_load(TEST_DATA "/ops", &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    cleanup(json) json_t *doc = json_pack("{s:s,s:{s:i,s:i}}", "op", "toy", "axes", "R", 3, "N", 8);
    check(shape_parse(&ops, doc, "sm_90a", "", &shape, &f));
    form_is_checked();
    numbers_are_filled_in();
    bad_plans_say_why();
    options_are_ours_alone();
    equal_work_has_equal_digests();
    free_axes_are_the_callers();
    op_set_done(&ops);
    return test_done();
}

/*
 * The whole judge on sim, children and all: kernels with one planted fault each must get the verdict of that fault, honest ones
 * must pass, plans that are wrong must be refused. This program is its own child (argv[1] = "child").
 * Usage: test_judge OPS_DIR SOURCE.cu
 */
#include "core/clock.h"
#include "gpu/judge/judge.h"
#include "tests/test.h"

static struct op_set ops;
static char *source;
static struct judge_config config = {.ops = &ops, .device = "sim", .threads = 2};

#define PLAN(kernel) "{\"steps\":[{\"kernel\":\"" kernel "\",\"grid\":[\"R\"],\"block\":[128],\"args\":[\"x\",\"weight\",\"y\",\"eps\"]}]}"
#define SLOW "{\"steps\":[{\"kernel\":\"slow\",\"grid\":[\"R\"],\"block\":[32],\"args\":[\"x\",\"weight\",\"y\",\"eps\"]}]}"

static json_t *candidate_of(const char *plan, int mode)
{
    json_t *doc = json_object(), *p = json_loads(plan, 0, NULL);
    if (!p)
        fprintf(stderr, "not JSON: %s\n", plan);
    json_put_str(doc, "language", "cuda");
    json_put_str(doc, "source", source);
    json_put(doc, "plan", p);
    if (mode >= 0)
        json_put(doc, "defines", json_pack("{s:i}", "MODE", mode));
    return doc;
}

static json_t *task_of(json_t *candidate, json_t *baseline, const char *mode)
{
    json_t *task = json_pack("{s:{s:s,s:{s:i,s:i},s:{s:s},s:s},s:s}", "shape", "op", "rmsnorm", "axes", "R", 3, "N", 256, "dtypes", "io", "f32", "target",
                             "sm_90a", "mode", mode);
    json_put(task, "candidate", candidate);
    json_put(task, "baseline", baseline ? baseline : json_null());
    return task;
}

static bool judge(json_t *task, struct judge_result *r, struct err *err)
{
    cleanup(json) json_t *mine = task;
    *r = (struct judge_result){.gpu_ns = 0};
    *err = (struct err){0};
    return judge_run(&config, mine, NULL, NULL, NULL, r, err);
}

/* The verdict, with its name and text where it is another than wanted. */
static void expect(const char *what, json_t *task, enum verdict_code code, const char *phase, const char *says)
{
    struct judge_result r;
    struct err err;
    bool ok = judge(task, &r, &err);
    if (!ok || r.verdict.code != code || (phase && strcmp(r.verdict.phase, phase)) || (says && !strstr(r.verdict.text, says)))
        fprintf(stderr, "%s: %s\n", what, ok ? verdict_name(r.verdict.code) : err.text), ok ? fprintf(stderr, "  [%s] %s\n", r.verdict.phase, r.verdict.text) : 0;
    check(ok);
    if (!ok)
        return;
    check_str(verdict_name(r.verdict.code), verdict_name(code));
    check(!phase || strcmp(r.verdict.phase, phase) == 0);
    check(!says || strstr(r.verdict.text, says) != NULL);
    check((r.certificate != NULL) == verdict_is_correct(code));
    judge_result_done(&r);
}

/* ---- faults planted in one kernel ---- */

static const struct { int mode; enum verdict_code code; const char *phase, *says; } planted[] = {
    {1, VERDICT_WRONG_RESULT, "correct", "typical"},
    {2, VERDICT_OUT_OF_BOUNDS, "emulate", "x"},
    {3, VERDICT_RACE, "emulate", NULL},
    {5, VERDICT_UNINITIALISED_READ, "emulate", NULL},
    {6, VERDICT_INPUT_MODIFIED, "emulate", NULL},
    {7, VERDICT_TIMEOUT, "emulate", NULL},
    {8, VERDICT_COMPILE_ERROR, "compile", "undeclared_thing"},
    {9, VERDICT_REJECTED_FORBIDDEN, "scan", NULL},
    {10, VERDICT_NON_FINITE, "correct", NULL},
    {11, VERDICT_UNINITIALISED_READ, "emulate", NULL},
    {12, VERDICT_WRONG_RESULT, "emulate", "never written"},
    {13, VERDICT_OUT_OF_BOUNDS, "emulate", "y"},
    {14, VERDICT_BARRIER_DIVERGENCE, "emulate", NULL},
    {15, VERDICT_MISALIGNED, "emulate", NULL},
    {16, VERDICT_FAULT, "emulate", NULL},
    {17, VERDICT_WRONG_RESULT, "correct", NULL},
    {19, VERDICT_WRONG_RESULT, "correct", "A hidden test failed."},
    {30, VERDICT_REJECTED_FORBIDDEN, "scan", NULL},
    {33, VERDICT_WRONG_RESULT, "correct", "tiny"},
    {34, VERDICT_WRONG_RESULT, "correct", NULL},
    {36, VERDICT_RACE, "emulate", "where block ("},
    {37, VERDICT_WRONG_RESULT, "correct", "mixed_rows"},      /* the one after it is hidden, this one is not */
};

static void test_planted(void)
{
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        char name[32];
        snprintf(name, sizeof name, "mode %d", planted[i].mode);
        expect(name, task_of(candidate_of(PLAN("k"), planted[i].mode), NULL, "triage"), planted[i].code, planted[i].phase, planted[i].says);
    }
}

static void test_details(void)
{
    struct judge_result r;
    struct err err;
    check(judge(task_of(candidate_of(PLAN("k"), 1), NULL, "triage"), &r, &err));
    check(json_is_array(json_object_get(r.verdict.detail, "index")) || json_object_get(r.verdict.detail, "element"));
    judge_result_done(&r);
    check(judge(task_of(candidate_of(PLAN("k"), 8), NULL, "triage"), &r, &err));
    check(strstr(json_str(r.verdict.detail, "log", ""), "undeclared_thing") != NULL);
    check(strstr(json_str(r.verdict.detail, "log", ""), "usr/local") == NULL);
    judge_result_done(&r);
    check(judge(task_of(candidate_of(PLAN("k"), 2), NULL, "triage"), &r, &err));
    check(json_object_size(r.verdict.detail) > 0);
    judge_result_done(&r);
    /* Nothing but the fact: no index, no value, no name of a regime. */
    check(judge(task_of(candidate_of(PLAN("k"), 19), NULL, "triage"), &r, &err));
    cleanup(str) char *text = json_text(r.verdict.detail);
    check_str(text, "{\"hidden\":true}");
    judge_result_done(&r);
}

/* ---- honest kernels ---- */

static void test_baseline_alone(void)
{
    struct judge_result r;
    struct err err;
    cleanup(str) char *dir = xfmt("%s", op_set_find(&ops, "rmsnorm")->dir);
    json_t *candidate = NULL;
    check(candidate_load(dir, "baseline", &candidate, &err));
    bool ok = judge(task_of(candidate, NULL, "full"), &r, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    if (!ok)
        return;
    check_str(verdict_name(r.verdict.code), "ok");
    check_str(json_str(r.figures, "evidence", ""), "emulated");
    check_str(json_str(r.figures, "mode", ""), "estimate");
    check(json_num(r.figures, "time_ns", 0) > 0);
    check(json_num(json_object_get(r.figures, "speedup"), "median", 0) == 1);
    check_int(r.blob_count, 2);
    judge_result_done(&r);
}

/* A card that no table knows: nobody's estimate, so no judgement. Another that it knows: the certificate says which. */
static void test_targets(void)
{
    struct judge_result r;
    struct err err = {0};
    json_t *task = task_of(candidate_of(PLAN("k"), 0), NULL, "triage");
    json_put_str(json_object_get(task, "shape"), "target", "sm_86");
    check(!judge(task, &r, &err));
    check_int(err.code, ERR_UNPROCESSABLE);
    check(strstr(err.text, "targets with a device row: sm_90a, sm_80") != NULL);
    task = task_of(candidate_of(PLAN("k"), 0), NULL, "full");
    json_put_str(json_object_get(task, "shape"), "target", "sm_80");
    bool ok = judge(task, &r, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok && r.certificate);
    if (!ok)
        return;
    const json_t *device = json_object_get(r.certificate, "device");
    check_str(json_str(device, "name", ""), "emulator (A100's figures)");
    check_str(json_str(device, "target", ""), "sm_80");
    check_str(json_str(json_object_get(r.figures, "terms"), "modelled", ""), "A100");
    judge_result_done(&r);
}

/* What the scan flagged is in the certificate: clocks, and where a block runs. */
static void test_flags(void)
{
    struct judge_result r;
    struct err err;
    bool ok = judge(task_of(candidate_of(PLAN("k"), 31), NULL, "full"), &r, &err), clock = false, placement = false;
    check(ok && r.certificate);
    if (!ok)
        return;
    size_t i, k;
    json_t *phase, *flag;
    json_array_foreach(json_object_get(r.certificate, "phases"), i, phase)
        if (strcmp(json_str(phase, "phase", ""), "scan") == 0)
            json_array_foreach(json_object_get(phase, "flags"), k, flag) {
                clock |= strcmp(json_str(flag, "rule", ""), "clock") == 0;
                placement |= strcmp(json_str(flag, "rule", ""), "placement") == 0;
            }
    check(clock);
    check(placement);
    judge_result_done(&r);
}

/* The baseline against itself: what is equal must not look faster, in whatever order and place its runs were. */
static void test_alike(void)
{
    struct judge_result r;
    struct err err;
    bool ok = judge(task_of(candidate_of(SLOW, 0), candidate_of(SLOW, 0), "triage"), &r, &err);
    check(ok);
    if (!ok)
        return;
    check_str(verdict_name(r.verdict.code), "not_faster");
    check(json_num(r.figures, "time_ns", 0) > 0);
    check(json_num(r.figures, "time_ns", 1) == json_num(r.figures, "baseline_ns", 2));
    judge_result_done(&r);
}

static void test_faster_and_slower(void)
{
    struct judge_result r;
    struct err err;
    bool ok = judge(task_of(candidate_of(PLAN("k"), 0), candidate_of(SLOW, 0), "full"), &r, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    check(ok && r.certificate);
    if (ok && r.certificate) {
        check_str(verdict_name(r.verdict.code), "ok");
        const json_t *speedup = json_object_get(r.figures, "speedup");
        check(json_num(speedup, "median", 0) > 1 && json_num(speedup, "low", 0) == json_num(speedup, "high", 0));
        check(json_is_array(json_object_get(r.figures, "resources")));
        check(json_num(json_object_get(r.figures, "roofline"), "floor_ns", 0) > 0);
        const json_t *c = r.certificate;
        check_str(json_str(c, "evidence", ""), "emulated");
        check(hash_hex_valid(json_str(json_object_get(c, "digests"), "cubin", "")));
        check_int(json_array_size(json_object_get(c, "phases")), 11);
        /* what a caller must provide is signed with the rest */
        const json_t *before = json_object_get(c, "preconditions");
        check_str(json_str(before, "target", ""), "sm_90a");
        check(json_str(before, "driver_least", NULL) && json_int(before, "workspace_bytes", -1) == 0);
        check_int(json_int(before, "workspace_alignment", 0), 256);
        check_int(json_int(json_object_get(json_object_get(before, "tensors"), "x"), "alignment", 0), 16);
        check(json_is_number(json_object_get(json_object_get(json_object_get(before, "scalars"), "eps"), "value")));
        cleanup(str) char *text = json_text(c);
        check(strstr(text, "\"measured\"") == NULL);
        check(strstr(text, "integers") == NULL);          /* a hidden regime's name */
        check(strstr(text, "\"seed\"") != NULL);
        judge_result_done(&r);
    }
    expect("slower", task_of(candidate_of(SLOW, 0), candidate_of(PLAN("k"), 0), "triage"), VERDICT_NOT_FASTER, "time", "estimated");
    expect("the same", task_of(candidate_of(PLAN("k"), 0), candidate_of(PLAN("k"), 0), "triage"), VERDICT_NOT_FASTER, "time", NULL);
    expect("retest", task_of(candidate_of(PLAN("k"), 0), candidate_of(SLOW, 0), "retest"), VERDICT_OK, "retest", NULL);
    expect("retest slower", task_of(candidate_of(SLOW, 0), candidate_of(PLAN("k"), 0), "retest"), VERDICT_NOT_CONFIRMED, "retest", NULL);
}

#define WORKSPACE(memset) "{\"workspace\":[{\"name\":\"sum\",\"bytes\":\"4*R\"}],\"steps\":[" memset \
    "{\"kernel\":\"sums\",\"grid\":[\"R\"],\"block\":[128],\"args\":[\"x\",\"sum\"]}," \
    "{\"kernel\":\"rows\",\"grid\":[\"R\"],\"block\":[128],\"args\":[\"x\",\"weight\",\"sum\",\"y\",\"eps\"]}]}"

static void test_workspace(void)
{
    json_t *c = candidate_of(WORKSPACE("{\"memset\":\"sum\",\"value\":0},"), 0);
    json_put(c, "declares", json_pack("{s:b}", "atomics", 1));
    expect("workspace", task_of(c, NULL, "triage"), VERDICT_OK, NULL, NULL);
    c = candidate_of(WORKSPACE(""), 0);
    json_put(c, "declares", json_pack("{s:b}", "atomics", 1));
    expect("workspace without memset", task_of(c, NULL, "triage"), VERDICT_UNINITIALISED_READ, "emulate", NULL);
}

/* ---- plans ---- */

#define STEP_WITH(grid, block, args, more) "{\"steps\":[{\"kernel\":\"k\",\"grid\":" grid ",\"block\":" block ",\"args\":" args more "}]}"
#define ARGS "[\"x\",\"weight\",\"y\",\"eps\"]"
static const struct { const char *plan, *says; } bad_plans[] = {
    {"{\"steps\":[]}", NULL},
    {"{\"steps\":[{\"kernel\":\"absent\",\"grid\":[1],\"block\":[128],\"args\":" ARGS "}]}", "absent"},
    {STEP_WITH("[0]", "[128]", ARGS, ""), "grid"},
    {STEP_WITH("[\"R-4\"]", "[128]", ARGS, ""), "grid"},
    {STEP_WITH("[\"R\"]", "[1025]", ARGS, ""), "block"},
    {STEP_WITH("[\"R\"]", "[1024,2]", ARGS, ""), "block"},
    {STEP_WITH("[\"R/0\"]", "[128]", ARGS, ""), "zero"},
    {STEP_WITH("[\"9223372036854775807*2\"]", "[128]", ARGS, ""), NULL},
    {STEP_WITH("[\"Q\"]", "[128]", ARGS, ""), "Q"},
    {STEP_WITH("[\"R\"]", "[128]", "[\"x\",\"weight\",\"y\"]", ""), NULL},
    {STEP_WITH("[\"R\"]", "[128]", "[\"x\",\"weight\",\"y\",\"eps\",\"$R\"]", ""), NULL},
    {STEP_WITH("[\"R\"]", "[128]", "[\"x\",\"weight\",\"y\",\"$R\",\"eps\"]", ""), NULL},
    {STEP_WITH("[\"R\"]", "[128]", "[\"x\",\"weight\",\"z\",\"eps\"]", ""), "z"},
    {STEP_WITH("[\"R\"]", "[128]", "[\"x\",\"weight\",\"y\",\"$Q\"]", ""), "$Q"},
    {STEP_WITH("[\"R\"]", "[128]", ARGS, ",\"shared_bytes\":300000"), "shared"},
    {STEP_WITH("[\"R\"]", "[128]", ARGS, ",\"shared_bytes\":-1"), "shared"},
    {STEP_WITH("[\"R\"]", "[128]", ARGS, ",\"stream\":2"), "stream"},
    {"{\"steps\":[{\"memset\":\"y\",\"value\":0}]}", NULL},
    {"{\"workspace\":[{\"name\":\"x\",\"bytes\":4}],\"steps\":[{\"kernel\":\"k\",\"grid\":[1],\"block\":[128],\"args\":" ARGS "}]}", "x"},
    {"{\"workspace\":[{\"name\":\"w\",\"bytes\":\"1024*1024*1024*1024\"}],\"steps\":[{\"kernel\":\"k\",\"grid\":[1],\"block\":[128],\"args\":" ARGS "}]}", "w"},
};

static void test_bad_plans(void)
{
    for (size_t i = 0; i < sizeof bad_plans / sizeof *bad_plans; i++)
        expect(bad_plans[i].plan, task_of(candidate_of(bad_plans[i].plan, 0), NULL, "triage"), VERDICT_REJECTED_PLAN, NULL, bad_plans[i].says);
    json_t *c = candidate_of(PLAN("k"), 0);
    json_put(c, "defines", json_pack("{s:s}", "MODE", "0\n#include </etc/passwd>"));
    expect("define", task_of(c, NULL, "triage"), VERDICT_REJECTED_PLAN, "admit", NULL);
    c = candidate_of(PLAN("k"), 0);
    json_put(c, "host_code", json_string("system()"));
    expect("unknown key", task_of(c, NULL, "triage"), VERDICT_REJECTED_PLAN, "admit", "host_code");
    c = candidate_of(PLAN("k"), 0);
    json_put_str(c, "language", "triton");
    expect("triton", task_of(c, NULL, "triage"), VERDICT_REJECTED_PLAN, "admit", NULL);
}

/* ---- sources that are not what they seem ---- */

static void test_sources(void)
{
    json_t *c = candidate_of(PLAN("k"), 0);
    json_put_str(c, "language", "ptx");
    expect("C++ as PTX", task_of(c, NULL, "triage"), VERDICT_COMPILE_ERROR, NULL, NULL);
    c = candidate_of(PLAN("k"), 0);     /* PTX that the assembler takes is no error of the candidate's, whoever else cannot read it */
    json_put_str(c, "language", "ptx");
    json_put_str(c, "source", ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 w, .param .u64 y, .param .f32 e)\n"
                 "{ .reg .v2 .f32 both; .reg .f32 f; mov.f32 f, 0f00000000; mov.v2.f32 both, {f, f}; ret; }\n");
    expect("vector register", task_of(c, NULL, "triage"), VERDICT_UNSUPPORTED_ON_SIM, "scan", "cannot read it");
    static const struct { const char *text; enum verdict_code code; } cases[] = {
        {"#include \"/etc/passwd\"\n", VERDICT_COMPILE_ERROR},
        {"#include \"/proc/self/maps\"\n", VERDICT_COMPILE_ERROR},
        {"", VERDICT_REJECTED_PLAN},
        {"extern \"C\" __global__ void other(float *y) {}\n", VERDICT_REJECTED_PLAN},
        {"template<int N> struct A { static const int v = A<N-1>::v + A<N-2>::v; };\nextern \"C\" __global__ void k(const float *x, const float *w, float *y, float e) "
         "{ y[0] = A<100000>::v; }\n", VERDICT_COMPILE_ERROR},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct judge_result r;
        struct err err;
        c = candidate_of(PLAN("k"), 0);
        json_put_str(c, "source", cases[i].text);
        bool ok = judge(task_of(c, NULL, "triage"), &r, &err);
        if (!ok || r.verdict.code != cases[i].code)
            fprintf(stderr, "%.60s: %s\n", cases[i].text, ok ? verdict_name(r.verdict.code) : err.text);
        check(ok && r.verdict.code == cases[i].code);
        if (!ok)
            continue;
        cleanup(str) char *detail = r.verdict.detail ? json_text(r.verdict.detail) : xstrdup("");
        check(strstr(detail, "root:") == NULL && strstr(r.verdict.text, "root:") == NULL && strstr(detail, "libc") == NULL);
        judge_result_done(&r);
    }
}

/* ---- tasks that are ours to refuse ---- */

static void test_bad_tasks(void)
{
    struct judge_result r;
    struct err err;
    json_t *task = task_of(candidate_of(PLAN("k"), 0), NULL, "triage");
    json_put_str(task, "op_digest", "0000000000000000000000000000000000000000000000000000000000000000");
    check(!judge(task, &r, &err));
    check_int(err.code, ERR_UNAVAILABLE);
    task = task_of(candidate_of(PLAN("k"), 0), NULL, "sometimes");
    check(!judge(task, &r, &err));
    check_int(err.code, ERR_INVALID);
    check(!judge(json_object(), &r, &err));
    task = task_of(candidate_of(PLAN("k"), 0), NULL, "triage");
    json_put(json_object_get(json_object_get(task, "shape"), "axes"), "R", json_integer(-1));
    check(!judge(task, &r, &err));
    check_int(err.code, ERR_INVALID);
    /* A baseline that is wrong is no verdict on the candidate. */
    check(!judge(task_of(candidate_of(PLAN("k"), 0), candidate_of(PLAN("k"), 1), "triage"), &r, &err));
    check_int(err.code, ERR_INTERNAL);
    check(strstr(err.text, "baseline") != NULL);
    struct judge_config whole = config;
    config.sandbox_minimum = "perfect";
    check(!judge(task_of(candidate_of(PLAN("k"), 0), NULL, "triage"), &r, &err));
    check_int(err.code, ERR_INVALID);
    config = whole;
    config.cuda_home = "/nonexistent";
    setenv("CUDA_HOME", "/nonexistent", 1);
    if (!judge(task_of(candidate_of(PLAN("k"), 0), NULL, "triage"), &r, &err))
        check_int(err.code, ERR_UNAVAILABLE);
    else
        judge_result_done(&r);
    unsetenv("CUDA_HOME");
    config = whole;
}

static int looks;
static bool cancel_soon(void *ctx)
{
    (void)ctx;
    return ++looks > 3;
}

static void test_cancel(void)
{
    struct judge_result r;
    struct err err = {0};
    cleanup(json) json_t *task = task_of(candidate_of(PLAN("k"), 7), NULL, "triage");
    int64_t from = clock_mono_ns();
    check(!judge_run(&config, task, NULL, cancel_soon, NULL, &r, &err));
    check_int(err.code, ERR_CONFLICT);
    check_str(err.text, "cancelled");
    check(clock_mono_ns() - from < (int64_t)20 * 1000000000);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    struct err err = {0};
    struct toolkit_paths paths;
    cleanup(buf) struct buf text = {0};
    hash_init();
    if (argc != 3 || !op_set_load(argv[1], &ops, &err) || !file_read(argv[2], 1 << 20, &text, &err)) {
        fprintf(stderr, "usage: %s OPS_DIR SOURCE.cu: %s\n", argv[0], err.text);
        return 2;
    }
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    source = buf_take(&text);
    test_baseline_alone();
    test_targets();
    test_flags();
    test_faster_and_slower();
    test_alike();
    test_planted();
    test_details();
    test_workspace();
    test_bad_plans();
    test_sources();
    test_bad_tasks();
    test_cancel();
    free(source);
    op_set_done(&ops);
    return test_done();
}

/*
 * The judge where the emulator runs a sample of the blocks, which a small budget makes happen at a small shape: honest plans pass and
 * their certificates say of how many blocks; what is wrong in all blocks, or in the last, is found; who leaves his outputs out does not
 * pass for one whose blocks were left out, nor who leaves out a part of an inout tensor; blocks that talk run all. A sample stands on a run of
 * all blocks at a smaller shape, else it must be large.
 * Usage: test_judge_sampled OPS_DIR
 */
#include "core/certificate.h"
#include "gpu/judge/judge.h"
#include "tests/test.h"

enum { ROWS = 512 };
static struct op_set ops;
static struct judge_config config = {.ops = &ops, .device = "sim", .threads = 2, .sample_budget = 400000};

static const char source[] =
    "__device__ float sum_of(const float *row) { float s = 0; for (int i = threadIdx.x; i < AXIS_N; i += 32) s += row[i] * row[i];\n"
    "    for (int i = 16; i; i /= 2) s += __shfl_xor_sync(~0u, s, i); return s; }\n"
    "extern \"C\" __global__ void rms(const float *x, const float *w, float *y, float eps) {\n"
    "    const int row = blockIdx.x; const float factor = rsqrtf(sum_of(x + row * AXIS_N) / AXIS_N + eps);\n"
    "    if ((MODE == 3 && row % 16) || (MODE == 9 && row * 7 % 10 >= 6) || (MODE == 10 && AXIS_R != 512)) return;\n"
    "    if (MODE >= 12 && AXIS_R < 32) return;\n"
    "    if (MODE == 13 && AXIS_R != 512) for (int n = 0; n < 8000; n++) asm volatile(\"add.u32 %0, %0, 0;\" : \"+r\"(n));\n"
    "    if (MODE == 5 && row == AXIS_R - 2) for (volatile int n = 0; n >= 0; n = 1) ;\n"
    "    const int shift = MODE == 4 && row == AXIS_R - 1 ? 1 : 0;\n"
    "    const int end = MODE == 6 ? AXIS_N * 3 / 4 : MODE == 7 ? AXIS_N - 2 : AXIS_N;\n"
    "    for (int i = threadIdx.x; i < end; i += 32)\n"
    "        if (MODE != 8 || i % 4 != row % 4)\n"
    "        y[row * AXIS_N + i + shift] = x[row * AXIS_N + i] * factor * w[i] * (MODE == 1 || (MODE == 2 && row == AXIS_R - 1) || (MODE == 11 && AXIS_R == 512 && row % 37 == 20) ? 1.01f : 1.0f); }\n"
    "extern \"C\" __global__ void sums(const float *x, float *sum) { const float s = sum_of(x + blockIdx.x * AXIS_N); if (!threadIdx.x) sum[blockIdx.x] = s; }\n"
    "extern \"C\" __global__ void added(const float *x, float *sum) { const float s = sum_of(x + blockIdx.x * AXIS_N); if (!threadIdx.x) atomicAdd(sum + blockIdx.x, s); }\n"
    "extern \"C\" __global__ void rows(const float *x, const float *w, const float *sum, float *y, float eps) {\n"
    "    const int row = blockIdx.x; const float factor = rsqrtf(sum[row] / AXIS_N + eps);\n"
    "    for (int i = threadIdx.x; i < AXIS_N; i += 32) y[row * AXIS_N + i] = x[row * AXIS_N + i] * factor * w[i]; }\n";

/* Modes: 1 nothing at all, 2 six tokens of ten, 3 queries and no keys, 4 of every four tokens three where there are many. */
static const char rope[] =
    "__device__ void turn(float *heads, int count, const float *row) { for (int i = threadIdx.x; i < count * AXIS_rot / 2; i += blockDim.x) {\n"
    "    float *x = heads + i / (AXIS_rot / 2) * AXIS_d + i % (AXIS_rot / 2); const float a = x[0], b = x[AXIS_rot / 2], c = row[i % (AXIS_rot / 2)], s = row[AXIS_rot / 2 + i % (AXIS_rot / 2)];\n"
    "    x[0] = a * c - b * s; x[AXIS_rot / 2] = b * c + a * s; } }\n"
    "extern \"C\" __global__ void rotate(const long long *positions, const float *cache, float *q, float *k) {\n"
    "    const int token = blockIdx.x; float burnt = 0; for (int i = 0; i < BURN; i++) asm volatile(\"add.f32 %0, %0, 0f00000000;\" : \"+f\"(burnt));\n"
    "    if (MODE == 1 || (MODE == 2 && token * 7 % 10 >= 6) || (MODE == 4 && AXIS_B >= 256 && token % 4 == 3)) return;\n"
    "    const float *row = cache + positions[token] * AXIS_rot;\n"
    "    turn(q + token * AXIS_HQ * AXIS_d, AXIS_HQ, row);\n"
    "    if (MODE != 3) turn(k + token * AXIS_HK * AXIS_d, AXIS_HK, row); }\n";

#define ONE "{\"steps\":[{\"kernel\":\"rms\",\"grid\":[\"R\"],\"block\":[32],\"args\":[\"x\",\"weight\",\"y\",\"eps\"]}]}"
#define TWO(memset, first) "{\"workspace\":[{\"name\":\"sum\",\"bytes\":\"4*R\"}],\"steps\":[" memset "{\"kernel\":\"" first "\",\"grid\":[\"R\"],\"block\":[32]," \
    "\"args\":[\"x\",\"sum\"]},{\"kernel\":\"rows\",\"grid\":[\"R\"],\"block\":[32],\"args\":[\"x\",\"weight\",\"sum\",\"y\",\"eps\"]}]}"

static bool judge(const char *plan, int mode, bool atomics, const char *how, struct judge_result *r, struct err *err)
{
    cleanup(json) json_t *task = json_pack("{s:{s:s,s:{s:i,s:i},s:{s:s},s:s},s:s,s:n}", "shape", "op", "rmsnorm", "axes", "R", ROWS, "N", 256, "dtypes", "io", "f32",
                                           "target", "sm_90a", "mode", how, "baseline");
    json_t *c = json_pack("{s:s,s:s,s:o,s:{s:i}}", "language", "cuda", "source", source, "plan", json_loads(plan, 0, NULL), "defines", "MODE", mode);
    if (atomics)
        json_put(c, "declares", json_pack("{s:b}", "atomics", 1));
    json_put(task, "candidate", c);
    *r = (struct judge_result){.gpu_ns = 0};
    *err = (struct err){0};
    return judge_run(&config, task, NULL, NULL, NULL, r, err);
}

static void expect(const char *plan, int mode, bool atomics, enum verdict_code code, const char *says)
{
    struct judge_result r;
    struct err err;
    bool ok = judge(plan, mode, atomics, "triage", &r, &err);
    if (!ok || r.verdict.code != code)
        fprintf(stderr, "mode %d of %s: %s: %s\n", mode, plan, ok ? verdict_name(r.verdict.code) : "", ok ? r.verdict.text : err.text);
    check(ok && r.verdict.code == code && (!says || strstr(r.verdict.text, says)));
    if (ok)
        judge_result_done(&r);
}

static void in_place(int mode, enum verdict_code code)
{
    cleanup(json) json_t *task = json_pack("{s:{s:s,s:{s:i,s:i,s:i,s:i,s:i},s:{s:s},s:s},s:s,s:n}", "shape", "op", "rope_neox", "axes", "B", ROWS, "HQ", 2, "HK", 1, "d", 64,
                                           "rot", 64, "dtypes", "io", "f32", "target", "sm_90a", "mode", "triage", "baseline");
    json_put(task, "candidate", json_pack("{s:s,s:s,s:o,s:{s:i,s:i}}", "language", "cuda", "source", rope, "plan",
                                          json_loads("{\"steps\":[{\"kernel\":\"rotate\",\"grid\":[\"B\"],\"block\":[32],\"args\":[\"positions\",\"cos_sin_cache\",\"q\",\"k\"]}]}", 0, NULL),
                                          "defines", "MODE", mode, "BURN", 100));
    struct judge_result r = {.gpu_ns = 0};
    struct err err = {0};
    const bool ok = judge_run(&config, task, NULL, NULL, NULL, &r, &err);
    if (!ok || r.verdict.code != code)
        fprintf(stderr, "in place, mode %d: %s: %s\n", mode, ok ? verdict_name(r.verdict.code) : "", ok ? r.verdict.text : err.text);
    check(ok && r.verdict.code == code && (code == VERDICT_OK || strstr(r.verdict.text, "too few to judge by")));
    if (ok && r.certificate) {
        const json_t *smaller = json_object_get(json_object_get(certificate_phase(r.certificate, "emulate"), "sampled"), "smaller");
        check(json_bool(smaller, "shown", false) && json_int(json_object_get(smaller, "axes"), "B", ROWS) < ROWS);
    }
    if (ok)
        judge_result_done(&r);
}

/*
 * Where the first shapes that are tried are none for it, and where it takes a time as on a host that is busy with others: shown at a larger
 * one, whole whatever the time.
 */
static void shown(int mode, int64_t least, int64_t most)
{
    struct judge_result r;
    struct err err;
    const bool ok = judge(ONE, mode, false, "triage", &r, &err) && r.verdict.code == VERDICT_OK;
    const json_t *sampled = ok ? json_object_get(certificate_phase(r.certificate, "emulate"), "sampled") : NULL, *smaller = json_object_get(sampled, "smaller");
    const int64_t rows = json_int(json_object_get(smaller, "axes"), "R", 0);
    const bool as_wanted = json_bool(smaller, "shown", false) && rows >= least && rows <= most;
    if (!as_wanted)
        fprintf(stderr, "mode %d: %s: shown at %lld rows: %s\n", mode, ok ? "" : r.figures ? r.verdict.text : err.text, (long long)rows, json_str(smaller, "why", ""));
    check(ok && as_wanted);
    if (r.figures)
        judge_result_done(&r);
}

/* What the certificate of a plan says: how many blocks were emulated, how many elements compared. */
static void accepted(const char *plan, bool atomics, int64_t least, int64_t most, bool in_part)
{
    struct judge_result r;
    struct err err;
    bool ok = judge(plan, 0, atomics, "retest", &r, &err);
    if (!ok || r.verdict.code != VERDICT_OK)
        fprintf(stderr, "%s: %s\n", plan, ok ? r.verdict.text : err.text);
    check(ok && r.verdict.code == VERDICT_OK && r.certificate);
    if (!ok || !r.certificate)
        return;
    const json_t *emulate = certificate_phase(r.certificate, "emulate"), *correct = certificate_phase(r.certificate, "correct");
    const int64_t some = json_int(emulate, "blocks_emulated", 0), all = json_int(emulate, "blocks_of_all", 0);
    bool as_wanted = some >= least && some <= most && (some < all) == in_part;
    if (!as_wanted)
        fprintf(stderr, "%s: %lld of %lld blocks\n", plan, (long long)some, (long long)all);
    check(as_wanted);
    check(json_is_object(json_object_get(emulate, "sampled")) == in_part && json_is_object(json_object_get(correct, "sampled")) == in_part);
    size_t i;
    json_t *regime;
    json_array_foreach(json_object_get(correct, "regimes"), i, regime) {
        const int64_t elements = json_int(json_array_get(json_object_get(regime, "tensors"), 0), "elements", 0);
        /* of a hidden regime the tensor's size is all that is told; what share of it was compared stands in "sampled" */
        check(in_part && !json_bool(regime, "hidden", false) ? elements > 8 * 256 && elements < ROWS * 256 / 4 : elements == ROWS * 256);
    }
    bool sound = certificate_check(r.certificate, &err);
    if (!sound)
        fprintf(stderr, "%s\n", err.text);
    check(sound);
    json_t *tensor = json_array_get(json_object_get(json_array_get(json_object_get(correct, "regimes"), 0), "tensors"), 0);
    const json_int_t compared = json_int(tensor, "elements", 0);
    json_put_int(tensor, "elements", 0);
    check(!certificate_check(r.certificate, &err) && strstr(err.text, "no element of y was compared"));
    json_put_int(tensor, "elements", compared);
    if (in_part) {                      /* that a part was emulated must be said */
        json_object_del((json_t *)(uintptr_t)emulate, "sampled");
        check(!certificate_check(r.certificate, &err));
    }
    judge_result_done(&r);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    struct err err = {0};
    struct toolkit_paths paths;
    hash_init();
    if (argc != 2 || !op_set_load(argv[1], &ops, &err)) {
        fprintf(stderr, "usage: %s OPS_DIR: %s\n", argv[0], err.text);
        return 2;
    }
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    accepted(ONE, false, 9, ROWS / 4, true);
    accepted(TWO("", "sums"), false, 9, ROWS / 2, true);
    accepted(TWO("{\"memset\":\"sum\",\"value\":0},", "added"), true, ROWS + 9, ROWS + ROWS / 4, true);   /* the first runs whole, the second need not */
    accepted(TWO("{\"memset\":\"sum\",\"value\":0},", "sums"), false, 2 * ROWS, 2 * ROWS, false);     /* what was left out would not show in the zeros */
    expect(ONE, 1, false, VERDICT_WRONG_RESULT, NULL);
    expect(ONE, 2, false, VERDICT_WRONG_RESULT, NULL);
    expect(ONE, 3, false, VERDICT_UNSUPPORTED_ON_SIM, "too few to judge by");
    config.sample_budget = 1200000;
    expect(ONE, 0, false, VERDICT_OK, NULL);
    expect(ONE, 6, false, VERDICT_UNSUPPORTED_ON_SIM, "stores element 192 of no row of y");       /* never the last quarter */
    expect(ONE, 7, false, VERDICT_UNSUPPORTED_ON_SIM, "stores element 254 of no row of y");       /* never the last two */
    expect(ONE, 8, false, VERDICT_UNSUPPORTED_ON_SIM, "too few to judge by");        /* a quarter, in other places in each row */
    expect(ONE, 9, false, VERDICT_UNSUPPORTED_ON_SIM, "too few to judge by");                     /* six rows of ten */
    expect(ONE, 11, false, VERDICT_WRONG_RESULT, NULL);                                            /* thirteen rows: each regime draws other blocks */
    config.sample_budget = 1900000;
    expect(ONE, 10, false, VERDICT_OK, NULL);                                                      /* made for this shape alone: a large sample stands */
    config.sample_budget = 1200000;
    for (int again = 0; again < 4; again++)          /* of a regime where not all elements change another sample each time says the same */
        in_place(0, VERDICT_OK);
    for (int mode = 1; mode <= 4; mode++)
        in_place(mode, VERDICT_UNSUPPORTED_ON_SIM);
    config.sample_budget = 400000;
    expect(ONE, 10, false, VERDICT_UNSUPPORTED_ON_SIM, "at no smaller shape");                     /* a small one does not */
    expect(ONE, 4, false, VERDICT_OUT_OF_BOUNDS, NULL);
    config.sample_cpu_ns = 200000000;
    shown(13, 32, ROWS / 2);
    config.sample_cpu_ns = 0;
    config.run_wall_ns = 1500000000;
    expect(ONE, 5, false, VERDICT_TIMEOUT, NULL);
    op_set_done(&ops);
    return test_done();
}

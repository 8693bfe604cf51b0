/*
 * The tolerance rules: each rule alone, then canaries on both operators that must fail and honest kernels that must pass, with and
 * without a baseline's result beside them.
 */
#include "gpu/judge/compare.h"
#include "gpu/judge/inputs.h"
#include "gpu/judge/reference.h"

#include "core/rng.h"
#include "tests/test.h"

#include <math.h>

static struct op_set ops;

/* One judged tensor: what went in, what is right, what came out. */
struct scene {
    struct shape shape;
    struct tensor tensors[OP_MAX_TENSORS];
    void *inputs[OP_MAX_TENSORS];
    double *right[OP_MAX_TENSORS];
    void *got[OP_MAX_TENSORS];
    void *baseline[OP_MAX_TENSORS];
};

static void scene_done(struct scene *s)
{
    if (!s->shape.op)
        return;
    inputs_free(s->shape.op, s->inputs);
    inputs_free(s->shape.op, (void **)s->right);
    inputs_free(s->shape.op, s->got);
    inputs_free(s->shape.op, s->baseline);
}
DEFINE_CLEANUP(scene, struct scene, scene_done(it))

static int tensor_at(const struct scene *s, const char *name)
{
    int t = op_tensor_index(s->shape.op, name);
    BUG_ON(t < 0);
    return t;
}

static int64_t axis(const struct scene *s, const char *name)
{
    return s->shape.axes[op_axis_index(s->shape.op, name)];
}

static void scene_make(struct scene *s, const char *shape, const char *regime, uint64_t seed)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(shape, strlen(shape), &doc, &err));
    check(shape_parse(&ops, doc, "sm_90a", "", &s->shape, &f) && shape_tensors(&s->shape, s->tensors, &err));
    int r = inputs_regime_index(s->shape.op, regime);
    BUG_ON(r < 0);
    check(inputs_make(&s->shape, s->tensors, r, seed, s->inputs, &err));
    check(reference_run(&s->shape, s->tensors, (const void *const *)s->inputs, s->right, &err));
    for (int t = 0; t < s->shape.op->tensor_count; t++)
        if (s->right[t]) {
            s->got[t] = xalloc((size_t)s->tensors[t].bytes + 8);
            s->baseline[t] = xalloc((size_t)s->tensors[t].bytes + 8);
        }
}

/* Stores `values` as what came out; NULL: the reference, rounded. */
static void put(struct scene *s, int t, const double *values)
{
    values_store(s->tensors[t].dtype, s->got[t], 0, s->tensors[t].elements, values ? values : s->right[t]);
}

static struct compare_result compare_one(const struct scene *s, int t, bool with_baseline)
{
    const struct compare_case c = {s->shape.op, &s->tensors[t], s->right[t], s->got[t], with_baseline ? s->baseline[t] : NULL, s->inputs[t], NULL};
    struct compare_result r;
    compare_tensor(&c, &r);
    return r;
}

/* ---- steps that may round between them ---- */

static void test_intermediates(void)
{
    static const char shape[] = "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":3,\"H\":2,\"HV\":4,\"K\":32,\"V\":32}}";
    static const char *const regimes[] = {"typical", "padded", "same_sign", "read_only", "long_memory"};
    int caught_by_half = 0;
    for (size_t g = 0; g < sizeof regimes / sizeof *regimes; g++) {
        cleanup(scene) struct scene s = {0};
        scene_make(&s, shape, regimes[g], 11);
        check_int(op_results(s.shape.op), 2);
        for (int t = 0; t < s.shape.op->tensor_count; t++) {
            const struct tensor *tensor = &s.tensors[t];
            if (!s.right[t])
                continue;
            const double *between = s.right[t] + tensor->elements;
            put(&s, t, NULL);
            memcpy(s.baseline[t], s.got[t], (size_t)tensor->bytes);
            check_int(compare_one(&s, t, false).code, VERDICT_OK);
            put(&s, t, between);                            /* rounds where it may: right, by the table and by an exact baseline */
            check_int(compare_one(&s, t, false).code, VERDICT_OK);
            check_int(compare_one(&s, t, true).code, VERDICT_OK);
            if (strcmp(tensor->spec->name, "state"))
                continue;
            /* four times that is not, nor is a state that is kept in half precision while nothing is written to it */
            cleanup(mem) void *memory = xarray((size_t)tensor->elements, sizeof(double));
            double *worse = memory;
            for (int64_t i = 0; i < tensor->elements; i++)
                worse[i] = s.right[t][i] + 4 * (between[i] - s.right[t][i]);
            put(&s, t, worse);
            if (strcmp(regimes[g], "read_only"))
                check(compare_one(&s, t, true).code != VERDICT_OK);
            values_round(DTYPE_F16, s.right[t], tensor->elements, worse);
            for (int64_t i = 0; i < tensor->elements; i++)
                if (dtype_load(tensor->dtype, s.inputs[t], (size_t)i) == s.right[t][i])
                    worse[i] = s.right[t][i];
            put(&s, t, worse);
            caught_by_half += compare_one(&s, t, false).code != VERDICT_OK;
        }
    }
    check(caught_by_half > 0);
}

/* A row in which the reference's own roundings cancel is granted what they make of the others, and not twice that. */
static void test_lucky_row(void)
{
    for (int times = 1; times <= 8; times *= 8) {
        cleanup(scene) struct scene s = {0};
        scene_make(&s, "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":3,\"H\":2,\"HV\":4,\"K\":32,\"V\":32}}", "typical", 11);
        const int t = tensor_at(&s, "state");
        const struct tensor *tensor = &s.tensors[t];
        double *right = s.right[t], *between = right + tensor->elements, noise = 0, values = 0;
        int64_t lucky = -1;
        for (int64_t i = 0; i < tensor->elements; i++)
            if (between[i] != right[i]) {
                lucky = lucky < 0 ? i / 32 * 32 : lucky;
                noise += (between[i] - right[i]) * (between[i] - right[i]);
                values += right[i] * right[i];
            }
        check(lucky >= 0);
        memcpy(between + lucky, right + lucky, 32 * sizeof *right);
        put(&s, t, between);
        cleanup(mem) void *memory = xarray((size_t)tensor->elements, sizeof(double));
        double *got = memory;
        memcpy(got, between, (size_t)tensor->elements * sizeof *got);
        for (int i = 0; i < 32; i++)
            got[lucky + i] = right[lucky + i] * (1 + (i % 2 ? 1 : -1) * times * sqrt(noise / values));
        put(&s, t, got);
        check_int(compare_one(&s, t, false).code == VERDICT_OK, times == 1);
    }
}

/* ---- parts of a row that stay ---- */

static void test_parts_that_stay(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, "{\"op\":\"rope_neox\",\"axes\":{\"B\":3,\"HQ\":2,\"HK\":1,\"d\":48,\"rot\":32}}", "typical", 3);
    const int q = tensor_at(&s, "q");
    uint16_t *bits = s.got[q];
    put(&s, q, NULL);
    struct compare_result r = compare_one(&s, q, false);
    check_int(r.code, VERDICT_OK);
    check_int(r.unchanged, 3 * 2 * 16);
    check_int(r.elements, 3 * 2 * 32);
    bits[48 + 40] ^= 1;                                     /* one place in the second half of a head's rest */
    r = compare_one(&s, q, false);
    check_int(r.code, VERDICT_INPUT_MODIFIED);
    check(r.rule == COMPARE_UNCHANGED && r.has_element && r.index[1] == 1 && r.index[2] == 40);
    bits[48 + 40] ^= 1;
    bits[48 + 4] ^= 1;                                      /* a place that is turned may be off by one */
    check_int(compare_one(&s, q, false).code, VERDICT_OK);
}

/* ---- two honest kernels in C: single precision, sums in another order than the reference ---- */

enum precision { SINGLE, BFLOAT, HALF, TF32 };
static float rounded(enum precision p, float x)
{
    uint8_t one[4];
    uint32_t bits;
    switch (p) {
    case SINGLE: return x;
    case BFLOAT: dtype_store(DTYPE_BF16, one, 0, (double)x); return (float)dtype_load(DTYPE_BF16, one, 0);
    case HALF: dtype_store(DTYPE_F16, one, 0, (double)x); return (float)dtype_load(DTYPE_F16, one, 0);
    case TF32:
        memcpy(&bits, &x, 4);
        bits = (bits + 0x1000u) & ~0x1fffu;
        memcpy(&x, &bits, 4);
        return x;
    }
    return x;
}

struct how {
    enum precision sum;          /* of accumulators */
    int lanes;                   /* partial sums */
    double eps;
    bool no_offset, no_decay, no_beta;
};
static const struct how honest = {SINGLE, 32, 1e-6, false, false, false}, serial = {SINGLE, 1, 1e-6, false, false, false};

static float sum_of(const struct how *h, const float *a, const float *b, int64_t n)
{
    float part[32] = {0};
    for (int64_t i = 0; i < n; i++)
        part[i % h->lanes] = rounded(h->sum, part[i % h->lanes] + a[i] * b[i]);
    for (int w = h->lanes / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            part[i] = rounded(h->sum, part[i] + part[i + w]);
    return part[0];
}

static float *floats(const struct scene *s, const char *name)
{
    int t = tensor_at(s, name);
    float *to = xarray((size_t)s->tensors[t].elements + 1, sizeof *to);
    for (int64_t i = 0; i < s->tensors[t].elements; i++) {
        double x;
        values_gather(&s->tensors[t], s->inputs[t], i, 1, &x);
        to[i] = (float)x;
    }
    return to;
}

static void run_rmsnorm(struct scene *s, const struct how *h, void **to)
{
    int64_t rows = axis(s, "R"), n = axis(s, "N");
    float offset = h->no_offset ? 0 : (float)axis(s, "weight_offset");
    float *x = floats(s, "x"), *w = floats(s, "weight");
    int y = tensor_at(s, "y");
    for (int64_t r = 0; r < rows; r++) {
        float factor = 1 / sqrtf(sum_of(h, x + r * n, x + r * n, n) / (float)n + (float)h->eps);
        for (int64_t i = 0; i < n; i++)
            dtype_store(s->tensors[y].dtype, to[y], (size_t)(r * n + i), (double)(x[r * n + i] * factor * (w[i] + offset)));
    }
    free(x);
    free(w);
}

static void run_gdn(struct scene *s, const struct how *h, void **to)
{
    int64_t B = axis(s, "B"), H = axis(s, "H"), HV = axis(s, "HV"), K = axis(s, "K"), V = axis(s, "V");
    float *mixed = floats(s, "mixed_qkv"), *a = floats(s, "a"), *b = floats(s, "b"), *rate = floats(s, "A_log"), *bias = floats(s, "dt_bias");
    float *slot = floats(s, "slot"), *state = floats(s, "state"), k[512], q[512];
    int st = tensor_at(s, "state"), out = tensor_at(s, "out");
    memcpy(to[st], s->inputs[st], (size_t)s->tensors[st].bytes);
    for (int64_t t = 0; t < B; t++)
        for (int64_t j = 0; j < HV; j++) {
            int64_t at = (t * HV + j) * V;
            if (slot[t] <= 0) {
                for (int64_t v = 0; v < V; v++)
                    dtype_store(s->tensors[out].dtype, to[out], (size_t)(at + v), 0);
                continue;
            }
            const float *row = mixed + t * (2 * H * K + HV * V), *q_raw = row + j / (HV / H) * K, *k_raw = q_raw + H * K;
            float q_norm = 1 / sqrtf(sum_of(h, q_raw, q_raw, K) + (float)h->eps) / sqrtf((float)K), k_norm = 1 / sqrtf(sum_of(h, k_raw, k_raw, K) + (float)h->eps);
            for (int64_t i = 0; i < K; i++) {
                q[i] = q_raw[i] * q_norm;
                k[i] = k_raw[i] * k_norm;
            }
            float x = a[t * HV + j] + bias[j], softplus = x > 20 ? x : log1pf(expf(x));
            float decay = h->no_decay ? 1 : expf(-expf(rate[j]) * softplus), beta = h->no_beta ? 1 : 1 / (1 + expf(-b[t * HV + j]));
            for (int64_t v = 0; v < V; v++) {
                int64_t first = (((int64_t)slot[t] * HV + j) * V + v) * K;
                float held[512];
                for (int64_t i = 0; i < K; i++)
                    held[i] = state[first + i] * decay;
                float u = (row[2 * H * K + j * V + v] - sum_of(h, held, k, K)) * beta;
                for (int64_t i = 0; i < K; i++) {
                    held[i] += u * k[i];
                    dtype_store(s->tensors[st].dtype, to[st], (size_t)(first + i), (double)held[i]);
                }
                dtype_store(s->tensors[out].dtype, to[out], (size_t)(at + v), (double)sum_of(h, held, q, K));
            }
        }
    free(mixed);
    free(a);
    free(b);
    free(rate);
    free(bias);
    free(slot);
    free(state);
}

static void run(struct scene *s, const struct how *h, void **to)
{
    if (!strcmp(s->shape.op->name, "rmsnorm"))
        run_rmsnorm(s, h, to);
    else
        run_gdn(s, h, to);
}

/* The first result that is not ok; the last one if all are. */
static struct compare_result judge(const struct scene *s, bool with_baseline)
{
    struct compare_result r = {0};
    for (int t = 0; t < s->shape.op->tensor_count; t++)
        if (s->right[t] && (r = compare_one(s, t, with_baseline)).code != VERDICT_OK)
            break;
    return r;
}

static const char *const shapes[] = {
    "{\"op\":\"rmsnorm\",\"axes\":{\"R\":5,\"N\":3072}}",
    "{\"op\":\"rmsnorm\",\"axes\":{\"R\":3,\"N\":3072,\"weight_offset\":1},\"dtypes\":{\"io\":\"f32\"}}",
    "{\"op\":\"rmsnorm\",\"axes\":{\"R\":40,\"N\":7},\"dtypes\":{\"io\":\"f16\"}}",
    "{\"op\":\"rmsnorm\",\"axes\":{\"R\":2,\"N\":33001}}",
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":4,\"K\":128,\"V\":128}}",
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":64,\"V\":48,\"slots\":9},\"dtypes\":{\"state\":\"bf16\"}}",
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":3,\"H\":1,\"HV\":3,\"K\":19,\"V\":13},\"dtypes\":{\"io\":\"f32\",\"state\":\"f32\"}}",
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":2,\"H\":1,\"HV\":2,\"K\":96,\"V\":40},\"dtypes\":{\"io\":\"f16\",\"state\":\"f16\"}}",
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* In every regime, of every shape: the rounded reference and two single-precision kernels pass, each beside the other. */
static void test_honest(void)
{
    for (int i = 0; i < SHAPES; i++) {
        cleanup(scene) struct scene probe = {0};
        scene_make(&probe, shapes[i], "typical", 1);
        for (int r = 0; r < inputs_regime_count(probe.shape.op); r++)
            for (uint64_t seed = 0; seed < 2; seed++) {
                cleanup(scene) struct scene s = {0};
                scene_make(&s, shapes[i], inputs_regime_name(probe.shape.op, r), seed);
                run(&s, &honest, s.baseline);
                for (int variant = 0; variant < 4; variant++) {
                    if (variant < 2)
                        run(&s, variant ? &serial : &honest, s.got);
                    else
                        for (int t = 0; t < s.shape.op->tensor_count; t++)
                            if (s.right[t])
                                put(&s, t, NULL);
                    struct compare_result with = judge(&s, true), without = judge(&s, false);
                    check(with.code == VERDICT_OK && without.code == VERDICT_OK);
                    if (with.code != VERDICT_OK || without.code != VERDICT_OK)
                        fprintf(stderr, "  %s %s seed %d variant %d: %s | %s\n", shapes[i], inputs_regime_name(probe.shape.op, r), (int)seed, variant, with.text, without.text);
                    if (variant == 2)
                        run(&s, &serial, s.baseline);
                }
            }
    }
}

/* ---- canaries: a change of the output of one tensor that must not pass ---- */

typedef void spoil(struct scene *s, int t, double *values);

static double rms_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum / (double)n);
}

static void zeros(struct scene *s, int t, double *v)
{
    memset(v, 0, (size_t)s->tensors[t].elements * sizeof *v);
}
static void mean(struct scene *s, int t, double *v)
{
    double sum = 0;
    for (int64_t i = 0; i < s->tensors[t].elements; i++)
        sum += v[i];
    for (int64_t i = 0; i < s->tensors[t].elements; i++)
        v[i] = sum / (double)s->tensors[t].elements;
}
static void row_mean(struct scene *s, int t, double *v)
{
    int64_t row = s->tensors[t].dims[s->tensors[t].rank - 1];
    for (int64_t r = 0; r < s->tensors[t].elements; r += row) {
        double sum = 0;
        for (int64_t i = 0; i < row; i++)
            sum += v[r + i];
        for (int64_t i = 0; i < row; i++)
            v[r + i] = sum / (double)row;
    }
}
static void input_copied(struct scene *s, int t, double *v)
{
    const char *from = s->tensors[t].spec->role == OP_INOUT ? s->tensors[t].spec->name : !strcmp(s->shape.op->name, "rmsnorm") ? "x" : "mixed_qkv";
    int in = tensor_at(s, from);
    for (int64_t i = 0; i < s->tensors[t].elements; i++)
        values_gather(&s->tensors[in], s->inputs[in], i % s->tensors[in].elements, 1, &v[i]);
}
static void last_missing(struct scene *s, int t, double *v)
{
    int64_t n = s->tensors[t].elements, row = s->tensors[t].dims[s->tensors[t].rank - 1], tail = row < 8 ? row : row / 8;
    for (int64_t i = n - tail; i < n; i++)
        v[i] = s->tensors[t].spec->role == OP_INOUT ? 0.5 : 0;
}
static void rows_swapped(struct scene *s, int t, double *v)
{
    int64_t row = s->tensors[t].dims[s->tensors[t].rank - 1], n = s->tensors[t].elements;
    for (int64_t i = 0; i < row; i++) {
        double x = v[n - row + i];
        v[n - row + i] = v[n - 2 * row + i];
        v[n - 2 * row + i] = x;
    }
}
static void gain(struct scene *s, int t, double *v)
{
    for (int64_t i = 0; i < s->tensors[t].elements; i++)
        v[i] *= 1.01;
}
static void offset(struct scene *s, int t, double *v)
{
    double by = 0.01 * rms_of(v, s->tensors[t].elements);
    for (int64_t i = 0; i < s->tensors[t].elements; i++)
        v[i] += by;
}
static void truncated(struct scene *s, int t, double *v)
{
    /* towards zero to the type instead of to nearest */
    int bits = s->tensors[t].dtype == DTYPE_BF16 ? 8 : s->tensors[t].dtype == DTYPE_F16 ? 11 : 18;
    for (int64_t i = 0; i < s->tensors[t].elements; i++) {
        int e;
        double m = frexp(v[i], &e);
        v[i] = ldexp(trunc(ldexp(m, bits)), e - bits);
    }
}
static void one_wrong(struct scene *s, int t, double *v)
{
    v[s->tensors[t].elements - 1] += 0.2 * rms_of(v, s->tensors[t].elements) + 0.05 * fabs(v[s->tensors[t].elements - 1]);
}
static void eighth_rounded_off(struct scene *s, int t, double *v)
{
    for (int64_t i = 0; i < s->tensors[t].elements; i++) {
        dtype_store(DTYPE_F8E4M3, &(uint8_t[8]){0}, 0, v[i]);
        uint8_t one;
        dtype_store(DTYPE_F8E4M3, &one, 0, v[i]);
        v[i] = dtype_load(DTYPE_F8E4M3, &one, 0);
    }
}

static const struct { const char *name; spoil *fn; } canaries[] = {
    {"zeros", zeros}, {"mean", mean}, {"row mean", row_mean}, {"input copied", input_copied}, {"last tile missing", last_missing}, {"rows swapped", rows_swapped},
    {"gain 1.01", gain}, {"offset 1 %", offset}, {"truncated", truncated}, {"one element", one_wrong}, {"fp8", eighth_rounded_off}};

static void test_canaries(void)
{
    for (int i = 0; i < SHAPES; i++) {
        cleanup(scene) struct scene s = {0};
        scene_make(&s, shapes[i], "typical", 3);
        run(&s, &honest, s.baseline);
        for (int t = 0; t < s.shape.op->tensor_count; t++) {
            if (!s.right[t])
                continue;
            for (size_t k = 0; k < sizeof canaries / sizeof *canaries; k++) {
                cleanup(mem) void *copy = xarray((size_t)s.tensors[t].elements, sizeof(double));
                double *values = copy;
                memcpy(values, s.right[t], (size_t)s.tensors[t].elements * sizeof *values);
                canaries[k].fn(&s, t, values);
                put(&s, t, values);
                struct compare_result with = compare_one(&s, t, true), without = compare_one(&s, t, false);
                check(with.code != VERDICT_OK && *with.text && with.has_element);
                check(without.code != VERDICT_OK);
                if (with.code == VERDICT_OK || without.code == VERDICT_OK)
                    fprintf(stderr, "  %s, %s, \"%s\" passes: with %s, without %s\n", shapes[i], s.tensors[t].spec->name, canaries[k].name,
                            verdict_name(with.code), verdict_name(without.code));
            }
        }
    }
}

/* Wrong arithmetic rather than wrong output: it must fail in some regime (a dropped eps shows where values are tiny, ...). */
static void test_wrong_arithmetic(void)
{
    static const struct { const char *name; struct how how; int shapes[4]; int shape_count; } cases[] = {
        {"sums in bf16", {BFLOAT, 32, 1e-6, 0, 0, 0}, {0, 1, 4, 6}, 4},
        {"sums in bf16, serial", {BFLOAT, 1, 1e-6, 0, 0, 0}, {0, 1, 4, 6}, 4},
        {"sums in f16", {HALF, 1, 1e-6, 0, 0, 0}, {0, 1, 4, 6}, 4},
        {"sums in tf32", {TF32, 1, 1e-6, 0, 0, 0}, {1, 4, 6}, 3},
        {"eps dropped", {SINGLE, 32, 0, 0, 0, 0}, {0, 1, 4, 6}, 4},
        {"offset dropped", {SINGLE, 32, 1e-6, 1, 0, 0}, {1}, 1},
        {"decay dropped", {SINGLE, 32, 1e-6, 0, 1, 0}, {4, 5, 6, 7}, 4},
        {"beta dropped", {SINGLE, 32, 1e-6, 0, 0, 1}, {4, 5, 6, 7}, 4},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int i = 0; i < cases[k].shape_count; i++) {
            cleanup(scene) struct scene probe = {0};
            scene_make(&probe, shapes[cases[k].shapes[i]], "typical", 1);
            int caught = 0;
            for (int r = 0; r < inputs_regime_count(probe.shape.op); r++) {
                cleanup(scene) struct scene s = {0};
                scene_make(&s, shapes[cases[k].shapes[i]], inputs_regime_name(probe.shape.op, r), 4);
                run(&s, &honest, s.baseline);
                run(&s, &cases[k].how, s.got);
                caught += judge(&s, true).code != VERDICT_OK;
            }
            check(caught > 0);
            if (!caught)
                fprintf(stderr, "  %s: %s passes\n", shapes[cases[k].shapes[i]], cases[k].name);
        }
}

static void test_other_seed(void)
{
    for (int i = 0; i < SHAPES; i++) {
        cleanup(scene) struct scene s = {0}, other = {0};
        scene_make(&s, shapes[i], "typical", 8);
        scene_make(&other, shapes[i], "typical", 9);
        for (int t = 0; t < s.shape.op->tensor_count; t++)
            if (s.right[t]) {
                put(&s, t, other.right[t]);
                check(compare_one(&s, t, false).code != VERDICT_OK);
            }
    }
}

/* ---- single rules ---- */

static void test_classes(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, shapes[1], "typical", 2);
    int y = tensor_at(&s, "y");
    float *got = s.got[y];
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 3; k++) {
        put(&s, y, NULL);
        got[3072 + 17] = bad[k];
        struct compare_result r = compare_one(&s, y, false);
        check(r.code == VERDICT_NON_FINITE && r.rule == COMPARE_CLASSES);
        check_int(r.wrong_class, 1);
        check(r.index[0] == 1 && r.index[1] == 17 && r.has_element);
        check(isnan(bad[k]) ? isnan(r.got) : r.got == (double)bad[k]);
        cleanup(json) json_t *doc = compare_encode(&r, &s.tensors[y]);
        cleanup(str) char *text = json_text(doc);
        check(strstr(text, isnan(bad[k]) ? "\"nan\"" : bad[k] > 0 ? "\"inf\"" : "\"-inf\"") && strstr(text, "\"index\":[1,17]") && strstr(text, "\"rule\":\"classes\""));
    }
    /* where the reference itself overflows the type, an infinity is right and a number is wrong */
    put(&s, y, NULL);
    s.right[y][5] = 1e300;
    got[5] = INFINITY;
    check_str(verdict_name(compare_one(&s, y, false).code), "ok");
    got[5] = -INFINITY;
    check(compare_one(&s, y, false).code == VERDICT_NON_FINITE);
    got[5] = 3e38f;
    check(compare_one(&s, y, false).code == VERDICT_WRONG_RESULT);
}

static void test_unchanged(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":64,\"V\":48,\"slots\":9}}", "padded", 5);
    int t = tensor_at(&s, "state");
    float *got = s.got[t];
    put(&s, t, NULL);
    struct compare_result r = compare_one(&s, t, false);
    check(r.code == VERDICT_OK && r.unchanged >= 6 * 2 * 64 * 48 && r.unchanged + r.elements == s.tensors[t].elements);
    /* slot 0 is never touched: the smallest change of one element is seen, though far below any tolerance */
    uint32_t bits;
    memcpy(&bits, &got[77], 4);
    bits ^= 1;
    memcpy(&got[77], &bits, 4);
    r = compare_one(&s, t, false);
    check(r.code == VERDICT_INPUT_MODIFIED && r.rule == COMPARE_UNCHANGED);
    check(r.index[0] == 0 && r.index[2] == 1 && r.index[3] == 13);
    bits ^= 1;
    memcpy(&got[77], &bits, 4);
    check(compare_one(&s, t, false).code == VERDICT_OK);
}

static void test_padding_rows(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, shapes[4], "padded", 6);
    int t = tensor_at(&s, "out");
    const int32_t *slot = s.inputs[tensor_at(&s, "slot")];
    int padded = 0;
    while (slot[padded] > 0)
        padded++;
    cleanup(mem) void *copy = xarray((size_t)s.tensors[t].elements, sizeof(double));
    double *values = copy;
    memcpy(values, s.right[t], (size_t)s.tensors[t].elements * sizeof *values);
    values[padded * 4 * 128 + 130] = 1e-20;      /* zeros out means zeros */
    put(&s, t, values);
    struct compare_result r = compare_one(&s, t, false);
    check(r.code == VERDICT_WRONG_RESULT && r.index[0] == padded && r.index[1] == 1 && r.index[2] == 2);
}

/* A strided inout: its gaps must stay, its rows are compared. */
static void test_gaps(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, shapes[1], "typical", 2);
    struct op_tensor spec = *s.tensors[tensor_at(&s, "y")].spec;
    struct tensor t = s.tensors[tensor_at(&s, "y")];
    t.dims[0] = 3;
    t.dims[1] = 40;
    t.strides[0] = 50;
    t.strides[1] = 1;
    t.elements = 120;
    t.span_elements = 140;
    t.bytes = 140 * 4;
    t.spec = &spec;
    float before[140], got[140];
    double right[120];
    for (int i = 0; i < 140; i++)
        before[i] = (float)i;
    memcpy(got, before, sizeof got);
    for (int i = 0; i < 120; i++) {
        right[i] = 1 + i % 7;
        got[i / 40 * 50 + i % 40] = (float)right[i];
    }
    const struct compare_case c = {s.shape.op, &t, right, got, NULL, before, NULL};
    struct compare_result r;
    compare_tensor(&c, &r);
    check(r.code == VERDICT_OK);
    got[45] = 0;
    compare_tensor(&c, &r);
    check(r.code == VERDICT_INPUT_MODIFIED && r.rule == COMPARE_GAPS && strstr(r.text, "byte 182"));
    got[45] = before[45];
    got[51] = 9;
    compare_tensor(&c, &r);
    check(r.code == VERDICT_WRONG_RESULT && r.index[0] == 1 && r.index[1] == 1);
}

static void test_integers(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, shapes[1], "typical", 2);
    struct tensor t = s.tensors[tensor_at(&s, "y")];
    t.dtype = DTYPE_I32;
    t.rank = 1;
    t.dims[0] = t.elements = t.span_elements = 4;
    t.strides[0] = 1;
    t.bytes = 16;
    int32_t got[] = {1, -2, 3, 2000000000};
    const double right[] = {1, -2, 3, 2000000000};
    const struct compare_case c = {s.shape.op, &t, right, got, NULL, NULL, NULL};
    struct compare_result r;
    compare_tensor(&c, &r);
    check(r.code == VERDICT_OK);
    got[3]++;
    compare_tensor(&c, &r);
    check(r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_EXACT && r.index[0] == 3);
}

/* The baseline's own error widens what is allowed, but not beyond the table. */
static void test_baseline_relative(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, shapes[1], "typical", 2);
    int y = tensor_at(&s, "y");
    int64_t n = s.tensors[y].elements;
    double *values = xarray((size_t)n, sizeof *values), *rough = xarray((size_t)n, sizeof *rough);
    for (int64_t i = 0; i < n; i++) {
        values[i] = s.right[y][i] * (1 + 6e-6 * rng_normal(1, 1, (uint64_t)i));
        rough[i] = s.right[y][i] * (1 + 5e-6 * rng_normal(2, 2, (uint64_t)i));
    }
    put(&s, y, values);
    check(compare_one(&s, y, false).code == VERDICT_OK);              /* within the table */
    run(&s, &honest, s.baseline);
    struct compare_result r = compare_one(&s, y, true);
    check(r.code == VERDICT_WRONG_RESULT && r.ratio > 10);            /* but much worse than an honest kernel */
    check(r.rule == COMPARE_TILE && r.worst_tile > 1);
    values_store(DTYPE_F32, s.baseline[y], 0, n, rough);
    r = compare_one(&s, y, true);
    check(r.code == VERDICT_OK && r.ratio > 0.8 && r.ratio < 1.6);
    free(values);
    free(rough);
}

/* One element among a thousand, too small an error to show in its tile; and the cap where an operator tolerates some misses. */
static void test_worst(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, shapes[0], "typical", 2);
    int y = tensor_at(&s, "y");
    double *right = s.right[y], scale = rms_of(right + 3072, 1024), kept = right[3080];
    put(&s, y, NULL);
    right[3080] += 0.03 * fmax(scale, fabs(kept));
    struct compare_result r = compare_one(&s, y, false);
    check(r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_WORST && r.index[0] == 1 && r.index[1] == 8);
    right[3080] = kept + 0.018 * fmax(scale, fabs(kept));        /* within the table, far beyond what an honest kernel does */
    memcpy(s.baseline[y], s.got[y], (size_t)s.tensors[y].bytes);
    dtype_store(DTYPE_BF16, s.baseline[y], 3080, right[3080]);
    r = compare_one(&s, y, false);
    check(r.code == VERDICT_OK && r.worst > 0.01);

    struct op op = *s.shape.op;
    cleanup(json) json_t *doc = json_copy(op.doc), *row = json_pack("{s:{s:f,s:f}}", "y", "matched", 0.99, "rms", 0.1);
    json_object_set(doc, "tolerance", row);
    op.doc = doc;
    s.shape.op = &op;
    right[3080] = kept + 0.1 * fmax(scale, fabs(kept));
    r = compare_one(&s, y, false);
    check(r.code == VERDICT_OK);
    right[3080] = kept + 0.3 * fmax(scale, fabs(kept));
    r = compare_one(&s, y, false);
    check(r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_CAP);
    right[3080] = kept;
}

/* Elements that are small beside their neighbours are set to zero: below the tile's rounding, and no bias, but not what was asked for. */
static void test_small(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, shapes[0], "typical", 2);
    int y = tensor_at(&s, "y");
    int64_t n = s.tensors[y].elements, dropped = 0;
    double *values = xarray((size_t)n, sizeof *values);
    memcpy(values, s.right[y], (size_t)n * sizeof *values);
    run(&s, &honest, s.baseline);
    for (int64_t i = 0; i < n; i++)
        if (fabs(values[i]) < 0.0095)
            values[i] = 0, dropped++;
    put(&s, y, values);
    struct compare_result r = compare_one(&s, y, true);
    check(dropped >= 32 && r.worst_tile < 1 && r.bias < 1);
    check(r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_SMALL && r.small > 1);
    put(&s, y, NULL);
    r = compare_one(&s, y, true);
    check(r.code == VERDICT_OK && r.small < 1);
    free(values);
}

static void test_tolerance_file(void)
{
    static const struct { const char *text, *says; } cases[] = {
        {"{\"y\":{\"max\":0.5,\"rms\":0.1}}", NULL},
        {"{}", NULL},
        {"[]", "/tolerance"},
        {"{\"x\":{\"max\":0.5}}", "no such output"},
        {"{\"y\":{\"most\":0.5}}", "/tolerance/y/most"},
        {"{\"y\":{\"max\":2}}", "/tolerance/y/max"},
        {"{\"y\":{\"max\":\"a\"}}", "/tolerance/y/max"},
        {"{\"y\":{\"matched\":0.5}}", "/tolerance/y/matched"},
        {"{\"y\":{\"factor\":0.5}}", "/tolerance/y/factor"},
        {"{\"y\":5}", "/tolerance/y"},
    };
    cleanup(scene) struct scene s = {0};
    scene_make(&s, shapes[1], "typical", 2);
    struct op op = *s.shape.op;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(json) json_t *row = NULL, *doc = json_copy(s.shape.op->doc);
        struct err err = {0};
        check(json_parse(cases[i].text, strlen(cases[i].text), &row, &err));
        json_object_set(doc, "tolerance", row);
        op.doc = doc;
        bool ok = compare_check(&op, &err);
        check(ok == !cases[i].says && (ok || strstr(err.text, cases[i].says)));
        if (!i) {
            struct compare_tolerance t = compare_tolerance(&op, &s.tensors[tensor_at(&s, "y")]);
            check(t.max == 0.5 && t.rms == 0.1 && t.factor == 2 && t.matched == 1);
        }
    }
}

/* Two results of equal inputs, where atomics are declared: a quarter of the tolerance, one step of the type, and no more. */
static void test_spread(void)
{
    static const struct { const char *dtype; double by, to; bool fine; } cases[] = {
        {"f32", 1, 0, true},
        {"f32", 1 + 2.0e-5, 0, true},           /* tolerance 1e-4 */
        {"f32", 1 + 3.0e-5, 0, false},
        {"f32", -1, 0, false},
        {"f32", 0, NAN, false},
        {"f32", 0, INFINITY, false},
        {"bf16", 1 + 0x1p-8, 0, true},          /* a step at most: 2e-2 / 4 is less than one for some values */
        {"bf16", 1 + 0x1p-6, 0, false},
        {"f16", 1 + 1.0e-3, 0, true},
        {"f16", 1 + 4.0e-3, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(scene) struct scene s = {0};
        cleanup(str) char *shape = xfmt("{\"op\":\"rmsnorm\",\"axes\":{\"R\":3,\"N\":100},\"dtypes\":{\"io\":\"%s\"}}", cases[i].dtype);
        scene_make(&s, shape, "typical", 5);
        const int t = tensor_at(&s, "y");
        const struct tensor *y = &s.tensors[t];
        cleanup(mem) void *a = xalloc((size_t)y->bytes), *b = xalloc((size_t)y->bytes);
        int64_t element = -1, largest = 100;
        for (int64_t n = 0; n < y->elements; n++) {
            dtype_store(y->dtype, a, (size_t)n, s.right[t][n]);
            if (n >= 100 && n < 200 && fabs(s.right[t][n]) > fabs(s.right[t][largest]))
                largest = n;
        }
        memcpy(b, a, (size_t)y->bytes);
        check(compare_spread(s.shape.op, y, a, b, &element));
        dtype_store(y->dtype, b, (size_t)largest, cases[i].by != 0 ? dtype_load(y->dtype, a, (size_t)largest) * cases[i].by : cases[i].to);
        const bool fine = compare_spread(s.shape.op, y, a, b, &element);
        if (fine != cases[i].fine)
            fprintf(stderr, "%s times %g: %d\n", cases[i].dtype, cases[i].by, fine);
        check(fine == cases[i].fine && (fine || element == largest));
    }
    /* Integers have no excuse. */
    struct op_tensor spec = {.role = OP_OUTPUT};
    const struct tensor ints = {.spec = &spec, .dtype = DTYPE_I32, .rank = 1, .dims = {4}, .strides = {1}, .elements = 4, .span_elements = 4, .bytes = 16};
    const int32_t x[4] = {1, 2, 1000000, 4}, z[4] = {1, 2, 1000001, 4};
    int64_t element = -1;
    cleanup(json) json_t *none = json_object();
    struct op op = {.doc = none};
    check(compare_spread(&op, &ints, x, x, &element) && !compare_spread(&op, &ints, x, z, &element) && element == 2);
}

int main(void)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(OPS_DIR, &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    test_intermediates();
    test_lucky_row();
    test_parts_that_stay();
    test_honest();
    test_canaries();
    test_wrong_arithmetic();
    test_other_seed();
    test_classes();
    test_unchanged();
    test_padding_rows();
    test_gaps();
    test_integers();
    test_baseline_relative();
    test_worst();
    test_small();
    test_tolerance_file();
    test_spread();
    op_set_done(&ops);
    return test_done();
}

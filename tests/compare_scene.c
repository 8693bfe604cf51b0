#include "tests/compare_scene.h"

#include "gpu/judge/reference.h"
#include "tests/test.h"

#include <math.h>

struct op_set scene_ops;

int scene_main(void (*const *tests)(void), size_t count)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(OPS_DIR, &scene_ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        tests[i]();
    op_set_done(&scene_ops);
    return test_done();
}

void scene_done(struct scene *s)
{
    if (!s->shape.op)
        return;
    inputs_free(s->shape.op, s->inputs);
    inputs_free(s->shape.op, (void **)s->right);
    inputs_free(s->shape.op, s->got);
    inputs_free(s->shape.op, s->baseline);
}

int scene_tensor(const struct scene *s, const char *name)
{
    int t = op_tensor_index(s->shape.op, name);
    BUG_ON(t < 0);
    return t;
}

int64_t scene_axis(const struct scene *s, const char *name)
{
    return s->shape.axes[op_axis_index(s->shape.op, name)];
}

void scene_make(struct scene *s, const char *shape, const char *regime, uint64_t seed)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(shape, strlen(shape), &doc, &err));
    check(shape_parse(&scene_ops, doc, "sm_90a", "", &s->shape, &f) && shape_tensors(&s->shape, s->tensors, &err));
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

void scene_put(struct scene *s, int t, const double *values)
{
    values_store(s->tensors[t].dtype, s->got[t], 0, s->tensors[t].elements, values ? values : s->right[t]);
}

struct compare_result scene_compare(const struct scene *s, int t, bool with_baseline)
{
    const struct compare_case c = {s->shape.op, &s->tensors[t], s->right[t], s->got[t], with_baseline ? s->baseline[t] : NULL, s->inputs[t], NULL};
    struct compare_result r;
    compare_tensor(&c, &r);
    return r;
}

/* ---- two honest kernels in C: single precision, sums in another order than the reference ---- */

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

const struct how scene_honest = {SINGLE, 32, 1e-6, false, false, false}, scene_serial = {SINGLE, 1, 1e-6, false, false, false};

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
    int t = scene_tensor(s, name);
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
    int64_t rows = scene_axis(s, "R"), n = scene_axis(s, "N");
    float offset = h->no_offset ? 0 : (float)scene_axis(s, "weight_offset");
    float *x = floats(s, "x"), *w = floats(s, "weight");
    int y = scene_tensor(s, "y");
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
    int64_t B = scene_axis(s, "B"), H = scene_axis(s, "H"), HV = scene_axis(s, "HV"), K = scene_axis(s, "K"), V = scene_axis(s, "V");
    float *mixed = floats(s, "mixed_qkv"), *a = floats(s, "a"), *b = floats(s, "b"), *rate = floats(s, "A_log"), *bias = floats(s, "dt_bias");
    float *slot = floats(s, "slot"), *state = floats(s, "state"), k[512], q[512];
    int st = scene_tensor(s, "state"), out = scene_tensor(s, "out");
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

void scene_run(struct scene *s, const struct how *h, void **to)
{
    if (!strcmp(s->shape.op->name, "rmsnorm"))
        run_rmsnorm(s, h, to);
    else
        run_gdn(s, h, to);
}

struct compare_result scene_judge(const struct scene *s, bool with_baseline)
{
    struct compare_result r = {0};
    for (int t = 0; t < s->shape.op->tensor_count; t++)
        if (s->right[t] && (r = scene_compare(s, t, with_baseline)).code != VERDICT_OK)
            break;
    return r;
}

const char *const scene_shapes[SCENE_SHAPES] = {
    "{\"op\":\"rmsnorm\",\"axes\":{\"R\":5,\"N\":3072}}",
    "{\"op\":\"rmsnorm\",\"axes\":{\"R\":3,\"N\":3072,\"weight_offset\":1},\"dtypes\":{\"io\":\"f32\"}}",
    "{\"op\":\"rmsnorm\",\"axes\":{\"R\":40,\"N\":7},\"dtypes\":{\"io\":\"f16\"}}",
    "{\"op\":\"rmsnorm\",\"axes\":{\"R\":2,\"N\":33001}}",
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":4,\"K\":128,\"V\":128}}",
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":64,\"V\":48,\"slots\":9},\"dtypes\":{\"state\":\"bf16\"}}",
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":3,\"H\":1,\"HV\":3,\"K\":19,\"V\":13},\"dtypes\":{\"io\":\"f32\",\"state\":\"f32\"}}",
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":2,\"H\":1,\"HV\":2,\"K\":96,\"V\":40},\"dtypes\":{\"io\":\"f16\",\"state\":\"f16\"}}",
};

double scene_rms(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum / (double)n);
}

/* What must not pass: spoilt outputs, wrong arithmetic, another seed's result. */
#include "tests/compare_scene.h"
#include "tests/test.h"

#include <math.h>

/* ---- canaries: a change of the output of one tensor that must not pass ---- */

typedef void spoil(struct scene *s, int t, double *values);

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
    int in = scene_tensor(s, from);
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
    double by = 0.01 * scene_rms(v, s->tensors[t].elements);
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
    v[s->tensors[t].elements - 1] += 0.2 * scene_rms(v, s->tensors[t].elements) + 0.05 * fabs(v[s->tensors[t].elements - 1]);
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
    for (int i = 0; i < SCENE_SHAPES; i++) {
        cleanup(scene) struct scene s = {0};
        scene_make(&s, scene_shapes[i], "typical", 3);
        scene_run(&s, &scene_honest, s.baseline);
        for (int t = 0; t < s.shape.op->tensor_count; t++) {
            if (!s.right[t])
                continue;
            for (size_t k = 0; k < sizeof canaries / sizeof *canaries; k++) {
                cleanup(mem) void *copy = xarray((size_t)s.tensors[t].elements, sizeof(double));
                double *values = copy;
                memcpy(values, s.right[t], (size_t)s.tensors[t].elements * sizeof *values);
                canaries[k].fn(&s, t, values);
                scene_put(&s, t, values);
                struct compare_result with = scene_compare(&s, t, true), without = scene_compare(&s, t, false);
                check(with.code != VERDICT_OK && *with.text && with.has_element);
                check(without.code != VERDICT_OK);
                if (with.code == VERDICT_OK || without.code == VERDICT_OK)
                    fprintf(stderr, "  %s, %s, \"%s\" passes: with %s, without %s\n", scene_shapes[i], s.tensors[t].spec->name, canaries[k].name,
                            verdict_name(with.code), verdict_name(without.code));
            }
        }
    }
}

/* Wrong arithmetic rather than wrong output: it must fail in some regime (a dropped eps shows where values are tiny, ...). */
static void test_wrong_arithmetic(void)
{
    static const struct { const char *name; struct how how; int scene_shapes[4]; int shape_count; } cases[] = {
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
            scene_make(&probe, scene_shapes[cases[k].scene_shapes[i]], "typical", 1);
            int caught = 0;
            for (int r = 0; r < inputs_regime_count(probe.shape.op); r++) {
                cleanup(scene) struct scene s = {0};
                scene_make(&s, scene_shapes[cases[k].scene_shapes[i]], inputs_regime_name(probe.shape.op, r), 4);
                scene_run(&s, &scene_honest, s.baseline);
                scene_run(&s, &cases[k].how, s.got);
                caught += scene_judge(&s, true).code != VERDICT_OK;
            }
            check(caught > 0);
            if (!caught)
                fprintf(stderr, "  %s: %s passes\n", scene_shapes[cases[k].scene_shapes[i]], cases[k].name);
        }
}

static void test_other_seed(void)
{
    for (int i = 0; i < SCENE_SHAPES; i++) {
        cleanup(scene) struct scene s = {0}, other = {0};
        scene_make(&s, scene_shapes[i], "typical", 8);
        scene_make(&other, scene_shapes[i], "typical", 9);
        for (int t = 0; t < s.shape.op->tensor_count; t++)
            if (s.right[t]) {
                scene_put(&s, t, other.right[t]);
                check(scene_compare(&s, t, false).code != VERDICT_OK);
            }
    }
}

int main(void)
{
    static void (*const tests[])(void) = {test_canaries, test_wrong_arithmetic, test_other_seed};
    return scene_main(tests, sizeof tests / sizeof *tests);
}

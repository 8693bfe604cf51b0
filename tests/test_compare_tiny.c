/*
 * Tensors of one element: by chance it is as small as no type holds with all its bits, and an honest kernel passes all the same, every
 * time, its baseline is fit to measure by, and a kernel that leaves something out is refused in one regime or another, every time.
 */
#include "tests/compare_scene.h"

#include "tests/test.h"

#include <math.h>

enum way { AS_BASELINE, BY_RECIPROCAL, FLUSHED, NO_GATE, NO_FACTOR, HALF_GATE, WAYS };

static float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? 0 : x;
}

static float gated(enum way way, float x, float u)
{
    switch (way) {
    case AS_BASELINE: return x / (1 + expf(-x)) * u;
    case BY_RECIPROCAL: return 1 / (1 + expf(-x)) * (x * u);
    case FLUSHED: return flush(flush(x / (1 + expf(-x))) * u);
    case NO_GATE: return x * u;
    case NO_FACTOR: return x / (1 + expf(-x));
    case HALF_GATE: return x / 2 * u;
    case WAYS: break;
    }
    BUG_ON(true);
}

static float input(const struct scene *s, const char *name, int64_t at)
{
    double x;
    const int t = scene_tensor(s, name);
    values_gather(&s->tensors[t], s->inputs[t], at, 1, &x);
    return (float)x;
}

/* Silu and product of one gate and one factor. */
static void put_gated(const struct scene *s, int way, void **to)
{
    const int y = scene_tensor(s, "y");
    dtype_store(s->tensors[y].dtype, to[y], 0, (double)gated((enum way)way, input(s, "x", 0), input(s, "x", 1)));
}

/* The norm of a row of one: as it is, without eps, without the weight. */
static void put_norm(const struct scene *s, int way, void **to)
{
    const int y = scene_tensor(s, "y");
    const float x = input(s, "x", 0), eps = way == NO_GATE ? 0 : 1e-6f, w = way == NO_FACTOR ? 1 : input(s, "weight", 0);
    const float factor = 1 / sqrtf(x * x + eps), value = way == BY_RECIPROCAL ? x * w / sqrtf(x * x + eps) : x * factor * w;
    dtype_store(s->tensors[y].dtype, to[y], 0, (double)(way == FLUSHED ? flush(value) : way == HALF_GATE ? value / 2 : value));
}

/* All regimes of one draw. */
struct told { int refused[WAYS], unfit, by_table; };
static void judge_draw(const char *shape, uint64_t seed, void (*put)(const struct scene *s, int way, void **to), struct told *told)
{
    cleanup(scene) struct scene probe = {0};
    scene_make(&probe, shape, "typical", seed);
    for (int r = 0; r < inputs_regime_count(probe.shape.op); r++) {
        cleanup(scene) struct scene s = {0};
        scene_make(&s, shape, inputs_regime_name(probe.shape.op, r), seed);
        const int y = scene_tensor(&s, "y");
        const struct compare_tolerance tolerance = compare_tolerance(s.shape.op, &s.tensors[y]);
        put(&s, AS_BASELINE, s.baseline);
        put(&s, AS_BASELINE, s.got);
        told->by_table += scene_compare(&s, y, false).code != VERDICT_OK;
        for (int way = 0; way < WAYS; way++) {
            put(&s, way, s.got);
            const struct compare_result result = scene_compare(&s, y, true);
            told->refused[way] += result.code != VERDICT_OK;
            told->unfit += !compare_baseline_fit(&result, &tolerance);
            if (way <= FLUSHED && result.code != VERDICT_OK)
                fprintf(stderr, "%s, %s, seed %d, way %d: %s\n", shape, inputs_regime_name(probe.shape.op, r), (int)seed, way, result.text);
        }
    }
}

static void judge_tiny(const char *op, void (*put)(const struct scene *s, int way, void **to))
{
    static const char *const dtypes[] = {"f16", "bf16", "f32"};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        cleanup(str) char *shape = xfmt("{\"op\":\"%s\",\"axes\":{\"R\":1,\"N\":1},\"dtypes\":{\"io\":\"%s\"}}", op, dtypes[d]);
        for (uint64_t seed = 0; seed < 50; seed++) {
            struct told told = {{0}, 0, 0};
            judge_draw(shape, seed, put, &told);
            check_int(told.unfit, 0);
            check_int(told.by_table, 0);
            for (int way = 0; way < WAYS; way++)
                check((told.refused[way] > 0) == (way > FLUSHED));
        }
    }
}

static void test_tiny_gate(void) { judge_tiny("silu_and_mul", put_gated); }
static void test_tiny_norm(void) { judge_tiny("rmsnorm", put_norm); }

/* What the scale is where values are that small, and where it is not: what the next numbers of the type are may pass, no more. */
static void test_least_scale(void)
{
    static const struct { const char *dtype; double right, got; bool fine; } rows[] = {
        {"f16", 0x1.08p-20, 0x1.1p-20, true}, {"f16", 0x1.08p-20, 0x1p-20, true}, {"f16", 0x1p-26, 0, true}, {"f16", 0x1.8p-25, 0x1p-24, true},
        {"f16", 0x1p-20, 0x1.1p-20, false}, {"f16", 0x1p-20, 0, false}, {"f16", 0x1p-14, 0x1.02p-14, false}, {"f16", 0, 0x1p-24, false},
        {"bf16", 1e-37, 0, true}, {"bf16", 1e-35, 0, true}, {"bf16", 1e-41, 2e-41, true}, {"bf16", 1e-28, 0, false}, {"bf16", 1e-20, 1.1e-20, false},
        {"bf16", 0, 1e-38, false}, {"f32", 1e-37, 0, true}, {"f32", 1e-28, 1.01e-28, false}, {"f32", 1e-30, 0, false}, {"f32", 0, 1e-45, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cleanup(scene) struct scene s = {0};
        cleanup(str) char *shape = xfmt("{\"op\":\"rmsnorm\",\"axes\":{\"R\":1,\"N\":1},\"dtypes\":{\"io\":\"%s\"}}", rows[i].dtype);
        scene_make(&s, shape, "typical", 5);
        const int y = scene_tensor(&s, "y");
        s.right[y][0] = rows[i].right;
        dtype_store(s.tensors[y].dtype, s.got[y], 0, rows[i].got);
        dtype_store(s.tensors[y].dtype, s.baseline[y], 0, rows[i].right);
        const bool fine = scene_compare(&s, y, true).code == VERDICT_OK;
        if (fine != rows[i].fine)
            fprintf(stderr, "%s, %g for %g: %d\n", rows[i].dtype, rows[i].got, rows[i].right, fine);
        check_int(fine, rows[i].fine);
    }
}

int main(void)
{
    static void (*const tests[])(void) = {test_least_scale, test_tiny_gate, test_tiny_norm};
    return scene_main(tests, sizeof tests / sizeof *tests);
}

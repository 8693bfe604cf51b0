/* The tolerance rules, each alone: what it lets pass and what it does not. */
#include "tests/compare_scene.h"

#include "core/rng.h"
#include "tests/test.h"

#include <math.h>

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
            scene_put(&s, t, NULL);
            memcpy(s.baseline[t], s.got[t], (size_t)tensor->bytes);
            check_int(scene_compare(&s, t, false).code, VERDICT_OK);
            scene_put(&s, t, between);                            /* rounds where it may: right, by the table and by an exact baseline */
            check_int(scene_compare(&s, t, false).code, VERDICT_OK);
            check_int(scene_compare(&s, t, true).code, VERDICT_OK);
            if (strcmp(tensor->spec->name, "state"))
                continue;
            /* four times that is not, nor is a state that is kept in half precision while nothing is written to it */
            cleanup(mem) void *memory = xarray((size_t)tensor->elements, sizeof(double));
            double *worse = memory;
            for (int64_t i = 0; i < tensor->elements; i++)
                worse[i] = s.right[t][i] + 4 * (between[i] - s.right[t][i]);
            scene_put(&s, t, worse);
            if (strcmp(regimes[g], "read_only"))
                check(scene_compare(&s, t, true).code != VERDICT_OK);
            values_round(DTYPE_F16, s.right[t], tensor->elements, worse);
            for (int64_t i = 0; i < tensor->elements; i++)
                if (dtype_load(tensor->dtype, s.inputs[t], (size_t)i) == s.right[t][i])
                    worse[i] = s.right[t][i];
            scene_put(&s, t, worse);
            caught_by_half += scene_compare(&s, t, false).code != VERDICT_OK;
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
        const int t = scene_tensor(&s, "state");
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
        scene_put(&s, t, between);
        cleanup(mem) void *memory = xarray((size_t)tensor->elements, sizeof(double));
        double *got = memory;
        memcpy(got, between, (size_t)tensor->elements * sizeof *got);
        for (int i = 0; i < 32; i++)
            got[lucky + i] = right[lucky + i] * (1 + (i % 2 ? 1 : -1) * times * sqrt(noise / values));
        scene_put(&s, t, got);
        check_int(scene_compare(&s, t, false).code == VERDICT_OK, times == 1);
    }
}

/* ---- parts of a row that stay ---- */

static void test_parts_that_stay(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, "{\"op\":\"rope_neox\",\"axes\":{\"B\":3,\"HQ\":2,\"HK\":1,\"d\":48,\"rot\":32}}", "typical", 3);
    const int q = scene_tensor(&s, "q");
    uint16_t *bits = s.got[q];
    scene_put(&s, q, NULL);
    struct compare_result r = scene_compare(&s, q, false);
    check_int(r.code, VERDICT_OK);
    check_int(r.unchanged, 3 * 2 * 16);
    check_int(r.elements, 3 * 2 * 32);
    bits[48 + 40] ^= 1;                                     /* one place in the second half of a head's rest */
    r = scene_compare(&s, q, false);
    check_int(r.code, VERDICT_INPUT_MODIFIED);
    check(r.rule == COMPARE_UNCHANGED && r.has_element && r.index[1] == 1 && r.index[2] == 40);
    bits[48 + 40] ^= 1;
    bits[48 + 4] ^= 1;                                      /* a place that is turned may be off by one */
    check_int(scene_compare(&s, q, false).code, VERDICT_OK);
}

/* ---- single rules ---- */

static void test_classes(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, scene_shapes[1], "typical", 2);
    int y = scene_tensor(&s, "y");
    float *got = s.got[y];
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 3; k++) {
        scene_put(&s, y, NULL);
        got[3072 + 17] = bad[k];
        struct compare_result r = scene_compare(&s, y, false);
        check(r.code == VERDICT_NON_FINITE && r.rule == COMPARE_CLASSES);
        check_int(r.wrong_class, 1);
        check(r.index[0] == 1 && r.index[1] == 17 && r.has_element);
        check(isnan(bad[k]) ? isnan(r.got) : r.got == (double)bad[k]);
        cleanup(json) json_t *doc = compare_encode(&r, &s.tensors[y]);
        cleanup(str) char *text = json_text(doc);
        check(strstr(text, isnan(bad[k]) ? "\"nan\"" : bad[k] > 0 ? "\"inf\"" : "\"-inf\"") && strstr(text, "\"index\":[1,17]") && strstr(text, "\"rule\":\"classes\""));
    }
    /* where the reference itself overflows the type, an infinity is right and a number is wrong */
    scene_put(&s, y, NULL);
    s.right[y][5] = 1e300;
    got[5] = INFINITY;
    check_str(verdict_name(scene_compare(&s, y, false).code), "ok");
    got[5] = -INFINITY;
    check(scene_compare(&s, y, false).code == VERDICT_NON_FINITE);
    got[5] = 3e38f;
    check(scene_compare(&s, y, false).code == VERDICT_WRONG_RESULT);
}

static void test_unchanged(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":64,\"V\":48,\"slots\":9}}", "padded", 5);
    int t = scene_tensor(&s, "state");
    float *got = s.got[t];
    scene_put(&s, t, NULL);
    struct compare_result r = scene_compare(&s, t, false);
    check(r.code == VERDICT_OK && r.unchanged >= 6 * 2 * 64 * 48 && r.unchanged + r.elements == s.tensors[t].elements);
    /* slot 0 is never touched: the smallest change of one element is seen, though far below any tolerance */
    uint32_t bits;
    memcpy(&bits, &got[77], 4);
    bits ^= 1;
    memcpy(&got[77], &bits, 4);
    r = scene_compare(&s, t, false);
    check(r.code == VERDICT_INPUT_MODIFIED && r.rule == COMPARE_UNCHANGED);
    check(r.index[0] == 0 && r.index[2] == 1 && r.index[3] == 13);
    bits ^= 1;
    memcpy(&got[77], &bits, 4);
    check(scene_compare(&s, t, false).code == VERDICT_OK);
}

static void test_padding_rows(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, scene_shapes[4], "padded", 6);
    int t = scene_tensor(&s, "out");
    const int32_t *slot = s.inputs[scene_tensor(&s, "slot")];
    int padded = 0;
    while (slot[padded] > 0)
        padded++;
    cleanup(mem) void *copy = xarray((size_t)s.tensors[t].elements, sizeof(double));
    double *values = copy;
    memcpy(values, s.right[t], (size_t)s.tensors[t].elements * sizeof *values);
    values[padded * 4 * 128 + 130] = 1e-20;      /* zeros out means zeros */
    scene_put(&s, t, values);
    struct compare_result r = scene_compare(&s, t, false);
    check(r.code == VERDICT_WRONG_RESULT && r.index[0] == padded && r.index[1] == 1 && r.index[2] == 2);
}

/* A strided inout: its gaps must stay, its rows are compared. */
static void test_gaps(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, scene_shapes[1], "typical", 2);
    struct op_tensor spec = *s.tensors[scene_tensor(&s, "y")].spec;
    struct tensor t = s.tensors[scene_tensor(&s, "y")];
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
    scene_make(&s, scene_shapes[1], "typical", 2);
    struct tensor t = s.tensors[scene_tensor(&s, "y")];
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
    scene_make(&s, scene_shapes[1], "typical", 2);
    int y = scene_tensor(&s, "y");
    int64_t n = s.tensors[y].elements;
    double *values = xarray((size_t)n, sizeof *values), *rough = xarray((size_t)n, sizeof *rough);
    for (int64_t i = 0; i < n; i++) {
        values[i] = s.right[y][i] * (1 + 6e-6 * rng_normal(1, 1, (uint64_t)i));
        rough[i] = s.right[y][i] * (1 + 5e-6 * rng_normal(2, 2, (uint64_t)i));
    }
    scene_put(&s, y, values);
    check(scene_compare(&s, y, false).code == VERDICT_OK);              /* within the table */
    scene_run(&s, &scene_honest, s.baseline);
    struct compare_result r = scene_compare(&s, y, true);
    check(r.code == VERDICT_WRONG_RESULT && r.ratio > 10);            /* but much worse than an honest kernel */
    check(r.rule == COMPARE_TILE && r.worst_tile > 1);
    values_store(DTYPE_F32, s.baseline[y], 0, n, rough);
    r = scene_compare(&s, y, true);
    check(r.code == VERDICT_OK && r.ratio > 0.8 && r.ratio < 1.6);
    free(values);
    free(rough);
}

/* One element among a thousand, too small an error to show in its tile; and the cap where an operator tolerates some misses. */
static void test_worst(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, scene_shapes[0], "typical", 2);
    int y = scene_tensor(&s, "y");
    double *right = s.right[y], scale = scene_rms(right + 3072, 1024), kept = right[3080];
    scene_put(&s, y, NULL);
    right[3080] += 0.03 * fmax(scale, fabs(kept));
    struct compare_result r = scene_compare(&s, y, false);
    check(r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_WORST && r.index[0] == 1 && r.index[1] == 8);
    right[3080] = kept + 0.018 * fmax(scale, fabs(kept));        /* within the table, far beyond what an honest kernel does */
    memcpy(s.baseline[y], s.got[y], (size_t)s.tensors[y].bytes);
    dtype_store(DTYPE_BF16, s.baseline[y], 3080, right[3080]);
    r = scene_compare(&s, y, false);
    check(r.code == VERDICT_OK && r.worst > 0.01);

    struct op op = *s.shape.op;
    cleanup(json) json_t *doc = json_copy(op.doc), *row = json_pack("{s:{s:f,s:f}}", "y", "matched", 0.99, "rms", 0.1);
    json_object_set(doc, "tolerance", row);
    op.doc = doc;
    s.shape.op = &op;
    right[3080] = kept + 0.1 * fmax(scale, fabs(kept));
    r = scene_compare(&s, y, false);
    check(r.code == VERDICT_OK);
    right[3080] = kept + 0.3 * fmax(scale, fabs(kept));
    r = scene_compare(&s, y, false);
    check(r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_CAP);
    right[3080] = kept;
}

/* Elements that are small beside their neighbours are set to zero: below the tile's rounding, and no bias, but not what was asked for. */
static void test_small(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, scene_shapes[0], "typical", 2);
    int y = scene_tensor(&s, "y");
    int64_t n = s.tensors[y].elements, dropped = 0;
    double *values = xarray((size_t)n, sizeof *values);
    memcpy(values, s.right[y], (size_t)n * sizeof *values);
    scene_run(&s, &scene_honest, s.baseline);
    for (int64_t i = 0; i < n; i++)
        if (fabs(values[i]) < 0.0095)
            values[i] = 0, dropped++;
    scene_put(&s, y, values);
    struct compare_result r = scene_compare(&s, y, true);
    check(dropped >= 32 && r.worst_tile < 1 && r.bias < 1);
    check(r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_SMALL && r.small > 1);
    scene_put(&s, y, NULL);
    r = scene_compare(&s, y, true);
    check(r.code == VERDICT_OK && r.small < 1);
    free(values);
}

/* Where an operator counts them: how many numbers of the type lie between an element and the right one, whatever its size. */
static void test_steps(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, scene_shapes[0], "typical", 2);
    int y = scene_tensor(&s, "y");
    struct op op = *s.shape.op;
    cleanup(json) json_t *doc = json_copy(op.doc);
    double right = s.right[y][5];
    s.right[y][5] = 0x1p-20;
    scene_put(&s, y, NULL);
    scene_run(&s, &scene_honest, s.baseline);
    json_object_set_new(doc, "tolerance", json_pack("{s:{s:i}}", "y", "steps", 2));
    for (int steps = -4; steps <= 4; steps++) {         /* bf16 has numbers 2^-27 apart there, far below what any other rule sees */
        dtype_store(DTYPE_BF16, s.got[y], 5, 0x1p-20 + steps * (steps < 0 ? 0x1p-28 : 0x1p-27));
        op.doc = s.shape.op->doc;
        struct compare_case c = {.op = &op, .tensor = &s.tensors[y], .reference = s.right[y], .got = s.got[y], .baseline = s.baseline[y]};
        struct compare_result r;
        compare_tensor(&c, &r);
        check(r.code == VERDICT_OK);
        op.doc = doc;
        compare_tensor(&c, &r);
        check(steps >= -2 && steps <= 2 ? r.code == VERDICT_OK : r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_STEPS);
    }
    /* one step is rounding where the right result lies near the middle, and an error elsewhere */
    static const struct { double right; bool near; } middles[] = {
        {0x1p-6 * (1 + 0x1p-8 - 0x1p-11), true}, {0x1p-6 * (1 + 0x1p-8 - 0x1p-20), true}, {0x1p-6 * (1 + 0x1p-8 - 0x1p-10 - 0x1p-12), false}, {0x1p-6, false}};
    for (size_t i = 0; i < sizeof middles / sizeof *middles; i++)
        for (int most = 1; most <= 2; most++) {
            cleanup(json) json_t *other = json_copy(op.doc);
            json_object_set_new(other, "tolerance", json_pack("{s:{s:i}}", "y", "steps", most));
            op.doc = other;
            s.right[y][5] = middles[i].right;
            dtype_store(DTYPE_BF16, s.got[y], 5, 0x1p-6 + 0x1p-13);
            struct compare_case c = {.op = &op, .tensor = &s.tensors[y], .reference = s.right[y], .got = s.got[y], .baseline = s.baseline[y]};
            struct compare_result r;
            compare_tensor(&c, &r);
            check(middles[i].near || most > 1 ? r.code == VERDICT_OK : r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_STEPS && r.has_element && r.wanted == 0x1p-6);
            op.doc = doc;
        }
    s.right[y][5] = 0x1p-20;
    dtype_store(DTYPE_BF16, s.got[y], 5, -0x1p-20);     /* across zero */
    struct compare_case c = {.op = &op, .tensor = &s.tensors[y], .reference = s.right[y], .got = s.got[y], .baseline = s.baseline[y]};
    struct compare_result r;
    compare_tensor(&c, &r);
    check(r.rule == COMPARE_STEPS);
    s.right[y][5] = right;
}

/* Where an operator says that a tensor is exact, the last bit of one element is a fault, the sign of a zero none; elsewhere neither is. */
static void test_exact(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, scene_shapes[0], "typical", 2);
    const int y = scene_tensor(&s, "y");
    struct op op = *s.shape.op;
    cleanup(json) json_t *doc = json_copy(op.doc);
    const int64_t last = s.tensors[y].elements - 1;
    s.right[y][7] = 0;
    scene_put(&s, y, NULL);
    json_object_set_new(doc, "tolerance", json_pack("{s:{s:b}}", "y", "exact", true));
    for (int change = 0; change < 4; change++) {
        uint16_t *got = s.got[y];
        const uint16_t kept[] = {got[last], got[7]};
        got[last] ^= change & 1;
        got[7] ^= change & 2 ? 0x8000 : 0;
        struct compare_case c = {.op = s.shape.op, .tensor = &s.tensors[y], .reference = s.right[y], .got = s.got[y]};
        struct compare_result r;
        compare_tensor(&c, &r);
        check(r.code == VERDICT_OK);
        c.op = &op;
        op.doc = doc;
        compare_tensor(&c, &r);
        check(change & 1 ? r.code == VERDICT_WRONG_RESULT && r.rule == COMPARE_EXACT && strstr(r.text, "1 of ") : r.code == VERDICT_OK);
        check(!(change & 1) || (r.has_element && r.index[1] == last % s.tensors[y].dims[1] && r.got != r.wanted));
        got[last] = kept[0];
        got[7] = kept[1];
    }
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
        {"{\"y\":{\"steps\":0}}", "/tolerance/y/steps"},
        {"{\"y\":{\"exact\":1}}", "/tolerance/y/exact"},
        {"{\"y\":{\"exact\":true,\"max\":0.5}}", NULL},
        {"{\"y\":5}", "/tolerance/y"},
    };
    cleanup(scene) struct scene s = {0};
    scene_make(&s, scene_shapes[1], "typical", 2);
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
            struct compare_tolerance t = compare_tolerance(&op, &s.tensors[scene_tensor(&s, "y")]);
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
        const int t = scene_tensor(&s, "y");
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
    static void (*const tests[])(void) = {test_intermediates, test_lucky_row, test_parts_that_stay, test_classes, test_unchanged, test_padding_rows, test_gaps, test_integers, test_baseline_relative, test_worst, test_small, test_steps, test_exact, test_tolerance_file, test_spread};
    return scene_main(tests, sizeof tests / sizeof *tests);
}

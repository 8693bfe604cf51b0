/*
 * Canaries: every operator of the tree passes them with each of its dtypes; operators made worse on purpose are refused, each by the
 * canary that is meant for it.
 */
#include "gpu/judge/canary.h"

#include "core/clock.h"
#include "gpu/judge/compare.h"
#include "gpu/judge/reference.h"
#include "tests/op_copy.h"

static struct op_set ops;

static void test_all(void)
{
    for (int i = 0; i < ops.count; i++) {
        enum dtype choices[16][OP_MAX_DTYPES];
        int count = canary_dtype_choices(ops.list[i], choices, 16);
        check(count >= 2);
        for (int d = 0; d < count; d++) {
            struct shape s;
            struct err err = {0};
            cleanup(canary_result) struct canary_result r = {0}, all = {0};
            const struct canary_options quick = {0}, whole = {.all_regimes = true};
            check(canary_shape(ops.list[i], choices[d], &s, &err));
            int64_t from = clock_mono_ns();
            check(canary_check(&s, &quick, &r, &err));
            int64_t took = clock_mono_ns() - from;
            check_str(err.text, "");
            check(r.passed && r.caught >= 10);
            check_str(r.text, "");
            check(canary_check(&s, &whole, &all, &err) && all.passed);
            check_int(all.caught, r.caught);
            check_int(all.skipped, r.skipped);
            cleanup(json) json_t *shape = shape_encode(&s);
            cleanup(str) char *text = json_text(shape), *report = json_text(all.report);
            printf("%s: %d caught, %d skipped in %.1f ms\n", text, r.caught, r.skipped, (double)took * 1e-6);
            if (getenv("CANARY_REPORT"))
                printf("%s\n", report);
        }
    }
}

/* ---- operators made worse ---- */

static void set_tolerance(json_t *doc, const char *text)
{
    struct err err = {0};
    json_t *tolerance = NULL;
    check(json_parse(text, strlen(text), &tolerance, &err));
    json_put(doc, "tolerance", tolerance);
}

static void loose_table(json_t *doc) { set_tolerance(doc, "{\"y\":{\"rms\":0.05,\"max\":0.1}}"); }
static void loose_elements(json_t *doc) { set_tolerance(doc, "{\"y\":{\"max\":1}}"); }
static void nothing_holds(json_t *doc) { set_tolerance(doc, "{\"y\":{\"max\":1,\"rms\":1,\"factor\":16,\"matched\":0.9}}"); }
static void tight(json_t *doc) { set_tolerance(doc, "{\"y\":{\"max\":0}}"); }
static void same(json_t *doc) { json_put_str(doc, "description", "the same"); }

static void without_small_rows(json_t *doc)
{
    json_t *regimes = json_object_get(doc, "regimes");
    check(json_object_del(regimes, "tiny") == 0);
    json_object_del(regimes, "zeros");
    json_object_del(regimes, "subnormals");
}

/* Every weight is one, in every regime. */
static void one_weight(json_t *doc)
{
    const char *name;
    json_t *regime;
    json_object_foreach(json_object_get(doc, "regimes"), name, regime)
        json_put(json_object_get(regime, "inputs"), "weight", json_pack("{s:s,s:i}", "dist", "constant", "value", 1));
}

/* Only rows that are alike are ever seen. */
static void constant_rows(json_t *doc)
{
    json_t *regimes = json_object();
    json_put(regimes, "typical", json_pack("{s:{s:{s:s,s:i},s:{s:s,s:i}}}", "inputs", "x", "dist", "constant", "value", 2,
                                           "weight", "dist", "constant", "value", 1));
    json_put(doc, "regimes", regimes);
}

static const struct {
    const char *op;
    void (*change)(json_t *doc);
    const char *says[2];
} worse[] = {
    {"rmsnorm", same, {NULL, NULL}},
    {"rmsnorm", loose_table, {NULL, NULL}},                /* a row of one outlier has no room for it */
    {"silu_and_mul", loose_table, {"canary coarse ", "by the table: its tolerance is too loose"}},
    {"gated_rmsnorm", loose_elements, {NULL, NULL}},       /* the tiles' own rule holds */
    {"silu_and_mul", nothing_holds, {"canary no_last_tile (its last 16 elements missing) passes", "by the table: its tolerance is too loose"}},
    {"gated_rmsnorm", tight, {"the right result, rounded once is refused for y", "its tolerance is too tight"}},
    {"gated_rmsnorm", without_small_rows, {"canary dropped:eps (a scalar taken as zero)", "in all 15 regimes"}},
    {"rmsnorm", without_small_rows, {"canary dropped:eps (a scalar taken as zero)", "in all 12 regimes"}},
    {"rmsnorm", one_weight, {"canary other_input:weight ", "equals the right result for y (bf16) in all 14 regimes"}},
    {"rmsnorm", constant_rows, {"canary mean ", "equals the right result for y (bf16) in all 1 regimes"}},
};

static void test_worse(void)
{
    for (size_t i = 0; i < sizeof worse / sizeof *worse; i++) {
        cleanup(copy) struct copy c = {0};
        cleanup(canary_result) struct canary_result r = {0};
        const struct canary_options o = {0};
        struct shape s;
        struct err err = {0};
        copy_make(&c, &ops, worse[i].op, worse[i].change);
        check(canary_shape(c.op, NULL, &s, &err) && canary_check(&s, &o, &r, &err));
        check(r.passed == !worse[i].says[0]);
        for (int k = 0; k < 2 && worse[i].says[k]; k++) {
            check(strstr(r.text, worse[i].says[k]));
            if (!strstr(r.text, worse[i].says[k]))
                fprintf(stderr, "  %s %zu: \"%s\", wanted \"%s\"\n", worse[i].op, i, r.text, worse[i].says[k]);
        }
    }
}

/*
 * An exact baseline is fine; one that errs by 5 % is wrong by the table, and where the table lets it, it makes room for coarse results.
 */
static void even_looser_table(json_t *doc) { set_tolerance(doc, "{\"y\":{\"max\":1,\"rms\":0.06}}"); }

static void test_baselines(void)
{
    static const struct { void (*change)(json_t *doc); double error; const char *says[2]; } cases[] = {
        {same, 0, {"", ""}},
        {same, 0.05, {"its baseline is wrong in regime typical (bf16): y: a tile's RMS error", ""}},
        {even_looser_table, 0, {": canary coarse ", "by the table"}},
        {even_looser_table, 0.05, {": canary coarse ", "by the table"}},
        {loose_elements, 0.0004, {"", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(copy) struct copy c = {0};
        copy_make(&c, &ops, "silu_and_mul", cases[i].change);
        void *outputs[INPUTS_MAX_REGIMES][OP_MAX_TENSORS] = {{0}};
        cleanup(canary_result) struct canary_result r = {0};
        const struct canary_options o = {.baseline = outputs};
        struct shape s;
        struct tensor tensors[OP_MAX_TENSORS];
        struct err err = {0};
        check(canary_shape(c.op, NULL, &s, &err) && shape_tensors(&s, tensors, &err));
        for (int g = 0; g < inputs_regime_count(c.op); g++) {
            void *inputs[OP_MAX_TENSORS] = {0};
            double *right[OP_MAX_TENSORS] = {0};
            check(canary_inputs(&s, tensors, g, inputs, &err) && reference_run(&s, tensors, (const void *const *)inputs, right, &err));
            for (int t = 0; t < c.op->tensor_count; t++) {
                if (!right[t])
                    continue;
                for (int64_t k = 0; k < tensors[t].elements; k++)
                    right[t][k] *= 1 + (k % 2 ? cases[i].error : -cases[i].error);
                outputs[g][t] = xalloc((size_t)tensors[t].bytes + 8);
                values_store(tensors[t].dtype, outputs[g][t], 0, tensors[t].elements, right[t]);
            }
            inputs_free(c.op, inputs);
            inputs_free(c.op, (void **)right);
        }
        check(canary_check(&s, &o, &r, &err));
        check(r.passed == !*cases[i].says[0]);
        check(strstr(r.text, cases[i].says[0]) && strstr(r.text, cases[i].says[1]));
        if (!strstr(r.text, cases[i].says[0]) || r.passed == !!*cases[i].says[0])
            fprintf(stderr, "  case %zu: \"%s\"\n", i, r.text);
        for (int g = 0; g < INPUTS_MAX_REGIMES; g++)
            inputs_free(c.op, outputs[g]);
    }
}

/* Shapes are small, legal, and as large as they may be; constraints that no small size holds are told. */
static void divisible(json_t *doc)
{
    json_t *list = json_object_get(doc, "constraints");
    json_array_append_new(list, json_string("N % 96 == 0"));
    json_array_append_new(list, json_string("R != N"));
}
static void impossible(json_t *doc) { json_array_append_new(json_object_get(doc, "constraints"), json_string("R > 65536")); }

static void test_shapes(void)
{
    cleanup(copy) struct copy c = {0}, none = {0};
    struct shape s;
    struct err err = {0};
    copy_make(&c, &ops, "rmsnorm", divisible);
    check(canary_shape(c.op, NULL, &s, &err));
    int64_t rows = s.axes[op_axis_index(c.op, "R")], n = s.axes[op_axis_index(c.op, "N")];
    check(n % 96 == 0 && rows != n && (2 * rows + 1) * n <= CANARY_MAX_ELEMENTS && (2 * rows + 1) * n > CANARY_MAX_ELEMENTS / 2);
    copy_make(&none, &ops, "rmsnorm", impossible);
    check(!canary_shape(none.op, NULL, &s, &err) && err.code == ERR_UNPROCESSABLE && strstr(err.text, "holds its constraints"));
    enum dtype choices[2][OP_MAX_DTYPES];
    check_int(canary_dtype_choices(c.op, choices, 2), 2);
    check(choices[0][0] == DTYPE_BF16 && choices[1][0] == DTYPE_F16);
}

int main(void)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(OPS_DIR, &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    test_all();
    test_worse();
    test_baselines();
    test_shapes();
    op_set_done(&ops);
    return test_done();
}

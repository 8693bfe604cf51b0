/*
 * Rows that are far away, on the emulated device: a kernel that takes rows by an index gives what it gives where they are near, and one
 * that cuts the index, or the offset, does not. Which tensors of an operator may be moved.
 */
#include "gpu/judge/far.h"
#include "tests/device_case.h"

#include <string.h>

enum { ROWS = 6, WIDE = 64, TOKENS = 4 };

static struct toolkit_paths toolkit;
static const char *ops_dir;

static void tensor_set(struct device_case *c, int t, const char *name, enum op_role role, enum dtype dtype, int64_t rows, int64_t wide)
{
    struct op_tensor *spec = &c->op.tensors[t];
    *spec = (struct op_tensor){.role = role, .rank = 2, .letter = -1, .fixed = dtype, .alignment_bytes = 16};
    snprintf(spec->name, sizeof spec->name, "%s", name);
    c->tensors[t] = (struct tensor){.spec = spec, .dtype = dtype, .rank = 2, .dims = {rows, wide}, .strides = {wide, 1},
                                    .elements = rows * wide, .span_elements = rows * wide, .bytes = rows * wide * 4};
}

/* s[at[token]] += token, y[token] = the sum before, and the axis's value from the plan; at 0 there is no row. */
static const char *const source_of =
    "extern \"C\" __global__ void k(const int *at, float *s, float *y, int rows)\n"
    "{\n"
    "    const int token = blockIdx.x, i = threadIdx.x;\n"
    "    const INDEX row = at[token];\n"
    "    if (row >= rows)\n"
    "        __trap();\n"
    "    float *mine = s + OFFSET;\n"
    "    y[token * 64 + i] = row > 0 ? mine[i] : 0.f;\n"
    "    if (row > 0)\n"
    "        mine[i] += token + 1;\n"
    "}\n";

static char *source(const char *index, const char *offset)
{
    cleanup(buf) struct buf text = {0};
    buf_fmt(&text, "#define INDEX %s\n#define OFFSET %s\n%s", index, offset, source_of);
    return buf_take(&text);
}

struct content { int at[TOKENS]; float s[ROWS * WIDE], y[TOKENS * WIDE]; };

static void launch(struct device_case *c, struct device_program *p, const struct device_far *far, struct content *ret, struct device_fault *fault)
{
    static const int at[TOKENS] = {3, 0, 5, 1};
    float s[ROWS * WIDE];
    struct err err = {0};
    for (int i = 0; i < ROWS * WIDE; i++)
        s[i] = (float)i;
    const void *const before[3] = {at, s, NULL};
    void *after[3] = {ret->at, ret->s, ret->y};
    struct device_run_result result = {.tensors = after};
    const struct device_run how = {.tensors = before, .poison = 7, .schedule_seed = 5, .check_races = true, .wall_limit_ns = 5000000000,
                                   .thread_instruction_limit = 10000000, .threads = 1, .far = far};
    check(device_sim.run(p, &how, &result, fault, &err));
    check(fault->code != VERDICT_OK || memcmp(ret->at, at, sizeof at) == 0);        /* an input comes back as it was given */
    (void)c;
}

/* Near it is right; far it must be the same, or `wrong`: another verdict or other bits. */
static void test_kernel(const char *index, const char *offset, int64_t rows, bool wrong)
{
    static struct device_case c;
    struct err err = {0};
    struct device *d = NULL;
    struct device_program *p = NULL;
    cleanup(device_fault) struct device_fault first = {0}, second = {0}, third = {0};
    struct content near = {0}, away = {0};
    cleanup(str) char *text = source(index, offset);
    c = (struct device_case){.plan = {0}};
    case_shape(&c, ROWS);
    tensor_set(&c, 0, "at", OP_INPUT, DTYPE_I32, 1, TOKENS);
    tensor_set(&c, 1, "s", OP_INOUT, DTYPE_F32, ROWS, WIDE);
    tensor_set(&c, 2, "y", OP_OUTPUT, DTYPE_F32, TOKENS, WIDE);
    c.plan.workspace_count = 0;
    c.plan.steps[0].grid[0] = TOKENS;
    c.plan.steps[0].block[0] = WIDE;
    c.plan.steps[0].arg_count = 4;
    for (int i = 0; i < 3; i++)
        c.plan.steps[0].args[i] = (struct plan_arg){PLAN_TENSOR, i, 8, 0};
    c.plan.steps[0].args[3] = (struct plan_arg){PLAN_AXIS, 0, 4, ROWS};
    const struct device_far far = {.axis = 0, .rows = rows, .held = {false, true}, .points = {true}};
    bool ok = case_code(&c, &toolkit, text, "sm_90a", &err) && device_sim.open("sim", &d, &err) && device_sim.load(d, &c.load, &p, &first, &err) && p;
    if (!ok)
        fprintf(stderr, "%s %s\n", err.text, first.text);
    check(ok);
    if (ok) {
        launch(&c, p, NULL, &near, &second);
        check_int(second.code, VERDICT_OK);
        for (int i = 0; i < WIDE; i++)
            check(near.y[i] == (float)(3 * WIDE + i) && near.y[WIDE + i] == 0 && near.s[5 * WIDE + i] == (float)(5 * WIDE + i + 3));
        launch(&c, p, &far, &away, &third);
        const bool same = third.code == VERDICT_OK && !memcmp(near.s, away.s, sizeof near.s) && !memcmp(near.y, away.y, sizeof near.y);
        if (same == wrong)
            fprintf(stderr, "index %s, offset %s, %lld rows: %s\n", index, offset, (long long)rows, third.text);
        check(same != wrong);
    }
    if (p)
        device_sim.unload(p);
    if (d)
        device_sim.close(d);
    case_done(&c);
}

static void test_operators(void)
{
    cleanup(op_set) struct op_set ops = {0};
    struct err err = {0};
    static const struct { const char *shape, *axis, *held, *points; } cases[] = {
        {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}", "slots", " state ", "slot"},
        {"{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":2,\"H\":1,\"HV\":2,\"K\":64,\"V\":64}}", "slots", " conv_state state ", "slot"},
        {"{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":4,\"C\":32}}", "slots", " conv_state ", "slot"},
        {"{\"op\":\"rope_neox\",\"axes\":{\"B\":4,\"HQ\":2,\"HK\":1,\"d\":32,\"rot\":32}}", "P", " cos_sin_cache ", "positions"},
        {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":32}}", NULL, "", ""},
    };
    check(op_set_load(ops_dir, &ops, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(json) json_t *doc = NULL;
        struct shape s;
        struct tensor tensors[OP_MAX_TENSORS];
        struct faults faults = {0};
        struct device_far far;
        check(json_parse(cases[i].shape, strlen(cases[i].shape), &doc, &err) && shape_parse(&ops, doc, "sm_90a", "", &s, &faults) && shape_tensors(&s, tensors, &err));
        const bool found = far_draw(s.op, &s, tensors, &far);
        check(found == (cases[i].axis != NULL));
        if (!found)
            continue;
        int64_t rows = 0;
        check_str(s.op->axes[far.axis].name, cases[i].axis);
        for (int t = 0; t < s.op->tensor_count; t++) {
            cleanup(str) char *word = xfmt(" %s ", s.op->tensors[t].name);
            check(far.held[t] == (strstr(cases[i].held, word) != NULL));
            check(far.points[t] == (strcmp(cases[i].points, s.op->tensors[t].name) == 0));
            rows += far.held[t] ? tensors[t].elements / tensors[t].dims[0] : 0;
        }
        check(far.rows > 65536 && far.rows + s.axes[far.axis] <= s.op->axes[far.axis].max);
        check(far.rows * rows > (int64_t)1 << 28);
    }
}

int main(int argc, char **argv)
{
    struct err err = {0};
    ops_dir = argc > 1 ? argv[1] : ".";
    hash_init();
    test_operators();
    if (!toolkit_find(NULL, &toolkit, &err))
        test_skip(err.text);
    const int64_t many = (int64_t)1 << 26;
    test_kernel("int", "(long long)row * 64", many, false);
    test_kernel("long long", "row * 64", many, false);
    test_kernel("int", "row * 64", many, true);
    test_kernel("unsigned", "row * 64", many + 1000, true);
    test_kernel("short", "(long long)row * 64", 70000, true);
    test_kernel("unsigned short", "(long long)row * 64", 70000, true);
    test_kernel("signed char", "(long long)row * 64", 70000, true);
    test_kernel("signed char", "(long long)row * 64", 100, false);
    return test_done();
}

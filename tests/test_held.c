/* Tensors of which some rows are there: which axis, which rows, the same results as whole tensors of zeros would give; their shapes. */
#include "gpu/judge/held.h"
#include "gpu/judge/reference.h"

#include "tests/test.h"

#include <string.h>

static struct op_set ops;

static void shape_of(const char *text, struct shape *s, struct tensor *tensors)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(text, strlen(text), &doc, &err));
    check(shape_parse(&ops, doc, "sm_90a", "", s, &f) && shape_tensors(s, tensors, &err));
}

#define GDN "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":5,\"H\":1,\"HV\":2,\"K\":8,\"V\":4,\"slots\":300}}"
#define STEP "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":16,\"V\":8,\"slots\":400}}"
#define ROPE "{\"op\":\"rope_neox\",\"axes\":{\"B\":7,\"HQ\":2,\"HK\":1,\"d\":16,\"rot\":8,\"P\":1000}}"
#define CONV "{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":4,\"C\":6,\"slots\":777}}"

static void test_axis(void)
{
    static const struct { const char *shape, *axis; } cases[] = {
        {GDN, "slots"}, {STEP, "slots"}, {ROPE, "P"}, {CONV, "slots"},
        {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":8}}", NULL}, {"{\"op\":\"gqa_decode\",\"axes\":{\"B\":3,\"HQ\":8,\"HK\":2,\"d\":64,\"T\":65}}", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shape s;
        struct tensor tensors[OP_MAX_TENSORS];
        shape_of(cases[i].shape, &s, tensors);
        check_int(held_axis(&s, tensors), cases[i].axis ? op_axis_index(s.op, cases[i].axis) : -1);
    }
}

/* Only by the values of the indices' distribution, not by their name. */
static void test_addressed(void)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    shape_of(GDN, &s, tensors);
    const int slots = op_axis_index(s.op, "slots");
    for (int t = 0; t < s.op->tensor_count; t++)
        check_int(inputs_address(&s, tensors, t, slots), !strcmp(s.op->tensors[t].name, "slot"));
    check(!inputs_address(&s, tensors, op_tensor_index(s.op, "slot"), op_axis_index(s.op, "HV")));
}

static void test_compact(void)
{
    struct shape s;
    struct tensor whole[OP_MAX_TENSORS], compact[OP_MAX_TENSORS];
    shape_of(GDN, &s, whole);
    struct held h = held_of(&s, whole, held_axis(&s, whole));
    check_int(h.count, 5 + HELD_MORE);
    held_tensors(&h, s.op, whole, compact);
    const int state = op_tensor_index(s.op, "state");
    for (int t = 0; t < s.op->tensor_count; t++) {
        check_int(held_is(&h, s.op, t), t == state);
        check_int(compact[t].bytes, t == state ? whole[t].bytes / 300 * h.count : whole[t].bytes);
    }
    check_int(compact[state].dims[0], h.count);
    check_int(held_row_bytes(&whole[state]), 2 * 4 * 8 * 4);
    check(held_bytes(&h, s.op, compact) >= h.count * 4096);     /* a page a row */
    /* most of the rows would be there: then all are */
    s.axes[h.axis] = (h.count - 1) * 4;
    check_int(held_of(&s, whole, h.axis).axis, -1);
    struct held none = HELD_NONE;
    held_tensors(&none, s.op, whole, compact);
    check(!memcmp(compact, whole, (size_t)s.op->tensor_count * sizeof *whole) && !held_is(&none, s.op, state));
}

static bool is_in(const int64_t *rows, int64_t count, int64_t row)
{
    bool found = false;
    for (int64_t i = 0; i < count; i++)
        found |= rows[i] == row;
    return found;
}

static void test_rows(const char *text, const char *indices)
{
    struct shape s;
    struct tensor whole[OP_MAX_TENSORS], compact[OP_MAX_TENSORS];
    shape_of(text, &s, whole);
    const struct held h = held_of(&s, whole, held_axis(&s, whole));
    const int t = op_tensor_index(s.op, indices);
    const int64_t all = s.axes[h.axis];
    held_tensors(&h, s.op, whole, compact);
    for (int r = 0; r < inputs_regime_count(s.op); r++)
        for (uint64_t seed = 1; seed < 6; seed++) {
            void *inputs[OP_MAX_TENSORS] = {0};
            int64_t rows[64], again[64], furthest = -1;
            struct err err = {0};
            check(h.count <= 64 && inputs_make(&s, compact, r, seed, inputs, &err));
            held_rows(&h, &s, compact, inputs, seed, rows);
            held_rows(&h, &s, compact, inputs, seed, again);
            check(!memcmp(rows, again, (size_t)h.count * sizeof *rows) && held_rows_fit(&h, &s, rows));
            check(is_in(rows, h.count, 0) && is_in(rows, h.count, all - 1));
            for (int64_t i = 0; i < compact[t].elements; i++) {
                const int64_t row = (int64_t)dtype_load(compact[t].dtype, inputs[t], (size_t)i);
                check(row < 0 || is_in(rows, h.count, row));
                furthest = row > furthest ? row : furthest;
            }
            check(furthest < 1 || is_in(rows, h.count, furthest - 1));
            check(furthest < 0 || furthest + 1 >= all || is_in(rows, h.count, furthest + 1));
            inputs_free(s.op, inputs);
        }
    int64_t wrong[64];
    for (int64_t i = 0; i < h.count; i++)
        wrong[i] = i;
    check(held_rows_fit(&h, &s, wrong));
    wrong[3] = 2;
    check(!held_rows_fit(&h, &s, wrong));
    wrong[3] = 3, wrong[h.count - 1] = all;
    check(!held_rows_fit(&h, &s, wrong));
    wrong[h.count - 1] = all - 1, wrong[0] = -1;
    check(!held_rows_fit(&h, &s, wrong));
}

/* The reference over holes gives bit by bit what it gives over zeros, both results where there are two. */
static void test_reference(const char *text)
{
    struct shape s;
    struct tensor whole[OP_MAX_TENSORS], compact[OP_MAX_TENSORS];
    shape_of(text, &s, whole);
    const struct held h = held_of(&s, whole, held_axis(&s, whole));
    held_tensors(&h, s.op, whole, compact);
    void *inputs[OP_MAX_TENSORS] = {0}, *filled[OP_MAX_TENSORS] = {0};
    double *right[OP_MAX_TENSORS] = {0}, *got[OP_MAX_TENSORS] = {0};
    int64_t rows[64];
    struct err err = {0};
    check(inputs_make(&s, compact, 0, 3, inputs, &err));
    held_rows(&h, &s, compact, inputs, 3, rows);
    for (int t = 0; t < s.op->tensor_count; t++) {
        if (!inputs[t])
            continue;
        filled[t] = xalloc((size_t)whole[t].bytes);     /* zeros */
        const int64_t row = held_is(&h, s.op, t) ? held_row_bytes(&whole[t]) : whole[t].bytes;
        for (int64_t i = 0; i < (held_is(&h, s.op, t) ? h.count : 1); i++)
            memcpy((char *)filled[t] + (held_is(&h, s.op, t) ? rows[i] : 0) * row, (char *)inputs[t] + i * row, (size_t)row);
    }
    check(reference_run(&s, whole, (const void *const *)filled, right, &err));
    check(reference_run_held(&s, whole, &h, rows, (const void *const *)inputs, got, &err));
    check_str(err.text, "");
    for (int t = 0; t < s.op->tensor_count; t++) {
        check((got[t] != NULL) == (right[t] != NULL));
        const int64_t n = whole[t].dims[0] ? whole[t].elements / whole[t].dims[0] : 0;
        for (int64_t part = 0; got[t] && part < op_results(s.op); part++)
            for (int64_t i = 0; i < compact[t].dims[0]; i++)
                check(!memcmp(got[t] + part * compact[t].elements + i * n,
                              right[t] + part * whole[t].elements + (held_is(&h, s.op, t) ? rows[i] : i) * n, (size_t)n * sizeof(double)));
    }
    inputs_free(s.op, inputs);
    inputs_free(s.op, filled);
    inputs_free(s.op, (void **)right);
    inputs_free(s.op, (void **)got);
}

/* More than this machine has, of which a page is touched. */
static void test_map(void)
{
    const size_t bytes = (size_t)64 << 30;
    char *at = held_map(bytes);
    check(at != NULL);
    if (at) {
        at[bytes - 1] = 1;
        check(at[0] == 0 && at[bytes / 2] == 0 && at[bytes - 1] == 1);
    }
    held_unmap(at, bytes);
    check(held_map((size_t)1 << 60) == NULL);
}

/* Values of 16ths: what a range is drawn from, and what indices reach. */
static void test_reach(void)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    shape_of(GDN, &s, tensors);
    s.axes[op_axis_index(s.op, "slots")] = 100000;
    const int slot = op_tensor_index(s.op, "slot");
    int yes = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        void *inputs[OP_MAX_TENSORS] = {0};
        struct err err = {0};
        struct tensor few[OP_MAX_TENSORS];
        const struct held h = {op_axis_index(s.op, "slots"), 5 + HELD_MORE};
        held_tensors(&h, s.op, tensors, few);
        check(inputs_make(&s, few, 0, seed, inputs, &err));
        int most = 0;
        for (int i = 0; i < 5; i++)
            most = ((int *)inputs[slot])[i] > most ? ((int *)inputs[slot])[i] : most;
        const bool reaches = inputs_reach(&s, few, 0, seed);
        check(reaches == (most >= 1 + 99999 - 99999 / 16));
        yes += reaches;
        inputs_free(s.op, inputs);
    }
    check(yes > 20 && yes < 120);       /* 1 - (15/16)^5 of them: 55 */
}

int main(void)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(OPS_DIR, &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    test_axis();
    test_addressed();
    test_compact();
    test_rows(GDN, "slot");
    test_rows(STEP, "slot");
    test_rows(ROPE, "positions");
    test_rows(CONV, "slot");
    test_reference(GDN);
    test_reference(STEP);
    test_reference(ROPE);
    test_reference(CONV);
    test_map();
    test_reach();
    op_set_done(&ops);
    return test_done();
}

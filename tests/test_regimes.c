/* Distributions that find what fixed ones miss: factors drawn from the seed, lengths where tiles end, any padding, sums that cancel. */
#include "gpu/judge/inputs.h"

#include "tests/test.h"

#include <math.h>

static struct op_set ops;

struct made {
    struct op op;
    json_t *doc;
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    void *in[OP_MAX_TENSORS];
};

static void made_done(struct made *m)
{
    inputs_free(&m->op, m->in);
    json_decref(m->doc);
}
DEFINE_CLEANUP(made, struct made, made_done(it))

/* A shape of a copy of its operator, of which one regime has these distributions for some tensors. */
static bool make(struct made *m, const char *shape, const char *regime, const char *inputs, uint64_t seed)
{
    cleanup(json) json_t *asked = NULL, *given = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(shape, strlen(shape), &asked, &err) && json_parse(inputs, strlen(inputs), &given, &err));
    m->op = *op_set_find(&ops, json_str(asked, "op", ""));
    m->doc = json_deep_copy(m->op.doc);
    m->op.doc = m->doc;
    json_object_update(json_object_get(json_object_get(json_object_get(m->doc, "regimes"), regime), "inputs"), given);
    struct op *known = &m->op;
    const struct op_set one = {1, &known};
    const bool legal = shape_parse(&one, asked, "sm_90a", "", &m->s, &f) && shape_tensors(&m->s, m->tensors, &err);
    if (!legal)
        fprintf(stderr, "  %s: %s\n", shape, f.list[0].detail);
    const bool ok = legal && inputs_check(&m->op, &err) && inputs_make(&m->s, m->tensors, inputs_regime_index(&m->op, regime), seed, m->in, &err);
    if (!ok)
        fprintf(stderr, "  %s\n", err.text);
    return ok;
}

/* The largest element says what the factor was: all of the range comes, nothing outside it, and two tensors have two factors. */
static void test_times(void)
{
    int low = 0, high = 0, apart = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        cleanup(made) struct made m = {0};
        check(make(&m, "{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":8},\"dtypes\":{\"io\":\"f32\"}}", "typical",
                   "{\"x\":{\"dist\":\"constant\",\"value\":1,\"times\":[16,4096]},\"weight\":{\"dist\":\"constant\",\"value\":-1,\"times\":[16,4096]}}", seed));
        const float *x = m.in[0], *weight = m.in[1];
        for (int i = 0; i < 32; i++)
            check(x[i] == x[0]);
        check(x[0] >= 16 && x[0] <= 4096 && weight[0] <= -16 && weight[0] >= -4096);
        low += x[0] < 64;
        high += x[0] > 1024;
        apart += x[0] != -weight[0];
    }
    check(low > 5 && high > 5 && apart > 50);
}

#define ATTENTION "{\"op\":\"gqa_decode\",\"axes\":{\"B\":%d,\"HQ\":2,\"HK\":2,\"d\":4,\"T\":%d}}"
static void lengths(int b, int t, const char *how, uint64_t seed, int *ret)
{
    cleanup(made) struct made m = {0};
    char shape[128], inputs[160];
    snprintf(shape, sizeof shape, ATTENTION, b, t);
    snprintf(inputs, sizeof inputs, "{\"lens\":{\"dist\":\"edges\",\"low\":\"1\",\"high\":\"T\"%s}}", how);
    check(make(&m, shape, "lengths", inputs, seed));
    for (int i = 0; i < b; i++) {
        ret[i] = ((const int32_t *)m.in[op_tensor_index(&m.op, "lens")])[i];
        check(ret[i] >= 1 && ret[i] <= t);
    }
}

/* One sequence: over some judgements each kind of edge comes, and so does what is none. */
static void test_edges(void)
{
    int one = 0, last = 0, before = 0, tile = 0, beside = 0, other = 0, length[16];
    for (uint64_t seed = 0; seed < 400; seed++) {
        lengths(1, 500, "", seed, length);
        one += *length == 1;
        last += *length == 500;
        before += *length == 499;
        tile += *length % 64 == 0;
        beside += *length % 64 == 1;
        other += *length % 8 > 1 && *length % 8 < 7 && *length < 499 && *length > 2;
    }
    check(one > 5 && last > 5 && before > 5 && tile > 20 && beside > 8 && other > 100);
}

static void test_edges_said(void)
{
    int length[16], different = 0, first = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        lengths(16, 500, ",\"multiple\":64", seed, length);
        for (int i = 0; i < 16; i += 2) {
            check(length[i] % 64 == 0);
            different += length[i] != length[0];
        }
        for (int i = 1; i < 16; i += 2)
            first += length[i] % 64 == 0;
        lengths(1, 40, ",\"multiple\":64", seed, length);
        check_int(*length, 40);                                 /* there is none in range */
        lengths(16, 500, ",\"edge\":\"T - (T-1) % 64\"", seed, length);
        for (int i = 0; i < 16; i += 2)
            check_int(length[i], 449);
        lengths(1, 1, "", seed, length);
        check_int(*length, 1);
        lengths(1, 2, "", seed, length);
    }
    check(different > 80 && first < 20);
}

/* Padding of every magnitude, as an i32 holds it. */
static void test_negative(void)
{
    int small = 0, middle = 0, large = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        cleanup(made) struct made m = {0};
        check(make(&m, "{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":16,\"C\":2}}", "padded",
                   "{\"slot\":{\"dist\":\"distinct\",\"low\":\"1\",\"high\":\"slots-1\",\"padding\":0.5,\"padding_values\":[\"negative\"]}}", seed));
        const int32_t *slot = m.in[op_tensor_index(&m.op, "slot")];
        int padded = 0;
        for (int i = 0; i < 16; i++) {
            check(slot[i] != 0);
            padded += slot[i] < 0;
            small += slot[i] < 0 && slot[i] > -256;
            middle += slot[i] < -65536 && slot[i] > -16777216;
            large += slot[i] < -1000000000;
        }
        check_int(padded, 8);
    }
    check(small > 20 && middle > 20 && large > 5);
}

/* A product of two that mirror each other is what `part` makes of it; where the second half begins, the seed says. */
static void test_mirrored(void)
{
    int turns = 0, last_turn = -1;
    for (uint64_t seed = 0; seed < 10; seed++) {
        cleanup(made) struct made m = {0};
        check(make(&m, "{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":2,\"N\":129},\"dtypes\":{\"io\":\"f32\"}}", "typical",
                   "{\"x\":{\"dist\":\"mirrored\",\"std\":1,\"sign\":-1,\"part\":0},\"residual\":{\"dist\":\"mirrored\",\"std\":1,\"sign\":1,\"part\":0}}", seed));
        const float *x = m.in[0], *w = m.in[op_tensor_index(&m.op, "residual")];
        int turn = 0;
        while (turn < 64 && x[64] != -x[turn])
            turn++;
        check(turn < 64);
        for (int k = 0; k < 64; k++)
            for (int r = 0; r < 2; r++) {
                check(x[r * 129 + 64 + k] == -x[r * 129 + (k + turn) % 64]);
                check(w[r * 129 + 64 + k] == w[r * 129 + (k + turn) % 64]);
            }
        check(x[128] == 0 && x[0] != x[129]);
        turns += turn != last_turn;
        last_turn = turn;
    }
    check(turns > 5);
    cleanup(made) struct made m = {0};
    check(make(&m, "{\"op\":\"rope_neox\",\"axes\":{\"B\":1,\"HQ\":8,\"HK\":1,\"d\":4,\"rot\":4},\"dtypes\":{\"io\":\"f32\"}}", "typical",
               "{\"q\":{\"dist\":\"mirrored\",\"mean\":4,\"std\":1,\"sign\":-1,\"part\":0,\"along\":1}}", 3));
    const float *v = m.in[op_tensor_index(&m.op, "q")];
    for (int c = 0; c < 4; c++) {
        float sum = 0;
        for (int t = 0; t < 8; t++) {
            sum += v[t * 4 + c];
            check(t < 4 ? v[t * 4 + c] > 0 : v[t * 4 + c] < 0);
        }
        check(fabsf(sum) < 1e-5f);
    }
}

static void test_refused(void)
{
    static const struct { const char *op, *tensor, *how, *says; } cases[] = {
        {"rmsnorm", "x", "{\"dist\":\"normal\",\"std\":1,\"times\":2}", "/x/times"},
        {"rmsnorm", "x", "{\"dist\":\"normal\",\"std\":1,\"times\":[0,2]}", "/x/times"},
        {"rmsnorm", "x", "{\"dist\":\"normal\",\"std\":1,\"times\":[2,1]}", "/x/times"},
        {"rmsnorm", "x", "{\"dist\":\"normal\",\"std\":1,\"times\":[1,1e31]}", "/x/times"},
        {"rmsnorm", "x", "{\"dist\":\"mirrored\",\"std\":1,\"sign\":1}", "\"part\" is missing"},
        {"rmsnorm", "x", "{\"dist\":\"mirrored\",\"std\":1,\"sign\":3,\"part\":0}", "/x/sign"},
        {"rmsnorm", "x", "{\"dist\":\"edges\",\"low\":1,\"high\":4}", "floats"},
        {"gqa_decode", "lens", "{\"dist\":\"edges\",\"low\":1,\"high\":4,\"times\":[1,2]}", "/lens/times"},
        {"gqa_decode", "lens", "{\"dist\":\"edges\",\"low\":1,\"high\":4,\"multiple\":0}", "/lens/multiple"},
        {"gqa_decode", "lens", "{\"dist\":\"edges\",\"low\":1,\"high\":4,\"multiple\":2,\"edge\":1}", "not both"},
        {"gqa_decode", "lens", "{\"dist\":\"edges\",\"low\":1,\"high\":4,\"edge\":[]}", "/lens/edge"},
        {"gqa_decode", "lens", "{\"dist\":\"indices\",\"low\":1,\"high\":4,\"multiple\":2}", "/lens/multiple"},
        {"gqa_decode", "lens", "{\"dist\":\"edges\",\"low\":1,\"high\":4,\"padding_values\":[\"positive\"]}", "padding_values/0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct op copy = *op_set_find(&ops, cases[i].op);
        struct err err = {0};
        json_t *how = NULL;
        cleanup(json) json_t *doc = json_deep_copy(copy.doc);
        check(json_parse(cases[i].how, strlen(cases[i].how), &how, &err));
        json_put(json_object_get(json_object_get(json_object_get(doc, "regimes"), "typical"), "inputs"), cases[i].tensor, how);
        copy.doc = doc;
        const bool refused = !inputs_check(&copy, &err) && strstr(err.text, cases[i].says);
        check(refused);
        if (!refused)
            fprintf(stderr, "  case %zu: \"%s\"\n", i, err.text);
    }
}

int main(void)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(OPS_DIR, &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    test_times();
    test_edges();
    test_edges_said();
    test_negative();
    test_mirrored();
    test_refused();
    op_set_done(&ops);
    return test_done();
}

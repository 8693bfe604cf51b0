/* Inputs from seeds: repeatable, of the distribution they claim, gaps poisoned; wrong regimes refused with the place. */
#include "gpu/judge/inputs.h"

#include "tests/test.h"

#include <math.h>

static struct op_set ops;

static void shape_of(const char *text, struct shape *s, struct tensor *tensors)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(text, strlen(text), &doc, &err));
    check(shape_parse(&ops, doc, "sm_90a", "", s, &f) && shape_tensors(s, tensors, &err));
}

#define GDN "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":16,\"H\":2,\"HV\":4,\"K\":128,\"V\":128%s}}"

static void test_repeats(void)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    shape_of("{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":3072}}", &s, tensors);
    void *a[OP_MAX_TENSORS] = {0}, *b[OP_MAX_TENSORS] = {0}, *c[OP_MAX_TENSORS] = {0}, *d[OP_MAX_TENSORS] = {0};
    check(inputs_make(&s, tensors, 0, 1, a, &err) && inputs_make(&s, tensors, 0, 1, b, &err));
    check(inputs_make(&s, tensors, 0, 2, c, &err) && inputs_make(&s, tensors, 1, 1, d, &err));
    check(!memcmp(a[0], b[0], (size_t)tensors[0].bytes) && !memcmp(a[1], b[1], (size_t)tensors[1].bytes));
    check(memcmp(a[0], c[0], (size_t)tensors[0].bytes) && memcmp(a[0], d[0], (size_t)tensors[0].bytes));
    check(a[0] && a[1] && !a[2]);
    /* the very bits, so that a change of the generator can't go unseen: certificates name seeds */
    check_str(hash_of(a[0], (size_t)tensors[0].bytes).text, "47140c6b744d617449e93feba52f9e3528a6856f2e382363b254cd4370203fda");
    inputs_free(s.op, a);
    inputs_free(s.op, b);
    inputs_free(s.op, c);
    inputs_free(s.op, d);
    check(!a[0]);
}

static void moments(const struct tensor *t, const void *data, double *ret_mean, double *ret_std)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < t->elements; i++) {
        double x;
        values_gather(t, data, i, 1, &x);
        sum += x;
        squares += x * x;
    }
    *ret_mean = sum / (double)t->elements;
    *ret_std = sqrt(squares / (double)t->elements - *ret_mean * *ret_mean);
}

static void test_distributions(void)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    double mean, std;
    shape_of("{\"op\":\"rmsnorm\",\"axes\":{\"R\":64,\"N\":4096},\"dtypes\":{\"io\":\"f32\"}}", &s, tensors);
    static const struct { const char *regime; double mean, std, slack; } wanted[] = {
        {"typical", 0, 1, 0.01}, {"tiny", 0, 1e-3, 1e-5}, {"huge", 0, 200, 2}, {"same_sign", 1, 0.288675, 0.005}, {"integers", 0, 2, 0.02}, {"offset", 8, 0.5, 0.01}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *in[OP_MAX_TENSORS] = {0};
        check(inputs_make(&s, tensors, inputs_regime_index(s.op, wanted[i].regime), 5, in, &err));
        moments(&tensors[0], in[0], &mean, &std);
        check(fabs(mean - wanted[i].mean) < wanted[i].slack && fabs(std - wanted[i].std) < wanted[i].slack);
        inputs_free(s.op, in);
    }
    /* a distribution of its own where the dtype is f16 */
    static const struct { const char *dtype; double std; } weights[] = {{"bf16", 2e-7}, {"f16", 2e-3}, {"f32", 2e-7}};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        struct shape other;
        struct tensor others[OP_MAX_TENSORS];
        void *in[OP_MAX_TENSORS] = {0};
        cleanup(str) char *text = xfmt("{\"op\":\"rmsnorm\",\"axes\":{\"R\":1,\"N\":4096},\"dtypes\":{\"io\":\"%s\"}}", weights[i].dtype);
        shape_of(text, &other, others);
        check(inputs_make(&other, others, inputs_regime_index(other.op, "small_weights"), 5, in, &err));
        moments(&others[1], in[1], &mean, &std);
        check(fabs(std / weights[i].std - 1) < 0.05);
        inputs_free(other.op, in);
    }
    void *in[OP_MAX_TENSORS] = {0};
    check(inputs_make(&s, tensors, inputs_regime_index(s.op, "mixed_rows"), 5, in, &err));
    double least = 1e9, most = 0;
    for (int64_t r = 0; r < 64; r++) {
        double squares = 0, row[4096];
        values_load(DTYPE_F32, in[0], r * 4096, 4096, row);
        for (int i = 0; i < 4096; i++)
            squares += row[i] * row[i];
        least = fmin(least, sqrt(squares / 4096));
        most = fmax(most, sqrt(squares / 4096));
    }
    check(least > 0.015 && least < 0.06 && most > 16 && most < 66);
    inputs_free(s.op, in);
}

/* Slots: distinct, inside, and as many padded as the regime says, whatever there is room for. */
static void check_slots(const char *more, const char *regime, uint64_t seed, int least_padded, int most_padded)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    char text[256];
    snprintf(text, sizeof text, "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":16,\"H\":1,\"HV\":1,\"K\":4,\"V\":2%s}}", more);
    shape_of(text, &s, tensors);
    int64_t slots = s.axes[op_axis_index(s.op, "slots")];
    int t = op_tensor_index(s.op, "slot"), padded = 0;
    void *in[OP_MAX_TENSORS] = {0};
    check(inputs_make(&s, tensors, inputs_regime_index(s.op, regime), seed, in, &err));
    const int32_t *slot = in[t];
    for (int i = 0; i < 16; i++) {
        padded += slot[i] <= 0;
        check(slot[i] < slots);
        for (int j = 0; j < i; j++)
            check(slot[i] <= 0 || slot[i] != slot[j]);
    }
    check(padded >= least_padded && padded <= most_padded);
    inputs_free(s.op, in);
}

static void test_slots(void)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        check_slots("", "typical", seed, 0, 0);
        check_slots(",\"slots\":4000", "typical", seed, 0, 0);
        check_slots(",\"slots\":6", "typical", seed, 11, 11);
        check_slots(",\"slots\":2", "typical", seed, 15, 15);
        check_slots("", "padded", seed, 7, 7);
        check_slots("", "mostly_padded", seed, 12, 12);
    }
}

static void test_gaps(void)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    char text[256];
    snprintf(text, sizeof text, GDN, ",\"qkv_stride\":1100");
    shape_of(text, &s, tensors);
    void *in[OP_MAX_TENSORS] = {0}, *dense[OP_MAX_TENSORS] = {0};
    struct shape s2;
    struct tensor tensors2[OP_MAX_TENSORS];
    snprintf(text, sizeof text, GDN, "");
    shape_of(text, &s2, tensors2);
    check(inputs_make(&s, tensors, 0, 3, in, &err) && inputs_make(&s2, tensors2, 0, 3, dense, &err));
    const uint16_t *mixed = in[0], *packed = dense[0];
    for (int64_t row = 0; row < 16; row++)
        for (int64_t i = 0; i < 1100; i++)
            if (i < 1024)
                check(mixed[row * 1100 + i] == packed[row * 1024 + i]);
            else if (row < 15)
                check(mixed[row * 1100 + i] == 0xffff);
    bool rotate[OP_MAX_TENSORS];
    inputs_rotatable(s.op, tensors, 0, rotate);
    check(!rotate[0] && rotate[op_tensor_index(s.op, "state")] && !rotate[op_tensor_index(s.op, "slot")] && !rotate[op_tensor_index(s.op, "out")]);
    inputs_rotatable(s2.op, tensors2, 0, rotate);
    check(rotate[0]);
    inputs_free(s.op, in);
    inputs_free(s2.op, dense);
}

/* Indices lie in their range, may come twice, and padding is as much as asked for; the same for i64. */
static void test_indices(void)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    shape_of("{\"op\":\"rope_neox\",\"axes\":{\"B\":64,\"HQ\":1,\"HK\":1,\"d\":8,\"rot\":8,\"P\":40}}", &s, tensors);
    const int at = op_tensor_index(s.op, "positions");
    void *in[OP_MAX_TENSORS] = {0};
    check(inputs_make(&s, tensors, inputs_regime_index(s.op, "last_positions"), 5, in, &err));
    int seen[3] = {0};
    for (int i = 0; i < 64; i++) {
        const int64_t p = ((const int64_t *)in[at])[i];
        check(p >= 37 && p < 40);
        seen[p < 37 || p > 39 ? 0 : p - 37]++;
    }
    check(seen[0] > 5 && seen[1] > 5 && seen[2] > 5);
    inputs_free(s.op, in);
    check(inputs_make(&s, tensors, inputs_regime_index(s.op, "shared_positions"), 5, in, &err));
    int zeros = 0;
    for (int i = 0; i < 64; i++)
        zeros += ((const int64_t *)in[at])[i] == 0;
    check(zeros >= 20 && zeros < 64);                       /* 0.3 of 64 are padding, rounded up, and a third of the others */
    inputs_free(s.op, in);
}

/* Past a sequence's length there are NaNs, before it none; such a tensor is not rotated. */
static void test_beyond(void)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    bool rotate[OP_MAX_TENSORS];
    shape_of("{\"op\":\"gqa_decode\",\"axes\":{\"B\":6,\"HQ\":2,\"HK\":2,\"d\":4,\"T\":9}}", &s, tensors);
    const int k = op_tensor_index(s.op, "k"), lens = op_tensor_index(s.op, "lens");
    void *in[OP_MAX_TENSORS] = {0};
    const int regime = inputs_regime_index(s.op, "stale");
    int empty = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        inputs_free(s.op, in);
        check(inputs_make(&s, tensors, regime, seed, in, &err));
        for (int b = 0; b < 6; b++) {
            const int length = ((const int32_t *)in[lens])[b];
            check(length >= 0 && length <= 9);
            empty += length == 0;
            for (int t = 0; t < 9; t++)
                for (int i = 0; i < 8; i++)
                    check(isnan(dtype_load(DTYPE_BF16, in[k], (size_t)((b * 9 + t) * 8 + i))) == (t >= length));
        }
    }
    check(empty > 0);
    inputs_rotatable(s.op, tensors, regime, rotate);
    check(!rotate[k] && rotate[op_tensor_index(s.op, "q")]);
    inputs_rotatable(s.op, tensors, 0, rotate);
    check(rotate[k]);
    inputs_free(s.op, in);
}

/* One number for each index of a dimension, evenly from end to end. */
static void test_slope(void)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    void *in[OP_MAX_TENSORS] = {0};
    shape_of("{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":3,\"N\":64},\"dtypes\":{\"io\":\"f32\"}}", &s, tensors);
    check(inputs_make(&s, tensors, inputs_regime_index(s.op, "falling"), 5, in, &err));
    const float *x = in[0];
    for (int i = 0; i < 3 * 64; i++)
        check(fabs((double)x[i] - (-8 + 8.015625 / 63 * (i % 64))) < 1e-5);
    inputs_free(s.op, in);
    shape_of("{\"op\":\"gqa_decode\",\"axes\":{\"B\":2,\"HQ\":2,\"HK\":2,\"d\":4,\"T\":9}}", &s, tensors);
    const int k = op_tensor_index(s.op, "k"), regime = inputs_regime_index(s.op, "rising");
    bool rotate[OP_MAX_TENSORS];
    check(inputs_make(&s, tensors, regime, 5, in, &err));
    for (int i = 0; i < 2 * 9 * 8; i++)
        check(dtype_load(DTYPE_BF16, in[k], (size_t)i) == -32 + 8 * (i / 8 % 9));
    inputs_rotatable(s.op, tensors, regime, rotate);
    check(!rotate[k]);
    inputs_free(s.op, in);
}

/* Masked logits: each row has its own part of them. */
static void test_masked(void)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    shape_of("{\"op\":\"topk_softmax\",\"axes\":{\"R\":400,\"E\":64,\"k\":4},\"dtypes\":{\"io\":\"bf16\"}}", &s, tensors);
    static const struct { const char *regime; int least_whole, most_whole, least_free, most_free, least, most; } wanted[] = {
        {"masked", 0, 20, 1, 40, 11500, 14100}, {"blank", 230, 300, 0, 0, 24900, 25550}, {"typical", 0, 0, 400, 400, 0, 0}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *in[OP_MAX_TENSORS] = {0};
        bool rotate[OP_MAX_TENSORS];
        int whole = 0, none = 0, all = 0;
        const int regime = inputs_regime_index(s.op, wanted[i].regime);
        check(inputs_make(&s, tensors, regime, 5, in, &err));
        for (int r = 0; r < 400; r++) {
            int masked = 0;
            for (int e = 0; e < 64; e++) {
                const double x = dtype_load(DTYPE_BF16, in[0], (size_t)(r * 64 + e));
                check(isfinite(x) || x == -INFINITY);
                masked += x == -INFINITY;
            }
            whole += masked == 64;
            none += masked == 0;
            all += masked;
        }
        check(whole >= wanted[i].least_whole && whole <= wanted[i].most_whole);
        check(none >= wanted[i].least_free && none <= wanted[i].most_free);
        check(all >= wanted[i].least && all <= wanted[i].most);
        inputs_rotatable(s.op, tensors, regime, rotate);
        check(rotate[0] == (wanted[i].most == 0));
        inputs_free(s.op, in);
    }
}

static void test_round_trip(void)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F8E4M3, DTYPE_I32, DTYPE_I8};
    static const double values[] = {0, 1, -2, 3, 0.5, 100};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint8_t store[64];
        double back[6], rounded[6];
        values_store(types[i], store, 1, 6, values);
        values_load(types[i], store, 1, 6, back);
        values_round(types[i], values, 6, rounded);
        for (int k = 0; k < 6; k++) {
            check(back[k] == rounded[k]);
            check(back[k] == (dtype_is_float(types[i]) ? (types[i] == DTYPE_F8E4M3 && k == 5 ? 96 : values[k]) : rint(values[k])));
        }
    }
}

static void test_refused(void)
{
    static const struct { const char *regimes, *says; } cases[] = {
        {"{}", "1 to"},
        {"{\"t\":{\"hidden\":true,\"inputs\":{}}}", "hidden"},
        {"{\"t\":5}", "object"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1}}}}", "\"weight\""},
        {"{\"t\":{\"inputs\":{\"y\":{\"dist\":\"normal\",\"std\":1}}}}", "no such input"},
        {"{\"t\":{\"base\":\"t\"}}", "earlier"},
        {"{\"t\":{\"colour\":1}}", "colour"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"gauss\"},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/inputs/x/dist"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\"},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "\"std\" is missing"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":-1},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/std"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"low\":1},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/low"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"uniform\",\"low\":2,\"high\":1},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/high"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"distinct\",\"low\":1,\"high\":4},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "floats"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"integers\",\"low\":0.5,\"high\":1},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "integers"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"outliers\",\"std\":1,\"scale\":2,\"every\":0},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/every"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"rows\",\"low\":0,\"high\":1},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/low"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"indices\",\"low\":1,\"high\":4},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "floats"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"beyond\":\"weight\"},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/beyond"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"beyond\":\"lens\"},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/beyond"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"for\":5},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/for"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"for\":{\"f17\":{\"dist\":\"normal\",\"std\":1}}},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/for/f17"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"for\":{\"f16\":{\"dist\":\"normal\",\"std\":-1}}},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/for/f16/std"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"for\":{\"f16\":{\"dist\":\"normal\",\"std\":1,\"for\":{}}}},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "once"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"for\":{\"f16\":{\"dist\":\"normal\",\"std\":2}}},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", NULL},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"slope\",\"from\":1},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "\"to\" is missing"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"slope\",\"from\":1,\"to\":2,\"along\":99},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/along"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"slope\",\"low\":1,\"to\":2},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/low"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"masked\":0.5},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/masked"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"masked\":[0.5,0.25]},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/masked"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"masked\":[0,\"1\"]},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", "/x/masked"},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"normal\",\"std\":1,\"masked\":[0,2]},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", NULL},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"slope\",\"from\":1,\"to\":-2},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", NULL},
        {"{\"t\":{\"inputs\":{\"x\":{\"dist\":\"constant\",\"value\":1},\"weight\":{\"dist\":\"constant\",\"value\":1}}}}", NULL},
    };
    const struct op *op = op_set_find(&ops, "rmsnorm");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct op copy = *op;
        struct err err = {0};
        cleanup(json) json_t *regimes = NULL;
        check(json_parse(cases[i].regimes, strlen(cases[i].regimes), &regimes, &err));
        cleanup(json) json_t *doc = json_copy(op->doc);
        json_object_set(doc, "regimes", regimes);
        copy.doc = doc;
        bool ok = inputs_check(&copy, &err);
        check(ok == !cases[i].says && (ok || strstr(err.text, cases[i].says)));
        if (ok == !!cases[i].says || (!ok && !strstr(err.text, cases[i].says)))
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
    test_repeats();
    test_distributions();
    test_slots();
    test_gaps();
    test_indices();
    test_beyond();
    test_slope();
    test_masked();
    test_round_trip();
    test_refused();
    op_set_done(&ops);
    return test_done();
}

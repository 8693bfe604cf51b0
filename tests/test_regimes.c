/*
 * Distributions that find what fixed ones miss: factors drawn from the seed, lengths where tiles end, any padding, sums that cancel;
 * and exact probes: one element of a row, parts of a row, what a state must keep. Spikes: test_regimes_spikes.c.
 */
#include "tests/regimes_made.h"
#include "gpu/judge/reference.h"

#include <math.h>

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

#define PACKED "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":64,\"H\":2,\"HV\":4,\"K\":%d,\"V\":3%s},\"dtypes\":{\"io\":\"f32\"}}"
#define HOT "{\"mixed_qkv\":{\"dist\":\"parts\",\"along\":1,\"sizes\":[\"2*H*K\"],\"of\":[{\"dist\":\"hot\",\"stretch\":\"K\",\"value\":64},{\"dist\":\"integers\",\"low\":1,\"high\":255}]}}"

/* One of each stretch, each place of it sooner or later; what is beside them is of its own kind. Longer than a run of elements is made. */
static void test_parts(void)
{
    static const struct { int k; const char *more; } shapes[] = {{5, ""}, {1, ""}, {16, ",\"qkv_stride\":100"}, {96, ""}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        cleanup(made) struct made m = {0};
        char shape[192];
        const int k = shapes[i].k;
        int seen[96] = {0}, least = 255, most = 1;
        bool rotate[OP_MAX_TENSORS];
        snprintf(shape, sizeof shape, PACKED, k, shapes[i].more);
        check(make(&m, shape, "typical", HOT, i));
        const struct tensor *t = &m.tensors[0];
        const float *x = m.in[0];
        for (int row = 0; row < 64; row++)
            for (int c = 0, hot = 0; c < 4 * k + 12; c++) {
                const float v = x[tensor_offset(t, (int64_t)row * (4 * k + 12) + c)];
                if (c >= 4 * k) {
                    check(v >= 1 && v <= 255 && v == floorf(v));
                    least = (int)v < least ? (int)v : least;
                    most = (int)v > most ? (int)v : most;
                    continue;
                }
                check(v == 0 || v == 64);
                seen[c % k] += v == 64;
                hot += v == 64;
                check(c % k != k - 1 || hot == c / k + 1);
            }
        check(least < 10 && most > 245);
        for (int c = 0; c < k && k <= 16; c++)
            check(seen[c] > 3);
        inputs_rotatable(&m.op, m.tensors, 0, rotate);
        check(!rotate[0]);
    }
}

/* Along another dimension than the last; a part of nothing; a stretch that the row ends in; parts larger than there is room for. */
static void test_parts_along(void)
{
    static const char shape[] = "{\"op\":\"rmsnorm\",\"axes\":{\"R\":6,\"N\":700},\"dtypes\":{\"io\":\"f32\"}}";
    cleanup(made) struct made m = {0};
    check(make(&m, shape, "typical", "{\"x\":{\"dist\":\"parts\",\"along\":0,\"sizes\":[2,0,\"R-3\"],\"of\":[{\"dist\":\"constant\",\"value\":1},"
               "{\"dist\":\"constant\",\"value\":2},{\"dist\":\"hot\",\"stretch\":300,\"value\":-3},{\"dist\":\"constant\",\"value\":4}]}}", 9));
    const float *x = m.in[0];
    for (int r = 0; r < 6; r++) {
        int hot[3] = {0};
        for (int c = 0; c < 700; c++) {
            const float v = x[r * 700 + c];
            check(r < 2 ? v == 1 : r < 5 ? v == 0 || v == -3 : v == 4);
            hot[c / 300] += v == -3;
        }
        check(r < 2 || r > 4 || (hot[0] == 1 && hot[1] == 1 && hot[2] <= 1));
    }
    static const char *const wrong[] = {
        "{\"x\":{\"dist\":\"parts\",\"sizes\":[\"N+1\"],\"of\":[{\"dist\":\"constant\",\"value\":1},{\"dist\":\"constant\",\"value\":1}]}}",
        "{\"x\":{\"dist\":\"parts\",\"sizes\":[\"R-N\"],\"of\":[{\"dist\":\"constant\",\"value\":1},{\"dist\":\"constant\",\"value\":1}]}}",
        "{\"x\":{\"dist\":\"parts\",\"sizes\":[\"N/(R-R)\"],\"of\":[{\"dist\":\"constant\",\"value\":1},{\"dist\":\"constant\",\"value\":1}]}}",
        "{\"x\":{\"dist\":\"hot\",\"stretch\":\"R-6\",\"value\":1}}",
        "{\"x\":{\"dist\":\"spikes\",\"std\":1,\"value\":1,\"each\":\"R-6\"}}",
        "{\"x\":{\"dist\":\"spikes\",\"std\":1,\"value\":1,\"each\":5000}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cleanup(made) struct made bad = {0};
        check(!make(&bad, shape, "typical", wrong[i], 9));
    }
}

/* Regimes of few rows. */
static void test_when(void)
{
    static const struct { const char *shape; int count; } shapes[] = {
        {"{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":1,\"N\":128}}", 45},
        {"{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":2,\"N\":128}}", 29},
        {"{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":7,\"N\":128}}", 18},
        {"{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":8,\"N\":128}}", 17},
        {"{\"op\":\"topk_softmax\",\"axes\":{\"R\":1,\"E\":64,\"k\":1}}", 46},
        {"{\"op\":\"topk_softmax\",\"axes\":{\"R\":1,\"E\":64,\"k\":8}}", 18},
        {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":1,\"N\":64}}", -1},
    };
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        cleanup(json) json_t *asked = NULL;
        struct err err = {0};
        struct faults f = {0};
        struct shape s;
        check(json_parse(shapes[n].shape, strlen(shapes[n].shape), &asked, &err));
        json_put(asked, "dtypes", json_pack("{s:s}", "io", "f32"));
        check(shape_parse(&ops, asked, "sm_90a", "", &s, &f));
        check_int(inputs_regimes_of(&s), shapes[n].count < 0 ? inputs_regime_count(s.op) : shapes[n].count);
        check(inputs_regimes_of(&s) <= INPUTS_MAX_REGIMES);
    }
    static const struct { const char *regime, *when; bool fine; } whens[] = {
        {"fifth_spike", "R < 2 || N > 4", true}, {"fifth_spike", "8/(R-N) < 1", true}, {"fifth_spike", "Q < 2", false}, {"fifth_spike", "R <", false},
        {"typical", "R < 2", false}, {"spike", "R < 2", false},           /* the first; one before others that have none */
    };
    for (size_t n = 0; n < sizeof whens / sizeof *whens; n++) {
        struct op copy = *op_set_find(&ops, "quant_fp8_per_token");
        struct err err = {0};
        cleanup(json) json_t *doc = json_deep_copy(copy.doc);
        json_put_str(json_object_get(json_object_get(doc, "regimes"), whens[n].regime), "when", whens[n].when);
        copy.doc = doc;
        check(inputs_check(&copy, &err) == whens[n].fine && (whens[n].fine || strstr(err.text, "/when")));
    }
}

/* The exact probes: but for one column of a head, all of it with open gates and none with shut ones, the right state is what it was. */
static void probe(const char *op, const char *dtypes, const char *regime, const char *more, bool open)
{
    cleanup(made) struct made m = {0};
    struct err err = {0};
    double *right[OP_MAX_TENSORS] = {0};
    cleanup(str) char *shape = xfmt("{\"op\":\"%s\",\"axes\":{\"B\":3,\"H\":2,\"HV\":4,\"K\":24,\"V\":8},\"dtypes\":%s}", op, dtypes);
    check(make(&m, shape, regime, more, 4) && reference_run(&m.s, m.tensors, (const void *const *)m.in, right, &err));
    const int s = op_tensor_index(&m.op, "state");
    int changed = 0, columns = 0;
    for (int64_t head = 0; right[s] && head < m.tensors[s].elements / (8 * 24); head++) {
        int of_head[24] = {0}, in_use = 0;
        for (int64_t i = 0; i < 8 * 24; i++) {
            const double was = dtype_load(m.tensors[s].dtype, m.in[s], (size_t)(head * 8 * 24 + i));
            of_head[i % 24] += right[s][head * 8 * 24 + i] != was;
        }
        for (int c = 0; c < 24; c++) {
            changed += of_head[c];
            in_use += of_head[c] > 0;
        }
        check(in_use <= 1);
        columns += in_use;
    }
    check(open ? columns == 3 * 4 && changed >= 3 * 4 * 8 - 2 : !changed);
    inputs_free(&m.op, (void **)right);
}

static void test_probes(void)
{
    static const char *const ops_probed[] = {"gdn_packed_decode", "gdn_decode_step"};
    static const char *const types[] = {"bf16", "f16", "f32"};
    for (size_t i = 0; i < 2; i++)
        for (size_t io = 0; io < 3; io++)
            for (size_t state = 0; state < 3; state++) {
                cleanup(str) char *dtypes = xfmt("{\"io\":\"%s\",\"state\":\"%s\"}", types[io], types[state]);
                probe(ops_probed[i], dtypes, "one_hot", "{}", true);
                probe(ops_probed[i], dtypes, "one_hot_shut", "{}", false);
                probe(ops_probed[i], dtypes, "one_hot_shut", "{\"state\":{\"dist\":\"integers\",\"low\":-1,\"high\":1}}", false);
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
        {"rmsnorm", "x", "{\"dist\":\"hot\",\"value\":1}", "/stretch"},
        {"rmsnorm", "x", "{\"dist\":\"hot\",\"stretch\":\"N\"}", "\"value\" is missing"},
        {"rmsnorm", "x", "{\"dist\":\"hot\",\"stretch\":\"Z\",\"value\":1}", "/x/stretch"},
        {"rmsnorm", "x", "{\"dist\":\"normal\",\"std\":1,\"stretch\":4}", "/x/stretch"},
        {"rmsnorm", "x", "{\"dist\":\"spikes\",\"std\":1,\"each\":2}", "/x/value"},
        {"rmsnorm", "x", "{\"dist\":\"spikes\",\"std\":1,\"each\":2,\"value\":1,\"weight\":1}", "/x/value"},
        {"rmsnorm", "x", "{\"dist\":\"spikes\",\"std\":1,\"each\":2,\"weight\":-1}", "/x/weight"},
        {"rmsnorm", "x", "{\"dist\":\"spikes\",\"std\":1,\"value\":2}", "/x/each"},
        {"rmsnorm", "x", "{\"dist\":\"spikes\",\"std\":1,\"value\":2,\"each\":\"Z\"}", "/x/each"},
        {"rmsnorm", "x", "{\"dist\":\"spikes\",\"std\":1,\"value\":2,\"each\":1,\"turn\":1}", "/x/turn"},
        {"rmsnorm", "x", "{\"dist\":\"spikes\",\"std\":1,\"value\":2,\"each\":1,\"turn\":3,\"turns\":2}", "/x/turn"},
        {"rmsnorm", "x", "{\"dist\":\"spikes\",\"std\":1,\"value\":2,\"each\":1,\"turn\":0,\"turns\":2}", "/x/turn"},
        {"rmsnorm", "x", "{\"dist\":\"hot\",\"stretch\":4,\"value\":1,\"each\":4}", "/x/each"},
        {"rmsnorm", "x", "{\"dist\":\"parts\"}", "/x/of"},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"sizes\":[],\"of\":[{\"dist\":\"normal\",\"std\":1}]}", "/x/of"},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"sizes\":[1,1],\"of\":[{\"dist\":\"normal\",\"std\":1},{\"dist\":\"normal\",\"std\":1}]}", "/x/sizes"},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"sizes\":[-1],\"of\":[{\"dist\":\"normal\",\"std\":1},{\"dist\":\"normal\",\"std\":1}]}", "/x/sizes/0"},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"sizes\":[\"2*Q\"],\"of\":[{\"dist\":\"normal\",\"std\":1},{\"dist\":\"normal\",\"std\":1}]}", "/x/sizes/0"},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"along\":2,\"sizes\":[1],\"of\":[{\"dist\":\"normal\",\"std\":1},{\"dist\":\"normal\",\"std\":1}]}", "/x/along"},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"std\":1,\"sizes\":[1],\"of\":[{\"dist\":\"normal\",\"std\":1},{\"dist\":\"normal\",\"std\":1}]}", "/x/std"},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"sizes\":[1],\"of\":[{\"dist\":\"normal\",\"std\":1},{\"dist\":\"normal\"}]}", "/x/of/1: \"std\""},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"sizes\":[1],\"of\":[{\"dist\":\"normal\",\"std\":1},{\"dist\":\"parts\"}]}", "/x/of/1"},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"sizes\":[1],\"of\":[{\"dist\":\"normal\",\"std\":1,\"for\":{}},{\"dist\":\"normal\",\"std\":1}]}", "/x/of/0"},
        {"rmsnorm", "x", "{\"dist\":\"parts\",\"sizes\":[1,1,1,1,1,1],\"of\":[{},{},{},{},{},{},{}]}", "/x/of"},
        {"gqa_decode", "lens", "{\"dist\":\"parts\",\"sizes\":[1],\"of\":[{\"dist\":\"constant\",\"value\":1},{\"dist\":\"constant\",\"value\":1}]}", "integers"},
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
    static void (*const tests[])(void) = {test_times, test_edges, test_edges_said, test_negative, test_mirrored, test_parts, test_parts_along, test_when, test_probes, test_refused};
    return regimes_main(tests, sizeof tests / sizeof *tests);
}

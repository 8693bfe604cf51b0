/* The operators of the tree: they load, their shapes hash as documented, their regimes and tolerances are sound. */
#include "gpu/judge/compare.h"
#include "gpu/judge/inputs.h"
#include "gpu/judge/reference.h"
#include "core/candidate.h"
#include "core/expr.h"

#include "tests/test.h"

static struct op_set ops;

static bool shape_of(const char *text, struct shape *ret, struct faults *f)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    *f = (struct faults){0};
    check(json_parse(text, strlen(text), &doc, &err));
    return shape_parse(&ops, doc, "sm_90a", "", ret, f);
}

static void test_canonical(void)
{
    struct shape s;
    struct faults f;
    cleanup(buf) struct buf text = {0};
    check(shape_of("{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":16,\"HV\":64,\"K\":128,\"V\":128},\"dtypes\":{\"io\":\"bf16\",\"state\":\"f32\"},\"target\":\"sm_90a\"}", &s, &f));
    shape_canonical(&s, &text);
    check_str(buf_cstr(&text), "proteus-shape-v1\nop=gdn_packed_decode@1\naxis.B=4\naxis.H=16\naxis.HV=64\naxis.K=128\naxis.V=128\n"
                               "axis.qkv_stride=0\ndtype.io=bf16\ndtype.state=f32\ntarget=sm_90a\n");
    check_int(s.axes[op_axis_index(s.op, "slots")], 5);
    struct hash_hex hash = shape_hash(&s);
    struct shape other;
    check(shape_of("{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":16,\"HV\":64,\"K\":128,\"V\":128,\"slots\":900}}", &other, &f));
    check_str(shape_hash(&other).text, hash.text);
    check(shape_of("{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":16,\"HV\":64,\"K\":128,\"V\":128,\"qkv_stride\":20480}}", &other, &f));
    check(strcmp(shape_hash(&other).text, hash.text) != 0);
    buf_clear(&text);
    check(shape_of("{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":3072}}", &s, &f));
    shape_canonical(&s, &text);
    check_str(buf_cstr(&text), "proteus-shape-v1\nop=rmsnorm@1\naxis.N=3072\naxis.R=4\naxis.weight_offset=0\ndtype.io=bf16\ntarget=sm_90a\n");
    buf_clear(&text);
    check(shape_of("{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":64,\"N\":128}}", &s, &f));
    shape_canonical(&s, &text);
    check_str(buf_cstr(&text), "proteus-shape-v1\nop=gated_rmsnorm@1\naxis.N=128\naxis.R=64\ndtype.io=bf16\ntarget=sm_90a\n");
    buf_clear(&text);
    check(shape_of("{\"op\":\"silu_and_mul\",\"axes\":{\"R\":8,\"N\":1024},\"dtypes\":{\"io\":\"f16\"}}", &s, &f));
    shape_canonical(&s, &text);
    check_str(buf_cstr(&text), "proteus-shape-v1\nop=silu_and_mul@1\naxis.N=1024\naxis.R=8\ndtype.io=f16\ntarget=sm_90a\n");
}

static void test_refused(void)
{
    static const char *const bad[] = {
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":3,\"HV\":8,\"K\":128,\"V\":128}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128,\"qkv_stride\":100}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128,\"slots\":1}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":0,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":513,\"V\":128}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":3072,\"weight_offset\":2}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":0}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":4,\"N\":65537}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":4,\"N\":128},\"dtypes\":{\"io\":\"i32\"}}",
        "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":4}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct shape s;
        struct faults f;
        check(!shape_of(bad[i], &s, &f) && f.count > 0);
    }
}

/* The least bytes of the packed decode at a served shape: two passes over the state and little else. */
static void test_work(void)
{
    struct shape s;
    struct faults f;
    struct err err = {0};
    int64_t bytes, flops;
    check(shape_of("{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}", &s, &f));
    check(shape_work(&s, &bytes, &flops, &err));
    int64_t state = 2ll * 4 * 8 * 128 * 128 * 4;
    check(bytes > state && bytes < state + state / 50);
    check_int(flops, 7ll * 4 * 8 * 128 * 128);
    check(shape_of("{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":3072},\"dtypes\":{\"io\":\"f32\"}}", &s, &f));
    check(shape_work(&s, &bytes, &flops, &err));
    check_int(bytes, (2 * 4 + 1) * 3072 * 4);
    check(shape_of("{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":256,\"N\":128}}", &s, &f));
    check(shape_work(&s, &bytes, &flops, &err));
    check_int(bytes, (3 * 256 + 1) * 128 * 2);
    check(shape_of("{\"op\":\"silu_and_mul\",\"axes\":{\"R\":32,\"N\":1024}}", &s, &f));
    check(shape_work(&s, &bytes, &flops, &err));
    check_int(bytes, 3 * 32 * 1024 * 2);
}

/* Every regime of every operator gives a finite reference, over a range of shapes and dtypes. */
static void test_regimes(void)
{
    static const char *const shapes[] = {
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":3,\"H\":2,\"HV\":4,\"K\":128,\"V\":128}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":1,\"H\":1,\"HV\":3,\"K\":7,\"V\":5},\"dtypes\":{\"io\":\"f32\",\"state\":\"bf16\"}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":5,\"H\":1,\"HV\":2,\"K\":16,\"V\":33,\"qkv_stride\":200,\"slots\":3},\"dtypes\":{\"io\":\"f16\",\"state\":\"f16\"}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":3,\"N\":3072}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":2,\"N\":1,\"weight_offset\":1},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":2,\"N\":4099},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":8,\"N\":128}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":2,\"N\":1},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":3,\"N\":4099},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":8,\"N\":1024}}",
        "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":2,\"N\":1},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":3,\"N\":4099},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":3,\"N\":512}}",
        "{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":2,\"N\":1},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"rope_neox\",\"axes\":{\"B\":3,\"HQ\":4,\"HK\":1,\"d\":256,\"rot\":64}}",
        "{\"op\":\"rope_neox\",\"axes\":{\"B\":5,\"HQ\":1,\"HK\":1,\"d\":3,\"rot\":2,\"P\":1},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":3,\"C\":384}}",
        "{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":5,\"C\":7,\"W\":2,\"slots\":3},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"topk_softmax\",\"axes\":{\"R\":3,\"E\":256,\"k\":8}}",
        "{\"op\":\"topk_softmax\",\"axes\":{\"R\":2,\"E\":33,\"k\":32},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"gemm_nt\",\"axes\":{\"M\":3,\"N\":96,\"K\":512}}",
        "{\"op\":\"gemm_nt\",\"axes\":{\"M\":32,\"N\":1,\"K\":1},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"gqa_decode\",\"axes\":{\"B\":3,\"HQ\":8,\"HK\":2,\"d\":64,\"T\":65}}",
        "{\"op\":\"gqa_decode\",\"axes\":{\"B\":2,\"HQ\":1,\"HK\":1,\"d\":3,\"T\":1},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":64,\"V\":32}}",
        "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":5,\"H\":1,\"HV\":2,\"K\":7,\"V\":5,\"W\":2,\"slots\":3},\"dtypes\":{\"io\":\"f32\",\"state\":\"bf16\"}}",
        "{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":3,\"N\":3072}}",
        "{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":2,\"N\":1},\"dtypes\":{\"io\":\"f16\"}}",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape s;
        struct faults f;
        struct err err = {0};
        struct tensor tensors[OP_MAX_TENSORS];
        check(shape_of(shapes[i], &s, &f) && shape_tensors(&s, tensors, &err));
        for (int r = 0; r < inputs_regime_count(s.op); r++) {
            void *inputs[OP_MAX_TENSORS] = {0};
            double *arrays[OP_MAX_TENSORS] = {0};
            err = (struct err){0};
            check(inputs_make(&s, tensors, r, 7, inputs, &err));
            check(reference_run(&s, tensors, (const void *const *)inputs, arrays, &err));
            if (*err.text)
                fprintf(stderr, "  %s, %s: %s\n", shapes[i], inputs_regime_name(s.op, r), err.text);
            inputs_free(s.op, inputs);
            inputs_free(s.op, (void **)arrays);
        }
    }
}

static void test_data(void)
{
    check_int(ops.count, 12);
    for (int i = 0; i < ops.count; i++) {
        const struct op *op = ops.list[i];
        struct err err = {0};
        check(inputs_check(op, &err) && compare_check(op, &err));
        check_str(err.text, "");
        bool hidden = false;
        for (int r = 0; r < inputs_regime_count(op); r++)
            hidden |= inputs_regime_hidden(op, r);
        check(hidden);
        cleanup(json) json_t *baseline = NULL;
        check(candidate_load(op->dir, "baseline", &baseline, &err));
        cleanup(candidate) struct candidate c = {0};
        struct faults f = {0};
        check(candidate_parse(baseline, "", &c, &f));
        check_int(f.count, 0);
        cleanup(json) json_t *shown = op_public(op);
        cleanup(str) char *text = json_text(shown);
        check(!strstr(text, "\"hidden\":true"));
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
    test_data();
    test_canonical();
    test_refused();
    test_work();
    test_regimes();
    op_set_done(&ops);
    return test_done();
}

/*
 * What templates say of their kernels' shared memory, by which settings are left out before anything is compiled, against what the
 * assembler gives those kernels: for every template of the catalogue, its default and some settings drawn, over shapes of decode steps. A
 * figure too large leaves out settings that would do, one too small lets settings be compiled that no card takes.
 *
 * Usage: test_template_shared [SETTINGS] (drawn besides the default, of each template and shape; 1)
 */
#include "core/rng.h"
#include "gpu/device/device.h"
#include "server/generate/template_file.h"
#include "tests/test.h"

#define SEED 11

static struct op_set ops;
static struct toolkit_paths toolkit;
static int compared, templates;

static const char *const shapes[] = {
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}",
    "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":2,\"H\":1,\"HV\":2,\"K\":64,\"V\":64},\"dtypes\":{\"state\":\"bf16\"}}",
    "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}",
    "{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":4,\"C\":2048}}",
    "{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":3072}}",
    "{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":4,\"N\":3072}}",
    "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":32,\"N\":128}}",
    "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":4,\"N\":3072},\"dtypes\":{\"io\":\"f32\"}}",
    "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":2,\"H\":2,\"HV\":2,\"K\":64,\"V\":64},\"dtypes\":{\"io\":\"f16\"}}",
    "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":4,\"N\":1024}}",
    "{\"op\":\"topk_softmax\",\"axes\":{\"R\":4,\"E\":256,\"k\":8}}",
    "{\"op\":\"rope_neox\",\"axes\":{\"B\":4,\"HQ\":4,\"HK\":1,\"d\":256,\"rot\":64}}",
    "{\"op\":\"gqa_decode\",\"axes\":{\"B\":4,\"HQ\":32,\"HK\":2,\"d\":256,\"T\":8192}}",
    "{\"op\":\"gqa_decode\",\"axes\":{\"B\":2,\"HQ\":8,\"HK\":2,\"d\":128,\"T\":1024},\"dtypes\":{\"io\":\"f16\"}}",
    "{\"op\":\"gemm_nt\",\"axes\":{\"M\":4,\"N\":3072,\"K\":1024}}",
    "{\"op\":\"gemm_nt\",\"axes\":{\"M\":16,\"N\":256,\"K\":3072}}",
    "{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":4,\"N\":3072}}",
};

static void shape_of(const char *text, struct shape *s)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(text, strlen(text), &doc, &err));
    check(shape_parse(&ops, doc, "sm_90a", "", s, &f));
}

static bool assembled(const struct shape *s, const struct candidate *c, struct toolkit_assembled *ret)
{
    cleanup(buf) struct buf options = {0};
    struct toolkit_compiled ptx = {0};
    struct err err = {0};
    char why[256] = "";
    bool ok = candidate_options(c, s, &options, why, sizeof why) && toolkit_compile(&toolkit, c->source, s->target, buf_cstr(&options), &ptx, &err) && ptx.ok &&
              toolkit_assemble(&toolkit, ptx.ptx, ptx.ptx_bytes, s->target, c->maxrregcount, ret, &err) && ret->ok;
    if (!ok)
        fprintf(stderr, "%s%s%s%s\n", why, err.text, ptx.log ? ptx.log : "", ret->log ? ret->log : "");
    free(ptx.ptx), free(ptx.log);
    return ok;
}

static void compare_setting(const struct shape *s, const struct template *t, const struct setting *p)
{
    cleanup(json) json_t *doc = template_candidate(t, p), *params = template_params(t, p);
    cleanup(str) char *named = json_text(params);
    cleanup(candidate) struct candidate c = {0};
    struct faults f = {0};
    struct plan plan;
    struct toolkit_assembled cubin = {0};
    char why[256] = "";
    const bool ok = candidate_parse(doc, "", &c, &f) && plan_resolve(&c, s, &plan, why, sizeof why) && assembled(s, &c, &cubin);
    check(ok);
    for (int i = 0; ok && i < plan.step_count; i++)
        for (int k = 0; k < cubin.kernel_count && !plan.steps[i].is_memset; k++) {
            if (strcmp(plan.steps[i].kernel, cubin.kernels[k].name))
                continue;
            const int64_t says = template_static_shared(t, s, p, cubin.kernels[k].name), is = cubin.kernels[k].resources.static_shared_bytes;
            if (says != is)
                fprintf(stderr, "%s %s %s: %s declares %lld bytes of shared memory, the template says %lld\n", s->op->name, t->name, named, cubin.kernels[k].name,
                        (long long)is, (long long)says);
            check_int((int)says, (int)is);
            compared++;
        }
    free(cubin.cubin), free(cubin.log);
}

static void compare_template(const struct shape *s, const struct template *t, int drawn)
{
    struct setting *list = NULL;
    struct err err = {0};
    int count = 0;
    check(template_settings(t, s, &list, &count, &err));
    templates += count > 0;
    /* what names no such memory is compiled once */
    const int wanted = strstr(json_str(t->candidate, "source", ""), "__shared__") ? drawn : 0;
    for (int n = 0; n <= wanted && n < count; n++) {
        const int fallback = template_default(t, s, list, count);
        compare_setting(s, t, &list[n ? (int)rng_below(SEED, (uint64_t)n, (uint64_t)count, (uint64_t)count) : fallback]);
    }
    free(list);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    hash_init();
    const int drawn = argc > 1 ? atoi(argv[1]) : 1;
    if (!toolkit_find(NULL, &toolkit, &err))
        test_skip(err.text);
    check(op_set_load(OPS_DIR, &ops, &err));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape s;
        cleanup(template_set) struct template_set set = {0};
        if (argc > 2 && !strstr(shapes[i], argv[2]))
            continue;
        shape_of(shapes[i], &s);
        check(template_set_load(s.op, &set, &err));
        for (int t = 0; t < set.count; t++)
            compare_template(&s, &set.list[t], drawn);
    }
    printf("%d kernels of %d templates and shapes compared\n", compared, templates);
    op_set_done(&ops);
    return test_done();
}

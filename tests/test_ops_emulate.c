/*
 * Every operator's baseline, over odd shapes too, and its templates, each value of each parameter, compiled by NVRTC and emulated
 * with all checks (bounds, initialised bytes, alignment, races) against the reference. And baselines with one mistake each: some
 * regime must show it.
 */
#include "gpu/device/device.h"
#include "gpu/judge/compare.h"
#include "gpu/judge/golden.h"
#include "gpu/judge/inputs.h"
#include "gpu/judge/reference.h"
#include "server/generate/template_file.h"

#include "core/rng.h"
#include "tests/test.h"

#include <dirent.h>

static struct op_set ops;
static struct toolkit_paths toolkit;
static int compiled, launched;
static const char *only;                 /* second argument: shapes with this text alone */

struct memory { struct ptx_buffer buffers[OP_MAX_TENSORS + PLAN_MAX_WORKSPACES]; int count; };

static void memory_done(struct memory *m)
{
    for (int i = 0; i < m->count; i++) {
        free(m->buffers[i].data);
        free(m->buffers[i].initialised);
    }
}
DEFINE_CLEANUP(memory, struct memory, memory_done(it))

static void memory_add(struct memory *m, const char *name, int64_t bytes, int alignment, const void *content, bool writable, uint64_t *address)
{
    struct ptx_buffer *b = &m->buffers[m->count++];
    snprintf(b->name, sizeof b->name, "%s", name);
    b->bytes = (size_t)bytes;
    b->address = *address + (uint64_t)alignment;  /* so much and no more: what the contract promises */
    *address += ((uint64_t)bytes + 0x4000) & ~(uint64_t)0xfff;
    b->data = xalloc((size_t)bytes + 1);
    b->writable = writable;
    if (content)
        memcpy(b->data, content, (size_t)bytes);
    else {
        memset(b->data, 0xff, (size_t)bytes);
        b->initialised = xalloc((size_t)bytes / 8 + 1);
    }
}

static bool fill_launch(const struct plan *p, const struct plan_step *step, const struct memory *m, int tensor_count, struct ptx_launch *l)
{
    l->kernel = step->kernel;
    memcpy(l->grid, step->grid, sizeof l->grid);
    memcpy(l->block, step->block, sizeof l->block);
    memcpy(l->cluster, step->cluster, sizeof l->cluster);
    l->dynamic_shared_bytes = step->shared_bytes;
    l->cooperative = p->cooperative;
    l->arg_count = step->arg_count;
    for (int i = 0; i < step->arg_count; i++) {
        const struct plan_arg *a = &step->args[i];
        l->args[i].bytes = (uint8_t)a->bytes;
        l->args[i].value = a->kind == PLAN_TENSOR ? m->buffers[a->index].address : a->kind == PLAN_WORKSPACE ? m->buffers[tensor_count + a->index].address : a->value;
    }
    return true;
}

/* Runs all steps on the emulator; false: `why` says what is wrong. Buffers of tensors come first in m, in their order. */
static bool emulate(const struct shape *s, const struct tensor *tensors, const struct plan *plan, const struct ptx_module *module,
                    const void *const *inputs, uint64_t schedule, struct memory *m, char *why, size_t size)
{
    struct err err = {0};
    uint64_t address = 0x7f0000000000;
    for (int t = 0; t < s->op->tensor_count; t++)
        memory_add(m, tensors[t].spec->name, tensors[t].bytes, tensors[t].spec->alignment_bytes, inputs[t], tensors[t].spec->role != OP_INPUT, &address);
    for (int w = 0; w < plan->workspace_count; w++)
        memory_add(m, plan->workspaces[w].name, plan->workspaces[w].bytes, PLAN_WORKSPACE_ALIGNMENT_BYTES, NULL, true, &address);
    for (int i = 0; i < plan->step_count && !*why; i++) {
        struct ptx_launch launch = {0};
        struct ptx_finding found = {0};
        struct ptx_counts counts;
        struct ptx_run_options options = {.limits = ptx_default_limits, .schedule_seed = schedule, .schedule = schedule ? PTX_EXPLORE : PTX_LOCKSTEP, .check_races = true};
        fill_launch(plan, &plan->steps[i], m, s->op->tensor_count, &launch);
        launched++;
        if (!ptx_run(module, &launch, m->buffers, m->count, &options, &found, &counts, &err))
            snprintf(why, size, "%s", err.text);
        else if (found.kind != PTX_CLEAN)
            snprintf(why, size, "%s: %s (%s line %d)", ptx_finding_name(found.kind), found.text, found.opcode, found.source_line);
    }
    return !*why;
}

/* One run of a compiled candidate on a regime's inputs; says what is wrong, "" if nothing. */
static void run_one(const struct shape *s, const struct tensor *tensors, const struct plan *plan, const struct ptx_module *module, int regime,
                    uint64_t schedule, char *why, size_t size)
{
    cleanup(memory) struct memory m = {0};
    void *inputs[OP_MAX_TENSORS] = {0};
    double *right[OP_MAX_TENSORS] = {0};
    struct err err = {0};
    *why = 0;
    if (!inputs_make(s, tensors, regime, 77, inputs, &err) || !reference_run(s, tensors, (const void *const *)inputs, right, &err)) {
        snprintf(why, size, "%s", err.text);
        return;
    }
    emulate(s, tensors, plan, module, (const void *const *)inputs, schedule, &m, why, size);
    for (int t = 0; t < s->op->tensor_count && !*why; t++) {
        struct compare_result r;
        const struct compare_case c = {.op = s->op, .tensor = &tensors[t], .reference = right[t], .got = m.buffers[t].data, .before = inputs[t]};
        if (!right[t])
            continue;
        compare_tensor(&c, &r);
        if (r.code != VERDICT_OK)
            snprintf(why, size, "%s: %s; got %g, wanted %g at %lld %lld %lld %lld", verdict_name(r.code), r.text, r.got, r.wanted, (long long)r.index[0],
                     (long long)r.index[1], (long long)r.index[2], (long long)r.index[3]);
    }
    inputs_free(s->op, inputs);
    inputs_free(s->op, (void **)right);
}

/* Plan and module of a candidate; false: `why` says what is wrong. */
static bool build(const struct shape *s, const json_t *doc, struct plan *ret_plan, struct ptx_module **ret_module, char *why, size_t size)
{
    cleanup(candidate) struct candidate c = {0};
    cleanup(buf) struct buf options = {0};
    struct faults f = {0};
    struct err err = {0};
    struct ptx_finding found = {0};
    struct toolkit_compiled out = {0};
    bool ok = candidate_parse(doc, "", &c, &f) && plan_resolve(&c, s, ret_plan, why, size) && candidate_options(&c, s, &options, why, size);
    ok = ok && toolkit_compile(&toolkit, c.source, s->target, buf_cstr(&options), &out, &err);
    if (ok && !out.ok)
        snprintf(why, size, "%s", out.log);
    ok = ok && out.ok;
    compiled += ok;
    ok = ok && ptx_parse(out.ptx, out.ptx_bytes, &ptx_default_limits, ret_module, &found, &err) && *ret_module;
    if (!ok && !*why)
        snprintf(why, size, "%s%s%s", f.count ? f.list[0].detail : "", err.text, found.text);
    free(out.ptx);
    free(out.log);
    return ok;
}

static void test_candidate(const char *what, const struct shape *s, const json_t *doc, const int *regimes, int regime_count)
{
    cleanup(ptx) struct ptx_module *module = NULL;
    struct err err = {0};
    struct plan plan;
    struct tensor tensors[OP_MAX_TENSORS];
    char why[1024] = "";
    check(shape_tensors(s, tensors, &err));
    bool ok = build(s, doc, &plan, &module, why, sizeof why);
    for (int i = 0; ok && i < regime_count; i++) {
        for (int explore = 0; ok && explore < 2; explore++) {   /* in lockstep, and another schedule for each regime */
            run_one(s, tensors, &plan, module, regimes[i], explore ? (uint64_t)i + 1 : 0, why, sizeof why);
            ok = !*why;
        }
    }
    check(ok);
    if (!ok)
        fprintf(stderr, "  %s: %s\n", what, why);
}

static bool run_baseline(void *ctx, const struct shape *s, const struct tensor *tensors, const void *const *inputs, void **outputs, struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    cleanup(ptx) struct ptx_module *module = NULL;
    cleanup(memory) struct memory m = {0};
    struct plan plan;
    char why[1024] = "";
    (void)ctx;
    if (!candidate_load(s->op->dir, "baseline", &doc, err))
        return false;
    if (!build(s, doc, &plan, &module, why, sizeof why) || !emulate(s, tensors, &plan, module, inputs, 0, &m, why, sizeof why))
        return err_set(err, ERR_INTERNAL, "%s", why);
    for (int t = 0; t < s->op->tensor_count; t++)
        if (outputs[t])
            memcpy(outputs[t], m.buffers[t].data, (size_t)tensors[t].bytes);
    return true;
}

/* The golden files, through the very baselines. */
static void test_golden(void)
{
    int count = 0;
    for (int i = 0; i < ops.count; i++) {
        cleanup(str) char *path = xfmt("%s/%s", GOLDEN_DIR, ops.list[i]->name);
        cleanup(dir) DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));) {
            cleanup(str) char *file = xfmt("%s/%s", path, e->d_name);
            struct golden_result r = {0};
            struct err err = {0};
            if (*e->d_name == '.')
                continue;
            count++;
            check(golden_check_file(&ops, file, "sm_90a", run_baseline, NULL, &r, &err) && r.match && r.baseline_ran);
            if (!r.match)
                fprintf(stderr, "  %s: %s%s\n", file, r.text, err.text);
        }
    }
    check(count >= 7);
}

static void shape_of(const char *text, struct shape *s)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(text, strlen(text), &doc, &err));
    check(shape_parse(&ops, doc, "sm_90a", "", s, &f));
    if (f.count)
        fprintf(stderr, "  %s: %s\n", text, f.list[0].detail);
}

static void test_baselines(void)
{
    static const char *const shapes[] = {
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":2,\"H\":1,\"HV\":2,\"K\":128,\"V\":128}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":3,\"H\":1,\"HV\":3,\"K\":7,\"V\":5,\"qkv_stride\":41,\"slots\":9},\"dtypes\":{\"io\":\"f32\",\"state\":\"bf16\"}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":1,\"H\":2,\"HV\":2,\"K\":33,\"V\":17},\"dtypes\":{\"io\":\"f16\",\"state\":\"f16\"}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":1,\"HV\":1,\"K\":1,\"V\":1}}",
        "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":1,\"H\":1,\"HV\":1,\"K\":512,\"V\":19}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":3,\"N\":3072}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":5,\"N\":1,\"weight_offset\":1}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":2,\"N\":4099},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":2,\"N\":33},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"rmsnorm\",\"axes\":{\"R\":1,\"N\":65536}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":9,\"N\":128}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":3,\"N\":3072},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":5,\"N\":1}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":2,\"N\":515},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":1,\"N\":65535}}",
        "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":3,\"N\":1024}}",
        "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":2,\"N\":4099},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":5,\"N\":1},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":1,\"N\":20004},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":3,\"N\":3072,\"weight_offset\":1}}",
        "{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":2,\"N\":515},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":3,\"N\":3072}}",
        "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":2,\"H\":1,\"HV\":2,\"K\":64,\"V\":48}}",
        "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":3,\"H\":1,\"HV\":3,\"K\":7,\"V\":5,\"W\":2,\"slots\":9},\"dtypes\":{\"io\":\"f32\",\"state\":\"bf16\"}}",
        "{\"op\":\"gqa_decode\",\"axes\":{\"B\":3,\"HQ\":8,\"HK\":2,\"d\":128,\"T\":65}}",
        "{\"op\":\"gqa_decode\",\"axes\":{\"B\":2,\"HQ\":20,\"HK\":1,\"d\":36,\"T\":70},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"gqa_decode\",\"axes\":{\"B\":2,\"HQ\":3,\"HK\":3,\"d\":13,\"T\":17}}",
        "{\"op\":\"gemm_nt\",\"axes\":{\"M\":5,\"N\":40,\"K\":520}}",
        "{\"op\":\"gemm_nt\",\"axes\":{\"M\":32,\"N\":33,\"K\":67},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"gemm_nt\",\"axes\":{\"M\":1,\"N\":1,\"K\":1}}",
        "{\"op\":\"topk_softmax\",\"axes\":{\"R\":5,\"E\":256,\"k\":8}}",
        "{\"op\":\"topk_softmax\",\"axes\":{\"R\":2,\"E\":33,\"k\":32},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"topk_softmax\",\"axes\":{\"R\":1,\"E\":1,\"k\":1},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":3,\"C\":384}}",
        "{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":2,\"C\":33,\"W\":3,\"slots\":9},\"dtypes\":{\"io\":\"f16\"}}",
        "{\"op\":\"rope_neox\",\"axes\":{\"B\":3,\"HQ\":4,\"HK\":1,\"d\":256,\"rot\":64}}",
        "{\"op\":\"rope_neox\",\"axes\":{\"B\":2,\"HQ\":3,\"HK\":2,\"d\":7,\"rot\":6},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":2,\"N\":515},\"dtypes\":{\"io\":\"f32\"}}",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape s;
        struct err err = {0};
        cleanup(json) json_t *doc = NULL;
        if (only && !strstr(shapes[i], only))
            continue;
        int regimes[INPUTS_MAX_REGIMES], count = 0;
        shape_of(shapes[i], &s);
        check(candidate_load(s.op->dir, "baseline", &doc, &err));
        for (int r = 0; r < inputs_regime_count(s.op); r++)
            regimes[count++] = r;
        test_candidate(shapes[i], &s, doc, regimes, count);
    }
}

/* ---- one mistake ---- */

static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at || strstr(at + 1, from))
        return NULL;                              /* exactly one place */
    return xfmt("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void test_mistake(const char *text, const char *from, const char *to)
{
    cleanup(json) json_t *doc = NULL;
    cleanup(ptx) struct ptx_module *module = NULL;
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct plan plan;
    struct err err = {0};
    char why[1024] = "";
    int caught = 0;
    shape_of(text, &s);
    check(shape_tensors(&s, tensors, &err) && candidate_load(s.op->dir, "baseline", &doc, &err));
    cleanup(str) char *source = replaced(json_str(doc, "source", ""), from, to);
    check(source != NULL);
    if (!source) {
        fprintf(stderr, "  %s has no place, or more than one, with: %s\n", s.op->name, from);
        return;
    }
    json_put_str(doc, "source", source);
    check(build(&s, doc, &plan, &module, why, sizeof why));
    check_str(why, "");
    for (int r = 0; r < inputs_regime_count(s.op) && module; r++) {
        run_one(&s, tensors, &plan, module, r, 0, why, sizeof why);
        caught += *why != 0;
    }
    check(caught > 0);
    if (!caught)
        fprintf(stderr, "  %s: nothing shows that \"%s\" became \"%s\"\n", text, from, to);
}

static void test_mistakes(void)
{
    static const struct { const char *shape, *from, *to; } mistakes[] = {
        {"{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":3,\"N\":256}}", "rsqrtf(sum / N + eps)", "rsqrtf(sum / N)"},
        {"{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":3,\"N\":256}}", "        stream[i] = s;\n    }\n    sum", "    }\n    sum"},
        {"{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":3,\"N\":250}}", "i < N / VEC; i += blockDim.x) {\n        vec s", "i < N / VEC - 1; i += blockDim.x) {\n        vec s"},
        {"{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":3,\"N\":256}}", "fmaxf(largest / 448.0f, min_scale)", "largest / 448.0f"},
        {"{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":3,\"N\":256}}", "fabsf(widen(v.at[e]))", "widen(v.at[e])"},
        {"{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":3,\"N\":256}}", "widen(v.at[e]) / s,", "widen(v.at[e]) / s * 0.94f,"},
        {"{\"op\":\"rope_neox\",\"axes\":{\"B\":3,\"HQ\":2,\"HK\":1,\"d\":32,\"rot\":16}}", "a * c - b * s", "a * c + b * s"},
        {"{\"op\":\"rope_neox\",\"axes\":{\"B\":3,\"HQ\":2,\"HK\":1,\"d\":32,\"rot\":16}}", "positions[token] * ROT", "token * ROT"},
        {"{\"op\":\"rope_neox\",\"axes\":{\"B\":3,\"HQ\":2,\"HK\":1,\"d\":32,\"rot\":16}}", "HK, row);", "HK - 1, row);"},
        {"{\"op\":\"rope_neox\",\"axes\":{\"B\":3,\"HQ\":2,\"HK\":1,\"d\":32,\"rot\":16}}", "    turn(k + token", "    if (threadIdx.x == 0)\n        narrow(q + token * HQ * D + D - 1, 1.006f * widen(q[token * HQ * D + D - 1]));\n    turn(k + token"},
        {"{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":3,\"C\":64}}", "values[w + 1];", "values[w];"},
        {"{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":3,\"C\":64}}", "sum / (1.0f + expf(-sum))", "sum"},
        {"{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":3,\"C\":300}}", "channel >= C", "channel >= C - 1"},
        {"{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":3,\"C\":64}}", "if (s <= 0)", "if (s < 0)"},
        {"{\"op\":\"topk_softmax\",\"axes\":{\"R\":5,\"E\":64,\"k\":8}}", "other_at < at", "other_at > at"},
        {"{\"op\":\"topk_softmax\",\"axes\":{\"R\":5,\"E\":64,\"k\":8}}", "chosen / total", "chosen"},
        {"{\"op\":\"topk_softmax\",\"axes\":{\"R\":5,\"E\":64,\"k\":8}}", "expf(best - largest)", "expf(best)"},
        {"{\"op\":\"topk_softmax\",\"axes\":{\"R\":5,\"E\":70,\"k\":4}}", "x[i] = i * 32 + lane < E ?", "x[i] = i * 32 + lane < E - 1 ?"},
        {"{\"op\":\"gemm_nt\",\"axes\":{\"M\":5,\"N\":40,\"K\":512}}", "k < WARPS; k++)", "k < WARPS - 1; k++)"},
        {"{\"op\":\"gemm_nt\",\"axes\":{\"M\":5,\"N\":40,\"K\":512}}", "a[u][t][0].z, a[u][t][1].z", "a[u][t][1].z, a[u][t][0].z"},
        {"{\"op\":\"gemm_nt\",\"axes\":{\"M\":5,\"N\":40,\"K\":512}}", "i < M * ROWS;", "i < M * ROWS - 1;"},
        {"{\"op\":\"gqa_decode\",\"axes\":{\"B\":3,\"HQ\":4,\"HK\":2,\"d\":64,\"T\":100}}", "i / 2 * 8 < end ?", "i / 2 * 8 <= end ?"},
        {"{\"op\":\"gqa_decode\",\"axes\":{\"B\":40,\"HQ\":8,\"HK\":4,\"d\":16,\"T\":200}}", "s.out[c][j][t][i] *= factor;", ""},
        {"{\"op\":\"gqa_decode\",\"axes\":{\"B\":3,\"HQ\":4,\"HK\":2,\"d\":64,\"T\":100}}", "total > 0 ? sum / total : 0.0f", "sum / total"},
        {"{\"op\":\"gqa_decode\",\"axes\":{\"B\":3,\"HQ\":4,\"HK\":2,\"d\":64,\"T\":100}}", "w < WARPS; w++) {", "w < WARPS - 1; w++) {"},
        {"{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":32,\"V\":32}}", "warp_sum(sum) / V + norm_eps", "warp_sum(sum) / V"},
        {"{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":32,\"V\":32}}", "values[w + 1];", "values[w];"},
        {"{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":32,\"V\":32}}", "* K + x, held[r][i]);", "* K + x, __half2float(__float2half_rn(held[r][i])));"},
        {"{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":3,\"H\":1,\"HV\":2,\"K\":32,\"V\":32}}", "float u = (v[r] - warp_sum(sum)) * beta;", "float u = (v[r] - warp_sum(sum)) * beta * 0.98f;"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        if (!only || strstr(mistakes[i].shape, only))
            test_mistake(mistakes[i].shape, mistakes[i].from, mistakes[i].to);
}

/* ---- templates ---- */

/* The defaults, each parameter at each of its values with the others as near to the defaults as the constraints allow, and a few at random. */
static bool test_template(const struct template *t, const struct shape *s, const char *shape, int at_random)
{
    struct setting *list;
    struct err err = {0};
    int count, regimes[INPUTS_MAX_REGIMES], regime_count = inputs_regime_count(s->op);
    for (int r = 0; r < regime_count; r++)
        regimes[r] = r;
    check(template_settings(t, s, &list, &count, &err));
    if (!count)
        return false;
    cleanup(mem) void *memory = xalloc((size_t)count + 1);
    uint8_t *chosen = memory;
    int first = template_default(t, s, list, count);
    for (int d = 0; d < t->param_count; d++)
        for (int v = 0; v < t->params[d].count; v++) {
            int best = -1, best_distance = 0;
            for (int i = 0; i < count; i++) {
                int distance = 0;
                for (int k = 0; k < t->param_count; k++)
                    distance += abs(list[i].at[k] - list[first].at[k]);
                if (list[i].at[d] == v && (best < 0 || distance < best_distance)) {
                    best = i;
                    best_distance = distance;
                }
            }
            if (best >= 0)
                chosen[best] = 1;
        }
    for (int i = 0; i < at_random; i++)
        chosen[rng_below(3, 1, (uint64_t)i, (uint64_t)count)] = 1;
    for (int i = 0; i < count; i++) {
        if (!chosen[i])
            continue;
        cleanup(json) json_t *doc = template_candidate(t, &list[i]), *params = template_params(t, &list[i]);
        cleanup(str) char *text = json_text(params), *what = xfmt("%s %s %s", shape, t->name, text);
        /* the defaults on every regime, the others on the first two and one more in turn */
        const int some[] = {0, 1, 2 + i % (regime_count - 2)};
        test_candidate(what, s, doc, i == first ? regimes : some, i == first ? regime_count : 3);
    }
    free(list);
    return true;
}

static void test_templates(void)
{
    static const struct { const char *shape; int at_random; } cases[] = {
        {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":2,\"H\":1,\"HV\":2,\"K\":128,\"V\":128}}", 4},
        {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":3,\"H\":1,\"HV\":1,\"K\":64,\"V\":32,\"qkv_stride\":168,\"slots\":3},\"dtypes\":{\"io\":\"f32\",\"state\":\"bf16\"}}", 4},
        {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":1,\"H\":1,\"HV\":1,\"K\":48,\"V\":48},\"dtypes\":{\"io\":\"f16\",\"state\":\"f16\"}}", 2},
        {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":5,\"N\":3072,\"weight_offset\":1}}", 4},
        {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":3,\"N\":1000},\"dtypes\":{\"io\":\"f32\"}}", 3},
        {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":9,\"N\":33},\"dtypes\":{\"io\":\"f16\"}}", 2},
        {"{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":33,\"N\":128}}", 4},
        {"{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":3,\"N\":1000},\"dtypes\":{\"io\":\"f32\"}}", 3},
        {"{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":5,\"N\":33},\"dtypes\":{\"io\":\"f16\"}}", 2},
        {"{\"op\":\"silu_and_mul\",\"axes\":{\"R\":9,\"N\":1024}}", 4},
        {"{\"op\":\"silu_and_mul\",\"axes\":{\"R\":3,\"N\":1004},\"dtypes\":{\"io\":\"f32\"}}", 3},
        {"{\"op\":\"silu_and_mul\",\"axes\":{\"R\":2,\"N\":33},\"dtypes\":{\"io\":\"f16\"}}", 2},
        {"{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":5,\"N\":1000,\"weight_offset\":1}}", 1},
        {"{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":5,\"N\":1000}}", 1},
        {"{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":2,\"H\":1,\"HV\":2,\"K\":64,\"V\":64}}", 0},
        {"{\"op\":\"gqa_decode\",\"axes\":{\"B\":2,\"HQ\":12,\"HK\":1,\"d\":64,\"T\":70},\"dtypes\":{\"io\":\"f16\"}}", 0},
        {"{\"op\":\"gqa_decode\",\"axes\":{\"B\":2,\"HQ\":6,\"HK\":2,\"d\":48,\"T\":66}}", 0},
        {"{\"op\":\"gemm_nt\",\"axes\":{\"M\":3,\"N\":40,\"K\":264}}", 0},
        {"{\"op\":\"gemm_nt\",\"axes\":{\"M\":17,\"N\":32,\"K\":512},\"dtypes\":{\"io\":\"f16\"}}", 0},
        {"{\"op\":\"topk_softmax\",\"axes\":{\"R\":9,\"E\":256,\"k\":8}}", 2},
        {"{\"op\":\"topk_softmax\",\"axes\":{\"R\":3,\"E\":128,\"k\":5},\"dtypes\":{\"io\":\"f32\"}}", 1},
        {"{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":9,\"C\":328}}", 2},
        {"{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":2,\"C\":36,\"W\":2},\"dtypes\":{\"io\":\"f32\"}}", 0},
        {"{\"op\":\"rope_neox\",\"axes\":{\"B\":5,\"HQ\":7,\"HK\":2,\"d\":72,\"rot\":64}}", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shape s;
        struct err err = {0};
        cleanup(template_set) struct template_set set = {0};
        if (only && !strstr(cases[i].shape, only))
            continue;
        shape_of(cases[i].shape, &s);
        check(template_set_load(s.op, &set, &err) && set.count > 0);
        check_str(err.text, "");
        bool fits = false;
        for (int t = 0; t < set.count; t++)
            fits |= test_template(&set.list[t], &s, cases[i].shape, cases[i].at_random);
        check(fits);
    }
}

int main(int argc, char **argv)
{
    struct err err = {0};
    hash_init();
    only = argc > 2 ? argv[2] : NULL;
    if (!toolkit_find(NULL, &toolkit, &err))
        test_skip(err.text);
    if (!op_set_load(OPS_DIR, &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (argc < 2 || !strcmp(argv[1], "baselines"))
        test_baselines();
    if (argc < 2 || !strcmp(argv[1], "golden"))
        test_golden();
    if (argc < 2 || !strcmp(argv[1], "mistakes"))
        test_mistakes();
    if (argc < 2 || !strcmp(argv[1], "templates"))
        test_templates();
    printf("%d candidates compiled, %d launches emulated\n", compiled, launched);
    op_set_done(&ops);
    return test_done();
}

/*
 * Estimates of many candidates: each is compiled, assembled, scanned, run once in the emulator, and estimated. No result is looked at
 * and no verdict given: this is for a search that wants to know where to look, and costs no card. All in the same children as a
 * judgement's, since nobody has looked at the candidates either. Inputs come from a fixed seed: the same setting, the same estimate.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <string.h>

#define SEED UINT64_C(0x9e3779b97f4a7c15)

static bool build(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    if (!run_start(j, s, SANDBOX_RUN_SIM, err) || !regime_make(j, 0, err))
        return false;
    STEP(compile_take(j, s, v, err));
    STEP(assemble_start(j, s, v, err));
    STEP(phase_scan(j, v, err));
    return assemble_take(j, s, v, err);
}

static bool run_and_estimate(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    const struct run_order o = {.regime = 0,
                                .poison = j->poison[0],
                                .schedule_seed = SEED & ~PTX_SEED_DESCENDING,
                                .place = DEVICE_AT_START,
                                .instruction_limit = (uint64_t)LIMIT_THREAD_INSTRUCTIONS};
    j->sim_wall_ns = LIMIT_ESTIMATE_WALL_NS;
    STEP(run_open(j, s, "sim", v, err));
    STEP(run_load(j, s, false, "emulate", v, err));
    STEP(run_inputs(j, s, 0, "emulate", v, err));
    STEP(run_ask(j, s, &o, "emulate", v, err));
    STEP(run_take(j, s, "emulate", v, err));
    return run_estimate(j, s, err);
}

static bool estimate_one(const struct judge_config *config, const json_t *task, judge_cancelled_fn *cancelled, void *ctx, json_t **ret,
                         struct err *err)
{
    cleanup(judge) struct judge *j = judge_new(config, NULL, cancelled, ctx);
    cleanup(verdict) struct verdict v = {.code = VERDICT_OK};
    struct judge_side *s = &j->sides[CANDIDATE];
    j->task = task;
    if (!judge_begin(j, err))
        return false;
    j->phase = json_object();
    json_array_append_new(j->phases, j->phase);
    if (!phase_admit(j, &v, err))
        return false;
    j->regimes[0].seed = SEED;
    if (v.code == VERDICT_OK && s->candidate.language != LANGUAGE_CUDA)
        verdict_set(&v, VERDICT_REJECTED_PLAN, "admit", "only templates' settings are estimated so");
    if (v.code == VERDICT_OK && !build(j, s, &v, err))
        return false;
    if (v.code == VERDICT_OK && !run_and_estimate(j, s, &v, err))
        return false;
    json_t *doc = json_object();
    json_put(doc, "ns", v.code == VERDICT_OK ? json_real(s->estimate_ns) : json_null());
    if (v.code != VERDICT_OK)
        json_put(doc, "why", json_sprintf("%s in %s", verdict_name(v.code), v.phase));
    if (s->resources)
        json_put(doc, "resources", json_incref(s->resources));
    *ret = doc;
    return true;
}

bool judge_estimates(const struct judge_config *config, const json_t *request, judge_cancelled_fn *cancelled, void *ctx, json_t **ret,
                     struct err *err)
{
    const json_t *list = json_object_get(request, "candidates");
    struct judge_config here = *config;
    cleanup(json) json_t *answers = json_array();
    size_t i;
    json_t *candidate;
    here.device = "sim";
    here.threads = 1;                   /* several of these run beside each other */
    if (!json_is_array(list) || json_array_size(list) > LIMIT_ESTIMATES)
        return err_set(err, ERR_INVALID, "/candidates: a list of at most %d is needed", (int)LIMIT_ESTIMATES);
    json_array_foreach(list, i, candidate) {
        cleanup(json) json_t *task = json_object();
        json_t *one = NULL;
        json_put(task, "shape", json_incref(json_object_get(request, "shape")));
        if (json_str(request, "op_digest", NULL))
            json_put_str(task, "op_digest", json_str(request, "op_digest", ""));
        json_put(task, "candidate", json_incref(candidate));
        json_put_str(task, "mode", "triage");
        if (!estimate_one(&here, task, cancelled, ctx, &one, err))
            return false;
        json_array_append_new(answers, one);
    }
    *ret = json_pack("{s:O}", "estimates", answers);
    return true;
}

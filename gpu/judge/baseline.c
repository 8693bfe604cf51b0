/* An operator's baseline on given inputs: what golden files are compared with, and canaries. The same children as in a judgement. */
#include "gpu/judge/internal.h"

#include <string.h>

/* In place of a regime's own. */
static bool take_inputs(struct judge *j, int r, void *const *inputs, struct err *err)
{
    struct judge_regime *g = &j->regimes[r];
    if (!shared_make(SHARED_INPUTS, j->op, j->tensors, &g->in, err))
        return false;
    for (int t = 0; t < j->op->tensor_count; t++)
        if (inputs[t])
            g->inputs[t] = memcpy(g->in.base + g->in.offsets[t], inputs[t], (size_t)j->tensors[t].bytes);
    g->made = g->referenced = true;
    return true;
}

static bool outputs_of(struct judge *j, int count, void *const (*inputs)[OP_MAX_TENSORS], void *(*outputs)[OP_MAX_TENSORS], struct verdict *v,
                       struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    STEP(phase_admit(j, v, err));
    for (int r = 0; r < count; r++)
        if (!take_inputs(j, r, inputs[r], err))
            return false;
    j->keep_regimes = false;            /* no inputs of our own are wanted */
    STEP(phase_compile(j, v, err));
    STEP(phase_assemble(j, v, err));
    if (j->on_card && !run_start(j, s, SANDBOX_RUN_CUDA, err))
        return false;
    STEP(run_open(j, s, j->device, v, err));
    STEP(run_load(j, s, j->on_card, "emulate", v, err));
    for (int r = 0; r < count; r++) {
        STEP(run_inputs(j, s, r, "emulate", v, err));
        const struct run_order o = {.regime = r, .poison = j->poison[0], .place = DEVICE_AT_END, .check_races = true,
                                    .instruction_limit = (uint64_t)LIMIT_THREAD_INSTRUCTIONS};
        STEP(run_once(j, s, &o, "emulate", v, err));
        if (s->sampled)
            return err_set(err, ERR_UNAVAILABLE, "too large to be emulated whole: a sample of its blocks gives no outputs to compare with");
        for (int t = 0; t < j->op->tensor_count; t++)
            if (s->outputs[t])
                memcpy(outputs[r][t], s->outputs[t], (size_t)j->tensors[t].bytes);
    }
    return true;
}

bool judge_baseline_outputs(const struct judge_config *config, const struct shape *shape, int count, void *const (*inputs)[OP_MAX_TENSORS],
                            void *(*outputs)[OP_MAX_TENSORS], struct err *err)
{
    cleanup(judge) struct judge *j = judge_new(config, NULL, NULL, NULL);
    cleanup(verdict) struct verdict v = {.code = VERDICT_OK};
    cleanup(json) json_t *candidate = NULL, *task = json_object();
    if (!candidate_load(shape->op->dir, "baseline", &candidate, err))
        return false;
    json_put(task, "shape", shape_encode(shape));
    json_put(task, "candidate", steal(&candidate));
    j->task = task;
    j->exact_axes = true;
    j->phase = json_object();           /* the phases' figures are of no use here */
    json_array_append_new(j->phases, j->phase);
    if (!judge_begin(j, err) || !outputs_of(j, count, inputs, outputs, &v, err))
        return false;
    if (v.code != VERDICT_OK)
        return err_set(err, ERR_UNPROCESSABLE, "the baseline of %s: %s: %s", shape->op->name, verdict_name(v.code), v.text);
    return true;
}

/* The child's end of a profile: the card's counters as lists of numbers, step by step; null for what is not known. */
#include "gpu/judge/child.h"

#include <math.h>

bool child_do_profile(struct child_state *s, const json_t *job, struct err *err)
{
    const struct device_profile how = {.tensors = (const void *const *)s->inputs, .poison = child_u64(job, "poison")};
    struct device_profile_result seen = {0};
    cleanup(device_fault) struct device_fault fault = {0};
    if (!child_loaded(s, err))
        return false;
    if (!s->ops->profile)
        return err_set(err, ERR_UNAVAILABLE, "a device of kind %s has no counters", s->ops->kind);
    if (!s->ops->profile(s->program, &how, &seen, &fault, err))
        return false;
    json_t *doc = json_object(), *steps = json_array();
    json_put(doc, "fault", child_fault_encode(&fault));
    json_put_int(doc, "passes", seen.passes);
    json_put_int(doc, "flush_bytes", seen.flush_bytes);
    for (int i = 0; i < seen.step_count && i < PLAN_MAX_STEPS; i++) {
        json_t *step = json_array();
        for (int k = 0; k < PROFILE_ITEMS; k++)
            json_array_append_new(step, isfinite(seen.steps[i][k]) ? json_real(seen.steps[i][k]) : json_null());
        json_array_append_new(steps, step);
    }
    json_put(doc, "steps", steps);
    return child_answer(doc, err);
}

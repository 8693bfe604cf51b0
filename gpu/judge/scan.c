/* Scan: what the PTX contains, by the table of gpu/ptx. It sorts, it never clears. */
#include "gpu/judge/internal.h"

#include <string.h>

bool phase_scan(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    cleanup(json) json_t *answer = NULL;
    STEP(run_open(j, s, "sim", v, err));
    STEP(run_scan(j, s, &answer, v, err));
    json_t *refused = json_object_get(answer, "refused");
    json_put(j->phase, "flags", json_incref(json_object_get(answer, "flags")));
    json_put(j->phase, "uses", json_incref(json_object_get(answer, "uses")));
    json_put_str(j->phase, "unsupported", json_str(answer, "unsupported", ""));
    if (!json_is_object(refused)) {
        /* The declaration excuses results that differ: it is not to be had for nothing. */
        if (s->candidate.atomics && !json_bool(json_object_get(answer, "uses"), "atomics", true))
            verdict_set(v, VERDICT_REJECTED_PLAN, "scan", "declares atomics, and no instruction of its PTX is one");
        return true;
    }
    cleanup(json) json_t *fault = json_object();
    json_put_str(fault, "code", json_str(refused, "verdict", ""));
    json_put_str(fault, "text", json_str(refused, "text", ""));
    json_put(fault, "detail", json_incref(refused));
    return fault_take(fault, "scan", v, err)
           && (v->code != VERDICT_OK || err_set(err, ERR_UPSTREAM, "the scan refused without a reason"));
}

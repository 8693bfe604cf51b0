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
    /* Who cannot read it has no say in whether it is PTX: the assembler has. */
    const bool unread = strcmp(json_str(refused, "verdict", ""), verdict_name(VERDICT_COMPILE_ERROR)) == 0;
    if (unread && s->assemble_asked) {
        STEP(assemble_take(j, s, v, err));
        verdict_set(v, VERDICT_UNSUPPORTED_ON_SIM, "scan", "the assembler takes this PTX, and what looks through it cannot read it: %.200s", json_str(refused, "text", ""));
        return true;
    }
    cleanup(json) json_t *fault = json_object();
    json_put_str(fault, "code", json_str(refused, "verdict", ""));
    json_put_str(fault, "text", json_str(refused, "text", ""));
    json_put(fault, "detail", json_incref(refused));
    return fault_take(fault, "scan", v, err)
           && (v->code != VERDICT_OK || err_set(err, ERR_UPSTREAM, "the scan refused without a reason"));
}

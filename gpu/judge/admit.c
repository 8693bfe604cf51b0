/* Admit: the candidate's form, and its plan's arithmetic for this shape. Afterwards the candidate is frozen: seeds are drawn. */
#include "gpu/judge/internal.h"

#include <string.h>

/* In a trace of launches a name that begins so is the harness's own. */
static bool names_are_free(const struct plan *p, char *why, size_t size)
{
    for (int i = 0; i < p->step_count; i++)
        if (!p->steps[i].is_memset && strncmp(p->steps[i].kernel, AUDIT_OURS, strlen(AUDIT_OURS)) == 0)
            return snprintf(why, size, "step %d: the name %.80s begins with %s, which is not for kernels of a plan", i, p->steps[i].kernel, AUDIT_OURS), false;
    return true;
}

/*
 * Blocks of a cooperative launch wait for one another, so all must be resident: a card refuses it otherwise, and its emulation would take long
 * to end in the same. By threads and dynamic shared memory alone; registers and static shared memory may leave room for fewer still.
 */
static bool grids_fit(const struct judge *j, const struct plan *p, char *why, size_t size)
{
    const struct ptx_device_row *row = j->on_card || !p->cooperative ? NULL : ptx_device_find(j->shape.target);
    for (int i = 0; row && i < p->step_count; i++) {
        const struct plan_step *s = &p->steps[i];
        if (s->is_memset)
            continue;
        const int64_t threads = (int64_t)s->block[0] * s->block[1] * s->block[2], warps = (threads + 31) / 32;
        const int64_t blocks = (int64_t)s->grid[0] * s->grid[1] * s->grid[2];
        const int64_t most[] = {row->max_blocks_sm, row->max_warps_sm / warps, row->max_threads_sm / (warps * 32),
                                s->shared_bytes ? (int64_t)(row->shared_bytes_sm / s->shared_bytes) : row->max_blocks_sm};
        int64_t least = most[0];
        for (size_t n = 1; n < sizeof most / sizeof *most; n++)
            least = most[n] < least ? most[n] : least;
        if (blocks > least * row->sm_count)
            return snprintf(why, size, "a cooperative launch of %lld blocks of %.80s, of which a card of %d multiprocessors holds at most %lld at once",
                            (long long)blocks, s->kernel, row->sm_count, (long long)(least * row->sm_count)), false;
    }
    return true;
}

static bool admit_side(struct judge *j, struct judge_side *s, const json_t *doc, struct verdict *v, struct err *err)
{
    struct faults f = {0};
    char why[400];
    s->present = true;
    if (!candidate_parse(doc, "", &s->candidate, &f)) {
        verdict_set(v, VERDICT_REJECTED_PLAN, "admit", "%s: %s", f.list[0].pointer[0] ? f.list[0].pointer : "/",
                    f.list[0].detail);
        return side_verdict(j, s, v, err);
    }
    if (!plan_resolve(&s->candidate, &j->shape, &s->plan, why, sizeof why) || !names_are_free(&s->plan, why, sizeof why)
             || !candidate_options(&s->candidate, &j->shape, &s->options, why, sizeof why)
        || (s->candidate.language == LANGUAGE_TRITON
            && !candidate_triton(&s->candidate, &j->shape, &s->plan, &s->triton_request, why, sizeof why)))
        verdict_set(v, VERDICT_REJECTED_PLAN, "admit", "%s", why);
    else
        s->plan_doc = plan_encode(&s->plan, &j->shape);
    if (v->code == VERDICT_OK && !range_plan(j, s, why, sizeof why))
        verdict_set(v, VERDICT_REJECTED_PLAN, "admit", "%s", why);
    if (v->code == VERDICT_OK && !grids_fit(j, &s->plan, why, sizeof why))
        verdict_set(v, VERDICT_RESOURCE_LIMIT, "admit", "%s", why);
    return side_verdict(j, s, v, err);
}

/* What both sides have in common is too large for the children: ours to say, not a verdict. */
/* Without a card its figures are a table's: an estimate for a target that is not in it would be one of another card. */
static bool check_target(const struct judge *j, struct err *err)
{
    cleanup(buf) struct buf targets = {0};
    if (j->on_card || ptx_device_find(j->shape.target))
        return true;
    ptx_device_targets(&targets);
    return err_set(err, ERR_UNPROCESSABLE, "no figures of a card of target %s are known; targets with a device row: %s",
                   j->shape.target, buf_cstr(&targets));
}

bool phase_admit(struct judge *j, struct verdict *v, struct err *err)
{
    const json_t *baseline = json_object_get(j->task, "baseline");
    if (!check_target(j, err))
        return false;
    range_draw(j);
    STEP(admit_side(j, &j->sides[CANDIDATE], json_object_get(j->task, "candidate"), v, err));
    if (baseline && !json_is_null(baseline))
        STEP(admit_side(j, &j->sides[BASELINE], baseline, v, err));
    regimes_plan(j);
    json_put_int(j->phase, "source_bytes", (int64_t)j->sides[CANDIDATE].candidate.source_bytes);
    json_put_int(j->phase, "steps", j->sides[CANDIDATE].plan.step_count);
    return true;
}

/* Time: on sim the estimates of both sides; on a card the paired measurement of measure.c. */
#include "gpu/judge/internal.h"

#include <string.h>

void timing_done(struct judge_timing *t)
{
    json_decref(t->record);
    json_decref(t->samples);
    free(t->pairs);
    *t = (struct judge_timing){0};
}

static json_t *estimate_record(const struct judge_side *s)
{
    json_t *doc = json_object();
    json_put_num(doc, "ns", s->estimate_ns);
    json_put(doc, "terms", s->estimate_terms ? json_incref(s->estimate_terms) : json_null());
    return doc;
}

#define ESTIMATE_MARGIN 0.02    /* an estimate that differs by less says nothing: it is not so good */

static enum stats_decision estimate_decision(double ratio)
{
    return ratio > 1 + ESTIMATE_MARGIN ? STATS_FASTER : ratio < 1 / (1 + ESTIMATE_MARGIN) ? STATS_SLOWER : STATS_SAME_SPEED;
}

/* An estimate has no noise: its interval is a point. */
static bool estimate(struct judge *j, struct judge_timing *ret, struct err *err)
{
    const struct judge_side *mine = &j->sides[CANDIDATE], *base = j->sides[BASELINE].present ? &j->sides[BASELINE] : mine;
    if (!(mine->estimate_ns > 0) || !(base->estimate_ns > 0))
        return err_set(err, ERR_INTERNAL, "there is no estimate to compare");
    double ratio = base->estimate_ns / mine->estimate_ns;
    *ret = (struct judge_timing){
        .candidate_ns = mine->estimate_ns, .baseline_ns = base->estimate_ns, .speedup = {ratio, ratio, ratio},
        .decision = estimate_decision(ratio), .record = json_object(),
    };
    json_put_str(ret->record, "mode", "estimate");
    json_put_num(ret->record, "margin", ESTIMATE_MARGIN);
    json_put(ret->record, "candidate", estimate_record(mine));
    if (base != mine)
        json_put(ret->record, "baseline", estimate_record(base));
    return true;
}

bool time_occasion(struct judge *j, enum judge_mode effort, struct judge_timing *ret, struct verdict *v, struct err *err)
{
    return j->on_card ? measure(j, effort, ret, v, err) : estimate(j, ret, err);
}

bool timing_verdict(struct judge *j, const struct judge_timing *t, const char *phase, struct verdict *v)
{
    if (!j->sides[BASELINE].present || t->decision == STATS_FASTER)
        return true;
    if (t->decision == STATS_UNCLEAR)
        verdict_set(v, VERDICT_UNCLEAR, phase, "%.4g times the baseline's speed, between %.4g and %.4g: not settled",
                    t->speedup.median, t->speedup.low, t->speedup.high);
    else if (t->decision == STATS_SAME_SPEED)
        verdict_set(v, VERDICT_NOT_FASTER, phase, "As fast as the baseline: %.0f ns%s.", t->candidate_ns,
                    t->measured ? "" : ", as far as an estimate can tell (estimated)");
    else
        verdict_set(v, VERDICT_NOT_FASTER, phase, "%.0f ns, the baseline takes %.0f ns%s.", t->candidate_ns,
                    t->baseline_ns, t->measured ? "" : " (both estimated)");
    return false;
}

/* Slow or not, its figures and the roofline are worth having: the verdict on speed is given by the next phase. */
bool phase_time(struct judge *j, struct verdict *v, struct err *err)
{
    /* Before a retest this figure only says whether there is anything to confirm. */
    STEP(time_occasion(j, j->mode == MODE_RETEST ? MODE_TRIAGE : j->mode, &j->timing, v, err));
    if (j->on_card && j->mode != MODE_TRIAGE)
        STEP(modes_eager(j, v, err));
    json_put_num(j->phase, "candidate_ns", j->timing.candidate_ns);
    json_put_num(j->phase, "baseline_ns", j->timing.baseline_ns);
    json_put(j->phase, "figures", json_incref(j->timing.record));
    return true;
}

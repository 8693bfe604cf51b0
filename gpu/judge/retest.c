/*
 * Retest: the best of a search has won a lottery among noisy figures and has met its seeds. Here everything is fresh, on a card
 * three times: processes, seeds, data, order. What is published is the median of the retests, never the figure that won.
 *
 * Each occasion leaves the processes it ran in, its seeds, poisons and buffers, read from where they are used: core/certificate.h
 * asserts from the certificate alone that none of them served before.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"

#define MOST_OCCASIONS 3
#define MOST_LOSS 0.05

static void fresh(struct judge *j)
{
    for (int i = 0; i < SIDES; i++)
        child_done(&j->sides[i].run);
    child_done(&j->reference);
    card_release(j);            /* until its next processes are there, somebody else may use it */
    regimes_plan(j);
}

/* What the round of correctness has noted becomes the occasion's own. */
static void take_round(struct judge *j, json_t *doc)
{
    static const char *const keys[] = {"regimes", "poisons", "yardstick", "canaries", "sampled"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(j->phase, keys[i]);
        if (value)
            json_object_set(doc, keys[i], value);
        json_object_del(j->phase, keys[i]);
    }
    json_put(doc, "processes", processes_encode(j));
}

static json_t *occasion_record(struct judge *j, const struct judge_timing *t)
{
    json_t *doc = json_object();
    take_round(j, doc);
    json_put_num(doc, "candidate_ns", t->candidate_ns);
    json_put_num(doc, "baseline_ns", t->baseline_ns);
    json_put(doc, "ratio",
             json_pack("{s:f,s:f,s:f}", "median", t->speedup.median, "low", t->speedup.low, "high", t->speedup.high));
    json_put_str(doc, "decision", stats_decision_name(t->decision));
    json_put(doc, "figures", json_incref(t->record));
    return doc;
}

struct timings { int count; struct judge_timing list[MOST_OCCASIONS]; };
static void timings_done(struct timings *t)
{
    for (int i = 0; i < t->count; i++)
        timing_done(&t->list[i]);
}
DEFINE_CLEANUP(timings, struct timings, timings_done(it))

static int median_of(const struct timings *t)
{
    for (int i = 0; i < t->count; i++) {
        int below = 0, above = 0;
        for (int k = 0; k < t->count; k++) {
            below += t->list[k].speedup.median < t->list[i].speedup.median;
            above += t->list[k].speedup.median > t->list[i].speedup.median;
        }
        if (below <= t->count / 2 && above <= t->count / 2)
            return i;
    }
    return 0;
}

bool phase_retest(struct judge *j, struct verdict *v, struct err *err)
{
    cleanup(timings) struct timings t = {0};
    int occasions = j->on_card ? MOST_OCCASIONS : 1;
    json_t *records = json_array();
    json_put(j->phase, "occasions", records);
    for (int i = 0; i < occasions; i++) {
        fresh(j);
        STEP(correct_round(j, v, err));
        STEP(time_occasion(j, MODE_RETEST, &t.list[t.count], v, err));
        t.count++;
        json_array_append_new(records, occasion_record(j, &t.list[i]));
    }
    int at = median_of(&t);
    double found = j->timing.speedup.median, kept = t.list[at].speedup.median;
    json_put_num(j->phase, "ratio_before", found);
    json_put_num(j->phase, "ratio", kept);
    json_put_int(j->phase, "published", at);
    timing_done(&j->timing);
    j->timing = t.list[at];
    t.list[at] = (struct judge_timing){0};
    STEP(plausible_check(j, v, err));   /* the figure that is published must be possible too */
    if (!j->sides[BASELINE].present)
        return true;
    if (kept < found * (1 - MOST_LOSS) || !timing_verdict(j, &j->timing, "retest", v)) {
        verdict_done(v);
        verdict_set(v, VERDICT_NOT_CONFIRMED, "retest", "%.4g times the baseline's speed before, %.4g in the retest",
                    found, kept);
    }
    return true;
}

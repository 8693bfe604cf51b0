/*
 * Retest: the best of a search has won a lottery among noisy figures and has met its seeds. Here everything is fresh, on a card
 * three times: processes, seeds, data, order, and another card where one is free (cards.c). What is published is all of the retest's pairs taken together (pool.c), never the figure
 * that won; that one is noted, and decides nothing.
 *
 * Each occasion leaves the processes it ran in, its seeds, poisons and buffers, read from where they are used: core/certificate.h
 * asserts from the certificate alone that none of them served before.
 */
#include "core/certificate.h"
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <string.h>

#define MOST_OCCASIONS CERTIFICATE_OCCASIONS

static void fresh(struct judge *j, const json_t *home)
{
    for (int i = 0; i < SIDES; i++)
        child_done(&j->sides[i].run);
    child_done(&j->reference);
    json_decref(j->ended);
    j->ended = NULL;
    card_release(j);            /* until its next processes are there, somebody else may use it */
    regimes_plan(j);
    cards_choose(j, home);
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
    json_put(doc, "processes", j->ended ? json_incref(j->ended) : processes_encode(j));
}

static json_t *occasion_record(struct judge *j, const struct judge_timing *t)
{
    json_t *doc = json_object();
    take_round(j, doc);
    json_put(doc, "device", card_identity(j->sides[CANDIDATE].info));
    if (j->why_this_card[0])
        json_put_str(doc, "why_this_card", j->why_this_card);
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
    cleanup(json) json_t *home = json_incref(j->sides[CANDIDATE].info);
    int occasions = j->on_card ? MOST_OCCASIONS : 1;
    json_t *records = json_array();
    json_put(j->phase, "occasions", records);
    for (int i = 0; i < occasions; i++) {
        fresh(j, home);
        STEP(correct_round(j, v, err));
        STEP(time_occasion(j, MODE_RETEST, &t.list[t.count], v, err));
        t.count++;
        json_array_append_new(records, occasion_record(j, &t.list[i]));
    }
    int at = median_of(&t);
    const double found = j->timing.speedup.median;
    struct judge_timing pooled;
    timings_pool(t.list, t.count, at, random_u64(), &pooled);
    timing_done(&j->timing);
    j->timing = pooled;
    if (!j->sides[BASELINE].present)
        j->timing.baseline_ns = j->timing.candidate_ns, j->timing.speedup = (struct stats_interval){1, 1, 1};
    const double kept = j->timing.speedup.median;
    json_put_num(j->phase, "ratio_before", found);
    json_put_num(j->phase, "ratio", kept);
    json_put_bool(j->phase, "other_card", strcmp(json_str(home, "uuid", ""), json_str(j->sides[CANDIDATE].info, "uuid", "")) != 0);
    json_put_str(j->phase, "published", j->timing.measured ? "pooled" : "estimate");
    json_put_str(j->phase, "decision", j->sides[BASELINE].present ? stats_decision_name(j->timing.decision) : "baseline");
    STEP(plausible_check(j, v, err));   /* the figure that is published must be possible too */
    if (!j->sides[BASELINE].present)
        return true;
    if (v->code == VERDICT_OK && !timing_verdict(j, &j->timing, "retest", v)) {
        verdict_done(v);
        verdict_set(v, VERDICT_NOT_CONFIRMED, "retest", "%.4g times the baseline's speed in the retest, between %.4g and %.4g; %.4g before", kept,
                    j->timing.speedup.low, j->timing.speedup.high, found);
    }
    return true;
}

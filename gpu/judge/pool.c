/*
 * The published figure: all pairs of all occasions of a retest, as one measurement. An occasion's level may be its own (another process,
 * other addresses), which the blocks within it do not show: so the interval reaches at least from the slowest occasion's median to the
 * fastest's, and `faster` stands only where that whole interval does.
 */
#include "gpu/judge/internal.h"

#include <string.h>

/* Whole blocks of each occasion, numbered on; as many as fit evenly. */
static int gather(const struct judge_timing *list, int count, struct stats_pair *to)
{
    int kept = 0, block = 0;
    for (int k = 0; k < count; k++) {
        const struct judge_timing *t = &list[k];
        int most = STATS_MAX_PAIRS / count, take = t->pair_count;
        while (take > 0 && (take > most || (take < t->pair_count && t->pairs[take].block == t->pairs[take - 1].block)))
            take--;
        for (int i = 0; i < take; i++) {
            block += i == 0 ? k > 0 : t->pairs[i].block != t->pairs[i - 1].block;
            to[kept] = t->pairs[i];
            to[kept++].block = block;
        }
    }
    return kept;
}

static void append(json_t *to, const json_t *from, const char *key)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(from, key), i, one)
        json_array_append(json_object_get(to, key), one);
}

static void widen(struct stats_interval *v, const struct judge_timing *list, int count)
{
    for (int k = 0; k < count; k++) {
        v->low = list[k].speedup.median < v->low ? list[k].speedup.median : v->low;
        v->high = list[k].speedup.median > v->high ? list[k].speedup.median : v->high;
    }
}

void timings_pool(struct judge_timing *list, int count, int at, uint64_t seed, struct judge_timing *ret)
{
    struct judge_timing t = list[at];
    cleanup(mem) void *memory = xarray(STATS_MAX_PAIRS + 2, sizeof(struct stats_pair));
    struct stats_pair *pairs = memory;
    list[at] = (struct judge_timing){.speedup = t.speedup};
    static const char *const kept[] = {"baseline", "candidate", "baseline_wall", "candidate_wall"};
    for (int k = 0; k < count && t.measured; k++)
        for (size_t i = 0; k != at && i < sizeof kept / sizeof *kept; i++)
            append(t.samples, list[k].samples, kept[i]);
    struct stats_pair *own = t.pairs;
    list[at].pairs = own, list[at].pair_count = t.pair_count;     /* given back below */
    const int taken = t.measured ? gather(list, count, pairs) : 0;
    list[at].pairs = NULL, list[at].pair_count = 0;
    if (taken) {
        struct stats_result r;
        stats_compare(pairs, taken, seed, &r);
        widen(&r.time, list, count);
        if ((r.decision == STATS_FASTER && r.time.low <= 1) || (r.decision == STATS_SLOWER && r.time.high >= 1))
            r.decision = STATS_UNCLEAR;
        t.candidate = r.candidate, t.baseline = r.base;
        t.candidate_ns = r.candidate.median, t.baseline_ns = r.base.median;
        t.speedup = r.time, t.decision = r.decision;
        json_t *record = json_copy(t.record);           /* the occasion keeps its own */
        json_decref(t.record);
        t.record = record;
        json_put(t.record, "statistics", stats_encode(&r));
        json_put_int(t.record, "occasions_pooled", count);
    }
    *ret = t;
}

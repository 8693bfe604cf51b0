/*
 * The three timers beside each other, as the certificate has them: events around a graph of launches, the wall clock around the same
 * graph, and the tracing library's records of another graph's launches (audit.c). Of each, for both sides: quartiles, the median, and its
 * 99 % interval by ranks, which takes samples for independent; the gain by events is the published one, whose interval doesn't (stats.h).
 */
#include "gpu/judge/internal.h"

static double *numbers(const json_t *list, size_t *ret_count)
{
    double *values = xarray(json_array_size(list) + 1, sizeof *values);
    for (size_t i = 0; i < json_array_size(list); i++)
        values[i] = json_number_value(json_array_get(list, i));
    *ret_count = json_array_size(list);
    return values;
}

static json_t *gain_encode(const struct stats_interval *gain)
{
    json_t *doc = json_object();
    json_put_num(doc, "median", gain->median);
    json_put_num(doc, "low", gain->low);
    json_put_num(doc, "high", gain->high);
    return doc;
}

/* From raw samples, in pairs; gain NULL: that of the pairs. */
static json_t *from_samples(const json_t *samples, const char *mine_key, const char *base_key, bool compared, const struct stats_interval *gain)
{
    size_t mine_count, base_count;
    cleanup(mem) void *mine = numbers(json_object_get(samples, mine_key), &mine_count);
    cleanup(mem) void *base = numbers(json_object_get(samples, base_key), &base_count);
    json_t *doc = json_object();
    struct stats_timer t;
    if (!mine_count)
        return doc;
    stats_timer_of(mine, (int)mine_count, &t);
    json_put(doc, "candidate", stats_timer_encode(&t));
    if (!compared || base_count != mine_count)
        return doc;
    stats_timer_of(base, (int)base_count, &t);
    json_put(doc, "baseline", stats_timer_encode(&t));
    cleanup(mem) void *memory = xarray(mine_count, sizeof(double));
    double *ratios = memory;
    for (size_t i = 0; i < mine_count; i++)
        ratios[i] = ((double *)base)[i] / ((double *)mine)[i];
    stats_timer_of(ratios, (int)mine_count, &t);
    json_put(doc, "gain", gain_encode(gain ? gain : &t.median));
    return doc;
}

void timers_put_records(struct judge *j, const struct audit_report *mine, const struct audit_report *base)
{
    json_t *doc = json_object();
    if (!mine->graph.count || (base && !base->graph.count)) {
        json_decref(doc);
        return;
    }
    json_put(doc, "candidate", stats_timer_encode(&mine->graph));
    if (base) {          /* of two processes, so in no pairs: as wide as both intervals allow */
        const struct stats_interval *a = &mine->graph.median, *b = &base->graph.median;
        const struct stats_interval gain = {b->median / a->median, b->low / a->high, b->high / a->low};
        json_put(doc, "baseline", stats_timer_encode(&base->graph));
        json_put(doc, "gain", gain_encode(&gain));
    }
    json_decref(j->records);
    j->records = doc;
}

json_t *timers_encode(const struct judge *j)
{
    const struct judge_timing *t = &j->timing;
    const bool compared = j->sides[BASELINE].present;
    json_t *doc = json_object();
    if (!t->measured) {
        json_decref(doc);
        return json_null();
    }
    json_put_str(doc, "unit", "ns a launch of the plan");
    json_put_num(doc, "confidence", STATS_CONFIDENCE);
    json_put(doc, "events", from_samples(t->samples, "candidate", "baseline", compared, &t->speedup));
    json_put(doc, "wall_clock", from_samples(t->samples, "candidate_wall", "baseline_wall", compared, NULL));
    json_put(doc, "records", j->records ? json_incref(j->records) : json_null());
    return doc;
}

/* What a measurement leaves behind: its record for the certificate, and its raw samples. */
#include "gpu/judge/measure.h"

#include <math.h>

void pairs_done(struct pairs *p)
{
    free(p->list);
}

void pairs_make(struct pairs *p)
{
    *p = (struct pairs){0, xarray(STATS_MAX_PAIRS + 2, sizeof *p->list)};
}

json_t *samples_encode(const struct session *x, const struct pairs *p)
{
    json_t *doc = json_object(), *base = json_array(), *mine = json_array(), *base_wall = json_array(), *mine_wall = json_array();
    const double launches = x->mine.launches;
    for (int i = 0; i < p->count; i++) {
        json_array_append_new(base_wall, json_real(round((p->list[i].base_ns + p->list[i].base_beyond_ns / launches) * 10) / 10));
        json_array_append_new(mine_wall, json_real(round((p->list[i].candidate_ns + p->list[i].candidate_beyond_ns / launches) * 10) / 10));
        json_array_append_new(base, json_real(round(p->list[i].base_ns * 10) / 10));
        json_array_append_new(mine, json_real(round(p->list[i].candidate_ns * 10) / 10));
    }
    json_put_str(doc, "unit", "ns per launch");
    json_put_int(doc, "launches", x->mine.launches);
    json_put(doc, "baseline", base);
    json_put(doc, "candidate", mine);
    json_put(doc, "baseline_wall", base_wall);
    json_put(doc, "candidate_wall", mine_wall);
    return doc;
}

json_t *spent_encode(const struct session *x)
{
    static const char *const part_names[PARTS] = {"calibrate", "set_up", "warm_up", "watch", "control", "pairs", "outputs"};
    json_t *doc = json_object();
    for (int i = 0; i < PARTS; i++)
        json_put_int(doc, part_names[i], x->spent_ns[i]);
    return doc;
}

static json_t *clock_encode(const struct pairs *p, bool base)
{
    struct stats_side s;
    double *mhz = xarray((size_t)p->count, sizeof *mhz);
    for (int i = 0; i < p->count; i++)
        mhz[i] = base ? p->list[i].base_mhz : p->list[i].candidate_mhz;
    stats_side_of(mhz, p->count, &s);
    free(mhz);
    return s.min > 0 ? json_pack("{s:f,s:f,s:f,s:f}", "min", s.min, "q1", s.q1, "median", s.median, "q3", s.q3) : json_null();
}

/* Of the contents besides the typical regime's that structured inputs had; none where no input has structure. */
static json_t *seeds_encode(const struct judge *j)
{
    json_t *list = json_array();
    for (int c = 0; c < DEVICE_MAX_CONTENTS - 1; c++) {
        bool any = false;
        for (int t = 0; t < j->op->tensor_count; t++)
            any |= j->further[c][t] != NULL;
        if (any)
            json_array_append_new(list, judge_u64(j->further_seeds[c]));
    }
    return list;
}

json_t *measure_record(const struct session *x, const struct stats_result *r, const struct pairs *p, const struct account *a, json_t *controls)
{
    json_t *doc = json_object(), *clocks = json_object();
    json_put_str(doc, "mode", "graph-rotated");
    json_put_int(doc, "launches_in_a_graph", x->mine.launches);
    json_put_int(doc, "buffer_sets", x->mine.sets);
    json_put(doc, "buffer_seed", judge_u64(x->buffers));
    json_put(doc, "further_seeds", seeds_encode(x->j));
    json_put(doc, "order_seed", judge_u64(x->order));
    json_put_int(doc, "pairs_taken", a->taken);
    json_put_int(doc, "pairs_discarded", a->discarded);
    json_put_int(doc, "pairs_throttled", a->throttled);
    json_put_int(doc, "outputs_checked_a_side", a->checked);
    json_put(doc, "statistics", stats_encode(r));
    json_put(doc, "control", json_incref(controls));
    json_put(clocks, "baseline_mhz", clock_encode(p, true));
    json_put(clocks, "candidate_mhz", clock_encode(p, false));
    json_put(clocks, "reasons", card_reasons_encode(x->reasons));
    json_put(doc, "clocks", clocks);
    json_put(doc, "card", json_incref(x->card));
    json_put_num(doc, "gpu_seconds_candidate", x->gpu_ns[0] * 1e-9);
    json_put_num(doc, "gpu_seconds_baseline", x->gpu_ns[1] * 1e-9);
    return doc;
}

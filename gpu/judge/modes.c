/*
 * The modes beside each other: how long one launch of the plan takes, under its own conditions, of both sides. A mode's figures are
 * compared within the mode and never with another's; only "graph-rotated" decides anything, the others are told.
 *
 *   graph-rotated   measure.c: events around a graph of many launches, each on a set of its own
 *   cold-isolated   audit.c: the tracing library's duration of single launches after a flush
 *   eager           here: the wall clock around single launches from the host
 */
#include "gpu/judge/internal.h"

#define EAGER_LAUNCHES 16               /* of one turn */
#define EAGER_TURNS 4                   /* a b b a: twice as many launches a side */

struct eager { int count; double wall_ns[EAGER_TURNS * EAGER_LAUNCHES]; };

static bool turn(struct judge *j, struct judge_side *s, struct eager *e, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *job = judge_job("time_eager"), *answer = NULL;
    const int most = device_most_launches(s->timed_sets), launches = most < EAGER_LAUNCHES ? most : EAGER_LAUNCHES;
    json_put_int(job, "launches", launches);
    json_put(job, "order_seed", judge_u64(random_u64()));
    STEP(judge_ask_run(j, s, job, "time", side_is_judged(j, s) ? block_card_wall_ns(j, LIMIT_TIME_BLOCK_WALL_NS) : LIMIT_TIME_BLOCK_WALL_NS, &answer, v, err));
    const json_t *list = json_object_get(answer, "wall_ns");
    if (!json_is_array(list))
        return true;                    /* a device that does not launch one at a time */
    for (int i = 0; i < launches; i++) {
        double ns = json_number_value(json_array_get(list, (size_t)i));
        if (!(ns > 0 && ns < 1e12))
            return err_set(err, ERR_UPSTREAM, "the run child of the %s reports an impossible eager launch", s->name);
        e->wall_ns[e->count++] = ns;
    }
    return true;
}

static json_t *mode_encode(const char *timer, const struct stats_side *candidate, const struct stats_side *baseline)
{
    json_t *doc = json_object();
    json_put_str(doc, "timer", timer);
    json_put_str(doc, "unit", "ns a launch of the plan");
    json_put(doc, "candidate", stats_side_encode(candidate));
    json_put(doc, "baseline", baseline ? stats_side_encode(baseline) : json_null());
    json_put(doc, "ratio", baseline ? json_real(baseline->median / candidate->median) : json_null());
    return doc;
}

bool modes_eager(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *mine = &j->sides[CANDIDATE], *base = j->sides[BASELINE].present ? &j->sides[BASELINE] : NULL;
    struct eager of_mine = {0}, of_base = {0};
    struct stats_side a, b;
    for (int i = 0; i < EAGER_TURNS; i++) {
        bool first = i == 0 || i == EAGER_TURNS - 1;
        STEP(turn(j, first || !base ? mine : base, first || !base ? &of_mine : &of_base, v, err));
    }
    if (!of_mine.count || (base && !of_base.count))
        return true;
    stats_side_of(of_mine.wall_ns, of_mine.count, &a);
    if (base)
        stats_side_of(of_base.wall_ns, of_base.count, &b);
    json_t *doc = mode_encode("wall clock", &a, base ? &b : NULL);
    json_put_int(doc, "launches", of_mine.count);
    json_put(j->modes, "eager", doc);
    return true;
}

void modes_put_cold(struct judge *j, const struct audit_report *mine, const struct audit_report *base, int64_t flush_bytes)
{
    json_t *doc = mode_encode("trace records", &mine->cold, base ? &base->cold : NULL);
    json_put(doc, "candidate_by_events", stats_side_encode(&mine->cold_event));
    json_put(doc, "baseline_by_events", base ? stats_side_encode(&base->cold_event) : json_null());
    json_put_str(doc, "flush", "written, then read");
    json_put_int(doc, "flush_bytes", flush_bytes);
    json_put(j->modes, "cold-isolated", doc);
}

void modes_put_graph(struct judge *j)
{
    const struct judge_timing *t = &j->timing;
    if (!t->measured)
        return;
    bool base = j->sides[BASELINE].present;
    json_t *doc = mode_encode("events", &t->candidate, base ? &t->baseline : NULL);
    int64_t set_bytes = 0, sets = json_int(t->record, "buffer_sets", 0);
    for (int i = 0; i < j->op->tensor_count; i++)
        set_bytes += j->tensors[i].bytes;
    json_put_int(doc, "launches_in_a_graph", json_int(t->record, "launches_in_a_graph", 0));
    json_put_int(doc, "buffer_sets", sets);
    json_put_int(doc, "bytes_rotated", sets * set_bytes);
    json_put(doc, "clocks", json_incref(json_object_get(t->record, "clocks")));
    json_put(j->modes, "graph-rotated", doc);
}

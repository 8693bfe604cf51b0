/* Before a measurement: buffer sets in a side's run child, as many as its graphs will need, and how many launches a graph has. */
#include "core/clock.h"
#include "gpu/judge/measure.h"

#include <math.h>

#define ROTATE_L2 5
#define ROTATE_SETS 512                 /* more are not made for L2's sake: each is launched once after L2 was swept */
#define LAUNCH_NS 2500                  /* what a launch takes beside moving its bytes, to guess by */
#define BYTES_NS 4200.0                 /* and what a card moves in that time */
#define FEW_ELEMENTS 16                 /* of a tensor: fewer leave windows little choice */
#define ENOUGH 1.25                     /* a graph this much shorter than wanted will do */

static int64_t set_bytes(const struct judge *j, const struct judge_side *s)
{
    int64_t bytes = 0;
    for (int t = 0; t < j->op->tensor_count; t++)
        bytes += j->tensors[t].bytes;
    for (int w = 0; w < s->plan.workspace_count; w++)
        bytes += s->plan.workspaces[w].bytes;
    return bytes > 0 ? bytes : 1;
}

static double launches_wanted(const struct session *x, double launch_ns)
{
    const int samples = x->effort.blocks * x->effort.pairs_in_block;
    double graph_ns = samples ? (double)x->effort.aim_ns / samples : 0;
    double wanted = ceil((graph_ns > (double)LIMIT_GRAPH_NS ? graph_ns : (double)LIMIT_GRAPH_NS) / launch_ns);
    return wanted < 16 ? 16 : wanted < (double)LIMIT_GRAPH_MAX_LAUNCHES ? wanted : (double)LIMIT_GRAPH_MAX_LAUNCHES;
}

/* Enough sets for a graph as long as wanted, by a guess that is low for what is fast; never more than may be. */
static int64_t bytes_to_begin_with(const struct session *x, const struct judge_side *s)
{
    const int64_t bytes = set_bytes(x->j, s), l2 = json_int(s->info, "l2_bytes", 0),
                  launches = (int64_t)launches_wanted(x, LAUNCH_NS + (double)bytes / BYTES_NS), rotate = ROTATE_L2 * (l2 > 0 ? l2 : 64 * LIMIT_MIB),
                  few = rotate / bytes < ROTATE_SETS ? rotate : ROTATE_SETS * bytes, wanted = device_sets_for(launches) * bytes;
    return wanted > LIMIT_SETS_BYTES ? LIMIT_SETS_BYTES : wanted > few ? wanted : few;
}

/* ---- what the sets hold ---- */

static bool is_further(const struct judge *j, int t)
{
    return j->further[0][t] != NULL;
}

void measure_forget(struct judge *j)
{
    for (int c = 0; c < DEVICE_MAX_CONTENTS - 1; c++)
        for (int t = 0; t < OP_MAX_TENSORS; t++) {
            free(j->further[c][t]);
            j->further[c][t] = NULL;
        }
}

/* What windows of one content would not make new. */
static bool needs_further(const struct judge *j, int t, bool mix)
{
    const struct tensor *tensor = &j->tensors[t];
    return tensor->spec->role != OP_OUTPUT && tensor->bytes <= LIMIT_FURTHER_BYTES && (!mix || tensor->span_elements < FEW_ELEMENTS);
}

/*
 * Floats without structure are put together of windows of one content. What has structure, slots, positions, lengths, would be alike in all
 * launches, and could be handed on or guessed from one to the next: of that each set has one of several contents, and so of a tensor of a
 * few floats.
 */
bool measure_prepare(struct judge *j, struct err *err)
{
    bool mix[OP_MAX_TENSORS], any = false;
    measure_forget(j);
    inputs_rotatable(j->op, j->tensors, 0, mix);
    for (int t = 0; t < j->op->tensor_count; t++)
        any |= needs_further(j, t, mix[t]);
    for (int c = 0; c < DEVICE_MAX_CONTENTS - 1 && any && j->keep_regimes; c++) {
        void *made[OP_MAX_TENSORS] = {0};
        j->further_seeds[c] = random_u64();
        if (!inputs_make(&j->shape, j->tensors, 0, j->further_seeds[c], made, err))
            return false;
        for (int t = 0; t < j->op->tensor_count; t++)
            if (made[t] && needs_further(j, t, mix[t]))
                j->further[c][t] = steal(&made[t]);
        inputs_free(j->op, made);
    }
    return true;
}

static bool ask_setup(struct judge *j, struct judge_side *s, const json_t *job, json_t **ret, struct verdict *v, struct err *err)
{
    const int64_t from_ns = clock_mono_ns();
    bool ok = child_ask(&j->watch, &s->run, job, err);
    for (int c = 0; c < DEVICE_MAX_CONTENTS - 1; c++)
        for (int t = 0; t < j->op->tensor_count && ok; t++) {
            cleanup(str) char *name = xfmt("content.%d.%d", c + 1, t);
            ok = !j->further[c][t] || child_send_blob(&s->run, name, j->further[c][t], (size_t)j->tensors[t].bytes, err);
        }
    if (!ok || !child_take(&j->watch, &s->run, from_ns + LIMIT_TIME_SETUP_WALL_NS, ret, err))
        return side_child_failed(j, s, &s->run, "time", v, err);
    card_count(j);
    return fault_take(json_object_get(*ret, "fault"), "time", v, err) && side_verdict(j, s, v, err);
}

bool measure_sets(struct session *x, struct clocked *c, uint64_t seed, int64_t bytes_least, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    bool mix[OP_MAX_TENSORS], any = false;
    cleanup(json) json_t *answer = NULL, *job = judge_job("time_setup");
    json_t *list = json_array(), *further = json_array();
    STEP(run_inputs(j, c->side, 0, "time", v, err));
    inputs_rotatable(j->op, j->tensors, 0, mix);
    for (int t = 0; t < j->op->tensor_count; t++) {
        json_array_append_new(list, json_boolean(mix[t]));
        json_array_append_new(further, json_boolean(is_further(j, t)));
        any |= is_further(j, t);
    }
    json_put(job, "mix", list);
    json_put(job, "further_tensors", further);
    json_put_int(job, "further", any ? DEVICE_MAX_CONTENTS - 1 : 0);
    json_put_int(job, "rotate_bytes_least", bytes_least ? bytes_least : bytes_to_begin_with(x, c->side));
    json_put_bool(job, "exact", !c->side->candidate.atomics);
    json_put_int(job, "max_sets", LIMIT_BUFFER_SETS);
    json_put(job, "seed", judge_u64(seed));
    STEP(ask_setup(j, c->side, job, &answer, v, err));
    c->sets = (int)json_int(answer, "sets", 0);
    if (c->sets < 2 || c->sets > LIMIT_BUFFER_SETS)
        return err_set(err, ERR_UPSTREAM, "the run child of the %s made %d buffer sets", c->side->name, c->sets);
    c->side->timed_sets = c->sets;
    c->launches = device_most_launches(c->sets);
    return true;
}

bool measure_calibrate(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[j->sides[BASELINE].present ? BASELINE : CANDIDATE];
    cleanup(json) json_t *answer = NULL, *job = judge_job("calibrate");
    if (j->calibration)
        return true;
    STEP(judge_ask_run(j, s, job, "time", LIMIT_TIME_SETUP_WALL_NS, &answer, v, err));
    json_t *figures = json_object_get(answer, "calibration");
    j->calibration = json_is_object(figures) ? json_incref(figures) : json_object();
    return true;
}

bool measure_setup(struct judge *j, struct judge_side *s, uint64_t seed, int *ret_sets, struct verdict *v, struct err *err)
{
    struct session x = {.j = j};
    struct clocked c = {.side = s};
    STEP(measure_sets(&x, &c, seed, 0, v, err));
    *ret_sets = c.sets;
    return true;
}

/*
 * Long enough for the events' half microsecond, and so that the least number of pairs fills the least time; both sides alike; never
 * the same set twice in a graph. Returns how many bytes of sets that needs where there are too few now, else 0.
 */
int64_t measure_launches(struct session *x)
{
    double shorter = x->mine.per_launch_ns < x->base.per_launch_ns ? x->mine.per_launch_ns : x->base.per_launch_ns;
    const double wanted = launches_wanted(x, shorter > 100 ? shorter : 100);
    const int most = device_most_launches(x->mine.sets < x->base.sets ? x->mine.sets : x->base.sets);
    const int64_t mine = set_bytes(x->j, x->mine.side), base = set_bytes(x->j, x->base.side), bytes = mine > base ? mine : base,
                  affordable = LIMIT_SETS_BYTES / bytes;
    x->mine.launches = x->base.launches = wanted < most ? (int)wanted : most;
    int64_t sets = device_sets_for((int64_t)wanted);
    sets = sets < affordable ? sets : affordable;
    return wanted > ENOUGH * most && sets > x->mine.sets && sets > x->base.sets ? sets * bytes : 0;
}

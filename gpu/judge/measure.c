/*
 * Measure, on a card: candidate and baseline each in a run child of its own, one graph at a time, interleaved in ABBA or BAAB
 * quads by this process. A quad gives two pairs, four quads a block. Around it the baseline is timed against itself: where that
 * shows a difference, the run is thrown away, at most twice, and then it is our failure.
 *
 * Outputs of launches that were timed are checked afterwards, of sets chosen only then.
 */
#include "core/clock.h"
#include "core/rng.h"
#include "gpu/judge/internal.h"

#include <math.h>
#include <string.h>

#define QUAD 4
#define WARM_NS (25 * 1000000)
#define WARM_CAP_NS (2 * LIMIT_SECOND)
#define CLOCK_STABLE 0.01
#define MOST_SETS_CHECKED 64
#define CONTROL_RUNS 3

#define CONTROL_BLOCK 2                 /* pairs: many small blocks make an honest interval of few samples */

/* aim_ns: GPU time to sum up a side; the three occasions of a retest reach it together. */
struct effort { int blocks, pairs_in_block, control_blocks, sets_checked; int64_t aim_ns; };
static const struct effort efforts[] = {
    [MODE_TRIAGE] = {12, 2, 12, 2, 0},
    [MODE_FULL] = {30, 8, 20, 6, LIMIT_TIME_AIM_NS},
    [MODE_RETEST] = {30, 8, 20, 6, LIMIT_TIME_AIM_NS / 3},
};

struct clocked {                        /* one side while it is measured */
    struct judge_side *side;
    int sets, launches;
    double per_launch_ns;               /* first guess */
};

struct session {
    struct judge *j;
    struct effort effort;
    struct clocked mine, base;
    bool alone;                         /* the baseline itself is judged: both are the same side */
    uint64_t order, buffers;            /* seeds: of what is shuffled, of what the buffer sets hold */
    uint64_t counter;
    int64_t deadline_ns;
    double gpu_ns[2];                   /* summed event time, by side */
    double overhead_mine, overhead_base;        /* median wall - event of a graph */
};

json_t *judge_u64(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "0x%016llx", (unsigned long long)value);
    return json_string(text);
}

bool judge_ask_run(struct judge *j, struct judge_side *s, const json_t *job, const char *phase, int64_t wall_ns, json_t **ret,
                   struct verdict *v, struct err *err)
{
    int64_t from = clock_mono_ns();
    if (!child_ask(&j->watch, &s->run, job, err) || !child_take(&j->watch, &s->run, from + wall_ns, ret, err))
        return side_child_failed(j, s, &s->run, phase, v, err);
    j->gpu_ns += clock_mono_ns() - from;
    return fault_take(json_object_get(*ret, "fault"), phase, v, err) && side_verdict(j, s, v, err);
}

static bool ask(struct session *x, struct judge_side *s, json_t *job, int64_t wall_ns, json_t **ret, struct verdict *v,
                struct err *err)
{
    cleanup(json) json_t *mine = job;
    return judge_ask_run(x->j, s, mine, "time", wall_ns, ret, v, err);
}

/* ---- set-up ---- */

static bool setup(struct session *x, struct clocked *c, uint64_t seed, int64_t bytes_least, struct verdict *v,
                  struct err *err)
{
    struct judge *j = x->j;
    bool rotate[OP_MAX_TENSORS];
    cleanup(json) json_t *answer = NULL;
    json_t *list = json_array();
    STEP(run_inputs(j, c->side, 0, "time", v, err));
    inputs_rotatable(j->op, j->tensors, 0, rotate);
    for (int t = 0; t < j->op->tensor_count; t++)
        json_array_append_new(list, json_boolean(rotate[t]));
    json_t *job = judge_job("time_setup");
    int64_t l2 = json_int(c->side->info, "l2_bytes", 0), rotate_least = 5 * (l2 > 0 ? l2 : 64 * LIMIT_MIB);
    json_put(job, "rotate", list);
    json_put_int(job, "rotate_bytes_least", bytes_least > rotate_least ? bytes_least : rotate_least);
    json_put_int(job, "max_sets", LIMIT_BUFFER_SETS);
    json_put(job, "seed", judge_u64(seed));
    STEP(ask(x, c->side, job, LIMIT_TIME_SETUP_WALL_NS, &answer, v, err));
    c->sets = (int)json_int(answer, "sets", 0);
    if (c->sets < 1 || c->sets > LIMIT_BUFFER_SETS)
        return err_set(err, ERR_UPSTREAM, "the run child of the %s made %d buffer sets", c->side->name, c->sets);
    c->launches = c->sets;
    return true;
}

bool measure_setup(struct judge *j, struct judge_side *s, uint64_t seed, int *ret_sets, struct verdict *v, struct err *err)
{
    struct session x = {.j = j};
    struct clocked c = {.side = s};
    STEP(setup(&x, &c, seed, 0, v, err));
    *ret_sets = c.sets;
    return true;
}

struct sample { double event_ns, wall_ns, mhz; };

static bool block(struct session *x, struct clocked *c, struct sample *ret, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *answer = NULL;
    json_t *job = judge_job("time_block");
    c->side->timed_order = rng_at(x->order, 7, x->counter++);
    json_put_int(job, "launches", c->launches);
    json_put(job, "order_seed", judge_u64(c->side->timed_order));
    STEP(ask(x, c->side, job, LIMIT_TIME_BLOCK_WALL_NS, &answer, v, err));
    int launches = (int)json_int(answer, "launches", 0);
    double event = json_num(answer, "event_ns", 0), wall = json_num(answer, "wall_ns", 0),
           mhz = json_num(answer, "sm_clock_mhz", 0);
    if (launches != c->launches || !(event > 0) || !(event < 1e12) || !(wall > 0) || !(wall < 1e12) || !(mhz >= 0)
        || mhz > 1e5)
        return err_set(err, ERR_UPSTREAM, "the run child of the %s reports an impossible sample", c->side->name);
    /* Work outside the events would make the span shorter than what our own clock can account for. */
    if (event > wall * 1.02 + 20000)
        return err_set(err, ERR_UPSTREAM, "the run child of the %s reports a span longer than its wall time",
                       c->side->name);
    *ret = (struct sample){event, wall, mhz};
    x->gpu_ns[c == &x->base] += event;
    return true;
}

static double per_launch(const struct clocked *c, const struct sample *s)
{
    return s->event_ns / c->launches;
}

/* Until the card has been busy for 25 ms and its clock stands still; data that is timed later is refilled for each block. */
static bool warm_up(struct session *x, struct clocked *c, struct verdict *v, struct err *err)
{
    double busy = 0, last[5] = {0};
    int64_t cap = clock_mono_ns() + WARM_CAP_NS;
    for (int i = 0;; i++) {
        struct sample s = {0};
        STEP(block(x, c, &s, v, err));
        busy += s.event_ns;
        c->per_launch_ns = per_launch(c, &s);
        last[i % 5] = s.mhz;
        double low = last[0], high = last[0];
        for (int k = 1; k < 5; k++)
            low = last[k] < low ? last[k] : low, high = last[k] > high ? last[k] : high;
        bool stable = i >= 4 && high - low <= CLOCK_STABLE * high;
        if ((busy >= WARM_NS && stable) || clock_mono_ns() >= cap)
            return true;
    }
}

static bool setup_both(struct session *x, uint64_t seed, int64_t bytes_least, struct verdict *v, struct err *err)
{
    STEP(setup(x, &x->mine, seed, bytes_least, v, err));
    if (x->alone) {
        double guess = x->base.per_launch_ns;
        x->base = x->mine;
        x->base.per_launch_ns = guess;
        return true;
    }
    return setup(x, &x->base, seed, bytes_least, v, err);
}

/*
 * Long enough for the events' half microsecond, and so that the least number of pairs fills the least time; both sides alike; never
 * the same set twice in a graph. Returns how many bytes of sets that needs where there are too few now, else 0.
 */
static int64_t choose_launches(struct session *x)
{
    double graph_ns = (double)x->effort.aim_ns / (x->effort.blocks * x->effort.pairs_in_block);
    graph_ns = graph_ns > (double)LIMIT_GRAPH_NS ? graph_ns : (double)LIMIT_GRAPH_NS;
    double shorter = x->mine.per_launch_ns < x->base.per_launch_ns ? x->mine.per_launch_ns : x->base.per_launch_ns;
    double wanted = ceil(graph_ns / (shorter > 100 ? shorter : 100));
    int sets = x->mine.sets < x->base.sets ? x->mine.sets : x->base.sets,
        launches = wanted < 16                                 ? 16
                   : wanted < (double)LIMIT_GRAPH_MAX_LAUNCHES ? (int)wanted
                                                               : (int)LIMIT_GRAPH_MAX_LAUNCHES;
    int64_t set_bytes = 0;
    for (int t = 0; t < x->j->op->tensor_count; t++)
        set_bytes += x->j->tensors[t].bytes;
    x->mine.launches = x->base.launches = launches < sets ? launches : sets;
    int64_t most = LIMIT_SETS_BYTES / (set_bytes > 0 ? set_bytes : 1);
    return launches > sets && most > sets ? (launches < most ? launches : most) * set_bytes : 0;
}

/* ---- samples ---- */

/* One quad: a b b a or b a a b, giving two pairs. */
static bool quad(struct session *x, struct clocked *a, struct clocked *b, struct stats_pair *pairs, double *overhead_a,
                 double *overhead_b, struct verdict *v, struct err *err)
{
    bool swap = rng_at(x->order, 11, x->counter++) & 1;
    struct sample sample[QUAD] = {{0}};
    for (int i = 0; i < QUAD; i++) {
        bool first = (i == 0 || i == 3) != swap;
        STEP(block(x, first ? a : b, &sample[i], v, err));
    }
    for (int p = 0; p < 2; p++) {
        /* Neighbours in time: samples 0 and 1, samples 3 and 2. */
        const struct sample *outer = &sample[p ? 3 : 0], *inner = &sample[p ? 2 : 1];
        const struct sample *sa = swap ? inner : outer, *sb = swap ? outer : inner;
        pairs[p] = (struct stats_pair){per_launch(a, sa), per_launch(b, sb), sa->mhz, sb->mhz, 0};
        overhead_a[p] = sa->wall_ns - sa->event_ns;
        overhead_b[p] = sb->wall_ns - sb->event_ns;
    }
    return true;
}

struct pairs { int count; struct stats_pair *list; double *overhead_a, *overhead_b; };
static void pairs_done(struct pairs *p)
{
    free(p->list);
    free(p->overhead_a);
    free(p->overhead_b);
}
DEFINE_CLEANUP(pairs, struct pairs, pairs_done(it))

static void pairs_make(struct pairs *p)
{
    *p = (struct pairs){0, xarray(STATS_MAX_PAIRS + 2, sizeof *p->list), xarray(STATS_MAX_PAIRS + 2, sizeof(double)),
                        xarray(STATS_MAX_PAIRS + 2, sizeof(double))};
}

static bool collect(struct session *x, struct clocked *a, struct clocked *b, int blocks, int size, int64_t aim_ns,
                    struct pairs *p, struct verdict *v, struct err *err)
{
    int wanted = blocks * size;
    double from[2] = {x->gpu_ns[0], x->gpu_ns[1]};
    for (;;) {
        double aim = (double)aim_ns;
        bool filled = aim_ns == 0 || (x->gpu_ns[0] - from[0] >= aim && x->gpu_ns[1] - from[1] >= aim);
        bool whole = p->count % size == 0;
        if (whole && p->count >= wanted && (filled || p->count + size > STATS_MAX_PAIRS))
            return true;
        if (whole && clock_mono_ns() >= x->deadline_ns && p->count >= STATS_LEAST_BLOCKS * size)
            return true;
        STEP(quad(x, a, b, p->list + p->count, p->overhead_a + p->count, p->overhead_b + p->count, v, err));
        p->list[p->count].block = p->count / size, p->list[p->count + 1].block = (p->count + 1) / size;
        p->count += 2;
    }
}

/* The baseline against itself, longer until its interval is narrow; false in *ret_alike where the harness sees a difference that is not there. */
static bool control(struct session *x, bool *ret_alike, json_t *records, struct verdict *v, struct err *err)
{
    cleanup(pairs) struct pairs p;
    struct stats_result r = {0};
    pairs_make(&p);
    for (int times = 1; times <= STATS_AA_LONGER; times++) {
        STEP(collect(x, &x->base, &x->base, times * x->effort.control_blocks, CONTROL_BLOCK, 0, &p, v, err));
        stats_compare(p.list, p.count, rng_at(x->order, 13, x->counter++), &r);
        if (stats_control_sharp(&r) || clock_mono_ns() >= x->deadline_ns)
            break;
    }
    *ret_alike = stats_alike(&r);
    json_array_append_new(records, stats_encode(&r));
    return true;
}

/* ---- outputs of timed launches ---- */

/* Element i of the set is element i + by of the base, around the end (dense tensors only). */
static void rotate(const struct tensor *t, const void *from, int64_t by, char *to)
{
    size_t split = (size_t)by * (size_t)dtype_bytes(t->dtype);
    memcpy(to, (const char *)from + split, (size_t)t->bytes - split);
    memcpy(to + (size_t)t->bytes - split, from, split);
}

struct arrays { void *list[OP_MAX_TENSORS]; };
static void arrays_done(struct arrays *a)
{
    for (int t = 0; t < OP_MAX_TENSORS; t++)
        free(a->list[t]);
}
DEFINE_CLEANUP(arrays, struct arrays, arrays_done(it))

static bool check_set(struct session *x, struct clocked *c, int set, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    struct judge_side *s = c->side;
    cleanup(json) json_t *answer = NULL;
    cleanup(arrays) struct arrays results = {0};
    json_t *job = judge_job("time_output");
    json_put_int(job, "set", set);
    STEP(ask(x, s, job, LIMIT_TIME_SETUP_WALL_NS, &answer, v, err));
    const json_t *rotation = json_object_get(answer, "rotation");
    if (!j->scratch_in.base && !shared_make(SHARED_INPUTS, j->op, j->tensors, &j->scratch_in, err))
        return false;
    for (int t = 0; t < j->op->tensor_count; t++) {
        const struct tensor *tensor = &j->tensors[t];
        int64_t by = json_integer_value(json_array_get(rotation, (size_t)t));
        if (by < 0 || (by > 0 && by >= tensor->elements))
            return err_set(err, ERR_UPSTREAM, "the run child of the %s rotates %s by %lld", s->name, tensor->spec->name,
                           (long long)by);
        if (tensor->spec->role != OP_OUTPUT)
            rotate(tensor, j->regimes[0].inputs[t], by, j->scratch_in.base + j->scratch_in.offsets[t]);
    }
    run_copy_outputs(j, s);
    if (!reference_ask(j, &j->scratch_in, (double **)(void *)results.list, err))
        return false;
    for (int t = 0; t < j->op->tensor_count; t++) {
        if (j->tensors[t].spec->role == OP_INPUT)
            continue;
        const struct compare_case one = {
            .op = j->op,
            .tensor = &j->tensors[t],
            .reference = results.list[t],
            .got = s->outputs[t],
            .before = j->tensors[t].spec->role == OP_INOUT ? j->scratch_in.base + j->scratch_in.offsets[t] : NULL};
        struct compare_result r;
        compare_tensor(&one, &r);
        if (r.code != VERDICT_OK) {
            verdict_set(v, r.code, "time", "an output of a timed launch is wrong: %s", r.text);
            v->detail = compare_encode(&r, &j->tensors[t]);
            return side_verdict(j, s, v, err);
        }
    }
    return true;
}

static int launched_set(uint64_t order_seed, int sets, int k)
{
    cleanup(mem) void *memory = xarray((size_t)sets, sizeof(int));
    int *order = memory;
    device_set_order(order_seed, sets, order);
    return order[k];
}

/* First, middle, last and some that nobody could foresee: 1 in 50 at least. */
static bool check_sets(struct session *x, struct clocked *c, int *ret_checked, struct verdict *v, struct err *err)
{
    int launches = c->launches, wanted = launches / 50 + x->effort.sets_checked;
    wanted = wanted < MOST_SETS_CHECKED ? wanted : MOST_SETS_CHECKED;
    if (!regime_make(x->j, 0, err))
        return false;
    for (int i = 0; i < wanted; i++) {
        int k = i == 0 ? 0 : i == 1 ? launches - 1 : i == 2 ? launches / 2 : (int)(random_u64() % (uint64_t)launches);
        STEP(check_set(x, c, launched_set(c->side->timed_order, c->sets, k), v, err));
    }
    *ret_checked = wanted;
    return true;
}

/* ---- rules on timers ---- */

static double median_copy(const double *from, int count)
{
    cleanup(mem) void *memory = xarray((size_t)count, sizeof(double));
    memcpy(memory, from, (size_t)count * sizeof(double));
    return stats_median(memory, count);
}

/* Wall time beyond the events', against what the baseline costs the host: work outside the stream shows there. */
static void timers(struct session *x, const struct pairs *p, const struct stats_result *r, json_t *flags,
                   struct verdict *v)
{
    double base = median_copy(p->overhead_a, p->count), mine = median_copy(p->overhead_b, p->count);
    double span = r->candidate.median * x->mine.launches, beyond = mine - base;
    x->overhead_base = base, x->overhead_mine = mine;
    if (beyond > 0.2 * span && beyond > 50000)
        verdict_set(v, VERDICT_TIMERS_DISAGREE, "time",
                    "the wall clock shows %.0f us more than the events around a graph of %.0f us", beyond * 1e-3,
                    span * 1e-3);
    else if (beyond > 0.05 * span && beyond > 20000)
        json_array_append_new(flags, json_string("wall_clock_5_percent_beyond_events"));
    int third = p->count / 3;
    double part[3];
    for (int i = 0; i < 3; i++) {
        cleanup(mem) void *memory = xarray((size_t)third + 1, sizeof(double));
        double *values = memory;
        for (int k = 0; k < third; k++)
            values[k] = p->list[i * third + k].candidate_ns / p->list[i * third + k].base_ns;
        part[i] = third ? stats_median(values, third) : 1;
    }
    if (fabs(part[0] / part[2] - 1) > 0.03 || fabs(part[0] / part[1] - 1) > 0.03)
        json_array_append_new(flags, json_string("drift_3_percent_over_the_run"));
    if (r->has_cycles && fabs(r->cycles.median / r->time.median - 1) > 0.01)
        json_array_append_new(flags, json_string("time_and_cycles_differ_1_percent"));
}

/* ---- one occasion ---- */

static json_t *samples_encode(const struct session *x, const struct pairs *p)
{
    json_t *doc = json_object(), *base = json_array(), *mine = json_array();
    for (int i = 0; i < p->count; i++) {
        json_array_append_new(base, json_real(round(p->list[i].base_ns * 10) / 10));
        json_array_append_new(mine, json_real(round(p->list[i].candidate_ns * 10) / 10));
    }
    json_put_str(doc, "unit", "ns per launch");
    json_put_int(doc, "launches", x->mine.launches);
    json_put(doc, "baseline", base);
    json_put(doc, "candidate", mine);
    return doc;
}

static json_t *record_encode(const struct session *x, const struct stats_result *r, int discarded, int checked,
                             json_t *controls, json_t *flags)
{
    json_t *doc = json_object();
    json_put_str(doc, "mode", "graph-rotated");
    json_put_int(doc, "launches_in_a_graph", x->mine.launches);
    json_put_int(doc, "buffer_sets", x->mine.sets);
    json_put(doc, "buffer_seed", judge_u64(x->buffers));
    json_put(doc, "order_seed", judge_u64(x->order));
    json_put_int(doc, "pairs_discarded", discarded);
    json_put_int(doc, "outputs_checked_a_side", checked);
    json_put(doc, "statistics", stats_encode(r));
    json_put(doc, "wall_minus_event_ns",
             json_pack("{s:f,s:f}", "baseline", x->overhead_base, "candidate", x->overhead_mine));
    json_put(doc, "control", json_incref(controls));
    json_put(doc, "flags", json_incref(flags));
    json_put_num(doc, "gpu_seconds_candidate", x->gpu_ns[0] * 1e-9);
    json_put_num(doc, "gpu_seconds_baseline", x->gpu_ns[1] * 1e-9);
    return doc;
}

static bool attempt(struct session *x, bool *ret_valid, struct judge_timing *ret, struct verdict *v, struct err *err)
{
    cleanup(pairs) struct pairs p;
    cleanup(json) json_t *controls = json_array(), *flags = json_array();
    bool before = false, after = false;
    int checked = 0, left = 0;
    pairs_make(&p);
    x->deadline_ns = clock_mono_ns() + LIMIT_TIME_WALL_NS;
    STEP(control(x, &before, controls, v, err));
    STEP(collect(x, &x->base, &x->mine, x->effort.blocks, x->effort.pairs_in_block, x->effort.aim_ns, &p, v, err));
    STEP(check_sets(x, &x->mine, &checked, v, err));
    x->deadline_ns = clock_mono_ns() + LIMIT_TIME_WALL_NS;
    STEP(control(x, &after, controls, v, err));
    int taken = p.count, discarded = stats_discard(p.list, p.count, &left);
    *ret_valid = before && after && discarded <= STATS_DISCARD * taken && stats_blocks(p.list, left) >= STATS_LEAST_BLOCKS;
    if (!*ret_valid)
        return true;
    p.count = left;
    struct stats_result r;
    stats_compare(p.list, p.count, rng_at(x->order, 17, x->counter++), &r);
    timers(x, &p, &r, flags, v);
    if (v->code != VERDICT_OK)
        return side_verdict(x->j, x->mine.side, v, err);
    *ret = (struct judge_timing){
        .measured = true,
        .candidate_ns = r.candidate.median,
        .baseline_ns = r.base.median,
        .speedup = r.time,
        .decision = r.decision,
        .record = record_encode(x, &r, discarded, checked, controls, flags),
        .samples = samples_encode(x, &p),
    };
    if (x->alone)
        ret->baseline_ns = ret->candidate_ns, ret->speedup = (struct stats_interval){1, 1, 1};
    return true;
}

bool measure(struct judge *j, enum judge_mode effort, struct judge_timing *ret, struct verdict *v, struct err *err)
{
    struct judge_side *mine = &j->sides[CANDIDATE], *base = j->sides[BASELINE].present ? &j->sides[BASELINE] : mine;
    struct session x = {.j = j,
                        .effort = efforts[effort],
                        .mine = {.side = mine},
                        .base = {.side = base},
                        .alone = base == mine,
                        .order = random_u64()};
    uint64_t seed = x.buffers = random_u64();
    if (!j->calibration) {
        cleanup(json) json_t *answer = NULL;
        STEP(ask(&x, base, judge_job("calibrate"), LIMIT_TIME_SETUP_WALL_NS, &answer, v, err));
        json_t *figures = json_object_get(answer, "calibration");
        j->calibration = json_is_object(figures) ? json_incref(figures) : json_object();
    }
    STEP(setup_both(&x, seed, 0, v, err));
    STEP(warm_up(&x, &x.base, v, err));
    STEP(warm_up(&x, &x.mine, v, err));
    int64_t more = choose_launches(&x);
    if (more) {
        STEP(setup_both(&x, seed, more, v, err));
        (void)choose_launches(&x);
    }
    for (int i = 0; i < CONTROL_RUNS; i++) {
        bool valid = false;
        STEP(attempt(&x, &valid, ret, v, err));
        if (valid)
            return true;
    }
    return err_set(err, ERR_UNAVAILABLE,
                   "the card gives no steady figures: the baseline differs from itself, or the clock moves, in %d runs",
                   CONTROL_RUNS);
}

/*
 * Measure, on a card: candidate and baseline each in a run child of its own, one graph at a time, interleaved in ABBA or BAAB
 * quads by this process. A quad gives two pairs, four quads a block. Around it the baseline is timed against itself: where that
 * shows a difference, the run is thrown away and repeated after a longer warm-up, at most twice, and then it is our failure. Before and
 * after it the card is looked at (card_watch.c): a verdict is spoken only once the card is known to have been ours alone all along.
 */
#include "core/clock.h"
#include "core/rng.h"
#include "gpu/judge/measure.h"
#include "gpu/judge/timer_rules.h"

#include <math.h>
#include <string.h>

#define QUAD 4
#define WARM_NS (13 * 1000000)          /* of each side, one after the other on one card: 25 ms of work, and a clock that stands still twice */
#define WARM_CAP_NS (2 * LIMIT_SECOND)
#define WARM_LAUNCHES 256
#define CONTROL_RUNS 3

#define CONTROL_BLOCK 2                 /* pairs: many small blocks make an honest interval of few samples */

static const struct effort efforts[] = {
    [MODE_TRIAGE] = {12, 4, STATS_LONGER_TRIAGE, 12, 2, 0},
    [MODE_FULL] = {30, 8, STATS_LONGER, 20, 6, LIMIT_TIME_AIM_NS},
    [MODE_RETEST] = {30, 8, STATS_LONGER, 20, 6, LIMIT_TIME_AIM_NS / 3},
};

/* What passed since the last part ended is that part's. */
static void spent(struct session *x, enum part p)
{
    int64_t now_ns = clock_mono_ns();
    x->spent_ns[p] += now_ns - x->since_ns;
    x->since_ns = now_ns;
}

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
    card_count(j);
    return fault_take(json_object_get(*ret, "fault"), phase, v, err) && side_verdict(j, s, v, err);
}

static bool ask(struct session *x, struct judge_side *s, json_t *job, int64_t wall_ns, json_t **ret, struct verdict *v,
                struct err *err)
{
    cleanup(json) json_t *mine = job;
    return judge_ask_run(x->j, s, mine, "time", wall_ns, ret, v, err);
}

/* ---- set-up ---- */

struct sample { double event_ns, wall_ns, mhz; uint64_t reasons; };

/* A graph, or several, of the side: how long the baseline's take says how long the candidate's may. */
static bool ask_graph(struct session *x, struct clocked *c, json_t *job, int64_t beside_ns, json_t **ret, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    const bool judged = side_is_judged(j, c->side);
    const int64_t wall_ns = judged ? block_card_wall_ns(j, LIMIT_TIME_BLOCK_WALL_NS) : LIMIT_TIME_BLOCK_WALL_NS, from_ns = clock_mono_ns();
    STEP(ask(x, c->side, job, beside_ns + wall_ns, ret, v, err));
    const int64_t took_ns = clock_mono_ns() - from_ns;
    if (!judged && !beside_ns && took_ns > j->card_block_ns)
        j->card_block_ns = took_ns;
    return true;
}

static bool block(struct session *x, struct clocked *c, struct sample *ret, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *answer = NULL;
    json_t *job = judge_job("time_block");
    c->side->timed_order = rng_at(x->order, 7, x->counter++);
    json_put_int(job, "launches", c->launches);
    json_put(job, "order_seed", judge_u64(c->side->timed_order));
    STEP(ask_graph(x, c, job, 0, &answer, v, err));
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
    *ret = (struct sample){event, wall, mhz, strtoull(json_str(answer, "clock_reasons", "0"), NULL, 16)};
    x->reasons |= ret->reasons;
    x->gpu_ns[c == &x->base] += event;
    return true;
}

static double per_launch(const struct clocked *c, const struct sample *s)
{
    return s->event_ns / c->launches;
}

/* Until the card has been busy for that long and its clock stands still; data that is timed later is refilled for each block. */
static bool warm_up(struct session *x, struct clocked *c, int64_t busy_ns, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *answer = NULL;
    json_t *job = judge_job("time_warm");
    int most = device_most_launches(c->sets), launches = most < WARM_LAUNCHES ? most : WARM_LAUNCHES;
    json_put_int(job, "launches", launches);
    json_put(job, "order_seed", judge_u64(rng_at(x->order, 7, x->counter++)));
    json_put_int(job, "busy_ns", busy_ns);
    json_put_int(job, "cap_ns", WARM_CAP_NS);
    STEP(ask_graph(x, c, job, WARM_CAP_NS, &answer, v, err));
    double event = json_num(answer, "event_ns", 0);
    if (!(event > 0 && event < 1e12))
        return err_set(err, ERR_UPSTREAM, "the run child of the %s reports an impossible sample", c->side->name);
    c->per_launch_ns = event / launches;
    if (!side_is_judged(x->j, c->side) && (int64_t)event > x->j->card_block_ns)
        x->j->card_block_ns = (int64_t)event;
    return true;
}

static bool setup_both(struct session *x, uint64_t seed, int64_t bytes_least, struct verdict *v, struct err *err)
{
    STEP(measure_sets(x, &x->mine, seed, bytes_least, v, err));
    if (x->alone) {
        double guess = x->base.per_launch_ns;
        x->base = x->mine;
        x->base.per_launch_ns = guess;
        return true;
    }
    return measure_sets(x, &x->base, seed, bytes_least, v, err);
}

/* ---- samples ---- */

/* Between two quads: perhaps some results of the last blocks, and how far the comparison is with those that were taken before. */
static bool check_some(struct session *x, struct clocked *a, struct clocked *b, struct verdict *v, struct err *err)
{
    int64_t from_ns = clock_mono_ns();
    if (a != b) {
        STEP(check_timed_maybe(x, b, v, err));
        if (!x->alone)
            STEP(check_timed_maybe(x, a, v, err));
    }
    STEP(check_timed_go_on(x, v, err));
    from_ns = clock_mono_ns() - from_ns;
    x->spent_ns[PART_OUTPUTS] += from_ns;
    x->since_ns += from_ns;
    return true;
}

/* One quad: a b b a or b a a b, giving two pairs. */
static bool quad(struct session *x, struct clocked *a, struct clocked *b, struct stats_pair *pairs, struct verdict *v, struct err *err)
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
        pairs[p] = (struct stats_pair){
            .base_ns = per_launch(a, sa), .candidate_ns = per_launch(b, sb), .base_mhz = sa->mhz, .candidate_mhz = sb->mhz,
            .throttled = card_reasons_hindering(sa->reasons | sb->reasons) != 0,
            .base_beyond_ns = sa->wall_ns - sa->event_ns, .candidate_beyond_ns = sb->wall_ns - sb->event_ns,
        };
    }
    return true;
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
        STEP(quad(x, a, b, p->list + p->count, v, err));
        STEP(check_some(x, a, b, v, err));
        p->list[p->count].block = p->count / size, p->list[p->count + 1].block = (p->count + 1) / size;
        p->count += 2;
    }
}

/* The baseline against itself, longer until its interval is narrow and what it says is settled; false in *ret_alike where the harness sees a difference that is not there. */
static bool control(struct session *x, bool *ret_alike, json_t *records, struct verdict *v, struct err *err)
{
    cleanup(pairs) struct pairs p;
    struct stats_result r = {0};
    pairs_make(&p);
    for (int first = x->effort.control_blocks, blocks = first; blocks; blocks = stats_control_longer(first, blocks)) {
        STEP(collect(x, &x->base, &x->base, blocks, CONTROL_BLOCK, 0, &p, v, err));
        stats_compare(p.list, p.count, rng_at(x->order, 13, x->counter++), &r);
        if (stats_control_settled(&r) || clock_mono_ns() >= x->deadline_ns)
            break;
    }
    *ret_alike = stats_alike(&r);
    if (!*ret_alike)
        snprintf(x->unsteady, sizeof x->unsteady, "the baseline is %.4g times itself, between %.4g and %.4g of %d pairs", r.time.median,
                 r.time.low, r.time.high, r.pairs);
    json_array_append_new(records, stats_encode(&r));
    spent(x, PART_CONTROL);
    return true;
}

/* ---- one occasion ---- */

/* What an empty graph costs the host beyond its events: of the calibrated graph that is longest. */
static double host_ns(const struct judge *j)
{
    const json_t *list = json_object_get(j->calibration, "empty_graphs"), *last = json_array_get(list, json_array_size(list) - 1);
    return json_num(last, "wall_ns", 0) - json_num(last, "event_ns", 0);
}

/* Baseline against candidate, longer where the answer is open. What is left in *p is what counts. */
static bool compare(struct session *x, struct pairs *p, struct account *a, struct stats_result *ret, struct verdict *v, struct err *err)
{
    cleanup(pairs) struct pairs all;
    pairs_make(&all);
    for (int times = 1; times <= x->effort.longer; times++) {
        STEP(collect(x, &x->base, &x->mine, times * x->effort.blocks, x->effort.pairs_in_block, x->effort.aim_ns, &all, v, err));
        *a = (struct account){.taken = all.count};
        memcpy(p->list, all.list, (size_t)all.count * sizeof *p->list);
        for (int i = 0; i < all.count; i++)
            a->throttled += all.list[i].throttled;
        a->discarded = stats_discard(p->list, all.count, &p->count);
        a->clock_steady = a->discarded <= STATS_DISCARD * a->taken && stats_blocks(p->list, p->count) >= STATS_LEAST_BLOCKS;
        if (!a->clock_steady)
            snprintf(x->unsteady, sizeof x->unsteady, "the clock moved in %d of %d pairs, and was held down in %d", a->discarded, a->taken, a->throttled);
        if (!a->clock_steady || all.count + 2 > STATS_MAX_PAIRS)
            break;
        stats_compare(p->list, p->count, rng_at(x->order, 17, x->counter++), ret);
        if (ret->decision != STATS_UNCLEAR || x->alone || clock_mono_ns() >= x->deadline_ns)
            break;
    }
    return true;
}

static bool watch(struct session *x, const char *when, struct verdict *v, struct err *err)
{
    STEP(card_watch(x->j, x->base.side, x->effort.aim_ns == 0, when, x->card, v, err));
    spent(x, PART_WATCH);
    return true;
}

static bool attempt(struct session *x, bool *ret_valid, struct judge_timing *ret, struct verdict *v, struct err *err)
{
    cleanup(pairs) struct pairs p;
    cleanup(json) json_t *controls = json_array();
    bool before = false, after = false;
    struct account a = {0};
    struct stats_result r = {0};
    pairs_make(&p);
    x->reasons = 0;
    x->mine.checked = x->base.checked = x->mine.looked_at = x->base.looked_at = 0;
    x->deadline_ns = clock_mono_ns() + LIMIT_TIME_WALL_NS;
    STEP(control(x, &before, controls, v, err));
    STEP(compare(x, &p, &a, &r, v, err));
    spent(x, PART_PAIRS);
    STEP(check_timed_rest(x, &x->mine, v, err));
    if (!x->alone)
        STEP(check_timed_rest(x, &x->base, v, err));
    spent(x, PART_OUTPUTS);
    x->deadline_ns = clock_mono_ns() + LIMIT_TIME_WALL_NS;
    STEP(control(x, &after, controls, v, err));
    /* Before anybody is blamed: was it our card? */
    STEP(watch(x, "after", v, err));
    *ret_valid = before && after && a.clock_steady;
    if (*ret_valid && x->ends) {         /* what is left needs no card */
        json_decref(x->j->ended);
        x->j->ended = processes_encode(x->j);
        card_release(x->j);
    }
    STEP(check_timed_settle(x, v, err));
    a.checked = x->mine.checked;
    spent(x, PART_OUTPUTS);
    if (!*ret_valid)
        return true;
    *ret = (struct judge_timing){
        .measured = true,
        .candidate_ns = r.candidate.median,
        .baseline_ns = r.base.median,
        .candidate = r.candidate,
        .baseline = r.base,
        .speedup = r.time,
        .decision = r.decision,
        .record = measure_record(x, &r, &p, &a, controls),
        .samples = samples_encode(x, &p),
    };
    const struct timer_case c = {p.list, p.count, x->mine.launches, &r, x->alone, host_ns(x->j)};
    timer_rules(&c, &ret->rules, &ret->wall_gain);
    if (x->alone)
        ret->baseline_ns = ret->candidate_ns, ret->speedup = (struct stats_interval){1, 1, 1};
    ret->pairs = p.list, ret->pair_count = p.count;
    p.list = NULL;
    return true;
}

/* Set-up and warm-up, and once more where the first guess shows that graphs of more launches are wanted than there are sets. */
static bool prepare(struct session *x, struct verdict *v, struct err *err)
{
    uint64_t seed = x->buffers = random_u64();
    STEP(measure_calibrate(x->j, v, err));
    spent(x, PART_CALIBRATE);
    STEP(setup_both(x, seed, 0, v, err));
    spent(x, PART_SET_UP);
    if (!x->alone)
        STEP(warm_up(x, &x->base, WARM_NS, v, err));
    STEP(warm_up(x, &x->mine, WARM_NS, v, err));
    if (x->alone)
        x->base.per_launch_ns = x->mine.per_launch_ns;
    spent(x, PART_WARM_UP);
    int64_t more = measure_launches(x);
    if (more) {
        STEP(setup_both(x, seed, more, v, err));
        (void)measure_launches(x);
    }
    spent(x, PART_SET_UP);
    return true;
}

static bool attempts(struct session *x, struct judge_timing *ret, struct verdict *v, struct err *err)
{
    bool valid = false;
    STEP(watch(x, "before", v, err));
    for (int i = 0; i < CONTROL_RUNS && !valid; i++) {
        if (i) {                        /* after a longer warm-up: 0.1 s, then 0.4 s */
            STEP(warm_up(x, &x->base, WARM_NS << 2 * i, v, err));
            STEP(warm_up(x, &x->mine, WARM_NS << 2 * i, v, err));
            spent(x, PART_WARM_UP);
        }
        STEP(attempt(x, &valid, ret, v, err));
        if (valid)
            json_put_int(ret->record, "attempts", i + 1);
    }
    return valid || err_set(err, ERR_UNAVAILABLE, "the card gives no steady figures in %d runs: %s", CONTROL_RUNS, x->unsteady);
}

bool measure(struct judge *j, enum judge_mode effort, struct judge_timing *ret, struct verdict *v, struct err *err)
{
    struct judge_side *mine = &j->sides[CANDIDATE], *base = j->sides[BASELINE].present ? &j->sides[BASELINE] : mine;
    cleanup(json) json_t *card = json_object();
    struct session x = {.j = j,
                        .effort = efforts[effort],
                        .mine = {.side = mine, .judged = true},
                        .base = {.side = base},
                        .alone = base == mine,
                        .ends = effort == MODE_RETEST,
                        .order = random_u64(),
                        .since_ns = clock_mono_ns(),
                        .card = card};
    struct judge_timing timing = {0};
    enum rule rule = RULE_RECORDS;
    STEP(prepare(&x, v, err));
    check_timed_begin(&x);
    const bool ok = attempts(&x, &timing, v, err);      /* false with a verdict: the baseline's, which is our failure */
    check_timed_drop(&x);
    if (!ok || v->code != VERDICT_OK) {
        timing_done(&timing);
        return ok;
    }
    json_put(timing.record, "spent_ns", spent_encode(&x));
    const struct rule_finding *against = rules_rejection(&timing.rules, &rule);
    if (against) {
        verdict_set(v, VERDICT_TIMERS_DISAGREE, "time", "%s", against->text);
        v->detail = rules_encode(&timing.rules);
        timing_done(&timing);
        return side_verdict(j, mine, v, err);
    }
    *ret = timing;
    return true;
}

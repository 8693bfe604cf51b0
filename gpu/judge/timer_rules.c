#include "gpu/judge/timer_rules.h"

#include <math.h>

#define WALL_LEAST_NS 20000             /* below this the host's own scatter is all there is */
#define WALL_REJECT_NS 50000
#define SIGN_LEAST 0.005                /* gains nearer to 1 than this have no sign */
#define CONTRADICTION 0.10            /* honest kernels were within 0.03 on a card */

static double median_beyond(const struct timer_case *c, bool base)
{
    cleanup(mem) void *memory = xarray((size_t)c->count, sizeof(double));
    double *beyond = memory;
    for (int i = 0; i < c->count; i++)
        beyond[i] = base ? c->pairs[i].base_beyond_ns : c->pairs[i].candidate_beyond_ns;
    return stats_median(beyond, c->count);
}

static void wall_rule(const struct timer_case *c, struct rules *ret)
{
    double mine = median_beyond(c, false), base = c->alone ? c->host_ns : median_beyond(c, true);
    double span = c->result->candidate.median * c->launches, beyond = mine - base;
    rules_figure(ret, RULE_WALL, "candidate_beyond_ns", mine);
    rules_figure(ret, RULE_WALL, "usual_beyond_ns", base);
    rules_figure(ret, RULE_WALL, "span_ns", span);
    if (c->alone && !(c->host_ns > 0)) {
        rules_skip(ret, RULE_WALL, "what a graph costs the host is not known, and there is no baseline");
        return;
    }
    rules_done(ret, RULE_WALL);
    if (beyond > 0.2 * span && beyond > WALL_REJECT_NS)
        rules_find(ret, RULE_WALL, RULE_REJECT, "the wall clock shows %.0f us more than the events around a graph of %.0f us",
                   beyond * 1e-3, span * 1e-3);
    else if (beyond > 0.05 * span && beyond > WALL_LEAST_NS)
        rules_find(ret, RULE_WALL, RULE_FLAG, "the wall clock shows %.0f us more than the events around a graph of %.0f us", beyond * 1e-3,
                   span * 1e-3);
}

/* Medians of the first, middle and last third of a list, against each other. */
static void drift_rule(const struct timer_case *c, struct rules *ret)
{
    static const char *const names[] = {"run_first", "run_middle", "run_last"};
    int third = c->count / 3;
    double part[3];
    if (third < 1) {
        rules_skip(ret, RULE_DRIFT, "too few samples");
        return;
    }
    cleanup(mem) void *memory = xarray((size_t)third, sizeof(double));
    double *ratios = memory;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < third; k++)
            ratios[k] = c->pairs[i * third + k].candidate_ns / c->pairs[i * third + k].base_ns;
        part[i] = stats_median(ratios, third);
        rules_figure(ret, RULE_DRIFT, names[i], part[i]);
    }
    rules_done(ret, RULE_DRIFT);
    double low = fmin(part[0], fmin(part[1], part[2])), high = fmax(part[0], fmax(part[1], part[2]));
    if (high > 1.03 * low)
        rules_find(ret, RULE_DRIFT, RULE_FLAG, "candidate over baseline is %.4g in the first third of the run, then %.4g, then %.4g", part[0],
                   part[1], part[2]);
}

static void cycles_rule(const struct stats_result *r, struct rules *ret)
{
    if (!r->has_cycles) {
        rules_skip(ret, RULE_CYCLES, "the clock is not known");
        return;
    }
    rules_done(ret, RULE_CYCLES);
    rules_figure(ret, RULE_CYCLES, "gain_in_time", r->time.median);
    rules_figure(ret, RULE_CYCLES, "gain_in_cycles", r->cycles.median);
    if (fabs(r->cycles.median / r->time.median - 1) > 0.01)
        rules_find(ret, RULE_CYCLES, RULE_FLAG, "%.4g in time, %.4g in cycles", r->time.median, r->cycles.median);
}

static double wall_ratio(const struct timer_case *c)
{
    cleanup(mem) void *memory = xarray((size_t)c->count, sizeof(double));
    double *ratios = memory;
    for (int i = 0; i < c->count; i++) {
        const struct stats_pair *p = &c->pairs[i];
        ratios[i] = (p->base_ns * c->launches + p->base_beyond_ns) / (p->candidate_ns * c->launches + p->candidate_beyond_ns);
    }
    return stats_median(ratios, c->count);
}

void timer_rules(const struct timer_case *c, struct rules *ret, double *ret_wall_ratio)
{
    wall_rule(c, ret);
    drift_rule(c, ret);
    cycles_rule(c->result, ret);
    *ret_wall_ratio = wall_ratio(c);
}

void traced_rule(const struct traced_side *candidate, const struct traced_side *base, struct rules *ret)
{
    double mine = candidate->traced_ns / candidate->untraced_ns, usual = base->traced_ns / base->untraced_ns;
    rules_done(ret, RULE_TRACED);
    rules_figure(ret, RULE_TRACED, "untraced_ns", candidate->untraced_ns);
    rules_figure(ret, RULE_TRACED, "traced_ns", candidate->traced_ns);
    rules_figure(ret, RULE_TRACED, "candidate_slows_by", mine);
    rules_figure(ret, RULE_TRACED, "baseline_slows_by", usual);
    if (fabs(mine / usual - 1) > 0.05)
        rules_find(ret, RULE_TRACED, RULE_FLAG, "traced, the candidate takes %.3g of its time, the baseline %.3g of its own", mine, usual);
}

void cold_rule(const struct traced_side *candidate, const struct traced_side *base, struct rules *ret)
{
    double mine = candidate->cold_ns / candidate->among_others_ns, usual = base ? base->cold_ns / base->among_others_ns : 0.8 / 0.9;
    rules_done(ret, RULE_COLD);
    rules_figure(ret, RULE_COLD, "cold_ns", candidate->cold_ns);
    rules_figure(ret, RULE_COLD, "among_others_ns", candidate->among_others_ns);
    rules_figure(ret, RULE_COLD, "usual_share", usual);
    if (mine < 0.9 * fmin(usual, 1))
        rules_find(ret, RULE_COLD, RULE_FLAG, "%.0f ns cold, %.0f ns among others: %.3g, where %.3g is usual", candidate->cold_ns,
                   candidate->among_others_ns, mine, usual);
}

bool gains_contradict(double by_events, double by_records)
{
    return by_records > 0 && by_events > 1 && by_events > by_records * (1 + CONTRADICTION);
}

void gains_rule(double by_events, double by_records, double by_wall, struct rules *ret)
{
    const struct { const char *name, *what; double gain; } others[] = {{"by_records", "the records", by_records}, {"by_wall_clock", "the wall clock", by_wall}};
    rules_figure(ret, RULE_GAINS, "by_events", by_events);
    if (!(by_records > 0) || !(by_wall > 0)) {
        rules_skip(ret, RULE_GAINS, "not all three timers have a figure");
        return;
    }
    rules_done(ret, RULE_GAINS);
    for (int i = 0; i < 2; i++) {
        double gain = others[i].gain;
        rules_figure(ret, RULE_GAINS, others[i].name, gain);
        bool signs_differ = (gain - 1) * (by_events - 1) < 0 && fabs(gain - 1) > SIGN_LEAST && fabs(by_events - 1) > SIGN_LEAST;
        if (fabs(gain / by_events - 1) > 0.03 || signs_differ)
            rules_find(ret, RULE_GAINS, RULE_FLAG, "the gain is %.4g by the events, %.4g by %s", by_events, gain, others[i].what);
    }
}

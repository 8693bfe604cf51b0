/* Rules of rules.h that need no trace: samples, gains and what the harness costs. Pure. */
#pragma once
#include "gpu/judge/rules.h"
#include "gpu/judge/stats.h"

struct timer_case {
    const struct stats_pair *pairs;
    const double *base_beyond, *candidate_beyond;       /* wall minus event time of a graph, by pair, ns */
    int count, launches;                                /* launches: in a graph */
    const struct stats_result *result;
    bool alone;                                         /* a baseline by itself: both sides are one, host_ns is the yardstick */
    double host_ns;                                     /* what an empty graph costs the host beyond its events; 0 not known */
};
/* Rules 7, 11 (over the run) and 12. *ret_wall_ratio: the gain by the wall clock, for rule 9. */
void timer_rules(const struct timer_case *c, struct rules *ret, double *ret_wall_ratio);

/* Of each side: a launch by untraced events, and the traced graph's whole event span and launches. */
struct traced_side { double untraced_ns, traced_event_ns; int launches; };
/* Rule 8: what tracing adds to the two. */
void traced_rule(const struct traced_side *candidate, const struct traced_side *base, struct rules *ret);
/* Rule 9; a gain of 0 is not known. */
void gains_rule(double by_events, double by_records, double by_wall, struct rules *ret);

/* Rules of rules.h that need no trace: samples, gains and what the harness costs. Pure. */
#pragma once
#include "gpu/judge/rules.h"
#include "gpu/judge/stats.h"

struct timer_case {
    const struct stats_pair *pairs;
    int count, launches;                                /* launches: in a graph */
    const struct stats_result *result;
    bool alone;                                         /* a baseline by itself: both sides are one, host_ns is the yardstick */
    double host_ns;                                     /* what an empty graph costs the host beyond its events; 0 not known */
};
/* Rules 7, 11 (over the run) and 12. *ret_wall_ratio: the gain by the wall clock, for rule 9. */
void timer_rules(const struct timer_case *c, struct rules *ret, double *ret_wall_ratio);

/* Of each side: a launch by untraced events, and in a traced graph by its records; alone after a flush, and among others. */
struct traced_side { double untraced_ns, traced_ns, cold_ns, among_others_ns; };
/*
 * Rule 8: tracing slows the candidate's launches as it slows the baseline's. Events around a traced graph say little: what tracing costs
 * where a graph begins differs by 0.05 ms from one process to the next.
 */
void traced_rule(const struct traced_side *candidate, const struct traced_side *base, struct rules *ret);
/*
 * Rule 10, its first half. Among others a launch shares the memory with the write-back of those before it, alone it does not: 0.88 of the
 * time was seen of honest kernels. So the yardstick is the baseline's own share, or 0.8 where there is no baseline (base NULL).
 */
void cold_rule(const struct traced_side *candidate, const struct traced_side *base, struct rules *ret);
/* Rule 9; a gain of 0 is not known. */
void gains_rule(double by_events, double by_records, double by_wall, struct rules *ret);
/*
 * A flag decides nothing; this does: a gain by the events that the records, taken in another process where each set of buffers comes once, do not
 * show by far. Whoever only seems fast where the same buffers come again is so. by_records 0: not known.
 */
bool gains_contradict(double by_events, double by_records);

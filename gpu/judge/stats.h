/*
 * Is the candidate faster? Pure arithmetic on paired samples; no clock, no device, random numbers from a seed.
 *
 * Samples come in blocks, interleaved in time within a block, so that drift hits both sides alike; blocks are the unit that is
 * resampled. The answer is `faster` only when three opinions agree, each in time and in cycles:
 *   interval   99 % block bootstrap of the median log-ratio, above 1. Two things that a plain percentile interval leaves out are put
 *              in: there are only so many blocks (the tails are those of Student's t with blocks - 1 degrees, turned back into a share of
 *              the draws), and neighbouring blocks may be alike (the interval is widened by the blocks' first autocorrelation).
 *   ranks      Wilcoxon's signed ranks of the blocks' medians, p < 0.01.
 *   quartiles  nvbench's rule: the sides' [min, q3] lie apart, by 0.5 %. On single samples that rule sees nothing below the spread of the
 *              samples: of 240 with 0.7 % noise the least lies 2 % under the median, so a true 2 % is never found, and a clock that
 *              drifts by 2 % hides 4 %. So it is applied to the blocks' medians of each side, with the block's common level (the mean
 *              of both sides' logarithms) taken out: what moves both sides alike is no evidence either way, and a median of eight is
 *              what "a sample" means for noise of this kind. It stays the strictest of the three against a difference that only some blocks show.
 * Triage has twelve blocks of four pairs, too few to tell how much samples remember of those before them: where they remember a lot (0.8 from
 * one to the next) it calls up to two of a thousand equal kernels faster. It may: what it says only chooses what is measured again, and
 * nothing is published by it. The published settings keep to one in a thousand in every such world.
 *
 * Thresholds are fixed here, before any sample is seen. What comes of them in simulation: tests/test_stats.c.
 */
#pragma once
#include "core/json.h"

#include <stdint.h>

#define STATS_MAX_PAIRS 4096
#define STATS_LEAST_BLOCKS 4
#define STATS_DRAWS 5000
#define STATS_CONFIDENCE 0.99
#define STATS_WILCOXON_P 0.01
#define STATS_GAP 0.005             /* least gap between the quartile intervals */
#define STATS_ALIKE_MOST 0.8        /* most autocorrelation that is believed: the interval grows threefold */
#define STATS_SAME 0.01             /* an interval within this of 1 is "same" */
#define STATS_AA_SHARP 0.005        /* a control goes on until its interval is so narrow to each side, or STATS_AA_LONGER times as long */
#define STATS_AA_LONGER 4
#define STATS_AA_PARTS 4            /* it is looked at after each such part of its first length: most need little more than that */
#define STATS_AA_BLUNT 0.025        /* one that stays wider than this says nothing: not a valid run */
#define STATS_AA_NOTED 0.001        /* a difference that is certain counts from here */
#define STATS_AA_EARLY 0.9999       /* how certain a difference must be to end a control before its last look */
/*
 * A measurement whose answer is `unclear` goes on, up to so many times its length: in triage, where a small gain must not be lost for
 * want of samples, and for a published figure. A look at the answer each time costs little of the 0.1 %: the simulation looks too.
 */
#define STATS_LONGER_TRIAGE 4
#define STATS_LONGER 2
#define STATS_CLOCK_PAIR 0.01       /* most that two members of a pair may differ in clock */
#define STATS_CLOCK_LOW 0.75        /* least clock, of the median clock seen */
#define STATS_DISCARD 0.05          /* most pairs that may be discarded */

/*
 * Per launch; mhz 0: no clock known. block: its number, not falling along a list of pairs. throttled: something held the clock down.
 * beyond: wall time of the graph beyond its events, for the rules on timers; carried along here and not looked at.
 */
struct stats_pair { double base_ns, candidate_ns, base_mhz, candidate_mhz; int block; bool throttled; double base_beyond_ns, candidate_beyond_ns; };

struct stats_side { double min, q1, median, q3, p95, mean; };
struct stats_interval { double median, low, high; };            /* ratio base / candidate: above 1 is faster */
/* What one timer said of one side: the median with its interval of STATS_CONFIDENCE by ranks, for samples that are independent. */
struct stats_timer { int count; double q1, q3; struct stats_interval median; };
void stats_timer_of(const double *values, int count, struct stats_timer *ret);

/* X(code, name) */
#define STATS_TABLE(X) X(STATS_FASTER, "faster") X(STATS_SAME_SPEED, "same") X(STATS_SLOWER, "slower") X(STATS_UNCLEAR, "unclear")
enum stats_decision {
#define X(code, name) code,
    STATS_TABLE(X)
#undef X
};
const char *stats_decision_name(enum stats_decision d);

struct stats_result {
    int pairs, blocks;
    bool has_cycles;
    struct stats_interval time, cycles;
    struct stats_side base, candidate;
    double autocorrelation;         /* of the medians of neighbouring blocks, in time; 0 where negative */
    double wilcoxon_p;              /* two-sided, on block medians, the larger of time's and cycles'; sign by the median */
    bool apart;                     /* [min, q3] of the two sides' block medians lie apart, candidate below, in time and in cycles */
    enum stats_decision decision;
};

/*
 * Removes pairs by the clock rules, and whole blocks of which not even half is left. Returns how many pairs were discarded;
 * *ret_count is what is left. Two steps of the driver's clock (15 MHz) are a difference, one is not.
 */
int stats_discard(struct stats_pair *pairs, int count, int *ret_count);
int stats_blocks(const struct stats_pair *pairs, int count);
/* At least STATS_LEAST_BLOCKS blocks. Equal seeds, equal results. */
void stats_compare(const struct stats_pair *pairs, int count, uint64_t seed, struct stats_result *ret);
/*
 * A/A: the baseline against itself. A control is taken until it is sharp: alike unless the interval then excludes 1. The point alone is
 * no argument: of 24 pairs with 2 % noise one control in three lies half a percent off.
 * Nor is an early interval, where it excludes 1: who looks up to thirteen times and stops at the first narrow interval picks those that
 * are narrow by chance, and they hold the truth too seldom (Chow and Robbins 1965, Starr 1966, of intervals of fixed width). In simulation
 * a quarter of the controls of triage that ended at the first look did so with a false alarm, of those at the last one in 300. So the
 * looks before the last are far stricter, as those into a trial that still runs are (Haybittle 1971, Peto 1976): all twelve together
 * may add an eighth of the last one's 1 %, which then needs no correction. A control that is sharp and excludes 1 by less than that
 * goes on; at its last look the interval of STATS_CONFIDENCE decides, as for every other.
 */
bool stats_control_settled(const struct stats_result *r);
/* Of how many blocks the next look is, after one at `blocks` that settled nothing; 0: it is long enough as it is. first: of the first look. */
int stats_control_longer(int first, int blocks);
bool stats_alike(const struct stats_result *r);

void stats_side_of(const double *values, int count, struct stats_side *ret);
/* Two-sided p of Wilcoxon's signed-rank test: exact up to 40 differences without ties, else the normal approximation. */
double stats_wilcoxon(const double *differences, int count);
double stats_median(double *values, int count);                 /* reorders them */
json_t *stats_encode(const struct stats_result *r);
json_t *stats_side_encode(const struct stats_side *s);
json_t *stats_timer_encode(const struct stats_timer *t);     /* {"samples","q1_ns","median_ns","q3_ns","low_ns","high_ns"} */

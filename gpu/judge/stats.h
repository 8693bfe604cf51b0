/*
 * Is the candidate faster? Pure arithmetic on paired samples; no clock, no device, random numbers from a seed.
 *
 * Samples come in blocks of equal size, interleaved in time within a block, so that drift hits both sides alike; blocks are the unit
 * that is resampled. The answer is `faster` only when three opinions agree (interval of the median log-ratio, signed ranks of the
 * blocks' medians, quartiles that do not overlap), in time and in cycles. Thresholds are fixed here, before any sample is seen.
 */
#pragma once
#include "core/json.h"

#include <stdint.h>

#define STATS_MAX_PAIRS 4096
#define STATS_DRAWS 5000
#define STATS_CONFIDENCE 0.99
#define STATS_WILCOXON_P 0.01
#define STATS_GAP 0.005             /* least gap between the quartile intervals */
#define STATS_SAME 0.01             /* an interval within this of 1 is "same" */
#define STATS_AA_BIAS 0.005         /* most that the baseline may differ from itself */
#define STATS_AA_NOTED 0.001        /* a difference that is certain counts from here */
#define STATS_CLOCK_PAIR 0.01       /* most that two members of a pair may differ in clock */
#define STATS_CLOCK_LOW 0.75        /* least clock, of the median clock seen */
#define STATS_DISCARD 0.05          /* most pairs that may be discarded */

struct stats_pair { double base_ns, candidate_ns, base_mhz, candidate_mhz; };   /* per launch; mhz 0: no clock known */

struct stats_side { double min, q1, median, q3, p95, mean; };
struct stats_interval { double median, low, high; };            /* ratio base / candidate: above 1 is faster */

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
    double wilcoxon_p;              /* two-sided, on block medians; sign by the median */
    bool apart;                     /* [min, q3] of the two sides lie apart, candidate below */
    enum stats_decision decision;
};

/* Removes pairs by the clock rules (whole blocks stay blocks of the same size: a block loses all its pairs). Returns how many
 * were discarded; *ret_count is what is left. */
int stats_discard(struct stats_pair *pairs, int count, int block_size, int *ret_count);
/* count: a multiple of block_size, at least 2 blocks. Equal seeds, equal results. */
void stats_compare(const struct stats_pair *pairs, int count, int block_size, uint64_t seed, struct stats_result *ret);
/* A/A: true if the two sides (both the baseline) cannot be told apart. */
bool stats_alike(const struct stats_result *r);

void stats_side_of(const double *values, int count, struct stats_side *ret);
/* Two-sided p of Wilcoxon's signed-rank test: exact up to 40 differences without ties, else the normal approximation. */
double stats_wilcoxon(const double *differences, int count);
double stats_median(double *values, int count);                 /* reorders them */
json_t *stats_encode(const struct stats_result *r);
json_t *stats_side_encode(const struct stats_side *s);

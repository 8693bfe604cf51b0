/*
 * What a time may be, from the operator's least work and the card's figures. Pure.
 *
 * Two lines, and they are not alike. Below the first (data sheet, peak, an empty kernel) nothing can be: such a time is a verdict. Below
 * the second (the best bandwidth that this card showed when it was calibrated) nothing should be, but then our own kernels are no proof
 * that none is better: such a time is held until a person has looked. At 97 % of the second line stands what we are here for.
 *
 * The data sheet is a table, and a table can be of another card: where the card itself is measured above it, a quarter above the
 * measurement takes its place (cards reach 0.8 of their data sheet and more) and the certificate says so. And where
 * the operator's own baseline crosses the second line, the line is wrong and holds nobody. A baseline that somebody brought proves no such
 * thing: judged by itself it is held, or refused, as any candidate.
 */
#pragma once
#include "core/json.h"

#define PLAUSIBLE_EMPTY 0.9             /* of an empty kernel's calibrated time: its own error is a few percent */
#define PLAUSIBLE_GAIN_HELD 100.0
#define PLAUSIBLE_GAIN_NOTED 10.0
#define PLAUSIBLE_NEAR 1.05             /* a time within this of the measured line is noted */
#define PLAUSIBLE_OF_SHEET 0.8
#define PLAUSIBLE_TABLE_FAR 0.6         /* a card that reaches less than this of its table is noted: the row may be another's */

struct plausible_case {
    int64_t bytes, flops;               /* least work of one launch */
    int64_t written_bytes;              /* of these, what outputs and inouts take */
    int64_t l2_bytes;
    int launches;                       /* in a timed graph; 0: an estimate */
    double table_bytes_per_ns, table_flops_per_ns;
    double empty_ns;                    /* an empty kernel as a node of a graph */
    double copy_bytes_per_ns, read_bytes_per_ns;        /* measured; 0 not known */
    double candidate_ns, baseline_ns, gain;
    bool foreign;                       /* the baseline is not the operator's own: it proves nothing about a line */
    bool alone;                         /* it is what is judged */
};
enum plausible_outcome { PLAUSIBLE, PLAUSIBLE_BASELINE_BELOW, PLAUSIBLE_IMPOSSIBLE, PLAUSIBLE_HELD_CEILING, PLAUSIBLE_HELD_GAIN };
struct plausible_result {
    enum plausible_outcome outcome;
    double memory_ns, compute_ns, empty_ns, floor_ns;
    const char *limit;                  /* "memory", "compute", "launch": what the floor is of */
    double ceiling_bytes_per_ns;        /* measured; 0 not known */
    double ceiling_ns;                  /* what the bytes take at it, less what may be left in L2 at a graph's end; 0 not known */
    bool table_exceeded, table_far, near_ceiling, ceiling_void, gain_noted;
};
void plausible_lines(const struct plausible_case *c, struct plausible_result *ret);
/* {"bytes","flops","memory_ns",...,"floor_ns","limit","fraction","ceiling":{...}|null,"notes":[..]}; new reference. */
json_t *plausible_encode(const struct plausible_case *c, const struct plausible_result *r);

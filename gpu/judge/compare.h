/*
 * Whether a tensor that a kernel gave agrees with the reference: the tolerance rules, in the order in which they are looked at.
 *
 *   classes    NaN, +Inf, -Inf or finite as the reference rounded to the type; counted before anything is subtracted
 *   unchanged  inout: a row, or 8 elements of one in succession, that the reference leaves exactly as they were must keep their bits
 *   gaps       space between the rows of a strided tensor must keep its bits
 *   exact      integers, and floats of which the operator says it: no difference at all from the reference rounded to the type
 *   tile       RMS error of each tile relative to what a trusted kernel (the baseline) itself makes; the whole follows from the tiles
 *   worst, cap the worst element, against max(RMS of its tile, its own size)
 *   bias       the mean of the error, plain and towards zero, against the error's own size
 *   small      as tile, of the elements of one order of magnitude alone: what is lost below the others' rounding
 *   steps      where the operator says so: how many of its type's numbers an element is from the reference rounded to the type. Where it
 *              may be one, for ties that fall the other way, what is rounded must be near a tie (2^-10 of it): a gain a little off is no tie
 *
 * Where an operator's steps may round between them (op.json "intermediates"), the reference comes with a second result that does:
 * its distance from the first, tile by tile, is allowed like the baseline's error, in every mode.
 *
 * Relative errors are of a scale: the RMS of the tile, or the element. Where the values are smaller than what their type, or single precision
 * within a kernel, holds with all its bits, and are not all zeros, the scale is that (compare_least_scale): of a tensor of a few elements
 * all may be so small by chance, and then what rounds to the next number of the type, or to zero, is as right as can be.
 *
 * A tile is a row of the last dimension: short rows joined to at least 32 elements, long ones cut to at most 1024. What must
 * keep its bits is in no tile. Pure; any thread.
 *
 * op.json may set "tolerance": {"OUTPUT": {"max":..,"rms":..,"factor":..,"matched":..,"steps":..,"exact":true}}, each for all dtypes of that tensor.
 */
#pragma once
#include "core/shape.h"
#include "core/verdict.h"

struct compare_tolerance {
    double max;          /* |error| / max(RMS of the tile, |reference|) of any element */
    double rms;          /* RMS(error) / RMS(reference) where there is no baseline result */
    double factor;       /* RMS(error) against the baseline's own */
    double matched;      /* part of the elements that must be within `max`; all within 10 times it */
    double steps;        /* numbers of the type that lie from the right one to the one that is given; 0: nobody counts */
    bool exact;          /* what is moved and not computed: each element is the right one */
};
/* ERR_INVALID names the field of "tolerance" that is wrong. */
bool compare_check(const struct op *op, struct err *err) MUST_CHECK;
struct compare_tolerance compare_tolerance(const struct op *op, const struct tensor *t);
/* The least that errors are held against where the right values are not zeros: below it a type, or a step of a kernel, has no relative precision. */
double compare_least_scale(enum dtype t);

struct compare_case {
    const struct op *op;
    const struct tensor *tensor;     /* an inout or an output */
    const double *reference;         /* op_results(op) x `elements` doubles, row-major, not rounded */
    const void *got;                 /* `bytes` long, with the tensor's strides; so are the two below */
    const void *baseline;            /* what the baseline gave for the same inputs; NULL: none */
    const void *before;              /* inout: the content before the launch; an output's poison, for its gaps; NULL: not looked at */
    const uint8_t *written;          /* by element: 0 is not looked at (blocks that were left out write it); NULL: all are */
};

#define COMPARE_RULE_TABLE(X)                                                                                    \
    X(COMPARE_NONE, "", VERDICT_OK)                                                                              \
    X(COMPARE_CLASSES, "classes", VERDICT_NON_FINITE)                                                            \
    X(COMPARE_UNCHANGED, "unchanged", VERDICT_INPUT_MODIFIED)                                                    \
    X(COMPARE_GAPS, "gaps", VERDICT_INPUT_MODIFIED)                                                              \
    X(COMPARE_EXACT, "exact", VERDICT_WRONG_RESULT)                                                              \
    X(COMPARE_TILE, "tile", VERDICT_WRONG_RESULT)                                                                \
    X(COMPARE_WORST, "worst", VERDICT_WRONG_RESULT)                                                              \
    X(COMPARE_CAP, "cap", VERDICT_WRONG_RESULT)                                                                  \
    X(COMPARE_BIAS, "bias", VERDICT_WRONG_RESULT)                                                                \
    X(COMPARE_SMALL, "small", VERDICT_WRONG_RESULT)                                                              \
    X(COMPARE_STEPS, "steps", VERDICT_WRONG_RESULT)

enum compare_rule {
#define X(code, name, verdict) code,
    COMPARE_RULE_TABLE(X)
#undef X
};
const char *compare_rule_name(enum compare_rule rule);

struct compare_result {
    enum verdict_code code;          /* VERDICT_OK, WRONG_RESULT, NON_FINITE, INPUT_MODIFIED */
    enum compare_rule rule;          /* the first that failed */
    char text[320];                  /* one sentence; "" when all is well */
    bool has_element;                /* the element below: the failing rule's, else the worst */
    int64_t index[OP_MAX_DIMS];
    double got, wanted;
    int64_t elements, unchanged, wrong_class;    /* compared; kept their bits; of the wrong class */
    double worst;                                /* largest |error| / max(RMS of the tile, |reference|), beyond what steps may round */
    double rms;                      /* RMS(error) / RMS(reference) */
    double baseline_worst, baseline_rms;         /* the same of the baseline, RMS too beyond what steps may round; -1 */
    double ratio;                    /* RMS(error) / RMS(error of the baseline); -1: none given, or it makes none */
    double worst_tile;               /* largest RMS(error) of a tile against what the tile may have; over 1 fails */
    double bias;                     /* larger of the two means against what they may be; over 1 fails */
    int64_t unmet_place;             /* with `written`: an index of the last dimension that is written in no row; -1 */
    double shortest_piece;           /* and the shortest stretch of a row that is written, as a part of the row */
    double small;                    /* largest RMS(error) of elements of one magnitude against what it may be; over 1 fails */
};
void compare_tensor(const struct compare_case *c, struct compare_result *ret);
/* Whether the baseline of this comparison is fit to be a yardstick: inside the absolute table itself. */
bool compare_baseline_fit(const struct compare_result *r, const struct compare_tolerance *t);
/* Figures and, where there is one, the failing element; new reference. */
json_t *compare_encode(const struct compare_result *r, const struct tensor *t);

/* Whether two results of equal inputs are as close as they must be where atomics may change the order of sums; else *ret_element is one
 * that is not. */
bool compare_spread(const struct op *op, const struct tensor *t, const void *a, const void *b, int64_t *ret_element);
/* Whether two images of a tensor have the same bits; if not, *ret_offset is the first byte that differs. */
bool compare_same(const struct tensor *t, const void *a, const void *b, int64_t *ret_offset);

/*
 * Canaries: wrong results that an operator's regimes and tolerance must tell from right ones. They are made generically from what
 * the reference gives (nothing, a mean, an input, a tile missing, a gain, coarser rounding) and from what it gives for other inputs
 * or scalars (a scalar dropped, one input taken from another seed, inputs in the next lower type). Right results, as exact as the
 * type and with the noise of single precision where it is not said to be exact, must pass.
 *
 * One that agrees with the right result in every regime is refused too: an operator in which no regime shows its epsilon proves
 * nothing about it. Where that may honestly be (an output that is an input, rows that are their own mean, an output that does not
 * depend on a scalar or input which another output shows) it is skipped and the report says why.
 *
 * Each is compared by every yardstick that a judgement may use: the table, a baseline that rounds once, and the operator's own
 * baseline where its results are given. An inout's elements that the operator leaves alone are left alone here as well, so that
 * none is caught merely for touching them.
 *
 * The baseline's results, where they are given, must themselves pass, by the table as when a baseline is judged.
 *
 * Runs the operator's reference in this process: for the reference child, and for tests.
 */
#pragma once
#include "core/shape.h"
#include "gpu/judge/inputs.h"

#define CANARY_MAX_ELEMENTS 16384           /* of all tensors of a canary shape together */

/*
 * A small legal shape: all axes without a default as large as CANARY_MAX_ELEMENTS allows, if possible alike. dtypes: by letter;
 * NULL: the first of each. ERR_UNPROCESSABLE if none of the sizes tried holds the constraints.
 */
bool canary_shape(const struct op *op, const enum dtype *dtypes, struct shape *ret, struct err *err) MUST_CHECK;
/* The choices of dtypes to look at: the first of each letter, and each other one of a letter beside the first of the others. */
int canary_dtype_choices(const struct op *op, enum dtype (*ret)[OP_MAX_DTYPES], int most);

/* A regime's inputs as the canaries see them, for whoever runs the baseline on them. As inputs_make. */
bool canary_inputs(const struct shape *s, const struct tensor *tensors, int regime, void **ret, struct err *err) MUST_CHECK;

struct canary_options {
    bool all_regimes;                       /* false: a canary that is caught is not looked at again */
    /* What the baseline gave for canary_inputs, by regime and tensor; NULL: not known. */
    void *const (*baseline)[OP_MAX_TENSORS];
};
struct canary_result {
    bool passed;
    bool baseline_right;                    /* true too where it was not given */
    int caught, skipped;
    char text[400];                         /* why not; "" */
    json_t *report;                         /* {"shape","canaries":[{"canary","output","caught","of","rule"|"skipped"}]} */
};
void canary_result_done(struct canary_result *r);
DEFINE_CLEANUP(canary_result, struct canary_result, canary_result_done(it))
/* False: the reference failed on a regime's own inputs, or the shape has no inputs. */
bool canary_check(const struct shape *s, const struct canary_options *o, struct canary_result *ret, struct err *err) MUST_CHECK;

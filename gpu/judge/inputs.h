/*
 * Inputs of a judgement, made from a seed by the operator's regimes (op.json "regimes").
 *
 * A regime is a named set of distributions, one for each input and inout tensor; it may take those it does not name from an
 * earlier regime ("base"). The first regime is the typical one, which timing uses; the last ones may each say for which shapes they are
 * ("when": a condition on the axes; a shape has those before the first that does not hold). Whoever has the seed gets the same bits on any
 * machine: integer arithmetic, additions and multiplications only, nothing of libm. Space between rows is filled with NaN or
 * large integers, so that a kernel that reads it shows.
 *
 *   {"dist":"normal","mean":0,"std":1}                sum of eight uniforms; within 4.9 deviations
 *   {"dist":"uniform","low":0,"high":1}
 *   {"dist":"constant","value":0}
 *   {"dist":"integers","low":-3,"high":3}             whole numbers, ends included; a zero, here and of a constant, is of either sign
 *   {"dist":"outliers","mean"?,"std","scale","every"} normal; about one in `every` is `scale` times larger
 *   {"dist":"rows","low","high"}                      normal; each row (last dimension) times a factor of its own in [low, high]
 *   {"dist":"slope","from","to","along"?}             one number for each index of the dimension `along`, the last if none is said: evenly
 *                                                     from `from` at its first to `to` at its last
 *   {"dist":"mirrored","mean"?,"std","sign","part","along"?}   normal; the second half of the dimension `along`, the last if none is said, is
 *                                                     `sign` times the first, begun at a place drawn from the seed (the same in all tensors
 *                                                     of it), and `part` of a normal number of its own: what meets in a sum cancels
 *   {"dist":"hot","stretch","value"}                  zeros, but of every `stretch` elements (an integer or an expression) of a row, or of what
 *                                                     a part has of it, one, drawn from the seed, is `value`
 *   {"dist":"spikes","std","value"|"weight","each","turn"?,"turns"?}   normal; `each` elements (an integer or an expression) of a row (last dimension)
 *                                                     are `value` more, or so much that their squares come to `weight` times the others': where loops leave an element out most easily (spikes.h), or anywhere.
 *                                                     Where there are few rows, tensors with turns of their own, from 1 to `turns`, share
 *                                                     these places out between them
 *   {"dist":"parts","along"?,"sizes":[..],"of":[{"dist":..}, ..]}   tensors of floats: the dimension `along`, the last if none is said, is cut
 *       into parts of these sizes (integers or expressions over the axes), the last takes the rest; each has its own distribution
 *   {"dist":"distinct","low":"1","high":"slots-1","padding":0,"padding_values":[0]}   integer tensors: no value twice but padding;
 *       a part `padding` of the elements, rounded up, and those for which no value is left take one of these
 *       values; "negative" among those is a number below zero drawn from the seed, of any magnitude of an i32
 *   {"dist":"indices", as "distinct"}                 integer tensors: values may come more than once
 *   {"dist":"edges", as "indices","multiple"|"edge"?} half of the values are where kernels' tiles end: the ends of the range, multiples of 8 to
 *       256 in it and their neighbours; where `multiple` or `edge` (an expression) is given, every other value, the first among them,
 *       is a multiple of that or that itself
 *   "beyond": "LENGTHS" with any distribution of floats: where the tensor's second index is at or past the length that the integer
 *       input LENGTHS holds for its first, the element is NaN: what a cache holds past its end is no data
 *   "masked": [FROM, TO] with any distribution of floats: each row (last dimension) has a part of its own, drawn evenly from FROM to TO, of
 *       elements that are -Inf; a part of 1 or more is all of the row
 *   "times": [FROM, TO] with any distribution of floats: the tensor's elements are so many times larger, by a factor drawn from the seed, alike
 *       in each power of two: how large inputs may be is not to be seen in a regime
 *   "for": {"DTYPE": {"dist":..}} with any distribution: where the tensor is stored in that dtype it has this one instead (what bf16
 *       holds with ease may be below the smallest f16); of parts: outside, not in one of them
 *
 * Pure functions of their arguments; any thread.
 */
#pragma once
#include "gpu/judge/values.h"

#define INPUTS_MAX_REGIMES 48

/* Whether the regimes are well formed: distributions known, every parameter sensible, every tensor covered. ERR_INVALID. */
bool inputs_check(const struct op *op, struct err *err) MUST_CHECK;

int inputs_regime_count(const struct op *op);
/* Those that this shape has: the last ones may be for some shapes only ("when"). */
int inputs_regimes_of(const struct shape *s);
const char *inputs_regime_name(const struct op *op, int regime);      /* borrowed */
bool inputs_regime_hidden(const struct op *op, int regime);
int inputs_regime_index(const struct op *op, const char *name);       /* -1: none */

/*
 * Makes all inputs and inouts: ret_tensors[i] is tensors[i].bytes long, the caller frees; NULL for outputs.
 * The operator passed inputs_check. ERR_UNPROCESSABLE when an expression of a distribution has no value for this shape.
 */
bool inputs_make(const struct shape *s, const struct tensor *tensors, int regime, uint64_t seed, void **ret_tensors, struct err *err) MUST_CHECK;
/* The same where they are to lie: to[i] is tensors[i].bytes long. Those of which it is NULL are not made, nor is then what their "beyond" says. */
bool inputs_fill(const struct shape *s, const struct tensor *tensors, int regime, uint64_t seed, void *const *to, struct err *err) MUST_CHECK;
/* Frees and clears the arrays of all tensors of the operator. */
void inputs_free(const struct op *op, void **arrays);

/* Whether the values of tensor t are indices ("distinct", "indices") whose range depends on that axis, in any regime. */
bool inputs_address(const struct shape *s, const struct tensor *tensors, int t, int axis);
/* Whether each input of indices ("distinct", "indices" over more than a few values) comes within a sixteenth of the last value with this seed. */
bool inputs_reach(const struct shape *s, const struct tensor *tensors, int regime, uint64_t seed);

/* By tensor: whether its elements may be rotated without leaving the regime (independent floats, dense). */
void inputs_rotatable(const struct op *op, const struct tensor *tensors, int regime, bool *ret_rotate);

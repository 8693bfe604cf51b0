/*
 * Distributions of one tensor's elements, as op.json's regimes name them (inputs.h says how). Pure; any thread.
 */
#pragma once
#include "core/shape.h"

#include "gpu/judge/spikes.h"

#define DIST_MAX_PADDING_VALUES 8
#define DIST_MOST_TURNS 64
#define DIST_MOST_SPIKES 4096      /* of a row */

struct dist_kind;
struct dist {
    const struct dist_kind *kind;
    double mean, std, low, high, scale, value, padding;
    double times;                                    /* all elements are so many times larger: drawn from the seed */
    double masked[2];                                /* part of a row that is -Inf: from, to; to 0: none */
    int64_t every, row, first, range, elements;      /* first, range: distinct values are first .. first + range - 1 */
    int64_t along, along_inner;                      /* slope: size of its dimension, elements of one index of it */
    int64_t edge, multiple;                          /* edges: what every other element is, or is a multiple of; multiple 0, no edge: drawn */
    bool has_edge;
    int64_t stretch, origin;                         /* hot: one element of each so many from origin on, an index of the last dimension */
    int64_t rank;                                    /* distinct: values given so far */
    int padding_count;
    double padding_values[DIST_MAX_PADDING_VALUES];  /* NaN: any number below zero, drawn */
    double part, sign;                               /* mirrored */
    struct spikes spikes;
    uint64_t seed, stream;
};

/* ERR_INVALID, with `where` in front: no such distribution, not for such tensors, a parameter that is missing, senseless or unknown. */
bool dist_check(const json_t *doc, bool floats, const char *where, struct err *err) MUST_CHECK;
/* Elements are only made in order, all of them. */
bool dist_ordered(const struct dist *d);
/* Elements may change places. */
bool dist_independent(const json_t *doc);
/* Of a distribution that passed the check; seed and stream are set by the caller before. ERR_UNPROCESSABLE: an expression has no value here. */
bool dist_parse(const struct shape *s, const struct tensor *t, const json_t *doc, struct dist *ret, struct err *err) MUST_CHECK;
/* Elements `first` to first + count - 1; of an ordered distribution in order from 0. */
void dist_fill(struct dist *d, int64_t first, int64_t count, double *ret);

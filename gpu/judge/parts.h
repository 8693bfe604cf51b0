/*
 * What a tensor of a regime is filled from: one distribution, or several where a dimension of it holds unlike things side by side
 * (queries, keys and values in one row, taps of a filter). inputs.h says how op.json writes it. Pure; any thread.
 */
#pragma once
#include "gpu/judge/distributions.h"

#define PARTS_MOST 6

struct parts {
    int count;
    int64_t along, inner;                    /* size of the dimension that is cut, elements of one index of it; 1 part: of no interest */
    int64_t ends[PARTS_MOST];                /* indices of the dimension at which the parts end */
    struct dist of[PARTS_MOST];
};

/* ERR_INVALID, with `where` in front: as dist_check, and of parts: a dimension that is not there, sizes and distributions that don't fit. */
bool parts_check(const struct op *op, const struct op_tensor *t, const json_t *doc, const char *where, struct err *err) MUST_CHECK;
/* Of what passed the check. ERR_UNPROCESSABLE: an expression has no value here, or the parts are larger than the dimension. */
bool parts_parse(const struct shape *s, const struct tensor *t, const json_t *doc, uint64_t seed, uint64_t stream, struct parts *ret, struct err *err) MUST_CHECK;
/* Elements `first` to first + count - 1, in order from 0. */
void parts_fill(struct parts *p, int64_t first, int64_t count, double *ret);

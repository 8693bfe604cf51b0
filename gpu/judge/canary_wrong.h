/* The kinds of wrong results, between canary_wrong.c, which makes them, and canary.c, which sees whether they pass. */
#pragma once
#include "gpu/judge/canary.h"

/* One regime: what goes in, what is right. `variant` is what the reference gives for other inputs or scalars. */
struct scene {
    const struct shape *s;
    const struct op *op;
    const struct tensor *tensors;
    int regime;
    void *inputs[OP_MAX_TENSORS], *other[OP_MAX_TENSORS];
    double *before[OP_MAX_TENSORS];             /* inputs and inouts as dense doubles */
    double largest[OP_MAX_TENSORS];             /* magnitude of each input and inout in the typical regime */
    double *right[OP_MAX_TENSORS], *variant[OP_MAX_TENSORS];
    void *image[OP_MAX_TENSORS];                /* the right result, stored */
};

enum subject { NONE, A_SCALAR, AN_INPUT };
enum { MAY_BE_RIGHT = 1, FLOATS_ONLY = 2, MUST_PASS = 4 };
enum made { MADE, NOT_HERE };                   /* NOT_HERE: this regime or shape has no such wrong result */

struct kind {
    const char *name, *text;
    enum made (*make)(const struct scene *n, int t, double *ret);
    /* Changed inputs (copies) or scalars for a run of the reference; NULL: `make` works on the right result. */
    void (*change)(const struct scene *n, int subject, void **inputs, struct op *op);
    enum subject subject;
    unsigned flags;
    double size;                                /* relative; nothing that a type's rounding hides is asked of it */
};
extern const struct kind canary_kinds[];
extern const int canary_kind_count;

/* Whether the operator changes this element of an inout; of an output: always. */
bool canary_changed(const struct scene *n, int t, int64_t i);
/* Why a kind is not asked for; NULL: it is. */
const char *canary_skipped(const struct kind *k, int subject, const struct op *op, const struct tensor *tensors, const struct tensor *output);

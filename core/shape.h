/*
 * A shape: an operator, a value for each axis, a dtype for each letter, a target. Its hash is the key of everything served.
 * Plain values; borrows the operator.
 */
#pragma once
#include "core/op.h"

#define TARGET_SIZE 16
#define SHAPE_MAX_ELEMENTS ((int64_t)1 << 40)

struct shape {
    const struct op *op;
    int64_t axes[OP_MAX_AXES];          /* in the operator's order; all of them, defaults and consts filled in */
    enum dtype dtypes[OP_MAX_DTYPES];   /* by letter */
    char target[TARGET_SIZE];           /* "sm_90a" */
};

/*
 * Reads {"op","axes","dtypes"?,"target"?}. Faults go to `f` with pointers below `pointer` (unknown operator, axis missing,
 * unknown, out of range, not an integer, constraint broken, unknown dtype or target). True if there was none.
 * default_target is used when the shape names none.
 */
bool shape_parse(const struct op_set *ops, const json_t *doc, const char *default_target, const char *pointer,
                 struct shape *ret, struct faults *f) MUST_CHECK;
/*
 * Axes that are not keyed take their defaults: a kernel is served for all their values, so a caller's own must not decide what is judged.
 * ignored (may be NULL): gets {"NAME": value} of each that was another. ERR_UNPROCESSABLE where the shape does not hold with the defaults.
 */
bool shape_unkey(struct shape *s, json_t *ignored, struct err *err) MUST_CHECK;
json_t *shape_encode(const struct shape *s);                  /* all axes and dtypes; new reference */
void shape_canonical(const struct shape *s, struct buf *to);  /* the text that is hashed (contract, "Shape and shape hash") */
struct hash_hex shape_hash(const struct shape *s);
/* expr_lookup over the shape's axes; ctx is a const struct shape *. */
bool shape_lookup(void *ctx, const char *name, int64_t *ret);
bool target_valid(const char *target);

struct tensor {
    const struct op_tensor *spec;       /* borrowed from the operator */
    enum dtype dtype;
    int rank;
    int64_t dims[OP_MAX_DIMS], strides[OP_MAX_DIMS];   /* in elements */
    int64_t elements;                   /* product of dims */
    int64_t span_elements;              /* last element's offset + 1 (0 if there is none) */
    int64_t bytes;                      /* span_elements x size */
};
/* All tensors of the shape, in the operator's order. ERR_UNPROCESSABLE when a size overflows or passes SHAPE_MAX_ELEMENTS. */
bool shape_tensors(const struct shape *s, struct tensor ret[OP_MAX_TENSORS], struct err *err) MUST_CHECK;
/* Offset in elements of the i-th element in row-major order. */
int64_t tensor_offset(const struct tensor *t, int64_t i);
/* The least bytes and operations of a perfect kernel (op.json `bytes`, `flops`). Names: axes, and bytes_LETTER for dtype sizes. */
bool shape_work(const struct shape *s, int64_t *ret_bytes, int64_t *ret_flops, struct err *err) MUST_CHECK;

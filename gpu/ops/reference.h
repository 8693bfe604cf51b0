/*
 * What an operator's reference.c implements: the operator in plain C, in double precision, without rounding what it writes.
 *
 * It is built on its own (no library but libm, no other header of ours) and runs in a process of its own. Every tensor comes as a
 * dense row-major array of doubles, whatever its dtype and strides: inputs hold exactly the stored values, inout tensors hold the
 * values before the call and take those after it, outputs hold NaN and must be written whole. A name that the operator does not
 * have, or an index outside a tensor, is a bug of the reference: it aborts.
 *
 * Where the operator itself rounds on its way to a result (a norm of the sum as it is stored), reference_format and reference_round
 * do so. Where an engine may round between the kernels of a chain and need not, op.json names the dtype ("intermediates") and the
 * reference is called twice: with `between` NULL for the exact result, and with that dtype's name, when reference_between rounds.
 * The second call's distance from the first is what a kernel that rounds there is allowed.
 *
 * Where tensors are large one thread takes seconds over them. A reference whose work falls into pieces that know nothing of each other, in
 * which every sum is one piece's, may hand them to reference_each: the result is the same bits on any number of threads.
 */
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REFERENCE_MAX_DIMS 8

struct reference_axis { const char *name; int64_t value; };
struct reference_scalar { const char *name; double value; };
struct reference_tensor {
    const char *name;
    int rank;
    int64_t dims[REFERENCE_MAX_DIMS];
    int64_t elements;
    double *data;
};
struct reference_call {
    int axis_count, scalar_count, tensor_count;
    const struct reference_axis *axes;
    const struct reference_scalar *scalars;
    const struct reference_tensor *tensors;
    const char *const *dtypes;              /* by tensor: "f32", "f16", "bf16", "f8e4m3", "i32", ... */
    const char *between;                    /* NULL: nothing is rounded between the steps */
    void (*each)(int64_t count, void (*one)(void *ctx, int64_t i), void *ctx);      /* see reference_each; NULL: one thread does */
};

/* The one symbol of a reference.so. */
void proteus_reference(const struct reference_call *call);

__attribute__((unused)) static inline int64_t reference_axis(const struct reference_call *call, const char *name)
{
    for (int i = 0; i < call->axis_count; i++)
        if (!strcmp(call->axes[i].name, name))
            return call->axes[i].value;
    abort();
}

__attribute__((unused)) static inline double reference_scalar(const struct reference_call *call, const char *name)
{
    for (int i = 0; i < call->scalar_count; i++)
        if (!strcmp(call->scalars[i].name, name))
            return call->scalars[i].value;
    abort();
}

__attribute__((unused)) static inline double *reference_data(const struct reference_call *call, const char *name)
{
    for (int i = 0; i < call->tensor_count; i++)
        if (!strcmp(call->tensors[i].name, name))
            return call->tensors[i].data;
    abort();
}

/* one(ctx, 0) .. one(ctx, count - 1), in any order, several at once; returns when all are done. */
__attribute__((unused)) static inline void reference_each(const struct reference_call *call, int64_t count, void (*one)(void *ctx, int64_t i), void *ctx)
{
    if (call->each)
        call->each(count, one, ctx);
    else
        for (int64_t i = 0; i < count; i++)
            one(ctx, i);
}

/* A floating type: bits of its mantissa (0: values are not rounded), the exponent of its smallest number, its largest. */
struct reference_format { int bits, least; double largest; };

__attribute__((unused)) static inline struct reference_format reference_format_of(const char *dtype)
{
    static const struct { const char *name; struct reference_format format; } known[] = {
        {"f32", {24, -149, 0x1.fffffep127}}, {"f16", {11, -24, 65504}}, {"bf16", {8, -133, 0x1.fep127}}, {"f8e4m3", {4, -9, 448}}};
    for (unsigned i = 0; dtype && i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, dtype))
            return known[i].format;
    return (struct reference_format){0, 0, 0};
}

__attribute__((unused)) static inline struct reference_format reference_format(const struct reference_call *call, const char *tensor)
{
    for (int i = 0; i < call->tensor_count; i++)
        if (!strcmp(call->tensors[i].name, tensor))
            return reference_format_of(call->dtypes[i]);
    abort();
}

/* What is rounded between the steps of a chain: nothing in the exact call. */
__attribute__((unused)) static inline struct reference_format reference_between(const struct reference_call *call)
{
    return reference_format_of(call->between);
}

/* The nearest number of the type, ties to even; past its largest: infinite. */
__attribute__((unused)) static inline double reference_round(struct reference_format f, double x)
{
    int e;
    if (!f.bits || x == 0 || !isfinite(x))
        return x;
    (void)frexp(x, &e);
    int last = e - f.bits < f.least ? f.least : e - f.bits;
    double rounded = ldexp(rint(ldexp(x, -last)), last);
    return fabs(rounded) <= f.largest ? rounded : copysign(INFINITY, x);
}

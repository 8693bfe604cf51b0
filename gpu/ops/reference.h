/*
 * What an operator's reference.c implements: the operator in plain C, in double precision, without rounding what it writes.
 *
 * It is built on its own (no library but libm, no other header of ours) and runs in a process of its own. Every tensor comes as a
 * dense row-major array of doubles, whatever its dtype and strides: inputs hold exactly the stored values, inout tensors hold the
 * values before the call and take those after it, outputs hold NaN and must be written whole. A name that the operator does not
 * have, or an index outside a tensor, is a bug of the reference: it aborts.
 */
#pragma once
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

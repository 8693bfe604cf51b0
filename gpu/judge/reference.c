/* Tensors become dense arrays of doubles; an inout tensor is one array that the reference changes in place. */
#include "gpu/judge/reference.h"

#include "gpu/judge/inputs.h"
#include "gpu/ops/reference.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

typedef void reference_fn(const struct reference_call *call);

DEFINE_CLEANUP(library, void *, if (*it) dlclose(*it))

static bool check_size(const struct op *op, const struct tensor *tensors, struct err *err)
{
    int64_t bytes = 0;
    for (int t = 0; t < op->tensor_count; t++) {
        int parts = tensors[t].spec->role == OP_INPUT ? 1 : op_results(op);
        if (tensors[t].elements > (REFERENCE_MAX_BYTES - bytes) / (int64_t)sizeof(double) / parts)
            return err_set(err, ERR_TOO_LARGE, "the reference of %s would need more than %lld GiB for this shape", op->name,
                           (long long)(REFERENCE_MAX_BYTES >> 30));
        bytes += tensors[t].elements * (int64_t)sizeof(double) * parts;
    }
    return true;
}

/* Room for both results of an operator that has two; the reference writes the first part. */
static void arrays_make(const struct op *op, const struct tensor *tensors, const void *const *inputs, struct reference_tensor *ret)
{
    for (int t = 0; t < op->tensor_count; t++) {
        const struct tensor *tensor = &tensors[t];
        struct reference_tensor *to = &ret[t];
        to->name = tensor->spec->name;
        to->rank = tensor->rank;
        for (int d = 0; d < tensor->rank && d < REFERENCE_MAX_DIMS; d++)
            to->dims[d] = tensor->dims[d];
        to->elements = tensor->elements;
        int parts = tensor->spec->role == OP_INPUT ? 1 : op_results(op);
        to->data = xalloc_large(((size_t)tensor->elements * (size_t)parts + 1) * sizeof(double));
        if (tensor->spec->role != OP_OUTPUT)
            values_gather(tensor, inputs[t], 0, tensor->elements, to->data);
        else
            for (int64_t i = 0; i < tensor->elements; i++)
                to->data[i] = NAN;
    }
}

/* Once more with what may be rounded between the steps; these results go behind the exact ones. */
static void run_rounded(reference_fn *run, const struct op *op, const struct tensor *tensors, const void *const *inputs,
                        struct reference_call call, const struct reference_tensor *exact, enum dtype between)
{
    struct reference_tensor arrays[OP_MAX_TENSORS] = {0};
    memcpy(arrays, exact, sizeof arrays);
    for (int t = 0; t < op->tensor_count; t++) {
        const struct tensor *tensor = &tensors[t];
        if (tensor->spec->role == OP_INPUT)
            continue;
        arrays[t].data += tensor->elements;
        if (tensor->spec->role == OP_INOUT)
            values_gather(tensor, inputs[t], 0, tensor->elements, arrays[t].data);
        else
            for (int64_t i = 0; i < tensor->elements; i++)
                arrays[t].data[i] = NAN;
    }
    call.tensors = arrays;
    call.between = dtype_name(between);
    run(&call);
}

static bool check_finite(const struct op *op, const struct reference_tensor *t, struct err *err)
{
    for (int64_t i = 0; i < t->elements * op_results(op); i++)
        if (!isfinite(t->data[i]))
            return err_set(err, ERR_INTERNAL, "the reference of %s gives %f at element %lld of %s: unwritten, or outside what doubles hold",
                           op->name, t->data[i], (long long)(i % t->elements), t->name);
    return true;
}

bool reference_run(const struct shape *s, const struct tensor *tensors, const void *const *inputs, double **ret_arrays, struct err *err)
{
    const struct op *op = s->op;
    if (!check_size(op, tensors, err))
        return false;
    cleanup(str) char *path = xfmt("%s/reference.so", op->dir);
    cleanup(library) void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        return err_set(err, ERR_UNAVAILABLE, "the reference of %s can't be loaded: %s", op->name, why ? why : path);
    }
    reference_fn *run;
    void *symbol = dlsym(library, "proteus_reference");
    if (!symbol)
        return err_set(err, ERR_UNAVAILABLE, "%s has no function proteus_reference", path);
    memcpy(&run, &symbol, sizeof run);

    struct reference_axis axes[OP_MAX_AXES];
    struct reference_scalar scalars[OP_MAX_SCALARS];
    struct reference_tensor arrays[OP_MAX_TENSORS] = {0};
    for (int i = 0; i < op->axis_count; i++)
        axes[i] = (struct reference_axis){op->axes[i].name, s->axes[i]};
    for (int i = 0; i < op->scalar_count; i++)
        scalars[i] = (struct reference_scalar){op->scalars[i].name, op->scalars[i].value};
    arrays_make(op, tensors, inputs, arrays);
    const char *dtypes[OP_MAX_TENSORS];
    for (int t = 0; t < op->tensor_count; t++)
        dtypes[t] = dtype_name(tensors[t].dtype);
    const struct reference_call call = {op->axis_count, op->scalar_count, op->tensor_count, axes, scalars, arrays, dtypes, NULL};
    run(&call);
    if (op_results(op) > 1)
        run_rounded(run, op, tensors, inputs, call, arrays, s->dtypes[op->between]);

    bool finite = true;
    for (int t = 0; t < op->tensor_count; t++)
        finite = finite && (op->tensors[t].role == OP_INPUT || check_finite(op, &arrays[t], err));
    for (int t = 0; t < op->tensor_count; t++) {
        bool keep = finite && op->tensors[t].role != OP_INPUT;
        if (!keep)
            free(arrays[t].data);
        if (finite)
            ret_arrays[t] = keep ? arrays[t].data : NULL;
    }
    return finite;
}

/*
 * Tensors become dense arrays of doubles; an inout tensor is one array that the reference changes in place. Where tensors have holes
 * (held.h) theirs are as large as they say and as full as they are: the reference finds zeros between the rows that are held.
 */
#include "gpu/judge/reference.h"

#include "gpu/judge/crew.h"
#include "gpu/judge/inputs.h"
#include "gpu/ops/reference.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define PART_ELEMENTS ((int64_t)1 << 18)

typedef void reference_fn(const struct reference_call *call);

DEFINE_CLEANUP(library, void *, if (*it) dlclose(*it))

/* What one call works on. */
struct work {
    const struct op *op;
    const struct tensor *tensors;           /* as the reference sees them */
    struct tensor compact[OP_MAX_TENSORS];  /* as inputs and results are: other than these only where rows are held */
    const struct held *held;
    const int64_t *rows;
    const void *const *inputs;
    struct reference_tensor arrays[OP_MAX_TENSORS];
    double *const *results;                 /* the caller's: both results; of those with holes what is held */
};

static bool has_holes(const struct work *w, int t) { return held_is(w->held, w->op, t); }
static size_t whole_bytes(const struct work *w, int t) { return (size_t)w->tensors[t].elements * sizeof(double); }

static void work_done(struct work *w)
{
    for (int t = 0; t < w->op->tensor_count; t++) {
        if (has_holes(w, t))
            held_unmap(w->arrays[t].data, whole_bytes(w, t));
        else if (w->tensors[t].spec->role == OP_INPUT)
            free(w->arrays[t].data);
    }
}
DEFINE_CLEANUP(work, struct work, work_done(it))

static bool check_size(const struct work *w, struct err *err)
{
    const struct op *op = w->op;
    const struct tensor *tensors = w->tensors;
    const int64_t most = w->held->axis < 0 ? REFERENCE_MAX_BYTES : REFERENCE_HELD_BYTES;
    int64_t bytes = 0;
    for (int t = 0; t < op->tensor_count; t++) {
        int parts = tensors[t].spec->role == OP_INPUT || has_holes(w, t) ? 1 : op_results(op);
        if (tensors[t].elements > (most - bytes) / (int64_t)sizeof(double) / parts)
            return err_set(err, ERR_TOO_LARGE, "the reference of %s would need more than %lld GiB for this shape", op->name,
                           (long long)(most >> 30));
        bytes += tensors[t].elements * (int64_t)sizeof(double) * parts;
    }
    return true;
}

/* Between the rows that are held, side by side in `compact`, and where they are in the whole. */
static void rows_spread(const struct work *w, int t, const void *compact, double *whole)
{
    const int64_t row = w->tensors[t].elements / w->tensors[t].dims[0];
    for (int64_t i = 0; i < w->held->count; i++)
        values_gather(&w->compact[t], compact, i * row, row, whole + w->rows[i] * row);
}

static void rows_gather(const struct work *w, int t, const double *whole, double *ret)
{
    const size_t row = (size_t)(w->tensors[t].elements / w->tensors[t].dims[0]);
    for (int64_t i = 0; i < w->held->count; i++)
        memcpy(ret + (size_t)i * row, whole + (size_t)w->rows[i] * row, row * sizeof *ret);
}

static bool array_with_holes(struct work *w, int t, struct err *err)
{
    w->arrays[t].data = held_map(whole_bytes(w, t));
    if (!w->arrays[t].data)
        return err_set(err, ERR_NO_SPACE, "no %zu bytes of address space for %s", whole_bytes(w, t), w->tensors[t].spec->name);
    rows_spread(w, t, w->inputs[t], w->arrays[t].data);
    return true;
}

/* ---- in parts ---- */

#define EACH_ELEMENTS ((int64_t)1 << 20)        /* of all tensors; of fewer a thread makes less time than it takes */

static bool is_large(const struct op *op, const struct tensor *tensors)
{
    int64_t elements = 0;
    for (int t = 0; t < op->tensor_count; t++)
        elements += tensors[t].elements;
    return elements >= EACH_ELEMENTS;
}

static void each(int64_t count, void (*one)(void *ctx, int64_t i), void *ctx)
{
    crew_run(count, one, ctx);
}

struct sweep { const struct tensor *tensor; const void *from; double *data; const double *seen; int64_t count; atomic_int_fast64_t first; };

static void set_part(void *ctx, int64_t part)
{
    const struct sweep *x = ctx;
    const int64_t at = part * PART_ELEMENTS, count = crew_part_count(x->count, PART_ELEMENTS, part);
    if (x->from)
        values_gather(x->tensor, x->from, at, count, x->data + at);
    else
        for (int64_t i = at; i < at + count; i++)
            x->data[i] = NAN;
}

/* What a tensor holds before the call: its values, or of an output nothing that could pass for one. */
static void set(const struct tensor *t, const void *from, double *data)
{
    struct sweep x = {.tensor = t, .from = t->spec->role == OP_OUTPUT ? NULL : from, .data = data, .count = t->elements};
    crew_run(crew_parts(x.count, PART_ELEMENTS), set_part, &x);
}

static void finite_part(void *ctx, int64_t part)
{
    struct sweep *x = ctx;
    int64_t at = part * PART_ELEMENTS, least = atomic_load(&x->first);
    const int64_t end = at + crew_part_count(x->count, PART_ELEMENTS, part);
    while (at < end && isfinite(x->seen[at]))
        at++;
    while (at < end && at < least && !atomic_compare_exchange_weak(&x->first, &least, at))
        continue;
}

/* The reference writes the first part of results of which there are two. */
static bool arrays_make(struct work *w, struct err *err)
{
    const struct op *op = w->op;
    for (int t = 0; t < op->tensor_count; t++) {
        const struct tensor *tensor = &w->tensors[t];
        struct reference_tensor *to = &w->arrays[t];
        to->name = tensor->spec->name;
        to->rank = tensor->rank;
        for (int d = 0; d < tensor->rank && d < REFERENCE_MAX_DIMS; d++)
            to->dims[d] = tensor->dims[d];
        to->elements = tensor->elements;
        if (has_holes(w, t)) {
            if (!array_with_holes(w, t, err))
                return false;
            continue;
        }
        to->data = tensor->spec->role == OP_INPUT ? xalloc_large(((size_t)tensor->elements + 1) * sizeof(double)) : w->results[t];
        set(tensor, w->inputs[t], to->data);
    }
    return true;
}

static void keep_rows(struct work *w, int result)
{
    for (int t = 0; t < w->op->tensor_count; t++)
        if (has_holes(w, t) && w->tensors[t].spec->role != OP_INPUT)
            rows_gather(w, t, w->arrays[t].data, w->results[t] + result * w->compact[t].elements);
}

/* Once more with what may be rounded between the steps; these results go behind the exact ones. */
static void run_rounded(reference_fn *run, struct work *w, struct reference_call call, enum dtype between)
{
    struct reference_tensor arrays[OP_MAX_TENSORS] = {0};
    memcpy(arrays, w->arrays, sizeof arrays);
    for (int t = 0; t < w->op->tensor_count; t++) {
        const struct tensor *tensor = &w->tensors[t];
        if (tensor->spec->role == OP_INPUT)
            continue;
        if (has_holes(w, t)) {
            rows_spread(w, t, w->inputs[t], arrays[t].data);
            continue;
        }
        arrays[t].data += tensor->elements;
        set(tensor, w->inputs[t], arrays[t].data);
    }
    call.tensors = arrays;
    call.between = dtype_name(between);
    run(&call);
}

static bool check_finite(const struct op *op, const struct tensor *t, const double *data, struct err *err)
{
    struct sweep x = {.seen = data, .count = t->elements * op_results(op)};
    atomic_init(&x.first, INT64_MAX);
    crew_run(crew_parts(x.count, PART_ELEMENTS), finite_part, &x);
    const int64_t at = atomic_load(&x.first);
    return at == INT64_MAX
           || err_set(err, ERR_INTERNAL, "the reference of %s gives %f at element %lld of %s: unwritten, or outside what doubles hold",
                      op->name, data[at], (long long)(at % t->elements), t->spec->name);
}

bool reference_run(const struct shape *s, const struct tensor *tensors, const void *const *inputs, double **ret_arrays, struct err *err)
{
    static const struct held all = HELD_NONE;
    return reference_run_held(s, tensors, &all, NULL, inputs, ret_arrays, err);
}

bool reference_run_held(const struct shape *s, const struct tensor *tensors, const struct held *held, const int64_t *rows, const void *const *inputs,
                        double **ret_arrays, struct err *err)
{
    const struct op *op = s->op;
    struct tensor compact[OP_MAX_TENSORS];
    double *made[OP_MAX_TENSORS] = {0};
    const struct work w = {.op = op, .tensors = tensors, .held = held};
    held_tensors(held, op, tensors, compact);
    if (!check_size(&w, err))
        return false;
    for (int t = 0; t < op->tensor_count; t++)
        if (tensors[t].spec->role != OP_INPUT)
            made[t] = xalloc_large(((size_t)compact[t].elements * (size_t)op_results(op) + 1) * sizeof(double));
    const bool ok = reference_run_into(s, tensors, held, rows, inputs, made, err);
    for (int t = 0; t < op->tensor_count; t++)
        if (ok)
            ret_arrays[t] = made[t];
        else
            free(made[t]);
    return ok;
}

bool reference_run_into(const struct shape *s, const struct tensor *tensors, const struct held *held, const int64_t *rows, const void *const *inputs,
                        double *const *results, struct err *err)
{
    const struct op *op = s->op;
    cleanup(work) struct work w = {.op = op, .tensors = tensors, .held = held, .rows = rows, .inputs = inputs, .results = results};
    held_tensors(held, op, tensors, w.compact);
    if (!check_size(&w, err))
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
    for (int i = 0; i < op->axis_count; i++)
        axes[i] = (struct reference_axis){op->axes[i].name, s->axes[i]};
    for (int i = 0; i < op->scalar_count; i++)
        scalars[i] = (struct reference_scalar){op->scalars[i].name, op->scalars[i].value};
    if (!arrays_make(&w, err))
        return false;
    const char *dtypes[OP_MAX_TENSORS];
    for (int t = 0; t < op->tensor_count; t++)
        dtypes[t] = dtype_name(tensors[t].dtype);
    const struct reference_call call = {op->axis_count, op->scalar_count, op->tensor_count, axes, scalars, w.arrays, dtypes, NULL,
                                        is_large(op, w.compact) ? each : NULL};
    run(&call);
    keep_rows(&w, 0);
    if (op_results(op) > 1) {
        run_rounded(run, &w, call, s->dtypes[op->between]);
        keep_rows(&w, 1);
    }
    for (int t = 0; t < op->tensor_count; t++)
        if (op->tensors[t].role != OP_INPUT && !check_finite(op, &w.compact[t], results[t], err))
            return false;
    return true;
}

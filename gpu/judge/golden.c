/* A file becomes a shape (axes from its metadata, dtypes from its tensors) and an array for each tensor; then reference, then baseline. */
#include "gpu/judge/golden.h"

#include "gpu/judge/compare.h"
#include "gpu/judge/inputs.h"
#include "gpu/judge/reference.h"
#include "gpu/judge/safetensors.h"

#include <math.h>
#include <string.h>

static const struct { const char *name; enum dtype dtype; } file_dtypes[] = {
    {"F32", DTYPE_F32}, {"F16", DTYPE_F16}, {"BF16", DTYPE_BF16}, {"F8_E4M3", DTYPE_F8E4M3},
    {"I32", DTYPE_I32}, {"I64", DTYPE_I64}, {"I8", DTYPE_I8}, {"U8", DTYPE_U8}};

struct arrays {
    int count;
    void *inputs[OP_MAX_TENSORS];       /* strided, as a kernel gets them */
    double *wanted[OP_MAX_TENSORS];     /* of the file; dense */
    double *reference[OP_MAX_TENSORS];
    void *outputs[OP_MAX_TENSORS];
};

static void arrays_done(struct arrays *a)
{
    for (int t = 0; t < a->count; t++) {
        free(a->inputs[t]);
        free(a->wanted[t]);
        free(a->reference[t]);
        free(a->outputs[t]);
    }
}
DEFINE_CLEANUP(arrays, struct arrays, arrays_done(it))

static bool file_dtype(const char *name, enum dtype *ret)
{
    for (size_t i = 0; i < sizeof file_dtypes / sizeof *file_dtypes; i++)
        if (!strcmp(file_dtypes[i].name, name)) {
            *ret = file_dtypes[i].dtype;
            return true;
        }
    return false;
}

/* ".../OPERATOR/CASE.safetensors" */
static bool take_names(const char *path, struct golden_result *ret, struct err *err)
{
    const char *file = strrchr(path, '/'), *folder = file;
    while (folder && folder > path && folder[-1] != '/')
        folder--;
    if (!file || folder == file || (size_t)(file - folder) >= sizeof ret->op)
        return err_set(err, ERR_INVALID, "%s: a golden file lies in a folder with its operator's name", path);
    snprintf(ret->op, sizeof ret->op, "%.*s", (int)(file - folder), folder);
    const char *end = strstr(file, ".safetensors");
    snprintf(ret->name, sizeof ret->name, "%.*s", end ? (int)(end - file - 1) : (int)strlen(file + 1), file + 1);
    return true;
}

static bool take_dtypes(const struct op *op, const struct safetensors *file, json_t *to, struct err *err)
{
    for (int t = 0; t < op->tensor_count; t++) {
        const struct op_tensor *spec = &op->tensors[t];
        char name[OP_NAME_SIZE + 4];
        enum dtype dtype;
        snprintf(name, sizeof name, "in.%s", spec->name);
        const struct safetensors_entry *e = spec->role == OP_OUTPUT ? NULL : safetensors_find(file, name);
        if (spec->role == OP_OUTPUT || spec->letter < 0)
            continue;
        if (!e || !file_dtype(e->dtype, &dtype))
            return err_set(err, ERR_INVALID, "%s: %s", name, e ? "its dtype is none of ours" : "missing");
        const char *letter = op->letters[spec->letter].name, *had = json_str(to, letter, NULL);
        if (had && strcmp(had, dtype_name(dtype)))
            return err_set(err, ERR_INVALID, "%s is %s, another tensor of dtype letter %s is %s", name, dtype_name(dtype), letter, had);
        json_put_str(to, letter, dtype_name(dtype));
    }
    return true;
}

static bool take_shape(const struct op_set *ops, const struct op *op, const struct safetensors *file, const char *target, struct shape *ret, struct err *err)
{
    const char *text = json_str(file->metadata, "axes", NULL);
    cleanup(json) json_t *axes = NULL, *dtypes = json_object(), *doc = json_object();
    if (!text)
        return err_set(err, ERR_INVALID, "__metadata__ has no axes");
    if (!json_parse(text, strlen(text), &axes, err))
        return err_wrap(err, "__metadata__/axes");
    if (!take_dtypes(op, file, dtypes, err))
        return false;
    json_put_str(doc, "op", op->name);
    json_put(doc, "axes", json_incref(axes));
    json_put(doc, "dtypes", json_incref(dtypes));
    struct faults f = {0};
    if (!shape_parse(ops, doc, target, "", ret, &f))
        return err_set(err, ERR_INVALID, "%s: %s", f.list[0].pointer, f.list[0].detail);
    return true;
}

static bool check_entry(const struct safetensors_entry *e, const char *name, const struct tensor *t, enum dtype wanted, struct err *err)
{
    enum dtype dtype;
    if (!e)
        return err_set(err, ERR_INVALID, "%s: missing", name);
    if (!file_dtype(e->dtype, &dtype) || dtype != wanted)
        return err_set(err, ERR_INVALID, "%s: is %s, must be %s", name, e->dtype, dtype_name(wanted));
    bool same = e->rank == t->rank;
    for (int d = 0; same && d < t->rank; d++)
        same = e->dims[d] == t->dims[d];
    return same || err_set(err, ERR_INVALID, "%s: its shape is not what the axes say", name);
}

/* Dense in the file, with the tensor's strides for the kernel. */
static void *spread(const struct tensor *t, const struct safetensors_entry *e)
{
    size_t size = (size_t)dtype_bytes(t->dtype);
    char *to = xalloc((size_t)t->bytes + 1);
    memset(to, 0xff, (size_t)t->bytes);
    for (int64_t i = 0; i < t->elements; i++)
        memcpy(to + (size_t)tensor_offset(t, i) * size, (const char *)e->data + (size_t)i * size, size);
    return to;
}

static bool take_tensors(const struct op *op, const struct safetensors *file, const struct tensor *tensors, struct arrays *a, struct err *err)
{
    a->count = op->tensor_count;
    for (int t = 0; t < op->tensor_count; t++) {
        const struct tensor *tensor = &tensors[t];
        char name[OP_NAME_SIZE + 4];
        if (tensor->spec->role != OP_OUTPUT) {
            snprintf(name, sizeof name, "in.%s", tensor->spec->name);
            const struct safetensors_entry *e = safetensors_find(file, name);
            if (!check_entry(e, name, tensor, tensor->dtype, err))
                return false;
            a->inputs[t] = spread(tensor, e);
        }
        if (tensor->spec->role != OP_INPUT) {
            enum dtype stored = dtype_is_float(tensor->dtype) ? DTYPE_F32 : tensor->dtype;
            snprintf(name, sizeof name, "out.%s", tensor->spec->name);
            const struct safetensors_entry *e = safetensors_find(file, name);
            if (!check_entry(e, name, tensor, stored, err))
                return false;
            cleanup(mem) void *aligned = xalloc(e->bytes + 1);
            memcpy(aligned, e->data, e->bytes);
            a->wanted[t] = xarray((size_t)tensor->elements + 1, sizeof(double));
            values_load(stored, aligned, 0, tensor->elements, a->wanted[t]);
            a->outputs[t] = xalloc((size_t)tensor->bytes + 1);
        }
    }
    return true;
}

/* f32 rounding of the file, and 1e-6 for a differently ordered sum; small values against the tensor's own size. A file may hold the
 * result as it is stored: then the reference, rounded to the type, must give just that. */
static void check_reference(const struct tensor *t, const double *got, const double *wanted, struct golden_result *ret)
{
    double squares = 0;
    for (int64_t i = 0; i < t->elements; i++)
        squares += wanted[i] * wanted[i];
    double least = 1e-9 * sqrt(squares / (double)(t->elements + !t->elements)) + 0x1p-149;
    for (int64_t i = 0; i < t->elements; i++) {
        double allowed = dtype_is_float(t->dtype) ? 1e-6 * fabs(wanted[i]) + least : 0;
        double stored;
        values_round(t->dtype, &got[i], 1, &stored);
        if (fabs(got[i] - wanted[i]) <= allowed || (dtype_is_float(t->dtype) && stored == wanted[i]))
            continue;
        ret->reference_ok = false;
        snprintf(ret->text, sizeof ret->text, "reference: element %lld of %s is %.9g, the file says %.9g", (long long)i, t->spec->name, got[i], wanted[i]);
        return;
    }
}

static bool check_baseline(const struct shape *s, const struct tensor *tensors, struct arrays *a, golden_run *run, void *ctx,
                           struct golden_result *ret, struct err *err)
{
    if (!run(ctx, s, tensors, (const void *const *)a->inputs, a->outputs, err))
        return false;
    ret->baseline_ran = ret->baseline_ok = true;
    for (int t = 0; t < s->op->tensor_count && ret->baseline_ok; t++) {
        if (tensors[t].spec->role == OP_INPUT)
            continue;
        const struct compare_case c = {s->op, &tensors[t], a->reference[t], a->outputs[t], NULL, a->inputs[t], NULL};
        struct compare_result result;
        compare_tensor(&c, &result);
        ret->baseline_ok = result.code == VERDICT_OK;
        if (!ret->baseline_ok && !*ret->text)
            snprintf(ret->text, sizeof ret->text, "baseline: %s", result.text);
    }
    return true;
}

bool golden_check_file(const struct op_set *ops, const char *path, const char *target, golden_run *run, void *ctx,
                       struct golden_result *ret, struct err *err)
{
    struct golden_result result = {.reference_ok = true};
    if (!take_names(path, &result, err))
        return false;
    const struct op *op = op_set_find(ops, result.op);
    if (!op)
        return err_set(err, ERR_NOT_FOUND, "%s: there is no operator %s here", path, result.op);
    cleanup(safetensors) struct safetensors file = {0};
    if (!safetensors_read(path, &file, err))
        return false;
    struct shape shape;
    struct tensor tensors[OP_MAX_TENSORS];
    cleanup(arrays) struct arrays a = {0};
    if (!take_shape(ops, op, &file, target, &shape, err) || !shape_tensors(&shape, tensors, err) || !take_tensors(op, &file, tensors, &a, err))
        return err_wrap(err, "%s", path);
    if (!reference_run(&shape, tensors, (const void *const *)a.inputs, a.reference, err))
        return err_wrap(err, "%s", path);
    for (int t = 0; t < op->tensor_count && result.reference_ok; t++)
        if (tensors[t].spec->role != OP_INPUT)
            check_reference(&tensors[t], a.reference[t], a.wanted[t], &result);
    if (run && !check_baseline(&shape, tensors, &a, run, ctx, &result, err))
        return err_wrap(err, "%s", path);
    result.match = result.reference_ok && (!run || result.baseline_ok);
    *ret = result;
    return true;
}

/* What of the comparison is text: tolerances as op.json gives them, names of rules, the record of a result. */
#include "gpu/judge/compare.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {
#define X(code, name, verdict) [code] = name,
    COMPARE_RULE_TABLE(X)
#undef X
};

const char *compare_rule_name(enum compare_rule rule)
{
    return names[rule];
}

static const struct { const char *key; size_t at; double least, most; } tolerance_keys[] = {
    {"max", offsetof(struct compare_tolerance, max), 0, 1},
    {"rms", offsetof(struct compare_tolerance, rms), 0, 1},
    {"factor", offsetof(struct compare_tolerance, factor), 1, 16},
    {"matched", offsetof(struct compare_tolerance, matched), 0.9, 1},
    {"steps", offsetof(struct compare_tolerance, steps), 1, 64},
};

static bool check_row(const struct op *op, const char *tensor, const json_t *row, struct err *err)
{
    const char *key;
    json_t *value;
    int t = op_tensor_index(op, tensor);
    if (t < 0 || op->tensors[t].role == OP_INPUT)
        return err_set(err, ERR_INVALID, "operator %s: /tolerance/%s: no such output", op->name, tensor);
    json_object_foreach((json_t *)row, key, value) {
        size_t i = 0, n = sizeof tolerance_keys / sizeof *tolerance_keys;
        while (i < n && strcmp(tolerance_keys[i].key, key))
            i++;
        if (!strcmp(key, "exact")) {
            if (!json_is_boolean(value))
                return err_set(err, ERR_INVALID, "operator %s: /tolerance/%s/exact: must be true or false", op->name, tensor);
            continue;
        }
        if (i == n)
            return err_set(err, ERR_INVALID, "operator %s: /tolerance/%s/%s: there are max, rms, factor, matched, steps and exact", op->name, tensor, key);
        double x = json_is_number(value) ? json_number_value(value) : NAN;
        if (!(x >= tolerance_keys[i].least && x <= tolerance_keys[i].most))
            return err_set(err, ERR_INVALID, "operator %s: /tolerance/%s/%s: must be a number from %g to %g", op->name, tensor, key,
                           tolerance_keys[i].least, tolerance_keys[i].most);
    }
    return true;
}

bool compare_check(const struct op *op, struct err *err)
{
    const json_t *doc = json_object_get(op->doc, "tolerance");
    const char *tensor;
    json_t *row;
    if (doc && !json_is_object(doc))
        return err_set(err, ERR_INVALID, "operator %s: /tolerance: must be an object by output", op->name);
    json_object_foreach((json_t *)doc, tensor, row)
        if (!json_is_object(row) || !check_row(op, tensor, row, err))
            return json_is_object(row) ? false : err_set(err, ERR_INVALID, "operator %s: /tolerance/%s: must be an object", op->name, tensor);
    return true;
}

struct compare_tolerance compare_tolerance(const struct op *op, const struct tensor *t)
{
    struct compare_tolerance ret = {dtype_max_error(t->dtype), dtype_rms_error(t->dtype), t->dtype == DTYPE_F8E4M3 ? 3 : 2, 1, 0, false};
    const json_t *row = json_object_get(json_object_get(op->doc, "tolerance"), t->spec->name);
    for (size_t i = 0; i < sizeof tolerance_keys / sizeof *tolerance_keys; i++) {
        double *to = (double *)((char *)&ret + tolerance_keys[i].at);
        *to = json_num(row, tolerance_keys[i].key, *to);
    }
    ret.exact = json_bool(row, "exact", false);
    return ret;
}

/*
 * Types of five exponent bits or fewer: the smallest number that has all its bits. The others have single precision's range, but then steps
 * before the last do not fit: exp(89) does not, and x / (1 + exp(-x)) is zero where it should be 1e-37, and then is multiplied. So their
 * least lies far above, and as far below any value that means something.
 */
#define LEAST_SINGLE 0x1p-96
double compare_least_scale(enum dtype t)
{
    static const double least[DTYPE_COUNT] = {
        [DTYPE_F16] = 0x1p-14, [DTYPE_F8E4M3] = 0x1p-6, [DTYPE_BF16] = LEAST_SINGLE, [DTYPE_F32] = LEAST_SINGLE};
    return least[t];
}

bool compare_baseline_fit(const struct compare_result *r, const struct compare_tolerance *t)
{
    return r->baseline_worst <= 10 * t->max && r->baseline_rms <= 4 * t->rms;
}

json_t *compare_encode(const struct compare_result *r, const struct tensor *t)
{
    json_t *doc = json_object();
    json_put_str(doc, "tensor", t->spec->name);
    json_put_int(doc, "elements", r->elements);
    if (t->spec->role == OP_INOUT)
        json_put_int(doc, "unchanged_elements", r->unchanged);
    if (dtype_is_float(t->dtype)) {
        json_put_num(doc, "worst_error", r->worst);
        json_put_num(doc, "rms_error", r->rms);
        if (r->baseline_rms >= 0) {
            json_put_num(doc, "baseline_worst_error", r->baseline_worst);
            json_put_num(doc, "baseline_rms_error", r->baseline_rms);
        }
        if (r->ratio >= 0)
            json_put_num(doc, "ratio_to_baseline", r->ratio);
        json_put_num(doc, "worst_tile", r->worst_tile);
        json_put_num(doc, "bias", r->bias);
        json_put_num(doc, "worst_magnitude", r->small);
    }
    if (r->wrong_class)
        json_put_int(doc, "wrong_class_elements", r->wrong_class);
    if (r->rule != COMPARE_NONE) {
        json_put_str(doc, "rule", compare_rule_name(r->rule));
        json_put_str(doc, "text", r->text);
    }
    if (r->has_element) {
        json_t *index = json_array();
        for (int d = 0; d < t->rank; d++)
            json_array_append_new(index, json_integer(r->index[d]));
        json_put(doc, "index", index);
        /* JSON has no NaN or infinity */
        if (isfinite(r->got))
            json_put_num(doc, "got", r->got);
        else
            json_put_str(doc, "got", isnan(r->got) ? "nan" : r->got > 0 ? "inf" : "-inf");
        json_put_num(doc, "wanted", r->wanted);
    }
    return doc;
}

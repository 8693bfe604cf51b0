/* A small shape for canaries, found by trying: all axes alike, largest first; else axes drawn from a list of usual sizes. */
#include "gpu/judge/canary.h"

#include "core/rng.h"

#include <string.h>

#define TRIES 4096
static const int64_t alike[] = {64, 48, 40, 32, 24, 20, 16, 12, 8, 6, 5, 4, 3, 2, 1};
static const int64_t usual[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512};

static int64_t clamp(const struct op_axis *a, int64_t value)
{
    return value < a->min ? a->min : value > a->max ? a->max : value;
}

/* The shape with these values for the axes that have no value of their own; its elements, 0 if it is not legal or too large. */
static int64_t try(const struct op *op, const enum dtype *dtypes, const int64_t *values, struct shape *ret)
{
    cleanup(json) json_t *doc = json_object();
    json_t *axes = json_object(), *letters = json_object();
    struct tensor tensors[OP_MAX_TENSORS];
    struct op *known = (struct op *)(uintptr_t)op;
    const struct op_set one = {1, &known};
    struct faults f = {0};
    json_put_str(doc, "op", op->name);
    json_put(doc, "axes", axes);
    json_put(doc, "dtypes", letters);
    for (int i = 0; i < op->axis_count; i++)
        if (!op->axes[i].is_const && !op->axes[i].has_default)
            json_put_int(axes, op->axes[i].name, clamp(&op->axes[i], values[i]));
    for (int i = 0; i < op->letter_count; i++)
        json_put_str(letters, op->letters[i].name, dtype_name(dtypes ? dtypes[i] : op->letters[i].options[0]));
    struct shape s;
    if (!shape_parse(&one, doc, "sm_90a", "", &s, &f) || !shape_tensors(&s, tensors, NULL))
        return 0;
    int64_t sum = 0;
    for (int t = 0; t < op->tensor_count; t++) {
        sum += tensors[t].span_elements;
        if (!tensors[t].elements || sum > CANARY_MAX_ELEMENTS)
            return 0;
    }
    *ret = s;
    return sum;
}

bool canary_shape(const struct op *op, const enum dtype *dtypes, struct shape *ret, struct err *err)
{
    int64_t values[OP_MAX_AXES], best = 0;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        for (int a = 0; a < op->axis_count; a++)
            values[a] = alike[i];
        if (try(op, dtypes, values, ret))
            return true;
    }
    for (uint64_t n = 0; n < TRIES; n++) {
        struct shape s;
        for (uint64_t a = 0; a < (uint64_t)op->axis_count; a++)
            values[a] = usual[rng_below(1, a, n, sizeof usual / sizeof *usual)];
        int64_t elements = try(op, dtypes, values, &s);
        if (elements > best) {
            best = elements;
            *ret = s;
        }
    }
    return best || err_set(err, ERR_UNPROCESSABLE, "operator %s: no shape of at most %d elements was found that holds its constraints", op->name,
                           CANARY_MAX_ELEMENTS);
}

int canary_dtype_choices(const struct op *op, enum dtype (*ret)[OP_MAX_DTYPES], int most)
{
    int count = 0;
    for (int l = -1; l < op->letter_count; l++)
        for (int o = 1; l < 0 ? o == 1 : o < op->letters[l].count; o++) {
            if (count == most)
                return count;
            for (int i = 0; i < op->letter_count; i++)
                ret[count][i] = op->letters[i].options[i == l ? o : 0];
            count++;
        }
    return count;
}

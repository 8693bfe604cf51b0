/* Wrong results: from the right one, and what the reference gives for other inputs or other scalars. */
#include "gpu/judge/canary_wrong.h"

#include "gpu/judge/compare.h"
#include "gpu/judge/reference.h"

#include <math.h>
#include <string.h>

#define TILE 16
#define CLAMPED 1.25

/* ---- wrong results from the right one ---- */

static int64_t row_of(const struct tensor *t)
{
    return t->rank && t->dims[t->rank - 1] > 0 ? t->dims[t->rank - 1] : 1;
}

static double rms_of(const double *values, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += values[i] * values[i];
    return n ? sqrt(sum / (double)n) : 0;
}

static double mean_of(const double *values, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += values[i];
    return n ? sum / (double)n : 0;
}

/* To `bits` of mantissa, the leading one not counted; ties to even. */
static double coarse(double x, int bits)
{
    int e;
    if (x == 0 || !isfinite(x))
        return x;
    double m = frexp(x, &e);
    return ldexp(rint(ldexp(m, bits + 1)), e - bits - 1);
}

/* Mantissa bits of the type below; 0: there is none. */
static int lower_bits(enum dtype t)
{
    return t == DTYPE_F32 ? 10 : t == DTYPE_F16 ? 7 : t == DTYPE_BF16 ? 3 : 0;
}

static enum made make_zeros(const struct scene *n, int t, double *ret)
{
    for (int64_t i = 0; i < n->tensors[t].elements; i++)
        ret[i] = 0;
    return MADE;
}

static enum made make_mean(const struct scene *n, int t, double *ret)
{
    double mean = mean_of(n->right[t], n->tensors[t].elements);
    for (int64_t i = 0; i < n->tensors[t].elements; i++)
        ret[i] = mean;
    return MADE;
}

static enum made make_row_mean(const struct scene *n, int t, double *ret)
{
    int64_t row = row_of(&n->tensors[t]);
    for (int64_t i = 0; i < n->tensors[t].elements; i += row) {
        double mean = mean_of(n->right[t] + i, row);
        for (int64_t k = 0; k < row; k++)
            ret[i + k] = mean;
    }
    return MADE;
}

/* The corner of the first input that is at least as large in every dimension; of an inout, what it held. */
static enum made make_input(const struct scene *n, int t, double *ret)
{
    const struct tensor *to = &n->tensors[t], *from = NULL;
    int source = to->spec->role == OP_INOUT ? t : -1;
    for (int k = 0; k < n->op->tensor_count && source < 0; k++) {
        from = &n->tensors[k];
        bool fits = from->spec->role != OP_OUTPUT && from->rank == to->rank;
        for (int d = 0; fits && d < to->rank; d++)
            fits = from->dims[d] >= to->dims[d];
        if (fits)
            source = k;
    }
    if (source < 0)
        return NOT_HERE;
    from = &n->tensors[source];
    for (int64_t i = 0; i < to->elements; i++) {
        int64_t left = i, at = 0, step = 1;
        for (int d = to->rank - 1; d >= 0; d--) {
            at += left % to->dims[d] * step;
            left /= to->dims[d];
            step *= from->dims[d];
        }
        ret[i] = n->before[source][at];
    }
    return MADE;
}

bool canary_changed(const struct scene *n, int t, int64_t i)
{
    return n->tensors[t].spec->role != OP_INOUT || n->right[t][i] != n->before[t][i];
}

/* The last elements that are anything at all. */
static enum made make_no_tile(const struct scene *n, int t, double *ret)
{
    int64_t last = n->tensors[t].elements - 1;
    memcpy(ret, n->right[t], (size_t)(last + 1) * sizeof *ret);
    while (last >= 0 && (ret[last] == 0 || !canary_changed(n, t, last)))
        last--;
    for (int64_t i = last; i >= 0 && i > last - TILE; i--)
        ret[i] = 0;
    return last >= 0 ? MADE : NOT_HERE;
}

/* Rows, or where there is one alone its elements; the first two that differ. */
static enum made make_swapped(const struct scene *n, int t, double *ret)
{
    int64_t all = n->tensors[t].elements, row = row_of(&n->tensors[t]);
    const double *right = n->right[t];
    row = row < all ? row : 1;
    memcpy(ret, right, (size_t)all * sizeof *ret);
    int64_t a = 0;
    while (a < all && !canary_changed(n, t, a))
        a += row;
    for (int64_t b = a + row; b + row <= all; b += row)
        if (canary_changed(n, t, b) && memcmp(right + a, right + b, (size_t)row * sizeof *right) != 0) {
            memcpy(ret + a, right + b, (size_t)row * sizeof *ret);
            memcpy(ret + b, right + a, (size_t)row * sizeof *ret);
            return MADE;
        }
    return NOT_HERE;
}

static enum made make_gain(const struct scene *n, int t, double *ret)
{
    for (int64_t i = 0; i < n->tensors[t].elements; i++)
        ret[i] = n->right[t][i] * 1.01;
    return MADE;
}

static enum made make_offset(const struct scene *n, int t, double *ret)
{
    int64_t count = n->tensors[t].elements, used = 0;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        if (canary_changed(n, t, i)) {
            sum += n->right[t][i] * n->right[t][i];
            used++;
        }
    double offset = used ? 0.01 * sqrt(sum / (double)used) : 0;
    for (int64_t i = 0; i < count; i++)
        ret[i] = n->right[t][i] + offset;
    return MADE;
}

static enum made make_coarse(const struct scene *n, int t, double *ret)
{
    int bits = lower_bits(n->tensors[t].dtype);
    for (int64_t i = 0; bits && i < n->tensors[t].elements; i++)
        ret[i] = coarse(n->right[t][i], bits);
    return bits ? MADE : NOT_HERE;
}

static enum made make_right(const struct scene *n, int t, double *ret)
{
    memcpy(ret, n->right[t], (size_t)n->tensors[t].elements * sizeof *ret);
    return MADE;
}

/* What sums in single precision, in another order, may differ by: relative to the element, and a little to its row. What is moved has none. */
static enum made make_noise(const struct scene *n, int t, double *ret)
{
    int64_t row = row_of(&n->tensors[t]);
    if (compare_tolerance(n->op, &n->tensors[t]).exact)
        return NOT_HERE;
    for (int64_t i = 0; i < n->tensors[t].elements; i += row) {
        double scale = rms_of(n->right[t] + i, row) * 0x1p-23;
        for (int64_t k = i; k < i + row; k++)
            ret[k] = n->right[t][k] * (1 + (k % 3 - 1) * 0x1p-22) + (k % 5 - 2) * 0.5 * scale;
    }
    return MADE;
}

/* ---- other inputs, other scalars ---- */

static enum made make_variant(const struct scene *n, int t, double *ret)
{
    memcpy(ret, n->variant[t], (size_t)n->tensors[t].elements * sizeof *ret);
    return MADE;
}

static void change_scalar(const struct scene *n, int subject, void **inputs, struct op *op)
{
    (void)n, (void)inputs;
    op->scalars[subject].value = 0;
}

static void change_input(const struct scene *n, int subject, void **inputs, struct op *op)
{
    (void)op;
    memcpy(inputs[subject], n->other[subject], (size_t)n->tensors[subject].bytes);
}

static void change_seed(const struct scene *n, int subject, void **inputs, struct op *op)
{
    (void)subject;
    for (int t = 0; t < op->tensor_count; t++)
        if (inputs[t])
            change_input(n, t, inputs, op);
}

static void change_precision(const struct scene *n, int subject, void **inputs, struct op *op)
{
    (void)subject;
    for (int t = 0; t < op->tensor_count; t++) {
        const struct tensor *tensor = &n->tensors[t];
        int bits = lower_bits(tensor->dtype);
        for (int64_t i = 0; inputs[t] && bits && i < tensor->elements; i++)
            dtype_store(tensor->dtype, inputs[t], (size_t)tensor_offset(tensor, i), coarse(n->before[t][i], bits));
    }
}

/* What fits what was seen of it and little more: a kernel for a type of a shorter range, or a table of a function's values. */
static void change_range(const struct scene *n, int subject, void **inputs, struct op *op)
{
    const struct tensor *tensor = &n->tensors[subject];
    const double most = CLAMPED * n->largest[subject];
    (void)op;
    for (int64_t i = 0; most > 0 && i < tensor->elements; i++)
        if (fabs(n->before[subject][i]) > most)
            dtype_store(tensor->dtype, inputs[subject], (size_t)tensor_offset(tensor, i), copysign(most, n->before[subject][i]));
}

const struct kind canary_kinds[] = {
    {"right", "the right result, rounded once", make_right, NULL, NONE, MUST_PASS, 0},
    {"noise", "the right result with the noise of single precision", make_noise, NULL, NONE, MUST_PASS | FLOATS_ONLY, 0},
    {"zeros", "nothing but zeros", make_zeros, NULL, NONE, 0, 1},
    {"mean", "the mean of the right result everywhere", make_mean, NULL, NONE, 0, 1},
    {"row_mean", "the mean of its row for each element", make_row_mean, NULL, NONE, MAY_BE_RIGHT, 1},
    {"input", "an input, copied", make_input, NULL, NONE, MAY_BE_RIGHT, 1},
    {"no_last_tile", "its last 16 elements missing", make_no_tile, NULL, NONE, 0, 1},
    {"swapped", "two rows in each other's place", make_swapped, NULL, NONE, 0, 1},
    {"gain", "everything 1 % larger", make_gain, NULL, NONE, FLOATS_ONLY, 0.01},
    {"offset", "1 % of the root mean square added", make_offset, NULL, NONE, FLOATS_ONLY, 0.01},
    {"coarse", "rounded to the type below", make_coarse, NULL, NONE, FLOATS_ONLY, 1},
    {"previous_seed", "the result for another seed's inputs", make_variant, change_seed, NONE, 0, 1},
    {"lower_inputs", "computed from inputs in the type below", make_variant, change_precision, NONE, FLOATS_ONLY, 1},
    {"dropped", "a scalar taken as zero", make_variant, change_scalar, A_SCALAR, 0, 1},
    {"other_input", "one input taken from another seed", make_variant, change_input, AN_INPUT, 0, 1},
    {"clamped", "an input cut off a little above the largest that is typical", make_variant, change_range, AN_INPUT, 0, 1},
};
const int canary_kind_count = sizeof canary_kinds / sizeof *canary_kinds;

/* Whether inputs in the type below differ by less than what the output resolves (a quantised output). */
static bool inputs_finer(const struct op *op, const struct tensor *tensors, const struct tensor *output)
{
    for (int t = 0; t < op->tensor_count; t++) {
        int bits = tensors[t].spec->role == OP_OUTPUT ? 0 : lower_bits(tensors[t].dtype);
        if (bits && ldexp(1, -bits - 1) > dtype_roundoff(output->dtype))
            return false;
    }
    return true;
}

const char *canary_skipped(const struct kind *k, int subject, const struct op *op, const struct tensor *tensors, const struct tensor *output)
{
    if ((k->flags & FLOATS_ONLY) && !dtype_is_float(output->dtype))
        return "integers are compared exactly";
    if (dtype_roundoff(output->dtype) > k->size && !(k->flags & MUST_PASS))
        return "smaller than what the type resolves";
    if (k->change == change_precision && inputs_finer(op, tensors, output))
        return "smaller than what the type resolves";
    if (k->subject == A_SCALAR && op->scalars[subject].value == 0)
        return "it is zero anyway";
    if (k->change == change_range && !dtype_is_float(tensors[subject].dtype))
        return "places and lengths have their ends";
    if (k->make == make_coarse && !lower_bits(output->dtype))
        return "there is no type below";
    return NULL;
}

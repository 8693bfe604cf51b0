/*
 * How far two results of equal inputs may be apart where atomics are declared: a quarter of what the operator's tolerance gives to the
 * worst element, or one step of the type, which is what rounding makes of a difference however small.
 *
 * The yardstick is the larger of the element and the RMS of its piece: a row of the last dimension, short ones joined and long ones cut
 * as in the comparison with the reference.
 */
#include "gpu/judge/compare.h"

#include "gpu/judge/inputs.h"

#include <math.h>
#include <string.h>

#define PIECE_LEAST 32
#define PIECE_MOST 1024
#define SHARE 0.25

static int64_t piece_of(const struct tensor *t)
{
    const int64_t row = t->rank && t->dims[t->rank - 1] > 0 ? t->dims[t->rank - 1] : 1;
    return row >= PIECE_MOST ? PIECE_MOST : row >= PIECE_LEAST ? row : (PIECE_LEAST + row - 1) / row * row;
}

static bool same_class(double a, double b)
{
    return isnan(a) || isnan(b) ? isnan(a) && isnan(b) : isinf(a) || isinf(b) ? a == b : true;
}

bool compare_spread(const struct op *op, const struct tensor *t, const void *a, const void *b, int64_t *ret_element)
{
    const struct compare_tolerance tolerance = compare_tolerance(op, t);
    const double step = 2 * dtype_roundoff(t->dtype);
    const int64_t piece = piece_of(t);
    double x[PIECE_MOST], y[PIECE_MOST];
    for (int64_t first = 0; first < t->elements; first += piece) {
        const int64_t count = t->elements - first < piece ? t->elements - first : piece;
        double squares = 0;
        values_gather(t, a, first, count, x);
        values_gather(t, b, first, count, y);
        if (memcmp(x, y, (size_t)count * sizeof *x) == 0)
            continue;
        for (int64_t i = 0; i < count; i++)
            squares += isfinite(x[i]) ? x[i] * x[i] : 0;
        const double rms = sqrt(squares / (double)count);
        for (int64_t i = 0; i < count; i++) {
            *ret_element = first + i;
            if (!same_class(x[i], y[i]))
                return false;
            if (!isfinite(x[i]) || x[i] == y[i])
                continue;
            const double size = fmax(fabs(x[i]), fabs(y[i])), most = fmax(SHARE * tolerance.max * fmax(size, rms), step * size);
            if (!(fabs(x[i] - y[i]) <= most))
                return false;
        }
    }
    return true;
}

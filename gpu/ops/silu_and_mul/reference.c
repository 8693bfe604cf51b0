/* Gated activation: y[r][i] = silu(x[r][i]) * x[r][n + i], silu(x) = x / (1 + e^-x). */
#include "reference.h"

#include <math.h>

void proteus_reference(const struct reference_call *call)
{
    int64_t rows = reference_axis(call, "R"), n = reference_axis(call, "N");
    const double *x = reference_data(call, "x");
    double *y = reference_data(call, "y");

    for (int64_t r = 0; r < rows; r++) {
        const double *gate = x + 2 * r * n, *up = gate + n;
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    }
}

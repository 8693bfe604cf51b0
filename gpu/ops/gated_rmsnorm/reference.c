/* Gated root mean square normalisation: y[r][i] = x[r][i] / sqrt(mean over i of x[r][i]^2 + eps) * weight[i] * silu(z[r][i]). */
#include "reference.h"

#include <math.h>

static double silu(double x)
{
    return x / (1 + exp(-x));
}

void proteus_reference(const struct reference_call *call)
{
    int64_t rows = reference_axis(call, "R"), n = reference_axis(call, "N");
    double eps = reference_scalar(call, "eps");
    const double *x = reference_data(call, "x"), *z = reference_data(call, "z"), *weight = reference_data(call, "weight");
    double *y = reference_data(call, "y");

    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[r * n + i] * x[r * n + i];
        double factor = 1 / sqrt(sum / (double)n + eps);
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = x[r * n + i] * factor * weight[i] * silu(z[r * n + i]);
    }
}

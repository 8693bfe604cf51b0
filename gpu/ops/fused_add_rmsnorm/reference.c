/*
 * residual[r][i] += x[r][i]; y[r][i] = s[r][i] / sqrt(mean over i of s[r][i]^2 + eps) * (weight[i] + weight_offset), where s is the
 * new residual as its dtype stores it.
 */
#include "reference.h"

void proteus_reference(const struct reference_call *call)
{
    int64_t rows = reference_axis(call, "R"), n = reference_axis(call, "N");
    double offset = (double)reference_axis(call, "weight_offset"), eps = reference_scalar(call, "eps");
    const double *x = reference_data(call, "x"), *weight = reference_data(call, "weight");
    double *residual = reference_data(call, "residual"), *y = reference_data(call, "y");
    const struct reference_format stored = reference_format(call, "residual");

    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            residual[r * n + i] += x[r * n + i];
            double s = reference_round(stored, residual[r * n + i]);
            sum += s * s;
        }
        double factor = 1 / sqrt(sum / (double)n + eps);
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = reference_round(stored, residual[r * n + i]) * factor * (weight[i] + offset);
    }
}

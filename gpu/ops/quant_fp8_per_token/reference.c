/* scale[r] = max(max over i of |x[r][i]| / 448, min_scale); q[r][i] = x[r][i] / scale[r]. 448 is e4m3's largest number. */
#include "reference.h"

void proteus_reference(const struct reference_call *call)
{
    int64_t rows = reference_axis(call, "R"), n = reference_axis(call, "N");
    double least = reference_scalar(call, "min_scale");
    const double *x = reference_data(call, "x");
    double *q = reference_data(call, "q"), *scale = reference_data(call, "scale");

    for (int64_t r = 0; r < rows; r++) {
        double largest = 0;
        for (int64_t i = 0; i < n; i++)
            largest = fmax(largest, fabs(x[r * n + i]));
        scale[r] = fmax(largest / 448, least);
        for (int64_t i = 0; i < n; i++)
            q[r * n + i] = x[r * n + i] / scale[r];
    }
}

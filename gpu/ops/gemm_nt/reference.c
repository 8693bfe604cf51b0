/* y[m][n] = sum over k of x[m][k] * w[n][k]. */
#include "reference.h"

void proteus_reference(const struct reference_call *call)
{
    int64_t tokens = reference_axis(call, "M"), outputs = reference_axis(call, "N"), inputs = reference_axis(call, "K");
    const double *x = reference_data(call, "x"), *w = reference_data(call, "w");
    double *y = reference_data(call, "y");

    for (int64_t n = 0; n < outputs; n++)
        for (int64_t m = 0; m < tokens; m++) {
            double sums[4] = {0};                  /* independent, so that the compiler may add them side by side */
            int64_t k = 0;
            for (; k + 4 <= inputs; k += 4)
                for (int i = 0; i < 4; i++)
                    sums[i] += x[m * inputs + k + i] * w[n * inputs + k + i];
            for (; k < inputs; k++)
                sums[0] += x[m * inputs + k] * w[n * inputs + k];
            y[m * outputs + n] = sums[0] + sums[1] + sums[2] + sums[3];
        }
}

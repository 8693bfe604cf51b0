/* y[m][n] = sum over k of x[m][k] * w[n][k]. */
#include "reference.h"

struct task { int64_t tokens, outputs, inputs; const double *x, *w; double *y; };

#define OUTPUTS 32

/* Some columns of y. */
static void columns(void *ctx, int64_t i)
{
    const struct task *t = ctx;
    const int64_t first = i * OUTPUTS, end = first + OUTPUTS < t->outputs ? first + OUTPUTS : t->outputs, inputs = t->inputs;
    for (int64_t n = first; n < end; n++)
        for (int64_t m = 0; m < t->tokens; m++) {
            const double *x = t->x + m * inputs, *w = t->w + n * inputs;
            double sums[4] = {0};                  /* independent, so that the compiler may add them side by side */
            int64_t k = 0;
            for (; k + 4 <= inputs; k += 4)
                for (int p = 0; p < 4; p++)
                    sums[p] += x[k + p] * w[k + p];
            for (; k < inputs; k++)
                sums[0] += x[k] * w[k];
            t->y[m * t->outputs + n] = sums[0] + sums[1] + sums[2] + sums[3];
        }
}

void proteus_reference(const struct reference_call *call)
{
    struct task t = {reference_axis(call, "M"), reference_axis(call, "N"), reference_axis(call, "K"),
                     reference_data(call, "x"), reference_data(call, "w"), reference_data(call, "y")};
    reference_each(call, (t.outputs + OUTPUTS - 1) / OUTPUTS, columns, &t);
}

/*
 * For every sequence b with n = lens[b] and every query head h, with key head g = h / (HQ/HK):
 *
 *   score[t] = q[b][h] . k[b][t][g] / sqrt(d) for t < n       out[b][h] = sum over t < n of softmax(score)[t] v[b][t][g]
 *
 * n = 0 gives zeros. Engines round the weights to the type of the values before they multiply, and add up the unrounded ones: called with a
 * type of intermediates it does so too.
 */
#include "reference.h"

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

void proteus_reference(const struct reference_call *call)
{
    int64_t sequences = reference_axis(call, "B"), hq = reference_axis(call, "HQ"), hk = reference_axis(call, "HK");
    int64_t d = reference_axis(call, "d"), places = reference_axis(call, "T");
    const double *q = reference_data(call, "q"), *k = reference_data(call, "k"), *v = reference_data(call, "v");
    const double *lens = reference_data(call, "lens");
    const struct reference_format between = reference_between(call);
    double *out = reference_data(call, "out"), *score = malloc((size_t)places * sizeof *score);
    if (!score)
        abort();

    for (int64_t b = 0; b < sequences; b++) {
        int64_t n = (int64_t)lens[b];
        if (n < 0 || n > places)
            abort();
        for (int64_t h = 0; h < hq; h++) {
            const double *mine = q + (b * hq + h) * d;
            double *to = out + (b * hq + h) * d, largest = -INFINITY, sum = 0;
            int64_t first = b * places * hk + h / (hq / hk);
            for (int64_t t = 0; t < n; t++) {
                score[t] = dot(mine, k + (first + t * hk) * d, d) / sqrt((double)d);
                largest = fmax(largest, score[t]);
            }
            memset(to, 0, (size_t)d * sizeof *to);
            for (int64_t t = 0; t < n; t++) {
                double weight = exp(score[t] - largest);
                const double rounded = reference_round(between, weight);
                sum += weight;
                for (int64_t i = 0; i < d; i++)
                    to[i] += rounded * v[(first + t * hk) * d + i];
            }
            for (int64_t i = 0; n && i < d; i++)
                to[i] /= sum;
        }
    }
    free(score);
}

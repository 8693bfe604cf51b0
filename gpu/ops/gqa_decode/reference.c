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

struct task {
    int64_t hq, hk, d, places;
    const double *q, *k, *v, *lens;
    struct reference_format between;
    double *out;
};

/* A query head of a sequence. */
static void head(void *ctx, int64_t i)
{
    const struct task *x = ctx;
    const int64_t b = i / x->hq, h = i % x->hq, n = (int64_t)x->lens[b], d = x->d, first = b * x->places * x->hk + h / (x->hq / x->hk);
    const double *mine = x->q + i * d;
    double *to = x->out + i * d, *score = malloc((size_t)x->places * sizeof *score), largest = -INFINITY, sum = 0;
    if (!score || n < 0 || n > x->places)
        abort();
    for (int64_t t = 0; t < n; t++) {
        score[t] = dot(mine, x->k + (first + t * x->hk) * d, d) / sqrt((double)d);
        largest = fmax(largest, score[t]);
    }
    memset(to, 0, (size_t)d * sizeof *to);
    for (int64_t t = 0; t < n; t++) {
        double weight = exp(score[t] - largest);
        const double rounded = reference_round(x->between, weight);
        sum += weight;
        for (int64_t e = 0; e < d; e++)
            to[e] += rounded * x->v[(first + t * x->hk) * d + e];
    }
    for (int64_t e = 0; n && e < d; e++)
        to[e] /= sum;
    free(score);
}

void proteus_reference(const struct reference_call *call)
{
    struct task x = {reference_axis(call, "HQ"), reference_axis(call, "HK"), reference_axis(call, "d"), reference_axis(call, "T"),
                     reference_data(call, "q"), reference_data(call, "k"), reference_data(call, "v"), reference_data(call, "lens"),
                     reference_between(call), reference_data(call, "out")};
    reference_each(call, reference_axis(call, "B") * x.hq, head, &x);
}

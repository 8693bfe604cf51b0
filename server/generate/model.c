/* Cholesky decomposition of the kernel matrix, done anew for each trial of a weight: with a few dozen results that costs nothing. */
#include "server/generate/model.h"

#include "core/buf.h"
#include "core/cleanup.h"

#include <math.h>
#include <string.h>

struct model {
    int count, dims;
    double weight[MODEL_MAX_DIMS], mean, scale, noise, rough;    /* y = mean + scale * z */
    double *x, *z;
    double *lower;                                        /* count x count */
    double *alpha;                                        /* K^-1 z */
};

static double kernel(const struct model *m, const double *a, const double *b)
{
    double sum = 0;
    for (int d = 0; d < m->dims; d++)
        sum += m->weight[d] * (a[d] - b[d]) * (a[d] - b[d]);
    return exp(-sum);
}

static void solve_lower(const struct model *m, double *b)
{
    for (int i = 0; i < m->count; i++) {
        for (int j = 0; j < i; j++)
            b[i] -= m->lower[i * m->count + j] * b[j];
        b[i] /= m->lower[i * m->count + i];
    }
}

static void solve_upper(const struct model *m, double *b)
{
    for (int i = m->count - 1; i >= 0; i--) {
        for (int j = i + 1; j < m->count; j++)
            b[i] -= m->lower[j * m->count + i] * b[j];
        b[i] /= m->lower[i * m->count + i];
    }
}

/* Fills lower and alpha for the weights there are; returns the log marginal likelihood, -INFINITY if it can't be solved. */
static double decompose(struct model *m)
{
    int n = m->count;
    double noise = fmax(m->noise / m->scale, 1e-3), logs = 0, product = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = kernel(m, m->x + i * m->dims, m->x + j * m->dims) + (i == j ? noise * noise : 0);
            for (int k = 0; k < j; k++)
                sum -= m->lower[i * n + k] * m->lower[j * n + k];
            if (i == j && !(sum > 0))
                return -INFINITY;
            m->lower[i * n + j] = i == j ? sqrt(sum) : sum / m->lower[j * n + j];
        }
    memcpy(m->alpha, m->z, (size_t)n * sizeof *m->alpha);
    solve_lower(m, m->alpha);
    solve_upper(m, m->alpha);
    for (int i = 0; i < n; i++) {
        logs += log(m->lower[i * n + i]);
        product += m->z[i] * m->alpha[i];
    }
    return -product / 2 - logs;
}

/* From "no effect" to "one step changes much"; a mild preference for the middle keeps few results from deciding. */
static const struct { double weight, preference; } trials[] = {{0.05, -0.3}, {0.4, 0}, {1.5, 0}, {5, -0.5}};
enum { TRIALS = sizeof trials / sizeof *trials, TRIAL_FIRST = 1 };

static double try_weights(struct model *m, const int *choice)
{
    double preference = 0;
    for (int d = 0; d < m->dims; d++) {
        m->weight[d] = trials[choice[d]].weight * m->rough;
        preference += trials[choice[d]].preference;
    }
    return decompose(m) + preference;
}

static double choose_weights(struct model *m)
{
    int choice[MODEL_MAX_DIMS];
    for (int d = 0; d < m->dims; d++)
        choice[d] = TRIAL_FIRST;
    double best = try_weights(m, choice);
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < m->dims; d++) {
            int kept = choice[d];
            for (int i = 0; i < TRIALS; i++) {
                choice[d] = i;
                double value = i == kept ? best : try_weights(m, choice);
                if (value > best) {
                    best = value;
                    kept = i;
                }
            }
            choice[d] = kept;
        }
    return try_weights(m, choice);
}

struct model *model_fit(const double *x, const double *y, int count, int dims, double noise, double least, double rough)
{
    if (count < 1 || count > MODEL_MAX_SEEN || dims < 1 || dims > MODEL_MAX_DIMS)
        return NULL;
    struct model *m = xalloc(sizeof *m);
    size_t n = (size_t)count;
    m->count = count;
    m->dims = dims;
    m->noise = noise;
    m->rough = rough;
    m->x = xarray(n * (size_t)dims, sizeof *m->x);
    m->z = xarray(n, sizeof *m->z);
    m->lower = xarray(n * n, sizeof *m->lower);
    m->alpha = xarray(n, sizeof *m->alpha);
    memcpy(m->x, x, n * (size_t)dims * sizeof *x);
    double squares = 0;
    for (int i = 0; i < count; i++)
        m->mean += y[i] / count;
    for (int i = 0; i < count; i++)
        squares += (y[i] - m->mean) * (y[i] - m->mean);
    m->scale = fmax(sqrt(squares / count), fmax(noise, fmax(least, 0.01)));
    for (int i = 0; i < count; i++)
        m->z[i] = (y[i] - m->mean) / m->scale;
    if (!isfinite(choose_weights(m))) {
        model_free(m);
        return NULL;
    }
    return m;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    free(m->x);
    free(m->z);
    free(m->lower);
    free(m->alpha);
    free(m);
}

void model_predict(const struct model *m, const double *x, double *ret_mean, double *ret_deviation)
{
    double k[MODEL_MAX_SEEN], mean = 0, explained = 0;
    for (int i = 0; i < m->count; i++) {
        k[i] = kernel(m, x, m->x + i * m->dims);
        mean += k[i] * m->alpha[i];
    }
    solve_lower(m, k);
    for (int i = 0; i < m->count; i++)
        explained += k[i] * k[i];
    *ret_mean = m->mean + m->scale * mean;
    *ret_deviation = m->scale * sqrt(fmax(1 - explained, 0));
}

double model_improvement(double mean, double deviation, double best)
{
    if (deviation < 1e-12)
        return fmax(best - mean, 0);
    double z = (best - mean) / deviation;
    return deviation * (z * erfc(-z * M_SQRT1_2) / 2 + exp(-z * z / 2) * 0.3989422804014327);
}

/*
 * One decode step of the gated delta rule, for every token t with state slot s = slot[t] > 0 and every value head j with key head
 * h = j / (HV/H):
 *
 *   q = q_raw / sqrt(sum q_raw^2 + eps) / sqrt(K)          k = k_raw / sqrt(sum k_raw^2 + eps)
 *   g = -exp(A_log) * softplus(a + dt_bias)                beta = 1 / (1 + exp(-b))
 *   S' = e^g S       u = (v - S' k) * beta       S <- S' + u k^T       out = S q
 *
 * softplus(x) = log(1 + e^x), and x itself above 20. Padding (slot <= 0) gives zeros and touches no state.
 */
#include "reference.h"

#include <math.h>

struct sizes { int64_t b, h, hv, k, v, slots; };

static void normalise(const double *raw, int64_t n, double eps, double scale, double *ret)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += raw[i] * raw[i];
    double factor = scale / sqrt(sum + eps);
    for (int64_t i = 0; i < n; i++)
        ret[i] = raw[i] * factor;
}

static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* One value head of one token: state is its V x K matrix. */
static void step(const struct sizes *n, const double *q, const double *k, const double *v, double g, double beta, double *state, double *out)
{
    double decay = exp(g);
    for (int64_t i = 0; i < n->v; i++) {
        double *row = state + i * n->k;
        for (int64_t x = 0; x < n->k; x++)
            row[x] *= decay;
        double u = (v[i] - dot(row, k, n->k)) * beta;
        for (int64_t x = 0; x < n->k; x++)
            row[x] += u * k[x];
        out[i] = dot(row, q, n->k);
    }
}

struct task {
    struct sizes n;
    double eps;
    const double *mixed, *a, *b, *a_log, *dt_bias, *slot;
    double *state, *out;
};

/* A value head of all tokens. */
static void head(void *ctx, int64_t j)
{
    const struct task *x = ctx;
    const struct sizes *n = &x->n;
    const int64_t width = 2 * n->h * n->k + n->hv * n->v, h = j / (n->hv / n->h);
    double *q = malloc((size_t)n->k * sizeof *q), *k = malloc((size_t)n->k * sizeof *k);
    if (!q || !k)
        abort();

    for (int64_t t = 0; t < n->b; t++) {
        int64_t s = (int64_t)x->slot[t], at = t * n->hv + j;
        double *to = x->out + at * n->v;
        if (s >= n->slots)
            abort();
        if (s <= 0) {
            memset(to, 0, (size_t)n->v * sizeof *to);
            continue;
        }
        const double *row = x->mixed + t * width;
        normalise(row + h * n->k, n->k, x->eps, 1 / sqrt((double)n->k), q);
        normalise(row + (n->h + h) * n->k, n->k, x->eps, 1, k);
        double g = -exp(x->a_log[j]) * softplus(x->a[at] + x->dt_bias[j]);
        double beta = 1 / (1 + exp(-x->b[at]));
        step(n, q, k, row + 2 * n->h * n->k + j * n->v, g, beta, x->state + (s * n->hv + j) * n->v * n->k, to);
    }
    free(q);
    free(k);
}

void proteus_reference(const struct reference_call *call)
{
    const struct sizes n = {reference_axis(call, "B"), reference_axis(call, "H"), reference_axis(call, "HV"),
                            reference_axis(call, "K"), reference_axis(call, "V"), reference_axis(call, "slots")};
    struct task x = {n, reference_scalar(call, "eps"), reference_data(call, "mixed_qkv"), reference_data(call, "a"), reference_data(call, "b"),
                     reference_data(call, "A_log"), reference_data(call, "dt_bias"), reference_data(call, "slot"), reference_data(call, "state"),
                     reference_data(call, "out")};
    reference_each(call, n.hv, head, &x);
}

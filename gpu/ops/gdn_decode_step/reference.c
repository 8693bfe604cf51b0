/*
 * One decode step of a gated delta layer. For every token t with slot s = slot[t] > 0:
 *
 *   c = silu(sum over the last W values of each channel times its weights), past <- past without its oldest, with x   (conv_state)
 *   then for every value head j with key head h = j / (HV/H), q, k and v being parts of c:
 *   q = q / sqrt(sum q^2 + eps) / sqrt(K)                  k = k / sqrt(sum k^2 + eps)
 *   g = -exp(A_log) * softplus(a + dt_bias)                beta = 1 / (1 + exp(-b))
 *   S' = e^g S       u = (v - S' k) * beta       S <- S' + u k^T       o = S q
 *   y = o / sqrt(mean of o^2 over the head + norm_eps) * norm_weight * silu(z)
 *
 * softplus(x) = log(1 + e^x), and x itself above 20. Padding (slot <= 0) gives zeros and touches no state. c and o are what may be
 * rounded between the steps.
 */
#include "reference.h"

struct sizes { int64_t b, h, hv, k, v, w, slots, channels; };

static double silu(double x)
{
    return x / (1 + exp(-x));
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

static void normalise(const double *raw, int64_t n, double eps, double scale, double *ret)
{
    double factor = scale / sqrt(dot(raw, raw, n) + eps);
    for (int64_t i = 0; i < n; i++)
        ret[i] = raw[i] * factor;
}

/* past: W-1 rows of all channels, oldest first; channels `first` to `end` - 1. */
static void convolve(const struct sizes *n, const double *x, const double *weight, double *past, struct reference_format between, int64_t first,
                     int64_t end, double *ret)
{
    for (int64_t c = first; c < end; c++) {
        double sum = x[c] * weight[c * n->w + n->w - 1];
        for (int64_t w = 0; w < n->w - 1; w++) {
            sum += past[w * n->channels + c] * weight[c * n->w + w];
            past[w * n->channels + c] = w < n->w - 2 ? past[(w + 1) * n->channels + c] : x[c];
        }
        ret[c] = reference_round(between, silu(sum));
    }
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

static double *room(int64_t n)
{
    double *ret = malloc((size_t)n * sizeof *ret);
    if (!ret)
        abort();
    return ret;
}

struct task {
    struct sizes n;
    double eps, norm_eps;
    struct reference_format between;
    const double *x, *conv_weight, *a, *b, *z, *a_log, *dt_bias, *slot, *norm_weight;
    double *conv_state, *state, *y;
    double *c;                              /* the channels of all tokens, when they are convolved */
};

#define CHANNELS 64

/* Some channels of all tokens. */
static void channels(void *ctx, int64_t i)
{
    const struct task *x = ctx;
    const struct sizes *n = &x->n;
    const int64_t first = i * CHANNELS, end = first + CHANNELS < n->channels ? first + CHANNELS : n->channels;
    for (int64_t t = 0; t < n->b; t++) {
        int64_t s = (int64_t)x->slot[t];
        if (s >= n->slots)
            abort();
        if (s > 0)
            convolve(n, x->x + t * n->channels, x->conv_weight, x->conv_state + s * (n->w - 1) * n->channels, x->between, first, end,
                     x->c + t * n->channels);
    }
}

/* A value head of all tokens. */
static void head(void *ctx, int64_t j)
{
    const struct task *x = ctx;
    const struct sizes *n = &x->n;
    const int64_t h = j / (n->hv / n->h);
    double *q = room(n->k), *k = room(n->k), *o = room(n->v);

    for (int64_t t = 0; t < n->b; t++) {
        int64_t s = (int64_t)x->slot[t], at = t * n->hv + j;
        const double *c = x->c + t * n->channels;
        if (s <= 0) {
            memset(x->y + at * n->v, 0, (size_t)n->v * sizeof *x->y);
            continue;
        }
        normalise(c + h * n->k, n->k, x->eps, 1 / sqrt((double)n->k), q);
        normalise(c + (n->h + h) * n->k, n->k, x->eps, 1, k);
        double g = -exp(x->a_log[j]) * softplus(x->a[at] + x->dt_bias[j]);
        double beta = 1 / (1 + exp(-x->b[at]));
        step(n, q, k, c + 2 * n->h * n->k + j * n->v, g, beta, x->state + (s * n->hv + j) * n->v * n->k, o);
        for (int64_t i = 0; i < n->v; i++)
            o[i] = reference_round(x->between, o[i]);
        double factor = 1 / sqrt(dot(o, o, n->v) / (double)n->v + x->norm_eps);
        for (int64_t i = 0; i < n->v; i++)
            x->y[at * n->v + i] = o[i] * factor * x->norm_weight[i] * silu(x->z[at * n->v + i]);
    }
    free(q);
    free(k);
    free(o);
}

void proteus_reference(const struct reference_call *call)
{
    struct sizes n = {reference_axis(call, "B"), reference_axis(call, "H"), reference_axis(call, "HV"), reference_axis(call, "K"),
                      reference_axis(call, "V"), reference_axis(call, "W"), reference_axis(call, "slots"), 0};
    n.channels = 2 * n.h * n.k + n.hv * n.v;
    struct task x = {
        .n = n, .eps = reference_scalar(call, "eps"), .norm_eps = reference_scalar(call, "norm_eps"), .between = reference_between(call),
        .x = reference_data(call, "x"), .conv_weight = reference_data(call, "conv_weight"), .a = reference_data(call, "a"),
        .b = reference_data(call, "b"), .z = reference_data(call, "z"), .a_log = reference_data(call, "A_log"),
        .dt_bias = reference_data(call, "dt_bias"), .slot = reference_data(call, "slot"), .norm_weight = reference_data(call, "norm_weight"),
        .conv_state = reference_data(call, "conv_state"), .state = reference_data(call, "state"), .y = reference_data(call, "y"),
        .c = room(n.b * n.channels),
    };
    reference_each(call, (n.channels + CHANNELS - 1) / CHANNELS, channels, &x);
    reference_each(call, n.hv, head, &x);
    free(x.c);
}

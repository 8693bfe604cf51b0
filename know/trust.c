/*
 * Trust: the posterior of "a candidate that uses this lesson gains", a Beta distribution whose counts fade, so that what happened
 * lately counts most:   alpha <- keep * alpha + helped,   beta <- keep * beta + not helped.
 * This is the beta reputation system with its forgetting factor (Josang and Ismail, "The Beta Reputation System", 15th Bled Electronic
 * Commerce Conference, 2002). What counts is the lower bound, the 5 % quantile: little evidence is little trust.
 * The distribution function is the continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8), by Lentz's method.
 */
#include "know/internal.h"

#include "core/clock.h"

#include <float.h>
#include <math.h>

#define FRACTION_TERMS 300
#define BISECTIONS 60
#define LEAST_COUNT 0.25                 /* alpha and beta never fade below: nothing is ever certain */
#define MOST_FROM_EVIDENCE 6.0

static double fraction(double a, double b, double x)
{
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
    double value = d;
    for (int m = 1; m < FRACTION_TERMS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        for (int k = 0; k < 2; k++) {
            double term = k ? odd : even;
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
            c = fabs(c) < DBL_MIN ? DBL_MIN : c;
            value *= c * d;
            if (k && fabs(c * d - 1) < 1e-12)
                return value;
        }
    }
    return value;
}

double beta_cdf(double a, double b, double x)
{
    if (x <= 0 || x >= 1)
        return x > 0;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * fraction(a, b, x) / a : 1 - front * fraction(b, a, 1 - x) / b;
}

double beta_quantile(double a, double b, double p)
{
    double low = 0, high = 1;
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2;
        *(beta_cdf(a, b, middle) < p ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

/* A gain that is sure counts like the first uses that went well; one that might be none counts for little. */
struct trust trust_of_evidence(double ratio, double low, int pairs)
{
    double sure = low > 1 ? fmin((double)pairs, MOST_FROM_EVIDENCE) : ratio > 1 ? 0.5 : 0;
    return (struct trust){1 + sure, 1};
}

struct trust trust_signed(void)
{
    return (struct trust){1 + MOST_FROM_EVIDENCE / 2, 1};
}

void trust_move(struct trust *t, bool helped)
{
    t->alpha = fmax(LEAST_COUNT, TRUST_KEEP * t->alpha + helped);
    t->beta = fmax(LEAST_COUNT, TRUST_KEEP * t->beta + !helped);
}

double trust_mean(const struct trust *t) { return t->alpha / (t->alpha + t->beta); }
double trust_lower(const struct trust *t) { return beta_quantile(t->alpha, t->beta, TRUST_LOWER); }

bool trust_spent(const struct trust *t, int64_t uses, double base_rate)
{
    return uses >= TRUST_LEAST_USES && beta_quantile(t->alpha, t->beta, 1 - TRUST_LOWER) < base_rate;
}

static double positive(const json_t *doc, const char *key)
{
    double v = json_num(doc, key, 1);
    return v >= LEAST_COUNT && v < 1e6 ? v : 1;
}

struct trust trust_read(const json_t *lesson)
{
    const json_t *doc = json_object_get(lesson, "trust");
    return (struct trust){positive(doc, "alpha"), positive(doc, "beta")};
}

/* How it began stays; of the rest the oldest goes. */
static void remember(json_t *lesson, double lower, const char *why, const char *candidate)
{
    json_t *history = json_object_get(lesson, "history"), *entry = json_object();
    if (!json_is_array(history))
        json_put(lesson, "history", history = json_array());
    while (json_array_size(history) >= TRUST_HISTORY)
        json_array_remove(history, 1);
    json_put_str(entry, "time", clock_text(clock_wall_ns()).text);
    json_put_num(entry, "trust", round(lower * 1e4) / 1e4);
    json_put_str(entry, "reason", why);
    if (candidate)
        json_put_str(entry, "candidate", candidate);
    json_array_append_new(history, entry);
}

void trust_write(json_t *lesson, const struct trust *t, const char *why, const char *candidate)
{
    json_t *doc = json_object();
    json_put_num(doc, "alpha", t->alpha);
    json_put_num(doc, "beta", t->beta);
    json_put_num(doc, "mean", trust_mean(t));
    json_put_num(doc, "lower", trust_lower(t));
    json_put(lesson, "trust", doc);
    remember(lesson, trust_lower(t), why, candidate);
}

/* The rules over the whole tensor: tiles, worst element, cap, bias, small elements; in the header's order. */
#include "gpu/judge/compare_walk.h"

#include <stdarg.h>
#include <stdio.h>

#define MAGNITUDE_LEAST 32                         /* elements of one that are enough to judge by */

static const enum verdict_code verdicts[] = {
#define X(code, name, verdict) [code] = verdict,
    COMPARE_RULE_TABLE(X)
#undef X
};

void compare_fail(struct walk *w, enum compare_rule rule, const char *fmt, ...)
{
    va_list ap;
    if (w->ret->rule != COMPARE_NONE)
        return;
    w->ret->rule = rule;
    w->ret->code = verdicts[rule];
    va_start(ap, fmt);
    vsnprintf(w->ret->text, sizeof w->ret->text, fmt, ap);
    va_end(ap);
}

static void judge_bias(struct walk *w)
{
    const struct sums *s = &w->all;
    double n = (double)s->n;
    double allowed = 4 * root_mean(s->error, s->n) / sqrt(n) + w->floor_bias * of_scale(w, root_mean(s->reference, s->n))
                     + w->tolerance.factor * root_mean(s->drift, s->n);
    double mean = larger(fabs(s->bias), fabs(s->inward)) / n;
    w->ret->bias = against(mean, allowed);
    if (w->ret->bias > 1)
        compare_fail(w, COMPARE_BIAS, "%s: the error has a bias of %.3g, at most %.3g is rounding: a truncation, a gain or a dropped term",
             w->c->tensor->spec->name, mean, allowed);
}

/* What a tile's larger elements would hide: those that are small are judged among themselves. */
static void judge_small(struct walk *w)
{
    for (int k = 1; k < MAGNITUDES; k++) {          /* the largest are the tile's own business */
        const struct magnitude *m = &w->magnitudes[k];
        if (m->n < MAGNITUDE_LEAST)
            continue;
        double part = w->c->baseline ? w->floor_rms : larger(w->floor_rms, w->tolerance.rms);
        double allowed = w->tolerance.factor * root_mean(m->trusted, m->n) + part * root_mean(m->scale, m->n);
        w->ret->small = larger(w->ret->small, against(root_mean(m->error, m->n), allowed));
    }
    if (w->ret->small > 1 && w->tolerance.matched >= 1)
        compare_fail(w, COMPARE_SMALL, "%s: of elements far smaller than their neighbours the RMS error is %.3g times what it may be",
             w->c->tensor->spec->name, w->ret->small);
}

void compare_whole(struct walk *w)
{
    struct compare_result *r = w->ret;
    const char *name = w->c->tensor->spec->name;
    const struct sums *s = &w->all;
    double error = root_mean(s->error, s->n), baseline = root_mean(s->baseline, s->n), reference = of_scale(w, root_mean(s->reference, s->n)), largest = of_scale(w, w->max_reference);
    r->rms = against(error, reference);
    if (w->c->baseline) {
        r->baseline_rms = against(larger(baseline - w->tolerance.factor * root_mean(s->between, s->n), 0), reference);
        r->ratio = baseline > 0 ? error / baseline : error > 0 ? -1 : 0;
    }
    if (r->wrong_class) {
        compare_fail(w, COMPARE_CLASSES, "%s: %lld of %lld elements are NaN or infinite where the reference is not, or the other way round", name,
             (long long)r->wrong_class, (long long)r->elements);
        if (r->rule == COMPARE_CLASSES && isfinite(r->got))
            r->code = VERDICT_WRONG_RESULT;        /* a number where the reference overflows */
        return;
    }
    if (!s->n)
        return;
    if (w->inexact)
        compare_fail(w, COMPARE_EXACT, "%s: %lld of %lld elements differ, and each is to be just what it must be", name, (long long)w->inexact, (long long)s->n);
    /* if every tile holds, so does the whole: both sides are norms, and Minkowski's inequality points the right way */
    if (r->worst_tile > 1)
        compare_fail(w, COMPARE_TILE, "%s: a tile's RMS error is %.3g times what it may be", name, r->worst_tile);
    if (w->rare_tiles > w->tiles / RARE)
        compare_fail(w, COMPARE_TILE, "%s: of %lld tiles %lld have a larger RMS error than rounding between the steps makes of one in %d", name, (long long)w->tiles,
                     (long long)w->rare_tiles, RARE);
    if ((double)w->beyond > (1 - w->tolerance.matched) * (double)s->n)
        compare_fail(w, COMPARE_WORST, "%s: the worst element is off by %.3g of its scale, at most %.3g is allowed", name, r->worst, w->tolerance.max);
    if (w->rare > w->beyond && (double)w->rare > larger(1 - w->tolerance.matched, 1.0 / RARE) * (double)s->n)
        compare_fail(w, COMPARE_WORST, "%s: of %lld elements %lld are further off than rounding between the steps makes one in %d", name, (long long)s->n,
                     (long long)w->rare, RARE);
    if (w->c->baseline && w->tolerance.matched >= 1 && w->max_error > 2 * larger(larger(w->max_baseline, w->max_between), w->roundoff * largest) + w->floor_worst * largest)
        compare_fail(w, COMPARE_WORST, "%s: the largest error is %.3g, the baseline's is %.3g", name, w->max_error, w->max_baseline);
    if (r->worst > 10 * w->tolerance.max)
        compare_fail(w, COMPARE_CAP, "%s: an element is off by %.3g of its scale, none may be by %.3g", name, r->worst, 10 * w->tolerance.max);
    judge_bias(w);
    judge_small(w);
    if (w->tolerance.steps > 0 && (double)w->most_steps > w->tolerance.steps)
        compare_fail(w, COMPARE_STEPS, "%s: an element is %lld of its type's numbers from the right one, at most %g is rounding", name,
                     (long long)w->most_steps, w->tolerance.steps);
    if (w->clear_of_ties)
        compare_fail(w, COMPARE_STEPS, "%s: %lld of %lld elements are the neighbour of the right number, and what is rounded lies clear of the middle between the two", name,
                     (long long)w->clear_of_ties, (long long)s->n);
}

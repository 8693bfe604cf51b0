/*
 * Lessons as a prior. What is known of a template's parameters over other shapes (know/effects.h) says what a setting is expected to take,
 * beside the best: the template's own effect and one for each parameter's value. It stands where an estimate of the emulator would (prior.c),
 * and where there are both they are averaged by how sure each is. Results then say how far it holds: its slope, and what it leaves.
 */
#include "server/generate/search.h"

#include <math.h>
#include <string.h>

#define UNKNOWN 0.10                     /* log: what a value that no lesson speaks of is off by */
#define TOGETHER 0.05                    /* log: what effects of single parameters leave out */
#define ESTIMATE_OFF 0.12                /* log: how far an estimate is off within a shape */
#define MOST_EFFECT 2.0                  /* log: of one level; what is beyond is no effect of a parameter */

static double bounded(const json_t *level, const char *key, double fallback)
{
    double v = json_num(level, key, fallback);
    return v > -MOST_EFFECT && v < MOST_EFFECT ? v : fallback;
}

/* The effect of a parameter's value: as told, or between its neighbours; false: nothing is known. */
static bool level_at(const json_t *effect, int64_t value, double *ret_mean, double *ret_deviation)
{
    const json_t *below = NULL, *above = NULL;
    size_t i;
    json_t *level;
    json_array_foreach(json_object_get(effect, "levels"), i, level) {
        int64_t at = json_int(level, "value", INT64_MIN);
        if (at <= value && (!below || at > json_int(below, "value", 0)))
            below = level;
        if (at >= value && (!above || at < json_int(above, "value", 0)))
            above = level;
    }
    if (!below && !above)
        return false;
    const json_t *a = below ? below : above, *b = above ? above : below;
    double between = a == b ? 0 : 0.5, far = a == b && json_int(a, "value", 0) == value ? 0 : UNKNOWN / 2;
    *ret_mean = (1 - between) * bounded(a, "effect", 0) + between * bounded(b, "effect", 0);
    *ret_deviation = hypot(far, (bounded(a, "deviation", UNKNOWN) + bounded(b, "deviation", UNKNOWN)) / 2);
    return true;
}

static const json_t *effect_of(const json_t *lessons, const char *template, const char *param)
{
    size_t i;
    json_t *one;
    json_array_foreach(lessons, i, one) {
        const json_t *effects = json_object_get(one, "effects");
        const char *its = json_str(effects, "param", NULL);
        if (!strcmp(json_str(effects, "template", ""), template) && (param ? its && !strcmp(its, param) : !its))
            return effects;
    }
    return NULL;
}

static void expect(const json_t *lessons, const struct space *sp, const struct setting *p, double *ret_mean, double *ret_variance)
{
    double mean = 0, variance = TOGETHER * TOGETHER, m, d;
    const json_t *own = effect_of(lessons, sp->t->name, NULL);
    if (own && level_at(own, 0, &m, &d)) {
        mean += m;
        variance += d * d;
    }
    for (int i = 0; i < sp->t->param_count; i++) {
        const json_t *effect = effect_of(lessons, sp->t->name, sp->t->params[i].name);
        if (effect && level_at(effect, sp->t->params[i].values[p->at[i]], &m, &d)) {
            mean += m;
            variance += d * d;
        } else
            variance += UNKNOWN * UNKNOWN;
    }
    *ret_mean = mean;
    *ret_variance = variance;
}

static bool speaks_of(const json_t *lessons, const char *template)
{
    size_t i;
    json_t *one;
    json_array_foreach(lessons, i, one)
        if (!strcmp(json_str(json_object_get(one, "effects"), "template", ""), template) && json_str(json_object_get(one, "effects"), "param", NULL))
            return true;
    return false;
}

/* Estimates have a level, lessons have none: they are brought to the estimates' by their means. */
static double level_between(const json_t *lessons, const struct search *s)
{
    double sum = 0, mean, variance;
    int n = 0;
    for (int i = 0; i < s->space_count; i++)
        for (int p = 0; s->spaces[i].prior && p < s->spaces[i].count; p++)
            if (speaks_of(lessons, s->spaces[i].t->name)) {
                expect(lessons, &s->spaces[i], &s->spaces[i].list[p], &mean, &variance);
                sum += s->spaces[i].prior[p] - mean;
                n++;
            }
    return n ? sum / n : s->in->baseline_ns > 0 ? log(s->in->baseline_ns) - 0.2 : 0;
}

void lessons_take(struct search *s)
{
    const json_t *lessons = s->in->lessons;
    if (!json_array_size(lessons))
        return;
    const double level = level_between(lessons, s);
    for (int i = 0; i < s->space_count; i++) {
        struct space *sp = &s->spaces[i];
        bool estimated = sp->prior;
        if (!speaks_of(lessons, sp->t->name))
            continue;
        if (!estimated) {
            sp->prior = xarray((size_t)sp->count + 1, sizeof *sp->prior);
            sp->prior_deviation = xarray((size_t)sp->count + 1, sizeof *sp->prior_deviation);
        }
        for (int p = 0; p < sp->count; p++) {
            double mean, variance;
            expect(lessons, sp, &sp->list[p], &mean, &variance);
            mean += level;
            if (!estimated) {
                sp->prior[p] = mean;
                sp->prior_deviation[p] = sqrt(variance);
                continue;
            }
            double other = ESTIMATE_OFF * ESTIMATE_OFF + sp->prior_deviation[p] * sp->prior_deviation[p], part = other / (other + variance);
            sp->prior[p] += part * (mean - sp->prior[p]);
            sp->prior_deviation[p] *= 1 - part;
        }
        s->has_prior = s->has_lessons = true;
    }
}

void lessons_name(const struct search *s, const struct space *sp, json_t *candidate)
{
    json_t *ids = json_array(), *one;
    size_t i;
    json_array_foreach(s->in->lessons, i, one)
        if (!strcmp(json_str(json_object_get(one, "effects"), "template", ""), sp->t->name) && json_str(one, "id", NULL) && json_array_size(ids) < 16)
            json_array_append(ids, json_object_get(one, "id"));
    if (json_array_size(ids))
        json_put(candidate, "lessons", json_incref(ids));
    json_decref(ids);
}

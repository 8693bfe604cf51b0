/*
 * Estimates as a prior. The emulator's estimate of a setting costs no card; it is off by a factor that is much the same within a shape,
 * and by something that varies slowly over the settings. So: log time = offset + slope * log estimate + a Gaussian process over what
 * that leaves, each learnt from the results. (Kennedy and O'Hagan, "Predicting the output from a complex computer code when fast
 * approximations are available", Biometrika 87, 2000.) Between settings that were estimated a process over the estimates fills in.
 *
 * Which settings to estimate: the defaults and the neighbours' best, then half of what is left far from each other, then where the
 * estimates so far promise most.
 */
#include "server/generate/search.h"

#include <math.h>
#include <string.h>

#define CLIP_ESTIMATE 1.0                /* log: how much slower than the best estimate still tells something */
#define ESTIMATE_NOISE 0.01
#define UNMODELLED 0.12                  /* log: how far an estimate is off, beyond the factor that all share, before results say more */
#define STIFFNESS 0.02                   /* of the slope: so much variance of the estimates counts for a slope of 1 */

static struct space *space_of(struct search *s, const char *name)
{
    for (int i = 0; i < s->space_count; i++)
        if (!strcmp(s->spaces[i].t->name, name))
            return &s->spaces[i];
    return NULL;
}

/* The setting of an item {"template","params"}; NULL: not one that fits here. */
static struct space *find_item(struct search *s, const json_t *item, int *ret_index)
{
    struct setting p;
    struct space *sp = space_of(s, json_str(item, "template", ""));
    if (!sp || !template_find(sp->t, json_object_get(item, "params"), &p) || (*ret_index = setting_index(sp, &p)) < 0)
        return NULL;
    return sp;
}

/* By the compiler's figures, before any time of a card: bytes that this setting spills. */
static int64_t estimate_spills(const json_t *item)
{
    int64_t sum = 0;
    const json_t *kernel;
    size_t i;
    json_array_foreach(json_object_get(item, "resources"), i, kernel)
        sum += json_int(kernel, "spill_bytes", 0);
    return sum;
}

static void fill_in(struct space *sp)
{
    double x[MODEL_MAX_SEEN * MODEL_MAX_DIMS], y[MODEL_MAX_SEEN], least = INFINITY, sum = 0;
    int n = 0, dims = sp->t->param_count;
    bool gaps = false;
    for (int i = 0; i < sp->count; i++) {
        gaps |= isnan(sp->estimate[i]) && sp->fate[i] == UNTRIED;
        if (!isnan(sp->estimate[i]))
            least = fmin(least, sp->estimate[i]);
    }
    for (int i = 0; i < sp->count && n < MODEL_MAX_SEEN; i++)
        if (!isnan(sp->estimate[i])) {
            coordinates(sp->t, &sp->list[i], x + n * dims);
            y[n] = fmin(sp->estimate[i], least + CLIP_ESTIMATE);
            sum += y[n++];
        }
    struct model *m = gaps && dims && n > 1 ? model_fit(x, y, n, dims, ESTIMATE_NOISE, 0, 1) : NULL;
    for (int i = 0; i < sp->count; i++) {
        double at[MODEL_MAX_DIMS];
        sp->prior[i] = isnan(sp->estimate[i]) ? sum / n : sp->estimate[i];
        sp->prior_deviation[i] = isnan(sp->estimate[i]) ? 2 * UNMODELLED : 0;
        if (m && isnan(sp->estimate[i])) {
            coordinates(sp->t, &sp->list[i], at);
            model_predict(m, at, &sp->prior[i], &sp->prior_deviation[i]);
        }
    }
    model_free(m);
}

void prior_take(struct search *s)
{
    size_t k;
    json_t *item;
    for (int i = 0; i < s->space_count; i++) {
        struct space *sp = &s->spaces[i];
        sp->estimate = xarray((size_t)sp->count + 1, sizeof *sp->estimate);
        for (int p = 0; p < sp->count; p++)
            sp->estimate[p] = NAN;
    }
    json_array_foreach(s->in->estimates, k, item) {
        int at;
        struct space *sp = find_item(s, item, &at);
        double ns = json_num(item, "ns", 0);
        if (!sp)
            continue;
        /* it spills, or a block of it fits no multiprocessor: so does what needs as many registers or more */
        if (estimate_spills(item) || strncmp(json_str(item, "why", ""), "resource_limit", 14) == 0) {
            avoid_costlier(sp, at);
            if (sp->fate[at] == UNTRIED)
                sp->fate[at] = AVOIDED;
            continue;
        }
        if (!(ns > 0 && ns < 1e15)) {    /* it does not compile, or the emulator found a fault */
            if (sp->fate[at] == UNTRIED)
                sp->fate[at] = AVOIDED;
            continue;
        }
        sp->estimated += isnan(sp->estimate[at]);
        sp->estimate[at] = log(ns);
    }
    for (int i = 0; i < s->space_count; i++) {
        struct space *sp = &s->spaces[i];
        if (!sp->estimated)
            continue;
        s->has_prior = true;
        sp->prior = xarray((size_t)sp->count + 1, sizeof *sp->prior);
        sp->prior_deviation = xarray((size_t)sp->count + 1, sizeof *sp->prior_deviation);
        fill_in(sp);
    }
}

void prior_learn(struct search *s)
{
    double xx = STIFFNESS, xy = STIFFNESS, sum = 0;
    int n = 0;
    for (int i = 0; i < s->space_count; i++) {
        const struct space *sp = &s->spaces[i];
        double mean_x = 0, mean_y = 0;
        for (int p = 0; sp->prior && p < sp->count; p++)
            if (sp->fate[p] == WORKED) {
                mean_x += sp->prior[p] / sp->worked;
                mean_y += sp->cost[p] / sp->worked;
            }
        for (int p = 0; sp->prior && p < sp->count; p++)
            if (sp->fate[p] == WORKED) {
                xx += (sp->prior[p] - mean_x) * (sp->prior[p] - mean_x);
                xy += (sp->prior[p] - mean_x) * (sp->cost[p] - mean_y);
            }
    }
    s->slope = fmin(fmax(xy / xx, 0.2), 1.5);
    for (int i = 0; i < s->space_count; i++)
        for (int p = 0; s->spaces[i].prior && p < s->spaces[i].count; p++)
            if (s->spaces[i].fate[p] == WORKED) {
                sum += s->spaces[i].cost[p] - s->slope * s->spaces[i].prior[p];
                n++;
            }
    s->offset = n ? sum / n : 0;
}

bool search_predict(const struct search *s, const struct space *sp, int i, double *ret_mean, double *ret_deviation)
{
    double x[MODEL_MAX_DIMS], mean = s->offset, deviation = UNMODELLED;
    if (!sp->model && !sp->prior)
        return false;
    if (sp->model) {
        coordinates(sp->t, &sp->list[i], x);
        model_predict(sp->model, x, &mean, &deviation);
    }
    *ret_mean = sp->prior ? mean + s->slope * sp->prior[i] : mean;
    *ret_deviation = sp->prior ? hypot(hypot(deviation, ESTIMATE_ROUGH), s->slope * sp->prior_deviation[i]) : deviation;
    return true;
}

/*
 * The template search. Settings of an operator's templates are proposed in this order:
 *
 *   neighbour what is best at the nearest shapes, where that is known
 *   default   each template's defaults, once
 *   step      one parameter of the best changed by one value, until each has been moved once; first where the file says it
 *             helps against what bounds the best
 *   explore   the setting least like all tried, now and then, so that the model learns the whole space
 *   model     the setting with the largest expected improvement by a Gaussian process over the results (model.h), near the best
 *             as long as that promises something, else anywhere
 *
 * Where there are estimates of the emulator (prior.c), they stand in for defaults, steps and exploring: the first is the one that
 * is estimated best, then the largest expected improvement by a process over what they leave unexplained; now and then a step that promises most.
 *
 * A value with which everything failed is avoided, and so is what costs more registers than a setting that spilled or fitted no multiprocessor. It ends when
 * nothing untried promises more than the noise. Nothing is kept between calls: all is read from the history, so that a restart
 * proposes the same.
 */
#include "server/generate/search.h"

#include <math.h>
#include <string.h>

#define LEFT_OPEN 0.06                   /* log: how far the estimate is off from setting to setting, as long as few results say so */
#define LEFT_ROUGH 0.25                  /* what estimates leave varies more slowly over the settings than times do */
#define CLIP 0.5                         /* log: how much slower than the best still tells something */

static void search_done(struct search *s)
{
    for (int i = 0; i < s->space_count; i++) {
        free(s->spaces[i].list);
        free(s->spaces[i].fate);
        free(s->spaces[i].cost);
        free(s->spaces[i].past);
        model_free(s->spaces[i].model);
        free(s->spaces[i].estimate);
        free(s->spaces[i].prior);
        free(s->spaces[i].prior_deviation);
    }
}
DEFINE_CLEANUP(search, struct search, search_done(it))

/* ---- what the history says ---- */

int setting_index(const struct space *sp, const struct setting *p)
{
    for (int i = 0; i < sp->count; i++)
        if (!memcmp(&sp->list[i], p, sizeof *p))
            return i;
    return -1;
}

/* The one that is nearest, itself if it fits; -1: none fits. */
int setting_nearest(const struct space *sp, const struct setting *p)
{
    int found = -1, least = 0;
    for (int i = 0; i < sp->count; i++) {
        int far = distance(&sp->list[i], p, sp->t->param_count);
        if (found < 0 || far < least) {
            found = i;
            least = far;
        }
    }
    return found;
}

int64_t spilled_bytes(const struct gen_past *past)
{
    int64_t sum = 0;
    size_t i;
    json_t *kernel;
    json_array_foreach(json_object_get(past->figures, "resources"), i, kernel)
        sum += json_int(kernel, "spill_bytes", 0);
    return sum;
}

/* The latest result of a setting counts: a retest replaces what it retests. */
static void take_past(struct search *s, const struct gen_past *past)
{
    const char *name = json_str(past->origin, "template", "");
    for (int i = 0; i < s->space_count; i++) {
        struct space *sp = &s->spaces[i];
        struct setting p;
        if (strcmp(sp->t->name, name) || !template_find(sp->t, json_object_get(past->origin, "params"), &p))
            continue;
        int at = setting_index(sp, &p);
        /* against the baseline beside it where there is one: on a card both drift together */
        double ns = past->speedup > 0 && s->in->baseline_ns > 0 ? s->in->baseline_ns / past->speedup : past->time_ns;
        if (at < 0)
            return;
        sp->past[at] = past;
        sp->fate[at] = verdict_is_correct(past->verdict) && ns > 0 ? WORKED : FAILED;
        sp->cost[at] = sp->fate[at] == WORKED ? log(ns) : 0;
        return;
    }
}

static void count_results(struct search *s)
{
    for (int i = 0; i < s->space_count; i++) {
        struct space *sp = &s->spaces[i];
        for (int p = 0; p < sp->count; p++) {
            sp->worked += sp->fate[p] == WORKED;
            sp->failed += sp->fate[p] == FAILED;
            if (sp->fate[p] != WORKED || (s->best >= 0 && sp->cost[p] >= s->spaces[s->best_space].cost[s->best]))
                continue;
            s->best_space = i;
            s->best = p;
        }
    }
}

/* A value of a parameter with which two or more settings failed and none worked. */
static void avoid_failing_values(struct space *sp)
{
    for (int d = 0; sp->worked && d < sp->t->param_count; d++)
        for (int v = 0; v < sp->t->params[d].count; v++) {
            int worked = 0, failed = 0;
            for (int i = 0; i < sp->count; i++)
                if (sp->list[i].at[d] == v) {
                    worked += sp->fate[i] == WORKED;
                    failed += sp->fate[i] == FAILED;
                }
            if (failed < 2 || worked)
                continue;
            for (int i = 0; i < sp->count; i++)
                if (sp->list[i].at[d] == v && sp->fate[i] == UNTRIED)
                    sp->fate[i] = AVOIDED;
        }
}

/* Whether p costs at least the registers of q in every parameter that the file marks, and is like it in all others. */
static bool costs_registers(const struct template *t, const struct setting *p, const struct setting *q)
{
    for (int d = 0; d < t->param_count; d++) {
        int more = (p->at[d] - q->at[d]) * t->params[d].registers;
        if (t->params[d].registers ? more < 0 : p->at[d] != q->at[d])
            return false;
    }
    return true;
}

void avoid_costlier(struct space *sp, int q)
{
    for (int p = 0; p < sp->count; p++)
        if (p != q && sp->fate[p] == UNTRIED && costs_registers(sp->t, &sp->list[p], &sp->list[q]))
            sp->fate[p] = AVOIDED;
}

static void avoid_spills(struct space *sp)
{
    for (int q = 0; q < sp->count; q++)
        if (sp->past[q] && (spilled_bytes(sp->past[q]) || sp->past[q]->verdict == VERDICT_RESOURCE_LIMIT))
            avoid_costlier(sp, q);
}

void coordinates(const struct template *t, const struct setting *p, double *ret)
{
    for (int d = 0; d < t->param_count; d++)
        ret[d] = t->params[d].count > 1 ? (double)p->at[d] / (t->params[d].count - 1) * 2 : 0;
}

void fit(const struct search *s, struct space *sp)
{
    double x[MODEL_MAX_SEEN * MODEL_MAX_DIMS], y[MODEL_MAX_SEEN], most = INFINITY;
    int n = 0, dims = sp->t->param_count;
    if (sp->worked < (sp->prior ? 1 : 2) || !dims)
        return;
    for (int i = 0; i < sp->count; i++)
        if (sp->fate[i] == WORKED)
            most = fmin(most, sp->cost[i] + CLIP);
    for (int i = 0; i < sp->count && n < MODEL_MAX_SEEN; i++)
        if (sp->fate[i] == WORKED || sp->fate[i] == FAILED) {
            coordinates(sp->t, &sp->list[i], x + n * dims);
            y[n] = sp->fate[i] == WORKED ? fmin(sp->cost[i], most) : most;
            if (sp->prior)               /* not clipped: a slow setting that was expected to be slow is no surprise */
                y[n] = (sp->fate[i] == WORKED ? sp->cost[i] : most) - s->slope * sp->prior[i];
            n++;
        }
    sp->model = model_fit(x, y, n, dims, sp->prior ? fmax(s->noise, ESTIMATE_ROUGH) : s->noise, sp->prior ? LEFT_OPEN : 0, sp->prior ? LEFT_ROUGH : 1);
}

void prior_forget(struct search *s)
{
    for (int i = 0; s->has_prior && i < s->space_count; i++) {
        struct space *sp = &s->spaces[i];
        free(sp->prior);
        free(sp->prior_deviation);
        sp->prior = sp->prior_deviation = NULL;
        model_free(sp->model);
        sp->model = NULL;
        fit(s, sp);
    }
    s->has_prior = false;
}

static bool search_make(struct search *s, const struct gen_input *in, const struct template_set *set, struct err *err)
{
    s->in = in;
    s->best = s->best_space = -1;
    s->noise = in->measured ? 0.01 : 0.002;
    for (int i = 0; i < set->count; i++) {
        struct space *sp = &s->spaces[s->space_count];
        sp->t = &set->list[i];
        if (!template_settings(sp->t, in->shape, &sp->list, &sp->count, err))
            return false;
        size_t n = (size_t)sp->count + 1;
        sp->fate = xarray(n, sizeof *sp->fate);
        sp->cost = xarray(n, sizeof *sp->cost);
        sp->past = xarray(n, sizeof *sp->past);
        sp->first = template_default(sp->t, in->shape, sp->list, sp->count);
        s->space_count++;
    }
    for (int i = 0; i < in->past_count; i++)
        take_past(s, &in->past[i]);
    prior_take(s);
    lessons_take(s);
    count_results(s);
    prior_learn(s);
    for (int i = 0; i < s->space_count; i++) {
        avoid_failing_values(&s->spaces[i]);
        avoid_spills(&s->spaces[i]);
        fit(s, &s->spaces[i]);
    }
    return true;
}

static bool nothing_fits(const struct search *s, char *reason, size_t size)
{
    for (int i = 0; i < s->space_count; i++)
        if (s->spaces[i].count)
            return false;
    if (!s->space_count)
        snprintf(reason, size, "Operator %s has no templates.", s->in->op->name);
    else {
        const char *obstacle = template_obstacle(s->spaces[0].t, s->in->shape);
        snprintf(reason, size, "No template fits this shape; template %s wants %s.", s->spaces[0].t->name, *obstacle ? obstacle : "all its constraints at once");
    }
    return true;
}

bool template_propose(const struct gen_input *in, struct gen_proposal *ret, struct err *err)
{
    cleanup(template_set) struct template_set set = {0};
    cleanup(search) struct search s = {0};
    struct gen_proposal p = {0};
    struct choice c = {0};
    if (!template_set_load(in->op, &set, err) || !search_make(&s, in, &set, err))
        return false;
    if (in->candidates_left <= 0)
        snprintf(p.reason, sizeof p.reason, "The budget is spent.");
    p.done = in->candidates_left <= 0 || nothing_fits(&s, p.reason, sizeof p.reason) || !choose_next(&s, &c, p.reason, sizeof p.reason);
    if (!p.done) {
        const struct space *sp = &s.spaces[c.space];
        const struct gen_past *parent = best_past(&s);
        p.candidate = template_candidate(sp->t, &sp->list[c.index]);
        json_put_str(p.candidate, "notes", c.why);
        if (!strcmp(c.move, "lesson") || !strcmp(c.move, "model"))
            lessons_name(&s, sp, p.candidate);
        p.origin = json_object();
        json_put_str(p.origin, "template", sp->t->name);
        json_put(p.origin, "params", template_params(sp->t, &sp->list[c.index]));
        json_put_str(p.origin, "move", c.move);
        json_put_str(p.origin, "why", c.why);
        if (parent && parent->id) {
            json_put_str(p.candidate, "parent", parent->id);
            json_put_str(p.origin, "parent", parent->id);
        } else
            json_put(p.origin, "parent", json_null());
    }
    *ret = p;
    return true;
}

bool template_wants(const struct gen_input *in, int most, json_t **ret, struct err *err)
{
    cleanup(template_set) struct template_set set = {0};
    cleanup(search) struct search s = {0};
    if (!template_set_load(in->op, &set, err) || !search_make(&s, in, &set, err))
        return false;
    *ret = json_array();
    wants_list(&s, most, *ret);
    return true;
}

bool template_every(const struct gen_input *in, json_t **ret, struct err *err)
{
    cleanup(template_set) struct template_set set = {0};
    cleanup(search) struct search s = {0};
    if (!template_set_load(in->op, &set, err) || !search_make(&s, in, &set, err))
        return false;
    *ret = json_array();
    for (int i = 0; i < s.space_count; i++)
        for (int p = 0; p < s.spaces[i].count; p++) {
            json_t *item = json_object();
            json_put_str(item, "template", s.spaces[i].t->name);
            json_put(item, "params", template_params(s.spaces[i].t, &s.spaces[i].list[p]));
            json_array_append_new(*ret, item);
        }
    return true;
}

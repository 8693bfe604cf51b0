/*
 * The template search. Settings of an operator's templates are proposed in this order:
 *
 *   default   each template's defaults, once
 *   step      one parameter of the best changed by one value, until each has been moved once; first where the file says it
 *             helps against what bounds the best
 *   explore   the setting least like all tried, now and then, so that the model learns the whole space
 *   model     the setting with the largest expected improvement by a Gaussian process over the results (model.h), near the best
 *             as long as that promises something, else anywhere
 *
 * A value with which everything failed is avoided, and so is what costs more registers than a setting that spilled. It ends when
 * nothing untried promises more than the noise. Nothing is kept between calls: all is read from the history, so that a restart
 * proposes the same.
 */
#include "server/generate/generate.h"

#include "core/rng.h"
#include "server/generate/model.h"
#include "server/generate/template_file.h"

#include <math.h>
#include <string.h>

#define MOST_FAILURES 12                 /* in a row from the start: then nothing works here */
#define EXPLORE_EVERY 6                  /* one of so many, while fewer than EXPLORE_UNTIL are tried */
#define EXPLORE_UNTIL 20
#define LEAST_GAIN 5e-4                  /* expected; less is not worth a try */
#define NEAR_STEPS 2                     /* values away from the best: where the model is asked first */
#define NEAR_GAIN 2e-3                   /* and what it must promise there */
#define CLIP 0.5                         /* log: how much slower than the best still tells something */

enum fate { UNTRIED, WORKED, FAILED, AVOIDED };
struct space {
    const struct template *t;
    struct setting *list;
    int count, first;                    /* settings; index of the default */
    int worked, failed;
    enum fate *fate;
    double *cost;                        /* log of ns, where WORKED */
    const struct gen_past **past;        /* where tried */
    struct model *model;                 /* NULL: too little is known */
};
struct search {
    const struct gen_input *in;
    int space_count;
    struct space spaces[TEMPLATE_MAX];
    int best_space, best;                /* -1: nothing works yet */
    double noise;
};
struct choice { int space, index; const char *move; char why[512]; };

static void search_done(struct search *s)
{
    for (int i = 0; i < s->space_count; i++) {
        free(s->spaces[i].list);
        free(s->spaces[i].fate);
        free(s->spaces[i].cost);
        free(s->spaces[i].past);
        model_free(s->spaces[i].model);
    }
}
DEFINE_CLEANUP(search, struct search, search_done(it))

/* ---- what the history says ---- */

static int setting_index(const struct space *sp, const struct setting *p)
{
    for (int i = 0; i < sp->count; i++)
        if (!memcmp(&sp->list[i], p, sizeof *p))
            return i;
    return -1;
}

static int64_t spilled_bytes(const struct gen_past *past)
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

static void avoid_spills(struct space *sp)
{
    for (int q = 0; q < sp->count; q++) {
        if (!sp->past[q] || !spilled_bytes(sp->past[q]))
            continue;
        for (int p = 0; p < sp->count; p++)
            if (sp->fate[p] == UNTRIED && costs_registers(sp->t, &sp->list[p], &sp->list[q]))
                sp->fate[p] = AVOIDED;
    }
}

static void coordinates(const struct template *t, const struct setting *p, double *ret)
{
    for (int d = 0; d < t->param_count; d++)
        ret[d] = t->params[d].count > 1 ? (double)p->at[d] / (t->params[d].count - 1) * 2 : 0;
}

static void fit(struct search *s, struct space *sp)
{
    double x[MODEL_MAX_SEEN * MODEL_MAX_DIMS], y[MODEL_MAX_SEEN], most = INFINITY;
    int n = 0, dims = sp->t->param_count;
    if (sp->worked < 2 || !dims)
        return;
    for (int i = 0; i < sp->count; i++)
        if (sp->fate[i] == WORKED)
            most = fmin(most, sp->cost[i] + CLIP);
    for (int i = 0; i < sp->count && n < MODEL_MAX_SEEN; i++)
        if (sp->fate[i] == WORKED || sp->fate[i] == FAILED) {
            coordinates(sp->t, &sp->list[i], x + n * dims);
            y[n++] = sp->fate[i] == WORKED ? fmin(sp->cost[i], most) : most;
        }
    sp->model = model_fit(x, y, n, dims, s->noise);
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
    count_results(s);
    for (int i = 0; i < s->space_count; i++) {
        avoid_failing_values(&s->spaces[i]);
        avoid_spills(&s->spaces[i]);
        fit(s, &s->spaces[i]);
    }
    return true;
}

/* ---- choosing ---- */

static void add_change(struct buf *to, const struct template *t, const struct setting *from, const struct setting *p)
{
    const char *between = "";
    for (int d = 0; d < t->param_count; d++) {
        if (from && from->at[d] == p->at[d])
            continue;
        if (from)
            buf_fmt(to, "%s%s %lld\xe2\x86\x92%lld", between, t->params[d].name, (long long)t->params[d].values[from->at[d]], (long long)t->params[d].values[p->at[d]]);
        else
            buf_fmt(to, "%s%s=%lld", between, t->params[d].name, (long long)t->params[d].values[p->at[d]]);
        between = ", ";
    }
}

static const struct gen_past *best_past(const struct search *s)
{
    return s->best < 0 ? NULL : s->spaces[s->best_space].past[s->best];
}

/* "the best so far (3.21 us, bound by latency, 48 registers)" */
static void add_best(struct buf *to, const struct search *s)
{
    const struct gen_past *past = best_past(s);
    const json_t *kernel = json_array_get(json_object_get(past->figures, "resources"), 0);
    const char *bound = json_str(past->figures, "bound", NULL);
    buf_fmt(to, "the best so far (%.3g us", exp(s->spaces[s->best_space].cost[s->best]) / 1e3);
    if (bound)
        buf_fmt(to, ", bound by %.16s", bound);
    if (json_int(kernel, "registers", 0) > 0)
        buf_fmt(to, ", %lld registers", (long long)json_int(kernel, "registers", 0));
    buf_str(to, spilled_bytes(past) ? ", and it spills)" : ")");
}

static void choose(struct choice *c, int space, int index, const char *move, struct buf *why)
{
    c->space = space;
    c->index = index;
    c->move = move;
    snprintf(c->why, sizeof c->why, "%s", buf_cstr(why));
}

static bool choose_default(struct search *s, struct choice *c)
{
    for (int i = 0; i < s->space_count; i++) {
        const struct space *sp = &s->spaces[i];
        if (sp->first < 0 || sp->fate[sp->first] != UNTRIED)
            continue;
        cleanup(buf) struct buf why = {0};
        buf_fmt(&why, "Template %s with its defaults for this shape: ", sp->t->name);
        add_change(&why, sp->t, NULL, &sp->list[sp->first]);
        buf_str(&why, ".");
        choose(c, i, sp->first, "default", &why);
        return true;
    }
    return false;
}

static int distance(const struct setting *a, const struct setting *b, int dims)
{
    int sum = 0;
    for (int d = 0; d < dims; d++)
        sum += abs(a->at[d] - b->at[d]);
    return sum;
}

/* Whether some result that is one value of parameter d away from the best, and else the same, is known. */
static bool moved(const struct space *sp, int best, int d)
{
    for (int i = 0; i < sp->count; i++)
        if ((sp->fate[i] == WORKED || sp->fate[i] == FAILED) && sp->list[i].at[d] != sp->list[best].at[d] &&
            distance(&sp->list[i], &sp->list[best], sp->t->param_count) == abs(sp->list[i].at[d] - sp->list[best].at[d]))
            return true;
    return false;
}

static int step_index(const struct space *sp, int best, int d, int way)
{
    struct setting p = sp->list[best];
    int v = p.at[d] + way;
    if (v < 0 || v >= sp->t->params[d].count)
        return -1;
    p.at[d] = (uint8_t)v;
    int at = setting_index(sp, &p);
    return at >= 0 && sp->fate[at] == UNTRIED ? at : -1;
}

/* How promising a step is, larger is better: by the file's hint until the model knows more. -INFINITY: surely worse. */
static double step_rank(const struct search *s, const struct space *sp, int at, int hint, int way)
{
    double x[MODEL_MAX_DIMS], mean, deviation, hinted = hint == way ? 2 : hint ? 0 : 1;
    if (!sp->model || sp->worked <= sp->t->param_count)
        return hinted;
    coordinates(sp->t, &sp->list[at], x);
    model_predict(sp->model, x, &mean, &deviation);
    return mean - 2 * deviation > sp->cost[s->best] ? -INFINITY : hinted / 100 - mean;
}

/* One parameter that has not been moved from the best yet. */
static bool choose_step(struct search *s, struct choice *c)
{
    const struct space *sp = &s->spaces[s->best_space];
    const char *bound = json_str(best_past(s)->figures, "bound", NULL);
    bool spills = spilled_bytes(best_past(s)) > 0;
    int found = -1, found_d = 0, found_way = 0;
    double found_rank = -INFINITY;
    if (sp->worked + sp->failed > 2 * sp->t->param_count + 2)
        return false;
    for (int d = 0; d < sp->t->param_count; d++) {
        int hint = spills && sp->t->params[d].registers ? -sp->t->params[d].registers : template_helps(sp->t, d, bound);
        if (moved(sp, s->best, d))
            continue;
        for (int way = 1; way >= -1; way -= 2) {
            int at = step_index(sp, s->best, d, way);
            double rank = at < 0 ? -INFINITY : step_rank(s, sp, at, hint, way);
            if (rank > found_rank) {
                found = at;
                found_d = d;
                found_way = way;
                found_rank = rank;
            }
        }
    }
    if (found < 0)
        return false;
    cleanup(buf) struct buf why = {0};
    add_change(&why, sp->t, &sp->list[s->best], &sp->list[found]);
    buf_str(&why, " from ");
    add_best(&why, s);
    const char *effect = found_way > 0 ? sp->t->params[found_d].more : sp->t->params[found_d].less;
    buf_fmt(&why, *effect ? ": %s." : "%s.", effect);
    choose(c, s->best_space, found, "step", &why);
    return true;
}

/* The untried setting whose nearest tried one is farthest; the seed breaks ties. */
static bool choose_explore(struct search *s, struct choice *c)
{
    int found = -1, found_space = -1;
    double most = -1;
    for (int i = 0; i < s->space_count; i++) {
        const struct space *sp = &s->spaces[i];
        for (int p = 0; p < sp->count; p++) {
            double nearest = INFINITY;
            if (sp->fate[p] != UNTRIED)
                continue;
            for (int q = 0; q < sp->count; q++)
                if (sp->past[q])
                    nearest = fmin(nearest, distance(&sp->list[p], &sp->list[q], sp->t->param_count));
            nearest = fmin(nearest, 1e6) + rng_unit(s->in->seed, (uint64_t)i, (uint64_t)p) / 2;
            if (nearest > most) {
                most = nearest;
                found = p;
                found_space = i;
            }
        }
    }
    if (found < 0)
        return false;
    const struct space *sp = &s->spaces[found_space];
    cleanup(buf) struct buf why = {0};
    buf_str(&why, "Unlike anything tried so far, to learn about that part of the space: ");
    add_change(&why, sp->t, NULL, &sp->list[found]);
    if (sp->model) {
        double x[MODEL_MAX_DIMS], mean, deviation;
        coordinates(sp->t, &sp->list[found], x);
        model_predict(sp->model, x, &mean, &deviation);
        buf_fmt(&why, "; %.3g us give or take %.0f %% is expected", exp(mean) / 1e3, 100 * deviation);
    }
    buf_str(&why, ".");
    choose(c, found_space, found, "explore", &why);
    return true;
}

/* The largest expected improvement, near the best or anywhere; *ret_gain its part of the best time. */
static bool choose_model(struct search *s, struct choice *c, bool near, double *ret_gain)
{
    int found = -1, found_space = -1;
    double most = -1, best = s->spaces[s->best_space].cost[s->best], x[MODEL_MAX_DIMS];
    for (int i = 0; i < s->space_count; i++) {
        const struct space *sp = &s->spaces[i];
        for (int p = 0; sp->model && p < sp->count; p++) {
            if (sp->fate[p] != UNTRIED)
                continue;
            if (near && (i != s->best_space || distance(&sp->list[p], &sp->list[s->best], sp->t->param_count) > NEAR_STEPS))
                continue;
            coordinates(sp->t, &sp->list[p], x);
            double gain = model_improvement(sp->model, x, best);
            if (gain > most) {
                most = gain;
                found = p;
                found_space = i;
            }
        }
    }
    if (found < 0)
        return false;
    const struct space *sp = &s->spaces[found_space];
    double mean, deviation;
    coordinates(sp->t, &sp->list[found], x);
    model_predict(sp->model, x, &mean, &deviation);
    cleanup(buf) struct buf why = {0};
    add_change(&why, sp->t, found_space == s->best_space ? &sp->list[s->best] : NULL, &sp->list[found]);
    buf_str(&why, found_space == s->best_space ? " from " : "; against ");
    add_best(&why, s);
    buf_fmt(&why, ": %d results make %.3g us give or take %.0f %% likely here, the largest gain to hope for.", sp->worked + sp->failed, exp(mean) / 1e3, 100 * deviation);
    choose(c, found_space, found, "model", &why);
    *ret_gain = most;
    return true;
}

static int tried(const struct search *s)
{
    int n = 0;
    for (int i = 0; i < s->space_count; i++)
        n += s->spaces[i].worked + s->spaces[i].failed;
    return n;
}

/* False: nothing more is worth a try, for `reason`. */
static bool choose_next(struct search *s, struct choice *c, char *reason, size_t size)
{
    int done = tried(s);
    double gain = 0;
    if (choose_default(s, c))
        return true;
    if (s->best < 0) {
        if (done < MOST_FAILURES && choose_explore(s, c))
            return true;
        snprintf(reason, size, "None of %d settings works; the last verdict was %s.", done, s->in->past_count ? verdict_name(s->in->past[s->in->past_count - 1].verdict) : "none");
        return false;
    }
    /* with the last tries of a budget nothing more is learnt that could still be used */
    if (done < EXPLORE_UNTIL && done % EXPLORE_EVERY == EXPLORE_EVERY - 1 && s->in->candidates_left > 2 && choose_explore(s, c))
        return true;
    if (choose_step(s, c))
        return true;
    if ((choose_model(s, c, true, &gain) && gain >= NEAR_GAIN) || (choose_model(s, c, false, &gain) && gain >= LEAST_GAIN))
        return true;
    if (done < EXPLORE_UNTIL && choose_explore(s, c))
        return true;
    snprintf(reason, size, "After %d settings none that is left promises more than %.2g %%.", done, 100 * fmax(gain, LEAST_GAIN));
    return false;
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

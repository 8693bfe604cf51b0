/* The moves of the search: see template.c for their order. */
#include "server/generate/search.h"

#include <math.h>
#include <string.h>

#define MOST_FAILURES 12                 /* in a row from the start: then nothing works here */
#define EXPLORE_EVERY 6                  /* one of so many, while fewer than EXPLORE_UNTIL are tried */
#define EXPLORE_UNTIL 20
#define LEAST_GAIN 5e-4                  /* expected; less is not worth a try */
#define STEP_EVERY 6                     /* with estimates: one of so many looks around the best */
#define LEAST_TRIES 12                   /* that an estimate's word alone cannot end */
#define MOST_NEIGHBOURS 3                /* whose best is tried first */
#define NEAR_STEPS 2                     /* values away from the best: where the model is asked first */
#define NEAR_GAIN 2e-3                   /* and what it must promise there */

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

const struct gen_past *best_past(const struct search *s)
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
        if (sp->first < 0 || sp->fate[sp->first] != UNTRIED || sp->prior)   /* estimates say more than a default */
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

int distance(const struct setting *a, const struct setting *b, int dims)
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

/*
 * How promising a step is, larger is better: what it may gain where there are estimates, else by the file's hint until the model knows
 * more. -INFINITY: surely worse.
 */
static double step_rank(const struct search *s, const struct space *sp, int at, int hint, int way)
{
    double mean, deviation, hinted = hint == way ? 2 : hint ? 0 : 1;
    if (sp->prior && search_predict(s, sp, at, &mean, &deviation))
        return model_improvement(mean, deviation, sp->cost[s->best]);
    if (!sp->model || sp->worked <= sp->t->param_count)
        return hinted;
    if (!search_predict(s, sp, at, &mean, &deviation))
        return hinted;
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
    double mean, deviation;
    if (search_predict(s, sp, found, &mean, &deviation))
        buf_fmt(&why, "; %.3g us give or take %.0f %% is expected", exp(mean) / 1e3, 100 * deviation);
    buf_str(&why, ".");
    choose(c, found_space, found, "explore", &why);
    return true;
}

/* The largest expected improvement, near the best or anywhere; *ret_gain its part of the best time. */
static bool choose_model(struct search *s, struct choice *c, bool near, double *ret_gain)
{
    int found = -1, found_space = -1;
    double most = -1, best = s->spaces[s->best_space].cost[s->best], mean, deviation;
    for (int i = 0; i < s->space_count; i++) {
        const struct space *sp = &s->spaces[i];
        for (int p = 0; (sp->model || sp->prior) && p < sp->count; p++) {
            if (sp->fate[p] != UNTRIED)
                continue;
            if (near && (i != s->best_space || distance(&sp->list[p], &sp->list[s->best], sp->t->param_count) > NEAR_STEPS))
                continue;
            if (!search_predict(s, sp, p, &mean, &deviation))
                continue;
            double gain = model_improvement(mean, deviation, best);
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
    (void)search_predict(s, sp, found, &mean, &deviation);
    cleanup(buf) struct buf why = {0};
    add_change(&why, sp->t, found_space == s->best_space ? &sp->list[s->best] : NULL, &sp->list[found]);
    buf_str(&why, found_space == s->best_space ? " from " : "; against ");
    add_best(&why, s);
    buf_fmt(&why, ": %d results %smake %.3g us give or take %.0f %% likely here, the largest gain to hope for.", sp->worked + sp->failed,
            !sp->prior ? "" : !s->has_lessons ? "and the emulator's estimates " : sp->estimated ? "with lessons and the emulator's estimates " : "and lessons of other shapes ", exp(mean) / 1e3, 100 * deviation);
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

/* What is best at the nearest shapes is likely to be good here: their settings, or what fits here and is nearest to them. */
static bool choose_neighbour(struct search *s, struct choice *c)
{
    size_t k;
    json_t *item;
    json_array_foreach(s->in->neighbours, k, item) {
        for (int i = 0; k < MOST_NEIGHBOURS && i < s->space_count; i++) {
            const struct space *sp = &s->spaces[i];
            struct setting p;
            if (strcmp(sp->t->name, json_str(item, "template", "")) || !template_find(sp->t, json_object_get(item, "params"), &p))
                continue;
            int at = setting_nearest(sp, &p);
            if (at < 0 || sp->fate[at] != UNTRIED)
                continue;
            cleanup(buf) struct buf why = {0};
            buf_fmt(&why, "What is best at a shape near this one (%.160s), with template %s: ", json_str(item, "shape", "of the same operator"), sp->t->name);
            add_change(&why, sp->t, NULL, &sp->list[at]);
            buf_str(&why, ".");
            choose(c, i, at, "neighbour", &why);
            return true;
        }
    }
    return false;
}

/* With estimates and without any result: what they like best. */
static bool choose_estimate(struct search *s, struct choice *c)
{
    int found = -1, found_space = -1;
    double least = INFINITY;
    for (int i = 0; i < s->space_count; i++)
        for (int p = 0; s->spaces[i].prior && p < s->spaces[i].count; p++)
            if (s->spaces[i].fate[p] == UNTRIED && s->spaces[i].prior[p] + s->spaces[i].prior_deviation[p] < least) {
                least = s->spaces[i].prior[p] + s->spaces[i].prior_deviation[p];
                found_space = i;
                found = p;
            }
    if (found < 0)
        return false;
    const struct space *sp = &s->spaces[found_space];
    cleanup(buf) struct buf why = {0};
    if (s->has_lessons)
        buf_fmt(&why, "What lessons of other shapes%s like best, template %s with ", sp->estimated ? " and the emulator's estimate" : "", sp->t->name);
    else
        buf_fmt(&why, "The emulator's estimate (%.3g us, not a measurement) is the least for template %s with ", exp(sp->prior[found]) / 1e3, sp->t->name);
    add_change(&why, sp->t, NULL, &sp->list[found]);
    buf_str(&why, ".");
    choose(c, found_space, found, s->has_lessons ? "lesson" : "estimate", &why);
    return true;
}

static bool choose_with_prior(struct search *s, struct choice *c, int done, double *ret_gain)
{
    if (s->best < 0)
        return done < MOST_FAILURES && choose_estimate(s, c);
    /* an estimate that is wrong about the best one's surroundings must not hide them: they are looked at too */
    if (done >= STEP_EVERY && done % STEP_EVERY == 0 && choose_step(s, c))
        return true;
    return choose_model(s, c, false, ret_gain) && (*ret_gain >= LEAST_GAIN || done < LEAST_TRIES);
}

/* False: nothing more is worth a try, for `reason`. */
bool choose_next(struct search *s, struct choice *c, char *reason, size_t size)
{
    int done = tried(s);
    double gain = 0;
    if (choose_neighbour(s, c) || choose_default(s, c) || (s->has_prior && choose_with_prior(s, c, done, &gain)))
        return true;
    prior_forget(s);                     /* what estimates can tell has been tried: the results alone may see further */
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


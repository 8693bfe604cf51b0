/*
 * What a generator is told of a shape before anything of it was judged: the best settings of its nearest neighbours, and the emulator's
 * estimates of settings that the generator asked for. Made once, when the shape's first candidate is due, and kept beside the job in a
 * record of its own until the shape is closed, so that a restart proposes the same:
 *
 *   STORE_META "prior/JOB/INDEX"   {"neighbours":[{"template","params","shape"}],"estimates":[{"template","params","ns"|null,"why"?}],
 *                                   "lessons"?:[{"id"?,"effects"}]: of the templates' parameters, by other shapes (know/effects.h)}
 *
 * Estimates are made by several judges at once, beside the card. They are worth nothing but a place to look: without them, because the
 * judge cannot make any, the search goes on.
 */
#include "server/jobs/internal.h"

#include <math.h>

#define PROCESSES_MAX 16
#define ESTIMATES_WALL_NS ((int64_t)120 * 1000000000)   /* of a shape: then those that are there must do */
#define ESTIMATES_WALL_PART 0.25         /* nor more of what is left of the job's wall time */
#define ESTIMATES_A_CANDIDATE 8          /* of the job's budget; more would find what nobody tries */

static void prior_key(const char *job, int index, char *to, size_t size)
{
    snprintf(to, size, "prior/%s/%d", job, index);
}

bool prior_load(struct run *r, int index, json_t **ret, struct err *err)
{
    char key[80];
    struct err why = {0};
    prior_key(r->e->id, index, key, sizeof key);
    *ret = NULL;
    return store_get(r->j->store, STORE_META, key, ret, &why) || why.code == ERR_NOT_FOUND || err_set(err, why.code, "%s", why.text);
}

void prior_drop(struct store_batch *b, const char *job, int index)
{
    char key[80];
    prior_key(job, index, key, sizeof key);
    store_delete(b, STORE_META, key);
}

/* ---- estimates ---- */

struct part {
    struct run *r;
    int64_t until_ns;
    pthread_t thread;
    bool started, ok;
    json_t *candidates, *answers;
    struct err err;
};

static bool on_cancelled(void *ctx)
{
    const struct part *p = ctx;
    return p->r->j->stopping || p->r->e->cancelled || clock_mono_ns() > p->until_ns;
}

static void *estimate_part(void *ctx)
{
    struct part *p = ctx;
    p->ok = estimates_ask(p->r->j, &p->r->shape, p->candidates, false, on_cancelled, p, &p->answers, &p->err);
    return NULL;
}

static void add_answers(json_t *to, const json_t *items, int first, int step, const json_t *answers)
{
    static const char *const keys[] = {"template", "params"}, *const told[] = {"ns", "why", "resources"};
    for (size_t n = 0, i = (size_t)first; i < json_array_size(items); i += (size_t)step, n++) {
        json_t *one = json_object();
        for (size_t k = 0; k < 2; k++)
            json_put(one, keys[k], json_incref(json_object_get(json_array_get(items, i), keys[k])));
        for (size_t k = 0; k < 2; k++)
            if (json_object_get(json_array_get(answers, n), told[k]))
                json_put(one, told[k], json_incref(json_object_get(json_array_get(answers, n), told[k])));
        json_array_append_new(to, one);
    }
}

/* One batch, divided among several judges. False: some of it could not be estimated. */
static bool estimate_batch(struct run *r, int64_t until_ns, const json_t *items, json_t *to, struct err *err)
{
    struct part parts[PROCESSES_MAX] = {{.ok = false}};
    int count = r->j->config.estimate_processes, wanted = (int)json_array_size(items);
    count = count < 1 ? 1 : count > PROCESSES_MAX ? PROCESSES_MAX : count;
    count = count > wanted ? wanted : count;
    for (int i = 0; i < count; i++) {
        parts[i] = (struct part){.r = r, .until_ns = until_ns, .candidates = json_array()};
        for (int k = i; k < wanted; k += count)
            json_array_append(parts[i].candidates, json_object_get(json_array_get(items, (size_t)k), "candidate"));
        parts[i].started = pthread_create(&parts[i].thread, NULL, estimate_part, &parts[i]) == 0;
        if (!parts[i].started)
            estimate_part(&parts[i]);
    }
    bool ok = true;
    for (int i = 0; i < count; i++) {    /* in the order of the parts: the record is the same however they end */
        if (parts[i].started)
            pthread_join(parts[i].thread, NULL);
        if (parts[i].ok)
            add_answers(to, items, i, count, parts[i].answers);
        else if (ok)
            ok = err_set(err, parts[i].err.code, "%s", parts[i].err.text);
        json_decref(parts[i].candidates);
        json_decref(parts[i].answers);
    }
    return ok;
}

static int64_t estimates_until_ns(const struct run *r)
{
    const int64_t now_ns = clock_mono_ns();
    const json_t *budget = json_object_get(r->job, "budget"), *spent = json_object_get(r->job, "spent");
    double left_ns = 1e9 * (json_num(budget, "wall_seconds", 0) - json_num(spent, "wall_seconds", 0)) - (double)(now_ns - r->e->wall_from_ns);
    return now_ns + (int64_t)fmin(fmax(ESTIMATES_WALL_PART * left_ns, 0), (double)ESTIMATES_WALL_NS);
}

static bool make_estimates(struct run *r, const struct generator *g, struct gen_input *in, json_t *to, struct err *err)
{
    const int64_t until_ns = estimates_until_ns(r), of_budget = ESTIMATES_A_CANDIDATE * json_int(json_object_get(r->job, "budget"), "candidates", 0);
    const int most = of_budget < r->j->config.estimates ? (int)of_budget : r->j->config.estimates;
    if (json_int(json_object_get(r->job, "budget"), "candidates", 0) <= (int64_t)json_array_size(in->neighbours))
        return true;                     /* nobody would look at them */
    for (;;) {
        cleanup(json) json_t *items = NULL;
        struct err why = {0};
        size_t before = json_array_size(to);
        in->estimates = to;
        if (!g->wants(in, most, &items, err))
            return false;
        if (!json_array_size(items) || before >= (size_t)most || clock_mono_ns() > until_ns || r->j->stopping || r->e->cancelled)
            return true;
        if (!estimate_batch(r, until_ns, items, to, &why)) {
            if (!r->j->stopping && !r->e->cancelled)
                log_line(LOG_WARN, "estimates could not be made, the search goes on without more", "job", r->e->id, "error", why.text, NULL);
            return true;
        }
    }
}

enum step_result prior_make(struct run *r, int index, const struct generator *g)
{
    char key[80];
    struct err err = {0};
    const json_t *baseline = json_object_get(job_shape(r->job, index), "baseline");
    const char *evidence = json_str(baseline, "evidence", "");
    cleanup(json) json_t *neighbours = NULL, *estimates = json_array(), *doc = json_object();
    struct gen_input in = {.op = r->shape.op, .shape = &r->shape, .baseline_ns = json_num(baseline, "time_ns", 0), .candidates_left = 1,
                           .seed = (uint64_t)json_int(r->job, "seed", 0), .measured = strcmp(evidence, "measured") == 0};
    if (!neighbours_find(r->j, &r->shape, evidence, &neighbours, &err))
        return run_fail(r, &err);
    in.neighbours = neighbours;
    /* Without a card the judgements' own figures are these estimates. */
    if (in.measured && r->j->config.estimates > 0 && !make_estimates(r, g, &in, estimates, &err))
        return run_fail(r, &err);
    if (r->j->stopping || r->e->cancelled)
        return STEP_FAILED;
    json_t *lessons = r->j->config.know ? know_effects(r->j->config.know, &r->shape, in.measured) : NULL;
    if (lessons)
        json_put(doc, "lessons", lessons);
    json_put(doc, "neighbours", json_incref(neighbours));
    json_put(doc, "estimates", json_incref(estimates));
    struct store_batch *b = store_batch_new();
    prior_key(r->e->id, index, key, sizeof key);
    store_put(b, STORE_META, key, NULL, doc);
    return run_commit(r, b, run_next(r), NULL);
}

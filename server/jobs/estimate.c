/*
 * What shapes would save, for the order of jobs and of a job's shapes; and the thread that finds it out where nobody knows.
 *
 * The estimator asks the emulator, also where there is a card, for the baseline of an observed shape and the first few settings that the
 * template search would look at, the nearest known shape's best before all. What it gets are estimates and stay in the observed shape's record;
 * nothing is judged, served or signed. One thread, one request at a time, at a low priority that its judges inherit. Which shape is next is asked
 * of all records, so that is done for some of them at once. A shape that cannot be estimated is not tried again before its operator changes.
 */
#include "server/jobs/internal.h"

#include <math.h>
#include <sys/resource.h>

#define NICE 10
#define PAUSE_AFTER_ERROR_NS ((int64_t)60 * 1000000000)
#define AT_ONCE 16                       /* shapes, and how long their turn may take before all are looked at anew */
#define TURN_NS ((int64_t)10 * 1000000000)

/* ---- the order ---- */

static double saving_ns(struct jobs *j, const json_t *shape)
{
    pthread_mutex_lock(&j->nearby_lock);
    struct saving s = saving_of(j->store, j->ops, j->nearby, json_str(shape, "shape_hash", ""), json_object_get(shape, "shape"), json_int(shape, "count", 0));
    pthread_mutex_unlock(&j->nearby_lock);
    return s.total_ns;
}

double job_saving_ns(struct jobs *j, const json_t *job)
{
    double sum = 0;
    size_t i;
    if (json_object_get(job, "revalidates"))   /* whether something that is served holds: an admin waits for that */
        return HUGE_VAL;
    json_t *shape;
    json_array_foreach(json_object_get(job, "shapes"), i, shape)
        if (shape_is_open(shape))
            sum += saving_ns(j, shape);
    return sum;
}

int job_pick(struct jobs *j, const json_t *job)
{
    int best = -1;
    double most = -1;
    size_t i;
    json_t *shape;
    json_array_foreach(json_object_get(job, "shapes"), i, shape) {
        if (strcmp(shape_state(shape), "waiting") != 0)
            continue;
        double saves_ns = saving_ns(j, shape);
        if (saves_ns > most) {
            most = saves_ns;
            best = (int)i;
        }
    }
    return best;
}

/* The next entry in the list that waits for its first turn, after the one named; "" at the end. */
static void next_waiting(struct jobs *j, char id[40])
{
    pthread_mutex_lock(&j->lock);
    struct entry *e = j->head;
    if (*id) {
        while (e && strcmp(e->id, id) != 0)
            e = e->next;
        e = e ? e->next : NULL;
    }
    while (e && (e->state != ENTRY_READY || e->wall_from_ns))
        e = e->next;
    snprintf(id, 40, "%s", e ? e->id : "");
    pthread_mutex_unlock(&j->lock);
}

static void weigh(struct jobs *j)
{
    char id[40] = "";
    for (next_waiting(j, id); *id && !j->stopping; next_waiting(j, id)) {
        cleanup(json) json_t *job = NULL;
        struct err err = {0};
        if (!store_get(j->store, STORE_JOB, id, &job, &err))
            continue;
        double saves_ns = job_saving_ns(j, job);
        pthread_mutex_lock(&j->lock);
        for (struct entry *e = j->head; e; e = e->next)
            if (strcmp(e->id, id) == 0)
                e->saving_ns = saves_ns;
        pthread_mutex_unlock(&j->lock);
    }
}

/* ---- estimating ---- */

struct asking { struct jobs *j; int64_t until_ns; };

static bool on_stop(void *ctx)
{
    const struct asking *a = ctx;
    return a->j->stopping || clock_mono_ns() > a->until_ns;
}

/* The baseline, the nearest known shape's best, and the first settings that the template search would have estimated. */
static bool candidates_of(struct jobs *j, const struct shape *shape, json_t *to, struct err *err)
{
    const struct generator *g = j->config.find_generator("template");
    cleanup(json) json_t *baseline = NULL, *items = NULL, *near = NULL, *nearest = json_array();
    struct gen_input in = {.op = shape->op, .shape = shape, .candidates_left = 1, .seed = 1};
    const json_t *item;
    size_t i;
    if (!candidate_load(shape->op->dir, "baseline", &baseline, err))
        return false;
    json_array_append(to, baseline);
    if (!g || !g->wants)
        return true;
    if (!neighbours_find(j, shape, NULL, &near, err))
        return false;
    if (json_array_size(near))
        json_array_append(nearest, json_array_get(near, 0));
    in.neighbours = nearest;
    if (!g->wants(&in, j->config.estimate_candidates, &items, err))
        return false;
    json_array_foreach(items, i, item)
        json_array_append(to, json_object_get(item, "candidate"));
    return true;
}

/* What was answered: the baseline's comes first. Candidates that do not run tell nothing about the best: they are passed over. */
static void put_times(json_t *doc, const json_t *answers)
{
    const json_t *baseline = json_array_get(answers, 0), *one;
    double baseline_ns = json_num(baseline, "ns", 0), best_ns = baseline_ns;
    size_t i;
    if (!(baseline_ns > 0)) {
        json_put_str(doc, "error", json_str(baseline, "why", "the baseline does not run"));
        return;
    }
    json_array_foreach(answers, i, one)
        if (json_num(one, "ns", 0) > 0)
            best_ns = fmin(best_ns, json_num(one, "ns", 0));
    json_put_int(doc, "tried", (int64_t)json_array_size(answers) - 1);
    json_put_str(doc, "evidence", "emulated");
    json_put_num(doc, "baseline_ns", baseline_ns);
    json_put_num(doc, "best_ns", best_ns);
}

/* NULL with why: nothing can be estimated at present. New reference. */
static json_t *estimate_of(struct jobs *j, const struct shape *shape, struct err *why)
{
    cleanup(json) json_t *candidates = json_array(), *answers = NULL;
    struct err err = {0};
    json_t *doc = json_object();
    struct asking asking = {j, clock_mono_ns() + j->config.estimate_wall_ns};
    if (candidates_of(j, shape, candidates, &err) && estimates_ask(j, shape, candidates, true, on_stop, &asking, &answers, &err)) {
        put_times(doc, answers);
    } else if (err.code == ERR_UNAVAILABLE) {   /* no toolkit, say: not this shape's fault */
        json_decref(doc);
        *why = err;
        return NULL;
    } else if (clock_mono_ns() > asking.until_ns) {
        json_put(doc, "error", json_sprintf("it took longer than %lld s", (long long)(j->config.estimate_wall_ns / 1000000000)));
    } else {
        json_put_str(doc, "error", err.text);
    }
    json_put_str(doc, "op_digest", shape->op->digest.text);
    json_put_str(doc, "time", clock_text(clock_wall_ns()).text);
    return doc;
}

/* False: it cannot be done now, err says why. */
static bool estimate_one(struct jobs *j, const json_t *record, struct err *err)
{
    cleanup(json) json_t *estimate = NULL;
    struct faults f = {0};
    struct err why = {0};
    struct shape shape;
    if (!shape_parse(j->ops, json_object_get(record, "shape"), NULL, "", &shape, &f))
        return true;                     /* its operator went meanwhile */
    estimate = estimate_of(j, &shape, err);
    if (!estimate)
        return false;
    return j->stopping || observed_estimate(j->store, json_str(record, "shape_hash", ""), estimate, &why) || why.code == ERR_NOT_FOUND ||
           err_set(err, why.code, "%s", why.text);
}

static bool is_news(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    bool news = j->news || j->stopping;
    pthread_mutex_unlock(&j->lock);
    return news;
}

/* What is known now, and which shapes are next; NULL with err: the store fails. */
static json_t *survey(struct jobs *j, struct err *err)
{
    json_t *list = NULL;
    struct nearby *nearby = NULL;
    if (!observed_unknown(j->store, j->ops, AT_ONCE, j->config.estimate_candidates > 0 ? j->config.estimate_shapes : 0, &list, &nearby, err))
        return NULL;
    pthread_mutex_lock(&j->nearby_lock);
    struct nearby *before = j->nearby;
    j->nearby = nearby;
    pthread_mutex_unlock(&j->nearby_lock);
    nearby_free(before);
    return list;
}

/* Some shapes. False: there is nothing to estimate, or it cannot be done (ret_failed). */
static bool estimate_some(struct jobs *j, bool *ret_failed)
{
    struct err err = {0};
    const int64_t until_ns = clock_mono_ns() + TURN_NS;
    cleanup(json) json_t *list = survey(j, &err);
    json_t *record;
    size_t i;
    *ret_failed = !list;
    weigh(j);
    json_array_foreach(list, i, record) {
        *ret_failed = !estimate_one(j, record, &err);
        if (*ret_failed || is_news(j) || clock_mono_ns() > until_ns)
            break;
    }
    if (*ret_failed)
        log_line(LOG_WARN, "observed shapes cannot be estimated now", "error", err.text, NULL);
    return json_array_size(list) && !*ret_failed;
}

/* Waits for news, or until `until_ns`. False: the jobs stop. */
static bool wait_news(struct jobs *j, int64_t until_ns)
{
    struct timespec at = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_mutex_lock(&j->lock);
    while (!j->stopping && !j->news && clock_mono_ns() < until_ns) {
        if (until_ns == INT64_MAX)
            pthread_cond_wait(&j->work, &j->lock);
        else
            pthread_cond_timedwait(&j->work, &j->lock, &at);
    }
    j->news = false;
    bool go = !j->stopping;
    pthread_mutex_unlock(&j->lock);
    return go;
}

static void *estimator_main(void *arg)
{
    struct jobs *j = arg;
    int64_t until_ns = 0;
    setpriority(PRIO_PROCESS, 0, NICE);  /* on Linux of this thread alone, and of what it starts */
    while (wait_news(j, until_ns)) {
        bool failed = false, more = estimate_some(j, &failed);
        until_ns = more ? 0 : failed ? clock_mono_ns() + PAUSE_AFTER_ERROR_NS : INT64_MAX;
    }
    return NULL;
}

bool estimator_start(struct jobs *j)
{
    j->estimating = pthread_create(&j->estimator, NULL, estimator_main, j) == 0;
    return j->estimating;
}

void estimator_stop(struct jobs *j)
{
    if (j->estimating)
        pthread_join(j->estimator, NULL);
}

void jobs_observed(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    j->news = true;
    pthread_cond_broadcast(&j->work);
    pthread_mutex_unlock(&j->lock);
}

/*
 * What shapes would save, for the order of jobs and of a job's shapes; and the thread that finds it out where nobody knows.
 *
 * The estimator asks the emulator, also where there is a card, for the baseline of an observed shape and the first few settings that the
 * template search would look at. What it gets are estimates and stay in the observed shape's record; nothing is judged, served or signed.
 * One thread, one request at a time, at a low priority that its judges inherit. A shape that cannot be estimated is not tried again.
 */
#include "server/jobs/internal.h"

#include <math.h>
#include <sys/resource.h>

#define NICE 10
#define PAUSE_AFTER_ERROR_NS ((int64_t)60 * 1000000000)

/* ---- the order ---- */

double job_saving_ns(struct jobs *j, const json_t *job)
{
    double sum = 0;
    size_t i;
    if (json_object_get(job, "revalidates"))   /* whether something that is served holds: an admin waits for that */
        return HUGE_VAL;
    json_t *shape;
    json_array_foreach(json_object_get(job, "shapes"), i, shape)
        if (shape_is_open(shape))
            sum += saving_of(j->store, j->ops, json_str(shape, "shape_hash", ""), json_object_get(shape, "shape"), json_int(shape, "count", 0)).total_ns;
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
        struct saving s = saving_of(j->store, j->ops, json_str(shape, "shape_hash", ""), json_object_get(shape, "shape"), json_int(shape, "count", 0));
        if (s.total_ns > most) {
            most = s.total_ns;
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
        double saving_ns = job_saving_ns(j, job);
        pthread_mutex_lock(&j->lock);
        for (struct entry *e = j->head; e; e = e->next)
            if (strcmp(e->id, id) == 0)
                e->saving_ns = saving_ns;
        pthread_mutex_unlock(&j->lock);
    }
}

/* ---- estimating ---- */

static bool on_stop(void *ctx)
{
    return ((struct jobs *)ctx)->stopping;
}

/* The baseline, and the first settings that the template search would have estimated. */
static bool candidates_of(struct jobs *j, const struct shape *shape, json_t *to, struct err *err)
{
    const struct generator *g = j->config.find_generator("template");
    cleanup(json) json_t *baseline = NULL, *items = NULL;
    struct gen_input in = {.op = shape->op, .shape = shape, .candidates_left = 1, .seed = 1};
    const json_t *item;
    size_t i;
    if (!candidate_load(shape->op->dir, "baseline", &baseline, err))
        return false;
    json_array_append(to, baseline);
    if (!g || !g->wants)
        return true;
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
    if (candidates_of(j, shape, candidates, &err) && estimates_ask(j, shape, candidates, true, on_stop, j, &answers, &err)) {
        put_times(doc, answers);
    } else if (err.code == ERR_UNAVAILABLE) {   /* no toolkit, say: not this shape's fault */
        json_decref(doc);
        *why = err;
        return NULL;
    } else {
        json_put_str(doc, "error", err.text);
    }
    json_put_str(doc, "time", clock_text(clock_wall_ns()).text);
    return doc;
}

/* One shape. False: there is nothing to estimate, or the store fails (ret_failed). */
static bool estimate_next(struct jobs *j, bool *ret_failed)
{
    cleanup(json) json_t *record = NULL, *estimate = NULL;
    struct err err = {0};
    struct faults f = {0};
    struct shape shape;
    *ret_failed = false;
    if (!observed_unknown(j->store, j->ops, &record, &err)) {
        *ret_failed = true;
    } else if (record) {
        const char *hash = json_str(record, "shape_hash", "");
        if (shape_parse(j->ops, json_object_get(record, "shape"), NULL, "", &shape, &f))
            estimate = estimate_of(j, &shape, &err);
        else
            estimate = json_pack("{s:s}", "error", "its operator is not here any more");
        *ret_failed = !estimate || (!j->stopping && !observed_estimate(j->store, hash, estimate, &err) && err.code != ERR_NOT_FOUND);
    }
    if (*ret_failed)
        log_line(LOG_WARN, "observed shapes cannot be estimated now", "error", err.text, NULL);
    return record && !*ret_failed;
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
        bool failed = false, more = false;
        weigh(j);
        if (j->config.estimate_candidates > 0)
            more = estimate_next(j, &failed);
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

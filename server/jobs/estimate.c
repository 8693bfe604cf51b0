/*
 * What shapes would save, for the order of jobs and of a job's shapes; and the thread that finds it out where nobody knows.
 *
 * The estimator judges on the emulator, also where there is a card: the baseline of an observed shape, then the first few candidates that
 * the template search would try. What it gets are estimates and stay in the observed shape's record; nothing of it is served or signed.
 * One thread, one judgement at a time, at a low priority that its judges inherit. A shape that cannot be estimated is not tried again.
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
struct estimating {
    struct jobs *j;
    const struct shape *shape;
    struct spawn_config spawn;
    char job[40];                        /* a made-up id, as a judge wants one */
    json_t *baseline;
    double baseline_ns, best_ns;
    struct buf ptx;
};

static bool on_stop(void *ctx)
{
    return ((struct jobs *)ctx)->stopping;
}

static void on_phase(void *ctx, const json_t *phase)
{
    (void)ctx, (void)phase;
}

static bool judge_one(struct estimating *s, json_t *candidate, const char *mode, struct judge_answer *ret, struct err *err)
{
    struct id id = id_new("cand");
    cleanup(json) json_t *task = json_object();
    json_put(task, "shape", shape_encode(s->shape));
    json_put(task, "candidate", json_incref(candidate));
    json_put_str(task, "op_digest", s->shape->op->digest.text);
    json_put(task, "baseline", s->baseline ? json_incref(s->baseline) : json_null());
    json_put_str(task, "mode", mode);
    if (s->baseline_ns > 0)
        json_put_num(task, "baseline_time_ns", s->baseline_ns);
    if (s->ptx.size)
        json_put_str(task, "baseline_ptx", buf_cstr(&s->ptx));
    json_put_str(task, "job", s->job);
    json_put_str(task, "candidate_id", id.text);
    return spawn_judge(&s->spawn, task, on_phase, on_stop, s->j, ret, err);
}

static bool judge_baseline(struct estimating *s, struct err *err)
{
    cleanup(judge_answer) struct judge_answer a = {0};
    cleanup(json) json_t *baseline = NULL;
    if (!candidate_load(s->shape->op->dir, "baseline", &baseline, err) || !judge_one(s, baseline, "full", &a, err))
        return false;
    double time_ns = json_num(a.figures, "time_ns", 0);
    if (a.verdict.code != VERDICT_OK || !(time_ns > 0))
        return err_set(err, ERR_UNPROCESSABLE, "the baseline's verdict is %s: %.300s", verdict_name(a.verdict.code), a.verdict.text);
    s->baseline = steal(&baseline);
    s->baseline_ns = s->best_ns = time_ns;
    for (int i = 0; i < a.blob_count; i++)
        if (strcmp(a.blobs[i].name, "kernel.ptx") == 0)
            buf_add(&s->ptx, a.blobs[i].bytes.data, a.blobs[i].bytes.size);
    return true;
}

#define ESTIMATE_CANDIDATES_MAX 64
struct tried { int count; struct gen_past list[ESTIMATE_CANDIDATES_MAX]; json_t *documents, *origins, *figures; };

static void tried_done(struct tried *t)
{
    json_decref(t->documents);
    json_decref(t->origins);
    json_decref(t->figures);
}
DEFINE_CLEANUP(tried, struct tried, tried_done(it))

static void keep(struct tried *t, struct gen_proposal *p, const struct judge_answer *a, double baseline_ns)
{
    double time_ns = json_num(a->figures, "time_ns", 0);
    json_array_append(t->documents, p->candidate);
    json_array_append(t->origins, p->origin ? p->origin : json_null());
    json_array_append(t->figures, a->figures ? a->figures : json_null());
    t->list[t->count++] = (struct gen_past){.id = "estimated", .candidate = p->candidate, .origin = p->origin, .verdict = a->verdict.code,
                                            .time_ns = time_ns, .speedup = time_ns > 0 ? baseline_ns / time_ns : 0,
                                            .figures = json_is_object(a->figures) ? a->figures : NULL};
}

/* Candidates that the judge fails on, or that are wrong, tell nothing about the best: they are passed over. */
static int try_candidates(struct estimating *s)
{
    const struct generator *g = s->j->config.find_generator("template");
    cleanup(tried) struct tried t = {.documents = json_array(), .origins = json_array(), .figures = json_array()};
    int most = s->j->config.estimate_candidates < ESTIMATE_CANDIDATES_MAX ? s->j->config.estimate_candidates : ESTIMATE_CANDIDATES_MAX;
    while (g && g->propose && t.count < most && !s->j->stopping) {
        cleanup(gen_proposal) struct gen_proposal p = {0};
        cleanup(judge_answer) struct judge_answer a = {0};
        struct err err = {0};
        struct gen_input in = {.op = s->shape->op, .shape = s->shape, .past = t.list, .past_count = t.count, .baseline_ns = s->baseline_ns,
                               .candidates_left = most - t.count, .seed = 1};
        if (!g->propose(&in, &p, &err) || p.done || !judge_one(s, p.candidate, "triage", &a, &err))
            break;
        double time_ns = verdict_is_correct(a.verdict.code) ? json_num(a.figures, "time_ns", 0) : 0;
        if (time_ns > 0 && time_ns < s->best_ns)
            s->best_ns = time_ns;
        keep(&t, &p, &a, s->baseline_ns);
    }
    return t.count;
}

/* NULL with why: nothing can be estimated at present. New reference. */
static json_t *estimate_of(struct jobs *j, const struct shape *shape, struct err *why)
{
    struct estimating s = {.j = j, .shape = shape, .spawn = j->config.spawn};
    struct err err = {0};
    json_t *doc = json_object();
    const char *slash = strrchr(shape->op->dir, '/');
    cleanup(str) char *ops_dir = slash && slash > shape->op->dir ? xstrndup(shape->op->dir, (size_t)(slash - shape->op->dir)) : xstrdup(shape->op->dir);
    s.spawn.device = "sim";
    s.spawn.runner = NULL;               /* here, not where the cards are */
    if (s.spawn.ops_dir)
        s.spawn.ops_dir = ops_dir;
    snprintf(s.job, sizeof s.job, "%s", id_new("job").text);
    if (judge_baseline(&s, &err)) {
        json_put_int(doc, "tried", try_candidates(&s));
        json_put_str(doc, "evidence", "emulated");
        json_put_num(doc, "baseline_ns", s.baseline_ns);
        json_put_num(doc, "best_ns", s.best_ns);
    } else if (err.code == ERR_UNAVAILABLE) {   /* no toolkit, say: not this shape's fault */
        json_decref(doc);
        doc = NULL;
        *why = err;
    } else {
        json_put_str(doc, "error", err.text);
    }
    if (doc)
        json_put_str(doc, "time", clock_text(clock_wall_ns()).text);
    json_decref(s.baseline);
    buf_done(&s.ptx);
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

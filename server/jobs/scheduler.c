/*
 * The list of open jobs, in order of arrival, and the runner threads that take from it, what would save most first. A job waits for a runner (ready), is under
 * work (running), or waits for something from outside or for better times (parked, until woken or its deadline).
 *
 * One more thread, the keeper, never judges: it looks after jobs that wait for candidates when their deadline has come, so that a
 * wall limit is kept while all runners are busy with other jobs.
 */
#include "server/jobs/internal.h"

#include <time.h>

static int count_state(const struct jobs *j, enum entry_state state)
{
    int n = 0;
    for (const struct entry *e = j->head; e; e = e->next)
        n += e->state == state;
    return n;
}

static struct entry *append(struct jobs *j, const char *id, enum entry_state state)
{
    struct entry *e = xalloc(sizeof *e);
    snprintf(e->id, sizeof e->id, "%s", id);
    e->since_ns = clock_mono_ns();
    e->state = state;
    *j->tail = e;
    j->tail = &e->next;
    return e;
}

bool entry_reserve(struct jobs *j, const char *id, struct entry **ret, struct err *err)
{
    bool ok = true;
    pthread_mutex_lock(&j->lock);
    int waiting = count_state(j, ENTRY_RESERVED) + count_state(j, ENTRY_READY) + count_state(j, ENTRY_PARKED);
    if (j->stopping)
        ok = err_set(err, ERR_UNAVAILABLE, "the service is stopping");
    else if (waiting >= j->config.max_queued)
        ok = err_set(err, ERR_BUSY, "%d jobs are waiting already, and no more may: try again later", waiting);
    else
        *ret = append(j, id, ENTRY_RESERVED);
    pthread_mutex_unlock(&j->lock);
    return ok;
}

static void remove_entry(struct jobs *j, struct entry *e)
{
    struct entry **at = &j->head;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (j->tail == &e->next)
        j->tail = at;
    free(e);
}

void entry_ready(struct jobs *j, struct entry *e, double saving_ns)
{
    pthread_mutex_lock(&j->lock);
    e->saving_ns = saving_ns;
    e->state = ENTRY_READY;
    pthread_cond_broadcast(&j->work);
    pthread_mutex_unlock(&j->lock);
}

void entry_drop(struct jobs *j, struct entry *e)
{
    pthread_mutex_lock(&j->lock);
    remove_entry(j, e);
    pthread_mutex_unlock(&j->lock);
}

void entry_wake(struct jobs *j, const char *id, bool cancel)
{
    pthread_mutex_lock(&j->lock);
    struct entry *e = j->head;
    while (e && strcmp(e->id, id) != 0)
        e = e->next;
    if (e && cancel && (e->state == ENTRY_READY || e->state == ENTRY_PARKED)) {
        remove_entry(j, e);   /* it gives its place in the queue to others at once */
    } else if (e) {
        e->woken = true;
        e->cancelled = e->cancelled || cancel;
        if (e->state == ENTRY_PARKED)
            e->state = ENTRY_READY;
    }
    pthread_cond_broadcast(&j->work);
    pthread_mutex_unlock(&j->lock);
}

/* Waits on `work` until mono time until_ns (INT64_MAX: for ever). */
static void wait_work(struct jobs *j, int64_t until_ns)
{
    struct timespec at = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    if (until_ns == INT64_MAX)
        pthread_cond_wait(&j->work, &j->lock);
    else
        pthread_cond_timedwait(&j->work, &j->lock, &at);
}

bool entry_sleep(struct jobs *j, struct entry *e, int64_t ns)
{
    int64_t until_ns = clock_mono_ns() + ns;
    pthread_mutex_lock(&j->lock);
    while (!j->stopping && !e->cancelled && clock_mono_ns() < until_ns)
        wait_work(j, until_ns);
    bool slept = !j->stopping && !e->cancelled;
    pthread_mutex_unlock(&j->lock);
    return slept;
}

/*
 * Of the jobs that may be worked on: the first that has waited too long, else the one that would save most, the first of equals.
 * A job that has begun goes on before others are looked at.
 */
static struct entry *choose(struct jobs *j, int64_t now_ns)
{
    struct entry *best = NULL;
    for (struct entry *e = j->head; e; e = e->next) {
        if (e->state != ENTRY_READY)
            continue;
        if (e->wall_from_ns || now_ns - e->since_ns >= j->config.order_wait_ns)
            return e;
        if (!best || e->saving_ns > best->saving_ns)
            best = e;
    }
    return best;
}

/* The next job to work on; NULL when the jobs stop. The lock is held. */
static struct entry *take(struct jobs *j)
{
    while (!j->stopping) {
        int64_t now_ns = clock_mono_ns(), next_ns = INT64_MAX;
        for (struct entry *e = j->head; e; e = e->next) {
            if (e->state == ENTRY_PARKED && e->deadline_ns <= now_ns)
                e->state = ENTRY_READY;
            if (e->state == ENTRY_PARKED && e->deadline_ns < next_ns)
                next_ns = e->deadline_ns;
        }
        struct entry *e = choose(j, now_ns);
        if (e) {
            e->state = ENTRY_RUNNING;
            e->woken = false;
            return e;
        }
        wait_work(j, next_ns);
    }
    return NULL;
}

/* As take, for the keeper: a job that waits for candidates (or for a runner, with one that came) and whose deadline has come. */
static struct entry *take_waiting(struct jobs *j)
{
    while (!j->stopping) {
        int64_t now_ns = clock_mono_ns(), next_ns = INT64_MAX;
        for (struct entry *e = j->head; e; e = e->next) {
            if (!e->waits || (e->state != ENTRY_PARKED && e->state != ENTRY_READY))
                continue;
            if (e->deadline_ns <= now_ns) {
                e->state = ENTRY_RUNNING;
                e->woken = false;
                return e;
            }
            if (e->deadline_ns < next_ns)
                next_ns = e->deadline_ns;
        }
        wait_work(j, next_ns);
    }
    return NULL;
}

static void work(struct jobs *j, struct entry *(*next)(struct jobs *), bool no_judging)
{
    struct entry *e;
    pthread_mutex_lock(&j->lock);
    while ((e = next(j))) {
        pthread_mutex_unlock(&j->lock);
        int64_t deadline_ns = 0;
        bool waits = false, park = run_job(j, e, no_judging, &deadline_ns, &waits);
        pthread_mutex_lock(&j->lock);
        if (park) {
            e->deadline_ns = deadline_ns;
            e->waits = waits;
            e->state = e->woken ? ENTRY_READY : ENTRY_PARKED;
            pthread_cond_broadcast(&j->work);   /* others may wait for a later deadline */
        } else {
            remove_entry(j, e);
        }
    }
    pthread_mutex_unlock(&j->lock);
}

static void *runner_main(void *arg)
{
    work(arg, take, false);
    return NULL;
}

static void *keeper_main(void *arg)
{
    work(arg, take_waiting, true);
    return NULL;
}

static bool find_open(void *ctx, const char *id, const json_t *doc)
{
    struct jobs *j = ctx;
    if (!job_is_final(doc))
        append(j, id, ENTRY_READY);
    return true;
}

static bool find_all_open(struct jobs *j, struct err *err)
{
    cleanup(str) char *after = NULL;
    do {
        struct store_page page = {STORE_JOB, JOBS_OWNER_OPEN, after, 1000, false};
        char *next = NULL;
        if (!store_list(j->store, &page, find_open, j, &next, NULL, err))
            return false;
        free(after);
        after = next;
    } while (after);
    return true;
}

static void jobs_free(struct jobs *j)
{
    while (j->head)
        remove_entry(j, j->head);
    pthread_mutex_destroy(&j->lock);
    pthread_mutex_destroy(&j->nearby_lock);
    nearby_free(j->nearby);
    pthread_cond_destroy(&j->work);
    spending_done(j);
    free(j->threads);
    free(j);
}

void jobs_halt(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    j->stopping = true;
    pthread_cond_broadcast(&j->work);
    pthread_mutex_unlock(&j->lock);
}

static void stop_threads(struct jobs *j)
{
    jobs_halt(j);
    for (int i = 0; i < j->thread_count; i++)
        pthread_join(j->threads[i], NULL);
}

void jobs_set_ops(struct jobs *j, const struct op_set *ops)
{
    j->ops = ops;
    jobs_observed(j);                    /* estimates by operators as they were are made anew */
}

bool jobs_start(const struct jobs_config *config, struct store *store, const struct op_set *ops, const struct signer *signer,
                struct jobs **ret, struct err *err)
{
    struct jobs *j = xalloc(sizeof *j);
    j->config = *config;
    if (!j->config.find_generator)
        j->config.find_generator = generator_find;
    j->store = store;
    j->ops = ops;
    j->signer = signer;
    j->tail = &j->head;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&j->work, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&j->lock, NULL);
    pthread_mutex_init(&j->nearby_lock, NULL);
    if (!spending_load(j, err) || !find_all_open(j, err)) {
        jobs_free(j);
        return err_wrap(err, "cannot read the jobs");
    }
    int runners = config->runners > 0 ? config->runners : 1;
    j->threads = xarray((size_t)runners, sizeof *j->threads);
    while (j->thread_count < runners && pthread_create(&j->threads[j->thread_count], NULL, runner_main, j) == 0)
        j->thread_count++;
    if (j->thread_count && pthread_create(&j->keeper, NULL, keeper_main, j) == 0) {
        if (estimator_start(j) && tidier_start(j)) {
            *ret = j;
            return true;
        }
        stop_threads(j);
        pthread_join(j->keeper, NULL);
        estimator_stop(j);
    } else {
        stop_threads(j);
    }
    jobs_free(j);
    return err_set(err, ERR_UNAVAILABLE, "cannot start a runner thread");
}

void jobs_stop(struct jobs *j)
{
    if (!j)
        return;
    stop_threads(j);
    pthread_join(j->keeper, NULL);
    estimator_stop(j);
    tidier_stop(j);
    jobs_free(j);
}

json_t *jobs_stats(struct jobs *j)
{
    json_t *doc = json_object();
    pthread_mutex_lock(&j->lock);
    json_put_int(doc, "runners", j->thread_count);
    json_put_int(doc, "queued", count_state(j, ENTRY_READY) + count_state(j, ENTRY_RESERVED));
    json_put_int(doc, "running", count_state(j, ENTRY_RUNNING));
    json_put_int(doc, "waiting", count_state(j, ENTRY_PARKED));
    json_put_int(doc, "judged", j->judged);
    json_put_int(doc, "judge_errors", j->judge_errors);
    if (j->judge_errors)
        json_put_str(doc, "last_judge_error", j->last_judge_error.text);
    else
        json_put(doc, "last_judge_error", json_null());
    json_put(doc, "llm", agent_stats(j));
    pthread_mutex_unlock(&j->lock);
    return doc;
}

/*
 * The loop of a job: read the step's name, call its function, until the job has ended or must wait. Nothing is kept between two
 * steps that is not in the store or can be read from it again, so it does not matter where a process dies.
 */
#include "server/jobs/internal.h"

#include <math.h>

/* The store did not take a step's result: the step is done again after a pause that doubles each time. */
#define RETRY_WRITE_NS ((int64_t)2000 * 1000000)
#define RETRY_WRITE_DOUBLINGS 5

void run_spend(json_t *job, const char *what, double more)
{
    json_t *spent = json_object_get(job, "spent");
    json_put_num(spent, what, round((json_num(spent, what, 0) + more) * 1e6) / 1e6);
}

json_t *run_next(struct run *r)
{
    json_t *next = json_deep_copy(r->job);
    r->mark_ns = clock_mono_ns();
    run_spend(next, "wall_seconds", (double)(r->mark_ns - r->e->wall_from_ns) / 1e9);
    return next;
}

enum step_result run_commit(struct run *r, struct store_batch *b, json_t *next, bool *ret_conflict)
{
    struct err err = {0};
    const char *id = r->e->id;
    store_expect(b, STORE_JOB, id, r->job);
    store_put(b, STORE_JOB, id, NULL, next);
    if (ret_conflict)
        *ret_conflict = false;
    if (spending_commit(r->j, b, r->job, next, &err)) {
        json_decref(r->job);
        r->job = next;
        r->e->wall_from_ns = r->mark_ns;
        if (r->to_learn)
            know_wake(r->j->config.know);
        r->to_learn = false;
        return STEP_GO;
    }
    json_decref(next);
    if (err.code == ERR_CONFLICT) {
        cleanup(json) json_t *now = NULL;
        struct err why = {0};
        if (!store_get(r->j->store, STORE_JOB, id, &now, &why))
            return STEP_FAILED;
        if (!json_equal(now, r->job))
            return STEP_END;   /* cancelled meanwhile */
        if (ret_conflict)
            *ret_conflict = true;
        return STEP_FAILED;
    }
    log_line(LOG_ERROR, "a job's step could not be written and will be done again", "job", id, "error", err.text, NULL);
    return STEP_FAILED;
}

bool run_load_shape(struct run *r, int index, struct err *err)
{
    struct faults f = {0};
    struct shape s;
    const json_t *doc = job_shape(r->job, index);
    const char *hash = json_str(doc, "shape_hash", "");
    if (r->shape_index == index)
        return true;
    if (!shape_parse(r->j->ops, json_object_get(doc, "shape"), NULL, "", &s, &f))
        return err_set(err, ERR_UNPROCESSABLE, "shape %.12s... cannot be judged any more: %s: %s", hash, f.list[0].pointer,
                       f.list[0].detail);
    if (strcmp(shape_hash(&s).text, hash) != 0)
        return err_set(err, ERR_UNPROCESSABLE, "shape %.12s... cannot be judged any more: operator %s is now another version (%d)", hash,
                       s.op->name, s.op->version);
    for (int i = 0; i < r->past_count; i++)
        json_decref(r->past[i]);
    r->past_count = -1;   /* to be read when it is needed */
    r->shape = s;
    r->shape_index = index;
    return true;
}

void run_add_past(struct run *r, const json_t *record)
{
    if (r->past_count == r->past_capacity) {
        r->past_capacity = r->past_capacity ? 2 * r->past_capacity : 32;
        r->past = xrealloc(r->past, (size_t)r->past_capacity * sizeof(json_t *));
    }
    r->past[r->past_count++] = json_incref((json_t *)(uintptr_t)record);
}

void run_put_past(struct run *r, const json_t *record)
{
    for (int i = 0; i < r->past_count; i++)
        if (strcmp(json_str(r->past[i], "id", ""), json_str(record, "id", "")) == 0) {
            json_decref(r->past[i]);
            r->past[i] = json_incref((json_t *)(uintptr_t)record);
        }
}

enum step_result run_fail(struct run *r, const struct err *why)
{
    struct err err = {0};
    log_line(LOG_WARN, "a job failed", "job", r->e->id, "code", err_name(why->code), "error", why->text, NULL);
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        if (job_end(r->j, &r->job, JOB_FAILED, why, (double)(clock_mono_ns() - r->e->wall_from_ns) / 1e9, &err))
            return STEP_END;
        cleanup(json) json_t *now = NULL;
        if (err.code != ERR_CONFLICT || !store_get(r->j->store, STORE_JOB, r->e->id, &now, &err))
            break;
        if (job_is_final(now))
            return STEP_END;
    }
    log_line(LOG_ERROR, "the end of a job could not be written", "job", r->e->id, "error", err.text, NULL);
    return STEP_FAILED;
}

static void run_done(struct run *r)
{
    for (int i = 0; i < r->past_count; i++)
        json_decref(r->past[i]);
    free(r->past);
    json_decref(r->job);
}
DEFINE_CLEANUP(run, struct run, run_done(it))

bool run_job(struct jobs *j, struct entry *e, bool no_judging, int64_t *ret_deadline_ns, bool *ret_waits)
{
    cleanup(run) struct run r = {.j = j, .e = e, .no_judging = no_judging, .shape_index = -1};
    struct err err = {0};
    enum step_result result = STEP_GO;
    if (!e->wall_from_ns)
        e->wall_from_ns = clock_mono_ns();
    if (!store_get(j->store, STORE_JOB, e->id, &r.job, &err)) {
        log_line(LOG_ERROR, "a job could not be read", "job", e->id, "error", err.text, NULL);
        *ret_deadline_ns = clock_mono_ns() + RETRY_WRITE_NS;
        return err.code != ERR_NOT_FOUND;
    }
    while (result == STEP_GO && !j->stopping && !e->cancelled && !job_is_final(r.job)) {
        step_fn *step = step_find(json_str(r.job, "step", ""));
        if (!step)
            err_set(&err, ERR_INTERNAL, "step \"%s\" is unknown: the job was written by another version", json_str(r.job, "step", ""));
        result = step ? step(&r) : run_fail(&r, &err);
    }
    if (job_is_final(r.job) || result == STEP_END || e->cancelled) {
        log_line(LOG_INFO, "job ended", "job", e->id, NULL);
        return false;
    }
    *ret_deadline_ns = r.park_until_ns;
    *ret_waits = result == STEP_PARK;
    e->failures = result == STEP_FAILED ? e->failures + 1 : 0;
    if (e->failures) {
        int doublings = e->failures - 1 < RETRY_WRITE_DOUBLINGS ? e->failures - 1 : RETRY_WRITE_DOUBLINGS;
        *ret_deadline_ns = clock_mono_ns() + (RETRY_WRITE_NS << doublings);
    }
    return true;
}

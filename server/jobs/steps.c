/*
 * The steps of a job. A shape goes baseline - search - close, one shape after the other; a job of external candidates has all its
 * baselines judged first and then takes what comes for any shape.
 *
 *   start ─ pick ─ judge(baseline) ─ propose ─ judge ─ [confirm] ─ propose ... ─ close ─ pick ... ─ end
 *                                                              baseline ─┘   (judged in full before it is served: baseline.c)
 *                                       └ narrow ─ [again ...] ─ confirm ─ narrow ─┘   (contend.c)
 *
 * A job with a baseline of its own judges what it would serve once more beside the operator's (serve.c):  close ─ serve ─ close.
 * A job that judges something again goes from its baseline to revalidate and rejudge (revalidate.c). What a search proposes next: propose.c.
 */
#include "server/jobs/internal.h"

bool run_is_external(const struct run *r)
{
    return strcmp(json_str(r->job, "generator", ""), "external") == 0;
}

double run_wall_spent(const struct run *r)
{
    return json_num(json_object_get(r->job, "spent"), "wall_seconds", 0) + (double)(clock_mono_ns() - r->e->wall_from_ns) / 1e9;
}

/* Candidates are counted elsewhere: they are shared over the shapes. */
char *run_used_up(const struct run *r)
{
    const json_t *budget = json_object_get(r->job, "budget"), *spent = json_object_get(r->job, "spent");
    double wall = json_num(budget, "wall_seconds", 0), gpu = json_num(budget, "gpu_seconds", 0);
    if (run_wall_spent(r) >= wall)
        return xfmt("the budget of %.0f wall_seconds is used up", wall);
    if (gpu > 0 && json_num(spent, "gpu_seconds", 0) >= gpu)
        return xfmt("the budget of %g gpu_seconds is used up", gpu);
    return NULL;
}

/* How many shapes are in one of two states. */
static int shapes_in(const json_t *job, const char *state, const char *or_state)
{
    size_t i;
    json_t *shape;
    int n = 0;
    json_array_foreach(json_object_get(job, "shapes"), i, shape)
        n += strcmp(shape_state(shape), state) == 0 || strcmp(shape_state(shape), or_state) == 0;
    return n;
}

/* The unspent candidates, shared over this shape and those that are still to come. */
int64_t run_candidates_left(const struct run *r, int index)
{
    int64_t tried = json_int(job_shape(r->job, index), "tried", 0), shapes = shapes_in(r->job, "waiting", "searching");
    const json_t *budget = json_object_get(r->job, "budget"), *spent = json_object_get(r->job, "spent");
    int64_t left = json_int(budget, "candidates", 0) - json_int(spent, "candidates", 0);
    int64_t share = shapes > 0 ? (left + tried + shapes - 1) / shapes - tried : left;
    return share < left ? share : left;
}

static enum step_result step_start(struct run *r)
{
    json_t *next = run_next(r);
    struct store_batch *b = store_batch_new();
    json_put_str(next, "state", job_state_name(JOB_RUNNING));
    json_put_str(next, "started", clock_text(clock_wall_ns()).text);
    json_put_str(next, "step", "pick");
    event_state(b, next);
    return run_commit(r, b, next, NULL);
}

/* Puts a candidate under work. */
enum step_result run_take_on(struct run *r, struct store_batch *b, json_t *next, int index, json_t *record, bool *ret_conflict)
{
    const char *id = json_str(record, "id", "");
    json_put_str(record, "state", "judging");
    store_put(b, STORE_CANDIDATE, id, r->e->id, record);
    json_put_int(next, "shape", index);
    json_put_str(next, "current", id);
    json_put_str(next, "step", "judge");
    return run_commit(r, b, next, ret_conflict);
}

/* The baseline of a shape of this job: its own, or the operator's. */
static bool load_baseline(struct run *r, json_t **ret, struct err *err)
{
    char key[64];
    baseline_key(r->e->id, key, sizeof key);
    if (json_is_object(json_object_get(r->job, "baseline")))
        return store_get(r->j->store, STORE_META, key, ret, err);
    return candidate_load(r->shape.op->dir, "baseline", ret, err);
}

static enum step_result begin_shape(struct run *r, int index)
{
    struct err err = {0};
    cleanup(json) json_t *doc = NULL, *record = NULL, *before = NULL, *origin = NULL;
    bool again = run_revalidates_baseline(r);      /* that very baseline, not what the operator's folder has now */
    if (!run_load_shape(r, index, &err) || (again && !(before = run_judged_before(r, &err))) ||
        (!again && !load_baseline(r, &doc, &err)))
        return run_fail(r, &err);
    struct id id = id_new("cand");
    if (again) {
        doc = json_incref(json_object_get(before, "candidate"));
        origin = json_pack("{s:s}", "revalidates", json_str(before, "id", ""));
    }
    record = candidate_record_new(id.text, r->e->id, shape_hash(&r->shape).text, r->shape.op->name, doc, origin, true);
    struct store_batch *b = store_batch_new();
    json_t *next = run_next(r);
    json_put_str(job_shape(next, index), "state", "baseline");
    event_proposed(b, record);
    return run_take_on(r, b, next, index, record, NULL);
}

static enum step_result end_job(struct run *r)
{
    struct err err = {0}, none = {0};
    size_t i;
    json_t *shape;
    const char *reason = "no shape was begun";
    json_array_foreach(json_object_get(r->job, "shapes"), i, shape)
        if (json_str(shape, "why_ended", NULL))
            reason = json_str(shape, "why_ended", "");
    bool failed = !shapes_in(r->job, "done", "searching");
    if (failed) {
        err_set(&none, ERR_UNPROCESSABLE, "no shape of the job could be searched: %s", reason);
        return run_fail(r, &none);
    }
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        if (job_end(r->j, &r->job, JOB_DONE, NULL, (double)(clock_mono_ns() - r->e->wall_from_ns) / 1e9, &err))
            return STEP_END;
        cleanup(json) json_t *now = NULL;
        if (err.code != ERR_CONFLICT || !store_get(r->j->store, STORE_JOB, r->e->id, &now, &err) || job_is_final(now))
            break;
    }
    if (err.code == ERR_CONFLICT)
        return STEP_END;
    log_line(LOG_ERROR, "the end of a job could not be written", "job", r->e->id, "error", err.text, NULL);
    return STEP_FAILED;
}

static enum step_result step_pick(struct run *r)
{
    cleanup(str) char *reason = run_used_up(r);
    size_t i;
    json_t *shape;
    if (reason && shapes_in(r->job, "waiting", "waiting")) {
        json_t *next = run_next(r);
        json_array_foreach(json_object_get(next, "shapes"), i, shape)
            if (strcmp(shape_state(shape), "waiting") == 0) {
                json_put_str(shape, "state", "skipped");
                json_put_str(shape, "why_ended", reason);
            }
        return run_commit(r, store_batch_new(), next, NULL);
    }
    int best = job_pick(r->j, r->job);
    if (best >= 0)
        return begin_shape(r, best);
    if (!shapes_in(r->job, "searching", "searching"))
        return end_job(r);
    json_t *next = run_next(r);   /* only a job of external candidates has shapes under search here */
    json_put_str(next, "step", "propose");
    return run_commit(r, store_batch_new(), next, NULL);
}

/* ---- judging ---- */

static enum step_result judge_current(struct run *r, const char *mode,
                                      enum step_result (*settle)(struct run *, json_t *, struct judge_answer *))
{
    struct err err = {0};
    cleanup(json) json_t *record = NULL;
    cleanup(judge_answer) struct judge_answer a = {0};
    if (!run_load_shape(r, (int)json_int(r->job, "shape", -1), &err))
        return run_fail(r, &err);
    if (!store_get(r->j->store, STORE_CANDIDATE, json_str(r->job, "current", ""), &record, &err))
        return run_fail(r, &err);
    bool is_baseline = json_bool(record, "is_baseline", false);
    const enum judged judged = judge_candidate(r, record, is_baseline ? baseline_mode(r) : mode, &a, &err);
    if ((judged == JUDGE_GIVE_UP || judged == JUDGE_REFUSED) && record_stands_for(record))
        return serving_failed(r, record, &err);      /* the search was done all the same */
    switch (judged) {
    case JUDGED: break;
    case JUDGE_STOP: return STEP_FAILED;
    case JUDGE_GIVE_UP:      /* one of a model's many shapes, or of the field's, does not take the others with it */
        return is_baseline && (json_object_get(r->job, "model") || json_object_get(r->job, "observed")) ? settle_refused(r, record, &err) : run_fail(r, &err);
    case JUDGE_REFUSED: return settle_refused(r, record, &err);
    }
    return is_baseline ? settle_baseline(r, record, &a) : settle(r, record, &a);
}

/* The only one of a search: a retest does all that a triage does. */
static bool is_sole(const struct run *r)
{
    const int index = (int)json_int(r->job, "shape", -1);
    const json_t *baseline = json_object_get(job_shape(r->job, index), "baseline");
    return !run_is_external(r) && strcmp(json_str(baseline, "evidence", ""), "measured") == 0 && !json_int(job_shape(r->job, index), "tried", 0) && run_candidates_left(r, index) <= 0;
}

static enum step_result step_judge(struct run *r)
{
    return is_sole(r) ? judge_current(r, "retest", settle_retest) : judge_current(r, "triage", settle_triage);
}

static enum step_result step_again(struct run *r)
{
    return judge_current(r, "triage", settle_again);
}

static enum step_result step_confirm(struct run *r)
{
    return judge_current(r, "retest", settle_retest);
}

static enum step_result step_rejudge(struct run *r)
{
    return judge_current(r, "retest", settle_revalidation);
}

static enum step_result step_serve(struct run *r)
{
    return judge_current(r, "retest", settle_serving);
}

static enum step_result close_shape(struct run *r, int index)
{
    if (baseline_waits(r, index))
        return baseline_close(r, index);
    return serving_is_due(r, index) ? serving_begin(r, index) : settle_close(r, index);
}

static enum step_result step_close(struct run *r)
{
    size_t i;
    json_t *shape;
    json_array_foreach(json_object_get(r->job, "shapes"), i, shape)
        if (strcmp(shape_state(shape), "searching") == 0 && json_str(shape, "why_ended", NULL))
            return close_shape(r, (int)i);
    json_t *next = run_next(r);
    json_put_str(next, "step", "pick");
    return run_commit(r, store_batch_new(), next, NULL);
}

/* X(name, function): what a runner does next; "end" is the step of a job that has ended */
#define JOB_STEPS(X)            \
    X("start", step_start)      \
    X("pick", step_pick)        \
    X("propose", step_propose)  \
    X("judge", step_judge)      \
    X("baseline", step_judge)   \
    X("confirm", step_confirm)  \
    X("narrow", step_narrow)    \
    X("again", step_again)      \
    X("close", step_close)      \
    X("serve", step_serve)      \
    X("revalidate", step_revalidate) \
    X("rejudge", step_rejudge)

step_fn *step_find(const char *name)
{
    static const struct { const char *name; step_fn *step; } steps[] = {
#define X(name, step) {name, step},
        JOB_STEPS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (strcmp(steps[i].name, name) == 0)
            return steps[i].step;
    return NULL;
}

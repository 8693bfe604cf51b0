/*
 * The steps of a job. A shape goes baseline - search - close, one shape after the other; a job of external candidates has all its
 * baselines judged first and then takes what comes for any shape.
 *
 *   start ─ pick ─ judge(baseline) ─ propose ─ judge ─ [confirm] ─ propose ... ─ close ─ pick ... ─ end
 *                                                              baseline ─┘   (judged in full before it is served: baseline.c)
 *                                       └ narrow ─ [again ...] ─ confirm ─ narrow ─┘   (contend.c)
 *
 * A job with a baseline of its own judges what it would serve once more beside the operator's (serve.c):  close ─ serve ─ close.
 * A job that judges something again goes from its baseline to revalidate and rejudge (revalidate.c).
 */
#include "server/jobs/internal.h"

#define SAVE_WALL_NS ((int64_t)30 * 1000000000)   /* a waiting job writes down its time this often */

static bool is_external(const struct run *r)
{
    return strcmp(json_str(r->job, "generator", ""), "external") == 0;
}

static double wall_spent(const struct run *r)
{
    return json_num(json_object_get(r->job, "spent"), "wall_seconds", 0) + (double)(clock_mono_ns() - r->e->wall_from_ns) / 1e9;
}

/* Candidates are counted elsewhere: they are shared over the shapes. */
char *run_used_up(const struct run *r)
{
    const json_t *budget = json_object_get(r->job, "budget"), *spent = json_object_get(r->job, "spent");
    double wall = json_num(budget, "wall_seconds", 0), gpu = json_num(budget, "gpu_seconds", 0);
    if (wall_spent(r) >= wall)
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
static int64_t candidates_left(const struct run *r, int index)
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
static enum step_result take_on(struct run *r, struct store_batch *b, json_t *next, int index, json_t *record, bool *ret_conflict)
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
    return take_on(r, b, next, index, record, NULL);
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

/* ---- proposing ---- */

static bool see_past(void *ctx, const char *id, const json_t *record)
{
    struct run *r = ctx;
    (void)id;
    bool is_judged = strcmp(json_str(record, "state", ""), "judged") == 0 || json_is_object(json_object_get(record, "pending"));
    bool counts = is_judged && !json_bool(record, "is_baseline", false) && !record_stands_for(record) &&
                  strcmp(json_str(record, "shape_hash", ""), json_str(job_shape(r->job, r->shape_index), "shape_hash", "")) == 0;
    if (counts)
        run_add_past(r, record);
    return true;
}

/* The judged candidates of the shape: read from the store once, then the last judged is added to them. */
static bool load_past(struct run *r, struct err *err)
{
    bool complete = r->past_count >= 0 && r->past_count == json_int(job_shape(r->job, r->shape_index), "tried", 0);
    if (complete)
        return true;
    for (int i = 0; i < r->past_count; i++)
        json_decref(r->past[i]);
    r->past_count = 0;
    cleanup(str) char *after = NULL;
    do {
        struct store_page page = {STORE_CANDIDATE, r->e->id, after, 1000, false};
        char *next = NULL;
        if (!store_list(r->j->store, &page, see_past, r, &next, NULL, err))
            return false;
        free(after);
        after = next;
    } while (after);
    return true;
}

struct gen_past gen_past_of(const json_t *record)
{
    const json_t *figures = json_object_get(record, "figures"), *origin = json_object_get(record, "origin"), *pending = json_object_get(record, "pending");
    const json_t *verdict = json_is_object(pending) ? pending : json_object_get(record, "verdict");
    struct gen_past past = {.id = json_str(record, "id", ""), .candidate = json_object_get(record, "candidate"),
                            .origin = json_is_null(origin) ? NULL : origin, .time_ns = json_num(figures, "time_ns", 0),
                            .speedup = result_speedup(figures), .figures = json_is_object(figures) ? figures : NULL, .said = verdict,
                            .profile = json_object_get(record, "profile")};
    if (!verdict_code_parse(json_str(verdict, "code", ""), &past.verdict))
        past.verdict = VERDICT_FAULT;
    return past;
}

bool run_gen_input(struct run *r, int index, int64_t left, const json_t *prior, struct gen_past **ret_past, struct gen_input *ret, struct err *err)
{
    const json_t *shape = job_shape(r->job, index), *baseline = json_object_get(shape, "baseline");
    if (!load_past(r, err))
        return false;
    struct gen_past *past = xarray((size_t)r->past_count + 1, sizeof(struct gen_past));
    for (int i = 0; i < r->past_count; i++)
        past[i] = gen_past_of(r->past[i]);
    *ret = (struct gen_input){.op = r->shape.op, .shape = &r->shape, .past = past, .past_count = r->past_count,
                           .baseline_ns = json_num(baseline, "time_ns", 0), .candidates_left = left,
                           .seed = (uint64_t)json_int(r->job, "seed", 0),
                           .measured = strcmp(json_str(baseline, "evidence", ""), "measured") == 0,
                           .estimates = json_object_get(prior, "estimates"), .neighbours = json_object_get(prior, "neighbours"),
                           .lessons = json_object_get(prior, "lessons")};
    *ret_past = past;
    return true;
}

static bool ask_generator(struct run *r, int index, int64_t left, const struct generator *g, const json_t *prior, struct gen_proposal *ret,
                          struct err *err)
{
    struct gen_past *past = NULL;
    struct gen_input in;
    if (!run_gen_input(r, index, left, prior, &past, &in, err))
        return false;
    bool ok = g->propose(&in, ret, err);
    free(past);
    return ok;
}

enum step_result run_take_proposal(struct run *r, struct store_batch *b, json_t *next, int index, const struct gen_proposal *p, const char *id)
{
    cleanup(json) json_t *record = candidate_record_new(id, r->e->id, json_str(job_shape(r->job, index), "shape_hash", ""),
                                                        r->shape.op->name, p->candidate, p->origin, false);
    json_t *spent = json_object_get(next, "spent");
    json_put_int(spent, "candidates", json_int(spent, "candidates", 0) + 1);
    event_proposed(b, record);
    return take_on(r, b, next, index, record, NULL);
}

enum step_result run_stop_search(struct run *r, int index, const char *reason)
{
    json_t *next = run_next(r), *shape;
    size_t i;
    json_array_foreach(json_object_get(next, "shapes"), i, shape)
        if (strcmp(shape_state(shape), "searching") == 0 && (index < 0 || (int)i == index))
            json_put_str(shape, "why_ended", reason);
    json_put_str(next, "step", index >= 0 && json_array_size(json_object_get(job_shape(next, index), "contenders")) ? "narrow" : "close");
    return run_commit(r, store_batch_new(), next, NULL);
}

static enum step_result begin_narrowing(struct run *r)
{
    json_t *next = run_next(r);
    json_put_str(next, "step", "narrow");
    return run_commit(r, store_batch_new(), next, NULL);
}

static enum step_result propose_own(struct run *r)
{
    struct err err = {0};
    int index = (int)json_int(r->job, "shape", -1);
    int64_t left = candidates_left(r, index), all = json_int(json_object_get(r->job, "budget"), "candidates", 0);
    cleanup(str) char *reason = run_used_up(r);
    cleanup(gen_proposal) struct gen_proposal p = {0};
    if (!reason && left <= 0)
        reason = xfmt("this shape's share of the budget of %lld candidates is used up", (long long)all);
    if (reason)
        return run_stop_search(r, index, reason);
    if (contenders_due(r, index))
        return begin_narrowing(r);
    const struct generator *g = r->j->config.find_generator(json_str(r->job, "generator", ""));
    cleanup(json) json_t *prior = NULL;
    if (g && g->attempt)
        return propose_agent(r, index, left, g);
    if (!g || !g->propose) {
        err_set(&err, ERR_UNPROCESSABLE, "generator %s is not there any more", json_str(r->job, "generator", ""));
        return run_fail(r, &err);
    }
    if (!run_load_shape(r, index, &err) || (g->wants && !prior_load(r, index, &prior, &err)))
        return run_fail(r, &err);
    if (g->wants && !prior)
        return prior_make(r, index, g);
    if (!ask_generator(r, index, left, g, prior, &p, &err))
        return run_fail(r, &err);
    if (p.done)
        return run_stop_search(r, index, *p.reason ? p.reason : "the generator has nothing more worth trying");
    cleanup(candidate) struct candidate checked = {0};
    struct faults f = {0};
    if (!candidate_parse(p.candidate, "", &checked, &f)) {
        err_set(&err, ERR_INTERNAL, "the generator proposed what is no candidate: %s: %s", f.list[0].pointer, f.list[0].detail);
        return run_fail(r, &err);
    }
    struct id id = id_new("cand");
    return run_take_proposal(r, store_batch_new(), run_next(r), index, &p, id.text);
}

/* ---- candidates from outside ---- */

int64_t run_wall_limit_ns(const struct run *r)
{
    double left_s = json_num(json_object_get(r->job, "budget"), "wall_seconds", 0) - wall_spent(r);
    return clock_mono_ns() + (int64_t)(left_s * 1e9) + 1000000;
}

static enum step_result wait_for_candidates(struct run *r)
{
    int64_t now_ns = clock_mono_ns(), save_ns = r->e->wall_from_ns + SAVE_WALL_NS, limit_ns = run_wall_limit_ns(r);
    if (now_ns >= save_ns)
        return run_commit(r, store_batch_new(), run_next(r), NULL);
    r->park_until_ns = limit_ns < save_ns ? limit_ns : save_ns;
    return STEP_PARK;
}

/* There is a candidate, but the caller is no runner: it stays where it is, and the job is ready for a runner. */
static enum step_result leave_to_runner(struct run *r)
{
    r->park_until_ns = run_wall_limit_ns(r);
    entry_wake(r->j, r->e->id, false);
    return STEP_PARK;
}

/* Takes the first of the waiting list; *ret_conflict: an agent added to the list meanwhile. */
static enum step_result take_first(struct run *r, const char *key, const json_t *list, bool *ret_conflict)
{
    struct err err = {0};
    cleanup(json) json_t *rest = json_deep_copy(list), *record = NULL;
    const char *id = json_string_value(json_array_get(json_object_get(list, "waiting"), 0));
    *ret_conflict = false;
    if (!id || !store_get(r->j->store, STORE_CANDIDATE, id, &record, &err)) {
        err_set(&err, ERR_INTERNAL, "a candidate of the waiting list cannot be read");
        return run_fail(r, &err);
    }
    int index = job_shape_index(r->job, json_str(record, "shape_hash", ""));
    json_array_remove(json_object_get(rest, "waiting"), 0);
    struct store_batch *b = store_batch_new();
    json_t *next = run_next(r);
    store_expect(b, STORE_META, key, list);
    store_put(b, STORE_META, key, NULL, rest);
    if (strcmp(shape_state(job_shape(r->job, index)), "searching") != 0) {   /* its baseline failed */
        json_put_str(record, "state", "dropped");
        store_put(b, STORE_CANDIDATE, id, r->e->id, record);
        return run_commit(r, b, next, ret_conflict);
    }
    json_t *spent = json_object_get(next, "spent");
    json_put_int(spent, "candidates", json_int(spent, "candidates", 0) + 1);
    return take_on(r, b, next, index, record, ret_conflict);
}

/* Somebody read a brief that lacks the card's counters: they are read now, while no candidate waits. False: nothing to do. */
static bool profile_wished(struct run *r, enum step_result *ret)
{
    size_t count = json_array_size(json_object_get(r->job, "shapes"));
    if (!r->e->profile_wished)
        return false;
    if (r->no_judging) {
        *ret = leave_to_runner(r);
        return true;
    }
    for (size_t i = 0; i < count; i++)
        if (strcmp(shape_state(job_shape(r->job, (int)i)), "searching") == 0 && profile_best(r, (int)i, ret))
            return true;
    r->e->profile_wished = false;
    return false;
}

static enum step_result propose_external(struct run *r)
{
    char key[64];
    external_key(r->e->id, key, sizeof key);
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        struct err err = {0};
        bool conflict = false;
        cleanup(json) json_t *list = NULL;
        cleanup(str) char *reason = run_used_up(r);
        int64_t all = json_int(json_object_get(r->job, "budget"), "candidates", 0);
        if (!store_get(r->j->store, STORE_META, key, &list, &err))
            return err.code == ERR_NOT_FOUND ? STEP_END : STEP_FAILED;   /* it goes with the job's end */
        bool empty = json_array_size(json_object_get(list, "waiting")) == 0;
        if (!reason && empty && json_int(list, "accepted", 0) >= all)
            reason = xfmt("the budget of %lld candidates is used up", (long long)all);
        if (reason)
            return run_stop_search(r, -1, reason);
        enum step_result profiled;
        if (empty && profile_wished(r, &profiled))
            return profiled;
        if (empty)
            return wait_for_candidates(r);
        if (r->no_judging)
            return leave_to_runner(r);
        enum step_result result = take_first(r, key, list, &conflict);
        if (!conflict)
            return result;
    }
    return STEP_FAILED;
}

static enum step_result step_propose(struct run *r)
{
    return is_external(r) ? propose_external(r) : propose_own(r);
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
    return !is_external(r) && strcmp(json_str(baseline, "evidence", ""), "measured") == 0 && !json_int(job_shape(r->job, index), "tried", 0) && candidates_left(r, index) <= 0;
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

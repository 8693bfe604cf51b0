/*
 * The step that finds the next candidate. A generator of our own is asked with what was judged of the shape so far (and, where it wants
 * that, with estimates made before: prior.c; a language model in agent.c). A job of external candidates takes the first that waits
 * (external.c put it there), reads the card's counters while none does, and else sleeps.
 */
#include "server/jobs/internal.h"

#define SAVE_WALL_NS ((int64_t)30 * 1000000000)   /* a waiting job writes down its time this often */

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
    return run_take_on(r, b, next, index, record, NULL);
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
    int64_t left = run_candidates_left(r, index), all = json_int(json_object_get(r->job, "budget"), "candidates", 0);
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
    double left_s = json_num(json_object_get(r->job, "budget"), "wall_seconds", 0) - run_wall_spent(r);
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
    return run_take_on(r, b, next, index, record, ret_conflict);
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

enum step_result step_propose(struct run *r)
{
    return run_is_external(r) ? propose_external(r) : propose_own(r);
}

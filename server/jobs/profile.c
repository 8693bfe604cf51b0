/*
 * Profiles: what a card's own counters say of a candidate, for the prompt and the brief ("where its time goes"). Asked for the best candidate
 * of a shape (the baseline where nothing is right yet) and no other, once each, before it goes into a prompt: by a job of a language
 * model before each attempt, by one of external candidates when somebody asked for a brief. It stays with the candidate's record.
 *
 * A host that does not let anybody count says so once, in the log, and is not asked again before the next start; prompts then have the
 * emulator's counts alone. That a profile fails is nobody's end: the record says why, and the job goes on.
 */
#include "server/jobs/internal.h"

static bool must_stop(void *ctx)
{
    const struct run *r = ctx;
    return r->j->stopping || r->e->cancelled;
}

bool profile_lacks(struct jobs *j, const json_t *record)
{
    const json_t *figures = json_object_get(record, "figures");
    pthread_mutex_lock(&j->lock);
    bool may = j->config.profiles && !j->profiles_refused;
    pthread_mutex_unlock(&j->lock);
    return may && record && !json_object_get(record, "profile") && strcmp(json_str(figures, "evidence", ""), "measured") == 0;
}

void jobs_want_profile(struct jobs *j, const char *job)
{
    pthread_mutex_lock(&j->lock);
    for (struct entry *e = j->head; e; e = e->next)
        if (strcmp(e->id, job) == 0)
            e->profile_wished = true;
    pthread_mutex_unlock(&j->lock);
    entry_wake(j, job, false);
}

/* The record whose profile the next prompt of this shape would hold, and has not; NULL: none. New reference. */
static bool find_one(struct run *r, int index, json_t **ret, struct err *err)
{
    struct gen_past *past = NULL;
    struct gen_input in;
    cleanup(json) json_t *record = NULL;
    if (!run_load_shape(r, index, err) || !run_gen_input(r, index, 1, NULL, &past, &in, err))
        return false;
    int best = agent_best(&in);
    free(past);
    if (best >= 0)
        record = json_incref(r->past[best]);
    else if (!store_get(r->j->store, STORE_CANDIDATE, json_str(json_object_get(job_shape(r->job, index), "baseline"), "candidate", ""), &record, err))
        return false;
    *ret = profile_lacks(r->j, record) ? steal(&record) : NULL;
    return true;
}

static bool ask(struct run *r, const json_t *record, struct profile_answer *ret, struct err *err)
{
    struct spawn_config spawn = r->j->config.spawn;
    cleanup(str) char *ops_dir = op_folder(r->shape.op);
    cleanup(json) json_t *request = json_object();
    if (spawn.ops_dir)
        spawn.ops_dir = ops_dir;
    json_put(request, "shape", shape_encode(&r->shape));
    json_put_str(request, "op_digest", r->shape.op->digest.text);
    json_put(request, "candidate", json_incref(json_object_get(record, "candidate")));
    return spawn_profile(&spawn, request, must_stop, r, ret, err);
}

/* Not asked again: of this host where it refuses, of this candidate else. */
static void note_refusal(struct jobs *j, const char *why)
{
    pthread_mutex_lock(&j->lock);
    bool first = !j->profiles_refused;
    j->profiles_refused = true;
    pthread_mutex_unlock(&j->lock);
    if (first)
        log_line(LOG_WARN, "the card's counters cannot be read here: prompts have the emulator's counts alone", "error", why, NULL);
}

/* Into the record, as it is now: others may have written to it since it was read. */
static enum step_result keep(struct run *r, const json_t *record, const struct profile_answer *a)
{
    const char *id = json_str(record, "id", "");
    cleanup(json) json_t *was = NULL, *now = NULL;
    struct err err = {0};
    if (!store_get(r->j->store, STORE_CANDIDATE, id, &was, &err))
        return STEP_FAILED;
    now = json_deep_copy(was);
    json_put(now, "profile", a->profile ? json_incref(a->profile) : json_pack("{s:s}", "not_done", a->why));
    struct store_batch *b = store_batch_new();
    json_t *next = run_next(r);
    store_expect(b, STORE_CANDIDATE, id, was);
    store_put(b, STORE_CANDIDATE, id, json_str(record, "job", r->e->id), now);
    run_spend(next, "gpu_seconds", (double)a->gpu_ns / 1e9);
    enum step_result done = run_commit(r, b, next, NULL);
    if (done == STEP_GO)
        run_put_past(r, now);
    return done;
}

bool profile_best(struct run *r, int index, enum step_result *ret)
{
    struct err err = {0};
    cleanup(json) json_t *record = NULL;
    struct profile_answer a = {.profile = NULL};
    *ret = STEP_GO;
    if (!r->j->config.profiles || r->no_judging)
        return false;
    if (!find_one(r, index, &record, &err)) {
        *ret = run_fail(r, &err);
        return true;
    }
    if (!record)
        return false;
    if (!ask(r, record, &a, &err)) {
        if (must_stop(r)) {
            *ret = STEP_FAILED;
            return true;
        }
        log_line(LOG_WARN, "a profile failed", "job", r->e->id, "candidate", json_str(record, "id", ""), "error", err.text, NULL);
        snprintf(a.why, sizeof a.why, "%s", err.text);
    }
    if (a.refused)
        note_refusal(r->j, a.why);
    *ret = keep(r, record, &a);
    json_decref(a.profile);
    return true;
}

/* What a judgement means: for the candidate's record, the shape's best, the job's account, and the kernel that is served. */
#include "server/jobs/internal.h"

static bool verdict_small(const struct verdict *v)
{
    cleanup(str) char *text = v->detail ? json_text(v->detail) : NULL;
    return !text || strlen(text) <= VERDICT_MAX_BYTES;
}

/* A copy without what is too large to keep. */
static json_t *bounded_figures(const json_t *figures)
{
    cleanup(str) char *text = json_is_object(figures) ? json_text(figures) : NULL;
    if (!text)
        return json_null();
    if (strlen(text) <= FIGURES_MAX_BYTES)
        return json_deep_copy(figures);
    static const char *const keys[] = {"time_ns", "baseline_ns", "speedup", "evidence", "mode", "own_baseline", "triton"};
    json_t *brief = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(figures, keys[i]))
            json_object_set(brief, keys[i], json_object_get(figures, keys[i]));
    json_put_bool(brief, "cut", true);
    return brief;
}

static void event_timed(struct store_batch *b, const json_t *record, const json_t *figures)
{
    static const char *const keys[] = {"time_ns", "speedup", "evidence", "mode"};
    if (!(json_num(figures, "time_ns", 0) > 0))
        return;
    cleanup(json) json_t *doc = json_object();
    json_put_str(doc, "candidate", json_str(record, "id", ""));
    json_put_str(doc, "shape_hash", json_str(record, "shape_hash", ""));
    json_put_bool(doc, "is_baseline", json_bool(record, "is_baseline", false));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(figures, keys[i]))
            json_object_set(doc, keys[i], json_object_get(figures, keys[i]));
    store_event(b, "candidate.timed", json_str(record, "job", ""), doc);
}

static void event_verdict(struct store_batch *b, const json_t *record)
{
    static const char *const keys[] = {"code", "phase", "fault", "text", "for_person"};
    const json_t *verdict = json_object_get(record, "verdict");
    cleanup(json) json_t *doc = json_object();
    json_t *brief = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(brief, keys[i], json_object_get(verdict, keys[i]));
    json_put_str(doc, "candidate", json_str(record, "id", ""));
    json_put_str(doc, "shape_hash", json_str(record, "shape_hash", ""));
    json_put_bool(doc, "is_baseline", json_bool(record, "is_baseline", false));
    json_put(doc, "verdict", brief);
    store_event(b, "candidate.verdict", json_str(record, "job", ""), doc);
}

/* What the verdict, which stands now, has to teach: left for the knowledge layer in the same transaction. */
static void learn_from(struct run *r, struct store_batch *b, const json_t *record)
{
    const json_t *best = json_object_get(job_shape(r->job, r->shape_index), "best");
    if (!r->j->config.know || run_revalidates(r) || record_stands_for(record))
        return;
    const char *outside = strcmp(json_str(r->job, "generator", ""), "external") ? NULL : json_str(r->job, "caller", "anyone");
    know_put_judged(b, record, json_num(json_object_get(best, "speedup"), "median", 0), outside);
    r->to_learn = true;
}

void run_judged(struct run *r, struct store_batch *b, json_t *record, struct judge_answer *a)
{
    if (!verdict_small(&a->verdict)) {
        json_decref(a->verdict.detail);
        a->verdict.detail = json_pack("{s:b}", "cut", 1);
    }
    json_put_str(record, "state", "judged");
    json_object_del(record, "pending");
    json_put(record, "verdict", verdict_encode(&a->verdict));
    json_put(record, "figures", bounded_figures(a->figures));
    json_put_str(record, "judged", clock_text(clock_wall_ns()).text);
    if (verdict_is_correct(a->verdict.code) && a->certificate)
        manifest_store_artifacts(r->j, b, &r->shape, record, a);
    store_put(b, STORE_CANDIDATE, json_str(record, "id", ""), r->e->id, record);
    event_timed(b, record, json_object_get(record, "figures"));
    event_verdict(b, record);
    learn_from(r, b, record);
}

void run_pending(struct run *r, struct store_batch *b, json_t *record, struct judge_answer *a)
{
    json_put(record, "pending", verdict_encode(&a->verdict));
    json_put(record, "figures", bounded_figures(a->figures));
    if (a->certificate)
        manifest_store_artifacts(r->j, b, &r->shape, record, a);
    store_put(b, STORE_CANDIDATE, json_str(record, "id", ""), r->e->id, record);
    event_timed(b, record, json_object_get(record, "figures"));
}

void run_release(struct run *r, struct store_batch *b, json_t *record)
{
    json_put_str(record, "state", "judged");
    json_put(record, "verdict", json_incref(json_object_get(record, "pending")));
    json_object_del(record, "pending");
    json_put_str(record, "judged", clock_text(clock_wall_ns()).text);
    store_put(b, STORE_CANDIDATE, json_str(record, "id", ""), r->e->id, record);
    event_verdict(b, record);
    learn_from(r, b, record);
}

json_t *run_account(struct run *r, const struct judge_answer *a, const char *step)
{
    json_t *next = run_next(r);
    run_spend(next, "gpu_seconds", (double)a->gpu_ns / 1e9);
    json_object_del(next, "current");
    json_put_str(next, "step", step);
    return next;
}

enum step_result settle_refused(struct run *r, json_t *record, const struct err *why)
{
    struct judge_answer none = {0};
    json_t *next = run_account(r, &none, "pick"), *shape = job_shape(next, r->shape_index);
    struct store_batch *b = store_batch_new();
    json_put_str(record, "state", "dropped");
    store_put(b, STORE_CANDIDATE, json_str(record, "id", ""), r->e->id, record);
    json_put_str(shape, "state", "failed");
    json_put_str(shape, "why_ended", why->text);
    return run_commit(r, b, next, NULL);
}

/* The candidate, and the baseline with it, where its verdict does not wait: what is left to serve when the candidate is withdrawn. */
static bool offer_both(struct run *r, struct shelf *shelf, const json_t *shape, const json_t *record, const json_t *result, struct err *err)
{
    const json_t *base = json_object_get(shape, "baseline");
    cleanup(json) json_t *base_record = NULL;
    return store_get(r->j->store, STORE_CANDIDATE, json_str(base, "candidate", ""), &base_record, err) &&
           (json_bool(shape, "baseline_pending", false) || manifest_offer(r->j, shelf, &r->shape, base_record, base, NULL, err)) &&
           manifest_offer(r->j, shelf, &r->shape, record, result, NULL, err);
}

static bool is_served(const struct shelf *shelf, const char *id)
{
    return shelf_serves(shelf) && strcmp(shelf_serves(shelf), id) == 0;
}

/* The candidate's verdict stands. Where it is the shape's new best, the served kernel is decided in the same transaction. */
static enum step_result finish_candidate(struct run *r, json_t *record, struct judge_answer *a, bool retested)
{
    const bool contended = json_is_object(json_object_get(record, "pending"));
    if (contended)
        json_put(record, "triage", json_incref(json_object_get(record, "figures")));
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        struct err err = {0};
        struct store_batch *b = store_batch_new();
        json_t *next = run_account(r, a, contended ? "narrow" : "propose"), *shape = job_shape(next, r->shape_index);
        const char *id = json_str(record, "id", ""), *hash = json_str(shape, "shape_hash", "");
        cleanup(json) json_t *result = result_new(id, a->figures, false);
        cleanup(shelf) struct shelf shelf = {.changed = false};
        run_judged(r, b, record, a);
        bool best = retested && a->verdict.code == VERDICT_OK && result_beats(result, json_object_get(shape, "best"));
        bool held = candidate_is_held(record);
        bool offered = best && !run_serves_apart(r), ready = (!offered && !held) || shelf_open(r->j->store, hash, &shelf, &err);
        if (!ready || (offered && !offer_both(r, &shelf, shape, record, result, &err))) {
            store_batch_free(b);
            json_decref(next);
            return run_fail(r, &err);
        }
        if (held)
            shelf_hold(&shelf, id, a->verdict.text);
        if (offered || held)
            shelf_write(&shelf, b);
        if (contended)
            contender_retested(shape, id, best);
        else
            json_put_int(shape, "tried", json_int(shape, "tried", 0) + 1);
        if (best) {
            json_put(shape, "best", json_incref(result));
            event_best(b, next, hash, result, false, offered && is_served(&shelf, id), false);
        }
        bool conflict;
        enum step_result done = run_commit(r, b, next, &conflict);
        if (done == STEP_GO && contended)
            run_put_past(r, record);
        else if (done == STEP_GO && r->past_count >= 0)
            run_add_past(r, record);
        if (!conflict)
            return done;   /* otherwise another job has changed the served kernel meanwhile: decided again */
    }
    return STEP_FAILED;
}

enum step_result settle_triage(struct run *r, json_t *record, struct judge_answer *a)
{
    cleanup(json) json_t *result = result_new(json_str(record, "id", ""), a->figures, false);
    const json_t *best = json_object_get(job_shape(r->job, r->shape_index), "best");
    if (a->verdict.code != VERDICT_OK || !result_beats(result, best))
        return finish_candidate(r, record, a, false);
    if (contends(r, record, a))
        return settle_contender(r, record, a);
    struct store_batch *b = store_batch_new();
    json_t *next = run_account(r, a, "confirm");
    json_put_str(next, "current", json_str(record, "id", ""));
    json_put_str(record, "state", "judging");
    json_put(record, "triage", bounded_figures(a->figures));
    store_put(b, STORE_CANDIDATE, json_str(record, "id", ""), r->e->id, record);
    event_timed(b, record, json_object_get(record, "triage"));
    return run_commit(r, b, next, NULL);
}

enum step_result settle_retest(struct run *r, json_t *record, struct judge_answer *a)
{
    if (verdict_is_correct(a->verdict.code) && a->verdict.code != VERDICT_OK && a->verdict.code != VERDICT_NOT_CONFIRMED) {
        char before[sizeof a->verdict.text];
        snprintf(before, sizeof before, "%s", a->verdict.text);
        verdict_set(&a->verdict, VERDICT_NOT_CONFIRMED, "retest", "the retest said %s: %s", verdict_name(a->verdict.code), before);
    }
    return finish_candidate(r, record, a, true);
}

enum step_result settle_close(struct run *r, int index)
{
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        struct err err = {0};
        cleanup(json) json_t *record = NULL;
        cleanup(shelf) struct shelf shelf = {.changed = false};
        struct store_batch *b = store_batch_new();
        json_t *next = run_next(r), *shape = job_shape(next, index);
        const json_t *best = json_object_get(shape, "best");
        const char *id = json_str(best, "candidate", "");
        json_put_str(shape, "state", "done");
        prior_drop(b, r->e->id, index);
        if (r->j->config.know && run_load_shape(r, index, &err)) {
            know_put_closed(b, r->e->id, json_str(shape, "shape_hash", ""), r->shape.op->version);
            r->to_learn = true;
        }
        if (!run_serves_apart(r) && strcmp(id, json_str(json_object_get(shape, "baseline"), "candidate", "")) == 0) {
            if (!run_load_shape(r, index, &err) || !store_get(r->j->store, STORE_CANDIDATE, id, &record, &err) ||
                !shelf_open(r->j->store, json_str(shape, "shape_hash", ""), &shelf, &err) ||
                !manifest_offer(r->j, &shelf, &r->shape, record, best, NULL, &err)) {
                store_batch_free(b);
                json_decref(next);
                return run_fail(r, &err);
            }
            shelf_write(&shelf, b);
            event_best(b, next, json_str(shape, "shape_hash", ""), best, true, is_served(&shelf, id), false);
        }
        bool conflict;
        enum step_result done = run_commit(r, b, next, &conflict);
        if (!conflict)
            return done;
    }
    return STEP_FAILED;
}

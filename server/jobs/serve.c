/*
 * A job's own baseline may be as slow as its owner likes, and what beats it may still be slower than what everybody has. So nothing of
 * such a job is served by what it was measured against there: when a shape's search is over, its best (the job's own baseline, where
 * nothing beat that) is retested once more, as a candidate beside the operator's baseline:
 *
 *   close ─ serve ─ close ...
 *
 * What holds there goes on the shelf with the figures and the certificate of that judgement; what doesn't stays the job's best, and is
 * not served. The shape keeps what it came to: "serving":{"candidate","stands_for","verdict","text","served","time_ns"?,"speedup"?,"evidence"?}.
 * The judgement is not of the job's budget, as those of baselines are not.
 */
#include "server/jobs/internal.h"

bool run_serves_apart(const struct run *r)
{
    return json_is_object(json_object_get(r->job, "baseline"));
}

const char *record_stands_for(const json_t *record)
{
    return json_str(json_object_get(record, "origin"), "stands_for", NULL);
}

bool serving_is_due(const struct run *r, int index)
{
    const json_t *shape = job_shape(r->job, index);
    return run_serves_apart(r) && json_is_object(json_object_get(shape, "best")) && !json_object_get(shape, "serving");
}

enum step_result serving_begin(struct run *r, int index)
{
    struct err err = {0};
    cleanup(json) json_t *best = NULL;
    const char *hash = json_str(job_shape(r->job, index), "shape_hash", ""), *id = json_str(json_object_get(job_shape(r->job, index), "best"), "candidate", "");
    if (!run_load_shape(r, index, &err) || !store_get(r->j->store, STORE_CANDIDATE, id, &best, &err))
        return run_fail(r, &err);
    struct id fresh = id_new("cand");
    cleanup(json) json_t *origin = json_is_object(json_object_get(best, "origin")) ? json_copy(json_object_get(best, "origin")) : json_object();
    json_put_str(origin, "stands_for", id);
    cleanup(json) json_t *record = candidate_record_new(fresh.text, r->e->id, hash, json_str(best, "op", ""), json_object_get(best, "candidate"), origin, false);
    struct store_batch *b = store_batch_new();
    json_t *next = run_next(r);
    json_put_str(record, "state", "judging");
    if (json_bool(best, "is_baseline", false))           /* nothing beat it */
        event_best(b, next, hash, json_object_get(job_shape(next, index), "best"), true, false, false);
    event_proposed(b, record);
    store_put(b, STORE_CANDIDATE, fresh.text, r->e->id, record);
    json_put_int(next, "shape", index);
    json_put_str(next, "current", fresh.text);
    json_put_str(next, "step", "serve");
    return run_commit(r, b, next, NULL);
}

static json_t *serving_new(const json_t *record, const char *verdict, const char *text)
{
    json_t *doc = json_object();
    json_put_str(doc, "candidate", json_str(record, "id", ""));
    json_put_str(doc, "stands_for", record_stands_for(record));
    json_put_str(doc, "verdict", verdict);
    json_put_str(doc, "text", text);
    json_put_bool(doc, "served", false);
    return doc;
}

enum step_result settle_serving(struct run *r, json_t *record, struct judge_answer *a)
{
    static const char *const told[] = {"time_ns", "speedup", "evidence"};
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        struct err err = {0};
        cleanup(shelf) struct shelf shelf = {.changed = false};
        struct store_batch *b = store_batch_new();
        json_t *next = run_account(r, a, "close"), *shape = job_shape(next, r->shape_index);
        const char *id = json_str(record, "id", ""), *hash = json_str(shape, "shape_hash", "");
        cleanup(json) json_t *result = result_new(id, a->figures, false);
        json_put_str(result, "stands_for", record_stands_for(record));
        run_judged(r, b, record, a);
        const bool holds = a->verdict.code == VERDICT_OK, held = candidate_is_held(record);
        const bool ready = (!holds && !held) || shelf_open(r->j->store, hash, &shelf, &err);
        if (!ready || (holds && !manifest_offer(r->j, &shelf, &r->shape, record, result, NULL, &err))) {
            store_batch_free(b);
            json_decref(next);
            return run_fail(r, &err);
        }
        if (held)
            shelf_hold(&shelf, id, a->verdict.text);
        if (holds || held)
            shelf_write(&shelf, b);
        const bool served = holds && shelf_serves(&shelf) && !strcmp(shelf_serves(&shelf), id);
        json_t *serving = serving_new(record, verdict_name(a->verdict.code), a->verdict.text);
        json_put(shape, "serving", serving);
        json_put_bool(serving, "served", served);
        for (size_t i = 0; i < sizeof told / sizeof *told && json_num(a->figures, "time_ns", 0) > 0; i++)
            json_object_set(serving, told[i], json_object_get(result, told[i]));
        if (served)
            event_best(b, next, hash, result, false, true, false);
        bool conflict;
        enum step_result done = run_commit(r, b, next, &conflict);
        if (!conflict)
            return done;                 /* otherwise another job has changed the shelf meanwhile: decided again */
    }
    return STEP_FAILED;
}

enum step_result serving_failed(struct run *r, json_t *record, const struct err *why)
{
    const struct judge_answer none = {0};
    json_t *next = run_account(r, &none, "close");
    struct store_batch *b = store_batch_new();
    json_put_str(record, "state", "dropped");
    store_put(b, STORE_CANDIDATE, json_str(record, "id", ""), r->e->id, record);
    json_put(job_shape(next, r->shape_index), "serving", serving_new(record, "judge_error", why->text));
    return run_commit(r, b, next, NULL);
}

/*
 * A shape's baseline. It is judged in full before the search, unless the configuration says that a triage will do: a job of many shapes
 * is over sooner then, since a retest times it again beside each candidate that is to be served. Its verdict waits ("pending" in its
 * record, "baseline_pending" in the shape) until the shape is closed: where nothing beat it, it is judged in full and served, else what
 * triage said stands, and it isn't offered as what is left when the candidate is withdrawn.
 */
#include "server/jobs/internal.h"

const char *baseline_mode(const struct run *r)
{
    bool external = strcmp(json_str(r->job, "generator", ""), "external") == 0;
    return r->j->config.baseline_triage && !external && !run_revalidates(r) && strcmp(json_str(r->job, "step", ""), "baseline") != 0 ? "triage" : "full";
}

static bool waits(const struct run *r, const struct judge_answer *a)
{
    return strcmp(baseline_mode(r), "triage") == 0 && verdict_is_correct(a->verdict.code);
}

enum step_result settle_baseline(struct run *r, json_t *record, struct judge_answer *a)
{
    bool external = strcmp(json_str(r->job, "generator", ""), "external") == 0, right = verdict_is_correct(a->verdict.code);
    bool closing = strcmp(json_str(r->job, "step", ""), "baseline") == 0, pending = waits(r, a);
    if (run_revalidates_baseline(r))
        return settle_revalidation(r, record, a);
    const char *then = closing ? "close" : !right || external ? "pick" : run_revalidates(r) ? "revalidate" : "propose";
    json_t *next = run_account(r, a, then), *shape = job_shape(next, r->shape_index);
    struct store_batch *b = store_batch_new();
    if (pending)
        run_pending(r, b, record, a);
    else
        run_judged(r, b, record, a);
    json_put(shape, "baseline_pending", json_boolean(pending));
    if (!pending)
        json_object_del(shape, "baseline_pending");
    if (right) {
        json_t *result = result_new(json_str(record, "id", ""), a->figures, true);
        json_put(shape, "baseline", result);
        json_put(shape, "best", json_incref(result));
        json_put_str(shape, "state", "searching");
    } else {
        cleanup(str) char *why = xfmt("its baseline was judged %s: %s", verdict_name(a->verdict.code), a->verdict.text);
        json_put_str(shape, "state", "failed");
        json_put_str(shape, "why_ended", why);
    }
    return run_commit(r, b, next, NULL);
}

bool baseline_waits(const struct run *r, int index)
{
    return json_bool(job_shape(r->job, index), "baseline_pending", false);
}

enum step_result baseline_close(struct run *r, int index)
{
    struct err err = {0};
    cleanup(json) json_t *record = NULL;
    json_t *next = run_next(r), *shape = job_shape(next, index);
    const char *id = json_str(json_object_get(shape, "baseline"), "candidate", "");
    if (strcmp(id, json_str(json_object_get(shape, "best"), "candidate", "")) == 0) {
        json_put_int(next, "shape", index);
        json_put_str(next, "current", id);
        json_put_str(next, "step", "baseline");
        return run_commit(r, store_batch_new(), next, NULL);
    }
    if (!store_get(r->j->store, STORE_CANDIDATE, id, &record, &err)) {
        json_decref(next);
        return run_fail(r, &err);
    }
    struct store_batch *b = store_batch_new();
    run_release(r, b, record);
    json_object_del(shape, "baseline_pending");
    return run_commit(r, b, next, NULL);
}

/* Jobs and candidates. What is asked for is checked by server/jobs; here it becomes HTTP. */
#include "server/api/api.h"

#include <string.h>

#define SPENDING_MOST_DAYS 100
#define SPENDING_USUAL_DAYS 7

/* A record by its id in the path, with as_of; the document is the caller's. False: the response is set. */
static bool find_record(const struct request *req, struct response *res, enum store_kind kind, const char *prefix, const char *what,
                        json_t **ret)
{
    struct err err;
    json_t *doc = NULL;
    int64_t as_of = 0;
    const char *id = req->params[0];
    if (!id_valid(id, prefix))
        err_set(&err, ERR_NOT_FOUND, "\"%.60s\" is not the id of a %s (%s_...)", id, what, prefix);
    else if (store_get_as_of(app_of(req)->store, kind, id, &doc, &as_of, &err)) {
        json_put_int(doc, "as_of", as_of);
        *ret = doc;
        return true;
    } else if (err.code == ERR_NOT_FOUND) {
        err_set(&err, ERR_NOT_FOUND, "there is no %s %s", what, id);
    }
    respond_err(req, res, &err);
    return false;
}

static void remember_shapes(struct app *app, const json_t *job)
{
    const json_t *shapes = json_object_get(job, "shapes"), *shape;
    size_t i;
    json_array_foreach(shapes, i, shape) {
        shape_memory_add(app->shapes, json_str(shape, "shape_hash", ""), json_object_get(shape, "shape"));
    }
}

void jobs_post(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    struct claim claim;
    if (!rate_allows(req, res) || !claim_begin(req, res, &claim))
        return;
    struct faults faults = {0};
    struct err err = {0};
    json_t *job = NULL;
    int64_t as_of = 0;
    cleanup(json) json_t *record = claim.held ? claim_record(&claim, 202) : NULL;
    bool ok = record ? jobs_submit_once(app->jobs, req->json, req->caller.id, claim.id.text, record, &job, &as_of, &faults, &err)
                     : jobs_submit(app->jobs, req->json, req->caller.id, &job, &as_of, &faults, &err);
    if (ok) {
        json_put_int(job, "as_of", as_of);
        remember_shapes(app, job);
        if (record)
            claim_keep_later(req, &claim, record, "job", job);
        respond_header(res, "Location", "/v1/jobs/%s", json_str(job, "id", ""));
        respond_json(res, 202, job);
    } else {
        respond_faults(req, res, &err, &faults);
    }
    claim_end(req, &claim);
}

/* What may stand in ?state=: live and ended are of several states. */
static const struct { const char *name, *states[4]; } job_filters[] = {
    {"queued", {"queued"}}, {"running", {"running"}}, {"done", {"done"}}, {"failed", {"failed"}}, {"cancelled", {"cancelled"}},
    {"live", {"queued", "running"}}, {"ended", {"done", "failed", "cancelled"}},
};

static bool keep_state(void *ctx, json_t *doc)
{
    const size_t which = *(size_t *)ctx;
    for (int i = 0; job_filters[which].states[i]; i++)
        if (strcmp(json_str(doc, "state", ""), job_filters[which].states[i]) == 0)
            return true;
    return false;
}

void jobs_list(const struct request *req, struct response *res)
{
    const char *state = req->query(req, "state");
    size_t which = 0;
    if (!state) {
        page_respond(req, res, STORE_JOB, true, "jobs", "", NULL, NULL);
        return;
    }
    while (which < sizeof job_filters / sizeof *job_filters && strcmp(job_filters[which].name, state) != 0)
        which++;
    if (which < sizeof job_filters / sizeof *job_filters)
        page_respond(req, res, STORE_JOB, true, "jobs", state, keep_state, &which);
    else
        respond_bad_query(req, res, "state", "is queued, running, done, failed, cancelled, live (queued or running) or ended");
}

void jobs_get(const struct request *req, struct response *res)
{
    json_t *job = NULL;
    if (!find_record(req, res, STORE_JOB, "job", "job", &job))
        return;
    remember_shapes(app_of(req), job);
    respond_json(res, 200, job);
    respond_etag(res, "no-cache");
}

bool job_is_callers(const struct request *req, const char *id, struct err *err)
{
    cleanup(json) json_t *job = NULL;
    struct err why = {0};
    if (!id_valid(id, "job"))
        return err_set(err, ERR_NOT_FOUND, "\"%.60s\" is not the id of a job (job_...)", id);
    if (!store_get(app_of(req)->store, STORE_JOB, id, &job, &why))
        return why.code == ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "there is no job %s", id) : err_set(err, why.code, "%s", why.text);
    if (req->caller.scope >= SCOPE_ADMIN || !strcmp(json_str(job, "caller", ""), req->caller.id))
        return true;
    return err_set(err, ERR_FORBIDDEN, "job %s is another caller's: the token that made it, or one with the scope \"admin\", is needed", id);
}

void jobs_post_cancel(const struct request *req, struct response *res)
{
    struct err err;
    json_t *job = NULL;
    if (!rate_allows(req, res))
        return;
    if (!job_is_callers(req, req->params[0], &err) || !jobs_cancel(app_of(req)->jobs, req->params[0], &job, &err)) {
        respond_err(req, res, &err);
        return;
    }
    json_put_int(job, "as_of", store_last_event(app_of(req)->store));
    respond_json(res, 200, job);
}

void jobs_post_candidate(const struct request *req, struct response *res)
{
    struct claim claim;
    if (!rate_allows(req, res) || !claim_begin(req, res, &claim))
        return;
    struct faults faults = {0};
    struct err err = {0};
    json_t *candidate = NULL;
    struct jobs *jobs = app_of(req)->jobs;
    cleanup(json) json_t *record = claim.held ? claim_record(&claim, 202) : NULL;
    bool ok = job_is_callers(req, req->params[0], &err) &&
              (record ? jobs_add_candidate_once(jobs, req->params[0], req->json, claim.id.text, record, &candidate, &faults, &err)
                      : jobs_add_candidate(jobs, req->params[0], req->json, &candidate, &faults, &err));
    if (ok) {
        respond_header(res, "Location", "/v1/candidates/%s", json_str(candidate, "id", ""));
        respond_json(res, 202, candidate);
    } else {
        respond_faults(req, res, &err, &faults);
    }
    claim_end(req, &claim);
}

static void take(json_t *to, const json_t *from, const char *const *keys)
{
    for (; *keys; keys++) {
        json_t *value = json_object_get(from, *keys);
        if (value && !json_is_null(value))
            json_object_set(to, *keys, value);
    }
}

/* A candidate as lists show it: without source, plan, samples and log. */
static bool candidate_brief(void *ctx, json_t *record)
{
    static const char *const own[] = {"id", "shape_hash", "op", "state", "is_baseline", "origin", "created", "judged", "decision", NULL};
    static const char *const inner[] = {"language", "notes", "parent", "lessons", NULL}, *const said[] = {"code", "phase", "fault", "text", NULL};
    static const char *const figures[] = {"time_ns", "baseline_ns", "speedup", "evidence", "mode", "bound", NULL};
    cleanup(json) json_t *brief = json_object();
    const json_t *verdict = json_object_get(record, "verdict");
    (void)ctx;
    take(brief, record, own);
    take(brief, json_object_get(record, "candidate"), inner);
    take(brief, json_object_get(record, "figures"), figures);
    json_put(brief, "verdict", json_is_object(verdict) ? json_object() : json_null());
    take(json_object_get(brief, "verdict"), verdict, said);
    json_object_clear(record);
    json_object_update(record, brief);
    return true;
}

void jobs_candidates(const struct request *req, struct response *res)
{
    json_t *job = NULL;
    if (!find_record(req, res, STORE_JOB, "job", "job", &job))
        return;
    json_decref(job);
    page_respond_of(req, res, STORE_CANDIDATE, req->params[0], true, "candidates", req->params[0], candidate_brief, NULL);
}

void jobs_attempts(const struct request *req, struct response *res)
{
    json_t *job = NULL;
    if (!find_record(req, res, STORE_JOB, "job", "job", &job))
        return;
    json_decref(job);
    page_respond_of(req, res, STORE_ATTEMPT, req->params[0], false, "attempts", req->params[0], NULL, NULL);
}

void candidates_get(const struct request *req, struct response *res)
{
    json_t *candidate = NULL;
    if (!find_record(req, res, STORE_CANDIDATE, "cand", "candidate", &candidate))
        return;
    respond_json(res, 200, candidate);
    respond_etag(res, "no-cache");
}

void spending_get(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    int64_t days;
    if (!request_int(req, res, "days", 1, SPENDING_MOST_DAYS, SPENDING_USUAL_DAYS, &days))
        return;
    int64_t as_of = store_last_event(app->store);     /* read first: what is spent later may be in the sums already, never the other way */
    json_t *doc = jobs_spending(app->jobs, (int)days);
    json_put_int(doc, "as_of", as_of);
    respond_json(res, 200, doc);
}

/*
 * What an admin does to kernels: withdraw one, bring it back, have it judged again; decide about a candidate that is held. Bodies are
 * optional: {"candidate"?,"reason"?}. Naming the candidate makes a repeated request mean the same kernel, whatever is served by then.
 */
#include "server/api/api.h"

#include <string.h>

/* False: the response is set. The texts are borrowed from the request. */
static bool read_order(const struct request *req, struct response *res, bool of_kernel, struct shelf_order *ret)
{
    static const char *const keys[] = {"reason", "candidate", NULL}, *const only_reason[] = {"reason", NULL};
    struct faults f = {0};
    const json_t *body = req->json, *candidate = json_object_get(body, "candidate"), *reason = json_object_get(body, "reason");
    *ret = (struct shelf_order){.reason = "no reason was given", .by = req->caller.id};
    if (body && !json_is_object(body)) {
        faults_add(&f, "", "must be an object");
    } else if (body) {
        json_only_keys(body, "", of_kernel ? keys : only_reason, &f);
        if (candidate && of_kernel && (!json_is_string(candidate) || !id_valid(json_string_value(candidate), "cand")))
            faults_add(&f, "/candidate", "must be the id of a candidate (cand_...)");
        if (reason && (!json_is_string(reason) || !json_string_length(reason) || json_string_length(reason) > SHELF_REASON_BYTES))
            faults_add(&f, "/reason", "must be a text of 1 to %d bytes", SHELF_REASON_BYTES);
    }
    if (f.count) {
        respond_faults(req, res, NULL, &f);
        return false;
    }
    if (candidate)
        ret->candidate = json_string_value(candidate);
    if (reason)
        ret->reason = json_string_value(reason);
    return rate_allows(req, res);
}

static bool path_is(const struct request *req, struct response *res, bool ok, const char *what)
{
    struct err err;
    if (ok)
        return true;
    err_set(&err, ERR_NOT_FOUND, "\"%.80s\" is no %s", req->params[0], what);
    respond_err(req, res, &err);
    return false;
}

#define HASH_WORDS "shape hash: those are 64 lower-case hex digits"

typedef bool change_kernel(struct store *store, const char *hash, const struct shelf_order *order, json_t **ret, struct err *err);

static void change(const struct request *req, struct response *res, change_kernel *how)
{
    struct app *app = app_of(req);
    struct shelf_order order;
    struct err err = {0};
    json_t *view = NULL;
    if (!path_is(req, res, hash_hex_valid(req->params[0]), HASH_WORDS) || !read_order(req, res, true, &order))
        return;
    if (!how(app->store, req->params[0], &order, &view, &err)) {
        respond_err(req, res, &err);
        return;
    }
    json_put_int(view, "as_of", store_last_event(app->store));
    respond_json(res, 200, view);
}

void kernels_quarantine(const struct request *req, struct response *res)
{
    change(req, res, kernel_quarantine);
}

void kernels_restore(const struct request *req, struct response *res)
{
    change(req, res, kernel_restore);
}

static void respond_job(const struct request *req, struct response *res, bool ok, json_t *job, const struct err *err)
{
    if (!ok) {
        respond_err(req, res, err);
        return;
    }
    json_put_int(job, "as_of", store_last_event(app_of(req)->store));
    respond_header(res, "Location", "/v1/jobs/%s", json_str(job, "id", ""));
    respond_json(res, 202, job);
}

void kernels_revalidate(const struct request *req, struct response *res)
{
    struct shelf_order order;
    struct err err = {0};
    json_t *job = NULL;
    if (!path_is(req, res, hash_hex_valid(req->params[0]), HASH_WORDS) || !read_order(req, res, true, &order))
        return;
    bool ok = jobs_revalidate(app_of(req)->jobs, req->params[0], &order, &job, &err);
    respond_job(req, res, ok, job, &err);
}

void kernels_candidates(const struct request *req, struct response *res)
{
    cleanup(shelf) struct shelf shelf = {.changed = false};
    struct err err = {0};
    if (!path_is(req, res, hash_hex_valid(req->params[0]), HASH_WORDS))
        return;
    if (!shelf_open(app_of(req)->store, req->params[0], &shelf, &err)) {
        respond_err(req, res, &err);
        return;
    }
    respond_json(res, 200, shelf_view(&shelf));
    respond_etag(res, "no-cache");
}

void candidates_release(const struct request *req, struct response *res)
{
    struct shelf_order order;
    struct err err = {0};
    json_t *job = NULL;
    if (!path_is(req, res, id_valid(req->params[0], "cand"), "id of a candidate (cand_...)") || !read_order(req, res, false, &order))
        return;
    bool ok = jobs_release(app_of(req)->jobs, req->params[0], &order, &job, &err);
    respond_job(req, res, ok, job, &err);
}

void candidates_refuse(const struct request *req, struct response *res)
{
    struct shelf_order order;
    struct err err = {0};
    json_t *record = NULL;
    if (!path_is(req, res, id_valid(req->params[0], "cand"), "id of a candidate (cand_...)") || !read_order(req, res, false, &order))
        return;
    if (candidate_refuse(app_of(req)->store, req->params[0], &order, &record, &err))
        respond_json(res, 200, record);
    else
        respond_err(req, res, &err);
}

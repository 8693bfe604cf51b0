/* Shapes from the field with their counts: taken as JSON lines, shown in the order of what a search would save. */
#include "server/api/api.h"

#include "server/jobs/observed.h"

#include <string.h>

void observations_post(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    struct observed_limits limits = {.lines = app->config->observation_lines, .shapes = app->config->max_observed};
    struct faults f = {0};
    struct err err = {0};
    json_t *doc = NULL;
    if (!rate_allows(req, res))
        return;
    if (!observed_add(app->store, app->ops, app->default_target, req->body, req->body_bytes, &limits, &doc, &f, &err)) {
        respond_faults(req, res, &err, &f);
        return;
    }
    jobs_observed(app->jobs);
    respond_json(res, 200, doc);
}

void observations_list(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    int64_t limit;
    struct err err = {0};
    json_t *doc = json_object(), *list = NULL;
    if (!request_int(req, res, "limit", 1, app->config->max_page, 20, &limit)) {
        json_decref(doc);
        return;
    }
    json_put_int(doc, "as_of", store_last_event(app->store));
    if (!observed_rank(app->store, app->ops, req->query(req, "op"), (int)limit, &list, &err)) {
        json_decref(doc);
        respond_err(req, res, &err);
        return;
    }
    json_put(doc, "observations", list);
    respond_json(res, 200, doc);
}

void observations_clear(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    struct err err = {0};
    int64_t count = 0;
    if (!rate_allows(req, res))
        return;
    if (!observed_clear(app->store, &count, &err)) {
        respond_err(req, res, &err);
        return;
    }
    jobs_observed(app->jobs);
    respond_json(res, 200, json_pack("{s:I}", "forgotten", (json_int_t)count));
}

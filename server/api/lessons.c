/*
 * Lessons: looked for, proposed with evidence or signed by an operator, ended; failure notes of a shape; steps of consolidation, and taking
 * them back. All texts are a stranger's: they go out as JSON strings and are never anything else.
 */
#include "server/api/api.h"

#include "know/lessons.h"

#include <string.h>

#define REASON_BYTES 500
#define TAGS_BYTES 2048

static bool layer_is_there(const struct request *req, struct response *res)
{
    struct err err = {0};
    if (app_of(req)->know)
        return true;
    err_set(&err, ERR_UNAVAILABLE, "this service has no knowledge layer");
    respond_err(req, res, &err);
    return false;
}

/* ---- looking for ---- */

/* ?tag= may hold several, with commas between; ?op= and ?target= are short for tags. */
static bool read_tags(const struct request *req, struct response *res, struct lesson_tags *tags)
{
    static const char *const facets[] = {"op", "target"};
    const char *list = req->query(req, "tag");
    if (list && strlen(list) > TAGS_BYTES) {
        respond_bad_query(req, res, "tag", "has more than %d bytes", TAGS_BYTES);
        return false;
    }
    cleanup(str) char *copy = xstrdup(list ? list : "");
    char *save = NULL;
    for (char *tag = strtok_r(copy, ",", &save); tag; tag = strtok_r(NULL, ",", &save))
        if (!lesson_tags_add(tags, "%s", tag)) {
            respond_bad_query(req, res, "tag", "\"%.70s\" is no tag, or there are more than %d; a tag is FACET/NAME with a facet of op, target, dtype, regime, "
                              "symptom, technique, template", tag, LESSON_MAX_TAGS);
            return false;
        }
    for (size_t i = 0; i < sizeof facets / sizeof *facets; i++) {
        const char *value = req->query(req, facets[i]);
        if (value && !lesson_tags_add(tags, "%s/%s", facets[i], value)) {
            respond_bad_query(req, res, facets[i], "\"%.70s\" cannot be a tag", value);
            return false;
        }
    }
    return true;
}

static void respond_found(const struct request *req, struct response *res, const struct lesson_tags *tags, bool ended_too)
{
    struct app *app = app_of(req);
    const char *list[LESSON_MAX_TAGS];
    int64_t limit, budget;
    struct err err = {0};
    cleanup(lesson_list) struct lesson_list found = {.count = 0};
    if (!request_int(req, res, "limit", 1, app->config->max_page, 8, &limit) || !request_int(req, res, "token_budget", 1, 1000000, 0, &budget))
        return;
    for (int i = 0; i < tags->count; i++)
        list[i] = tags->list[i];
    struct lesson_query q = {.tags = list, .tag_count = tags->count, .text = req->query(req, "q"), .limit = (int)limit, .token_budget = (int)budget, .ended_too = ended_too,
                             .may_wait = true};
    int64_t as_of = store_last_event(app->store);
    if (!lessons_retrieve(app->know, &q, &found, &err)) {
        respond_err(req, res, &err);
        return;
    }
    json_t *doc = lesson_list_encode(&found);
    json_put(doc, "next", json_null());
    json_put_int(doc, "as_of", as_of);
    respond_json(res, 200, doc);
}

static bool keep_active(void *ctx, json_t *doc)
{
    return *(bool *)ctx || !strcmp(json_str(doc, "state", ""), "active");
}

void lessons_list(const struct request *req, struct response *res)
{
    struct lesson_tags tags = {.count = 0};
    const char *state = req->query(req, "state");
    bool all = state && !strcmp(state, "all");
    if (!layer_is_there(req, res) || !read_tags(req, res, &tags))
        return;
    if (state && !all && strcmp(state, "active"))
        respond_bad_query(req, res, "state", "is active (what is left out) or all");
    else if (tags.count || req->query(req, "q"))
        respond_found(req, res, &tags, all);
    else
        page_respond(req, res, STORE_LESSON, true, "lessons", all ? "all" : "active", keep_active, &all);
}

static bool path_is(const struct request *req, struct response *res, const char *prefix)
{
    struct err err = {0};
    if (id_valid(req->params[0], prefix))
        return true;
    err_set(&err, ERR_NOT_FOUND, "\"%.80s\" is no id of this kind (%s_...)", req->params[0], prefix);
    respond_err(req, res, &err);
    return false;
}

void lessons_get(const struct request *req, struct response *res)
{
    struct err err = {0};
    json_t *doc = NULL;
    if (!path_is(req, res, "les"))
        return;
    if (!store_get(app_of(req)->store, STORE_LESSON, req->params[0], &doc, &err)) {
        respond_err(req, res, &err);
        return;
    }
    respond_json(res, 200, doc);
    respond_etag(res, "no-cache");
}

/* ---- proposing, ending ---- */

void lessons_post(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    struct faults f = {0};
    struct err err = {0};
    json_t *doc = NULL;
    const json_t *name = json_object_get(req->json, "signed_by");
    if (!layer_is_there(req, res) || !rate_allows(req, res))
        return;
    if (name && req->caller.scope < SCOPE_ADMIN) {
        err_set(&err, ERR_FORBIDDEN, "only an operator (admin scope) signs for a lesson; others give evidence");
        respond_err(req, res, &err);
        return;
    }
    cleanup(json) json_t *request = json_is_object(req->json) ? json_copy((json_t *)(uintptr_t)req->json) : json_null();
    json_object_del(request, "signed_by");
    if (!lessons_propose(app->know, request, name ? "operator" : "external", req->caller.id, name ? json_is_string(name) ? json_string_value(name) : "" : NULL, &doc, &f,
                         &err)) {
        respond_faults(req, res, &err, &f);
        return;
    }
    respond_header(res, "Location", "/v1/lessons/%s", json_str(doc, "id", ""));
    respond_json(res, 201, doc);
}

/* {"reason"} of an optional body; false: the response is set. */
static bool read_reason(const struct request *req, struct response *res, const char **ret)
{
    static const char *const keys[] = {"reason", NULL};
    struct faults f = {0};
    const json_t *reason = json_object_get(req->json, "reason");
    *ret = "an operator ended it";
    if (req->json && !json_is_object(req->json))
        faults_add(&f, "", "must be an object");
    else if (req->json)
        json_only_keys(req->json, "", keys, &f);
    if (reason && (!json_is_string(reason) || !json_string_length(reason) || json_string_length(reason) > REASON_BYTES))
        faults_add(&f, "/reason", "must be a text of 1 to %d bytes", REASON_BYTES);
    if (f.count) {
        respond_faults(req, res, NULL, &f);
        return false;
    }
    if (reason)
        *ret = json_string_value(reason);
    return rate_allows(req, res);
}

void lessons_post_retire(const struct request *req, struct response *res)
{
    struct err err = {0};
    json_t *doc = NULL;
    const char *reason;
    if (!layer_is_there(req, res) || !path_is(req, res, "les") || !read_reason(req, res, &reason))
        return;
    if (lessons_retire(app_of(req)->know, req->params[0], reason, &doc, &err))
        respond_json(res, 200, doc);
    else
        respond_err(req, res, &err);
}

/* ---- notes and steps ---- */

void notes_get(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    struct err err = {0};
    int64_t limit, budget;
    json_t *list = NULL;
    if (!layer_is_there(req, res) || !request_int(req, res, "limit", 1, app->config->max_page, 8, &limit) ||
        !request_int(req, res, "token_budget", 1, 1000000, 0, &budget))
        return;
    if (!hash_hex_valid(req->params[0]))
        err_set(&err, ERR_NOT_FOUND, "\"%.80s\" is no shape hash: those are 64 lower-case hex digits", req->params[0]);
    if (err.code != ERR_OK || !notes_retrieve(app->know, req->params[0], req->query(req, "parent"), (int)limit, (int)budget, &list, &err)) {
        respond_err(req, res, &err);
        return;
    }
    json_t *doc = json_object();
    json_put_str(doc, "shape_hash", req->params[0]);
    json_put(doc, "notes", list);
    respond_json(res, 200, doc);
}

void lesson_steps_list(const struct request *req, struct response *res)
{
    page_respond(req, res, STORE_STEP, true, "steps", "", NULL, NULL);
}

void lesson_steps_post_undo(const struct request *req, struct response *res)
{
    struct err err = {0};
    json_t *doc = NULL;
    if (!layer_is_there(req, res) || !path_is(req, res, "step") || !rate_allows(req, res))
        return;
    if (know_undo(app_of(req)->know, req->params[0], req->caller.id, &doc, &err))
        respond_json(res, 200, doc);
    else
        respond_err(req, res, &err);
}

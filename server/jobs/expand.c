/*
 * Requests that do not spell their shapes out. "model": {"preset","tp","batch"}: all the shapes that the preset's step has at those
 * places, each with how often it is launched. "observed": {"most","op"?}: of the shapes from the field those that would save most.
 */
#include "server/jobs/internal.h"

#include "core/preset.h"

#include <limits.h>

bool request_is_listed(const json_t *request)
{
    return json_object_get(request, "model") || json_object_get(request, "observed");
}

static bool take_listed(struct jobs *j, const json_t *entry, const char *where, struct job_request *r, struct faults *f)
{
    struct shape *s = &r->shapes[r->shape_count];
    struct err why = {0};
    if (!shape_parse(j->ops, json_object_get(entry, "shape"), NULL, where, s, f))
        return false;
    if (!shape_unkey(s, NULL, &why)) {
        faults_add(f, where, "%s", why.text);
        return false;
    }
    if (!request_check_size(j, s, where, f))
        return false;
    r->op = s->op;
    r->shape_count++;
    return true;
}

/* All of them or none: an entry of r->listed stands beside its shape. */
static void take_all(struct jobs *j, const char *where, struct job_request *r, struct faults *f)
{
    size_t count = json_array_size(r->listed), i;
    json_t *entry;
    if (count < 1 || count > (size_t)j->config.max_shapes) {
        faults_add(f, where, "these are %zu shapes; a job has 1 to %d", count, j->config.max_shapes);
        return;
    }
    r->shapes = xarray(count, sizeof *r->shapes);
    json_array_foreach(r->listed, i, entry)
        if (!take_listed(j, entry, where, r, f))
            return;
}

/* Its operator is here still, and a judge can hold it. */
static bool can_be_judged(struct jobs *j, const json_t *doc)
{
    struct faults ignored = {0};
    struct shape shape;
    return shape_parse(j->ops, doc, NULL, "", &shape, &ignored) && shape_unkey(&shape, NULL, NULL) && request_check_size(j, &shape, "", &ignored);
}

/* Those that have a kernel already are of no use unless they are to be searched anew. */
static void expand_observed(struct jobs *j, const json_t *request, struct job_request *r, struct faults *f)
{
    static const char *const keys[] = {"most", "op", NULL};
    const json_t *observed = json_object_get(request, "observed"), *most = json_object_get(observed, "most");
    bool anew = strcmp(json_str(request, "reuse", ""), "never") == 0;
    cleanup(json) json_t *ranked = NULL;
    struct err err = {0};
    json_t *entry;
    size_t i;
    json_only_keys(observed, "/observed", keys, f);
    if (!json_is_integer(most) || json_integer_value(most) < 1 || json_integer_value(most) > j->config.max_shapes) {
        faults_add(f, "/observed/most", "a whole number from 1 to %d is needed", j->config.max_shapes);
        return;
    }
    if (!observed_rank(j->store, j->ops, json_str(observed, "op", NULL), INT_MAX, &ranked, &err)) {
        faults_add(f, "/observed", "%s", err.text);
        return;
    }
    r->listed = json_array();
    json_array_foreach(ranked, i, entry) {
        const json_t *shape = json_object_get(entry, "shape");
        bool wanted = (anew || json_is_null(json_object_get(entry, "kernel"))) &&
                      json_array_size(r->listed) < (size_t)json_integer_value(most) && can_be_judged(j, shape);
        if (wanted)
            json_array_append_new(r->listed, json_pack("{s:O,s:O}", "shape", shape, "count", json_object_get(entry, "count")));
    }
    if (json_array_size(r->listed))
        take_all(j, "/observed", r, f);
    else
        faults_add(f, "/observed", "there is no observed shape that lacks a kernel and can be judged");
}

static void expand_model(struct jobs *j, const json_t *request, struct job_request *r, struct faults *f)
{
    const json_t *model = json_object_get(request, "model");
    struct err err = {0};
    int before = f->count;
    if (!json_is_object(model)) {
        faults_add(f, "/model", "an object is needed, such as {\"preset\":\"NAME\",\"tp\":8,\"batch\":[1,2,4]}");
        return;
    }
    r->listed = json_array();
    r->model = model;
    const char *target = json_str(request, "target", j->config.default_target);
    if (preset_expand_request(j->config.presets, j->ops, model, target, "/model", r->listed, f, &err) && f->count == before)
        take_all(j, "/model", r, f);
}

void request_expand(struct jobs *j, const json_t *request, struct job_request *r, struct faults *f)
{
    static const char *const instead[] = {"op", "shapes", "dtypes", "baseline"};
    bool is_model = json_object_get(request, "model");
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++) {
        cleanup(str) char *where = xfmt("/%s", instead[i]);
        if (json_object_get(request, instead[i]))
            faults_add(f, where, "a job of %s has none of its own", is_model ? "a model" : "observed shapes");
    }
    if (is_model && json_object_get(request, "observed"))
        faults_add(f, "/observed", "a job is of a model or of observed shapes");
    else if (is_model)
        expand_model(j, request, r, f);
    else
        expand_observed(j, request, r, f);
}

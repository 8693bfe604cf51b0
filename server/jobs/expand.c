/*
 * A request for a model: "model": {"preset","tp","batch"} instead of "op" and "shapes". It becomes a job of all the shapes that the
 * preset's step has at those places, each with how often it is launched.
 */
#include "server/jobs/internal.h"

#include "core/preset.h"

bool request_is_listed(const json_t *request)
{
    return json_object_get(request, "model") != NULL;
}

static bool take_listed(struct jobs *j, const json_t *entry, const char *where, struct job_request *r, struct faults *f)
{
    struct shape *s = &r->shapes[r->shape_count];
    if (!shape_parse(j->ops, json_object_get(entry, "shape"), NULL, where, s, f) || !request_check_size(j, s, where, f))
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

void request_expand(struct jobs *j, const json_t *request, struct job_request *r, struct faults *f)
{
    static const char *const instead[] = {"op", "shapes", "dtypes", "baseline"};
    const json_t *model = json_object_get(request, "model");
    struct err err = {0};
    int before = f->count;
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++) {
        cleanup(str) char *where = xfmt("/%s", instead[i]);
        if (json_object_get(request, instead[i]))
            faults_add(f, where, "a job of a model has none of its own");
    }
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

/*
 * Sets: the manifests of many shapes in one answer, for a deployment's start-up; and the presets that name such sets. What has no
 * kernel is named, with its shape, so that the same answer says what there is to search for.
 */
#include "server/api/api.h"

#include <string.h>

/* "1,2,4" as a list of numbers; anything else stays as it is and is refused by the preset. */
static json_t *numbers_of(const char *text)
{
    cleanup(str) char *copy = xstrdup(text);
    char *rest = copy;
    cleanup(json) json_t *list = json_array();
    for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
        size_t digits = strspn(word, "0123456789");
        if (!digits || digits > 9 || word[digits])
            return json_string(text);
        json_array_append_new(list, json_integer(strtoll(word, NULL, 10)));
    }
    return json_incref(list);
}

static bool too_many(struct app *app, const json_t *list, const char *pointer, struct faults *f)
{
    if (json_array_size(list) <= (size_t)app->config->max_shapes)
        return false;
    faults_add(f, pointer, "%zu shapes; at most %lld are answered at once", json_array_size(list), (long long)app->config->max_shapes);
    return true;
}

/* Adds the kernel, or the shape to what is missing. False: the store cannot tell. */
static bool add_entry(struct app *app, const json_t *entry, const char *evidence, json_t *kernels, json_t *missing, struct err *err)
{
    json_t *kernel = NULL, *told = json_copy((json_t *)(uintptr_t)entry);
    const char *hash = json_str(entry, "shape_hash", "");
    struct err why = {0};
    bool found = kernel_shown(app, hash, evidence, &kernel, &why);
    shape_memory_add(app->shapes, hash, json_object_get(entry, "shape"));
    if (found) {
        json_put(told, "kernel", kernel);
        json_array_append_new(kernels, told);
        return true;
    }
    json_array_append_new(missing, told);
    return why.code == ERR_NOT_FOUND || err_set(err, why.code, "%s", why.text);
}

/* The answer for entries {"shape_hash","shape",...}; `doc` (taken over) has the members that say what was asked for. */
static void respond_set(const struct request *req, struct response *res, json_t *doc, const json_t *entries, const char *evidence)
{
    json_t *kernels = json_array(), *missing = json_array(), *entry;
    struct app *app = app_of(req);
    struct err err = {0};
    size_t i;
    json_put_bool(doc, "complete", false);
    json_put(doc, "kernels", kernels);
    json_put(doc, "missing", missing);
    json_array_foreach((json_t *)(uintptr_t)entries, i, entry)
        if (!add_entry(app, entry, evidence, kernels, missing, &err)) {
            json_decref(doc);
            respond_err(req, res, &err);
            return;
        }
    json_put_bool(doc, "complete", json_array_size(missing) == 0);
    respond_json(res, 200, doc);
}

/* The preset's entries into `list`. False: the response is set. */
static bool expand(const struct request *req, struct response *res, const json_t *model, const char *pointer, json_t *list)
{
    struct app *app = app_of(req);
    struct faults f = {0};
    struct err err = {0};
    if (preset_expand_request(app->presets, app->ops, model, app->default_target, pointer, list, &f, &err) && !too_many(app, list, pointer, &f))
        return true;
    respond_faults(req, res, err.code ? &err : NULL, &f);
    return false;
}

void sets_get(const struct request *req, struct response *res)
{
    static const char *const lists[] = {"tp", "batch"};
    const char *evidence, *target = req->query(req, "target");
    cleanup(json) json_t *model = json_object(), *list = json_array();
    if (!evidence_read(req, res, &evidence))
        return;
    json_put_str(model, "preset", req->params[0]);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (req->query(req, lists[i]))
            json_put(model, lists[i], numbers_of(req->query(req, lists[i])));
    if (target)
        json_put_str(model, "target", target);
    if (!expand(req, res, model, "", list))
        return;
    json_put_str(model, "target", target ? target : app_of(req)->default_target);
    respond_set(req, res, json_incref(model), list, evidence);
    if (res->status == 200)
        respond_etag(res, "no-cache");
}

/* The shapes that the body spells out, equal ones once. */
static void take_shapes(struct app *app, const json_t *shapes, json_t *list, struct faults *f)
{
    cleanup(json) json_t *seen = json_object();
    json_t *item;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)shapes, i, item) {
        cleanup(str) char *where = xfmt("/shapes/%zu", i);
        struct shape shape;
        if (!shape_parse(app->ops, item, app->default_target, where, &shape, f))
            continue;
        struct hash_hex hash = shape_hash(&shape);
        if (json_object_get(seen, hash.text))
            continue;
        json_object_set_new(seen, hash.text, json_true());
        json_t *entry = json_object();
        json_put_str(entry, "shape_hash", hash.text);
        json_put(entry, "shape", shape_encode(&shape));
        json_array_append_new(list, entry);
    }
}

void sets_post(const struct request *req, struct response *res)
{
    static const char *const keys[] = {"shapes", "model", "evidence", NULL};
    struct app *app = app_of(req);
    const json_t *shapes = json_object_get(req->json, "shapes"), *model = json_object_get(req->json, "model");
    const char *evidence = json_str(req->json, "evidence", NULL);
    cleanup(json) json_t *list = json_array();
    struct faults f = {0};
    json_only_keys(req->json, "", keys, &f);
    if (json_object_get(req->json, "evidence") && (!evidence || (strcmp(evidence, "measured") && strcmp(evidence, "emulated"))))
        faults_add(&f, "/evidence", "one of measured, emulated is needed");
    if (!shapes == !model || (shapes && !json_array_size(shapes)) || (model && !json_is_object(model)))
        faults_add(&f, shapes ? "/shapes" : "", "either a list of shapes or a model is needed");
    else if (shapes && !too_many(app, shapes, "/shapes", &f))
        take_shapes(app, shapes, list, &f);
    if (f.count)
        respond_faults(req, res, NULL, &f);
    else if (!model || expand(req, res, model, "/model", list))
        respond_set(req, res, json_object(), list, evidence);
}

void presets_list(const struct request *req, struct response *res)
{
    const struct preset_set *set = app_of(req)->presets;
    json_t *doc = json_object(), *list = json_array();
    json_put(doc, "presets", list);
    for (int i = 0; set && i < set->count; i++)
        json_array_append_new(list, preset_summary(set->list[i]));
    respond_json(res, 200, doc);
    respond_etag(res, "no-cache");
}

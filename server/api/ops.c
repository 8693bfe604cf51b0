/* Operators, and the hash of a shape for whoever does not want to compute it. */
#include "server/api/api.h"

static json_t *summary(const struct op *op)
{
    cleanup(json) json_t *all = op_public(op);
    json_t *entry = json_object();
    static const char *const keys[] = {"name", "version", "description", "tags", "axes", "dtypes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(all, keys[i]);
        if (value)
            json_object_set(entry, keys[i], value);
    }
    json_put_str(entry, "digest", op->digest.text);
    return entry;
}

void ops_list(const struct request *req, struct response *res)
{
    const struct op_set *ops = app_of(req)->ops;
    json_t *doc = json_object(), *list = json_array();
    json_put(doc, "ops", list);
    for (int i = 0; i < ops->count; i++)
        json_array_append_new(list, summary(ops->list[i]));
    respond_json(res, 200, doc);
    respond_etag(res, "no-cache");
}

void ops_get(const struct request *req, struct response *res)
{
    const struct op *op = op_set_find(app_of(req)->ops, req->params[0]);
    struct err err;
    if (!op) {
        err_set(&err, ERR_NOT_FOUND, "there is no operator \"%.64s\"; GET /v1/ops lists all", req->params[0]);
        respond_err(req, res, &err);
        return;
    }
    respond_json(res, 200, op_public(op));
    respond_etag(res, "no-cache");
}

void shape_hash_post(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    struct faults faults = {0};
    struct shape shape;
    if (!shape_parse(app->ops, req->json, app->default_target, "", &shape, &faults)) {
        respond_faults(req, res, NULL, &faults);
        return;
    }
    cleanup(buf) struct buf canonical = {0};
    shape_canonical(&shape, &canonical);
    struct hash_hex hash = shape_hash(&shape);
    json_t *doc = json_object(), *full = shape_encode(&shape);
    json_put_str(doc, "shape_hash", hash.text);
    json_put_str(doc, "canonical", buf_cstr(&canonical));
    json_put(doc, "shape", full);
    shape_memory_add(app->shapes, hash.text, full);
    respond_json(res, 200, doc);
}

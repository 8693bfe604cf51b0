/* Tokens: made once and shown once, kept as hashes, checked from memory. */
#include "server/api/api.h"

#include "core/clock.h"

#include <pthread.h>
#include <string.h>

/* One change at a time: "the first must be an admin's" is a rule over all tokens. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static enum scope highest(const json_t *scopes)
{
    enum scope best = SCOPE_NONE, one;
    size_t i;
    json_t *value;
    json_array_foreach((json_t *)(uintptr_t)scopes, i, value)
        if (json_is_string(value) && scope_parse(json_string_value(value), &one) && one > best)
            best = one;
    return best;
}

struct load { struct app *app; struct err *err; bool ok; };

static bool load_one(void *ctx, const char *id, const json_t *doc)
{
    struct load *l = ctx;
    enum scope scope = highest(json_object_get(doc, "scopes"));
    const char *hash = json_str(doc, "secret_hash", "");
    if (scope != SCOPE_NONE && hash_hex_valid(hash))
        l->ok = auth_add(l->app->auth, id, hash, scope, l->err);
    return l->ok;
}

bool tokens_load(struct app *app, struct err *err)
{
    struct load l = {app, err, true};
    struct store_page page = {.kind = STORE_TOKEN, .limit = 10000};
    return store_list(app->store, &page, load_one, &l, NULL, NULL, err) && l.ok;
}

static bool hide_secret(void *ctx, json_t *doc)
{
    (void)ctx;
    json_object_del(doc, "secret_hash");
    return true;
}

void tokens_list(const struct request *req, struct response *res)
{
    page_respond(req, res, STORE_TOKEN, false, "tokens", "", hide_secret, NULL);
}

static enum scope read_request(const json_t *body, struct faults *f)
{
    static const char *const keys[] = {"name", "scopes", NULL};
    if (!json_is_object(body)) {
        faults_add(f, "", "must be an object with scopes and a name");
        return SCOPE_NONE;
    }
    json_only_keys(body, "", keys, f);
    json_t *name = json_object_get(body, "name"), *scopes = json_object_get(body, "scopes"), *value;
    if (name && (!json_is_string(name) || json_string_length(name) > 100))
        faults_add(f, "/name", "must be a text of at most 100 bytes");
    if (!json_is_array(scopes) || !json_array_size(scopes)) {
        faults_add(f, "/scopes", "must be a list of at least one of read, submit, admin");
        return SCOPE_NONE;
    }
    size_t i;
    json_array_foreach(scopes, i, value) {
        enum scope one;
        char pointer[40];
        snprintf(pointer, sizeof pointer, "/scopes/%zu", i);
        if (!json_is_string(value) || !scope_parse(json_string_value(value), &one))
            faults_add(f, pointer, "must be read, submit or admin");
    }
    return highest(scopes);
}

/* Stores it, then lets it in. */
static bool token_keep(struct app *app, const struct token_new *t, enum scope scope, const json_t *doc, struct err *err)
{
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_TOKEN, t->id, NULL, doc);
    if (!auth_add(app->auth, t->id, t->secret_hash.text, scope, err)) {
        store_batch_free(b);
        return false;
    }
    if (store_commit(app->store, b, NULL, err))
        return true;
    auth_remove(app->auth, t->id);
    return false;
}

static bool token_create(struct app *app, const json_t *body, enum scope scope, json_t **ret, struct err *err)
{
    struct token_new t = token_make();
    cleanup(json) json_t *doc = json_object();
    json_put_str(doc, "id", t.id);
    json_put_str(doc, "name", json_str(body, "name", ""));
    json_object_set(doc, "scopes", json_object_get(body, "scopes"));
    json_put_str(doc, "created", clock_text(clock_wall_ns()).text);
    json_put_str(doc, "secret_hash", t.secret_hash.text);
    pthread_mutex_lock(&changing);
    bool ok = scope == SCOPE_ADMIN || auth_admins(app->auth) > 0
        ? token_keep(app, &t, scope, doc, err)
        : err_set(err, ERR_CONFLICT, "the first token must have the scope admin: from then on nothing is open, and nobody could "
                  "make another");
    pthread_mutex_unlock(&changing);
    if (!ok)
        return false;
    json_object_del(doc, "secret_hash");
    json_put_str(doc, "token", t.text);
    *ret = steal(&doc);
    return true;
}

void tokens_post(const struct request *req, struct response *res)
{
    struct faults faults = {0};
    struct err err = {0};
    json_t *doc = NULL;
    enum scope scope = read_request(req->json, &faults);
    if (faults.count || !rate_allows(req, res)) {
        if (faults.count)
            respond_faults(req, res, NULL, &faults);
        return;
    }
    if (!token_create(app_of(req), req->json, scope, &doc, &err)) {
        respond_err(req, res, &err);
        return;
    }
    char location[80];
    snprintf(location, sizeof location, "/v1/tokens/%s", json_str(doc, "id", ""));
    respond_json(res, 201, doc);
    respond_header(res, "Location", "%s", location);
}

static bool token_remove(struct app *app, const char *id, struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    if (!store_get(app->store, STORE_TOKEN, id, &doc, err))
        return err->code == ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "there is no token \"%.60s\"", id) : false;
    bool last_admin = highest(json_object_get(doc, "scopes")) == SCOPE_ADMIN && auth_admins(app->auth) == 1;
    if (last_admin && auth_count(app->auth) > 1)
        return err_set(err, ERR_CONFLICT, "this is the last admin's token, and others would be left without one; delete those first");
    struct store_batch *b = store_batch_new();
    store_delete(b, STORE_TOKEN, id);
    if (!store_commit(app->store, b, NULL, err))
        return false;
    auth_remove(app->auth, id);
    return true;
}

void tokens_delete(const struct request *req, struct response *res)
{
    struct err err = {0};
    pthread_mutex_lock(&changing);
    bool ok = token_remove(app_of(req), req->params[0], &err);
    pthread_mutex_unlock(&changing);
    if (ok)
        res->status = 204;
    else
        respond_err(req, res, &err);
}

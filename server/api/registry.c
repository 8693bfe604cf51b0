/*
 * PUT /v1/ops/{name}. The judge takes seconds over an operator (it compiles the reference, runs the baseline over all regimes, tries
 * the canaries), so a thread of its own asks it, one operator after the other; the request sleeps meanwhile and looks again. What is
 * being looked at is known by a hash over name and body: the same request twice is looked at once, and both get the answer.
 *
 * An operator's content never changes under one version, since shape hashes name the version: another content wants a higher one.
 */
#include "server/api/registry.h"

#include "core/clock.h"
#include "core/log.h"

#include <pthread.h>
#include <string.h>

#define WAITING 4                           /* operators that wait to be looked at */
#define KEPT 16                             /* answers, until they are fetched or the ring comes round */
#define LOOK_AGAIN_NS ((int64_t)1000000000)

enum state { FREE, QUEUED, RUNNING, DONE };
struct registration {
    enum state state;
    struct hash_hex fingerprint;
    char name[OP_NAME_SIZE], caller[64];
    json_t *request;
    int64_t order, finished_ns;
    /* done: */
    struct err err;                         /* of ours; or ERR_UNPROCESSABLE with `where` and `why`; or ERR_OK */
    char where[32];
    char *why;
    json_t *answer;
    bool created;
};

struct registry {
    struct app *app;
    struct spawn_config spawn;
    struct registered kept;                 /* the thread's, after registry_new */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;                   /* guards what follows */
    pthread_cond_t news;
    bool done;
    _Atomic bool stop;
    int64_t next_order;
    struct registration list[WAITING + 1 + KEPT];
};
#define LIST (int)(sizeof ((struct registry *)0)->list / sizeof *((struct registry *)0)->list)

static void registration_clear(struct registration *g)
{
    json_decref(g->request);
    json_decref(g->answer);
    free(g->why);
    *g = (struct registration){.state = FREE};
}

/* ---- on the thread ---- */

static bool stopping(void *ctx)
{
    return ((struct registry *)ctx)->stop;
}

/* Whether there is room for this name at this version; 409 and 429 alike are told before the judge is asked, and after. */
static bool admissible(struct app *app, const char *name, int64_t version, struct err *err)
{
    const struct op *had = op_set_find(app->ops, name);
    if (had && version <= had->version)
        return err_set(err, ERR_CONFLICT,
                       "operator %s@%d is there with another content (digest %.12s): what is registered under one version stays as it is; "
                       "give yours version %d",
                       name, had->version, had->digest.text, had->version + 1);
    return true;
}

static int64_t registered_count(struct store *s)
{
    cleanup(json) json_t *stats = NULL;
    struct err ignored;
    return store_stats(s, &stats, &ignored) ? json_int(json_object_get(json_object_get(stats, "kinds"), "op"), "count", 0) : 0;
}

static json_t *answer_of(const struct op *op, const json_t *report)
{
    json_t *doc = json_object(), *shapes = json_object_get(report, "shapes");
    json_put_str(doc, "name", op->name);
    json_put_int(doc, "version", op->version);
    json_put_str(doc, "digest", op->digest.text);
    json_put(doc, "canaries", json_object());
    json_t *canaries = json_object_get(doc, "canaries");
    json_put_int(canaries, "caught", json_int(report, "caught", 0));
    json_put_int(canaries, "skipped", json_int(report, "skipped", 0));
    if (shapes)
        json_put(canaries, "shapes", json_incref(shapes));
    return doc;
}

/* From the judge's word to an operator that is served. */
static bool adopt(struct registry *r, struct registration *g, struct op_verdict *v, struct err *err)
{
    struct app *app = r->app;
    cleanup(op_files) struct op_files f = {.op = {0}};
    cleanup(op) struct op *op = NULL;
    if (r->kept.op_count == REGISTERED_MAX_EVER)
        return err_set(err, ERR_BUSY, "this process has taken %d operators, as many as it can: restart it", REGISTERED_MAX_EVER);
    op_files_make(g->request, &f);
    f.library = v->library;
    v->library = (struct buf){0};
    if (!registered_lay(app->config->data, g->name, v->digest.text, &f, &op, err) || !admissible(app, op->name, op->version, err))
        return false;
    g->created = !op_set_find(app->ops, op->name);
    if (!registered_store(app->store, op, &f, g->fingerprint.text, g->caller, v->report, err))
        return false;
    g->answer = answer_of(op, v->report);
    app->ops = registered_add(&r->kept, steal(&op));
    if (app->jobs)
        jobs_set_ops(app->jobs, app->ops);
    log_line(LOG_INFO, "operator registered", "op", g->name, "digest", v->digest.text, "by", g->caller, NULL);
    return true;
}

static void look_at(struct registry *r, struct registration *g)
{
    cleanup(op_verdict) struct op_verdict v = {.where = ""};
    struct err err = {0};
    if (!spawn_op(&r->spawn, g->request, stopping, r, &v, &err)) {
        g->err = err;
    } else if (*v.where) {
        err_set(&g->err, ERR_UNPROCESSABLE, "the operator is refused");
        snprintf(g->where, sizeof g->where, "%s", v.where);
        g->why = xstrdup(buf_cstr(&v.why));
    } else if (!adopt(r, g, &v, &err)) {
        g->err = err;
    }
}

static struct registration *oldest(struct registry *r, enum state state)
{
    struct registration *found = NULL;
    for (int i = 0; i < LIST; i++)
        if (r->list[i].state == state && (!found || r->list[i].order < found->order))
            found = &r->list[i];
    return found;
}

static void *registry_main(void *arg)
{
    struct registry *r = arg;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        struct registration *g = oldest(r, QUEUED);
        if (!g) {
            pthread_cond_wait(&r->news, &r->lock);
            continue;
        }
        g->state = RUNNING;                 /* handlers leave a running one alone */
        pthread_mutex_unlock(&r->lock);
        look_at(r, g);
        pthread_mutex_lock(&r->lock);
        g->state = DONE;
        g->finished_ns = clock_mono_ns();
        if (r->app->http && !r->stop)
            http_notify(r->app->http);
    }
    r->done = true;
    pthread_cond_broadcast(&r->news);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

struct registry *registry_new(struct app *app, const struct spawn_config *spawn)
{
    struct registry *r = xalloc(sizeof *r);
    r->app = app;
    r->spawn = *spawn;
    r->kept.built_in = app->ops;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->news, NULL);
    registered_load(&r->kept, app->store, app->config->data);
    if (r->kept.set_count)
        app->ops = r->kept.sets[r->kept.set_count - 1];
    return r;
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->news);
    int64_t until = clock_mono_ns() + 2 * LOOK_AGAIN_NS;
    while (r->running && !r->done && clock_mono_ns() < until) {
        pthread_mutex_unlock(&r->lock);
        clock_sleep_ns(LOOK_AGAIN_NS / 100);
        pthread_mutex_lock(&r->lock);
    }
    bool done = !r->running || r->done;
    pthread_mutex_unlock(&r->lock);
    if (!done) {
        pthread_detach(r->thread);
        return;
    }
    if (r->running)
        pthread_join(r->thread, NULL);
    for (int i = 0; i < LIST; i++)
        registration_clear(&r->list[i]);
    r->app->ops = r->kept.built_in;
    registered_done(&r->kept);
    pthread_cond_destroy(&r->news);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- in a handler ---- */

/* The place for a new one: a free one, else the answer that has waited longest. NULL: too many wait. */
static struct registration *place_for(struct registry *r)
{
    int waiting = 0;
    for (int i = 0; i < LIST; i++)
        waiting += r->list[i].state == QUEUED;
    if (waiting >= WAITING)
        return NULL;
    struct registration *g = oldest(r, FREE);
    return g ? g : oldest(r, DONE);
}

static bool enqueue(struct registry *r, const struct request *req, const struct hash_hex *fingerprint, struct err *err)
{
    struct registration *g = place_for(r);
    if (!g)
        return err_set(err, ERR_BUSY, "%d operators are waiting to be looked at; try again when they are done", WAITING);
    if (!r->running) {                      /* most services never need the thread */
        if (pthread_create(&r->thread, NULL, registry_main, r) != 0)
            return err_set(err, ERR_UNAVAILABLE, "no thread to look at operators");
        r->running = true;
    }
    registration_clear(g);
    g->state = QUEUED;
    g->order = r->next_order++;
    g->fingerprint = *fingerprint;
    g->request = json_deep_copy(req->json);
    snprintf(g->name, sizeof g->name, "%s", req->params[0]);
    snprintf(g->caller, sizeof g->caller, "%s", req->caller.id);
    pthread_cond_broadcast(&r->news);
    return true;
}

static void respond_refused(const struct request *req, struct response *res, const struct registration *g)
{
    json_t *extra = json_object(), *errors = json_array(), *fault = json_object();
    cleanup(str) char *detail = xfmt("operator %s: %s: %.600s", g->name, g->where, g->why);
    json_put_str(fault, "pointer", g->where);
    json_put_str(fault, "detail", g->why);
    json_array_append_new(errors, fault);
    json_put(extra, "errors", errors);
    respond_problem(req, res, err_http_status(g->err.code), err_name(g->err.code), err_title(g->err.code), detail, extra);
}

static void respond_done(const struct request *req, struct response *res, const struct registration *g)
{
    if (*g->where) {
        respond_refused(req, res, g);
    } else if (g->err.code != ERR_OK) {
        respond_err(req, res, &g->err);
    } else {
        respond_header(res, "Location", "/v1/ops/%s", g->name);
        respond_json(res, g->created ? 201 : 200, json_deep_copy(g->answer));
    }
}

/* What can be told without a judge. False: the response is set. */
static bool check_request(const struct request *req, struct response *res)
{
    static const char *const keys[] = {"op", "reference", "baseline", NULL};
    const json_t *doc = req->json, *op = json_object_get(doc, "op");
    struct faults f = {0};
    if (!json_is_object(doc)) {
        faults_add(&f, "", "an object with op, reference and baseline is needed");
    } else {
        json_only_keys(doc, "", keys, &f);
        if (!json_is_object(op))
            faults_add(&f, "/op", "the operator's op.json is needed, an object");
        else if (strcmp(json_str(op, "name", ""), req->params[0]) != 0)
            faults_add(&f, "/op/name", "must be \"%.64s\", as in the path", req->params[0]);
        else if (json_int(op, "version", 0) < 1)
            faults_add(&f, "/op/version", "an integer of at least 1 is needed");
        if (!json_str(doc, "reference", NULL))
            faults_add(&f, "/reference", "the text of reference.c is needed");
        if (!json_is_object(json_object_get(doc, "baseline")))
            faults_add(&f, "/baseline", "a candidate with its source is needed");
    }
    if (f.count)
        respond_faults(req, res, NULL, &f);
    return !f.count;
}

static struct hash_hex fingerprint_of(const struct request *req)
{
    cleanup(str) char *text = json_text(req->json);
    return hash_of(text, strlen(text));
}

/* The same content once more is no change. False: it is another, or none. */
static bool respond_same(const struct request *req, struct response *res, const struct hash_hex *fingerprint)
{
    struct app *app = app_of(req);
    cleanup(json) json_t *record = NULL;
    struct err ignored;
    const struct op *op = op_set_find(app->ops, req->params[0]);
    if (!op || !store_get(app->store, STORE_OP, op->name, &record, &ignored) || strcmp(json_str(record, "fingerprint", ""), fingerprint->text) != 0 ||
        strcmp(json_str(record, "digest", ""), op->digest.text) != 0)
        return false;
    cleanup(json) json_t *answer = answer_of(op, json_object_get(record, "canaries"));
    respond_json(res, 200, json_incref(answer));
    return true;
}

static bool may_begin(const struct request *req, struct err *err)
{
    struct app *app = app_of(req);
    int64_t most = app->config->max_ops, there = registered_count(app->store);
    const struct op *had = op_set_find(app->ops, req->params[0]);
    if (!most)
        return err_set(err, ERR_FORBIDDEN, "this service takes no operators (--max-ops 0)");
    if (!had && there >= most)
        return err_set(err, ERR_CONFLICT, "%lld operators are registered, as many as this service takes (--max-ops)", (long long)there);
    return admissible(app, req->params[0], json_int(json_object_get(req->json, "op"), "version", 0), err);
}

/* Called again and again until it has an answer. */
void ops_put(const struct request *req, struct response *res)
{
    struct registry *r = app_of(req)->registry;
    struct hash_hex fingerprint;
    struct registration *found = NULL;
    struct err err = {0};
    if (!check_request(req, res))
        return;
    fingerprint = fingerprint_of(req);
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < LIST && !found; i++) {
        struct registration *g = &r->list[i];
        bool mine = g->state != FREE && !strcmp(g->fingerprint.text, fingerprint.text) && !strcmp(g->name, req->params[0]);
        if (mine && (g->state != DONE || g->finished_ns >= req->started_ns))
            found = g;
    }
    if (found && found->state == DONE) {
        respond_done(req, res, found);
    } else if (found) {
        respond_wait(res, clock_mono_ns() + LOOK_AGAIN_NS);
    } else if (!respond_same(req, res, &fingerprint)) {
        if (!rate_allows(req, res))
            ;                               /* the response is set */
        else if (!may_begin(req, &err) || !enqueue(r, req, &fingerprint, &err))
            respond_err(req, res, &err);
        else
            respond_wait(res, clock_mono_ns() + LOOK_AGAIN_NS);
    }
    pthread_mutex_unlock(&r->lock);
}

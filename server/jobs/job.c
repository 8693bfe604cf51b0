/* The documents of jobs.h: making them, reading them, their events, and the end of a job. */
#include "server/jobs/internal.h"

static const struct { const char *name; bool is_final; } states[] = {
#define X(code, name, is_final) [code] = {name, is_final},
    JOB_STATES(X)
#undef X
};

const char *job_state_name(enum job_state state)
{
    return states[state].name;
}

bool job_is_final(const json_t *job)
{
    const char *name = json_str(job, "state", "");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strcmp(states[i].name, name) == 0)
            return states[i].is_final;
    return true;   /* a state of another version: nothing is done with it */
}

static void put_now(json_t *doc, const char *key)
{
    json_put_str(doc, key, clock_text(clock_wall_ns()).text);
}

static void put_link(json_t *links, const char *name, const char *format, const char *id)
{
    cleanup(str) char *path = xfmt(format, id);
    json_put_str(links, name, path);
}

static json_t *shape_new(const struct shape *s, const json_t *listed, const json_t *ignored)
{
    static const char *const kept[] = {"count", "launches"};
    json_t *doc = json_object(), *links = json_object();
    struct hash_hex hash = shape_hash(s);
    json_put_str(doc, "shape_hash", hash.text);
    json_put(doc, "shape", shape_encode(s));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (json_object_get(listed, kept[i]))
            json_object_set(doc, kept[i], json_object_get(listed, kept[i]));
    if (json_object_size(ignored))
        json_put(doc, "ignored_axes", json_copy((json_t *)(uintptr_t)ignored));
    json_put_str(doc, "state", "waiting");
    json_put(doc, "baseline", json_null());
    json_put(doc, "best", json_null());
    json_put_int(doc, "tried", 0);
    json_put(doc, "why_ended", json_null());
    put_link(links, "kernel", "/v1/kernels/%s", hash.text);
    json_put(doc, "links", links);
    return doc;
}

static const char *operators_of(const struct job_request *r)
{
    for (int i = 1; i < r->shape_count; i++)
        if (strcmp(r->shapes[i].op->name, r->shapes[0].op->name) != 0)
            return "*";
    return r->op->name;
}

json_t *job_new(const char *id, const struct job_request *r, const char *caller)
{
    json_t *doc = json_object(), *budget = json_object(), *spent = json_object(), *shapes = json_array(), *links = json_object();
    json_put_str(doc, "id", id);
    json_put_str(doc, "op", operators_of(r));
    if (r->model)
        json_put(doc, "model", json_deep_copy(r->model));
    if (r->listed && !r->model)
        json_put_bool(doc, "observed", true);
    json_put_str(doc, "generator", r->generator->name);
    json_put_str(doc, "state", job_state_name(JOB_QUEUED));
    put_now(doc, "created");
    json_put_str(doc, "reuse", r->reuse ? "verified" : "never");
    json_put_str(doc, "target", r->shapes[0].target);
    if (r->baseline)
        json_put(doc, "baseline", json_pack("{s:s,s:s}", "language", json_str(r->baseline, "language", ""), "digest", candidate_digest(r->baseline).text));
    if (caller)
        json_put_str(doc, "caller", caller);
    json_put_int(doc, "seed", r->replays ? json_int(r->replays, "seed", 0) : (int64_t)(random_u64() >> 12));
    if (r->replays)
        json_put_str(doc, "replays", json_str(r->replays, "id", ""));
    json_put_int(budget, "candidates", r->candidates);
    json_put(budget, "gpu_seconds", r->gpu_seconds > 0 ? json_real(r->gpu_seconds) : json_null());
    json_put_int(budget, "wall_seconds", r->wall_seconds);
    json_put(budget, "tokens", r->tokens > 0 ? json_integer(r->tokens) : json_null());
    json_put(doc, "budget", budget);
    json_put_int(spent, "candidates", 0);
    json_put_num(spent, "gpu_seconds", 0);
    json_put_num(spent, "wall_seconds", 0);
    json_put_int(spent, "tokens", 0);
    json_put(doc, "spent", spent);
    for (int i = 0; i < r->shape_count; i++)
        json_array_append_new(shapes, shape_new(&r->shapes[i], json_array_get(r->listed, (size_t)i), json_array_get(r->ignored, (size_t)i)));
    json_put(doc, "shapes", shapes);
    json_put_str(doc, "step", "start");
    put_link(links, "self", "/v1/jobs/%s", id);
    put_link(links, "events", "/v1/jobs/%s/events", id);
    put_link(links, "candidates", "/v1/jobs/%s/candidates", id);
    put_link(links, "cancel", "/v1/jobs/%s/cancel", id);
    json_put(doc, "links", links);
    return doc;
}

json_t *candidate_record_new(const char *id, const char *job, const char *shape_hash, const char *op, json_t *candidate,
                             json_t *origin, bool is_baseline)
{
    static const char *const later[] = {"verdict", "figures"};
    json_t *doc = json_object(), *links = json_object();
    json_put_str(doc, "id", id);
    json_put_str(doc, "job", job);
    json_put_str(doc, "shape_hash", shape_hash);
    json_put_str(doc, "op", op);
    json_put_str(doc, "state", "proposed");
    json_put_bool(doc, "is_baseline", is_baseline);
    json_put(doc, "candidate", json_incref(candidate));
    json_put(doc, "origin", origin ? json_incref(origin) : json_null());
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        json_put(doc, later[i], json_null());
    json_put(doc, "phases", json_array());
    json_put(doc, "certificate_digest", json_null());
    json_put_int(doc, "judge_errors", 0);
    put_now(doc, "created");
    json_put(doc, "judged", json_null());
    put_link(links, "self", "/v1/candidates/%s", id);
    put_link(links, "job", "/v1/jobs/%s", job);
    put_link(links, "kernel", "/v1/kernels/%s", shape_hash);
    json_put(doc, "links", links);
    return doc;
}

json_t *job_shape(const json_t *job, int index)
{
    return json_array_get(json_object_get(job, "shapes"), (size_t)index);
}

int job_shape_index(const json_t *job, const char *hash)
{
    size_t i;
    json_t *shape;
    json_array_foreach(json_object_get(job, "shapes"), i, shape)
        if (strcmp(json_str(shape, "shape_hash", ""), hash) == 0)
            return (int)i;
    return -1;
}

const char *shape_state(const json_t *shape)
{
    return json_str(shape, "state", "");
}

bool shape_is_open(const json_t *shape)
{
    static const char *const open[] = {"waiting", "baseline", "searching"};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (strcmp(shape_state(shape), open[i]) == 0)
            return true;
    return false;
}

json_t *result_new(const char *candidate, const json_t *figures, bool is_baseline)
{
    json_t *doc = json_object();
    const json_t *speedup = json_object_get(figures, "speedup");
    json_put_str(doc, "candidate", candidate);
    json_put_num(doc, "time_ns", json_num(figures, "time_ns", 0));
    if (is_baseline)
        json_put(doc, "speedup", json_pack("{s:f,s:f,s:f}", "median", 1.0, "low", 1.0, "high", 1.0));
    else
        json_put(doc, "speedup", json_pack("{s:f,s:f,s:f}", "median", json_num(speedup, "median", 0), "low", json_num(speedup, "low", 0),
                                           "high", json_num(speedup, "high", 0)));
    json_put_str(doc, "evidence", json_str(figures, "evidence", "emulated"));
    if (json_str(figures, "own_baseline", NULL))      /* which is not the operator's: its speed-ups are of another kind */
        json_put_str(doc, "own_baseline", json_str(figures, "own_baseline", ""));
    return doc;
}

void external_key(const char *job, char *to, size_t size)
{
    snprintf(to, size, "external/%s", job);
}

void baseline_key(const char *job, char *to, size_t size)
{
    snprintf(to, size, "baseline/%s", job);
}

json_t *external_key_doc(int64_t accepted)
{
    json_t *doc = json_object();
    json_put_int(doc, "accepted", accepted);
    json_put(doc, "waiting", json_array());
    return doc;
}

/* ---- events ---- */

static void copy_members(json_t *to, const json_t *from, const char *const *keys)
{
    for (; *keys; keys++) {
        json_t *v = json_object_get(from, *keys);
        if (v && !json_is_null(v))
            json_object_set(to, *keys, v);
    }
}

void event_proposed(struct store_batch *b, const json_t *record)
{
    static const char *const keys[] = {"shape_hash", "is_baseline", "origin", NULL}, *const inner[] = {"language", "notes", "parent", NULL};
    cleanup(json) json_t *doc = json_object();
    json_put_str(doc, "candidate", json_str(record, "id", ""));
    copy_members(doc, record, keys);
    copy_members(doc, json_object_get(record, "candidate"), inner);
    store_event(b, "candidate.proposed", json_str(record, "job", ""), doc);
}

void event_state(struct store_batch *b, const json_t *job)
{
    static const char *const keys[] = {"state", "error", NULL};
    cleanup(json) json_t *doc = json_object();
    copy_members(doc, job, keys);
    store_event(b, "job.state", json_str(job, "id", ""), doc);
}

void event_best(struct store_batch *b, const json_t *job, const char *shape_hash, const json_t *best, bool is_baseline, bool served,
                bool reused)
{
    static const char *const keys[] = {"candidate", "time_ns", "speedup", "evidence", "own_baseline", "stands_for", NULL};
    cleanup(json) json_t *doc = json_object();
    json_put_str(doc, "shape_hash", shape_hash);
    copy_members(doc, best, keys);
    json_put_bool(doc, "is_baseline", is_baseline);
    json_put_bool(doc, "served", served);
    if (reused)
        json_put_bool(doc, "reused", true);
    store_event(b, "shape.best", json_str(job, "id", ""), doc);
}

void event_done(struct store_batch *b, const json_t *job)
{
    static const char *const keys[] = {"state", "spent", "error", NULL};
    static const char *const shape_keys[] = {"shape_hash", "state", "reused", "best", "serving", "tried", "why_ended", NULL};
    cleanup(json) json_t *doc = json_object();
    json_t *shapes = json_array(), *shape;
    size_t i;
    copy_members(doc, job, keys);
    json_array_foreach(json_object_get(job, "shapes"), i, shape) {
        json_t *brief = json_object();
        copy_members(brief, shape, shape_keys);
        json_array_append_new(shapes, brief);
    }
    json_put(doc, "shapes", shapes);
    store_event(b, "job.done", json_str(job, "id", ""), doc);
}

/* ---- the end ---- */

/* What waits for its verdict (contend.c, baseline.c) gets none any more. */
static bool drop_contenders(struct jobs *j, struct store_batch *b, const json_t *job, json_t *next, struct err *err)
{
    size_t i, k;
    json_t *shape, *one;
    json_array_foreach(json_object_get(next, "shapes"), i, shape) {
        json_array_foreach(json_object_get(shape, "contenders"), k, one)
            if (strcmp(json_str(one, "candidate", ""), json_str(job, "current", "")) != 0 &&
                !drop_candidate(j, b, json_str(job, "id", ""), json_str(one, "candidate", ""), err))
                return false;
        json_object_del(shape, "contenders");
        if (json_bool(shape, "baseline_pending", false) &&
            !drop_candidate(j, b, json_str(job, "id", ""), json_str(json_object_get(shape, "baseline"), "candidate", ""), err))
            return false;
        json_object_del(shape, "baseline_pending");
    }
    return true;
}

/* The waiting list of an external job goes, and nobody can add to it from then on. It may be long: what waited is dropped afterwards. */
static bool take_waiting(struct jobs *j, struct store_batch *b, const char *job, json_t *next, struct err *err)
{
    char key[64];
    cleanup(json) json_t *list = NULL;
    struct err why = {0};
    external_key(job, key, sizeof key);
    if (!store_get(j->store, STORE_META, key, &list, &why))
        return why.code == ERR_NOT_FOUND || err_set(err, why.code, "%s", why.text);
    store_expect(b, STORE_META, key, list);
    store_delete(b, STORE_META, key);
    drop_later(b, job, json_object_get(list, "waiting"));
    if (json_int(list, "bytes", 0))
        json_put_int(next, "posted_bytes", json_int(list, "bytes", 0));
    return true;
}

static bool drop_baseline(struct jobs *j, struct store_batch *b, const char *job, struct err *err)
{
    char key[64];
    cleanup(json) json_t *doc = NULL;
    struct err why = {0};
    baseline_key(job, key, sizeof key);
    if (!store_get(j->store, STORE_META, key, &doc, &why))
        return why.code == ERR_NOT_FOUND || err_set(err, why.code, "%s", why.text);
    store_delete(b, STORE_META, key);
    return true;
}

static void end_shapes(json_t *job, const char *reason)
{
    size_t i;
    json_t *shape;
    json_array_foreach(json_object_get(job, "shapes"), i, shape) {
        bool begun = strcmp(shape_state(shape), "searching") == 0;
        if (!shape_is_open(shape))
            continue;
        json_put_str(shape, "state", begun ? "done" : "skipped");
        json_put_str(shape, "why_ended", reason);
    }
}

bool job_end(struct jobs *j, json_t **job, enum job_state state, const struct err *why, double more_wall_seconds, struct err *err)
{
    const char *id = json_str(*job, "id", "");
    cleanup(json) json_t *next = json_deep_copy(*job);
    struct store_batch *b = store_batch_new();
    const char *current = json_str(*job, "current", NULL);
    if ((current && !drop_candidate(j, b, id, current, err)) || !drop_contenders(j, b, *job, next, err) || !take_waiting(j, b, id, next, err) ||
        !drop_baseline(j, b, id, err)) {
        store_batch_free(b);
        return false;
    }
    json_put_str(next, "state", job_state_name(state));
    put_now(next, "finished");
    run_spend(next, "wall_seconds", more_wall_seconds);
    json_object_del(next, "current");
    json_object_del(next, "shape");
    json_put_str(next, "step", "end");
    end_shapes(next, state == JOB_CANCELLED ? "the job was cancelled" : state == JOB_FAILED ? "the job failed" : "the job ended");
    if (why) {
        json_put(next, "error", json_object());
        json_put_str(json_object_get(next, "error"), "code", err_name(why->code));
        json_put_str(json_object_get(next, "error"), "text", why->text);
    }
    for (int i = 0; i < (int)json_array_size(json_object_get(*job, "shapes")); i++)
        prior_drop(b, id, i);
    store_expect(b, STORE_JOB, id, *job);
    store_put(b, STORE_JOB, id, JOBS_OWNER_ENDED, next);
    event_state(b, next);
    event_done(b, next);
    if (!spending_commit(j, b, *job, next, err))
        return false;
    json_decref(*job);
    *job = steal(&next);
    tidy_wake(j);
    return true;
}

bool jobs_cancel(struct jobs *j, const char *id, json_t **ret_job, struct err *err)
{
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        cleanup(json) json_t *job = NULL;
        struct err why = {0};
        if (!store_get(j->store, STORE_JOB, id, &job, err))
            return false;
        if (job_is_final(job) || job_end(j, &job, JOB_CANCELLED, NULL, 0, &why)) {
            entry_wake(j, id, true);
            *ret_job = steal(&job);
            return true;
        }
        if (why.code != ERR_CONFLICT)
            return err_set(err, why.code, "%s", why.text);
        if (j->stopping)
            return err_set(err, ERR_UNAVAILABLE, "the service is stopping");
    }
    return err_set(err, ERR_BUSY, "job %s changes too fast: try again", id);
}

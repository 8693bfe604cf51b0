/*
 * From a request to a durable job. Everything is looked at before anything is refused, so that one answer names all faults; then
 * job, first event, waiting list and idempotency record are one transaction.
 */
#include "server/jobs/internal.h"

#define MAX_TOKENS ((int64_t)1000000000)

static void request_done(struct job_request *r)
{
    free(r->shapes);
    json_decref(r->listed);
    json_decref(r->ignored);
    json_decref(r->replays);
}
DEFINE_CLEANUP(request, struct job_request, request_done(it))

/* "/axes/B" of a shape by itself is "/shapes/2/B" of the request, or "/shapes/2/axes/B" where it was written so; the rest
 * is common. */
static void move_faults(const struct faults *from, int index, bool wrapped, struct faults *to)
{
    static const char *const common[] = {"/op", "/target", "/dtypes"};
    for (int i = 0; i < from->count && i < FAULTS_MAX; i++) {
        const char *pointer = from->list[i].pointer;
        bool is_common = false, is_axis = strncmp(pointer, "/axes", 5) == 0 && (!pointer[5] || pointer[5] == '/');
        for (size_t c = 0; c < sizeof common / sizeof *common; c++)
            is_common = is_common || strncmp(pointer, common[c], strlen(common[c])) == 0;
        if (is_common && index > 0)
            continue;   /* told with the first shape */
        cleanup(str) char *where = is_common ? xstrdup(pointer) : xfmt("/shapes/%d%s", index, is_axis && !wrapped ? pointer + 5 : pointer);
        faults_add(to, where, "%s", from->list[i].detail);
    }
}

bool request_check_size(const struct jobs *j, const struct shape *s, const char *where, struct faults *f)
{
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    int64_t total = 0;
    if (!shape_tensors(s, tensors, &err)) {
        faults_add(f, where, "%s", err.text);
        return false;
    }
    for (int t = 0; t < s->op->tensor_count; t++) {
        int64_t bytes = tensors[t].bytes;
        if (bytes > j->config.max_tensor_bytes) {
            faults_add(f, where, "too large to be judged: tensor %s has %lld bytes; at most %lld are taken", s->op->tensors[t].name,
                       (long long)bytes, (long long)j->config.max_tensor_bytes);
            return false;
        }
        total += bytes;   /* at most OP_MAX_TENSORS times the limit */
    }
    if (total <= j->config.max_shape_bytes)
        return true;
    faults_add(f, where, "too large to be judged: its tensors have %lld bytes together; at most %lld are taken", (long long)total,
               (long long)j->config.max_shape_bytes);
    return false;
}

static void take_shape(struct jobs *j, const json_t *request, int index, struct job_request *r, struct faults *f)
{
    json_t *item = json_array_get(json_object_get(request, "shapes"), (size_t)index);
    cleanup(str) char *where = xfmt("/shapes/%d", index);
    static const char *const wrapped_keys[] = {"axes", NULL}, *const passed[] = {"op", "dtypes", "target"};
    bool wrapped = json_is_object(json_object_get(item, "axes"));
    if (!json_is_object(item)) {
        faults_add(f, where, "an object of axes is needed, such as {\"B\":4}");
        return;
    }
    if (wrapped)
        json_only_keys(item, where, wrapped_keys, f);
    cleanup(json) json_t *doc = json_object();
    json_put(doc, "axes", json_incref(wrapped ? json_object_get(item, "axes") : item));
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (json_object_get(request, passed[i]))
            json_object_set(doc, passed[i], json_object_get(request, passed[i]));
    struct faults own = {0};
    struct shape *s = &r->shapes[r->shape_count];
    if (!shape_parse(j->ops, doc, j->config.default_target, "", s, &own)) {
        move_faults(&own, index, wrapped, f);
        return;
    }
    cleanup(json) json_t *ignored = json_object();
    struct err why = {0};
    if (!shape_unkey(s, ignored, &why)) {
        faults_add(f, where, "%s", why.text);
        return;
    }
    if (!request_check_size(j, s, where, f))
        return;
    struct hash_hex hash = shape_hash(s);
    for (int i = 0; i < r->shape_count; i++)
        if (strcmp(shape_hash(&r->shapes[i]).text, hash.text) == 0) {
            faults_add(f, where, "the same shape as one before it (shape hash %s)", hash.text);
            return;
        }
    r->op = s->op;
    r->shape_count++;
    json_array_append(r->ignored, ignored);
}

static void take_shapes(struct jobs *j, const json_t *request, struct job_request *r, struct faults *f)
{
    const json_t *shapes = json_object_get(request, "shapes"), *dtypes = json_object_get(request, "dtypes");
    size_t count = json_array_size(shapes);
    if (dtypes && !json_is_object(dtypes))
        faults_add(f, "/dtypes", "an object of dtype letters is needed, such as {\"io\":\"bf16\"}");
    if (!json_is_string(json_object_get(request, "op")) || !op_set_find(j->ops, json_str(request, "op", ""))) {
        cleanup(buf) struct buf names = {0};
        for (int i = 0; i < j->ops->count; i++)
            buf_fmt(&names, "%s%s", i ? ", " : "", j->ops->list[i]->name);
        faults_add(f, "/op", json_is_string(json_object_get(request, "op")) ? "unknown operator; there are %s"
                                                                            : "the name of an operator is needed; there are %s",
                   buf_cstr(&names));
        return;
    }
    if (!json_is_array(shapes) || !count || count > (size_t)j->config.max_shapes) {
        faults_add(f, "/shapes", "a list of 1 to %d shapes is needed, each an object of axes", j->config.max_shapes);
        return;
    }
    if (dtypes && !json_is_object(dtypes))
        return;
    r->shapes = xarray(count, sizeof *r->shapes);
    r->ignored = json_array();
    for (size_t i = 0; i < count; i++)
        take_shape(j, request, (int)i, r, f);
}

static int64_t take_integer(const json_t *budget, const char *key, int64_t fallback, int64_t max, struct faults *f)
{
    const json_t *v = json_object_get(budget, key);
    cleanup(str) char *where = xfmt("/budget/%s", key);
    if (!v || json_is_null(v))
        return fallback;
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > max)
        faults_add(f, where, "an integer from 1 to %lld is needed", (long long)max);
    return json_integer_value(v);
}

static void take_budget(struct jobs *j, const json_t *request, struct job_request *r, struct faults *f)
{
    static const char *const keys[] = {"candidates", "gpu_seconds", "wall_seconds", "tokens", NULL};
    const json_t *budget = json_object_get(request, "budget");
    if (budget && !json_is_object(budget)) {
        faults_add(f, "/budget", "an object is needed");
        return;
    }
    if (budget)
        json_only_keys(budget, "/budget", keys, f);
    const struct jobs_config *c = &j->config;
    int64_t times = r->listed && r->shape_count ? r->shape_count : 1;   /* a model's many shapes: each as much as one would have had */
    int64_t candidates = c->default_candidates * times, wall = c->default_wall_seconds * times;
    r->candidates = take_integer(budget, "candidates", candidates < c->max_candidates ? candidates : c->max_candidates, c->max_candidates, f);
    r->wall_seconds = take_integer(budget, "wall_seconds", wall < c->max_wall_seconds ? wall : c->max_wall_seconds, c->max_wall_seconds, f);
    r->tokens = take_integer(budget, "tokens", 0, MAX_TOKENS, f);
    const json_t *gpu = json_object_get(budget, "gpu_seconds");
    if (!gpu || json_is_null(gpu))
        return;
    r->gpu_seconds = json_number_value(gpu);
    if (!json_is_number(gpu) || !(r->gpu_seconds > 0) || r->gpu_seconds > (double)c->max_wall_seconds)
        faults_add(f, "/budget/gpu_seconds", "a number above 0 and at most %lld is needed", (long long)c->max_wall_seconds);
}

/* What the contract knows and this version cannot do yet: said as such, and what is missing. */
static bool check_possible(struct jobs *j, const json_t *request, struct job_request *r, struct faults *f, struct err *err)
{
    const json_t *name = json_object_get(request, "generator");
    const char *text = name ? json_string_value(name) : "template";
    static const char *const known[] = {"template", "llm", "external"};
    bool replays = json_object_get(request, "replays") != NULL;
    bool is_known = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known = is_known || (text && strcmp(text, known[i]) == 0);
    if (!is_known) {
        faults_add(f, "/generator", "one of template, llm, external is needed");
    } else if (!(r->generator = j->config.find_generator(text))) {
        faults_add(f, "/generator", "%s is not there", text);
        return err_set(err, ERR_UNPROCESSABLE, "generator \"%s\": this server has no generator of that name: use \"template\", or \"external\" and send candidates",
                       text);
    } else if (r->generator->attempt && !j->config.llm && !replays) {
        faults_add(f, "/generator", "%s needs a model's endpoint, and none is configured", text);
        return err_set(err, ERR_UNPROCESSABLE, "generator \"%s\": no model's endpoint is configured: start the server with --llm-url, --llm-model and, where the "
                       "endpoint wants one, a key in a file (--llm-key-file); or use \"template\", or \"external\" and send candidates", text);
    }
    if (replays && !(r->generator && r->generator->attempt))
        faults_add(f, "/replays", "only a job of generator llm plays another's answers again");
    else if (replays)
        return replay_find(j, request, &r->replays, f) || true;
    return true;
}

/* Whether it is the operator's own, sent along: then it is as if none had been. */
static bool is_operators(const json_t *baseline, const struct op *op)
{
    cleanup(json) json_t *own = NULL;
    struct err none = {0};
    return candidate_load(op->dir, "baseline", &own, &none) && strcmp(candidate_digest(own).text, candidate_digest(baseline).text) == 0;
}

/* A candidate like any other: its form, and its plan for each shape, are looked at now; the rest is the judge's to say. */
static void take_baseline(const json_t *request, struct job_request *r, struct faults *f)
{
    const json_t *baseline = json_object_get(request, "baseline");
    cleanup(candidate) struct candidate c = {0};
    cleanup(mem) void *plan = xalloc(sizeof(struct plan));
    char why[240];
    if (!baseline || json_is_null(baseline) || !candidate_parse(baseline, "/baseline", &c, f))
        return;
    for (int i = 0; i < r->shape_count; i++)
        if (!plan_resolve(&c, &r->shapes[i], plan, why, sizeof why)) {
            faults_add(f, "/baseline/plan", "for shape %d: %s", i, why);
            return;
        }
    r->baseline = r->op && is_operators(baseline, r->op) ? NULL : baseline;
}

static bool take_request(struct jobs *j, const json_t *request, struct job_request *r, struct faults *f, struct err *err)
{
    static const char *const keys[] = {"op", "shapes", "model", "observed", "dtypes", "target", "generator", "budget", "baseline", "reuse", "replays", NULL};
    if (!json_is_object(request)) {
        faults_add(f, "", "an object with op and shapes is needed");
        return err_set(err, ERR_INVALID, "the job request is not an object");
    }
    json_only_keys(request, "", keys, f);
    if (request_is_listed(request))
        request_expand(j, request, r, f);
    else
        take_shapes(j, request, r, f);
    take_budget(j, request, r, f);
    const json_t *reuse = json_object_get(request, "reuse");
    const char *text = reuse ? json_string_value(reuse) : "verified";
    if (!text || (strcmp(text, "verified") != 0 && strcmp(text, "never") != 0))
        faults_add(f, "/reuse", "one of verified, never is needed");
    r->reuse = text && strcmp(text, "verified") == 0;
    if (!request_is_listed(request))
        take_baseline(request, r, f);
    if (!check_possible(j, request, r, f, err))
        return false;
    if (!r->tokens && r->generator && r->generator->attempt)
        r->tokens = j->config.default_tokens;
    if (f->count)
        return err_set(err, ERR_INVALID, "the job request has %d %s, the first at %s: %s", f->count, f->count == 1 ? "fault" : "faults",
                       *f->list[0].pointer ? f->list[0].pointer : "its top", f->list[0].detail);
    return true;
}

/* A shape whose kernel is served already is answered by it. An emulated one does not keep a machine with a card from measuring. */
static bool reuse_shapes(struct jobs *j, struct store_batch *b, json_t *job, bool *ret_all, struct err *err)
{
    size_t i;
    json_t *shape;
    *ret_all = true;
    json_array_foreach(json_object_get(job, "shapes"), i, shape) {
        cleanup(json) json_t *kernel = NULL;
        struct err why = {0};
        const char *hash = json_str(shape, "shape_hash", "");
        bool found = store_get(j->store, STORE_KERNEL, hash, &kernel, &why);
        if (!found && why.code != ERR_NOT_FOUND)
            return err_set(err, why.code, "%s", why.text);
        if (!found || json_str(kernel, "own_baseline", NULL) || (j->measured && strcmp(json_str(kernel, "evidence", ""), "measured") != 0)) {
            *ret_all = false;
            continue;
        }
        cleanup(json) json_t *best = result_new(json_str(kernel, "candidate", ""), kernel, false);
        json_put_str(shape, "state", "done");
        json_put_bool(shape, "reused", true);
        json_put(shape, "best", json_incref(best));
        json_put_str(shape, "why_ended", "its kernel is known already");
        store_expect(b, STORE_KERNEL, hash, kernel);
        event_best(b, job, hash, best, json_bool(kernel, "is_baseline", false), true, true);
    }
    return true;
}

void put_idempotency(struct store_batch *b, const char *key, const json_t *answer, const char *kind, const char *id)
{
    cleanup(json) json_t *record = answer ? json_copy((json_t *)answer) : json_object();
    json_put_str(record, kind, id);
    store_expect(b, STORE_IDEMPOTENCY, key, NULL);
    store_put(b, STORE_IDEMPOTENCY, key, NULL, record);
}

/* Writes the job; *ret_open false: it has ended at once. */
static bool write_job(struct jobs *j, const struct job_request *r, const char *id, const char *caller, const char *key,
                      const json_t *answer, json_t **ret_job, int64_t *ret_as_of, bool *ret_open, struct err *err)
{
    cleanup(json) json_t *job = job_new(id, r, caller);
    struct store_batch *b = store_batch_new();
    bool all_reused = false;
    event_state(b, job);
    if (key)
        put_idempotency(b, key, answer, "job", id);
    store_expect(b, STORE_JOB, id, NULL);
    if (r->reuse && !reuse_shapes(j, b, job, &all_reused, err)) {
        store_batch_free(b);
        return false;
    }
    if (all_reused) {
        json_put_str(job, "state", job_state_name(JOB_DONE));
        json_put_str(job, "step", "end");
        json_put_str(job, "started", json_str(job, "created", ""));
        json_put_str(job, "finished", json_str(job, "created", ""));
        event_state(b, job);
        event_done(b, job);
    } else if (generator_is_external(r->generator)) {
        char external[64];
        cleanup(json) json_t *list = external_key_doc(0);
        external_key(id, external, sizeof external);
        store_put(b, STORE_META, external, NULL, list);
    }
    if (r->baseline && !all_reused) {
        char own[64];
        baseline_key(id, own, sizeof own);
        store_put(b, STORE_META, own, NULL, r->baseline);
    }
    store_put(b, STORE_JOB, id, all_reused ? JOBS_OWNER_ENDED : JOBS_OWNER_OPEN, job);
    if (!store_commit(j->store, b, ret_as_of, err))
        return false;
    *ret_open = !all_reused;
    *ret_job = steal(&job);
    return true;
}

/* Whether the idempotency key, and not a kernel that changed meanwhile, was in the way. */
bool key_is_taken(struct jobs *j, const char *key)
{
    cleanup(json) json_t *record = NULL;
    struct err why = {0};
    return key && store_get(j->store, STORE_IDEMPOTENCY, key, &record, &why);
}

bool jobs_submit_once(struct jobs *j, const json_t *request, const char *caller, const char *key, const json_t *answer,
                      json_t **ret_job, int64_t *ret_as_of, struct faults *f, struct err *err)
{
    cleanup(request) struct job_request r = {0};
    struct id id = id_new("job");
    struct entry *entry = NULL;
    struct err why = {0};
    if (!take_request(j, request, &r, f, err) || !entry_reserve(j, id.text, &entry, err))
        return false;
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        bool open = false;
        if (write_job(j, &r, id.text, caller, key, answer, ret_job, ret_as_of, &open, &why)) {
            if (open)
                entry_ready(j, entry, job_saving_ns(j, *ret_job));
            else
                entry_drop(j, entry);
            return true;
        }
        if (why.code != ERR_CONFLICT || key_is_taken(j, key))
            break;
    }
    entry_drop(j, entry);
    return err_set(err, why.code, "%s", why.text);
}

bool jobs_submit(struct jobs *j, const json_t *request, const char *caller, json_t **ret_job, int64_t *ret_as_of, struct faults *f,
                 struct err *err)
{
    return jobs_submit_once(j, request, caller, NULL, NULL, ret_job, ret_as_of, f, err);
}

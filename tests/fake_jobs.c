/*
 * Stands in for server/jobs and the judge in tests of the API: jobs are written as the real ones are and stay queued; what a
 * runner would do, a test does through the store. Devices are as the test says.
 */
#include "tests/fake_jobs.h"

#include "core/clock.h"
#include "gpu/spawn.h"

#include <string.h>
#include <unistd.h>

struct jobs { struct jobs_config config; struct store *store; const struct op_set *ops; };

const char *fake_devices = "{\"devices\":[{\"kind\":\"sim\",\"name\":\"sim\",\"target\":\"sm_90a\",\"healthy\":true}],"
                           "\"sandbox\":{\"level\":\"filtered\"},\"toolkit\":{\"version\":\"13.0\"}}";
int64_t fake_submit_ns;

bool spawn_devices(const struct spawn_config *config, json_t **ret, struct err *err)
{
    (void)config;
    return fake_devices ? json_parse(fake_devices, strlen(fake_devices), ret, err)
                        : err_set(err, ERR_UPSTREAM, "the judge is not there");
}

const char *fake_op;
int fake_ops_looked_at;

void op_verdict_done(struct op_verdict *v)
{
    buf_done(&v->why);
    buf_done(&v->library);
    json_decref(v->report);
    *v = (struct op_verdict){0};
}

/* As the judge does: the files in a folder, loaded from there. */
static bool lay(const json_t *request, const char *dir, struct op **ret, struct err *err)
{
    const json_t *given = json_object_get(request, "baseline");
    cleanup(json) json_t *baseline = json_copy((json_t *)(uintptr_t)given);
    cleanup(buf) struct buf op = {0}, plan = {0};
    const char *source = json_str(given, "source", ""), *reference = json_str(request, "reference", "");
    json_object_del(baseline, "source");
    json_write_pretty(&op, json_object_get(request, "op"));
    json_write_pretty(&plan, baseline);
    const struct { const char *name, *data; size_t size; } files[] = {
        {"op.json", op.data, op.size}, {"reference.c", reference, strlen(reference)}, {"baseline.cu", source, strlen(source)}, {"baseline.json", plan.data, plan.size}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *path = xfmt("%s/%s", dir, files[i].name);
        if (!file_write(path, files[i].data, files[i].size, 0600, err))
            return false;
    }
    bool ok = op_load(dir, ret, err);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *path = xfmt("%s/%s", dir, files[i].name);
        unlink(path);
    }
    rmdir(dir);
    return ok;
}

bool spawn_op(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, struct op_verdict *ret, struct err *err)
{
    (void)config;
    char dir[] = "/tmp/proteus-fake-op-XXXXXX";
    cleanup(op) struct op *op = NULL;
    struct err why = {0};
    fake_ops_looked_at++;
    while (fake_op && !strcmp(fake_op, "slow")) {
        if (cancelled(ctx))
            return err_set(err, ERR_CONFLICT, "cancelled");
        clock_sleep_ns(5000000);
    }
    if (fake_op && !strcmp(fake_op, "down"))
        return err_set(err, ERR_UPSTREAM, "the judge is not there");
    *ret = (struct op_verdict){.where = ""};
    if (fake_op && *fake_op) {
        snprintf(ret->where, sizeof ret->where, "%.*s", (int)strcspn(fake_op, " "), fake_op);
        buf_str(&ret->why, fake_op + strcspn(fake_op, " ") + 1);
        return true;
    }
    BUG_ON(!mkdtemp(dir));
    if (!lay(request, dir, &op, &why)) {
        snprintf(ret->where, sizeof ret->where, "/op");
        buf_str(&ret->why, why.text);
        return true;
    }
    buf_str(&ret->library, "\177ELF not really");
    ret->digest = op->digest;
    ret->report = json_pack("{s:i,s:i,s:[]}", "caught", 15, "skipped", 1, "shapes");
    return true;
}

bool jobs_start(const struct jobs_config *config, struct store *store, const struct op_set *ops, const struct signer *signer,
                struct jobs **ret, struct err *err)
{
    (void)signer, (void)err;
    struct jobs *j = xalloc(sizeof *j);
    *j = (struct jobs){*config, store, ops};
    *ret = j;
    return true;
}

void jobs_set_ops(struct jobs *j, const struct op_set *ops)
{
    j->ops = ops;
}

int fake_news;

void jobs_observed(struct jobs *j)
{
    (void)j;
    fake_news++;
}

void jobs_stop(struct jobs *j)
{
    free(j);
}

static json_t *job_make(struct jobs *j, const json_t *request, const char *caller, struct faults *f)
{
    cleanup(json) json_t *job = json_object(), *shapes = json_array();
    size_t i;
    json_t *axes;
    json_array_foreach(json_object_get(request, "shapes"), i, axes) {
        cleanup(json) json_t *doc = json_object();
        struct shape shape;
        json_object_set(doc, "op", json_object_get(request, "op"));
        json_object_set(doc, "axes", axes);
        if (!shape_parse(j->ops, doc, "sm_90a", "/shapes/0", &shape, f))
            return NULL;
        json_t *entry = json_object();
        json_put_str(entry, "shape_hash", shape_hash(&shape).text);
        json_put(entry, "shape", shape_encode(&shape));
        json_array_append_new(shapes, entry);
    }
    json_put_str(job, "id", id_new("job").text);
    json_put_str(job, "state", "queued");
    json_put_str(job, "caller", caller);
    json_put(job, "shapes", json_incref(shapes));
    return steal(&job);
}

static bool submit(struct jobs *j, const json_t *request, const char *caller, const char *key, const json_t *answer, json_t **ret_job,
                   int64_t *ret_as_of, struct faults *f, struct err *err)
{
    if (json_object_get(request, "baseline"))
        return err_set(err, ERR_UNPROCESSABLE, "this server does not judge a job's own baseline");
    cleanup(json) json_t *job = job_make(j, request, caller, f), *event = json_object();
    if (!job)
        return err_set(err, ERR_INVALID, "the job request has a fault");
    if (fake_submit_ns)
        clock_sleep_ns(fake_submit_ns);
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_JOB, json_str(job, "id", ""), NULL, job);
    json_put_str(event, "state", "queued");
    store_event(b, "job.state", json_str(job, "id", ""), event);
    if (key) {
        cleanup(json) json_t *record = json_deep_copy(answer);
        json_put_str(record, "job", json_str(job, "id", ""));
        store_expect(b, STORE_IDEMPOTENCY, key, NULL);
        store_put(b, STORE_IDEMPOTENCY, key, NULL, record);
    }
    if (!store_commit(j->store, b, ret_as_of, err))
        return false;
    *ret_job = steal(&job);
    return true;
}

bool jobs_submit(struct jobs *j, const json_t *request, const char *caller, json_t **ret_job, int64_t *ret_as_of, struct faults *f,
                 struct err *err)
{
    return submit(j, request, caller, NULL, NULL, ret_job, ret_as_of, f, err);
}

bool jobs_submit_once(struct jobs *j, const json_t *request, const char *caller, const char *key, const json_t *answer,
                      json_t **ret_job, int64_t *ret_as_of, struct faults *f, struct err *err)
{
    return submit(j, request, caller, key, answer, ret_job, ret_as_of, f, err);
}

bool fake_event(struct store *s, const char *job, const char *type, int number)
{
    cleanup(json) json_t *doc = json_object();
    struct err err;
    struct store_batch *b = store_batch_new();
    json_put_int(doc, "number", number);
    store_event(b, type, job, doc);
    return store_commit(s, b, NULL, &err);
}

bool fake_end(struct store *s, const char *id, const char *state, json_t **ret_job, struct err *err)
{
    json_t *job = NULL;
    cleanup(json) json_t *event = json_object();
    if (!store_get(s, STORE_JOB, id, &job, err))
        return false;
    json_put_str(job, "state", state);
    json_put_str(event, "state", state);
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_JOB, id, NULL, job);
    store_event(b, "job.done", id, event);
    bool ok = store_commit(s, b, NULL, err);
    if (ok && ret_job)
        *ret_job = json_incref(job);
    json_decref(job);
    return ok;
}

bool jobs_cancel(struct jobs *j, const char *id, json_t **ret_job, struct err *err)
{
    return fake_end(j->store, id, "cancelled", ret_job, err);
}

bool jobs_add_candidate(struct jobs *j, const char *job_id, const json_t *request, json_t **ret_candidate, struct faults *f, struct err *err)
{
    return jobs_add_candidate_once(j, job_id, request, NULL, NULL, ret_candidate, f, err);
}

bool jobs_add_candidate_once(struct jobs *j, const char *job_id, const json_t *request, const char *key, const json_t *answer,
                             json_t **ret_candidate, struct faults *f, struct err *err)
{
    cleanup(json) json_t *job = NULL, *doc = json_object();
    struct candidate c;
    if (!store_get(j->store, STORE_JOB, job_id, &job, err))
        return false;
    if (strcmp(json_str(job, "state", ""), "queued"))
        return err_set(err, ERR_CONFLICT, "the job has ended");
    const json_t *inner = json_object_get(request, "candidate");
    request = inner ? inner : request;
    if (!candidate_parse(request, "", &c, f))
        return err_set(err, ERR_INVALID, "the candidate has a fault");
    candidate_done(&c);
    json_put_str(doc, "id", id_new("cand").text);
    json_put_str(doc, "job", job_id);
    json_put(doc, "candidate", json_deep_copy(request));
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_CANDIDATE, json_str(doc, "id", ""), job_id, doc);
    if (key) {
        cleanup(json) json_t *record = json_deep_copy(answer);
        json_put_str(record, "candidate", json_str(doc, "id", ""));
        json_put(record, "body", json_incref(doc));
        store_expect(b, STORE_IDEMPOTENCY, key, NULL);
        store_put(b, STORE_IDEMPOTENCY, key, NULL, record);
    }
    if (!store_commit(j->store, b, NULL, err))
        return false;
    *ret_candidate = steal(&doc);
    return true;
}

/* A job as it would be written, and nothing more. */
static bool job_about(struct jobs *j, const char *what, const char *about, json_t **ret, struct err *err)
{
    cleanup(json) json_t *job = json_object();
    struct store_batch *b = store_batch_new();
    json_put_str(job, "id", id_new("job").text);
    json_put_str(job, "state", "queued");
    json_put_str(job, "generator", "revalidate");
    json_put_str(job, what, about);
    store_put(b, STORE_JOB, json_str(job, "id", ""), NULL, job);
    if (!store_commit(j->store, b, NULL, err))
        return false;
    *ret = steal(&job);
    return true;
}

bool jobs_revalidate(struct jobs *j, const char *hash, const struct shelf_order *order, json_t **ret_job, struct err *err)
{
    cleanup(shelf) struct shelf shelf = {.changed = false};
    if (!shelf_open(j->store, hash, &shelf, err))
        return false;
    if (!json_array_size(json_object_get(shelf.doc, "entries")))
        return err_set(err, ERR_NOT_FOUND, "there is no kernel for shape %s", hash);
    return job_about(j, "about", order->candidate ? order->candidate : hash, ret_job, err);
}

bool jobs_release(struct jobs *j, const char *candidate, const struct shelf_order *order, json_t **ret_job, struct err *err)
{
    cleanup(json) json_t *record = NULL;
    (void)order;
    if (!store_get(j->store, STORE_CANDIDATE, candidate, &record, err))
        return false;
    return candidate_is_held(record) ? job_about(j, "about", candidate, ret_job, err) : err_set(err, ERR_CONFLICT, "%s is not held", candidate);
}

json_t *jobs_spending(struct jobs *j, int most)
{
    (void)j;
    json_t *doc = json_object(), *list = json_array();
    for (int i = 0; i < most && i < 9; i++) {
        cleanup(str) char *day = xfmt("2026-11-%02d", 30 - i);
        json_array_append_new(list, json_pack("{s:s,s:f,s:i,s:i}", "day", day, "gpu_seconds", 12.5, "tokens", 34000, "candidates", 7));
    }
    json_put(doc, "days", list);
    return doc;
}

json_t *jobs_stats(struct jobs *j)
{
    json_t *doc = json_object();
    json_put_int(doc, "runners", j->config.runners);
    return doc;
}

static void put_blob(struct store_batch *b, json_t *digests, const char *name, const char *text)
{
    struct hash_hex digest;
    store_put_blob(b, text, strlen(text), &digest);
    json_put_str(digests, name, digest.text);
}

bool fake_kernel(struct store *s, const char *hash, const json_t *shape, const char *evidence, const char *cubin)
{
    cleanup(json) json_t *kernel = json_object(), *digests = json_object(), *event = json_object();
    struct store_batch *b = store_batch_new();
    struct err err;
    put_blob(b, digests, "kernel.cubin", cubin);
    put_blob(b, digests, "kernel.ptx", ".version 9.0");
    put_blob(b, digests, "source", "extern \"C\" __global__ void k() {}");
    put_blob(b, digests, "certificate.json", "{\"evidence\":\"emulated\"}");
    put_blob(b, digests, "certificate.json.minisig", "untrusted comment: x\n");
    json_put_str(kernel, "shape_hash", hash);
    if (shape)
        json_object_set(kernel, "shape", (json_t *)(uintptr_t)shape);
    json_put_str(kernel, "evidence", evidence);
    json_put(kernel, "digests", json_incref(digests));
    store_put(b, STORE_KERNEL, hash, NULL, kernel);
    json_put_str(event, "shape_hash", hash);
    store_event(b, "shape.best", NULL, event);
    return store_commit(s, b, NULL, &err);
}

int fake_profiles_wanted;
const char *fake_brief_text;
void jobs_want_profile(struct jobs *j, const char *job)
{
    (void)j;
    fake_profiles_wanted += *job != 0;
}

void jobs_told(struct jobs *j, const char *job, const json_t *lessons)
{
    (void)j, (void)job, (void)lessons;
}

bool jobs_brief(struct jobs *j, const json_t *request, json_t **ret, struct faults *f, struct err *err)
{
    struct shape shape;
    cleanup(json) json_t *of_shape = json_copy((json_t *)(uintptr_t)request);
    json_object_del(of_shape, "job");
    if (!shape_parse(j->ops, of_shape, "sm_90a", "", &shape, f))
        return err_set(err, ERR_INVALID, "the request has a fault");
    *ret = json_pack("{s:s,s:s}", "shape_hash", shape_hash(&shape).text, "text", fake_brief_text ? fake_brief_text : "what there is to say");
    if (json_str(request, "job", NULL))
        json_put_str(*ret, "counters", "not read");
    return true;
}

/*
 * Candidates that an external agent sends. They wait in a list of their own (a record beside the job, which exists as long as more
 * may come), so that neither the agent nor the runner has to change what the other writes.
 */
#include "server/jobs/internal.h"

#define TOLD_MOST 64                     /* lessons that are remembered as told to a job */

/* The document, and for which shape of the job it is; both borrowed from the request. */
static const json_t *take_parts(const json_t *request, const json_t *job, const char **pointer, int *ret_shape, struct faults *f)
{
    static const char *const keys[] = {"candidate", "shape_hash", NULL};
    const json_t *candidate = request, *hash = NULL;
    size_t shapes = json_array_size(json_object_get(job, "shapes"));
    *pointer = "";
    *ret_shape = 0;
    if (json_object_get(request, "candidate")) {
        json_only_keys(request, "", keys, f);
        candidate = json_object_get(request, "candidate");
        hash = json_object_get(request, "shape_hash");
        *pointer = "/candidate";
    }
    if (hash)
        *ret_shape = json_is_string(hash) ? job_shape_index(job, json_string_value(hash)) : -1;
    if (hash && *ret_shape < 0)
        faults_add(f, "/shape_hash", "not a shape of this job");
    else if (!hash && shapes > 1)
        faults_add(f, "/shape_hash", "the job has %zu shapes: say which, as {\"candidate\":{...},\"shape_hash\":\"...\"}", shapes);
    return candidate;
}

static bool check_candidate(const json_t *doc, const char *pointer, struct faults *f, struct err *err)
{
    cleanup(candidate) struct candidate c = {0};
    (void)!candidate_parse(doc, pointer, &c, f);
    if (f->count)
        return err_set(err, ERR_INVALID, "the candidate has %d %s, the first at %s: %s", f->count, f->count == 1 ? "fault" : "faults",
                       *f->list[0].pointer ? f->list[0].pointer : "its top", f->list[0].detail);
    return true;
}

/* Its line tells whose failures are told first: it is of this search, or it has none. */
static bool check_parent(struct jobs *j, const json_t *doc, const char *pointer, const char *job, const char *hash, struct faults *f, struct err *err)
{
    const char *parent = json_str(doc, "parent", NULL);
    cleanup(json) json_t *record = NULL;
    struct err why = {0};
    if (!parent)
        return true;
    if (id_valid(parent, "cand") && !store_get(j->store, STORE_CANDIDATE, parent, &record, &why) && why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    if (record && !strcmp(json_str(record, "job", ""), job) && !strcmp(json_str(record, "shape_hash", ""), hash))
        return true;
    cleanup(str) char *at = xfmt("%s/parent", pointer);
    faults_add(f, at, "a candidate of this job and shape is needed");
    return err_set(err, ERR_INVALID, "the candidate's parent is none of this job and shape");
}

static bool ended(struct jobs *j, const char *id, struct err *err)
{
    cleanup(json) json_t *job = NULL;
    if (!store_get(j->store, STORE_JOB, id, &job, err))
        return false;
    return err_set(err, ERR_CONFLICT, "job %s has ended (%s): no more candidates are taken", id, json_str(job, "state", ""));
}

static bool holds(const json_t *list, const json_t *id)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
        if (json_equal(item, id))
            return true;
    return false;
}

void jobs_told(struct jobs *j, const char *job, const json_t *lessons)
{
    char key[64];
    external_key(job, key, sizeof key);
    for (int tries = 0; tries < JOBS_TRIES && json_array_size(lessons); tries++) {
        cleanup(json) json_t *was = NULL, *now = NULL;
        struct err why = {0};
        const json_t *lesson;
        size_t i, added = 0;
        if (!store_get(j->store, STORE_META, key, &was, &why))
            return;
        now = json_deep_copy(was);
        json_t *told = json_object_get(now, "told");
        if (!told)
            json_put(now, "told", told = json_array());
        json_array_foreach(lessons, i, lesson) {
            json_t *id = json_object_get(lesson, "id");
            if (!id || holds(told, id))
                continue;
            if (json_array_size(told) >= TOLD_MOST)      /* who asks for more than it can use: the first told is forgotten */
                json_array_remove(told, 0);
            json_array_append(told, id);
            added++;
        }
        if (!added)
            return;
        struct store_batch *b = store_batch_new();
        store_expect(b, STORE_META, key, was);
        store_put(b, STORE_META, key, NULL, now);
        if (store_commit(j->store, b, NULL, &why) || why.code != ERR_CONFLICT)
            return;
    }
}

/* Of the lessons that the candidate names, those that its job was told. */
static void keep_lessons(json_t *record, const json_t *told)
{
    json_t *candidate = json_object_get(record, "candidate"), *kept = json_array();
    const json_t *id;
    size_t i;
    json_array_foreach(json_object_get(candidate, "lessons"), i, id)
        if (holds(told, id))
            json_array_append(kept, (json_t *)(uintptr_t)id);
    if (json_array_size(kept))
        json_object_set(candidate, "lessons", kept);
    else
        json_object_del(candidate, "lessons");
    json_decref(kept);
}

/* One try: the waiting list as it is, with one more. ERR_BUSY: the list, or the key, is not as it was. */
static bool add(struct jobs *j, const char *job_id, const json_t *job, json_t *record, const char *idempotency, const json_t *answer,
                struct err *err)
{
    char key[64];
    cleanup(json) json_t *was = NULL, *now = NULL;
    struct err why = {0};
    external_key(job_id, key, sizeof key);
    if (!store_get(j->store, STORE_META, key, &was, &why))
        return why.code == ERR_NOT_FOUND ? ended(j, job_id, err) : err_set(err, why.code, "%s", why.text);
    int64_t accepted = json_int(was, "accepted", 0), most = json_int(json_object_get(job, "budget"), "candidates", 0);
    if (accepted >= most)
        return err_set(err, ERR_CONFLICT, "job %s may have %lld candidates and has got them all", job_id, (long long)most);
    keep_lessons(record, json_object_get(was, "told"));
    cleanup(str) char *text = json_text(record);
    const int64_t bytes = (int64_t)strlen(text), of_job = json_int(was, "bytes", 0) + bytes, most_of_job = j->config.job_posted_bytes;
    if (most_of_job && of_job > most_of_job)
        return err_set(err, ERR_CONFLICT, "the candidates of job %s may have %lld bytes together and this one makes them %lld", job_id,
                       (long long)most_of_job, (long long)of_job);
    now = json_deep_copy(was);
    json_put_int(now, "accepted", accepted + 1);
    json_put_int(now, "bytes", of_job);
    json_array_append(json_object_get(now, "waiting"), json_object_get(record, "id"));
    struct store_batch *b = store_batch_new();
    int64_t of_caller = 0;
    const int64_t most_of_caller = j->config.caller_posted_bytes;
    bool room = posted_add(j, b, job, bytes, &of_caller, err);
    if (room && most_of_caller && of_caller > most_of_caller)
        room = err_set(err, ERR_CONFLICT, "the candidates of all jobs of this caller that are kept may have %lld bytes together, and this one makes them %lld",
                       (long long)most_of_caller, (long long)of_caller);
    if (!room) {
        store_batch_free(b);
        return false;
    }
    store_expect(b, STORE_META, key, was);
    store_put(b, STORE_META, key, NULL, now);
    store_put(b, STORE_CANDIDATE, json_str(record, "id", ""), job_id, record);
    event_proposed(b, record);
    if (idempotency)
        put_idempotency(b, idempotency, answer, "candidate", json_str(record, "id", ""));
    if (store_commit(j->store, b, NULL, &why))
        return true;
    return err_set(err, why.code == ERR_CONFLICT ? ERR_BUSY : why.code, "%s", why.text);
}

bool jobs_add_candidate_once(struct jobs *j, const char *job_id, const json_t *request, const char *idempotency, const json_t *answer,
                             json_t **ret_candidate, struct faults *f, struct err *err)
{
    cleanup(json) json_t *job = NULL, *record = NULL, *kept = NULL;
    if (!store_get(j->store, STORE_JOB, job_id, &job, err))
        return false;
    if (job_is_final(job))
        return ended(j, job_id, err);
    if (strcmp(json_str(job, "generator", ""), "external") != 0)
        return err_set(err, ERR_CONFLICT, "job %s makes its own candidates (generator %s): only a job of generator external takes them",
                       job_id, json_str(job, "generator", ""));
    const char *pointer;
    int index;
    const json_t *doc = take_parts(request, job, &pointer, &index, f);
    if (!check_candidate(doc, pointer, f, err))
        return false;
    const json_t *shape = job_shape(job, index);
    if (!shape_is_open(shape))
        return err_set(err, ERR_CONFLICT, "the search for shape %s has ended (%s)", json_str(shape, "shape_hash", ""),
                       json_str(shape, "why_ended", shape_state(shape)));
    if (!check_parent(j, doc, pointer, job_id, json_str(shape, "shape_hash", ""), f, err))
        return false;
    struct id id = id_new("cand");
    cleanup(json) json_t *own = json_copy((json_t *)(uintptr_t)doc);
    record = candidate_record_new(id.text, job_id, json_str(shape, "shape_hash", ""), json_str(job, "op", ""),
                                  own, NULL, false);
    if (idempotency) {
        kept = answer ? json_copy((json_t *)(uintptr_t)answer) : json_object();
        json_put(kept, "body", json_incref(record));
    }
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        struct err why = {0};
        if (add(j, job_id, job, record, idempotency, kept, &why)) {
            entry_wake(j, job_id, false);
            *ret_candidate = steal(&record);
            return true;
        }
        if (why.code != ERR_BUSY)
            return err_set(err, why.code, "%s", why.text);
        if (key_is_taken(j, idempotency))
            return err_set(err, ERR_CONFLICT, "this Idempotency-Key is taken already");
    }
    return err_set(err, ERR_BUSY, "job %s takes candidates too fast: try again", job_id);
}

bool jobs_add_candidate(struct jobs *j, const char *job_id, const json_t *request, json_t **ret_candidate, struct faults *f,
                        struct err *err)
{
    return jobs_add_candidate_once(j, job_id, request, NULL, NULL, ret_candidate, f, err);
}

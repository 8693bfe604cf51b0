/*
 * A kernel judged again, or a held candidate that an admin released: a job of its own with one shape. Its baseline is judged anew, then
 * the same program goes through everything that a retest asks, in a fresh process with fresh seeds:
 *
 *   start ─ pick ─ judge(baseline) ─ revalidate ─ rejudge ─ pick ─ end
 *
 * Right and faster: its certificate is renewed (a measured one is not replaced by an estimate). Anything else withdraws the kernel, with
 * the verdict as the reason; where noise left the question open nothing changes. A baseline that is served is its own first judgement.
 */
#include "server/jobs/internal.h"

static const struct generator revalidation = {.name = "revalidate"};

bool run_revalidates(const struct run *r)
{
    return json_is_object(json_object_get(r->job, "revalidates"));
}

static const char *judged_before(const struct run *r)
{
    return json_str(json_object_get(r->job, "revalidates"), "candidate", "");
}

bool run_revalidates_baseline(const struct run *r)
{
    return json_bool(json_object_get(r->job, "revalidates"), "is_baseline", false);
}

/* ---- asking for it ---- */

static bool parse_shape(struct jobs *j, const json_t *doc, const char *hash, struct shape *ret, struct err *err)
{
    struct faults f = {0};
    if (!shape_parse(j->ops, doc, NULL, "", ret, &f))
        return err_set(err, ERR_UNPROCESSABLE, "shape %.12s... cannot be judged here any more: %s: %s", hash, f.list[0].pointer,
                       f.list[0].detail);
    if (strcmp(shape_hash(ret).text, hash) != 0)
        return err_set(err, ERR_UNPROCESSABLE, "shape %.12s... cannot be judged any more: operator %s is now another version (%d)", hash,
                       ret->op->name, ret->op->version);
    return true;
}

static json_t *job_of(struct jobs *j, const char *id, struct shape *s, const json_t *record, const json_t *released, const char *caller)
{
    const struct job_request r = {.op = s->op, .shape_count = 1, .shapes = s, .generator = &revalidation, .candidates = 1,
                                  .wall_seconds = j->config.default_wall_seconds};
    json_t *job = job_new(id, &r, caller), *what = json_object();
    json_put_str(what, "candidate", json_str(record, "id", ""));
    json_put_bool(what, "is_baseline", json_bool(record, "is_baseline", false));
    if (released)
        json_put(what, "released", json_incref((json_t *)(uintptr_t)released));
    json_put(job, "revalidates", what);
    return job;
}

/* A job that is there already and has not ended; new reference, NULL: none. */
static json_t *open_job(struct jobs *j, const char *id)
{
    json_t *job = NULL;
    struct err why = {0};
    if (!id || !store_get(j->store, STORE_JOB, id, &job, &why))
        return NULL;
    if (!job_is_final(job))
        return job;
    json_decref(job);
    return NULL;
}

static void put_job(struct store_batch *b, const json_t *job)
{
    event_state(b, job);
    store_expect(b, STORE_JOB, json_str(job, "id", ""), NULL);
    store_put(b, STORE_JOB, json_str(job, "id", ""), JOBS_OWNER_OPEN, job);
}

/* One try; *ret_is_new: the entry is this job's. ERR_BUSY: the shelf changed meanwhile. */
static bool revalidate_once(struct jobs *j, const char *hash, const struct shelf_order *o, const char *id, json_t **ret, bool *ret_is_new,
                            struct err *err)
{
    cleanup(shelf) struct shelf shelf = {.changed = false};
    cleanup(json) json_t *record = NULL, *job = NULL;
    struct shape shape;
    struct err why = {0};
    if (!shelf_open(j->store, hash, &shelf, err))
        return false;
    const char *wanted = o->candidate ? o->candidate : shelf_serves(&shelf);
    json_t *entry = wanted ? shelf_entry(&shelf, wanted) : (json_t *)(uintptr_t)shelf_withdrawn(&shelf, NULL);
    if (!entry && o->candidate)
        return err_set(err, ERR_NOT_FOUND, "%.60s is no kernel that was verified for shape %.64s", o->candidate, hash);
    if (!entry)
        return err_set(err, ERR_NOT_FOUND, "there is no kernel for shape %.64s", hash);
    *ret_is_new = false;
    if ((*ret = open_job(j, json_str(entry, "revalidation", NULL))))
        return true;
    if (!store_get(j->store, STORE_CANDIDATE, json_str(entry, "candidate", ""), &record, err))
        return err_wrap(err, "the kernel's candidate");
    if (!parse_shape(j, json_object_get(json_object_get(entry, "manifest"), "shape"), hash, &shape, err))
        return false;
    job = job_of(j, id, &shape, record, NULL, o->by);
    json_put_str(entry, "revalidation", id);
    struct store_batch *b = store_batch_new();
    shelf_write(&shelf, b);
    put_job(b, job);
    if (!store_commit(j->store, b, NULL, &why))
        return err_set(err, why.code == ERR_CONFLICT ? ERR_BUSY : why.code, "%s", why.text);
    *ret = steal(&job);
    *ret_is_new = true;
    return true;
}

/* The shape of a candidate, as its job has it. */
static bool shape_of(struct jobs *j, const json_t *record, struct shape *ret, struct err *err)
{
    cleanup(json) json_t *job = NULL;
    const char *hash = json_str(record, "shape_hash", "");
    if (!store_get(j->store, STORE_JOB, json_str(record, "job", ""), &job, err))
        return err_wrap(err, "the candidate's job");
    return parse_shape(j, json_object_get(job_shape(job, job_shape_index(job, hash)), "shape"), hash, ret, err);
}

static bool release_once(struct jobs *j, const char *candidate, const struct shelf_order *o, const char *id, json_t **ret, bool *ret_is_new,
                         struct err *err)
{
    cleanup(json) json_t *was = NULL, *now = NULL, *job = NULL, *decision = NULL;
    cleanup(shelf) struct shelf shelf = {.changed = false};
    struct shape shape;
    struct err why = {0};
    *ret_is_new = false;
    if (!store_get(j->store, STORE_CANDIDATE, candidate, &was, err))
        return false;
    const json_t *decided = json_object_get(was, "decision");
    if (!candidate_is_held(was))
        return err_set(err, ERR_CONFLICT, "%s is not held: there is nothing to decide", candidate);
    if (strcmp(json_str(decided, "decision", ""), "refused") == 0)
        return err_set(err, ERR_CONFLICT, "%s was refused for good: %s", candidate, json_str(decided, "reason", ""));
    if (decided)
        return store_get(j->store, STORE_JOB, json_str(decided, "job", ""), ret, err);
    if (!shape_of(j, was, &shape, err) || !shelf_open(j->store, json_str(was, "shape_hash", ""), &shelf, err))
        return false;
    decision = json_pack("{s:s,s:s,s:s,s:s,s:s}", "decision", "released", "reason", o->reason, "by", o->by, "time",
                         clock_text(clock_wall_ns()).text, "job", id);
    now = json_copy(was);
    json_put(now, "decision", json_incref(decision));
    job = job_of(j, id, &shape, was, decision, o->by);
    struct store_batch *b = store_batch_new();
    store_expect(b, STORE_CANDIDATE, candidate, was);
    store_put(b, STORE_CANDIDATE, candidate, NULL, now);
    shelf_unhold(&shelf, candidate);
    shelf_write(&shelf, b);
    event_kernel(b, NULL, shelf.hash, candidate, "released", o->reason, shelf_serves(&shelf));
    put_job(b, job);
    if (!store_commit(j->store, b, NULL, &why))
        return err_set(err, why.code == ERR_CONFLICT ? ERR_BUSY : why.code, "%s", why.text);
    *ret = steal(&job);
    *ret_is_new = true;
    return true;
}

typedef bool ask_once(struct jobs *j, const char *about, const struct shelf_order *o, const char *id, json_t **ret, bool *ret_is_new,
                      struct err *err);

static bool ask(struct jobs *j, ask_once *once, const char *about, const struct shelf_order *o, json_t **ret, struct err *err)
{
    struct id id = id_new("job");
    struct entry *entry = NULL;
    struct err why = {0};
    if (!entry_reserve(j, id.text, &entry, err))
        return false;
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        bool is_new = false;
        if (once(j, about, o, id.text, ret, &is_new, &why)) {
            if (is_new)
                entry_ready(j, entry, job_saving_ns(j, *ret));
            else
                entry_drop(j, entry);
            return true;
        }
        if (why.code != ERR_BUSY)
            break;
    }
    entry_drop(j, entry);
    return err_set(err, why.code, "%s", why.text);
}

bool jobs_revalidate(struct jobs *j, const char *hash, const struct shelf_order *o, json_t **ret_job, struct err *err)
{
    return ask(j, revalidate_once, hash, o, ret_job, err);
}

bool jobs_release(struct jobs *j, const char *candidate, const struct shelf_order *o, json_t **ret_job, struct err *err)
{
    return ask(j, release_once, candidate, o, ret_job, err);
}

/* ---- doing it ---- */

json_t *run_judged_before(struct run *r, struct err *err)
{
    json_t *record = NULL;
    return store_get(r->j->store, STORE_CANDIDATE, judged_before(r), &record, err) ? record : NULL;
}

/* The same program as a candidate of this job. */
enum step_result step_revalidate(struct run *r)
{
    struct err err = {0};
    cleanup(json) json_t *before = run_judged_before(r, &err);
    if (!before)
        return run_fail(r, &err);
    struct id id = id_new("cand");
    cleanup(json) json_t *origin = json_pack("{s:s}", "revalidates", judged_before(r));
    cleanup(json) json_t *record = candidate_record_new(id.text, r->e->id, json_str(before, "shape_hash", ""), json_str(before, "op", ""),
                                                        json_object_get(before, "candidate"), origin, false);
    struct store_batch *b = store_batch_new();
    json_t *next = run_next(r), *spent = json_object_get(next, "spent");
    json_put_int(spent, "candidates", json_int(spent, "candidates", 0) + 1);
    json_put_str(record, "state", "judging");
    event_proposed(b, record);
    store_put(b, STORE_CANDIDATE, id.text, r->e->id, record);
    json_put_str(next, "current", id.text);
    json_put_str(next, "step", "rejudge");
    return run_commit(r, b, next, NULL);
}

/* What the verdict means for the shelf; the word for it. */
static const char *conclude(struct run *r, struct shelf *shelf, const json_t *record, const json_t *result, const struct judge_answer *a,
                            struct buf *reason, struct err *err)
{
    json_t *entry = shelf_entry(shelf, judged_before(r));
    bool by_us = entry && strcmp(json_str(entry, "by", ""), REVALIDATION) == 0;
    bool was_measured = entry && strcmp(json_str(entry, "evidence", ""), "measured") == 0;
    bool weaker = was_measured && strcmp(json_str(result, "evidence", ""), "measured") != 0;
    if (a->verdict.code == VERDICT_UNCLEAR)
        return "unclear";
    if (a->verdict.code != VERDICT_OK) {
        buf_fmt(reason, "judged again: %s: %s", verdict_name(a->verdict.code), a->verdict.text);
        if (entry && (by_us || strcmp(json_str(entry, "state", ""), "verified") == 0))
            shelf_withdraw(shelf, entry, buf_cstr(reason), REVALIDATION);
        return entry ? "quarantined" : "refused";
    }
    if (by_us)
        shelf_restore(shelf, entry);
    if (weaker) {
        buf_str(reason, "it is right here too; its measured figures could not be repeated on a machine without such a card, and stay");
        return "revalidated";
    }
    return manifest_offer(r->j, shelf, &r->shape, record, result, entry ? judged_before(r) : NULL, err) ? "revalidated" : NULL;
}

enum step_result settle_revalidation(struct run *r, json_t *record, struct judge_answer *a)
{
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        struct err err = {0};
        cleanup(shelf) struct shelf shelf = {.changed = false};
        cleanup(buf) struct buf reason = {0};
        struct store_batch *b = store_batch_new();
        json_t *next = run_account(r, a, "pick"), *shape = job_shape(next, r->shape_index);
        const char *id = json_str(record, "id", ""), *hash = json_str(shape, "shape_hash", "");
        bool is_baseline = json_bool(record, "is_baseline", false), ok = a->verdict.code == VERDICT_OK;
        cleanup(json) json_t *result = result_new(id, a->figures, is_baseline);
        run_judged(r, b, record, a);
        const char *state = shelf_open(r->j->store, hash, &shelf, &err) ? conclude(r, &shelf, record, result, a, &reason, &err) : NULL;
        if (!state) {
            store_batch_free(b);
            json_decref(next);
            return run_fail(r, &err);
        }
        shelf_write(&shelf, b);
        const char *serves = shelf_serves(&shelf);
        json_put_str(shape, "state", "done");
        json_put_str(shape, "why_ended", ok ? "it was judged again and holds" : reason.size ? buf_cstr(&reason) : "the question stayed open");
        json_put_int(shape, "tried", 1);
        if (ok)
            json_put(shape, "best", json_incref(result));
        if (ok)
            event_best(b, next, hash, result, is_baseline, serves && strcmp(serves, id) == 0, false);
        event_kernel(b, r->e->id, hash, judged_before(r), state, reason.size ? buf_cstr(&reason) : NULL, serves);
        bool conflict;
        enum step_result done = run_commit(r, b, next, &conflict);
        if (!conflict)
            return done;
    }
    return STEP_FAILED;
}

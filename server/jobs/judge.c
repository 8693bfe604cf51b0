/*
 * One judgement: the task, the progress as events, and what happens when the judge itself fails. A failure of ours is retried with
 * growing pauses, unless the judge says that it cannot do what it was asked for: it would say so again. A candidate that makes two
 * judges in a row crash, where its baseline was judged well, has its verdict: fault.
 */
#include "server/jobs/internal.h"

#define PAUSE_FIRST_NS ((int64_t)250 * 1000000)
#define PAUSE_MOST_NS ((int64_t)10 * 1000000000)
#define CRASHES_OF_A_CANDIDATE 2

struct judging {
    struct run *r;
    json_t *record;
    const char *mode;
    bool lost;           /* an event could not be written: the job has ended, or the store fails */
};

static bool must_stop(const struct run *r)
{
    return r->j->stopping || r->e->cancelled;
}

/* An event of a candidate, on condition that the job goes on. */
static bool say(struct run *r, const char *type, const json_t *doc, const json_t *record)
{
    struct store_batch *b = store_batch_new();
    struct err err = {0};
    store_expect(b, STORE_JOB, r->e->id, r->job);
    if (record)
        store_put(b, STORE_CANDIDATE, json_str(record, "id", ""), r->e->id, record);
    store_event(b, type, r->e->id, doc);
    bool ok = store_commit(r->j->store, b, NULL, &err);
    if (!ok && err.code != ERR_CONFLICT)
        log_line(LOG_ERROR, "an event could not be written", "job", r->e->id, "error", err.text, NULL);
    return ok;
}

/* What a phase is known by goes into its event however much it brings besides: a page must not take for done what was not. */
static bool always_told(const char *key, const json_t *value)
{
    static const char *const keys[] = {"phase", "state", "verdict", "note", "not_done", "device"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return !json_is_string(value) || json_string_length(value) <= PHASE_WORD_BYTES;
    return false;
}

static json_t *phase_event(const struct judging *g, const json_t *phase)
{
    json_t *doc = json_object();
    json_put_str(doc, "candidate", json_str(g->record, "id", ""));
    json_put_str(doc, "shape_hash", json_str(g->record, "shape_hash", ""));
    json_put_str(doc, "mode", g->mode);
    cleanup(str) char *text = json_text(phase);
    bool small = strlen(text) <= PHASE_MAX_BYTES;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)phase, key, value)
        if (!json_object_get(doc, key) && strcmp(key, "job") != 0 &&
            (small || always_told(key, value)))
            json_object_set(doc, key, value);
    return doc;
}

static void on_progress(void *ctx, const json_t *phase)
{
    struct judging *g = ctx;
    json_t *phases = json_object_get(g->record, "phases");
    cleanup(json) json_t *doc = phase_event(g, phase);
    if (g->lost)
        return;
    if (strcmp(json_str(phase, "state", ""), "end") == 0 && json_array_size(phases) < PHASES_KEPT) {
        json_t *kept = json_copy(doc);
        json_object_del(kept, "candidate");
        json_object_del(kept, "shape_hash");
        json_object_del(kept, "state");
        json_array_append_new(phases, kept);
    }
    g->lost = !say(g->r, "candidate.phase", doc, NULL);
}

static bool on_cancelled(void *ctx)
{
    struct judging *g = ctx;
    return g->lost || must_stop(g->r);
}

/*
 * The baseline as the job judged it, for the comparison, with the PTX it was compiled to then, so that it need not be
 * compiled for each candidate again (empty when it is not kept). A retest takes nothing over and gets no PTX. What would be served is
 * judged beside the operator's own baseline, whatever the job's is.
 */
static bool find_baseline(struct run *r, const json_t *candidate, const char *mode, json_t **ret, double *ret_time_ns, struct buf *ret_ptx,
                          json_t **ret_triton, struct err *err)
{
    if (record_stands_for(candidate))
        return candidate_load(r->shape.op->dir, "baseline", ret, err);

    const json_t *result = json_object_get(job_shape(r->job, r->shape_index), "baseline");
    cleanup(json) json_t *record = NULL;
    if (!store_get(r->j->store, STORE_CANDIDATE, json_str(result, "candidate", ""), &record, err))
        return err_wrap(err, "the baseline of shape %d", r->shape_index);
    const json_t *ptx = json_object_get(json_object_get(record, "artifacts"), "kernel.ptx");
    if (ptx && strcmp(mode, "retest") != 0 && !store_get_blob(r->j->store, json_str(ptx, "digest", ""), ret_ptx, err))
        return err_wrap(err, "the baseline's PTX of shape %d", r->shape_index);
    *ret = json_incref(json_object_get(record, "candidate"));
    *ret_triton = json_incref(json_object_get(json_object_get(record, "figures"), "triton"));
    *ret_time_ns = json_num(result, "time_ns", 0);
    return true;
}

/* Registered operators lie each in a folder of its own, the others together: the judge is shown the one that holds this one's. */
char *op_folder(const struct op *op)
{
    const char *slash = strrchr(op->dir, '/');
    return slash && slash > op->dir ? xstrndup(op->dir, (size_t)(slash - op->dir)) : xstrdup(op->dir);
}

static bool make_task(struct run *r, const json_t *record, const char *mode, json_t **ret, struct err *err)
{
    cleanup(json) json_t *baseline = NULL, *triton = NULL;
    double baseline_ns = 0;
    bool is_baseline = json_bool(record, "is_baseline", false);
    cleanup(buf) struct buf ptx = {0};
    if (!is_baseline && !find_baseline(r, record, mode, &baseline, &baseline_ns, &ptx, &triton, err))
        return false;
    json_t *task = json_object();
    json_put(task, "shape", shape_encode(&r->shape));
    json_put(task, "candidate", json_incref(json_object_get(record, "candidate")));
    json_put_str(task, "op_digest", r->shape.op->digest.text);
    json_put(task, "baseline", baseline ? json_incref(baseline) : json_null());
    json_put_str(task, "mode", mode);
    if (baseline_ns > 0)
        json_put_num(task, "baseline_time_ns", baseline_ns);
    if (ptx.size)
        json_put_str(task, "baseline_ptx", ptx.data);
    if (triton)
        json_put(task, "baseline_triton", json_incref(triton));
    const json_t *released = json_object_get(json_object_get(r->job, "revalidates"), "released");
    if (released)
        json_put(task, "released", json_incref((json_t *)(uintptr_t)released));
    json_put_str(task, "job", r->e->id);
    json_put_str(task, "candidate_id", json_str(record, "id", ""));
    *ret = task;
    return true;
}

/* Writes down that the judge failed. False: the job has ended, or the store fails. */
static bool note_error(struct judging *g, const struct err *why, int64_t errors, int64_t in_a_row)
{
    struct jobs *j = g->r->j;
    json_t *kept = json_object();
    json_put_str(kept, "code", err_name(why->code));
    json_put_str(kept, "text", why->text);
    json_put_int(kept, "in_a_row", in_a_row);
    json_put_int(g->record, "judge_errors", errors);
    json_put(g->record, "judge_error", kept);
    pthread_mutex_lock(&j->lock);
    j->judge_errors++;
    j->last_judge_error = *why;
    pthread_mutex_unlock(&j->lock);
    log_line(LOG_WARN, "the judge failed", "job", g->r->e->id, "candidate", json_str(g->record, "id", ""), "code", err_name(why->code),
             "error", why->text, NULL);
    cleanup(json) json_t *phase = json_pack("{s:s,s:s,s:I}", "phase", "judge", "state", "error", "attempt", (json_int_t)errors);
    json_put_str(phase, "text", why->text);
    cleanup(json) json_t *doc = phase_event(g, phase);
    return say(g->r, "candidate.phase", doc, g->record);
}

/* Errors that lie in what was asked for and not in the day: another try ends the same way. */
static bool is_refusal(enum err_code code)
{
    static const enum err_code refusals[] = {ERR_INVALID, ERR_UNPROCESSABLE, ERR_TOO_LARGE};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i] == code)
            return true;
    return false;
}

/* What follows from a failed judgement: another try (JUDGED here means: go on), a verdict in *ret, or the end of the job. */
static enum judged after_error(struct judging *g, const struct err *why, bool *ret_again, struct judge_answer *ret, struct err *err)
{
    const json_t *before = json_object_get(g->record, "judge_error");
    int64_t in_a_row = json_int(before, "in_a_row", 0) + 1;
    bool crashed_before = in_a_row > 1 && strcmp(json_str(before, "code", ""), err_name(ERR_UPSTREAM)) == 0;
    bool is_baseline = json_bool(g->record, "is_baseline", false);
    *ret_again = false;
    if (!note_error(g, why, json_int(g->record, "judge_errors", 0) + 1, in_a_row))
        return JUDGE_STOP;
    if (is_refusal(why->code)) {
        err_set(err, why->code, "%s cannot be judged: %.440s", is_baseline ? "this shape" : json_str(g->record, "id", ""), why->text);
        return is_baseline ? JUDGE_REFUSED : JUDGE_GIVE_UP;
    }
    if (!is_baseline && why->code == ERR_UPSTREAM && crashed_before) {
        verdict_set(&ret->verdict, VERDICT_FAULT, "judge", "it made %d judges in a row end badly: %.400s", CRASHES_OF_A_CANDIDATE,
                    why->text);
        return JUDGED;
    }
    if (in_a_row > g->r->j->config.judge_retries) {
        err_set(err, why->code, "the judge failed %lld times on candidate %s: %.380s", (long long)in_a_row, json_str(g->record, "id", ""),
                why->text);
        return JUDGE_GIVE_UP;
    }
    int64_t pause_ns = PAUSE_FIRST_NS;
    for (int64_t i = 1; i < in_a_row && pause_ns < PAUSE_MOST_NS; i++)
        pause_ns *= 3;
    *ret_again = entry_sleep(g->r->j, g->r->e, pause_ns < PAUSE_MOST_NS ? pause_ns : PAUSE_MOST_NS);
    return *ret_again ? JUDGED : JUDGE_STOP;
}

enum judged judge_candidate(struct run *r, json_t *record, const char *mode, struct judge_answer *ret, struct err *err)
{
    struct judging g = {.r = r, .record = record, .mode = mode};
    cleanup(json) json_t *task = NULL;
    if (!make_task(r, record, mode, &task, err))
        return JUDGE_GIVE_UP;
    struct spawn_config spawn = r->j->config.spawn;
    cleanup(str) char *ops_dir = op_folder(r->shape.op);
    if (spawn.ops_dir)
        spawn.ops_dir = ops_dir;
    for (;;) {
        struct err why = {0};
        cleanup(json) json_t *before = json_deep_copy(json_object_get(record, "phases"));
        if (must_stop(r))
            return JUDGE_STOP;
        if (spawn_judge(&spawn, task, on_progress, on_cancelled, &g, ret, &why)) {
            if (g.lost) {   /* it answered, but its progress is not all in the store */
                judge_answer_done(ret);
                return JUDGE_STOP;
            }
            const char *own = json_str(json_object_get(r->job, "baseline"), "digest", NULL);
            if (own && !record_stands_for(record))
                json_put_str(ret->figures, "own_baseline", own);
            if (strcmp(json_str(ret->figures, "evidence", ""), "measured") == 0)
                r->j->measured = true;
            if (json_object_get(record, "judge_error"))
                json_put_int(json_object_get(record, "judge_error"), "in_a_row", 0);
            pthread_mutex_lock(&r->j->lock);
            r->j->judged++;
            pthread_mutex_unlock(&r->j->lock);
            return JUDGED;
        }
        json_put(record, "phases", json_incref(before));   /* of the judgement that counts only */
        if (g.lost || must_stop(r))
            return JUDGE_STOP;
        bool again;
        enum judged next = after_error(&g, &why, &again, ret, err);
        if (!again)
            return next;
    }
}

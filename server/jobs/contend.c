/*
 * Contenders: a retest takes a card six times as long as a triage, so a search does not retest each candidate that is faster than the
 * best so far, but lets them contend. At the end of a round (after 8 candidates of a shape, 16, 32, ... and when the search is over)
 * the round is decided by successive halving over triage timings: those that may be the fastest, by the intervals of their first
 * timing, are timed again, the better half of them once more, and so on until two are left; the better of these is retested. What a
 * retest does not confirm leaves the place to the next. The rest get the verdict that triage gave them. Source of the halving: Karnin,
 * Koren and Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013.
 *
 * A contender's record has "pending", the verdict of its triage, and stays in state judging until it is decided; the job's shape lists
 * them: "contenders":[RESULT + {"timings","log_sum","high","again"?}], "round": candidates tried when it is decided, "retests": in it.
 *
 * Where judgements are estimates a second one would say the same: there each is confirmed at once, as are candidates from outside.
 */
#include "server/jobs/internal.h"

#include <math.h>

#define ROUND 8                          /* candidates until the first is decided; then as many as there have been */
#define CONTENDERS_MAX 16
#define RETESTS_OF_A_ROUND 3
#define DECIDED_BY_RETEST 2              /* so few are not timed again */

static json_t *contenders(const json_t *shape)
{
    return json_object_get(shape, "contenders");
}

static int contender_index(const json_t *shape, const char *id)
{
    json_t *one;
    size_t i;
    json_array_foreach(contenders(shape), i, one)
        if (strcmp(json_str(one, "candidate", ""), id) == 0)
            return (int)i;
    return -1;
}

bool contends(const struct run *r, const json_t *record, const struct judge_answer *a)
{
    const char *generator = json_str(r->job, "generator", "");
    return a->verdict.code == VERDICT_OK && strcmp(generator, "external") != 0 && !run_revalidates(r) && !json_bool(record, "is_baseline", false) &&
           strcmp(json_str(a->figures, "evidence", ""), "measured") == 0 && json_array_size(contenders(job_shape(r->job, r->shape_index))) < CONTENDERS_MAX;
}

bool contenders_due(const struct run *r, int index)
{
    const json_t *shape = job_shape(r->job, index);
    return json_array_size(contenders(shape)) &&
           (json_str(shape, "why_ended", NULL) || json_int(shape, "tried", 0) >= json_int(shape, "round", ROUND));
}

/* One more timing: what counts is the mean of all of them, on the log scale. */
static void add_timing(json_t *one, const json_t *result)
{
    const int64_t timings = json_int(one, "timings", 0) + 1;
    const double sum = json_num(one, "log_sum", 0) + log(result_speedup(result)), median = exp(sum / (double)timings);
    json_t *speedup = json_deep_copy(json_object_get(result, "speedup"));
    json_put_num(speedup, "median", median);
    json_object_update(one, (json_t *)(uintptr_t)result);
    json_put(one, "speedup", speedup);
    json_put_int(one, "timings", timings);
    json_put_num(one, "log_sum", sum);
    json_object_del(one, "again");
}

enum step_result settle_contender(struct run *r, json_t *record, struct judge_answer *a)
{
    struct store_batch *b = store_batch_new();
    json_t *next = run_account(r, a, "propose"), *shape = job_shape(next, r->shape_index), *one = json_object();
    cleanup(json) json_t *result = result_new(json_str(record, "id", ""), a->figures, false);
    add_timing(one, result);
    if (!contenders(shape))
        json_put(shape, "contenders", json_array());
    json_array_append_new(contenders(shape), one);
    if (!json_object_get(shape, "round"))
        json_put_int(shape, "round", ROUND);
    json_put_int(shape, "tried", json_int(shape, "tried", 0) + 1);
    run_pending(r, b, record, a);
    enum step_result done = run_commit(r, b, next, NULL);
    if (done == STEP_GO && r->past_count >= 0)
        run_add_past(r, record);
    return done;
}

enum step_result settle_again(struct run *r, json_t *record, struct judge_answer *a)
{
    struct store_batch *b = store_batch_new();
    json_t *next = run_account(r, a, "narrow"), *shape = job_shape(next, r->shape_index);
    const int at = contender_index(shape, json_str(record, "id", ""));
    if (a->verdict.code == VERDICT_OK && at >= 0) {
        cleanup(json) json_t *result = result_new(json_str(record, "id", ""), a->figures, false);
        add_timing(json_array_get(contenders(shape), (size_t)at), result);
        store_put(b, STORE_CANDIDATE, json_str(record, "id", ""), r->e->id, record);
    } else {                             /* with other seeds it is wrong, or no faster: that is its verdict */
        json_array_remove(contenders(shape), (size_t)(at < 0 ? 0 : at));
        run_judged(r, b, record, a);
        run_put_past(r, record);
    }
    return run_commit(r, b, next, NULL);
}

/* ---- deciding ---- */

/* Better first: more timings mean that it has come further. */
static bool before(const json_t *a, const json_t *b)
{
    const int64_t x = json_int(a, "timings", 0), y = json_int(b, "timings", 0);
    return x != y ? x > y : result_speedup(a) > result_speedup(b);
}

/* Indices of the contenders that have come furthest, better first; their number. */
static int survivors(const json_t *shape, int *ret)
{
    const int count = (int)json_array_size(contenders(shape));
    int n = 0;
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && before(json_array_get(contenders(shape), (size_t)i), json_array_get(contenders(shape), (size_t)ret[at - 1])); at--)
            ret[at] = ret[at - 1];
        ret[at] = i;
    }
    while (n < count && json_int(json_array_get(contenders(shape), (size_t)ret[n]), "timings", 0) ==
                            json_int(json_array_get(contenders(shape), (size_t)ret[0]), "timings", 0))
        n++;
    return n;
}

static double interval(const json_t *one, const char *end)
{
    const json_t *speedup = json_object_get(one, "speedup");
    return json_num(speedup, end, result_speedup(one));
}

/* Who is to be timed again: after the first timing whoever may be the fastest, then the better half. 0: nobody. */
static int mark_again(json_t *shape)
{
    int order[CONTENDERS_MAX];
    const int n = survivors(shape, order);
    const json_t *first = json_array_get(contenders(shape), (size_t)order[0]);
    const bool begins = json_int(first, "timings", 0) == 1;
    int marked = 0;
    for (int i = 0; i < n; i++) {
        const json_t *one = json_array_get(contenders(shape), (size_t)order[i]);
        marked += begins ? interval(one, "high") >= interval(first, "low") : i < (n + 1) / 2;
    }
    if (marked <= DECIDED_BY_RETEST)
        return 0;
    for (int i = 0, left = marked; i < n && left; i++) {
        json_t *one = json_array_get(contenders(shape), (size_t)order[i]);
        if (begins && interval(one, "high") < interval(first, "low"))
            continue;
        json_put_bool(one, "again", true);
        left--;
    }
    return marked;
}

static const json_t *marked_one(const json_t *shape)
{
    json_t *one;
    size_t i;
    json_array_foreach(contenders(shape), i, one)
        if (json_bool(one, "again", false))
            return one;
    return NULL;
}

/* A contender that is out: its triage's verdict stands. */
static enum step_result release(struct run *r, int at)
{
    struct err err = {0};
    cleanup(json) json_t *record = NULL;
    json_t *next = run_next(r), *shape = job_shape(next, r->shape_index);
    const char *id = json_str(json_array_get(contenders(shape), (size_t)at), "candidate", "");
    if (!store_get(r->j->store, STORE_CANDIDATE, id, &record, &err)) {
        json_decref(next);
        return run_fail(r, &err);
    }
    struct store_batch *b = store_batch_new();
    run_release(r, b, record);
    json_array_remove(contenders(shape), (size_t)at);
    run_put_past(r, record);
    return run_commit(r, b, next, NULL);
}

/* The round is over: on with the search, or its end. */
static enum step_result round_over(struct run *r)
{
    json_t *next = run_next(r), *shape = job_shape(next, r->shape_index);
    const int64_t tried = json_int(shape, "tried", 0);
    json_put_int(shape, "round", 2 * tried > ROUND ? 2 * tried : ROUND);
    json_object_del(shape, "retests");
    json_object_del(shape, "contenders");
    json_put_str(next, "step", json_str(shape, "why_ended", NULL) ? "close" : "propose");
    return run_commit(r, store_batch_new(), next, NULL);
}

static enum step_result judge_next(struct run *r, json_t *next, const char *id, const char *step)
{
    json_put_str(next, "current", id);
    json_put_str(next, "step", step);
    return run_commit(r, store_batch_new(), next, NULL);
}

enum step_result step_narrow(struct run *r)
{
    const int index = (int)json_int(r->job, "shape", -1);
    const json_t *shape = job_shape(r->job, index), *best = json_object_get(shape, "best");
    const int count = (int)json_array_size(contenders(shape));
    const bool retested = json_int(shape, "retests", 0) >= RETESTS_OF_A_ROUND;
    struct err err = {0};
    if (!run_load_shape(r, index, &err))
        return run_fail(r, &err);
    if (!count)
        return round_over(r);
    for (int i = 0; i < count; i++)
        if (retested || !result_beats(json_array_get(contenders(shape), (size_t)i), best))
            return release(r, i);
    const json_t *again = marked_one(shape);
    cleanup(str) char *used = run_used_up(r);
    json_t *next = run_next(r), *mine = job_shape(next, index);
    if (again && !used)
        return judge_next(r, next, json_str(again, "candidate", ""), "again");
    if (!used && mark_again(mine))
        return run_commit(r, store_batch_new(), next, NULL);
    int order[CONTENDERS_MAX];
    (void)survivors(mine, order);
    json_put_int(mine, "retests", json_int(mine, "retests", 0) + 1);
    return judge_next(r, next, json_str(json_array_get(contenders(mine), (size_t)order[0]), "candidate", ""), "confirm");
}

/* After its retest a contender is none any more; where it was confirmed, the round has its winner. */
void contender_retested(json_t *shape, const char *id, bool confirmed)
{
    const int at = contender_index(shape, id);
    if (at >= 0)
        json_array_remove(contenders(shape), (size_t)at);
    if (at >= 0 && confirmed)
        json_put_int(shape, "retests", RETESTS_OF_A_ROUND);
}

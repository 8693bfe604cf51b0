/*
 * What was spent, day by day (UTC): device seconds, tokens and candidates of all jobs together, kept in one record of the store. Whatever
 * changes a job's "spent" adds the difference to the day in the same transaction, so the sums are those of the jobs, whatever dies in
 * between, and a job that has run over midnight is in both days with what it spent there. One such transaction at a time: they are one or
 * two a judgement. Tokens and device time that are spent outside of jobs are added by themselves.
 */
#include "server/jobs/internal.h"

#include <math.h>

#define KEY "spending"

static const char *const counted[] = {"gpu_seconds", "tokens", "candidates"};
#define COUNTED (sizeof counted / sizeof *counted)

bool spending_load(struct jobs *j, struct err *err)
{
    struct err why = {0};
    pthread_mutex_init(&j->spending_lock, NULL);
    if (store_get(j->store, STORE_META, KEY, &j->spending, &why) && json_is_array(json_object_get(j->spending, "days")))
        return true;
    if (!j->spending && why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    json_decref(j->spending);
    j->spending = json_pack("{s:[]}", "days");
    return true;
}

void spending_done(struct jobs *j)
{
    json_decref(j->spending);
    pthread_mutex_destroy(&j->spending_lock);
}

static struct rfc3339 today(void)
{
    struct rfc3339 day = clock_text(clock_wall_ns());
    day.text[10] = 0;
    return day;
}

/* The last entry if it is today's (a clock that was set back goes on with the day it had reached), else a new one. */
static json_t *day_of(json_t *days)
{
    json_t *last = json_array_get(days, json_array_size(days) - 1);
    struct rfc3339 now = today();
    if (last && strcmp(json_str(last, "day", ""), now.text) >= 0)
        return last;
    while (json_array_size(days) >= SPENDING_DAYS)
        json_array_remove(days, 0);
    json_t *day = json_object();
    json_put_str(day, "day", now.text);
    for (size_t i = 0; i < COUNTED; i++)
        json_put_int(day, counted[i], 0);
    json_array_append_new(days, day);
    return day;
}

static double more(const json_t *before, const json_t *after, const char *what)
{
    return json_num(json_object_get(after, "spent"), what, 0) - json_num(json_object_get(before, "spent"), what, 0);
}

static json_t *with_more(const json_t *spending, const double add[COUNTED])
{
    json_t *next = json_deep_copy(spending), *day = day_of(json_object_get(next, "days"));
    for (size_t i = 0; i < COUNTED; i++) {
        double sum = json_num(day, counted[i], 0) + add[i];
        if (i)
            json_put_int(day, counted[i], (int64_t)llround(sum));
        else
            json_put_num(day, counted[i], round(sum * 1e6) / 1e6);
    }
    return next;
}

/* The batch with the day's new sums; taken over in any case. */
static bool commit_sums(struct jobs *j, struct store_batch *b, const double add[COUNTED], struct err *err)
{
    pthread_mutex_lock(&j->spending_lock);
    json_t *next = with_more(j->spending, add);
    store_put(b, STORE_META, KEY, NULL, next);
    bool ok = store_commit(j->store, b, NULL, err);
    json_decref(ok ? j->spending : next);
    if (ok)
        j->spending = next;
    pthread_mutex_unlock(&j->spending_lock);
    return ok;
}

void spending_add_gpu(struct jobs *j, int64_t gpu_ns)
{
    const double add[COUNTED] = {(double)gpu_ns / 1e9, 0, 0};
    struct err err = {0};
    if (gpu_ns > 0 && !commit_sums(j, store_batch_new(), add, &err))
        log_line(LOG_ERROR, "what was spent could not be written", "error", err.text, NULL);
}

void spending_add_tokens(struct jobs *j, int64_t tokens)
{
    const double add[COUNTED] = {0, (double)tokens, 0};
    struct err err = {0};
    if (tokens > 0 && !commit_sums(j, store_batch_new(), add, &err))
        log_line(LOG_ERROR, "what was spent could not be written", "error", err.text, NULL);
}

bool spending_commit(struct jobs *j, struct store_batch *b, const json_t *before, const json_t *after, struct err *err)
{
    double add[COUNTED];
    bool any = false;
    for (size_t i = 0; i < COUNTED; i++) {
        add[i] = more(before, after, counted[i]);
        any |= add[i] > 0;
    }
    return any ? commit_sums(j, b, add, err) : store_commit(j->store, b, NULL, err);
}

json_t *jobs_spending(struct jobs *j, int most)
{
    json_t *doc = json_object(), *list = json_array();
    static const double nothing[COUNTED];
    pthread_mutex_lock(&j->spending_lock);
    cleanup(json) json_t *now = with_more(j->spending, nothing);
    pthread_mutex_unlock(&j->spending_lock);
    const json_t *days = json_object_get(now, "days");
    for (size_t i = json_array_size(days); i > 0 && json_array_size(list) < (size_t)most; i--)
        json_array_append(list, json_array_get(days, i - 1));
    json_put(doc, "days", list);
    return doc;
}

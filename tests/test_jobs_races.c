/*
 * What happens at the same time: jobs cancelled at any moment get no event after their last one, agents that send at once lose
 * nothing and never pass the budget, jobs for one shape agree on what is served.
 */
#include "tests/test_jobs.h"

#include <pthread.h>

#define CANCELLED 80
#define AGENTS 4

/* The last event is job.done, it is the only one, and no candidate has two verdicts. */
static void check_end(struct world *w, const char *id)
{
    cleanup(json) json_t *events = events_of(w, id), *all = candidates_of(w, id), *job = get(w, STORE_JOB, id);
    size_t i;
    json_t *c;
    check_str(json_str(json_array_get(events, json_array_size(events) - 1), "type", ""), "job.done");
    check_int(count_events(events, "job.done", NULL), 1);
    check(json_object_get(job, "finished") && !json_object_get(job, "current"));
    json_array_foreach(all, i, c) {
        bool judged = strcmp(json_str(c, "state", ""), "judged") == 0;
        check_int(count_events(events, "candidate.verdict", json_str(c, "id", "")), judged);
        check(judged || strcmp(json_str(c, "state", ""), "dropped") == 0);
    }
}

static void cancelled_at_any_moment(void)
{
    cleanup(world) struct world w = {0};
    static char ids[CANCELLED][40];
    world_new(&w);
    SET_SCRIPT("time=900 ", "time=800 ", "time=1700 ", "time=600 ", "time=500 ", "time=1400 ");
    int cancelled = 0;
    for (int i = 0; i < CANCELLED; i++) {
        cleanup(json) json_t *job = NULL;
        struct err err = {0};
        snprintf(ids[i], sizeof ids[i], "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':'never'}"));
        clock_sleep_ns((int64_t)(i % 40) * 1100000);
        check(jobs_cancel(w.jobs, ids[i], &job, &err));
        cancelled += strcmp(json_str(job, "state", ""), "cancelled") == 0;
    }
    jobs_stop(w.jobs);   /* whatever a runner still had in hand is written or not by now */
    for (int i = 0; i < CANCELLED; i++)
        check_end(&w, ids[i]);
    check(cancelled > CANCELLED / 2);
    w.jobs = NULL;
}

struct agent { struct world *w; const char *job; int accepted, refused; pthread_t thread; };

static void *send_candidates(void *arg)
{
    struct agent *a = arg;
    for (int i = 0; i < 10; i++) {
        cleanup(json) json_t *doc = candidate_doc(i % 2 ? "time=1100 " : "verdict=race "), *record = NULL;
        struct faults f = {0};
        struct err err = {0};
        if (jobs_add_candidate(a->w->jobs, a->job, doc, &record, &f, &err))
            a->accepted++;
        else
            a->refused += err.code == ERR_CONFLICT;
    }
    return NULL;
}

static void agents_at_once(void)
{
    cleanup(world) struct world w = {0};
    struct agent agents[AGENTS];
    char id[40];
    int accepted = 0, refused = 0;
    world_new(&w);
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}],'generator':'external','budget':{'candidates':30}}"));
    for (int i = 0; i < AGENTS; i++) {
        agents[i] = (struct agent){.w = &w, .job = id};
        pthread_create(&agents[i].thread, NULL, send_candidates, &agents[i]);
    }
    for (int i = 0; i < AGENTS; i++) {
        pthread_join(agents[i].thread, NULL);
        accepted += agents[i].accepted;
        refused += agents[i].refused;
    }
    check_int(accepted, 30);
    check_int(refused, 10);
    cleanup(json) json_t *job = wait_job(&w, id), *all = candidates_of(&w, id);
    check_int(json_array_size(all), 31);
    check_int(json_int(json_object_get(job, "spent"), "candidates", 0), 30);
    check_int(json_int(json_array_get(json_object_get(job, "shapes"), 0), "tried", 0), 30);
    size_t i;
    json_t *c;
    json_array_foreach(all, i, c)
        check_str(json_str(c, "state", ""), "judged");
    check_end(&w, id);
}

/* Several jobs for one shape at once: the best of all is served, and everything that was served is in the history. */
static void one_shape(void)
{
    cleanup(world) struct world w = {0};
    static char ids[6][40];
    world_new(&w);
    w.config.runners = 4;
    jobs_stop(w.jobs);
    world_start(&w);
    SET_SCRIPT("time=900 ", "time=800 ", "time=700 ", "time=640 ", "time=500 ");
    for (int i = 0; i < 6; i++)
        snprintf(ids[i], sizeof ids[i], "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':'never'}"));
    int served = 0;
    for (int i = 0; i < 6; i++) {
        cleanup(json) json_t *job = wait_job(&w, ids[i]), *events = events_of(&w, ids[i]);
        size_t k;
        json_t *e;
        check_str(json_str(job, "state", ""), "done");
        json_array_foreach(events, k, e)
            served += json_bool(e, "served", false);
        if (i < 5)
            continue;
        cleanup(json) json_t *kernel = get(&w, STORE_KERNEL, first_hash(job));
        double got = json_num(json_object_get(kernel, "speedup"), "median", 0);
        check(got > 2 - 1e-9 && got < 2 + 1e-9);
        check_int(json_array_size(json_object_get(kernel, "history")) + 1, served);
    }
}

#define WAITING 120
#define SOURCE_BYTES 200000

/* Of the job's candidates, how many are in this state. */
static int in_state(struct world *w, const char *job, const char *state)
{
    cleanup(json) json_t *all = candidates_of(w, job);
    size_t i;
    json_t *c;
    int n = 0;
    json_array_foreach(all, i, c)
        n += strcmp(json_str(c, "state", ""), state) == 0;
    return n;
}

static int64_t judgements(struct world *w)
{
    cleanup(json) json_t *stats = jobs_stats(w->jobs);
    return json_int(stats, "judged", 0);
}

/*
 * Many large candidates wait while the judge takes one after the other: a cancel is one small write, gets through at once, and what
 * waited is dropped afterwards, in pieces, over a restart too.
 */
static void many_waiting(void)
{
    cleanup(world) struct world w = {0};
    cleanup(json) json_t *job = NULL;
    struct err err = {0};
    char id[40];
    world_open(&w);
    w.config.max_candidates = WAITING;
    world_start(&w);
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}],'generator':'external','budget':{'candidates':120}}"));
    cleanup(str) char *source = xalloc(SOURCE_BYTES + 1);
    memset(source, '/', SOURCE_BYTES);
    memcpy(source, "slow=20 verdict=race ", 21);
    for (int i = 0; i < WAITING; i++) {
        cleanup(json) json_t *doc = candidate_doc(source), *record = NULL;
        struct faults f = {0};
        check(jobs_add_candidate(w.jobs, id, doc, &record, &f, &err));
    }
    const int64_t before = judgements(&w);
    check(jobs_cancel(w.jobs, id, &job, &err));
    check_str(json_str(job, "state", ""), "cancelled");
    check(judgements(&w) <= before + 4 && before < WAITING);
    jobs_stop(w.jobs);                   /* in the middle of it */
    const int judged = in_state(&w, id, "judged");
    world_start(&w);
    wait_tidied(&w);
    check_int(in_state(&w, id, "dropped"), WAITING + 1 - judged);
    check_end(&w, id);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    judge_program = argv[1];
    log_threshold(LOG_ERROR);
    hash_init();
    cancelled_at_any_moment();
    agents_at_once();
    one_shape();
    many_waiting();
    return test_done();
}

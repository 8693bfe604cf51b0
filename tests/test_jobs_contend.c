/* What is retested on a card: contenders in rounds, halving, the one candidate of a search; and baselines that a triage will do for. */
#include "tests/test_jobs.h"

#define SHAPE "{'op':'scale','reuse':'never','shapes':[{'R':4,'N':8}]"

static const json_t *shape_of(const json_t *job)
{
    return json_array_get(json_object_get(job, "shapes"), 0);
}

/* How often a judge had this candidate. */
static int64_t runs_of(struct world *w, const json_t *candidate)
{
    cleanup(str) char *path = xfmt("%s/runs/%s", w->dir, json_str(candidate, "id", "?"));
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

static double best_of(const json_t *job)
{
    return json_num(json_object_get(json_object_get(shape_of(job), "best"), "speedup"), "median", 0);
}

static bool near(double a, double b)
{
    return a - b < 1e-6 && b - a < 1e-6;
}

/* Each candidate has one verdict and is not under work any more; nothing of the rounds is left in the job. */
static void check_end(struct world *w, const json_t *job, const json_t *all)
{
    cleanup(json) json_t *events = events_of(w, json_str(job, "id", ""));
    const json_t *one;
    size_t i;
    json_array_foreach(all, i, one) {
        const bool judged = strcmp(json_str(one, "state", ""), "judged") == 0;
        check(judged || strcmp(json_str(one, "state", ""), "dropped") == 0);
        check(judged == json_is_object(json_object_get(one, "verdict")));
        check(!judged || !json_object_get(one, "pending"));
        check_int(count_events(events, "candidate.verdict", json_str(one, "id", "?")), judged);
    }
    check(!json_array_size(json_object_get(shape_of(job), "contenders")));
}

static void set_up(struct world *w, const char *baseline)
{
    struct err err = {0};
    world_open(w);
    set_baseline(w, baseline);
    op_set_done(&w->ops);
    cleanup(str) char *ops = xfmt("%s/ops", w->dir);
    must(op_set_load(ops, &w->ops, &err), &err);
    world_start(w);
}

static json_t *run(struct world *w, const char *request, json_t **ret_all)
{
    char id[40];
    snprintf(id, sizeof id, "%s", submit(w, request));
    json_t *job = wait_job(w, id);
    *ret_all = candidates_of(w, id);
    check_str(json_str(job, "state", ""), "done");
    check_end(w, job, *ret_all);
    return job;
}

/* Three beat the baseline, one after the other; only the best is retested, when the search is over. */
static void one_retest(void)
{
    cleanup(world) struct world w = {0};
    cleanup(json) json_t *job = NULL, *all = NULL;
    set_up(&w, "time=1000 measured ");
    SET_SCRIPT("time=800 measured ", "time=1200 measured ", "time=650 measured ", "time=500 retest=600 measured ", "time=900 verdict=race measured ");
    job = run(&w, SHAPE "}", &all);
    static const int runs[] = {1, 1, 1, 1, 2, 1};
    static const char *const verdicts[] = {"ok", "ok", "not_faster", "ok", "ok", "race"};
    check_int(json_array_size(all), 6);
    for (size_t i = 0; i < 6; i++) {
        check_int(runs_of(&w, json_array_get(all, i)), runs[i]);
        check_str(code_of(json_array_get(all, i)), verdicts[i]);
    }
    check(near(best_of(job), 1000.0 / 600));
    check_int(json_int(shape_of(job), "tried", 0), 5);
    check(near(json_num(json_object_get(json_array_get(all, 4), "triage"), "time_ns", 0), 500));
    /* without a card each is confirmed at once */
    set_baseline(&w, "time=1000 ");
    SET_SCRIPT("time=800 ", "time=650 ", "time=500 ");
    cleanup(json) json_t *every = NULL, *other = run(&w, "{'op':'scale','reuse':'never','shapes':[{'R':8,'N':8}]}", &every);
    for (size_t i = 1; i < 4; i++)
        check_int(runs_of(&w, json_array_get(every, i)), 2);
    check(near(best_of(other), 2));
}

/* Four within their intervals are timed again, a fifth is not; the one that is best over both timings is retested. */
static void halving(void)
{
    cleanup(world) struct world w = {0};
    cleanup(json) json_t *job = NULL, *all = NULL;
    set_up(&w, "time=1000 measured ");
    SET_SCRIPT("time=500 measured ", "time=501 measured ", "time=502 measured ", "time=503 again=470 measured ", "time=560 measured ");
    job = run(&w, SHAPE "}", &all);
    static const int runs[] = {1, 2, 2, 2, 3, 1};
    for (size_t i = 0; i < 6; i++)
        check_int(runs_of(&w, json_array_get(all, i)), runs[i]);
    check_str(json_str(json_object_get(shape_of(job), "best"), "candidate", ""), json_str(json_array_get(all, 4), "id", "?"));
    /* one that another look finds slow or wrong is out */
    SET_SCRIPT("time=500 again=1100 measured ", "time=501 measured ", "time=502 measured ", "time=503 measured ");
    cleanup(json) json_t *others = NULL, *then = run(&w, "{'op':'scale','reuse':'never','shapes':[{'R':8,'N':8}]}", &others);
    check_str(code_of(json_array_get(others, 1)), "not_faster");
    check_str(json_str(json_object_get(shape_of(then), "best"), "candidate", ""), json_str(json_array_get(others, 2), "id", "?"));
}

static void not_confirmed(void)
{
    cleanup(world) struct world w = {0};
    cleanup(json) json_t *job = NULL, *all = NULL;
    set_up(&w, "time=1000 measured ");
    SET_SCRIPT("time=700 measured ", "time=400 reverdict=not_faster measured ", "time=450 retest=500 measured ");
    job = run(&w, SHAPE "}", &all);
    check_str(code_of(json_array_get(all, 2)), "not_confirmed");
    check(near(best_of(job), 2));
    check_int(runs_of(&w, json_array_get(all, 1)), 1);
    /* none of three is: the fourth is not asked, and the baseline is served */
    SET_SCRIPT("time=700 reverdict=not_faster measured ", "time=600 reverdict=not_faster measured ", "time=400 reverdict=not_faster measured ", "time=900 measured ");
    cleanup(json) json_t *others = NULL, *then = run(&w, "{'op':'scale','reuse':'never','shapes':[{'R':8,'N':8}]}", &others);
    check(near(best_of(then), 1));
    check_int(runs_of(&w, json_array_get(others, 4)), 1);
    check_str(code_of(json_array_get(others, 4)), "ok");
}

/* After eight candidates the best so far is served; later ones must beat that. */
static void rounds(void)
{
    cleanup(world) struct world w = {0};
    cleanup(json) json_t *job = NULL, *all = NULL, *events = NULL;
    set_up(&w, "time=1000 measured ");
    SET_SCRIPT("time=800 measured ", "time=790 measured ", "time=1100 measured ", "time=1100 measured ", "time=1100 measured ", "time=1100 measured ",
               "time=700 measured ", "time=1100 measured ", "time=720 measured ", "time=600 measured ");
    job = run(&w, SHAPE ",'budget':{'candidates':20}}", &all);
    events = events_of(&w, json_str(job, "id", ""));
    check_int(runs_of(&w, json_array_get(all, 7)), 2);
    check_int(runs_of(&w, json_array_get(all, 9)), 1);                       /* no better than what was confirmed */
    check_int(runs_of(&w, json_array_get(all, 10)), 2);
    check_int(count_events(events, "shape.best", NULL), 2);
    check(near(best_of(job), 1000.0 / 600));
}

static void sole(void)
{
    cleanup(world) struct world w = {0};
    cleanup(json) json_t *job = NULL, *all = NULL;
    set_up(&w, "time=1000 measured ");
    SET_SCRIPT("time=100 retest=500 measured ", "time=50 measured ");
    job = run(&w, SHAPE ",'budget':{'candidates':1}}", &all);
    check_int(json_array_size(all), 2);
    check_int(runs_of(&w, json_array_get(all, 1)), 1);
    check(near(best_of(job), 2));                                            /* by the retest's figure: no triage was */
}

static const char *mode_of(const json_t *candidate, size_t phase)
{
    return json_str(json_array_get(json_object_get(candidate, "phases"), phase), "mode", "");
}

static void baselines(void)
{
    cleanup(world) struct world w = {0};
    cleanup(json) json_t *job = NULL, *all = NULL;
    w.config = (struct jobs_config){.runners = 0};
    world_open(&w);
    set_baseline(&w, "time=1000 measured ");
    op_set_done(&w.ops);
    struct err err = {0};
    cleanup(str) char *ops = xfmt("%s/ops", w.dir);
    must(op_set_load(ops, &w.ops, &err), &err);
    w.config.baseline_triage = true;
    world_start(&w);
    /* beaten: a triage was enough, and it is not what is left when the winner is withdrawn */
    SET_SCRIPT("time=500 measured ");
    job = run(&w, SHAPE "}", &all);
    check_int(runs_of(&w, json_array_get(all, 0)), 1);
    check_str(mode_of(json_array_get(all, 0), 0), "triage");
    check_str(code_of(json_array_get(all, 0)), "ok");
    cleanup(json) json_t *kernel = get(&w, STORE_KERNEL, json_str(shape_of(job), "shape_hash", ""));
    check_str(json_str(kernel, "candidate", ""), json_str(json_array_get(all, 1), "id", "?"));
    struct shelf_order order = {.candidate = json_str(kernel, "candidate", ""), .reason = "test", .by = "test"};
    cleanup(json) json_t *view = NULL;
    check(kernel_quarantine(w.store, json_str(shape_of(job), "shape_hash", ""), &order, &view, &err));
    cleanup(json) json_t *after = get(&w, STORE_KERNEL, json_str(shape_of(job), "shape_hash", ""));
    check(!json_object_get(after, "candidate"));
    /* not beaten: judged in full, then served */
    SET_SCRIPT("time=1500 measured ");
    cleanup(json) json_t *others = NULL, *then = run(&w, "{'op':'scale','reuse':'never','shapes':[{'R':8,'N':8}]}", &others);
    check_int(runs_of(&w, json_array_get(others, 0)), 2);
    check_str(mode_of(json_array_get(others, 0), 0), "triage");
    check_str(mode_of(json_array_get(others, 0), 1), "full");
    cleanup(json) json_t *served = get(&w, STORE_KERNEL, json_str(shape_of(then), "shape_hash", ""));
    check(json_bool(served, "is_baseline", false));
    check(near(best_of(then), 1));
}

/* Cancelled while some contend and the baseline waits: neither has a verdict. */
static void cancelled(void)
{
    cleanup(world) struct world w = {0};
    struct err err = {0};
    char id[40];
    set_up(&w, "time=1000 measured ");
    SET_SCRIPT("time=800 measured ", "time=700 measured ", "time=600 slow=5000 measured ");
    snprintf(id, sizeof id, "%s", submit(&w, SHAPE "}"));
    for (int i = 0; i < 2000; i++) {
        cleanup(json) json_t *job = get(&w, STORE_JOB, id);
        if (json_array_size(json_object_get(shape_of(job), "contenders")) == 2)
            break;
        clock_sleep_ns(5000000);
    }
    cleanup(json) json_t *job = NULL;
    check(jobs_cancel(w.jobs, id, &job, &err));
    jobs_stop(w.jobs);
    w.jobs = NULL;
    cleanup(json) json_t *all = candidates_of(&w, id);
    check_end(&w, job, all);
    check_str(json_str(json_array_get(all, 1), "state", ""), "dropped");
    check_str(json_str(json_array_get(all, 2), "state", ""), "dropped");
}

/* A process that ends between two steps of a round: what was decided stays, the rest is decided by the next one. */
static void over_a_restart(void)
{
    cleanup(world) struct world w = {0};
    char id[40];
    set_up(&w, "time=1000 measured ");
    SET_SCRIPT("time=500 measured ", "time=501 measured ", "time=502 slow=300 measured ", "time=503 slow=300 again=470 measured ");
    snprintf(id, sizeof id, "%s", submit(&w, SHAPE "}"));
    for (int i = 0; i < 2000; i++) {
        cleanup(json) json_t *job = get(&w, STORE_JOB, id);
        if (strcmp(json_str(job, "step", ""), "again") == 0)
            break;
        clock_sleep_ns(2000000);
    }
    world_stop(&w);
    world_open(&w);
    world_start(&w);
    cleanup(json) json_t *job = wait_job(&w, id), *all = candidates_of(&w, id);
    check_end(&w, job, all);
    check_str(json_str(json_object_get(shape_of(job), "best"), "candidate", ""), json_str(json_array_get(all, 4), "id", "?"));
    check_int(json_int(shape_of(job), "tried", 0), 4);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    judge_program = argv[1];
    log_threshold(LOG_ERROR);
    hash_init();
    one_retest();
    halving();
    not_confirmed();
    rounds();
    sole();
    baselines();
    cancelled();
    over_a_restart();
    return test_done();
}

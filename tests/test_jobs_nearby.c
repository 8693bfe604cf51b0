/*
 * Which observed shapes are estimated, and what is said of the others: first some far from each other, then what would save most; limits of
 * number and time; a guess names the estimate that it is from; another version of an operator is estimated anew; settings that are known to be
 * good close by are among what is estimated.
 */
#include "tests/test_jobs.h"

#include "server/jobs/observed.h"

#include <math.h>

static json_t *add(struct world *w, const char *text, int shapes)
{
    const struct observed_limits limits = {.lines = 100000, .shapes = shapes};
    cleanup(str) char *copy = xstrdup(text);
    json_t *doc = NULL;
    struct faults f = {0};
    struct err err = {0};
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    must(observed_add(w->store, &w->ops, "sm_90a", copy, strlen(copy), &limits, &doc, &f, &err), &err);
    return doc;
}

/* The record of the shape of so many rows, with its order; NULL: there is none. New reference. */
static json_t *of_rows(struct world *w, int rows)
{
    cleanup(json) json_t *list = NULL;
    struct err err = {0};
    json_t *one;
    size_t i;
    must(observed_rank(w->store, &w->ops, NULL, 1000000, &list, &err), &err);
    json_array_foreach(list, i, one)
        if (json_int(json_object_get(json_object_get(one, "shape"), "axes"), "R", 0) == rows)
            return json_incref(one);
    return NULL;
}

static const char *basis_of(struct world *w, int rows)
{
    static char name[40];
    cleanup(json) json_t *one = of_rows(w, rows);
    snprintf(name, sizeof name, "%s", json_str(json_object_get(one, "order"), "based_on", ""));
    return name;
}

static void wait_estimate(struct world *w, int rows, double baseline_ns)
{
    for (int64_t until = clock_mono_ns() + 30000000000; clock_mono_ns() < until; clock_sleep_ns(20000000)) {
        cleanup(json) json_t *one = of_rows(w, rows);
        const json_t *estimate = json_object_get(one, "estimate");
        if (estimate && json_num(estimate, "baseline_ns", 0) == baseline_ns)
            return;
    }
    fprintf(stderr, "no estimate of %d rows with a baseline of %g ns\n", rows, baseline_ns);
    check(false);
}

/* As the template search: where something close by is known to be good, it would like to see that first. */
static bool wants(const struct gen_input *in, int most, json_t **ret, struct err *err)
{
    (void)err;
    *ret = json_array();
    const char *near = json_str(json_array_get(in->neighbours, 0), "template", NULL);
    check(json_array_size(in->neighbours) <= 1);
    for (int i = 0; i < most && i < 2; i++)
        json_array_append_new(*ret, json_pack("{s:s,s:{},s:o}", "template", "t", "params", "candidate",
                                              candidate_doc(near && !i ? "estimate=400 " : "estimate=900 ")));
    return true;
}
static const struct generator wanting = {.name = "template", .propose = script_propose, .wants = wants};
static const struct generator *find_wanting(const char *name)
{
    return strcmp(name, "template") == 0 ? &wanting : find_generator(name);
}

static void restart(struct world *w, const char *baseline)
{
    world_stop(w);
    if (baseline)
        set_baseline(w, baseline);
    world_open(w);
    world_start(w);
}

/* Of 20, 21, 22 and 4000 rows two may be estimated: they are far from each other, though all but the last would save more by their bytes. */
static void those_far_apart_come_first(struct world *w)
{
    cleanup(json) json_t *some = add(w, "{'op':'scale','axes':{'R':20,'N':8},'count':90000}\n{'op':'scale','axes':{'R':21,'N':8},'count':100000}\n"
                                        "{'op':'scale','axes':{'R':22,'N':8},'count':80000}\n{'op':'scale','axes':{'R':4000,'N':8},'count':1}", 8);
    jobs_observed(w->jobs);
    wait_estimate(w, 21, 1000);
    wait_estimate(w, 4000, 1000);
    check_str(basis_of(w, 21), "estimate");
    check_str(basis_of(w, 4000), "estimate");
    cleanup(json) json_t *at = of_rows(w, 21), *one = of_rows(w, 22);
    const json_t *order = json_object_get(one, "order"), *nearby = json_object_get(order, "nearby");
    const double factor = 1 + 2 * 8 * 2 / OBSERVED_NOMINAL_BYTES_PER_NS / 1000;     /* a row in, a row out, two bytes each */
    check_str(json_str(order, "based_on", ""), "nearby_estimate");
    check_str(json_str(nearby, "shape_hash", ""), json_str(at, "shape_hash", "-"));
    check(fabs(json_num(nearby, "factor", 0) - factor) < 1e-9);
    check(fabs(json_num(order, "each_ns", 0) - 100 * factor) < 1e-6 && fabs(json_num(order, "saving_ns", 0) - 80000 * 100 * factor) < 1);
    clock_sleep_ns(300000000);
    cleanup(json) json_t *later = of_rows(w, 20);
    check(!json_object_get(later, "estimate"));               /* no more than two */
    restart(w, NULL);
    check_str(basis_of(w, 21), "estimate");
    check_str(basis_of(w, 22), "nearby_estimate");
}

/* With room for more, the others follow; what is good close by is tried. */
static void the_rest_follows_with_what_is_known(struct world *w)
{
    cleanup(json) json_t *seeds = json_pack("[{s:{s:s,s:{s:i,s:i},s:{s:s}},s:s,s:{}}]", "shape", "op", "scale", "axes", "R", 20, "N", 8, "dtypes", "io", "bf16",
                                            "template", "t", "params");
    w->config.estimate_shapes = 100;
    w->config.seeds = seeds;
    restart(w, NULL);
    wait_estimate(w, 22, 1000);
    wait_estimate(w, 20, 1000);
    cleanup(json) json_t *one = of_rows(w, 20);
    check(json_num(json_object_get(one, "estimate"), "best_ns", 0) == 400);
    world_stop(w);                       /* seeds are borrowed */
    w->config.seeds = NULL;
    world_open(w);
    world_start(w);
}

static void another_operator_is_estimated_anew(struct world *w)
{
    cleanup(json) json_t *was = of_rows(w, 20);
    check(hash_hex_valid(json_str(json_object_get(was, "estimate"), "op_digest", "")));
    restart(w, "estimate=2000 time=1000 ");
    wait_estimate(w, 20, 2000);
    wait_estimate(w, 4000, 2000);
}

/* What takes too long is given up, and jobs go on meanwhile. */
static void time_is_limited(struct world *w)
{
    struct err err = {0};
    int64_t gone;
    must(observed_clear(w->store, &gone, &err), &err);
    w->config.estimate_wall_ns = 1000000000;
    restart(w, "estimate_ms=60000 estimate=2000 time=1000 ");
    cleanup(json) json_t *some = add(w, "{'op':'scale','axes':{'R':30,'N':8},'count':9}", 8);
    jobs_observed(w->jobs);
    const int64_t from_ns = clock_mono_ns();
    cleanup(json) json_t *job = wait_job(w, submit(w, "{'op':'scale','shapes':[{'R':1,'N':8}],'budget':{'candidates':1}}"));
    check_str(json_str(job, "state", ""), "done");
    const char *why = "";
    cleanup(json) json_t *one = NULL;
    while (!*why && clock_mono_ns() - from_ns < 20000000000) {
        clock_sleep_ns(20000000);
        json_decref(one);
        one = of_rows(w, 30);
        why = json_str(json_object_get(one, "estimate"), "error", "");
    }
    check_str(why, "it took longer than 1 s");
    check_str(basis_of(w, 30), "byte_floor");
}

/* Thousands come at once: which are next is not asked of all of them for every one. */
static void thousands_do_no_harm(struct world *w)
{
    struct err err = {0};
    int64_t gone;
    must(observed_clear(w->store, &gone, &err), &err);
    w->config.estimate_wall_ns = 60000000000;
    w->config.estimate_shapes = 24;
    restart(w, "estimate=2000 time=1000 ");
    cleanup(buf) struct buf lines = {0};
    for (int i = 1; i <= 2000; i++)
        buf_fmt(&lines, "{'op':'scale','axes':{'R':%d,'N':%d},'count':%d}\n", i, 4 + 4 * (i % 50), 1 + i % 7);
    const int64_t from_ns = clock_mono_ns();
    cleanup(json) json_t *some = add(w, buf_cstr(&lines), 5000);
    check_int(json_int(some, "new", 0), 2000);
    jobs_observed(w->jobs);
    cleanup(json) json_t *job = wait_job(w, submit(w, "{'op':'scale','shapes':[{'R':1,'N':16}],'budget':{'candidates':1}}"));
    check_str(json_str(job, "state", ""), "done");
    int estimates = 0, guesses = 0;
    for (int tries = 0; tries < 300 && estimates < 24; tries++) {
        cleanup(json) json_t *list = NULL;
        json_t *one;
        size_t i;
        clock_sleep_ns(200000000);
        must(observed_rank(w->store, &w->ops, NULL, 5000, &list, &err), &err);
        estimates = guesses = 0;
        json_array_foreach(list, i, one) {
            estimates += json_object_get(one, "estimate") != NULL;
            guesses += strcmp(json_str(json_object_get(one, "order"), "based_on", ""), "nearby_estimate") == 0;
        }
    }
    check_int(estimates, 24);
    check(guesses > 1900);               /* the first few, far from each other, reach nearly all */
    printf("2000 shapes, 24 estimates: %.1f s; %d are guessed\n", (double)(clock_mono_ns() - from_ns) / 1e9, guesses);
}

int main(int argc, char **argv)
{
    check_int(argc, 2);
    judge_program = argv[1];
    hash_init();
    log_threshold(LOG_ERROR + 1);
    struct world w = {0};
    world_new(&w);
    SET_SCRIPT("time=900 ");
    w.config.find_generator = find_wanting;
    w.config.estimate_candidates = 2;
    w.config.estimate_shapes = 2;
    w.config.estimate_wall_ns = 60000000000;
    restart(&w, "estimate=1000 time=1000 ");
    those_far_apart_come_first(&w);
    the_rest_follows_with_what_is_known(&w);
    another_operator_is_estimated_anew(&w);
    time_is_limited(&w);
    thousands_do_no_harm(&w);
    world_done(&w);
    return test_done();
}

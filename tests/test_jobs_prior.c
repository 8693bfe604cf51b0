/* What a generator is told before the first candidate: estimates that judges made at once, and what is best at the nearest shapes. */
#include "tests/test_jobs.h"

#include <pthread.h>

#define JOB(rows) "{'op':'scale','reuse':'never','shapes':[{'R':" #rows ",'N':8}]}"

/* A generator that wants six estimates, three at a time, and writes down what it was told. */
static const char *estimated_source = "measured ";
static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static json_t *told[16];
static int told_count;

static bool prior_propose(const struct gen_input *in, struct gen_proposal *ret, struct err *err)
{
    (void)err;
    if (in->past_count >= 2) {
        ret->done = true;
        snprintf(ret->reason, sizeof ret->reason, "enough");
        return true;
    }
    pthread_mutex_lock(&told_lock);
    if (told_count < 16)
        told[told_count++] = json_pack("{s:O?,s:O?}", "estimates", in->estimates, "neighbours", in->neighbours);
    pthread_mutex_unlock(&told_lock);
    ret->candidate = candidate_doc(in->past_count ? "time=700 measured " : "time=500 measured ");
    ret->origin = json_pack("{s:s,s:{s:i}}", "template", "t", "params", "A", in->past_count);
    return true;
}

static bool prior_wants(const struct gen_input *in, int most, json_t **ret, struct err *err)
{
    (void)err;
    int known = (int)json_array_size(in->estimates);
    *ret = json_array();
    for (int i = known; i < known + 3 && i < most; i++) {
        cleanup(str) char *source = xfmt("%sestimate=%d ", estimated_source, 900 + i);
        json_array_append_new(*ret, json_pack("{s:s,s:{s:i},s:o}", "template", "t", "params", "A", i, "candidate", candidate_doc(source)));
    }
    return true;
}

static const struct generator prior_generator = {"template", prior_propose, prior_wants, NULL};
static const struct generator *find_prior(const char *name)
{
    return strcmp(name, "template") == 0 ? &prior_generator : NULL;
}

static void forget(void)
{
    while (told_count)
        json_decref(told[--told_count]);
}

static bool see(void *ctx, const char *id, const json_t *doc)
{
    (void)doc;
    *(int *)ctx += strncmp(id, "prior/", 6) == 0;
    return true;
}

static int priors_kept(struct world *w)
{
    struct store_page page = {STORE_META, NULL, NULL, 1000, false};
    struct err err = {0};
    int count = 0;
    check(store_list(w->store, &page, see, &count, NULL, NULL, &err));
    return count;
}

static void run(struct world *w, const char *request)
{
    char id[40];
    forget();
    snprintf(id, sizeof id, "%s", submit(w, request));
    cleanup(json) json_t *job = wait_job(w, id);
    check_str(json_str(job, "state", ""), "done");
    check_int(told_count, 2);
}

static void begin(struct world *w, const char *baseline, int estimates)
{
    world_open(w);
    set_baseline(w, baseline);
    op_set_done(&w->ops);
    struct err err = {0};
    cleanup(str) char *ops = xfmt("%s/ops", w->dir);
    must(op_set_load(ops, &w->ops, &err), &err);
    w->config.find_generator = find_prior;
    w->config.estimates = estimates;
    w->config.estimate_processes = 2;
    world_start(w);
}

static void estimates_and_neighbours(void)
{
    cleanup(world) struct world w = {0};
    begin(&w, "time=1000 measured ", 6);
    run(&w, JOB(4));
    for (int k = 0; k < 2; k++) {        /* the same at each proposal */
        const json_t *list = json_object_get(told[k], "estimates");
        check_int(json_array_size(list), 6);
        check_int(json_array_size(json_object_get(told[k], "neighbours")), 0);
        bool seen[6] = {false};
        for (size_t i = 0; i < json_array_size(list); i++) {
            int64_t a = json_int(json_object_get(json_array_get(list, i), "params"), "A", -1);
            check(a >= 0 && a < 6 && !seen[a]);
            if (a >= 0 && a < 6)
                seen[a] = true;
            check(json_num(json_array_get(list, i), "ns", 0) == 900.0 + (double)a);      /* each setting has its own */
        }
    }
    check(json_equal(told[0], told[1]));
    run(&w, JOB(64));
    run(&w, JOB(8));                     /* 4 is nearer than 64 */
    const json_t *near = json_object_get(told[0], "neighbours");
    check_int(json_array_size(near), 2);
    check(strstr(json_str(json_array_get(near, 0), "shape", ""), "\"R\":4,"));
    check(strstr(json_str(json_array_get(near, 1), "shape", ""), "\"R\":64,"));
    check_int(json_int(json_object_get(json_array_get(near, 0), "params"), "A", -1), 0);  /* the better of the two it proposed */
    check_int(priors_kept(&w), 0);       /* they go with the shape */
    forget();
}

/* Without a card the judgements are estimates themselves; and a judge that can make none is no obstacle. */
static void none(void)
{
    cleanup(world) struct world w = {0}, v = {0};
    begin(&w, "time=1000 ", 6);
    run(&w, JOB(4));
    check_int(json_array_size(json_object_get(told[0], "estimates")), 0);
    world_stop(&w);
    begin(&v, "time=1000 measured ", 6);
    estimated_source = "crash=99 ";
    run(&v, JOB(4));
    check_int(json_array_size(json_object_get(told[0], "estimates")), 0);
    estimated_source = "wrong_count ";
    run(&v, JOB(8));
    check_int(json_array_size(json_object_get(told[0], "estimates")), 0);
    check_int(priors_kept(&v), 0);
    forget();
}

/* Stopped between two proposals, and a judge that would now say something else: the estimates are those of before. */
static void kept_over_a_restart(void)
{
    cleanup(world) struct world w = {0};
    char id[40];
    estimated_source = "measured ";
    begin(&w, "time=1000 measured ", 4);
    forget();
    snprintf(id, sizeof id, "%s", submit(&w, JOB(16)));
    for (int64_t until = clock_mono_ns() + 30000000000; clock_mono_ns() < until && !priors_kept(&w);)
        clock_sleep_ns(1000000);
    world_stop(&w);
    estimated_source = "offset=500 measured ";
    begin(&w, "time=1000 measured ", 4);
    cleanup(json) json_t *job = wait_job(&w, id);
    check_str(json_str(job, "state", ""), "done");
    check(told_count >= 2);
    for (int i = 0; i < told_count; i++)
        check(json_equal(json_object_get(told[i], "estimates"), json_object_get(told[0], "estimates")));
    check_int(json_array_size(json_object_get(told[0], "estimates")), 4);
    check(json_num(json_array_get(json_object_get(told[told_count - 1], "estimates"), 0), "ns", 0) == 900);
    check_int(priors_kept(&w), 0);
    forget();
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    judge_program = argv[1];
    log_threshold(LOG_ERROR);
    hash_init();
    estimates_and_neighbours();
    none();
    kept_over_a_restart();
    return test_done();
}

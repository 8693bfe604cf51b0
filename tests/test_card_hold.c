/*
 * What a judgement holds a card for, and how long a candidate may: against a device of the test's own, whose kernel hangs, or takes its
 * time, on the "card" alone. A candidate that hangs is told apart soon after what the baseline took; a slow one is not; what was waited
 * for the card's turn is on nobody's account.
 * Usage: test_card_hold OPS_DIR
 */
#include "core/clock.h"
#include "gpu/card_turn.h"
#include "gpu/judge/judge.h"
#include "tests/test.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#define SECOND ((int64_t)1000000000)

/* The plan's dynamic shared memory in bytes says what the kernel does. */
enum conduct { HONEST = 0, HANGS, SLEEPS, SLOW_ONCE, WRONG_AT_FIVE, WRONG_FROM_FOUR };

struct device { bool card; };
struct device_program { enum conduct conduct; bool card; const struct tensor *tensors; int64_t rows, width; };

static bool test_open(const char *id, struct device **ret, struct err *err)
{
    (void)err;
    *ret = xalloc(sizeof **ret);
    (*ret)->card = strncmp(id, "cuda", 4) == 0;
    return true;
}

static void test_close(struct device *d) { free(d); }

static bool test_info(struct device *d, struct device_info *ret, struct err *err)
{
    (void)err;
    *ret = (struct device_info){.target = "sm_90a", .name = "a card of the test", .uuid = "GPU-of-the-test", .l2_bytes = 1 << 20, .healthy = true};
    snprintf(ret->kind, sizeof ret->kind, "%s", d->card ? "cuda" : "sim");
    return true;
}

static bool test_load(struct device *d, const struct device_load *what, struct device_program **ret, struct device_fault *fault, struct err *err)
{
    (void)fault, (void)err;
    *ret = xalloc(sizeof **ret);
    **ret = (struct device_program){.conduct = (enum conduct)what->plan->steps[0].shared_bytes, .card = d->card, .tensors = what->tensors,
                                    .rows = what->tensors[0].dims[0], .width = what->tensors[0].dims[1]};
    return true;
}

static void test_unload(struct device_program *p) { free(p); }

static void behave(const struct device_program *p, int runs, float *y)
{
    for (volatile uint64_t n = 0; p->card && p->conduct == HANGS; n = n + 1)
        continue;
    while (p->card && p->conduct == SLEEPS)
        clock_sleep_ns(SECOND);
    if (p->card && p->conduct == SLOW_ONCE && runs == 1)
        for (int64_t until = clock_mono_ns() + SECOND * 3 / 2; clock_mono_ns() < until;)
            continue;
    /* two runs of each regime: wrong in the third alone, or in the second and all that follow */
    if (p->card && ((p->conduct == WRONG_AT_FIVE && (runs == 5 || runs == 6)) || (p->conduct == WRONG_FROM_FOUR && runs >= 3)))
        y[7] += 1;
}

static bool test_run(struct device_program *p, const struct device_run *how, struct device_run_result *ret, struct device_fault *fault, struct err *err)
{
    static int runs;
    (void)fault, (void)err;
    for (int t = 0; t < 2; t++)
        memcpy(ret->tensors[t], how->tensors[t], (size_t)p->tensors[t].bytes);
    const float *x = how->tensors[0], *w = how->tensors[1];
    float *y = ret->tensors[2];
    for (int64_t r = 0; r < p->rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < p->width; i++)
            sum += (double)x[r * p->width + i] * x[r * p->width + i];
        double factor = 1 / sqrt(sum / (double)p->width + 1e-6);
        for (int64_t i = 0; i < p->width; i++)
            y[r * p->width + i] = (float)(x[r * p->width + i] * factor * w[i]);
    }
    behave(p, ++runs, y);
    ret->guards_intact = true;
    ret->step_count = 1;
    ret->counts[0] = (struct ptx_counts){.thread_instructions = 1000, .blocks = 1};
    return true;
}

static bool test_estimate(struct device_program *p, const struct device_run_result *run, double *ret_ns, json_t **ret_terms, struct err *err)
{
    (void)p, (void)run, (void)err;
    *ret_ns = 5000;
    *ret_terms = json_object();
    return true;
}

static const struct device_ops device = {.kind = "test", .open = test_open, .close = test_close, .info = test_info, .load = test_load,
                                         .unload = test_unload, .run = test_run, .estimate = test_estimate};

/* ---- the tests ---- */

static struct op_set ops;
static struct judge_config config = {.ops = &ops, .threads = 2, .own_device = true, .device = "cuda:0"};
static json_t *phases;              /* that ended, of the last judgement */

static void note_phase(void *ctx, const json_t *phase)
{
    (void)ctx;
    if (strcmp(json_str(phase, "state", ""), "end") == 0)
        json_array_append(phases, (json_t *)(uintptr_t)phase);
}

static json_t *candidate_with(enum conduct conduct)
{
    json_t *c = json_object();
    json_put_str(c, "language", "cuda");
    json_put_str(c, "source", "extern \"C\" __global__ void k(const float *x, const float *w, float *y, float eps) "
                              "{ y[threadIdx.x] = x[threadIdx.x] * w[threadIdx.x] + eps; }");
    json_put(c, "plan", json_pack("{s:[{s:s,s:[i],s:[i],s:i,s:[s,s,s,s]}]}", "steps", "kernel", "k", "grid", 1, "block", 128, "shared_bytes",
                                  (int)conduct, "args", "x", "weight", "y", "eps"));
    return c;
}

static bool judge(enum conduct conduct, struct judge_result *r, struct err *err)
{
    cleanup(json) json_t *task = json_pack("{s:{s:s,s:{s:i,s:i},s:{s:s},s:s},s:s}", "shape", "op", "rmsnorm", "axes", "R", 3, "N", 256,
                                           "dtypes", "io", "f32", "target", "sm_90a", "mode", "triage");
    json_put(task, "candidate", candidate_with(conduct));
    json_put(task, "baseline", candidate_with(HONEST));
    *r = (struct judge_result){.gpu_ns = 0};
    *err = (struct err){0};
    json_decref(phases);
    phases = json_array();
    return judge_run(&config, task, note_phase, NULL, NULL, r, err);
}

/* Within the least time that anybody gets and what ending it takes, not after the 20 s that a run may take where nothing is known. */
static void test_one_that_hangs(void)
{
    struct judge_result r;
    struct err err;
    check(judge(HANGS, &r, &err));
    check_str(verdict_name(r.verdict.code), "timeout");
    check_str(r.verdict.phase, "correct");
    check(r.gpu_ns > 2 * SECOND && r.gpu_ns < 4 * SECOND);
    const json_t *spent = json_object_get(json_object_get(r.figures, "card_spent_ns"), "correct");
    check(json_int(spent, "job.open", -1) >= 0 && json_int(spent, "job.run", -1) >= 0);
    judge_result_done(&r);
}

/* The device here has no clock: whoever comes to the timing has passed everything before it. */
static void test_one_that_is_slow(void)
{
    struct judge_result r;
    struct err err;
    check(!judge(SLOW_ONCE, &r, &err));
    check(strstr(err.text, "no clock") != NULL);
    check_str(json_str(json_array_get(phases, json_array_size(phases) - 1), "phase", ""), "probe");
}

/* It did not compute: a driver that hangs is not certainly the candidate's doing. */
static void test_one_that_sleeps(void)
{
    struct judge_result r;
    struct err err;
    check(!judge(SLEEPS, &r, &err));
    check_int(err.code, ERR_TIMEOUT);
}

/* Comparisons of several regimes go on at once, and the first that failed is the one that is told. */
static void test_the_first_wrong_regime(void)
{
    static const struct { enum conduct conduct; int regime; } cases[] = {{WRONG_AT_FIVE, 2}, {WRONG_FROM_FOUR, 1}};
    for (size_t i = 0; i < 2; i++) {
        struct judge_result r;
        struct err err;
        check(judge(cases[i].conduct, &r, &err));
        check_str(verdict_name(r.verdict.code), "wrong_result");
        const json_t *regimes = json_object_get(op_set_find(&ops, "rmsnorm")->doc, "regimes");
        void *at = json_object_iter((json_t *)(uintptr_t)regimes);
        for (int k = 0; k < cases[i].regime; k++)
            at = json_object_iter_next((json_t *)(uintptr_t)regimes, at);
        const bool hidden = json_bool(json_object_iter_value(at), "hidden", false);
        const char *said = hidden ? "A hidden test failed." : json_object_iter_key(at);
        if (!strstr(r.verdict.text, said))
            fprintf(stderr, "%s, wanted %s\n", r.verdict.text, said);
        check(strstr(r.verdict.text, said) != NULL);
        judge_result_done(&r);
    }
}

/* ---- turns ---- */

static void *hold(void *fd)
{
    clock_sleep_ns(4 * SECOND);
    close(*(int *)fd);
    return NULL;
}

/*
 * Waiting is neither the card's time nor the candidate's: a child that stood by for long and then hangs was still busy all the while that
 * it had something to do.
 */
static void test_turns(void)
{
    char base[] = "/tmp/card-hold.XXXXXX";
    int fd = -1, made = mkstemp(base);
    cleanup(str) char *path = xfmt("%s.%s", base, config.device);
    pthread_t thread;
    struct judge_result r;
    struct err err = {0};
    config.card_lock = base;
    config.run_wall_ns = 100 * 1000000;
    check(card_turn_wait(path, NULL, NULL, &fd, &err));
    check(pthread_create(&thread, NULL, hold, &fd) == 0);
    check(judge(HANGS, &r, &err));
    check_str(verdict_name(r.verdict.code), "timeout");
    check(r.gpu_ns < SECOND && json_int(r.figures, "card_waited_ns", 0) > SECOND);
    judge_result_done(&r);
    pthread_join(thread, NULL);
    /* and it has let go */
    check(card_turn_wait(path, NULL, NULL, &fd, &err));
    close(fd);
    close(made);
    unlink(path);
    unlink(base);
    config.card_lock = NULL;
    config.run_wall_ns = 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, &device);
    struct err err = {0};
    struct toolkit_paths paths;
    hash_init();
    if (argc != 2 || !op_set_load(argv[1], &ops, &err)) {
        fprintf(stderr, "usage: %s OPS_DIR: %s\n", argv[0], err.text);
        return 2;
    }
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    test_one_that_hangs();
    test_one_that_is_slow();
    test_one_that_sleeps();
    test_the_first_wrong_regime();
    test_turns();
    json_decref(phases);
    op_set_done(&ops);
    return test_done();
}

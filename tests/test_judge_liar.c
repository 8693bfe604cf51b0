/*
 * The supervisor against a device that lies: a run child whose device returns wrong outputs, false flags, impossible figures,
 * other bits each time, dies, hangs or eats memory. And the measurement on a "card" whose times this program makes up, so that
 * pairing, control runs, timers and the checks of timed outputs are tested where there is no card.
 *
 * The lie is the plan's dynamic shared memory in bytes: the one number of a candidate that a device sees and nothing else uses.
 * Usage: test_judge_liar OPS_DIR
 */
#include "core/certificate.h"
#include "core/clock.h"
#include "core/rng.h"
#include "gpu/card_turn.h"
#include "gpu/judge/judge.h"
#include "tests/test.h"

#include <math.h>
#include <signal.h>

enum lie {
    HONEST = 0, ZEROS, GUARDS, INPUTS, CRASH, SILENT_EXIT, SLEEP, SPIN, MEMORY, WRONG_CODE, OK_CODE, ESTIMATE_NAN, ESTIMATE_ZERO, ESTIMATE_TINY,
    BITS_VARY, POISON_SHOWS, POISON_SPREAD, POISON_NEAR, BITS_SPREAD, OUR_ERROR, NO_ANSWER_TEXT,
    /* card */
    TWICE_AS_FAST, SAME_SPEED, SLOWER, SKIPS_WHEN_TIMED, HIDES_WORK, NO_SETS, TOO_MANY_LAUNCHES, NEGATIVE_TIME, SPAN_OVER_WALL, FAULT_WHEN_TIMED,
    DIFFERS_WHEN_TIMED, SPINS_WHEN_TIMED, SPINS_WHEN_WARM, SKIPS_AT_FIRST, IMPOSSIBLY_FAST, NOBODYS_CONTENT, DRIFTS, NOISY, SHAKY_AT_FIRST, THROTTLED, NEIGHBOUR, NEIGHBOUR_LATER, SLOW_MEMORY, UNEVEN,
    /* card, in a series of launches */
    COUNTS_TO_TEN, KNOWS_THE_ADDRESS, DIFFERS_INSIDE, NO_SERIES_LAUNCHES, SERIES_GUARDS, SERIES_INPUTS, SERIES_FAULT, RELOAD_SHOWS, SERIES_SPREAD, SERIES_NEAR,
    /* card, and the emulator does not know an instruction */
    UNKNOWN_TO_SIM, TOO_LONG_FOR_SIM, ENDLESS_ON_SIM, SPINS_ON_SIM, DIFFERS_LATE, DIFFERS_LATE_SEEN_ON_SIM
};

/* ---- the device ---- */

struct device { char id[16], kind[8]; enum lie lie; int watched; bool pageable; };
struct device_program {
    enum lie lie;
    const struct shape *shape;
    const struct tensor *tensors;
    int64_t rows, width;
    int sets, launches;
    uint64_t seed, order;
    const void *base[OP_MAX_TENSORS];
    int blocks, series;
    bool on_sim;
};

static bool liar_open(const char *id, struct device **ret, struct err *err)
{
    (void)err;
    struct device *d = xalloc(sizeof *d);
    snprintf(d->id, sizeof d->id, "%s", id);
    snprintf(d->kind, sizeof d->kind, "%s", strncmp(id, "cuda", 4) == 0 ? "cuda" : "sim");
    d->pageable = strcmp(id, "cuda:7") == 0;
    *ret = d;
    return true;
}

static void liar_close(struct device *d)
{
    free(d);
}

static bool liar_info(struct device *d, struct device_info *ret, struct err *err)
{
    (void)err;
    *ret = (struct device_info){.target = "sm_90a", .name = "NVIDIA H200", .driver = "1.2", .l2_bytes = 62914560, .healthy = true};
    snprintf(ret->kind, sizeof ret->kind, "%s", d->kind);
    snprintf(ret->id, sizeof ret->id, "%s", d->id);
    snprintf(ret->uuid, sizeof ret->uuid, "GPU-of-the-test-%s", d->id);
    if (strcmp(d->id, "cuda:2") == 0)           /* another model */
        snprintf(ret->name, sizeof ret->name, "NVIDIA H100");
    ret->pageable_memory_access = d->pageable;
    return true;
}

static bool liar_load(struct device *d, const struct device_load *what, struct device_program **ret, struct device_fault *fault, struct err *err)
{
    (void)fault, (void)err;
    struct device_program *p = xalloc(sizeof *p);
    *p = (struct device_program){.lie = (enum lie)what->plan->steps[0].shared_bytes, .shape = what->shape, .tensors = what->tensors,
                                 .rows = what->tensors[0].dims[0], .width = what->tensors[0].dims[1]};
    p->on_sim = strcmp(d->kind, "sim") == 0;
    d->lie = p->lie;
    *ret = p;
    return true;
}

static void liar_unload(struct device_program *p)
{
    free(p);
}

/* y = x / sqrt(mean x^2 + eps) * weight, as a good kernel would. */
static void compute(const struct device_program *p, const float *x, const float *w, float *y)
{
    for (int64_t r = 0; r < p->rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < p->width; i++)
            sum += (double)x[r * p->width + i] * x[r * p->width + i];
        double factor = 1 / sqrt(sum / (double)p->width + 1e-6);
        for (int64_t i = 0; i < p->width; i++)
            y[r * p->width + i] = (float)(x[r * p->width + i] * factor * w[i]);
    }
}

/* By a share of what differences are measured by: of a small element alone it would be no difference now and then. */
static void push(const struct device_program *p, float *y, int i, float share)
{
    double squares = 0;
    for (int64_t k = 0; k < p->width; k++)
        squares += (double)y[k] * y[k];
    y[i] += share * (float)fmax(fabs(y[i]), sqrt(squares / (double)p->width));
}

static void die(enum lie lie)
{
    if (lie == CRASH)
        raise(SIGSEGV);
    if (lie == SILENT_EXIT)
        _exit(0);
    while (lie == SLEEP)
        clock_sleep_ns(1000000000);
    for (volatile uint64_t n = 0; lie == SPIN; n = n + 1)
        continue;
    if (lie == MEMORY)
        free(xalloc((size_t)1 << 40));
}

static bool liar_run(struct device_program *p, const struct device_run *how, struct device_run_result *ret, struct device_fault *fault, struct err *err)
{
    static uint64_t runs;
    die(p->lie);
    if ((p->lie == UNKNOWN_TO_SIM || p->lie == DIFFERS_LATE) && p->on_sim) {
        fault->code = VERDICT_UNSUPPORTED_ON_SIM;
        snprintf(fault->text, sizeof fault->text, "an instruction that the emulator does not know");
        return true;
    }
    if ((p->lie == TOO_LONG_FOR_SIM || p->lie == ENDLESS_ON_SIM || p->lie == SPINS_ON_SIM) && p->on_sim) {
        fault->code = VERDICT_TIMEOUT;
        fault->detail = json_pack("{s:s,s:I}", "limit", p->lie == ENDLESS_ON_SIM ? "instructions" : "wall", "thread_instructions",
                                  (json_int_t)(p->lie == SPINS_ON_SIM ? 1000000000 : 1000));
        snprintf(fault->text, sizeof fault->text, "the launch ran longer than the emulator may");
        return true;
    }
    if (p->lie == OUR_ERROR)
        return err_set(err, ERR_UNAVAILABLE, "the card fell off the bus");
    if (p->lie == WRONG_CODE || p->lie == NO_ANSWER_TEXT) {
        fault->code = p->lie == WRONG_CODE ? VERDICT_NOT_FASTER : VERDICT_FAULT;
        return true;
    }
    for (int t = 0; t < 2; t++)
        memcpy(ret->tensors[t], how->tensors[t], (size_t)p->tensors[t].bytes);
    float *y = ret->tensors[2];
    compute(p, how->tensors[0], how->tensors[1], y);
    if (p->lie == ZEROS)
        memset(y, 0, (size_t)p->tensors[2].bytes);
    if (p->lie == INPUTS)
        ((char *)ret->tensors[0])[5] ^= 1;
    if (p->lie == BITS_VARY)
        y[3] *= 1 + (float)(runs++ % 3) * 0x1p-23f;
    if (p->lie == POISON_SHOWS)
        y[3] *= 1 + (float)(how->poison & 1) * 0x1p-23f;
    if (p->lie == POISON_NEAR)
        y[3] *= 1 + (float)(how->poison & 1) * 0x1p-20f;
    if (p->lie == POISON_SPREAD)
        push(p, y, 3, (float)(how->poison & 1) * 0x1p-12f);
    if (p->lie == BITS_SPREAD)
        push(p, y, 3, (float)(runs++ % 3) * 0x1p-12f);
    ret->guards_intact = p->lie != GUARDS;
    ret->step_count = 1;
    ret->counts[0] = (struct ptx_counts){.thread_instructions = 1000, .blocks = 1};
    return true;
}

/* Launches at equal addresses, of which this one only tells. */
static bool liar_probe(struct device_program *p, const struct device_probe *how, struct device_probe_result *ret, struct device_fault *fault, struct err *err)
{
    static float first[3 * 256];
    static int loads;
    (void)err;
    ret->launches = p->lie == NO_SERIES_LAUNCHES ? 0 : how->launches;
    if (p->lie == DIFFERS_LATE || p->lie == DIFFERS_LATE_SEEN_ON_SIM) {      /* so slow that it makes those alone that must be made */
        int least = how->least > 16 ? how->least : 16;
        ret->launches = how->launches < least ? how->launches : least;
        ret->differs = ret->launches >= 77 ? 77 : 0;
    }
    ret->guards_intact = p->lie != SERIES_GUARDS;
    if (!how->launches)
        return true;
    loads += p->series == 0;
    p->series += how->launches;
    for (int t = 0; t < 2; t++)
        memcpy(ret->tensors[t], how->tensors[t], (size_t)p->tensors[t].bytes);
    float *y = ret->tensors[2];
    compute(p, how->tensors[0], how->tensors[1], y);
    if (p->series == 1)
        memcpy(first, y, sizeof first);
    if (p->lie == COUNTS_TO_TEN && p->series >= 11)
        y[5] += 1;
    if (p->lie == KNOWS_THE_ADDRESS && how->again)
        memcpy(y, first, sizeof first);
    if (p->lie == DIFFERS_INSIDE && how->launches > 100)
        ret->differs = 77;
    if (p->lie == SERIES_INPUTS)
        ((char *)ret->tensors[1])[7] ^= 1;
    if (p->lie == SERIES_FAULT && p->series > 2) {
        fault->code = VERDICT_OUT_OF_BOUNDS;
        snprintf(fault->text, sizeof fault->text, "an illegal access");
    }
    if (p->lie == RELOAD_SHOWS && loads == 1)
        y[9] *= 2;
    if (p->lie == SERIES_NEAR)
        y[9] *= 1 + 0x1p-20f;
    if (p->lie == SERIES_SPREAD)
        push(p, y, 9, 0x1p-10f);
    return true;
}

static bool liar_estimate(struct device_program *p, const struct device_run_result *run, double *ret_ns, json_t **ret_terms, struct err *err)
{
    (void)run, (void)err;
    *ret_ns = p->lie == ESTIMATE_NAN ? NAN : p->lie == ESTIMATE_ZERO ? 0 : p->lie == ESTIMATE_TINY ? 1 : 5000;
    *ret_terms = json_object();
    return true;
}

/* ---- its clock ---- */

/*
 * Noise of a sample. So little that the median of a control's pairs is never a tenth of a percent off, from where a difference counts that is
 * certain: with more of it one control in a hundred, at 99 %, is repeated, and a test that counts attempts fails by chance.
 */
#define QUIET 0.0003

static bool liar_calibrate(struct device *d, json_t **ret, struct err *err)
{
    (void)err;
    *ret = json_pack("{s:f,s:f}", "node_ns", 500.0, "copy_bytes_per_ns", d->lie == SLOW_MEMORY ? 0.3 : 4000.0);
    return true;
}

static bool liar_setup(struct device_program *p, const struct device_time_setup *how, int *ret_sets, struct device_fault *fault, struct err *err)
{
    (void)fault, (void)err;
    p->sets = *ret_sets = p->lie == NO_SETS ? 0 : 100;
    p->seed = how->seed;
    memcpy(p->base, how->tensors, sizeof *how->tensors * 2);
    return true;
}

static bool liar_block(struct device_program *p, const struct device_time_block *how, struct device_sample *ret, struct device_fault *fault, struct err *err)
{
    (void)err;
    if (p->lie == FAULT_WHEN_TIMED && p->blocks > 40) {
        fault->code = VERDICT_FAULT;
        snprintf(fault->text, sizeof fault->text, "an illegal access");
        return true;
    }
    if (p->lie == DIFFERS_WHEN_TIMED && p->blocks > 50) {
        fault->code = VERDICT_NON_DETERMINISTIC;
        snprintf(fault->text, sizeof fault->text, "a timed launch gave other bits");
        return true;
    }
    for (volatile uint64_t n = 0; (p->lie == SPINS_WHEN_TIMED && p->blocks > 40) || p->lie == SPINS_WHEN_WARM; n = n + 1)
        continue;
    double ns = p->lie == TWICE_AS_FAST || p->lie == SKIPS_WHEN_TIMED || p->lie == SKIPS_AT_FIRST || p->lie == HIDES_WORK ? 5000 : p->lie == SLOWER ? 20000 : p->lie == IMPOSSIBLY_FAST ? 3 : 10000;
    double noise = rng_normal(p->lie == NOISY ? 7 : p->seed ^ (uint64_t)getpid(), 1, (uint64_t)p->blocks) * (p->lie == NOISY || (p->lie == SHAKY_AT_FIRST && p->blocks < 300) ? 0.3 : QUIET);
    if (p->lie == UNEVEN)               /* each process is another by up to a fifth */
        ns = 5000 * (1 + 0.2 * (double)(rng_mix(p->seed) >> 40) * 0x1p-24);
    if (p->lie == DRIFTS)
        noise += (double)p->blocks * 0.01;
    p->blocks++;
    p->launches = how->launches + (p->lie == TOO_MANY_LAUNCHES);
    p->order = how->order_seed;
    int64_t span = (int64_t)(ns * exp(noise) * how->launches), wall = span + 30000;
    if (p->lie == HIDES_WORK)
        wall += span;
    if (p->lie == NEGATIVE_TIME)
        span = -span;
    if (p->lie == SPAN_OVER_WALL)
        wall = span / 2;
    *ret = (struct device_sample){.event_ns = span, .wall_ns = wall, .launches = p->launches, .sm_clock_mhz = 1980,
                                  .clock_reasons = p->lie == THROTTLED ? 0x40 : 0x1};
    return true;
}

static bool liar_eager(struct device_program *p, const struct device_time_block *how, int64_t *ret_wall_ns, struct device_fault *fault, struct err *err)
{
    (void)fault, (void)err;
    for (int i = 0; i < how->launches; i++)
        ret_wall_ns[i] = (p->lie == TWICE_AS_FAST ? 15000 : 20000) + i;
    return true;
}

/* A neighbour takes half of the time, from the first look on or from the second. */
static bool liar_alone(struct device *d, int64_t watch_ns, struct device_alone *ret, struct err *err)
{
    (void)err;
    bool there = d->lie == NEIGHBOUR || (d->lie == NEIGHBOUR_LATER && d->watched > 0);
    d->watched++;
    *ret = (struct device_alone){.watched_ns = watch_ns, .longest_gap_ns = there ? 2400000 : 64, .gaps_ns = there ? watch_ns : 0, .gaps = there ? 4 : 0};
    return true;
}

static bool liar_windows(struct device_program *p, int set, struct device_windows *ret, struct err *err)
{
    (void)err;
    for (int t = 0; t < 2; t++) {
        const int64_t n = p->tensors[t].elements, cut = n / 4 + (int64_t)rng_below(p->seed, 3u * (unsigned)t, (uint64_t)set, (uint64_t)n / 2);
        ret[t] = (struct device_windows){cut, (int64_t)rng_below(p->seed, 3u * (unsigned)t + 1, (uint64_t)set, (uint64_t)(n - cut + 1)),
                                         (int64_t)rng_below(p->seed, 3u * (unsigned)t + 2, (uint64_t)set, (uint64_t)cut + 1), 0};
        if (p->lie == NOBODYS_CONTENT && t == 1)
            ret[t].content = 1;
    }
    ret[2] = (struct device_windows){.cut = p->tensors[2].elements};
    return true;
}

static bool was_launched(const struct device_program *p, int set)
{
    int order[100];
    device_set_order(p->order, p->sets, order);
    for (int i = 0; i < p->launches; i++)
        if (order[i] == set)
            return true;
    return false;
}

static bool liar_output(struct device_program *p, int set, int t, void *ret_bytes, struct err *err)
{
    if (!was_launched(p, set))
        return err_set(err, ERR_INVALID, "set %d was not launched", set);
    struct device_windows windows[OP_MAX_TENSORS];
    cleanup(str) char *x = xalloc((size_t)p->tensors[0].bytes), *w = xalloc((size_t)p->tensors[1].bytes);
    char *to[] = {x, w};
    (void)!liar_windows(p, set, windows, err);
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < p->tensors[i].elements; k++)
            memcpy(to[i] + 4 * k, (const char *)p->base[i] + 4 * device_windows_element(&windows[i], k), 4);
    compute(p, (float *)x, (float *)w, ret_bytes);
    if (p->lie == SKIPS_WHEN_TIMED || (p->lie == SKIPS_AT_FIRST && p->blocks < 250))
        memset(ret_bytes, 0x7f, (size_t)p->tensors[t].bytes);
    return true;
}

static const struct device_ops liar = {
    .kind = "liar", .open = liar_open, .close = liar_close, .info = liar_info, .load = liar_load, .unload = liar_unload, .run = liar_run,
    .probe = liar_probe,
    .time_setup = liar_setup, .time_block = liar_block, .time_output = liar_output, .time_windows = liar_windows, .calibrate = liar_calibrate,
    .time_eager = liar_eager, .alone = liar_alone,
    .estimate = liar_estimate,
};

/* ---- the tests ---- */

static struct op_set ops;
static struct judge_config config = {.ops = &ops, .threads = 2, .own_device = true, .run_wall_ns = 2500000000, .need = "none"};

static json_t *candidate_with(enum lie lie)
{
    json_t *c = json_object();
    json_put_str(c, "language", "cuda");
    json_put_str(c, "source", "extern \"C\" __global__ void k(const float *x, const float *w, float *y, float eps) { y[threadIdx.x] = x[threadIdx.x] * w[threadIdx.x] + eps; }");
    json_put(c, "plan", json_pack("{s:[{s:s,s:[i],s:[i],s:i,s:[s,s,s,s]}]}", "steps", "kernel", "k", "grid", 1, "block", 128, "shared_bytes", (int)lie, "args", "x",
                                  "weight", "y", "eps"));
    return c;
}

static json_t *declaring_atomics(json_t *candidate)
{
    json_put(candidate, "declares", json_pack("{s:b}", "atomics", 1));
    json_put_str(candidate, "source", "extern \"C\" __global__ void k(const float *x, const float *w, float *y, float eps) { atomicExch(y + threadIdx.x, x[threadIdx.x] * w[threadIdx.x] + eps); }");
    return candidate;
}

static bool declares_atomics(enum lie lie)
{
    return lie == SERIES_NEAR || lie == SERIES_SPREAD || lie == POISON_SPREAD || lie == POISON_NEAR || lie == BITS_SPREAD;
}

static bool judge_lie(enum lie lie, int baseline, const char *mode, struct judge_result *r, struct err *err)
{
    cleanup(json) json_t *task = json_pack("{s:{s:s,s:{s:i,s:i},s:{s:s},s:s},s:s}", "shape", "op", "rmsnorm", "axes", "R", 3, "N", 256, "dtypes", "io", "f32",
                                           "target", "sm_90a", "mode", mode);
    json_put(task, "candidate", declares_atomics(lie) ? declaring_atomics(candidate_with(lie)) : candidate_with(lie));
    json_put(task, "baseline", baseline < 0 ? json_null() : candidate_with((enum lie)baseline));
    *r = (struct judge_result){.gpu_ns = 0};
    *err = (struct err){0};
    return judge_run(&config, task, NULL, NULL, NULL, r, err);
}

struct expected { enum lie lie; int baseline; const char *mode; enum err_code error; enum verdict_code code; const char *says; };

static void expect(const struct expected *e)
{
    struct judge_result r;
    struct err err;
    bool ok = judge_lie(e->lie, e->baseline, e->mode, &r, &err);
    const char *text = ok ? r.verdict.text : err.text;
    bool right = e->error ? !ok && err.code == e->error : ok && r.verdict.code == e->code;
    if (!right || (e->says && !strstr(text, e->says)))
        fprintf(stderr, "lie %d on %s: %s: %s\n", e->lie, config.device, ok ? verdict_name(r.verdict.code) : err_name(err.code), text);
    check(right);
    check(!e->says || strstr(text, e->says) != NULL);
    if (ok) {
        check(e->error || (r.certificate != NULL) == verdict_is_correct(e->code));
        judge_result_done(&r);
    }
}

static void test_runs(void)
{
    static const struct expected cases[] = {
        {HONEST, -1, "triage", 0, VERDICT_OK, NULL},
        {ZEROS, -1, "triage", 0, VERDICT_WRONG_RESULT, NULL},
        {GUARDS, -1, "triage", 0, VERDICT_OUT_OF_BOUNDS, "outside the buffers"},
        {INPUTS, -1, "triage", 0, VERDICT_INPUT_MODIFIED, "x"},
        {CRASH, -1, "triage", ERR_UPSTREAM, 0, "signal 11"},
        {SILENT_EXIT, -1, "triage", ERR_UPSTREAM, 0, "exit 0"},
        {SLEEP, -1, "triage", ERR_TIMEOUT, 0, "did not answer \"run\" within"},
        {SPIN, -1, "triage", 0, VERDICT_TIMEOUT, "CPU time"},
        {MEMORY, -1, "triage", 0, VERDICT_RESOURCE_LIMIT, "memory"},
        {WRONG_CODE, -1, "triage", ERR_UPSTREAM, 0, "not for it to say"},
        {NO_ANSWER_TEXT, -1, "triage", 0, VERDICT_FAULT, NULL},
        {ESTIMATE_NAN, -1, "triage", ERR_UPSTREAM, 0, "estimates"},
        {ESTIMATE_ZERO, -1, "triage", ERR_UPSTREAM, 0, "estimates"},
        {ESTIMATE_TINY, HONEST, "triage", 0, VERDICT_IMPLAUSIBLE, "no kernel can"},
        {BITS_VARY, -1, "triage", 0, VERDICT_NON_DETERMINISTIC, "y"},
        {POISON_SHOWS, -1, "triage", 0, VERDICT_UNINITIALISED_READ, "y"},
        /* Who declares atomics may differ from himself by what they make, and by no more: poison shows there too. */
        {POISON_SPREAD, -1, "triage", 0, VERDICT_UNINITIALISED_READ, "y"},
        {BITS_SPREAD, -1, "triage", 0, VERDICT_NON_DETERMINISTIC, "more than atomics excuse"},
        {POISON_NEAR, -1, "triage", 0, VERDICT_OK, NULL},
        {OUR_ERROR, -1, "triage", ERR_UNAVAILABLE, 0, "fell off the bus"},
        /* What the baseline does is never the candidate's fault. */
        {HONEST, ZEROS, "triage", ERR_INTERNAL, 0, "baseline"},
        {HONEST, CRASH, "triage", ERR_UPSTREAM, 0, "baseline"},
        {HONEST, SPIN, "triage", ERR_UNAVAILABLE, 0, "its baseline is too much"},
        {HONEST, GUARDS, "triage", ERR_INTERNAL, 0, "baseline"},
        {HONEST, HONEST, "triage", 0, VERDICT_NOT_FASTER, "As fast"},
    };
    config.device = "sim";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
#ifdef __SANITIZE_ADDRESS__
        if (cases[i].lie == CRASH || cases[i].lie == MEMORY)      /* the sanitizer ends these its own way */
            continue;
#endif
        expect(&cases[i]);
    }
}

static void test_measured(void)
{
    static const struct expected cases[] = {
        {SAME_SPEED, -1, "triage", 0, VERDICT_OK, NULL},
        {TWICE_AS_FAST, SAME_SPEED, "triage", 0, VERDICT_OK, NULL},
        {TWICE_AS_FAST, SAME_SPEED, "retest", 0, VERDICT_OK, NULL},
        {SAME_SPEED, SAME_SPEED, "full", 0, VERDICT_NOT_FASTER, "As fast"},
        {SLOWER, SAME_SPEED, "triage", 0, VERDICT_NOT_FASTER, "the baseline takes"},
        {SLOWER, SAME_SPEED, "retest", 0, VERDICT_NOT_CONFIRMED, NULL},
        {UNEVEN, SAME_SPEED, "retest", 0, VERDICT_OK, NULL},       /* what it was before decides nothing */
        {NOISY, SAME_SPEED, "triage", 0, VERDICT_UNCLEAR, "not settled"},
        {SKIPS_WHEN_TIMED, SAME_SPEED, "triage", 0, VERDICT_WRONG_RESULT, "timed launch"},
        /* Right in the last blocks: seen by looking at some before. */
        {SKIPS_AT_FIRST, SAME_SPEED, "full", 0, VERDICT_WRONG_RESULT, "timed launch"},
        {TWICE_AS_FAST, SKIPS_WHEN_TIMED, "triage", ERR_INTERNAL, 0, "baseline"},
        {DIFFERS_WHEN_TIMED, SAME_SPEED, "triage", 0, VERDICT_NON_DETERMINISTIC, "other bits"},
        {TWICE_AS_FAST, DIFFERS_WHEN_TIMED, "triage", ERR_INTERNAL, 0, "baseline"},
        {HIDES_WORK, SAME_SPEED, "triage", 0, VERDICT_TIMERS_DISAGREE, "wall clock"},
        {IMPOSSIBLY_FAST, SAME_SPEED, "triage", 0, VERDICT_IMPLAUSIBLE, NULL},
        {FAULT_WHEN_TIMED, SAME_SPEED, "triage", 0, VERDICT_FAULT, "illegal"},
        {NO_SETS, SAME_SPEED, "triage", ERR_UPSTREAM, 0, "buffer sets"},
        {NOBODYS_CONTENT, SAME_SPEED, "triage", ERR_UPSTREAM, 0, "that nobody made"},
        {TOO_MANY_LAUNCHES, SAME_SPEED, "triage", ERR_UPSTREAM, 0, "impossible sample"},
        {NEGATIVE_TIME, SAME_SPEED, "triage", ERR_UPSTREAM, 0, "impossible sample"},
        {SPAN_OVER_WALL, SAME_SPEED, "triage", ERR_UPSTREAM, 0, "longer than its wall time"},
        {COUNTS_TO_TEN, -1, "triage", 0, VERDICT_STATE_CARRIED, "launch 11 after"},
        {KNOWS_THE_ADDRESS, -1, "triage", 0, VERDICT_STATE_CARRIED, "launch 2 after the module was loaded, of new content"},
        {DIFFERS_INSIDE, -1, "triage", 0, VERDICT_STATE_CARRIED, "launch 88 after the module was loaded gives other bits than launch 12"},
        {NO_SERIES_LAUNCHES, -1, "triage", ERR_UPSTREAM, 0, "made 0 of 1 launches"},
        {SERIES_GUARDS, -1, "triage", 0, VERDICT_OUT_OF_BOUNDS, "outside the buffers"},
        {SERIES_INPUTS, -1, "triage", 0, VERDICT_INPUT_MODIFIED, "weight"},
        {SERIES_FAULT, -1, "triage", 0, VERDICT_OUT_OF_BOUNDS, "illegal"},
        {RELOAD_SHOWS, -1, "triage", 0, VERDICT_STATE_CARRIED, "its first"},
        {SERIES_SPREAD, -1, "triage", 0, VERDICT_STATE_CARRIED, "further apart than atomics excuse"},
        {SERIES_NEAR, -1, "triage", 0, VERDICT_OK, NULL},
        /* Where the emulator has not looked a hundred launches are compared, however long they take. */
        {UNKNOWN_TO_SIM, -1, "triage", 0, VERDICT_OK, NULL},
        /* What is too long for the emulator is for the card to show; what executes many times a counted baseline's instructions does not end. */
        {TOO_LONG_FOR_SIM, SAME_SPEED, "triage", 0, VERDICT_NOT_FASTER, "As fast"},
        {SAME_SPEED, TOO_LONG_FOR_SIM, "triage", 0, VERDICT_NOT_FASTER, "As fast"},
        {ENDLESS_ON_SIM, SAME_SPEED, "triage", 0, VERDICT_TIMEOUT, "longer than the emulator may"},
        {SPINS_ON_SIM, SAME_SPEED, "triage", 0, VERDICT_TIMEOUT, "longer than the emulator may"},
        {DIFFERS_LATE, -1, "triage", 0, VERDICT_STATE_CARRIED, "launch 88 after the module was loaded gives other bits"},
        {DIFFERS_LATE_SEEN_ON_SIM, -1, "triage", 0, VERDICT_OK, NULL},
        /* A baseline that differs from itself gives no figures at all. */
        {TWICE_AS_FAST, NOISY, "triage", ERR_UNAVAILABLE, 0, "steady"},
        /* One that settles down does, at the next attempt. */
        {TWICE_AS_FAST, SHAKY_AT_FIRST, "triage", 0, VERDICT_OK, NULL},
        {TWICE_AS_FAST, THROTTLED, "triage", ERR_UNAVAILABLE, 0, "held down"},
        /* Somebody else on the card is our failure, before and after, whatever the candidate looked like meanwhile. */
        {TWICE_AS_FAST, NEIGHBOUR, "triage", ERR_UNAVAILABLE, 0, "not ours alone"},
        {HIDES_WORK, NEIGHBOUR_LATER, "triage", ERR_UNAVAILABLE, 0, "not ours alone"},
        {TWICE_AS_FAST, NEIGHBOUR_LATER, "triage", ERR_UNAVAILABLE, 0, "not ours alone"},
        /* Faster than its bytes at the best bandwidth that the card has shown. */
        {TWICE_AS_FAST, SLOW_MEMORY, "triage", 0, VERDICT_IMPLAUSIBLE, "held"},
        /* So is a baseline that somebody brought, judged by itself: it voids no line. */
        {SLOW_MEMORY, -1, "triage", 0, VERDICT_IMPLAUSIBLE, "held"},
        /* A drift hits both sides of each quad alike. */
        {TWICE_AS_FAST, DRIFTS, "triage", 0, VERDICT_OK, NULL},
    };
    config.device = "cuda:0";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(&cases[i]);
}

/* The card is taken from a candidate that hangs in a graph by what the baseline's graphs took, not by what any graph may take. */
static void test_hangs(void)
{
    static const struct expected cases[] = {
        {SPINS_WHEN_TIMED, SAME_SPEED, "triage", 0, VERDICT_TIMEOUT, "CPU time"},
        {SPINS_WHEN_WARM, SAME_SPEED, "triage", 0, VERDICT_TIMEOUT, "CPU time"},
    };
    config.device = "cuda:0";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t from_ns = clock_mono_ns();
        expect(&cases[i]);
        check(clock_mono_ns() - from_ns < (int64_t)15 * 1000000000);
    }
}

/* What a verdict on a card must rest on. */
static void test_needs(void)
{
    static const struct { const char *need, *device; struct expected e; } cases[] = {
        {NULL, "cuda:0", {TWICE_AS_FAST, SAME_SPEED, "triage", 0, VERDICT_OK, NULL}},
        {NULL, "cuda:0", {TWICE_AS_FAST, SAME_SPEED, "full", 0, VERDICT_IMPLAUSIBLE, "no audit of the launches"}},
        {"watch", "cuda:0", {TWICE_AS_FAST, SAME_SPEED, "full", 0, VERDICT_IMPLAUSIBLE, "who else was on the card"}},
        {"emulation", "cuda:0", {UNKNOWN_TO_SIM, -1, "full", 0, VERDICT_IMPLAUSIBLE, "the emulator did not run it"}},
        {"emulation", "cuda:0", {TOO_LONG_FOR_SIM, -1, "full", 0, VERDICT_IMPLAUSIBLE, "longer than the emulator may"}},
        {"none", "cuda:0", {UNKNOWN_TO_SIM, -1, "full", 0, VERDICT_OK, NULL}},
        {"emulation,private-memory", "cuda:0", {TWICE_AS_FAST, SAME_SPEED, "full", 0, VERDICT_OK, NULL}},
        {NULL, "cuda:7", {TWICE_AS_FAST, SAME_SPEED, "triage", ERR_UNAVAILABLE, 0, "can reach the memory of the process"}},
        {"none", "cuda:7", {TWICE_AS_FAST, SAME_SPEED, "triage", 0, VERDICT_OK, NULL}},
        {"audits", "cuda:0", {TWICE_AS_FAST, SAME_SPEED, "triage", ERR_INVALID, 0, "a list of audit"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config.need = cases[i].need, config.device = cases[i].device;
        expect(&cases[i].e);
    }
    config.need = "none";
    check(strstr(NEEDS_DEFAULT, "emulation") != NULL);  /* only the emulator looks for races: what it has not seen somebody must decide on */
}

static void test_measured_figures(void)
{
    struct judge_result r;
    struct err err;
    config.device = "cuda:0";
    bool ok = judge_lie(TWICE_AS_FAST, SAME_SPEED, "full", &r, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    if (!ok)
        return;
    const json_t *speedup = json_object_get(r.figures, "speedup"), *samples = json_object_get(r.figures, "samples");
    double median = json_num(speedup, "median", 0), low = json_num(speedup, "low", 0), high = json_num(speedup, "high", 0);
    check_str(json_str(r.figures, "evidence", ""), "measured");
    check_str(json_str(r.figures, "mode", ""), "graph-rotated");
    check(fabs(median - 2) < 0.01 && low < median && median < high && high - low < 0.02);
    check(json_array_size(json_object_get(samples, "candidate")) >= 240);
    check(json_array_size(json_object_get(samples, "candidate")) == json_array_size(json_object_get(samples, "baseline")));
    const json_t *timing = json_object_get(r.certificate, "timing");
    check(json_array_size(json_object_get(timing, "control")) == 2);
    check(json_int(timing, "outputs_checked_a_side", 0) >= 3);
    check(json_is_object(json_object_get(r.certificate, "calibration")));
    check(r.gpu_ns > 0);
    /* All twelve rules, each with its outcome; what a trace is needed for was not done, and says why. */
    const json_t *rules = json_object_get(r.certificate, "rules");
    check_int((int)json_array_size(rules), 12);
    static const bool done[12] = {[6] = true, [10] = true, [11] = true};
    for (size_t i = 0; i < 12; i++) {
        const json_t *one = json_array_get(rules, i);
        check_str(json_str(one, "outcome", ""), done[i] ? "ok" : "not_done");
        check(done[i] || json_str(one, "why", NULL));
    }
    const json_t *modes = json_object_get(r.certificate, "modes"), *eager = json_object_get(modes, "eager"), *graph = json_object_get(modes, "graph-rotated");
    check(json_num(json_object_get(eager, "candidate"), "median_ns", 0) > 15000 && json_num(json_object_get(eager, "baseline"), "median_ns", 0) > 20000);
    check(json_num(eager, "ratio", 0) > 1.3 && json_int(eager, "launches", 0) == 32);
    check(fabs(json_num(json_object_get(graph, "candidate"), "median_ns", 0) - 5000) < 20 && json_int(graph, "bytes_rotated", 0) > 0);
    const json_t *card = json_object_get(timing, "card");
    check(json_is_object(json_object_get(card, "before")) && json_is_object(json_object_get(json_object_get(card, "after"), "watch")));
    check(json_int(timing, "attempts", 0) == 1 && json_int(json_object_get(timing, "spent_ns"), "pairs", 0) > 0);
    const json_t *cost = json_object_get(r.figures, "gpu_ns");
    check(json_int(cost, "time", 0) > 0 && json_int(cost, "start_up", 0) > 0 && json_int(cost, "all", 0) == r.gpu_ns);
    bool told = false;
    size_t i;
    json_t *phase;
    json_array_foreach(json_object_get(r.certificate, "phases"), i, phase)
        if (strcmp(json_str(phase, "phase", ""), "probe") == 0) {
            const json_t *list = json_object_get(phase, "series");
            static const int wanted[] = {1, 2, 10, 11, 1000};
            told = json_array_size(list) == 5;
            for (size_t k = 0; k < 5 && told; k++)
                check_int(json_integer_value(json_array_get(list, k)), wanted[k]);
        }
    check(told);
    judge_result_done(&r);
}

/* Everything before the retest was on cuda:0, every occasion of it where it must be, for this reason if it is not elsewhere. */
static void expect_cards(const struct judge_result *r, const char *wanted, const char *why)
{
    const json_t *retest = certificate_phase(r->certificate, "retest");
    static const char *const before[] = {"correct", "probe", "time"};
    size_t i;
    json_t *occasion;
    for (i = 0; i < 3; i++)
        check_str(json_str(json_object_get(certificate_phase(r->certificate, before[i]), "device"), "id", ""), "cuda:0");
    cleanup(str) char *uuid = xfmt("GPU-of-the-test-%s", wanted);
    json_array_foreach(json_object_get(retest, "occasions"), i, occasion) {
        check_str(json_str(json_object_get(occasion, "device"), "id", ""), wanted);
        check_str(json_str(json_object_get(occasion, "device"), "uuid", ""), uuid);
        check(!why == !json_object_get(occasion, "why_this_card") && (!why || strstr(json_str(occasion, "why_this_card", ""), why)));
    }
    check(json_bool(retest, "other_card", false) == (strcmp(wanted, "cuda:0") != 0));
}

/* Another model is no other card for a retest, and one that somebody has is not waited for. */
static void test_no_other_card(void)
{
    char base[] = "/tmp/liar-cards.XXXXXX";
    const int made = mkstemp(base);
    int fd = -1;
    cleanup(str) char *mine = xfmt("%s.cuda:0", base), *others = xfmt("%s.cuda:1", base), *models = xfmt("%s.cuda:2", base);
    struct judge_result r;
    struct err err = {0};
    config.device = "cuda:0,cuda:2,cuda:1";
    config.card_lock = base;
    check(card_turn_try(others, &fd, &err));
    bool ok = judge_lie(TWICE_AS_FAST, SAME_SPEED, "retest", &r, &err) && certificate_check(r.certificate, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    if (ok)
        expect_cards(&r, "cuda:0", "somebody else has the card");
    judge_result_done(&r);
    close(fd), close(made);
    unlink(base), unlink(mine), unlink(others), unlink(models);
    config.card_lock = NULL;
}

/* The certificate of a retest on a card holds what the contract lists, three timers and fresh buffers included. */
static void test_measured_certificate(void)
{
    static const char *const lost[] = {"calibration", "samples", "timing", "timers"}, *const lost_timing[] = {"buffer_seed", "control", "statistics", "pairs_discarded"};
    struct judge_result r;
    struct err err;
    config.device = "cuda:0,cuda:1";
    bool ok = judge_lie(UNEVEN, SAME_SPEED, "retest", &r, &err) && certificate_check(r.certificate, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    if (!ok)
        return;
    const json_t *occasions = json_object_get(certificate_phase(r.certificate, "retest"), "occasions");
    check_int(json_array_size(occasions), 3);
    expect_cards(&r, "cuda:1", NULL);
    /* The published figure is all three's, and its interval holds each one's. */
    const json_t *speedup = json_object_get(r.certificate, "speedup"), *needs = json_object_get(r.certificate, "needs");
    size_t pairs = 0;
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(occasions, i);
        const double median = json_num(json_object_get(one, "ratio"), "median", 0);
        check(json_num(speedup, "low", 9) <= median && median <= json_num(speedup, "high", 0));
        pairs += (size_t)json_int(json_object_get(json_object_get(one, "figures"), "statistics"), "pairs", 0);
    }
    check(pairs > 700 && json_array_size(json_object_get(json_object_get(r.certificate, "samples"), "candidate")) >= pairs);
    check_int(json_int(json_object_get(r.certificate, "timing"), "occasions_pooled", 0), 3);
    /* Two timers of three (nothing was traced), of all occasions' samples: medians of both sides in their intervals, and the gain. */
    static const char *const timers[] = {"events", "wall_clock"}, *const sides[] = {"candidate", "baseline"};
    check(json_is_null(json_object_get(json_object_get(r.certificate, "timers"), "records")));
    for (size_t i = 0; i < 4; i++) {
        const json_t *timer = json_object_get(json_object_get(r.certificate, "timers"), timers[i / 2]), *side = json_object_get(timer, sides[i % 2]);
        const double middle = json_num(side, "median_ns", 0), gain = json_num(json_object_get(timer, "gain"), "median", 0);
        check_int(json_int(side, "samples", 0), json_array_size(json_object_get(json_object_get(r.certificate, "samples"), "candidate")));
        check(json_num(side, "low_ns", 1e9) <= middle && middle <= json_num(side, "high_ns", 0) && json_num(side, "low_ns", 0) > 0);
        check(json_num(side, "q1_ns", 1e9) <= middle && middle <= json_num(side, "q3_ns", 0));
        check(gain > 1 && json_num(json_object_get(timer, "gain"), "low", 9) <= gain && gain <= json_num(json_object_get(timer, "gain"), "high", 0));
        check(i / 2 == 0 || middle >= json_num(json_object_get(json_object_get(json_object_get(r.certificate, "timers"), "events"), sides[i % 2]), "median_ns", 1e9));
    }
    check_int(json_array_size(json_object_get(needs, "asked")), 0);
    check_int(json_array_size(json_object_get(needs, "missing")), 2);       /* no audit, and nobody who could watch */
    {
        cleanup(json) json_t *less = json_deep_copy(r.certificate);
        json_array_remove(json_object_get((json_t *)(uintptr_t)certificate_phase(less, "retest"), "occasions"), 0);
        check(!certificate_check(less, &err) && strstr(err.text, "2 occasions"));
    }
    {
        cleanup(json) json_t *better = json_deep_copy(r.certificate);
        json_put_num(json_object_get(better, "speedup"), "median", json_num(speedup, "median", 0) * 1.01);
        check(!certificate_check(better, &err) && strstr(err.text, "not the retest's"));
    }
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        cleanup(json) json_t *less = json_deep_copy(r.certificate);
        json_object_del(less, lost[i]);
        check(!certificate_check(less, &err));
    }
    for (size_t i = 0; i < sizeof lost_timing / sizeof *lost_timing; i++) {
        cleanup(json) json_t *less = json_deep_copy(r.certificate);
        json_object_del(json_object_get(less, "timing"), lost_timing[i]);
        check(!certificate_check(less, &err));
    }
    {
        cleanup(json) json_t *mixed = json_deep_copy(r.certificate);
        json_t *last = json_array_get(json_object_get((json_t *)(uintptr_t)certificate_phase(mixed, "retest"), "occasions"), 2);
        json_put_str(json_object_get(last, "device"), "driver", "1.3");
        check(!certificate_check(mixed, &err) && strstr(err.text, "the driver of its device"));
    }
    cleanup(json) json_t *lie = json_deep_copy(r.certificate);
    json_put_str(lie, "evidence", "emulated");
    check(!certificate_check(lie, &err));
    judge_result_done(&r);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, &liar);
    struct err err = {0};
    struct toolkit_paths paths;
    hash_init();
    if (argc != 2 || !op_set_load(argv[1], &ops, &err)) {
        fprintf(stderr, "usage: %s OPS_DIR: %s\n", argv[0], err.text);
        return 2;
    }
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    test_runs();
    test_measured();
    test_hangs();
    test_needs();
    test_measured_figures();
    test_measured_certificate();
    test_no_other_card();
    op_set_done(&ops);
    return test_done();
}

/*
 * Correct: fresh children, secret inputs, every regime, and the comparison here. The typical regime (on a card: each) runs twice,
 * with other poison, in another place of its mappings and in another order of warps, and must give the same bits (where atomics are
 * declared: nearly the same numbers, compare_spread).
 * Between them the regimes' runs use every place: at the end, at an odd multiple of the alignment, and at one of 2 MiB.
 *
 * Of a hidden regime the outside learns that a hidden test failed, nothing else.
 */
#include "gpu/judge/internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static void describe(const struct judge *j, struct verdict *v, const struct compare_result *r, const struct tensor *t,
                     int regime, const char *phase)
{
    verdict_set(v, r->code, phase, "%s (inputs: %s)", r->text, inputs_regime_name(j->op, regime));
    v->detail = compare_encode(r, t);
    json_put_str(v->detail, "regime", inputs_regime_name(j->op, regime));
}

/* Whether the baseline is fit to be a yardstick: inside the absolute table itself. */
static bool baseline_fit(const struct judge *j, const struct compare_result *r, const struct tensor *t, struct err *err)
{
    struct compare_tolerance tolerance = compare_tolerance(j->op, t);
    if (r->baseline_worst > 10 * tolerance.max || r->baseline_rms > 4 * tolerance.rms)
        return err_set(err, ERR_INTERNAL,
                       "the baseline's own error in %s is too large to measure by: worst %.3g, RMS %.3g", t->spec->name,
                       r->baseline_worst, r->baseline_rms);
    return true;
}

/* The bytes that an output holds before a launch. */
static void *poison_image(const struct tensor *t, uint64_t poison)
{
    char *image = xalloc((size_t)t->bytes);
    for (int64_t i = 0; i < t->bytes; i++)
        image[i] = (char)(poison >> (8 * (i % 8)));
    return image;
}

/* The comparison alone: pure, on any thread. ret by tensor, those that are not inputs. */
static void compare_outputs(const struct judge *j, const struct judge_side *s, int regime, void *const *outputs,
                            uint8_t *const *written, uint64_t poison, struct compare_result *ret)
{
    const struct judge_regime *g = &j->regimes[regime];
    for (int t = 0; t < j->op->tensor_count; t++) {
        const struct tensor *tensor = &j->tensors[t];
        if (tensor->spec->role == OP_INPUT)
            continue;
        bool gaps = tensor->spec->role == OP_OUTPUT && tensor->span_elements != tensor->elements;
        cleanup(mem) void *image = gaps ? poison_image(tensor, poison) : NULL;
        const struct compare_case c = {
            .op = j->op, .tensor = tensor, .reference = g->reference[t], .got = outputs[t],
            .baseline = side_is_judged(j, s) && g->baseline_ran ? g->baseline[t] : NULL,
            .written = written[t],
            .before = tensor->spec->role == OP_INOUT ? g->inputs[t] : image,
        };
        compare_tensor(&c, &ret[t]);
    }
}

/* What the comparison means. */
static bool judge_outputs(struct judge *j, struct judge_side *s, int regime, const struct compare_result *results, const char *phase,
                          struct verdict *v, struct err *err)
{
    bool by_baseline = side_is_judged(j, s) && j->regimes[regime].baseline_ran;
    for (int t = 0; t < j->op->tensor_count; t++) {
        const struct tensor *tensor = &j->tensors[t];
        if (tensor->spec->role == OP_INPUT)
            continue;
        if (by_baseline && !baseline_fit(j, &results[t], tensor, err))
            return false;
        if (results[t].code != VERDICT_OK) {
            describe(j, v, &results[t], tensor, regime, phase);
            return side_verdict(j, s, v, err);
        }
    }
    return sampled_enough(j, s, results, phase, v, err);
}

bool check_outputs(struct judge *j, struct judge_side *s, int regime, void *const *outputs, uint64_t poison,
                   const char *phase, struct compare_result *ret_worst, struct verdict *v, struct err *err)
{
    struct compare_result results[OP_MAX_TENSORS] = {{0}};
    compare_outputs(j, s, regime, outputs, s->written, poison, results);
    STEP(judge_outputs(j, s, regime, results, phase, v, err));
    if (ret_worst)
        memcpy(ret_worst, results, sizeof results);
    return true;
}

/* ---- the baseline's run, and the comparison ---- */

static bool baseline_ask(struct judge *j, int regime, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[BASELINE];
    if (!s->present || s->runs_regime)
        return true;
    /* The candidate's counts come from a run with this order of blocks in this place: equal kernels must get equal estimates. */
    uint64_t seed = random_u64() & ~PTX_SEED_DESCENDING;
    const struct run_order o = {.regime = regime,
                                .poison = j->poison[0],
                                .schedule_seed = regime == 0 ? seed | PTX_SEED_DESCENDING : seed,
                                .place = regime == 0 ? DEVICE_AT_START : DEVICE_AT_END,
                                .instruction_limit = (uint64_t)LIMIT_THREAD_INSTRUCTIONS};
    STEP(run_inputs(j, s, regime, "correct", v, err));
    STEP(run_ask(j, s, &o, "correct", v, err));
    s->runs_regime = true;
    return true;
}

static bool baseline_take(struct judge *j, int regime, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[BASELINE];
    if (!s->present)
        return true;
    STEP(run_take(j, s, "correct", v, err));
    s->runs_regime = false;
    return regime != 0 || j->on_card || run_estimate(j, s, err);
}

/* Its outputs become ours: of all its blocks, or it is no yardstick. */
void baseline_keep(struct judge *j, int regime)
{
    struct judge_side *s = &j->sides[BASELINE];
    struct judge_regime *g = &j->regimes[regime];
    if (!s->present || s->sampled)
        return;
    run_copy_outputs(j, s);
    for (int t = 0; t < j->op->tensor_count; t++) {
        free(g->baseline[t]);
        g->baseline[t] = steal(&s->outputs[t]);
    }
    g->baseline_ran = true;
}

static json_t *regime_record(const struct judge *j, int r, const struct compare_result *worst)
{
    json_t *doc = json_object(), *tensors = json_array();
    bool hidden = inputs_regime_hidden(j->op, r);
    char seed[24];
    snprintf(seed, sizeof seed, "0x%016llx", (unsigned long long)j->regimes[r].seed);
    json_put_int(doc, "regime", r);
    if (!hidden)
        json_put_str(doc, "name", inputs_regime_name(j->op, r));
    json_put_bool(doc, "hidden", hidden);
    json_put_str(doc, "seed", seed);
    for (int t = 0; t < j->op->tensor_count; t++)
        if (j->op->tensors[t].role != OP_INPUT)
            json_array_append_new(tensors, compare_encode(&worst[t], &j->tensors[t]));
    json_put(doc, "tensors", tensors);
    return doc;
}

static void hide(struct verdict *v)
{
    json_decref(v->detail);
    v->detail = NULL;
    verdict_set(v, VERDICT_WRONG_RESULT, "correct", "A hidden test failed.");
    v->detail = json_object();
    json_put_bool(v->detail, "hidden", true);
}

/*
 * A regime's comparison goes on beside the next regimes' runs, as many at once as there are CPUs: the children compute then, and this
 * process would only wait, with a card in hand. It reads what nobody changes until it is settled: the regime's inputs, reference and
 * baseline, and outputs of its own. It waits until the next regime's first run is asked for; the baseline's outputs stay in its child's
 * memory as long. They are settled in order.
 */
struct comparison {
    bool waiting, running;
    atomic_bool ready;
    pthread_t thread;
    struct judge *j;
    struct judge_side *s;
    int regime;
    uint64_t poison;
    void *outputs[OP_MAX_TENSORS];
    uint8_t *written[OP_MAX_TENSORS];
    struct compare_result results[OP_MAX_TENSORS];
};

static void *comparison_run(void *ctx)
{
    struct comparison *c = ctx;
    compare_outputs(c->j, c->s, c->regime, c->outputs, c->written, c->poison, c->results);
    atomic_store(&c->ready, true);
    return NULL;
}

static void comparison_plan(struct comparison *c, struct judge *j, struct judge_side *s, int regime, uint64_t poison)
{
    c->waiting = true, c->j = j, c->s = s, c->regime = regime, c->poison = poison;
    for (int t = 0; t < j->op->tensor_count; t++) {
        c->outputs[t] = steal(&s->outputs[t]);
        c->written[t] = steal(&s->written[t]);
    }
}

static void comparison_start(struct comparison *c)
{
    if (!c || !c->waiting)
        return;
    c->waiting = false;
    baseline_keep(c->j, c->regime);
    c->running = pthread_create(&c->thread, NULL, comparison_run, c) == 0;
    if (!c->running)
        comparison_run(c);      /* no thread to be had: then now */
}

static void comparison_end(struct comparison *c)
{
    if (c->running)
        pthread_join(c->thread, NULL);
    c->running = false;
    for (int t = 0; t < OP_MAX_TENSORS; t++) {
        free(c->outputs[t]);
        free(c->written[t]);
        c->outputs[t] = NULL, c->written[t] = NULL;
    }
}

/* Of one round, by regime. */
struct comparisons { int begun, settled, most; struct comparison list[INPUTS_MAX_REGIMES]; };

static struct comparisons *comparisons_new(void)
{
    struct comparisons *all = xalloc(sizeof *all);
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    all->most = cpus < 1 ? 1 : cpus > INPUTS_MAX_REGIMES ? INPUTS_MAX_REGIMES : (int)cpus;
    return all;
}

static void comparisons_free(struct comparisons *all)
{
    for (int i = all->settled; i < all->begun; i++)
        comparison_end(&all->list[i]);
    free(all);
}
DEFINE_CLEANUP(comparisons, struct comparisons *, comparisons_free(*it))

static struct comparison *newest(struct comparisons *all)
{
    return all->begun > all->settled ? &all->list[all->begun - 1] : NULL;
}

/* Waits for it, judges it, records it. */
static bool settle(struct comparison *c, json_t *records, struct verdict *v, struct err *err)
{
    struct judge *j = c->j;
    comparison_start(c);
    comparison_end(c);
    STEP(judge_outputs(j, c->s, c->regime, c->results, "correct", v, err));
    json_array_append_new(records, regime_record(j, c->regime, c->results));
    regime_used(j, c->regime);
    return true;
}

/* The oldest, until only `left` of them or those that still go on are left. *ret_regime is the one that v is of. */
static bool settle_to(struct comparisons *all, int left, json_t *records, int *ret_regime, struct verdict *v, struct err *err)
{
    while (all->begun - all->settled > left || (all->begun > all->settled && atomic_load(&all->list[all->settled].ready))) {
        struct comparison *c = &all->list[all->settled++];
        *ret_regime = c->regime;
        STEP(settle(c, records, v, err));
    }
    return true;
}

/* ---- two runs, equal bits ---- */

struct images { void *list[OP_MAX_TENSORS]; };
static void images_done(struct images *i)
{
    for (int t = 0; t < OP_MAX_TENSORS; t++)
        free(i->list[t]);
}
DEFINE_CLEANUP(images, struct images, images_done(it))

int outputs_difference(const struct judge *j, void *const *a, void *const *b, int64_t *ret_element)
{
    for (int t = 0; t < j->op->tensor_count; t++) {
        const struct tensor *tensor = &j->tensors[t];
        size_t size = (size_t)dtype_bytes(tensor->dtype);
        int64_t offset;
        if (!a[t] || compare_same(tensor, a[t], b[t], &offset))
            continue;
        bool dense = tensor->span_elements == tensor->elements;
        for (int64_t i = dense ? offset / (int64_t)size : 0; i < tensor->elements; i++) {
            size_t at = (size_t)tensor_offset(tensor, i) * size;
            if (memcmp((const char *)a[t] + at, (const char *)b[t] + at, size) != 0) {
                *ret_element = i;
                return t;
            }
        }
    }
    return -1;
}

int outputs_spread(const struct judge *j, void *const *a, void *const *b, int64_t *ret_element)
{
    for (int t = 0; t < j->op->tensor_count; t++)
        if (a[t] && !compare_spread(j->op, &j->tensors[t], a[t], b[t], ret_element))
            return t;
    return -1;
}

/* What two launches on equal inputs may not show: any other bit, or where atomics are declared more than these excuse. */
static int runs_differ(const struct judge *j, const struct judge_side *s, void *const *a, int64_t *ret_element)
{
    return s->candidate.atomics ? outputs_spread(j, a, s->outputs, ret_element) : outputs_difference(j, a, s->outputs, ret_element);
}

/* The typical regime's first results: what the probes compare with. */
static void typical_keep(struct judge *j, void **outputs)
{
    for (int t = 0; t < j->op->tensor_count; t++) {
        free(j->typical[t]);
        j->typical[t] = steal(&outputs[t]);
    }
}

/* What there is to do while the candidate's first run of a regime goes on: the regime before, the baseline, the regime after. */
static bool meanwhile(struct judge *j, int regime, struct comparison *before, struct verdict *v, struct err *err)
{
    comparison_start(before);
    /* On a card one at a time: what a candidate does to a card must not reach the baseline's run. */
    if (!j->on_card)
        STEP(baseline_ask(j, regime, v, err));
    return regime_ahead(j, regime, err);
}

static bool first_run(struct judge *j, struct judge_side *s, const struct run_order *o, struct comparison *before, struct verdict *v,
                      struct err *err)
{
    STEP(run_ask(j, s, o, "correct", v, err));
    STEP(meanwhile(j, o->regime, before, v, err));
    STEP(run_take(j, s, "correct", v, err));
    run_copy_outputs(j, s);
    return true;
}

static bool run_twice(struct judge *j, struct judge_side *s, int regime, struct comparison *previous, struct verdict *v, struct err *err)
{
    /* On sim the first explores: lanes apart must give what lanes together give. The second's counts are the ones that are used. */
    struct run_order first = {.regime = regime,
                              .poison = j->poison[0],
                              .schedule_seed = random_u64() & ~PTX_SEED_DESCENDING,
                              .explore = s->run.role == SANDBOX_RUN_SIM,
                              .place = regime % 2 ? DEVICE_ODD : DEVICE_AT_END,
                              .instruction_limit = j->instruction_limit};
    struct run_order second = {.regime = regime,
                               .poison = j->poison[1],
                               .schedule_seed = random_u64() | PTX_SEED_DESCENDING,
                               .place = DEVICE_AT_START,
                               .instruction_limit = j->instruction_limit};
    cleanup(images) struct images before = {0};
    int64_t element = 0;
    STEP(first_run(j, s, &first, previous, v, err));
    for (int t = 0; t < j->op->tensor_count; t++)
        before.list[t] = steal(&s->outputs[t]);
    STEP(run_once(j, s, &second, "correct", v, err));
    int t = runs_differ(j, s, before.list, &element);
    if (t < 0) {
        if (regime == 0)
            typical_keep(j, before.list);
        return true;
    }
    /* Memory as in the first run, order as in the second: what still differs does so by the order of things, else by what was there. */
    first.schedule_seed = second.schedule_seed;
    first.explore = second.explore;
    STEP(run_once(j, s, &first, "correct", v, err));
    int64_t again = 0;
    bool repeats = runs_differ(j, s, before.list, &again) < 0;
    if (repeats)
        verdict_set(v, VERDICT_UNINITIALISED_READ, "correct",
                    "element %lld of %s depends on what memory held before the launch, or was never written",
                    (long long)element, j->op->tensors[t].name);
    else
        verdict_set(v, VERDICT_NON_DETERMINISTIC, "correct",
                    "element %lld of %s differs between two launches on equal inputs%s", (long long)element,
                    j->op->tensors[t].name, s->candidate.atomics ? " by more than atomics excuse" : "");
    v->detail = json_object();
    json_put_str(v->detail, "tensor", j->op->tensors[t].name);
    json_put_int(v->detail, "element", element);
    return side_verdict(j, s, v, err);
}

/* ---- one regime ---- */

/* Once more with other poison: the typical regime always, on a card all of them unless the tensors are huge. */
static bool runs_twice(const struct judge *j, int regime)
{
    return regime == 0 || (j->on_card && j->keep_regimes);
}

static bool run_judged(struct judge *j, int regime, struct comparison *previous, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    STEP(run_inputs(j, s, regime, "correct", v, err));
    if (runs_twice(j, regime)) {
        STEP(run_twice(j, s, regime, previous, v, err));
    } else {
        static const enum device_place places[] = {DEVICE_AT_END, DEVICE_ODD, DEVICE_AT_START};
        const struct run_order o = {.regime = regime,
                                    .poison = j->poison[regime % 2],
                                    .schedule_seed = random_u64(),
                                    .place = places[regime % 3],
                                    .instruction_limit = j->instruction_limit};
        STEP(first_run(j, s, &o, previous, v, err));
    }
    if (regime == 0 && !j->on_card && !run_estimate(j, s, err))
        return false;
    return true;
}

static bool run_regime(struct judge *j, int r, struct comparison *previous, struct verdict *v, struct err *err)
{
    /* Before anything of the candidate's is on the card: what the baseline takes there says what is endless. */
    if (j->on_card && r == 0) {
        STEP(baseline_ask(j, r, v, err));
        STEP(baseline_take(j, r, v, err));
        return run_judged(j, r, previous, v, err) && (v->code != VERDICT_OK || regime_reference(j, r, err));
    }
    STEP(run_judged(j, r, previous, v, err));
    if (!regime_reference(j, r, err))
        return false;
    STEP(baseline_ask(j, r, v, err));
    return baseline_take(j, r, v, err);
}

/* Runs a regime, and settles earlier ones, whose verdicts come first: *ret_regime is the one that v is of. */
static bool one_regime(struct judge *j, int r, struct comparisons *all, json_t *records, int *ret_regime, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    cleanup(verdict) struct verdict ran = {.code = VERDICT_OK};
    struct err why = {0};
    bool ok = run_regime(j, r, newest(all), &ran, &why);
    STEP(settle_to(all, ok && ran.code == VERDICT_OK ? all->most - 1 : 0, records, ret_regime, v, err));
    *ret_regime = r;
    if (!ok)
        return err_set(err, why.code, "%s", why.text);
    if (ran.code != VERDICT_OK) {
        *v = ran;
        ran = (struct verdict){0};
        return true;
    }
    comparison_plan(&all->list[all->begun++], j, s, r, j->poison[runs_twice(j, r) ? 1 : r % 2]);
    /* where regimes are not kept, two of them would be too much to hold */
    return j->keep_regimes || settle_to(all, 0, records, ret_regime, v, err);
}

/* What needs no card is done before it is ours: the children stand in their sandboxes, and what each regime must give is known. */
static bool before_card(struct judge *j, struct verdict *v, struct err *err)
{
    for (int i = 0; i < SIDES; i++)
        if (j->sides[i].present) {
            STEP(run_shape(j, &j->sides[i], v, err));
            STEP(run_prepare_ask(j, &j->sides[i], v, err));
        }
    for (int r = 0; r < j->regime_count && j->keep_regimes; r++)
        if (!regime_reference(j, r, err))
            return false;
    card_prepare();
    for (int i = 0; i < SIDES; i++)
        if (j->sides[i].present)
            STEP(run_prepare_take(j, &j->sides[i], v, err));
    return true;
}

/* The children that run: on sim those that emulated, on a card new ones with the card. */
static bool ready(struct judge *j, struct verdict *v, struct err *err)
{
    for (int i = 0; i < SIDES; i++) {
        struct judge_side *s = &j->sides[i];
        if (!s->present)
            continue;
        enum sandbox_role role = j->on_card ? SANDBOX_RUN_CUDA : SANDBOX_RUN_SIM;
        if ((!s->run.alive || s->run.role != role) && !run_start(j, s, role, err))
            return false;
    }
    if (j->on_card)
        STEP(before_card(j, v, err));
    for (int i = 0; i < SIDES; i++)
        if (j->sides[i].present)
            STEP(run_open_ask(j, &j->sides[i], j->device, v, err));
    for (int i = 0; i < SIDES; i++) {
        struct judge_side *s = &j->sides[i];
        if (!s->present)
            continue;
        STEP(run_open(j, s, j->device, v, err));
        STEP(run_load(j, s, j->on_card, "correct", v, err));
    }
    return true;
}

bool correct_round(struct judge *j, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *records = json_array();
    cleanup(comparisons) struct comparisons *all = comparisons_new();
    STEP(ready(j, v, err));
    for (int r = 0; r <= j->regime_count; r++) {
        int of = r;
        if (r < j->regime_count ? !one_regime(j, r, all, records, &of, v, err) : !settle_to(all, 0, records, &of, v, err))
            return false;
        if (v->code != VERDICT_OK) {
            if (inputs_regime_hidden(j->op, of))
                hide(v);
            return true;
        }
    }
    char text[2][24];
    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i], "0x%016llx", (unsigned long long)j->poison[i]);
    json_put(j->phase, "regimes", json_incref(records));
    json_put(j->phase, "poisons", json_pack("[s,s]", text[0], text[1]));
    if (j->canaries)
        json_put(j->phase, "canaries", json_incref(j->canaries));
    json_put_str(j->phase, "yardstick", j->sides[BASELINE].present && !j->sides[BASELINE].sampled ? "baseline" : "table");
    if (j->sides[CANDIDATE].sampled)        /* of how many blocks the results are: the elements of each tensor were counted */
        json_put(j->phase, "sampled", sampled_encode(j, &j->sides[CANDIDATE]));
    return true;
}

bool correct_on_emulator(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    STEP(run_twice(j, s, 0, NULL, v, err));
    return regime_reference(j, 0, err) && check_outputs(j, s, 0, s->outputs, j->poison[1], "emulate", NULL, v, err);
}

bool phase_correct(struct judge *j, struct verdict *v, struct err *err)
{
    return correct_round(j, v, err);
}

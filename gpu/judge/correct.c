/*
 * Correct: fresh children, secret inputs, every regime; what their outputs come to is comparison.c's. The typical regime (on a card: each) runs twice,
 * with other poison, in another place of its mappings and in another order of warps, and must give the same bits (where atomics are
 * declared: nearly the same numbers, compare_spread).
 * Between them the regimes' runs use every place: at the end, at an odd multiple of the alignment, and at one of 2 MiB.
 *
 * Of a hidden regime the outside learns that a hidden test failed, nothing else.
 */
#include "gpu/judge/comparison.h"
#include "gpu/judge/spare.h"

#include <string.h>

/* ---- inputs, and the baseline's run ---- */

/* Given while another child is waited for: not again when its own turn comes. */
static bool inputs_ahead(struct judge *j, struct judge_side *s, int regime, struct verdict *v, struct err *err)
{
    if (s->run.role != SANDBOX_RUN_CUDA || !j->keep_regimes || !s->present || s->has_inputs || regime >= j->regime_count)
        return true;
    STEP(run_inputs(j, s, regime, "correct", v, err));
    s->has_inputs = true;
    return true;
}

static bool inputs_now(struct judge *j, struct judge_side *s, int regime, struct verdict *v, struct err *err)
{
    const bool there = s->has_inputs;
    s->has_inputs = false;
    return there || run_inputs(j, s, regime, "correct", v, err);
}

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
    STEP(inputs_now(j, s, regime, v, err));
    STEP(run_ask(j, s, &o, "correct", v, err));
    s->runs_regime = true;
    return true;
}

/* next: the regime that the candidate runs then. */
static bool baseline_take(struct judge *j, int regime, int next, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[BASELINE];
    if (!s->present || !s->runs_regime)
        return true;
    STEP(inputs_ahead(j, &j->sides[CANDIDATE], next, v, err));
    STEP(run_take(j, s, "correct", v, err));
    s->runs_regime = false;
    return regime != 0 || j->on_card || run_estimate(j, s, err);
}

void verdict_hide(struct verdict *v, const char *phase)
{
    json_decref(v->detail);
    v->detail = NULL;
    verdict_set(v, VERDICT_WRONG_RESULT, phase, "A hidden test failed.");
    v->detail = json_object();
    json_put_bool(v->detail, "hidden", true);
}

/* ---- two runs, equal bits ---- */

struct images { void *list[OP_MAX_TENSORS]; };
static void images_done(struct images *i)
{
    for (int t = 0; t < OP_MAX_TENSORS; t++)
        spare_give(i->list[t]);
}
DEFINE_CLEANUP(images, struct images, images_done(it))

/* What two launches on equal inputs may not show: any other bit, or where atomics are declared more than these excuse. */
static int runs_differ(const struct judge *j, const struct judge_side *s, void *const *a, int64_t *ret_element)
{
    return s->candidate.atomics ? outputs_spread(j, a, s->outputs, ret_element) : outputs_difference(j, a, s->outputs, ret_element);
}

/* The typical regime's first results: what the probes compare with. */
static void typical_keep(struct judge *j, void **outputs)
{
    for (int t = 0; t < j->op->tensor_count; t++) {
        spare_give(j->typical[t]);
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
    STEP(run_ask(j, s, &second, "correct", v, err));
    const bool baseline_next = j->on_card && regime > 0;        /* of the typical regime its run went first */
    if (baseline_next)
        STEP(inputs_ahead(j, &j->sides[BASELINE], regime, v, err));
    if (!regime_ahead(j, regime, err))
        return false;
    STEP(run_take(j, s, "correct", v, err));
    if (baseline_next)          /* the card is the baseline's while we look at what the candidate left */
        STEP(baseline_ask(j, regime, v, err));
    run_copy_outputs(j, s);
    int t = runs_differ(j, s, before.list, &element);
    if (t < 0) {
        if (regime == 0)
            typical_keep(j, before.list);
        return true;
    }
    /* Memory as in the first run, order as in the second: what still differs does so by the order of things, else by what was there. */
    if (j->on_card)
        STEP(baseline_take(j, regime, INT_MAX, v, err));
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
    STEP(inputs_now(j, s, regime, v, err));
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
        STEP(baseline_take(j, r, r, v, err));
        return run_judged(j, r, previous, v, err) && (v->code != VERDICT_OK || regime_reference(j, r, err));
    }
    STEP(run_judged(j, r, previous, v, err));
    if (!regime_reference(j, r, err))
        return false;
    STEP(baseline_ask(j, r, v, err));
    return baseline_take(j, r, r + 1, v, err);
}

/* Runs a regime, and settles earlier ones, whose verdicts come first: *ret_regime is the one that v is of. */
static bool one_regime(struct judge *j, int r, struct comparisons *all, json_t *records, int *ret_regime, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    cleanup(verdict) struct verdict ran = {.code = VERDICT_OK};
    struct err why = {0};
    bool ok = run_regime(j, r, comparisons_newest(all), &ran, &why);
    STEP(comparisons_settle(all, ok && ran.code == VERDICT_OK ? all->most - 1 : 0, records, ret_regime, v, err));
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
    return j->keep_regimes || comparisons_settle(all, 0, records, ret_regime, v, err);
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
    if ((j->keep_regimes && !probe_prepare(j, err)) || !measure_prepare(j, err))
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

/* The last comparisons are waited for; the card can say meanwhile what the harness itself costs. */
static bool calibrate_beside(struct judge *j, struct comparison *last, struct verdict *v, struct err *err)
{
    comparison_start(last);
    return measure_calibrate(j, v, err);
}

bool correct_round(struct judge *j, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *records = json_array();
    cleanup(comparisons) struct comparisons *all = comparisons_new();
    STEP(ready(j, v, err));
    for (int r = 0; r <= j->regime_count; r++) {
        int of = r;
        if (r == j->regime_count && j->on_card)
            STEP(calibrate_beside(j, comparisons_newest(all), v, err));
        if (r < j->regime_count ? !one_regime(j, r, all, records, &of, v, err) : !comparisons_settle(all, 0, records, &of, v, err))
            return false;
        if (v->code != VERDICT_OK) {
            if (inputs_regime_hidden(j->op, of) && v->code != VERDICT_UNSUPPORTED_ON_SIM)       /* that is nobody's fault, and says nothing of values */
                verdict_hide(v, "correct");
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

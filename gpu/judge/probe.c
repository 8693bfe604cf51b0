/*
 * Probe: a launch may depend on its inputs alone. What else it could depend on is changed, and the results must not:
 *
 *   repeats   the typical inputs again and again, each time with another order, poison and place: the same bits
 *   chain     what an inout tensor holds after a launch is what the next one finds there, as in service, where a sequence goes on. The
 *             other inputs are new, but for integers, which say where things are. Judged after the second launch, in a full judgement
 *             after the eleventh too: a mark that a kernel leaves itself in what it may write shows here and nowhere else
 *
 *   series    on a card: many launches at the same addresses, of a module that was just loaded (series.c), on the typical inputs and on
 *             those of the chain's first launch, or on new ones where the operator has no inout tensor
 *
 * All run in the children that were just found correct; on a card their modules have been launched often by then.
 */
#include "core/clock.h"
#include "gpu/judge/comparison.h"
#include "gpu/judge/crew.h"
#include "gpu/judge/spare.h"

#include <string.h>

#define REPEATS_TRIAGE 1
#define REPEATS_FULL 100
#define REPEATS_BESIDE_SERIES 12      /* the series compares a thousand, bit for bit, a hundred where that takes long */
#define CHAIN_FIRST 2
#define CHAIN_LAST 11

static struct run_order order_of(const struct judge *j, int n)
{
    static const enum device_place places[] = {DEVICE_ODD, DEVICE_AT_START, DEVICE_AT_END};
    return (struct run_order){.regime = 0, .poison = j->poison[n % 2], .schedule_seed = random_u64(), .place = places[n % 3],
                              .instruction_limit = j->instruction_limit};
}

static bool run_side(struct judge *j, struct judge_side *s, const struct run_order *o, struct verdict *v, struct err *err)
{
    STEP(run_ask(j, s, o, "probe", v, err));
    STEP(run_take(j, s, "probe", v, err));
    run_copy_outputs(j, s);
    return true;
}

/* ---- repeats ---- */

static bool repeats(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    /* With declared atomics the series has no bits to compare: these are all there are. */
    const bool alone = s->candidate.atomics || !j->on_card, triage = j->mode == MODE_TRIAGE;
    const int most = triage ? (j->emulated ? REPEATS_TRIAGE : REPEATS_BESIDE_SERIES) : alone ? REPEATS_FULL : REPEATS_BESIDE_SERIES;
    int64_t until = clock_mono_ns() + (triage ? LIMIT_PROBE_WALL_NS / 8 : LIMIT_PROBE_WALL_NS), element = 0;
    int done = 0;
    STEP(run_inputs(j, s, 0, "probe", v, err));
    for (; done < most && (done == 0 || clock_mono_ns() < until); done++) {
        const struct run_order o = order_of(j, done);
        STEP(run_side(j, s, &o, v, err));
        bool spreads = s->candidate.atomics;
        int t = spreads ? outputs_spread(j, j->typical, s->outputs, &element) : outputs_difference(j, j->typical, s->outputs, &element);
        if (t < 0)
            continue;
        verdict_set(v, VERDICT_NON_DETERMINISTIC, "probe", "element %lld of %s differs in repeat %d of a launch on equal inputs%s",
                    (long long)element, j->op->tensors[t].name, done + 1, spreads ? " by more than a quarter of the tolerance" : "");
        v->detail = json_pack("{s:s,s:I}", "tensor", j->op->tensors[t].name, "element", (json_int_t)element);
        return true;
    }
    json_put_int(j->phase, "repeats", done);
    json_put_str(j->phase, "repeats_compared", s->candidate.atomics ? "a quarter of the tolerance" : "bits");
    return true;
}

/* ---- chain ---- */

static bool changes_in_place(const struct judge *j)
{
    for (int t = 0; t < j->op->tensor_count; t++)
        if (j->op->tensors[t].role == OP_INOUT)
            return true;
    return false;
}

/* But for what a launch changes: that goes on as it was left. */
static bool chain_make(const struct judge *j, uint64_t seed, void **ret, struct err *err)
{
    for (int t = 0; t < j->op->tensor_count; t++)
        ret[t] = j->op->tensors[t].role == OP_INPUT ? xalloc_large((size_t)j->tensors[t].bytes + 1) : NULL;
    if (inputs_fill(&j->shape, j->tensors, 0, seed, ret, err))
        return true;
    inputs_free(j->op, ret);
    return false;
}

/* Once; none where nothing is chained. */
bool probe_prepare(struct judge *j, struct err *err)
{
    if (j->chain_seed || (!changes_in_place(j) && !j->on_card))
        return true;
    j->chain_seed = random_u64();
    return chain_make(j, j->chain_seed, j->chain_made, err);
}

/* The next launch's inputs, in place of the typical regime's: state as it was left, floats new, integers as they are. */
static bool chain_inputs(struct judge *j, const struct judge_regime *typical, void *const *left, uint64_t seed, struct err *err)
{
    struct judge_regime *g = &j->regimes[0];
    void *made[OP_MAX_TENSORS] = {0};
    if (seed == j->chain_seed)
        for (int t = 0; t < j->op->tensor_count; t++)
            made[t] = steal(&j->chain_made[t]);
    else if (!chain_make(j, seed, made, err))
        return false;
    if (!g->in.base && !shared_make(SHARED_INPUTS, j->op, j->tensors, &g->in, err)) {
        inputs_free(j->op, made);
        return false;
    }
    for (int t = 0; t < j->op->tensor_count; t++) {
        const struct tensor *tensor = &j->tensors[t];
        if (tensor->spec->role == OP_OUTPUT)
            continue;
        const void *from = tensor->spec->role == OP_INOUT ? left[t] : dtype_is_float(tensor->dtype) ? made[t] : typical->inputs[t];
        crew_copy(g->inputs[t] = g->in.base + g->in.offsets[t], from, (size_t)tensor->bytes);
    }
    inputs_free(j->op, made);
    g->made = true;
    return true;
}

static void chain_forget(struct judge *j)
{
    struct judge_regime *g = &j->regimes[0];
    for (int t = 0; t < j->op->tensor_count; t++) {
        spare_give(g->reference[t]);
        spare_give(g->baseline[t]);
        g->reference[t] = NULL, g->baseline[t] = NULL;
    }
    g->referenced = g->baseline_ran = false;
}

/* By the same rules as any regime: against the reference, relative to the baseline, both on these inputs. The reference works beside the baseline's run. */
static bool chain_begin(struct judge *j, uint64_t poison, struct comparison *c, struct verdict *v, struct err *err)
{
    struct judge_side *base = &j->sides[BASELINE];
    chain_forget(j);
    if (!regime_reference_ask(j, 0, err))
        return false;
    if (base->present) {
        const struct run_order o = {.regime = 0, .poison = j->poison[0], .schedule_seed = random_u64(), .place = DEVICE_AT_END,
                                    .instruction_limit = (uint64_t)LIMIT_THREAD_INSTRUCTIONS};
        STEP(run_inputs(j, base, 0, "probe", v, err));
        STEP(run_ask(j, base, &o, "probe", v, err));
        STEP(run_take(j, base, "probe", v, err));
    }
    if (!regime_reference(j, 0, err))
        return false;
    comparison_plan(c, j, &j->sides[CANDIDATE], 0, poison);
    comparison_start(c);
    return true;
}

/* The side's outputs are its own again. */
static bool chain_end(struct judge *j, struct comparison *c, int launch, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    comparison_wait(c);
    for (int t = 0; t < j->op->tensor_count; t++) {
        spare_give(s->outputs[t]);
        s->outputs[t] = steal(&c->outputs[t]);
    }
    if (!comparison_judge(c, "probe", v, err))
        return false;
    if (v->code == VERDICT_OK || !changes_in_place(j))
        return true;
    cleanup(str) char *why = xstrdup(v->text);
    json_t *detail = steal(&v->detail);
    verdict_set(v, VERDICT_STATE_CARRIED, "probe", "right on fresh inputs, wrong in launch %d on what it left itself: %.400s", launch, why);
    v->detail = detail;
    return true;
}

/* What the launch came to is found out while the series runs on the card, if there is one; and comes first. */
static bool chain_check(struct judge *j, const struct judge_regime *typical, int launch, uint64_t poison, struct verdict *v, struct err *err)
{
    cleanup(verdict) struct verdict seen = {.code = VERDICT_OK};
    cleanup(comparison) struct comparison c = {.waiting = false};
    STEP(chain_begin(j, poison, &c, v, err));
    if (launch == CHAIN_FIRST && !series(j, &typical->in, j->typical, &j->regimes[0].in, c.outputs, &seen, err))
        return false;
    STEP(chain_end(j, &c, launch, v, err));
    *v = seen;
    seen = (struct verdict){.code = VERDICT_OK};
    return true;
}

static bool chain_launches(struct judge *j, const struct judge_regime *typical, json_t *seeds, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    const int last = j->mode == MODE_TRIAGE || !changes_in_place(j) ? CHAIN_FIRST : CHAIN_LAST;
    int64_t until = clock_mono_ns() + LIMIT_PROBE_WALL_NS;
    for (int launch = 2; launch <= last; launch++) {
        const uint64_t seed = launch == CHAIN_FIRST && j->chain_seed ? j->chain_seed : random_u64();
        const struct run_order o = order_of(j, launch);
        bool late = clock_mono_ns() > until, ends = launch == last || late;
        if (!chain_inputs(j, typical, launch == 2 ? j->typical : s->outputs, seed, err))
            return false;
        STEP(run_inputs(j, s, 0, "probe", v, err));
        STEP(run_side(j, s, &o, v, err));
        char text[24];
        snprintf(text, sizeof text, "0x%016llx", (unsigned long long)seed);
        json_array_append_new(seeds, json_string(text));
        if (launch == CHAIN_FIRST || ends)
            STEP(chain_check(j, typical, launch, o.poison, v, err));
        if (ends)
            return true;
    }
    return true;
}

static bool chain(struct judge *j, struct verdict *v, struct err *err)
{
    if (!changes_in_place(j) && !j->on_card)
        return true;
    if (!regime_make(j, 0, err))
        return false;
    json_t *seeds = json_array();
    json_put(j->phase, "chain_seeds", seeds);
    const struct judge_regime typical = j->regimes[0];
    j->regimes[0] = (struct judge_regime){.seed = typical.seed, .in = SHARED_NONE};
    bool ok = chain_launches(j, &typical, seeds, v, err);
    chain_forget(j);
    shared_done(&j->regimes[0].in);
    j->regimes[0] = typical;
    return ok;
}

bool phase_probe(struct judge *j, struct verdict *v, struct err *err)
{
    STEP(repeats(j, v, err));
    return chain(j, v, err);
}

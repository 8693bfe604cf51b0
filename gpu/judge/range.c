/*
 * Range: what a kernel does at another value of the axes that do not key its shape: slots, positions. It is served for all their values, and
 * everything else is judged at their defaults, the smallest there is room for. So the judge draws large values, which nobody outside knows
 * before, as large as LIMIT_RANGE_BYTES hold, and both sides run once more on such inputs, in fresh children, with indices that reach the far
 * end: one that was cut to 8 or 16 bits reads and writes elsewhere. Nothing is timed here.
 *
 * Where rows are large, that is not many: how the candidate takes rows that are farther away is far.c's.
 *
 * No number of a plan may depend on such an axis: the plan that is served has its numbers filled in. Its value is an argument, or unused.
 */
#include "gpu/judge/comparison.h"
#include "gpu/judge/far.h"

#include <string.h>

#define BYTE_VALUES 180         /* the last eighth of seven eighths of it is beyond what a signed char holds */
#define MOST_VALUE ((int64_t)1 << 24)
#define TRIES 64
#define SEED_TRIES 512

static bool is_free(const struct op_axis *a) { return !a->keyed && !a->is_const; }

/* ---- which values ---- */

static int64_t bytes_of(const struct shape *s)
{
    struct tensor tensors[OP_MAX_TENSORS];
    int64_t sum = 0;
    if (!shape_tensors(s, tensors, NULL))
        return INT64_MAX;
    for (int t = 0; t < s->op->tensor_count; t++) {
        sum += tensors[t].bytes;
        if (tensors[t].bytes > LIMIT_TENSOR_BYTES)
            return INT64_MAX;
    }
    return sum;
}

/* All that the operator asks of a shape, its constraints with it. */
static bool holds(const struct shape *s)
{
    struct op *known = (struct op *)(uintptr_t)s->op;
    const struct op_set one = {1, &known};
    cleanup(json) json_t *doc = shape_encode(s);
    struct faults f = {0};
    struct shape again;
    return shape_parse(&one, doc, NULL, "", &again, &f);
}

/* The largest value of the axis at which the tensors take at most so many bytes; at least what it has. */
static int64_t largest(const struct shape *s, int axis, int64_t bytes)
{
    struct shape at = *s;
    int64_t low = s->axes[axis], high = s->op->axes[axis].max < MOST_VALUE ? s->op->axes[axis].max : MOST_VALUE;
    while (low < high) {
        at.axes[axis] = low + (high - low + 1) / 2;
        if (bytes_of(&at) <= bytes)
            low = at.axes[axis];
        else
            high = at.axes[axis] - 1;
    }
    return low;
}

static int64_t most_of(const struct judge *j, int axis, int64_t room)
{
    int64_t most = largest(&j->wide, axis, room);
    if (j->on_card || j->mode != MODE_RETEST || most >= BYTE_VALUES)
        return most;
    int64_t more = largest(&j->wide, axis, LIMIT_RANGE_SIM_RETEST_BYTES);       /* who is served must not keep a slot in a char, where that fits */
    return more >= BYTE_VALUES ? BYTE_VALUES : most;
}

static bool draw(struct judge *j, int axis, int64_t most)
{
    const int64_t usual = j->shape.axes[axis], least = most - most / 8 > usual ? most - most / 8 : usual + 1;
    struct shape at = j->wide;
    for (int i = 0; i < TRIES && most >= least; i++) {
        at.axes[axis] = least + (int64_t)(random_u64() % (uint64_t)(most - least + 1));
        if (holds(&at)) {
            j->wide = at;
            return true;
        }
    }
    return false;
}

void range_draw(struct judge *j)
{
    const int64_t limit = j->on_card ? LIMIT_RANGE_BYTES : LIMIT_RANGE_SIM_BYTES, base = bytes_of(&j->shape);
    int count = 0, seen = 0;
    j->wide = j->shape;
    j->ranged = false;
    for (int i = 0; i < j->op->axis_count; i++)
        count += is_free(&j->op->axes[i]);
    for (int i = 0; i < j->op->axis_count; i++)
        if (is_free(&j->op->axes[i])) {
            seen++;
            j->ranged |= draw(j, i, most_of(j, i, base < limit ? base + (limit - base) / count * seen : base));
        }
}

bool range_plan(const struct judge *j, const struct judge_side *s, char *why, size_t why_size)
{
    cleanup(mem) void *memory = xalloc(sizeof(struct plan));
    cleanup(json) json_t *doc = NULL, *triton = NULL;
    struct plan *p = memory;
    if (!j->ranged)
        return true;
    if (plan_resolve(&s->candidate, &j->wide, p, why, why_size))
        doc = plan_encode(p, &j->wide);
    if (doc && json_equal(doc, s->plan_doc)
        && (s->candidate.language != LANGUAGE_TRITON
            || (candidate_triton(&s->candidate, &j->wide, p, &triton, why, why_size) && json_equal(triton, s->triton_request))))
        return true;
    snprintf(why, why_size, "a number of it depends on an axis that does not key the shape: it is served for all values of that one; pass it as an argument, \"$NAME\"");
    return false;
}

/* ---- the runs ---- */

/* What has the size of the shape's tensors, and the children that hold such things. */
static void let_go(struct judge *j)
{
    for (int i = 0; i < SIDES; i++) {
        struct judge_side *s = &j->sides[i];
        child_done(&s->run);
        shared_done(&s->out);
        sampled_forget(s);
        s->sampled = s->has_inputs = s->runs_regime = false;
        for (int t = 0; t < j->op->tensor_count; t++) {
            free(s->outputs[t]);
            s->outputs[t] = NULL;
        }
    }
    child_done(&j->reference);
    card_release(j);
    regimes_clear(j);
    shared_done(&j->spare_in);
    shared_done(&j->scratch_in);
    shared_done(&j->reference_out);
}

static bool open_sides(struct judge *j, const int *regimes, int count, struct verdict *v, struct err *err)
{
    const enum sandbox_role role = j->on_card ? SANDBOX_RUN_CUDA : SANDBOX_RUN_SIM;
    for (int i = 0; i < SIDES; i++)
        if (j->sides[i].present && !run_start(j, &j->sides[i], role, err))
            return false;
    for (int i = 0; i < SIDES && j->on_card; i++)
        if (j->sides[i].present) {
            STEP(run_shape(j, &j->sides[i], v, err));
            STEP(run_prepare_ask(j, &j->sides[i], v, err));
        }
    for (int i = 0; i < count && j->keep_regimes; i++)      /* what needs no card is done before it is ours */
        if (!regime_reference(j, regimes[i], err))
            return false;
    for (int i = 0; i < SIDES && j->on_card; i++)
        if (j->sides[i].present)
            STEP(run_prepare_take(j, &j->sides[i], v, err));
    for (int i = 0; i < SIDES; i++)
        if (j->sides[i].present)
            STEP(run_open_ask(j, &j->sides[i], j->device, v, err));
    for (int i = 0; i < SIDES; i++)
        if (j->sides[i].present) {
            STEP(run_open(j, &j->sides[i], j->device, v, err));
            STEP(run_load(j, &j->sides[i], j->on_card, "range", v, err));
        }
    return true;
}

static bool run_side(struct judge *j, struct judge_side *s, int regime, struct verdict *v, struct err *err)
{
    const bool judged = side_is_judged(j, s);
    const struct run_order o = {.regime = regime,
                                .poison = j->poison[judged],
                                .schedule_seed = random_u64(),
                                .place = judged ? DEVICE_AT_END : DEVICE_AT_START,
                                .instruction_limit = judged && j->instruction_limit ? j->instruction_limit : (uint64_t)LIMIT_THREAD_INSTRUCTIONS};
    STEP(run_inputs(j, s, regime, "range", v, err));
    STEP(run_ask(j, s, &o, "range", v, err));
    return run_take(j, s, "range", v, err);
}

/* The baseline first: on a card its run says what is endless. */
static bool run_regime(struct judge *j, int regime, json_t *records, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    struct compare_result worst[OP_MAX_TENSORS] = {{0}};
    if (j->sides[BASELINE].present) {
        STEP(run_side(j, &j->sides[BASELINE], regime, v, err));
        baseline_keep(j, regime);
    }
    STEP(run_side(j, s, regime, v, err));
    run_copy_outputs(j, s);
    if (!regime_reference(j, regime, err))
        return false;
    STEP(check_outputs(j, s, regime, s->outputs, j->poison[1], "range", worst, v, err));
    json_array_append_new(records, regime_encode(j, regime, worst));
    regime_used(j, regime);
    return true;
}

static json_t *axes_encode(const struct judge *j, const struct shape *s)
{
    json_t *doc = json_object();
    for (int i = 0; i < j->op->axis_count; i++)
        if (is_free(&j->op->axes[i]))
            json_put_int(doc, j->op->axes[i].name, s->axes[i]);
    return doc;
}

/* The typical regime and one more, with indices that reach the far end where their distribution does. */
static bool run_wide(struct judge *j, struct verdict *v, struct err *err)
{
    int regimes[2] = {0, j->regime_count > 1 ? 1 + (int)(random_u64() % (uint64_t)(j->regime_count - 1)) : 0};
    const int count = j->regime_count > 1 && (j->on_card || bytes_of(&j->shape) <= LIMIT_RANGE_SIM_BYTES) ? 2 : 1;
    json_t *records = json_array();
    json_put(j->phase, "regimes", records);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < SEED_TRIES && !inputs_reach(&j->shape, j->tensors, regimes[i], j->regimes[regimes[i]].seed); k++)
            j->regimes[regimes[i]].seed = random_u64();
    j->keep_regimes = j->keep_regimes && bytes_of(&j->shape) <= LIMIT_KEEP_BYTES / 8;       /* inputs, doubles and results of both */
    STEP(open_sides(j, regimes, count, v, err));
    json_put(j->phase, "ran_in", processes_encode(j));
    for (int i = 0; i < count; i++) {
        if (!run_regime(j, regimes[i], records, v, err))
            return false;
        if (v->code != VERDICT_OK && inputs_regime_hidden(j->op, regimes[i]))
            verdict_hide(v, "range");
        if (v->code != VERDICT_OK)
            return true;
    }
    json_put(j->phase, "ran_in", processes_encode(j));      /* the reference's too */
    return true;
}

/* Whoever is told of the fault must know where to look: at the defaults it does not show. */
static void say_where(const struct judge *j, struct verdict *v)
{
    cleanup(json) json_t *axes = axes_encode(j, &j->wide);
    cleanup(buf) struct buf at = {0};
    const char *name;
    json_t *value;
    char text[sizeof v->text];
    json_object_foreach(axes, name, value)
        buf_fmt(&at, "%s%s = %lld", at.size ? ", " : "", name, (long long)json_integer_value(value));
    snprintf(text, sizeof text, "%s", v->text);
    snprintf(v->text, sizeof v->text, "with %s: %.*s", buf_cstr(&at), (int)(sizeof text - at.size - 16), text);
    if (!v->detail)
        v->detail = json_object();
    json_put(v->detail, "axes", steal(&axes));
}

static bool run_at_wide(struct judge *j, struct verdict *v, struct err *err)
{
    const struct shape usual = j->shape;
    char text[2][24];
    if (!j->ranged)
        return true;
    j->shape = j->wide;
    BUG_ON(!shape_tensors(&j->shape, j->tensors, err));
    regimes_plan(j);
    json_put(j->phase, "axes", axes_encode(j, &j->wide));
    json_put_int(j->phase, "bytes", bytes_of(&j->wide));
    json_put_str(j->phase, "yardstick", j->sides[BASELINE].present ? "baseline" : "table");
    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i], "0x%016llx", (unsigned long long)j->poison[i]);
    json_put(j->phase, "poisons", json_pack("[s,s]", text[0], text[1]));
    const bool ok = run_wide(j, v, err);
    let_go(j);
    j->shape = usual;
    BUG_ON(!shape_tensors(&j->shape, j->tensors, NULL));
    if (ok && v->code != VERDICT_OK)
        say_where(j, v);
    return ok;
}

bool phase_range(struct judge *j, struct verdict *v, struct err *err)
{
    const int64_t card_run_ns = j->card_run_ns;
    struct device_far far;
    json_t *counts[SIDES], *lines[SIDES];
    json_put(j->phase, "default", axes_encode(j, &j->shape));
    if (!j->ranged && !far_draw(j->op, &j->shape, j->tensors, &far))
        return true;
    let_go(j);
    for (int i = 0; i < SIDES; i++)
        counts[i] = steal(&j->sides[i].counts), lines[i] = steal(&j->sides[i].lines);
    bool ok = run_at_wide(j, v, err);
    if (ok && v->code == VERDICT_OK) {
        ok = far_run(j, v, err);
        let_go(j);
    }
    j->card_run_ns = card_run_ns;
    for (int i = 0; i < SIDES; i++) {
        json_decref(j->sides[i].counts), json_decref(j->sides[i].lines);
        j->sides[i].counts = counts[i], j->sides[i].lines = lines[i];
    }
    return ok;
}

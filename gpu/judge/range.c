/*
 * Range: what a kernel does at another value of the axes that do not key its shape: slots, positions. It is served for all their values, and
 * everything else is judged at their defaults, the smallest there is room for. So the judge draws large values, which nobody outside knows
 * before, and both sides run once more on such inputs, in fresh children, with indices that reach the far end: one that was cut to 8 or 16
 * bits, or an offset to 32, reads and writes elsewhere. Nothing is timed here.
 *
 * Where indices name the rows of the tensors that have the axis, these are as large as LIMIT_RANGE_WHOLE_BYTES lets them be, beyond what 32
 * bits count, and hold something in the rows alone that are named and in some others (held.h): what it costs is by what is held. Where all
 * rows count, they are as many as LIMIT_RANGE_DENSE_BYTES hold.
 *
 * Of a card's time nothing is spent but for the runs: inputs and what the reference makes of them are there before it is taken, and results
 * are compared beside the next run, and after it was let go.
 *
 * Where rows are so large that not even these are more than 16 bits count, how the candidate takes rows that are farther away is far.c's.
 *
 * No number of a plan may depend on such an axis: the plan that is served has its numbers filled in. Its value is an argument, or unused.
 */
#include "gpu/judge/comparison.h"
#include "gpu/judge/far.h"
#include "gpu/judge/reference.h"

#include <string.h>

#define BYTE_VALUES 160         /* the last sixteenth of fifteen sixteenths of it is beyond what a signed char holds */
#define DRAWN_PART 16           /* the last so much of what there is room for is drawn from */
#define CARD_SPARE_BYTES (2048 * LIMIT_MIB)     /* of a card's memory: a context, our own lists */
#define MOST_REGIMES 2
#define MOST_VALUE ((int64_t)1 << 24)
#define TRIES 64
#define SEED_TRIES 512

/* ---- which values ---- */

/* What the tensors may take: whole, as doubles where rows are held, and what is held of them. */
struct room { int64_t whole, doubles, there; };

static bool fits(const struct shape *s, int axis, const struct room *room)
{
    struct tensor tensors[OP_MAX_TENSORS], compact[OP_MAX_TENSORS];
    const struct op *op = s->op;
    int64_t whole = 0, doubles = 0, there = 0;
    if (!shape_tensors(s, tensors, NULL))
        return false;
    const struct held h = axis >= 0 ? held_of(s, tensors, axis) : (struct held)HELD_NONE;
    held_tensors(&h, op, tensors, compact);
    for (int t = 0; t < op->tensor_count; t++) {
        const bool is_held = held_is(&h, op, t);
        if (compact[t].bytes > LIMIT_TENSOR_BYTES || tensors[t].bytes > room->whole || tensors[t].elements > room->doubles / 8)
            return false;
        whole += tensors[t].bytes;
        doubles += tensors[t].elements * 8 * (is_held || op->tensors[t].role == OP_INPUT ? 1 : op_results(op));
    }
    there = held_bytes(&h, op, compact);
    return whole <= room->whole && doubles <= room->doubles && there <= room->there;
}

static int64_t bytes_of(const struct op *op, const struct tensor *tensors)
{
    int64_t sum = 0;
    for (int t = 0; t < op->tensor_count; t++)
        sum += tensors[t].bytes;
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

/* The largest value of the axis at which the tensors fit; at least what it has. held: the axis of which rows are held, -1 none. */
static int64_t largest(const struct shape *s, int axis, int held, const struct room *room)
{
    struct shape at = *s;
    int64_t low = s->axes[axis], high = s->op->axes[axis].max < MOST_VALUE ? s->op->axes[axis].max : MOST_VALUE;
    while (low < high) {
        at.axes[axis] = low + (high - low + 1) / 2;
        if (fits(&at, held, room))
            low = at.axes[axis];
        else
            high = at.axes[axis] - 1;
    }
    return low;
}

static struct room dense_room(int64_t bytes) { return (struct room){bytes, REFERENCE_MAX_BYTES, bytes}; }

static int64_t most_of(const struct judge *j, int axis, int64_t bytes)
{
    const struct room usual = dense_room(bytes), retest = dense_room(LIMIT_RANGE_SIM_RETEST_BYTES);
    int64_t most = largest(&j->wide, axis, -1, &usual);
    if (j->on_card || j->mode != MODE_RETEST || most >= BYTE_VALUES)
        return most;
    int64_t more = largest(&j->wide, axis, -1, &retest);        /* who is served must not keep a slot in a char, where that fits */
    return more >= BYTE_VALUES ? BYTE_VALUES : most;
}

static bool draw(struct judge *j, int axis, int64_t most)
{
    const int64_t usual = j->shape.axes[axis], least = most - most / DRAWN_PART > usual ? most - most / DRAWN_PART : usual + 1;
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

/* All rows count: room for each axis. */
static void draw_dense(struct judge *j)
{
    const int64_t limit = j->on_card ? LIMIT_RANGE_DENSE_BYTES : LIMIT_RANGE_SIM_BYTES, base = bytes_of(j->op, j->tensors);
    int count = 0, seen = 0;
    for (int i = 0; i < j->op->axis_count; i++)
        count += held_free(&j->op->axes[i]);
    for (int i = 0; i < j->op->axis_count; i++)
        if (held_free(&j->op->axes[i])) {
            seen++;
            j->ranged |= draw(j, i, most_of(j, i, base < limit ? base + (limit - base) / count * seen : base));
        }
}

/* As much of address space as this host gives, doubles being the most that anybody wants of it. */
static int64_t most_doubles(void)
{
    for (int64_t bytes = REFERENCE_HELD_BYTES; bytes > REFERENCE_HELD_BYTES / 64; bytes /= 2) {
        void *at = held_map((size_t)bytes);
        held_unmap(at, (size_t)bytes);
        if (at)
            return bytes;
    }
    return 0;
}

/* Indices name rows, and few enough. False: then all rows count. */
static bool draw_held(struct judge *j, int64_t whole)
{
    const int64_t there = j->on_card ? LIMIT_RANGE_BYTES : j->mode == MODE_RETEST ? LIMIT_RANGE_SIM_RETEST_BYTES : LIMIT_RANGE_SIM_BYTES;
    const struct room room = {whole, most_doubles(), there};
    struct tensor tensors[OP_MAX_TENSORS];
    const int axis = held_axis(&j->shape, j->tensors);
    if (axis < 0)
        return false;
    /* By halves of what there could be: at values so small that most rows are named, all would be there. */
    int64_t most = j->op->axes[axis].max < MOST_VALUE ? j->op->axes[axis].max : MOST_VALUE;
    struct shape at = j->shape;
    for (at.axes[axis] = most; most > j->shape.axes[axis] && !fits(&at, axis, &room); at.axes[axis] = most)
        most /= 2;
    at.axes[axis] = most;
    if (most <= j->shape.axes[axis] || held_of(&at, j->tensors, axis).axis < 0 || !draw(j, axis, largest(&at, axis, axis, &room)))
        return false;
    BUG_ON(!shape_tensors(&j->wide, tensors, NULL));
    j->wide_held = held_of(&j->wide, tensors, axis);
    j->ranged = true;
    return true;
}

void range_draw(struct judge *j)
{
    j->wide = j->shape;
    j->wide_held = (struct held)HELD_NONE;
    j->ranged = false;
    if (!draw_held(j, LIMIT_RANGE_WHOLE_BYTES))
        draw_dense(j);
}

/* The card is known by now: one that has not so much memory gets smaller tensors. No number of a plan depends on the value. */
static void draw_again(struct judge *j)
{
    const json_t *info = j->sides[CANDIDATE].info;
    const int64_t memory = json_int(info, "memory_bytes", 0), used = json_int(info, "memory_used_bytes", 0);
    const int64_t room = memory - (used > 0 ? used : 0) - CARD_SPARE_BYTES;
    struct tensor tensors[OP_MAX_TENSORS];
    if (!j->on_card || j->wide_held.axis < 0 || !memory || !shape_tensors(&j->wide, tensors, NULL) || bytes_of(j->op, tensors) <= room)
        return;
    json_put_int(j->phase, "card_room_bytes", room);
    j->wide = j->shape;
    j->wide_held = (struct held)HELD_NONE;
    j->ranged = false;
    if (room <= 0 || !draw_held(j, room))
        draw_dense(j);
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
    for (int i = 0; i < count; i++)         /* what needs no card is done before it is ours */
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

/* The baseline first: on a card its run says what is endless. The comparison goes on beside what comes next. */
static bool run_regime(struct judge *j, int regime, struct comparison *c, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    if (j->sides[BASELINE].present)
        STEP(run_side(j, &j->sides[BASELINE], regime, v, err));
    STEP(run_side(j, s, regime, v, err));
    run_copy_outputs(j, s);
    comparison_plan(c, j, s, regime, j->poison[1]);
    comparison_start(c);
    return true;
}

static bool settle(struct comparison *c, json_t *records, struct verdict *v, struct err *err)
{
    comparison_done(c);
    STEP(comparison_judge(c, "range", v, err));
    json_array_append_new(records, regime_encode(c->j, c->regime, c->results));
    regime_used(c->j, c->regime);
    return true;
}

/* The furthest row that an index of these regimes names, and where in the tensors that have it its last byte lies. */
static json_t *reached_encode(const struct judge *j, const int *regimes, int count)
{
    json_t *doc = json_object();
    struct tensor whole[OP_MAX_TENSORS];
    int64_t row = 0, bytes = 0, elements = 0;
    BUG_ON(!shape_tensors(&j->shape, whole, NULL));
    for (int n = 0; n < count; n++)
        for (int t = 0; t < j->op->tensor_count; t++)
            for (int64_t i = 0, end = inputs_address(&j->shape, j->tensors, t, j->held.axis) ? j->tensors[t].elements : 0; i < end; i++) {
                const double value = dtype_load(j->tensors[t].dtype, j->regimes[regimes[n]].inputs[t], (size_t)tensor_offset(&j->tensors[t], i));
                row = value > (double)row ? (int64_t)value : row;
            }
    for (int t = 0; t < j->op->tensor_count; t++)
        if (held_is(&j->held, j->op, t)) {
            const int64_t last = (row + 1) * held_row_bytes(&whole[t]);
            bytes = last > bytes ? last : bytes;
            elements = last / dtype_bytes(whole[t].dtype) > elements ? last / dtype_bytes(whole[t].dtype) : elements;
        }
    json_put_int(doc, "row", row);
    json_put_int(doc, "element", elements - 1);
    json_put_int(doc, "byte", bytes - 1);
    return doc;
}

static json_t *axes_encode(const struct judge *j, const struct shape *s)
{
    json_t *doc = json_object();
    for (int i = 0; i < j->op->axis_count; i++)
        if (held_free(&j->op->axes[i]))
            json_put_int(doc, j->op->axes[i].name, s->axes[i]);
    return doc;
}

struct pair { struct comparison list[MOST_REGIMES]; };
static void pair_done(struct pair *p)
{
    for (int i = 0; i < MOST_REGIMES; i++)
        comparison_done(&p->list[i]);
}
DEFINE_CLEANUP(pair, struct pair, pair_done(it))

/* Of a verdict by a hidden regime nothing is told. Always true. */
static bool hide(const struct judge *j, int regime, struct verdict *v)
{
    if (v->code != VERDICT_OK && inputs_regime_hidden(j->op, regime))
        verdict_hide(v, "range");
    return true;
}

/* The typical regime and one more, with indices that reach the far end where their distribution does. */
static bool run_wide(struct judge *j, struct verdict *v, struct err *err)
{
    int regimes[MOST_REGIMES] = {0, j->regime_count > 1 ? 1 + (int)(random_u64() % (uint64_t)(j->regime_count - 1)) : 0};
    const int count = j->regime_count > 1 && bytes_of(j->op, j->tensors) <= (j->on_card ? LIMIT_RANGE_DENSE_BYTES : LIMIT_RANGE_SIM_BYTES) ? MOST_REGIMES : 1;
    cleanup(pair) struct pair both = {.list = {{.waiting = false}}};
    json_t *records = json_array();
    json_put(j->phase, "regimes", records);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < SEED_TRIES && !inputs_reach(&j->shape, j->tensors, regimes[i], j->regimes[regimes[i]].seed); k++)
            j->regimes[regimes[i]].seed = random_u64();
    j->keep_regimes = true;             /* these few */
    STEP(open_sides(j, regimes, count, v, err));
    json_put(j->phase, "ran_in", processes_encode(j));
    if (j->held.axis >= 0)
        json_put(j->phase, "reached", reached_encode(j, regimes, count));
    for (int i = 0; i < count; i++) {
        if (!run_regime(j, regimes[i], &both.list[i], v, err))
            return false;
        STEP(hide(j, regimes[i], v));
    }
    if (j->on_card)
        card_release(j);
    for (int i = 0; i < count; i++) {
        if (!settle(&both.list[i], records, v, err))
            return false;
        STEP(hide(j, regimes[i], v));
    }
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
    struct tensor whole[OP_MAX_TENSORS];
    char text[2][24];
    if (!j->ranged)
        return true;
    j->shape = j->wide;
    j->held = j->wide_held;
    BUG_ON(!shape_tensors(&j->shape, whole, err));
    held_tensors(&j->held, j->op, whole, j->tensors);
    j->watch.holes_bytes = j->held.axis >= 0 ? LIMIT_RANGE_HOLES_BYTES : 0;
    regimes_plan(j);
    json_put(j->phase, "axes", axes_encode(j, &j->wide));
    json_put_int(j->phase, "bytes", bytes_of(j->op, whole));
    if (j->held.axis >= 0)
        json_put(j->phase, "held", json_pack("{s:s,s:I,s:I}", "axis", j->op->axes[j->held.axis].name, "rows", (json_int_t)j->held.count, "bytes", (json_int_t)bytes_of(j->op, j->tensors)));
    if (j->held.axis >= 0 && most_doubles() < REFERENCE_HELD_BYTES)
        json_put_int(j->phase, "address_space_bytes", most_doubles());
    json_put_str(j->phase, "yardstick", j->sides[BASELINE].present ? "baseline" : "table");
    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i], "0x%016llx", (unsigned long long)j->poison[i]);
    json_put(j->phase, "poisons", json_pack("[s,s]", text[0], text[1]));
    const bool ok = run_wide(j, v, err);
    let_go(j);
    j->shape = usual;
    j->held = (struct held)HELD_NONE;
    j->watch.holes_bytes = 0;
    BUG_ON(!shape_tensors(&j->shape, j->tensors, NULL));
    if (ok && v->code != VERDICT_OK)
        say_where(j, v);
    return ok;
}

/* Whether the values that were tried are beyond 16 bits, and their offsets beyond 32, or the operator has no larger ones. */
static bool reaches_far(const struct judge *j)
{
    struct tensor whole[OP_MAX_TENSORS];
    const int axis = j->wide_held.axis;
    if (!j->ranged || axis < 0 || !shape_tensors(&j->wide, whole, NULL))
        return false;
    const int64_t value = j->wide.axes[axis] / 8 * 7, most = j->op->axes[axis].max < MOST_VALUE ? j->op->axes[axis].max : MOST_VALUE;
    bool far = value >= most / 8 * 6 && j->op->axes[axis].max <= MOST_VALUE;
    for (int t = 0; t < j->op->tensor_count; t++)
        far = far || (held_is(&j->wide_held, j->op, t) && whole[t].elements / 8 * 7 > (int64_t)UINT32_MAX);
    return far && value > UINT16_MAX;
}

bool phase_range(struct judge *j, struct verdict *v, struct err *err)
{
    const int64_t card_run_ns = j->card_run_ns;
    struct device_far far;
    json_t *counts[SIDES], *lines[SIDES];
    json_put(j->phase, "default", axes_encode(j, &j->shape));
    draw_again(j);
    if (!j->ranged && !far_draw(j->op, &j->shape, j->tensors, &far))
        return true;
    let_go(j);
    for (int i = 0; i < SIDES; i++)
        counts[i] = steal(&j->sides[i].counts), lines[i] = steal(&j->sides[i].lines);
    bool ok = run_at_wide(j, v, err);
    if (ok && v->code == VERDICT_OK && !reaches_far(j)) {
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

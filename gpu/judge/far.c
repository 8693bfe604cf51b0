/*
 * Far rows: the part of the phase `range` for which no memory is needed. The other part holds all rows of an axis that does not key the
 * shape, so it ends where memory does: of states of half a MiB a few hundred. Here the candidate runs twice on the emulator with equal
 * inputs, once as always and once with the rows that its indices name moved away by as many as a card's whole memory has room for
 * (gpu/device/sim_far.c): offsets pass 2^32 in bytes, and mostly in elements, and an index has more than 16 bits. Both must give the same
 * bits. Nothing is compared with the reference: the first of the two runs is of the kind that was.
 *
 * That is possible where every tensor with the axis has it as its first dimension, alone, and integer inputs say which rows are meant.
 * Where only a sample of the blocks can run it is not done.
 */
#include "gpu/judge/far.h"
#include "gpu/judge/held.h"
#include "gpu/judge/internal.h"
#include "core/rng.h"

#include <string.h>

#define ROWS_MOST ((int64_t)1 << 28)        /* an index times a few must be an integer of 32 bits, where only the offset passes them */
#define ROWS_LEAST 512

static bool regimes_point(const struct op *op, const char *tensor, const char *axis)
{
    const char *key;
    json_t *regime;
    json_object_foreach(json_object_get(op->doc, "regimes"), key, regime) {
        const json_t *dist = json_object_get(json_object_get(regime, "inputs"), tensor);
        if (held_mentions(json_str(dist, "low", ""), axis) || held_mentions(json_str(dist, "high", ""), axis))
            return true;
    }
    return false;
}

/* What follows from axis i; false: its rows cannot be moved. *ret_row_bytes: of all tensors together. */
static bool far_of(const struct op *op, const struct tensor *tensors, int axis, struct device_far *ret, int64_t *ret_row_bytes)
{
    bool held = false, points = false;
    *ret = (struct device_far){.axis = axis};
    *ret_row_bytes = 0;
    for (int t = 0; t < op->tensor_count; t++) {
        const struct op_tensor *spec = &op->tensors[t];
        const char *name = op->axes[axis].name;
        for (int d = 0; d < spec->rank; d++) {
            if ((d || strcmp(spec->dims[d], name) != 0) && held_mentions(spec->dims[d], name))
                return false;
            ret->held[t] |= !d && strcmp(spec->dims[d], name) == 0;
        }
        if (ret->held[t] && (spec->role == OP_OUTPUT || !values_dense(&tensors[t]) || tensors[t].dims[0] < 2))
            return false;
        ret->points[t] = !ret->held[t] && spec->role == OP_INPUT && !dtype_is_float(tensors[t].dtype) && regimes_point(op, spec->name, name);
        if (ret->held[t])
            *ret_row_bytes += tensors[t].bytes / tensors[t].dims[0];
        held |= ret->held[t];
        points |= ret->points[t];
    }
    return held && points && *ret_row_bytes > 0;
}

bool far_draw(const struct op *op, const struct shape *s, const struct tensor *tensors, struct device_far *ret)
{
    for (int i = 0; i < op->axis_count; i++) {
        int64_t row_bytes, most;
        if (!held_free(&op->axes[i]) || !far_of(op, tensors, i, ret, &row_bytes))
            continue;
        most = LIMIT_FAR_BYTES / row_bytes < ROWS_MOST ? LIMIT_FAR_BYTES / row_bytes : ROWS_MOST;
        most = (most < op->axes[i].max ? most : op->axes[i].max) - s->axes[i];
        if (most < ROWS_LEAST)
            continue;
        ret->rows = most - (int64_t)(random_u64() % (uint64_t)(most / 8));
        return true;
    }
    return false;
}

/* The last run's outputs of the side, whose they are no more. */
struct kept { void *list[OP_MAX_TENSORS]; };
static void kept_done(struct kept *k)
{
    for (int t = 0; t < OP_MAX_TENSORS; t++)
        free(k->list[t]);
}
DEFINE_CLEANUP(kept, struct kept, kept_done(it))

static bool run_one(struct judge *j, const struct device_far *far, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    const struct run_order o = {.poison = j->poison[0],
                                .schedule_seed = random_u64() & ~PTX_SEED_DESCENDING,
                                .place = DEVICE_AT_START,
                                .instruction_limit = j->instruction_limit ? j->instruction_limit : (uint64_t)LIMIT_THREAD_INSTRUCTIONS,
                                .far = far};
    STEP(run_ask(j, s, &o, "range", v, err));
    STEP(run_take(j, s, "range", v, err));
    run_copy_outputs(j, s);
    return true;
}

static bool run_both(struct judge *j, const struct device_far *far, bool *ret_sampled, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    cleanup(kept) struct kept near = {0};
    int64_t element = 0;
    if (!run_start(j, s, SANDBOX_RUN_SIM, err))
        return false;
    STEP(run_open(j, s, "sim", v, err));
    STEP(run_load(j, s, false, "range", v, err));
    STEP(run_inputs(j, s, 0, "range", v, err));
    STEP(run_one(j, NULL, v, err));
    *ret_sampled = s->sampled;
    if (s->sampled)
        return true;
    for (int t = 0; t < j->op->tensor_count; t++)
        near.list[t] = steal(&s->outputs[t]);
    STEP(run_one(j, far, v, err));
    const int t = s->candidate.atomics ? outputs_spread(j, near.list, s->outputs, &element) : outputs_difference(j, near.list, s->outputs, &element);
    if (t < 0)
        return true;
    verdict_set(v, VERDICT_WRONG_RESULT, "range", "element %lld of %s is another one than where the rows are near", (long long)element, j->op->tensors[t].name);
    v->detail = json_object();
    json_put_str(v->detail, "tensor", j->op->tensors[t].name);
    json_put_int(v->detail, "element", element);
    return true;
}

/* As in the emulate phase: what the emulator cannot run says nothing of a candidate that a card has run. */
static void forgive(struct judge *j, struct verdict *v, json_t *record)
{
    if (!j->on_card || (v->code != VERDICT_UNSUPPORTED_ON_SIM && v->code != VERDICT_TIMEOUT))
        return;
    json_put_str(record, "not_done", v->text);
    verdict_done(v);
    *v = (struct verdict){.code = VERDICT_OK};
}

bool far_run(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    struct device_far far;
    bool sampled = false;
    if (!far_draw(j->op, &j->shape, j->tensors, &far))
        return true;
    json_t *record = json_object();
    const char *axis = j->op->axes[far.axis].name;
    const int64_t value = j->shape.axes[far.axis] + far.rows;
    json_put(j->phase, "far", record);
    json_put_str(record, "axis", axis);
    json_put_int(record, "value", value);
    regimes_plan(j);
    json_t *info = steal(&s->info);         /* what it says of the emulator is of no interest */
    const bool ok = run_both(j, &far, &sampled, v, err);
    json_decref(s->info);
    s->info = info;
    if (!ok)
        return false;
    forgive(j, v, record);
    if (sampled)
        json_put_str(record, "not_done", "too large to be emulated whole");
    if (v->code != VERDICT_OK) {
        char text[sizeof v->text];
        snprintf(text, sizeof text, "%s", v->text);
        snprintf(v->text, sizeof v->text, "with %s = %lld: %.*s", axis, (long long)value, (int)(sizeof text - strlen(axis) - 40), text);
    }
    return true;
}

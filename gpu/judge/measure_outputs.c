/*
 * Outputs of launches that were timed, against the reference. No launch is too many to look at and none can be looked at alone: the
 * run child sums all results of a block and makes some of its launches once more on their own, which must leave the same bits
 * (gpu/device/cuda_sets_check.c), so that what is seen here of a few, chosen at random when they are over, in blocks chosen at random,
 * holds of the rest: a kernel that is wrong in a part f of its launches, alike whether timed or not, is missed with (1 - f)^n, and was
 * missed with the same inputs in phase `correct` before. Both sides are looked at; a baseline that is wrong is our failure.
 */
#include "gpu/judge/measure.h"

#include <string.h>

#define MOST_SETS_CHECKED 64

/* Element i of the set is element i + by of the base, around the end (dense tensors only). */
static void rotate(const struct tensor *t, const void *from, int64_t by, char *to)
{
    size_t split = (size_t)by * (size_t)dtype_bytes(t->dtype);
    memcpy(to, (const char *)from + split, (size_t)t->bytes - split);
    memcpy(to + (size_t)t->bytes - split, from, split);
}

struct arrays { void *list[OP_MAX_TENSORS]; };
static void arrays_done(struct arrays *a)
{
    for (int t = 0; t < OP_MAX_TENSORS; t++)
        free(a->list[t]);
}
DEFINE_CLEANUP(arrays, struct arrays, arrays_done(it))

/* Results and inputs of a set, and the reference at work on them. */
static bool begin(struct session *x, struct clocked *c, int set, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    struct judge_side *s = c->side;
    cleanup(json) json_t *answer = NULL, *job = judge_job("time_output");
    json_put_int(job, "set", set);
    STEP(judge_ask_run(j, s, job, "time", LIMIT_TIME_SETUP_WALL_NS, &answer, v, err));
    const json_t *rotation = json_object_get(answer, "rotation");
    if (!j->scratch_in.base && !shared_make(SHARED_INPUTS, j->op, j->tensors, &j->scratch_in, err))
        return false;
    for (int t = 0; t < j->op->tensor_count; t++) {
        const struct tensor *tensor = &j->tensors[t];
        int64_t by = json_integer_value(json_array_get(rotation, (size_t)t));
        if (by < 0 || (by > 0 && by >= tensor->elements))
            return err_set(err, ERR_UPSTREAM, "the run child of the %s rotates %s by %lld", s->name, tensor->spec->name,
                           (long long)by);
        if (tensor->spec->role != OP_OUTPUT)
            rotate(tensor, j->regimes[0].inputs[t], by, j->scratch_in.base + j->scratch_in.offsets[t]);
    }
    run_copy_outputs(j, s);
    if (!reference_begin(j, &j->scratch_in, err))
        return false;
    for (int t = 0; t < j->op->tensor_count; t++)
        x->looking.outputs[t] = steal(&s->outputs[t]);
    x->looking.c = c;
    return true;
}

void check_timed_drop(struct session *x)
{
    if (x->looking.c)
        child_done(&x->j->reference);       /* it may be at work still; another is started when one is wanted */
    for (int t = 0; t < OP_MAX_TENSORS; t++)
        free(x->looking.outputs[t]);
    x->looking = (struct output_check){.c = NULL};
}

static bool end(struct session *x, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    cleanup(arrays) struct arrays results = {0};
    cleanup(arrays) struct arrays outputs = {0};
    struct clocked *c = steal(&x->looking.c);
    if (!c)
        return true;
    for (int t = 0; t < j->op->tensor_count; t++)
        outputs.list[t] = steal(&x->looking.outputs[t]);
    if (!reference_end(j, (double **)(void *)results.list, err))
        return false;
    c->checked++;
    for (int t = 0; t < j->op->tensor_count; t++) {
        if (j->tensors[t].spec->role == OP_INPUT)
            continue;
        const struct compare_case one = {
            .op = j->op,
            .tensor = &j->tensors[t],
            .reference = results.list[t],
            .got = outputs.list[t],
            .before = j->tensors[t].spec->role == OP_INOUT ? j->scratch_in.base + j->scratch_in.offsets[t] : NULL};
        struct compare_result r;
        compare_tensor(&one, &r);
        if (r.code != VERDICT_OK) {
            verdict_set(v, r.code, "time", "an output of a timed launch is wrong: %s", r.text);
            v->detail = compare_encode(&r, &j->tensors[t]);
            return side_verdict(j, c->side, v, err);
        }
    }
    return true;
}

static int launched_set(uint64_t order_seed, int sets, int k)
{
    cleanup(mem) void *memory = xarray((size_t)sets, sizeof(int));
    int *order = memory;
    device_set_order(order_seed, sets, order);
    return order[k];
}

int timed_outputs_wanted(const struct clocked *c, int beside)
{
    const int wanted = c->judged ? c->launches / 50 + beside : beside / 2;
    return wanted < MOST_SETS_CHECKED ? wanted : MOST_SETS_CHECKED;
}

static bool check_launch(struct session *x, struct clocked *c, int k, struct verdict *v, struct err *err)
{
    STEP(end(x, v, err));
    return regime_make(x->j, 0, err) && begin(x, c, launched_set(c->side->timed_order, c->sets, k), v, err);
}

bool check_timed_output(struct session *x, struct clocked *c, uint64_t drawn, struct verdict *v, struct err *err)
{
    return check_launch(x, c, (int)(drawn % (uint64_t)c->launches), v, err);
}

bool check_timed_outputs(struct session *x, struct clocked *c, struct verdict *v, struct err *err)
{
    STEP(end(x, v, err));
    const int launches = c->launches, left = timed_outputs_wanted(c, x->effort.sets_checked) - c->checked;
    for (int i = 0; i < left || i < 1; i++)
        STEP(check_launch(x, c, i == 1 ? launches - 1 : i == 2 ? 0 : i == 3 ? launches / 2 : (int)(random_u64() % (uint64_t)launches), v, err));
    return end(x, v, err);
}

/*
 * Outputs of launches that were timed, against the reference. No launch is too many to look at and none can be looked at alone: the
 * run child sums all results of a block and makes some of its launches once more on their own, which must leave the same bits
 * (gpu/device/cuda_sets_check.c), so that what is seen here of a few, chosen at random when they are over, in blocks chosen at random,
 * holds of the rest: a kernel that is wrong in a part f of its launches, alike whether timed or not, is missed with (1 - f)^n, and was
 * missed with the same inputs in phase `correct` before. Both sides are looked at; a baseline that is wrong is our failure.
 *
 * Results are taken at once, a launch's in a third of a millisecond. What they must be takes the reference tens of milliseconds, for which
 * nobody waits with a card in hand: those that were taken stand in a line, the reference works through it in its own process, a thread
 * compares, and between two quads this process looks how far they are. What is left is waited for when the card has nothing to do any more.
 */
#include "core/clock.h"
#include "gpu/judge/crew.h"
#include "gpu/judge/measure.h"
#include "gpu/judge/spare.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MOST_SETS_CHECKED 64
#define FIXED 3                         /* first, middle and last */
#define MOST_TAKEN (2 * (MOST_SETS_CHECKED + 1))

struct output_check {
    struct session *x;
    struct clocked *c;
    struct device_windows windows[OP_MAX_TENSORS];
    void *outputs[OP_MAX_TENSORS];
    double *reference[OP_MAX_TENSORS];
    struct compare_result found;        /* of the first tensor that is wrong */
    int tensor;                         /* -1: all are right */
    bool running;
    pthread_t thread;
    atomic_bool ready;
};

/* 0 <= settled <= answered <= asked <= taken: the reference is at work where asked > answered. */
struct output_checks { int taken, asked, answered, settled; struct output_check list[MOST_TAKEN]; };

/* What the launch's input or inout was. */
static void content(const struct output_check *o, int t, char *to)
{
    const struct judge *j = o->x->j;
    const struct device_windows *w = &o->windows[t];
    const size_t size = (size_t)dtype_bytes(j->tensors[t].dtype), cut = (size_t)w->cut * size;
    const char *from = w->content ? j->further[w->content - 1][t] : j->regimes[0].inputs[t];
    crew_copy(to, from + (size_t)w->first * size, cut);
    crew_copy(to + cut, from + (size_t)w->second * size, (size_t)j->tensors[t].bytes - cut);
}

/* What the run child says of it: within the content that is meant. */
static bool take_windows(const struct judge *j, int t, const json_t *list, struct device_windows *ret)
{
    const int64_t span = j->tensors[t].span_elements;
    int64_t n[4];
    for (size_t i = 0; i < 4; i++)
        n[i] = json_integer_value(json_array_get(list, i));
    if (j->tensors[t].spec->role == OP_OUTPUT)
        return true;
    if (n[0] < 0 || n[0] > span || n[1] < 0 || n[1] > span - n[0] || n[2] < 0 || n[2] > n[0] || n[3] < 0 || n[3] >= DEVICE_MAX_CONTENTS
        || (n[3] && !j->further[n[3] - 1][t]))
        return false;
    *ret = (struct device_windows){n[0], n[1], n[2], (int)n[3]};
    return true;
}

/* ---- the comparison: pure, on any thread ---- */

static void *compare(void *ctx)
{
    struct output_check *o = ctx;
    const struct judge *j = o->x->j;
    o->tensor = -1;
    for (int t = 0; t < j->op->tensor_count && o->tensor < 0; t++) {
        const struct tensor *tensor = &j->tensors[t];
        if (tensor->spec->role == OP_INPUT)
            continue;
        void *before = NULL;
        if (tensor->spec->role == OP_INOUT)
            content(o, t, before = spare_take((size_t)tensor->bytes));
        const struct compare_case one = {.op = j->op, .tensor = tensor, .reference = o->reference[t], .got = o->outputs[t], .before = before};
        compare_tensor(&one, &o->found);
        spare_give(before);
        if (o->found.code != VERDICT_OK)
            o->tensor = t;
    }
    atomic_store(&o->ready, true);
    return NULL;
}

static void check_end(struct output_check *o)
{
    if (o->running)
        pthread_join(o->thread, NULL);
    o->running = false;
    for (int t = 0; t < OP_MAX_TENSORS; t++) {
        spare_give(o->outputs[t]);
        spare_give(o->reference[t]);
        o->outputs[t] = NULL, o->reference[t] = NULL;
    }
}

/* ---- the line ---- */

static bool ask_next(struct session *x, struct err *err)
{
    struct judge *j = x->j;
    const struct output_check *o = &x->looking->list[x->looking->asked];
    if (!regime_make(j, 0, err) || (!j->scratch_in.base && !shared_make(SHARED_INPUTS, j->op, j->tensors, &j->scratch_in, err)))
        return false;
    for (int t = 0; t < j->op->tensor_count; t++)
        if (j->tensors[t].spec->role != OP_OUTPUT)
            content(o, t, j->scratch_in.base + j->scratch_in.offsets[t]);
    if (!reference_begin(j, &j->scratch_in, err))
        return false;
    x->looking->asked++;
    return true;
}

static bool take_answer(struct session *x, struct err *err)
{
    struct output_check *o = &x->looking->list[x->looking->answered++];
    if (!reference_end(x->j, o->reference, err))
        return false;
    o->running = pthread_create(&o->thread, NULL, compare, o) == 0;
    if (!o->running)
        compare(o);             /* no thread to be had: then now */
    return true;
}

static bool settle(struct session *x, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    struct output_check *o = &x->looking->list[x->looking->settled++];
    check_end(o);
    o->c->checked++;
    if (o->tensor < 0)
        return true;
    verdict_set(v, o->found.code, "time", "an output of a timed launch is wrong: %s", o->found.text);
    v->detail = compare_encode(&o->found, &j->tensors[o->tensor]);
    return side_verdict(j, o->c->side, v, err);
}

bool check_timed_go_on(struct session *x, struct verdict *v, struct err *err)
{
    struct output_checks *l = x->looking;
    while (l->settled < l->answered && atomic_load(&l->list[l->settled].ready))
        STEP(settle(x, v, err));
    if (l->asked > l->answered && child_answered(&x->j->reference) && !take_answer(x, err))
        return false;
    return l->asked > l->answered || l->asked == l->taken || ask_next(x, err);
}

/* The oldest, however long it takes. */
static bool wait_for_one(struct session *x, struct verdict *v, struct err *err)
{
    struct output_checks *l = x->looking;
    while (l->answered == l->settled) {
        if (l->asked == l->answered && !ask_next(x, err))
            return false;
        if (!take_answer(x, err) || (l->asked < l->taken && !ask_next(x, err)))
            return false;
    }
    return settle(x, v, err);
}

bool check_timed_settle(struct session *x, struct verdict *v, struct err *err)
{
    while (x->looking->settled < x->looking->taken)
        STEP(wait_for_one(x, v, err));
    *x->looking = (struct output_checks){.taken = 0};
    return true;
}

void check_timed_begin(struct session *x)
{
    x->looking = xalloc(sizeof *x->looking);
}

void check_timed_drop(struct session *x)
{
    struct output_checks *l = x->looking;
    if (l->asked > l->answered)
        child_done(&x->j->reference);       /* it is at work still; another is started when one is wanted */
    for (int i = l->settled; i < l->taken; i++)
        check_end(&l->list[i]);
    free(l);
    x->looking = NULL;
}

/* ---- which ---- */

static int launched_set(uint64_t order_seed, int sets, int k)
{
    cleanup(mem) void *memory = xarray((size_t)sets, sizeof(int));
    int *order = memory;
    device_set_order(order_seed, sets, order);
    return order[k];
}

/* What a launch's results and what they must be take here until they are compared. */
static int64_t bytes_of_one(const struct judge *j)
{
    int64_t bytes = 0;
    for (int t = 0; t < j->op->tensor_count; t++)
        if (j->tensors[t].spec->role != OP_INPUT)
            bytes += j->tensors[t].bytes + j->tensors[t].elements * 8 * op_results(j->op);
    return bytes;
}

/* Results of the k-th launch of the side's last timed graph. */
static bool take_launch(struct session *x, struct clocked *c, int k, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    struct judge_side *s = c->side;
    struct output_checks *l = x->looking;
    const int set = launched_set(s->timed_order, c->sets, k);
    while (l->taken > l->settled && (int64_t)(l->taken - l->settled + 1) * bytes_of_one(j) > judge_keep_bytes(j))
        STEP(wait_for_one(x, v, err));
    BUG_ON(l->taken == MOST_TAKEN);
    struct output_check *o = &l->list[l->taken];
    cleanup(json) json_t *answer = NULL, *job = judge_job("time_output");
    json_put_int(job, "set", set);
    STEP(judge_ask_run(j, s, job, "time", LIMIT_TIME_SETUP_WALL_NS, &answer, v, err));
    const json_t *windows = json_object_get(answer, "windows");
    *o = (struct output_check){.x = x, .c = c};
    for (int t = 0; t < j->op->tensor_count; t++)
        if (!take_windows(j, t, json_array_get(windows, (size_t)t), &o->windows[t]))
            return err_set(err, ERR_UPSTREAM, "the run child of the %s gives a launch a content of %s that nobody made", s->name, j->tensors[t].spec->name);
    run_copy_outputs(j, s);
    for (int t = 0; t < j->op->tensor_count; t++)
        o->outputs[t] = steal(&s->outputs[t]);
    l->taken++, c->looked_at++;
    return true;
}

static int fixed_of(const struct clocked *c) { return c->judged ? FIXED : 0; }

/* Of the candidate one launch of fifty and never less than the first, a middle and the last, and so many beside them that nobody could foresee. */
static int wanted(const struct clocked *c, int beside)
{
    const int share = (c->launches + 49) / 50, count = c->judged ? (share > FIXED ? share : FIXED) + beside : beside / 2;
    return count < MOST_SETS_CHECKED ? count : MOST_SETS_CHECKED;
}

bool check_timed_maybe(struct session *x, struct clocked *c, struct verdict *v, struct err *err)
{
    const int quads = x->effort.blocks * x->effort.pairs_in_block / 2, by_chance = wanted(c, x->effort.sets_checked) - fixed_of(c);
    if (c->looked_at >= by_chance || random_u64() % (uint64_t)quads >= (uint64_t)by_chance)
        return true;
    return take_launch(x, c, (int)(random_u64() % (uint64_t)c->launches), v, err);
}

bool check_timed_rest(struct session *x, struct clocked *c, struct verdict *v, struct err *err)
{
    const int fixed[FIXED] = {0, c->launches / 2, c->launches - 1};
    for (int i = 0; i < fixed_of(c); i++)
        STEP(take_launch(x, c, fixed[i], v, err));
    for (int left = wanted(c, x->effort.sets_checked) - c->looked_at, i = 0; i < left || i < 1; i++)
        STEP(take_launch(x, c, (int)(random_u64() % (uint64_t)c->launches), v, err));
    return true;
}

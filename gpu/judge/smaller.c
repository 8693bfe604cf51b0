/*
 * Before a sample of the blocks is trusted, the same plan runs whole at a smaller shape of the operator, with every check and all results
 * compared: that shows that no block reads what another wrote (in a sample the other is seldom there), and that nothing is left out. It is a
 * judgement of its own, as far as that of correctness, with children, seeds and inputs of its own.
 *
 * Smaller: axes that count items (the first in the dimensions of what is written) are halved, one after the other, as long as the
 * operator's constraints hold, until its work would take a small part of the emulator's budget, of instructions and of time. There nothing is
 * sampled again, whatever a busy host makes of its CPU time: the limits of a run hold. A kernel need not work at a shape that was not thought
 * of: then larger ones are tried, up to one that takes the budget as a whole. That one was made for its own shape alone is no verdict on it,
 * but then its sample has to stand by itself (sampled.c).
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <math.h>
#include <string.h>

#define PART_OF_BUDGET 16       /* of a launch: there are some twenty runs of it */
#define TRIES 3                 /* shapes, each */
#define TIMES_LARGER 4          /* than the one before, and the last of them takes the whole budget */
#define LEAST_AXIS 2

bool smaller_shown(const struct judge *j) { return json_bool(j->smaller, "shown", false); }

/* ---- which ---- */

static void add_axes(const struct op *op, const char *expression, int *list, int *count)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    for (const char *at = expression; *at;) {
        const size_t n = strspn(at, letters);
        for (int a = 0; n && a < op->axis_count; a++) {
            const struct op_axis *axis = &op->axes[a];
            bool there = strlen(axis->name) != n || memcmp(axis->name, at, n) != 0 || axis->is_const || !axis->keyed;
            for (int k = 0; k < *count && !there; k++)
                there = list[k] == a;
            if (!there)
                list[(*count)++] = a;
        }
        at += n ? n : 1;
    }
}

/* Axes in the order in which they are made smaller: the first dimension of all that is written, then the second, ... */
static int axes_in_order(const struct op *op, int list[OP_MAX_AXES])
{
    int count = 0;
    for (int d = 0; d < OP_MAX_DIMS; d++)
        for (int t = 0; t < op->tensor_count; t++)
            if (op->tensors[t].role != OP_INPUT && d < op->tensors[t].rank)
                add_axes(op, op->tensors[t].dims[d], list, &count);
    return count;
}

/* The shape with one axis at `value`, what follows from others left to the operator; NULL where the operator does not have it. */
static json_t *with_axis(const struct judge *j, const json_t *from, int axis, int64_t value, double *ret_work)
{
    json_t *doc = json_deep_copy(from), *axes = json_object_get(doc, "axes");
    struct faults faults = {0};
    struct shape shape;
    struct err none = {0};
    int64_t bytes, flops;
    json_put_int(axes, j->op->axes[axis].name, value);
    if (!shape_parse(j->config->ops, doc, "", "", &shape, &faults) || !shape_work(&shape, &bytes, &flops, &none)) {
        json_decref(doc);
        return NULL;
    }
    *ret_work = (double)bytes + (double)flops;
    return doc;
}

/* Only what makes the key: the rest has defaults, which follow. */
static json_t *keyed_only(const struct judge *j)
{
    json_t *doc = shape_encode(&j->shape);
    for (int a = 0; a < j->op->axis_count; a++)
        if (!j->op->axes[a].keyed && j->op->axes[a].has_default)
            json_object_del(json_object_get(doc, "axes"), j->op->axes[a].name);
    return doc;
}

static int64_t axis_value(const json_t *doc, const struct op_axis *a) { return json_int(json_object_get(doc, "axes"), a->name, 0); }

/* A shape whose work is at most `part` of this one's; NULL: there is none. */
static json_t *choose(const struct judge *j, double part)
{
    int list[OP_MAX_AXES];
    const int count = axes_in_order(j->op, list);
    json_t *doc = keyed_only(j);
    int64_t bytes, flops;
    struct err none = {0};
    if (!shape_work(&j->shape, &bytes, &flops, &none)) {
        json_decref(doc);
        return NULL;
    }
    const double wanted = ((double)bytes + (double)flops) * part;
    double work = (double)bytes + (double)flops;
    for (int n = 0; n < count && work > wanted; n++)
        for (bool more = true; more && work > wanted;) {
            const int64_t value = axis_value(doc, &j->op->axes[list[n]]);
            double less = work;
            json_t *next = value / 2 >= LEAST_AXIS ? with_axis(j, doc, list[n], (value + 1) / 2, &less) : NULL;
            more = next && less < work;
            if (!more) {
                json_decref(next);
                break;
            }
            json_decref(doc);
            doc = next;
            work = less;
        }
    if (work <= wanted)
        return doc;
    json_decref(doc);
    return NULL;
}

/* ---- the judgement ---- */

static const struct { const char *name; judge_phase *run; } phases[] = {
    {"admit", phase_admit}, {"compile", phase_compile}, {"scan", phase_scan}, {"emulate", phase_emulate}, {"assemble", phase_assemble}, {"correct", phase_correct}};

static bool judge_there(struct judge *j, struct verdict *v, struct err *err)
{
    for (size_t i = 0; i < sizeof phases / sizeof *phases && v->code == VERDICT_OK; i++) {
        j->phase = json_object();
        json_array_append_new(j->phases, j->phase);
        json_put_str(j->phase, "phase", phases[i].name);
        if (!phases[i].run(j, v, err))
            return false;
        snprintf(v->phase, sizeof v->phase, "%s", phases[i].name);
        if (j->sides[CANDIDATE].sampled)
            break;
    }
    return true;
}

static bool judge_at(struct judge *outer, json_t *shape, struct verdict *v, bool *ret_whole, struct err *err)
{
    struct judge_config config = *outer->config;
    config.device = "sim";
    config.sample_budget = config.sample_cpu_ns = INT64_MAX;
    cleanup(json) json_t *task = json_pack("{s:O,s:O,s:s}", "shape", shape, "candidate", json_object_get(outer->task, "candidate"), "mode", "triage");
    cleanup(judge) struct judge *j = judge_new(&config, NULL, outer->watch.cancelled, outer->watch.ctx);
    j->task = task;
    j->is_smaller = true;
    const bool ok = judge_begin(j, err) && judge_there(j, v, err);
    *ret_whole = ok && !j->sides[CANDIDATE].sampled;
    return ok;
}

/* All blocks, were they to run, in budgets of instructions or of CPU time, whichever is more of them. */
static double budgets_of(const struct judge *j, const struct judge_side *s)
{
    const double budget = (double)(j->config->sample_budget ? j->config->sample_budget : LIMIT_EMULATED_INSTRUCTIONS);
    const double budget_ns = (double)(j->config->sample_cpu_ns ? j->config->sample_cpu_ns : LIMIT_EMULATED_CPU_NS);
    double most = 0;
    for (int i = 0; i < s->plan.step_count; i++) {
        const json_t *c = json_array_get(s->counts, (size_t)i);
        const double all = (double)s->plan.steps[i].grid[0] * s->plan.steps[i].grid[1] * s->plan.steps[i].grid[2], some = (double)json_int(c, "blocks", 0);
        const double used = fmax((double)json_int(c, "thread_instructions", 0) / budget, (double)json_int(c, "sample_cpu_ns", 0) / budget_ns);
        if (some > 0)
            most = fmax(most, used * all / some);
    }
    return most;
}

/* One shape, and what came of it: *ret is {"shown","axes","why"?}. *ret_slow: a larger one only takes longer. False: nobody wants it any more. */
static bool show_at(struct judge *j, json_t *shape, json_t **ret, bool *ret_slow, struct err *err)
{
    cleanup(verdict) struct verdict v = {.code = VERDICT_OK};
    struct err why = {0};
    bool whole = false;
    json_t *doc = json_object();
    const bool ran = judge_at(j, shape, &v, &whole, &why);
    *ret = doc;
    *ret_slow = ran && v.code == VERDICT_TIMEOUT;
    json_put_bool(doc, "shown", ran && whole && v.code == VERDICT_OK);
    json_put(doc, "axes", json_incref(json_object_get(shape, "axes")));
    if (!ran)
        json_put_str(doc, "why", why.text);
    else if (v.code != VERDICT_OK)
        json_put(doc, "why", json_sprintf("%s in %s", verdict_name(v.code), v.phase));
    else if (!whole)
        json_put_str(doc, "why", "too large there too");
    return ran || why.code != ERR_CONFLICT || err_set(err, why.code, "%s", why.text);
}

static bool show_one_of(struct judge *j, double budgets, struct err *err)
{
    double part = 1 / (budgets * PART_OF_BUDGET);
    cleanup(json) json_t *before = NULL;
    bool slow = false;
    for (int i = 0; i < TRIES && !slow && !smaller_shown(j); i++, part *= TIMES_LARGER) {
        json_t *shape = choose(j, fmin(part, 0.5));
        const bool again = shape && before && json_equal(shape, before);
        json_t *doc = NULL;
        if (!shape || again) {
            json_decref(shape);
            continue;
        }
        json_decref(before);
        before = shape;
        const bool ok = show_at(j, shape, &doc, &slow, err);
        json_decref(j->smaller);
        j->smaller = doc;
        if (!ok)
            return false;
    }
    return true;
}

bool smaller_show(struct judge *j, struct judge_side *s, struct err *err)
{
    const int64_t from = clock_mono_ns();
    json_decref(j->smaller);
    j->smaller = json_pack("{s:b,s:n,s:s}", "shown", 0, "axes", "why", "the operator has no smaller shape");
    const bool ok = show_one_of(j, fmax(budgets_of(j, s), 2.0 / PART_OF_BUDGET), err);
    if (!j->watch.asked)                /* others worked for us */
        j->watch.idle_since_ns += clock_mono_ns() - from;
    return ok;
}

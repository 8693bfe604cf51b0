/*
 * What the outputs of runs come to: against the reference, by the operator's rules and the baseline's own errors, on a thread beside the
 * next runs (comparison.h says why); and against the outputs of another run on equal inputs, of which all bits must be equal. Nothing here
 * runs anything.
 */
#include "gpu/judge/comparison.h"
#include "gpu/judge/spare.h"

#include <string.h>

/* ---- against the reference ---- */

static void describe(const struct judge *j, struct verdict *v, const struct compare_result *r, const struct tensor *t,
                     int regime, const char *phase)
{
    verdict_set(v, r->code, phase, "%s (inputs: %s)", r->text, inputs_regime_name(j->op, regime));
    v->detail = compare_encode(r, t);
    json_put_str(v->detail, "regime", inputs_regime_name(j->op, regime));
}

static bool baseline_fit(const struct judge *j, const struct compare_result *r, const struct tensor *t, struct err *err)
{
    const struct compare_tolerance tolerance = compare_tolerance(j->op, t);
    if (!compare_baseline_fit(r, &tolerance))
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

/* The comparison alone: pure, on any thread. ret by tensor, those that are not inputs; covers where a sample ran. */
static void compare_outputs(const struct judge *j, const struct judge_side *s, int regime, void *const *outputs,
                            uint8_t *const *written, uint64_t poison, struct compare_result *ret, struct sampled_cover *covers)
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
        if (held_is(&j->held, j->op, t))        /* where it is in the whole */
            ret[t].index[0] = g->in.rows[ret[t].index[0]];
        if (written[t])
            sampled_count(j, t, regime, written[t], &covers[t]);
    }
}

/* What the comparison means. */
static bool judge_outputs(struct judge *j, struct judge_side *s, int regime, const struct compare_result *results, const struct sampled_cover *covers,
                          const char *phase, struct verdict *v, struct err *err)
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
    return sampled_enough(j, s, results, covers, phase, v, err);
}

bool check_outputs(struct judge *j, struct judge_side *s, int regime, void *const *outputs, uint64_t poison,
                   const char *phase, struct compare_result *ret_worst, struct verdict *v, struct err *err)
{
    struct compare_result results[OP_MAX_TENSORS] = {{0}};
    struct sampled_cover covers[OP_MAX_TENSORS] = {{0}};
    compare_outputs(j, s, regime, outputs, s->written, poison, results, covers);
    STEP(judge_outputs(j, s, regime, results, covers, phase, v, err));
    if (ret_worst)
        memcpy(ret_worst, results, sizeof results);
    return true;
}

/* ---- beside the runs ---- */

/* Its outputs become ours: of all its blocks, or it is no yardstick. */
void baseline_keep(struct judge *j, int regime)
{
    struct judge_side *s = &j->sides[BASELINE];
    struct judge_regime *g = &j->regimes[regime];
    if (!s->present || s->sampled)
        return;
    run_copy_outputs(j, s);
    for (int t = 0; t < j->op->tensor_count; t++) {
        spare_give(g->baseline[t]);
        g->baseline[t] = steal(&s->outputs[t]);
    }
    g->baseline_ran = true;
}

static void *comparison_run(void *ctx)
{
    struct comparison *c = ctx;
    compare_outputs(c->j, c->s, c->regime, c->outputs, c->written, c->poison, c->results, c->covers);
    atomic_store(&c->ready, true);
    return NULL;
}

void comparison_plan(struct comparison *c, struct judge *j, struct judge_side *s, int regime, uint64_t poison)
{
    c->waiting = true, c->j = j, c->s = s, c->regime = regime, c->poison = poison;
    for (int t = 0; t < j->op->tensor_count; t++) {
        c->outputs[t] = steal(&s->outputs[t]);
        c->written[t] = steal(&s->written[t]);
    }
    c->counts = json_incref(s->counts);
    c->stores = json_incref(s->stores);
}

void comparison_start(struct comparison *c)
{
    if (!c || !c->waiting)
        return;
    c->waiting = false;
    baseline_keep(c->j, c->regime);
    c->running = pthread_create(&c->thread, NULL, comparison_run, c) == 0;
    if (!c->running)
        comparison_run(c);      /* no thread to be had: then now */
}

void comparison_wait(struct comparison *c)
{
    if (c->running)
        pthread_join(c->thread, NULL);
    c->running = false;
}

bool comparison_judge(const struct comparison *c, const char *phase, struct verdict *v, struct err *err)
{
    json_t *const counts = c->s->counts, *const stores = c->s->stores;
    c->s->counts = c->counts, c->s->stores = c->stores;
    const bool ok = judge_outputs(c->j, c->s, c->regime, c->results, c->covers, phase, v, err);
    c->s->counts = counts, c->s->stores = stores;
    return ok;
}

void comparison_done(struct comparison *c)
{
    comparison_wait(c);
    for (int t = 0; t < OP_MAX_TENSORS; t++) {
        spare_give(c->outputs[t]);
        free(c->written[t]);
        c->outputs[t] = NULL, c->written[t] = NULL;
    }
    json_decref(c->counts);
    json_decref(c->stores);
    c->counts = c->stores = NULL;
}

/* ---- of a round ---- */

/*
 * The certificate is public, and whoever writes the next candidate may read it. A candidate that is right within what is allowed chooses its
 * own errors, and could write there what it saw: so of a hidden regime nothing is told that depends on its values, only that it was passed.
 */
static json_t *withheld(const struct tensor *t)
{
    return json_pack("{s:s,s:I,s:b}", "tensor", t->spec->name, "elements", (json_int_t)t->elements, "passed", 1);
}

json_t *regime_encode(const struct judge *j, int r, const struct compare_result *worst)
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
            json_array_append_new(tensors, hidden ? withheld(&j->tensors[t]) : compare_encode(&worst[t], &j->tensors[t]));
    json_put(doc, "tensors", tensors);
    return doc;
}

struct comparisons *comparisons_new(void)
{
    struct comparisons *all = xalloc(sizeof *all);
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    all->most = cpus < 1 ? 1 : cpus > INPUTS_MAX_REGIMES ? INPUTS_MAX_REGIMES : (int)cpus;
    return all;
}

void comparisons_free(struct comparisons *all)
{
    for (int i = all->settled; i < all->begun; i++)
        comparison_done(&all->list[i]);
    free(all);
}
struct comparison *comparisons_newest(struct comparisons *all)
{
    return all->begun > all->settled ? &all->list[all->begun - 1] : NULL;
}

/* Waits for it, judges it, records it. */
static bool settle(struct comparison *c, json_t *records, struct verdict *v, struct err *err)
{
    struct judge *j = c->j;
    comparison_start(c);
    comparison_wait(c);
    const bool ok = comparison_judge(c, "correct", v, err);
    comparison_done(c);
    STEP(ok);
    json_array_append_new(records, regime_encode(j, c->regime, c->results));
    regime_used(j, c->regime);
    return true;
}

bool comparisons_settle(struct comparisons *all, int left, json_t *records, int *ret_regime, struct verdict *v, struct err *err)
{
    while (all->begun - all->settled > left || (all->begun > all->settled && atomic_load(&all->list[all->settled].ready))) {
        struct comparison *c = &all->list[all->settled++];
        *ret_regime = c->regime;
        STEP(settle(c, records, v, err));
    }
    return true;
}

/* ---- two runs, equal bits ---- */

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

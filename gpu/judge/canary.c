/*
 * Whether wrong results pass. Each kind (canary_wrong.c) becomes one canary for each output, and for each scalar or input where it has such
 * a subject. Regime by regime every canary not yet caught is made, compared by each yardstick, and counted.
 */
#include "gpu/judge/canary_wrong.h"

#include "gpu/judge/compare.h"
#include "gpu/judge/reference.h"

#include <math.h>
#include <string.h>

#define SEED 0x63616e617279u
#define MAX_CANARIES 1024

enum yardstick { TABLE, ROUNDED, BASELINE, YARDSTICKS };
static const char *const yardstick_names[] = {"the table", "a baseline that rounds once", "its own baseline"};

/* ---- the canaries of an operator ---- */

struct canary {
    const struct kind *kind;
    int subject, output;                        /* scalar or tensor; tensor */
    int same, looked, caught;                   /* regimes: equals the right result; does not; was refused by every yardstick */
    unsigned caught_by;                         /* bit set of yardsticks that refused it in some regime */
    int failed_regime;                          /* MUST_PASS: the first that was refused, -1 */
    const char *rule, *skipped;                 /* the rule that caught it first; why it is not asked for */
    char why[200];
};
struct check {
    const struct canary_options *o;
    struct scene scene;
    unsigned yardsticks;
    char baseline_why[320];                     /* what is wrong with what the baseline gave; "" */
    int count;
    struct canary list[MAX_CANARIES];
};

static void list_canaries(struct check *c)
{
    const struct op *op = c->scene.op;
    for (int k = 0; k < canary_kind_count; k++) {
        int subjects = canary_kinds[k].subject == A_SCALAR ? op->scalar_count : canary_kinds[k].subject == AN_INPUT ? op->tensor_count : 1;
        for (int s = 0; s < subjects; s++) {
            if (canary_kinds[k].subject == AN_INPUT && op->tensors[s].role == OP_OUTPUT)
                continue;
            for (int t = 0; t < op->tensor_count && c->count < MAX_CANARIES; t++)
                if (op->tensors[t].role != OP_INPUT)
                    c->list[c->count++] = (struct canary){.kind = &canary_kinds[k], .subject = s, .output = t, .failed_regime = -1,
                                                          .skipped = canary_skipped(&canary_kinds[k], s, op, c->scene.tensors, &c->scene.tensors[t])};
        }
    }
}

static bool wanted(const struct check *c, const struct canary *n)
{
    return !n->skipped && (c->o->all_regimes || (n->kind->flags & MUST_PASS) || n->caught_by != c->yardsticks);
}

/* ---- a regime ---- */

static void scene_clear(struct scene *n)
{
    inputs_free(n->op, n->inputs);
    inputs_free(n->op, n->other);
    inputs_free(n->op, (void **)n->before);
    inputs_free(n->op, (void **)n->right);
    inputs_free(n->op, (void **)n->variant);
    inputs_free(n->op, n->image);
}

/* `values` as a tensor with its strides; an inout's elements that are to stay keep their bits. */
static void *store(const struct scene *n, int t, const double *values)
{
    const struct tensor *tensor = &n->tensors[t];
    void *image = xalloc((size_t)tensor->bytes + 8);
    if (tensor->spec->role == OP_INOUT)
        memcpy(image, n->inputs[t], (size_t)tensor->bytes);
    else
        memset(image, 0xa5, (size_t)tensor->bytes);
    for (int64_t i = 0; i < tensor->elements; i++)
        if (canary_changed(n, t, i))
            dtype_store(tensor->dtype, image, (size_t)tensor_offset(tensor, i), values[i]);
    return image;
}

bool canary_inputs(const struct shape *s, const struct tensor *tensors, int regime, void **ret, struct err *err)
{
    return inputs_make(s, tensors, regime, SEED, ret, err);
}

static bool scene_make(struct scene *n, int regime, struct err *err)
{
    n->regime = regime;
    if (!canary_inputs(n->s, n->tensors, regime, n->inputs, err) || !inputs_make(n->s, n->tensors, regime, SEED + 1, n->other, err) ||
        !reference_run(n->s, n->tensors, (const void *const *)n->inputs, n->right, err))
        return err_wrap(err, "regime %s", inputs_regime_name(n->op, regime));
    for (int t = 0; t < n->op->tensor_count; t++) {
        if (n->inputs[t]) {
            n->before[t] = xarray((size_t)n->tensors[t].elements + 1, sizeof(double));
            values_gather(&n->tensors[t], n->inputs[t], 0, n->tensors[t].elements, n->before[t]);
            for (int64_t i = 0; regime == 0 && i < n->tensors[t].elements; i++)
                n->largest[t] = fmax(n->largest[t], fabs(n->before[t][i]));
        }
        if (n->right[t])
            n->image[t] = store(n, t, n->right[t]);
    }
    return true;
}

/* A reference that has no finite result for the changed inputs says nothing here: another regime must. */
static bool variant_make(struct scene *n, const struct kind *k, int subject)
{
    void *inputs[OP_MAX_TENSORS] = {0};
    cleanup(mem) void *memory = xalloc(sizeof(struct op));
    struct op *op = memcpy(memory, n->op, sizeof *op);
    struct shape changed_shape = *n->s;
    struct err ignored = {0};
    changed_shape.op = op;
    inputs_free(n->op, (void **)n->variant);
    for (int t = 0; t < op->tensor_count; t++)
        if (n->inputs[t])
            inputs[t] = memcpy(xalloc((size_t)n->tensors[t].bytes + 1), n->inputs[t], (size_t)n->tensors[t].bytes);
    k->change(n, subject, inputs, op);
    bool ok = reference_run(&changed_shape, n->tensors, (const void *const *)inputs, n->variant, &ignored);
    inputs_free(n->op, inputs);
    return ok;
}

/* ---- one canary in one regime ---- */

static const void *yardstick_of(const struct check *c, enum yardstick y, int t)
{
    return y == TABLE ? NULL : y == ROUNDED ? c->scene.image[t] : c->o->baseline[c->scene.regime][t];
}

static void count_refusals(struct check *c, struct canary *n, const void *image)
{
    const struct scene *s = &c->scene;
    unsigned refused = 0;
    for (int y = 0; y < YARDSTICKS; y++) {
        struct compare_result r;
        if (!(c->yardsticks & 1u << y))
            continue;
        const struct compare_case one = {s->op, &s->tensors[n->output], s->right[n->output], image, yardstick_of(c, (enum yardstick)y, n->output),
                                         s->tensors[n->output].spec->role == OP_INOUT ? s->inputs[n->output] : NULL, NULL};
        compare_tensor(&one, &r);
        if (r.code == VERDICT_OK)
            continue;
        refused |= 1u << y;
        if (!n->rule)
            n->rule = compare_rule_name(r.rule);
        if ((n->kind->flags & MUST_PASS) && n->failed_regime < 0) {
            n->failed_regime = s->regime;
            snprintf(n->why, sizeof n->why, "by %s: %.150s", yardstick_names[y], r.text);
        }
    }
    n->caught_by |= refused;
    n->caught += refused == c->yardsticks;
}

static void look(struct check *c, struct canary *n)
{
    const struct scene *s = &c->scene;
    const struct tensor *tensor = &s->tensors[n->output];
    cleanup(mem) void *memory = xarray((size_t)tensor->elements + 1, sizeof(double));
    double *values = memory;
    if (n->kind->make(s, n->output, values) == NOT_HERE)
        return;
    cleanup(mem) void *image = store(s, n->output, values);
    if (!(n->kind->flags & MUST_PASS) && !memcmp(image, s->image[n->output], (size_t)tensor->bytes)) {
        n->same++;
        return;
    }
    n->looked++;
    count_refusals(c, n, image);
}

/* As in a judgement of the baseline: by the table. */
static void look_at_baseline(struct check *c)
{
    const struct scene *s = &c->scene;
    for (int t = 0; t < s->op->tensor_count && c->o->baseline && !*c->baseline_why; t++) {
        struct compare_result r;
        if (s->tensors[t].spec->role == OP_INPUT)
            continue;
        const struct compare_case one = {s->op, &s->tensors[t], s->right[t], c->o->baseline[s->regime][t], NULL,
                                         s->tensors[t].spec->role == OP_INOUT ? s->inputs[t] : NULL, NULL};
        compare_tensor(&one, &r);
        if (r.code != VERDICT_OK)
            snprintf(c->baseline_why, sizeof c->baseline_why, "operator %s: its baseline is wrong in regime %s (%s): %.180s", s->op->name,
                     inputs_regime_name(s->op, s->regime), dtype_name(s->tensors[t].dtype), r.text);
    }
}

static bool one_regime(struct check *c, int regime, struct err *err)
{
    struct scene *s = &c->scene;
    bool ok = scene_make(s, regime, err), have = false;
    const struct kind *made = NULL;
    int made_of = -1;
    if (ok)
        look_at_baseline(c);
    for (int i = 0; ok && i < c->count; i++) {
        struct canary *n = &c->list[i];
        if (!wanted(c, n))
            continue;
        if (n->kind->change && (n->kind != made || n->subject != made_of)) {
            have = variant_make(s, n->kind, n->subject);
            made = n->kind;
            made_of = n->subject;
        }
        if (!n->kind->change || have)
            look(c, n);
    }
    scene_clear(s);
    return ok;
}

/* ---- what came of it ---- */

static void name_of(const struct op *op, const struct canary *n, char *to, size_t size)
{
    const char *subject = n->kind->subject == A_SCALAR ? op->scalars[n->subject].name : n->kind->subject == AN_INPUT ? op->tensors[n->subject].name : "";
    snprintf(to, size, "%s%s%s", n->kind->name, *subject ? ":" : "", subject);
}

/* The yardsticks by which it passes everywhere, as a text. */
static const char *passes_by(const struct check *c, const struct canary *n)
{
    for (int y = 0; y < YARDSTICKS; y++)
        if ((c->yardsticks & ~n->caught_by) & 1u << y)
            return yardstick_names[y];
    return "";
}

/* Whether the same change of a scalar or input shows in another output: not every output depends on all of them. */
static bool shown_elsewhere(const struct check *c, const struct canary *n)
{
    for (int i = 0; i < c->count && n->kind->subject != NONE; i++)
        if (c->list[i].kind == n->kind && c->list[i].subject == n->subject && c->list[i].looked)
            return true;
    return false;
}

/* Says what is wrong with this one, if anything. */
static void settle(const struct check *c, struct canary *n, int regimes, char *why, size_t size)
{
    const struct op *op = c->scene.op;
    const char *output = op->tensors[n->output].name, *dtype = dtype_name(c->scene.tensors[n->output].dtype);
    char name[2 * OP_NAME_SIZE];
    name_of(op, n, name, sizeof name);
    if (n->skipped)
        return;
    if (n->kind->flags & MUST_PASS) {
        if (n->failed_regime >= 0)
            snprintf(why, size, "operator %s: %s is refused for %s (%s) in regime %s, %s: its tolerance is too tight", op->name,
                     n->kind->text, output, dtype, inputs_regime_name(op, n->failed_regime), n->why);
        return;
    }
    if (n->looked && n->caught_by == c->yardsticks)
        return;
    if (!n->looked && shown_elsewhere(c, n)) {
        n->skipped = "this output does not depend on it, another does";
        return;
    }
    if (!n->looked && (!n->same || (n->kind->flags & MAY_BE_RIGHT))) {
        n->skipped = n->same ? "it equals the right result in every regime" : "nothing of this shape can be so wrong";
        return;
    }
    if (n->looked)
        snprintf(why, size, "operator %s: canary %s (%s) passes for %s (%s) in all %d regimes, by %s: its tolerance is too loose", op->name,
                 name, n->kind->text, output, dtype, regimes, passes_by(c, n));
    else
        snprintf(why, size, "operator %s: canary %s (%s) equals the right result for %s (%s) in all %d regimes: none of them shows it", op->name,
                 name, n->kind->text, output, dtype, regimes);
}

static json_t *encode(const struct op *op, const struct canary *n)
{
    json_t *doc = json_object();
    char name[2 * OP_NAME_SIZE];
    name_of(op, n, name, sizeof name);
    json_put_str(doc, "canary", name);
    json_put_str(doc, "text", n->kind->text);
    json_put_str(doc, "output", op->tensors[n->output].name);
    if (n->skipped) {
        json_put_str(doc, "skipped", n->skipped);
    } else {
        json_put_int(doc, n->kind->flags & MUST_PASS ? "refused" : "caught", n->kind->flags & MUST_PASS ? n->failed_regime >= 0 : n->caught);
        json_put_int(doc, "of", n->looked);
        if (n->rule)
            json_put_str(doc, "rule", n->rule);
    }
    return doc;
}

void canary_result_done(struct canary_result *r)
{
    json_decref(r->report);
    *r = (struct canary_result){0};
}

bool canary_check(const struct shape *s, const struct canary_options *o, struct canary_result *ret, struct err *err)
{
    cleanup(mem) void *memory = xalloc(sizeof(struct check));
    struct check *c = memory;
    struct tensor tensors[OP_MAX_TENSORS];
    int regimes = inputs_regime_count(s->op);
    if (!shape_tensors(s, tensors, err))
        return false;
    c->o = o;
    c->scene = (struct scene){.s = s, .op = s->op, .tensors = tensors};
    c->yardsticks = 1u << TABLE | 1u << ROUNDED | (o->baseline ? 1u << BASELINE : 0);
    list_canaries(c);
    for (int r = 0; r < regimes; r++)
        if (!one_regime(c, r, err))
            return false;
    struct canary_result result = {.report = json_object()};
    json_t *list = json_array();
    snprintf(result.text, sizeof result.text, "%s", c->baseline_why);
    for (int i = 0; i < c->count; i++) {
        struct canary *n = &c->list[i];
        char why[sizeof result.text] = "";
        settle(c, n, regimes, why, sizeof why);
        if (!*result.text)
            memcpy(result.text, why, sizeof why);       /* the first is told */
        result.skipped += n->skipped != NULL;
        result.caught += !n->skipped && !(n->kind->flags & MUST_PASS) && n->caught_by == c->yardsticks;
        json_array_append_new(list, encode(s->op, n));
    }
    result.passed = !*result.text;
    result.baseline_right = !*c->baseline_why;
    json_put(result.report, "shape", shape_encode(s));
    json_put(result.report, "canaries", list);
    *ret = result;
    return true;
}

/* In the reference child, before it sees any inputs of a judgement: the operator's canaries. */
#include "gpu/judge/canary.h"
#include "gpu/judge/child.h"

struct given { const struct op *op; void *outputs[INPUTS_MAX_REGIMES][OP_MAX_TENSORS]; };

static void given_done(struct given *g)
{
    for (int r = 0; g->op && r < INPUTS_MAX_REGIMES; r++)
        inputs_free(g->op, g->outputs[r]);
}
DEFINE_CLEANUP(given, struct given, given_done(it))

/* What the baseline gave, by regime and tensor. */
static bool take_baseline(const struct shape *s, const struct tensor *tensors, struct given *ret, struct err *err)
{
    ret->op = s->op;
    for (int r = 0; r < inputs_regime_count(s->op); r++)
        for (int t = 0; t < s->op->tensor_count; t++) {
            char name[32];
            size_t bytes = (size_t)tensors[t].bytes;
            if (tensors[t].spec->role == OP_INPUT)
                continue;
            snprintf(name, sizeof name, "%d.%d", r, t);
            ret->outputs[r][t] = xalloc(bytes + 8);
            if (!wire_receive_blob(CHILD_FD, 0, name, ret->outputs[r][t], bytes, err))
                return false;
        }
    return true;
}

bool child_do_canaries(struct child_state *unused, const json_t *job, struct err *err)
{
    (void)unused;
    cleanup(op) struct op *op = NULL;
    cleanup(canary_result) struct canary_result result = {0};
    cleanup(given) struct given given = {0};
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct faults f = {0};
    if (!op_load(json_str(job, "op_dir", ""), &op, err))
        return false;
    const struct op_set one = {1, &op};
    if (!shape_parse(&one, json_object_get(job, "shape"), "", "", &s, &f))
        return err_set(err, ERR_INTERNAL, "the child cannot read the shape: %s %s", f.list[0].pointer, f.list[0].detail);
    bool with_baseline = json_bool(job, "baseline", false);
    if (!shape_tensors(&s, tensors, err) || (with_baseline && !take_baseline(&s, tensors, &given, err)))
        return false;
    const struct canary_options o = {.all_regimes = json_bool(job, "all", false), .baseline = with_baseline ? given.outputs : NULL};
    if (!canary_check(&s, &o, &result, err))
        return false;
    json_t *doc = json_object();
    json_put_bool(doc, "passed", result.passed);
    json_put_bool(doc, "baseline_right", result.baseline_right);
    json_put_str(doc, "text", result.text);
    json_put_int(doc, "caught", result.caught);
    json_put_int(doc, "skipped", result.skipped);
    json_put(doc, "report", json_incref(result.report));
    return child_answer(doc, err);
}

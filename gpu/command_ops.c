/* Whether operators are what they should be: references and baselines against golden files, and canaries that must be caught. */
#include "gpu/commands.h"
#include "gpu/judge/golden.h"

#include <string.h>

/* ---- golden ---- */

static bool run_baseline(void *ctx, const struct shape *s, const struct tensor *tensors, const void *const *inputs,
                         void **outputs, struct err *err)
{
    (void)tensors;
    void *given[1][OP_MAX_TENSORS], *made[1][OP_MAX_TENSORS];
    for (int t = 0; t < s->op->tensor_count; t++) {
        given[0][t] = (void *)(uintptr_t)inputs[t];
        made[0][t] = outputs[t];
    }
    return judge_baseline_outputs(ctx, s, 1, given, made, err);
}

int command_golden(const struct command_options *o, const struct judge_config *c)
{
    int matches = 0;
    struct judge_config mine = *c;
    for (int i = 0; i < o->argument_count; i++) {
        struct golden_result r = {.match = false};
        struct err err = {0};
        if (!golden_check_file(c->ops, o->arguments[i], o->target ? o->target : "sm_90a", run_baseline, &mine, &r, &err))
            printf("FAIL  %s: %s\n", o->arguments[i], err.text);
        else if (!r.match)
            printf("FAIL  %s/%s: %s\n", r.op, r.name, r.text);
        else
            printf("ok    %s/%s: reference%s\n", r.op, r.name, r.baseline_ran ? " and baseline" : "");
        matches += r.match;
        fflush(stdout);
    }
    printf("%d of %d match\n", matches, o->argument_count);
    return o->argument_count && matches == o->argument_count ? 0 : 1;
}

/* ---- canaries ---- */

/* A name of the set, or a folder with an op.json (which is then *ret_own). */
static bool find_op(const struct op_set *ops, const char *which, const struct op **ret, struct op **ret_own, struct err *err)
{
    *ret = op_set_find(ops, which);
    if (*ret)
        return true;
    if (!strchr(which, '/'))
        return err_set(err, ERR_NOT_FOUND, "there is no operator \"%s\" (a folder has a slash in its name)", which);
    if (!op_load(which, ret_own, err))
        return false;
    *ret = *ret_own;
    return true;
}

/* The baseline's shape is looked up in the set: a folder's own operator is all of it. */
static bool check_op(const struct judge_config *c, const char *which, struct err *err)
{
    cleanup(op) struct op *own = NULL;
    cleanup(json) json_t *report = NULL;
    const struct op *op;
    if (!find_op(c->ops, which, &op, &own, err))
        return false;
    const struct op_set one = {1, &own};
    struct judge_config mine = *c;
    if (own)
        mine.ops = &one;
    if (!judge_check_op(&mine, op, &report, NULL, err))
        return false;
    printf("ok    %s: %d canaries caught, %d skipped, over %d choices of dtypes\n", op->name, (int)json_int(report, "caught", 0),
           (int)json_int(report, "skipped", 0), (int)json_array_size(json_object_get(report, "shapes")));
    return true;
}

int command_canaries(const struct command_options *o, const struct judge_config *c)
{
    int passed = 0, count = o->argument_count ? o->argument_count : c->ops->count;
    for (int i = 0; i < count; i++) {
        const char *which = o->argument_count ? o->arguments[i] : c->ops->list[i]->name;
        struct err err = {0};
        if (check_op(c, which, &err))
            passed++;
        else
            printf("FAIL  %s: %s\n", which, err.text);
        fflush(stdout);
    }
    printf("%d of %d pass\n", passed, count);
    return count && passed == count ? 0 : 1;
}

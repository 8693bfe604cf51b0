/* For the tests of regimes: a shape of an operator, one regime of which has distributions of the test's own. */
#pragma once
#include "gpu/judge/inputs.h"

#include "tests/test.h"

static struct op_set ops;

struct made {
    struct op op;
    json_t *doc;
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    void *in[OP_MAX_TENSORS];
};

static void made_done(struct made *m)
{
    inputs_free(&m->op, m->in);
    json_decref(m->doc);
}
DEFINE_CLEANUP(made, struct made, made_done(it))

/* A shape of a copy of its operator, of which one regime has these distributions for some tensors. */
static bool make(struct made *m, const char *shape, const char *regime, const char *inputs, uint64_t seed)
{
    cleanup(json) json_t *asked = NULL, *given = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(shape, strlen(shape), &asked, &err) && json_parse(inputs, strlen(inputs), &given, &err));
    m->op = *op_set_find(&ops, json_str(asked, "op", ""));
    m->doc = json_deep_copy(m->op.doc);
    m->op.doc = m->doc;
    json_object_update(json_object_get(json_object_get(json_object_get(m->doc, "regimes"), regime), "inputs"), given);
    struct op *known = &m->op;
    const struct op_set one = {1, &known};
    const bool legal = shape_parse(&one, asked, "sm_90a", "", &m->s, &f) && shape_tensors(&m->s, m->tensors, &err);
    if (!legal)
        fprintf(stderr, "  %s: %s\n", shape, f.list[0].detail);
    const bool ok = legal && inputs_check(&m->op, &err) && inputs_make(&m->s, m->tensors, inputs_regime_index(&m->op, regime), seed, m->in, &err);
    if (!ok)
        fprintf(stderr, "  %s\n", err.text);
    return ok;
}

/* Loads the operators, runs the tests, and returns what main does. */
static int regimes_main(void (*const *tests)(void), size_t count)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(OPS_DIR, &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        tests[i]();
    op_set_done(&ops);
    return test_done();
}

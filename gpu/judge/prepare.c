/*
 * Inputs from secret seeds, and what the reference makes of them. Both are made while the compilers work, for all regimes where
 * they fit, else one at a time.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <string.h>

static int64_t bytes_of_regime(const struct judge *j)
{
    int64_t sum = 0;
    for (int t = 0; t < j->op->tensor_count; t++)
        sum += j->tensors[t].bytes + (j->op->tensors[t].role == OP_INPUT ? 0 : j->tensors[t].elements * 8 + j->tensors[t].bytes);
    return sum;
}

void regimes_plan(struct judge *j)
{
    regimes_clear(j);
    j->keep_regimes = bytes_of_regime(j) <= LIMIT_KEEP_BYTES / j->regime_count;
    for (int r = 0; r < j->regime_count; r++)
        j->regimes[r].seed = random_u64();
    /* A poison is a pattern of 64 bits; two that differ in every byte. */
    j->poison[0] = random_u64() | 0x0101010101010101u;
    j->poison[1] = ~j->poison[0];
}

bool regime_make(struct judge *j, int r, struct err *err)
{
    struct judge_regime *g = &j->regimes[r];
    if (g->made)
        return true;
    if (!inputs_make(&j->shape, j->tensors, r, g->seed, g->inputs, err))
        return false;
    g->made = true;
    return true;
}

static bool reference_start(struct judge *j, struct err *err)
{
    if (j->reference.alive)
        return true;
    const char *const paths[] = {j->op->dir, NULL};
    const struct sandbox_paths visible = {.read_only = paths};
    return child_start(&j->watch, SANDBOX_REFERENCE, "operator", &visible, &j->reference, err);
}

static bool reference_shape(struct judge *j, struct err *err)
{
    cleanup(json) json_t *job = judge_job("shape"), *answer = NULL;
    json_put_str(job, "op_dir", j->op->dir);
    json_put(job, "shape", shape_encode(&j->shape));
    return child_ask(&j->watch, &j->reference, job, err)
           && child_take(&j->watch, &j->reference, clock_mono_ns() + LIMIT_START_WALL_NS, &answer, err);
}

static bool ask(struct judge *j, void *const *inputs, double **results, struct err *err)
{
    bool fresh = !j->reference.alive;
    cleanup(json) json_t *job = judge_job("reference"), *answer = NULL;
    if (!reference_start(j, err) || (fresh && !reference_shape(j, err)) || !child_ask(&j->watch, &j->reference, job, err))
        return false;
    for (int t = 0; t < j->op->tensor_count; t++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", t);
        if (j->op->tensors[t].role != OP_OUTPUT && !child_send_blob(&j->reference, name, inputs[t], (size_t)j->tensors[t].bytes, err))
            return false;
    }
    int64_t deadline = clock_mono_ns() + LIMIT_REFERENCE_WALL_NS;
    if (!child_take(&j->watch, &j->reference, deadline, &answer, err))
        return false;
    for (int t = 0; t < j->op->tensor_count; t++) {
        char name[16];
        size_t bytes = (size_t)j->tensors[t].elements * sizeof(double);
        snprintf(name, sizeof name, "r%d", t);
        if (j->op->tensors[t].role == OP_INPUT)
            continue;
        results[t] = xalloc(bytes);
        if (!child_take_blob(&j->watch, &j->reference, deadline, name, results[t], bytes, err))
            return false;
    }
    return true;
}

bool reference_ask(struct judge *j, void *const *inputs, double **results, struct err *err)
{
    struct verdict none = {0};
    double *mine[OP_MAX_TENSORS] = {0};
    if (ask(j, inputs, mine, err)) {
        memcpy(results, mine, sizeof mine);
        return true;
    }
    for (int t = 0; t < OP_MAX_TENSORS; t++)
        free(mine[t]);
    (void)child_end_cause(&j->reference, "reference", &none, err);      /* never a candidate's */
    return false;
}

bool regime_reference(struct judge *j, int r, struct err *err)
{
    struct judge_regime *g = &j->regimes[r];
    if (g->referenced)
        return true;
    if (!regime_make(j, r, err) || !reference_ask(j, g->inputs, g->reference, err))
        return false;
    g->referenced = true;
    return true;
}

static void regime_clear(struct judge *j, int r)
{
    struct judge_regime *g = &j->regimes[r];
    for (int t = 0; t < j->op->tensor_count; t++) {
        free(g->inputs[t]);
        free(g->reference[t]);
        free(g->baseline[t]);
    }
    *g = (struct judge_regime){.seed = g->seed};
}

void regime_release(struct judge *j, int r)
{
    if (!j->keep_regimes)
        regime_clear(j, r);
}

void regimes_clear(struct judge *j)
{
    for (int r = 0; r < j->regime_count; r++)
        regime_clear(j, r);
}

bool prepare_some(struct judge *j, struct err *err)
{
    int count = j->keep_regimes ? j->regime_count : 1;
    for (int r = 0; r < count; r++)
        if (!regime_reference(j, r, err))
            return false;
    return true;
}

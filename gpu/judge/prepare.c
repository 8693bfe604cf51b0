/*
 * Inputs from secret seeds, and what the reference makes of them. Both are made while the compilers work, for all regimes where
 * they fit, else one at a time.
 */
#include "core/clock.h"
#include "core/rng.h"
#include "gpu/judge/crew.h"
#include "gpu/judge/internal.h"
#include "gpu/judge/spare.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t bytes_of_regime(const struct judge *j)
{
    int64_t sum = 0;
    for (int t = 0; t < j->op->tensor_count; t++)
        sum += j->tensors[t].bytes
               + (j->op->tensors[t].role == OP_INPUT ? 0 : j->tensors[t].elements * 8 * op_results(j->op) + j->tensors[t].bytes);
    return sum;
}

/* What this host, or the control group that we are alone in, has; a large number where nobody says. */
static int64_t host_memory_bytes(void)
{
    const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int64_t bytes = pages > 0 && page > 0 ? pages * page : INT64_MAX;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    long long most;
    if (file && fscanf(file, "%18lld", &most) == 1 && most > 0 && most < bytes)
        bytes = most;
    if (file)
        fclose(file);
    return bytes;
}

static int64_t memory_part(void)
{
    const int64_t part = host_memory_bytes() / 16;
    return part < LIMIT_KEEP_CARD_BYTES ? part : LIMIT_KEEP_CARD_BYTES;
}

/*
 * With a card what is kept is made before it is held: what is not kept is made while it waits, a second for a regime of 100 MB. So there as
 * much is kept as a sixteenth of the host allows.
 */
int64_t judge_keep_bytes(const struct judge *j)
{
    const int64_t most = memory_part();
    return j->on_card && most > LIMIT_KEEP_BYTES ? most : LIMIT_KEEP_BYTES;
}

void regimes_plan(struct judge *j)
{
    regimes_clear(j);
    spare_keep(memory_part());
    j->keep_regimes = bytes_of_regime(j) <= judge_keep_bytes(j) / j->regime_count;
    for (int r = 0; r < j->regime_count; r++)
        j->regimes[r].seed = random_u64();
    j->sample_seed = random_u64();
    /* A poison is a pattern of 64 bits; two that differ in every byte. */
    j->poison[0] = random_u64() | 0x0101010101010101u;
    j->poison[1] = ~j->poison[0];
}

bool regime_make(struct judge *j, int r, struct err *err)
{
    struct judge_regime *g = &j->regimes[r];
    if (g->made)
        return true;
    bool ok = true;
    if (j->spare_in.base && !g->in.base) {             /* its pages are there already */
        g->in = j->spare_in;
        j->spare_in = (struct shared)SHARED_NONE;
    } else if (!g->in.base) {
        ok = shared_make(SHARED_INPUTS, j->op, j->tensors, &g->in, err);
    }
    for (int t = 0; t < j->op->tensor_count && ok; t++)
        if (j->op->tensors[t].role != OP_OUTPUT)
            g->inputs[t] = g->in.base + g->in.offsets[t];
    ok = ok && inputs_fill(&j->shape, j->tensors, r, g->seed, g->inputs, err);
    if (ok && j->held.axis >= 0) {
        g->in.rows = xarray((size_t)j->held.count, sizeof *g->in.rows);
        held_rows(&j->held, &j->shape, j->tensors, g->inputs, rng_mix(g->seed), g->in.rows);
    }
    g->made = ok;
    return ok;
}

bool regime_ahead(struct judge *j, int r, struct err *err)
{
    return !j->keep_regimes || r + 1 >= j->regime_count || regime_make(j, r + 1, err);
}

int64_t judge_wall_ns(const struct judge *j, int64_t usual_ns)
{
    double bytes = 0;
    for (int t = 0; t < j->op->tensor_count && j->held.axis < 0; t++)      /* those that are held in part are as small as what is held */
        bytes += (double)j->tensors[t].bytes;
    return usual_ns + (int64_t)(bytes / (double)LIMIT_SLOW_BYTES * 1e9);
}

bool child_shape(struct judge *j, struct child *c, struct shared *out, bool doubles, struct err *err)
{
    cleanup(json) json_t *job = judge_job("shape"), *answer = NULL;
    json_put_str(job, "op_dir", j->operator_folder.dir);
    json_put(job, "shape", shape_encode(&j->shape));
    json_put_bool(job, "doubles", doubles);
    json_put_int(job, "held_axis", j->held.axis);
    json_put_int(job, "held_count", j->held.count);
    if (!out->base && !shared_make(doubles ? SHARED_DOUBLES : SHARED_OUTPUTS, j->op, j->tensors, out, err))
        return false;
    return child_ask(&j->watch, c, job, err) && shared_send(c->process.fd, out, true, err)
           && child_take(&j->watch, c, clock_mono_ns() + judge_wall_ns(j, LIMIT_START_WALL_NS), &answer, err);
}

bool child_inputs(struct judge *j, struct child *c, const struct shared *in, struct err *err)
{
    cleanup(json) json_t *job = judge_job("inputs"), *answer = NULL;
    BUG_ON((in->rows != NULL) != (j->held.axis >= 0));
    return child_ask(&j->watch, c, job, err) && shared_send(c->process.fd, in, false, err)
           && (!in->rows || child_send_blob(c, "rows", in->rows, (size_t)j->held.count * sizeof *in->rows, err))
           && child_take(&j->watch, c, clock_mono_ns() + judge_wall_ns(j, LIMIT_ANSWER_GRACE_NS), &answer, err);
}

static bool reference_start(struct judge *j, struct err *err)
{
    if (j->reference.alive)
        return true;
    const char *const paths[] = {j->operator_folder.dir, NULL};
    const struct sandbox_paths visible = {.read_only = paths};
    return child_start(&j->watch, SANDBOX_REFERENCE, "operator", &visible, NULL, &j->reference, err)
           && canaries_judge(j, err) && child_shape(j, &j->reference, &j->reference_out, true, err);
}

static bool begin(struct judge *j, const struct shared *inputs, struct err *err)
{
    cleanup(json) json_t *job = judge_job("reference");
    return reference_start(j, err) && child_inputs(j, &j->reference, inputs, err) && child_ask(&j->watch, &j->reference, job, err);
}

static bool failed(struct judge *j, struct err *err)
{
    struct verdict none = {0};
    if (err->code == ERR_UNPROCESSABLE)
        child_done(&j->reference);      /* an operator that is refused is no fault of the child's */
    else
        (void)child_end_cause(&j->reference, "reference", &none, err);  /* never a candidate's */
    return false;
}

bool reference_begin(struct judge *j, const struct shared *inputs, struct err *err)
{
    return begin(j, inputs, err) || failed(j, err);
}

bool reference_end(struct judge *j, double **results, struct err *err)
{
    cleanup(json) json_t *answer = NULL;
    if (!child_take(&j->watch, &j->reference, clock_mono_ns() + judge_wall_ns(j, LIMIT_REFERENCE_WALL_NS), &answer, err))
        return failed(j, err);
    for (int t = 0; t < j->op->tensor_count; t++) {
        size_t bytes = (size_t)j->tensors[t].elements * (size_t)op_results(j->op) * sizeof(double);
        if (j->op->tensors[t].role != OP_INPUT)
            crew_copy(results[t] = spare_take(bytes), j->reference_out.base + j->reference_out.offsets[t], bytes);
    }
    return true;
}

bool reference_ask(struct judge *j, const struct shared *inputs, double **results, struct err *err)
{
    return reference_begin(j, inputs, err) && reference_end(j, results, err);
}

bool regime_reference_ask(struct judge *j, int r, struct err *err)
{
    struct judge_regime *g = &j->regimes[r];
    if (g->referenced || g->asked)
        return true;
    if (!regime_make(j, r, err))
        return false;
    g->asked = reference_begin(j, &g->in, err);
    return g->asked;
}

bool regime_reference(struct judge *j, int r, struct err *err)
{
    struct judge_regime *g = &j->regimes[r];
    if (g->referenced)
        return true;
    if (!regime_reference_ask(j, r, err) || !reference_end(j, g->reference, err))
        return false;
    g->asked = false;
    g->referenced = true;
    return true;
}

static void regime_clear(struct judge *j, int r)
{
    struct judge_regime *g = &j->regimes[r];
    for (int t = 0; t < j->op->tensor_count; t++) {
        spare_give(g->reference[t]);
        spare_give(g->baseline[t]);
    }
    free(g->in.rows);
    g->in.rows = NULL;
    if (j->spare_in.base)
        shared_done(&g->in);
    else
        j->spare_in = g->in;
    *g = (struct judge_regime){.seed = g->seed, .in = SHARED_NONE};
}

void regime_used(struct judge *j, int r)
{
    struct judge_regime *g = &j->regimes[r];
    for (int t = 0; t < j->op->tensor_count; t++) {
        spare_give(g->reference[t]);
        spare_give(g->baseline[t]);
        g->reference[t] = NULL, g->baseline[t] = NULL;
    }
    g->referenced = g->baseline_ran = false;
    if (!j->keep_regimes || r > 0)      /* the typical one is what is timed */
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
    for (int r = 0; r < count && compilers_busy(j); r++)
        if (!regime_reference(j, r, err))
            return false;
    return true;
}

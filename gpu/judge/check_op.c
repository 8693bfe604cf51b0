/*
 * Whether an operator can be judged by. The canaries run where the reference does, in its sandboxed child; nothing of a candidate
 * has been there. A judgement asks for the dtypes that it is about; judge_check_op for all of them, and with what the operator's
 * baseline gives.
 */
#include "core/clock.h"
#include "gpu/judge/canary.h"
#include "gpu/judge/internal.h"

#include <string.h>

#define MAX_CHOICES 32

struct sets { const struct op *op; void *list[INPUTS_MAX_REGIMES][OP_MAX_TENSORS]; };

static void sets_done(struct sets *s)
{
    for (int r = 0; r < INPUTS_MAX_REGIMES; r++)
        inputs_free(s->op, s->list[r]);
}
DEFINE_CLEANUP(sets, struct sets, sets_done(it))

static json_t *canary_job(const char *op_dir, const struct shape *s, bool all, bool with_baseline)
{
    json_t *job = judge_job("canaries");
    json_put_str(job, "op_dir", op_dir);
    json_put(job, "shape", shape_encode(s));
    json_put_bool(job, "all", all);
    json_put_bool(job, "baseline", with_baseline);
    return job;
}

/* Its answer. A reference that does not end is the operator's fault; for others there is no text here. */
static bool take_answer(const struct judge_config *config, struct child_watch *w, struct child *c, const struct op *op, json_t **ret, struct err *err)
{
    const int64_t limit_ns = config->canaries_wall_ns ? config->canaries_wall_ns : LIMIT_CANARIES_WALL_NS;
    if (child_take(w, c, clock_mono_ns() + limit_ns, ret, err))
        return true;
    if (err->code == ERR_TIMEOUT)
        err_set(err, ERR_UNPROCESSABLE, "operator %s: its reference did not end within %.3g s, at a small shape, all regimes together: is there a loop without an end?",
                op->name, (double)limit_ns * 1e-9);
    return false;
}

static bool refused(const json_t *answer, struct err *err)
{
    cleanup(buf) struct buf clean = {.limit = 480};
    const char *text = json_str(answer, "text", "");
    if (json_bool(answer, "passed", false))
        return false;
    utf8_clean(&clean, text, strlen(text));
    err_set(err, ERR_UNPROCESSABLE, "%s", buf_cstr(&clean));
    return true;
}

bool canaries_judge(struct judge *j, struct err *err)
{
    struct shape s;
    cleanup(json) json_t *job = NULL, *answer = NULL;
    if (j->canaries)
        return true;
    if (!canary_shape(j->op, j->shape.dtypes, &s, err))
        return false;
    job = canary_job(j->operator_folder.dir, &s, false, false);
    if (!child_ask(&j->watch, &j->reference, job, err) || !take_answer(j->config, &j->watch, &j->reference, j->op, &answer, err) || refused(answer, err))
        return false;
    j->canaries = json_object();
    json_put_int(j->canaries, "caught", json_int(answer, "caught", 0));
    json_put_int(j->canaries, "skipped", json_int(answer, "skipped", 0));
    json_put(j->canaries, "shape", shape_encode(&s));
    return true;
}

/* ---- all of an operator ---- */

static bool run_baseline(const struct judge_config *config, const struct shape *s, const struct tensor *tensors, struct sets *outputs, struct err *err)
{
    cleanup(sets) struct sets inputs = {.op = s->op};
    int regimes = inputs_regime_count(s->op);
    for (int r = 0; r < regimes; r++) {
        if (!canary_inputs(s, tensors, r, inputs.list[r], err))
            return false;
        for (int t = 0; t < s->op->tensor_count; t++)
            if (tensors[t].spec->role != OP_INPUT)
                outputs->list[r][t] = xalloc((size_t)tensors[t].bytes + 8);
    }
    return judge_baseline_outputs(config, s, regimes, inputs.list, outputs->list, err);
}

static bool send_baseline(struct child *c, const struct shape *s, const struct tensor *tensors, const struct sets *outputs, struct err *err)
{
    for (int r = 0; r < inputs_regime_count(s->op); r++)
        for (int t = 0; t < s->op->tensor_count; t++) {
            char name[32];
            snprintf(name, sizeof name, "%d.%d", r, t);
            if (tensors[t].spec->role != OP_INPUT && !child_send_blob(c, name, outputs->list[r][t], (size_t)tensors[t].bytes, err))
                return false;
        }
    return true;
}

static bool one_child(const struct judge_config *config, struct child_watch *w, const char *op_dir, const struct shape *s, const struct tensor *tensors, const struct sets *outputs,
                      json_t **ret, struct err *err)
{
    const char *const paths[] = {op_dir, NULL};
    const struct sandbox_paths visible = {.read_only = paths};
    cleanup(child) struct child c = {0};
    struct verdict none = {0};
    cleanup(json) json_t *job = canary_job(op_dir, s, true, true);
    if (!child_start(w, SANDBOX_REFERENCE, "operator", &visible, NULL, &c, err))
        return false;
    if (child_ask(w, &c, job, err) && send_baseline(&c, s, tensors, outputs, err)
        && take_answer(config, w, &c, s->op, ret, err))
        return true;
    if (err->code == ERR_UNPROCESSABLE)
        return false;
    bool began = c.greeted;
    (void)child_end_cause(&c, "canaries", &none, err);
    if (began && err->code != ERR_CONFLICT)
        err->code = ERR_UNPROCESSABLE;          /* it is the reference that crashed, gave no number or took too long */
    return false;
}

/* Outputs are written whole: a least work below that makes the roofline a floor that any figure passes. */
static bool least_work(const struct shape *s, const struct tensor *tensors, struct err *err)
{
    int64_t bytes, flops, written = 0;
    if (!shape_work(s, &bytes, &flops, err))
        return false;
    for (int t = 0; t < s->op->tensor_count; t++)
        if (tensors[t].spec->role == OP_OUTPUT)
            written += tensors[t].elements * dtype_bytes(tensors[t].dtype);
    return (bytes > 0 && bytes >= written) ||
           err_set(err, ERR_UNPROCESSABLE, "operator %s: its least bytes are %lld where its outputs alone have %lld: \"bytes\" counts all that must be read and written",
                   s->op->name, (long long)bytes, (long long)written);
}

/* *ret_where: what is at fault where this fails with ERR_UNPROCESSABLE. */
static bool one_choice(const struct judge_config *config, struct child_watch *w, const char *op_dir, const struct op *op, const enum dtype *dtypes,
                       json_t **ret, const char **ret_where, struct err *err)
{
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    cleanup(sets) struct sets outputs = {.op = op};
    *ret_where = "/op";
    if (!canary_shape(op, dtypes, &s, err) || !shape_tensors(&s, tensors, err) || !least_work(&s, tensors, err))
        return false;
    *ret_where = "/baseline";
    if (!run_baseline(config, &s, tensors, &outputs, err))
        return false;
    *ret_where = "/reference";
    if (!one_child(config, w, op_dir, &s, tensors, &outputs, ret, err))
        return false;
    *ret_where = json_bool(*ret, "baseline_right", true) ? "/op" : "/baseline";
    return true;
}

bool judge_check_op(const struct judge_config *config, const struct op *op, json_t **ret, const char **ret_where, struct err *err)
{
    const char *where = "/op";
    if (!ret_where)
        ret_where = &where;
    *ret_where = where;
    enum dtype choices[MAX_CHOICES][OP_MAX_DTYPES];
    struct child_watch w = {.level_needed = config->sandbox_minimum && *config->sandbox_minimum ? config->sandbox_minimum : "none",
                            .idle_since_ns = clock_mono_ns()};
    cleanup(stage) struct stage folder = {.copied = false};
    if (!inputs_check(op, err) || !compare_check(op, err) || !stage_operator(op->dir, &folder, err))
        return false;
    int count = canary_dtype_choices(op, choices, MAX_CHOICES);
    int64_t caught = 0, skipped = 0;
    bool passed = true;
    json_t *list = json_array();
    cleanup(json) json_t *doc = json_pack("{s:s,s:i,s:s,s:o}", "op", op->name, "version", op->version, "digest", op->digest.text, "shapes", list);
    for (int i = 0; i < count && passed; i++) {
        cleanup(json) json_t *answer = NULL;
        if (!one_choice(config, &w, folder.dir, op, choices[i], &answer, ret_where, err))
            return false;
        caught += json_int(answer, "caught", 0);
        skipped += json_int(answer, "skipped", 0);
        json_array_append(list, json_object_get(answer, "report"));
        passed = !refused(answer, err);
    }
    json_put_int(doc, "caught", caught);
    json_put_int(doc, "skipped", skipped);
    *ret = steal(&doc);
    return passed;
}

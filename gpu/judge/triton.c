/*
 * A Triton side's compiler, seen from the supervisor: which python, a child of its own, and what of its answer is whose fault. The PTX
 * then goes the way of all PTX; what Triton says of its kernel goes into the plan, where it is checked as a plan is.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"
#include "gpu/judge/python.h"

#include <signal.h>
#include <string.h>

void triton_done(struct judge_side *s)
{
    child_done(&s->triton);
    json_decref(s->triton_request);
    json_decref(s->triton_made);
    s->triton_request = s->triton_made = NULL;
}

static bool find(struct judge *j, struct err *err)
{
    if (!j->python)
        j->python = xalloc(sizeof *j->python);
    return j->python->program || python_find(j->config->python, j->python, err);
}

bool triton_start(struct judge *j, struct judge_side *s, struct err *err)
{
    const char *paths[PYTHON_MAX_PATHS + 2];
    int count = 0;
    if (!find(j, err))
        return false;
    paths[count++] = j->python->program;
    for (int i = 0; i < j->python->count; i++)
        paths[count++] = j->python->paths[i];
    paths[count] = NULL;
    const struct sandbox_paths visible = {.read_only = paths};
    cleanup(json) json_t *job = judge_job("triton"), *request = json_copy(s->triton_request);
    json_put_int(request, "arch", atoi(j->shape.target + 3));
    json_put_str(job, "python", j->python->program);
    json_put_str(job, "source", s->candidate.source);
    json_put(job, "request", json_incref(request));
    json_put_int(job, "wall_ns", triton_wall_ns(j));
    return child_start(&j->watch, SANDBOX_TRITON, s->name, &visible, NULL, &s->triton, err) && child_ask(&j->watch, &s->triton, job, err);
}

int64_t triton_wall_ns(const struct judge *j)
{
    return j->config->compile_cpu_seconds ? j->config->compile_cpu_seconds * 2 * LIMIT_SECOND : LIMIT_TRITON_WALL_NS;
}

static const char *last_line(const char *log, char *to, size_t size)
{
    const char *at = NULL;
    for (const char *p = log; (p = strstr(p, "error: ")); p++)
        if (p == log || p[-1] == '\n')
            at = p;
    snprintf(to, size, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
    cleanup(buf) struct buf clean = {0};
    utf8_clean(&clean, to, strlen(to));
    snprintf(to, size, "%s", buf_cstr(&clean));
    return to;
}

/* What of the answer, read as an enemy's, is whose fault. True with v OK: there is PTX, and `made` is filled in. */
static bool settle(struct judge *j, struct judge_side *s, const json_t *answer, struct verdict *v, struct err *err)
{
    const char *end = json_str(answer, "end", ""), *log = json_str(answer, "log", "");
    int64_t code = json_int(answer, "code", 0), cpu_ns = json_int(answer, "cpu_ns", 0), limit_ns = s->triton.limits.cpu_seconds * LIMIT_SECOND;
    bool exited = strcmp(end, "exit") == 0, cpu = strcmp(end, "signal") == 0 && (code == SIGXCPU || (code == SIGKILL && cpu_ns >= limit_ns * 9 / 10));
    char line[300], why[400];
    if (!json_bool(answer, "began", false))
        return err_set(err, ERR_UNAVAILABLE, "Triton of python %.100s does not come up in the sandbox (%s %lld): %.200s", j->python->program, end,
                       (long long)code, log[0] ? log : "it wrote nothing");
    if (strcmp(end, "wall") == 0 || cpu) {
        verdict_set(v, VERDICT_TIMEOUT, "compile", "compiling it did not end (at most %.0f s, %.0f s of CPU time)",
                    (double)triton_wall_ns(j) * 1e-9, (double)limit_ns * 1e-9);
        return true;
    }
    if (!exited && code == SIGKILL)
        return err_set(err, ERR_UPSTREAM, "the python that compiled the %s was killed", s->name);
    if (json_bool(answer, "too_large", false)) {
        verdict_set(v, VERDICT_RESOURCE_LIMIT, "compile", "more than %lld bytes of PTX", (long long)LIMIT_PTX_BYTES);
        return true;
    }
    if (!json_bool(answer, "ok", false)) {
        last_line(log, line, sizeof line);
        verdict_set(v, VERDICT_COMPILE_ERROR, "compile", "%s", line[0] ? line : exited ? "the source ended the compiler without a reason" : "the source made the compiler crash");
        v->detail = json_object();
        json_put_str(v->detail, "log", log);
        return true;
    }
    if (memchr(s->ptx.data, 0, s->ptx.size) || !utf8_valid(s->ptx.data, s->ptx.size)) {
        verdict_set(v, VERDICT_COMPILE_ERROR, "compile", "what it gave as PTX is no text");
        return true;
    }
    s->triton_made = json_incref(json_object_get(answer, "made"));
    if (json_is_object(s->triton_made)) {       /* by whom, for the certificate */
        json_put_str(s->triton_made, "version", j->python->triton);
        json_put_str(s->triton_made, "python", j->python->version);
    }
    if (!plan_take_triton(&s->plan, s->triton_made, why, sizeof why))
        verdict_set(v, VERDICT_REJECTED_PLAN, "compile", "%s", why);
    return true;
}

static void plan_again(struct judge *j, struct judge_side *s)
{
    json_decref(s->plan_doc);
    s->plan_doc = plan_encode(&s->plan, &j->shape);
}

bool triton_take(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    int64_t deadline = clock_mono_ns() + triton_wall_ns(j) + LIMIT_ANSWER_GRACE_NS;
    cleanup(json) json_t *answer = NULL;
    if (!s->triton.alive && !triton_start(j, s, err))
        return false;
    if (!child_take(&j->watch, &s->triton, deadline, &answer, err)
        || (json_bool(answer, "ok", false)
            && !child_take_blob_buf(&j->watch, &s->triton, deadline, "kernel.ptx", (size_t)LIMIT_PTX_BYTES, &s->ptx, err)))
        return side_child_failed(j, s, &s->triton, "compile", v, err);
    free(s->log);
    s->log = xstrdup(json_str(answer, "log", ""));
    bool ok = settle(j, s, answer, v, err);
    child_done(&s->triton);
    if (!ok)
        return false;
    if (v->code == VERDICT_OK)
        plan_again(j, s);
    return side_verdict(j, s, v, err);
}

bool triton_known(struct judge *j, struct judge_side *s, struct err *err)
{
    char why[400];
    const json_t *made = json_object_get(j->task, "baseline_triton");
    if (!plan_take_triton(&s->plan, made, why, sizeof why))
        return err_set(err, ERR_INVALID, "the task's baseline_triton: %s", why);
    s->triton_made = json_incref((json_t *)(uintptr_t)made);
    plan_again(j, s);
    return true;
}

/* Compile and assemble: a child each side, asked at once, so that two compilers and the reference work side by side. */
#include "core/clock.h"
#include "gpu/judge/compile_log.h"
#include "gpu/judge/internal.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

static json_t *toolkit_encode(const struct toolkit_paths *t)
{
    json_t *doc = json_object();
    json_put_str(doc, "home", t->home);
    json_put_str(doc, "nvrtc", t->nvrtc);
    json_put_str(doc, "builtins", t->builtins);
    json_put_str(doc, "nvjitlink", t->nvjitlink);
    json_put_str(doc, "include", t->include);
    json_put_str(doc, "version", t->version);
    return doc;
}

bool compile_start(struct judge *j, struct judge_side *s, struct err *err)
{
    const char *const paths[] = {j->toolkit.include, j->toolkit.nvrtc, j->toolkit.builtins, j->toolkit.nvjitlink, NULL};
    const struct sandbox_paths visible = {.read_only = paths};
    s->compile_asked = false;
    return child_start(&j->watch, SANDBOX_COMPILE, s->name, &visible, NULL, &s->compile, err);
}

static bool compile_ask(struct judge *j, struct judge_side *s, struct err *err)
{
    cleanup(json) json_t *job = judge_job("compile");
    json_put(job, "toolkit", toolkit_encode(&j->toolkit));
    json_put_str(job, "source", s->candidate.source);
    json_put_str(job, "target", j->shape.target);
    json_put_str(job, "options", buf_cstr(&s->options));
    if (!child_ask(&j->watch, &s->compile, job, err))
        return false;
    s->compile_asked = true;
    return true;
}

bool compilers_busy(const struct judge *j)
{
    for (int i = 0; i < SIDES; i++) {
        const struct judge_side *s = &j->sides[i];
        const struct child *c = s->triton.asked ? &s->triton : s->compile_asked ? &s->compile : NULL;
        if (c && poll(&(struct pollfd){.fd = c->process.fd, .events = POLLIN}, 1, 0) == 0)
            return true;
    }
    return false;
}

static void log_verdict(struct verdict *v, enum verdict_code code, const char *phase, const char *log)
{
    char line[300];
    compile_log_first_error(log, line, sizeof line);
    verdict_set(v, code, phase, "%s", line[0] ? line : "the compiler gave no reason");
    v->detail = json_object();
    json_put_str(v->detail, "log", log);
}

static bool take_compiled(struct judge *j, struct judge_side *s, json_t **ret, struct err *err)
{
    int64_t deadline = clock_mono_ns() + LIMIT_COMPILE_WALL_NS;
    cleanup(json) json_t *answer = NULL;
    if (!child_take(&j->watch, &s->compile, deadline, &answer, err))
        return false;
    if (json_bool(answer, "ok", false)
        && !child_take_blob_buf(&j->watch, &s->compile, deadline, "kernel.ptx", (size_t)LIMIT_PTX_BYTES, &s->ptx, err))
        return false;
    *ret = steal(&answer);
    return true;
}

/* A signal of its own making. SIGKILL comes from elsewhere: an administrator, or a host out of memory. */
static bool crashed_itself(int signal_number)
{
    return signal_number == SIGSEGV || signal_number == SIGABRT || signal_number == SIGBUS || signal_number == SIGILL
           || signal_number == SIGFPE;
}

bool compile_take(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    const char *known = side_is_judged(j, s) ? NULL : json_str(j->task, "baseline_ptx", NULL);
    if (known) {
        /* The caller keeps what an earlier judgement of this baseline, for this shape, compiled: the same trust as in its source. */
        buf_add(&s->ptx, known, strlen(known));
        return s->candidate.language != LANGUAGE_TRITON || triton_known(j, s, err);
    }
    if (s->candidate.language == LANGUAGE_PTX) {
        if ((int64_t)s->candidate.source_bytes > LIMIT_PTX_BYTES)
            verdict_set(v, VERDICT_RESOURCE_LIMIT, "compile", "%zu bytes of PTX, at most %lld",
                        s->candidate.source_bytes, (long long)LIMIT_PTX_BYTES);
        else
            buf_add(&s->ptx, s->candidate.source, s->candidate.source_bytes);
        return side_verdict(j, s, v, err);
    }
    if (s->candidate.language == LANGUAGE_TRITON)
        return triton_take(j, s, v, err);
    cleanup(json) json_t *answer = NULL;
    struct err why = {0};
    for (int attempt = 0; !answer; attempt++) {
        bool ok = (s->compile.alive || compile_start(j, s, &why)) && (s->compile_asked || compile_ask(j, s, &why))
                  && take_compiled(j, s, &answer, &why);
        if (ok)
            break;
        if (side_child_failed(j, s, &s->compile, "compile", v, &why))
            return true;
        /* A compiler that dies on the same source twice dies of the source. */
        bool again = s->compile.status.end == SANDBOX_SIGNALLED && why.code != ERR_CONFLICT;
        int signal_number = s->compile.status.code;
        child_done(&s->compile);
        if (!again || attempt == 1) {
            if (!again || !side_is_judged(j, s) || !crashed_itself(signal_number))
                return err_set(err, why.code, "%s", why.text);
            verdict_set(v, VERDICT_COMPILE_ERROR, "compile",
                        "the compiler itself crashed on this source, twice (signal %d)", signal_number);
            return true;
        }
    }
    free(s->log);
    s->log = xstrdup(json_str(answer, "log", ""));
    if (!json_bool(answer, "ok", false))
        log_verdict(v, VERDICT_COMPILE_ERROR, "compile", s->log);
    else if (!s->ptx.size)
        return err_set(err, ERR_UPSTREAM, "the compile child of the %s gave empty PTX", s->name);
    return side_verdict(j, s, v, err);
}

bool assemble_start(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    if (!s->compile.alive && !compile_start(j, s, err))
        return false;
    cleanup(json) json_t *job = judge_job("assemble");
    json_put(job, "toolkit", toolkit_encode(&j->toolkit));
    json_put_str(job, "target", j->shape.target);
    json_put_int(job, "maxrregcount", s->candidate.maxrregcount);
    if (!child_ask(&j->watch, &s->compile, job, err)
        || !child_send_blob(&s->compile, "kernel.ptx", s->ptx.data, s->ptx.size, err))
        return side_child_failed(j, s, &s->compile, "assemble", v, err);
    s->assemble_asked = true;
    return true;
}

static bool take_kernels(struct judge_side *s, const json_t *list, struct err *err)
{
    s->kernel_count = 0;
    for (size_t i = 0; i < json_array_size(list) && i < sizeof s->kernels / sizeof *s->kernels; i++) {
        const json_t *doc = json_array_get(list, i);
        struct judge_kernel *k = &s->kernels[s->kernel_count++];
        *k = (struct judge_kernel){.registers = (int)json_int(doc, "registers", -1),
                                   .spill_bytes = (int)json_int(doc, "spill_bytes", 0),
                                   .shared_bytes = json_int(doc, "shared_bytes", -1),
                                   .local_bytes = json_int(doc, "local_bytes", 0)};
        snprintf(k->name, sizeof k->name, "%s", json_str(doc, "kernel", ""));
        if (k->registers < 0 || k->registers > 255 || k->shared_bytes < 0 || k->shared_bytes > (1 << 20)
            || k->local_bytes < 0 || k->local_bytes > (1 << 30))
            return err_set(err, ERR_UPSTREAM, "the compile child of the %s reports impossible resources for %.60s",
                           s->name, k->name);
    }
    return true;
}

static const struct judge_kernel *kernel_of(const struct judge_side *s, const char *name)
{
    for (int i = 0; i < s->kernel_count; i++)
        if (strcmp(s->kernels[i].name, name) == 0)
            return &s->kernels[i];
    return NULL;
}

/* The figures of each launch of the plan, and whether a block of it fits a multiprocessor at all. */
static void take_resources(struct judge *j, struct judge_side *s, struct verdict *v)
{
    const struct ptx_device_row *row = ptx_device_find(j->shape.target);
    json_decref(s->resources);
    s->resources = json_array();
    for (int i = 0; i < s->plan.step_count; i++) {
        const struct plan_step *step = &s->plan.steps[i];
        if (step->is_memset)
            continue;
        const struct judge_kernel *k = kernel_of(s, step->kernel);
        if (!k) {
            verdict_set(v, VERDICT_REJECTED_PLAN, "assemble",
                        "step %d launches %.80s, which the assembled code does not have", i, step->kernel);
            return;
        }
        int64_t threads = (int64_t)step->block[0] * step->block[1] * step->block[2], warps = (threads + 31) / 32;
        int64_t registers = warps * 32 * ((k->registers + 7) / 8 * 8), shared = k->shared_bytes + step->shared_bytes;
        if (row && (registers > row->registers_sm || shared > row->shared_bytes_block)) {
            verdict_set(
                v, VERDICT_RESOURCE_LIMIT, "assemble",
                "a block of %.80s needs %lld registers and %lld bytes of shared memory; a multiprocessor has %d and %u",
                step->kernel, (long long)registers, (long long)shared, row->registers_sm, row->shared_bytes_block);
            return;
        }
        if (row && k->local_bytes * row->max_threads_sm * row->sm_count > LIMIT_STACK_BYTES) {
            verdict_set(v, VERDICT_RESOURCE_LIMIT, "assemble",
                        "a thread of %.80s needs %lld bytes of stack: %lld MiB for all threads that a card can hold, at most %lld", step->kernel,
                        (long long)k->local_bytes, (long long)(k->local_bytes * row->max_threads_sm * row->sm_count / LIMIT_MIB),
                        (long long)(LIMIT_STACK_BYTES / LIMIT_MIB));
            return;
        }
        json_t *doc = json_object();
        json_put_str(doc, "kernel", k->name);
        json_put_int(doc, "registers", k->registers);
        json_put_int(doc, "shared_bytes", k->shared_bytes);
        json_put_int(doc, "dynamic_shared_bytes", step->shared_bytes);
        json_put_int(doc, "local_bytes", k->local_bytes);
        json_put_int(doc, "spill_bytes", k->spill_bytes);
        json_array_append_new(s->resources, doc);
    }
}

bool assemble_take(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *answer = NULL;
    int64_t deadline = clock_mono_ns() + LIMIT_COMPILE_WALL_NS;
    if (!child_take(&j->watch, &s->compile, deadline, &answer, err))
        return side_child_failed(j, s, &s->compile, "assemble", v, err);
    if (!json_bool(answer, "ok", false)) {
        log_verdict(v, VERDICT_COMPILE_ERROR, "assemble", json_str(answer, "log", ""));
        return side_verdict(j, s, v, err);
    }
    if (!child_take_blob_buf(&j->watch, &s->compile, deadline, "kernel.cubin", (size_t)LIMIT_CUBIN_BYTES, &s->cubin, err))
        return side_child_failed(j, s, &s->compile, "assemble", v, err);
    child_done(&s->compile);
    if (!take_kernels(s, json_object_get(answer, "kernels"), err))
        return false;
    take_resources(j, s, v);
    return side_verdict(j, s, v, err);
}

/* ---- phases ---- */

static bool needs_compiler(const struct judge *j, const struct judge_side *s)
{
    return s->candidate.language != LANGUAGE_PTX && (side_is_judged(j, s) || !json_str(j->task, "baseline_ptx", NULL));
}

bool phase_compile(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *mine = &j->sides[CANDIDATE], *base = &j->sides[BASELINE];
    /* The candidate's compiler was started with the judgement and is asked before anything else competes for the processors. */
    for (int i = 0; i < SIDES; i++) {
        struct judge_side *s = &j->sides[i];
        struct err why = {0};
        if (!s->present)
            continue;
        if (!s->compile.alive && !compile_start(j, s, err))
            return false;
        if (!needs_compiler(j, s))
            continue;
        if (s->candidate.language == LANGUAGE_TRITON) {
            if (!triton_start(j, s, err))
                return false;
            continue;
        }
        if (compile_ask(j, s, &why))
            continue;
        if (why.code != ERR_UPSTREAM)
            return err_set(err, why.code, "%s", why.text);
        child_done(&s->compile);        /* it died before it began: compile_take starts another */
    }
    /* What runs later starts now, and the compilers' time is spent on inputs and the reference. */
    if (!run_start(j, mine, SANDBOX_RUN_SIM, err) || (base->present && !run_start(j, base, SANDBOX_RUN_SIM, err)))
        return false;
    if (!prepare_some(j, err))
        return false;
    STEP(compile_take(j, mine, v, err));
    STEP(assemble_start(j, mine, v, err));
    if (base->present) {
        STEP(compile_take(j, base, v, err));
        STEP(assemble_start(j, base, v, err));
    }
    json_put_int(j->phase, "ptx_bytes", (int64_t)mine->ptx.size);
    return true;
}

bool phase_assemble(struct judge *j, struct verdict *v, struct err *err)
{
    STEP(assemble_take(j, &j->sides[CANDIDATE], v, err));
    if (j->sides[BASELINE].present)
        STEP(assemble_take(j, &j->sides[BASELINE], v, err));
    json_put_int(j->phase, "cubin_bytes", (int64_t)j->sides[CANDIDATE].cubin.size);
    json_put(j->phase, "resources", json_incref(j->sides[CANDIDATE].resources));
    return true;
}

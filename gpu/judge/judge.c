/*
 * Theory: the phases are a table, run in order until one gives a verdict. Children are started early (compilers first, then what
 * runs), so that their start-up and the compilers' work hide behind each other; each is asked in its phase. Everything that a
 * verdict rests on, seeds, expected results, wait status and clock, is in this process.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"
#include "gpu/judge/spare.h"
#include "gpu/judge/python.h"

#include <math.h>
#include <signal.h>
#include <string.h>

static const struct { const char *name; judge_phase *run; enum judge_mode least; } phases[] = {
    {"admit", phase_admit, MODE_TRIAGE},
    {"compile", phase_compile, MODE_TRIAGE},
    {"scan", phase_scan, MODE_TRIAGE},
    {"emulate", phase_emulate, MODE_TRIAGE},
    {"assemble", phase_assemble, MODE_TRIAGE},
    {"correct", phase_correct, MODE_TRIAGE},
    {"probe", phase_probe, MODE_TRIAGE},
    {"time", phase_time, MODE_TRIAGE},
    {"audit", phase_audit, MODE_FULL},
    {"plausible", phase_plausible, MODE_TRIAGE},
    {"range", phase_range, MODE_FULL},
    {"retest", phase_retest, MODE_RETEST},
};

void judge_result_done(struct judge_result *r)
{
    verdict_done(&r->verdict);
    json_decref(r->figures);
    json_decref(r->certificate);
    for (int i = 0; i < r->blob_count; i++)
        buf_done(&r->blobs[i].bytes);
    *r = (struct judge_result){0};
}

json_t *judge_job(const char *what)
{
    json_t *doc = json_object();
    json_put_str(doc, "do", what);
    return doc;
}

/* ---- whose fault ---- */

bool side_verdict(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    if (v->code == VERDICT_OK || side_is_judged(j, s))
        return true;
    err_set(err, ERR_INTERNAL, "the baseline did not pass %s: %s: %s", v->phase, verdict_name(v->code), v->text);
    return false;
}

bool side_child_failed(struct judge *j, struct judge_side *s, struct child *c, const char *phase, struct verdict *v,
                       struct err *err)
{
    if (!child_end_cause(c, phase, v, err))
        return false;
    /* A neighbour on the card, or a sick card, makes anybody slow. */
    return !(v->code == VERDICT_TIMEOUT && c->role == SANDBOX_RUN_CUDA && card_excuses(j, err)) && side_verdict(j, s, v, err);
}

/* ---- beginning and end ---- */

static void side_done(struct judge_side *s)
{
    child_done(&s->compile);
    child_done(&s->run);
    triton_done(s);
    candidate_done(&s->candidate);
    json_decref(s->plan_doc);
    json_decref(s->resources);
    json_decref(s->info);
    json_decref(s->counts);
    json_decref(s->lines);
    json_decref(s->stores);
    json_decref(s->estimate_terms);
    buf_done(&s->options);
    buf_done(&s->ptx);
    buf_done(&s->cubin);
    free(s->log);
    shared_done(&s->out);
    for (int t = 0; t < OP_MAX_TENSORS; t++)
        free(s->outputs[t]);
    sampled_forget(s);
}

void judge_free(struct judge *j)
{
    card_release(j);
    json_decref(j->ended);
    json_decref(j->watch.card_spent);
    for (int i = 0; i < SIDES; i++)
        side_done(&j->sides[i]);
    child_done(&j->reference);
    shared_done(&j->reference_out);
    shared_done(&j->scratch_in);
    if (j->op)
        regimes_clear(j);
    shared_done(&j->spare_in);
    measure_forget(j);
    for (int t = 0; t < OP_MAX_TENSORS; t++) {
        free(j->typical[t]);
        free(j->chain_made[t]);
    }
    spare_keep(0);
    timing_done(&j->timing);
    stage_done(&j->operator_folder);
    if (j->python)
        python_done(j->python);
    free(j->python);
    json_decref(j->calibration);
    json_decref(j->smaller);
    json_decref(j->modes);
    json_decref(j->records);
    json_decref(j->occasions);
    json_decref(j->canaries);
    json_decref(j->figures);
    json_decref(j->phases);
    free(j);
}
struct judge *judge_new(const struct judge_config *config, judge_progress_fn *progress, judge_cancelled_fn *cancelled,
                        void *ctx)
{
    struct judge *j = xalloc(sizeof *j);
    signal(SIGPIPE, SIG_IGN);
    hash_init();
    j->config = config, j->progress = progress, j->ctx = ctx;
    j->watch.cancelled = cancelled, j->watch.ctx = ctx;
    j->card_fd = -1;
    j->started_ns = clock_wall_ns();
    j->began_ns = j->watch.idle_since_ns = clock_mono_ns();
    j->held = (struct held)HELD_NONE;
    j->reference_out = j->scratch_in = j->spare_in = j->sides[CANDIDATE].out = j->sides[BASELINE].out =
        (struct shared)SHARED_NONE;
    for (int r = 0; r < INPUTS_MAX_REGIMES; r++)
        j->regimes[r].in = (struct shared)SHARED_NONE;
    j->figures = json_object();
    j->phases = json_array();
    j->modes = json_object();
    return j;
}

static bool take_shape(struct judge *j, struct err *err)
{
    struct faults f = {0};
    const json_t *doc = json_object_get(j->task, "shape");
    if (!shape_parse(j->config->ops, doc, "", "/shape", &j->shape, &f))
        return err_set(err, ERR_INVALID, "the task's shape: %s: %s", f.list[0].pointer, f.list[0].detail);
    if (!j->exact_axes && !shape_unkey(&j->shape, NULL, err))
        return false;
    j->op = j->shape.op;
    const char *digest = json_str(j->task, "op_digest", NULL);
    if (digest && strcmp(digest, j->op->digest.text) != 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "operator %s is another one here (%.12s) than where the task comes from (%.12s): give both the "
                       "same --ops-dir",
                       j->op->name, j->op->digest.text, digest);
    if (!stage_operator(j->op->dir, &j->operator_folder, err))
        return false;
    if (!inputs_check(j->op, err) || !compare_check(j->op, err) || !shape_tensors(&j->shape, j->tensors, err))
        return false;
    j->regime_count = inputs_regimes_of(&j->shape);
    int64_t total = 0;
    for (int t = 0; t < j->op->tensor_count; t++) {
        total += j->tensors[t].bytes;
        if (j->tensors[t].bytes > LIMIT_TENSOR_BYTES || total > LIMIT_ALL_TENSOR_BYTES)
            return err_set(err, ERR_UNPROCESSABLE,
                           "the shape's tensors are too large to judge here: %s has %lld bytes; at most %lld MiB each "
                           "and %lld MiB in all",
                           j->op->tensors[t].name, (long long)j->tensors[t].bytes,
                           (long long)(LIMIT_TENSOR_BYTES / LIMIT_MIB),
                           (long long)(LIMIT_ALL_TENSOR_BYTES / LIMIT_MIB));
    }
    return true;
}

static bool take_mode(struct judge *j, struct err *err)
{
    static const char *const names[] = {"triage", "full", "retest"};
    const char *mode = json_str(j->task, "mode", "full");
    for (int i = 0; i < 3; i++)
        if (strcmp(names[i], mode) == 0) {
            j->mode = (enum judge_mode)i;
            return true;
        }
    return err_set(err, ERR_INVALID, "mode \"%.20s\" is not triage, full or retest", mode);
}

bool judge_begin(struct judge *j, struct err *err)
{
    j->watch.level_needed =
        j->config->sandbox_minimum && *j->config->sandbox_minimum ? j->config->sandbox_minimum : "none";
    j->watch.compile_cpu_seconds = j->config->compile_cpu_seconds;
    if (!needs_parse(j->config->need, &j->needs, err))
        return false;
    if (level_rank(j->watch.level_needed) < 0)
        return err_set(err, ERR_INVALID, "sandbox minimum \"%.20s\" is not none, limits, filtered or isolated",
                       j->watch.level_needed);
    if (!json_is_object(j->task) || !json_is_object(json_object_get(j->task, "candidate")))
        return err_set(err, ERR_INVALID, "the task is not an object with a shape and a candidate");
    /* A compiler takes longest to come up, and needs neither the shape nor the candidate: it starts before both are read. */
    j->sides[CANDIDATE].name = "candidate", j->sides[BASELINE].name = "baseline";
    return toolkit_find(j->config->cuda_home, &j->toolkit, err) && compile_start(j, &j->sides[CANDIDATE], err) && take_shape(j, err)
           && take_mode(j, err) && cards_find(j, err);
}

static void tell(struct judge *j, const char *phase, const char *state, int64_t ns, const struct verdict *v)
{
    if (!j->progress)
        return;
    cleanup(json) json_t *doc = json_object();
    json_put_str(doc, "phase", phase);
    json_put_str(doc, "state", state);
    json_put_str(doc, "device", j->device);
    if (v) {
        json_put_num(doc, "ms", (double)(ns / 1000) / 1000);
        json_put_str(doc, "verdict", verdict_name(v->code));
    }
    j->progress(j->ctx, doc);
}

void judge_tell_state(const struct judge *j, const char *state)
{
    if (!j->progress)
        return;
    cleanup(json) json_t *doc = json_pack("{s:s,s:s}", "phase", json_str(j->phase, "phase", ""), "state", state);
    j->progress(j->ctx, doc);
}

/*
 * What a judgement of these tensors takes beyond that of a small shape, on a host whose processors others use as well: all regimes are made,
 * worked out, run and compared, in a retest twice over.
 */
static int64_t size_ns(const struct judge *j)
{
    int64_t bytes, flops, tensors = 0;
    struct err none = {0};
    for (int t = 0; t < j->op->tensor_count; t++)
        tensors += j->tensors[t].bytes;
    if (!shape_work(&j->shape, &bytes, &flops, &none))
        flops = 0;
    const double seconds = (double)tensors / (double)LIMIT_SLOW_BYTES + (double)flops / (double)LIMIT_SLOW_FLOPS;
    return (int64_t)(fmin(seconds * j->regime_count * (j->mode == MODE_RETEST ? 2 : 1), 1e6) * 1e9);
}

static void tell_size(const struct judge *j)
{
    if (!j->progress)
        return;
    cleanup(json) json_t *doc = json_pack("{s:s,s:s,s:I}", "phase", "admit", "state", "size", "more_ns", (json_int_t)size_ns(j));
    j->progress(j->ctx, doc);
}

/* What the phase cost the card; drivers' start-up is told apart. */
static void phase_card(struct judge *j, int64_t before_ns)
{
    card_count(j);
    if (!j->on_card)
        return;
    json_put_int(j->phase, "gpu_ns", j->gpu_ns - j->start_up_ns - before_ns);
    if (j->card_held && j->sides[CANDIDATE].info)
        json_put(j->phase, "device", card_identity(j->sides[CANDIDATE].info));
    if (j->watch.card_spent)
        json_put(j->phase, "card_spent_ns", steal(&j->watch.card_spent));
}

static bool run_phases(struct judge *j, struct verdict *v, struct err *err)
{
    for (size_t i = 0; i < sizeof phases / sizeof *phases && v->code == VERDICT_OK; i++) {
        if (j->mode < phases[i].least)
            continue;
        int64_t from = clock_mono_ns(), card_from = j->gpu_ns - j->start_up_ns;
        j->phase = json_object();
        json_array_append_new(j->phases, j->phase);
        json_put_str(j->phase, "phase", phases[i].name);
        tell(j, phases[i].name, "start", 0, NULL);
        if (j->watch.cancelled && j->watch.cancelled(j->ctx))
            return err_set(err, ERR_CONFLICT, "cancelled");
        if (!phases[i].run(j, v, err))
            return false;
        int64_t took = clock_mono_ns() - from;
        json_put(j->phase, "processes", j->ended ? json_incref(j->ended) : processes_encode(j));
        json_decref(j->ended);
        j->ended = NULL;
        json_put_num(j->phase, "ms", (double)(took / 1000) / 1000);
        phase_card(j, card_from);
        tell(j, phases[i].name, "end", took, v);
        if (v->code == VERDICT_OK)
            snprintf(v->phase, sizeof v->phase, "%s", phases[i].name);
    }
    return true;
}

static void take_blob(struct judge_result *r, const char *name, struct buf *from)
{
    if (!from->size)
        return;
    r->blobs[r->blob_count++] = (struct judge_blob){.name = name, .bytes = *from};
    *from = (struct buf){0};
}

/* What the candidate was compared with, as it was written: with the certificate's baseline/program all that is needed to do it again. */
static void add_baseline(struct judge_result *r, const struct judge_side *s)
{
    cleanup(buf) struct buf source = {0};
    if (s->present)
        buf_add(&source, s->candidate.source, s->candidate.source_bytes);
    take_blob(r, "baseline", &source);
}

/* {"start_up":N,"correct":N,...,"let_go":N,"all":N}: what a candidate costs the card. Start-up: of drivers and contexts, of all its processes. */
static json_t *gpu_by_phase(const struct judge *j, int64_t let_go_ns)
{
    json_t *doc = json_object(), *phase;
    size_t i;
    json_array_foreach(j->phases, i, phase)
        if (json_int(phase, "gpu_ns", 0) > 0)
            json_put_int(doc, json_str(phase, "phase", ""), json_int(phase, "gpu_ns", 0));
    json_put_int(doc, "start_up", j->start_up_ns);
    json_put_int(doc, "let_go", let_go_ns);
    json_put_int(doc, "all", j->gpu_ns);
    return doc;
}

static json_t *spent_by_phase(const struct judge *j)
{
    json_t *doc = json_object(), *phase, *spent;
    size_t i;
    json_array_foreach(j->phases, i, phase)
        if ((spent = json_object_get(phase, "card_spent_ns")))
            json_put(doc, json_str(phase, "phase", ""), json_incref(spent));
    return doc;
}

static void finish(struct judge *j, struct verdict *v, struct judge_result *ret)
{
    struct judge_result r = {.figures = NULL};
    card_count(j);
    int64_t used_ns = j->gpu_ns;
    card_release(j);
    if (v->code == VERDICT_OK && !v->text[0])
        snprintf(v->text, sizeof v->text, "%s",
                 !j->sides[BASELINE].present ? "Right."
                 : j->timing.measured        ? "Right, and faster than the baseline."
                                             : "Right, and faster than the baseline by the emulator's estimate; nothing was measured.");
    figures_fill(j);
    if (verdict_is_correct(v->code))
        r.certificate = certificate_make(j, v);
    r.figures = steal(&j->figures);
    r.gpu_ns = j->gpu_ns;
    /* What the judge itself takes: time in which no child compiled, assembled, emulated, computed or measured. */
    int64_t wall_ns = clock_mono_ns() - j->began_ns;
    json_put_int(r.figures, "judge_wall_ns", wall_ns);
    if (j->on_card) {
        json_put(r.figures, "gpu_ns", gpu_by_phase(j, j->gpu_ns - used_ns));
        json_put(r.figures, "card_spent_ns", spent_by_phase(j));
        json_put_int(r.figures, "card_waited_ns", j->card_waited_ns);
    }
    json_put_int(r.figures, "judge_own_ns", child_idle_ns(&j->watch));
    take_blob(&r, "kernel.ptx", &j->sides[CANDIDATE].ptx);
    take_blob(&r, "kernel.cubin", &j->sides[CANDIDATE].cubin);
    add_baseline(&r, &j->sides[BASELINE]);
    r.verdict = *v;
    *v = (struct verdict){0};
    *ret = r;
}

bool judge_run(const struct judge_config *config, const json_t *task, judge_progress_fn *progress,
               judge_cancelled_fn *cancelled, void *ctx, struct judge_result *ret, struct err *err)
{
    cleanup(judge) struct judge *j = judge_new(config, progress, cancelled, ctx);
    cleanup(verdict) struct verdict v = {.code = VERDICT_OK};
    j->task = task;
    if (!judge_begin(j, err))
        return false;
    tell_size(j);
    if (!run_phases(j, &v, err))
        return false;
    finish(j, &v, ret);
    return true;
}

bool judge_devices(const struct judge_config *config, json_t **ret, struct err *err)
{
    cleanup(json) json_t *devices = NULL;
    unsigned layers = 0;
    if (!device_list(&devices, err) || !sandbox_probe(&layers, err))
        return false;
    json_t *doc = json_object(), *sandbox = json_object(), *toolkit = json_object(), *names = json_array();
    static const struct { unsigned bit; const char *name; } bits[] = {{SANDBOX_LIMITS, "limits"},
                {SANDBOX_SECCOMP, "seccomp"},
                {SANDBOX_LANDLOCK, "landlock"},
                {SANDBOX_NAMESPACES, "namespaces"},
                {SANDBOX_CGROUP, "cgroup"}};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        if (layers & bits[i].bit)
            json_array_append_new(names, json_string(bits[i].name));
    json_put_str(sandbox, "level", sandbox_level(layers));
    json_put(sandbox, "layers", names);
    struct toolkit_paths paths;
    struct err missing = {0};
    if (toolkit_find(config->cuda_home, &paths, &missing)) {
        json_put_str(toolkit, "version", paths.version);
        json_put_str(toolkit, "home", paths.home);
    } else {
        json_put(toolkit, "version", json_null());
        json_put_str(toolkit, "missing", missing.text);
    }
    cleanup(python) struct python_paths python = {0};
    json_t *triton = json_object();
    json_put(triton, "version", json_null());
    if (python_find(config->python, &python, &missing)) {
        json_put_str(triton, "version", python.triton);
        json_put_str(triton, "python", python.version);
    } else {
        json_put_str(triton, "missing", missing.text);
    }
    json_put(toolkit, "triton", triton);
    json_put(doc, "devices", steal(&devices));
    json_put(doc, "sandbox", sandbox);
    json_put(doc, "toolkit", toolkit);
    json_put_str(doc, "version", PROTEUS_VERSION);
    *ret = doc;
    return true;
}

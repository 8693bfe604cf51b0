/*
 * The supervisor's end of a run child. What the child reports is taken as data: verdict codes by a table of those that a run can
 * give, figures by their range, outputs by their exact size.
 */
#include "core/clock.h"
#include "core/rng.h"
#include "gpu/judge/crew.h"
#include "gpu/judge/internal.h"
#include "gpu/judge/spare.h"

#include <string.h>

bool run_start(struct judge *j, struct judge_side *s, enum sandbox_role role, struct err *err)
{
    const char *paths[DEVICE_MAX_NEEDS + 6] = {j->operator_folder.dir};
    char beside[2][640];
    cleanup(device_needs) struct device_needs needs = {.env = {0}};
    /* A device of a test needs nothing of the host. */
    if (role == SANDBOX_RUN_CUDA && !j->config->own_device && !device_needs_find(j->device, &needs, err))
        return false;
    int count = 1;
    if (s->audited || s->profiled)
        paths[count++] = j->toolkit.cupti;
    /* What the profiler opens beside itself. */
    static const char *const helpers[] = {"libnvperf_host.so", "libnvperf_target.so"};
    for (int i = 0; i < 2 && s->profiled && role == SANDBOX_RUN_CUDA; i++) {
        const char *slash = strrchr(j->toolkit.cupti, '/');
        snprintf(beside[i], sizeof beside[i], "%.*s/%s", slash ? (int)(slash - j->toolkit.cupti) : 0, j->toolkit.cupti, helpers[i]);
        if (access(beside[i], R_OK) == 0)
            paths[count++] = beside[i];
    }
    for (int i = 0; i < DEVICE_MAX_NEEDS && needs.read_only[i]; i++)
        paths[count++] = needs.read_only[i];
    const struct sandbox_paths visible = {.read_only = paths, .devices = (const char *const *)needs.devices};
    child_done(&s->run);
    s->shaped = s->opened = s->loaded = s->open_asked = s->has_inputs = false;
    return child_start(&j->watch, role, s->name, &visible, (const char *const *)needs.env, &s->run, err);
}

bool fault_take(const json_t *fault, const char *phase, struct verdict *v, struct err *err)
{
    if (!fault || json_is_null(fault))
        return true;
    /* The rest of the table is for the supervisor alone to say. */
    static const enum verdict_code allowed[] = {VERDICT_REJECTED_PLAN,  VERDICT_REJECTED_FORBIDDEN,
                                                VERDICT_COMPILE_ERROR,  VERDICT_UNSUPPORTED_ON_SIM,
                                                VERDICT_WRONG_RESULT,   VERDICT_OUT_OF_BOUNDS,
                                                VERDICT_INPUT_MODIFIED, VERDICT_UNINITIALISED_READ,
                                                VERDICT_RACE,           VERDICT_BARRIER_DIVERGENCE,
                                                VERDICT_MISALIGNED,     VERDICT_STATE_CARRIED,
                                                VERDICT_FAULT,          VERDICT_TIMEOUT,
                                                VERDICT_RESOURCE_LIMIT, VERDICT_NON_DETERMINISTIC};
    enum verdict_code code = VERDICT_OK;
    bool known = verdict_code_parse(json_str(fault, "code", ""), &code), may = false;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        may = may || allowed[i] == code;
    if (!known || !may)
        return err_set(err, ERR_UPSTREAM, "a run child reports \"%.40s\", which is not for it to say",
                       json_str(fault, "code", ""));
    cleanup(buf) struct buf clean = {.limit = 500};
    const char *text = json_str(fault, "text", "");
    utf8_clean(&clean, text, strlen(text));
    verdict_set(v, code, phase, "%s", buf_cstr(&clean));
    const json_t *detail = json_object_get(fault, "detail");
    if (json_is_object(detail))
        v->detail = json_incref((json_t *)(uintptr_t)detail);
    return true;
}

bool run_shape(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    if (!s->shaped && !child_shape(j, &s->run, &s->out, false, err))
        return side_child_failed(j, s, &s->run, "admit", v, err);
    s->shaped = true;
    return true;
}

bool run_prepare_ask(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *job = judge_job("prepare");
    json_put_str(job, "device", j->device);
    return child_ask(&j->watch, &s->run, job, err) || side_child_failed(j, s, &s->run, "admit", v, err);
}

bool run_prepare_take(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *answer = NULL;
    return child_take(&j->watch, &s->run, clock_mono_ns() + LIMIT_CUDA_OPEN_WALL_NS, &answer, err)
           || side_child_failed(j, s, &s->run, "admit", v, err);
}

bool run_open_ask(struct judge *j, struct judge_side *s, const char *device, struct verdict *v, struct err *err)
{
    if (s->opened || s->open_asked)
        return true;
    cleanup(json) json_t *open = judge_job("open");
    STEP(run_shape(j, s, v, err));
    if (s->run.role == SANDBOX_RUN_CUDA && !card_take(j, err))
        return false;
    json_put_str(open, "device", device);
    if (s->audited)
        json_put_str(open, "audit_library", j->toolkit.cupti);
    if (s->profiled)
        json_put_str(open, "profile_library", j->toolkit.cupti);
    if (!child_ask(&j->watch, &s->run, open, err))
        return side_child_failed(j, s, &s->run, "admit", v, err);
    s->open_asked = true;
    return true;
}

/* On sim: which card the figures are of, by the shape's target (the child says what it would be without one). */
static json_t *info_for(const struct judge *j, const json_t *info, const char *device)
{
    const struct ptx_device_row *row = strcmp(device, "sim") == 0 ? ptx_device_find(j->shape.target) : NULL;
    json_t *doc = json_deep_copy(info);
    if (!row)
        return doc;
    cleanup(str) char *name = xfmt("emulator (%s's figures)", row->name);
    json_put_str(doc, "name", name);
    json_put_str(doc, "target", row->target);
    json_put_int(doc, "sm_count", row->sm_count);
    json_put_int(doc, "l2_bytes", (int64_t)row->l2_bytes);
    return doc;
}

bool run_open(struct judge *j, struct judge_side *s, const char *device, struct verdict *v, struct err *err)
{
    if (s->opened)
        return true;
    card_count(j);
    int64_t held_ns = j->gpu_ns;
    cleanup(json) json_t *answer = NULL;
    STEP(run_open_ask(j, s, device, v, err));
    if (!child_take(&j->watch, &s->run, clock_mono_ns() + LIMIT_CUDA_OPEN_WALL_NS, &answer, err))
        return side_child_failed(j, s, &s->run, "admit", v, err);
    const json_t *info = json_object_get(answer, "info");
    if (strcmp(json_str(info, "kind", ""), strcmp(device, "sim") == 0 ? "sim" : "cuda") != 0)
        return err_set(err, ERR_UPSTREAM, "the run child opened another kind of device than %s", device);
    if (s->run.role == SANDBOX_RUN_CUDA && strcmp(json_str(info, "target", ""), j->shape.target) != 0)
        return err_set(err, ERR_UNPROCESSABLE, "the shape is for %s and %s is %s", j->shape.target, device,
                       json_str(info, "target", "?"));
    if (s->run.role == SANDBOX_RUN_CUDA && !needs_memory(j, info, err))
        return false;
    json_decref(s->info);
    s->info = info_for(j, info, device);
    s->opened = true;
    card_count(j);
    j->start_up_ns += j->gpu_ns - held_ns;
    return true;
}

bool run_scan(struct judge *j, struct judge_side *s, json_t **ret, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *job = judge_job("scan"), *declares = json_object();
    json_put_bool(declares, "atomics", s->candidate.atomics);
    json_put_bool(declares, "cooperative", s->candidate.cooperative);
    json_put_bool(declares, "cache_hints", s->candidate.cache_hints);
    json_put(job, "declares", json_incref(declares));
    if (!child_ask(&j->watch, &s->run, job, err) || !child_send_blob(&s->run, "kernel.ptx", s->ptx.data, s->ptx.size, err)
        || !child_take(&j->watch, &s->run, clock_mono_ns() + LIMIT_RUN_WALL_NS, ret, err))
        return side_child_failed(j, s, &s->run, "scan", v, err);
    return true;
}

bool run_load(struct judge *j, struct judge_side *s, bool with_cubin, const char *phase, struct verdict *v,
              struct err *err)
{
    cleanup(json) json_t *job = judge_job("load"), *answer = NULL;
    json_put(job, "plan", json_incref(s->plan_doc));
    json_put(job, "resources", s->resources ? json_incref(s->resources) : json_null());
    json_put_bool(job, "cubin", with_cubin);
    if (!child_ask(&j->watch, &s->run, job, err) || !child_send_blob(&s->run, "kernel.ptx", s->ptx.data, s->ptx.size, err)
        || (with_cubin && !child_send_blob(&s->run, "kernel.cubin", s->cubin.data, s->cubin.size, err))
        || !child_take(&j->watch, &s->run, clock_mono_ns() + LIMIT_RUN_WALL_NS, &answer, err))
        return side_child_failed(j, s, &s->run, phase, v, err);
    if (!fault_take(json_object_get(answer, "fault"), phase, v, err))
        return false;
    s->loaded = v->code == VERDICT_OK;
    return side_verdict(j, s, v, err);
}

bool run_inputs(struct judge *j, struct judge_side *s, int regime, const char *phase, struct verdict *v, struct err *err)
{
    if (!regime_make(j, regime, err))
        return false;
    return child_inputs(j, &s->run, &j->regimes[regime].in, err) || side_child_failed(j, s, &s->run, phase, v, err);
}

void run_copy_outputs(struct judge *j, struct judge_side *s)
{
    for (int t = 0; t < j->op->tensor_count; t++) {
        if (j->op->tensors[t].role == OP_INPUT)
            continue;
        if (!s->outputs[t])
            s->outputs[t] = spare_take((size_t)j->tensors[t].bytes);
        crew_copy(s->outputs[t], s->out.base + s->out.offsets[t], (size_t)j->tensors[t].bytes);
    }
    sampled_clear(j, s);
}

bool run_intact(struct judge *j, struct judge_side *s, const json_t *answer, const char *phase, struct verdict *v, struct err *err)
{
    if (!json_bool(answer, "guards_intact", false))
        verdict_set(v, VERDICT_OUT_OF_BOUNDS, phase, "bytes outside the buffers were changed");
    else if (!json_bool(answer, "inputs_intact", false))
        verdict_set(v, VERDICT_INPUT_MODIFIED, phase, "the input %.60s was changed", json_str(answer, "changed", "?"));
    return side_verdict(j, s, v, err);
}

/* Of what the child says, numbers under our own names and no more: they stand outside a prompt's fences. */
static json_t *take_lines(const json_t *said)
{
    static const char *const keys[] = {"step", "line", "ptx_line",
#define X(field) #field,
                                       DEVICE_LINE_COUNTS(X)
#undef X
    };
    json_t *lines = json_array(), *one;
    size_t i;
    json_array_foreach(said, i, one) {
        if (i == DEVICE_MAX_LINES)
            break;
        json_t *line = json_object();
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (json_is_integer(json_object_get(one, keys[k])))
                json_put_int(line, keys[k], json_int(one, keys[k], 0));
        json_array_append_new(lines, line);
    }
    return lines;
}

static bool take_run(struct judge *j, struct judge_side *s, const json_t *answer, const char *phase, struct verdict *v,
                     struct err *err)
{
    if (!fault_take(json_object_get(answer, "fault"), phase, v, err))
        return false;
    if (v->code != VERDICT_OK)
        return side_verdict(j, s, v, err);
    STEP(run_intact(j, s, answer, phase, v, err));
    s->run_ns = json_int(answer, "ns", 0);
    const json_t *counts = json_object_get(answer, "counts");
    if (!json_is_array(counts) || json_array_size(counts) > PLAN_MAX_STEPS)
        return err_set(err, ERR_UPSTREAM, "the run child of the %s gave no counts", s->name);
    if (s->run.role == SANDBOX_RUN_SIM && (!s->exploring || !s->counts)) {       /* a card counts nothing: what the emulator counted stays */
        json_decref(s->counts);
        s->counts = json_incref((json_t *)(uintptr_t)counts);
        json_decref(s->lines);
        s->lines = take_lines(json_object_get(answer, "lines"));
    }
    return true;
}

/*
 * A kernel that does not end cannot be told from a slow one but by a limit, and until then it has the card. What an honest run of this
 * shape takes is known on a card: the baseline's guarded run goes first, on this card, in this minute, and our own clock was beside it, so
 * uploads, downloads and a busy host are in it. A candidate may take LIMIT_TIMES_BASELINE times as long, the factor by which the emulator
 * tells endless loops too; that is never less than LIMIT_RUN_CUDA_LEAST_NS, thousands of times what kernels of interest take, so that a
 * moment in which the host was busy elsewhere, or the driver put memory aside at a first launch, decides nothing; and never more than it
 * was allowed before there was a baseline to go by, which still holds where there is none. A slow but honest kernel, 64 times the baseline's
 * time with its copies, would be of no use to anybody: it may be called endless. A neighbour on the card is asked for before anyone is blamed.
 */
static int64_t card_wall_ns(int64_t baseline_ns, int times, int64_t ceiling_ns)
{
    const int64_t usual_ns = baseline_ns * LIMIT_TIMES_BASELINE * times;
    if (!baseline_ns || usual_ns > ceiling_ns)
        return ceiling_ns;
    return usual_ns > LIMIT_RUN_CUDA_LEAST_NS ? usual_ns : LIMIT_RUN_CUDA_LEAST_NS;
}

int64_t run_card_wall_ns(const struct judge *j, int runs, int64_t ceiling_ns)
{
    return card_wall_ns(j->card_run_ns, runs, ceiling_ns);
}

int64_t block_card_wall_ns(const struct judge *j, int64_t ceiling_ns)
{
    return card_wall_ns(j->card_block_ns, 1, ceiling_ns);
}

#define SPOIL_BYTES ((int64_t)64 << 20)

static void spoil_part(void *ctx, int64_t part)
{
    const struct judge_side *s = ctx;
    const size_t from = (size_t)(part * SPOIL_BYTES), end = from + (size_t)crew_part_count((int64_t)s->out.bytes, SPOIL_BYTES, part);
    for (size_t at = from; at + 8 <= end; at += 4096)
        memset(s->out.base + at, 0xa5, 8);
}

/* What an earlier run left in the memory must not pass for an answer: a mark on each page is enough to show. */
void run_spoil(struct judge_side *s)
{
    crew_run(crew_parts((int64_t)s->out.bytes, SPOIL_BYTES), spoil_part, s);
}

static json_t *far_encode(const struct device_far *far)
{
    if (!far)
        return json_null();
    json_t *held = json_array(), *points = json_array();
    for (int t = 0; t < OP_MAX_TENSORS; t++) {
        if (far->held[t])
            json_array_append_new(held, json_integer(t));
        if (far->points[t])
            json_array_append_new(points, json_integer(t));
    }
    return json_pack("{s:i,s:I,s:o,s:o}", "axis", far->axis, "rows", (json_int_t)far->rows, "held", held, "points", points);
}

bool run_ask(struct judge *j, struct judge_side *s, const struct run_order *o, const char *phase, struct verdict *v,
             struct err *err)
{
    bool card = s->run.role == SANDBOX_RUN_CUDA;
    int64_t usual = s == &j->sides[CANDIDATE] && j->sim_wall_ns ? j->sim_wall_ns : LIMIT_RUN_WALL_NS;
    int64_t limit = j->config->run_wall_ns ? j->config->run_wall_ns : card ? LIMIT_RUN_CUDA_WALL_NS : usual;
    int64_t grace = limit < LIMIT_ANSWER_GRACE_NS ? limit : LIMIT_ANSWER_GRACE_NS;
    s->run_asked_ns = clock_mono_ns();
    s->run_deadline_ns = s->run_asked_ns + limit * s->plan.step_count + grace;
    if (card && !j->config->run_wall_ns && side_is_judged(j, s))
        s->run_deadline_ns = s->run_asked_ns + run_card_wall_ns(j, 1, s->run_deadline_ns - s->run_asked_ns);
    static const char *const places[] = {[DEVICE_AT_END] = "end", [DEVICE_AT_START] = "start", [DEVICE_ODD] = "odd"};
    cleanup(json) json_t *job = judge_job("run");
    char number[24];
    snprintf(number, sizeof number, "0x%016llx", (unsigned long long)o->poison);
    json_put_str(job, "poison", number);
    snprintf(number, sizeof number, "0x%016llx", (unsigned long long)o->schedule_seed);
    json_put_str(job, "schedule_seed", number);
    json_put_str(job, "place", places[o->place]);
    json_put_bool(job, "scrub", side_is_judged(j, s));         /* of the other nobody asks what it finds there */
    json_put_bool(job, "check_races", o->check_races);
    json_put_bool(job, "explore", o->explore);
    json_put_int(job, "wall_limit_ns", limit);
    json_put_int(job, "thread_instruction_limit", (int64_t)o->instruction_limit);
    /* In descending order on one thread: on many, blocks that wait for lower ones would find them running. Where races are looked at
     * the device sees to that itself. */
    int threads = j->config->threads > 0 ? j->config->threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
    json_put_int(job, "threads", o->schedule_seed & PTX_SEED_DESCENDING && !o->check_races ? 1 : threads);
    if (!card && !o->far) {
        json_put_int(job, "sample_budget", j->config->sample_budget ? j->config->sample_budget : LIMIT_EMULATED_INSTRUCTIONS);
        json_put_int(job, "sample_cpu_ns", j->config->sample_cpu_ns ? j->config->sample_cpu_ns : LIMIT_EMULATED_CPU_NS);
    }
    /* Each regime has a sample of its own: who is wrong in few blocks has as many more chances to be seen. */
    json_put(job, "sample_seed", judge_u64(o->regime ? rng_mix(j->sample_seed + (uint64_t)o->regime) : j->sample_seed));
    json_put(job, "far", far_encode(o->far));
    run_spoil(s);
    s->exploring = o->explore;
    s->run_regime = o->regime, s->run_poison = o->poison;
    return child_ask(&j->watch, &s->run, job, err) || side_child_failed(j, s, &s->run, phase, v, err);
}

bool run_take(struct judge *j, struct judge_side *s, const char *phase, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *answer = NULL;
    if (!child_take(&j->watch, &s->run, s->run_deadline_ns, &answer, err))
        return side_child_failed(j, s, &s->run, phase, v, err);
    const int64_t took_ns = clock_mono_ns() - s->run_asked_ns;
    if (s->run.role == SANDBOX_RUN_CUDA && !side_is_judged(j, s) && took_ns > j->card_run_ns)
        j->card_run_ns = took_ns;
    if (!sampled_take(j, s, answer, err))
        return side_child_failed(j, s, &s->run, phase, v, err);
    return take_run(j, s, answer, phase, v, err);
}

bool run_once(struct judge *j, struct judge_side *s, const struct run_order *o, const char *phase, struct verdict *v,
              struct err *err)
{
    STEP(run_ask(j, s, o, phase, v, err));
    if (!regime_ahead(j, o->regime, err))       /* while the child runs this one */
        return false;
    STEP(run_take(j, s, phase, v, err));
    run_copy_outputs(j, s);
    return true;
}

bool run_estimate(struct judge *j, struct judge_side *s, struct err *err)
{
    cleanup(json) json_t *job = judge_job("estimate"), *answer = NULL;
    struct verdict none = {0};
    if (!child_ask(&j->watch, &s->run, job, err)
        || !child_take(&j->watch, &s->run, clock_mono_ns() + LIMIT_ANSWER_GRACE_NS, &answer, err)) {
        (void)child_end_cause(&s->run, "time", &none, err);
        return false;
    }
    double ns = json_num(answer, "ns", 0);
    if (!(ns > 0 && ns < 1e15))
        return err_set(err, ERR_UPSTREAM, "the run child of the %s estimates %g ns", s->name, ns);
    s->estimate_ns = ns;
    json_decref(s->estimate_terms);
    s->estimate_terms = json_incref(json_object_get(answer, "terms"));
    return true;
}

/*
 * The runs: one for each schedule, each on memory filled anew; in half of them (by the seed)
 * the lanes of a warp go apart, as a card may let them. The emulator tells the first thing that is wrong of a run; another
 * schedule may come to another one. What ends without a finding is compared: with the reference, if there is an operator, and with
 * the first schedule's result.
 */
#include "gpu/emulate/emulate.h"
#include "core/clock.h"
#include "core/rng.h"
#include "gpu/judge/compare.h"

#include <string.h>

#define GAP_BYTES UINT64_C(4096)
#define POISON 0xa7

struct memory { struct ptx_buffer list[EMULATE_MAX_BUFFERS]; int count; };
static void memory_done(struct memory *m)
{
    for (int i = 0; i < m->count; i++) {
        free(m->list[i].data);
        free(m->list[i].initialised);
    }
}
DEFINE_CLEANUP(memory, struct memory, memory_done(it))

void emulate_result_done(struct emulate_result *r)
{
    for (int i = 0; i < PLAN_MAX_STEPS; i++)
        ptx_depth_done(&r->depth[i]);
}

struct emulate_finding *emulate_found(struct emulate_findings *f, enum verdict_code code, const struct ptx_finding *at, const char *kernel,
                                      uint64_t schedule_seed, const char *text)
{
    for (int i = 0; i < f->count; i++) {
        struct emulate_finding *old = &f->list[i];
        if (old->code == code && old->at.ptx_line == at->ptx_line && old->at.source_line == at->source_line && !strcmp(old->kernel, kernel) &&
            (at->ptx_line > 0 || !strcmp(old->at.buffer, at->buffer))) {
            old->schedules++;
            return old;
        }
    }
    struct emulate_finding *one = &f->list[f->count < EMULATE_MAX_FINDINGS ? f->count++ : EMULATE_MAX_FINDINGS - 1];
    const char *line = strstr(text, " (line ");  /* where it is stands elsewhere in a report */
    line = line ? line : strstr(text, " (PTX line ");
    *one = (struct emulate_finding){.code = code, .at = *at, .schedule_seed = schedule_seed, .schedules = 1};
    snprintf(one->kernel, sizeof one->kernel, "%s", kernel);
    struct buf clean = {.limit = sizeof one->text - 1};
    utf8_clean(&clean, text, line ? (size_t)(line - text) : strlen(text));
    snprintf(one->text, sizeof one->text, "%s", buf_cstr(&clean));
    buf_done(&clean);
    return one;
}

/* ---- memory ---- */
static void fill(const struct emulate_buffer *b, uint64_t seed, uint64_t stream, uint8_t *to)
{
    memset(to + b->bytes / 4 * 4, 0, b->bytes % 4);   /* what is left behind whole words */
    switch (b->fill) {
    case FILL_GIVEN:
        if (b->bytes)
            memcpy(to, b->given, b->bytes);
        break;
    case FILL_ZEROS:
        memset(to, 0, b->bytes);
        break;
    case FILL_UNWRITTEN:
        memset(to, POISON, b->bytes);
        break;
    case FILL_BYTES:
        for (size_t i = 0; i < b->bytes; i++)
            to[i] = (uint8_t)rng_at(seed, stream, i);
        break;
    case FILL_RANDOM:
        for (size_t i = 0; i + 4 <= b->bytes; i += 4) {
            const float x = (float)(rng_unit(seed, stream, i) * 2 - 1);
            memcpy(to + i, &x, 4);
        }
        break;
    case FILL_INDEX:
        for (size_t i = 0; i + 4 <= b->bytes; i += 4) {
            const uint32_t x = (uint32_t)(i / 4);
            memcpy(to + i, &x, 4);
        }
        break;
    }
}

/* Aligned as promised and no more, or, every other time, to 2 MiB: who counts on either is wrong in one of them. */
static void lay_out(const struct emulate_problem *p, uint64_t schedule, struct memory *m)
{
    uint64_t cursor = UINT64_C(0x700000000000) + (rng_mix(schedule) & 0xfff) * GAP_BYTES * 512;
    for (int i = 0; i < p->buffer_count; i++) {
        const struct emulate_buffer *b = &p->buffers[i];
        struct ptx_buffer *to = &m->list[m->count++];
        const bool wide = schedule & 1;
        const uint64_t step = wide ? UINT64_C(2) << 20 : b->alignment * 2 > GAP_BYTES ? b->alignment * 2 : GAP_BYTES;
        *to = (struct ptx_buffer){.address = (cursor + GAP_BYTES + step - 1) / step * step + (wide ? 0 : b->alignment), .bytes = b->bytes,
                                  .data = xalloc_large(b->bytes ? b->bytes : 1), .writable = b->writable};
        snprintf(to->name, sizeof to->name, "%s", b->name);
        if (b->fill == FILL_UNWRITTEN)
            to->initialised = xalloc(b->bytes / 8 + 8);
        fill(b, p->seed, (uint64_t)i + 100, to->data);
        cursor = to->address + b->bytes;
    }
}

/* ---- results ---- */
static bool written(const struct ptx_buffer *b, size_t at) { return !b->initialised || b->initialised[at / 8] >> (at % 8) & 1; }

static int64_t first_unwritten(const struct tensor *t, const struct ptx_buffer *b)
{
    const int64_t size = dtype_bytes(t->dtype);
    for (int64_t i = 0; i < t->elements; i++)
        for (int64_t k = 0; k < size; k++)
            if (!written(b, (size_t)(tensor_offset(t, i) * size + k)))
                return i;
    return -1;
}

static void compare_one(const struct emulate_problem *p, int t, const struct memory *m, uint64_t seed, struct emulate_findings *f)
{
    struct compare_result r;
    char text[500];
    struct ptx_finding at = {.source_line = -1};
    const struct tensor *tensor = &p->tensors[t];
    const struct compare_case one = {.op = p->shape.op, .tensor = tensor, .reference = p->reference[t], .got = m->list[t].data,
                                     .before = p->inputs[t]};
    snprintf(at.buffer, sizeof at.buffer, "%s", tensor->spec->name);
    const int64_t missing = tensor->spec->role == OP_OUTPUT ? first_unwritten(tensor, &m->list[t]) : -1;
    if (missing >= 0) {
        snprintf(text, sizeof text, "element %lld of %s was never written", (long long)missing, tensor->spec->name);
        emulate_found(f, VERDICT_WRONG_RESULT, &at, "", seed, text);
        return;
    }
    compare_tensor(&one, &r);
    if (r.code == VERDICT_OK)
        return;
    char place[128] = "";
    for (int d = 0; r.has_element && d < tensor->rank; d++)
        snprintf(place + strlen(place), sizeof place - strlen(place), "%s%lld", d ? "," : "", (long long)r.index[d]);
    snprintf(text, sizeof text, "%s%s%s%s", r.text, r.has_element ? "; element [" : "", place, r.has_element ? "]" : "");
    if (r.has_element)
        snprintf(text + strlen(text), sizeof text - strlen(text), " is %g, the reference %g", r.got, r.wanted);
    emulate_found(f, r.code, &at, "", seed, text);
}

/* Equal inputs, another order of warps, other bits: the order decides, and nothing in the code orders it. */
static void compare_schedules(const struct emulate_problem *p, const struct memory *first, const struct memory *now, uint64_t seed,
                              struct emulate_findings *f)
{
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].writable && memcmp(first->list[i].data, now->list[i].data, p->buffers[i].bytes) != 0) {
            struct ptx_finding at = {.source_line = -1};
            char text[200];
            size_t byte = 0;
            while (first->list[i].data[byte] == now->list[i].data[byte])
                byte++;
            snprintf(at.buffer, sizeof at.buffer, "%s", p->buffers[i].name);
            at.offset_bytes = (int64_t)byte;
            snprintf(text, sizeof text, "%s differs from the first schedule's result, first at byte %zu", p->buffers[i].name, byte);
            emulate_found(f, VERDICT_NON_DETERMINISTIC, &at, "", seed, text);
            return;
        }
}

/* ---- one schedule ---- */
struct schedule { const struct emulate_how *how; uint64_t seed; bool first, explore; };

static bool run_step(const struct emulate_problem *p, int i, const struct schedule *how, struct memory *m, struct emulate_result *r, bool *ret_clean,
                     struct emulate_findings *f, struct err *err)
{
    const struct emulate_step *s = &p->steps[i];
    struct ptx_launch launch = s->launch;
    struct ptx_finding finding = {0};
    struct ptx_counts counts = {0};
    struct ptx_run_options options = {.limits = ptx_default_limits, .schedule_seed = how->seed, .check_races = true,
                                      .schedule = how->explore ? PTX_EXPLORE : PTX_LOCKSTEP};
    if (s->is_memset) {
        memset(m->list[s->buffer].data, s->value, m->list[s->buffer].bytes);
        memset(m->list[s->buffer].initialised, 0xff, m->list[s->buffer].bytes / 8 + 1);
        return true;
    }
    for (int a = 0; a < launch.arg_count; a++)
        if (s->argument_buffer[a] >= 0)
            launch.args[a].value += m->list[s->argument_buffer[a]].address;
    options.limits.threads = how->how->threads;
    options.limits.thread_instructions = how->how->instruction_limit;
    if (how->first && p->device) {
        r->depth[i] = (struct ptx_depth){.device = p->device, .by_line = how->how->by_line};
        options.depth = &r->depth[i];
    }
    const int64_t from = clock_mono_ns();
    if (!ptx_run(p->module, &launch, m->list, m->count, &options, &finding, &counts, err))
        return false;
    r->run_ns += clock_mono_ns() - from;
    if (how->first)
        r->counts[i] = counts;
    *ret_clean = finding.kind == PTX_CLEAN;
    if (!*ret_clean) {
        enum verdict_code code = VERDICT_FAULT;
        (void)verdict_code_parse(ptx_finding_verdict(finding.kind), &code);
        emulate_found(f, code, &finding, s->kernel, how->seed, finding.text);
    }
    return true;
}

static bool run_schedule(const struct emulate_problem *p, const struct schedule *how, struct memory *m, struct emulate_result *r, bool *ret_clean,
                         struct emulate_findings *f, struct err *err)
{
    *ret_clean = true;
    lay_out(p, how->seed, m);
    for (int i = 0; i < p->step_count && *ret_clean; i++)
        if (!run_step(p, i, how, m, r, ret_clean, f, err))
            return false;
    for (int t = 0; p->has_op && *ret_clean && t < p->shape.op->tensor_count; t++)
        if (p->tensors[t].spec->role != OP_INPUT) {
            compare_one(p, t, m, how->seed, f);
            r->compared = true;
        }
    return true;
}

bool emulate_run(struct emulate_problem *p, const struct emulate_how *wanted, struct emulate_result *ret, struct emulate_findings *f,
                 struct err *err)
{
    cleanup(memory) struct memory first = {.count = 0};
    bool first_clean = false;
    uint64_t atomics = 0;
    ret->schedules = wanted->schedules;
    ret->first_seed = wanted->first_seed;
    for (int n = 0; n < wanted->schedules; n++) {
        const uint64_t seed = wanted->first_seed + (uint64_t)n;
        cleanup(memory) struct memory now = {.count = 0};
        struct memory *m = n ? &now : &first;
        const struct schedule how = {.how = wanted, .seed = seed, .first = n == 0,
                                     .explore = seed & 2 && !(n == 0 && p->device)};
        bool clean = false;
        if (!run_schedule(p, &how, m, ret, &clean, f, err))
            return false;
        for (int i = 0; n == 0 && i < p->step_count; i++)
            atomics += ret->counts[i].atomics;
        if (n == 0)
            first_clean = clean;
        else if (clean && first_clean && !atomics)      /* sums by atomics may come in any order */
            compare_schedules(p, &first, &now, how.seed, f);
    }
    return true;
}

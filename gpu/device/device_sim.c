/*
 * The device that every host has: the plan's launches, in order, through the PTX emulator. Each buffer lies at an address of its
 * own, in one place aligned exactly as the contract says and no more, in the other as well as a caller's memory may be, with at least 4 KiB of nothing on both sides; every byte has a bit that
 * says whether something has written it. So a stray access, a write to an input, a read of what nothing wrote, and an alignment
 * that was merely lucky are all found at the instruction that does them.
 *
 * There is no clock here: time is estimated from what the emulator counted.
 */
#include "core/rng.h"
#include "gpu/device/inside.h"

#include <string.h>

#define GAP_BYTES UINT64_C(4096)
#define ALIGNED_BYTES (UINT64_C(2) << 20)
#define SIM_TARGET "sm_90a"      /* what it says it is before it is told a shape: its estimate takes the row of the shape's target */

struct device { const struct ptx_device_row *row; };

struct device_program {
    struct device *device;
    const struct ptx_device_row *row;
    struct ptx_module *module;
    struct plan plan;
    int tensor_count, buffer_count;
    struct program_buffer buffers[PROGRAM_MAX_BUFFERS];
    struct tensor tensors[OP_MAX_TENSORS];
    bool has_resources;
    struct ptx_resources resources[PLAN_MAX_STEPS];
    bool counted[PLAN_MAX_STEPS];               /* in depth, by the first run: */
    struct ptx_counts deep[PLAN_MAX_STEPS];
    int line_count;
    struct device_line lines[DEVICE_MAX_LINES]; /* of these runs */
    bool settled, whole;                        /* it is known which blocks run; whole: all of them */
    struct ptx_sample sample[PLAN_MAX_STEPS];
};

static bool sim_open(const char *id, struct device **ret, struct err *err)
{
    const struct ptx_device_row *row = ptx_device_find(SIM_TARGET);
    if (strcmp(id, "sim") != 0)
        return err_set(err, ERR_NOT_FOUND, "no emulated device \"%.40s\": it is called sim", id);
    if (!row)
        return err_set(err, ERR_INTERNAL, "the emulator has no figures of a card for %s", SIM_TARGET);
    struct device *d = xalloc(sizeof *d);
    d->row = row;
    *ret = d;
    return true;
}

static void sim_close(struct device *d)
{
    free(d);
}

static bool sim_info(struct device *d, struct device_info *ret, struct err *err)
{
    (void)err;
    *ret = (struct device_info){.kind = "sim",
                                .id = "sim",
                                .target = SIM_TARGET,
                                .sm_count = d->row->sm_count,
                                .healthy = true,
                                .l2_bytes = (int64_t)d->row->l2_bytes};
    snprintf(ret->name, sizeof ret->name, "emulator (%s's figures)", d->row->name);
    return true;
}

static void sim_unload(struct device_program *p)
{
    for (int i = 0; p && i < PLAN_MAX_STEPS; i++)
        ptx_sample_done(&p->sample[i]);
    if (p)
        ptx_free(p->module);
    free(p);
}
DEFINE_CLEANUP(program, struct device_program *, sim_unload(*it))

static bool sim_load(struct device *d, const struct device_load *what, struct device_program **ret,
                     struct device_fault *fault, struct err *err)
{
    cleanup(program) struct device_program *p = xalloc(sizeof *p);
    struct ptx_finding finding = {0};
    p->row = ptx_device_find(what->shape->target);
    if (!p->row)
        return err_set(err, ERR_UNPROCESSABLE, "the emulator has no figures of a card of target %s", what->shape->target);
    if (!ptx_parse(what->ptx, what->ptx_bytes, &ptx_default_limits, &p->module, &finding, err))
        return false;
    *ret = NULL;
    if (!p->module)
        return fault_from_finding(fault, &finding, -1, what->plan);
    if (!plan_fits(p->module, what, fault))
        return true;
    p->device = d;
    p->plan = *what->plan;
    p->tensor_count = what->shape->op->tensor_count;
    memcpy(p->tensors, what->tensors, (size_t)p->tensor_count * sizeof *p->tensors);
    p->buffer_count = program_buffers(what, p->buffers);
    for (int i = 0; i < p->tensor_count; i++)
        p->buffers[i].tensor = &p->tensors[i];
    if (what->resources) {
        p->has_resources = true;
        for (int i = 0, launch = 0; i < p->plan.step_count; i++)
            if (!p->plan.steps[i].is_memset)
                p->resources[i] = what->resources[launch++];
    }
    *ret = steal(&p);
    return true;
}

/* ---- memory of one run ---- */

struct arena { struct ptx_buffer list[PROGRAM_MAX_BUFFERS]; uint8_t *frozen[PROGRAM_MAX_BUFFERS]; int count; };

static void arena_done(struct arena *a)
{
    for (int i = 0; i < a->count; i++) {
        free(a->list[i].data);
        free(a->list[i].initialised);
        free(a->list[i].tags);
        free(a->frozen[i]);
    }
}
DEFINE_CLEANUP(arena, struct arena, arena_done(it))

/* The space between the rows of a strided tensor is not the kernel's: its bytes, one bit each; NULL: there is none. */
static uint8_t *gaps_of(const struct tensor *t, size_t bytes)
{
    if (!t || t->span_elements == t->elements)
        return NULL;
    uint8_t *frozen = xalloc(bytes / 8 + 8);
    const int64_t size = dtype_bytes(t->dtype);
    memset(frozen, 0xff, bytes / 8 + 1);
    for (int64_t i = 0; i < t->elements; i++)
        for (int64_t at = tensor_offset(t, i) * size, end = at + size; at < end; at++)
            frozen[at / 8] &= (uint8_t)~(1u << at % 8);
    return frozen;
}

static void lay_out(const struct device_program *p, const struct device_run *how, struct arena *a)
{
    /* Where the drivers of cards put memory, and where none does: from an address nothing can be told. */
    static const uint64_t bases[] = {0x700000000000, 0x7f0000000000, 0x302000000, 0x10000000000};
    const uint64_t mixed = rng_mix(how->schedule_seed);
    uint64_t cursor = bases[mixed >> 62] + (mixed & 0xffff) * GAP_BYTES * 512;
    for (int i = 0; i < p->buffer_count; i++) {
        const struct program_buffer *b = &p->buffers[i];
        struct ptx_buffer *to = &a->list[a->count++];
        uint64_t alignment = (uint64_t)b->alignment_bytes, step = alignment * 2 > GAP_BYTES ? alignment * 2 : GAP_BYTES;
        size_t bytes = (size_t)b->bytes;
        /*
         * An odd multiple of the alignment: whoever counts on twice as much is wrong here. In the other place more than any allocator
         * gives: who is wrong only where a caller's buffers really lie must not pass either.
         */
        bool aligned = how->place == DEVICE_AT_START;
        if (aligned)
            step = ALIGNED_BYTES;
        uint64_t address = (cursor + GAP_BYTES + step - 1) / step * step + (aligned ? 0 : alignment);
        *to = (struct ptx_buffer){
            .address = address, .bytes = bytes, .data = xalloc_large(bytes ? bytes : 1), .writable = b->writable};
        snprintf(to->name, sizeof to->name, "%s", b->name);
        to->frozen = a->frozen[i] = b->writable ? gaps_of(b->tensor, bytes) : NULL;
        if (b->writable && b->tensor && how->sample_budget && !p->whole)
            to->tags = memset(xalloc_large(bytes ? bytes : 1), 0, bytes);
        if (b->output) {
            to->initialised = xalloc(bytes / 8 + 8);
            fill_pattern(to->data, bytes, how->poison);
        } else if (bytes) {
            memcpy(to->data, how->tensors[i], bytes);
        }
        cursor = address + bytes;
    }
}

static void set_memory(struct ptx_buffer *b, uint8_t value)
{
    memset(b->data, value, b->bytes);
    memset(b->initialised, 0xff, b->bytes / 8 + 1);
}

/* ---- after the run: is each output whole? ---- */

static bool byte_written(const struct ptx_buffer *b, int64_t i)
{
    return b->initialised[i / 8] >> (i % 8) & 1;
}

static bool all_written(const struct ptx_buffer *b)
{
    size_t whole = b->bytes / 8;
    for (size_t i = 0; i < whole; i++)
        if (b->initialised[i] != 0xff)
            return false;
    return b->bytes % 8 == 0 || (b->initialised[whole] & ((1u << b->bytes % 8) - 1)) == (1u << b->bytes % 8) - 1;
}

/* Padding between strided rows is nobody's: only bytes of elements count. */
static bool check_written(const struct tensor *t, const struct ptx_buffer *b, struct device_fault *fault)
{
    int64_t missing = 0, first = -1;
    int size = dtype_bytes(t->dtype);
    if (all_written(b))
        return true;
    for (int64_t i = 0; i < t->elements; i++) {
        int64_t at = tensor_offset(t, i) * size, lost = 0;
        for (int k = 0; k < size; k++)
            lost += !byte_written(b, at + k);
        if (lost && first < 0)
            first = i;
        missing += lost;
    }
    if (!missing)
        return true;
    json_t *d = json_pack("{s:s,s:I,s:I,s:I}", "buffer", b->name, "missing_bytes", (json_int_t)missing, "bytes",
                          (json_int_t)(t->elements * size), "index", (json_int_t)first);
    return fault_set(fault, VERDICT_WRONG_RESULT, d,
                     "%lld of %lld bytes of %s were never written, the first at element %lld", (long long)missing,
                     (long long)(t->elements * size), b->name, (long long)first);
}

/* ---- the run ---- */

static void make_launch(const struct device_program *p, const struct plan_step *s, const struct arena *a,
                        struct ptx_launch *ret)
{
    *ret = (struct ptx_launch){.kernel = s->kernel,
                               .dynamic_shared_bytes = s->shared_bytes,
                               .cooperative = p->plan.cooperative,
                               .dependent = s->dependent,
                               .arg_count = s->arg_count};
    for (int d = 0; d < 3; d++) {
        ret->grid[d] = s->grid[d];
        ret->block[d] = s->block[d];
        ret->cluster[d] = s->cluster[d];
    }
    for (int i = 0; i < s->arg_count; i++) {
        int buffer = argument_buffer(&s->args[i], p->tensor_count);
        ret->args[i] = (struct ptx_arg){(uint8_t)s->args[i].bytes, buffer < 0 ? s->args[i].value
                                                                   : a        ? a->list[buffer].address
                                                                              : 0};
    }
}

/*
 * What only counting in depth tells does not change from run to run (but for data that steers it): the first run's is everyone's. A run
 * that explores does not count: lanes that go one by one touch sectors again and again.
 */
static void keep_deep(struct device_program *p, int step, bool explored, struct ptx_counts *c)
{
    if (!p->counted[step] && explored)
        return;
    if (!p->counted[step]) {
        p->counted[step] = true;
        p->deep[step] = *c;
    }
    const struct ptx_counts *from = &p->deep[step];
    c->l1_hit_sectors = from->l1_hit_sectors;
    c->l2_load_sectors = from->l2_load_sectors;
    c->l2_hit_sectors = from->l2_hit_sectors;
    c->l2_store_sectors = from->l2_store_sectors;
    c->dram_load_sectors = from->dram_load_sectors;
    c->dram_store_sectors = from->dram_store_sectors;
    c->modelled_blocks = from->modelled_blocks;
    c->chain_cycles = from->chain_cycles;
}

/* Into the list with the most instructions first; what has fewer than those of a full list falls out. */
static void keep_line(struct device_program *p, int step, const struct ptx_line *from)
{
    const bool full = p->line_count == DEVICE_MAX_LINES;
    if (full && p->lines[DEVICE_MAX_LINES - 1].warp_instructions >= from->warp_instructions)
        return;
    int at = full ? DEVICE_MAX_LINES - 1 : p->line_count++;
    for (; at > 0 && p->lines[at - 1].warp_instructions < from->warp_instructions; at--)
        p->lines[at] = p->lines[at - 1];
    p->lines[at] = (struct device_line){.step = step, .source_line = from->source_line > 0 ? from->source_line : 0, .ptx_line = from->ptx_line};
#define X(field) p->lines[at].field = from->field;
    DEVICE_LINE_COUNTS(X)
#undef X
}

static void keep_lines(struct device_program *p, int step, const struct ptx_depth *depth)
{
    for (int n = 0; n < depth->line_count; n++)
        keep_line(p, step, &depth->lines[n]);
}

DEFINE_CLEANUP(history, struct ptx_history *, ptx_history_free(*it))

/* ---- a sample of the blocks ---- */

static uint64_t blocks_of(const struct plan_step *s)
{
    return (uint64_t)s->grid[0] * s->grid[1] * s->grid[2];
}

static bool same_grid(const struct plan_step *a, const struct plan_step *b)
{
    return !memcmp(a->grid, b->grid, sizeof a->grid) && !memcmp(a->cluster, b->cluster, sizeof a->cluster);
}

/* The first step of which a sample ran; -1: none. */
static int first_sampled(const struct device_program *p, int before)
{
    for (int i = 0; i < before; i++)
        if (p->sample[i].taken)
            return i;
    return -1;
}

/*
 * Before step i: whether it runs whole, and if not, as what. After a step of which a sample ran, the same blocks: others would find nothing
 * to read. Where the grid is another one, all begin, and those that need what is missing end.
 */
static struct ptx_sample *sample_of(struct device_program *p, const struct device_run *how, int i)
{
    struct ptx_sample *s = &p->sample[i];
    if (p->whole || !how->sample_budget)
        return NULL;
    if (p->settled)
        return s->taken ? s : NULL;
    const int first = first_sampled(p, i);
    ptx_sample_done(s);
    if (first >= 0 && same_grid(&p->plan.steps[first], &p->plan.steps[i])) {
        *s = p->sample[first];
        s->list = memcpy(xarray(s->count + 1, sizeof *s->list), s->list, s->count * sizeof *s->list);
        return s;
    }
    if (first >= 0)
        return NULL;
    *s = (struct ptx_sample){.budget = how->sample_budget, .cpu_ns = how->sample_cpu_ns, .seed = rng_mix(how->sample_seed + (uint64_t)i), .rows = i + 1 < p->plan.step_count};
    return s;
}

/*
 * Where a step's blocks did not all run, what it writes is there in part. In a buffer that was poison before, that shows byte by byte, and
 * a later block that needs what is missing is left out too. In one that held something it does not show: *ret_stale then, if a later step
 * looks there, and all blocks must run or none.
 */
static void take_account(const struct device_program *p, struct arena *a, bool in_part, bool *written, bool *old, bool *ret_stale)
{
    for (int b = 0; b < p->buffer_count; b++) {
        struct ptx_buffer *x = &a->list[b];
        *ret_stale |= old[b] && x->loaded;
        if (in_part && x->stored) {
            old[b] |= written[b];
            x->partial = !written[b];
        }
        written[b] |= x->stored && !x->partial;
    }
}

/*
 * All steps once, in memory laid out afresh. *ret_later: a block may have used what one that begins later did. *ret_whole: a sample of the
 * blocks will not do, nothing was found out.
 */
static bool run_steps(struct device_program *p, const struct device_run *how, int threads, struct arena *a, struct device_run_result *ret,
                      bool *ret_later, bool *ret_whole, struct device_fault *fault, struct err *err)
{
    cleanup(history) struct ptx_history *history = NULL;
    struct ptx_run_options options = {
        .limits = ptx_default_limits, .schedule_seed = how->schedule_seed, .check_races = how->check_races, .wander = true,
        .schedule = how->explore ? PTX_EXPLORE : PTX_LOCKSTEP};
    if (how->thread_instruction_limit)
        options.limits.thread_instructions = how->thread_instruction_limit;
    if (how->wall_limit_ns)
        options.limits.wall_ns = how->wall_limit_ns;
    options.limits.threads = threads;
    for (int i = 0; i < p->plan.step_count; i++)
        if (p->plan.steps[i].dependent && !options.history)
            history = options.history = ptx_history_new();
    bool written[PROGRAM_MAX_BUFFERS], old[PROGRAM_MAX_BUFFERS] = {0};
    *ret_later = ret->sampled = false;
    lay_out(p, how, a);
    for (int b = 0; b < p->buffer_count; b++)
        written[b] = !p->buffers[b].output;
    for (int i = 0; i < p->plan.step_count; i++) {
        const struct plan_step *s = &p->plan.steps[i];
        struct ptx_launch launch;
        struct ptx_finding finding = {0};
        ret->counts[i] = (struct ptx_counts){0};
        if (s->is_memset) {
            set_memory(&a->list[p->tensor_count + s->memset_workspace], s->memset_value);
            written[p->tensor_count + s->memset_workspace] = true;
            continue;
        }
        make_launch(p, s, a, &launch);
        cleanup(ptx_depth) struct ptx_depth depth = {.device = p->row, .by_line = true};
        options.depth = p->counted[i] || how->explore ? NULL : &depth;
        options.sample = sample_of(p, how, i);
        options.tag = DEVICE_TAG(i, 0);
        if (!ptx_run(p->module, &launch, a->list, a->count, &options, &finding, &ret->counts[i], err))
            return false;
        if (finding.kind != PTX_CLEAN)
            return fault_from_finding(fault, &finding, i, &p->plan);
        /* Else this launch could end before that one, and what follows the plan would find it still at work. */
        if (s->dependent && !ret->counts[i].waited_grid)
            return fault_set(fault, VERDICT_RACE, NULL,
                             "step %d (%.60s) may begin before step %d has ended, and no thread of it waits for that (griddepcontrol.wait)", i,
                             s->kernel, i - 1);
        for (int t = 0; t < p->tensor_count; t++) {
            ret->drawn_bytes[i][t] = a->list[t].drawn_bytes;
            ret->drawn_squares[i][t] = a->list[t].drawn_squares;
        }
        const bool in_part = ret->counts[i].blocks < blocks_of(s);
        bool stale = false;
        take_account(p, a, in_part, written, old, &stale);
        if (stale || !ret->counts[i].blocks) {
            *ret_whole = true;
            return true;
        }
        ret->sampled |= in_part;
        *ret_later |= ret->counts[i].reads_later != 0;
        if (options.depth)
            keep_lines(p, i, &depth);
        keep_deep(p, i, how->explore, &ret->counts[i]);
    }
    return true;
}

static void arena_clear(struct arena *a)
{
    arena_done(a);
    *a = (struct arena){.count = 0};
}

/* With a sample of the blocks where that is wanted and does, else with all. */
static bool run_all(struct device_program *p, const struct device_run *how, int threads, struct arena *a, struct device_run_result *ret,
                    bool *ret_later, struct device_fault *fault, struct err *err)
{
    bool whole = false;
    if (!run_steps(p, how, threads, a, ret, ret_later, &whole, fault, err))
        return false;
    if (whole) {
        arena_clear(a);
        p->whole = true;
        return run_steps(p, how, threads, a, ret, ret_later, &whole, fault, err);
    }
    if (fault->code == VERDICT_OK && !p->settled) {
        p->settled = true;
        p->whole = !ret->sampled;
    }
    return true;
}

/* What blocks that were left out changed in place is as it was: their stores count as nobody's. */
static void put_back(const struct device_program *p, const struct device_run *how, struct arena *a, const struct device_run_result *ret)
{
    uint64_t left_out = 0;
    for (int i = 0; i < p->plan.step_count; i++)
        left_out += ret->counts[i].left_out_blocks;
    for (int t = 0; t < p->tensor_count && left_out; t++) {
        const struct ptx_buffer *b = &a->list[t];
        const uint8_t *before = p->buffers[t].output ? NULL : how->tensors[t];
        for (size_t n = 0; n < b->bytes && before && b->tags; n++)
            b->data[n] = b->tags[n] ? b->data[n] : before[n];
    }
}

/* An element is its last store's, and nobody's if a byte of it was not stored. */
static void take_tags(const struct device_program *p, const struct arena *a, struct device_run_result *ret)
{
    for (int t = 0; t < p->tensor_count; t++) {
        const struct tensor *x = &p->tensors[t];
        const int64_t size = dtype_bytes(x->dtype);
        if (!a->list[t].tags)
            continue;
        ret->tags[t] = xalloc_large((size_t)x->elements + 1);
        for (int64_t i = 0; i < x->elements; i++) {
            const uint8_t *at = a->list[t].tags + tensor_offset(x, i) * size;
            ret->tags[t][i] = at[0];
            for (int64_t k = 1; k < size; k++)
                ret->tags[t][i] = at[k] ? ret->tags[t][i] : 0;
        }
    }
}

static bool sim_run(struct device_program *p, const struct device_run *how, struct device_run_result *ret,
                    struct device_fault *fault, struct err *err)
{
    cleanup(arena) struct arena a = {.count = 0};
    bool later = false;
    if (!run_all(p, how, how->threads, &a, ret, &later, fault, err))
        return false;
    if (later && fault->code == VERDICT_OK) {       /* does it end where blocks begin one after the other? */
        arena_clear(&a);
        if (!run_all(p, how, 1, &a, ret, &later, fault, err))
            return false;
    }
    if (fault->code != VERDICT_OK)
        return true;
    for (int t = 0; t < p->tensor_count && fault->code == VERDICT_OK && !ret->sampled; t++)
        if (p->buffers[t].output)
            check_written(&p->tensors[t], &a.list[t], fault);
    if (ret->sampled)
        put_back(p, how, &a, ret);
    for (int t = 0; t < p->tensor_count; t++)
        if (ret->tensors && ret->tensors[t] && a.list[t].bytes)
            memcpy(ret->tensors[t], a.list[t].data, a.list[t].bytes);
    if (ret->sampled)
        take_tags(p, &a, ret);
    ret->step_count = p->plan.step_count;
    ret->line_count = p->line_count;
    memcpy(ret->lines, p->lines, sizeof ret->lines);
    ret->guards_intact = true;
    return true;
}

/* ---- estimate ---- */

static json_t *estimate_terms(const struct plan_step *s, const struct ptx_estimate *e)
{
    json_t *d = json_object();
    json_put_str(d, "kernel", s->kernel);
    json_put_num(d, "ns", e->ns);
    json_put_str(d, "bound", e->bound);
    json_put_num(d, "dram_ns", e->dram_ns);
    json_put_num(d, "l2_ns", e->l2_ns);
    json_put_num(d, "issue_ns", e->issue_ns);
    json_put_num(d, "latency_ns", e->latency_ns);
    json_put_num(d, "shared_ns", e->shared_ns);
    json_put_num(d, "load_store_ns", e->load_store_ns);
    json_put_num(d, "blocks_ns", e->blocks_ns);
    json_put_num(d, "rounds_ns", e->rounds_ns);
    json_put_num(d, "launch_ns", e->launch_ns);
    json_put_num(d, "occupancy", e->occupancy);
    json_put_int(d, "blocks_per_sm", e->blocks_per_sm);
    return d;
}

static uint64_t all_sectors(const struct device_program *p)
{
    uint64_t sum = 0;
    for (int b = 0; b < p->buffer_count; b++)
        sum += (uint64_t)p->buffers[b].bytes / 32 + 1;
    return sum;
}

/* Steps follow one another like the nodes of a graph: each pays its own launch, which is part of its estimate. */
static bool sim_estimate(struct device_program *p, const struct device_run_result *run, double *ret_ns,
                         json_t **ret_terms, struct err *err)
{
    const struct ptx_device_row *row = p->row;
    if (run->step_count != p->plan.step_count)
        return err_set(err, ERR_INTERNAL, "an estimate needs the counts of a whole run");
    json_t *steps = json_array();
    double total = 0;
    for (int i = 0; i < p->plan.step_count; i++) {
        const struct plan_step *s = &p->plan.steps[i];
        if (s->is_memset) {
            double bytes = (double)p->plan.workspaces[s->memset_workspace].bytes,
                   ns = row->launch_ns + bytes / row->l2_bytes_per_ns;
            total += ns;
            json_array_append_new(
                steps, json_pack("{s:s,s:f}", "memset", p->plan.workspaces[s->memset_workspace].name, "ns", ns));
            continue;
        }
        static const struct ptx_resources unknown = {.registers_thread = 64};
        struct ptx_launch launch;
        struct ptx_estimate e = {0};
        make_launch(p, s, NULL, &launch);
        struct ptx_counts counts = run->counts[i];
        ptx_counts_scale(&counts, blocks_of(s), all_sectors(p));
        ptx_estimate_time(&counts, &launch, p->has_resources ? &p->resources[i] : &unknown, row, &e);
        if (launch.dependent && i > 0) { /* it starts while the one before runs: its launch is hidden */
            e.ns -= e.launch_ns;
            e.launch_ns = 0;
        }
        total += e.ns;
        json_array_append_new(steps, estimate_terms(s, &e));
    }
    *ret_ns = total;
    *ret_terms = json_pack("{s:s,s:o}", "modelled", row->name, "steps", steps);
    return true;
}

const struct device_ops device_sim = {
    .kind = "sim",
    .open = sim_open,
    .close = sim_close,
    .info = sim_info,
    .load = sim_load,
    .unload = sim_unload,
    .run = sim_run,
    .estimate = sim_estimate,
};

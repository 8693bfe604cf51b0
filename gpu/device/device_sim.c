/*
 * The device that every host has: the plan's launches, in order, through the PTX emulator, each buffer in memory that is laid out for
 * this run (sim_memory.c), with all blocks or a sample of them (sim_sample.c).
 *
 * There is no clock here: time is estimated from what the emulator counted (sim_estimate.c).
 */
#include "gpu/device/sim.h"

#include <string.h>

#define SIM_TARGET "sm_90a"      /* what it says it is before it is told a shape: its estimate takes the row of the shape's target */

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

/* ---- the run ---- */

void sim_make_launch(const struct device_program *p, const struct plan_step *s, const struct sim_arena *a,
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
        ret->args[i] = (struct ptx_arg){(uint8_t)s->args[i].bytes, buffer < 0 ? s->args[i].value + sim_far_argument(a, &s->args[i])
                                                                   : a        ? a->address[buffer]
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
    c->expanded_cycles = from->expanded_cycles;
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

/*
 * All steps once, in memory laid out afresh. *ret_later: a block may have used what one that begins later did. *ret_whole: a sample of the
 * blocks will not do, nothing was found out.
 */
static bool run_steps(struct device_program *p, const struct device_run *how, int threads, struct sim_arena *a, struct device_run_result *ret,
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
    if (!sim_lay_out(p, how, a, err))
        return false;
    for (int b = 0; b < p->buffer_count; b++)
        written[b] = !p->buffers[b].output;
    for (int i = 0; i < p->plan.step_count; i++) {
        const struct plan_step *s = &p->plan.steps[i];
        struct ptx_launch launch;
        struct ptx_finding finding = {0};
        ret->counts[i] = (struct ptx_counts){0};
        if (s->is_memset) {
            sim_set_memory(&a->list[p->tensor_count + s->memset_workspace], s->memset_value);
            written[p->tensor_count + s->memset_workspace] = true;
            continue;
        }
        sim_make_launch(p, s, a, &launch);
        cleanup(ptx_depth) struct ptx_depth depth = {.device = p->row, .by_line = true};
        options.depth = p->counted[i] || how->explore ? NULL : &depth;
        options.sample = sim_sample_of(p, how, i);
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
        const bool in_part = ret->counts[i].blocks < sim_blocks_of(s);
        bool stale = false;
        sim_take_account(p, a, in_part, written, old, &stale);
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

/* With a sample of the blocks where that is wanted and does, else with all. */
static bool run_all(struct device_program *p, const struct device_run *how, int threads, struct sim_arena *a, struct device_run_result *ret,
                    bool *ret_later, struct device_fault *fault, struct err *err)
{
    bool whole = false;
    if (!run_steps(p, how, threads, a, ret, ret_later, &whole, fault, err))
        return false;
    if (whole) {
        sim_arena_clear(a);
        p->whole = true;
        return run_steps(p, how, threads, a, ret, ret_later, &whole, fault, err);
    }
    if (fault->code == VERDICT_OK && !p->settled) {
        p->settled = true;
        p->whole = !ret->sampled;
    }
    return true;
}

static bool sim_run(struct device_program *p, const struct device_run *how, struct device_run_result *ret,
                    struct device_fault *fault, struct err *err)
{
    cleanup(sim_arena) struct sim_arena a = {.count = 0};
    bool later = false;
    if (!run_all(p, how, how->threads, &a, ret, &later, fault, err))
        return false;
    if (later && fault->code == VERDICT_OK) {       /* does it end where blocks begin one after the other? */
        sim_arena_clear(&a);
        if (!run_all(p, how, 1, &a, ret, &later, fault, err))
            return false;
    }
    if (fault->code != VERDICT_OK)
        return true;
    for (int t = 0; t < p->tensor_count && fault->code == VERDICT_OK && !ret->sampled; t++)
        if (p->buffers[t].output)
            sim_check_written(&p->tensors[t], &a.list[t], fault);
    if (ret->sampled)
        sim_put_back(p, how, &a, ret);
    sim_take(p, how, &a, ret->tensors);
    if (ret->sampled)
        sim_take_tags(p, &a, ret);
    ret->step_count = p->plan.step_count;
    ret->line_count = p->line_count;
    memcpy(ret->lines, p->lines, sizeof ret->lines);
    ret->guards_intact = true;
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

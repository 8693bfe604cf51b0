/*
 * A launch: what it is checked for, how its memory is laid out, how blocks and warps take turns.
 *
 * Clusters of blocks (mostly of one) are handed out in order to the host threads; each runs its cluster to the end before the next, and
 * lets its blocks take turns; a cooperative launch holds all clusters at once on one thread and lets them take turns. Warps of a block take turns at barriers, in an order drawn
 * from the seed. The finding that counts is the one of the lowest cluster.
 */
#include "gpu/ptx/depth.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define SLICE 200000          /* instructions of a warp before another gets its turn */
#define SLICE_COOPERATIVE 2000

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t worker_draw(struct worker *k) { return draw(&k->random); }

static void *aligned(size_t bytes)
{
    void *p = NULL;
    BUG_ON(posix_memalign(&p, 128, (bytes + 127) / 128 * 128 + 128));
    memset(p, 0, (bytes + 127) / 128 * 128 + 128);
    return p;
}

/* ---- a block's memory ---- */
static size_t bits_bytes(uint64_t bytes) { return (size_t)(bytes / 8 + 16); }

static void block_open(struct worker *k, struct block *b)
{
    const struct machine *m = k->machine;
    b->worker = k;
    b->warp_count = (uint32_t)((m->threads_block + WARP_LANES - 1) / WARP_LANES);
    b->warps = xarray(b->warp_count, sizeof *b->warps);
    for (uint32_t n = 0; n < b->warp_count; n++) {
        struct warp *w = &b->warps[n];
        w->block = b;
        w->id = n;
        w->file = aligned(m->file_bytes);
        w->written = xarray(m->module->tracked_count + 1, sizeof *w->written);
        w->depths = xarray(m->file_bytes / 128 + 4, sizeof *w->depths);
    }
    b->shared = aligned(m->shared_bytes + 64);
    b->shared_init = xalloc(bits_bytes(m->shared_bytes));
    const uint64_t local = (uint64_t)m->frame_bytes * b->warp_count * WARP_LANES;
    b->local = xalloc(local + 16);
    b->local_init = xalloc(bits_bytes(local));
    b->granule_shift = 2;
    race_cluster_open(b);
    if (b->watch) {
        b->wrote = xarray(64, sizeof *b->wrote);   /* not used: that it is there says that shared memory is watched */
        b->granule_shift = 0;
    } else if (m->check_races && m->shared_bytes && b->warp_count > 1) {
        const size_t bytes = ((size_t)m->shared_bytes / 4 + 64) * sizeof(uint32_t); /* in whole cache lines: they are read by rows */
        b->wrote = aligned(bytes);
        b->read_clock = aligned(bytes);
        b->readers = aligned(bytes);
    }
}

static void block_close(struct block *b)
{
    race_cluster_close(b);
    for (uint32_t n = 0; n < b->warp_count; n++) {
        free(b->warps[n].file);
        free(b->warps[n].depths);
        free(b->warps[n].written);
        free(b->warps[n].copies);
        calls_close(&b->warps[n]);
        free(b->warps[n].lanes);
    }
    void *parts[] = {b->warps, b->shared, b->shared_init, b->local, b->local_init, b->wrote, b->read_clock, b->readers, b->atomic_clock,
                     b->atomics, b->mbarriers.items};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        free(parts[i]);
}

/* ---- what a warp finds in its register file ---- */
static uint64_t special(const struct block *b, const struct warp *w, const struct fill *f, int lane)
{
    const struct machine *m = b->worker->machine;
    const struct ptx_launch *l = m->launch;
    const uint32_t t = w->id * WARP_LANES + (uint32_t)lane, c = f->component;
    const uint32_t tid[4] = {t % l->block[0], t / l->block[0] % l->block[1], t / l->block[0] / l->block[1], 0};
    const uint32_t ctaid[4] = {b->index[0], b->index[1], b->index[2], 0};
    const uint32_t *dims = b->cluster->dims;
    const uint32_t ntid[4] = {l->block[0], l->block[1], l->block[2], 0}, nctaid[4] = {l->grid[0], l->grid[1], l->grid[2], 0};
    switch ((enum special)f->id) {
    case SR_TID: return tid[c];
    case SR_NTID: return ntid[c];
    case SR_CTAID: return ctaid[c];
    case SR_NCTAID: return nctaid[c];
    case SR_LANEID: return (uint32_t)lane;
    case SR_WARPID: return w->id;
    case SR_NWARPID: return 64;
    case SR_SMID: return (uint32_t)((b->number + m->sm_first) % m->sm_count);
    case SR_NSMID: return m->sm_count;
    case SR_LM_EQ: return 1u << lane;
    case SR_LM_LT: return (1u << lane) - 1;
    case SR_LM_LE: return (2u << lane) - 1;
    case SR_LM_GT: return ~((2u << lane) - 1);
    case SR_LM_GE: return ~((1u << lane) - 1);
    case SR_DYN_SMEM: return l->dynamic_shared_bytes;
    case SR_TOTAL_SMEM:
    case SR_AGGR_SMEM: return m->entry->static_shared_bytes + l->dynamic_shared_bytes;
    case SR_CLUSTERID: return c == 3 ? 0 : ctaid[c] / dims[c];
    case SR_NCLUSTERID: return c == 3 ? 0 : nctaid[c] / dims[c];
    case SR_CLUSTER_NCTAID: return c == 3 ? 0 : dims[c];
    case SR_CLUSTER_NCTARANK: return b->cluster->size;
    case SR_GRIDID: return m->grid_id;
    case SR_CLUSTER_CTAID: return c == 3 ? 0 : ctaid[c] % dims[c];
    case SR_CLUSTER_CTARANK: return b->rank;
    case SR_IS_EXPLICIT_CLUSTER: return m->explicit_cluster ? ~0u : 0;
    case SR_ENVREG: /* 1 and 2: the workspace's address, upper and lower half; none without a cooperative launch */
        return !l->cooperative ? 0 : c == 1 ? GRID_WINDOW >> 32 : c == 2 ? (uint32_t)GRID_WINDOW : 0;
    case SR_RESERVED_SMEM:
    case SR_GRAPH_EXEC:
    case SR_CLOCK:
    case SR_CLOCK_HI:
    case SR_CLOCK64:
    case SR_GLOBALTIMER:
    case SR_GLOBALTIMER_LO:
    case SR_GLOBALTIMER_HI:
    case SR_PM:
    case SR_COUNT: break;
    }
    return 0;
}

static bool differs_by_block(const struct fill *x)
{
    return x->kind == FILL_SPECIAL && (x->id == SR_CTAID || x->id == SR_SMID || x->id == SR_CLUSTERID || x->id == SR_CLUSTER_CTAID ||
                                       x->id == SR_CLUSTER_CTARANK);
}

static void fill_slot(const struct block *b, struct warp *w, const struct fill *x)
{
    uint64_t value = x->value;
    if (x->kind == FILL_PARAM) {
        value = 0;
        memcpy(&value, b->worker->machine->params + x->value, x->bytes);
    }
    for (int lane = 0; lane < WARP_LANES; lane++) {
        if (x->kind == FILL_SPECIAL)
            value = special(b, w, x, lane);
        if (x->bytes == 8)
            ((uint64_t *)slot(w, x->slot))[lane] = value;
        else
            ((uint32_t *)slot(w, x->slot))[lane] = (uint32_t)value;
    }
}

/* For each function that may run: all its slots, or those that are another block's value now. */
static void fill_file(const struct block *b, struct warp *w, bool again)
{
    const struct machine *m = b->worker->machine;
    if (again) {
        for (uint32_t n = 0; n < m->moving_count; n++) {
            const struct fill *x = m->moving[n];
            m->lanes->broadcast(slot(w, x->slot), special(b, w, x, 0), FULL_MASK, 4);
        }
        return;
    }
    for (uint32_t f = 0; f < m->module->function_count; f++) {
        const struct function *fn = &m->module->functions[f];
        if (fn->decoded && (fn == m->entry || !fn->is_entry))
            for (uint32_t n = 0; n < fn->fill_count; n++)
                fill_slot(b, w, &m->module->fills[fn->fill_first + n]);
    }
}

static void block_start(struct block *b, uint64_t unit)
{
    const struct machine *m = b->worker->machine;
    const bool again = b->started;
    b->number = cluster_number(b->cluster, m->launch->grid, unit, b->rank, b->index);
    b->started = true;
    mbarrier_forget(&b->mbarriers);
    b->cluster_gathered = (struct race_object){0};
    b->cluster_released = (struct race_object){0};
    b->done = false;
    b->alive_warps = b->warp_count == 32 ? FULL_MASK : (1u << b->warp_count) - 1;
    memset(b->barriers, 0, sizeof b->barriers);
    if (m->shared_bytes)
        memset(b->shared_init, m->lenient ? 0xff : 0, bits_bytes(m->shared_bytes));
    if (m->frame_bytes)
        memset(b->local_init, m->lenient ? 0xff : 0, bits_bytes((uint64_t)m->frame_bytes * b->warp_count * WARP_LANES));
    race_start(b);
    b->bulk_depth = 0;
    for (uint32_t n = 0; n < b->warp_count; n++) {
        struct warp *w = &b->warps[n];
        const uint64_t left = m->threads_block - (uint64_t)n * WARP_LANES;
        w->alive = left >= 32 ? FULL_MASK : (1u << left) - 1;
        w->state = WARP_RUN;
        w->splits[0] = (struct split){.mask = w->alive, .pc = m->entry->code_first, .parent = -1, .state = SPLIT_RUN};
        w->split_count = 1;
        w->current = -1;
        w->instructions = 0;
        w->depth_base += 1u << 16;
        if (w->depth_base > 1u << 31) {
            memset(w->depths, 0, (m->file_bytes / 128 + 4) * sizeof *w->depths);
            w->depth_base = 1u << 16;
        }
        w->used = w->waited = w->stored = w->longest = w->copy_depth = w->depth_base;
        w->copy_count = 0;
        w->cluster_here = w->cluster_passed = 0;
        w->stuck = false;
        calls_forget(w);
        memset(w->written, 0, m->module->tracked_count * sizeof *w->written);
        memset(w->committed, 0, sizeof w->committed);
        memset(w->bulk_committed, 0, sizeof w->bulk_committed);
        fill_file(b, w, again);
    }
    schedule_block(b);
}

/* ---- turns ---- */
static void report_time(struct worker *k)
{
    struct machine *m = k->machine;
    const uint64_t total = atomic_fetch_add(&m->instructions, k->unreported) + k->unreported;
    k->unreported = 0;
    if (k->finding.kind != PTX_CLEAN)
        return;
    if (total > m->limits.thread_instructions)
        ptx_finding_set(&k->finding, PTX_TIMEOUT, "the launch ran more than %llu thread instructions",
                        (unsigned long long)m->limits.thread_instructions);
    else if (now_ns() > m->deadline_ns) {
        ptx_finding_set(&k->finding, PTX_TIMEOUT, "the launch ran longer than %lld ms", (long long)(m->limits.wall_ns / 1000000));
        k->finding.out_of_time = true;
    }
}

static void warp_ended(struct block *b, struct warp *w)
{
    struct ptx_counts *c = &b->worker->counts;
    b->alive_warps &= ~(1u << w->id);
    if (w->instructions > c->longest_warp_instructions)
        c->longest_warp_instructions = w->instructions;
    if (w->longest - w->depth_base > c->dependent_loads)
        c->dependent_loads = w->longest - w->depth_base;
    barrier_recheck(b);
}

/* Each warp of the block goes as far as it can, once. False: a finding. *ret_moved: something happened. */
static bool block_turn(struct block *b, int64_t slice, bool *ret_moved)
{
    struct worker *k = b->worker;
    const uint32_t first = (uint32_t)(draw(&k->random) % b->warp_count);
    const uint32_t step = draw(&k->random) & 1 ? 1 : b->warp_count - 1; /* up or down: no need for every order */
    for (uint32_t n = 0; n < b->warp_count; n++) {
        struct warp *w = &b->warps[(first + n * step) % b->warp_count];
        if (w->state != WARP_RUN)
            continue;
        w->stuck = false;
        const enum stop stop = warp_run(w, schedule_slice(k, slice));
        *ret_moved |= stop != STOP_SLICE || !w->stuck;
        if (stop == STOP_FAULT)
            return false;
        if (stop == STOP_DONE)
            warp_ended(b, w);
        if (k->unreported > 1000000 || (stop == STOP_SLICE && !w->stuck)) {
            report_time(k);
            if (k->machine->limits.threads > 1)
                sched_yield();     /* it may be polling for what a block of another host thread has to do */
            if (k->finding.kind != PTX_CLEAN || atomic_load_explicit(&k->machine->stop, memory_order_relaxed))
                return false;
        }
    }
    if (b->alive_warps)
        return true;
    b->done = true;
    return flight_end(b) && race_block_end(b);
}

/* Each block of the cluster has a turn. False: a finding. *ret_alive: some have not ended. */
static bool cluster_turn(struct cluster *c, int64_t slice, bool *ret_alive)
{
    bool moved = false, alive = false;
    const uint32_t first = c->size > 1 ? (uint32_t)(worker_draw(c->blocks->worker) % c->size) : 0;
    for (uint32_t r = 0; r < c->size; r++) {
        struct block *b = &c->blocks[(first + r) % c->size];
        if (!b->done && !block_turn(b, slice, &moved))
            return false;
        alive |= !b->done;
    }
    *ret_alive |= alive;
    c->idle = moved ? 0 : c->idle + 1;
    return !alive || c->idle < IDLE_ROUNDS || cluster_deadlock(c);
}

static void worker_fold(struct worker *k)
{
    const struct ptx_module *m = k->machine->module;
    for (uint32_t b = 0; b < m->block_count; b++) {
        if (!k->block_warps[b])
            continue;
        k->counts.thread_instructions += k->block_threads[b] * m->blocks[b].total;
        k->counts.warp_instructions += k->block_warps[b] * m->blocks[b].total;
        for (int c = 0; c < 16; c++) {
            k->counts.by_class[c] += k->block_threads[b] * m->blocks[b].by_class[c];
            k->counts.warp_by_class[c] += k->block_warps[b] * m->blocks[b].by_class[c];
        }
    }
}

static void found(struct worker *k, uint64_t block)
{
    uint64_t lowest = atomic_load(&k->machine->found_block);
    while (block < lowest && !atomic_compare_exchange_weak(&k->machine->found_block, &lowest, block))
        ;
    k->found_block = block;
}

static void *worker_main(void *arg)
{
    struct worker *k = arg;
    struct machine *m = k->machine;
    struct cluster *c = &k->clusters[0];
    for (;;) {
        uint64_t turn, number;
        /* clusters before the one with a finding still run, so that the first one's finding is the one told */
        if (!sample_next(m, m->total_blocks / c->size, &turn, &number) || turn > atomic_load(&m->found_block) || atomic_load(&m->stop))
            break;
        k->random = m->seed ^ number * 0xd1b54a32d192ed03ull;
        cluster_start(c);
        for (uint32_t r = 0; r < c->size; r++)
            block_start(&c->blocks[r], number);
        bool fine = true;
        for (bool alive = true; alive && fine;) {
            alive = false;
            fine = cluster_turn(c, c->size > 1 ? SLICE_COOPERATIVE : SLICE, &alive);
        }
        const bool left_out = !fine && k->finding.kind == PTX_LEFT_OUT;
        if (left_out) {
            k->finding = (struct ptx_finding){.source_line = -1};
            fine = true;
        }
        k->counts.blocks += left_out ? 0 : c->size;
        k->counts.warps += (uint64_t)c->size * c->blocks[0].warp_count;
        if (m->sample) {
            atomic_fetch_add(&m->instructions, k->unreported);
            k->unreported = 0;
        }
        if (k->depth)
            depth_unit_end(k, turn, fine);
        if (!fine) {
            if (k->finding.kind != PTX_CLEAN)
                found(k, turn);
            if (k->finding.kind == PTX_TIMEOUT)
                atomic_store(&m->stop, true);
            break;
        }
    }
    worker_fold(k);
    return NULL;
}

static void cooperative_main(struct worker *k)
{
    struct machine *m = k->machine;
    k->random = m->seed;
    for (uint32_t n = 0; n < k->cluster_count; n++) {
        cluster_start(&k->clusters[n]);
        for (uint32_t r = 0; r < m->cluster_size; r++)
            block_start(&k->clusters[n].blocks[r], n);
    }
    for (bool alive = true, fine = true; alive && fine;) {
        alive = false;
        for (uint32_t n = 0; n < k->cluster_count && fine; n++) {
            fine = cluster_turn(&k->clusters[n], SLICE_COOPERATIVE, &alive);
            if (!fine && k->finding.kind != PTX_CLEAN)
                found(k, n);
        }
    }
    k->counts.blocks = m->total_blocks;
    k->counts.warps = m->total_blocks * k->blocks[0].warp_count;
    for (uint32_t n = 0; k->depth && n < k->cluster_count; n++)
        depth_unit_end(k, n, true);
    worker_fold(k);
}

/* ---- the launch ---- */
static bool refuse(struct ptx_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct ptx_finding *f, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ptx_finding_set(f, PTX_BAD_LAUNCH, "%s", text);
    return false;
}

static bool cluster_check(struct machine *m, struct ptx_finding *f)
{
    const struct ptx_launch *l = m->launch;
    const uint32_t *compiled = m->entry->cluster;
    m->cluster_size = 1;
    for (int i = 0; i < 3; i++) {
        m->cluster[i] = l->cluster[i] ? l->cluster[i] : compiled[0] && compiled[i] ? compiled[i] : 1;
        m->explicit_cluster |= l->cluster[i] != 0 || compiled[0];
        if (compiled[0] && m->cluster[i] != (compiled[i] ? compiled[i] : 1))
            return refuse(f, "clusters of %ux%ux%u blocks; the kernel was compiled for %ux%ux%u", l->cluster[0], l->cluster[1], l->cluster[2],
                          compiled[0], compiled[1], compiled[2]);
        if (m->cluster[i] > MOST_CLUSTER_BLOCKS || l->grid[i] % m->cluster[i])
            return refuse(f, "clusters of %ux%ux%u blocks in a grid of %ux%ux%u", m->cluster[0], m->cluster[1], m->cluster[2], l->grid[0],
                          l->grid[1], l->grid[2]);
        m->cluster_size *= m->cluster[i];
    }
    if (m->cluster_size > MOST_CLUSTER_BLOCKS)
        return refuse(f, "%u blocks in a cluster; at most %d", m->cluster_size, MOST_CLUSTER_BLOCKS);
    return true;
}

static bool launch_check(struct machine *m, struct ptx_finding *f)
{
    const struct ptx_launch *l = m->launch;
    const uint32_t grid_limits[3] = {INT32_MAX, 65535, 65535}, block_limits[3] = {1024, 1024, 64};
    for (uint32_t i = 0; i < m->module->function_count; i++)
        if (m->module->functions[i].is_entry && m->module->functions[i].has_body &&
            !strcmp(ptx_name(m->module, m->module->functions[i].name), l->kernel))
            m->entry = &m->module->functions[i];
    if (!m->entry)
        return refuse(f, "there is no kernel %.100s", l->kernel);
    m->total_blocks = m->threads_block = 1;
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || l->grid[i] > grid_limits[i] || !l->block[i] || l->block[i] > block_limits[i])
            return refuse(f, "grid (%u,%u,%u), block (%u,%u,%u): out of range", l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                          l->block[2]);
        if (m->entry->reqntid[0] && m->entry->reqntid[i] != l->block[i])
            return refuse(f, "the kernel requires blocks of %ux%ux%u threads", m->entry->reqntid[0], m->entry->reqntid[1], m->entry->reqntid[2]);
        m->total_blocks *= l->grid[i];
        m->threads_block *= l->block[i];
    }
    if (!cluster_check(m, f))
        return false;
    if (m->threads_block > 1024)
        return refuse(f, "%llu threads in a block; at most 1024", (unsigned long long)m->threads_block);
    const uint64_t most = (uint64_t)m->entry->maxntid[0] * m->entry->maxntid[1] * m->entry->maxntid[2];
    if (m->entry->maxntid[0] && m->threads_block > most)
        return refuse(f, "%llu threads in a block; the kernel was compiled for at most %llu", (unsigned long long)m->threads_block,
                      (unsigned long long)most);
    if (l->arg_count != m->entry->param_count)
        return refuse(f, "%d arguments; the kernel has %d parameters", l->arg_count, m->entry->param_count);
    for (int i = 0; i < l->arg_count; i++) {
        const struct variable *v = &m->module->vars[m->entry->params[i]];
        if (l->args[i].bytes != v->bytes)
            return refuse(f, "argument %d has %u bytes; the parameter has %llu", i, l->args[i].bytes, (unsigned long long)v->bytes);
        if (v->bytes > 8)
            return refuse(f, "parameter %d has %llu bytes; a plan passes at most 8", i, (unsigned long long)v->bytes);
        memcpy(m->params + v->offset, &l->args[i].value, v->bytes);
    }
    if (l->dynamic_shared_bytes > 1u << 20)
        return refuse(f, "%u bytes of dynamic shared memory", l->dynamic_shared_bytes);
    m->static_end = m->entry->static_shared_bytes;
    m->shared_bytes = l->dynamic_shared_bytes ? m->module->dynamic_shared + l->dynamic_shared_bytes : m->static_end;
    if (m->static_end + l->dynamic_shared_bytes > 232448)
        return refuse(f, "%u bytes of shared memory in a block; there are 232448", m->static_end + l->dynamic_shared_bytes);
    m->frame_bytes = (m->module->func_frame_bytes + m->entry->local_bytes + 15) / 16 * 16;
    m->file_bytes = m->entry->file_base + m->entry->file_bytes;
    m->moving = xarray(m->module->fill_count + 1, sizeof *m->moving);
    for (uint32_t index = 0; index < m->module->function_count; index++) {
        const struct function *fn = &m->module->functions[index];
        for (uint32_t n = 0; n < fn->fill_count && fn->decoded && (fn == m->entry || !fn->is_entry); n++)
            if (differs_by_block(&m->module->fills[fn->fill_first + n]))
                m->moving[m->moving_count++] = &m->module->fills[fn->fill_first + n];
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    const struct region *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

static size_t sector_words(uint64_t bytes) { return (size_t)((bytes / 32 + 2) / 64 + 2); }

static bool regions_build(struct machine *m, struct ptx_buffer *buffers, int count, struct ptx_finding *f)
{
    m->regions = xarray((size_t)count + 2, sizeof *m->regions);
    for (int i = 0; i < count; i++) {
        const uint64_t words = sector_words(buffers[i].bytes);
        m->regions[i] = (struct region){.base = buffers[i].address, .bytes = buffers[i].bytes, .data = buffers[i].data,
                                        .initialised = buffers[i].initialised, .name = buffers[i].name, .writable = buffers[i].writable, .frozen = buffers[i].frozen, .buffer = &buffers[i],
                                        .counted = true, .loaded = xarray(words, 8), .stored = xarray(words, 8)};
        m->region_count++;
        m->shadow_bytes += words * 16 + (buffers[i].initialised ? buffers[i].bytes / 8 : 0);
        if (buffers[i].address + buffers[i].bytes < buffers[i].address || buffers[i].address + buffers[i].bytes > GRID_WINDOW)
            return refuse(f, "buffer %s lies outside the address space", buffers[i].name);
    }
    m->regions[m->region_count++] = (struct region){.base = GRID_WINDOW, .bytes = GRID_WORKSPACE_BYTES, .data = m->grid_workspace,
                                                    .name = "the grid barrier's workspace", .writable = true};
    m->regions[m->region_count++] = (struct region){.base = MODULE_WINDOW, .bytes = m->module->data_bytes ? m->module->data_bytes : 1,
                                                    .data = m->module->data, .name = "the module's variables", .writable = m->lenient};
    qsort(m->regions, (size_t)m->region_count, sizeof *m->regions, by_address);
    for (int i = 0; i + 1 < m->region_count; i++)
        if (m->regions[i].base + m->regions[i].bytes > m->regions[i + 1].base)
            return refuse(f, "buffers %s and %s overlap", m->regions[i].name, m->regions[i + 1].name);
    return true;
}

static void counts_add(struct ptx_counts *to, const struct ptx_counts *from)
{
    const uint64_t longest = to->longest_warp_instructions > from->longest_warp_instructions ? to->longest_warp_instructions
                                                                                            : from->longest_warp_instructions;
    const uint64_t chain = to->dependent_loads > from->dependent_loads ? to->dependent_loads : from->dependent_loads;
    uint64_t *t = (uint64_t *)to; /* all fields are uint64_t */
    const uint64_t *s = (const uint64_t *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *t; i++)
        t[i] += s[i];
    to->longest_warp_instructions = longest;
    to->dependent_loads = chain;
}

static void machine_run(struct machine *m, struct worker *workers, int threads)
{
    pthread_t handles[64];
    if (m->launch->cooperative || m->entry->uses_grid_barrier) {
        cooperative_main(&workers[0]);
        return;
    }
    int started = 1;
    for (; started < threads; started++)
        if (pthread_create(&handles[started], NULL, worker_main, &workers[started]))
            break;
    worker_main(&workers[0]);
    for (int i = 1; i < started; i++)
        pthread_join(handles[i], NULL);
}

/* Memory for `threads` blocks (or all, if cooperative): within the limit? */
static bool memory_fits(const struct machine *m, uint64_t blocks)
{
    const uint64_t warps = (m->threads_block + 31) / 32;
    const uint64_t one = warps * (m->file_bytes + m->file_bytes / 32 + sizeof(struct warp)) + (uint64_t)m->shared_bytes * 6 +
                         (uint64_t)m->frame_bytes * warps * 32 * 9 / 8;
    return one < m->limits.memory_bytes && one * blocks < m->limits.memory_bytes * (blocks > 64 ? 4 : blocks);
}

/*
 * A card of some other size, after some number of launches, at some time in forty years. Blocks in order come with a clock that races,
 * blocks in descending order with a slow one: who runs a kernel in both has seen both sides of any time that it may wait for.
 */
static void where_and_when(struct machine *m, bool wander)
{
    static const uint32_t sizes[] = {132, 114, 78, 148, 160, 46};
    uint64_t state = m->seed;
    m->sm_count = 132;
    m->grid_id = 1;
    m->clock_base = 1000;
    m->clock_rate = 4;
    m->timer_base = 1700000000000000000ull;
    if (!wander)
        return;
    m->sm_count = sizes[draw(&state) % (sizeof sizes / sizeof *sizes)];
    m->sm_first = (uint32_t)(draw(&state) % m->sm_count);
    m->grid_id = 1 + (draw(&state) >> (24 + draw(&state) % 32));
    m->clock_base = draw(&state) >> 16;
    m->clock_rate = m->seed & PTX_SEED_DESCENDING ? 4ull << draw(&state) % 4 : 4ull << (16 + draw(&state) % 8);
    m->timer_base = 1577836800000000000ull + draw(&state) % 1262304000000000000ull;
}

const char *ptx_schedule_name(enum ptx_schedule schedule)
{
    return schedule == PTX_EXPLORE ? "explore" : "lockstep";
}

bool ptx_run(const struct ptx_module *module, const struct ptx_launch *launch, struct ptx_buffer *buffers, int buffer_count,
             const struct ptx_run_options *options, struct ptx_finding *ret_finding, struct ptx_counts *ret_counts, struct err *err)
{
    (void)err;
    struct ptx_finding finding = {.source_line = -1};
    struct machine *m = xalloc(sizeof *m);
    m->module = module;
    m->launch = launch;
    m->lanes = ptx_lanes_get();
    m->limits = options->limits;
    m->seed = options->schedule_seed;
    m->schedule = options->schedule;
    m->history = options->history;
    m->check_races = options->check_races;
    m->lenient = options->lenient;
    where_and_when(m, options->wander);
    m->shared_races_only = options->shared_races_only;
    m->found_block = UINT64_MAX;
    m->start_ns = now_ns();
    m->deadline_ns = m->start_ns + m->limits.wall_ns;
    struct ptx_counts counts = {0};
    bool fine = launch_check(m, &finding) && regions_build(m, buffers, buffer_count, &finding);
    int threads = m->limits.threads < 1 ? 1 : m->limits.threads > 64 ? 64 : m->limits.threads;
    const bool together = fine && (launch->cooperative || m->entry->uses_grid_barrier);
    if (fine && (uint64_t)threads > m->total_blocks / m->cluster_size)
        threads = (int)(m->total_blocks / m->cluster_size);
    if (together)
        threads = 1;
    m->many = threads > 1;
    if (fine && !memory_fits(m, together ? m->total_blocks : (uint64_t)threads * m->cluster_size)) {
        ptx_finding_set(&finding, PTX_RESOURCE, "a running block needs more memory than is allowed");
        fine = false;
    }
    if (fine) {
        sample_open(m, options->sample);
        race_grid_open(m, !options->shared_races_only);
        m->depth = depth_open(m, options->depth);
        struct worker *workers = aligned((size_t)threads * sizeof *workers);
        m->workers = workers, m->worker_count = threads;
        for (int i = 0; i < threads; i++) {
            struct worker *k = &workers[i];
            k->machine = m;
            k->depth = depth_worker_open(m->depth);
            k->finding.source_line = -1;
            k->found_block = UINT64_MAX;
            k->block_threads = xarray(module->block_count + 1, sizeof(uint64_t));
            k->block_warps = xarray(module->block_count + 1, sizeof(uint64_t));
            k->block_count = together ? (uint32_t)m->total_blocks : m->cluster_size;
            k->cluster_count = k->block_count / m->cluster_size;
            k->blocks = xarray(k->block_count, sizeof *k->blocks);
            k->clusters = xarray(k->cluster_count, sizeof *k->clusters);
            for (uint32_t b = 0; b < k->block_count; b++)
                block_open(k, &k->blocks[b]);
            for (uint32_t c = 0; c < k->cluster_count; c++)
                cluster_open(k, &k->clusters[c], &k->blocks[c * m->cluster_size]);
        }
        machine_run(m, workers, threads);
        uint64_t lowest = UINT64_MAX;
        for (int i = 0; i < threads; i++) {
            struct worker *k = &workers[i];
            if (k->finding.kind != PTX_CLEAN && k->found_block <= lowest) {
                lowest = k->found_block;
                finding = k->finding;
            }
            counts_add(&counts, &k->counts);
        }
        depth_close(m->depth, workers, threads, &counts);
        for (int i = 0; i < threads; i++) {
            struct worker *k = &workers[i];
            for (uint32_t b = 0; b < k->block_count; b++)
                block_close(&k->blocks[b]);
            for (uint32_t c = 0; c < k->cluster_count; c++)
                cluster_close(&k->clusters[c]);
            free(k->clusters);
            free(k->blocks);
            free(k->block_threads);
            free(k->block_warps);
        }
        free(workers);
        sample_close(m);
    }
    for (int i = 0; i < m->region_count; i++)
        if (m->regions[i].counted) {
            counts.unique_load_sectors += m->lanes->bits_count(m->regions[i].loaded, sector_words(m->regions[i].bytes));
            counts.unique_store_sectors += m->lanes->bits_count(m->regions[i].stored, sector_words(m->regions[i].bytes));
            m->regions[i].buffer->loaded = m->lanes->bits_count(m->regions[i].loaded, sector_words(m->regions[i].bytes)) > 0;
            m->regions[i].buffer->stored = m->lanes->bits_count(m->regions[i].stored, sector_words(m->regions[i].bytes)) > 0;
            free(m->regions[i].loaded);
            free(m->regions[i].stored);
        }
    race_grid_close(m);
    counts.shadow_bytes = m->shadow_bytes;
    counts.waited_grid = atomic_load(&m->any_waited_grid);
    counts.reads_later = m->many && atomic_load(&m->reads_later);
    free(m->regions);
    free(m->moving);
    free(m);
    finding.schedule_seed = options->schedule_seed;
    finding.explored = options->schedule == PTX_EXPLORE;
    *ret_finding = finding;
    if (ret_counts)
        *ret_counts = counts;
    return true;
}

/*
 * A block's memory, and what its warps find in their register files when it starts.
 */
#include "gpu/ptx/run.h"

#include <string.h>

/* ---- a block's memory ---- */
void *aligned(size_t bytes)
{
    void *p = NULL;
    BUG_ON(posix_memalign(&p, 128, (bytes + 127) / 128 * 128 + 128));
    memset(p, 0, (bytes + 127) / 128 * 128 + 128);
    return p;
}

static size_t bits_bytes(uint64_t bytes) { return (size_t)(bytes / 8 + 16); }

void block_open(struct worker *k, struct block *b)
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

void block_close(struct block *b)
{
    race_cluster_close(b);
    for (uint32_t n = 0; n < b->warp_count; n++) {
        free(b->warps[n].file);
        free(b->warps[n].depths);
        free(b->warps[n].written);
        free(b->warps[n].copies);
        calls_close(&b->warps[n]);
        free(b->warps[n].lanes);
        free(b->warps[n].stale);
    }
    void *parts[] = {b->warps, b->shared, b->shared_init, b->fenced, b->local, b->local_init, b->wrote, b->read_clock, b->readers, b->atomic_clock,
                     b->atomics, b->mbarriers.items};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        free(parts[i]);
}

/* ---- what a warp finds in its register file ---- */

/* Warps of a block may be anywhere in a multiprocessor: one after the other from some place on, or all in one quarter of it. */
static uint32_t place_of_warp(const struct machine *m, uint64_t block, uint32_t warp)
{
    const uint64_t mixed = m->warp_first * (2 * block + 1);
    const uint32_t place = (warp + (uint32_t)(mixed >> 32)) % WARP_PLACES;
    return mixed >> 63 ? place % 16 * 4 + place / 16 : place;
}

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
    case SR_WARPID: return place_of_warp(m, b->number, w->id);
    case SR_NWARPID: return WARP_PLACES;
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
    case SR_GRAPH_EXEC: return m->graph_exec;
    case SR_CLUSTER_CTAID: return c == 3 ? 0 : ctaid[c] % dims[c];
    case SR_CLUSTER_CTARANK: return b->rank;
    case SR_IS_EXPLICIT_CLUSTER: return m->explicit_cluster ? ~0u : 0;
    case SR_ENVREG: /* 1 and 2: the workspace's address, upper and lower half; none without a cooperative launch */
        return !l->cooperative ? 0 : c == 1 ? GRID_WINDOW >> 32 : c == 2 ? (uint32_t)GRID_WINDOW : 0;
    case SR_RESERVED_SMEM:
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

bool differs_by_block(const struct fill *x)
{
    return x->kind == FILL_SPECIAL && (x->id == SR_CTAID || x->id == SR_SMID || x->id == SR_WARPID || x->id == SR_CLUSTERID || x->id == SR_CLUSTER_CTAID ||
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

void block_start(struct block *b, uint64_t unit)
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
    proxy_start(b);
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
        w->sent = false;
        w->stuck = false;
        calls_forget(w);
        stale_start(w);
        memset(w->written, 0, m->module->tracked_count * sizeof *w->written);
        memset(w->committed, 0, sizeof w->committed);
        memset(w->bulk_committed, 0, sizeof w->bulk_committed);
        fill_file(b, w, again);
    }
    schedule_block(b);
}

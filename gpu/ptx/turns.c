/*
 * Turns. Clusters of blocks (mostly of one) are handed out in order to the host threads; each runs its cluster to the end before the next,
 * and lets its blocks take turns; a cooperative launch holds all clusters at once on one thread and lets them take turns. Warps of a block
 * take turns at barriers, in an order drawn from the seed. The finding that counts is the one of the lowest cluster.
 */
#include "gpu/ptx/race.h"
#include "gpu/ptx/run.h"

#include <sched.h>
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

static void report_time(struct worker *k)
{
    struct machine *m = k->machine;
    const uint64_t total = atomic_fetch_add(&m->instructions, k->unreported) + k->unreported;
    k->unreported = 0;
    if (k->finding.kind != PTX_CLEAN)
        return;
    k->finding.executed = total;
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
    race_steps_block_end(b);
    return flight_end(b) && race_block_end(b) && stale_block_end(b);
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

void *worker_main(void *arg)
{
    struct worker *k = arg;
    struct machine *m = k->machine;
    struct cluster *c = &k->clusters[0];
    for (;;) {
        uint64_t turn, number;
        bool drawn;
        /* clusters before the one with a finding still run, so that the first one's finding is the one told */
        if (!sample_next(m, m->total_blocks / c->size, &turn, &number, &drawn) || turn > atomic_load(&m->found_block) || atomic_load(&m->stop))
            break;
        k->random = m->seed ^ number * 0xd1b54a32d192ed03ull;
        k->tag = (uint8_t)(m->tag + drawn);
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
        if (!sample_ended(k, drawn, left_out)) {
            ptx_finding_set(&k->finding, PTX_UNSUPPORTED, "a block stores more than can be undone before it reads what a block that was left out may have written");
            fine = false;
        }
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

void cooperative_main(struct worker *k)
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

/*
 * The blocks of a cluster: where they lie in the grid, whose shared memory an address means, the cluster's barrier, and what a cluster
 * that is stuck waits for.
 *
 * The cluster's barrier: each thread arrives, then waits. A thread that arrives twice or waits without having arrived is at fault.
 * Complete when all threads that have not ended have arrived; looked at when somebody waits, so nobody is woken.
 */
#include "gpu/ptx/async.h"
#include "gpu/ptx/machine.h"
#include "gpu/ptx/opcode.h"

#include <string.h>

void cluster_open(struct worker *k, struct cluster *c, struct block *blocks)
{
    const struct machine *m = k->machine;
    *c = (struct cluster){.blocks = blocks, .size = m->cluster_size};
    memcpy(c->dims, m->cluster, sizeof c->dims);
    for (uint32_t r = 0; r < c->size; r++) {
        blocks[r].cluster = c;
        blocks[r].rank = r;
    }
}

void cluster_close(struct cluster *c)
{
    for (uint32_t n = 0; n < c->flights.count; n++)
        free(c->flights.items[n].data);
    free(c->flights.items);
}

void cluster_start(struct cluster *c)
{
    c->idle = c->phase = 0;
    c->asked = false;
    for (uint32_t n = 0; n < c->flights.count; n++)
        free(c->flights.items[n].data);
    c->flights.count = 0;
    c->flights.bytes = 0;
}

uint64_t cluster_number(const struct cluster *c, const uint32_t *grid, uint64_t unit, uint32_t rank, uint32_t *ret_index)
{
    const uint64_t wide = grid[0] / c->dims[0], high = grid[1] / c->dims[1];
    ret_index[0] = (uint32_t)(unit % wide) * c->dims[0] + rank % c->dims[0];
    ret_index[1] = (uint32_t)(unit / wide % high) * c->dims[1] + rank / c->dims[0] % c->dims[1];
    ret_index[2] = (uint32_t)(unit / wide / high) * c->dims[2] + rank / c->dims[0] / c->dims[1];
    return ret_index[0] + (uint64_t)grid[0] * (ret_index[1] + (uint64_t)grid[1] * ret_index[2]);
}

/* ---- addresses ---- */
struct block *cluster_home(const struct block *b, uint64_t *offset)
{
    const uint64_t part = *offset >> REMOTE_SHIFT;
    *offset &= (1u << REMOTE_SHIFT) - 1;
    if (!part)
        return &b->cluster->blocks[b->rank];
    return part <= b->cluster->size ? &b->cluster->blocks[part - 1] : NULL;
}

/* mapa and getctarank. A rank that is not there gives an address that is nobody's: a fault when it is used. */
void cluster_map(struct warp *w, const struct insn *i, uint32_t active)
{
    const struct block *b = w->block;
    const bool generic = i->space == SPACE_GENERIC;
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        const uint64_t address = ((const uint64_t *)slot(w, i->a))[lane] + (uint64_t)i->imm;
        const bool shared = generic ? (address & ~(WINDOW_SIZE - 1)) == SHARED_WINDOW : address < WINDOW_SIZE;
        uint64_t offset = address & (WINDOW_SIZE - 1), value;
        const struct block *home = shared ? cluster_home(b, &offset) : NULL;
        if (i->op) {
            value = home ? home->rank : UINT32_MAX;
        } else {
            const uint32_t rank = ((const uint32_t *)slot(w, i->b))[lane];
            const uint64_t part = home && rank < b->cluster->size ? rank + 1 : 255;
            value = (generic ? SHARED_WINDOW : 0) | part << REMOTE_SHIFT | offset;
        }
        if (i->size == 8)
            ((uint64_t *)slot(w, i->dst))[lane] = value;
        else
            ((uint32_t *)slot(w, i->dst))[lane] = (uint32_t)value;
    }
}

/* ---- the barrier ---- */
bool cluster_arrive(struct warp *w, const struct insn *i, uint32_t active)
{
    const uint32_t twice = active & (w->cluster_here | w->cluster_passed);
    if (twice)
        return fault(w, i, first_lane(twice), PTX_BARRIER, "arrives at the cluster's barrier twice with no wait between");
    w->cluster_here |= active;
    (i->op ? race_object_publish : race_object_release)(w, active, &w->block->cluster_gathered, w->block,
                                                                 race_cluster_key(w->block, w->block->cluster->phase));
    struct ptx_counts *counts = &w->block->worker->counts;
    counts->barriers++;
    if (!i->op) {
        counts->cluster_releases++;
        counts->cluster_drains += w->sent;
        w->sent = false;
    }
    return true;
}

static bool all_arrived(const struct cluster *c)
{
    for (uint32_t r = 0; r < c->size; r++)
        for (uint32_t n = 0; !c->blocks[r].done && n < c->blocks[r].warp_count; n++)
            if (c->blocks[r].warps[n].alive & ~c->blocks[r].warps[n].cluster_here)
                return false;
    return true;
}

static void pass(struct cluster *c)
{
    c->phase++;
    for (uint32_t r = 0; r < c->size; r++)
        for (uint32_t n = 0; n < c->blocks[r].warp_count; n++) {
            struct warp *w = &c->blocks[r].warps[n];
            w->cluster_passed |= w->cluster_here;
            w->cluster_here = 0;
        }
    bool waited = false;
    for (uint32_t r = 0; r < c->size; r++)
        waited |= c->blocks[r].cluster_gathered.waited;
    for (uint32_t r = 0; r < c->size; r++) {
        c->blocks[r].cluster_released = c->blocks[r].cluster_gathered;
        c->blocks[r].cluster_released.waited = waited;
        c->blocks[r].cluster_released.peers = (1u << c->size) - 1;   /* all of them arrived here */
    }
}

int cluster_wait(struct warp *w, const struct insn *i, uint32_t active)
{
    struct cluster *c = w->block->cluster;
    const uint32_t not_there = active & ~(w->cluster_here | w->cluster_passed);
    if (not_there)
        return fault(w, i, first_lane(not_there), PTX_BARRIER, "waits at the cluster's barrier without having arrived"), -1;
    if (active & w->cluster_here && all_arrived(c))
        pass(c);
    if (active & w->cluster_here)
        return 0;
    w->cluster_passed &= ~active;
    race_object_acquire(w, active, &w->block->cluster_released, race_cluster_key(w->block, c->phase - 1));
    return 1;
}

/* ---- stuck ---- */
bool wait_in_vain(struct warp *w, int split, const struct insn *i, uint32_t what)
{
    struct split *s = &w->splits[split];
    const uint32_t pc = (uint32_t)(i - w->block->worker->machine->module->code) + 1;
    w->stuck = s->waits_pc == pc && s->waits_for == what;
    s->waits_pc = pc;
    s->waits_for = what;
    return w->stuck;
}

static uint32_t absent(const struct cluster *c)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < c->size; r++)
        for (uint32_t v = 0; !c->blocks[r].done && v < c->blocks[r].warp_count; v++)
            n += (uint32_t)__builtin_popcount(c->blocks[r].warps[v].alive & ~c->blocks[r].warps[v].cluster_here);
    return n;
}

static bool stuck_split(struct warp *w, const struct split *s, enum insn_kind kind)
{
    struct block *b = w->block;
    const struct insn *code = b->worker->machine->module->code;
    const bool at_barrier = s->state == SPLIT_BARRIER;
    const struct insn *i = at_barrier ? &code[s->pc] : s->state == SPLIT_RUN && s->waits_pc ? &code[s->waits_pc - 1] : NULL;
    if (!i || i->kind != kind)
        return false;
    const int lane = first_lane(s->mask);
    if (kind == K_MBARRIER) {
        struct mbarrier *m = mbarrier_live(w, i, lane, b, s->waits_at);
        char what[160];
        if (!m)
            return true;
        mbarrier_describe(m, what, sizeof what);
        fault(w, i, lane, PTX_BARRIER, "waits for %s", what);
    } else if (kind == K_CLUSTER_WAIT) {
        fault(w, i, lane, PTX_BARRIER, "waits at the cluster's barrier, where %u threads of the cluster never arrive", absent(b->cluster));
    } else {
        fault(w, i, lane, PTX_BARRIER, "waits at barrier %u, which is never complete", w->barrier);
    }
    return true;
}

/* Who waits for an mbarrier is told first: those at barriers mostly wait for them. */
bool cluster_deadlock(struct cluster *c)
{
    static const enum insn_kind kinds[] = {K_MBARRIER, K_CLUSTER_WAIT, K_BAR};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint32_t r = 0; r < c->size; r++)
            for (uint32_t n = 0; !c->blocks[r].done && n < c->blocks[r].warp_count; n++) {
                struct warp *w = &c->blocks[r].warps[n];
                for (int s = 0; w->state != WARP_DONE && s < w->split_count; s++)
                    if (stuck_split(w, &w->splits[s], kinds[k]))
                        return false;
            }
    BUG_ON(true);
    return false;
}

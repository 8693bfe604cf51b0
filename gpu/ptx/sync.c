/* What lanes of a warp tell each other, and barriers of a block. */
#include "gpu/ptx/machine.h"
#include "gpu/ptx/matrix.h"
#include "gpu/ptx/opcode.h"

#include <string.h>

enum { BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR };   /* as decode_bar sets them */

/* What a lane reads from one that does not take part: no value of its own, so that nobody can come to rely on it. */
#define NOBODY 0xffffdeadu

static void set_lanes(uint32_t *to, const uint32_t *from, uint32_t active)
{
    for (int l = 0; l < WARP_LANES; l++)
        to[l] = active >> l & 1 ? from[l] : to[l];
}
static void set_all(struct warp *w, uint32_t to, uint32_t active, uint32_t value)
{
    uint32_t *p = (uint32_t *)slot(w, to);
    for (int l = 0; l < WARP_LANES; l++)
        p[l] = active >> l & 1 ? value : p[l];
}

static void shuffle(struct warp *w, const struct insn *i, uint32_t active)
{
    const struct lane_table *t = w->block->worker->machine->lanes;
    uint32_t out[WARP_LANES] __attribute__((aligned(128))), from[WARP_LANES] __attribute__((aligned(128)));
    const int mode = i->op == M_UP ? 0 : i->op == M_DOWN ? 1 : i->op == M_BFLY ? 2 : 3;
    const bool full = active == FULL_MASK;
    const uint32_t inside = t->shuffle(full ? (uint32_t *)slot(w, i->dst) : out, (const uint32_t *)slot(w, i->a),
                                       (const uint32_t *)slot(w, i->b), (const uint32_t *)slot(w, i->c), mode, from);
    if (full) {
        if (i->aux)
            t->unpack((uint32_t *)slot(w, i->aux), inside);
        return;
    }
    for (int l = 0; l < WARP_LANES; l++)
        if (!(active >> from[l] & 1))
            out[l] = NOBODY;
    set_lanes((uint32_t *)slot(w, i->dst), out, active);
    if (i->aux) {
        uint32_t pred[WARP_LANES] __attribute__((aligned(128)));
        t->unpack(pred, inside);
        set_lanes((uint32_t *)slot(w, i->aux), pred, active);
    }
}

static void vote(struct warp *w, const struct insn *i, uint32_t active)
{
    const uint32_t yes = w->block->worker->machine->lanes->pack((const uint32_t *)slot(w, i->a)) & active;
    const bool all = yes == active, any = yes != 0;
    const uint32_t r = i->op == M_BALLOT ? yes : (i->op == M_ALL ? all : i->op == M_ANY ? any : all || !any) ? ~0u : 0;
    set_all(w, i->dst, active, r);
}

static void match(struct warp *w, const struct insn *i, uint32_t active)
{
    if (i->op == 2) { /* elect.sync */
        const uint32_t leader = (uint32_t)first_lane(active);
        set_all(w, i->dst, active, leader);
        set_all(w, i->aux, active, 0);
        ((uint32_t *)slot(w, i->aux))[leader] = ~0u;
        return;
    }
    uint64_t value[WARP_LANES];
    for (int l = 0; l < WARP_LANES; l++)
        value[l] = i->size == 8 ? ((const uint64_t *)slot(w, i->a))[l] : ((const uint32_t *)slot(w, i->a))[l];
    if (i->op == 1) {
        bool same = true;
        for (uint32_t rest = active; rest; rest &= rest - 1)
            same &= value[first_lane(rest)] == value[first_lane(active)];
        set_all(w, i->dst, active, same ? active : 0);
        if (i->aux)
            set_all(w, i->aux, active, same ? ~0u : 0);
        return;
    }
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        uint32_t same = 0;
        for (uint32_t other = active; other; other &= other - 1)
            same |= value[first_lane(other)] == value[first_lane(rest)] ? 1u << first_lane(other) : 0;
        ((uint32_t *)slot(w, i->dst))[first_lane(rest)] = same;
    }
}

static void reduce(struct warp *w, const struct insn *i, uint32_t active)
{
    const uint32_t *a = (const uint32_t *)slot(w, i->a);
    uint32_t r = a[first_lane(active)];
    for (uint32_t rest = active & (active - 1); rest; rest &= rest - 1) {
        const uint32_t x = a[first_lane(rest)];
        const bool less = i->type ? (int32_t)x < (int32_t)r : x < r;
        switch ((int)i->op) {
        case M_ADD: r += x; break;
        case M_MIN: r = less ? x : r; break;
        case M_MAX: r = less ? r : x; break;
        case M_AND: r &= x; break;
        case M_OR: r |= x; break;
        default: r ^= x; break;
        }
    }
    set_all(w, i->dst, active, r);
}

bool sync_execute(struct warp *w, const struct insn *i, uint32_t active)
{
    w->block->worker->counts.shuffles += i->kind == K_SHFL;
    switch ((int)i->kind) {
    case K_SHFL: shuffle(w, i, active); break;
    case K_VOTE: vote(w, i, active); break;
    case K_MATCH: match(w, i, active); break;
    case K_REDUX: reduce(w, i, active); break;
    case K_MATRIX: return matrix_execute(w, i, active);
    default: break; /* bar.warp.sync */
    }
    return true;
}

/* ---- barriers of the block ---- */
static void release_warp(struct warp *w, const struct barrier *bar)
{
    const struct insn *code = w->block->worker->machine->module->code;
    for (int n = 0; n < w->split_count; n++) {
        struct split *s = &w->splits[n];
        if (s->state != SPLIT_BARRIER)
            continue;
        const struct insn *i = &code[s->pc];
        if (i->op >= BAR_POPC)
            set_all(w, i->dst, s->mask, i->op == BAR_POPC ? bar->popc : (i->op == BAR_AND ? bar->all : bar->any) ? ~0u : 0);
        s->state = SPLIT_RUN;
        s->pc++;
    }
    lane_meet(w, w->alive);
    splits_merge(w);
    w->state = WARP_RUN;
}

static void barrier_try(struct block *b, struct barrier *bar)
{
    if (!bar->in_use)
        return;
    const bool complete = bar->expected ? bar->threads >= bar->expected : (bar->arrived & b->alive_warps) == b->alive_warps;
    if (!complete)
        return;
    race_barrier(b, bar);
    uint32_t waited = 0;
    for (uint32_t n = 0; n < b->warp_count; n++)
        if (bar->arrived >> n & 1 && b->warps[n].used > waited)
            waited = b->warps[n].used;
    const struct barrier done = *bar;
    *bar = (struct barrier){.last_warps = done.arrived, .last_clock = b->clock};
    for (uint32_t n = 0; n < b->warp_count; n++)
        if (done.waiting >> n & 1) {
            b->warps[n].used = b->warps[n].waited = waited;
            release_warp(&b->warps[n], &done);
        }
}

void barrier_recheck(struct block *b)
{
    for (int n = 0; n < BARRIERS; n++)
        barrier_try(b, &b->barriers[n]);
}

/* A barrier counts threads, not who they are: who was not among those that met there last must come when they have met. */
static bool was_over(const struct warp *w, const struct barrier *bar)
{
    if (!w->block->worker->machine->check_races || !bar->last_warps || bar->last_warps >> w->id & 1 || w->safe >= bar->last_clock)
        return true;
    for (uint32_t rest = bar->last_warps; rest; rest &= rest - 1)
        if (w->seen[first_lane(rest)] >= bar->last_clock)
            return true;
    return false;
}

/* All living lanes of a warp are at a barrier: is it complete? Arriving goes on at once, syncing waits to be released. */
bool barrier_arrive(struct warp *w)
{
    struct block *b = w->block;
    const struct insn *code = b->worker->machine->module->code;
    const struct split *s = w->splits;
    while (s->state != SPLIT_BARRIER)
        s++;
    const struct insn *i = &code[s->pc];
    const int lane = first_lane(s->mask);
    const uint32_t id = ((const uint32_t *)slot(w, i->a))[lane], count = i->b ? ((const uint32_t *)slot(w, i->b))[lane] : 0;
    if (id >= BARRIERS)
        return fault(w, i, lane, PTX_BARRIER, "waits at barrier %u; there are %d", id, BARRIERS);
    if (i->b && (!count || count % WARP_LANES))
        return fault(w, i, lane, PTX_BARRIER, "waits at barrier %u for %u threads, which are not whole warps", id, count);
    struct barrier *bar = &b->barriers[id];
    if (bar->in_use && bar->expected != count)
        return fault(w, i, lane, PTX_BARRIER, "waits at barrier %u for %u threads, others for %u", id, count, bar->expected);
    if (!bar->in_use)
        *bar = (struct barrier){.in_use = true, .expected = count, .all = true, .last_warps = bar->last_warps, .last_clock = bar->last_clock};
    if (!was_over(w, bar))
        return fault(w, i, lane, PTX_RACE, "comes to barrier %u, where other warps (mask %x) met, with nothing to order the two: it may be counted as one of them", id,
                     bar->last_warps);
    bar->arrived |= 1u << w->id;
    bar->threads += WARP_LANES;
    bar->waited |= ((w->waited_grid | w->waited_taken) & w->alive) != 0;
    bar->waited_fenced |= (w->waited_fenced & w->alive) != 0;
    if (i->op >= BAR_POPC) {
        const uint32_t yes = b->worker->machine->lanes->pack((const uint32_t *)slot(w, i->c)) & w->alive;
        bar->popc += (uint32_t)__builtin_popcount(yes);
        bar->all &= yes == w->alive;
        bar->any |= yes != 0;
    }
    b->worker->counts.barriers++;
    if (i->op == BAR_ARRIVE) {
        for (int n = 0; n < w->split_count; n++)
            if (w->splits[n].state == SPLIT_BARRIER)
                w->splits[n].state = SPLIT_RUN, w->splits[n].pc++;
        w->state = WARP_RUN;
    } else {
        bar->waiting |= 1u << w->id;
        w->state = WARP_BARRIER;
        w->barrier = id;
    }
    barrier_try(b, bar);
    return true;
}

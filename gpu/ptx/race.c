/*
 * Races between warps of a block on shared memory, by clocks; and the clocks themselves.
 *
 * Each warp has a clock, `clock_now`, and for each other warp what it has seen of that one's (`seen`); what happened at or
 * before a seen clock is ordered before us. A barrier makes everyone see everything; a fence followed by an atomic or
 * volatile access passes on what was before the fence to whoever reads that kind of access and passes a fence or a barrier in turn.
 * What a warp has fenced, the warps that meet it at a barrier may pass on too.
 * For each granule of shared memory we keep the last plain write (clock and warp), the warps that read it at the latest read
 * clock, and the same for atomics. A granule is a word until some access covers part of a word, then all are bytes: exact.
 * Where three warps read at different clocks between named barriers the oldest may be forgotten: a miss, never a false report.
 * Volatile accesses race with plain ones only; of volatile loads nothing is kept.
 */
#include "gpu/ptx/race.h"

#include <string.h>

void race_safe(struct warp *w)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t j = 0; j < w->block->warp_count; j++)
        if (j != w->id && w->seen[j] < least)
            least = w->seen[j];
    w->safe = least == UINT32_MAX ? w->clock_now : least;
}

void race_start(struct block *b)
{
    b->changes++;
    b->clock = 1;
    b->any_fence = false;
    race_steps_start(b);
    b->sync_horizon = b->group = b->group_clock = 0;
    memset(b->sync, 0, sizeof b->sync);
    for (uint32_t i = 0; i < b->warp_count; i++) {
        struct warp *w = &b->warps[i];
        memset(w->seen, 0, sizeof w->seen);
        memset(w->fence, 0, sizeof w->fence);
        memset(w->far, 0, sizeof w->far);
        memset(w->pending, 0, sizeof w->pending);
        w->has_fence = w->has_far = false;
        w->horizon = w->pending_horizon = w->pending_near = w->taken_horizon = w->fence_horizon = w->fence_number = w->actor_clock = 0;
        w->strong_clock = UINT32_MAX;
        w->clock_now = 1;
        w->safe = b->warp_count == 1 ? UINT32_MAX >> 5 : 0;
    }
    const uint32_t n = b->worker->machine->shared_bytes;
    race_peer_start(b);
    if (b->watch)
        race_cluster_start(b);
    if (!b->wrote || b->watch)
        return;
    const size_t bytes = ((size_t)(n >> b->granule_shift) + 16) * sizeof(uint32_t);
    memset(b->wrote, 0, bytes);
    memset(b->read_clock, 0, bytes);
    if (b->any_atomic)
        memset(b->atomic_clock, 0, bytes);
    b->any_atomic = false;
}

static void join(uint32_t *to, const uint32_t *from)
{
    for (int j = 0; j < MAX_WARPS; j++)
        to[j] = to[j] > from[j] ? to[j] : from[j];
}
static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
static bool adds(const uint32_t *to, const uint32_t *from)
{
    bool any = false;
    for (int j = 0; j < MAX_WARPS; j++)
        any |= from[j] > to[j];
    return any;
}

/* What an address is known by to other blocks; 0: it is nothing to them. */
static uint64_t known_as(const struct warp *w, const struct insn *i, uint64_t address)
{
    const struct block *b = w->block;
    const bool window = i->space == SPACE_GENERIC && (address & ~(WINDOW_SIZE - 1)) == SHARED_WINDOW;
    if (i->space != SPACE_SHARED && i->space != SPACE_CLUSTER && !window)
        return address;
    uint64_t offset = address & (WINDOW_SIZE - 1);
    const struct block *home = b->watch ? cluster_home(b, &offset) : NULL;
    return home ? race_key(home, offset) : 0;
}

/* What the warps that arrive have fenced, and have learned from other blocks, those that wait take along. */
static void barrier_passes(struct block *b, uint32_t arrived, uint32_t waiting)
{
    uint32_t fenced[MAX_WARPS] = {0}, far[MAX_WARPS] = {0}, horizon = 0, fence_horizon = 0;
    bool any = false, any_far = false;
    for (uint32_t i = 0; i < b->warp_count; i++)
        if (arrived >> i & 1) {
            const struct warp *w = &b->warps[i];
            horizon = larger(horizon, larger(w->horizon, w->taken_horizon));
            any |= w->has_fence;
            any_far |= w->has_far;
            join(far, w->far);
            fence_horizon = larger(fence_horizon, w->fence_horizon);
            join(fenced, w->fence);
        }
    for (uint32_t i = 0; i < b->warp_count; i++)
        if (waiting >> i & 1) {
            struct warp *w = &b->warps[i];
            w->horizon = larger(w->horizon, horizon);
            if (any_far && (!w->has_far || adds(w->far, far))) {
                w->has_far = true;
                w->fence_number = 0;
                join(w->far, far);
            }
            if (!any || (!adds(w->fence, fenced) && fence_horizon <= w->fence_horizon))
                continue;
            w->has_fence = true;
            w->fence_number = 0;
            w->fence_horizon = larger(w->fence_horizon, fence_horizon);
            join(w->fence, fenced);
        }
}

void race_barrier(struct block *b, const struct barrier *bar)
{
    const uint32_t arrived = bar->arrived, waiting = bar->waiting;
    if (b->watch)
        race_peer_barrier(b, arrived, waiting);
    if (b->any_fence || b->any_observed)
        barrier_passes(b, arrived, waiting);
    race_steps_barrier(b, bar);
    if ((arrived & b->alive_warps) == b->alive_warps && waiting == arrived) { /* everyone: all that was is before all that comes */
        const uint32_t past = b->clock++;
        for (uint32_t i = 0; i < b->warp_count; i++) {
            for (uint32_t j = 0; j < MAX_WARPS; j++)
                b->warps[i].seen[j] = past;
            b->warps[i].safe = b->warp_count == 1 ? UINT32_MAX >> 5 : past;
            b->warps[i].clock_now = b->clock;
        }
        return;
    }
    uint32_t joined[MAX_WARPS] = {0};
    for (uint32_t i = 0; i < b->warp_count; i++)
        if (arrived >> i & 1) {
            join(joined, b->warps[i].seen);
            join(joined, b->warps[i].pending);
            joined[i] = larger(joined[i], b->warps[i].clock_now);
        }
    const uint32_t fresh = ++b->clock;
    for (uint32_t i = 0; i < b->warp_count; i++) {
        if (waiting >> i & 1)
            join(b->warps[i].seen, joined);
        if (arrived >> i & 1)
            b->warps[i].clock_now = fresh;
        race_safe(&b->warps[i]);
    }
}

/* One for the block alone tells other blocks nothing, nor makes what was read of them count. */
void race_fence(struct warp *w, uint32_t active, enum order_scope scope)
{
    struct block *b = w->block;
    if (!b->worker->machine->check_races)
        return;
    lane_fence(w, active);
    race_steps_fence(w, active);
    b->any_fence = w->has_fence = true;
    join(w->seen, w->pending);
    w->horizon = larger(w->horizon, w->pending_near);
    if (scope == ORDER_ALL)
        w->horizon = larger(w->horizon, w->pending_horizon);
    w->fence_horizon = w->horizon;
    join(w->fence, w->seen);
    w->fence[w->id] = w->clock_now;
    if (scope == ORDER_ALL) {
        w->has_far = true;
        w->fence_number = 0;
        memcpy(w->far, w->fence, sizeof w->far);
    }
    w->clock_now = ++b->clock;
    race_safe(w);
}

void race_publish(struct warp *w, const struct insn *i, uint32_t active, enum order_scope release)
{
    struct worker *k = w->block->worker;
    if (release)
        race_fence(w, active, release);
    lane_publish(w, active);
    w->block->sync_peers |= w->peers;
    if (!w->has_fence)
        return;
    w->block->sync_waited |= (w->waited_fenced & active) != 0;
    join(w->block->sync, w->fence);
    w->block->sync_horizon = larger(w->block->sync_horizon, w->fence_horizon);
    if ((i->space == SPACE_SHARED && !w->block->watch) || !k->machine->order || !w->has_far || k->near)   /* who is not asked hears nothing */
        return;
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const uint64_t key = known_as(w, i, k->addresses[first_lane(rest)]);
        if (key)
            race_order_publish(w, key, w->waited_fenced >> first_lane(rest) & 1);
    }
}

void race_observe(struct warp *w, const struct insn *i, uint32_t active, enum order_scope acquire)
{
    struct worker *k = w->block->worker;
    if (!k->machine->check_races)
        return;
    lane_observe(w, active, acquire != ORDER_NONE);
    w->peers |= w->block->sync_peers;
    if (w->block->sync_waited)
        race_steps_told(w, active, i->kind == K_ATOM);
    if (w->block->any_fence) {
        join(w->pending, w->block->sync);
        w->pending_near = larger(w->pending_near, w->block->sync_horizon);
    }
    for (uint32_t rest = (i->space == SPACE_SHARED && !w->block->watch) || !k->machine->order || k->near ? 0 : active; rest; rest &= rest - 1) {
        const uint64_t key = known_as(w, i, k->addresses[first_lane(rest)]);
        if (key) {
            if (race_order_observe(w, key))
                race_steps_told(w, 1u << first_lane(rest), i->kind == K_ATOM);
            w->block->cluster->asked = true;
        }
    }
    w->block->any_observed |= w->pending_horizon || w->pending_near;
    /* "the last block adds up": what an atomic brought, a barrier passes on; what a mere load brought only a fence does */
    if (i->kind == K_ATOM)
        w->taken_horizon = larger(w->taken_horizon, larger(w->pending_near, w->pending_horizon));
    if (acquire) {
        w->waited_grid |= w->waited_pending & active;
        join(w->seen, w->pending);
        w->horizon = larger(w->horizon, acquire == ORDER_ALL ? larger(w->pending_near, w->pending_horizon) : w->pending_near);
        race_safe(w);
    }
}

/* From words to bytes: every entry four times. */
static void split_words(struct block *b)
{
    uint32_t **arrays[] = {&b->wrote, &b->read_clock, &b->readers, &b->atomic_clock, &b->atomics};
    const size_t words = b->worker->machine->shared_bytes / 4 + 16;
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++) {
        if (!*arrays[a])
            continue;
        uint32_t *bytes = xarray(words * 4 + 64, sizeof *bytes);
        for (size_t i = 0; i < words; i++)
            for (size_t k = 0; k < 4; k++)
                bytes[i * 4 + k] = (*arrays[a])[i];
        free(*arrays[a]);
        *arrays[a] = bytes;
    }
    b->granule_shift = 0;
}

static bool ordered(const struct warp *w, uint32_t warp, uint32_t clock)
{
    return warp == w->id || clock <= w->safe || clock <= w->seen[warp];
}

/* The first of these warps whose access at that clock is not ordered before us, or -1. */
static int unordered(const struct warp *w, uint32_t warps, uint32_t clock)
{
    for (uint32_t rest = warps & ~(1u << w->id); rest; rest &= rest - 1)
        if (!ordered(w, (uint32_t)first_lane(rest), clock))
            return first_lane(rest);
    return -1;
}

static void remember(const struct warp *w, uint32_t now, uint32_t *clock, uint32_t *warps)
{
    const uint32_t bit = 1u << w->id;
    if (*clock == now)
        *warps |= bit;
    else if (unordered(w, *warps, *clock) < 0)
        *clock = now, *warps = bit;
    else
        *warps |= bit, *clock = *clock < now ? *clock : now;
}

/* An atomic or volatile access after a fence counts as part of the release: who learns of it comes after it too. */
static uint32_t strong_now(const struct warp *w)
{
    return !w->has_fence ? w->clock_now : w->fence[w->id] ? w->fence[w->id] : 1;
}

static bool race_report(struct warp *w, const struct insn *i, int lane, uint32_t offset, uint32_t bytes, int other, const char *us,
                        const char *them)
{
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "shared");
    f->offset_bytes = offset;
    f->access_bytes = bytes;
    return fault(w, i, lane, PTX_RACE, "%s %u bytes at offset %u of shared memory that warp %d %s with no barrier between", us, bytes, offset,
                 other, them);
}

bool race_check(struct warp *w, const struct insn *i, int lane, uint32_t offset, uint32_t bytes, enum race_kind kind)
{
    struct block *b = w->block;
    b->changes += kind != RACE_READ;
    if (!b->wrote)
        return true;
    if (b->watch)
        return race_shared(w, i, lane, b, offset, bytes, kind);
    if (b->granule_shift && ((offset | bytes) & 3))
        split_words(b);
    const uint32_t first = offset >> b->granule_shift, count = bytes >> b->granule_shift, bit = 1u << w->id;
    if (kind == RACE_ATOMIC && !b->atomics) {
        const size_t n = ((size_t)b->worker->machine->shared_bytes >> b->granule_shift) + 64;
        b->atomics = xarray(n, sizeof *b->atomics);
        b->atomic_clock = xarray(n, sizeof *b->atomic_clock);
    }
    b->any_atomic |= kind == RACE_ATOMIC;
    const struct lane_table *t = b->worker->machine->lanes;
    if (!b->any_atomic && kind != RACE_STRONG_READ && kind != RACE_SAME && (kind == RACE_READ ? t->race_read(b->wrote + first, b->read_clock + first, b->readers + first, count, w->safe,
                                                            w->clock_now, w->id)
                                             : t->race_write(b->wrote + first, b->read_clock + first, b->readers + first, count, w->safe,
                                                             w->clock_now, w->id)))
        return true;
    for (uint32_t g = first; g < first + count; g++) {
        const uint32_t at = g << b->granule_shift, size = 1u << b->granule_shift;
        const char *us = kind == RACE_READ || kind == RACE_STRONG_READ ? "reads" : kind == RACE_WRITE ? "writes" : "atomically changes";
        if (kind == RACE_SAME) {
            if (!b->read_clock[g])
                b->readers[g] = bit, b->read_clock[g] = w->clock_now;
            else
                remember(w, w->clock_now, &b->read_clock[g], &b->readers[g]);
            continue;
        }
        if (b->wrote[g] && !ordered(w, b->wrote[g] & 31, b->wrote[g] >> 5))
            return race_report(w, i, lane, at, size, (int)(b->wrote[g] & 31), us, "writes");
        int other;
        if ((kind == RACE_WRITE || kind == RACE_ATOMIC) && (other = unordered(w, b->readers[g], b->read_clock[g])) >= 0)
            return race_report(w, i, lane, at, size, other, us, "reads");
        if (kind != RACE_ATOMIC && kind != RACE_STRONG_READ && b->any_atomic && b->atomic_clock[g] && (other = unordered(w, b->atomics[g], b->atomic_clock[g])) >= 0)
            return race_report(w, i, lane, at, size, other, us, "atomically changes");
        if (kind == RACE_READ) {
            if (!b->read_clock[g])
                b->readers[g] = bit, b->read_clock[g] = w->clock_now;
            else
                remember(w, w->clock_now, &b->read_clock[g], &b->readers[g]);
        } else if (kind == RACE_WRITE) {
            b->wrote[g] = w->clock_now << 5 | w->id;
        } else if (kind == RACE_ATOMIC && !b->atomic_clock[g]) {
            b->atomics[g] = bit, b->atomic_clock[g] = strong_now(w);
        } else if (kind == RACE_ATOMIC) {
            remember(w, strong_now(w), &b->atomic_clock[g], &b->atomics[g]);
        }
    }
    return true;
}

/*
 * Races between warps of a block on shared memory, by clocks.
 *
 * Each warp has a clock, `clock_now`, and for each other warp what it has seen of that one's (`seen`); what happened at or
 * before a seen clock is ordered before us. A barrier makes everyone see everything; a fence followed by an atomic or
 * volatile access passes on what was before the fence to whoever reads that kind of access and fences in turn.
 * For each granule of shared memory we keep the last plain write (clock and warp), the warps that read it at the latest read
 * clock, and the same for atomics. A granule is a word until some access covers part of a word, then all are bytes: exact.
 * Where three warps read at different clocks between named barriers the oldest may be forgotten: a miss, never a false report.
 *
 * Between blocks only plain writes are looked at: each granule of a buffer (the smallest store of the code) knows the block that
 * wrote it last and what; another block that writes something else there is a race, whichever comes first on a card. Equal values
 * do no harm and are let pass. Code that could order its blocks (atomics or volatile and relaxed accesses outside shared memory, a
 * grid barrier) is not looked at: a miss, never a false report. Reads of what another block writes are not looked at either.
 */
#include "gpu/ptx/machine.h"

#include <string.h>

static void race_safe(struct warp *w)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t j = 0; j < w->block->warp_count; j++)
        if (j != w->id && w->seen[j] < least)
            least = w->seen[j];
    w->safe = least == UINT32_MAX ? w->clock_now : least;
}

void race_start(struct block *b)
{
    b->clock = 1;
    b->any_fence = false;
    memset(b->sync, 0, sizeof b->sync);
    for (uint32_t i = 0; i < b->warp_count; i++) {
        struct warp *w = &b->warps[i];
        memset(w->seen, 0, sizeof w->seen);
        memset(w->fence, 0, sizeof w->fence);
        memset(w->pending, 0, sizeof w->pending);
        w->clock_now = 1;
        w->safe = b->warp_count == 1 ? UINT32_MAX >> 5 : 0;
    }
    const uint32_t n = b->worker->machine->shared_bytes;
    if (!b->wrote)
        return;
    const size_t bytes = ((size_t)(n >> b->granule_shift) + 16) * sizeof(uint32_t);
    memset(b->wrote, 0, bytes);
    memset(b->read_clock, 0, bytes);
    if (b->any_atomic)
        memset(b->atomic_clock, 0, bytes);
    b->any_atomic = false;
}

void race_barrier(struct block *b, uint32_t arrived, uint32_t waiting)
{
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
            for (uint32_t j = 0; j < MAX_WARPS; j++)
                joined[j] = b->warps[i].seen[j] > joined[j] ? b->warps[i].seen[j] : joined[j];
            joined[i] = b->warps[i].clock_now > joined[i] ? b->warps[i].clock_now : joined[i];
        }
    const uint32_t fresh = ++b->clock;
    for (uint32_t i = 0; i < b->warp_count; i++) {
        if (waiting >> i & 1)
            for (uint32_t j = 0; j < MAX_WARPS; j++)
                b->warps[i].seen[j] = b->warps[i].seen[j] > joined[j] ? b->warps[i].seen[j] : joined[j];
        if (arrived >> i & 1)
            b->warps[i].clock_now = fresh;
        race_safe(&b->warps[i]);
    }
}

static void join(uint32_t *to, const uint32_t *from)
{
    for (int j = 0; j < MAX_WARPS; j++)
        to[j] = to[j] > from[j] ? to[j] : from[j];
}

void race_fence(struct warp *w)
{
    struct block *b = w->block;
    if (b->warp_count == 1 || !b->wrote)
        return;
    b->any_fence = true;
    join(w->seen, w->pending);
    memcpy(w->fence, w->seen, sizeof w->fence);
    w->fence[w->id] = w->clock_now;
    w->clock_now = ++b->clock;
    race_safe(w);
}

void race_publish(struct warp *w, bool release)
{
    if (release)
        race_fence(w);
    if (w->block->any_fence)
        join(w->block->sync, w->fence);
}

void race_observe(struct warp *w, bool acquire)
{
    if (!w->block->any_fence)
        return;
    join(w->pending, w->block->sync);
    if (acquire && w->block->wrote) {
        join(w->seen, w->pending);
        race_safe(w);
    }
}

void race_object_release(struct warp *w, uint32_t *object)
{
    struct block *b = w->block;
    if (b->warp_count == 1 || !b->wrote)
        return;
    join(object, w->seen);
    object[w->id] = object[w->id] > w->clock_now ? object[w->id] : w->clock_now;
    w->clock_now = ++b->clock;
    race_safe(w);
}

void race_object_acquire(struct warp *w, const uint32_t *object)
{
    if (w->block->warp_count == 1 || !w->block->wrote)
        return;
    join(w->seen, object);
    race_safe(w);
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

static void remember(const struct warp *w, uint32_t *clock, uint32_t *warps)
{
    const uint32_t bit = 1u << w->id;
    if (*clock == w->clock_now)
        *warps |= bit;
    else if (unordered(w, *warps, *clock) < 0)
        *clock = w->clock_now, *warps = bit;
    else
        *warps |= bit, *clock = *clock < w->clock_now ? *clock : w->clock_now;
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
    if (!b->wrote)
        return true;
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
    if (!b->any_atomic && (kind == RACE_READ ? t->race_read(b->wrote + first, b->read_clock + first, b->readers + first, count, w->safe,
                                                            w->clock_now, w->id)
                                             : t->race_write(b->wrote + first, b->read_clock + first, b->readers + first, count, w->safe,
                                                             w->clock_now, w->id)))
        return true;
    for (uint32_t g = first; g < first + count; g++) {
        const uint32_t at = g << b->granule_shift, size = 1u << b->granule_shift;
        const char *us = kind == RACE_READ ? "reads" : kind == RACE_WRITE ? "writes" : "atomically changes";
        if (b->wrote[g] && !ordered(w, b->wrote[g] & 31, b->wrote[g] >> 5))
            return race_report(w, i, lane, at, size, (int)(b->wrote[g] & 31), us, "writes");
        int other;
        if (kind != RACE_READ && (other = unordered(w, b->readers[g], b->read_clock[g])) >= 0)
            return race_report(w, i, lane, at, size, other, us, "reads");
        if (kind != RACE_ATOMIC && b->any_atomic && b->atomic_clock[g] && (other = unordered(w, b->atomics[g], b->atomic_clock[g])) >= 0)
            return race_report(w, i, lane, at, size, other, us, "atomically changes");
        if (kind == RACE_READ) {
            if (!b->read_clock[g])
                b->readers[g] = bit, b->read_clock[g] = w->clock_now;
            else
                remember(w, &b->read_clock[g], &b->readers[g]);
        } else if (kind == RACE_WRITE) {
            b->wrote[g] = w->clock_now << 5 | w->id;
        } else if (!b->atomic_clock[g]) {
            b->atomics[g] = bit, b->atomic_clock[g] = w->clock_now;
        } else {
            remember(w, &b->atomic_clock[g], &b->atomics[g]);
        }
    }
    return true;
}

/* ---- between blocks ---- */
static bool in_reach(const struct machine *m, const struct function *f)
{
    return f->decoded && (f == m->entry || !f->is_entry);
}

/* The least size of a store to global memory; 0 if there is none, or if something could order blocks. */
static unsigned least_store(const struct machine *m)
{
    unsigned least = 0;
    for (uint32_t n = 0; n < m->module->function_count; n++) {
        const struct function *f = &m->module->functions[n];
        for (uint32_t pc = f->code_first; in_reach(m, f) && pc < f->code_end; pc++) {
            const struct insn *i = &m->module->code[pc];
            if (i->space != SPACE_GLOBAL && i->space != SPACE_GENERIC)
                continue;
            if (i->kind == K_ATOM || ((i->kind == K_LD || i->kind == K_ST) && i->flags & F_VOLATILE))
                return 0;
            if (i->kind == K_ST && (!least || i->size < least))
                least = i->size;
        }
    }
    return least;
}

void race_grid_open(struct machine *m)
{
    const bool watched = m->check_races && !m->shared_races_only && m->total_blocks > 1 && m->total_blocks < UINT32_MAX && !m->launch->cooperative &&
                         !m->entry->uses_grid_barrier;
    const unsigned least = watched ? least_store(m) : 0;
    size_t left = m->limits.memory_bytes / 2;
    if (!least)
        return;
    m->grid_shift = (uint32_t)__builtin_ctz(least);
    for (int n = 0; n < m->region_count; n++) {
        struct region *r = &m->regions[n];
        const uint64_t count = (r->bytes >> m->grid_shift) + 16;
        if (!r->writable || !r->counted || count > left / sizeof *r->last)
            continue;
        r->last = calloc((size_t)count, sizeof *r->last);   /* where there is no memory for it, it is not watched */
        left -= r->last ? (size_t)count * sizeof *r->last : 0;
        m->shadow_bytes += r->last ? count * sizeof *r->last : 0;
    }
}

static bool race_grid_report(struct warp *w, const struct insn *i, int lane, const struct region *r, int64_t offset, unsigned bytes,
                             uint64_t other)
{
    const uint32_t *grid = w->block->worker->machine->launch->grid;
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "%s", r->name);
    f->offset_bytes = offset;
    f->access_bytes = bytes;
    return fault(w, i, lane, PTX_RACE, "writes %u bytes at offset %lld of %s where block (%u,%u,%u) writes a different value", bytes,
                 (long long)offset, r->name, (uint32_t)(other % grid[0]), (uint32_t)(other / grid[0] % grid[1]),
                 (uint32_t)(other / grid[0] / grid[1]));
}

bool race_grid(struct warp *w, const struct insn *i, int lane, const struct place *p, const uint8_t *value, unsigned bytes)
{
    const struct machine *m = w->block->worker->machine;
    const struct region *r = p->region;
    const unsigned size = 1u << m->grid_shift;
    const uint64_t me = w->block->number + 1;
    /* Stores are aligned to their size by address; the region's start may be less so. */
    uint64_t *last = r->last + ((p->offset + (r->base & 7)) >> m->grid_shift);
    for (unsigned at = 0; at < bytes; at += size, last++) {
        uint64_t bits = 0, before;
        memcpy(&bits, value + at, size);
        const uint64_t now = me << 32 | (uint32_t)(bits ^ bits >> 32);  /* of 8 bytes a sum: equal values, equal sums */
        if (m->many) {
            before = __atomic_exchange_n(last, now, __ATOMIC_RELAXED);
        } else {
            before = *last;
            *last = now;
        }
        if (before >> 32 && before >> 32 != me && (uint32_t)before != (uint32_t)now)
            return race_grid_report(w, i, lane, r, (int64_t)(p->offset + at), size, (before >> 32) - 1);
    }
    return true;
}

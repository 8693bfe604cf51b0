/*
 * Races on buffers, between warps and between blocks.
 *
 * Only a buffer that may be written is watched. Each of its sectors (32 bytes) has an entry: the actor that wrote last and the one
 * that read last, each with the bytes it means. Where the bytes of a sector belong to several the entry is parted into one cell a
 * granule, out of a bounded store; where that is used up the sector is no longer watched. A read by two or more that are not
 * ordered is remembered as "warps of this block" or "several blocks".
 *
 * A write of what is there already harms nobody: it counts as a read. That is looked at where a write meets another actor's, and for
 * writes of single lanes; the row of a whole warp counts as a change.
 *
 * All of an access that belongs to one warp costs a comparison a sector. Only what meets somebody else goes further.
 */
#include "gpu/ptx/race_grid.h"

#include <string.h>

#define ALL_BYTES 0xffffffffu

static bool ours(const struct race_use *u, uint32_t id) { return !id || (id & ~ACTOR_BITS) == (u->me & ~ACTOR_BITS); }

/* Both accesses are strong, and each for the other's block. */
static bool both_strong(const struct race_use *u, bool strong, uint32_t id)
{
    if (!strong || !(id & ACTOR_STRONG))
        return false;
    const struct block *b = u->w->block;
    const struct actor a = race_actor_get(b->worker->machine, id);
    return !(b->worker->near || id & ACTOR_NEAR) || (a.kind != ACTOR_ANYONE && a.block == b->number);
}

/* When a block's turn to begin comes. Blocks of a cluster begin together. */
static uint64_t turn_of(const struct machine *m, uint64_t block)
{
    const uint32_t *grid = m->launch->grid, *dims = m->cluster;
    const uint64_t wide = grid[0] / dims[0], high = grid[1] / dims[1];
    const uint64_t unit = block % grid[0] / dims[0] + wide * (block / grid[0] % grid[1] / dims[1] + high * (block / grid[0] / grid[1] / dims[2]));
    return m->seed & PTX_SEED_DESCENDING ? UINT64_MAX - unit : unit;
}

/*
 * Several host threads run several blocks at once, as a card may or may not. On one thread a block that begins later has done nothing
 * yet: whoever reads what such a block stored has seen more than it may count on. It is no fault (the last block to come adds up),
 * but whether the launch ends without it is to be seen by a run on one thread. A write where an earlier block polls counts too: it
 * may have looked between our mark and our bytes.
 */
static void note_later(const struct race_use *u, uint32_t writer, uint32_t reader)
{
    struct machine *m = u->w->block->worker->machine;
    const uint64_t ours_turn = turn_of(m, u->w->block->number);
    if (writer && !ours(u, writer) && (u->kind != RACE_WRITE || u->benign) && turn_of(m, race_actor_get(m, writer).block) > ours_turn)
        atomic_store_explicit(&m->reads_later, true, memory_order_relaxed);
    if (reader & ACTOR_STRONG && !ours(u, reader) && (u->kind == RACE_WRITE || u->kind == RACE_ATOMIC)) {
        const struct actor a = race_actor_get(m, reader);
        if (a.kind == ACTOR_ANYONE || turn_of(m, a.block) < ours_turn)
            atomic_store_explicit(&m->reads_later, true, memory_order_relaxed);
    }
}

static bool clashes(struct race_use *u, uint32_t writer, uint32_t reader)
{
    if (u->w->block->worker->machine->many)
        note_later(u, writer, reader);
    const bool strong = u->kind == RACE_ATOMIC || u->kind == RACE_STRONG_READ;
    const bool reads = u->kind == RACE_READ || u->kind == RACE_STRONG_READ;
    if (u->benign)
        return false;
    if (!ours(u, writer) && !both_strong(u, strong, writer) && !race_before(u->w, writer)) {
        u->clash = writer, u->clash_reads = false;
        return true;
    }
    if (!reads && !ours(u, reader) && !both_strong(u, strong, reader) && !race_before(u->w, reader)) {
        u->clash = reader, u->clash_reads = true;
        return true;
    }
    return false;
}

/* What is to be remembered as the reader of bytes that `reader` read and we read now. */
static uint32_t reader_after(const struct race_use *u, uint32_t reader)
{
    if (!reader || reader == u->me)
        return u->me;
    if (u->kind == RACE_STRONG_READ)
        return reader & ACTOR_STRONG ? u->me : reader;
    if (reader & ACTOR_STRONG || ours(u, reader) || race_before(u->w, reader))
        return u->me;
    return race_actor_join(u->w, reader);
}

static bool cell_use(struct race_use *u, struct cell *c)
{
    if (clashes(u, c->writer, c->reader))
        return false;
    if (!u->me)
        return true;
    if (u->benign || u->kind == RACE_READ || u->kind == RACE_STRONG_READ) {
        c->reader = reader_after(u, c->reader);
    } else {
        c->writer = u->me;
        c->reader = 0;
    }
    return true;
}

/* One cell a granule. False: no room; the sector is not watched any more. */
static bool part(struct machine *m, struct touch *t, uint32_t shift)
{
    const unsigned count = 32u >> shift, each = (1u << shift) - 1;
    struct cell *cells = race_cells_new(m, count);
    const struct touch old = *t;
    const bool again = old.writer == PARTED;
    if (!cells) {
        *t = (struct touch){.writer = BLIND};
        atomic_store_explicit(&m->reads_later, true, memory_order_relaxed);
        return false;
    }
    for (unsigned n = 0; n < count; n++) {
        const unsigned at = n << shift;
        if (again)
            cells[n] = old.cells[at >> old.writes];
        else
            cells[n] = (struct cell){old.writes >> at & (1u | each) ? old.writer : 0, old.reads >> at & (1u | each) ? old.reader : 0};
    }
    t->writer = PARTED;
    t->writes = shift;
    t->cells = cells;
    return true;
}

/* The coarsest granule of which every mask is made. */
static uint32_t shift_of(uint32_t mask)
{
    for (uint32_t shift = 2; shift; shift--) {
        const uint32_t one = shift == 2 ? 0x11111111u : 0x55555555u, spread = mask & one;
        if (spread * ((1u << (1u << shift)) - 1) == mask)
            return shift;
    }
    return 0;
}

static bool parted_use(struct race_use *u, struct touch *t, uint32_t mask)
{
    const uint32_t shift = shift_of(mask);
    if (shift < t->writes && !part(u->w->block->worker->machine, t, shift))
        return true;
    bool fine = true;
    for (uint32_t rest = mask; rest && fine;) {
        const uint32_t n = (uint32_t)__builtin_ctz(rest) >> t->writes;
        fine = cell_use(u, &t->cells[n]);
        rest &= ~(uint32_t)((((uint64_t)1 << (1u << t->writes)) - 1) << (n << t->writes));
    }
    return fine;
}

/* Bytes `mask` of one sector. False: a clash. */
static bool sector_use(struct race_use *u, struct touch *t, uint32_t mask)
{
    if (t->writer == BLIND)
        return true;
    if (t->writer == PARTED)
        return parted_use(u, t, mask);
    const bool reads = u->benign || u->kind == RACE_READ || u->kind == RACE_STRONG_READ;
    const uint32_t writer = t->writes & mask ? t->writer : 0, reader = t->reads & mask ? t->reader : 0;
    if (clashes(u, writer, reader))
        return false;
    if (!u->me)
        return true;
    if (reads) {
        const uint32_t now = reader_after(u, reader);
        if (!t->reads || t->reader == now || (now == u->me && !(t->reads & ~mask)) || t->reads == mask) {
            t->reads = t->reader == now ? t->reads | mask : mask;
            t->reader = now;
            return true;
        }
    } else if (!t->writes || t->writer == u->me || !(t->writes & ~mask)) {
        t->writes = t->writer == u->me ? t->writes | mask : mask;
        t->writer = u->me;
        t->reads &= ~mask;
        t->reader = t->reads ? t->reader : 0;
        return true;
    }
    const uint32_t shift = shift_of(mask), other = shift_of(t->writes), third = shift_of(t->reads);
    const uint32_t least = shift < other ? shift : other;
    return !part(u->w->block->worker->machine, t, least < third ? least : third) || parted_use(u, t, mask);
}

static uint32_t mask_of(uint64_t first, uint64_t last) /* bytes of a sector, both included */
{
    return (uint32_t)(ALL_BYTES >> (31 - (last - first))) << first;
}

/* All sectors nobody's or ours: the usual case. False: not so, and nothing is changed. */
typedef uint32_t entry_words __attribute__((vector_size(16), aligned(8)));   /* writer, writes, reader, reads */
static bool row_is_ours(struct touch *t, uint64_t start, uint64_t end, uint32_t me, bool store)
{
    const uint64_t first = start >> 5, last = end >> 5;
    const entry_words ours = {me, 0, me, 0}, none = {0, 0, 0, 0}, who = {~0u, 0, ~0u, 0};
    entry_words strange = none;
    for (uint64_t s = first; s <= last; s++) {
        entry_words e;
        memcpy(&e, &t[s], sizeof e);
        strange |= (entry_words)((e != none) & (e != ours)) & who;
    }
    if (strange[0] | strange[2])
        return false;
    const entry_words side = store ? (entry_words){~0u, ~0u, 0, 0} : (entry_words){0, 0, ~0u, ~0u};
    for (uint64_t s = first; s <= last; s++) {
        const uint32_t mask = mask_of(s == first ? start & 31 : 0, s == last ? end & 31 : 31);
        const entry_words now = (entry_words){me, mask, me, mask} & side;
        entry_words e;
        memcpy(&e, &t[s], sizeof e);
        e |= now;               /* the actor is nobody's, 0, or ours already */
        memcpy(&t[s], &e, sizeof e);
    }
    return true;
}

#define LOCK_BYTES UINT64_C(4096)
bool race_range_use(struct race_use *u, struct region *r, uint64_t offset, uint64_t bytes)
{
    struct machine *m = u->w->block->worker->machine;
    /* sectors as the address has them: what is aligned there is aligned here */
    uint64_t start = offset + (r->base & 31);
    const uint64_t end = start + bytes - 1;
    const bool store = (u->kind == RACE_WRITE || u->kind == RACE_ATOMIC) && !u->benign;
    bool fine = true;
    if (!u->me)             /* it will not be remembered */
        atomic_store_explicit(&m->reads_later, true, memory_order_relaxed);
    while (start <= end && fine) {
        const uint64_t stop = (start | (LOCK_BYTES - 1)) < end ? start | (LOCK_BYTES - 1) : end;
        atomic_flag *flag = &m->watch->locks[start / LOCK_BYTES & (WATCH_LOCKS - 1)];
        if (m->many)
            watch_lock(flag);
        if (!u->me || !row_is_ours(r->touched, start, stop, u->me, store))
            for (uint64_t s = start >> 5; s <= stop >> 5 && fine; s++)
                fine = sector_use(u, &r->touched[s], mask_of(s == start >> 5 ? start & 31 : 0, s == stop >> 5 ? stop & 31 : 31));
        if (m->many)
            watch_unlock(flag);
        start = stop + 1;
    }
    return fine;
}

bool race_stored(struct warp *w, struct region *r, uint64_t offset, uint64_t bytes, race_matters *matters, struct stored *ret)
{
    struct machine *m = w->block->worker->machine;
    const uint64_t first = offset + (r->base & 31), end = first + bytes - 1;
    for (uint64_t s = first >> 5; s <= end >> 5; s++) {
        atomic_flag *flag = &m->watch->locks[(s << 5) / LOCK_BYTES & (WATCH_LOCKS - 1)];
        const uint32_t mask = mask_of(s == first >> 5 ? first & 31 : 0, s == end >> 5 ? end & 31 : 31);
        const struct touch *t = &r->touched[s];
        uint32_t writers[32] = {0};
        watch_lock(flag);
        for (unsigned n = 0; n < 32 && t->writer != BLIND; n++)
            if (mask >> n & 1)
                writers[n] = t->writer == PARTED ? t->cells[n >> t->writes].writer : t->writes >> n & 1 ? t->writer : 0;
        watch_unlock(flag);
        for (unsigned n = 0; n < 32; n++)
            if (writers[n] && !(n && writers[n] == writers[n - 1]) && matters(m, writers[n])) {
                *ret = (struct stored){race_actor_get(m, writers[n]), s * 32 + n - (r->base & 31)};
                return true;
            }
    }
    return false;
}

static bool any_store(struct machine *m, uint32_t id) { return m && id; }

bool race_read_only(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes)
{
    struct stored s;
    if (!race_steps_read_only(w, i, lane, p, bytes))
        return false;
    if (!race_stored(w, p->region, p->offset, bytes, any_store, &s))
        return true;
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "%s", p->region->name);
    f->offset_bytes = (int64_t)p->offset;
    f->access_bytes = bytes;
    return fault(w, i, lane, PTX_RACE, "reads %u bytes at offset %lld of %s as read-only (ld.nc), where this launch stores: a cache may hold what was there before",
                 bytes, (long long)p->offset, p->region->name);
}

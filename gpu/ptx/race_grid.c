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
#include "gpu/ptx/race.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#define PARTED 0x7fffffffu      /* as `writer`: see the cells; `writes` is the granule's shift */
#define BLIND 0x7ffffffeu
#define CELL_BYTES (1u << 16)
#define LEAST_SHADOW_BYTES ((size_t)4 << 20)
#define ALL_BYTES 0xffffffffu
#define LOCKS 64

struct cell { uint32_t writer, reader; };
struct touch {
    uint32_t writer, writes;
    union {
        struct { uint32_t reader, reads; };
        struct cell *cells;
    };
};
struct cell_chunk { struct cell_chunk *next; size_t used; uint8_t bytes[CELL_BYTES]; };
struct watch {
    struct cell_chunk *chunks;
    size_t left;                /* shadow bytes that may still be taken */
    void *start; size_t mapped; /* all entries */
    atomic_flag lock, locks[LOCKS];
};

/* ---- memory ---- */
static void lock(atomic_flag *f)
{
    while (atomic_flag_test_and_set_explicit(f, memory_order_acquire))
        ;
}
static void unlock(atomic_flag *f) { atomic_flag_clear_explicit(f, memory_order_release); }

bool race_shadow_take(struct machine *m, size_t bytes)
{
    struct watch *g = m->watch;
    lock(&g->lock);
    const bool fits = bytes <= g->left;
    g->left -= fits ? bytes : 0;
    m->shadow_bytes += fits ? bytes : 0;
    unlock(&g->lock);
    return fits;
}

static struct cell *cells_new(struct machine *m, unsigned count)
{
    struct watch *g = m->watch;
    const size_t bytes = count * sizeof(struct cell);
    struct cell_chunk *c = NULL;
    lock(&g->lock);
    c = g->chunks;
    if ((!c || c->used + bytes > CELL_BYTES) && sizeof *c <= g->left) {
        c = xalloc(sizeof *c);
        c->next = g->chunks;
        g->chunks = c;
        g->left -= sizeof *c;
        m->shadow_bytes += sizeof *c;
    }
    struct cell *p = c && c->used + bytes <= CELL_BYTES ? (struct cell *)(c->bytes + c->used) : NULL;
    if (p)
        c->used += bytes;
    unlock(&g->lock);
    return p;
}

/* Zeros that cost nothing until they are touched, and little then: in large pages, where there are any. */
#define LARGE_PAGE_BYTES ((size_t)2 << 20)
static void *zeros(size_t bytes, size_t *ret_mapped, void **ret_start)
{
    *ret_mapped = (bytes + 2 * LARGE_PAGE_BYTES - 1) & ~(LARGE_PAGE_BYTES - 1);
    void *p = mmap(NULL, *ret_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)!madvise(p, *ret_mapped, MADV_HUGEPAGE);
    *ret_start = p;
    return (void *)(((uintptr_t)p + LARGE_PAGE_BYTES - 1) & ~(uintptr_t)(LARGE_PAGE_BYTES - 1));
}

size_t race_touched_bytes(uint64_t bytes) { return (size_t)(bytes / 32 + 2) * sizeof(struct touch); }
static size_t touched_bytes(const struct region *r) { return race_touched_bytes(r->bytes); }

bool race_each_touch(const struct region *r, race_visit *visit, void *context)
{
    for (uint64_t s = 0; s < r->bytes / 32 + 2; s++) {
        const struct touch *t = &r->touched[s];
        if (t->writer == BLIND)
            continue;
        if (t->writer != PARTED) {
            if (!visit(context, t->writer, s * 32, t->writes, false) || !visit(context, t->reader, s * 32, t->reads, true))
                return false;
            continue;
        }
        const uint32_t one = t->writes == 2 ? 15 : t->writes == 1 ? 3 : 1;
        for (unsigned n = 0; n < 32u >> t->writes; n++)
            if (!visit(context, t->cells[n].writer, s * 32, one << (n << t->writes), false) ||
                !visit(context, t->cells[n].reader, s * 32, one << (n << t->writes), true))
                return false;
    }
    return true;
}

void race_grid_open(struct machine *m, bool between_blocks)
{
    size_t all = 0;
    for (int n = 0; n < m->region_count; n++) {
        struct region *r = &m->regions[n];
        all += r->counted ? r->bytes : 0;
        r->watched = r->frozen;
    }
    if (!m->check_races || !between_blocks)
        return;
    race_steps_open(m);
    if (m->total_blocks == 1 && m->threads_block <= WARP_LANES && !m->history && !m->module->copies_from_global)
        return;
    m->watch = xalloc(sizeof *m->watch);
    m->watch->left = all * 3 < LEAST_SHADOW_BYTES ? LEAST_SHADOW_BYTES : all * 3;
    m->watch->left -= m->shadow_bytes < m->watch->left ? m->shadow_bytes : m->watch->left;
    m->order = race_order_new(m->total_blocks, (uint32_t)((m->threads_block + WARP_LANES - 1) / WARP_LANES));
    cleanup(mem) void *memory = xalloc((size_t)m->region_count + 1);
    bool *raced = memory;
    size_t bytes = 0;
    for (int n = 0; m->order && n < m->region_count; n++) {
        struct region *r = &m->regions[n];
        if (!r->writable || !r->counted || !r->bytes || !race_shadow_take(m, touched_bytes(r)))
            continue;
        raced[n] = true;
        bytes += touched_bytes(r);
    }
    uint8_t *at = bytes ? zeros(bytes, &m->watch->mapped, &m->watch->start) : NULL;
    for (int n = 0; n < m->region_count; n++)       /* what is not watched may be read by anyone */
        if (m->regions[n].writable && m->regions[n].counted && m->regions[n].bytes && !(raced[n] && at))
            atomic_store(&m->reads_later, true);
    for (int n = 0; n < m->region_count && at; n++) {   /* where there is no memory for it, nothing is watched */
        struct region *r = &m->regions[n];
        if (raced[n]) {
            r->watched = true;
            r->touched = (struct touch *)at;
            at += touched_bytes(r);
        }
    }
}

void race_grid_close(struct machine *m)
{
    race_steps_close(m);
    if (m->watch && m->watch->start)
        munmap(m->watch->start, m->watch->mapped);
    for (struct cell_chunk *c = m->watch ? m->watch->chunks : NULL; c;) {
        struct cell_chunk *next = c->next;
        free(c);
        c = next;
    }
    free(m->watch);
    race_order_free(m->order);
}

/* ---- one access against what is remembered ---- */
struct use {
    struct warp *w;
    enum race_kind kind;
    uint32_t me;
    bool benign;                /* known to change nothing: clashes with nobody */
    uint32_t clash;             /* the actor that is in the way */
    bool clash_reads;
};

static bool ours(const struct use *u, uint32_t id) { return !id || (id & ~ACTOR_BITS) == (u->me & ~ACTOR_BITS); }

/* Both accesses are strong, and each for the other's block. */
static bool both_strong(const struct use *u, bool strong, uint32_t id)
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
static void note_later(const struct use *u, uint32_t writer, uint32_t reader)
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

static bool clashes(struct use *u, uint32_t writer, uint32_t reader)
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
static uint32_t reader_after(const struct use *u, uint32_t reader)
{
    if (!reader || reader == u->me)
        return u->me;
    if (u->kind == RACE_STRONG_READ)
        return reader & ACTOR_STRONG ? u->me : reader;
    if (reader & ACTOR_STRONG || ours(u, reader) || race_before(u->w, reader))
        return u->me;
    return race_actor_join(u->w, reader);
}

static bool cell_use(struct use *u, struct cell *c)
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
    struct cell *cells = cells_new(m, count);
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

static bool parted_use(struct use *u, struct touch *t, uint32_t mask)
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
static bool sector_use(struct use *u, struct touch *t, uint32_t mask)
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
static bool range_use(struct use *u, struct region *r, uint64_t offset, uint64_t bytes)
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
        atomic_flag *flag = &m->watch->locks[start / LOCK_BYTES & (LOCKS - 1)];
        if (m->many)
            lock(flag);
        if (!u->me || !row_is_ours(r->touched, start, stop, u->me, store))
            for (uint64_t s = start >> 5; s <= stop >> 5 && fine; s++)
                fine = sector_use(u, &r->touched[s], mask_of(s == start >> 5 ? start & 31 : 0, s == stop >> 5 ? stop & 31 : 31));
        if (m->many)
            unlock(flag);
        start = stop + 1;
    }
    return fine;
}

bool race_stored(struct warp *w, struct region *r, uint64_t offset, uint64_t bytes, race_matters *matters, struct stored *ret)
{
    struct machine *m = w->block->worker->machine;
    const uint64_t first = offset + (r->base & 31), end = first + bytes - 1;
    for (uint64_t s = first >> 5; s <= end >> 5; s++) {
        atomic_flag *flag = &m->watch->locks[(s << 5) / LOCK_BYTES & (LOCKS - 1)];
        const uint32_t mask = mask_of(s == first >> 5 ? first & 31 : 0, s == end >> 5 ? end & 31 : 31);
        const struct touch *t = &r->touched[s];
        uint32_t writers[32] = {0};
        lock(flag);
        for (unsigned n = 0; n < 32 && t->writer != BLIND; n++)
            if (mask >> n & 1)
                writers[n] = t->writer == PARTED ? t->cells[n >> t->writes].writer : t->writes >> n & 1 ? t->writer : 0;
        unlock(flag);
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
    if (!race_stored(w, p->region, p->offset, bytes, any_store, &s))
        return true;
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "%s", p->region->name);
    f->offset_bytes = (int64_t)p->offset;
    f->access_bytes = bytes;
    return fault(w, i, lane, PTX_RACE, "reads %u bytes at offset %lld of %s as read-only (ld.nc), where this launch stores: a cache may hold what was there before",
                 bytes, (long long)p->offset, p->region->name);
}

/* ---- from memory.c ---- */
static bool any_frozen(const struct region *r, uint64_t offset, uint64_t bytes)
{
    for (uint64_t at = offset; at < offset + bytes; at++)
        if (r->frozen[at >> 3] >> (at & 7) & 1)
            return true;
    return false;
}

/* Marks come before bytes. Whoever finds a mark by another host thread and other bytes than its own must know that the bytes are there. */
static void storing(struct warp *w, enum race_kind kind)
{
    if (kind == RACE_WRITE && w->block->worker->machine->many)
        atomic_store_explicit(&w->block->worker->storing, true, memory_order_seq_cst);
}

#define SETTLE_NS 2000000       /* a thread that ended with a finding never says that its store is done */
static void others_settle(struct warp *w)
{
    struct machine *m = w->block->worker->machine;
    const int64_t until_ns = now_ns() + SETTLE_NS;
    watch_stored(w->block->worker);     /* ours has not begun; others may be waiting for us */
    for (int n = 0; n < m->worker_count; n++)
        while (&m->workers[n] != w->block->worker && atomic_load_explicit(&m->workers[n].storing, memory_order_acquire) && now_ns() < until_ns)
            sched_yield();
    storing(w, RACE_WRITE);
}

bool watch_row(struct warp *w, const struct place *p, uint64_t bytes, enum race_kind kind)
{
    struct region *r = p->region;
    storing(w, kind);
    if (r->frozen && kind != RACE_READ && kind != RACE_STRONG_READ && any_frozen(r, p->offset, bytes))
        return false;
    if (!race_steps_fine(w, r, p->offset, bytes, kind))
        return false;
    if (!r->touched)
        return true;
    struct use u = {.w = w, .kind = kind};
    const bool strong = kind == RACE_ATOMIC || kind == RACE_STRONG_READ;
    u.me = strong ? race_actor_strong(w) : race_actor(w);
    return range_use(&u, r, p->offset, bytes);
}

static bool report(const struct use *u, const struct insn *i, int lane, const struct place *p, unsigned bytes)
{
    const struct machine *m = u->w->block->worker->machine;
    const struct actor a = race_actor_get(m, u->clash);
    const uint32_t *grid = m->launch->grid;
    const char *us = u->kind == RACE_WRITE ? "writes" : u->kind == RACE_ATOMIC ? "atomically changes" : "reads";
    const char *does = u->clash_reads ? "reads or writes what is there already" : u->clash & ACTOR_STRONG ? "atomically changes" : u->kind == RACE_WRITE ? "writes a different value" : "writes";
    char who[128];
    if (a.kind == ACTOR_ANYONE)
        snprintf(who, sizeof who, "where other blocks read");
    else if (a.block != u->w->block->number)
        snprintf(who, sizeof who, "where block (%u,%u,%u) %s", a.block % grid[0], a.block / grid[0] % grid[1], a.block / grid[0] / grid[1], does);
    else if (a.kind == ACTOR_BLOCK)
        snprintf(who, sizeof who, "where other warps of its block read");
    else
        snprintf(who, sizeof who, "where warp %u of its block %s", a.warp, does);
    struct ptx_finding *f = &u->w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "%s", p->region->name);
    f->offset_bytes = (int64_t)p->offset;
    f->access_bytes = bytes;
    return fault(u->w, i, lane, PTX_RACE, "%s %u bytes at offset %lld of %s %s, with nothing to order them", us, bytes, (long long)p->offset,
                 p->region->name, who);
}

/* Nothing but what is there already? */
static bool changes_nothing(const struct place *p, const uint8_t *value, unsigned bytes)
{
    return value && (!p->init || bits_all(p->init, p->offset, bytes)) && !memcmp(p->data, value, bytes);
}

static bool frozen_report(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes)
{
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "%s", p->region->name);
    f->offset_bytes = (int64_t)p->offset;
    f->access_bytes = bytes;
    return fault(w, i, lane, PTX_FROZEN, "changes %u bytes at offset %lld of %s, which must keep their bits", bytes, (long long)p->offset, p->region->name);
}

static bool frozen_fine(const struct place *p, const uint8_t *value, unsigned bytes)
{
    const uint8_t *frozen = p->region->frozen;
    for (unsigned n = 0; n < bytes; n++) {
        const uint64_t at = p->offset + n;
        if (frozen[at >> 3] >> (at & 7) & 1 && (!value || value[n] != p->data[n]))
            return false;
    }
    return true;
}

bool watch_lane(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes, enum race_kind kind, const uint8_t *value)
{
    struct region *r = p->region;
    const bool reads = kind == RACE_READ || kind == RACE_STRONG_READ, strong = kind == RACE_ATOMIC || kind == RACE_STRONG_READ;
    if (r->frozen && !reads && !frozen_fine(p, value, bytes))
        return frozen_report(w, i, lane, p, bytes);
    if (!race_steps_fine(w, r, p->offset, bytes, kind))
        return race_steps_report(w, i, lane, p, bytes, kind);
    if (!r->touched)
        return true;
    struct use u = {.w = w, .kind = kind == RACE_SAME ? RACE_READ : kind};
    storing(w, kind);
    u.me = strong ? race_actor_strong(w) : race_actor(w);
    const unsigned each = bytes > 4 && kind == RACE_WRITE ? 4 : bytes;
    for (unsigned at = 0; at < bytes; at += each) {
        struct place part_of = *p;
        part_of.offset += at;
        part_of.data += at;
        u.benign = kind == RACE_SAME || (kind == RACE_WRITE && changes_nothing(&part_of, value ? value + at : NULL, each));
        if (range_use(&u, r, part_of.offset, each))
            continue;
        const bool again = kind == RACE_WRITE && value && w->block->worker->machine->many;
        if (again)
            others_settle(w);
        u.benign = again && changes_nothing(&part_of, value + at, each);
        if (!u.benign || !range_use(&u, r, part_of.offset, each))
            return report(&u, i, lane, &part_of, each);
    }
    return true;
}

/*
 * Launches that may overlap: one that was launched as dependent (programmatic dependent launch) may start before the one before it
 * has ended, and is ordered behind it only where its threads have passed griddepcontrol.wait.
 *
 * After each launch its history keeps, one bit a byte, what it wrote and what it read of the buffers that may be written. A launch
 * in order forgets what was before it. What a dependent one has waited for is over when it ends itself, but the next one begins when all its
 * blocks have let it (griddepcontrol.launch_dependents, or their end): if each did so before it waited, the one before may run still, and
 * is remembered. A dependent one may not read what the launch before wrote, nor write what that wrote or
 * read, before a wait: each thread its own, or one of a thread that something orders before it since (lanes that meet, a barrier of the block
 * or of the cluster, an mbarrier, a fence and a flag): who waits sees all of the launch before, and what is ordered behind him does too.
 * What is rewritten with the same value counts.
 * By the read-only path (ld.nc) it may not read what the launch before wrote at all: the assembler takes such a load for one that may
 * be made at any time, and moves it before the wait (ptxas 13.0 does, and on an H200 five launches of six then read what was there before).
 */
#include "gpu/ptx/race.h"

#include <string.h>

#define MOST_PLACES 64

struct past { uint64_t address, bytes; uint8_t *wrote, *read; };
struct ptx_history { struct past places[MOST_PLACES]; int count; };

struct ptx_history *ptx_history_new(void) { return xalloc(sizeof(struct ptx_history)); }

static void forget(struct ptx_history *h)
{
    for (int n = 0; n < h->count; n++) {
        free(h->places[n].wrote);
        free(h->places[n].read);
    }
    h->count = 0;
}

void ptx_history_free(struct ptx_history *h)
{
    if (h)
        forget(h);
    free(h);
}

void race_steps_open(struct machine *m)
{
    if (m->history && !m->launch->dependent)
        forget(m->history);
    for (int n = 0; n < m->region_count && m->history; n++)
        for (int p = 0; p < m->history->count; p++)
            if (m->history->places[p].address == m->regions[n].base && m->history->places[p].bytes == m->regions[n].bytes) {
                m->regions[n].past = &m->history->places[p];
                m->regions[n].watched = true;
            }
}

static bool any_bit(const uint8_t *bits, uint64_t at, uint64_t bytes)
{
    for (uint64_t n = at; n < at + bytes; n++)
        if (bits[n >> 3] >> (n & 7) & 1)
            return true;
    return false;
}

bool race_steps_fine(const struct warp *w, uint32_t lanes, const struct region *r, uint64_t offset, uint64_t bytes, enum race_kind kind)
{
    const bool reads = kind == RACE_READ || kind == RACE_STRONG_READ;
    return !r->past || !(lanes & ~w->waited_grid) || (!any_bit(r->past->wrote, offset, bytes) && (reads || !any_bit(r->past->read, offset, bytes)));
}

bool race_steps_report(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes, enum race_kind kind)
{
    struct ptx_finding *f = &w->block->worker->finding;
    const bool reads = kind == RACE_READ || kind == RACE_STRONG_READ, wrote = any_bit(p->region->past->wrote, p->offset, bytes);
    snprintf(f->buffer, sizeof f->buffer, "%s", p->region->name);
    f->offset_bytes = (int64_t)p->offset;
    f->access_bytes = bytes;
    return fault(w, i, lane, PTX_RACE, "%s %u bytes at offset %lld of %s that a launch before it %s, without griddepcontrol.wait before",
                 reads ? "reads" : "writes", bytes, (long long)p->offset, p->region->name, wrote ? "writes" : "reads");
}

bool race_steps_read_only(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes)
{
    if (!p->region->past || !any_bit(p->region->past->wrote, p->offset, bytes))
        return true;
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "%s", p->region->name);
    f->offset_bytes = (int64_t)p->offset;
    f->access_bytes = bytes;
    return fault(w, i, lane, PTX_RACE, "reads %u bytes at offset %lld of %s as read-only (ld.nc; in CUDA: const __restrict__), which a launch before it writes: "
                 "it may be moved before griddepcontrol.wait", bytes, (long long)p->offset, p->region->name);
}

void race_steps_start(struct block *b)
{
    b->triggered = b->triggered_early = b->sync_waited = false;
    for (uint32_t n = 0; n < b->warp_count; n++)
        b->warps[n].waited_grid = b->warps[n].waited_fenced = b->warps[n].waited_pending = b->warps[n].waited_taken = 0;
}

void race_steps_meet(struct warp *w, uint32_t mask)
{
    w->waited_grid |= w->waited_grid & mask ? mask : 0;
    w->waited_fenced |= w->waited_fenced & mask ? mask : 0;
}

void race_steps_fence(struct warp *w, uint32_t active)
{
    w->waited_grid |= w->waited_pending & active;
    w->waited_fenced |= w->waited_grid & active;
}

void race_steps_tell(const struct warp *w, uint32_t active, struct race_object *o, bool release)
{
    o->waited |= (active & (release ? w->waited_grid | w->waited_pending : w->waited_fenced)) != 0;
}

void race_steps_learn(struct warp *w, uint32_t active, const struct race_object *o, bool acquire)
{
    if (o->waited)
        *(acquire ? &w->waited_grid : &w->waited_pending) |= active;
}

void race_steps_told(struct warp *w, uint32_t active, bool by_atomic)
{
    w->waited_pending |= active;
    w->waited_taken |= by_atomic ? active : 0;     /* a barrier of the block makes that count: race.c */
}

/* Whole warps meet. What who arrived had waited for then, not what it waited for since, counts for those who wait. */
void race_steps_barrier(struct block *b, const struct barrier *bar)
{
    for (uint32_t n = 0; n < b->warp_count; n++) {
        struct warp *w = &b->warps[n];
        w->waited_grid |= bar->waiting >> n & 1 && bar->waited ? w->alive : 0;
        w->waited_fenced |= bar->waiting >> n & 1 && bar->waited_fenced ? w->alive : 0;
    }
}

void race_steps_trigger(struct warp *w, uint32_t active)
{
    struct block *b = w->block;
    if (!active || b->triggered)
        return;
    b->triggered = true;
    b->triggered_early = active & ~w->waited_grid;
}

void race_steps_block_end(struct block *b)
{
    bool waited = false;
    for (uint32_t i = 0; i < b->warp_count && !waited; i++)
        waited = b->warps[i].waited_grid;
    if (waited && !b->triggered_early)
        atomic_store(&b->worker->machine->next_begins_late, true);
}

static void set_bits(uint8_t *bits, uint64_t limit, uint64_t at, unsigned count)
{
    for (uint64_t n = at; n < at + count && n < limit; n++)
        bits[n >> 3] |= (uint8_t)(1u << (n & 7));
}

struct noting { struct past *past; uint64_t shift; };
static bool note(void *context, uint32_t id, uint64_t at, uint32_t mask, bool reads)
{
    const struct noting *t = context;
    for (uint32_t rest = id ? mask : 0; rest; rest &= rest - 1) {
        const uint64_t byte = at + (uint64_t)__builtin_ctz(rest);
        if (byte >= t->shift)
            set_bits(reads ? t->past->read : t->past->wrote, t->past->bytes, byte - t->shift, 1);
    }
    return true;
}

void race_steps_close(struct machine *m)
{
    struct ptx_history *h = m->history;
    if (!h)
        return;
    if (atomic_load(&m->next_begins_late))
        forget(h);
    for (int n = 0; n < m->region_count; n++) {
        const struct region *r = &m->regions[n];
        struct past *p = NULL;
        for (int q = 0; q < h->count && !p && r->touched; q++)
            p = h->places[q].address == r->base && h->places[q].bytes == r->bytes ? &h->places[q] : NULL;
        if (!r->touched || (!p && h->count == MOST_PLACES))
            continue;
        if (!p) {
            p = &h->places[h->count++];
            *p = (struct past){r->base, r->bytes, xalloc((size_t)r->bytes / 8 + 8), xalloc((size_t)r->bytes / 8 + 8)};
        }
        struct noting t = {p, r->base & 31};
        race_each_touch(r, note, &t);
    }
}

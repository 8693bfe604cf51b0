/*
 * What memory.c tells the checker of buffers: the row of a whole warp, or one lane's bytes with their value. Three questions each:
 * must these bytes keep their bits, does a launch that overlaps with this one use them, does anybody of this launch. A row only says
 * whether all is fine; the lanes that follow it then say what is not, and in which words.
 *
 * A write of what is there already harms nobody. Where host threads run blocks at once, the bytes that a mark stands for may still be
 * on their way: before a clash is reported they are waited for.
 */
#include "gpu/ptx/race_grid.h"

#include <sched.h>
#include <string.h>

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
    const bool reads = kind == RACE_READ || kind == RACE_STRONG_READ;
    if (!reads && ((r->frozen && any_frozen(r, p->offset, bytes)) || (r->held && holes_touched(r, p->offset, bytes))))
        return false;
    if (!race_steps_fine(w, w->alive, r, p->offset, bytes, kind))
        return false;
    if (!r->touched)
        return true;
    struct race_use u = {.w = w, .kind = kind};
    const bool strong = kind == RACE_ATOMIC || kind == RACE_STRONG_READ;
    u.me = strong ? race_actor_strong(w) : race_actor(w);
    return race_range_use(&u, r, p->offset, bytes);
}

static bool report(const struct race_use *u, const struct insn *i, int lane, const struct place *p, unsigned bytes)
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
    if (r->held && !reads && !holes_store(w, i, lane, p, bytes, value))
        return false;
    if (!race_steps_fine(w, 1u << lane, r, p->offset, bytes, kind))
        return race_steps_report(w, i, lane, p, bytes, kind);
    if (!r->touched)
        return true;
    struct race_use u = {.w = w, .kind = kind == RACE_SAME ? RACE_READ : kind};
    storing(w, kind);
    u.me = strong ? race_actor_strong(w) : race_actor(w);
    const unsigned each = bytes > 4 && kind == RACE_WRITE ? 4 : bytes;
    for (unsigned at = 0; at < bytes; at += each) {
        struct place part_of = *p;
        part_of.offset += at;
        part_of.data += at;
        u.benign = kind == RACE_SAME || (kind == RACE_WRITE && changes_nothing(&part_of, value ? value + at : NULL, each));
        if (race_range_use(&u, r, part_of.offset, each))
            continue;
        const bool again = kind == RACE_WRITE && value && w->block->worker->machine->many;
        if (again)
            others_settle(w);
        u.benign = again && changes_nothing(&part_of, value + at, each);
        if (!u.benign || !race_range_use(&u, r, part_of.offset, each))
            return report(&u, i, lane, &part_of, each);
    }
    return true;
}

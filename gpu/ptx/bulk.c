/*
 * cp.async.bulk, cp.reduce.async.bulk, st.async, red.async, cp.async.mbarrier.arrive: checked at the issue, then in flight (flight.c).
 *
 * A source is read, and both ends are checked for races, as the issuing thread does it: who is not ordered with the issue is at fault.
 * That the bytes are there is told through the mbarrier (the issue counts as an arrival for the order), or to the thread that waits.
 */
#include "gpu/ptx/async.h"
#include "gpu/ptx/machine.h"

#include <string.h>

/* A whole stretch: aligned to 16 bytes, in bounds. */
static bool stretch(struct warp *w, const struct insn *i, int lane, enum ptx_space space, uint64_t at, uint32_t bytes, unsigned each, bool store,
                    struct place *ret)
{
    struct insn x = *i;
    x.space = (uint8_t)space;
    struct place end;
    if (!memory_locate(w, &x, lane, at, each, each, store, ret) || !memory_locate(w, &x, lane, at + bytes - each, each, each, store, &end))
        return false;
    if (end.data - ret->data == (int64_t)bytes - (int64_t)each && end.home == ret->home && end.region == ret->region &&
        memory_locate(w, &x, lane, at, bytes, each, store, ret))
        return true;
    return w->block->worker->finding.kind == PTX_CLEAN
               ? memory_fault(w, &x, lane, PTX_OUT_OF_BOUNDS, memory_name(w, ret), memory_offset(w, ret), 0, bytes, store)
               : false;
}

static bool use(struct warp *w, const struct insn *i, int lane, const struct place *p, uint32_t bytes, enum race_kind kind, const uint8_t *value)
{
    struct worker *k = w->block->worker;
    if (p->home)
        return race_shared(w, i, lane, p->home, p->offset, bytes, kind);
    if (p->region && p->region->counted) {
        memory_count(k, p->region, p->offset, bytes, kind != RACE_READ);
        depth_stretch(w, p->region->base + (uint64_t)p->offset, bytes, kind != RACE_READ);
    }
    return !p->region || !p->region->watched || watch_lane(w, i, lane, p, bytes, kind, value);
}

static bool read_source(struct warp *w, const struct insn *i, int lane, const struct place *p, struct flight *f)
{
    if (p->init && !bits_all(p->init, p->offset, f->bytes))
        return memory_fault(w, i, lane, PTX_UNINITIALISED, memory_name(w, p), memory_offset(w, p), 0, f->bytes, false);
    if (!use(w, i, lane, p, f->bytes, RACE_READ, NULL) || (p->home && !proxy_source(w, i, lane, p->home, p->data, f->bytes)) ||
        (p->region && !proxy_source_global(w, i, lane, p, f->bytes)))
        return false;
    memcpy(f->data, p->data, f->bytes);
    f->source = p->data;
    f->from_home = p->home;
    return true;
}

static bool set_target(struct warp *w, const struct insn *i, int lane, const struct place *p, struct flight *f)
{
    if (f->op && p->init && !bits_all(p->init, p->offset, f->bytes))
        return memory_fault(w, i, lane, PTX_UNINITIALISED, memory_name(w, p), memory_offset(w, p), 0, f->bytes, false);
    if (p->region)
        proxy_target(w, true);
    if (!use(w, i, lane, p, f->bytes, f->op ? RACE_ATOMIC : RACE_WRITE, f->op ? NULL : f->data))
        return false;
    if (p->region)
        proxy_target(w, false);
    f->target = p->data;
    f->target_init = p->init;
    f->target_at = p->offset;
    f->region = p->region;
    f->home = p->home;
    const bool whole = f->bytes % 16 || f->chunk == 0xffff;
    for (uint32_t n = 0; p->region && n < f->bytes; n += whole ? f->bytes : 1)
        if (whole || f->chunk >> (n & 15) & 1)
            tag_store(w->block->worker, p->region, p->offset + n, whole ? f->bytes : 1);
    if (p->init && !f->op && whole)
        bits_clear(p->init, p->offset, f->bytes);
    for (uint32_t n = 0; p->init && !f->op && !whole && n < f->bytes; n++)
        if (f->chunk >> (n & 15) & 1)
            bits_clear(p->init, p->offset + n, 1);
    return true;
}

/* The mbarrier at this address; it learns of what we did before. */
static bool set_barrier(struct warp *w, const struct insn *i, int lane, enum ptx_space space, uint64_t at, struct flight *f)
{
    struct insn x = *i;
    x.space = (uint8_t)space;
    struct place p;
    if (!memory_locate(w, &x, lane, at, 8, 8, true, &p))
        return false;
    if (!p.home)
        return fault(w, i, lane, PTX_BARRIER, "uses an mbarrier at an address that is not in shared memory");
    struct mbarrier *b = mbarrier_live(w, i, lane, p.home, (uint32_t)p.offset);
    if (!b || !race_mbarrier(w, i, lane, p.home, p.offset))
        return false;
    if (f->home && f->home != p.home)
        return fault(w, i, lane, PTX_BARRIER, "copies to block %u of its cluster, but to an mbarrier of block %u", f->home->rank, p.home->rank);
    f->bar_home = p.home;
    f->bar = (uint32_t)p.offset;
    race_object_release(w, 1u << lane, &b->gathered, p.home, race_phase_key(p.home, p.offset, b->phase));
    return true;
}

static uint64_t lane64(const struct warp *w, uint32_t from, int lane) { return ((const uint64_t *)slot(w, from))[lane]; }
static uint32_t lane32(const struct warp *w, uint32_t from, int lane, uint32_t otherwise)
{
    return from ? ((const uint32_t *)slot(w, from))[lane] : otherwise;
}

static bool give_up(struct cluster *c) /* the half-made flight of a finding */
{
    free(c->flights.items[--c->flights.count].data);
    return false;
}

/* One copy to one destination. `to`, `bar`: as addresses of the whole cluster where that is meant. */
static bool one_copy(struct warp *w, const struct insn *i, int lane, uint64_t to, uint64_t from, uint32_t bytes, uint64_t bar)
{
    struct cluster *c = w->block->cluster;
    const enum ptx_space target = i->space == SPACE_GLOBAL ? SPACE_GLOBAL : (enum ptx_space)i->space;
    const enum ptx_space origin = i->space == SPACE_GLOBAL || i->flags & F_NC ? SPACE_SHARED : SPACE_GLOBAL;
    struct place source, place;
    if (!stretch(w, i, lane, origin, from, bytes, 16, false, &source) || !stretch(w, i, lane, target, to, bytes, 16, true, &place))
        return false;
    struct flight *f = flight_new(w, i, lane, bytes);
    if (!f)
        return false;
    f->op = i->op;
    f->type = i->type;
    f->chunk = (uint16_t)lane32(w, w->block->worker->machine->module->lists[i->aux + 1], lane, 0xffff);
    f->group = w->bulk_committed[lane];
    f->late = worker_draw(w->block->worker) & 1;
    if (!read_source(w, i, lane, &source, f) || !set_target(w, i, lane, &place, f) || (i->d && !set_barrier(w, i, lane, target, bar, f)))
        return give_up(c);
    return flight_launch(f);
}

/*
 * A copy out of memory waits for what its address needed, and who waits for it waits for that too. On an H200 a bulk copy of a few KiB
 * and the wait at its barrier take as long as about two loads one after the other (0.4 us; gated-delta decode by template "bulk" beside
 * "rows", tests/bench/results/2026-11-30-h200-kernel-settings.json).
 */
#define LIKE_LOADS 2
static void chain(struct warp *w, const struct insn *i)
{
    const uint32_t depth = (i->flags & F_WAITS ? w->used : w->waited) + LIKE_LOADS, length = depth - w->depth_base;
    struct block *b = w->block;
    if (i->space == SPACE_GLOBAL || i->flags & F_NC)
        return;
    w->longest = depth > w->longest ? depth : w->longest;
    b->bulk_depth = length > b->bulk_depth ? length : b->bulk_depth;
}

bool bulk_issue(struct warp *w, const struct insn *i, uint32_t active)
{
    chain(w, i);
    const uint32_t mask_slot = w->block->worker->machine->module->lists[i->aux];
    const struct cluster *c = w->block->cluster;
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        const uint64_t to = lane64(w, i->a, lane), from = lane64(w, i->b, lane), bar = i->d ? lane64(w, i->d, lane) : 0;
        const uint32_t bytes = lane32(w, i->c, lane, 0);
        if (bytes % 16)
            return fault(w, i, lane, PTX_MISALIGNED, "copies %u bytes, which is not a multiple of 16", bytes);
        if (bytes > MOST_COUNT)
            return fault(w, i, lane, PTX_BARRIER, "copies %u bytes, more than an mbarrier can count", bytes);
        if (!bytes)
            continue;
        if (!mask_slot) {
            if (!one_copy(w, i, lane, to, from, bytes, bar))
                return false;
            continue;
        }
        const uint32_t mask = lane32(w, mask_slot, lane, 0) & 0xffff;
        if (mask >> c->size)
            return fault(w, i, lane, PTX_OUT_OF_BOUNDS, "copies to blocks %04x of its cluster, which has %u", mask, c->size);
        const uint64_t inside = (1u << REMOTE_SHIFT) - 1;
        for (uint32_t r = 0; r < c->size; r++)
            if (mask >> r & 1 && !one_copy(w, i, lane, (uint64_t)(r + 1) << REMOTE_SHIFT | (to & inside), from, bytes,
                                           (uint64_t)(r + 1) << REMOTE_SHIFT | (bar & inside)))
                return false;
    }
    return true;
}

void bulk_commit(struct warp *w, uint32_t active)
{
    for (uint32_t rest = active; rest; rest &= rest - 1)
        w->bulk_committed[first_lane(rest)]++;
}

bool bulk_wait(struct warp *w, const struct insn *i, uint32_t active)
{
    for (uint32_t rest = active; rest; rest &= rest - 1)
        if (!flight_wait(w, first_lane(rest), (uint32_t)i->imm, i->op))
            return false;
    return true;
}

/* st.async, red.async: values of registers to another block's shared memory, that its mbarrier counts. */
bool async_store(struct warp *w, const struct insn *i, uint32_t active)
{
    const uint32_t *list = w->block->worker->machine->module->lists + i->aux;
    const uint32_t bytes = (uint32_t)i->size * i->vec;
    memory_addresses(w, i, bytes);
    uint64_t addresses[WARP_LANES];
    memcpy(addresses, w->block->worker->addresses, sizeof addresses);
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        struct place place;
        if (!stretch(w, i, lane, SPACE_CLUSTER, addresses[lane], bytes, bytes, true, &place))
            return false;
        struct flight *f = flight_new(w, i, lane, bytes);
        if (!f)
            return false;
        f->op = i->op;
        f->type = i->type;
        f->chunk = 0xffff;
        f->late = worker_draw(w->block->worker) & 1;
        for (unsigned v = 0; v < i->vec; v++) {
            const uint64_t value = i->size == 8 ? lane64(w, list[v], lane) : lane32(w, list[v], lane, 0);
            memcpy(f->data + v * i->size, &value, i->size);
        }
        if (!set_target(w, i, lane, &place, f) || !set_barrier(w, i, lane, SPACE_CLUSTER, lane64(w, i->d, lane), f))
            return give_up(w->block->cluster);
        if (!flight_launch(f))
            return false;
    }
    return true;
}

/* cp.async.mbarrier.arrive: an arrival when all copies that this thread has issued so far have landed */
bool copy_arrive(struct warp *w, const struct insn *i, uint32_t active)
{
    memory_addresses(w, i, 8);
    uint64_t addresses[WARP_LANES];
    memcpy(addresses, w->block->worker->addresses, sizeof addresses);
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        struct flight *f = flight_new(w, i, lane, 0);
        if (!f)
            return false;
        f->arrives = f->late = true;
        f->serial = w->copy_serial;
        if (!set_barrier(w, i, lane, (enum ptx_space)i->space, addresses[lane], f))
            return give_up(w->block->cluster);
        struct mbarrier *b = mbarrier_live(w, i, lane, f->bar_home, f->bar);
        if (f->bar_home != w->block)
            return fault(w, i, lane, PTX_BARRIER, "uses an mbarrier of another block with cp.async.mbarrier.arrive");
        if (!i->op && b->pending == MOST_COUNT)
            return fault(w, i, lane, PTX_BARRIER, "makes an mbarrier expect more than %u arrivals", MOST_COUNT);
        b->pending += !i->op;   /* without .noinc this arrival is one more that is expected */
    }
    return true;
}

/*
 * Asynchronous copies of lanes (cp.async): read when issued, written to shared memory when waited for.
 */
#include "gpu/ptx/machine.h"

#include <string.h>

#define MOST_RECORDS 1024   /* of a warp; each has a copy of every lane */

/*
 * The record of an issue by these lanes. Lanes that run apart issue the same copies one after the other: the first record of this
 * instruction behind the last one that has any of these lanes takes them in, so that a warp's records do not depend on how it is parted.
 * NULL: too many.
 */
static struct pending_copy *record_for(struct warp *w, uint32_t active, uint32_t pc, uint32_t bytes)
{
    uint32_t at = w->copy_count;
    while (at && !(w->copies[at - 1].mask & active))
        at--;
    while (at < w->copy_count && w->copies[at].stmt_pc != pc)
        at++;
    if (at < w->copy_count) {
        w->copies[at].mask |= active;
        return &w->copies[at];
    }
    if (w->copy_count == w->copy_capacity) {
        if (w->copy_count >= MOST_RECORDS)
            return NULL;
        w->copy_capacity = w->copy_capacity ? w->copy_capacity * 2 : 8;
        w->copies = xrealloc(w->copies, w->copy_capacity * sizeof *w->copies);
    }
    w->copies[at] = (struct pending_copy){.mask = active, .bytes = bytes, .stmt_pc = pc};
    w->copy_count++;
    return &w->copies[at];
}

bool copy_issue(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    struct pending_copy *c = record_for(w, active, (uint32_t)(i - k->machine->module->code), i->size);
    if (!c)
        return fault(w, i, first_lane(active), PTX_RESOURCE, "has more than %d copies in flight in its warp", MOST_RECORDS);
    const uint64_t *to = (const uint64_t *)slot(w, i->a), *from = (const uint64_t *)slot(w, i->b);
    struct insn source = *i, target = *i;
    source.space = SPACE_GLOBAL;
    target.space = SPACE_SHARED;
    struct sector_set sectors = {.used = {0}};
    unsigned fresh = 0, lanes = 0;
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        const uint32_t have = i->c ? ((const uint32_t *)slot(w, i->c))[lane] : i->size;
        struct place p;
        c->group[lane] = w->committed[lane];
        c->serial[lane] = w->copy_serial;
        memset(c->data[lane], 0, sizeof c->data[lane]);
        if (have > i->size)
            return fault(w, i, lane, PTX_OUT_OF_BOUNDS, "copies %u bytes of %u", have, i->size);
        if (!memory_locate(w, &target, lane, to[lane], i->size, i->size, true, &p))
            return false;
        c->to[lane] = (uint32_t)p.offset;
        /* it may land at any time from now on: until it is waited for, nothing can be read there */
        if (!race_check(w, i, lane, (uint32_t)p.offset, i->size, RACE_WRITE))
            return false;
        bits_clear(p.init, p.offset, i->size);
        if (!have)
            continue;
        if (from[lane] & (i->size - 1u) || have == i->size) {
            if (!memory_locate(w, &source, lane, from[lane], i->size, i->size, false, &p))
                return false;
        } else if (!memory_locate(w, &source, lane, from[lane], have, 1, false, &p)) {
            return k->finding.kind == PTX_CLEAN ? memory_fault(w, i, lane, PTX_OUT_OF_BOUNDS, "memory", (int64_t)from[lane], 0, have, false) : false;
        }
        if (p.init && !bits_all(p.init, p.offset, have))
            return memory_fault(w, i, lane, PTX_UNINITIALISED, memory_name(w, &p), memory_offset(w, &p), 0, have, false);
        if (p.region && p.region->watched && !watch_lane(w, i, lane, &p, have, RACE_READ, NULL))
            return false;
        memcpy(c->data[lane], p.data, have);
        if (p.region && p.region->counted)
            fresh += sector_add(&sectors, &p, have, false), lanes++;
    }
    k->counts.global_load_requests++;
    k->counts.global_load_bytes += (uint64_t)lanes * i->size;
    k->counts.global_load_sectors += fresh;
    w->copy_depth = (i->flags & F_WAITS ? w->used : w->waited) + 1;
    w->longest = w->copy_depth > w->longest ? w->copy_depth : w->longest;
    w->copy_serial++;
    return true;
}

/* Told through an mbarrier: whoever looks there is ordered after the issue. */
void copy_land(struct warp *w, int lane, uint32_t serial)
{
    struct block *b = w->block;
    uint32_t kept = 0;
    for (uint32_t n = 0; n < w->copy_count; n++) {
        struct pending_copy *c = &w->copies[n];
        if (c->mask >> lane & 1 && (int32_t)(c->serial[lane] - serial) < 0) {
            memcpy(b->shared + c->to[lane], c->data[lane], c->bytes);
            bits_set(b->shared_init, c->to[lane], c->bytes, false);
            c->mask &= ~(1u << lane);
        }
        if (c->mask && n != kept)
            w->copies[kept] = *c;
        kept += c->mask != 0;
    }
    w->copy_count = kept;
}

void copy_commit(struct warp *w, uint32_t active)
{
    for (uint32_t rest = active; rest; rest &= rest - 1)
        w->committed[first_lane(rest)]++;
}

bool copy_wait(struct warp *w, const struct insn *i, uint32_t active, int64_t keep)
{
    struct block *b = w->block;
    const struct ptx_module *m = b->worker->machine->module;
    uint32_t kept = 0;
    if (w->copy_count && keep <= 0 && w->copy_depth > w->used)
        w->used = w->copy_depth;
    (void)i;
    for (uint32_t n = 0; n < w->copy_count; n++) {
        struct pending_copy *c = &w->copies[n];
        uint64_t offsets[WARP_LANES];
        uint32_t now = 0;
        for (uint32_t rest = c->mask & active; rest; rest &= rest - 1) {
            const int lane = first_lane(rest);
            const int64_t behind = (int64_t)w->committed[lane] - c->group[lane]; /* 0: not committed, 1: the newest group */
            if (keep >= 0 && behind <= keep)
                continue;
            now |= 1u << lane;
            offsets[lane] = c->to[lane];
            const struct insn *issued = &m->code[c->stmt_pc];
            const struct place p = {.data = b->shared + c->to[lane], .init = b->shared_init, .offset = c->to[lane], .home = b};
            if (!race_check(w, issued, lane, c->to[lane], c->bytes, RACE_WRITE) ||
                (b->worker->exploring && w->lanes && !lane_check(w, issued, lane, &p, c->bytes, RACE_WRITE, NULL)))
                return false;
            memcpy(b->shared + c->to[lane], c->data[lane], c->bytes);
            bits_set(b->shared_init, c->to[lane], c->bytes, false);
        }
        if (now) {
            b->worker->counts.shared_requests++;
            b->worker->counts.shared_wavefronts += memory_wavefronts(offsets, now, c->bytes);
        }
        c->mask &= ~now;
        if (c->mask && n != kept)
            w->copies[kept] = *c;
        kept += c->mask != 0;
    }
    w->copy_count = kept;
    return true;
}

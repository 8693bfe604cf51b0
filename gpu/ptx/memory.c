/*
 * Every access of the emulated program, checked: alignment, bounds, read-only, initialised bytes, races.
 *
 * Three ways: access.c does what a whole warp does in the usual forms. What it leaves comes here: a whole warp whose lanes lie side by
 * side (or all on one address) is checked once and copied at once; anything else goes lane by lane, which finds whose fault it is. All
 * count sectors and bank conflicts the same.
 */
#include "gpu/ptx/machine.h"

#include <string.h>

/* ---- counting ---- */
static void mark_sectors(uint64_t *bits, uint64_t first, uint64_t last)
{
    while (first <= last) {
        const uint64_t end = last - first > 63 - (first & 63) ? first | 63 : last;
        const uint64_t mask = (~0ull >> (63 - (end - first))) << (first & 63);
        if ((__atomic_load_n(&bits[first >> 6], __ATOMIC_RELAXED) & mask) != mask)
            __atomic_fetch_or(&bits[first >> 6], mask, __ATOMIC_RELAXED);
        first = end + 1;
    }
}

static void count_global(struct worker *k, struct region *r, uint64_t offset, uint64_t bytes, bool store)
{
    const uint64_t first = offset >> 5, last = (offset + bytes - 1) >> 5;
    uint64_t *marks = store ? r->stored : r->loaded;
    if (!r->counted)
        return;
    if (store)
        k->counts.global_store_sectors += last - first + 1;
    else
        k->counts.global_load_sectors += last - first + 1;
    mark_sectors(marks, first, last);
}

void memory_count(struct worker *k, struct region *r, uint64_t offset, uint64_t bytes, bool store)
{
    if (store)
        k->counts.global_store_requests++, k->counts.global_store_bytes += bytes;
    else
        k->counts.global_load_requests++, k->counts.global_load_bytes += bytes;
    count_global(k, r, offset, bytes, store);
}

/* Shared-memory passes for one request: for each group of lanes that moves 128 bytes, the most distinct words in one bank. */
unsigned memory_wavefronts(const uint64_t *offset, uint32_t active, unsigned bytes)
{
    const unsigned lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
    unsigned total = 0;
    for (unsigned start = 0; start < WARP_LANES; start += lanes) {
        const uint32_t group = active >> start & (lanes == 32 ? FULL_MASK : (1u << lanes) - 1);
        if (!group)
            continue;
        uint32_t words[32][32];
        uint8_t used[32] = {0};
        unsigned most = 1;
        for (uint32_t rest = group; rest; rest &= rest - 1) {
            const uint64_t at = offset[start + (unsigned)first_lane(rest)];
            for (unsigned b = 0; b < bytes; b += 4) {
                const uint32_t word = (uint32_t)((at + b) >> 2), bank = word & 31;
                unsigned n = 0;
                while (n < used[bank] && words[bank][n] != word)
                    n++;
                if (n == used[bank] && n < 32) {
                    words[bank][used[bank]++] = word;
                    most = used[bank] > most ? used[bank] : most;
                }
            }
        }
        total += most;
    }
    return total;
}

enum pattern memory_addresses(struct warp *w, const struct insn *i, uint64_t stride)
{
    struct worker *k = w->block->worker;
    if (i->a)
        return k->machine->lanes->addresses((const uint64_t *)slot(w, i->a), i->imm, stride, k->addresses);
    for (int l = 0; l < WARP_LANES; l++)
        k->addresses[l] = (uint64_t)i->imm;
    return PATTERN_SAME;
}

/* Distinct sectors of the lanes' accesses, none longer than a sector: counted, and marked. */
unsigned sector_add(struct sector_set *s, const struct place *p, unsigned bytes, bool store)
{
    unsigned fresh = 0;
    for (uint64_t sector = p->offset >> 5; sector <= (p->offset + bytes - 1) >> 5; sector++) {
        const uint64_t key = sector ^ (uintptr_t)p->region << 20;
        for (unsigned h = (unsigned)(key ^ key >> 17);; h++) {
            if (!s->used[h & 63]) {
                s->used[h & 63] = 1;
                s->seen[h & 63] = key;
                fresh++;
                mark_sectors(store ? p->region->stored : p->region->loaded, sector, sector);
                break;
            }
            if (s->seen[h & 63] == key)
                break;
        }
    }
    return fresh;
}

void load_depth(struct warp *w, const struct insn *i, const struct place *p)
{
    if (!p->region || !p->region->counted)
        return;
    const uint32_t before = i->flags & F_WAITS ? w->used : i->flags & F_NC || w->stored < w->waited ? w->waited : w->stored;
    const uint32_t depth = before + 1;
    const uint32_t *list = w->block->worker->machine->module->lists + i->aux;
    if (i->kind == K_LD)
        for (unsigned v = 0; v < i->vec; v++)
            w->depths[list[v] / 128] = depth;
    else if (i->dst)
        w->depths[i->dst / 128] = depth;
    w->longest = depth > w->longest ? depth : w->longest;
}

static void put_lane(struct warp *w, const struct insn *i, const uint32_t *list, int lane, const uint8_t *from)
{
    for (unsigned v = 0; v < i->vec; v++, from += i->size) {
        char *to = slot(w, list[v]);
        uint64_t value = 0;
        memcpy(&value, from, i->size);
        if (i->size == 8)
            ((uint64_t *)to)[lane] = value;
        else
            ((uint32_t *)to)[lane] = (uint32_t)value;
    }
}

static bool load_lanes(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    const enum race_kind kind = i->flags & F_VOLATILE ? RACE_STRONG_READ : RACE_READ;
    const uint32_t *list = k->machine->module->lists + i->aux;
    const unsigned bytes = i->size * (unsigned)i->vec;
    struct sector_set sectors = {.used = {0}};
    unsigned fresh = 0, on_shared = 0, on_global = 0;
    uint64_t offsets[WARP_LANES];
    struct place p = {0};
    const bool strong = k->machine->stale && i->flags & F_VOLATILE;
    if (strong)
        stale_loading(w);
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        uint8_t value[64];
        if (!memory_locate(w, i, lane, k->addresses[lane], bytes, bytes, false, &p))
            return false;
        if (p.init && !bits_all(p.init, p.offset, bytes))
            return memory_fault(w, i, lane, PTX_UNINITIALISED, memory_name(w, &p), memory_offset(w, &p), 0, bytes, false);
        if (p.region && p.region->counted) {
            on_global++;
            fresh += sector_add(&sectors, &p, bytes, false);
        } else if (p.home) {
            offsets[lane] = p.offset;
            on_shared |= 1u << lane;
            if (!race_shared(w, i, lane, p.home, p.offset, bytes, kind))
                return false;
        }
        if (p.region && p.region->watched && !watch_lane(w, i, lane, &p, bytes, kind, NULL))
            return false;
        if (i->flags & F_NC && p.region && p.region->touched && !race_read_only(w, i, lane, &p, bytes))
            return false;
        if (k->exploring && w->lanes && !lane_check(w, i, lane, &p, bytes, kind, NULL))
            return false;
        const bool kept = strong && stale_before(w, &p);
        if (kept && !stale_load(w, i, lane, &p, value))
            return false;
        put_lane(w, i, list, lane, kept ? value : p.data);
    }
    if (on_global) {
        k->counts.global_load_requests++;
        k->counts.global_load_bytes += on_global * (uint64_t)bytes;
        k->counts.global_load_sectors += fresh;
        load_depth(w, i, &p);
    }
    if (on_shared) {
        k->counts.shared_requests++;
        k->counts.shared_wavefronts += memory_wavefronts(offsets, on_shared, bytes);
    }
    return true;
}

/* All lanes read one address. */
static bool load_same(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    const struct lane_table *t = k->machine->lanes;
    const uint32_t *list = k->machine->module->lists + i->aux;
    const unsigned bytes = i->size * (unsigned)i->vec;
    const int lane = first_lane(active & ~w->waited_grid ? active & ~w->waited_grid : active);    /* who may be at fault */
    const enum race_kind kind = i->flags & F_VOLATILE ? RACE_STRONG_READ : RACE_READ;
    struct place p;
    if (!memory_locate(w, i, lane, k->addresses[lane], bytes, bytes, false, &p))
        return false;
    if (p.init && !bits_all(p.init, p.offset, bytes))
        return memory_fault(w, i, lane, PTX_UNINITIALISED, memory_name(w, &p), memory_offset(w, &p), 0, bytes, false);
    if (p.region && p.region->watched && !watch_row(w, &p, bytes, kind) && !watch_lane(w, i, lane, &p, bytes, kind, NULL))
        return false;
    if (p.region && p.region->counted) {
        k->counts.global_load_requests++;
        k->counts.global_load_bytes += (uint64_t)__builtin_popcount(active) * bytes;
        count_global(k, p.region, p.offset, bytes, false);
        load_depth(w, i, &p);
    } else if (memory_is_shared(w, &p)) {
        k->counts.shared_requests++;
        k->counts.shared_wavefronts++;
        if (!race_check(w, i, lane, (uint32_t)p.offset, bytes, kind))
            return false;
    }
    for (unsigned v = 0; v < i->vec; v++) {
        uint64_t value = 0;
        memcpy(&value, p.data + v * i->size, i->size);
        t->broadcast(slot(w, list[v]), value, active, i->size);
    }
    return true;
}

static bool load(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    struct machine *m = k->machine;
    const unsigned bytes = i->size * (unsigned)i->vec, all = bytes * WARP_LANES;
    const enum pattern pattern = memory_addresses(w, i, bytes);
    const enum race_kind kind = i->flags & F_VOLATILE ? RACE_STRONG_READ : RACE_READ;
    struct place p;
    if (k->exploring || (m->stale && i->flags & F_VOLATILE) || (m->order && i->flags & F_NC))
        return load_lanes(w, i, active);
    if (pattern == PATTERN_SAME && i->space != SPACE_LOCAL && !(i->space == SPACE_GENERIC && k->addresses[0] >= LOCAL_WINDOW))
        return load_same(w, i, active);
    if (pattern != PATTERN_ROW || active != FULL_MASK || i->space == SPACE_LOCAL || i->space == SPACE_PARAM || i->size < 2 ||
        !memory_locate(w, i, 0, k->addresses[0], all, bytes, false, &p) || (!p.region && !memory_is_shared(w, &p)) ||
        (p.init && !bits_all(p.init, p.offset, all)) || (p.region && p.region->watched && !watch_row(w, &p, all, kind))) {
        if (k->finding.kind != PTX_CLEAN)
            return false;
        return load_lanes(w, i, active);
    }
    if (p.region) {
        if (p.region->counted) {
            k->counts.global_load_requests++;
            k->counts.global_load_bytes += all;
            count_global(k, p.region, p.offset, all, false);
            load_depth(w, i, &p);
        }
    } else {
        k->counts.shared_requests++;
        k->counts.shared_wavefronts += all > 128 ? all / 128 : 1;
        if (!race_check(w, i, 0, (uint32_t)p.offset, all, kind))
            return false;
    }
    const uint32_t *list = m->module->lists + i->aux;
    switch (i->size) {
    case 2:
        for (unsigned v = 0; v < i->vec; v++) {
            uint32_t *to = (uint32_t *)slot(w, list[v]);
            const uint8_t *from = p.data + v * 2;
            for (unsigned l = 0; l < WARP_LANES; l++) {
                uint16_t x;
                memcpy(&x, from + l * bytes, 2);
                to[l] = x;
            }
        }
        break;
    case 4:
        if (i->vec == 1)
            memcpy(slot(w, list[0]), p.data, 128);
        else
            m->lanes->split(w->file, list, i->vec, p.data);
        break;
    default:
        for (unsigned v = 0; v < i->vec; v++)
            for (unsigned l = 0; l < WARP_LANES; l++)
                memcpy(slot(w, list[v]) + l * 8, p.data + l * bytes + v * 8, 8);
        break;
    }
    return true;
}

bool memory_load(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    k->near = i->aux2 & SCOPE_BLOCK;
    const bool fine = load(w, i, active);
    if (fine && i->flags & F_VOLATILE)
        race_observe(w, i, active, (enum order_scope)i->op);
    k->near = false;
    return fine;
}

static void take_lane(struct warp *w, const struct insn *i, const uint32_t *list, int lane, uint8_t *to)
{
    for (unsigned v = 0; v < i->vec; v++, to += i->size) {
        const char *from = slot(w, list[v]);
        const uint64_t value = i->size == 8 ? ((const uint64_t *)from)[lane] : ((const uint32_t *)from)[lane];
        memcpy(to, &value, i->size);
    }
}

static bool store_lanes(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    const uint32_t *list = k->machine->module->lists + i->aux;
    const unsigned bytes = i->size * (unsigned)i->vec;
    struct sector_set sectors = {.used = {0}};
    unsigned fresh = 0, on_shared = 0, on_global = 0;
    uint64_t offsets[WARP_LANES];
    uint8_t *where[WARP_LANES], value[64];
    const enum race_kind kind = i->flags & F_VOLATILE ? RACE_ATOMIC : RACE_WRITE;
    struct place last = {0};
    const bool strong = k->machine->stale && i->flags & F_VOLATILE;
    if (strong)
        stale_storing(w);
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        struct place p;
        uint8_t was[64];
        if (!memory_locate(w, i, lane, k->addresses[lane], bytes, bytes, true, &p))
            return false;
        if (p.region && p.region->counted) {
            on_global++;
            fresh += sector_add(&sectors, &p, bytes, true);
        } else if (p.home) {
            offsets[lane] = p.offset;
            on_shared |= 1u << lane;
            take_lane(w, i, list, lane, value);
            const bool same = kind == RACE_WRITE && bits_all(p.init, p.offset, bytes) && !memcmp(p.data, value, bytes);
            if (!race_shared(w, i, lane, p.home, p.offset, bytes, same ? RACE_SAME : kind))
                return false;
        }
        where[lane] = p.data;
        last = p;
        take_lane(w, i, list, lane, value);
        if (p.region && p.region->watched && !watch_lane(w, i, lane, &p, bytes, kind, value))
            return false;
        if (k->exploring && w->lanes && !lane_check(w, i, lane, &p, bytes, kind, value))
            return false;
        const bool kept = strong && stale_before(w, &p), was_written = !p.init || bits_all(p.init, p.offset, bytes);
        if (kept)
            memcpy(was, p.data, bytes);
        take_lane(w, i, list, lane, p.data);
        if (p.init)
            bits_set(p.init, p.offset, bytes, k->machine->many && p.region);
        if (p.region)
            tag_store(k, p.region, p.offset, bytes);
        for (unsigned at = 0; kept && at < bytes; at += i->size)
            stale_stored(w, &p, at, i->size, was + at, was_written);
    }
    /* a lane whose value is no longer there was overwritten by another lane of the same instruction */
    for (uint32_t rest = active & (active - 1) ? active : 0; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        take_lane(w, i, list, lane, value);
        if (memcmp(value, where[lane], bytes) && (on_shared || !k->machine->many)) {
            struct ptx_finding *f = &k->finding;
            snprintf(f->buffer, sizeof f->buffer, "%s", memory_name(w, &last));
            f->offset_bytes = memory_offset(w, &last) + (where[lane] - last.data);
            f->access_bytes = bytes;
            return fault(w, i, lane, PTX_RACE, "writes where another lane of its warp writes a different value in the same instruction");
        }
    }
    if (on_global) {
        w->sent = true;
        k->counts.global_store_requests++;
        k->counts.global_store_bytes += on_global * (uint64_t)bytes;
        k->counts.global_store_sectors += fresh;
    }
    if (on_shared) {
        k->counts.shared_requests++;
        k->counts.shared_wavefronts += memory_wavefronts(offsets, on_shared, bytes);
    }
    return true;
}

static bool store(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    w->stored = w->used;
    struct machine *m = k->machine;
    const unsigned bytes = i->size * (unsigned)i->vec, all = bytes * WARP_LANES;
    const enum pattern pattern = memory_addresses(w, i, bytes);
    const enum race_kind kind = i->flags & F_VOLATILE ? RACE_ATOMIC : RACE_WRITE;
    if (i->flags & F_VOLATILE)
        race_publish(w, i, active, (enum order_scope)i->op);
    struct place p;
    if (k->exploring || (m->stale && i->flags & F_VOLATILE) || pattern != PATTERN_ROW || active != FULL_MASK || i->space == SPACE_LOCAL || i->size < 2 ||
        !memory_locate(w, i, 0, k->addresses[0], all, bytes, true, &p) || (!p.region && !memory_is_shared(w, &p)) ||
        (p.region && p.region->watched && !watch_row(w, &p, all, kind))) {
        if (k->finding.kind != PTX_CLEAN)
            return false;
        return store_lanes(w, i, active);
    }
    if (p.region) {
        w->sent = true;
        k->counts.global_store_requests += p.region->counted;
        k->counts.global_store_bytes += p.region->counted ? all : 0;
        count_global(k, p.region, p.offset, all, true);
    } else {
        k->counts.shared_requests++;
        k->counts.shared_wavefronts += all > 128 ? all / 128 : 1;
        if (!race_check(w, i, 0, (uint32_t)p.offset, all, kind))
            return false;
    }
    const uint32_t *list = m->module->lists + i->aux;
    switch (i->size) {
    case 2:
        for (unsigned v = 0; v < i->vec; v++) {
            const uint32_t *from = (const uint32_t *)slot(w, list[v]);
            for (unsigned l = 0; l < WARP_LANES; l++) {
                const uint16_t x = (uint16_t)from[l];
                memcpy(p.data + l * bytes + v * 2, &x, 2);
            }
        }
        break;
    case 4:
        if (i->vec == 1)
            memcpy(p.data, slot(w, list[0]), 128);
        else
            m->lanes->join(w->file, list, i->vec, p.data);
        break;
    default:
        for (unsigned v = 0; v < i->vec; v++)
            for (unsigned l = 0; l < WARP_LANES; l++)
                memcpy(p.data + l * bytes + v * 8, slot(w, list[v]) + l * 8, 8);
        break;
    }
    if (p.init)
        bits_set(p.init, p.offset, all, m->many && p.region);
    if (p.region)
        tag_store(k, p.region, p.offset, all);
    return true;
}

bool memory_store(struct warp *w, const struct insn *i, uint32_t active)
{
    w->block->worker->near = i->aux2 & SCOPE_BLOCK;
    const bool fine = store(w, i, active);
    w->block->worker->near = false;
    if (w->block->worker->machine->many)
        watch_stored(w->block->worker);
    return fine;
}

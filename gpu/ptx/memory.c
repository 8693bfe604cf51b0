/*
 * Every access of the emulated program, checked: alignment, bounds, read-only, initialised bytes, races.
 *
 * Three ways: access.c does what a whole warp does in the usual forms. What it leaves comes here: a whole warp whose lanes lie side by
 * side (or all on one address) is checked once and copied at once; anything else goes lane by lane, which finds whose fault it is. All
 * count sectors and bank conflicts the same.
 */
#include "gpu/ptx/machine.h"

#include <string.h>

static const char *const spaces[] = {"memory", "global", "shared", "local", "constant", "parameter", "register", "shared"};

/* ---- bits of initialised bytes; several host threads may share a byte of bits ---- */
/* Other threads may set other bits of the same byte meanwhile; ours, if set, were set before. */
__attribute__((no_sanitize_thread)) bool bits_all(const uint8_t *bits, uint64_t at, uint64_t count)
{
    while (count && (at & 7)) {
        if (!(bits[at >> 3] >> (at & 7) & 1))
            return false;
        at++, count--;
    }
    const uint8_t *p = bits + (at >> 3);
    for (; count >= 64; count -= 64, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        if (word != UINT64_MAX)
            return false;
    }
    for (; count >= 8; count -= 8, p++)
        if (*p != 255)
            return false;
    return !count || (*p & ((1u << count) - 1)) == (1u << count) - 1;
}

static void bits_or(uint8_t *byte, unsigned mask, bool shared)
{
    if ((__atomic_load_n(byte, __ATOMIC_RELAXED) & mask) == mask)
        return;
    if (shared)
        __atomic_fetch_or(byte, (uint8_t)mask, __ATOMIC_RELAXED);
    else
        *byte = (uint8_t)(*byte | mask);
}

void bits_set(uint8_t *bits, uint64_t at, uint64_t count, bool shared)
{
    for (; count && (at & 7); ) {
        const unsigned room = 8 - (at & 7), n = count < room ? (unsigned)count : room;
        bits_or(&bits[at >> 3], ((1u << n) - 1) << (at & 7), shared);
        at += n, count -= n;
    }
    for (; count >= 8; at += 8, count -= 8)
        __atomic_store_n(&bits[at >> 3], 255, __ATOMIC_RELAXED);
    if (count)
        bits_or(&bits[at >> 3], (1u << count) - 1, shared);
}

void bits_clear(uint8_t *bits, uint64_t at, uint64_t count)
{
    for (; count && (at & 7); at++, count--)
        __atomic_fetch_and(&bits[at >> 3], (uint8_t)~(1u << (at & 7)), __ATOMIC_RELAXED);
    for (; count >= 8; at += 8, count -= 8)
        __atomic_store_n(&bits[at >> 3], 0, __ATOMIC_RELAXED);
    if (count)
        __atomic_fetch_and(&bits[at >> 3], (uint8_t)~((1u << count) - 1), __ATOMIC_RELAXED);
}

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
static unsigned wavefronts(const uint64_t *offset, uint32_t active, unsigned bytes)
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

/* ---- findings ---- */
bool memory_fault(struct warp *w, const struct insn *i, int lane, enum ptx_finding_kind kind, const char *buffer, int64_t offset,
                       uint64_t size, unsigned bytes, bool store)
{
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "%s", buffer);
    f->offset_bytes = offset;
    f->access_bytes = bytes;
    /* in no buffer: the offset from the nearest would say nothing */
    const bool nowhere = !*buffer;
    char address[24];
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)offset);
    if (nowhere)
        f->offset_bytes = 0;
    const char *does = i->kind == K_ATOM ? "atomically changes" : i->kind == K_PREFETCH ? "prefetches" : store ? "writes" : "reads";
    if (nowhere && kind == PTX_OUT_OF_BOUNDS)
        return fault(w, i, lane, kind, "%s %u bytes at address %s, in no buffer", does, bytes, address);
    if (nowhere)
        return fault(w, i, lane, kind, "%s %u bytes at address %s, in no buffer and not a multiple of %u", does, bytes, address, bytes);
    switch ((int)kind) {
    case PTX_OUT_OF_BOUNDS:
        return fault(w, i, lane, kind, "%s %u bytes at offset %lld of %s, which has %llu bytes", does, bytes, (long long)offset, buffer,
                     (unsigned long long)size);
    case PTX_READ_ONLY:
        return fault(w, i, lane, kind, "%s %u bytes at offset %lld of %s, which may only be read", does, bytes, (long long)offset, buffer);
    case PTX_UNINITIALISED:
        return fault(w, i, lane, kind, "%s %u bytes at offset %lld of %s, which nobody has written", does, bytes, (long long)offset, buffer);
    default:
        return fault(w, i, lane, kind, "%s %u bytes at offset %lld of %s, which is not a multiple of %u", does, bytes, (long long)offset,
                     buffer, bytes);
    }
}

/* ---- regions ---- */
static struct region *region_find(struct warp *w, const struct insn *i, uint64_t address)
{
    struct machine *m = w->block->worker->machine;
    uint16_t *hint = &w->block->worker->hints[((uintptr_t)i / sizeof *i) & 2047];
    struct region *r = &m->regions[*hint];
    if (address - r->base < r->bytes)
        return r;
    int low = 0, high = m->region_count - 1;
    while (low < high) { /* the last that starts at or before it */
        const int mid = (low + high + 1) / 2;
        if (m->regions[mid].base <= address)
            low = mid;
        else
            high = mid - 1;
    }
    r = &m->regions[low];
    if (address - r->base < r->bytes)
        *hint = (uint16_t)low;
    /* not inside: the nearer of two neighbours names the finding */
    else if (low + 1 < m->region_count && address >= r->base && m->regions[low + 1].base - address < address - (r->base + r->bytes))
        r++;
    return r;
}

/* Further from a region than index arithmetic gone wrong leads: a null pointer, a number taken for one. */
#define NEAR_BYTES (UINT64_C(1) << 32)
static bool is_near(const struct region *r, uint64_t address)
{
    return address < r->base ? r->base - address <= NEAR_BYTES : address - r->base < r->bytes + NEAR_BYTES;
}

/* A finding about a global address: by the buffer it is in or near, or by itself. */
static bool address_fault(struct warp *w, const struct insn *i, int lane, enum ptx_finding_kind kind, const struct region *r,
                          uint64_t address, unsigned bytes, bool store)
{
    if (!is_near(r, address))
        return memory_fault(w, i, lane, kind, "", (int64_t)address, 0, bytes, store);
    return memory_fault(w, i, lane, kind, r->name, (int64_t)(address - r->base), r->bytes, bytes, store);
}

/* Another block's shared memory, or our own by way of a mapped address. */
static bool remote_locate(struct warp *w, const struct insn *i, int lane, uint64_t *address, unsigned each, bool store, struct block **ret)
{
    struct block *b = w->block;
    const uint64_t mapped = *address;
    struct block *home = cluster_home(b, address);
    const char *does = i->kind == K_ATOM ? "atomically changes" : store ? "writes" : "reads";
    if (!home || mapped >= WINDOW_SIZE)
        return fault(w, i, lane, PTX_OUT_OF_BOUNDS, "%s %u bytes at address 0x%llx of shared memory, of no block of its cluster of %u", does, each,
                     (unsigned long long)mapped, b->cluster->size);
    if (home != b && i->space == SPACE_SHARED)
        return fault(w, i, lane, PTX_OUT_OF_BOUNDS, "%s %u bytes of shared memory of block %u of its cluster, without .shared::cluster", does, each,
                     home->rank);
    if (home->done || !home->started)
        return fault(w, i, lane, PTX_RACE, "%s %u bytes at offset %llu of the shared memory of block %u of its cluster, which has ended", does, each,
                     (unsigned long long)*address, home->rank);
    *ret = home;
    return true;
}

/* One stretch of `bytes` for one lane (or for all, side by side). */
bool memory_locate(struct warp *w, const struct insn *i, int lane, uint64_t address, uint64_t bytes, unsigned each, bool store, struct place *ret)
{
    struct block *b = w->block;
    struct machine *m = b->worker->machine;
    enum ptx_space space = (enum ptx_space)i->space;
    if (space == SPACE_GENERIC) {
        const uint64_t window = address & ~(WINDOW_SIZE - 1);
        space = window == SHARED_WINDOW ? SPACE_SHARED : window == LOCAL_WINDOW ? SPACE_LOCAL : window == PARAM_WINDOW ? SPACE_PARAM : SPACE_GLOBAL;
        if (space != SPACE_GLOBAL)
            address &= WINDOW_SIZE - 1;
    }
    if (address & (each - 1)) {
        if (space == SPACE_GLOBAL || space == SPACE_CONST)
            return address_fault(w, i, lane, PTX_MISALIGNED, region_find(w, i, address), address, each, store);
        return memory_fault(w, i, lane, PTX_MISALIGNED, spaces[space], (int64_t)address, 0, each, store);
    }
    *ret = (struct place){.offset = address};
    struct block *home = b;
    switch (space) {
    case SPACE_CLUSTER:
    case SPACE_SHARED:
        if (address >> REMOTE_SHIFT && !remote_locate(w, i, lane, &address, each, store, &home))
            return false;
        if (address + bytes > m->shared_bytes || address + bytes < address || (address + bytes > m->static_end && address < m->module->dynamic_shared))
            return bytes > each ? false : memory_fault(w, i, lane, PTX_OUT_OF_BOUNDS, "shared", (int64_t)address, m->shared_bytes, each, store);
        *ret = (struct place){.data = home->shared + address, .init = home->shared_init, .offset = address, .home = home};
        return true;
    case SPACE_LOCAL: {
        if (address + bytes > m->frame_bytes || address + bytes < address)
            return memory_fault(w, i, lane, PTX_OUT_OF_BOUNDS, "local", (int64_t)address, m->frame_bytes, each, store);
        const uint64_t at = ((uint64_t)w->id * WARP_LANES + (uint64_t)lane) * m->frame_bytes;
        ret->data = b->local + at + address;
        ret->init = b->local_init;
        ret->offset = at + address;
        return true;
    }
    case SPACE_PARAM:
        if (address + bytes > m->entry->param_bytes || address + bytes < address)
            return memory_fault(w, i, lane, PTX_OUT_OF_BOUNDS, "param", (int64_t)address, m->entry->param_bytes, each, store);
        if (store)
            return memory_fault(w, i, lane, PTX_READ_ONLY, "param", (int64_t)address, 0, each, store);
        ret->data = m->params + address;
        return true;
    case SPACE_GLOBAL:
    case SPACE_CONST:
    case SPACE_GENERIC:
    case SPACE_REG:
        break;
    }
    struct region *r = region_find(w, i, address);
    const uint64_t offset = address - r->base;
    if (offset >= r->bytes || r->bytes - offset < bytes) {
        if (bytes > each)
            return false; /* the caller goes lane by lane, which tells whose fault it is */
        return address_fault(w, i, lane, PTX_OUT_OF_BOUNDS, r, address, each, store);
    }
    if (store && !r->writable)
        return memory_fault(w, i, lane, PTX_READ_ONLY, r->name, (int64_t)offset, r->bytes, each, store);
    *ret = (struct place){.data = r->data + offset, .init = r->initialised, .offset = offset, .region = r};
    return true;
}

bool memory_is_shared(const struct warp *w, const struct place *p) { return p->home == w->block; }
int64_t memory_offset(const struct warp *w, const struct place *p)
{
    if (p->init == w->block->local_init && p->init)
        return (int64_t)(p->offset % w->block->worker->machine->frame_bytes);
    return (int64_t)p->offset;
}
const char *memory_name(const struct warp *w, const struct place *p)
{
    (void)w;
    return p->region ? p->region->name : p->home ? "shared" : "local";
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
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
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
        if (k->exploring && w->lanes && !lane_check(w, i, lane, &p, bytes, kind, NULL))
            return false;
        put_lane(w, i, list, lane, p.data);
    }
    if (on_global) {
        k->counts.global_load_requests++;
        k->counts.global_load_bytes += on_global * (uint64_t)bytes;
        k->counts.global_load_sectors += fresh;
        load_depth(w, i, &p);
    }
    if (on_shared) {
        k->counts.shared_requests++;
        k->counts.shared_wavefronts += wavefronts(offsets, on_shared, bytes);
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
    const int lane = first_lane(active);
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
    if (k->exploring)
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
    if (!load(w, i, active))
        return false;
    if (i->flags & F_VOLATILE)
        race_observe(w, i, active, i->op);
    return true;
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
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        struct place p;
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
        take_lane(w, i, list, lane, p.data);
        if (p.init)
            bits_set(p.init, p.offset, bytes, k->machine->many && p.region);
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
        k->counts.global_store_requests++;
        k->counts.global_store_bytes += on_global * (uint64_t)bytes;
        k->counts.global_store_sectors += fresh;
    }
    if (on_shared) {
        k->counts.shared_requests++;
        k->counts.shared_wavefronts += wavefronts(offsets, on_shared, bytes);
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
        race_publish(w, i, active, i->op);
    struct place p;
    if (k->exploring || pattern != PATTERN_ROW || active != FULL_MASK || i->space == SPACE_LOCAL || i->size < 2 ||
        !memory_locate(w, i, 0, k->addresses[0], all, bytes, true, &p) || (!p.region && !memory_is_shared(w, &p)) ||
        (p.region && p.region->watched && !watch_row(w, &p, all, kind))) {
        if (k->finding.kind != PTX_CLEAN)
            return false;
        return store_lanes(w, i, active);
    }
    if (p.region) {
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
    return true;
}

bool memory_store(struct warp *w, const struct insn *i, uint32_t active)
{
    const bool fine = store(w, i, active);
    if (w->block->worker->machine->many)
        watch_stored(w->block->worker);
    return fine;
}

/* ---- asynchronous copies: read when issued, written to shared memory when waited for ---- */
bool copy_issue(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    if (w->copy_count == w->copy_capacity) {
        if (w->copy_count >= 1024)
            return fault(w, i, first_lane(active), PTX_RESOURCE, "has more than 1024 copies in flight in its warp");
        w->copy_capacity = w->copy_capacity ? w->copy_capacity * 2 : 8;
        w->copies = xrealloc(w->copies, w->copy_capacity * sizeof *w->copies);
    }
    struct pending_copy *c = &w->copies[w->copy_count];
    *c = (struct pending_copy){.mask = active, .bytes = i->size, .stmt_pc = (uint32_t)(i - k->machine->module->code), .serial = w->copy_serial};
    memcpy(c->group, w->committed, sizeof c->group);
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
    w->copy_count++;
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
        if (c->mask >> lane & 1 && (int32_t)(c->serial - serial) < 0) {
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
            b->worker->counts.shared_wavefronts += wavefronts(offsets, now, c->bytes);
        }
        c->mask &= ~now;
        if (c->mask && n != kept)
            w->copies[kept] = *c;
        kept += c->mask != 0;
    }
    w->copy_count = kept;
    return true;
}

/*
 * Where an access goes: the buffer, shared, local or parameter bytes that an address names, whether it may go there, and the words of
 * a finding where it may not. And the bits that say which bytes have been written.
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

/* Whose store was the last, byte by byte; and how many bytes of the running cluster's are the first of theirs there. */
__attribute__((no_sanitize_thread)) static void tags_mark(struct worker *k, struct region *r, uint64_t offset, uint64_t bytes)
{
    uint8_t *at = r->tags + offset;
    uint64_t fresh = 0;
    for (uint64_t n = 0; n < bytes; n++)
        fresh += at[n] != k->tag;
    memset(at, k->tag, bytes);
    k->tagged[r - k->machine->regions].fresh += fresh;
}

void store_note(struct worker *k, struct region *r, uint64_t offset, uint64_t bytes)
{
    if (r->tags)
        tags_mark(k, r, offset, bytes);
    if (k->machine->partial)
        sample_note(k, (uint32_t)(r - k->machine->regions), offset, bytes);
}

/* ---- findings ---- */
/* Whether a launch of which only a sample of the blocks ran may have written there. */
static bool left_out(const struct machine *m, const char *name)
{
    for (int n = 0; n < m->region_count; n++)
        if (m->regions[n].name == name)
            return m->regions[n].buffer && m->regions[n].buffer->partial;
    return false;
}

bool memory_fault(struct warp *w, const struct insn *i, int lane, enum ptx_finding_kind kind, const char *buffer, int64_t offset,
                       uint64_t size, unsigned bytes, bool store)
{
    struct ptx_finding *f = &w->block->worker->finding;
    if (kind == PTX_UNINITIALISED && left_out(w->block->worker->machine, buffer))
        return fault(w, i, lane, PTX_LEFT_OUT, "reads %u bytes at offset %lld of %s, which a block that was left out may have written", bytes,
                     (long long)offset, buffer);
    snprintf(f->buffer, sizeof f->buffer, "%s", buffer);
    f->offset_bytes = offset;
    f->access_bytes = bytes;
    /* in no buffer: the offset from the nearest would say nothing */
    const bool nowhere = !*buffer;
    char address[24];
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)offset);
    if (nowhere)
        f->offset_bytes = 0;
    const char *does = i->kind == K_ATOM ? "atomically changes" : i->kind == K_PREFETCH ? i->op ? "discards" : "prefetches" : store ? "writes" : "reads";
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
    if (home != b && !race_peer_begun(w, home))
        return fault(w, i, lane, PTX_RACE, "%s %u bytes at offset %llu of the shared memory of block %u of its cluster, which may not have started: no barrier of "
                     "the cluster, nor anything else that the block has done, comes before", does, each, (unsigned long long)*address, home->rank);
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

/*
 * Copies in flight: from their issue until somebody has seen them complete.
 *
 * When a copy lands is drawn from the seed: at its issue, or when somebody asks for its mbarrier (at the third time at the latest), or
 * is waited for. Either way nothing can be read at the destination until the copy was seen complete, and what the source held is
 * compared then with what it held at the issue: who changes it meanwhile has a race, whatever the order here.
 * A block must not end while its shared memory is a source or another block's destination.
 */
#include "gpu/ptx/async.h"
#include "gpu/ptx/machine.h"
#include "gpu/ptx/opcode.h"

#include <string.h>

#define MOST_FLIGHTS 32768u           /* the threads of a large cluster that send each other some numbers each */
#define MOST_FLIGHT_BYTES (UINT64_C(64) << 20)
#define MOST_VAIN 2

struct flight *flight_new(struct warp *w, const struct insn *i, int lane, uint32_t bytes)
{
    struct cluster *c = w->block->cluster;
    struct flights *f = &c->flights;
    if (f->count == MOST_FLIGHTS || f->bytes + bytes > MOST_FLIGHT_BYTES)
        return fault(w, i, lane, PTX_RESOURCE, "has more copies in flight than the emulator can follow"), NULL;
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? f->capacity * 2 : 16;
        f->items = xrealloc(f->items, f->capacity * sizeof *f->items);
    }
    struct flight *x = &f->items[f->count++];
    *x = (struct flight){.warp = w, .lane = (uint8_t)lane, .bytes = bytes, .pc = (uint32_t)(i - w->block->worker->machine->module->code)};
    if (bytes)
        x->data = xalloc(bytes);
    f->bytes += bytes;
    return x;
}

static const struct insn *insn_of(const struct flight *f) { return &f->warp->block->worker->machine->module->code[f->pc]; }

static void flight_remove(struct cluster *c, uint32_t n)
{
    struct flights *f = &c->flights;
    f->bytes -= f->items[n].bytes;
    free(f->items[n].data);
    memmove(&f->items[n], &f->items[n + 1], (--f->count - n) * sizeof *f->items);
}

/* ---- landing ---- */
static bool source_unchanged(struct flight *f)
{
    if (!f->source || !memcmp(f->source, f->data, f->bytes))
        return true;
    uint32_t at = 0;
    while (f->source[at] == f->data[at])
        at++;
    return fault(f->warp, insn_of(f), f->lane, PTX_RACE, "copies %u bytes whose byte %u was changed before the copy had read it", f->bytes, at);
}

static void reduce_into(uint8_t *to, const struct flight *f)
{
    struct machine *m = f->warp->block->worker->machine;
    const unsigned size = ptx_types[f->type].bytes;
    for (uint32_t at = 0; at + size <= f->bytes; at += size) {
        uint64_t old = 0, value = 0;
        atomic_flag *flag = &m->atomic_locks[((f->target_at + at) >> 3) & 63];   /* as atom has it */
        while (m->many && f->region && atomic_flag_test_and_set_explicit(flag, memory_order_acquire))
            ;
        memcpy(&old, to + at, size);
        memcpy(&value, f->data + at, size);
        const uint64_t result = atomic_combine(f->op, (enum ptx_type)f->type, old, value, 0);
        memcpy(to + at, &result, size);
        if (m->many && f->region)
            atomic_flag_clear_explicit(flag, memory_order_release);
    }
}

static bool is_copied(const struct flight *f, uint32_t n) { return f->bytes % 16 || f->chunk >> (n & 15) & 1; }

static void put_bytes(struct flight *f)
{
    if (f->op)
        reduce_into(f->target, f);
    else if (f->bytes % 16 || f->chunk == 0xffff)
        memcpy(f->target, f->data, f->bytes);
    else
        for (uint32_t n = 0; n < f->bytes; n++)
            f->target[n] = is_copied(f, n) ? f->data[n] : f->target[n];
}

/* Nobody may store something else to the destination meanwhile: its bytes were marked uninitialised at the issue. */
static bool undisturbed(const struct flight *f)
{
    for (uint32_t n = 0; !f->op && f->target && f->target_init && n < f->bytes; n++) {
        const uint64_t at = f->target_at + n;
        if (is_copied(f, n) && f->target_init[at >> 3] >> (at & 7) & 1 && f->target[n] != f->data[n])
            return fault(f->warp, insn_of(f), f->lane, PTX_RACE, "copies %u bytes to where something else was stored before the copy was complete (byte %u)",
                         f->bytes, n);
    }
    return true;
}

bool flight_land(struct flight *f)
{
    if (f->landed)
        return true;
    struct warp *w = f->warp;
    f->landed = true;
    if (f->home && f->home->done)
        return fault(w, insn_of(f), f->lane, PTX_RACE, "copies %u bytes into the shared memory of block %u of its cluster, which has ended", f->bytes,
                     f->home->rank);
    if (!undisturbed(f))
        return false;
    if (f->arrives)
        copy_land(w, f->lane, f->serial);
    else if (f->target)
        put_bytes(f);
    if (f->home && f->target)
        proxy_landed(f->home, f->target, f->bytes);
    if (!f->bar_home)
        return true;
    struct mbarrier *b = mbarrier_live(w, insn_of(f), f->lane, f->bar_home, f->bar);
    if (!b)
        return false;
    f->phase = b->phase;
    return mbarrier_complete(w, insn_of(f), f->lane, b, f->arrives, f->arrives ? 0 : f->bytes);
}

bool flight_launch(struct flight *f)
{
    return f->late || flight_land(f);
}

static bool targets(const struct flight *f, const struct block *home, const struct mbarrier *b)
{
    return f->bar_home == home && f->bar == b->at - 1;
}

bool flight_land_at(struct warp *w, struct block *home, struct mbarrier *b)
{
    struct flights *all = &w->block->cluster->flights;
    const uint32_t at = b->at - 1;
    for (uint32_t n = 0; n < all->count; n++) {
        struct flight *f = &all->items[n];
        if (f->landed || f->bar_home != home || f->bar != at)
            continue;
        if (f->vain++ < MOST_VAIN && worker_draw(w->block->worker) & 1)
            continue;
        if (!flight_land(f))
            return false;
    }
    return true;
}

bool flight_targets(const struct block *home, const struct mbarrier *b)
{
    const struct flights *all = &home->cluster->flights;
    for (uint32_t n = 0; n < all->count; n++)
        if (targets(&all->items[n], home, b) && !all->items[n].landed)
            return true;
    return false;
}

/* ---- seen complete ---- */
/* What landed may be used now; nobody else may have been there. */
static bool flight_done(struct flight *f)
{
    if (!source_unchanged(f) || !undisturbed(f))
        return false;
    if (f->op || !f->target || !f->target_init)
        return true;
    if (f->bytes % 16 || f->chunk == 0xffff) {
        bits_set(f->target_init, f->target_at, f->bytes, true);
        return true;
    }
    for (uint32_t n = 0; n < f->bytes; n++)
        if (is_copied(f, n))
            bits_set(f->target_init, f->target_at + n, 1, true);
    return true;
}

bool flight_observe(struct warp *w, struct block *home, struct mbarrier *b)
{
    struct flights *all = &w->block->cluster->flights;
    uint32_t kept = 0;
    bool fine = true;
    for (uint32_t n = 0; n < all->count; n++) {
        struct flight *f = &all->items[n];
        if (fine && targets(f, home, b) && f->landed && f->phase != b->phase && (fine = flight_done(f))) {
            all->bytes -= f->bytes;
            free(f->data);
            continue;
        }
        all->items[kept++] = *f;
    }
    all->count = kept;
    return fine;
}

/* Global memory is written up to now: who is ordered behind the issue only comes too early. */
static bool written_now(struct flight *f)
{
    const struct place p = {.data = f->target, .init = f->target_init, .offset = f->target_at, .region = f->region};
    if (!f->region || !f->region->touched || f->region->frozen)
        return true;
    proxy_target(f->warp, true);
    const bool fine = watch_lane(f->warp, insn_of(f), f->lane, &p, f->bytes, f->op ? RACE_ATOMIC : RACE_WRITE, NULL);
    proxy_target(f->warp, false);
    return fine;
}

/* cp.async.bulk.wait_group{.read}: of this lane, all but the latest `keep` groups */
bool flight_wait(struct warp *w, int lane, uint32_t keep, bool read)
{
    struct cluster *c = w->block->cluster;
    for (uint32_t n = 0; n < c->flights.count;) {
        struct flight *f = &c->flights.items[n];
        const uint32_t behind = w->bulk_committed[lane] - f->group; /* 0: not committed, 1: the newest group */
        if (f->warp != w || f->lane != lane || f->bar_home || !behind || behind <= keep) {
            n++;
            continue;
        }
        if (!source_unchanged(f))
            return false;
        f->source = NULL;
        if (read) {
            n++;
            continue;
        }
        if (!flight_land(f) || !flight_done(f) || !written_now(f))
            return false;
        flight_remove(c, n);
    }
    return true;
}

bool flight_end(struct block *b)
{
    struct cluster *c = b->cluster;
    for (uint32_t n = 0; n < c->flights.count;) {
        struct flight *f = &c->flights.items[n];
        const bool ours = f->warp->block == b, to_us = f->home == b || f->bar_home == b;
        if (!ours && to_us)
            return fault(&b->warps[0], &b->worker->machine->module->code[b->worker->machine->entry->code_end], 0, PTX_RACE,
                         "may end before a copy of block %u of its cluster into its shared memory is complete: nothing makes it wait", f->warp->block->rank);
        if (ours && f->from_home == b && f->source && !to_us)
            return fault(f->warp, insn_of(f), f->lane, PTX_RACE, "copies %u bytes out of shared memory and may end before they are read (wait_group.read)",
                         f->bytes);
        if (ours && f->home == b && f->target)
            return fault(f->warp, insn_of(f), f->lane, PTX_RACE, "copies %u bytes into shared memory and may end before they are there: nothing waits for them",
                         f->bytes);
        if (!ours || (!to_us && f->bar_home)) {
            n++;
            continue;
        }
        if (!f->bar_home && (!flight_land(f) || !flight_done(f)))   /* to global memory: it gets there */
            return false;
        flight_remove(c, n);
    }
    return true;
}

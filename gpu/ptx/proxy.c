/*
 * Memory as bulk copies see it. They go by another way (PTX: the async proxy) than a thread's own loads and stores: what a thread
 * stored may be read by a copy only behind a fence.proxy.async, whatever barriers there are.
 *
 * Each block keeps its shared memory as it was at the latest such fence of its cluster, and what copies brought since. A copy whose source
 * holds something else has a race. Told by the bytes: a store of what was there already is missed, and so is a fence by a thread that
 * neither stored nor copies; what is reported is unfenced. Nothing is kept for kernels without a copy out of shared memory.
 *
 * Of global memory no copy is kept: race_grid.c knows who stored a sector last, race_order.c which stores a fence was behind.
 */
#include "gpu/ptx/async.h"
#include "gpu/ptx/race.h"

#include <string.h>

#define NEVER_FENCED 0xa5       /* before the first fence: no value that a kernel is likely to store everywhere */

static bool watched(const struct block *b)
{
    const struct machine *m = b->worker->machine;
    return m->check_races && m->shared_bytes && m->module->copies_from_shared;
}

static uint8_t *view(struct block *b)
{
    if (!b->fenced)
        b->fenced = xalloc(b->worker->machine->shared_bytes);
    if (!b->fenced_any)
        memset(b->fenced, NEVER_FENCED, b->worker->machine->shared_bytes);
    b->fenced_any = true;
    return b->fenced;
}

void proxy_start(struct block *b)
{
    b->fenced_any = false;
}

static bool watched_global(const struct machine *m)
{
    return m->check_races && m->order && m->module->copies_from_global;
}

void proxy_fence(struct warp *w, unsigned where)
{
    const struct cluster *c = w->block->cluster;
    if (where & ASYNC_GLOBAL && watched_global(w->block->worker->machine))
        race_order_proxy(w);
    for (uint32_t r = 0; where & ASYNC_SHARED && r < c->size && watched(w->block); r++)
        memcpy(view(&c->blocks[r]), c->blocks[r].shared, w->block->worker->machine->shared_bytes);
}

void proxy_landed(struct block *home, const uint8_t *target, uint32_t bytes)
{
    if (watched(home))
        memcpy(view(home) + (target - home->shared), target, bytes);
}

bool proxy_source(struct warp *w, const struct insn *i, int lane, struct block *home, const uint8_t *source, uint32_t bytes)
{
    if (!watched(home))
        return true;
    const uint8_t *seen = view(home) + (source - home->shared);
    if (!memcmp(seen, source, bytes))
        return true;
    uint32_t at = 0;
    while (seen[at] == source[at])
        at++;
    return fault(w, i, lane, PTX_RACE, "copies %u bytes of shared memory whose byte %u was stored with no fence.proxy.async between", bytes, at);
}

void proxy_target(struct warp *w, bool begins)
{
    if (watched_global(w->block->worker->machine))
        race_actor_copies(w, begins);
}

/* Sums that copies add to are atomics too. */
static bool unfenced(struct machine *m, uint32_t id)
{
    return !(id & ACTOR_STRONG && m->module->copies_to_global) && !race_proxied(m, id);
}

bool proxy_source_global(struct warp *w, const struct insn *i, int lane, const struct place *p, uint32_t bytes)
{
    const struct machine *m = w->block->worker->machine;
    struct stored u;
    if (!watched_global(m) || !p->region || !p->region->touched || !race_stored(w, p->region, p->offset, bytes, unfenced, &u))
        return true;
    const uint32_t *grid = m->launch->grid;
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "%s", p->region->name);
    f->offset_bytes = (int64_t)u.offset;
    f->access_bytes = bytes;
    return fault(w, i, lane, PTX_RACE, "copies %u bytes of %s, whose byte %llu warp %u of block (%u,%u,%u) stored with no fence.proxy.async between", bytes,
                 p->region->name, (unsigned long long)u.offset, u.by.warp, u.by.block % grid[0], u.by.block / grid[0] % grid[1],
                 u.by.block / grid[0] / grid[1]);
}

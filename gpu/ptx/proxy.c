/*
 * Shared memory as bulk copies see it. They go by another way (PTX: the async proxy) than a thread's own loads and stores: what a thread
 * stored may be read by a copy only behind a fence.proxy.async, whatever barriers there are.
 *
 * Each block keeps its shared memory as it was at the latest such fence of its cluster, and what copies brought since. A copy whose source
 * holds something else has a race. Told by the bytes: a store of what was there already is missed, and so is a fence by a thread that
 * neither stored nor copies; what is reported is unfenced. Nothing is kept for kernels without a copy out of shared memory.
 */
#include "gpu/ptx/async.h"
#include "gpu/ptx/machine.h"

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

void proxy_fence(struct warp *w)
{
    const struct cluster *c = w->block->cluster;
    for (uint32_t r = 0; r < c->size && watched(w->block); r++)
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

/*
 * Which blocks of its cluster a warp knows to have begun. Shared memory of another block may be used from then on only, whatever else is
 * ordered: before, it may still be that of a block that ran there earlier, and what was written is lost.
 *
 * A block that has arrived somewhere has begun. Who passes the cluster's barrier knows all of them; who sees the phase of an mbarrier
 * complete knows those that arrived there and those that they knew; barriers and flags inside a block pass that on. Relaxed arrivals
 * count too: they order no memory, but they are made by a block that runs.
 *
 * Flags between blocks are told by the numbers of releases (race_order.c): once a thread of the cluster has looked at one, a block with a
 * release below the warp's horizon counts as begun. That errs to silence, as the horizon does.
 */
#include "gpu/ptx/race.h"

void race_peer_start(struct block *b)
{
    b->sync_peers = 0;
    for (uint32_t n = 0; n < b->warp_count; n++)
        b->warps[n].peers = 1u << b->rank;
}

void race_peer_tell(const struct warp *w, struct race_object *o) { o->peers |= w->peers; }
void race_peer_learn(struct warp *w, const struct race_object *o) { w->peers |= o->peers; }

void race_peer_barrier(struct block *b, uint32_t arrived, uint32_t waiting)
{
    uint32_t known = 0;
    for (uint32_t n = 0; n < b->warp_count; n++)
        known |= arrived >> n & 1 ? b->warps[n].peers : 0;
    for (uint32_t n = 0; n < b->warp_count; n++)
        b->warps[n].peers |= waiting >> n & 1 ? known : 0;
}

bool race_peer_begun(struct warp *w, const struct block *peer)
{
    const struct block *b = w->block;
    if (!b->watch || w->peers >> peer->rank & 1)
        return true;
    if (!b->cluster->asked || !race_order_known(w, peer->number))
        return false;
    w->peers |= 1u << peer->rank;
    return true;
}

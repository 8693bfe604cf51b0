/*
 * Order through objects that many arrive at and others wait for (mbarriers, the cluster's barrier), and races of a whole cluster.
 *
 * An object keeps the clocks of its own block's warps: what arrivers did, what they have fenced, what they have learned from other
 * blocks. Where a cluster has several blocks an arrival is a release to the object's key besides, as if it were an atomic behind a
 * fence, so that other blocks learn of it. Then shared memory too is watched as a buffer is, by who was there last, of any block.
 *
 * A block may end only after whatever others do in its shared memory: looked at when it ends, whoever came first here.
 */
#include "gpu/ptx/race.h"

#include <string.h>

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
static void join(uint32_t *to, const uint32_t *from)
{
    for (int j = 0; j < MAX_WARPS; j++)
        to[j] = larger(to[j], from[j]);
}

/*
 * Names a place of shared memory among all blocks; above all real addresses. An object has two names, for odd and even phases: who
 * waits for one phase learns nothing of those who arrive at the next.
 */
uint64_t race_key(const struct block *home, uint64_t offset) { return UINT64_C(1) << 63 | home->number << 29 | offset; }
uint64_t race_phase_key(const struct block *home, uint64_t offset, uint32_t phase) { return race_key(home, offset | (phase & 1 ? 1u << 28 : 1u << 27)); }
uint64_t race_cluster_key(const struct block *b, uint32_t phase) { return race_phase_key(b->cluster->blocks, 1u << 26, phase); }

void race_object_release(struct warp *w, uint32_t active, struct race_object *o, const struct block *home, uint64_t key)
{
    struct block *b = w->block;
    if (!b->worker->machine->check_races)
        return;
    race_peer_tell(w, o);
    race_steps_tell(w, active, o, true);
    if (b == home) {
        join(o->seen, w->seen);
        join(o->seen, w->pending);
        o->seen[w->id] = larger(o->seen[w->id], w->clock_now);
        o->horizon = larger(o->horizon, larger(w->horizon, w->taken_horizon));
        if (w->has_fence) {
            o->has_fence = true;
            o->fence_horizon = larger(o->fence_horizon, w->fence_horizon);
            join(o->fence, w->fence);
            o->has_far |= w->has_far;
            join(o->far, w->far);
        }
    }
    if (b->watch) {
        race_fence(w, active, ORDER_ALL);
        race_order_publish(w, key, false);      /* the object tells */
    } else {
        lane_fence(w, active);
        w->clock_now = ++b->clock;
        race_safe(w);
    }
    lane_publish(w, active);
}

/* Without .release: what was before the last fence is told. */
void race_object_publish(struct warp *w, uint32_t active, struct race_object *o, const struct block *home, uint64_t key)
{
    if (w->block->worker->machine->check_races)
        race_peer_tell(w, o), race_steps_tell(w, active, o, false);
    if (!w->block->worker->machine->check_races || !w->has_fence)
        return;
    if (w->block == home) {
        join(o->seen, w->fence);
        join(o->fence, w->fence);
        o->has_fence = true;
        o->has_far |= w->has_far;
        join(o->far, w->far);
        o->horizon = larger(o->horizon, w->fence_horizon);
        o->fence_horizon = larger(o->fence_horizon, w->fence_horizon);
    }
    if (w->block->watch)
        race_order_publish(w, key, false);
    lane_publish(w, active);
}

/* Without .acquire: a later fence makes it count. */
void race_object_observe(struct warp *w, uint32_t active, const struct race_object *o, uint64_t key)
{
    struct block *b = w->block;
    if (!b->worker->machine->check_races)
        return;
    race_peer_learn(w, o);
    race_steps_learn(w, active, o, false);
    lane_observe(w, active, false);
    join(w->pending, o->seen);
    w->pending_near = larger(w->pending_near, o->horizon);
    if (b->watch)
        race_order_observe(w, key);
    b->any_observed |= w->pending_horizon || w->pending_near;
}

void race_object_acquire(struct warp *w, uint32_t active, const struct race_object *o, uint64_t key)
{
    struct block *b = w->block;
    if (!b->worker->machine->check_races)
        return;
    race_peer_learn(w, o);
    race_steps_learn(w, active, o, true);
    lane_observe(w, active, true);
    join(w->seen, o->seen);
    w->horizon = larger(w->horizon, o->horizon);
    if (o->has_fence) {
        w->has_fence = true;
        w->fence_number = 0;
        w->fence_horizon = larger(w->fence_horizon, o->fence_horizon);
        join(w->fence, o->fence);
    }
    if (o->has_far) {
        w->has_far = true;
        join(w->far, o->far);
    }
    if (b->watch) {
        race_order_observe(w, key);
        w->horizon = larger(w->horizon, larger(w->pending_near, w->pending_horizon));
        b->any_observed |= w->horizon != 0;   /* a barrier passes it on */
    }
    race_safe(w);
}

/* ---- shared memory of a cluster ---- */
void race_cluster_open(struct block *b)
{
    const struct machine *m = b->worker->machine;
    if (!m->check_races || m->cluster_size == 1 || !m->shared_bytes || !m->order)
        return;
    b->watch = xalloc(sizeof *b->watch);
    *b->watch = (struct region){.bytes = m->shared_bytes, .name = "shared", .writable = true, .watched = true,
                                .touched = xalloc(race_touched_bytes(m->shared_bytes))};
}

void race_cluster_start(struct block *b) { memset(b->watch->touched, 0, race_touched_bytes(b->watch->bytes)); }

void race_cluster_close(struct block *b)
{
    if (b->watch)
        free(b->watch->touched);
    free(b->watch);
}

/* An operation on an mbarrier: atomic, and no part of an earlier release, as an atomic behind a fence would be. */
bool race_mbarrier(struct warp *w, const struct insn *i, int lane, struct block *home, uint64_t offset)
{
    const uint32_t kept = w->fence[w->id];
    w->fence[w->id] = w->clock_now;
    const bool fine = race_shared(w, i, lane, home, offset, 8, RACE_ATOMIC);
    w->fence[w->id] = kept;
    return fine;
}

bool race_shared(struct warp *w, const struct insn *i, int lane, struct block *home, uint64_t offset, uint32_t bytes, enum race_kind kind)
{
    if (home->watch) {
        const struct place p = {.data = home->shared + offset, .init = home->shared_init, .offset = offset, .region = home->watch, .home = home};
        return watch_lane(w, i, lane, &p, bytes, kind, NULL);
    }
    return home != w->block || race_check(w, i, lane, (uint32_t)offset, bytes, kind);
}

static bool before_the_end(const struct block *b, uint32_t id)
{
    for (uint32_t n = 0; n < b->warp_count; n++)
        if (race_before(&b->warps[n], id))
            return true;
    return false;
}

struct ending { struct block *block; uint32_t fine[2]; };
static bool at_end(void *context, uint32_t id, uint64_t sector, uint32_t mask, bool reads)
{
    const uint64_t offset = sector + (mask ? (uint64_t)__builtin_ctz(mask) : 0);
    struct ending *e = context;
    struct block *b = e->block;
    struct machine *m = b->worker->machine;
    if (!id || id == e->fine[reads])
        return true;
    const struct actor a = race_actor_get(m, id);
    if ((a.kind != ACTOR_ANYONE && a.block == b->number) || before_the_end(b, id)) {
        e->fine[reads] = id;
        return true;
    }
    const uint32_t *grid = m->launch->grid;
    struct ptx_finding *f = &b->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "shared");
    f->offset_bytes = (int64_t)offset;
    char who[64] = "other blocks";
    if (a.kind != ACTOR_ANYONE)
        snprintf(who, sizeof who, "block (%u,%u,%u)", a.block % grid[0], a.block / grid[0] % grid[1], a.block / grid[0] / grid[1]);
    return fault(&b->warps[0], &m->module->code[m->entry->code_end], 0, PTX_RACE,
                 "may end before %s %s at offset %llu of its shared memory: nothing makes it wait", who, reads ? "reads" : "writes",
                 (unsigned long long)offset);
}

bool race_block_end(struct block *b)
{
    struct ending e = {.block = b};
    return !b->watch || race_each_touch(b->watch, at_end, &e);
}

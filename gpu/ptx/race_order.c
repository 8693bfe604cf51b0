/*
 * Who was before whom, beyond one block.
 *
 * An actor is a warp between two of its steps of order (barriers, fences): what a warp does to a buffer is remembered under the
 * number of its actor. Inside a block the warps' clocks order actors (race.c). Between blocks only a release does: a fence, then
 * an atomic or a volatile store. Releases are numbered through the launch; each block keeps, by number, what was before its
 * fence (a clock for each of its warps); each address that was published to keeps the latest number. Who reads that address
 * and then passes a fence or a barrier knows everything up to that number: his horizon. So an actor is before us if a release of its
 * block at or below our horizon covers its clock.
 *
 * A horizon says more than what one learns from one address (all earlier numbers, of whatever address), which keeps it one number
 * and makes chains of releases right by itself. It errs to silence only: what is reported is unordered. So do all limits here:
 * where there is no more room, everything counts as ordered.
 *
 * A fence.proxy.async shows bulk copies what is before it. So a store is shown if such a fence of its block has seen its clock, or one
 * of any block a release that covers it; who fenced need not be before who copies (a miss), only behind the store.
 */
#include "gpu/ptx/race.h"

#include <string.h>

#define CHUNK_ACTORS 4096u
#define MAX_CHUNKS 4096u
#define MOST_OBJECTS (1u << 18)
#define MOST_RELEASE_WORDS (16u << 20)
#define MOST_BLOCKS (16u << 20)
#define MOST_PROXIED_WARPS (UINT64_C(4) << 20)

struct object { uint64_t address; uint32_t number; bool waited; /* who published had waited for the launch before */ };
struct releases { uint32_t count, capacity; uint32_t *items; };    /* an item: its number, then a clock a warp */
struct order {
    atomic_flag lock;
    struct actor *_Atomic chunks[MAX_CHUNKS];
    atomic_uint next;                  /* actor */
    uint32_t warps_block, first;       /* actors before `first` are the warps as they start */
    atomic_uint released;              /* the latest number */
    atomic_bool forgets;
    uint32_t anyone, anyone_born;
    struct releases *by_block;
    uint64_t release_words, blocks;
    uint32_t *proxied;                 /* by warp of the launch: the clock up to which its stores are behind a fence.proxy.async of its block */
    uint32_t proxied_horizon;          /* the farthest of all blocks' such fences */
    struct object *objects;
    uint32_t object_count, object_size, overflow;
    bool overflow_waited;
};

struct order *race_order_new(uint64_t blocks, uint32_t warps_block)
{
    if (blocks >= MOST_BLOCKS || blocks * warps_block >= ACTOR_LIMIT / 2)
        return NULL;
    struct order *o = xalloc(sizeof *o);
    o->warps_block = warps_block;
    o->blocks = blocks;
    o->first = (uint32_t)(blocks * warps_block) + 1;
    atomic_store(&o->next, o->first);
    return o;
}

void race_order_free(struct order *o)
{
    if (!o)
        return;
    for (uint32_t i = 0; i < MAX_CHUNKS; i++)
        free(atomic_load(&o->chunks[i]));
    for (uint64_t b = 0; o->by_block && b < o->blocks; b++)
        free(o->by_block[b].items);
    free(o->by_block);
    free(o->proxied);
    free(o->objects);
    free(o);
}

static void lock(struct order *o)
{
    while (atomic_flag_test_and_set_explicit(&o->lock, memory_order_acquire))
        ;
}
static void unlock(struct order *o) { atomic_flag_clear_explicit(&o->lock, memory_order_release); }

/* ---- actors ---- */
static uint32_t actor_new(struct machine *m, struct actor a)
{
    struct order *o = m->order;
    const uint32_t id = atomic_fetch_add(&o->next, 1), at = id - o->first, chunk = at / CHUNK_ACTORS;
    if (chunk >= MAX_CHUNKS || id >= ACTOR_LIMIT) {
        atomic_store(&o->next, ACTOR_LIMIT);
        return 0;
    }
    struct actor *c = atomic_load(&o->chunks[chunk]);
    if (!c) {
        if (!race_shadow_take(m, CHUNK_ACTORS * sizeof *c)) {
            atomic_store(&o->next, ACTOR_LIMIT);
            return 0;
        }
        struct actor *fresh = xarray(CHUNK_ACTORS, sizeof *fresh);
        if (atomic_compare_exchange_strong(&o->chunks[chunk], &c, fresh))
            c = fresh;
        else
            free(fresh);
    }
    c[at % CHUNK_ACTORS] = a;
    return id;
}

struct actor race_actor_get(const struct machine *m, uint32_t id)
{
    const struct order *o = m->order;
    id &= ~ACTOR_BITS;
    if (id < o->first)
        return (struct actor){.block = (id - 1) / o->warps_block, .warp = (uint8_t)((id - 1) % o->warps_block), .clock = 1, .kind = ACTOR_WARP};
    return atomic_load(&o->chunks[(id - o->first) / CHUNK_ACTORS])[(id - o->first) % CHUNK_ACTORS];
}

static uint32_t of_clock(struct warp *w, uint32_t clock)
{
    struct machine *m = w->block->worker->machine;
    if (clock == 1)
        return (uint32_t)(w->block->number * m->order->warps_block + w->id + 1);
    return actor_new(m, (struct actor){.block = (uint32_t)w->block->number, .clock = clock, .born = atomic_load(&m->order->released),
                                       .warp = (uint8_t)w->id, .kind = ACTOR_WARP});
}

uint32_t race_actor(struct warp *w)
{
    if (w->actor_clock != w->clock_now) {
        w->actor_clock = w->clock_now;
        w->actor = of_clock(w, w->clock_now);
    }
    return w->actor;
}

/* A volatile or atomic access after a fence counts as part of the release: who learns of it comes after it too. */
uint32_t race_actor_strong(struct warp *w)
{
    const uint32_t clock = w->fence[w->id] ? w->fence[w->id] : w->clock_now, near = w->block->worker->near ? ACTOR_NEAR : 0;
    if (clock == w->clock_now)
        return race_actor(w) ? race_actor(w) | ACTOR_STRONG | near : 0;
    if (w->strong_clock != clock) {
        w->strong_clock = clock;
        w->strong = of_clock(w, clock);
    }
    return w->strong ? w->strong | ACTOR_STRONG | near : 0;
}

uint32_t race_actor_join(struct warp *w, uint32_t other)
{
    struct machine *m = w->block->worker->machine;
    struct block *b = w->block;
    struct order *o = m->order;
    const struct actor a = race_actor_get(m, other);
    const uint32_t clock = a.clock < w->clock_now ? a.clock : w->clock_now;
    if (a.kind != ACTOR_ANYONE && a.block == b->number) {
        if (a.kind == ACTOR_BLOCK && a.clock <= w->clock_now)
            return other;
        if (b->group_clock != clock || !b->group) {
            b->group_clock = clock;
            b->group = actor_new(m, (struct actor){.block = a.block, .clock = clock, .born = a.born, .kind = ACTOR_BLOCK});
        }
        return b->group;
    }
    if (a.kind == ACTOR_ANYONE && a.born <= atomic_load(&o->released))
        return other;
    lock(o);
    if (!o->anyone || o->anyone_born != a.born) {
        o->anyone_born = a.born;
        o->anyone = actor_new(m, (struct actor){.born = a.born, .kind = ACTOR_ANYONE});
    }
    const uint32_t id = o->anyone;
    unlock(o);
    return id;
}

/* ---- releases ---- */
static struct object *object_at(const struct order *o, uint64_t address)
{
    uint64_t h = (address >> 2) * 0x9e3779b97f4a7c15ull;
    for (uint32_t n = (uint32_t)(h >> 40) & (o->object_size - 1);; n = (n + 1) & (o->object_size - 1))
        if (!o->objects[n].number || o->objects[n].address == address)
            return &o->objects[n];
}

static void object_put(struct order *o, uint64_t address, uint32_t number, bool waited)
{
    if (o->object_count * 2 >= o->object_size && o->object_size < MOST_OBJECTS) {
        struct order old = {.objects = o->objects, .object_size = o->object_size};
        o->object_size = o->object_size ? o->object_size * 2 : 64;
        o->objects = xarray(o->object_size, sizeof *o->objects);
        for (uint32_t n = 0; n < old.object_size; n++)
            if (old.objects[n].number)
                *object_at(o, old.objects[n].address) = old.objects[n];
        free(old.objects);
    }
    struct object *at = object_at(o, address);
    if (!at->number && o->object_count * 2 >= o->object_size) {
        o->overflow = number;
        o->overflow_waited |= waited;
        return;
    }
    o->object_count += !at->number;
    *at = (struct object){address, at->number > number ? at->number : number, at->waited || waited};
}

static uint32_t release_add(struct order *o, struct warp *w)
{
    const uint32_t words = o->warps_block + 1;
    if (o->release_words + words > MOST_RELEASE_WORDS) {
        atomic_store(&o->forgets, true);
        return atomic_load(&o->released);
    }
    if (!o->by_block)
        o->by_block = xarray((size_t)o->blocks, sizeof *o->by_block);
    struct releases *r = &o->by_block[w->block->number];
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? r->capacity * 2 : 2;
        r->items = xrealloc(r->items, (size_t)r->capacity * words * sizeof *r->items);
    }
    uint32_t *item = r->items + (size_t)r->count++ * words;
    item[0] = atomic_fetch_add(&o->released, 1) + 1;
    memcpy(item + 1, w->far, o->warps_block * sizeof *item);
    o->release_words += words;
    return item[0];
}

void race_order_publish(struct warp *w, uint64_t address, bool waited)
{
    struct order *o = w->block->worker->machine->order;
    if (!o)
        return;
    lock(o);
    if (!w->fence_number)
        w->fence_number = release_add(o, w);
    object_put(o, address & ~3ull, w->fence_number, waited);
    unlock(o);
}

bool race_order_observe(struct warp *w, uint64_t address)
{
    struct order *o = w->block->worker->machine->order;
    if (!o || !atomic_load(&o->released))
        return false;
    lock(o);
    uint32_t number = o->overflow;
    bool waited = o->overflow_waited;
    if (o->object_size) {
        const struct object *at = object_at(o, address & ~3ull);
        number = at->number > number ? at->number : number;
        waited |= at->waited;
    }
    unlock(o);
    w->pending_horizon = number > w->pending_horizon ? number : w->pending_horizon;
    return waited;
}

bool race_order_known(const struct warp *w, uint64_t block)
{
    struct order *o = w->block->worker->machine->order;
    if (atomic_load_explicit(&o->forgets, memory_order_relaxed))
        return true;
    lock(o);
    const struct releases *r = o->by_block ? &o->by_block[block] : NULL;
    const bool known = r && r->count && r->items[0] <= w->horizon;   /* the first has the lowest number */
    unlock(o);
    return known;
}

/* Whether a release of that block, numbered at most `horizon`, covers the clock of that warp (or of any of its warps). */
static bool covered(struct order *o, const struct actor *a, uint32_t horizon)
{
    bool found = false;
    if (!horizon)
        return false;
    lock(o);
    const struct releases *r = o->by_block ? &o->by_block[a->block] : NULL;
    for (uint32_t n = r ? r->count : 0; n-- && !found;) {
        const uint32_t *item = r->items + (size_t)n * (o->warps_block + 1);
        if (item[0] > horizon)
            continue;
        for (uint32_t u = 0; a->kind == ACTOR_BLOCK && u < o->warps_block; u++)
            found |= item[1 + u] >= a->clock;
        found |= a->kind == ACTOR_WARP && item[1 + a->warp] >= a->clock;
    }
    unlock(o);
    return found;
}

bool race_before(const struct warp *w, uint32_t id)
{
    const struct machine *m = w->block->worker->machine;
    const struct actor a = race_actor_get(m, id);
    const bool strong = id & ACTOR_STRONG;
    if (atomic_load_explicit(&m->order->forgets, memory_order_relaxed))
        return true;
    if (a.kind == ACTOR_ANYONE)
        return w->horizon > a.born;
    const uint32_t pending = w->pending_horizon > w->pending_near ? w->pending_horizon : w->pending_near;
    if (a.block != w->block->number)
        return covered(m->order, &a, strong && pending > w->horizon ? pending : w->horizon);
    if (a.clock <= w->safe)
        return true;
    if (a.kind == ACTOR_WARP)
        return a.warp == w->id || a.clock <= w->seen[a.warp] || (strong && a.clock <= w->pending[a.warp]);
    for (uint32_t u = 0; u < w->block->warp_count; u++)
        if (u != w->id && w->seen[u] >= a.clock)
            return true;
    return false;
}

bool race_known(const struct warp *w, const struct actor *a)
{
    struct order *o = w->block->worker->machine->order;
    if (atomic_load_explicit(&o->forgets, memory_order_relaxed))
        return true;
    if (a->block != w->block->number)
        return covered(o, a, w->horizon);
    return a->warp == w->id || a->clock <= w->safe || a->clock <= w->seen[a->warp];
}

/* ---- stores and bulk copies ---- */
void race_order_proxy(struct warp *w)
{
    struct machine *m = w->block->worker->machine;
    struct order *o = m->order;
    const uint64_t warps = o->blocks * o->warps_block;
    if (warps > MOST_PROXIED_WARPS)
        return;
    lock(o);
    if (!o->proxied)
        o->proxied = xarray((size_t)warps, sizeof *o->proxied);
    uint32_t *of_block = o->proxied + w->block->number * o->warps_block;
    for (uint32_t u = 0; u < o->warps_block; u++) {
        const uint32_t clock = u == w->id ? w->clock_now : w->seen[u];
        of_block[u] = of_block[u] > clock ? of_block[u] : clock;
    }
    o->proxied_horizon = o->proxied_horizon > w->horizon ? o->proxied_horizon : w->horizon;
    unlock(o);
    w->clock_now = ++w->block->clock;
    race_safe(w);
}

bool race_proxied(struct machine *m, uint32_t id)
{
    struct order *o = m->order;
    const struct actor a = race_actor_get(m, id);
    if (a.kind != ACTOR_WARP || a.copies || o->blocks * o->warps_block > MOST_PROXIED_WARPS || atomic_load_explicit(&o->forgets, memory_order_relaxed))
        return true;
    lock(o);
    const bool by_block = o->proxied && o->proxied[(uint64_t)a.block * o->warps_block + a.warp] >= a.clock;
    const uint32_t horizon = o->proxied_horizon;
    unlock(o);
    return by_block || covered(o, &a, horizon);
}

void race_actor_copies(struct warp *w, bool begins)
{
    w->clock_now = ++w->block->clock;
    race_safe(w);
    if (!begins)
        return;
    struct machine *m = w->block->worker->machine;
    w->actor_clock = w->clock_now;
    w->actor = actor_new(m, (struct actor){.block = (uint32_t)w->block->number, .clock = w->clock_now, .born = atomic_load(&m->order->released),
                                           .warp = (uint8_t)w->id, .kind = ACTOR_WARP, .copies = true});
}

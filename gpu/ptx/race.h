/*
 * What the parts of the race checkers know of one another. Private to them.
 *
 * race.c: warps of a block on shared memory, and their clocks. race_order.c: actors and releases. race_grid.h: buffers, by sector
 * and byte. race_lane.c: lanes of one warp.
 */
#pragma once
#include "gpu/ptx/machine.h"

#define race_order_new ptx_run_race_order_new
#define race_order_free ptx_run_race_order_free
#define race_order_publish ptx_run_race_order_publish
#define race_order_observe ptx_run_race_order_observe
#define race_shadow_take ptx_run_race_shadow_take
#define race_actor ptx_run_race_actor
#define race_actor_strong ptx_run_race_actor_strong
#define race_actor_join ptx_run_race_actor_join
#define race_actor_get ptx_run_race_actor_get
#define race_each_touch ptx_run_race_each_touch
#define race_steps_open ptx_run_race_steps_open
#define race_steps_close ptx_run_race_steps_close
#define race_steps_fine ptx_run_race_steps_fine
#define race_steps_report ptx_run_race_steps_report
#define race_steps_read_only ptx_run_race_steps_read_only
#define race_steps_trigger ptx_run_race_steps_trigger
#define race_steps_block_end ptx_run_race_steps_block_end
#define race_steps_start ptx_run_race_steps_start
#define race_steps_meet ptx_run_race_steps_meet
#define race_steps_fence ptx_run_race_steps_fence
#define race_steps_told ptx_run_race_steps_told
#define race_steps_tell ptx_run_race_steps_tell
#define race_steps_learn ptx_run_race_steps_learn
#define race_steps_barrier ptx_run_race_steps_barrier
#define race_order_known ptx_run_race_order_known
#define race_peer_start ptx_run_race_peer_start
#define race_peer_tell ptx_run_race_peer_tell
#define race_peer_learn ptx_run_race_peer_learn
#define race_peer_barrier ptx_run_race_peer_barrier
#define race_order_proxy ptx_run_race_order_proxy
#define race_proxied ptx_run_race_proxied
#define race_actor_copies ptx_run_race_actor_copies
#define race_stored ptx_run_race_stored
#define race_known ptx_run_race_known
#define race_before ptx_run_race_before
#define race_touched_bytes ptx_run_race_touched_bytes
#define race_safe ptx_run_race_safe

/* Numbers of actors: 0 is nobody. A strong access (atomic, volatile) is told by a bit, one that is strong for its own block alone by another. */
#define ACTOR_STRONG 0x80000000u
#define ACTOR_NEAR 0x40000000u
#define ACTOR_BITS (ACTOR_STRONG | ACTOR_NEAR)
#define ACTOR_LIMIT 0x3ffffff0u
enum actor_kind {
    ACTOR_WARP,
    ACTOR_BLOCK,    /* two or more warps of this block, at this clock or later */
    ACTOR_ANYONE    /* two or more blocks, each after release `born` */
};
struct actor { uint32_t block, clock, born; uint8_t warp, kind; bool copies; /* what bulk copies did that it issued */ };

/* NULL: more blocks than can be watched. */
struct order *race_order_new(uint64_t blocks, uint32_t warps_block);
void race_order_free(struct order *o);
/* What was before this warp's last fence is known to whoever observes this global address. Takes a fence to have been there. */
void race_order_publish(struct warp *w, uint64_t address, bool waited);
bool race_order_observe(struct warp *w, uint64_t address);     /* whether one had waited who published there */
/* Some release of that block is, or may be, before what this warp does now. */
bool race_order_known(const struct warp *w, uint64_t block);

/* ---- which blocks of a cluster have begun: race_peer.c ---- */
void race_peer_start(struct block *b);
/* To whoever looks at the object; from it. */
void race_peer_tell(const struct warp *w, struct race_object *o);
void race_peer_learn(struct warp *w, const struct race_object *o);
void race_peer_barrier(struct block *b, uint32_t arrived, uint32_t waiting);

/* This warp as it is now; 0: no number left, it is not to be remembered. */
uint32_t race_actor(struct warp *w);
uint32_t race_actor_strong(struct warp *w);
/* This warp and that actor together. */
uint32_t race_actor_join(struct warp *w, uint32_t other);
struct actor race_actor_get(const struct machine *m, uint32_t id);
/* What a fence.proxy.async of this warp is behind: from here on bulk copies see it. */
void race_order_proxy(struct warp *w);
/* That actor's stores are, or may be, behind one; or copies made them. */
bool race_proxied(struct machine *m, uint32_t id);
/* From here to `begins` = false the warp is an actor that copies. */
void race_actor_copies(struct warp *w, bool begins);
/* The first store of this launch to these bytes that matters. */
struct stored { struct actor by; uint64_t offset; };
typedef bool race_matters(struct machine *m, uint32_t id);
bool race_stored(struct warp *w, struct region *r, uint64_t offset, uint64_t bytes, race_matters *matters, struct stored *ret);
/* That actor's access is, or may be, ordered before what this warp does now. */
bool race_before(const struct warp *w, uint32_t id);
/* The same, exactly: a fence or a barrier has made it so. */
bool race_known(const struct warp *w, const struct actor *a);
/* All actors that are remembered of a buffer, until `visit` says false. */
size_t race_touched_bytes(uint64_t bytes);
void race_safe(struct warp *w);
/* Bytes `mask` of the sector at `at` (counted from where the buffer's first sector begins), last written or read by that actor. */
typedef bool race_visit(void *context, uint32_t id, uint64_t at, uint32_t mask, bool reads);
bool race_each_touch(const struct region *r, race_visit *visit, void *context);
/* Launches that overlap: race_steps.c. */
void race_steps_open(struct machine *m);
void race_steps_close(struct machine *m);
bool race_steps_fine(const struct warp *w, uint32_t lanes, const struct region *r, uint64_t offset, uint64_t bytes, enum race_kind kind);
bool race_steps_report(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes, enum race_kind kind);
/* griddepcontrol.launch_dependents; and a block that ended, which counts as that. */
void race_steps_trigger(struct warp *w, uint32_t active);
void race_steps_block_end(struct block *b);
/* That a lane has waited is passed on by whatever orders: lanes that meet; fences; who arrives at an object and who looks there. */
void race_steps_start(struct block *b);
void race_steps_meet(struct warp *w, uint32_t mask);
void race_steps_fence(struct warp *w, uint32_t active);
void race_steps_tell(const struct warp *w, uint32_t active, struct race_object *o, bool release);
void race_steps_learn(struct warp *w, uint32_t active, const struct race_object *o, bool acquire);
void race_steps_told(struct warp *w, uint32_t active, bool by_atomic);     /* by an address; a fence makes it count */
void race_steps_barrier(struct block *b, const struct barrier *bar);
/* A load by the read-only path, which no wait holds back; false: of what the launch before writes. */
bool race_steps_read_only(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes);
/* Shadow memory for so many bytes more? */
bool race_shadow_take(struct machine *m, size_t bytes);

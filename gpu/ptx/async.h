/*
 * Clusters and what happens asynchronously in them: mbarriers, copies in flight, the cluster's barrier. Private to the interpreter.
 *
 * The blocks of a cluster run together on one worker and take turns. A launch without clusters has clusters of one block.
 * An address of shared memory is an offset of the block's own below REMOTE_SHIFT bits; mapa adds (rank + 1) << REMOTE_SHIFT, so that
 * an address says whose memory it means, to whoever gets it.
 *
 * Nothing wakes anybody: who waits for an mbarrier or for the cluster asks again at each of its turns. A cluster where everybody
 * asks in vain for IDLE_ROUNDS rounds is stuck; `ptx_run_cluster_deadlock` says who waits for what.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define mbarrier_execute ptx_run_mbarrier_execute
#define mbarrier_forget ptx_run_mbarrier_forget
#define mbarrier_complete ptx_run_mbarrier_complete
#define mbarrier_live ptx_run_mbarrier_live
#define mbarrier_describe ptx_run_mbarrier_describe
#define cluster_open ptx_run_cluster_open
#define depth_stretch ptx_run_depth_stretch
#define cluster_close ptx_run_cluster_close
#define cluster_start ptx_run_cluster_start
#define cluster_number ptx_run_cluster_number
#define cluster_turn ptx_run_cluster_turn
#define cluster_deadlock ptx_run_cluster_deadlock
#define cluster_arrive ptx_run_cluster_arrive
#define cluster_wait ptx_run_cluster_wait
#define cluster_map ptx_run_cluster_map
#define cluster_home ptx_run_cluster_home
#define wait_in_vain ptx_run_wait_in_vain
#define flight_land_at ptx_run_flight_land_at
#define flight_observe ptx_run_flight_observe
#define flight_targets ptx_run_flight_targets
#define flight_end ptx_run_flight_end
#define flight_new ptx_run_flight_new
#define flight_launch ptx_run_flight_launch
#define flight_land ptx_run_flight_land
#define flight_wait ptx_run_flight_wait
#define bulk_issue ptx_run_bulk_issue
#define bulk_commit ptx_run_bulk_commit
#define bulk_wait ptx_run_bulk_wait
#define async_store ptx_run_async_store
#define copy_arrive ptx_run_copy_arrive
#define proxy_start ptx_run_proxy_start
#define proxy_fence ptx_run_proxy_fence
#define proxy_landed ptx_run_proxy_landed
#define proxy_source ptx_run_proxy_source
#define proxy_source_global ptx_run_proxy_source_global
#define proxy_target ptx_run_proxy_target

#define MOST_CLUSTER_BLOCKS 16
#define REMOTE_SHIFT 24
#define IDLE_ROUNDS 2048                      /* enough that a lane on its own among 32 has had its turn: (31/32)^2048 is 1e-28 */
#define MOST_COUNT ((1u << 20) - 1)   /* of an mbarrier: arrivals, and bytes */

enum mbarrier_op { MB_INIT, MB_INVAL, MB_ARRIVE, MB_DROP, MB_EXPECT, MB_COMPLETE, MB_TEST };
enum mbarrier_flags { MB_PARITY = 1, MB_RELAXED = 2, MB_NO_COMPLETE = 4 };   /* in an instruction's aux */

struct place;
struct warp;
struct block;
struct insn;
struct worker;

/* What is ordered before whoever is told: clocks of a block's warps (race_object.c). */
struct race_object {
    uint32_t seen[32], fence[32], far[32], horizon, fence_horizon;
    bool has_fence, has_far, waited;   /* waited: for the launch before this one; race_steps.c */
    uint32_t peers;             /* of the cluster, by rank: whoever is told knows that these have begun; race_peer.c */
};

struct mbarrier {
    uint32_t at;                /* offset in its block's shared memory, + 1; 0: a free place of the table */
    bool live;
    uint32_t expected, pending, phase;
    int32_t bytes;              /* to come in this phase; below 0: more came than was announced so far */
    struct race_object gathered, released;   /* of who arrived: up to now, when the last phase was complete */
};
struct mbarrier_table { struct mbarrier *items; uint32_t count, capacity; };

/*
 * A copy that was issued and is not known to be complete. `data` is what the source held at the issue; the destination's bytes are
 * marked uninitialised until somebody saw the copy complete, so that who looks too early is found in every schedule.
 */
struct flight {
    struct block *home, *from_home, *bar_home;   /* of destination, source, mbarrier where they are shared memory */
    uint32_t to, from, bar;     /* offsets there */
    uint8_t *target, *source, *target_init;      /* bytes */
    uint64_t target_at;         /* in the region, for its initialised bits */
    struct region *region;      /* of a global destination */
    uint8_t *data;
    uint32_t bytes, group, pc, serial;
    uint32_t phase;             /* of the mbarrier, that the bytes were counted in */
    uint32_t vain;              /* how often it did not land when it was asked for */
    struct warp *warp;
    uint8_t lane, op, type;     /* op: of a reduction, 0 none */
    uint16_t chunk;             /* which bytes of each 16 are copied */
    bool late, landed, arrives; /* arrives: cp.async.mbarrier.arrive: no bytes of its own, it waits for the copies before it */
};
struct flights { struct flight *items; uint32_t count, capacity; uint64_t bytes; };

struct cluster {
    struct block *blocks;       /* by rank */
    uint32_t size, dims[3];
    uint32_t idle;              /* rounds in which nobody got anywhere */
    uint32_t phase;             /* of the cluster's barrier */
    bool asked;                 /* a thread of it has looked at what another block may have released by a flag */
    struct flights flights;
};

/* mbarrier.*: -1 fault, 0 done, 1 done but in vain: let others go on. */
int mbarrier_execute(struct warp *w, const struct insn *i, uint32_t active, int split);
/* The object at this offset of that block, or NULL after a fault: never set up, invalidated, overwritten. */
struct mbarrier *mbarrier_live(struct warp *w, const struct insn *i, int lane, struct block *home, uint32_t offset);
/* `count` arrivals and `bytes` that have come. */
bool mbarrier_complete(struct warp *w, const struct insn *i, int lane, struct mbarrier *b, uint32_t count, int64_t bytes);
void mbarrier_describe(const struct mbarrier *b, char *to, int size);

void mbarrier_forget(struct mbarrier_table *t);

void cluster_open(struct worker *k, struct cluster *c, struct block *blocks);
void cluster_close(struct cluster *c);
void cluster_start(struct cluster *c);
/* Which block (x + y * width + ...) is number `rank` of cluster number `unit`. */
uint64_t cluster_number(const struct cluster *c, const uint32_t *grid, uint64_t unit, uint32_t rank, uint32_t *ret_index);
bool cluster_deadlock(struct cluster *c);   /* sets the finding; false */
bool cluster_arrive(struct warp *w, const struct insn *i, uint32_t active);
/* 1: the phase is complete; 0: not yet; -1: fault */
int cluster_wait(struct warp *w, const struct insn *i, uint32_t active);
void cluster_map(struct warp *w, const struct insn *i, uint32_t active);
/* Whose memory an address of shared memory means, NULL: nobody's. *offset loses the rank. */
struct block *cluster_home(const struct block *b, uint64_t *offset);
/* A split asked for something that is not there yet. True: and nothing changed since it asked last. */
bool wait_in_vain(struct warp *w, int split, const struct insn *i, uint32_t what);

/* Somebody asks for this mbarrier and its phase is not complete: what is under way to it may come now. */
bool flight_land_at(struct warp *w, struct block *home, struct mbarrier *b);
/* A phase was seen complete: what landed there may be used. */
bool flight_observe(struct warp *w, struct block *home, struct mbarrier *b);
bool flight_targets(const struct block *home, const struct mbarrier *b);
/* Shared memory as bulk copies see it: a block begins, a thread fences, a copy has brought bytes, a copy reads them. */
void proxy_start(struct block *b);
void proxy_fence(struct warp *w, unsigned where);   /* bits: ASYNC_SHARED, ASYNC_GLOBAL */
void proxy_landed(struct block *home, const uint8_t *target, uint32_t bytes);
bool proxy_source(struct warp *w, const struct insn *i, int lane, struct block *home, const uint8_t *source, uint32_t bytes);
bool proxy_source_global(struct warp *w, const struct insn *i, int lane, const struct place *p, uint32_t bytes);
/* Around the mark of what a copy writes to global memory: no thread stored it. */
void proxy_target(struct warp *w, bool begins);
/* A block has ended. */
bool flight_end(struct block *b);
struct flight *flight_new(struct warp *w, const struct insn *i, int lane, uint32_t bytes);   /* NULL: too many, a finding */
bool flight_launch(struct flight *f);   /* it is complete: it may land at once, or later */
bool flight_land(struct flight *f);
bool flight_wait(struct warp *w, int lane, uint32_t keep, bool read);

bool bulk_issue(struct warp *w, const struct insn *i, uint32_t active);
void bulk_commit(struct warp *w, uint32_t active);
bool bulk_wait(struct warp *w, const struct insn *i, uint32_t active);
bool async_store(struct warp *w, const struct insn *i, uint32_t active);
bool copy_arrive(struct warp *w, const struct insn *i, uint32_t active);

/* Counting in depth (depth.c): a copy's whole stretch of global memory, past L1. */
void depth_stretch(struct warp *w, uint64_t address, uint32_t bytes, bool store);

/*
 * A launch in flight. Private to the interpreter.
 *
 * machine: one a launch, shared by its host threads. worker: one a host thread; runs one block at a time (all blocks of a
 * cooperative launch). block: shared memory, barriers, warps. warp: register file, and its lanes in splits.
 *
 * A split is lanes that go together. A divergent branch turns one into a node, that waits at the reconvergence point, and
 * children; a child that gets there gives its lanes to the node. Any runnable split may run, so a split that waits at a
 * barrier never keeps lanes from getting there too.
 */
#pragma once
#include "gpu/ptx/async.h"
#include "gpu/ptx/lanes.h"

#include <pthread.h>
#include <stdatomic.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

/* Short names here, the library's prefix for the linker. */
#define fault ptx_run_fault
#define bits_all ptx_run_bits_all
#define bits_set ptx_run_bits_set
#define bits_clear ptx_run_bits_clear
#define sector_add ptx_run_sector_add
#define load_depth ptx_run_load_depth
#define copy_issue ptx_run_copy_issue
#define copy_commit ptx_run_copy_commit
#define copy_wait ptx_run_copy_wait
#define copy_land ptx_run_copy_land
#define memory_count ptx_run_memory_count
#define atomic_combine ptx_run_atomic_combine
#define memory_load ptx_run_memory_load
#define memory_store ptx_run_memory_store
#define memory_atomic ptx_run_memory_atomic
#define memory_prefetch ptx_run_memory_prefetch
#define memory_locate ptx_run_memory_locate
#define memory_wavefronts ptx_run_memory_wavefronts
#define memory_fault ptx_run_memory_fault
#define tags_mark ptx_run_tags_mark
#define memory_is_shared ptx_run_memory_is_shared
#define memory_offset ptx_run_memory_offset
#define memory_name ptx_run_memory_name
#define memory_addresses ptx_run_memory_addresses
#define race_check ptx_run_race_check
#define race_start ptx_run_race_start
#define race_grid_open ptx_run_race_grid_open
#define race_grid_close ptx_run_race_grid_close
#define watch_row ptx_run_watch_row
#define holes_touched ptx_run_holes_touched
#define holes_store ptx_run_holes_store
#define holes_count_sectors ptx_run_holes_count_sectors
#define watch_lane ptx_run_watch_lane
#define race_barrier ptx_run_race_barrier
#define race_fence ptx_run_race_fence
#define race_publish ptx_run_race_publish
#define race_observe ptx_run_race_observe
#define race_object_release ptx_run_race_object_release
#define race_object_acquire ptx_run_race_object_acquire
#define race_key ptx_run_race_key
#define call_enter ptx_run_call_enter
#define call_leave ptx_run_call_leave
#define call_target ptx_run_call_target
#define calls_forget ptx_run_calls_forget
#define calls_close ptx_run_calls_close
#define race_phase_key ptx_run_race_phase_key
#define race_object_publish ptx_run_race_object_publish
#define race_object_observe ptx_run_race_object_observe
#define race_mbarrier ptx_run_race_mbarrier
#define race_cluster_key ptx_run_race_cluster_key
#define race_shared ptx_run_race_shared
#define race_peer_begun ptx_run_race_peer_begun
#define race_cluster_open ptx_run_race_cluster_open
#define race_cluster_start ptx_run_race_cluster_start
#define race_cluster_close ptx_run_race_cluster_close
#define race_block_end ptx_run_race_block_end
#define race_read_only ptx_run_race_read_only
#define stale_open ptx_run_stale_open
#define stale_close ptx_run_stale_close
#define stale_start ptx_run_stale_start
#define stale_before ptx_run_stale_before
#define stale_storing ptx_run_stale_storing
#define stale_loading ptx_run_stale_loading
#define stale_stored ptx_run_stale_stored
#define stale_load ptx_run_stale_load
#define stale_observed ptx_run_stale_observed
#define stale_block_end ptx_run_stale_block_end
#define worker_draw ptx_run_worker_draw
#define draw ptx_run_draw
#define schedule_block ptx_run_schedule_block
#define schedule_slice ptx_run_schedule_slice
#define schedule_part ptx_run_schedule_part
#define schedule_part_at ptx_run_schedule_part_at
#define schedule_pick ptx_run_schedule_pick
#define splits_merge ptx_run_splits_merge
#define splits_let_go ptx_run_splits_let_go
#define splits_let_leave ptx_run_splits_let_leave
#define splits_wait ptx_run_splits_wait
#define lane_shadow_new ptx_run_lane_shadow_new
#define lane_start ptx_run_lane_start
#define lane_meet ptx_run_lane_meet
#define lane_fence ptx_run_lane_fence
#define lane_publish ptx_run_lane_publish
#define lane_observe ptx_run_lane_observe
#define lane_check ptx_run_lane_check
#define warp_run ptx_run_warp_run
#define warp_sync ptx_run_warp_sync
#define warp_settle ptx_run_warp_settle
#define sync_execute ptx_run_sync_execute
#define barrier_arrive ptx_run_barrier_arrive
#define barrier_recheck ptx_run_barrier_recheck
#define now_ns ptx_run_now_ns

#define MAX_SPLITS 96
#define MAX_CALLS 32
#define MAX_WARPS 32
#define BARRIERS 16
#define READ_ROWS 16
#define LANES_LEFT 1024
#define WARP_PLACES 64          /* of a multiprocessor */

struct region {                 /* a stretch of global addresses */
    uint64_t base, bytes;
    uint8_t *data, *initialised;
    const char *name;
    const struct past *past;    /* what launches did that may overlap with this one; NULL: nothing */
    const uint8_t *frozen;      /* one bit a byte that must not change; NULL: none */
    const struct ptx_held *held;       /* holes.c; NULL: no holes */
    atomic_uint_fast32_t idle_stores;  /* to holes, that left them zero */
    bool writable, counted, watched;   /* watched: frozen, held or touched is there */
    struct ptx_buffer *buffer;  /* the caller's; NULL: ours */
    uint8_t *tags;              /* by byte, who stored there; NULL: not kept */
    bool noted;                 /* there are tags, or stores of a cluster that is left out must be undone */
    uint64_t *loaded, *stored;  /* one bit a sector */
    struct touch *touched;      /* race_grid.c; by sector; NULL: not looked at */
};

enum split_state { SPLIT_FREE, SPLIT_RUN, SPLIT_BARRIER, SPLIT_SYNC, SPLIT_NODE };
struct split {
    uint32_t mask, pc;          /* of a node: lanes that have arrived, where they meet */
    int16_t parent;
    uint8_t state, depth;
    uint32_t children;
    uint32_t calls[MAX_CALLS];  /* return addresses */
    uint16_t saves[MAX_CALLS];  /* call.c: number + 1 of what was saved at that call, 0 nothing */
    uint32_t waited;            /* of a node: instructions since lanes arrived */
    uint32_t waits_pc, waits_for, waits_at;   /* asked in vain: instruction + 1, what, the mbarrier's offset */
};

enum warp_state { WARP_RUN, WARP_BARRIER, WARP_DONE };
struct pending_copy { uint32_t mask, bytes, stmt_pc, group[WARP_LANES], serial[WARP_LANES], to[WARP_LANES]; uint8_t data[WARP_LANES][16]; };
struct warp {
    struct block *block;
    char *file;
    uint32_t id, alive, barrier, clock_now;
    enum warp_state state;
    struct split splits[MAX_SPLITS];
    int split_count, current;
    uint64_t instructions;      /* issued by this warp */
    uint64_t clock_reads;       /* so that two in a row differ */
    uint32_t used, waited;      /* longest chain of loads whose value was used; and that in earlier blocks of code, where loads cannot move up to */
    uint32_t stored;            /* the same when the last store was made */
    uint32_t longest, copy_depth, depth_base;   /* these count from the base, that grows from block to block */
    uint32_t *depths;           /* by slot / 128: that chain of the load that wrote it; up to the base: none */
    uint32_t safe;              /* everything that happened up to this clock is before us */
    uint32_t seen[MAX_WARPS], fence[MAX_WARPS], pending[MAX_WARPS];   /* race.c */
    bool has_fence, has_far;
    /* Lanes behind griddepcontrol.wait, their own or one they were told of; that have fenced since; that read of one: race_steps.c */
    uint32_t waited_grid, waited_fenced, waited_pending, waited_taken;
    uint32_t far[MAX_WARPS];    /* of `fence`, what fences for all blocks cover */
    /* race_order.c: what is known of other blocks; pending: what was read of them, pending_near: what warps of this block pass on */
    uint32_t horizon, pending_horizon, pending_near, taken_horizon, fence_horizon, fence_number;
    uint32_t actor, actor_clock, strong, strong_clock;
    uint32_t peers;             /* blocks of the cluster that are known to have begun, by rank; race_peer.c */
    struct { uint64_t first; uint32_t pattern; } bases[BASES + 1];   /* how addresses of this block lie; access.c */
    struct { uint64_t changes; uint32_t row, clock; } read_rows[READ_ROWS];   /* of shared memory, that were looked at; access.c */
    uint32_t bases_known;       /* bits of them; forgotten whenever something else might have come between */
    struct lane_shadow *lanes;  /* race_lane.c; NULL: not looked at */
    struct stale_warp *stale;   /* stale.c; NULL: no strong access yet */
    uint8_t most_parts, parting;   /* schedule.c: how its lanes are parted */
    uint32_t *written;          /* by tracked register: lanes that wrote it */
    struct pending_copy *copies;
    uint32_t copy_count, copy_capacity;
    uint32_t committed[WARP_LANES], bulk_committed[WARP_LANES], copy_serial;
    bool sent;                  /* stored to global memory since it last released anything to its cluster */
    uint32_t cluster_here, cluster_passed;   /* lanes that arrived at the cluster's barrier; that may pass it */
    struct saved *saved;        /* call.c */
    uint32_t saved_count;
    size_t saved_bytes;
    bool stuck;                 /* asked in vain at its last turn, as at the turn before */
};

struct barrier {
    uint32_t arrived, waiting, threads, expected, popc;
    uint32_t last_warps, last_clock;    /* who met here the last time, and the clock that they have had since */
    bool all, any, in_use, waited, waited_fenced;   /* who arrived had waited for the launch before */
};
struct block {
    struct worker *worker;
    uint32_t index[3];
    uint64_t number;
    uint32_t warp_count, alive_warps;
    struct warp *warps;
    uint8_t *shared, *shared_init;
    uint8_t *fenced;            /* as bulk copies see it, once there was a fence or a copy (fenced_any): proxy.c */
    bool fenced_any;
    uint8_t *local, *local_init;
    struct barrier barriers[BARRIERS];
    /* races: one entry a granule of shared memory */
    uint32_t granule_shift;     /* 2: words, 0: bytes */
    uint64_t changes;           /* how often shared memory was written, by whatever means */
    uint32_t bulk_depth;        /* the longest chain of loads that a bulk copy into it ends; an mbarrier that is through has waited for it */
    uint32_t *wrote, *read_clock, *readers, *atomic_clock, *atomics;
    uint32_t clock;
    uint32_t sync[MAX_WARPS];
    uint32_t sync_horizon, group, group_clock, sync_peers;
    bool any_fence, any_atomic, any_observed, sync_waited;
    bool triggered, triggered_early;   /* let the next launch begin; and before it had waited for the last one: race_steps.c */
    bool started, done;
    struct cluster *cluster;
    uint32_t rank;              /* in the cluster */
    struct mbarrier_table mbarriers;
    struct race_object cluster_gathered, cluster_released;   /* of who arrived at the cluster's barrier */
    struct region *watch;       /* shared memory as a buffer, where a cluster has several blocks; race_object.c */
};

struct noted_store { uint64_t offset; uint32_t bytes, region; };
struct noted_stores { struct noted_store *list; uint32_t count, room; };
struct tagged { uint64_t fresh; double bytes, squares; };   /* by region: of this cluster; of all that were drawn */

struct worker {
    struct machine *machine;
    uint8_t tag;                /* of the running cluster's stores */
    struct tagged *tagged;
    struct noted_stores noted;  /* where the running cluster may yet be left out */
    struct block *blocks;
    uint32_t block_count;
    struct cluster *clusters;
    uint32_t cluster_count;
    uint64_t *block_threads;    /* by basic block */
    uint64_t *block_warps;
    struct ptx_counts counts;
    struct depth_worker *depth; /* counting in depth: depth.c; NULL if off */
    uint16_t hints[2048];       /* by instruction: the region it hit last */
    uint64_t addresses[WARP_LANES] __attribute__((aligned(64)));
    uint32_t staging[WARP_LANES * 16] __attribute__((aligned(64)));
    uint8_t lanes_left[LANES_LEFT];        /* access.c: who was at a sector last */
    uint64_t random;
    uint64_t explored;          /* warp instructions so far, of blocks that are explored */
    bool exploring;
    bool near;                  /* the strong access at hand is one for its own block alone (.cta) */
    uint64_t found_block;
    atomic_bool storing;        /* a store to a watched buffer is marked there, and its bytes may not have arrived yet */
    uint64_t unreported;        /* thread instructions not yet added to the machine's */
    struct ptx_finding finding;
};

struct machine {
    const struct ptx_module *module;
    struct worker *workers;
    int worker_count;
    const struct function *entry;
    const struct ptx_launch *launch;
    const struct lane_table *lanes;
    struct ptx_limits limits;
    uint64_t seed;
    bool check_races, shared_races_only, lenient;
    uint32_t sm_count, sm_first;        /* where and when it runs, as the kernel is told */
    uint64_t warp_first;                /* says in which places of a multiprocessor a block's warps are; 0: in the first */
    uint64_t graph_exec;                /* 0: as if launched alone */
    uint64_t grid_id, clock_base, clock_rate, timer_base;
    bool many;                  /* many host threads */
    enum ptx_schedule schedule;
    bool explicit_cluster;
    struct depth *depth;        /* NULL if off */
    struct watch *watch;        /* race_grid.c */
    struct ptx_history *history;
    atomic_bool any_waited_grid, next_begins_late;   /* the next launch begins when the one before this is over */
    atomic_bool reads_later;    /* race_grid.c: a block may have seen what one that begins later did */
    struct order *order;        /* race_order.c; NULL: nothing beyond a block is looked at */
    struct stale *stale;        /* stale.c; NULL: strong accesses see what is there */
    struct region *regions;     /* by address */
    int region_count;
    const struct fill **moving; /* slots that differ from block to block */
    uint32_t moving_count;
    uint8_t params[32768];
    uint8_t grid_workspace[GRID_WORKSPACE_BYTES];
    uint64_t total_blocks, threads_block, shadow_bytes;
    uint32_t cluster[3], cluster_size;
    uint32_t file_bytes, frame_bytes, shared_bytes, static_end;
    int64_t deadline_ns, start_ns;
    atomic_uint_fast64_t next_block, instructions;
    struct ptx_sample *sample;  /* sample.c; NULL: all run */
    bool partial;               /* a buffer is: clusters may be left out */
    uint8_t tag;
    pthread_mutex_t sample_lock;
    double sample_look;         /* part of the budget after which it is asked whether a sample must do */
    bool sample_drawn;          /* in this run, since that turn: */
    uint64_t sample_from;
    int64_t sample_cpu_ns;      /* the process's when it began */
    atomic_bool stop;
    atomic_uint_fast64_t found_block;   /* lowest block with a finding */
    atomic_flag atomic_locks[64];
};

static inline char *slot(const struct warp *w, uint32_t offset) { return w->file + offset; }
static inline int first_lane(uint32_t mask) { return __builtin_ctz(mask); }
/* Bit l: lane l is not 0. */
static inline uint32_t warp_pack(const struct warp *w, uint32_t predicate)
{
#ifdef __x86_64__ /* a predicate is 0 or ~0 */
    const __m128i *p = (const __m128i *)slot(w, predicate);
    uint32_t r = 0;
    for (int half = 0; half < 2; half++, p += 4) {
        const __m128i low = _mm_packs_epi32(p[0], p[1]), high = _mm_packs_epi32(p[2], p[3]);
        r |= (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << half * 16;
    }
    return r;
#else
    return w->block->worker->machine->lanes->pack((const uint32_t *)slot(w, predicate));
#endif
}

/* Of these lanes, those that the instruction's predicate lets. */
static inline uint32_t warp_active(const struct warp *w, const struct insn *i, uint32_t mask)
{
    if (!i->pred)
        return mask;
    const uint32_t p = warp_pack(w, i->pred);
    return mask & (i->flags & F_PRED_NOT ? ~p : p);
}

/* All return false after they have set the worker's finding. */
bool fault(struct warp *w, const struct insn *i, int lane, enum ptx_finding_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
bool memory_load(struct warp *w, const struct insn *i, uint32_t active);
bool memory_store(struct warp *w, const struct insn *i, uint32_t active);
bool memory_atomic(struct warp *w, const struct insn *i, uint32_t active);
bool memory_prefetch(struct warp *w, const struct insn *i, uint32_t active);    /* bounds only */
bool copy_issue(struct warp *w, const struct insn *i, uint32_t active);
void copy_commit(struct warp *w, uint32_t active);
bool copy_wait(struct warp *w, const struct insn *i, uint32_t active, int64_t keep);
void copy_land(struct warp *w, int lane, uint32_t serial);   /* this lane's copies before that one */
void memory_count(struct worker *k, struct region *r, uint64_t offset, uint64_t bytes, bool store);   /* one request for so many bytes */
uint64_t atomic_combine(int op, enum ptx_type t, uint64_t old, uint64_t b, uint64_t c);

/* memory.c, for atomics */
/* home: the block whose shared memory it is; NULL: not shared memory */
struct place { uint8_t *data, *init; uint64_t offset; struct region *region; struct block *home; };
struct sector_set { uint64_t seen[64]; uint8_t used[64]; };
bool memory_locate(struct warp *w, const struct insn *i, int lane, uint64_t address, uint64_t bytes, unsigned each, bool store,
                   struct place *ret);
bool memory_fault(struct warp *w, const struct insn *i, int lane, enum ptx_finding_kind kind, const char *buffer, int64_t offset,
                  uint64_t size, unsigned bytes, bool store);
bool memory_is_shared(const struct warp *w, const struct place *p);
int64_t memory_offset(const struct warp *w, const struct place *p);
const char *memory_name(const struct warp *w, const struct place *p);
enum pattern memory_addresses(struct warp *w, const struct insn *i, uint64_t stride);   /* into the worker's addresses */
/* Shared-memory passes of one request. */
unsigned memory_wavefronts(const uint64_t *offset, uint32_t active, unsigned bytes);
bool bits_all(const uint8_t *bits, uint64_t at, uint64_t count);
void bits_set(uint8_t *bits, uint64_t at, uint64_t count, bool shared);
void bits_clear(uint8_t *bits, uint64_t at, uint64_t count);
void store_note(struct worker *k, struct region *r, uint64_t offset, uint64_t bytes);
/* After each kind of store to global memory. */
static inline void tag_store(struct worker *k, struct region *r, uint64_t offset, uint64_t bytes)
{
    if (__builtin_expect(r->noted, 0))
        store_note(k, r, offset, bytes);
}
unsigned sector_add(struct sector_set *s, const struct place *p, unsigned bytes, bool store);
void load_depth(struct warp *w, const struct insn *i, const struct place *p);

enum race_kind { RACE_READ, RACE_WRITE, RACE_ATOMIC /* or a volatile store */, RACE_STRONG_READ /* a volatile load */, RACE_SAME /* stores what is there */ };
/* `bytes` at `offset` of shared memory are used by this warp. */
bool race_check(struct warp *w, const struct insn *i, int lane, uint32_t offset, uint32_t bytes, enum race_kind kind);
void race_start(struct block *b);
void race_barrier(struct block *b, const struct barrier *bar);
void race_fence(struct warp *w, uint32_t active, enum order_scope scope);
/* An atomic or volatile access at the worker's addresses: publish before it is done, observe after. */
void race_publish(struct warp *w, const struct insn *i, uint32_t active, enum order_scope release);
void race_observe(struct warp *w, const struct insn *i, uint32_t active, enum order_scope acquire);

/* ---- calls: call.c ---- */
/* The lanes of a split go into a function; *ret_pc: where it begins. False: a fault. */
bool call_enter(struct warp *w, int split, const struct insn *i, uint32_t function, uint32_t *ret_pc);
uint32_t call_leave(struct warp *w, int split, const struct insn *i);   /* where the split goes on */
/* The function that the first of these lanes calls through a register, and who else does; -1: a fault. */
int call_target(struct warp *w, const struct insn *i, uint32_t active, uint32_t *ret_same);
void calls_forget(struct warp *w);
void calls_close(struct warp *w);

/* ---- clusters: race_object.c ---- */
/* Through an object of block `home`: what we did is passed on; what is kept there is before us. The key is its name among blocks. */
void race_object_release(struct warp *w, uint32_t active, struct race_object *o, const struct block *home, uint64_t key);
void race_object_acquire(struct warp *w, uint32_t active, const struct race_object *o, uint64_t key);
/* The same without release or acquire: what fences did before, and will do. */
void race_object_publish(struct warp *w, uint32_t active, struct race_object *o, const struct block *home, uint64_t key);
void race_object_observe(struct warp *w, uint32_t active, const struct race_object *o, uint64_t key);
uint64_t race_key(const struct block *home, uint64_t offset);
uint64_t race_phase_key(const struct block *home, uint64_t offset, uint32_t phase);
uint64_t race_cluster_key(const struct block *b, uint32_t phase);
/* As race_check, for the shared memory of any block of the cluster. */
bool race_shared(struct warp *w, const struct insn *i, int lane, struct block *home, uint64_t offset, uint32_t bytes, enum race_kind kind);
bool race_mbarrier(struct warp *w, const struct insn *i, int lane, struct block *home, uint64_t offset);
/* Is it known to this warp that the other block of its cluster has begun? race_peer.c */
bool race_peer_begun(struct warp *w, const struct block *peer);
void race_cluster_open(struct block *b);
void race_cluster_start(struct block *b);
void race_cluster_close(struct block *b);
bool race_block_end(struct block *b);   /* false: a finding */

/* ---- what strong accesses may see: stale.c ---- */
void stale_open(struct machine *m);
void stale_close(struct machine *m);
void stale_start(struct warp *w);
bool stale_before(const struct warp *w, const struct place *p);    /* such a place is kept; only then: */
void stale_storing(struct warp *w);                                /* an instruction begins */
void stale_loading(struct warp *w);
/* The element at p + `at` is stored by now, and was so before. */
void stale_stored(struct warp *w, const struct place *p, unsigned at, unsigned size, const uint8_t *was, bool was_written);
void stale_observed(struct warp *w, const struct place *p, unsigned size);    /* an atomic read it */
bool stale_load(struct warp *w, const struct insn *i, int lane, const struct place *p, uint8_t *value);   /* false: a finding */
bool stale_block_end(struct block *b);                             /* false: a finding */

/* ---- buffers that are watched: races between warps and blocks, bytes that must not change ---- */
void race_grid_open(struct machine *m, bool between_blocks);
void race_grid_close(struct machine *m);
/* One stretch of a whole warp. False: look lane by lane, which tells whether it matters and whose fault it is. */
bool watch_row(struct warp *w, const struct place *p, uint64_t bytes, enum race_kind kind);
/* Before it is done. `value`: what is to be stored; NULL for loads, and for atomics. */
/* After a store that watch_row or watch_lane let pass: its bytes are there. */
static inline void watch_stored(struct worker *k) { atomic_store_explicit(&k->storing, false, memory_order_release); }
bool watch_lane(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes, enum race_kind kind, const uint8_t *value);

/* Of a region with holes: whether one of these bytes lies in one, whether so much may be stored there, how many marked sectors its rows have. */
bool holes_touched(const struct region *r, uint64_t offset, uint64_t bytes);
bool holes_store(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes, const uint8_t *value);
uint64_t holes_count_sectors(const struct machine *m, const struct region *r, const uint64_t *marks);

/* A load by the read-only path; false: of what somebody has stored in this launch. */
bool race_read_only(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes);

/* ---- lanes of a warp that may run apart: race_lane.c ---- */
struct lane_shadow *lane_shadow_new(void);
void lane_start(struct warp *w);
void lane_meet(struct warp *w, uint32_t mask);     /* these wait for one another */
void lane_fence(struct warp *w, uint32_t active);
void lane_publish(struct warp *w, uint32_t active);
void lane_observe(struct warp *w, uint32_t active, bool acquire);
/* Before it is done; as watch_lane. */
bool lane_check(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes, enum race_kind kind, const uint8_t *value);

/* ---- who goes next: schedule.c ---- */
uint64_t draw(uint64_t *state);
void schedule_block(struct block *b);                          /* starts: is it explored, and how */
int64_t schedule_slice(struct worker *k, int64_t usual);
void schedule_part(struct warp *w, int split);                 /* maybe */
bool schedule_part_at(struct warp *w, int split, uint32_t pc); /* nearly always: where it is asked who is there */
int schedule_pick(struct warp *w);                             /* a split that can run, or -1 */
void splits_merge(struct warp *w);                             /* those that are at one place */
bool splits_let_go(struct warp *w);                            /* lanes that wait where lanes meet go on; false: there are none */
bool splits_let_leave(struct warp *w);                         /* the same of those who go on only to end */
void splits_wait(struct warp *w, uint64_t instructions);       /* so many have been done while they wait; polling counts for more */

enum stop { STOP_FAULT, STOP_WAIT, STOP_SLICE, STOP_DONE };   /* a slice also ends when something asked for is not there yet */
enum stop warp_run(struct warp *w, int64_t budget);
/* An instruction that lanes do together. 1: done by `active`; 2: done by others too, this split goes on like any other; 0: it waits for the
 * other lanes named; -1: a finding. */
int warp_sync(struct warp *w, int current, const struct insn *i, uint32_t active);
/* Nothing of the warp runs. */
enum stop warp_settle(struct warp *w);
bool sync_execute(struct warp *w, const struct insn *i, uint32_t active);
bool barrier_arrive(struct warp *w);
/* Barriers that may be complete now that a warp has left. */
void barrier_recheck(struct block *b);
int64_t now_ns(void);
/* Which cluster is next, in which turn, and whether it was drawn. False: no more. */
bool sample_next(struct machine *m, uint64_t all, uint64_t *ret_turn, uint64_t *ret_unit, bool *ret_drawn);
/* A cluster has run; left_out: not to its end. Then nothing that it stored counts. False: it stored more than can be undone. */
bool sample_ended(struct worker *k, bool drawn, bool left_out);
/* The running cluster stored there, and may yet be left out. */
void sample_note(struct worker *k, uint32_t region, uint64_t offset, uint64_t bytes);
void sample_open(struct machine *m, struct ptx_sample *wanted);
void sample_close(struct machine *m);
uint64_t worker_draw(struct worker *k);   /* a random number, by the seed */

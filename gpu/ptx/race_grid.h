/*
 * What the checker of buffers is made of: the memory of who touched what (race_cells.c), one access against it (race_grid.c), and what
 * comes from memory.c, by rows of a warp or lane by lane, with what is said where it clashes (race_watch.c). Private to them.
 */
#pragma once
#include "gpu/ptx/race.h"

#define race_cells_new ptx_run_race_cells_new
#define race_range_use ptx_run_race_range_use

#define PARTED 0x7fffffffu      /* as `writer`: see the cells; `writes` is the granule's shift */
#define BLIND 0x7ffffffeu
#define CELL_BYTES (1u << 16)
#define WATCH_LOCKS 64

struct cell { uint32_t writer, reader; };
struct touch {
    uint32_t writer, writes;
    union {
        struct { uint32_t reader, reads; };
        struct cell *cells;
    };
};
struct cell_chunk { struct cell_chunk *next; size_t used; uint8_t bytes[CELL_BYTES]; };
struct watch {
    struct cell_chunk *chunks;
    size_t left;                /* shadow bytes that may still be taken */
    void *start; size_t mapped; /* all entries */
    atomic_flag lock, locks[WATCH_LOCKS];
};

static inline void watch_lock(atomic_flag *f)
{
    while (atomic_flag_test_and_set_explicit(f, memory_order_acquire))
        ;
}
static inline void watch_unlock(atomic_flag *f) { atomic_flag_clear_explicit(f, memory_order_release); }

/* NULL: no room. Lives as long as the launch. */
struct cell *race_cells_new(struct machine *m, unsigned count);

/* One access against what is remembered. */
struct race_use {
    struct warp *w;
    enum race_kind kind;
    uint32_t me;
    bool benign;                /* known to change nothing: clashes with nobody */
    uint32_t clash;             /* the actor that is in the way */
    bool clash_reads;
};
/* False: it clashes with u->clash. */
bool race_range_use(struct race_use *u, struct region *r, uint64_t offset, uint64_t bytes);

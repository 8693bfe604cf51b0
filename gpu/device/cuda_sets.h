/*
 * The buffer sets of a timed program: cuda_sets.c (memory, and what lies where), cuda_sets_check.c (what launches left),
 * cuda_time.c (graphs) and cuda_single.c (launches one at a time, and warming up).
 */
#pragma once
#include "gpu/device/cuda_api.h"

#include <time.h>

/* A mapping of its own with unmapped space on both sides, somewhere that nobody can foresee. back: the same memory for us to write; 0: none. */
struct arena {
    CUdeviceptr reserved, at, back_reserved, back;
    size_t bytes;
    CUmemGenericAllocationHandle handle;
};
bool arena_make(struct device *d, size_t bytes, bool read_only, struct arena *ret, struct err *err) MUST_CHECK;
void arena_done(struct arena *a);

#define REPLAYS 16                    /* launches of a block that are made once more, */
#define REPLAY_BLOCKS 3               /* in one of so many blocks */

struct cuda_sets {
    struct device *device;
    int count, tensor_count;
    int launches;                     /* of the last block; 0: nobody looks at its outputs */
    bool exact;                       /* equal inputs must give equal bits */
    bool traced;                      /* by a tracing library: nothing is launched that is not in the plan of the audit */
    bool mix[OP_MAX_TENSORS];
    struct arena fixed, open, own;    /* inputs; outputs, inouts and workspaces; what is only ours: base content, what is swept, lists */
    int contents;
    CUdeviceptr base[DEVICE_MAX_CONTENTS][OP_MAX_TENSORS], sweep;        /* by content, then by tensor; 0: the first is its only one */
    size_t sweep_bytes;
    CUdeviceptr list, sums;           /* in `own`, as we write it: pieces; a sum for each launch and each replay, then what was found */
    uint64_t seed, poison, salt;
    CUdeviceptr *at;                  /* by set, then by buffer */
    struct between *between;          /* what lies around the buffers that are written */
    int between_count;
    struct device_windows *windows;   /* by set, then by tensor */
    int *order, *shuffled;            /* as launched; scratch: as they lie */
    struct slot *slots;               /* scratch: buffers in the order in which they lie in an arena */
    /*
     * What a block begins with. From 0: inputs; from `gaps`: what lies between buffers; from `idle`: what launches may write, of sets
     * that are not launched; from `used`: the same of those that are, launch by launch, `each` pieces a set; from `printed` to `pieces_end`:
     * what of these is a result, `results` pieces a set, as a list for sums.
     */
    struct piece *pieces;
    size_t pieces_most;
    int gaps, idle, used, printed, pieces_end, each, results, drawn;      /* drawn: launches of the block */
    uint64_t *seen;                   /* scratch: the sums, as they are on the card */
    CUevent begin, end;
    CUgraphExec graph;
    int graph_launches, graph_uses;   /* of how many launches it is, and how often it was given new ones since it was instantiated */
};

/* Addresses of a set's buffers, in the program's order. */
void sets_addresses(const struct device_program *p, int set, CUdeviceptr *ret);
/* Pieces that a buffer's content is put together of, in every set. */
int sets_pieces(const struct device_program *p, int buffer);
/* Order, contents and poison of a block with so many launches, all anew. Nothing is on the card yet. */
bool sets_draw(struct device_program *p, uint64_t order_seed, int launches, struct err *err) MUST_CHECK;
/* Puts what was drawn there. Does not wait. */
bool sets_restore(struct device_program *p, struct err *err) MUST_CHECK;
/* What the block's launches may write, once more. */
bool sets_restore_used(struct device_program *p, struct err *err) MUST_CHECK;
/*
 * After the block's launches, which must have ended: whether what they must leave alone is as it was. sets_look_begin starts looking and
 * does not wait for it; sets_look_end makes some of them once more, if `replay`. A fault is the first that is found.
 */
bool sets_look_begin(struct device_program *p, struct err *err) MUST_CHECK;
bool sets_look_end(struct device_program *p, bool replay, struct device_fault *fault, struct err *err) MUST_CHECK;
/* For a block that was timed: replay or not, as nobody can foresee. */
bool sets_replays(void);

/* Reads memory of nobody's, twice the size of L2; flush writes it first. */
bool sets_sweep(struct device *d, const struct cuda_sets *s, struct err *err) MUST_CHECK;
bool sets_flush(struct device *d, const struct cuda_sets *s, struct err *err) MUST_CHECK;
/* A graph of `launches` copies of the plan over the sets in their order, ready to launch. */
bool sets_graph(struct device_program *p, int launches, struct device_fault *fault, struct err *err) MUST_CHECK;
/* Launches the graph and waits for everything on the card. */
bool sets_launch(struct device_program *p, struct device_sample *ret, struct device_fault *fault, struct err *err) MUST_CHECK;
/* The clock now, into a sample: soon after its launches, or it has fallen. */
void sets_clock(const struct device *d, struct device_sample *ret);

static inline int64_t raw_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The buffer sets of a timed program, shared by cuda_time.c (graphs) and cuda_single.c (launches one at a time, and warming up). */
#pragma once
#include "gpu/device/cuda_api.h"

#include <time.h>

struct cuda_sets {
    int count, launches;          /* launches: of the last block */
    size_t set_bytes, offsets[PROGRAM_MAX_BUFFERS];
    CUdeviceptr all, sweep, base[OP_MAX_TENSORS];
    size_t sweep_bytes;
    uint64_t poison;
    int64_t *rotations;           /* by set, then by tensor, in elements */
    struct piece *pieces;         /* scratch for one restore of everything */
    int *order;
    CUevent begin, end;
    CUgraphExec graph;
    int tensor_count;
    struct device *device;
};

/* Addresses of a set's buffers, in the program's order. */
void sets_addresses(const struct device_program *p, int set, CUdeviceptr *ret);
/* What a launch may have changed, of the first `sets` in their order: those that will be launched. */
bool sets_restore(struct device_program *p, int sets, struct err *err) MUST_CHECK;
/* Reads memory of nobody's, twice the size of L2; flush writes it first. */
bool sets_sweep(struct device *d, const struct cuda_sets *s, struct err *err) MUST_CHECK;
bool sets_flush(struct device *d, const struct cuda_sets *s, struct err *err) MUST_CHECK;
/* A graph of `launches` copies of the plan over the sets in their order, ready to launch. */
bool sets_graph(struct device_program *p, int launches, struct device_fault *fault, struct err *err) MUST_CHECK;
/* Launches the graph and waits for everything on the card. */
bool sets_launch(struct device_program *p, struct device_sample *ret, struct device_fault *fault, struct err *err) MUST_CHECK;

static inline int64_t raw_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/*
 * The constants of the estimate. Private to gpu/ptx and to the program that fits them.
 *
 * Fitted by tests/bench/calibrate.c to times of template settings on an H200 (tests/bench/results/2026-11-30-h200-settings.json):
 * to half of the settings, drawn by a hash of their parameters; its errors on the other half are in tests/bench/results. What the
 * device table holds (clock, bandwidths, latencies, launch) is not fitted: these constants say what the model makes of it, and are
 * the same for all devices.
 */
#pragma once
#include "gpu/ptx/ptx.h"

/* X(name, value, least, most, what it means) */
#define PTX_ESTIMATE_TABLE(X)                                                                                             \
    X(chain, 0.2, 0.2, 1.2, "of the dependent instructions' cycles: ptxas shortens chains")                                 \
    X(instruction, 1.253, 0, 6, "cycles a warp needs for each instruction, dependent or not: fetch and issue")              \
    X(load, 0.5582, 0.3, 3, "of a memory latency, for each load in the chain of dependent ones")                             \
    X(ramp, 805, 0, 1200, "ns from the start of a block to its first load, and from its last store to the end")           \
    X(block, 0.5248, 0.1, 3, "ns between the starts of two blocks, over all SMs (an empty kernel: 0.61)")                   \
    X(dram, 1.07, 0.6, 1.07, "of the copy bandwidth")                                                                      \
    X(port, 61.05, 16, 256, "bytes a cycle between an SM and its L1")                                                        \
    X(issue, 0.05, 0.05, 4, "of the issue cycles")                                                                          \
    X(lanes, 0.6746, 0.1, 4, "of those of a scheduler that has one warp only")                                               \
    X(request, 2.467, 0, 32, "cycles of an SM's load and store unit for one warp's access")                                   \
    X(round, 1.131, 0.1, 1.5, "of a block's latency, for each further round of blocks")                                     \
    X(spill, 3.004, 0, 30, "times that a spilled byte goes out and in")                                                     \
    X(cluster, 320, 0, 1000, "ns that a release to the cluster takes a warp")                                                \
    X(drain, 1400, 0, 3000, "ns more where stores to global memory are under way, which it waits for")                       \
    X(power, 2.474, 1, 8, "of the norm that joins what overlaps: 1 a sum, 8 nearly the largest")

struct ptx_estimate_model {
#define X(name, value, least, most, what) double name;
    PTX_ESTIMATE_TABLE(X)
#undef X
};
extern const struct ptx_estimate_model ptx_estimate_fitted;
void ptx_estimate_with(const struct ptx_estimate_model *k, const struct ptx_counts *counts, const struct ptx_launch *launch,
                       const struct ptx_resources *resources, const struct ptx_device_row *device, struct ptx_estimate *ret);

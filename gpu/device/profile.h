/*
 * What a card's own counters say of a plan, step by step: the range profiler's figures, by names of ours. For whoever wants to know
 * where a kernel's time goes; never a time that is published, never part of a verdict.
 */
#pragma once
#include "core/candidate.h"

/* X(name, the chip's metric): of one launch. _pct: of what the unit can sustain; a unit that a chip lacks is left out. */
#define PROFILE_FIGURES(X)                                                        \
    X(duration_ns, "gpu__time_duration.sum")                                      \
    X(dram_pct, "dram__throughput.avg.pct_of_peak_sustained_elapsed")             \
    X(dram_read_bytes, "dram__bytes_read.sum")                                    \
    X(dram_write_bytes, "dram__bytes_write.sum")                                  \
    X(l2_pct, "lts__throughput.avg.pct_of_peak_sustained_elapsed")                \
    X(l2_bytes, "lts__t_bytes.sum")                                               \
    X(l2_hit_pct, "lts__t_sector_hit_rate.pct")                                   \
    X(l1_pct, "l1tex__throughput.avg.pct_of_peak_sustained_elapsed")              \
    X(sm_pct, "sm__throughput.avg.pct_of_peak_sustained_elapsed")                 \
    X(occupancy_pct, "sm__warps_active.avg.pct_of_peak_sustained_active")         \
    X(issue_pct, "smsp__issue_active.avg.pct_of_peak_sustained_active")           \
    X(warp_instructions, "smsp__inst_executed.sum")                               \
    X(shared_bank_conflicts, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum")

/* X(name): cycles that a warp spent waiting so for each instruction that it issued. */
#define PROFILE_STALL_METRIC(name) "smsp__average_warps_issue_stalled_" name "_per_issue_active.ratio"
#define PROFILE_STALLS(X)                                                                                                        \
    X(long_scoreboard) X(short_scoreboard) X(wait) X(barrier) X(membar) X(lg_throttle) X(mio_throttle) X(tex_throttle)            \
    X(math_pipe_throttle) X(gmma) X(imc_miss) X(no_instruction) X(branch_resolving) X(dispatch_stall) X(drain) X(sleeping)       \
    X(not_selected) X(selected) X(misc)

enum profile_item {
#define X(name, metric) PROFILE_##name,
    PROFILE_FIGURES(X)
#undef X
#define X(name) PROFILE_STALL_##name,
    PROFILE_STALLS(X)
#undef X
    PROFILE_ITEMS
};
#define PROFILE_FIRST_STALL PROFILE_STALL_long_scoreboard

/* By step of the plan; NAN: not known. A memset is a step too and has figures. */
struct device_profile_result { int step_count, passes; double steps[PLAN_MAX_STEPS][PROFILE_ITEMS]; int64_t flush_bytes; };
struct device_profile { const void *const *tensors; uint64_t poison; };

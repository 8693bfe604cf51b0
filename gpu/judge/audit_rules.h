/*
 * The audit's rules: what a tracing library saw of a plan's launches against the plan, record by record, and the timers against
 * each other. Pure: no device, no child, so that each rule is tested with records that break it.
 */
#pragma once
#include "gpu/device/device.h"
#include "gpu/judge/rules.h"
#include "gpu/judge/stats.h"

/* What the assembled code says of a launch of the plan, in the plan's order; memsets have none. */
struct audit_kernel { int registers; int64_t static_shared_bytes, local_bytes; };

/* The names that our own kernels on the card begin with. */
#define AUDIT_OURS "proteus_"
#define AUDIT_READ "proteus_read"      /* the sweep before each cold launch */
#define AUDIT_EMPTY "proteus_empty"

struct audit_case {
    const struct plan *plan;
    const int64_t *workspace_bytes;     /* by workspace */
    const struct audit_kernel *kernels; /* by step */
    int launches, cold_launches;
    const struct device_audit_result *seen;
    double untraced_ns;                 /* a launch in an untraced graph, by the events; 0 unknown */
    double offset_ns;                   /* of that, what the beginning and end of an empty graph take, by calibration */
};

struct audit_report {
    struct rules rules;                 /* 1 to 6 */
    int records;
    double graph_launch_ns;             /* (last end - first start) / launches */
    double graph_kernels_ns;            /* median of a launch's steps in the graph, without what lies between launches */
    struct stats_timer graph;           /* of the launches that graph_kernels_ns is of; count 0: none */
    double third_ns[3];                 /* of that, in the first, middle and last third of the graph; 0: too few launches */
    struct stats_side cold;             /* single launches after a flush: the sum of the plan's steps */
    struct stats_side cold_event;       /* the same by events around them */
    double empty_ns;                    /* median of an empty kernel's record; 0: none seen */
};
void audit_check(const struct audit_case *c, struct audit_report *ret);
/* Rule 11 within a graph: where the candidate's launches change along it as the baseline's do not. */
void audit_compare_thirds(const struct audit_report *candidate, const struct audit_report *base, struct rules *ret);
/* {"records","graph_launch_ns",...}; new reference. The rules are encoded by themselves. */
json_t *audit_encode(const struct audit_report *r);

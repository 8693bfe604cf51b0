/*
 * The audit's rules: what a tracing library saw of a plan's launches against the plan, record by record, and the timers against
 * each other. Pure: no device, no child, so that each rule is tested with records that break it.
 */
#pragma once
#include "gpu/device/device.h"

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
};

enum audit_outcome { AUDIT_OK, AUDIT_FLAG, AUDIT_REJECT };
#define AUDIT_RULES 7
struct audit_finding {
    int rule;
    enum audit_outcome outcome;
    char text[240];                     /* "" where nothing was found */
};
struct audit_report {
    struct audit_finding rules[AUDIT_RULES];
    enum audit_outcome worst;
    int records;
    double graph_launch_ns;             /* (last end - first start) / launches */
    double graph_kernels_ns;            /* median of a launch's steps in the graph, without what lies between launches */
    double cold_launch_ns;              /* median of single launches after a sweep: the sum of the plan's steps */
    double cold_q1_ns, cold_q3_ns;
    double empty_ns;                    /* median of an empty kernel's record; 0: none seen */
};
void audit_check(const struct audit_case *c, struct audit_report *ret);
const char *audit_rule_text(int index);
/* {"rules":[{"rule","what","outcome","found"}],...}; new reference. */
json_t *audit_encode(const struct audit_report *r);

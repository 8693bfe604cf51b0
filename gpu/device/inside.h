/* Between the files of the device folder. */
#pragma once
#include "gpu/device/device.h"

/* Sets code and text; keeps the first fault. Steals detail. Always true: the candidate's fault is not a failure of ours. */
bool fault_set(struct device_fault *f, enum verdict_code code, json_t *detail, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool fault_from_finding(struct device_fault *f, const struct ptx_finding *finding, int step, const struct plan *plan);

/*
 * Whether the plan's launches fit the module's entries: names, number and sizes of arguments, block sizes that the kernel was
 * compiled for, clusters. False: `f` holds rejected.plan. Both devices ask before anything runs.
 */
bool plan_fits(const struct ptx_module *m, const struct device_load *what, struct device_fault *f);

/* The buffers of a program in one list: tensors in the shape's order, then workspaces. */
#define PROGRAM_MAX_BUFFERS (OP_MAX_TENSORS + PLAN_MAX_WORKSPACES)
struct program_buffer {
    char name[64];
    int64_t bytes;
    int alignment_bytes;
    bool writable, output;          /* output: holds poison at the start (workspaces too) */
    const struct tensor *tensor;    /* NULL: a workspace */
};
int program_buffers(const struct device_load *what, struct program_buffer ret[PROGRAM_MAX_BUFFERS]);
/* Index into that list of what an argument points to; -1: it is a value. */
int argument_buffer(const struct plan_arg *a, int tensor_count);

void fill_pattern(void *to, size_t bytes, uint64_t pattern);

/* Opens nvJitLink, once a process. */
bool toolkit_open_linker(const struct toolkit_paths *t, struct err *err) MUST_CHECK;

/* Adds the cuda devices of this host; without a driver or a card, none. */
bool device_cuda_list(json_t *list, struct err *err) MUST_CHECK;
bool device_cuda_needs(struct device_needs *ret, struct err *err) MUST_CHECK;

/*
 * `proteus-gpu emulate`: the PTX emulator as a tool for people who write kernels, and for their CI. Private to gpu/emulate, but for
 * emulate_tool_main.
 *
 * options (options.c) -> problem (problem.c: the module, buffers, launches; from an operator's plan and shape, or from flags) ->
 * findings (run.c: one run for each schedule) -> text, counts by line, SARIF (report.c, sarif.c).
 *
 * It runs in this process, without a sandbox: a person checks their own kernel here. The judge does the same in a child.
 */
#pragma once
#include "core/candidate.h"
#include "core/verdict.h"
#include "gpu/device/device.h"

int emulate_tool_main(int argc, char **argv);

enum { EXIT_CLEAN, EXIT_FINDINGS, EXIT_TROUBLE };

#define EMULATE_MAX_BUFFERS (OP_MAX_TENSORS + PLAN_MAX_WORKSPACES)
#define EMULATE_MAX_REPEATS 64
#define EMULATE_MAX_FINDINGS 64

/* A flag that may be given several times. */
struct repeated { int count; const char *values[EMULATE_MAX_REPEATS]; };
struct emulate_options {
    const char *file, *ops_dir, *cuda_home;
    const char *plan, *shape, *regime;
    const char *kernel, *grid, *block, *cluster, *shared;
    const char *device, *target, *seed, *schedules, *instructions, *threads, *sarif;
    struct repeated buffers, args, defines;
    bool cooperative, by_line, help;
};
/* False: what is wrong went to stderr. */
bool emulate_options_parse(int argc, char **argv, struct emulate_options *ret);
void emulate_help(FILE *to);

/* What a buffer holds at the start. */
enum emulate_fill { FILL_GIVEN, FILL_ZEROS, FILL_RANDOM, FILL_BYTES, FILL_INDEX, FILL_UNWRITTEN };
struct emulate_buffer {
    char name[64];
    size_t bytes, alignment;
    enum emulate_fill fill;
    const void *given;               /* FILL_GIVEN: borrowed */
    bool writable;
};
struct emulate_step {
    bool is_memset;
    int buffer;                      /* memset */
    uint8_t value;
    struct ptx_launch launch;
    char kernel[PLAN_KERNEL_SIZE];
    int argument_buffer[PTX_MAX_PARAMS];         /* whose address is added to the argument's value; -1: none */
    struct ptx_resources resources;
    bool has_resources;
};
struct emulate_problem {
    const char *path;                /* as the user wrote it */
    bool is_ptx;
    struct buf source;               /* the file */
    struct buf ptx;
    struct ptx_module *module;
    int buffer_count, step_count;
    struct emulate_buffer buffers[EMULATE_MAX_BUFFERS];
    struct emulate_step steps[PLAN_MAX_STEPS];
    /* with an operator */
    bool has_op;
    struct op_set ops;
    struct shape shape;
    struct tensor tensors[OP_MAX_TENSORS];
    struct plan plan;
    void *inputs[OP_MAX_TENSORS];
    double *reference[OP_MAX_TENSORS];
    int regime;
    const struct ptx_device_row *device;
    uint64_t seed;
};
void emulate_problem_done(struct emulate_problem *p);
DEFINE_CLEANUP(emulate_problem, struct emulate_problem, emulate_problem_done(it))

struct emulate_finding {
    enum verdict_code code;
    char text[600];
    char kernel[PLAN_KERNEL_SIZE];   /* "" none */
    struct ptx_finding at;           /* lines, thread, buffer: as far as known */
    uint64_t schedule_seed;
    int schedules;                   /* in how many it was found */
};
struct emulate_findings { int count; struct emulate_finding list[EMULATE_MAX_FINDINGS]; };
/* Adds it, or counts it where it is known already (same verdict, same place). Returns the entry. */
struct emulate_finding *emulate_found(struct emulate_findings *f, enum verdict_code code, const struct ptx_finding *at, const char *kernel,
                                      uint64_t schedule_seed, const char *text);

/*
 * Reads the file, compiles it, lays out buffers and launches. True with findings: the code itself is wrong (does not compile, plan not
 * acceptable, forbidden construct), and there is nothing to run. False: our failure, or a wrong use.
 */
bool emulate_problem_make(const struct emulate_options *o, struct emulate_problem *ret, struct emulate_findings *f, struct err *err) MUST_CHECK;

struct emulate_result {
    int schedules;
    uint64_t first_seed;
    struct ptx_counts counts[PLAN_MAX_STEPS];    /* of the first schedule */
    struct ptx_depth depth[PLAN_MAX_STEPS];
    bool compared;                   /* with the operator's reference */
    int64_t run_ns;                  /* in the emulator, all schedules together */
};
void emulate_result_done(struct emulate_result *r);
DEFINE_CLEANUP(emulate_result, struct emulate_result, emulate_result_done(it))
struct emulate_how { int schedules, threads; uint64_t first_seed, instruction_limit; bool by_line; };
/* Seeds first_seed, first_seed + 1, ...; one run each. */
bool emulate_run(struct emulate_problem *p, const struct emulate_how *how, struct emulate_result *ret, struct emulate_findings *f,
                 struct err *err) MUST_CHECK;

/* ---- reports ---- */
/* The 1-based line of a text, without its end; "" if there is none. Bounded, printable. */
void emulate_line(const struct buf *text, int line, char *to, size_t size);
/* Where a finding is in the user's file: its line, 0 unknown. For a PTX file that is the PTX line. */
int emulate_user_line(const struct emulate_problem *p, const struct ptx_finding *at);
void emulate_print_findings(FILE *to, const struct emulate_problem *p, const struct emulate_findings *f, int schedules);
void emulate_print_lines(FILE *to, const struct emulate_problem *p, const struct emulate_result *r);
void emulate_print_estimate(FILE *to, const struct emulate_problem *p, const struct emulate_result *r);
/* SARIF 2.1.0; new reference. */
json_t *emulate_sarif(const struct emulate_problem *p, const struct emulate_findings *f, int schedules, uint64_t first_seed);

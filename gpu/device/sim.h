/*
 * Between the files of the emulated device: the program (device_sim.c), the memory of one run (sim_memory.c), a sample of the blocks
 * (sim_sample.c), rows that are far away (sim_far.c), what a run's counts would cost (sim_estimate.c).
 */
#pragma once
#include "gpu/device/inside.h"

struct device { const struct ptx_device_row *row; };

struct device_program {
    struct device *device;
    const struct ptx_device_row *row;
    struct ptx_module *module;
    struct plan plan;
    int tensor_count, buffer_count;
    struct program_buffer buffers[PROGRAM_MAX_BUFFERS];
    struct tensor tensors[OP_MAX_TENSORS];
    bool has_resources;
    struct ptx_resources resources[PLAN_MAX_STEPS];
    bool counted[PLAN_MAX_STEPS];               /* in depth, by the first run: */
    struct ptx_counts deep[PLAN_MAX_STEPS];
    int line_count;
    struct device_line lines[DEVICE_MAX_LINES]; /* of these runs */
    bool settled, whole;                        /* it is known which blocks run; whole: all of them */
    struct ptx_sample sample[PLAN_MAX_STEPS];
};

/* ---- sim_memory.c ---- */
struct sim_arena {
    struct ptx_buffer list[PROGRAM_MAX_BUFFERS + OP_MAX_TENSORS];        /* the program's buffers, then first rows of tensors whose others are far */
    uint8_t *memory[PROGRAM_MAX_BUFFERS], *frozen[PROGRAM_MAX_BUFFERS];  /* owned; memory: of the whole buffer, wherever its rows lie */
    uint64_t address[PROGRAM_MAX_BUFFERS];                               /* what an argument says */
    struct ptx_held held[PROGRAM_MAX_BUFFERS];
    const struct device_far *far;
    int count;
};
void sim_arena_done(struct sim_arena *a);
DEFINE_CLEANUP(sim_arena, struct sim_arena, sim_arena_done(it))
/* Done, and ready for another sim_lay_out. */
void sim_arena_clear(struct sim_arena *a);
/* ERR_NO_SPACE: no room for a tensor with holes. */
bool sim_lay_out(const struct device_program *p, const struct device_run *how, struct sim_arena *a, struct err *err) MUST_CHECK;
void sim_set_memory(struct ptx_buffer *b, uint8_t value);
/* False: bytes of elements were never written; `fault` says which. */
bool sim_check_written(const struct tensor *t, const struct ptx_buffer *b, struct device_fault *fault);
/* What blocks that were left out changed in place is as it was: their stores count as nobody's. */
void sim_put_back(const struct device_program *p, const struct device_run *how, struct sim_arena *a, const struct device_run_result *ret);
/* An element is its last store's, and nobody's if a byte of it was not stored. */
void sim_take_tags(const struct device_program *p, const struct sim_arena *a, struct device_run_result *ret);
/* Copies the tensors, or the rows that are held of them. */
void sim_take(const struct device_program *p, const struct device_run *how, const struct sim_arena *a, void *const *tensors);

/* ---- sim_held.c ---- */
/* NULL: all rows of this buffer are there. */
const struct device_held *sim_held(const struct device_run *how, const struct device_program *p, int buffer);
uint8_t *sim_map(size_t bytes, struct err *err);
void sim_unmap(uint8_t *at, size_t bytes);
void sim_rows_put(const struct ptx_held *h, uint8_t *to, const void *rows);
void sim_rows_take(const struct ptx_held *h, const uint8_t *from, void *rows);

/* ---- sim_far.c ---- */
/* Bytes that lie between the first row of buffer i and the others; 0: none. */
uint64_t sim_far_bytes(const struct device_program *p, const struct device_far *far, int i);
/* After all buffers were laid out with that much room behind them. */
void sim_far_apply(const struct device_program *p, struct sim_arena *a);
/* What is added to an argument of the plan. */
uint64_t sim_far_argument(const struct sim_arena *a, const struct plan_arg *arg);

/* ---- sim_sample.c ---- */
uint64_t sim_blocks_of(const struct plan_step *s);
/* Before step i: whether it runs whole (NULL), and if not, as what. */
struct ptx_sample *sim_sample_of(struct device_program *p, const struct device_run *how, int i);
/*
 * After a step: which buffers are written, and which hold in part what they held before. *ret_stale: a later step looks there, and all
 * blocks must run or none.
 */
void sim_take_account(const struct device_program *p, struct sim_arena *a, bool in_part, bool *written, bool *old, bool *ret_stale);

/* ---- device_sim.c ---- */
/* `a` NULL: addresses do not matter. */
void sim_make_launch(const struct device_program *p, const struct plan_step *s, const struct sim_arena *a, struct ptx_launch *ret);

/* ---- sim_estimate.c ---- */
bool sim_estimate(struct device_program *p, const struct device_run_result *run, double *ret_ns, json_t **ret_terms, struct err *err) MUST_CHECK;

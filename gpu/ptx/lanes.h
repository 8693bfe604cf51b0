/*
 * The operations of lane_ops.h as functions over a warp's register file, compiled for three kinds of CPU; the best that this
 * machine has is picked once.
 */
#pragma once
#include "gpu/ptx/access.h"

enum lane_op {
#define OP(name, D, A, B, C, expr) LANE_##name,
#define OP4(name, D, A, B, C, E, expr) LANE_##name,
#include "gpu/ptx/lane_ops.h"
#undef OP
#undef OP4
    LANE_COUNT, LANE_NONE = LANE_COUNT
};

enum pattern { PATTERN_ANY, PATTERN_ROW /* lane l is at lane 0's + l * stride */, PATTERN_SAME };

struct lane_table {
    const char *name;             /* "avx512", "avx2", "baseline" */
    lane_fn *const *op;           /* by enum lane_op */
    const struct access_table *access;
    lane_fn *shuffle_add;         /* `vec` times: a butterfly, and the f32 sum of both, by the instructions from here on */
    lane_fn *const *rounded;      /* add, sub, mul, fma of f32 to zero, down, up, whatever the CPU's mode; NULL: not on this CPU */
    lane_fn *const *shuffle_by;   /* up, down, bfly, idx by imm lanes, over the whole warp */
    /* Puts the lanes of `mask` from `from` into `to`; 4 or 8 bytes each. */
    void (*blend)(char *to, const char *from, uint32_t mask, unsigned bytes);
    uint32_t (*pack)(const uint32_t *pred);                      /* bit l: lane l is not 0 */
    void (*unpack)(uint32_t *pred, uint32_t mask);
    /* base[l] + offset into ret, and how the lanes lie. */
    enum pattern (*addresses)(const uint64_t *base, int64_t offset, uint64_t stride, uint64_t *ret);
    void (*broadcast)(char *to, uint64_t value, uint32_t mask, unsigned bytes);
    uint64_t (*bits_count)(const uint64_t *bits, size_t words);
    void (*split)(char *file, const uint32_t *dst, unsigned count, const void *from);   /* 32 vectors of 4-byte items apart */
    void (*join)(const char *file, const uint32_t *src, unsigned count, void *to);
    /* shfl: the values that lanes get; returns who read from inside its segment. */
    uint32_t (*shuffle)(uint32_t *to, const uint32_t *from, const uint32_t *b, const uint32_t *c, int mode, uint32_t *source);
    bool (*race_read)(uint32_t *wrote, uint32_t *clock, uint32_t *readers, unsigned words, uint32_t safe, uint32_t now, uint32_t warp);
    bool (*race_write)(uint32_t *wrote, const uint32_t *clock, const uint32_t *readers, unsigned words, uint32_t safe, uint32_t now,
                       uint32_t warp);
};
const struct lane_table *ptx_lanes_get(void);

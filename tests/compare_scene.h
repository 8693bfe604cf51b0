/*
 * Tensors to compare: inputs made from a regime, the reference, what a kernel gave and what a baseline gave; and two honest kernels in C
 * that can be made to err.
 */
#pragma once
#include "gpu/judge/compare.h"
#include "gpu/judge/inputs.h"

extern struct op_set scene_ops;      /* loaded by scene_main */
/* Loads the operators, runs the tests; what main returns. */
int scene_main(void (*const *tests)(void), size_t count);

/* One judged tensor: what went in, what is right, what came out. */
struct scene {
    struct shape shape;
    struct tensor tensors[OP_MAX_TENSORS];
    void *inputs[OP_MAX_TENSORS];
    double *right[OP_MAX_TENSORS];
    void *got[OP_MAX_TENSORS];
    void *baseline[OP_MAX_TENSORS];
};
void scene_done(struct scene *s);
DEFINE_CLEANUP(scene, struct scene, scene_done(it))
void scene_make(struct scene *s, const char *shape, const char *regime, uint64_t seed);
int scene_tensor(const struct scene *s, const char *name);
int64_t scene_axis(const struct scene *s, const char *name);
/* Stores `values` as what came out; NULL: the reference, rounded. */
void scene_put(struct scene *s, int t, const double *values);
struct compare_result scene_compare(const struct scene *s, int t, bool with_baseline);
/* The first result that is not ok; the last one if all are. */
struct compare_result scene_judge(const struct scene *s, bool with_baseline);

enum precision { SINGLE, BFLOAT, HALF, TF32 };
struct how {
    enum precision sum;          /* of accumulators */
    int lanes;                   /* partial sums */
    double eps;
    bool no_offset, no_decay, no_beta;
};
extern const struct how scene_honest, scene_serial;
/* The operator of the scene by a kernel in single precision, its sums in another order than the reference's. */
void scene_run(struct scene *s, const struct how *h, void **to);
double scene_rms(const double *x, int64_t n);

enum { SCENE_SHAPES = 8 };
extern const char *const scene_shapes[SCENE_SHAPES];

/* What the two halves of the generator of random kernels share. */
#pragma once
#include "tests/truth/truth.h"

/*
 * The registers of a thread's state, all set at the start and all in the digest at the end: r b32, l b64, f f32, d f64, h 16 bits,
 * x pairs of halves, p predicates; u b32 that every thread of a block has the same value of.
 */
enum { STATE_R = 8, STATE_L = 4, STATE_F = 6, STATE_D = 3, STATE_H = 4, STATE_X = 4, STATE_P = 4, STATE_U = 4 };

struct maker {
    struct buf *to;
    struct truth_rng rng;
    struct truth_random launch;
    int budget;                   /* statements left */
    unsigned labels, masks, loops, functions;
};
/* The lanes that execute what comes next: all of the block, or those of a warp that are in register %m<mask>. */
struct place { bool whole_block; unsigned mask, depth, loop_depth; };

static inline uint32_t pick(struct maker *m, uint32_t n) { return truth_below(&m->rng, n); }
/* One line of straight code on random registers of the state; only results that PTX fixes. */
void random_op(struct maker *m);
/* Appends a format whose $r $l ... are random registers, $(a|b) one of these, $#9# a number below 9. */
void code(struct maker *m, const char *fmt, ...);
void random_uniform_op(struct maker *m);   /* on u registers alone */
void random_functions(struct maker *m);    /* device functions fn0.. before the entry */
void random_call(struct maker *m);

/*
 * Where a row has elements that stand out (the distribution "spikes"): places that a kernel's loops leave out most easily, by a row's length
 * alone, most important first: the ends, the middle, what a vector or a block of 4 to 1024 elements leaves over and what is before that, the
 * ends of what threads go through in strides, quarters, powers of two. Pure.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPIKES_PLACES 32        /* an operator whose rows have one spike each has as many regimes of them, for the one row that there may be */

struct spikes {
    int64_t row, rows, each, turn, turns;       /* length of a row; how many; spikes of each; which of how many tensors of this kind */
    uint64_t seed, stream;
    int count;
    int64_t places[SPIKES_PLACES];
};

/* Fills in the places; the rest is set. */
void spikes_open(struct spikes *s);
/* Where in its row spike i of row r stands. Two of a row may be at one place. */
int64_t spikes_place(const struct spikes *s, int64_t r, int64_t i);

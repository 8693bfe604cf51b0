/*
 * One comparison on its way: what compare.c gathers tile by tile, and compare_rules.c judges. Private to the two.
 */
#pragma once
#include "gpu/judge/compare.h"

#include <math.h>

#define TILE_LEAST 32
#define TILE_MOST 1024
#define TILE_SIZE (TILE_MOST + 2 * TILE_LEAST)
#define RARE 1000                                  /* of so many one may be as far off as the furthest that rounding between steps makes */
#define MAGNITUDES 12                              /* powers of two below a tile's RMS; the last holds all that is smaller, zeros too */

struct sums {
    int64_t n;
    double reference, error, baseline, rounding;   /* sums of squares */
    double between, drift;                         /* what rounding between steps makes: squares, and squares of the tiles' means */
    double bias, inward;                           /* sums of (got - rounded reference), plain and times the reference's sign */
};
struct magnitude { int64_t n; double error, trusted, scale; };   /* sums of squares; trusted: the larger of baseline and rounding */
struct walk {
    const struct compare_case *c;
    struct compare_tolerance tolerance;
    struct compare_result *ret;
    double roundoff, floor_rms, floor_worst, floor_bias;
    double least_scale;                            /* what is smaller, but not zero, is judged as though it were so large */
    struct sums all;
    struct magnitude magnitudes[MAGNITUDES];
    double max_error, max_baseline, max_reference;
    int64_t beyond;                                /* elements over tolerance.max */
    int64_t rare, tiles, rare_tiles;               /* elements and tiles that the usual rounding between steps does not excuse */
    int64_t clear_of_ties;                         /* elements that are a number's neighbour though what is rounded is no tie; where one step may be rounding */
    int64_t inexact;                               /* elements that are not the right one; where each must be */
    int64_t most_steps;                            /* of the type's numbers, from an element to the right one; where somebody counts */
    int64_t worst_at;
    int count;                                     /* of the tile */
    int64_t at[TILE_SIZE];
    double reference[TILE_SIZE], rounded[TILE_SIZE], got[TILE_SIZE], baseline[TILE_SIZE];
    double between[TILE_SIZE];                     /* the reference with what may be rounded between steps rounded; else the reference */
    struct granted { double usual, row, element; } between_steps;   /* what rounding between steps makes of the tensor; see compare_between */
    double tile_between, max_between;              /* the largest |between - reference| of the tile, of all */
};

/* The first rule that is broken; later ones are not heard. */
void compare_fail(struct walk *w, enum compare_rule rule, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* What rounding between the steps is granted (compare_between.c); zeros where the operator has no such steps. */
struct granted compare_between(const struct compare_case *c);
/* The rows that begin at element `from` and before `end`; those of the last tile, which may be too few for one, stay in it. */
void compare_walk(struct walk *w, int64_t from, int64_t end);
/* Judges the tile that was begun, and adds it to the sums. */
void compare_tile(struct walk *w);
/* All rows, in parts on several threads (compare_parts.c). */
void compare_parts(struct walk *w);
/* The rules over the whole, when all tiles are in. */
void compare_whole(struct walk *w);

/* fmax is a call into libm; neither side is NaN here. */
static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

static inline double root_mean(double squares, int64_t n)
{
    return n ? sqrt(squares / (double)n) : 0;
}

/* What an error is held against, where the reference's RMS or largest is x: zeros are zeros, and have none. */
static inline double of_scale(const struct walk *w, double x)
{
    return x > 0 ? larger(x, w->least_scale) : 0;
}

static inline double against(double value, double allowed)
{
    return allowed > 0 ? value / allowed : value > 0 ? INFINITY : 0;
}

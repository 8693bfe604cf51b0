/*
 * Tensors of which only some rows hold anything: at a large value of an axis that does not key a shape they would be gigabytes, of which
 * a run looks at the rows that its indices name. These are there, and the first, the last, neighbours of some, and others drawn at random;
 * all else is zeros that nobody keeps: holes in the reference child's and the emulator's memory, cleared memory on a card.
 *
 * What travels between processes is compact: a tensor of `count` rows, and the list that says which rows these are. Nothing about an
 * operator is taken for granted: that the other rows hold zeros is the content of these tensors, for reference and kernels alike, and
 * a run shows that they still do.
 *
 * Pure, but for held_map; any thread.
 */
#pragma once
#include "gpu/judge/inputs.h"

#define HELD_BESIDE 4                   /* rows that indices name of which the neighbours are there too */
#define HELD_MORE (2 * HELD_BESIDE + 6) /* of all, those that no index names: the first, the last, neighbours, any */

struct held { int axis; int64_t count; };               /* axis -1: all rows of all tensors are there */
#define HELD_NONE {.axis = -1}

/* Whether the axis does not key a shape: its value is the caller's. */
bool held_free(const struct op_axis *a);
/* Whether the word is in the expression: names are letters, digits and underscores. */
bool held_mentions(const char *expression, const char *name);

/*
 * The axis, if every tensor that has it does so as its first dimension, dense, is no output, and some input's values name its rows;
 * -1: where there is none, or another axis that does not key a shape. The shape's value of it decides nothing.
 */
int held_axis(const struct shape *s, const struct tensor *tensors);
/* With so many rows of that axis as indices can name, and HELD_MORE; HELD_NONE where that is no small part of them all. */
struct held held_of(const struct shape *s, const struct tensor *tensors, int axis);
/* Whether tensor t is compact. */
bool held_is(const struct held *h, const struct op *op, int t);
/* The compact tensors of these. */
void held_tensors(const struct held *h, const struct op *op, const struct tensor *full, struct tensor ret[OP_MAX_TENSORS]);
int64_t held_row_bytes(const struct tensor *t);
/* Memory that the compact tensors take where a page is the least there is. */
int64_t held_bytes(const struct held *h, const struct op *op, const struct tensor *compact);

/* Which rows: ascending, `count` of them; inputs are those of the regime. */
void held_rows(const struct held *h, const struct shape *s, const struct tensor *compact, void *const *inputs, uint64_t seed, int64_t *ret);
/* Ascending, and rows of the axis. */
bool held_rows_fit(const struct held *h, const struct shape *s, const int64_t *rows);

/* Memory of which nothing is there yet: zeros, and no page larger than it must be. NULL: the host does not give so much. */
void *held_map(size_t bytes);
void held_unmap(void *at, size_t bytes);

/*
 * Elements of tensors as doubles, and back. Pure; any thread.
 */
#pragma once
#include "core/shape.h"

/* Elements `first` to first + count - 1 of an array, as doubles and back (nearest, ties to even). */
void values_load(enum dtype t, const void *data, int64_t first, int64_t count, double *ret);
void values_store(enum dtype t, void *data, int64_t first, int64_t count, const double *from);
/* The values as they would be after a store and a load: rounded to the type. */
void values_round(enum dtype t, const double *from, int64_t count, double *ret);
/* A tensor's elements in row-major order, whatever its strides; and back. */
void values_gather(const struct tensor *t, const void *data, int64_t first, int64_t count, double *ret);
void values_scatter(const struct tensor *t, void *data, int64_t first, int64_t count, const double *from);
/* No space between its rows. */
bool values_dense(const struct tensor *t);

/*
 * Rows of an axis that does not key a shape, as far away as a card's memory is large: on the emulator, which needs none for them.
 */
#pragma once
#include "core/shape.h"
#include "gpu/device/device.h"

struct judge;

/* Draws how far, and says which tensors are meant. False: the shape has no such axis, or it has no room. */
bool far_draw(const struct op *op, const struct shape *s, const struct tensor *tensors, struct device_far *ret);
/* In the phase `range`, when nobody else's children run: the candidate at the usual shape, near and far. What came of it goes into the phase as "far". */
bool far_run(struct judge *j, struct verdict *v, struct err *err) MUST_CHECK;

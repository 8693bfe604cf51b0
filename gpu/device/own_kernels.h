/* Our own kernels (helpers.cu, scrub.cu) on a card: see own_kernels.c. */
#pragma once
#include "gpu/device/cuda_api.h"

enum own_kernels { OWN_HELPERS, OWN_SCRUB };
bool own_kernels_load(const struct device *d, enum own_kernels which, CUmodule *ret, struct err *err) MUST_CHECK;
/* The cubin of exactly that target, as it was assembled when the program was built; NULL: there is none. */
const void *own_cubin(enum own_kernels which, const char *target, size_t *ret_bytes);

/* Kinds of distributions and what each takes: private to distributions.c, which fills, and distributions_read.c, which reads op.json. */
#pragma once
#include "gpu/judge/distributions.h"

enum {
    TAKES_MEAN = 1, TAKES_STD = 2, TAKES_LOW = 4, TAKES_SCALE = 8, TAKES_VALUE = 16, TAKES_RANGE = 32, TAKES_ENDS = 64, TAKES_EDGE = 128,
    TAKES_PART = 256, TAKES_STRETCH = 512, TAKES_SPIKES = 1024,
    TAKES_WHOLE = 2048, TAKES_POSITIVE = 4096      /* of TAKES_LOW: whole numbers; numbers above zero */
};
struct dist_kind {
    const char *name;
    void (*fill)(struct dist *d, int64_t first, int64_t count, double *ret);
    unsigned takes;
    bool floats, integers;      /* tensors it suits */
    bool independent;           /* elements may change places */
};
/* NULL: none of that name. */
const struct dist_kind *dist_kind_find(const char *name);
/* Drawn from [low, high], alike in each power of two. */
double dist_factor(double low, double high, uint64_t seed, uint64_t stream, uint64_t row);

/*
 * Large arrays that are used again. Each run of a judgement leaves images of its outputs, and each regime doubles of what is right; as fresh
 * memory they would cost more than what is done with them: the kernel clears each page that nobody has had.
 *
 * What spare_take gives may as well be freed; what spare_give takes is kept while it fits, for whoever next asks for as much. Any thread.
 */
#pragma once
#include "core/buf.h"

#include <stdint.h>

/* Content undefined: the caller writes all of it. */
void *spare_take(size_t bytes);
/* Of malloc's kind, NULL too. */
void spare_give(void *p);
/* Frees all that is kept, and keeps no more than this from now on; at first nothing is kept. */
void spare_keep(int64_t most_bytes);

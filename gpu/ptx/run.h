/* Between the files that run a launch: run.c (the launch), turns.c, block.c. */
#pragma once
#include "gpu/ptx/depth.h"

/* ---- block.c ---- */
void *aligned(size_t bytes);                     /* zeroed; free() */
void block_open(struct worker *k, struct block *b);
void block_close(struct block *b);
void block_start(struct block *b, uint64_t unit);
bool differs_by_block(const struct fill *x);     /* what a warp is told changes from block to block */

/* ---- turns.c ---- */
void *worker_main(void *worker);                 /* a host thread */
void cooperative_main(struct worker *k);

/*
 * Counting in depth, when a run asks for it: which sectors come from where, by a model of the device's caches, and what each
 * instruction did. Private to gpu/ptx.
 *
 * The interpreter calls depth_access before each access to memory, if counting is on, and nothing else; a run without it pays one
 * test of a pointer an access. Units of several host threads are handed to the cache model in the order of their numbers, so that
 * equal seeds give equal figures however the threads went.
 */
#pragma once
#include "gpu/ptx/machine.h"

/* NULL if the run does not ask. */
struct depth *depth_open(const struct machine *m, struct ptx_depth *wanted);
struct depth_worker *depth_worker_open(struct depth *d);
/* The warp's `active` lanes are about to execute a load, store, atomic or copy, or one that completes copies. */
void depth_access(struct warp *w, const struct insn *i, uint32_t active);
/*
 * A unit has ended: a block, or the blocks of a cluster; units are numbered as they are handed out. False in `whole`: with a finding,
 * and what comes later is of no interest. May wait for lower units.
 */
void depth_unit_end(struct worker *k, uint64_t unit, bool whole);
/* How long warps wait for instructions that the assembler makes more of than one: see expanded.c. `warps`: through each basic block. */
uint64_t expanded_sum(const struct ptx_module *m, const uint64_t *warps);
/* What waits for such an instruction's result waits so many cycles more than for others of its class. */
uint32_t expanded_latency(const struct ptx_module *m, const struct stmt *st);
/* Adds to the counts and fills in what was wanted; frees everything. */
void depth_close(struct depth *d, struct worker *workers, int worker_count, struct ptx_counts *counts);

/*
 * Work in parts on several threads. What the parts are is said by the work alone, never by how many threads there are: results that are
 * put together part by part, in order, are the same bits on any host.
 *
 * There is no pool to be started or ended: helpers are threads that end when no part is left, of this work or of another caller's, and
 * there are never more of them than CPUs that this process may use, LIMIT_HOST_THREADS at most. Where no thread is to be had, in a sandbox
 * or on a full host, the caller does it all. Any thread; a part may call crew_run itself.
 */
#pragma once
#include "core/buf.h"

#include <stdint.h>

#define CREW_PART_BYTES ((int64_t)4 << 20)       /* of work that memory bounds: about a millisecond; a helper's start takes a fiftieth */

/* run(ctx, 0) .. run(ctx, parts - 1), each once; returns when all are done. */
void crew_run(int64_t parts, void (*run)(void *ctx, int64_t part), void *ctx);
/* Threads that work at once, the caller among them. */
int crew_threads(void);
/* So many from now on, for a test; 0: as many as there are CPUs. */
void crew_limit(int threads);

void crew_copy(void *to, const void *from, size_t bytes);
/* The first byte that differs; -1: none. */
int64_t crew_difference(const void *a, const void *b, size_t bytes);

/* Of `count` things in parts of `each`: where part p begins, and how many it has. */
static inline int64_t crew_parts(int64_t count, int64_t each) { return count / each + (count % each != 0); }
static inline int64_t crew_part_count(int64_t count, int64_t each, int64_t part)
{
    return count - part * each < each ? count - part * each : each;
}

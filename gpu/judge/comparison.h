/* What the outputs of runs come to, against the reference and against each other: comparison.c. */
#pragma once
#include "gpu/judge/internal.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * A regime's comparison goes on beside runs, as many at once as there are CPUs: the children compute then, and this process would only
 * wait, with a card in hand. It reads what nobody changes until it is settled: the regime's inputs, reference and baseline, and outputs of
 * its own.
 */
struct comparison {
    bool waiting, running;
    atomic_bool ready;
    pthread_t thread;
    struct judge *j;
    struct judge_side *s;
    int regime;
    uint64_t poison;
    void *outputs[OP_MAX_TENSORS];
    uint8_t *written[OP_MAX_TENSORS];
    json_t *counts, *stores;            /* of that run, of a sample of the blocks: each regime has another one */
    struct compare_result results[OP_MAX_TENSORS];
    struct sampled_cover covers[OP_MAX_TENSORS];
};
/* Takes the side's outputs. */
void comparison_plan(struct comparison *c, struct judge *j, struct judge_side *s, int regime, uint64_t poison);
/* If it was planned: keeps what the baseline's run has left, and begins. NULL: nothing. */
void comparison_start(struct comparison *c);
void comparison_wait(struct comparison *c);
bool comparison_judge(const struct comparison *c, const char *phase, struct verdict *v, struct err *err) MUST_CHECK;
/* Waits, and frees its outputs. */
void comparison_done(struct comparison *c);
DEFINE_CLEANUP(comparison, struct comparison, comparison_done(it))

/* Of one round, by regime. They are settled in order. */
struct comparisons { int begun, settled, most; struct comparison list[INPUTS_MAX_REGIMES]; };
struct comparisons *comparisons_new(void);
void comparisons_free(struct comparisons *all);
DEFINE_CLEANUP(comparisons, struct comparisons *, comparisons_free(*it))
/* The last that was planned, if it is not settled; it waits until the next regime's first run is asked for: the baseline's outputs stay in its child's memory as long. */
struct comparison *comparisons_newest(struct comparisons *all);
/* The oldest, until only `left` of them or those that still go on are left. *ret_regime is the one that v is of. */
bool comparisons_settle(struct comparisons *all, int left, json_t *records, int *ret_regime, struct verdict *v, struct err *err) MUST_CHECK;

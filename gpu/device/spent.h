/*
 * Where a process's time with a card goes, by kind of work: sums since the last spent_take. The device's files add to them, the run child
 * tells them with each answer, so that a judgement can say what it cost and for what. One thread.
 */
#pragma once
#include <stdint.h>

/* X(NAME, name on the wire) */
#define SPENT_TABLE(X)                                                      \
    X(DRIVER, "driver")            /* opening the libraries, cuInit */      \
    X(DESCRIBE, "describe")        /* what the card is, NVML */             \
    X(CONTEXT, "context")                                                   \
    X(OWN_KERNELS, "own_kernels")  /* loading them */                       \
    X(MODULE, "module")            /* loading the candidate's */            \
    X(MEMORY, "memory")            /* mappings, poison, uploads */          \
    X(SCRUB, "scrub")                                                       \
    X(LAUNCH, "launch")            /* of guarded runs and probes, and waiting for them */ \
    X(TAKE, "take")                /* looking at guards, downloads */       \
    X(FREE, "free")                /* unmapping */ \
    X(DRAW, "draw")                /* of a timed block: what lies where, in what order */ \
    X(GRAPH, "graph")              /* making it */ \
    X(RESTORE, "restore")          /* waiting for the card to put everything there, and to be scrubbed and swept */ \
    X(TIMED, "timed")              /* the timed launches */ \
    X(CLOCK, "clock")              /* asking for it and for what holds it down */ \
    X(LOOK, "look")                /* at what launches left */ \
    X(REPLAY, "replay")
enum spent {
#define X(name, text) SPENT_##name,
    SPENT_TABLE(X)
#undef X
    SPENT_KINDS
};
const char *spent_name(enum spent kind);
/* From then until now (clock_mono_ns). */
void spent_add(enum spent kind, int64_t from_ns);
/* Copies the sums and starts anew. */
void spent_take(int64_t ret_ns[SPENT_KINDS]);

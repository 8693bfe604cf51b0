/*
 * A naive checker, as many publish it: allclose (1e-2 absolute and relative) on one fixed input from one fixed seed, in one pool of
 * memory where buffers lie beside each other and stay as they are between launches, the expected result among them.
 *
 * It is here to be fooled. Attacks of the corpus that claim to pass such a checker are shown to do so; no verdict rests on it. It
 * runs on the card that is asked for, in a process of its own, or on the emulator with all its checks but bounds of the whole pool
 * turned off, as a card would behave.
 *
 * The pool, each tensor at a multiple of 512 bytes, in this order: inputs and inouts, the expected results of the outputs, the
 * outputs, the workspaces; 64 KiB of zeros before and after. Three launches: the results of the first are compared, and, of an
 * operator that changes nothing in place, those of the last. What is between them is what others time.
 */
#pragma once
#include "core/candidate.h"

enum naive_outputs {
    NAIVE_ZEROS,                /* outputs hold zeros before the first launch */
    NAIVE_STALE                 /* the memory that the reference's own result was in and was given back */
};
struct naive_result {
    bool fooled;
    char text[320];             /* why not */
    uint64_t first_instructions, last_instructions;   /* thread instructions of the first launch and of the last; a card counts none */
    int64_t gpu_ns;             /* for how long it held the card */
};
/*
 * device: "sim" or "cuda:N"; card_lock: as in gpu/card_turn.h. ptx: compiled from `candidate` for this shape. False: our failure (no
 * reference, no such regime). On a card it forks: one thread at a time, and none that opens a library meanwhile.
 */
bool naive_check(const char *device, const char *card_lock, const struct shape *shape, const struct candidate *candidate, const char *ptx, size_t ptx_bytes, const char *regime,
                 enum naive_outputs outputs, struct naive_result *ret, struct err *err) MUST_CHECK;

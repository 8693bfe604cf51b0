/* What the judge says of a candidate. A closed table: name on the wire, whose fault, a sentence for a person, one for the generator. */
#pragma once
#include "core/json.h"

/* X(code, name, at fault, for a person, for the generator) */
#define VERDICT_TABLE(X)                                                                                                        \
    X(VERDICT_OK, "ok", "nobody", "The kernel is right and, on this device, at least as good as asked.", "Accepted. Try to beat it.") \
    X(VERDICT_REJECTED_PLAN, "rejected.plan", "candidate", "The launch plan is not acceptable.", "Fix the plan: sizes, names and arguments must be within the contract.") \
    X(VERDICT_REJECTED_FORBIDDEN, "rejected.forbidden", "candidate", "The code uses a construct that is not allowed.", "Remove the named construct, or declare it where the contract has a declaration for it.") \
    X(VERDICT_COMPILE_ERROR, "compile_error", "candidate", "The source does not compile.", "Fix the first error of the log.") \
    X(VERDICT_UNSUPPORTED_ON_SIM, "unsupported_on_sim", "nobody", "The emulator does not know an instruction of this kernel, and there is no GPU here.", "Avoid the named instruction, or judge on a GPU.") \
    X(VERDICT_WRONG_RESULT, "wrong_result", "candidate", "A result differs from the reference by more than the tolerance.", "Look at the worst element's index: indexing, a missing term, or too little precision.") \
    X(VERDICT_NON_FINITE, "non_finite", "candidate", "A result is NaN or infinite where the reference is not.", "Look for overflow, division by zero, or an unwritten value.") \
    X(VERDICT_OUT_OF_BOUNDS, "out_of_bounds", "candidate", "The kernel touches memory outside its buffers.", "Bound the index that the named thread used.") \
    X(VERDICT_INPUT_MODIFIED, "input_modified", "candidate", "The kernel changes something that it must leave alone.", "Write to outputs, workspaces and the parts of inout tensors that the operator changes, to nothing else.") \
    X(VERDICT_UNINITIALISED_READ, "uninitialised_read", "candidate", "The kernel reads memory that nothing has written.", "Initialise shared memory, workspaces and registers before use; outputs hold poison at the start.") \
    X(VERDICT_RACE, "race", "candidate", "Two threads touch the same memory without order.", "Put a barrier between the two accesses.") \
    X(VERDICT_BARRIER_DIVERGENCE, "barrier_divergence", "candidate", "Not all threads reach the same barrier.", "Move the barrier out of divergent code.") \
    X(VERDICT_MISALIGNED, "misaligned", "candidate", "An access is not aligned to its size.", "Tensors are aligned as the operator says and no more; strides and offsets count too.") \
    X(VERDICT_NON_DETERMINISTIC, "non_deterministic", "candidate", "Equal inputs gave different bits.", "Fix the race, or declare atomics if the order of additions varies.") \
    X(VERDICT_STATE_CARRIED, "state_carried", "candidate", "The kernel keeps something from one launch to the next.", "A launch may depend on its inputs alone.") \
    X(VERDICT_FAULT, "fault", "candidate", "The kernel ended with a fault.", "Look for a trap, a failed assertion or an illegal access.") \
    X(VERDICT_TIMEOUT, "timeout", "candidate", "The kernel or its compilation took too long.", "Look for an endless loop, or generate less code.") \
    X(VERDICT_RESOURCE_LIMIT, "resource_limit", "candidate", "The kernel needs more than there is or is allowed.", "Use fewer registers, less shared memory, smaller workspaces or less code.") \
    X(VERDICT_TIMERS_DISAGREE, "timers_disagree", "candidate", "The timers do not agree about this kernel.", "Do all the work inside the launch.") \
    X(VERDICT_IMPLAUSIBLE, "implausible", "candidate", "The kernel is faster than physics allows.", "Do the whole work.") \
    X(VERDICT_NOT_FASTER, "not_faster", "candidate", "The kernel is right, but not faster than the baseline.", "Right but slow: change the structure or the parameters.") \
    X(VERDICT_UNCLEAR, "unclear", "nobody", "The kernel is right; whether it is faster could not be settled.", "Aim for a larger gain than the noise.") \
    X(VERDICT_NOT_CONFIRMED, "not_confirmed", "candidate", "The retest did not confirm the gain.", "The gain was noise: look for a real one.")

enum verdict_code {
#define X(code, ...) code,
    VERDICT_TABLE(X)
#undef X
    VERDICT_COUNT
};

const char *verdict_name(enum verdict_code code);
const char *verdict_fault(enum verdict_code code);
const char *verdict_person(enum verdict_code code);
const char *verdict_generator(enum verdict_code code);
bool verdict_code_parse(const char *name, enum verdict_code *ret);
/* ok, not_faster, unclear, not_confirmed: the kernel computes the right thing. */
bool verdict_is_correct(enum verdict_code code);

struct verdict {
    enum verdict_code code;
    char phase[16];          /* "compile", "correct", ... */
    char text[512];          /* what exactly, one sentence; clean UTF-8 */
    json_t *detail;          /* owned; figures of the fault (index, got, wanted, thread, buffer, line, log); may be NULL */
};
void verdict_done(struct verdict *v);
void verdict_set(struct verdict *v, enum verdict_code code, const char *phase, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* {"code","phase","fault","text","for_person","for_generator","detail"}; new reference. */
json_t *verdict_encode(const struct verdict *v);
bool verdict_parse(const json_t *doc, struct verdict *ret, struct err *err) MUST_CHECK;
DEFINE_CLEANUP(verdict, struct verdict, verdict_done(it))

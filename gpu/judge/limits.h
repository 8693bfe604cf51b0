/*
 * What a judgement may take, in one table. A candidate that reaches one of its limits gets a verdict; limits that only we can
 * reach are failures of ours.
 */
#pragma once
#include <stdint.h>

#define LIMIT_SECOND ((int64_t)1000000000)
#define LIMIT_MIB ((int64_t)1 << 20)

/* X(NAME, value, why) */
#define LIMIT_TABLE(X)                                                                                                                  \
    X(PTX_BYTES, 8 * LIMIT_MIB, "a hand-written kernel is far below; the parser is linear in it")                                       \
    X(LOG_BYTES, 16 * 1024, "a compiler's log is for a person or a prompt: its first errors matter")                                    \
    X(CUBIN_BYTES, 32 * LIMIT_MIB, "what is served")                                                                                    \
    X(TENSOR_BYTES, 2048 * LIMIT_MIB, "of one tensor: travels in one frame to a child")                                                 \
    X(ALL_TENSOR_BYTES, 6144 * LIMIT_MIB, "of all tensors of a shape: one set lives here, one in a child, doubles in the reference")    \
    X(KEEP_BYTES, 512 * LIMIT_MIB, "inputs and reference results of all regimes are kept between phases below this, made again above")  \
    X(KEEP_CARD_BYTES, 8192 * LIMIT_MIB, "the same with a card, which waits while they are made again; at most a sixteenth of the host")  \
    X(RANGE_WHOLE_BYTES, 40960 * LIMIT_MIB, "of all tensors where axes that do not key a shape are tried at large values, most of them holes: 65536 states of half a MiB") \
    X(RANGE_HOLES_BYTES, 98304 * LIMIT_MIB, "address space for them, beyond what a child else may have: as doubles, or twice in the emulator")  \
    X(RANGE_BYTES, 512 * LIMIT_MIB, "of the rows that hold something of them, on a card")                                                \
    X(RANGE_DENSE_BYTES, 128 * LIMIT_MIB, "of all tensors, on a card, where all rows count: a second of a processor is 40 MiB")             \
    X(RANGE_SIM_BYTES, 16 * LIMIT_MIB, "what is held or all that counts, on the emulator")                                                \
    X(RANGE_SIM_RETEST_BYTES, 96 * LIMIT_MIB, "the same before a kernel is served, where less would not tell 8 bits")                     \
    X(FAR_BYTES, 262144 * LIMIT_MIB, "of all tensors with such an axis, where its rows are only said to be there: the memory of the largest cards")  \
    X(COMPILE_CPU_SECONDS, 30, "NVRTC takes 0.3 s for a kernel with the usual headers")                                                 \
    X(COMPILE_WALL_NS, 60 * LIMIT_SECOND, "twice the CPU's, for a busy machine")                                                        \
    X(COMPILE_MEMORY_BYTES, 4096 * LIMIT_MIB, "address space; NVRTC maps about 1 GiB")                                                  \
    X(TRITON_CPU_SECONDS, 60, "python, Triton's import (1 s) and a kernel: 2 to 5 s in all")                                              \
    X(TRITON_WALL_NS, 60 * LIMIT_SECOND, "of the source's own program: one that sleeps ends here too")                                  \
    X(TRITON_MEMORY_BYTES, 8192 * LIMIT_MIB, "address space: Triton's library maps 0.5 GiB, torch, where a source imports it, more")    \
    X(TRITON_FILE_BYTES, 32 * LIMIT_MIB, "of each file that it writes, and of its folder where that is private")                       \
    X(TRITON_ANSWER_BYTES, 16 * 1024, "what it says of its kernel: eight numbers and a name")                                           \
    X(PYTHON_WALL_NS, 20 * LIMIT_SECOND, "asking the host's python where its files are: 50 ms")                                         \
    X(CC_CPU_SECONDS, 20, "a reference is a page of C; its compiler takes 0.1 s")                                                        \
    X(CC_WALL_NS, 40 * LIMIT_SECOND, "twice the CPU's, for a busy machine")                                                             \
    X(CC_MEMORY_BYTES, 1024 * LIMIT_MIB, "address space of each of the compiler's programs")                                            \
    X(CC_FILE_BYTES, 16 * LIMIT_MIB, "of what it writes: temporary files and the library")                                              \
    X(REFERENCE_SO_BYTES, 4 * LIMIT_MIB, "a reference as a library: 16 KiB is usual")                                                   \
    X(REFERENCE_C_BYTES, LIMIT_MIB, "its source")                                                                                       \
    X(REFERENCE_CPU_SECONDS, 3600, "all regimes of the largest shapes")                                                                  \
    X(REFERENCE_WALL_NS, 300 * LIMIT_SECOND, "one regime")                                                                              \
    X(CANARIES_WALL_NS, 20 * LIMIT_SECOND, "an operator's canaries, all regimes of one choice of dtypes at a small shape: 0.2 s")          \
    X(REFERENCE_MEMORY_BYTES, 28672 * LIMIT_MIB, "address space; doubles for all tensors")                                              \
    X(RUN_SIM_CPU_SECONDS, 1800, "of all regimes and host threads together; each run has its own wall limit below")                     \
    X(RUN_SIM_MEMORY_BYTES, 24576 * LIMIT_MIB, "address space; tensors twice, shadow bits, the emulator's arenas")                      \
    X(RUN_CUDA_CPU_SECONDS, 300, "a host thread that waits for the card")                                                               \
    X(RUN_CUDA_MEMORY_BYTES, 16384 * LIMIT_MIB, "data segment; tensors twice and the driver's own")                                     \
    X(RUN_WALL_NS, 60 * LIMIT_SECOND, "one guarded run of the plan; on the emulator the largest decode shapes take seconds")            \
    X(RUN_CUDA_WALL_NS, 10 * LIMIT_SECOND, "one guarded run on a card; the kernels of interest take microseconds")                      \
    X(RUN_CUDA_LEAST_NS, 2 * LIMIT_SECOND, "what a run on a card is always allowed, uploads and all: see run_card_wall_ns")                 \
    X(RUN_WALL_LEAST_NS, 10 * LIMIT_SECOND, "a candidate may take some times the baseline's time on the emulator, but never less than this")  \
    X(SLOW_BYTES, 4 * LIMIT_MIB, "of a regime's tensors a second, at least, all that is done with them: inputs, reference, runs, comparisons; a host alone does ten times that") \
    X(SLOW_FLOPS, 50000000, "of an operator's work a second, at least, as references and the emulator do it; more than ten times that on a host alone")  \
    X(PROBE_WALL_NS, 2 * LIMIT_SECOND, "of repeats, and of launches in a chain; what was done by then is told")                           \
    X(SERIES_TRIAGE_NS, LIMIT_SECOND / 20, "of a series of launches on a card: a thousand of 5 us, with what is done between them")         \
    X(SERIES_NS, LIMIT_SECOND / 2, "the same in a full judgement")                                                                      \
    X(SERIES_LEAST_NS, 2 * LIMIT_SECOND, "what the launches take at most that a series makes in any case: a hundred of 20 ms")             \
    X(ESTIMATE_WALL_NS, 10 * LIMIT_SECOND, "the run behind an estimate: a setting that takes longer is not worth one")                    \
    X(ESTIMATES, 64, "of one request")                                                                                                    \
    X(EMULATED_INSTRUCTIONS, 8 * LIMIT_SECOND, "of one launch: beyond it a sample of the blocks is emulated; decode shapes stay below")       \
    X(EMULATED_CPU_NS, 12 * LIMIT_SECOND, "the same in time, for what takes more of it an instruction: matrix units")                    \
    X(THREAD_INSTRUCTIONS, 60 * LIMIT_SECOND, "of one run where no baseline says what is usual: a minute at a billion a second")        \
    X(THREAD_INSTRUCTIONS_LEAST, 2 * LIMIT_SECOND, "never less than this: two seconds")                                                 \
    X(TIMES_BASELINE, 64, "a candidate may execute this many times the baseline's thread instructions before it is an endless loop")    \
    X(STACK_BYTES, 4096 * LIMIT_MIB, "local memory of all threads that a card can hold: it sets that aside at the first launch")            \
    X(ANSWER_GRACE_NS, 20 * LIMIT_SECOND, "what a child may take on top of a run's own limit: upload, download, a busy machine")        \
    X(START_WALL_NS, 30 * LIMIT_SECOND, "from exec to the child's greeting")                                                            \
    X(CUDA_OPEN_WALL_NS, 60 * LIMIT_SECOND, "driver and context; 0.13 s on an idle machine")                                            \
    X(TIME_SETUP_WALL_NS, 60 * LIMIT_SECOND, "buffer sets of 5 x L2 and a graph")                                                       \
    X(TIME_BLOCK_WALL_NS, 20 * LIMIT_SECOND, "one graph, at most: block_card_wall_ns")                                                  \
    X(TIME_WALL_NS, 15 * LIMIT_SECOND, "all samples of one occasion; what is there by then must do")                                    \
    X(TIME_AIM_NS, LIMIT_SECOND / 2, "GPU time to sum up a side for a published figure (nvbench's floor)")                              \
    X(GRAPH_NS, 400000, "least length of one graph: the events' half-microsecond step is 0.13 % of it")                                 \
    X(GRAPH_MAX_LAUNCHES, 1024, "of one graph")                                                                                         \
    X(SETS_BYTES, 8192 * LIMIT_MIB, "buffer sets of one side, where long graphs want more of them than L2 does")                        \
    X(FURTHER_BYTES, LIMIT_MIB, "of a tensor with structure, of which timed launches have several contents: indices are far below")              \
    X(BUFFER_SETS, 4096, "of one side")                                                                                                 \
    X(EAGER_LAUNCHES, 64, "one at a time, of one job")                                                                                  \
    X(ALONE_WATCH_NS, LIMIT_SECOND / 50, "a neighbour that launches once in this time is seen; half of it in triage")                   \
    X(ALONE_GAP_NS, 100000, "a shorter pause is no other process: time slices are 300 us and more")                                     \
    X(OTHERS_BYTES, 200 * LIMIT_MIB, "of a card's memory in use before we are on it: a process's context takes more")                                                                                                 \
    X(HOST_THREADS, 16, "that make, compare and copy tensors in one process, where there are so many CPUs: memory gives no more")         \
    X(GRACE_NS, LIMIT_SECOND / 5, "from SIGTERM to SIGKILL for a child")

enum {
    LIMIT_COUNT_ = 0
#define X(name, value, why) +1
    LIMIT_TABLE(X)
#undef X
};
#define X(name, value, why) static const int64_t LIMIT_##name __attribute__((unused)) = value;
LIMIT_TABLE(X)
#undef X

/*
 * The judge: one candidate, one shape, one verdict. This is the trusted supervisor; compiling, the reference and every run
 * happen in sandboxed children of this program (gpu/sandbox), spoken to in frames over one socket each.
 *
 * Secrets (seeds, expected results, the other side's results) stay here. A candidate's fault is a verdict; what fails on our
 * side, a child that ends without a cause that is certain included, is a `struct err` and the caller judges again.
 * The program must call child_main first thing when argv[1] is "child" (`PROGRAM child ROLE ...`).
 *
 * FIGURES (judge_result.figures, what the search and the dashboard read):
 *   {"evidence":"emulated"|"measured", "mode":"estimate"|"graph-rotated",
 *    "time_ns":N, "baseline_ns":N,                      of one launch of the whole plan
 *    "speedup":{"median","low","high"},                 baseline / candidate; equal on sim, 99 % interval on a card; 1,1,1 for a baseline
 *    "decision":"faster"|"same"|"slower"|"unclear"|"baseline", "decided_by":"measurement"|"estimate" (then with a margin of 2 %),
 *    "bound":"dram"|"latency"|...|null, "occupancy":0..1|null,
 *    "terms":{...}|null,                                sim: the estimate's terms by step (device.estimate)
 *    "resources":[{"kernel","registers","shared_bytes","local_bytes","spill_bytes"}],
 *    "roofline":{"bytes","flops","floor_ns","fraction","limit":"memory"|"compute"|"launch","ceiling":{"bytes_per_ns","memory_ns","fraction"}|null,"notes":[..]},
 *    "modes":{"graph-rotated":{..},"cold-isolated":{..},"eager":{..}}|null,   on a card; the last two not in triage. Each with its timer,
 *                                                       both sides' quartiles and its own ratio; never compared across modes
 *    "rules":[12 of {"rule","what","outcome":"ok"|"flag"|"reject"|"not_done","found"|"why"?,"figures"?}],
 *    "gpu_ns":{"start_up":N,"correct":N,"time":N,...,"all":N},    on a card: for how long each phase held it; start_up: of drivers and contexts;
 *                                                       from the first process that opens it to the end of the last, card_hold.c
 *    "card_spent_ns":{phase:{"job.open":N,"context":N,...}}    on a card: what its children say that they did meanwhile, by job and by kind
 *                                                       of work (gpu/device/spent.h); two children at once count twice
 *    "counts":[...]|null,                               sim: what each step did
 *    "lines":[{"step","line"|"ptx_line","thread_instructions","warp_instructions","global_sectors","asked_sectors","shared_requests",
 *              "shared_wavefronts"}...]|absent,         by the emulator: the source's lines with the most instructions, at most 12
 *    "samples":{"unit":"ns per launch","launches":N,"baseline":[...],"candidate":[...]}|null,
 *    "statistics":{...}|null, "emulate_note":"..."|absent}
 * Present as far as the judgement came; time_ns and speedup whenever the verdict is of the correct kind.
 */
#pragma once
#include "core/candidate.h"
#include "core/verdict.h"
#include "gpu/device/device.h"

/*
 * Comma-separated: audit (of the launches by a tracing library), watch (of who else is on the card, by NVML), private-memory (kernels reach
 * no memory of the host), emulation (of all blocks), or none. Without private-memory nothing is judged on such a host; what else is
 * missing in a full judgement holds the kernel until an admin has looked, and stands in the certificate.
 */
#define NEEDS_DEFAULT "audit,watch,private-memory,emulation"
struct judge_config {
    const struct op_set *ops;
    const char *cuda_home;              /* NULL: look */
    const char *python;                 /* for language triton; NULL: $PROTEUS_PYTHON, then python3 */
    const char *device;                 /* "auto", "sim", "cuda:N", "cuda:N,cuda:M": a retest goes to another than the first where one is free */
    const char *sandbox_minimum;        /* level; NULL: "none" */
    const char *need;                   /* what a verdict on a card must rest on: NEEDS_DEFAULT where NULL */
    int threads;                        /* of the emulator; 0: one a CPU */
    const char *card_lock;              /* files of this name, ".cuda:N" behind it: who has one locked has the card. NULL: the cards are ours */
    int64_t run_wall_ns;                /* of one guarded run; 0: the table's (tests shorten it) */
    int64_t compile_cpu_seconds;        /* of a compile child; 0: the table's (tests shorten it) */
    int64_t canaries_wall_ns;           /* of an operator's canaries, its reference with them; 0: the table's (tests shorten it) */
    int64_t sample_budget;              /* thread instructions of a launch, beyond which a sample of its blocks is emulated; 0: the table's */
    int64_t sample_cpu_ns;              /* the same in CPU time; 0: the table's (tests shorten it) */
    bool own_device;                    /* tests: the children bring a device of their own, of whatever kind is asked for */
};

#define JUDGE_MAX_BLOBS 4
struct judge_blob { const char *name; struct buf bytes; };
struct judge_result {
    struct verdict verdict;
    json_t *figures;                    /* object */
    json_t *certificate;                /* NULL unless the kernel is correct */
    int blob_count;
    struct judge_blob blobs[JUDGE_MAX_BLOBS];   /* "kernel.ptx", "kernel.cubin" where there are any; "baseline": its source, where there was one */
    int64_t gpu_ns;                     /* time that a card was held */
};
void judge_result_done(struct judge_result *r);
DEFINE_CLEANUP(judge_result, struct judge_result, judge_result_done(it))

typedef void judge_progress_fn(void *ctx, const json_t *phase);
typedef bool judge_cancelled_fn(void *ctx);     /* looked at about every 100 ms; true gives ERR_CONFLICT "cancelled" */

/* task: as documented in gpu/spawn.h. False: our failure, judge again. */
bool judge_run(const struct judge_config *config, const json_t *task, judge_progress_fn *progress, judge_cancelled_fn *cancelled,
               void *ctx, struct judge_result *ret, struct err *err) MUST_CHECK;
/*
 * Estimates of candidates that a search thinks of, by the emulator, without a card and without a verdict: request {"shape","op_digest"?,
 * "candidates":[...at most 64]}, *ret {"estimates":[{"ns": N | null where it does not build or run,"why"?,"resources"?}, one each]}.
 */
bool judge_estimates(const struct judge_config *config, const json_t *request, judge_cancelled_fn *cancelled, void *ctx, json_t **ret,
                     struct err *err) MUST_CHECK;
/*
 * The card's counters of a candidate that was judged right: request {"shape","op_digest"?,"candidate"}, *ret {"gpu_ns"} and one of
 *   "profile": {"evidence":"measured","mode":"cold-isolated","device","driver","passes","steps":[{figures,"stalls":{..}}]} (gpu/device/profile.h),
 *   "refused": why this host, card or driver does not count,    "fault": the verdict where it does not build or run any more.
 * New reference. Never in a process whose times are published.
 */
bool judge_profile(const struct judge_config *config, const json_t *request, judge_cancelled_fn *cancelled, void *ctx, json_t **ret,
                   struct err *err) MUST_CHECK;
/* {"devices","sandbox","toolkit","version"}: gpu/spawn.h. New reference. */
bool judge_devices(const struct judge_config *config, json_t **ret, struct err *err) MUST_CHECK;

/*
 * The operator's baseline on each of `count` (at most INPUTS_MAX_REGIMES) sets of inputs, by tensor; NULL for outputs. outputs[i][t]
 * is filled for inouts and outputs.
 */
bool judge_baseline_outputs(const struct judge_config *config, const struct shape *shape, int count, void *const (*inputs)[OP_MAX_TENSORS],
                            void *(*outputs)[OP_MAX_TENSORS], struct err *err) MUST_CHECK;
/*
 * Whether an operator can be judged by: regimes and tolerance are sound, the baseline is right in every regime, and no canary
 * (gpu/judge/canary.h) passes, for each of its dtypes at a small shape. ERR_UNPROCESSABLE names what is wrong with it, a canary by
 * its name. *ret: {"op","version","digest","caught","skipped","shapes":[{"shape","canaries":[..]}]}, also where it is refused for a
 * canary; else untouched. New reference. *ret_where (may be NULL): "/op", "/reference" or "/baseline", what is at fault.
 */
bool judge_check_op(const struct judge_config *config, const struct op *op, json_t **ret, const char **ret_where, struct err *err) MUST_CHECK;

/* An operator that comes as text. `where` is a pointer into the request, "" when it passed; `why` what is wrong there. */
struct op_answer {
    char where[32];
    struct buf why;
    struct buf library;                 /* reference.so */
    struct hash_hex digest;
    json_t *report;                     /* judge_check_op's */
};
void op_answer_done(struct op_answer *a);
DEFINE_CLEANUP(op_answer, struct op_answer, op_answer_done(it))
/*
 * request: {"op":{...op.json},"reference":"...C...","baseline":{...candidate}}. Compiles the reference with the host's C compiler in a
 * sandbox, then judge_check_op. False: our failure (no compiler, no toolkit, a sandbox below the least).
 */
bool judge_build_op(const struct judge_config *config, const json_t *request, struct op_answer *ret, struct err *err) MUST_CHECK;

/* The children. device: NULL for device_find (tests give one that lies). Returns the exit status. */
int child_main(int argc, char **argv, const struct device_ops *device);

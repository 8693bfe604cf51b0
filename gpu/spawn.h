/*
 * The server's end of the judge: starts `proteus-gpu` (or `--runner COMMAND proteus-gpu`), sends one task, takes progress and
 * the answer. The only header of gpu/ that server/ includes. Calls block; each is for a thread of its own, several may run at once.
 *
 * A judge that crashes, hangs, prints garbage or never answers is ERR_UPSTREAM or ERR_TIMEOUT: the caller judges again.
 */
#pragma once
#include "core/candidate.h"
#include "core/verdict.h"

struct spawn_config {
    const char *program;            /* path of proteus-gpu; NULL: beside this program */
    const char *runner;             /* words put in front of it ("srun -p gpu -n1"); NULL or "": none. Split at spaces, no shell */
    const char *ops_dir;            /* NULL: the judge's own */
    const char *cuda_home;          /* NULL: the judge looks */
    const char *python;             /* for candidates in Triton; NULL: the judge looks */
    const char *sandbox_minimum;    /* "none", "limits", "filtered", "isolated"; NULL: none */
    const char *need;               /* what a verdict on a card must rest on (gpu/judge/judge.h); NULL: the judge's default */
    const char *device;             /* "auto", "sim", "cuda:N"; several cards, comma between */
    const char *threads;            /* of its emulator; NULL: one a CPU */
    const char *card_lock;          /* file that judges of one host share, ".cuda:N" behind it for each card; NULL: there is one at a time */
    int64_t wall_limit_ns;          /* of one judgement; after it the judge is killed. Large tensors get more, time in line for a card is not counted: spawn_patience.c */
};

struct spawn_blob { char name[64]; struct buf bytes; };   /* "kernel.ptx", "kernel.cubin", "baseline" (its source) */
struct judge_answer {
    struct verdict verdict;
    json_t *figures;                /* time_ns, speedup{median,low,high}, evidence, mode, resources, bound, ... (see judge/figures) */
    json_t *certificate;            /* all but what only the server knows; NULL unless the kernel is correct */
    int blob_count;
    struct spawn_blob blobs[8];
    int64_t gpu_ns, wall_ns;        /* spent */
};
void judge_answer_done(struct judge_answer *a);
DEFINE_CLEANUP(judge_answer, struct judge_answer, judge_answer_done(it))

/*
 * FIGURES: {"evidence":"emulated"|"measured", "mode":"estimate"|"graph-rotated", "time_ns", "baseline_ns",
 *   "speedup":{"median","low","high"}, "decision":"faster"|"same"|"slower"|"unclear"|"baseline", "bound", "occupancy", "terms",
 *   "resources":[{"kernel","registers","shared_bytes","local_bytes","spill_bytes"}], "counts", "samples", "statistics",
 *   "roofline":{"bytes","flops","memory_ns","compute_ns","launch_ns","floor_ns","limit","fraction"}}
 * (in full: gpu/judge/judge.h). An empty object where the judgement did not come so far; time_ns, speedup and evidence are there
 * whenever the verdict is ok, not_faster, unclear or not_confirmed: checked here. A baseline has speedup 1, 1, 1.
 */
/* Called on the judging thread for each phase that begins or ends: {"phase","state":"start"|"end","ms"?,...}. Borrowed. */
typedef void judge_progress(void *ctx, const json_t *phase);
/* Looked at about every 100 ms; true kills the judge and gives ERR_CONFLICT "cancelled". */
typedef bool judge_cancelled(void *ctx);

/*
 * task: {"shape":{...},"candidate":{...},"op_digest":"...","baseline":{...candidate}|null,"mode":"triage"|"full"|"retest",
 *        "baseline_time_ns"?,"baseline_ptx"?,"baseline_triton"?,"job","candidate_id"}. `baseline` null: this *is* the baseline (verdict ok when it is
 * right). baseline_ptx: the blob kernel.ptx of that judgement, as text, for exactly this shape: saves compiling it again (0.3 s).
 */
bool spawn_judge(const struct spawn_config *config, const json_t *task, judge_progress *progress, judge_cancelled *cancelled,
                 void *ctx, struct judge_answer *ret, struct err *err) MUST_CHECK;
/*
 * An operator to be registered, {"op":{...},"reference":"...","baseline":{...}}: its reference is compiled and it is checked, all of it
 * in the judge's sandbox. *ret_where: "" where it passed, else a pointer into the request, and *ret_why what is wrong there.
 */
struct op_verdict {
    char where[32];
    struct buf why;
    struct buf library;             /* reference.so, for the judge's host */
    struct hash_hex digest;         /* op_load's */
    json_t *report;                 /* {"caught","skipped","shapes":[{"shape","canaries":[...]}]} */
};
void op_verdict_done(struct op_verdict *v);
DEFINE_CLEANUP(op_verdict, struct op_verdict, op_verdict_done(it))
bool spawn_op(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, struct op_verdict *ret,
              struct err *err) MUST_CHECK;
/*
 * What the emulator estimates of candidates, without a card and without judging them: request {"shape","op_digest"?,"candidates":[...]},
 * *ret a list as long: [{"ns": N | null,"why"?,"resources"?}]. New reference.
 */
bool spawn_estimates(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, json_t **ret,
                     struct err *err) MUST_CHECK;
/*
 * What the card's counters say of a candidate that was judged right (gpu/judge/judge.h): request {"shape","op_digest"?,"candidate"}.
 * refused: this host, card or driver does not count, and will not tomorrow either. Neither that nor a profile: it did not run, and why.
 */
struct profile_answer { json_t *profile; /* owned; NULL: none */ bool refused; char why[300]; int64_t gpu_ns; };
bool spawn_profile(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, struct profile_answer *ret,
                   struct err *err) MUST_CHECK;
/* {"devices":[...],"sandbox":{"level","layers":[...]},"toolkit":{"version"|null,"missing"?,"triton":{"version"|null,"python"|"missing"}},"version"}; new reference. */
bool spawn_devices(const struct spawn_config *config, json_t **ret, struct err *err) MUST_CHECK;

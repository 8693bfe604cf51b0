/*
 * What the files of the judge share: one judgement's state, and the phases that work on it. Only gpu/judge includes this.
 *
 * Two sides go the same way: the candidate, and the baseline that it is measured against (its errors are the yardstick, its time the
 * time to beat). A baseline that is judged itself is the only side. What happens to the baseline of a candidate is never the
 * candidate's verdict: it is a failure of ours.
 */
#pragma once
#include "gpu/judge/audit_rules.h"
#include "gpu/judge/children.h"
#include "gpu/judge/compare.h"
#include "gpu/judge/held.h"
#include "gpu/judge/inputs.h"
#include "gpu/judge/judge.h"
#include "gpu/judge/limits.h"
#include "gpu/judge/rules.h"
#include "gpu/judge/shared.h"
#include "gpu/judge/stage.h"
#include "gpu/judge/stats.h"

#include <limits.h>

enum { CANDIDATE, BASELINE, SIDES };
enum judge_mode { MODE_TRIAGE, MODE_FULL, MODE_RETEST };

struct judge_kernel { char name[PLAN_KERNEL_SIZE]; int registers, spill_bytes; int64_t shared_bytes, local_bytes; };
struct judge_side {
    const char *name;                   /* "candidate", "baseline" */
    bool present;
    struct candidate candidate;
    struct plan plan;
    json_t *plan_doc;
    struct buf options;
    struct child compile, run, triton;
    json_t *triton_request, *triton_made;       /* language triton: what its compiler is told (candidate_triton), and what it says */
    bool audited;                       /* its next run child is watched by a tracing library, and used for nothing but the audit */
    bool profiled;                      /* the same with the card's counters: for a profile and nothing else */
    bool compile_asked, assemble_asked;
    struct buf ptx, cubin;
    char *log;
    int kernel_count;
    struct judge_kernel kernels[32];
    json_t *resources;                  /* by launch of the plan, for the run child */
    bool shaped, open_asked, opened, loaded;
    bool runs_regime;                   /* the baseline's run of a regime was asked and not yet taken */
    bool has_inputs;                    /* of the regime that it runs next */
    json_t *info;                       /* of the device in its run child */
    struct shared out;                  /* where its run child writes */
    void *outputs[OP_MAX_TENSORS];      /* copies, of the last run; NULL for inputs */
    bool sampled;                       /* the last run was of a sample of the blocks, and so is all that follows on this emulator */
    uint8_t *written[OP_MAX_TENSORS];   /* then: by element of what is not an input, who stored it (DEVICE_TAG), 0 nobody; else NULL */
    json_t *stores;                     /* and what the drawn blocks stored, by step and tensor; of the last run in lockstep */
    int run_regime;                     /* of the last run */
    uint64_t run_poison;
    json_t *counts, *lines;             /* of the last run in lockstep */
    bool exploring;                     /* the run that was asked for explores */
    int64_t run_asked_ns, run_deadline_ns;
    int64_t run_ns;                     /* what its last run took, by the child */
    double estimate_ns;
    json_t *estimate_terms;
    int timed_sets;                     /* buffer sets in its run child */
    uint64_t timed_order;               /* seed of the order of its last timed graph */
};

/* Inputs, reference results and the baseline's own results of one regime. */
struct judge_regime {
    uint64_t seed;
    bool made, asked, referenced;
    struct shared in;
    void *inputs[OP_MAX_TENSORS];       /* into `in` */
    double *reference[OP_MAX_TENSORS];
    void *baseline[OP_MAX_TENSORS];
    bool baseline_ran;
};

struct judge_timing {                   /* one occasion */
    bool measured;
    double candidate_ns, baseline_ns;
    struct stats_side candidate, baseline;      /* of the samples, where measured */
    double wall_gain;                   /* by the wall clock; 0 not known */
    struct rules rules;                 /* 7, 11 and 12 */
    struct stats_interval speedup;
    enum stats_decision decision;
    json_t *record;                     /* for the certificate */
    json_t *samples;
    struct stats_pair *pairs;           /* that count; only where measured */
    int pair_count;
};

#define JUDGE_MAX_CARDS 8

enum need { NEED_AUDIT, NEED_WATCH, NEED_MEMORY, NEED_EMULATION, NEEDS };

struct judge {
    const struct judge_config *config;
    struct child_watch watch;
    judge_progress_fn *progress;
    void *ctx;
    int64_t started_ns;
    int64_t began_ns;                   /* the same by clock_mono_ns */
    enum judge_mode mode;
    const json_t *task;
    unsigned needs;                     /* bits by enum need */
    const struct op *op;
    struct stage operator_folder;       /* the one place where a child sees it */
    bool exact_axes;                    /* the shape is ours: axes that are not keyed stay as they are given */
    struct shape shape;
    struct tensor tensors[OP_MAX_TENSORS];      /* as children and we hold them: compact, where there is an axis in `held` */
    struct held held;                   /* of which rows are there at large values of an axis that does not key the shape; else none */
    struct shape wide;                  /* the same with large values of the axes that do not key it, drawn in secret; while `ranged` */
    struct held wide_held;              /* what will be `held` then */
    bool ranged;
    struct toolkit_paths toolkit;
    struct python_paths *python;        /* once a side needs it */
    char device[16];                    /* "sim", "cuda:0": where runs go now; cards.c */
    int card_count;
    char cards[JUDGE_MAX_CARDS][16];    /* where they may go: the first, and others for a retest */
    unsigned cards_unfit;               /* bits by card: not the same as the first, or does not work */
    char why_this_card[200];            /* why the last occasion of a retest is not on another card than the first; "": it is, or there is none */
    bool on_card;
    struct judge_side sides[SIDES];
    json_t *ended;                      /* which processes an occasion of a retest ran in, once they are gone; NULL: they are there. Owned */
    struct child reference;
    struct shared reference_out, scratch_in, spare_in;
    int regime_count;
    struct judge_regime regimes[INPUTS_MAX_REGIMES];
    bool keep_regimes;                  /* few enough bytes to keep them all */
    uint64_t poison[2];
    void *typical[OP_MAX_TENSORS];      /* what the candidate made of the typical regime; NULL for inputs */
    void *further[DEVICE_MAX_CONTENTS - 1][OP_MAX_TENSORS];     /* of timed launches, what the typical regime's inputs may be besides; NULL: no need */
    uint64_t further_seeds[DEVICE_MAX_CONTENTS - 1];
    uint64_t chain_seed;                /* of the probe's first chained launch, whose inputs were made while no card waited for them */
    void *chain_made[OP_MAX_TENSORS];
    bool emulated;                      /* the emulate phase ran to its end on this candidate */
    uint64_t instruction_limit;
    bool is_smaller;                    /* a judgement at a smaller shape, for another one's sample */
    json_t *smaller;                    /* what such a one came to: {"shown","axes","why"?}; NULL: none was wanted */
    uint64_t sample_seed;               /* of which blocks the emulator takes where all are too many */
    int64_t sim_wall_ns;                /* what a run of the candidate on the emulator may take; 0: the table's */
    uint64_t usual_instructions;        /* thread instructions of the baseline's run there; 0: nobody counted them */
    json_t *calibration;
    struct rules rules;                 /* of audit and plausible; the timing has its own */
    double records_gain;                /* the gain by the audit's records; 0: no audit */
    json_t *records;                    /* what the trace's records say of both sides' launches (timers.c); NULL: not traced */
    json_t *modes;                      /* by mode: figures that are never compared across modes */
    struct judge_timing timing;         /* what is published */
    json_t *occasions;                  /* of the retest */
    json_t *canaries;                   /* what the operator's canaries came to, before anything was judged by it */
    json_t *figures;
    json_t *phases;                     /* done so far: [{"phase","ms",...}] */
    json_t *phase;                      /* the running phase's figures, borrowed */
    bool card_held;                     /* card_hold.c */
    int card_fd;                        /* its lock; -1: none */
    int64_t gpu_ns;                     /* for how long it was held, up to card_counted_ns */
    int64_t card_counted_ns, card_waited_ns;
    int64_t start_up_ns;                /* of gpu_ns, until a run child's driver and context stood */
    int64_t card_run_ns;                /* what a guarded run of the baseline took on the card, by our clock; 0: not known */
    int64_t card_block_ns;              /* what a timed graph of it took, with all that is done around it */
};

/* A phase: true goes on if verdict->code is still VERDICT_OK, else ends with it. False: our failure. */
typedef bool judge_phase(struct judge *j, struct verdict *v, struct err *err);
judge_phase phase_admit, phase_compile, phase_scan, phase_emulate, phase_assemble, phase_correct, phase_probe, phase_time, phase_audit, phase_plausible,
    phase_range, phase_retest;

/* Ends the calling function where a step of it failed (false) or gave a verdict (true). */
#define STEP(call)                        \
    do {                                  \
        if (!(call))                      \
            return false;                 \
        if (v->code != VERDICT_OK)        \
            return true;                  \
    } while (0)

/* ---- judge.c ---- */
struct judge *judge_new(const struct judge_config *config, judge_progress_fn *progress, judge_cancelled_fn *cancelled, void *ctx);
void judge_free(struct judge *j);
DEFINE_CLEANUP(judge, struct judge *, if (*it) judge_free(*it))
/* Reads j->task: shape, mode, device, toolkit. */
bool judge_begin(struct judge *j, struct err *err) MUST_CHECK;
static inline bool side_is_judged(const struct judge *j, const struct judge_side *s) { return s == &j->sides[CANDIDATE]; }
/* The verdict `v` on side `s`: stands if s is judged; else it becomes our failure. For use as `return side_verdict(...)`. */
bool side_verdict(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err);
/* A child failed (err is set): ends it; a certain cause becomes a verdict on the side. */
bool side_child_failed(struct judge *j, struct judge_side *s, struct child *c, const char *phase, struct verdict *v, struct err *err);
json_t *judge_job(const char *what);

/* ---- prepare.c: inputs and references ---- */
void regimes_plan(struct judge *j);                     /* draws seeds and poisons anew, and which blocks a sample takes */
int64_t judge_keep_bytes(const struct judge *j);        /* of inputs and results that may wait for something in our memory */
bool regime_make(struct judge *j, int r, struct err *err) MUST_CHECK;
/* Makes the inputs of the regime after r, where regimes are kept: work for the time in which a child runs r. */
bool regime_ahead(struct judge *j, int r, struct err *err);
bool regime_reference(struct judge *j, int r, struct err *err) MUST_CHECK;
/* Asks the reference and goes on; regime_reference waits for it then. Nothing else may be asked of it between. */
bool regime_reference_ask(struct judge *j, int r, struct err *err) MUST_CHECK;
void regime_used(struct judge *j, int r);               /* it was compared: frees what is not needed again */
void regimes_clear(struct judge *j);
/* A reference for these inputs; results[t] by tensor, the caller frees. */
bool reference_ask(struct judge *j, const struct shared *inputs, double **results, struct err *err) MUST_CHECK;
/* The same in two: it works in between. The inputs must stay as they are; reference_end must follow, or the child's end. */
bool reference_begin(struct judge *j, const struct shared *inputs, struct err *err) MUST_CHECK;
bool reference_end(struct judge *j, double **results, struct err *err) MUST_CHECK;
/* Says the shape to a fresh child, with the memory for what it gives. */
/* A wall limit of something that is done with all of a regime's tensors: what it is for small ones, and more where they are large. */
int64_t judge_wall_ns(const struct judge *j, int64_t usual_ns);
bool child_shape(struct judge *j, struct child *c, struct shared *out, bool doubles, struct err *err) MUST_CHECK;
bool child_inputs(struct judge *j, struct child *c, const struct shared *in, struct err *err) MUST_CHECK;
bool prepare_some(struct judge *j, struct err *err) MUST_CHECK;     /* as much as may be kept, while compilers work */

/* ---- check_op.c ---- */
/* Canaries for the shape's dtypes, in the reference child, once. ERR_UNPROCESSABLE names the one that passes. */
bool canaries_judge(struct judge *j, struct err *err) MUST_CHECK;

/* ---- compile.c ---- */
bool compile_start(struct judge *j, struct judge_side *s, struct err *err) MUST_CHECK;      /* starts the child and asks */
bool compilers_busy(const struct judge *j);             /* one that was asked has not answered */
bool compile_take(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err) MUST_CHECK;
bool assemble_start(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err) MUST_CHECK;
bool assemble_take(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err) MUST_CHECK;

/* ---- triton.c: a side in Triton ---- */
/* Starts its child and asks. ERR_UNAVAILABLE where the host has no Triton. */
bool triton_start(struct judge *j, struct judge_side *s, struct err *err) MUST_CHECK;
bool triton_take(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err) MUST_CHECK;
/* The task has the PTX already ("baseline_ptx"), and with it what Triton said ("baseline_triton"). */
bool triton_known(struct judge *j, struct judge_side *s, struct err *err) MUST_CHECK;
int64_t triton_wall_ns(const struct judge *j);
void triton_done(struct judge_side *s);

/* ---- run.c: a run child of a side ---- */
struct run_order {
    int regime;
    uint64_t poison, schedule_seed;
    enum device_place place;
    bool check_races;
    bool explore;                       /* sim: lanes part at random; what the run counts is not kept */
    uint64_t instruction_limit;
    const struct device_far *far;       /* sim: rows that are moved away; NULL: none. Not for a sample of the blocks */
};
bool run_start(struct judge *j, struct judge_side *s, enum sandbox_role role, struct err *err) MUST_CHECK;
/* Says the shape to a child that was started, once. */
bool run_shape(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err) MUST_CHECK;
/* The driver's start, which needs no card: asked of both sides, then taken. */
bool run_prepare_ask(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err) MUST_CHECK;
bool run_prepare_take(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err) MUST_CHECK;
/* How long a child may take over so many runs of the candidate on a card before they are endless ones; ceiling_ns: and never longer. */
int64_t run_card_wall_ns(const struct judge *j, int runs, int64_t ceiling_ns);
/* The same of a graph of its launches, or some one at a time: by what the baseline's graphs took, which are as long and come first. */
int64_t block_card_wall_ns(const struct judge *j, int64_t ceiling_ns);
/* Asking and opening apart: two cards' contexts come up side by side. */
bool run_open_ask(struct judge *j, struct judge_side *s, const char *device, struct verdict *v, struct err *err) MUST_CHECK;
bool run_open(struct judge *j, struct judge_side *s, const char *device, struct verdict *v, struct err *err) MUST_CHECK;
bool run_scan(struct judge *j, struct judge_side *s, json_t **ret, struct verdict *v, struct err *err) MUST_CHECK;
bool run_load(struct judge *j, struct judge_side *s, bool with_cubin, const char *phase, struct verdict *v, struct err *err) MUST_CHECK;
bool run_inputs(struct judge *j, struct judge_side *s, int regime, const char *phase, struct verdict *v, struct err *err) MUST_CHECK;
/* Asks for a run on the inputs last given; run_take waits for its end. The outputs are in the child's memory until it is asked
 * again: run_copy_outputs makes them ours. Apart, so that another child can be asked before the copying. */
bool run_ask(struct judge *j, struct judge_side *s, const struct run_order *o, const char *phase, struct verdict *v, struct err *err) MUST_CHECK;
bool run_take(struct judge *j, struct judge_side *s, const char *phase, struct verdict *v, struct err *err) MUST_CHECK;
/* All three; outputs and counts are the side's then. */
bool run_once(struct judge *j, struct judge_side *s, const struct run_order *o, const char *phase, struct verdict *v, struct err *err) MUST_CHECK;
bool run_estimate(struct judge *j, struct judge_side *s, struct err *err) MUST_CHECK;
/* Copies what the run child left in its memory. */
void run_copy_outputs(struct judge *j, struct judge_side *s);
/* Marks its memory before it is asked, so that what is there cannot pass for an answer. */
void run_spoil(struct judge_side *s);
/* What an answer says of the bytes around the buffers, and of the inputs. */
bool run_intact(struct judge *j, struct judge_side *s, const json_t *answer, const char *phase, struct verdict *v, struct err *err) MUST_CHECK;
/* Turns {"code","text","detail"} of a child into a verdict, re-checked; null leaves v alone. */
bool fault_take(const json_t *fault, const char *phase, struct verdict *v, struct err *err) MUST_CHECK;

/* ---- sampled.c: runs of a sample of the blocks ---- */
/* Takes from a run's answer whether it was one, and what follows the answer then: who stored which element. */
bool sampled_take(struct judge *j, struct judge_side *s, const json_t *answer, struct err *err) MUST_CHECK;
/* After its outputs were copied: clears what nobody stored of them, which holds poison. */
void sampled_clear(struct judge *j, struct judge_side *s);
void sampled_forget(struct judge_side *s);
/* Of a tensor: elements stored, and by whom; those that the reference changes, and of them by who stored them. */
struct sampled_cover { int64_t stored, changed, stored_by[DEVICE_TAGS], by_tag[DEVICE_TAGS]; };
void sampled_count(const struct judge *j, int t, int regime, const uint8_t *written, struct sampled_cover *ret);
/* Of how many blocks: {"steps","seed","why","smaller"}; new reference. */
json_t *sampled_encode(const struct judge *j, const struct judge_side *s);
/* Whether as much was stored as so many blocks must; else the verdict is unsupported_on_sim. */
bool sampled_enough(struct judge *j, struct judge_side *s, const struct compare_result *results, const struct sampled_cover *covers, const char *phase,
                    struct verdict *v, struct err *err) MUST_CHECK;

/* ---- smaller.c: the same plan at a smaller shape ---- */
/* Judges the candidate there, whole, on the emulator; j->smaller is what it came to. False: cancelled. */
bool smaller_show(struct judge *j, struct judge_side *s, struct err *err) MUST_CHECK;
bool smaller_shown(const struct judge *j);

/* ---- correct.c ---- */
/* All regimes of one round in fresh children; ends with side.estimate_ns on sim. */
bool correct_round(struct judge *j, struct verdict *v, struct err *err) MUST_CHECK;
/* The typical regime on the emulator where a card follows: two runs, in other orders of blocks and lanes, must agree and be right. What a
 * clock, a register or a place in the queue happens to be is the emulator's to choose; a card is kind. */
bool correct_on_emulator(struct judge *j, struct verdict *v, struct err *err) MUST_CHECK;

/* Of a hidden regime the outside learns that a hidden test failed, nothing else. */
void verdict_hide(struct verdict *v, const char *phase);

/* ---- range.c ---- */
/* Draws j->wide, if its tensors have room to grow. */
void range_draw(struct judge *j);
/* Whether the side's plan, resolved for the shape, holds for all values of axes that do not key it: `why` says what does not. */
bool range_plan(const struct judge *j, const struct judge_side *s, char *why, size_t why_size);

/* ---- probe.c ---- */
/* Makes what needs no card. */
bool probe_prepare(struct judge *j, struct err *err) MUST_CHECK;

/* ---- comparison.c ---- */
/* The tensor that differs, or -1. Gaps of outputs hold poison and are compared elsewhere. */
int outputs_difference(const struct judge *j, void *const *a, void *const *b, int64_t *ret_element);
/* As outputs_difference, where atomics are declared: the tensor that is further apart than they excuse. */
int outputs_spread(const struct judge *j, void *const *a, void *const *b, int64_t *ret_element);
/* Copies what the baseline's run of a regime left, as what the candidate's errors are measured by. */
void baseline_keep(struct judge *j, int regime);
/* Compares the outputs of one run of a regime. */
bool check_outputs(struct judge *j, struct judge_side *s, int regime, void *const *outputs, uint64_t poison, const char *phase,
                   struct compare_result *ret_worst, struct verdict *v, struct err *err) MUST_CHECK;

/* What a regime's comparison leaves in the certificate; new reference. */
json_t *regime_encode(const struct judge *j, int r, const struct compare_result *worst);

/* ---- series.c ---- */
/*
 * On a card: the candidate's module loaded anew, and launches of it at equal addresses, up to a thousand, of the typical inputs and now
 * and then of the others. What each must give is known; outputs of the side are as before.
 */
bool series(struct judge *j, const struct shared *typical_in, void *const *typical, const struct shared *other_in, void *const *other,
            struct verdict *v, struct err *err) MUST_CHECK;

/* ---- measure.c ---- */
/* Buffer sets in the side's run child, as for a timed graph; how many. */
bool measure_setup(struct judge *j, struct judge_side *s, uint64_t seed, int *ret_sets, struct verdict *v, struct err *err) MUST_CHECK;
/* Makes what needs no card: once a round, after regimes_plan. */
bool measure_prepare(struct judge *j, struct err *err) MUST_CHECK;
void measure_forget(struct judge *j);
/* What the harness itself costs on this card, once a judgement, into j->calibration. */
bool measure_calibrate(struct judge *j, struct verdict *v, struct err *err) MUST_CHECK;
/* A job of a run child on a card, its fault taken and its time counted. */
bool judge_ask_run(struct judge *j, struct judge_side *s, const json_t *job, const char *phase, int64_t wall_ns, json_t **ret,
                   struct verdict *v, struct err *err) MUST_CHECK;
json_t *judge_u64(uint64_t value);      /* as the children read it */
bool measure(struct judge *j, enum judge_mode effort, struct judge_timing *ret, struct verdict *v, struct err *err) MUST_CHECK;

/* ---- card_hold.c ---- */
/* Waits until the card is ours; it stays so. */
bool card_take(struct judge *j, struct err *err) MUST_CHECK;
/* Tells who waits for us what the time goes to: "line" and "card" around card_take's wait. */
void judge_tell_state(const struct judge *j, const char *state);
/* Only if nobody else has it. */
bool card_take_free(struct judge *j, struct err *err) MUST_CHECK;
/* Adds what has passed to gpu_ns. */
void card_count(struct judge *j);
/* Ends what runs on it, and lets go. */
void card_release(struct judge *j);

/* ---- cards.c ---- */
/* From config->device: "auto", "sim", or cards with a comma between. */
bool cards_find(struct judge *j, struct err *err) MUST_CHECK;
/* For an occasion of a retest, with no card held: j->device, another than the first where one is free and like `home`. */
void cards_choose(struct judge *j, const json_t *home);
/* Of a device's info what says which one it is; new reference. */
json_t *card_identity(const json_t *info);

/* ---- card_watch.c ---- */
/* Puts what is seen of the card into to[when]. False where it is not ours alone or not well: ERR_UNAVAILABLE says what. s: whose child watches. */
bool card_watch(struct judge *j, struct judge_side *s, bool briefly, const char *when, json_t *to, struct verdict *v, struct err *err) MUST_CHECK;
/* True (and err is set) where something else than the candidate may have held it up: asked before a timeout is blamed on it. */
bool card_excuses(struct judge *j, struct err *err) MUST_CHECK;

/* ---- timers.c ---- */
void timers_put_records(struct judge *j, const struct audit_report *mine, const struct audit_report *base);
json_t *timers_encode(const struct judge *j);            /* for the certificate; null where nothing was measured. New reference */

/* ---- modes.c ---- */
/* After measure(): launches one at a time, both sides in turns, into modes["eager"]. */
bool modes_eager(struct judge *j, struct verdict *v, struct err *err) MUST_CHECK;
/* base NULL: none. */
void modes_put_cold(struct judge *j, const struct audit_report *mine, const struct audit_report *base, int64_t flush_bytes);
/* Of the timing that is published. */
void modes_put_graph(struct judge *j);

/* ---- audit.c ---- */
/* All twelve: what audit, plausible and the published timing found; why, where nobody looked. New reference. */
json_t *rules_of_judgement(const struct judge *j);

/* ---- time.c ---- */
bool time_occasion(struct judge *j, enum judge_mode effort, struct judge_timing *ret, struct verdict *v, struct err *err) MUST_CHECK;
void timing_done(struct judge_timing *t);
bool timing_verdict(struct judge *j, const struct judge_timing *t, const char *phase, struct verdict *v);

/* ---- pool.c ---- */
/* One figure of `count` occasions: record and samples are those of list[at], which is taken, with all samples and the statistics of all. */
void timings_pool(struct judge_timing *list, int count, int at, uint64_t seed, struct judge_timing *ret);

/* ---- needs.c ---- */
bool needs_parse(const char *list, unsigned *ret, struct err *err) MUST_CHECK;
/* ERR_UNAVAILABLE where kernels reach the host's memory and that is not allowed. */
bool needs_memory(const struct judge *j, const json_t *info, struct err *err) MUST_CHECK;
/* The first that is asked for and was not done in a full judgement on a card; NULL: none. New string. */
char *needs_missing(const struct judge *j);
json_t *needs_encode(const struct judge *j);

/* ---- plausible.c ---- */
/* Whether j->timing is possible at all, and not too good to be served without somebody's look. Its roofline goes into the phase. */
bool plausible_check(struct judge *j, struct verdict *v, struct err *err) MUST_CHECK;

/* ---- certificate.c ---- */
/* Which processes there are now: {"candidate"|"baseline"|"reference":{"pid","nonce"}}; new reference. */
json_t *processes_encode(const struct judge *j);
void figures_fill(struct judge *j);
json_t *certificate_make(struct judge *j, const struct verdict *v);

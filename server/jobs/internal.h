/*
 * What the files of this folder share.
 *
 * In memory there is only the list of open jobs (struct entry) and, per runner thread, the job under work (struct run); all that
 * counts is in the job's record. Every write about a job expects the record to be as the writer knew it, so a job that was
 * cancelled meanwhile can get no event after its last one.
 */
#pragma once
#include "server/jobs/jobs.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/minisign.h"
#include "core/shape.h"
#include "server/generate/agent.h"
#include "server/jobs/observed.h"
#include "server/jobs/shelf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define JOBS_OWNER_OPEN "open"           /* under which owner the store lists jobs */
#define JOBS_OWNER_ENDED "ended"
#define JOBS_TRIES 1000                  /* of a write that others got in the way of */
#define REVALIDATION "revalidation"      /* by whom a kernel was withdrawn that was judged again and did not hold */
#define PHASES_KEPT 64
#define PHASE_MAX_BYTES 4096
#define PHASE_WORD_BYTES 1024       /* of one that is told in any case */
#define VERDICT_MAX_BYTES ((size_t)256 << 10)
#define FIGURES_MAX_BYTES ((size_t)1 << 20)

/* X(code, name, final?) */
#define JOB_STATES(X)                   \
    X(JOB_QUEUED, "queued", false)      \
    X(JOB_RUNNING, "running", false)    \
    X(JOB_DONE, "done", true)           \
    X(JOB_FAILED, "failed", true)       \
    X(JOB_CANCELLED, "cancelled", true)
enum job_state {
#define X(code, name, is_final) code,
    JOB_STATES(X)
#undef X
};
const char *job_state_name(enum job_state state);

enum entry_state { ENTRY_RESERVED, ENTRY_READY, ENTRY_RUNNING, ENTRY_PARKED };
struct entry {
    struct entry *next;
    char id[40];
    enum entry_state state;
    bool woken;                          /* something came while it was under work */
    bool waits;                          /* it waits for candidates from outside, or for a runner to take one that came */
    int64_t deadline_ns;                 /* parked: when it is looked at again without being woken */
    double saving_ns;                    /* what its open shapes would save, as far as is known (observed.h) */
    int64_t since_ns;                    /* when it came */
    int failures;                        /* steps in a row whose result could not be written */
    int64_t wall_from_ns;                /* since when wall time is not in the record yet; 0: nobody has begun */
    atomic_bool cancelled, profile_wished;
};

struct jobs {
    struct jobs_config config;
    struct store *store;
    _Atomic(const struct op_set *) ops;
    const struct signer *signer;
    int thread_count;
    pthread_t estimator;                 /* estimate.c */
    bool estimating, news;               /* it runs; there may be something to estimate or to weigh. news: under the lock */
    pthread_mutex_t nearby_lock;         /* guards nearby: what savings are guessed from; NULL: nothing yet */
    struct nearby *nearby;
    pthread_t tidier;                    /* tidy.c */
    bool tidying, untidy;                /* it runs; there is something to tidy up: under the lock */
    pthread_t *threads, keeper;          /* keeper: looks after the limits of jobs that wait while all runners are busy */
    atomic_bool stopping, measured;      /* measured: some judgement here was a measurement */
    pthread_mutex_t lock;                /* guards what follows */
    pthread_cond_t work;                 /* monotonic clock */
    struct entry *head, **tail;
    int64_t judged, judge_errors;
    struct agent_account llm[LLM_PURPOSE_COUNT];     /* since the start */
    int64_t attempts, attempts_failed;
    bool profiles_refused;               /* nobody may count on this host: not asked again (profile.c) */
    struct err last_judge_error;
    pthread_mutex_t spending_lock;       /* guards spending and the order of its writes; spending.c */
    json_t *spending;
};

/* ---- scheduler.c ---- */
/* A place in the queue before the job is durable. ERR_BUSY. */
bool entry_reserve(struct jobs *j, const char *id, struct entry **ret, struct err *err) MUST_CHECK;
void entry_ready(struct jobs *j, struct entry *e, double saving_ns);
void entry_drop(struct jobs *j, struct entry *e);
void entry_wake(struct jobs *j, const char *id, bool cancel);   /* one that is not there: nothing */
/* Sleeps unless the jobs stop or this one is cancelled; true if it slept on. */
bool entry_sleep(struct jobs *j, struct entry *e, int64_t ns);

/* ---- estimate.c: what shapes would save ---- */
/* Of a job's open shapes together. */
double job_saving_ns(struct jobs *j, const json_t *job);
/* The waiting shape that would save most (the first of equals); -1: none waits. */
int job_pick(struct jobs *j, const json_t *job);
bool estimator_start(struct jobs *j);
void estimator_stop(struct jobs *j);     /* j->stopping is set */

/* ---- tidy.c: what is left to be done after an end, in pieces ---- */
/* A candidate that will not be judged any more. One that has its verdict stays. ERR_NOT_FOUND. */
bool drop_candidate(struct jobs *j, struct store_batch *b, const char *job, const char *id, struct err *err) MUST_CHECK;
/* These (ids) are dropped some time after the batch is in the store. */
void drop_later(struct store_batch *b, const char *job, const json_t *waiting);
void tidy_wake(struct jobs *j);
bool tidier_start(struct jobs *j);
void tidier_stop(struct jobs *j);        /* j->stopping is set */

/* ---- retention.c: what is kept of jobs that ended, and how much callers may post ---- */
/* Of a job's caller, so many bytes more are held (fewer: below 0); the batch expects the sum to be as it was. *ret_all: with them. */
bool posted_add(struct jobs *j, struct store_batch *b, const json_t *job, int64_t more, int64_t *ret_all, struct err *err) MUST_CHECK;
void posted_key(const json_t *job, char *to, size_t size);
/* Removes some jobs that have been kept long enough; *ret_more: there may be another. */
bool retention_piece(struct jobs *j, bool *ret_more, struct err *err) MUST_CHECK;
bool retention_sweep(struct jobs *j, struct err *err) MUST_CHECK;    /* then the blobs that no record names any more */

/* ---- spending.c: sums by day ---- */
#define SPENDING_DAYS 100
bool spending_load(struct jobs *j, struct err *err) MUST_CHECK;
void spending_done(struct jobs *j);
void spending_add_tokens(struct jobs *j, int64_t tokens);    /* of no job */
void spending_add_gpu(struct jobs *j, int64_t gpu_ns);               /* device time that is of no job */
/* As store_commit, for a batch that makes a job's record `before` into `after`: what it spent more is added to today. */
bool spending_commit(struct jobs *j, struct store_batch *b, const json_t *before, const json_t *after, struct err *err) MUST_CHECK;

/* ---- job.c: documents ---- */
struct job_request {
    const struct op *op;
    int shape_count;
    struct shape *shapes;                /* owned */
    json_t *ignored;                     /* beside them: {"AXIS": value} given for axes that are not keyed, and not taken; owned */
    json_t *listed;                      /* shapes that were not spelled out: {"shape","count",...} each, beside `shapes`; owned or NULL */
    const json_t *model;                 /* the preset they are of; borrowed, NULL: none */
    const struct generator *generator;
    const json_t *baseline;              /* the job's own; borrowed, NULL: the operator's */
    json_t *replays;                     /* the job whose model's answers are played again; owned, NULL: none */
    bool reuse;
    int64_t candidates, wall_seconds, tokens;   /* tokens 0: none */
    double gpu_seconds;                         /* 0: no limit of its own */
};
/* Adds the record STORE_IDEMPOTENCY `key` = answer + {kind: id}; the batch expects that there is none. */
void put_idempotency(struct store_batch *b, const char *key, const json_t *answer, const char *kind, const char *id);
bool key_is_taken(struct jobs *j, const char *key);   /* key NULL: false */
json_t *job_new(const char *id, const struct job_request *r, const char *caller);
json_t *candidate_record_new(const char *id, const char *job, const char *shape_hash, const char *op, json_t *candidate,
                             json_t *origin, bool is_baseline);
bool job_is_final(const json_t *job);
json_t *job_shape(const json_t *job, int index);         /* borrowed */
int job_shape_index(const json_t *job, const char *hash);   /* -1: none */
const char *shape_state(const json_t *shape);
bool shape_is_open(const json_t *shape);                 /* its search has not ended */
/* {"candidate","time_ns","speedup","evidence"} of a judged candidate's figures; new reference. */
json_t *result_new(const char *candidate, const json_t *figures, bool is_baseline);
json_t *external_key_doc(int64_t accepted);              /* the waiting list of an external job: {"accepted","waiting":[ids],"told"?:[lessons]} */
void external_key(const char *job, char *to, size_t size);
/* STORE_META: the job's own baseline, a candidate. It goes with the job's end; the records of its judgements keep their copy. */
void baseline_key(const char *job, char *to, size_t size);
void event_proposed(struct store_batch *b, const json_t *record);
void event_state(struct store_batch *b, const json_t *job);
void event_best(struct store_batch *b, const json_t *job, const char *shape_hash, const json_t *best, bool is_baseline, bool served,
                bool reused);
void event_done(struct store_batch *b, const json_t *job);
/*
 * Ends the job as it is in the store: waiting candidates are dropped, last events written. *job is the record as the caller knows
 * it and becomes the ended one. False with ERR_CONFLICT when the job is not as known any more.
 */
bool job_end(struct jobs *j, json_t **job, enum job_state state, const struct err *why, double more_wall_seconds,
             struct err *err) MUST_CHECK;

/* ---- expand.c ---- */
/* Whether a request names its shapes by "model" instead of spelling them out. */
bool request_is_listed(const json_t *request);
/* Their shapes and operators into r. */
void request_expand(struct jobs *j, const json_t *request, struct job_request *r, struct faults *f);
/* A shape that no judge could hold is refused now, not when its turn has come. (submit.c) */
bool request_check_size(const struct jobs *j, const struct shape *s, const char *where, struct faults *f);

/* ---- runner.c ---- */
struct run {
    struct jobs *j;
    struct entry *e;
    json_t *job;                         /* as it is in the store */
    bool reserved;                       /* spent.tokens_reserved is of this run's own attempt (agent.c) */
    bool no_judging;                     /* the caller is no runner: what would need a judge is left to one */
    int shape_index;                     /* of `shape` and `history`; -1: none loaded */
    struct shape shape;
    int64_t mark_ns, park_until_ns;      /* up to when the last run_next counted; when STEP_PARK wants to be looked at again */
    bool to_learn;                       /* the next commit leaves something for the knowledge layer */
    int past_count, past_capacity;
    json_t **past;                       /* judged candidates of the shape, oldest first */
};
enum step_result { STEP_GO, STEP_PARK, STEP_END, STEP_FAILED /* not written: later again */ };
/*
 * Takes steps until the job ends, has to wait, or the jobs stop. True: park it until *ret_deadline_ns; *ret_waits: for candidates.
 * no_judging: of a job that waits for candidates, only what needs no judge (its limits, its end).
 */
bool run_job(struct jobs *j, struct entry *e, bool no_judging, int64_t *ret_deadline_ns, bool *ret_waits);
/* Parses the shape of that index into r->shape. ERR_UNPROCESSABLE when the operator is not what it was. */
bool run_load_shape(struct run *r, int index, struct err *err) MUST_CHECK;
void run_add_past(struct run *r, const json_t *record);
void run_put_past(struct run *r, const json_t *record);   /* in the place of the one with its id */
enum step_result run_fail(struct run *r, const struct err *why);   /* ends the job as failed */
/*
 * Commits a change of the job: expects run->job, puts `next` (taken over), and keeps it as run->job. STEP_END when the job has
 * been ended by someone else. *ret_conflict (may be NULL): something else in the batch did not hold, the job is as known.
 */
enum step_result run_commit(struct run *r, struct store_batch *b, json_t *next, bool *ret_conflict);
/* A copy to change, with the wall time spent so far. */
json_t *run_next(struct run *r);
void run_spend(json_t *job, const char *what, double more);

/* ---- baseline.c ---- */
const char *baseline_mode(const struct run *r);          /* in which it is judged now */
enum step_result settle_baseline(struct run *r, json_t *record, struct judge_answer *a);
bool baseline_waits(const struct run *r, int index);     /* its verdict does, for the shape's end */
enum step_result baseline_close(struct run *r, int index);

/* ---- contend.c: which of the candidates that triage found faster is retested ---- */
bool contends(const struct run *r, const json_t *record, const struct judge_answer *a);
bool contenders_due(const struct run *r, int index);
enum step_result settle_contender(struct run *r, json_t *record, struct judge_answer *a);   /* judged for the first time */
enum step_result settle_again(struct run *r, json_t *record, struct judge_answer *a);       /* and once more */
enum step_result step_narrow(struct run *r);
void contender_retested(json_t *shape, const char *id, bool confirmed);

/* ---- steps.c: one function a step; next: the name of the step that follows is in the job's record ---- */
typedef enum step_result step_fn(struct run *r);
step_fn *step_find(const char *name);    /* NULL: there is none of that name */
char *run_used_up(const struct run *r);  /* why no more may be spent; NULL: more may. The caller frees */
double run_wall_spent(const struct run *r);                      /* seconds, up to now */
int64_t run_candidates_left(const struct run *r, int index);     /* unspent ones, shared over this shape and those still to come */
bool run_is_external(const struct run *r);
/* Puts a candidate under work; b and next are taken over. */
enum step_result run_take_on(struct run *r, struct store_batch *b, json_t *next, int index, json_t *record, bool *ret_conflict);

/* ---- propose.c: the next candidate ---- */
enum step_result step_propose(struct run *r);
int64_t run_wall_limit_ns(const struct run *r);      /* clock_mono_ns when the job's wall time is used up */
struct gen_past gen_past_of(const json_t *record);   /* of a judged candidate; borrows from it */
/* What a generator is told of the shape under work; *ret_past is the caller's (free). */
bool run_gen_input(struct run *r, int index, int64_t left, const json_t *prior, struct gen_past **ret_past, struct gen_input *ret,
                   struct err *err) MUST_CHECK;
/* The search for a shape (-1: for all) is over. */
enum step_result run_stop_search(struct run *r, int index, const char *reason);
/* Puts a generator's candidate under work; b and next (whose account it adds to) are taken over. */
enum step_result run_take_proposal(struct run *r, struct store_batch *b, json_t *next, int index, const struct gen_proposal *p, const char *id);

/* ---- recall.c: what is known that helps with a shape ---- */
struct recalled { json_t *lessons, *notes; };        /* as agent_input has them; owned */
/* By the shape, by the figures of the best so far and by the last failure. Nothing known, or no knowledge layer, is no error. */
bool recall(struct jobs *j, const struct shape *s, const struct gen_past *past, int count, int best, struct recalled *ret, struct err *err) MUST_CHECK;
void recalled_done(struct recalled *r);
DEFINE_CLEANUP(recalled, struct recalled, recalled_done(it))

/* ---- profile.c: what the card's counters say of the best candidate ---- */
/* Whether a measured candidate has none yet, and may get one. */
bool profile_lacks(struct jobs *j, const json_t *record);
/* False: there is nothing to do. True: *ret is the step's result; the step is to be done again where that is STEP_GO. */
bool profile_best(struct run *r, int index, enum step_result *ret);

/* ---- agent.c: candidates of a language model ---- */
enum step_result propose_agent(struct run *r, int index, int64_t left, const struct generator *g);
bool generator_is_external(const struct generator *g);
/* Looks up the job whose answers are to be played again. */
bool replay_find(struct jobs *j, const json_t *request, json_t **ret, struct faults *f);
json_t *agent_stats(struct jobs *j);                 /* for jobs_stats; the lock is held */

/* ---- judge.c ---- */
enum judged { JUDGED, JUDGE_STOP /* stopping, cancelled, or not written */, JUDGE_GIVE_UP /* err says why: the job fails */,
              JUDGE_REFUSED /* of a baseline: err says why its shape cannot be judged */ };
/* Judges with retries; *record (a candidate's record) gets its phases and judge errors. */
enum judged judge_candidate(struct run *r, json_t *record, const char *mode, struct judge_answer *ret, struct err *err);

/* The folder that the judge is to look for this operator in; the caller frees. */
char *op_folder(const struct op *op);

/* ---- estimates.c: what candidates take by the emulator's estimate; here: not where the runner would put a judge ---- */
bool estimates_ask(struct jobs *j, const struct shape *s, json_t *candidates, bool here, judge_cancelled *cancelled, void *ctx, json_t **ret,
                   struct err *err) MUST_CHECK;   /* *ret: [{"ns": N | null,"why"?,"resources"?}], one each; new reference */

/* ---- neighbours.c ---- */
/*
 * The best settings of the nearest shapes that were searched, kernels of that evidence (NULL: of any), and of seeds:
 * [{"template","params","shape": text,"seed"?}], nearest first; new reference.
 */
bool neighbours_find(struct jobs *j, const struct shape *s, const char *evidence, json_t **ret, struct err *err) MUST_CHECK;

/* ---- prior.c: what is known of a shape before anything of it was judged ---- */
bool prior_load(struct run *r, int index, json_t **ret, struct err *err) MUST_CHECK;   /* *ret NULL: not made yet */
enum step_result prior_make(struct run *r, int index, const struct generator *g);
void prior_drop(struct store_batch *b, const char *job, int index);

/* ---- settle.c: what a judgement means for candidate, shape and kernel ---- */
enum step_result settle_refused(struct run *r, json_t *record, const struct err *why);   /* the shape fails, the job goes on */
enum step_result settle_triage(struct run *r, json_t *record, struct judge_answer *a);
enum step_result settle_retest(struct run *r, json_t *record, struct judge_answer *a);
/* The record gets its verdict, and the batch the candidate's last two events. */
void run_judged(struct run *r, struct store_batch *b, json_t *record, struct judge_answer *a);
/* The same but for the verdict, which waits in the record as "pending"; run_release makes it the candidate's. */
void run_pending(struct run *r, struct store_batch *b, json_t *record, struct judge_answer *a);
void run_release(struct run *r, struct store_batch *b, json_t *record);
/* The job's account after a judgement; nothing is under work then. */
json_t *run_account(struct run *r, const struct judge_answer *a, const char *step);
/* Ends a shape that was searched: serves the baseline where nothing beat it. */
enum step_result settle_close(struct run *r, int index);

/* ---- serve.c: of a job with a baseline of its own, what is served ---- */
bool run_serves_apart(const struct run *r);              /* it has one: nothing is served before it was judged beside the operator's */
const char *record_stands_for(const json_t *record);     /* the candidate that it is judged again for, so that it may be served; NULL: none */
bool serving_is_due(const struct run *r, int index);
enum step_result serving_begin(struct run *r, int index);
enum step_result settle_serving(struct run *r, json_t *record, struct judge_answer *a);
enum step_result serving_failed(struct run *r, json_t *record, const struct err *why);   /* it couldn't be judged: it is not served */

/* ---- revalidate.c ---- */
bool run_revalidates(const struct run *r);               /* the job judges again what was judged before */
bool run_revalidates_baseline(const struct run *r);      /* and that is a baseline */
json_t *run_judged_before(struct run *r, struct err *err);           /* its record; new reference, NULL with err */
enum step_result step_revalidate(struct run *r);
enum step_result settle_revalidation(struct run *r, json_t *record, struct judge_answer *a);

/* ---- manifest.c ---- */
/* Puts `record` (judged, correct) among the shape's verified kernels; shelf_write then decides whether it is served. */
bool manifest_offer(struct jobs *j, struct shelf *shelf, const struct shape *s, const json_t *record, const json_t *result,
                    const char *instead_of, struct err *err) MUST_CHECK;
/* Completes, stores and signs a certificate, stores source and blobs; their digests go into the record. */
void manifest_store_artifacts(struct jobs *j, struct store_batch *b, const struct shape *s, json_t *record, struct judge_answer *a);

/*
 * Jobs: scheduler and runner. A job is in the store before anyone hears of it; a runner thread takes it through its states, one
 * step function a state, each step's result and events in one transaction. A restart goes on from the last written state.
 *
 * Who calls: server/api (submit, cancel, candidates), server/main (start, stop). The store is the only state. All functions but
 * jobs_start and jobs_stop may be called from any thread.
 *
 * Documents, as they are stored and shown (members marked ? may be absent; times RFC 3339, durations as named):
 *
 * Job        {"id","op": "*" where its shapes are of several,"model"?: as asked for,"observed"?: true where they are the field's,"generator","state","created","started"?,"finished"?,
 *             "reuse","target","caller"?,"seed",
 *             "budget":{"candidates","gpu_seconds"|null,"wall_seconds","tokens"|null},
 *             "spent":{"candidates","gpu_seconds","wall_seconds","tokens"},
 *             "shapes":[SHAPE...],"step","shape"?: index of the one under work,"current"?: the candidate under work,
 *             "error"?:{"code","text"},"links":{"self","events","candidates","cancel"}}
 *            state: queued, running, done, failed, cancelled. step: see JOB_STEPS in steps.c (what a runner does next).
 * SHAPE      {"shape_hash","shape":{op,axes,dtypes,target},"count"?: launches a step,"launches"?: which,"state","reused"?:true,"baseline":RESULT|null,"best":RESULT|null,
 *             "tried": candidates judged,"why_ended": text|null,"contenders"?,"round"?,"retests"?: contend.c,"baseline_pending"?: baseline.c,"serving"?: serve.c,"links":{"kernel"}}
 *            state: waiting, baseline, searching, done, failed (its baseline cannot be judged right), skipped (never begun).
 * RESULT     {"candidate","time_ns","speedup":{"median","low","high"},"evidence","own_baseline"?: digest of the job's own, which the speed-up is over}; best: only what a retest has confirmed, or the baseline.
 * Candidate  {"id","job","shape_hash","op","state","is_baseline","candidate":{...the document},"origin":{...}|null,
 *             "verdict":{...}|null,"figures":{...}|null,"pending"?: a verdict that is not decided yet,"triage"?:{...the figures before the retest},"phases":[{"phase","ms",...}],
 *             "certificate_digest"|null,"signature_digest"?,"toolkit"?,"device"?,"artifacts"?:{"source","kernel.ptx"?,"kernel.cubin"?,"baseline"?: the source that it
 *             was compared with,"certificate.json","certificate.json.minisig": {"digest","bytes"}},"baseline_of"?: whose that is (core/certificate.h),"judge_errors","judge_error"?: the last, {"code","text","in_a_row"},
 *             "profile"?: what the card's counters said of it (gpu/judge/judge.h), or {"not_done": why},
 *             "created","judged"|null,"decision"?: an admin's of a held one,
 *             {"decision":"released"|"refused","reason","by","time","job"?},"links"}
 *            state: proposed, judging, judged, dropped (its job ended before it was judged).
 * Attempt    (STORE_ATTEMPT, listed by job: one question to a language model) {"id","job","shape_hash","number": of the shape, from 1,"move","outcome",
 *             "why"?,"candidate"?,"prompt":{"cap","tokens","sections":[{"name","tokens","bytes","cut"?}]},"usage":{PURPOSE:USAGE},
 *             "transcript":{"digest","bytes"},"replays"?: the attempt whose answers these are,"created"}. A job of generator "llm" has
 *             spent.llm: {PURPOSE: USAGE with "calls"}, spent.tokens_reserved?: of the attempt under way, "replays"?: a job, and in each SHAPE
 *             "attempts" and "failed_attempts": in a row. USAGE {"input","output","cache_read","cache_write","estimated"?}
 * Kernel     (STORE_KERNEL, by shape hash: the manifest) {"shape_hash","shape","op","op_version","target","candidate","job","is_baseline",
 *             "evidence","mode","time_ns","baseline_time_ns","baseline_of"?,"speedup":{...},"plan": numbers filled in,"device"?,"toolkit"?,
 *             "digests":{"kernel.cubin"?,"kernel.ptx"?,"source","baseline"?,"certificate.json","certificate.json.minisig"},"sizes":{the same names: bytes},
 *             "preconditions":{"target","driver_least"|null,"workspace_bytes","workspace_alignment","tensors":{name:{"role","dtype","dims","strides","alignment","bytes"}},
 *             "scalars":{name:{"dtype","value"}}},
 *             "served_since","history":[{"candidate","speedup","time_ns","evidence","served_since","until"}...newest first, at most 16],"links"}
 *            An emulated kernel never displaces a measured one; within one kind of evidence the higher median of the speed-up wins.
 *
 *            What else was verified for the shape, and what was withdrawn: shelf.h.
 *
 * Events (docs of store_event): kernel.state {"shape_hash","candidate","state":"quarantined"|"restored"|"revalidated"|"unclear"|"released"|
 * "refused","reason"?,"serves"|null}, of a job only where one judged again; job.state {"state"}; candidate.proposed {"candidate","shape_hash","is_baseline","language","notes"?,"origin"?};
 * candidate.phase {"candidate","shape_hash","mode","phase","state":"start"|"end","device","ms"?,"verdict"?}; candidate.timed {"candidate","shape_hash","time_ns",
 * "speedup","evidence","mode"}; candidate.verdict {"candidate","shape_hash","is_baseline","verdict":{"code","phase","text","for_person"}};
 * llm.attempt {"attempt","shape_hash","number","move","outcome","why"?,"candidate"?,"tokens"};
 * shape.best {"candidate","shape_hash","is_baseline","time_ns","speedup","evidence","served","own_baseline"?,"stands_for"?: the job's best, served as this}; job.done {"state","shapes","spent","error"?},
 * a job's last.
 */
#pragma once
#include "core/candidate.h"
#include "gpu/spawn.h"
#include "know/lessons.h"
#include "server/jobs/shelf.h"
#include "store/store.h"

struct jobs;
struct generator;                   /* server/generate/generate.h */
struct llm;                         /* server/llm/llm.h */
struct signer;                      /* core/minisign.h */

struct jobs_config {
    struct spawn_config spawn;      /* its texts must live as long as the jobs */
    int runners;                    /* threads: jobs judged at once */
    int max_queued;                 /* jobs that are not under work; more is ERR_BUSY */
    int max_shapes;                 /* of one job */
    const struct preset_set *presets;   /* models that a job can be of; NULL: none; borrowed */
    int64_t max_tensor_bytes, max_shape_bytes;   /* of one tensor, and of all of a shape: what a judge can hold */
    int64_t default_candidates, max_candidates;
    int64_t default_wall_seconds, max_wall_seconds;
    int estimates;                  /* of settings of a shape, by the emulator, before the first is measured; 0: none */
    int estimate_processes;         /* that make them at once */
    bool profiles;                  /* a card's counters of the best candidate go into prompts and briefs, where the host permits it */
    const struct llm *llm;          /* the model that jobs of generator "llm" ask; NULL: none; borrowed */
    int64_t prompt_tokens;          /* the most of one prompt */
    int64_t default_tokens;         /* of a job of generator "llm" that names none */
    int attempt_failures;           /* attempts in a row without a candidate that end a shape's search */
    int judge_retries;              /* of one candidate after judge errors, before the job fails */
    int estimate_candidates;        /* tried on the emulator for the estimate of an observed shape's best; 0: no estimates are made */
    int64_t estimate_shapes;        /* observed shapes that are estimated; the others go by those close by */
    int64_t estimate_wall_ns;       /* of one observed shape's estimate; then it has none */
    bool baseline_triage;           /* baselines are judged in full only where they are to be served */
    const json_t *seeds;            /* settings to try first, [{"shape","template","params"}], as nearest neighbours; NULL: none; borrowed */
    int64_t job_posted_bytes, caller_posted_bytes;   /* of candidates from outside: of one job, and of all jobs of a caller that are kept; 0: no limit */
    int64_t retain_ns, retain_jobs; /* of jobs that ended: for how long they are kept, how many; 0: for ever, all */
    int64_t retain_pass_ns;         /* between two looks at that */
    int64_t order_wait_ns;          /* a job that has waited so long goes first, whatever others would save; 0: always in order of arrival */
    const char *default_target;
    struct know *know;              /* what is learnt goes there, and what a search starts from comes from there; NULL: neither; borrowed */
    const struct generator *(*find_generator)(const char *name);   /* NULL: generator_find */
};

/* Finds jobs that were queued or running and continues them. signer signs certificates; borrowed, as are store and ops. */
bool jobs_start(const struct jobs_config *config, struct store *store, const struct op_set *ops, const struct signer *signer,
                struct jobs **ret, struct err *err) MUST_CHECK;
/*
 * From now on jobs are of these operators. A shape under work keeps its own; one not begun whose operator has another version now fails
 * and says so. All sets ever given live as long as the jobs.
 */
void jobs_set_ops(struct jobs *j, const struct op_set *ops);
/* Stops taking steps, waits for the write in progress (not for a judgement: that is killed and judged again next time). */
void jobs_stop(struct jobs *j);
/* Whatever works or tries for the jobs gives up at its next look; jobs_stop waits for that. */
void jobs_halt(struct jobs *j);

/*
 * Checks a request (contract: POST /v1/jobs) and writes the job. Faults with pointers (then err is ERR_INVALID), or
 * ERR_UNPROCESSABLE (llm: names what is missing), ERR_BUSY. *ret_job: the job as it is shown; new reference.
 * An element of "shapes" is an object of axes, or {"axes":{...}}. Durable when it returns. caller may be NULL.
 */
bool jobs_submit(struct jobs *j, const json_t *request, const char *caller, json_t **ret_job, int64_t *ret_as_of, struct faults *f,
                 struct err *err) MUST_CHECK;
/*
 * The same with a record STORE_IDEMPOTENCY `key` = `answer` + {"job": id} in the same transaction. Where there is one already:
 * ERR_CONFLICT, nothing is written, the caller reads that record.
 */
bool jobs_submit_once(struct jobs *j, const json_t *request, const char *caller, const char *key, const json_t *answer,
                      json_t **ret_job, int64_t *ret_as_of, struct faults *f, struct err *err) MUST_CHECK;
/* ERR_NOT_FOUND; a job that has ended stays as it is. Cancelled and durable when it returns; a judgement in progress is killed. */
bool jobs_cancel(struct jobs *j, const char *id, json_t **ret_job, struct err *err) MUST_CHECK;
/*
 * An external agent's candidate, for a job of generator "external": the document itself, or {"candidate":{...},"shape_hash"?};
 * a job of several shapes needs the hash. ERR_NOT_FOUND, ERR_CONFLICT once the job has ended or its candidates are used up or
 * it has another generator.
 */
bool jobs_add_candidate(struct jobs *j, const char *job_id, const json_t *request, json_t **ret_candidate, struct faults *f, struct err *err) MUST_CHECK;
/* The same with a record STORE_IDEMPOTENCY `key` = `answer` + {"candidate": id, "body": the candidate}; as jobs_submit_once. */
bool jobs_add_candidate_once(struct jobs *j, const char *job_id, const json_t *request, const char *key, const json_t *answer,
                             json_t **ret_candidate, struct faults *f, struct err *err) MUST_CHECK;
/*
 * Judges a shape's kernel again, as a job of generator "revalidate" ("revalidates":{"candidate","is_baseline","released"?}): right, and its
 * certificate is renewed; not, and it is withdrawn with the verdict as the reason. order->candidate NULL: the served one, else the one
 * withdrawn last. A job that does so already is given again. ERR_NOT_FOUND, ERR_UNPROCESSABLE (its operator is another one now), ERR_BUSY.
 */
bool jobs_revalidate(struct jobs *j, const char *hash, const struct shelf_order *order, json_t **ret_job, struct err *err) MUST_CHECK;
/*
 * The same for a candidate that is held: from here on only what is impossible is implausible. It is served where it passes and is the
 * best. ERR_CONFLICT: it is not held, or was refused.
 */
bool jobs_release(struct jobs *j, const char *candidate, const struct shelf_order *order, json_t **ret_job, struct err *err) MUST_CHECK;
/*
 * What a model would be told of a shape before it writes a candidate: request {"op","axes","dtypes"?,"target"?,"tokens"?: most,"job"?: whose
 * candidates of that shape are the history; else the served kernel is}. Faults with pointers (err is ERR_INVALID), ERR_NOT_FOUND (the job).
 * *ret {"shape_hash","shape","text","prompt":{"cap","tokens","sections"},"counters"?}; new reference. counters "not read": what the card's counters say
 * of the job's best is not known, and would be after jobs_want_profile.
 */
bool jobs_brief(struct jobs *j, const json_t *request, json_t **ret, struct faults *f, struct err *err) MUST_CHECK;
/*
 * Lessons ([{"id"}...]) that whoever works on this job was told: of those that an external candidate names, only these are kept, and only those move.
 * A brief that names its job tells. Nothing happens where the job is none of external candidates, or has ended.
 */
void jobs_told(struct jobs *j, const char *job, const json_t *lessons);
/* A job of external candidates reads the card's counters of its best when it has nothing else to do; at its expense. Returns at once. */
void jobs_want_profile(struct jobs *j, const char *job);
/* Counts what a language model was asked outside of jobs: for the metrics. */
struct llm_account;
void jobs_count_llm(struct jobs *j, int purpose, const struct llm_account *account);
/*
 * How much faster candidate a is than b, of one shape, measured side by side now (or estimated, where both were). Waits for a judge.
 * ERR_UNPROCESSABLE: they cannot be compared here.
 */
struct comparison { double ratio, low, high; bool measured; };
bool jobs_measure(struct jobs *j, const char *a, const char *b, judge_cancelled *cancelled, void *ctx, struct comparison *ret, struct err *err) MUST_CHECK;
/* Observed shapes have changed (observed.h): waiting jobs are weighed anew, and what is not known is estimated. Returns at once. */
void jobs_observed(struct jobs *j);
/* For /metrics and /readyz: {"runners","queued","running","waiting","judged","judge_errors","last_judge_error"|null}; new reference. */
json_t *jobs_stats(struct jobs *j);
/* {"days":[{"day":"2026-11-30","gpu_seconds","tokens","candidates"}...today's first]} (UTC), at most that many; new reference. */
json_t *jobs_spending(struct jobs *j, int most);

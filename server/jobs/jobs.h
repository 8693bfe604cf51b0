/*
 * Jobs: scheduler and runner. A job is in the store before anyone hears of it; a runner thread takes it through its states, one
 * step function a state, each step's result and events in one transaction. A restart goes on from the last written state.
 *
 * Who calls: server/api (submit, cancel, candidates), server/main (start, stop). The store is the only state.
 */
#pragma once
#include "core/candidate.h"
#include "gpu/spawn.h"
#include "store/store.h"

struct jobs;
struct signer;                      /* core/minisign.h */

struct jobs_config {
    struct spawn_config spawn;
    int runners;                    /* threads: jobs judged at once */
    int max_queued;                 /* jobs waiting; more is ERR_BUSY */
    int max_shapes;                 /* of one job */
    int64_t default_candidates, max_candidates;
    int64_t default_wall_seconds, max_wall_seconds;
    int judge_retries;              /* of one candidate after judge errors, before the job fails */
    const char *default_target;
};

/* Finds jobs that were queued or running and continues them. signer signs certificates; borrowed, as are store and ops. */
bool jobs_start(const struct jobs_config *config, struct store *store, const struct op_set *ops, const struct signer *signer,
                struct jobs **ret, struct err *err) MUST_CHECK;
/* Stops taking steps, waits for the write in progress (not for a judgement: that is killed and judged again next time). */
void jobs_stop(struct jobs *j);

/*
 * Checks a request (contract: POST /v1/jobs) and writes the job. Faults with pointers, or ERR_UNPROCESSABLE (llm, triton, own
 * baseline: names what is missing), ERR_BUSY. *ret_job: the job as it is shown; new reference. Durable when it returns.
 * `extra` may be NULL: a record put into the same batch (an idempotency answer).
 */
bool jobs_submit(struct jobs *j, const json_t *request, const char *caller, json_t **ret_job, int64_t *ret_as_of, struct faults *f, struct err *err) MUST_CHECK;
/* ERR_NOT_FOUND; a job that has ended stays as it is. */
bool jobs_cancel(struct jobs *j, const char *id, json_t **ret_job, struct err *err) MUST_CHECK;
/* An external agent's candidate, for a job of generator "external". ERR_CONFLICT once it has ended. */
bool jobs_add_candidate(struct jobs *j, const char *job_id, const json_t *request, json_t **ret_candidate, struct faults *f, struct err *err) MUST_CHECK;
/* For /metrics and /readyz; new reference. */
json_t *jobs_stats(struct jobs *j);

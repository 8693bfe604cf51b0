#pragma once
#include "server/jobs/jobs.h"

extern const char *fake_devices;       /* JSON; NULL: the judge does not answer */
extern int fake_news;                  /* how often jobs were told that observed shapes changed */
extern int fake_profiles_wanted;
extern const char *fake_brief_text;         /* of jobs_brief; NULL: some words */
extern int64_t fake_submit_ns;         /* a submission takes so long */
/* What the judge says to an operator: NULL passes what op_load takes; "down": it does not answer; "slow": only when it is cancelled;
 * else "/where what is wrong". Counted. */
extern const char *fake_op;
extern int fake_ops_looked_at;
/* What a runner would write. */
bool fake_event(struct store *s, const char *job, const char *type, int number);
bool fake_end(struct store *s, const char *id, const char *state, json_t **ret_job, struct err *err);
bool fake_kernel(struct store *s, const char *hash, const json_t *shape, const char *evidence, const char *cubin);

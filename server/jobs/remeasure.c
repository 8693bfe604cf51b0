/*
 * Two candidates of one shape measured against each other, outside of any job: the one is judged with the other in the baseline's place. For
 * whoever has to decide between two statements about them; nothing is written but what it cost, nothing is served of it.
 */
#include "server/jobs/internal.h"

static bool load_shape(struct jobs *j, const json_t *record, struct shape *ret, struct err *err)
{
    cleanup(json) json_t *job = NULL;
    struct faults f = {0};
    if (!store_get(j->store, STORE_JOB, json_str(record, "job", ""), &job, err))
        return err_wrap(err, "the job of %s", json_str(record, "id", ""));
    int index = job_shape_index(job, json_str(record, "shape_hash", ""));
    if (index < 0 || !shape_parse(j->ops, json_object_get(job_shape(job, index), "shape"), NULL, "", ret, &f))
        return err_set(err, ERR_UNPROCESSABLE, "the shape of %s is none of an operator that is here now", json_str(record, "id", ""));
    return true;
}

static bool comparable(const json_t *a, const json_t *b, struct err *err)
{
    const char *shape = json_str(a, "shape_hash", ""), *evidence = json_str(json_object_get(a, "figures"), "evidence", "");
    if (strcmp(shape, json_str(b, "shape_hash", "-")) || strcmp(evidence, json_str(json_object_get(b, "figures"), "evidence", "-")))
        return err_set(err, ERR_UNPROCESSABLE, "%s and %s are not of one shape and one kind of evidence", json_str(a, "id", ""), json_str(b, "id", ""));
    return true;
}

bool jobs_measure(struct jobs *j, const char *a, const char *b, judge_cancelled *cancelled, void *ctx, struct comparison *ret, struct err *err)
{
    cleanup(json) json_t *first = NULL, *second = NULL, *task = json_object();
    cleanup(judge_answer) struct judge_answer answer = {0};
    struct spawn_config spawn = j->config.spawn;
    struct shape shape;
    if (!store_get(j->store, STORE_CANDIDATE, a, &first, err) || !store_get(j->store, STORE_CANDIDATE, b, &second, err) || !comparable(first, second, err) ||
        !load_shape(j, first, &shape, err))
        return false;
    cleanup(str) char *ops_dir = op_folder(shape.op);
    if (spawn.ops_dir)
        spawn.ops_dir = ops_dir;
    json_put(task, "shape", shape_encode(&shape));
    json_put(task, "candidate", json_incref(json_object_get(first, "candidate")));
    json_put(task, "baseline", json_incref(json_object_get(second, "candidate")));
    json_put_str(task, "op_digest", shape.op->digest.text);
    json_put_str(task, "mode", "full");
    if (json_num(json_object_get(second, "figures"), "time_ns", 0) > 0)
        json_put_num(task, "baseline_time_ns", json_num(json_object_get(second, "figures"), "time_ns", 0));
    json_put_str(task, "job", json_str(first, "job", ""));
    json_put_str(task, "candidate_id", a);
    if (!spawn_judge(&spawn, task, NULL, cancelled, ctx, &answer, err))
        return false;
    spending_add_gpu(j, answer.gpu_ns);      /* whatever it says: the card has worked */
    const json_t *speedup = json_object_get(answer.figures, "speedup");
    if (!verdict_is_correct(answer.verdict.code) || strcmp(json_str(answer.figures, "evidence", ""), json_str(json_object_get(first, "figures"), "evidence", "-")))
        return err_set(err, ERR_UNPROCESSABLE, "%s was judged %s this time, or not by the same kind of device", a, verdict_name(answer.verdict.code));
    *ret = (struct comparison){json_num(speedup, "median", 1), json_num(speedup, "low", 0), json_num(speedup, "high", 1e9),
                               strcmp(json_str(answer.figures, "evidence", ""), "measured") == 0};
    return true;
}

/* Whole jobs with a judge that does as it is told: the way to done, what is served, limits, cancelling, judges that fail. */
#include "tests/test_jobs.h"

#define SHAPE "{'op':'scale','shapes':[{'R':4,'N':8}]"

static const json_t *shape_of(const json_t *job, int i)
{
    return json_array_get(json_object_get(job, "shapes"), (size_t)i);
}

static double median(const json_t *doc)
{
    return json_num(json_object_get(doc, "speedup"), "median", 0);
}

static bool near(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

static void check_parts(struct world *w, const json_t *kernel)
{
    static const char *const parts[] = {"kernel.cubin", "kernel.ptx", "source", "certificate.json", "certificate.json.minisig"};
    const json_t *digests = json_object_get(kernel, "digests"), *sizes = json_object_get(kernel, "sizes");
    struct buf blobs[5] = {{0}};
    struct err err = {0};
    for (int i = 0; i < 5; i++) {
        check(store_get_blob(w->store, json_str(digests, parts[i], ""), &blobs[i], &err));
        check_int(json_int(sizes, parts[i], -1), blobs[i].size);
        check(json_str(json_object_get(kernel, "links"), parts[i], NULL));
    }
    cleanup(buf) struct buf key = {0}, comment = {0};
    signer_public_file(&w->signer, &key);
    check(minisign_verify(key.data, key.size, blobs[4].data, blobs[4].size, blobs[3].data, blobs[3].size, &comment, &err));
    check(strstr(comment.data, "file:certificate.json") && strstr(comment.data, json_str(kernel, "shape_hash", "?")) &&
          strstr(comment.data, "target:sm_90a"));
    cleanup(json) json_t *certificate = NULL;
    check(json_parse(blobs[3].data, blobs[3].size, &certificate, &err));
    check_str(json_str(certificate, "candidate", ""), json_str(kernel, "candidate", "?"));
    check_str(json_str(certificate, "job", ""), json_str(kernel, "job", "?"));
    check(json_object_get(json_object_get(certificate, "times"), "certified"));
    for (int i = 0; i < 5; i++)
        buf_done(&blobs[i]);
}

/* Ids rise by one step at least, the last is job.done, every candidate has one verdict and was proposed before it. */
static void check_story(struct world *w, const char *id, const json_t *job)
{
    if (w->jobs)
        wait_tidied(w);
    cleanup(json) json_t *events = events_of(w, id), *all = candidates_of(w, id);
    size_t i;
    json_t *e;
    int64_t before = 0;
    json_array_foreach(events, i, e) {
        check(json_int(e, "id", 0) > before);
        before = json_int(e, "id", 0);
        check_str(json_str(e, "job", ""), id);
    }
    e = json_array_get(events, json_array_size(events) - 1);
    check_str(json_str(e, "type", ""), "job.done");
    check_str(json_str(e, "state", ""), json_str(job, "state", "?"));
    check_int(count_events(events, "job.done", NULL), 1);
    json_array_foreach(all, i, e) {
        const char *candidate = json_str(e, "id", "?");
        bool judged = strcmp(json_str(e, "state", ""), "judged") == 0;
        check_int(count_events(events, "candidate.proposed", candidate), 1);
        check_int(count_events(events, "candidate.verdict", candidate), judged);
        check(judged || strcmp(json_str(e, "state", ""), "dropped") == 0);
        check(judged == json_is_object(json_object_get(e, "verdict")));
    }
}

static void whole_job(void)
{
    cleanup(world) struct world w = {0};
    world_new(&w);
    SET_SCRIPT("time=800 ", "verdict=wrong_result ", "time=1200 ", "time=500 retest=600 ", "time=400 reverdict=not_faster ",
               "time=550 retest=700 ", "time=100 reverdict=wrong_result ");
    char id[40];
    snprintf(id, sizeof id, "%s", submit(&w, SHAPE "}"));
    cleanup(json) json_t *job = wait_job(&w, id);
    check_str(json_str(job, "state", ""), "done");
    const json_t *shape = shape_of(job, 0), *best = json_object_get(shape, "best");
    check_str(json_str(shape, "state", ""), "done");
    check_str(json_str(shape, "why_ended", ""), "the list has ended");
    check_int(json_int(shape, "tried", 0), 7);
    check_int(json_int(json_object_get(job, "spent"), "candidates", 0), 7);
    check(near(median(best), 1000.0 / 600));
    check(near(json_num(json_object_get(shape, "baseline"), "time_ns", 0), 1000));
    check(!json_object_get(job, "current") && json_num(json_object_get(job, "spent"), "wall_seconds", 0) > 0);
    cleanup(json) json_t *all = candidates_of(&w, id);
    static const char *const verdicts[] = {"ok", "ok", "wrong_result", "not_faster", "ok", "not_confirmed", "ok", "wrong_result"};
    check_int(json_array_size(all), 8);
    for (size_t i = 0; i < 8; i++)
        check_str(code_of(json_array_get(all, i)), verdicts[i]);
    check(json_bool(json_array_get(all, 0), "is_baseline", false) && !json_bool(json_array_get(all, 1), "is_baseline", true));
    /* the retest's figure is the published one; what triage said stays beside it */
    check(near(json_num(json_object_get(json_array_get(all, 4), "figures"), "time_ns", 0), 600));
    check(near(json_num(json_object_get(json_array_get(all, 4), "triage"), "time_ns", 0), 500));
    check(json_array_size(json_object_get(json_array_get(all, 4), "phases")) == 2);
    check(json_is_null(json_object_get(json_array_get(all, 2), "certificate_digest")));
    check_story(&w, id, job);

    cleanup(json) json_t *kernel = get(&w, STORE_KERNEL, first_hash(job)), *events = events_of(&w, id);
    check_str(json_str(kernel, "candidate", ""), json_str(json_array_get(all, 4), "id", "?"));
    check(near(median(kernel), 1000.0 / 600) && near(json_num(kernel, "baseline_time_ns", 0), 1000));
    check_str(json_str(kernel, "evidence", ""), "emulated");
    check_int(json_array_size(json_object_get(kernel, "history")), 1);
    check_int(count_events(events, "shape.best", NULL), 2);
    check_int(count_events(events, "candidate.timed", json_str(kernel, "candidate", "")), 2);
    const json_t *step = json_array_get(json_object_get(json_object_get(kernel, "plan"), "steps"), 0);
    check_int(json_integer_value(json_array_get(json_object_get(step, "grid"), 0)), 4);
    const json_t *before = json_object_get(kernel, "preconditions");
    check_str(json_str(before, "driver_least", ""), "580.65.06");
    check_str(json_str(before, "target", ""), "sm_90a");
    check_int(json_int(json_object_get(json_object_get(before, "tensors"), "x"), "alignment", 0), 16);
    check_int(json_int(before, "workspace_alignment", 0), 256);
    check_int(json_int(json_object_get(json_object_get(before, "tensors"), "y"), "bytes", 0), 64);
    check_parts(&w, kernel);
}

static void nothing_beats_the_baseline(void)
{
    cleanup(world) struct world w = {0};
    world_new(&w);
    SET_SCRIPT("time=1500 ", "verdict=race ");
    char id[40];
    snprintf(id, sizeof id, "%s", submit(&w, SHAPE ",'reuse':'never'}"));
    cleanup(json) json_t *job = wait_job(&w, id), *kernel = get(&w, STORE_KERNEL, first_hash(job));
    check_str(json_str(job, "state", ""), "done");
    check(json_bool(kernel, "is_baseline", false) && near(median(kernel), 1.0));
    check_parts(&w, kernel);
    check_story(&w, id, job);
    /* A second job answers at once from what is served, and one that must not reuse searches anew. */
    char again[40];
    snprintf(again, sizeof again, "%s", submit(&w, SHAPE "}"));
    cleanup(json) json_t *reused = get(&w, STORE_JOB, again);
    check_str(json_str(reused, "state", ""), "done");
    check(json_bool(shape_of(reused, 0), "reused", false));
    check_str(json_str(json_object_get(shape_of(reused, 0), "best"), "candidate", ""), json_str(kernel, "candidate", "?"));
    check_story(&w, again, reused);
    snprintf(again, sizeof again, "%s", submit(&w, SHAPE ",'reuse':'never'}"));
    cleanup(json) json_t *anew = wait_job(&w, again), *after = get(&w, STORE_KERNEL, first_hash(job));
    check_int(json_int(shape_of(anew, 0), "tried", 0), 2);
    check_str(json_str(after, "candidate", ""), json_str(kernel, "candidate", "?"));   /* no better: it stays */
}

/* emulated 2.0, then measured 1.5 displaces it, then emulated 3.0 does not. */
static void evidence(void)
{
    cleanup(world) struct world w = {0};
    static const struct { const char *baseline, *source; double served; bool measured; } rounds[] = {
        {"time=1000 ", "time=500 ", 2.0, false}, {"time=1500 measured ", "time=1000 measured ", 1.5, true},
        {"time=3000 ", "time=1000 ", 1.5, true}, {"time=1000 measured ", "time=400 measured ", 2.5, true},
    };
    world_new(&w);
    for (size_t i = 0; i < 4; i++) {
        set_baseline(&w, rounds[i].baseline);
        script = &rounds[i].source;
        script_count = 1;
        char id[40];
        snprintf(id, sizeof id, "%s", submit(&w, i == 1 ? SHAPE ",'reuse':'never'}" : SHAPE ",'reuse':'never'}"));
        cleanup(json) json_t *job = wait_job(&w, id), *kernel = get(&w, STORE_KERNEL, first_hash(job));
        check(near(median(kernel), rounds[i].served));
        check_str(json_str(kernel, "evidence", ""), rounds[i].measured ? "measured" : "emulated");
    }
}

static void budgets_and_shapes(void)
{
    cleanup(world) struct world w = {0};
    world_new(&w);
    SET_SCRIPT("time=900 ", "time=1900 ", "time=1900 ", "time=1900 ", "time=1900 ", "time=1900 ", "time=1900 ", "time=1900 ");
    char id[40];
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8},{'axes':{'R':8,'N':8}},{'R':1,'N':4}],'budget':{'candidates':7}}"));
    cleanup(json) json_t *job = wait_job(&w, id);
    static const int shares[] = {3, 2, 2};
    for (int i = 0; i < 3; i++) {
        check_int(json_int(shape_of(job, i), "tried", 0), shares[i]);
        check_str(json_str(shape_of(job, i), "state", ""), "done");
        check(strstr(json_str(shape_of(job, i), "why_ended", ""), "budget of 7 candidates"));
    }
    check_story(&w, id, job);
    /* GPU seconds end a search between two candidates; the shape after it is skipped. */
    SET_SCRIPT("time=900 gpu=600000000 ", "time=1900 gpu=600000000 ", "time=1900 ");
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':5,'N':8},{'R':6,'N':8}],'budget':{'gpu_seconds':1.5}}"));
    cleanup(json) json_t *gpu = wait_job(&w, id);
    check_int(json_int(shape_of(gpu, 0), "tried", 0), 2);
    check(strstr(json_str(shape_of(gpu, 0), "why_ended", ""), "gpu_seconds"));
    check_str(json_str(shape_of(gpu, 1), "state", ""), "skipped");
    check_str(json_str(gpu, "state", ""), "done");
    check(near(json_num(json_object_get(gpu, "spent"), "gpu_seconds", 0), 1.8));   /* triage and retest both count */
    check_story(&w, id, gpu);
    SET_SCRIPT("time=1900 slow=600 ", "time=1900 slow=600 ", "time=1900 slow=600 ", "time=1900 slow=600 ", "time=1900 slow=600 ");
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':7,'N':8}],'budget':{'wall_seconds':2}}"));
    cleanup(json) json_t *wall = wait_job(&w, id);
    int64_t tried = json_int(shape_of(wall, 0), "tried", 0);
    check(tried <= 4);   /* 600 ms each: the fifth cannot begin within 2 s */
    check(strstr(json_str(shape_of(wall, 0), "why_ended", ""), "wall_seconds"));
    check_str(json_str(wall, "state", ""), "done");
}

static void cancelling(void)
{
    cleanup(world) struct world w = {0};
    w.config.runners = 0;
    world_open(&w);
    w.config.runners = 1;
    w.config.max_queued = 2;
    world_start(&w);
    SET_SCRIPT("time=900 hang=99 ");
    struct err err = {0};
    char first[40], second[40];
    snprintf(first, sizeof first, "%s", submit(&w, SHAPE "}"));
    for (int i = 0; i < 5000; i++) {   /* until the hanging candidate is under work */
        cleanup(json) json_t *job = get(&w, STORE_JOB, first);
        if (json_int(json_object_get(job, "spent"), "candidates", 0) == 1)
            break;
        clock_sleep_ns(5000000);
    }
    /* The one runner is busy: two more may wait, a third may not. */
    snprintf(second, sizeof second, "%s", submit(&w, "{'op':'scale','shapes':[{'R':1,'N':8}]}"));
    check(*submit(&w, "{'op':'scale','shapes':[{'R':2,'N':8}]}"));
    cleanup(json) json_t *request = json_of("{'op':'scale','shapes':[{'R':3,'N':8}]}"), *job = NULL, *gone = NULL;
    struct faults f = {0};
    int64_t as_of;
    check(!jobs_submit(w.jobs, request, NULL, &job, &as_of, &f, &err));
    check_int(err.code, ERR_BUSY);
    /* A queued job that is cancelled gives its place away. */
    check(jobs_cancel(w.jobs, second, &gone, &err));
    check_str(json_str(gone, "state", ""), "cancelled");
    check_story(&w, second, gone);
    check(jobs_submit(w.jobs, request, "tok_1", &job, &as_of, &f, &err));
    check_str(json_str(job, "caller", ""), "tok_1");
    int64_t from = clock_mono_ns();
    cleanup(json) json_t *cancelled = NULL, *again = NULL, *none = NULL, *next = NULL;
    check(jobs_cancel(w.jobs, first, &cancelled, &err));
    check_str(json_str(cancelled, "state", ""), "cancelled");
    check_str(json_str(shape_of(cancelled, 0), "why_ended", ""), "the job was cancelled");
    script_count = 0;
    next = wait_job(&w, json_str(job, "id", ""));   /* the runner is free again */
    check_str(json_str(next, "state", ""), "done");
    check(clock_mono_ns() - from < 5000000000);
    check(jobs_cancel(w.jobs, first, &again, &err));
    check(json_equal(again, cancelled));
    check_story(&w, first, again);
    cleanup(json) json_t *all = candidates_of(&w, first);
    check_str(json_str(json_array_get(all, 1), "state", ""), "dropped");
    err = (struct err){0};
    check(!jobs_cancel(w.jobs, "job_nobody", &none, &err));
    check_int(err.code, ERR_NOT_FOUND);
}

static void judges_that_fail(void)
{
    cleanup(world) struct world w = {0};
    world_open(&w);
    w.config.spawn.wall_limit_ns = 700000000;
    world_start(&w);
    /* Once is retried; a candidate that crashes two in a row has its verdict; garbage is a crash. */
    SET_SCRIPT("time=900 crash=1 long ", "time=800 crash=99 ", "time=700 garbage=99 ", "time=600 hang=1 long ");
    char id[40];
    snprintf(id, sizeof id, "%s", submit(&w, SHAPE "}"));
    cleanup(json) json_t *job = wait_job(&w, id), *all = candidates_of(&w, id), *events = events_of(&w, id);
    check_str(json_str(job, "state", ""), "done");
    static const char *const verdicts[] = {"ok", "ok", "fault", "fault", "ok"};
    static const int errors[] = {0, 1, 2, 2, 1};
    for (size_t i = 0; i < 5; i++) {
        check_str(code_of(json_array_get(all, i)), verdicts[i]);
        check_int(json_int(json_array_get(all, i), "judge_errors", -1), errors[i]);
    }
    check(strstr(json_str(json_object_get(json_array_get(all, 4), "judge_error"), "code", ""), "timeout"));
    check(strstr(json_str(json_object_get(json_array_get(all, 2), "verdict"), "text", ""), "2 judges in a row"));
    check_story(&w, id, job);
    check(count_events(events, "candidate.phase", json_str(json_array_get(all, 2), "id", "")) >= 2);
    /* A phase that has more to say than an event holds is told without that, and not without what it did not do. */
    size_t at;
    json_t *event;
    int notes = 0;
    json_array_foreach(events, at, event)
        if (strcmp(json_str(event, "phase", ""), "emulate") == 0) {
            check(!json_object_get(event, "padding"));
            notes += strcmp(json_str(event, "note", ""), "as told") == 0;
        }
    check(notes >= 2);
    cleanup(json) json_t *stats = jobs_stats(w.jobs);
    check_int(json_int(stats, "judge_errors", 0), 6);
    check_int(json_int(stats, "runners", 0), 2);
    /* What is no crash is never the candidate's fault: after the retries the job fails and says why. */
    SET_SCRIPT("time=900 error=99 ");
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':9,'N':8}]}"));
    cleanup(json) json_t *failed = wait_job(&w, id), *dropped = candidates_of(&w, id);
    check_str(json_str(failed, "state", ""), "failed");
    check_str(json_str(json_object_get(failed, "error"), "code", ""), "unavailable");
    check(strstr(json_str(json_object_get(failed, "error"), "text", ""), "no toolkit at /nowhere"));
    check_str(json_str(json_array_get(dropped, 1), "state", ""), "dropped");
    check_story(&w, id, failed);
    /* A baseline that crashes the judge is ours too. */
    set_baseline(&w, "time=1000 crash=99 ");
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':10,'N':8}]}"));
    cleanup(json) json_t *crashed = wait_job(&w, id);
    check_str(json_str(crashed, "state", ""), "failed");
    check_str(json_str(json_object_get(crashed, "error"), "code", ""), "upstream");
    /* A baseline that is wrong fails its shape. */
    set_baseline(&w, "verdict=unsupported_on_sim ");
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':11,'N':8}]}"));
    cleanup(json) json_t *wrong = wait_job(&w, id);
    check_str(json_str(shape_of(wrong, 0), "state", ""), "failed");
    check(strstr(json_str(json_object_get(wrong, "error"), "text", ""), "unsupported_on_sim"));
    check_story(&w, id, wrong);
}

/* What the judge says it cannot judge is asked once: a shape fails with its words, a job that has other shapes goes on. */
static void judges_that_refuse(void)
{
    static const char *const codes[] = {"unprocessable", "invalid", "too_large"};
    cleanup(world) struct world w = {0};
    world_new(&w);
    char id[40], source[80];
    SET_SCRIPT("time=900 ");
    for (int i = 0; i < 3; i++) {
        snprintf(source, sizeof source, "time=1000 refuse=%s ", codes[i]);
        set_baseline(&w, source);
        snprintf(id, sizeof id, "%s", submit(&w, SHAPE "}"));
        cleanup(json) json_t *job = wait_job(&w, id), *all = candidates_of(&w, id);
        check_str(json_str(job, "state", ""), "failed");
        check_str(json_str(shape_of(job, 0), "state", ""), "failed");
        check(strstr(json_str(shape_of(job, 0), "why_ended", ""), "no figures are known of that card"));
        check_str(json_str(json_object_get(job, "error"), "code", ""), "unprocessable");
        check(strstr(json_str(json_object_get(job, "error"), "text", ""), "no figures are known of that card"));
        check_int(json_array_size(all), 1);
        check_int(json_int(json_array_get(all, 0), "judge_errors", -1), 1);
        check_story(&w, id, job);
    }
    set_baseline(&w, "time=1000 refuse=unprocessable refuse_r=9 ");
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':9,'N':8},{'R':4,'N':8}]}"));
    cleanup(json) json_t *half = wait_job(&w, id);
    check_str(json_str(half, "state", ""), "done");
    check_str(json_str(shape_of(half, 0), "state", ""), "failed");
    check_str(json_str(shape_of(half, 1), "state", ""), "done");
    check_story(&w, id, half);
    set_baseline(&w, "time=1000 ");
    SET_SCRIPT("time=900 refuse=too_large ");
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':5,'N':8}]}"));
    cleanup(json) json_t *job = wait_job(&w, id), *all = candidates_of(&w, id);
    check_str(json_str(job, "state", ""), "failed");
    check_str(json_str(json_object_get(job, "error"), "code", ""), "too_large");
    check_int(json_int(json_array_get(all, 1), "judge_errors", -1), 1);
    check_story(&w, id, job);
}

/* Stops in the middle of a judgement, within 5 s; the next start judges again and counts nothing twice. */
static void stop_and_go_on(void)
{
    cleanup(world) struct world w = {0};
    world_new(&w);
    SET_SCRIPT("time=900 ", "time=800 hang=1 ", "time=700 ");
    char id[40];
    snprintf(id, sizeof id, "%s", submit(&w, SHAPE "}"));
    for (int i = 0; i < 5000; i++) {
        cleanup(json) json_t *job = get(&w, STORE_JOB, id);
        if (json_int(json_object_get(job, "spent"), "candidates", 0) == 2) {
            wait_judging(&w, json_str(job, "current", ""));
            break;
        }
        clock_sleep_ns(5000000);
    }
    int64_t from = clock_mono_ns();
    world_stop(&w);
    check(clock_mono_ns() - from < 5000000000);
    world_open(&w);
    cleanup(json) json_t *before = get(&w, STORE_JOB, id);
    check_str(json_str(before, "state", ""), "running");
    world_start(&w);
    cleanup(json) json_t *job = wait_job(&w, id), *all = candidates_of(&w, id);
    check_str(json_str(job, "state", ""), "done");
    check_int(json_array_size(all), 4);
    check_int(json_int(json_object_get(job, "spent"), "candidates", 0), 3);
    check_int(json_int(json_array_get(all, 2), "judge_errors", -1), 0);
    check(near(median(json_object_get(shape_of(job, 0), "best")), 1000.0 / 700));
    check_story(&w, id, job);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    judge_program = argv[1];
    log_threshold(LOG_ERROR);
    hash_init();
    whole_job();
    nothing_beats_the_baseline();
    evidence();
    budgets_and_shapes();
    cancelling();
    judges_that_fail();
    judges_that_refuse();
    stop_and_go_on();
    return test_done();
}

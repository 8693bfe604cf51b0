/* Requests that are refused, each with the pointer to what is wrong; idempotency; external candidates. */
#include "tests/test_jobs.h"

struct bad { const char *request, *pointer, *says; enum err_code code; };

static void refused(struct world *w, const struct bad *bad)
{
    cleanup(json) json_t *request = json_of(bad->request), *job = NULL;
    struct faults f = {0};
    struct err err = {0};
    int64_t as_of = 0;
    bool found = false;
    check(!jobs_submit(w->jobs, request, NULL, &job, &as_of, &f, &err));
    check_int(err.code, bad->code);
    for (int i = 0; i < f.count && i < FAULTS_MAX; i++)
        found = found || (strcmp(f.list[i].pointer, bad->pointer) == 0 && (strstr(f.list[i].detail, bad->says) || strstr(err.text, bad->says)));
    if (!found) {
        fprintf(stderr, "%s: wanted \"%s\" at %s, got %s\n", bad->request, bad->says, bad->pointer, err.text);
        for (int i = 0; i < f.count && i < FAULTS_MAX; i++)
            fprintf(stderr, "   %s: %s\n", f.list[i].pointer, f.list[i].detail);
    }
    check(found);
}

static bool no_job(void *ctx, const char *id, const json_t *doc)
{
    (void)ctx, (void)id, (void)doc;
    check(!"a refused job was stored");
    return false;
}

static void bad_requests(void)
{
    static const struct bad table[] = {
        {"[]", "", "an object", ERR_INVALID},
        {"{}", "/op", "name of an operator", ERR_INVALID},
        {"{'op':7,'shapes':[{}]}", "/op", "there are scale", ERR_INVALID},
        {"{'op':'nope','shapes':[{'R':1}]}", "/op", "unknown operator", ERR_INVALID},
        {"{'op':'scale'}", "/shapes", "list of 1 to 4", ERR_INVALID},
        {"{'op':'scale','shapes':{}}", "/shapes", "list of 1 to 4", ERR_INVALID},
        {"{'op':'scale','shapes':[]}", "/shapes", "list of 1 to 4", ERR_INVALID},
        {"{'op':'scale','shapes':[{},{},{},{},{}]}", "/shapes", "list of 1 to 4", ERR_INVALID},
        {"{'op':'scale','shapes':[3]}", "/shapes/0", "object of axes", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8},{'R':4}]}", "/shapes/1/N", "missing", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8,'Q':1}]}", "/shapes/0/Q", "no axis Q", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':-1,'N':8}]}", "/shapes/0/R", "at least 1", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':0,'N':8}]}", "/shapes/0/R", "at least 1", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':5000,'N':8}]}", "/shapes/0/R", "at most 4096", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4.0,'N':8}]}", "/shapes/0/R", "integer", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':'4','N':8}]}", "/shapes/0/R", "integer", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':6}]}", "/shapes/0/N", "N % 4 == 0", ERR_INVALID},
        {"{'op':'scale','shapes':[{'axes':{'R':4,'N':6}}]}", "/shapes/0/axes/N", "N % 4 == 0", ERR_INVALID},
        {"{'op':'scale','shapes':[{'axes':{'R':4,'N':8},'more':1}]}", "/shapes/0/more", "", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8},{'N':8,'R':4}]}", "/shapes/1", "same shape", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8},{'R':4096,'N':65536}]}", "/shapes/1", "tensor x has 536870912 bytes", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4096,'N':2052}]}", "/shapes/0", "tensor x has 16809984 bytes; at most 16777216", ERR_INVALID},
        {"{'op':'scale','shapes':[{'axes':{'R':4096,'N':2048}}]}", "/shapes/0", "33554432 bytes together; at most 25165824", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'dtypes':{'io':'f64'}}", "/dtypes/io", "bf16, f32", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'dtypes':{'xx':'f32'}}", "/dtypes/xx", "no dtype letter", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'dtypes':[]}", "/dtypes", "object", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'target':'sm_x'}", "/target", "sm_90a", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'target':90}", "/target", "sm_90a", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'color':'red'}", "/color", "", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':'always'}", "/reuse", "verified, never", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':true}", "/reuse", "verified, never", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'generator':'magic'}", "/generator", "template, llm, external", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'generator':null}", "/generator", "template, llm, external", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'budget':5}", "/budget", "object", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'budget':{'candidates':0}}", "/budget/candidates", "1 to 50", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'budget':{'candidates':51}}", "/budget/candidates", "1 to 50", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'budget':{'candidates':1.5}}", "/budget/candidates", "integer", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'budget':{'wall_seconds':1001}}", "/budget/wall_seconds", "1 to 1000", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'budget':{'gpu_seconds':-1}}", "/budget/gpu_seconds", "above 0", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'budget':{'tokens':'many'}}", "/budget/tokens", "integer", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'budget':{'money':1}}", "/budget/money", "", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'generator':'llm'}", "/generator", "has no generator of that name", ERR_UNPROCESSABLE},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'baseline':{'language':'cuda'}}", "/baseline/source", "", ERR_INVALID},
        {"{'op':'scale','shapes':[{'R':4,'N':8}],'baseline':{'language':'cuda','source':'','plan':{'steps':[{'kernel':'k','grid':['Q'],'block':[32],'args':[]}]}}}",
         "/baseline/plan", "shape 0", ERR_INVALID},
    };
    cleanup(world) struct world w = {0};
    world_new(&w);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        refused(&w, &table[i]);
    struct store_page page = {STORE_JOB, NULL, NULL, 10, false};
    struct err err = {0};
    check(store_list(w.store, &page, no_job, NULL, NULL, NULL, &err));
    check_int(store_last_event(w.store), 0);
    cleanup(json) json_t *stats = jobs_stats(w.jobs);
    check_int(json_int(stats, "queued", -1), 0);
    /* All faults at once. */
    cleanup(json) json_t *request = json_of("{'op':'scale','shapes':[{'R':0,'N':8,'Q':1},{'R':1}],'budget':{'candidates':0},'x':1}"), *job = NULL;
    struct faults f = {0};
    int64_t as_of;
    check(!jobs_submit(w.jobs, request, NULL, &job, &as_of, &f, &err));
    check_int(f.count, 5);
}

static void idempotency(void)
{
    cleanup(world) struct world w = {0};
    world_new(&w);
    script_count = 0;
    cleanup(json) json_t *request = json_of("{'op':'scale','shapes':[{'R':4,'N':8}]}"), *answer = json_of("{'digest':'abc'}");
    cleanup(json) json_t *job = NULL, *second = NULL, *record = NULL;
    struct faults f = {0};
    struct err err = {0};
    int64_t as_of;
    check(jobs_submit_once(w.jobs, request, NULL, "caller/key", answer, &job, &as_of, &f, &err));
    record = get(&w, STORE_IDEMPOTENCY, "caller/key");
    check_str(json_str(record, "job", ""), json_str(job, "id", "?"));
    check_str(json_str(record, "digest", ""), "abc");
    check(!json_object_get(answer, "job"));
    check(!jobs_submit_once(w.jobs, request, NULL, "caller/key", answer, &second, &as_of, &f, &err));
    check_int(err.code, ERR_CONFLICT);
    check(!second && f.count == 0);
}

static bool add(struct world *w, const char *job, const char *source, const char *hash, json_t **ret, struct faults *f, struct err *err)
{
    cleanup(json) json_t *doc = candidate_doc(source), *request = json_object();
    json_put(request, "candidate", json_incref(doc));
    if (hash)
        json_put_str(request, "shape_hash", hash);
    *f = (struct faults){0};
    *err = (struct err){0};
    return jobs_add_candidate(w->jobs, job, hash ? request : doc, ret, f, err);
}

static void external(void)
{
    cleanup(world) struct world w = {0};
    world_new(&w);
    char id[40];
    struct faults f;
    struct err err;
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8},{'R':8,'N':8}],'generator':'external','budget':{'candidates':3}}"));
    cleanup(json) json_t *queued = get(&w, STORE_JOB, id), *first = NULL, *second = NULL, *none = NULL;
    const char *hash = json_str(json_array_get(json_object_get(queued, "shapes"), 1), "shape_hash", "");
    /* Two shapes: which one must be said. Faults point into the request as it was written. */
    check(!add(&w, id, "time=900 ", NULL, &none, &f, &err));
    check_int(err.code, ERR_INVALID);
    check_str(f.list[0].pointer, "/shape_hash");
    check(!add(&w, id, "time=900 ", "0123", &none, &f, &err));
    check_str(f.list[0].pointer, "/shape_hash");
    cleanup(json) json_t *bad = json_of("{'candidate':{'language':'fortran','plan':{'steps':[]},'extra':1},'shape_hash':''}");
    json_put_str(bad, "shape_hash", hash);
    f = (struct faults){0};
    check(!jobs_add_candidate(w.jobs, id, bad, &none, &f, &err));
    check_int(err.code, ERR_INVALID);
    check(f.count >= 3 && strncmp(f.list[0].pointer, "/candidate/", 11) == 0);
    cleanup(json) json_t *triton = json_of("{'candidate':{'language':'triton','source':'x','plan':{'steps':[{'kernel':'k','grid':[1],'block':[32],'args':[]}]}}}");
    json_put_str(triton, "shape_hash", hash);
    f = (struct faults){0};
    check(!jobs_add_candidate(w.jobs, id, triton, &none, &f, &err));
    check_int(err.code, ERR_INVALID);
    check_str(f.list[0].pointer, "/candidate/triton");
    check(!add(&w, "job_nobody", "time=900 ", hash, &none, &f, &err));
    check_int(err.code, ERR_NOT_FOUND);
    /* In order of arrival, after the baselines; the job waits for more. */
    check(add(&w, id, "time=900 ", hash, &first, &f, &err));
    check(add(&w, id, "time=800 ", hash, &second, &f, &err));
    check_str(json_str(first, "state", ""), "proposed");
    for (int i = 0; i < 2000; i++) {
        cleanup(json) json_t *record = get(&w, STORE_CANDIDATE, json_str(second, "id", ""));
        if (json_object_get(record, "verdict") && !json_is_null(json_object_get(record, "verdict")))
            break;
        clock_sleep_ns(2000000);
    }
    int64_t parked = 0;
    for (int i = 0; i < 2000 && parked != 1; i++) {
        cleanup(json) json_t *stats = jobs_stats(w.jobs);
        parked = json_int(stats, "waiting", -1);
        clock_sleep_ns(2000000);
    }
    check_int(parked, 1);
    cleanup(json) json_t *waiting = get(&w, STORE_JOB, id), *third = NULL;
    check_str(json_str(waiting, "state", ""), "running");
    /* The last one of the budget ends the job; then no more is taken. */
    check(add(&w, id, "time=950 ", first_hash(queued), &third, &f, &err));
    check(!add(&w, id, "time=950 ", first_hash(queued), &none, &f, &err));
    check_int(err.code, ERR_CONFLICT);
    cleanup(json) json_t *job = wait_job(&w, id), *all = candidates_of(&w, id), *kernel = get(&w, STORE_KERNEL, hash);
    check_str(json_str(job, "state", ""), "done");
    check_int(json_int(json_object_get(job, "spent"), "candidates", 0), 3);
    check_int(json_array_size(all), 5);
    check_str(json_str(kernel, "candidate", ""), json_str(second, "id", "?"));
    check(!add(&w, id, "time=950 ", hash, &none, &f, &err));
    check_int(err.code, ERR_CONFLICT);
    check(strstr(err.text, "has ended (done)"));
    /* A job that makes its own candidates takes none. */
    SET_SCRIPT("time=900 slow=300 ");
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':9,'N':8}]}"));
    check(!add(&w, id, "time=950 ", NULL, &none, &f, &err));
    check_int(err.code, ERR_CONFLICT);
    check(strstr(err.text, "generator template"));
}

/* Key, candidate and its place in the list are one transaction: a second request with the key finds it and adds nothing. */
static void external_once(void)
{
    cleanup(world) struct world w = {0};
    world_new(&w);
    char id[40];
    struct faults f = {0};
    struct err err = {0};
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}],'generator':'external','budget':{'candidates':5}}"));
    cleanup(json) json_t *doc = candidate_doc("time=900 "), *answer = json_of("{'fingerprint':'abc','status':202}");
    cleanup(json) json_t *made = NULL, *second = NULL, *record = NULL, *cancelled = NULL;
    check(jobs_add_candidate_once(w.jobs, id, doc, "caller/candidate", answer, &made, &f, &err));
    record = get(&w, STORE_IDEMPOTENCY, "caller/candidate");
    check_str(json_str(record, "candidate", ""), json_str(made, "id", "?"));
    check_str(json_str(record, "fingerprint", ""), "abc");
    check(json_equal(json_object_get(record, "body"), made));
    check(!json_object_get(answer, "body"));
    check(!jobs_add_candidate_once(w.jobs, id, doc, "caller/candidate", answer, &second, &f, &err));
    check_int(err.code, ERR_CONFLICT);
    check(strstr(err.text, "Idempotency-Key") && !second);
    check(jobs_cancel(w.jobs, id, &cancelled, &err));
    cleanup(json) json_t *all = candidates_of(&w, id);
    int others = 0;
    for (size_t i = 0; i < json_array_size(all); i++)
        others += !json_bool(json_array_get(all, i), "is_baseline", false);
    check_int(others, 1);
}

/* Nobody sends anything: the wall limit ends it, also where it was restarted meanwhile; what waits is dropped. */
static void external_that_waits(void)
{
    cleanup(world) struct world w = {0};
    world_new(&w);
    char id[40];
    struct faults f;
    struct err err;
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}],'generator':'external','budget':{'wall_seconds':3}}"));
    int64_t from = clock_mono_ns();
    cleanup(json) json_t *job = wait_job(&w, id), *kernel = get(&w, STORE_KERNEL, first_hash(job));
    check(clock_mono_ns() - from < 15000000000);
    check_str(json_str(job, "state", ""), "done");
    check(json_bool(kernel, "is_baseline", false));
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','shapes':[{'R':5,'N':8}],'generator':'external','budget':{'wall_seconds':30}}"));
    cleanup(json) json_t *first = NULL, *second = NULL, *cancelled = NULL;
    check(add(&w, id, "time=900 hang=99 ", NULL, &first, &f, &err));
    check(add(&w, id, "time=900 ", NULL, &second, &f, &err));
    wait_judging(&w, json_str(first, "id", ""));
    world_stop(&w);
    world_open(&w);
    world_start(&w);
    check(jobs_cancel(w.jobs, id, &cancelled, &err));
    wait_tidied(&w);
    cleanup(json) json_t *all = candidates_of(&w, id), *events = events_of(&w, id);
    check_int(json_array_size(all), 3);
    for (size_t i = 0; i < 3; i++)
        check_str(json_str(json_array_get(all, i), "state", ""), json_bool(json_array_get(all, i), "is_baseline", false) ? "judged" : "dropped");
    check_int(count_events(events, "candidate.proposed", NULL), 3);
    cleanup(json) json_t *list = NULL;
    cleanup(str) char *key = xfmt("external/%s", id);
    check(!store_get(w.store, STORE_META, key, &list, &err));
}

static json_t *ends_within(struct world *w, const char *id, int64_t ns)
{
    for (int64_t until = clock_mono_ns() + ns; clock_mono_ns() < until; clock_sleep_ns(5000000)) {
        cleanup(json) json_t *job = get(w, STORE_JOB, id);
        if (json_object_get(job, "finished"))
            break;
    }
    return get(w, STORE_JOB, id);
}

static void until_waiting(struct world *w, int count)
{
    int64_t waiting = -1;
    for (int i = 0; i < 2000 && waiting != count; i++, clock_sleep_ns(2000000)) {
        cleanup(json) json_t *stats = jobs_stats(w->jobs);
        waiting = json_int(stats, "waiting", -1);
    }
    check_int(waiting, count);
}

/* The wall limits of jobs that wait are kept while the only runner is busy, also where a candidate came that nobody could judge. */
static void limits_without_a_runner(void)
{
    cleanup(world) struct world w = {0};
    world_open(&w);
    w.config.runners = 1;
    world_start(&w);
    static const char *const requests[] = {
        "{'op':'scale','shapes':[{'R':4,'N':8}],'generator':'external','budget':{'wall_seconds':3}}",
        "{'op':'scale','shapes':[{'R':5,'N':8}],'generator':'external','budget':{'wall_seconds':3}}",
        "{'op':'scale','shapes':[{'R':7,'N':8}],'generator':'external','budget':{'wall_seconds':60}}"};
    char ids[3][40], busy[40];
    struct faults f;
    struct err err;
    for (int i = 0; i < 3; i++) {
        snprintf(ids[i], sizeof ids[i], "%s", submit(&w, requests[i]));
        until_waiting(&w, i + 1);
    }
    SET_SCRIPT("time=900 slow=6000 ");
    snprintf(busy, sizeof busy, "%s", submit(&w, "{'op':'scale','shapes':[{'R':6,'N':8}]}"));
    for (int i = 0; i < 2000 && w.jobs; i++, clock_sleep_ns(2000000)) {
        cleanup(json) json_t *job = get(&w, STORE_JOB, busy);
        if (json_int(json_object_get(job, "spent"), "candidates", 0) == 1)
            break;
    }
    cleanup(json) json_t *late = NULL, *last = NULL;
    check(add(&w, ids[1], "time=800 ", NULL, &late, &f, &err) && add(&w, ids[2], "time=800 ", NULL, &last, &f, &err));
    for (int i = 0; i < 2; i++) {
        cleanup(json) json_t *job = ends_within(&w, ids[i], 5000000000);
        const json_t *shape = json_array_get(json_object_get(job, "shapes"), 0);
        check_str(json_str(job, "state", ""), "done");
        check_str(json_str(shape, "why_ended", ""), "the budget of 3 wall_seconds is used up");
    }
    wait_tidied(&w);
    cleanup(json) json_t *still = get(&w, STORE_JOB, busy), *dropped = get(&w, STORE_CANDIDATE, json_str(late, "id", ""));
    check_str(json_str(still, "state", ""), "running");
    check_str(json_str(dropped, "state", ""), "dropped");
    /* What has time left gets its turn when the runner is free. */
    cleanup(json) json_t *judged = NULL;
    for (int i = 0; i < 3000; i++, clock_sleep_ns(5000000)) {
        json_decref(judged);
        judged = get(&w, STORE_CANDIDATE, json_str(last, "id", ""));
        if (strcmp(json_str(judged, "state", ""), "judged") == 0)
            break;
    }
    check_str(code_of(judged), "ok");
}

/*
 * A job's own baseline is judged first and measured against; but what the job would have served is judged beside the operator's (1000 ns)
 * once more, and served by that alone.
 */
static void own_baseline(void)
{
    static const struct { const char *baseline, *candidate; double best, served_ns, speedup; const char *serving; } rows[] = {
        {"time=3000 ", "time=1500 ", 2, 0, 0, "not_faster"},           /* twice as fast as its own, half as fast as the operator's */
        {"time=3000 ", "time=2500 reverdict=wrong_result ", 1, 0, 0, "not_faster"},   /* and so is a slow baseline that nothing beat */
        {"time=3000 ", "time=500 refuse=invalid refuse_beside=1000 ", 6, 0, 0, "judge_error"},
        {NULL, "time=1200 ", 1, 1000, 1, NULL},
        {"time=3000 ", "time=1100 ", 3000. / 1100, 1000, 1, "not_faster"},
        {"time=800 ", "time=950 ", 1, 800, 1.25, "ok"},                /* it is faster than the operator's, and served as what it is: a kernel */
        {"time=3000 ", "time=500 ", 6, 500, 2, "ok"},
        {"time=1000 ", "time=400 ", 2.5, 400, 2.5, NULL},              /* the operator's, sent along */
    };
    cleanup(world) struct world w = {0};
    world_new(&w);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cleanup(json) json_t *request = json_of("{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':'never'}"), *queued = NULL;
        struct faults f = {0};
        struct err err = {0};
        int64_t as_of;
        script = &rows[i].candidate;
        script_count = 1;
        if (rows[i].baseline)
            json_put(request, "baseline", candidate_doc(rows[i].baseline));
        check(jobs_submit(w.jobs, request, NULL, &queued, &as_of, &f, &err));
        char key[64];
        snprintf(key, sizeof key, "baseline/%s", json_str(queued, "id", ""));
        cleanup(json) json_t *job = wait_job(&w, json_str(queued, "id", "")), *left = NULL;
        const json_t *shape = json_array_get(json_object_get(job, "shapes"), 0), *base = json_object_get(shape, "baseline");
        const json_t *serving = json_object_get(shape, "serving");
        cleanup(json) json_t *record = get(&w, STORE_CANDIDATE, json_str(base, "candidate", ""));
        cleanup(json) json_t *kernel = get(&w, STORE_KERNEL, json_str(shape, "shape_hash", ""));
        check_str(json_str(job, "state", ""), "done");
        check_str(json_str(json_object_get(record, "candidate"), "source", ""), rows[i].baseline ? rows[i].baseline : "time=1000 ");
        check((json_str(json_object_get(job, "baseline"), "digest", NULL) != NULL) == (rows[i].serving != NULL));
        check(json_num(json_object_get(json_object_get(shape, "best"), "speedup"), "median", 0) == rows[i].best);
        check(json_num(kernel, "time_ns", 0) == rows[i].served_ns);
        check(json_num(json_object_get(kernel, "speedup"), "median", 0) == rows[i].speedup);
        check(!json_object_get(kernel, "own_baseline"));
        check_str(json_str(serving, "verdict", ""), rows[i].serving ? rows[i].serving : "");
        check_str(json_str(serving, "stands_for", ""), serving ? json_str(json_object_get(shape, "best"), "candidate", "") : "");
        check(json_bool(serving, "served", false) == (rows[i].serving && !strcmp(rows[i].serving, "ok")));
        check_int(json_int(json_object_get(job, "spent"), "candidates", 0), 1);
        cleanup(json) json_t *events = events_of(&w, json_str(queued, "id", ""));
        if (serving && json_bool(serving, "served", false)) {
            cleanup(json) json_t *stands = get(&w, STORE_CANDIDATE, json_str(kernel, "candidate", ""));
            check_str(json_str(kernel, "candidate", ""), json_str(serving, "candidate", "?"));
            check_str(code_of(stands), "ok");
            check(!json_bool(stands, "is_baseline", false) && !json_object_get(json_object_get(stands, "figures"), "own_baseline"));
            check(json_num(kernel, "baseline_time_ns", 0) == 1000);
            check_str(json_str(kernel, "baseline_of", ""), "operator");       /* and the source that it was compared with is kept */
            cleanup(buf) struct buf source = {0};
            check(store_get_blob(w.store, json_str(json_object_get(kernel, "digests"), "baseline", ""), &source, &err));
            check_str(buf_cstr(&source), "time=1000 ");
        }
        for (size_t e = 0; serving && e < json_array_size(events); e++) {      /* nothing else of it was ever told to be served */
            const json_t *one = json_array_get(events, e);
            check(!json_bool(one, "served", false) || !strcmp(json_str(one, "candidate", ""), json_str(serving, "candidate", "")));
        }
        check(!store_get(w.store, STORE_META, key, &left, &err) && err.code == ERR_NOT_FOUND);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    judge_program = argv[1];
    log_threshold(LOG_ERROR);
    hash_init();
    bad_requests();
    idempotency();
    own_baseline();
    external();
    external_once();
    external_that_waits();
    limits_without_a_runner();
    return test_done();
}

/*
 * What the tests of server/jobs share: a folder with an operator, a store and a signing key; a generator that proposes from a list;
 * the judge of test_jobs_judge.c, whose path is the program's first argument.
 */
#pragma once
#include "core/clock.h"
#include "core/log.h"
#include "core/minisign.h"
#include "server/generate/generate.h"
#include "server/jobs/jobs.h"
#include "tests/test_store.h"

static const char *judge_program;

/* Sources that the generator proposes, one after the other; it is a function of the history, as it must be. */
static const char *const *script;
static int script_count;

static json_t *candidate_doc(const char *source)
{
    return json_pack("{s:s,s:s,s:{s:[{s:s,s:[s],s:[i],s:[s,s]}]},s:s}", "language", "cuda", "source", source, "plan", "steps", "kernel",
                     "scale", "grid", "R", "block", 32, "args", "x", "y", "notes", "from the list");
}

__attribute__((unused)) static bool script_propose(const struct gen_input *in, struct gen_proposal *ret, struct err *err)
{
    (void)err;
    check(in->candidates_left > 0 && in->baseline_ns > 0);
    if (in->past_count >= script_count) {
        ret->done = true;
        snprintf(ret->reason, sizeof ret->reason, "the list has ended");
        return true;
    }
    ret->candidate = candidate_doc(script[in->past_count]);
    ret->origin = json_pack("{s:i}", "index", in->past_count);
    return true;
}

static const struct generator script_generator = {.name = "template", .propose = script_propose}, external_generator = {.name = "external"};
__attribute__((unused)) static const struct generator *find_generator(const char *name)
{
    return strcmp(name, "template") == 0 ? &script_generator : strcmp(name, "external") == 0 ? &external_generator : NULL;
}

struct world { char *dir; struct store *store; struct op_set ops; struct signer signer; struct jobs *jobs; struct jobs_config config; };

static void write_text(const char *dir, const char *name, const char *text)
{
    struct err err = {0};
    cleanup(str) char *path = xfmt("%s/%s", dir, name);
    if (!file_write(path, text, strlen(text), 0644, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

__attribute__((unused)) static void set_baseline(struct world *w, const char *source)
{
    cleanup(str) char *dir = xfmt("%s/ops/scale", w->dir);
    write_text(dir, "baseline.cu", source);
}

static void must(bool ok, const struct err *err)
{
    if (ok)
        return;
    fprintf(stderr, "%s: %s\n", err_name(err->code), err->text);
    exit(1);
}

/* Opens what lies in w->dir (made when it is NULL); w->jobs is not started yet. */
static void world_open(struct world *w)
{
    struct err err = {0};
    bool is_new = !w->dir;
    if (is_new)
        w->dir = temp_dir();
    cleanup(str) char *ops = xfmt("%s/ops", w->dir), *op = xfmt("%s/ops/scale", w->dir), *data = xfmt("%s/data", w->dir);
    cleanup(str) char *runs = xfmt("%s/runs", w->dir);
    struct stat st;
    if (stat(op, &st) != 0) {
        must(dir_make(op, 0755, &err) && dir_make(runs, 0755, &err), &err);
        write_text(op, "op.json",
                   "{\"name\":\"scale\",\"version\":1,\"description\":\"y = x\",\"tags\":[],\"axes\":{\"R\":{\"type\":\"var\",\"max\":4096},"
                   "\"N\":{\"type\":\"var\",\"max\":65536}},\"dtypes\":{\"io\":[\"bf16\",\"f32\"]},\"inputs\":{\"x\":{\"shape\":[\"R\",\"N\"],"
                   "\"dtype\":\"io\"}},\"outputs\":{\"y\":{\"shape\":[\"R\",\"N\"],\"dtype\":\"io\"}},\"constraints\":[\"N % 4 == 0\"],"
                   "\"bytes\":\"2*R*N*bytes_io\",\"flops\":\"R*N\",\"regimes\":{\"typical\":{\"x\":{\"dist\":\"normal\"}}}}");
        write_text(op, "baseline.json",
                   "{\"language\":\"cuda\",\"plan\":{\"steps\":[{\"kernel\":\"scale\",\"grid\":[\"R\"],\"block\":[32],\"args\":[\"x\",\"y\"]}]}}");
        write_text(op, "baseline.cu", "time=1000 ");
        write_text(op, "reference.c", "/* none: the judge of these tests computes nothing */");
    }
    setenv("JOBS_JUDGE_DIR", runs, 1);
    must(op_set_load(ops, &w->ops, &err), &err);
    w->store = open_or_die(data, 256 << 20, 0);
    must(signer_open(data, &w->signer, &err), &err);
    if (!w->config.runners)
        w->config = (struct jobs_config){.spawn = {.program = judge_program, .wall_limit_ns = 20000000000}, .runners = 2, .max_queued = 16,
                                         .max_shapes = 4,
                                         .max_tensor_bytes = 16 << 20, .max_shape_bytes = 24 << 20, .default_candidates = 8, .max_candidates = 50, .default_wall_seconds = 100,
                                         .max_wall_seconds = 1000, .judge_retries = 2, .default_target = "sm_90a",
                                         .find_generator = find_generator};
}

static void world_start(struct world *w)
{
    struct err err = {0};
    must(jobs_start(&w->config, w->store, &w->ops, &w->signer, &w->jobs, &err), &err);
}

static void world_stop(struct world *w)
{
    jobs_stop(w->jobs);
    store_close(w->store);
    op_set_done(&w->ops);
    signer_done(&w->signer);
    w->jobs = NULL;
    w->store = NULL;
}

__attribute__((unused)) static void world_done(struct world *w)
{
    if (w->store)
        world_stop(w);
    temp_remove(w->dir);
}
DEFINE_CLEANUP(world, struct world, world_done(it))

__attribute__((unused)) static void world_new(struct world *w)
{
    world_open(w);
    world_start(w);
}

/* Parses what is meant as JSON, with ' for ". */
__attribute__((unused)) static json_t *json_of(const char *text)
{
    cleanup(str) char *copy = xstrdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    json_t *doc = NULL;
    struct err err = {0};
    must(json_parse(copy, strlen(copy), &doc, &err), &err);
    return doc;
}

/* The id in a static place; "" when it was refused. */
__attribute__((unused)) static const char *submit(struct world *w, const char *text)
{
    static char id[40];
    cleanup(json) json_t *request = json_of(text), *job = NULL;
    struct faults f = {0};
    struct err err = {0};
    int64_t as_of = 0;
    id[0] = 0;
    if (!jobs_submit(w->jobs, request, NULL, &job, &as_of, &f, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return id;
    }
    check(as_of > 0);
    snprintf(id, sizeof id, "%s", json_str(job, "id", ""));
    return id;
}

__attribute__((unused)) static json_t *get(struct world *w, enum store_kind kind, const char *id)
{
    json_t *doc = NULL;
    struct err err = {0};
    return store_get(w->store, kind, id, &doc, &err) ? doc : json_object();
}

/* The job once it has ended (or as it is after 30 s); new reference. */
__attribute__((unused)) static json_t *wait_job(struct world *w, const char *id)
{
    for (int64_t until = clock_mono_ns() + 30000000000; clock_mono_ns() < until; clock_sleep_ns(2000000)) {
        json_t *job = get(w, STORE_JOB, id);
        if (json_object_get(job, "finished"))
            return job;
        json_decref(job);
    }
    fprintf(stderr, "%s did not end\n", id);
    return get(w, STORE_JOB, id);
}

/* Until the judge has begun with this candidate (the file in which it counts is there). */
__attribute__((unused)) static void wait_judging(struct world *w, const char *candidate)
{
    cleanup(str) char *path = xfmt("%s/runs/%s", w->dir, candidate);
    for (int64_t until = clock_mono_ns() + 30000000000; clock_mono_ns() < until && access(path, F_OK) != 0;)
        clock_sleep_ns(2000000);
}

/* All candidates of a job, in order; new reference. */
__attribute__((unused)) static bool take_candidate(void *ctx, const char *id, const json_t *doc)
{
    (void)id;
    json_array_append(ctx, (json_t *)(uintptr_t)doc);
    return true;
}
__attribute__((unused)) static json_t *candidates_of(struct world *w, const char *job)
{
    struct store_page page = {STORE_CANDIDATE, job, NULL, 1000, false};
    struct err err = {0};
    json_t *all = json_array();
    check(store_list(w->store, &page, take_candidate, all, NULL, NULL, &err));
    return all;
}

/* Until what waited for jobs that have ended is dropped. */
__attribute__((unused)) static void wait_tidied(struct world *w)
{
    for (int64_t until = clock_mono_ns() + 30000000000; clock_mono_ns() < until; clock_sleep_ns(2000000)) {
        struct store_page page = {STORE_META, "dropping", NULL, 1, false};
        struct err err = {0};
        cleanup(json) json_t *left = json_array();
        check(store_list(w->store, &page, take_candidate, left, NULL, NULL, &err));
        if (!json_array_size(left))
            return;
    }
    check(!"tidied");
}

/* The events of a job as an array of {"type", ...data}; new reference. */
__attribute__((unused)) static json_t *events_of(struct world *w, const char *job)
{
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    int64_t last;
    int count;
    json_t *all = json_array();
    check(store_events(w->store, job, 0, 100000, &text, &last, &count, &err));
    for (char *p = text.data; p && (p = strstr(p, "event: "));) {
        char *end = strchr(p, '\n'), *data = end + 7, *stop = strchr(data, '\n');
        json_t *doc = NULL;
        check(json_parse(data, (size_t)(stop - data), &doc, &err));
        *end = 0;
        json_put_str(doc, "type", p + 7);
        json_array_append_new(all, doc);
        p = stop;
    }
    check_int(json_array_size(all), count);
    return all;
}

__attribute__((unused)) static int count_events(const json_t *events, const char *type, const char *candidate)
{
    size_t i;
    json_t *e;
    int n = 0;
    json_array_foreach(events, i, e)
        n += strcmp(json_str(e, "type", ""), type) == 0 && (!candidate || strcmp(json_str(e, "candidate", ""), candidate) == 0);
    return n;
}

__attribute__((unused)) static const char *code_of(const json_t *record)
{
    return json_str(json_object_get(record, "verdict"), "code", "none");
}

__attribute__((unused)) static const char *first_hash(const json_t *job)
{
    return json_str(json_array_get(json_object_get(job, "shapes"), 0), "shape_hash", "");
}

#define SET_SCRIPT(...)                                             \
    do {                                                            \
        static const char *const script_here[] = {__VA_ARGS__};     \
        script = script_here;                                       \
        script_count = (int)(sizeof script_here / sizeof *script_here); \
    } while (0)

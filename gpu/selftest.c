/*
 * A thread a job, each waiting for a judge of its own (gpu/spawn.h): what a case does to a judge it does to that one only. Results are
 * lines of JSON: --resume reads those that are there, skips their cases, and adds the new ones, so that shards may share a file.
 */
#include "gpu/selftest.h"

#include "core/clock.h"
#include "gpu/naive.h"
#include "gpu/spawn.h"

#include <pthread.h>
#include <string.h>

#define CASE_WALL_NS ((int64_t)600 * 1000000000)
#define RESULTS_LIMIT_BYTES ((size_t)64 << 20)
#define MAX_JOBS 64

struct result {
    bool chosen, done, passed, naive_passed;
    enum verdict_code code;
    char phase[16], text[512], naive[400];      /* naive: "" not asked for */
    int64_t wall_ns, gpu_ns;
};

struct known_baseline { char *key; char *ptx; };
struct selftest {
    const struct selftest_options *o;
    struct spawn_config spawn;
    struct selftest_corpus corpus;
    struct result *results;
    pthread_mutex_t lock;                       /* of what follows, and of stdout */
    int next;
    int baseline_count;
    struct known_baseline *baselines;
    FILE *resume;
};

/* ---- asking the judge ---- */

static json_t *task_of(const struct shape *shape, json_t *candidate, json_t *baseline)
{
    json_t *task = json_object();
    json_put(task, "shape", shape_encode(shape));
    json_put(task, "candidate", json_incref(candidate));
    json_put(task, "baseline", baseline ? json_incref(baseline) : json_null());
    json_put_str(task, "mode", "triage");
    return task;
}

/* A failure of ours may pass: once more. */
static bool judge(const struct selftest *s, const json_t *task, struct judge_answer *ret, struct err *err)
{
    struct err first = {0};
    return spawn_judge(&s->spawn, task, NULL, NULL, NULL, ret, &first) || spawn_judge(&s->spawn, task, NULL, NULL, NULL, ret, err);
}

static char *ptx_of(const struct judge_answer *a)
{
    for (int i = 0; i < a->blob_count; i++)
        if (strcmp(a->blobs[i].name, "kernel.ptx") == 0)
            return xstrdup(buf_cstr(&a->blobs[i].bytes));
    return NULL;
}

/* The operator's baseline is judged once a shape; its PTX is kept. Borrowed. The lock is held meanwhile: others would wait for it too. */
static const char *baseline_ptx(struct selftest *s, const struct shape *shape, json_t *baseline, struct err *err)
{
    cleanup(buf) struct buf key = {0};
    shape_canonical(shape, &key);
    for (int i = 0; i < s->baseline_count; i++)
        if (strcmp(s->baselines[i].key, buf_cstr(&key)) == 0)
            return s->baselines[i].ptx;
    cleanup(json) json_t *task = task_of(shape, baseline, NULL);
    cleanup(judge_answer) struct judge_answer a = {0};
    if (!judge(s, task, &a, err))
        return NULL;
    cleanup(str) char *ptx = ptx_of(&a);
    if (a.verdict.code != VERDICT_OK || !ptx) {
        err_set(err, ERR_INTERNAL, "the baseline of %s: %s: %s", shape->op->name, verdict_name(a.verdict.code), a.verdict.text);
        return NULL;
    }
    s->baselines = xrealloc(s->baselines, (size_t)(s->baseline_count + 1) * sizeof *s->baselines);
    s->baselines[s->baseline_count] = (struct known_baseline){buf_take(&key), steal(&ptx)};
    return s->baselines[s->baseline_count++].ptx;
}

static bool judge_case(struct selftest *s, const struct selftest_case *c, struct result *r, char **ret_ptx, struct err *err)
{
    cleanup(json) json_t *baseline = NULL, *task = NULL;
    cleanup(judge_answer) struct judge_answer a = {0};
    if (!candidate_load(c->shape.op->dir, "baseline", &baseline, err))
        return false;
    task = task_of(&c->shape, c->candidate, baseline);
    pthread_mutex_lock(&s->lock);
    const char *ptx = baseline_ptx(s, &c->shape, baseline, err);
    pthread_mutex_unlock(&s->lock);
    if (!ptx)
        return false;
    json_put_str(task, "baseline_ptx", ptx);
    if (!judge(s, task, &a, err))
        return false;
    r->code = a.verdict.code;
    snprintf(r->phase, sizeof r->phase, "%s", a.verdict.phase);
    snprintf(r->text, sizeof r->text, "%s", a.verdict.text);
    r->gpu_ns = a.gpu_ns;
    *ret_ptx = ptx_of(&a);
    return true;
}

static void decide(const struct selftest_case *c, struct result *r)
{
    r->passed = !c->attack && verdict_is_correct(r->code);
    for (int i = 0; i < c->expected_count; i++)
        r->passed |= c->expected[i] == r->code;
}

/* ---- the naive checker ---- */

/* Where it looks at another shape: compiled for that one, by a judge whose verdict is of no interest. */
static bool naive_shape(struct selftest *s, const struct selftest_case *c, struct shape *shape, char **ptx, struct err *err)
{
    const json_t *axes = json_object_get(c->doc, "naive_axes");
    if (!axes)
        return true;
    cleanup(json) json_t *doc = shape_encode(&c->shape), *task = NULL;
    cleanup(judge_answer) struct judge_answer a = {0};
    struct faults f = {0};
    json_put(doc, "axes", json_incref((json_t *)(uintptr_t)axes));
    if (!shape_parse(s->o->ops, doc, c->shape.target, "/naive_axes", shape, &f))
        return err_set(err, ERR_INVALID, "%s: %s", f.list[0].pointer, f.list[0].detail);
    task = task_of(shape, c->candidate, NULL);
    if (!judge(s, task, &a, err))
        return false;
    free(*ptx);
    *ptx = ptx_of(&a);
    return true;
}

static bool naive_case(struct selftest *s, const struct selftest_case *c, char **ptx, struct result *r, struct err *err)
{
    struct shape shape = c->shape;
    struct naive_result n = {.fooled = false};
    cleanup(candidate) struct candidate candidate = {0};
    struct faults f = {0};
    if (!naive_shape(s, c, &shape, ptx, err))
        return false;
    bool stale = strcmp(json_str(c->doc, "naive_outputs", "zeros"), "stale") == 0;
    if (!*ptx || !candidate_parse(c->candidate, "", &candidate, &f))
        snprintf(n.text, sizeof n.text, "there is nothing to launch");
    else if (!naive_check(s->o->device, &shape, &candidate, *ptx, strlen(*ptx), json_str(c->doc, "naive_regime", NULL), stale ? NAIVE_STALE : NAIVE_ZEROS, &n, err))
        return false;
    r->naive_passed = n.fooled;
    if (n.fooled && !n.first_instructions)
        snprintf(r->naive, sizeof r->naive, "naive checker fooled on the card");
    else if (n.fooled)
        snprintf(r->naive, sizeof r->naive, "naive checker fooled (%llu instructions, then %llu)", (unsigned long long)n.first_instructions,
                 (unsigned long long)n.last_instructions);
    else
        snprintf(r->naive, sizeof r->naive, "NOT FOOLED: %s", n.text);
    return true;
}

/* ---- results ---- */

static json_t *result_encode(const struct selftest *s, const struct selftest_case *c, const struct result *r)
{
    json_t *doc = json_object(), *rows = json_array();
    json_put_str(doc, "name", c->name);
    json_put_str(doc, "device", s->o->device);
    json_put_str(doc, "digest", c->digest.text);
    json_put_str(doc, "verdict", verdict_name(r->code));
    json_put_str(doc, "phase", r->phase);
    json_put_str(doc, "text", r->text);
    json_put_bool(doc, "passed", r->passed);
    json_put_str(doc, "naive", r->naive);
    json_put_bool(doc, "naive_passed", r->naive_passed);
    json_put_int(doc, "wall_ns", r->wall_ns);
    json_put_int(doc, "gpu_ns", r->gpu_ns);
    for (int i = 0; i < c->row_count; i++)
        json_array_append_new(rows, json_integer(c->rows[i]));
    json_put(doc, "rows", rows);
    return doc;
}

static void result_show(const struct selftest_case *c, const struct result *r)
{
    const char *word = c->attack ? r->passed ? "caught" : "MISSED" : r->passed ? "accepted" : "REFUSED";
    printf("%-8s %-46s %-20s %s%s%s\n", word, c->name, verdict_name(r->code), r->text, r->naive[0] ? " | " : "", r->naive);
    fflush(stdout);
}

static void result_keep(struct selftest *s, const struct selftest_case *c, const struct result *r)
{
    if (!s->resume)
        return;
    cleanup(json) json_t *doc = result_encode(s, c, r);
    cleanup(str) char *text = json_text(doc);
    fprintf(s->resume, "%s\n", text);
    fflush(s->resume);
}

static void run_case(struct selftest *s, int index)
{
    const struct selftest_case *c = &s->corpus.list[index];
    struct result *r = &s->results[index];
    struct err err = {0};
    cleanup(str) char *ptx = NULL;
    int64_t from = clock_mono_ns();
    bool ok = judge_case(s, c, r, &ptx, &err) && (!c->fools_naive || naive_case(s, c, &ptx, r, &err));
    r->wall_ns = clock_mono_ns() - from;
    pthread_mutex_lock(&s->lock);
    if (ok) {
        r->done = true;
        decide(c, r);
        result_show(c, r);
        result_keep(s, c, r);
    } else {
        printf("FAILED   %-46s %s\n", c->name, err.text);
        fflush(stdout);
    }
    pthread_mutex_unlock(&s->lock);
}

static void *worker(void *arg)
{
    struct selftest *s = arg;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (s->next < s->corpus.count && (!s->results[s->next].chosen || s->results[s->next].done))
            s->next++;
        int index = s->next++;
        pthread_mutex_unlock(&s->lock);
        if (index >= s->corpus.count)
            return NULL;
        run_case(s, index);
    }
}

/* ---- what to run ---- */

static bool named(const char *only, const struct selftest_case *c)
{
    const char *slash = strchr(c->name, '/');
    for (const char *at = only; at && *at;) {
        size_t n = strcspn(at, ",");
        if ((strlen(c->name) == n && !strncmp(c->name, at, n)) || (strlen(slash + 1) == n && !strncmp(slash + 1, at, n)))
            return true;
        at += n + (at[n] == ',');
    }
    return !only;
}

static bool choose(struct selftest *s, struct err *err)
{
    int k = 1, n = 1, seen = 0, used = 0;
    char rest;
    const bool card = strcmp(s->o->device, "sim") != 0;
    const char *part = s->o->part ? s->o->part : "all";
    if (s->o->shard && (sscanf(s->o->shard, "%d/%d%c", &k, &n, &rest) != 2 || n < 1 || k < 1 || k > n))
        return err_set(err, ERR_INVALID, "--shard is K/N, K from 1 to N");
    if (strcmp(part, "all") != 0 && strcmp(part, "fast") != 0)
        return err_set(err, ERR_INVALID, "--part is all or fast");
    for (int i = 0; i < s->corpus.count; i++) {
        const struct selftest_case *c = &s->corpus.list[i];
        if ((c->needs_card && !card) || !named(s->o->only, c) || (!strcmp(part, "fast") && !c->fast))
            continue;
        s->results[i].chosen = seen++ % n == k - 1;
        used += s->results[i].chosen;
    }
    return used > 0 || err_set(err, ERR_NOT_FOUND, "no case of the corpus is chosen");
}

static void take_line(struct selftest *s, const char *text, size_t size)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    if (!json_parse(text, size, &doc, &err))        /* cut short when it was stopped */
        return;
    for (int i = 0; i < s->corpus.count; i++) {
        const struct selftest_case *c = &s->corpus.list[i];
        struct result *r = &s->results[i];
        /* what another device said is no result here */
        if (strcmp(json_str(doc, "name", ""), c->name) || strcmp(json_str(doc, "device", ""), s->o->device)
            || strcmp(json_str(doc, "digest", ""), c->digest.text)
            || !verdict_code_parse(json_str(doc, "verdict", ""), &r->code))
            continue;
        r->done = true;
        snprintf(r->phase, sizeof r->phase, "%s", json_str(doc, "phase", ""));
        snprintf(r->text, sizeof r->text, "%s", json_str(doc, "text", ""));
        snprintf(r->naive, sizeof r->naive, "%s", json_str(doc, "naive", ""));
        r->naive_passed = json_bool(doc, "naive_passed", false);
        r->wall_ns = json_int(doc, "wall_ns", 0);
        r->gpu_ns = json_int(doc, "gpu_ns", 0);
        decide(c, r);
    }
}

static bool resume(struct selftest *s, struct err *err)
{
    cleanup(buf) struct buf text = {0};
    if (!s->o->resume)
        return true;
    if (access(s->o->resume, F_OK) == 0 && !file_read(s->o->resume, RESULTS_LIMIT_BYTES, &text, err))
        return false;
    for (const char *at = buf_cstr(&text); *at;) {
        size_t n = strcspn(at, "\n");
        take_line(s, at, n);
        at += n + (at[n] == '\n');
    }
    s->resume = fopen(s->o->resume, "ae");
    return s->resume ? true : err_errno(err, ERR_INTERNAL, "%s", s->o->resume);
}

/* ---- the sum ---- */

struct totals { int attacks, caught, honest, accepted, beside, not_fooled, rows; };

static void sum_up(const struct selftest *s, struct totals *t)
{
    bool rows[121] = {false};
    for (int i = 0; i < s->corpus.count; i++) {
        const struct selftest_case *c = &s->corpus.list[i];
        const struct result *r = &s->results[i];
        t->beside += c->attack && c->needs_card && !r->chosen;
        if (!r->chosen)
            continue;
        if (c->attack)
            t->attacks++, t->caught += r->done && r->passed;
        else
            t->honest++, t->accepted += r->done && r->passed;
        t->not_fooled += r->done && c->fools_naive && !r->naive_passed;
        for (int k = 0; k < c->row_count; k++)
            t->rows += !rows[c->rows[k]], rows[c->rows[k]] = true;
    }
}

static bool write_json(const struct selftest *s, const struct totals *t, struct err *err)
{
    cleanup(json) json_t *doc = json_object(), *cases = json_array();
    cleanup(buf) struct buf text = {0};
    for (int i = 0; i < s->corpus.count; i++)
        if (s->results[i].chosen && s->results[i].done)
            json_array_append_new(cases, result_encode(s, &s->corpus.list[i], &s->results[i]));
    json_put_str(doc, "device", s->o->device);
    json_put_str(doc, "shard", s->o->shard ? s->o->shard : "1/1");
    json_put_int(doc, "attacks", t->attacks);
    json_put_int(doc, "caught", t->caught);
    json_put_int(doc, "honest", t->honest);
    json_put_int(doc, "accepted", t->accepted);
    json_put_int(doc, "rows", t->rows);
    json_put_int(doc, "needing_a_card", t->beside);
    json_put(doc, "cases", json_incref(cases));
    json_write_pretty(&text, doc);
    return file_write(s->o->json, text.data, text.size, 0644, err);
}

static int finish(const struct selftest *s, struct err *err)
{
    struct totals t = {0};
    sum_up(s, &t);
    bool written = !s->o->json || write_json(s, &t, err);
    if (!written)
        printf("FAILED   %s: %s\n", s->o->json, err->text);
    for (int i = 0; i < s->corpus.count; i++)
        if (s->results[i].chosen && (!s->results[i].done || !s->results[i].passed))
            printf("not as it must be: %s\n", s->corpus.list[i].name);
    if (t.not_fooled)
        printf("%d attacks do not fool the naive checker as they claim\n", t.not_fooled);
    printf("%d rows of the catalogue; %d attacks that need a card stand beside\n", t.rows, t.beside);
    printf("%d of %d attacks caught, %d of %d honest kernels accepted\n", t.caught, t.attacks, t.accepted, t.honest);
    return written && t.caught == t.attacks && t.accepted == t.honest && !t.not_fooled ? 0 : 1;
}

static int job_count(const char *text)
{
    long n = text ? strtol(text, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_JOBS ? MAX_JOBS : (int)n;
}

static char *default_corpus(void)
{
    cleanup(str) char *ops = op_default_dir();
    return xfmt("%s/../selftest", ops);
}

int selftest_run(const struct selftest_options *o)
{
    cleanup(str) char *dir = o->corpus ? xstrdup(o->corpus) : default_corpus();
    struct selftest s = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct err err = {0};
    pthread_t threads[MAX_JOBS];
    cleanup(str) char *self = self_dir(), *program = xfmt("%s/proteus-gpu", self);
    s.spawn = (struct spawn_config){.program = program, .ops_dir = o->ops_dir, .cuda_home = o->cuda_home, .device = o->device,
                                    .sandbox_minimum = o->sandbox_minimum, .need = o->need, .wall_limit_ns = CASE_WALL_NS};
    bool ok = selftest_load(dir, o->ops, &s.corpus, &err);
    s.results = xarray((size_t)s.corpus.count + 1, sizeof *s.results);
    ok = ok && choose(&s, &err) && resume(&s, &err);
    /* On a card one at a time: what one does to it must not reach another. */
    int jobs = strcmp(o->device, "sim") == 0 ? job_count(o->jobs) : 1, started = 1;
    for (; ok && started < jobs; started++)
        if (pthread_create(&threads[started], NULL, worker, &s))
            break;
    if (ok)
        worker(&s);
    for (int i = 1; ok && i < started; i++)
        pthread_join(threads[i], NULL);
    int status = 1;
    if (ok)
        status = finish(&s, &err);
    else
        fprintf(stderr, "proteus-gpu: selftest: %s\n", err.text);
    for (int i = 0; i < s.baseline_count; i++) {
        free(s.baselines[i].key);
        free(s.baselines[i].ptx);
    }
    free(s.baselines);
    free(s.results);
    if (s.resume)
        fclose(s.resume);
    selftest_corpus_done(&s.corpus);
    return status;
}

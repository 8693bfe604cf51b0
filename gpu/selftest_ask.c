#include "gpu/selftest_ask.h"

#include "core/certificate.h"
#include "core/clock.h"
#include "gpu/naive.h"
#include "gpu/spawn.h"

#include <string.h>

#define CASE_WALL_NS ((int64_t)600 * 1000000000)

/* The PTX of an operator's baseline for one shape; being made while ptx and err are empty. */
struct selftest_baseline { char *key, *ptx; struct err err; };

void selftest_ask_init(struct selftest_ask *a, const struct selftest_options *o, const char *program, const char *threads)
{
    *a = (struct selftest_ask){.o = o, .program = program, .threads = threads, .lock = PTHREAD_MUTEX_INITIALIZER, .made = PTHREAD_COND_INITIALIZER,
                               .naive = PTHREAD_MUTEX_INITIALIZER};
}

void selftest_ask_done(struct selftest_ask *a)
{
    for (int i = 0; i < a->baseline_count; i++) {
        free(a->baselines[i].key);
        free(a->baselines[i].ptx);
    }
    free(a->baselines);
    a->baselines = NULL, a->baseline_count = 0;
}

/* ---- the judge ---- */

static json_t *task_of(const struct shape *shape, json_t *candidate, json_t *baseline, const char *mode)
{
    json_t *task = json_object();
    json_put(task, "shape", shape_encode(shape));
    json_put(task, "candidate", json_incref(candidate));
    json_put(task, "baseline", baseline ? json_incref(baseline) : json_null());
    json_put_str(task, "mode", mode);
    return task;
}

/* A failure of ours may pass: once more. need: a case's own policy, or NULL. */
static bool judge(const struct selftest_ask *a, const struct selftest_place *at, const json_t *task, const char *need, struct judge_answer *ret,
                  struct err *err)
{
    const struct spawn_config config = {.program = a->program, .ops_dir = a->o->ops_dir, .cuda_home = a->o->cuda_home, .device = at->devices,
                                        .sandbox_minimum = a->o->sandbox_minimum, .need = need ? need : a->o->need, .threads = a->threads, .card_lock = at->lock_base,
                                        .wall_limit_ns = CASE_WALL_NS};
    struct err first = {0};
    return spawn_judge(&config, task, NULL, NULL, NULL, ret, &first) || spawn_judge(&config, task, NULL, NULL, NULL, ret, err);
}

static char *ptx_of(const struct judge_answer *a)
{
    for (int i = 0; i < a->blob_count; i++)
        if (strcmp(a->blobs[i].name, "kernel.ptx") == 0)
            return xstrdup(buf_cstr(&a->blobs[i].bytes));
    return NULL;
}

/* ---- baselines ---- */

/* On the emulator whatever the device: its text is wanted, and each judgement runs it on the device again. */
static char *baseline_judge(struct selftest_ask *a, const struct shape *shape, json_t *baseline, struct err *err)
{
    static const struct selftest_place sim = {.device = "sim", .devices = "sim"};
    cleanup(json) json_t *task = task_of(shape, baseline, NULL, "triage");
    cleanup(judge_answer) struct judge_answer answer = {0};
    if (!judge(a, &sim, task, NULL, &answer, err))
        return NULL;
    char *ptx = ptx_of(&answer);
    if (answer.verdict.code == VERDICT_OK && ptx)
        return ptx;
    free(ptx);
    err_set(err, ERR_INTERNAL, "the baseline of %s: %s: %s", shape->op->name, verdict_name(answer.verdict.code), answer.verdict.text);
    return NULL;
}

/* Where it is in the list; waits where another thread makes it. -1: nobody has, and it has a place in the list now. The lock is held. */
static int baseline_find(struct selftest_ask *a, const char *key)
{
    for (int i = 0; i < a->baseline_count; i++)
        if (strcmp(a->baselines[i].key, key) == 0) {
            while (!a->baselines[i].ptx && a->baselines[i].err.code == ERR_OK)
                pthread_cond_wait(&a->made, &a->lock);
            return i;
        }
    a->baselines = xrealloc(a->baselines, (size_t)(a->baseline_count + 1) * sizeof *a->baselines);
    a->baselines[a->baseline_count++] = (struct selftest_baseline){.key = xstrdup(key)};
    return -1;
}

/* Judged once a shape; those of several shapes side by side. The caller frees. */
static bool baseline_ptx(struct selftest_ask *a, const struct shape *shape, json_t *baseline, char **ret, struct err *err)
{
    cleanup(buf) struct buf key = {0};
    shape_canonical(shape, &key);
    pthread_mutex_lock(&a->lock);
    int at = baseline_find(a, buf_cstr(&key));
    if (at < 0) {
        at = a->baseline_count - 1;
        struct err mine = {0};
        pthread_mutex_unlock(&a->lock);
        char *ptx = baseline_judge(a, shape, baseline, &mine);
        pthread_mutex_lock(&a->lock);
        a->baselines[at].ptx = ptx, a->baselines[at].err = mine;
        pthread_cond_broadcast(&a->made);
    }
    const struct selftest_baseline *b = &a->baselines[at];
    *ret = b->ptx ? xstrdup(b->ptx) : NULL;
    if (!b->ptx)
        err_set(err, b->err.code, "%s", b->err.text);
    pthread_mutex_unlock(&a->lock);
    return *ret != NULL;
}

/* ---- a case ---- */

/* From the certificate alone, as a stranger would: the retest was met, and shared neither processes nor seeds nor buffers with what was before. */
static bool retest_was_fresh(const struct judge_answer *a, char *why, size_t size)
{
    struct err err = {0};
    bool met = a->certificate && certificate_phase(a->certificate, "retest");
    bool fresh = met && certificate_check(a->certificate, &err) && certificate_fresh(a->certificate, &err);
    if (!fresh)
        snprintf(why, size, " [%s]", !a->certificate ? "no certificate" : !met ? "it did not come to the retest" : err.text);
    return fresh;
}

static bool judge_case(struct selftest_ask *a, const struct selftest_place *at, const struct selftest_case *c, struct selftest_result *r,
                       char **ret_ptx, struct err *err)
{
    cleanup(json) json_t *baseline = NULL, *task = NULL;
    cleanup(judge_answer) struct judge_answer answer = {0};
    cleanup(str) char *ptx = NULL;
    char why[200] = "";
    if (!candidate_load(c->shape.op->dir, "baseline", &baseline, err) || !baseline_ptx(a, &c->shape, baseline, &ptx, err))
        return false;
    task = task_of(&c->shape, c->candidate, baseline, c->mode);
    json_put_str(task, "baseline_ptx", ptx);
    if (!judge(a, at, task, c->need, &answer, err))
        return false;
    r->code = answer.verdict.code;
    r->fresh = strcmp(c->mode, "retest") == 0 && retest_was_fresh(&answer, why, sizeof why);
    snprintf(r->phase, sizeof r->phase, "%s", answer.verdict.phase);
    snprintf(r->text, sizeof r->text, "%.300s%s", answer.verdict.text, c->attack ? "" : why);
    r->gpu_ns = answer.gpu_ns;
    *ret_ptx = ptx_of(&answer);
    return true;
}

/* ---- the naive checker ---- */

/* Where it looks at another shape: compiled for that one, by a judge whose verdict is of no interest. */
static bool naive_shape(struct selftest_ask *a, const struct selftest_case *c, struct shape *shape, char **ptx, struct err *err)
{
    static const struct selftest_place sim = {.device = "sim", .devices = "sim"};
    const json_t *axes = json_object_get(c->doc, "naive_axes");
    if (!axes)
        return true;
    cleanup(json) json_t *doc = shape_encode(&c->shape), *task = NULL;
    cleanup(judge_answer) struct judge_answer answer = {0};
    struct faults f = {0};
    json_put(doc, "axes", json_incref((json_t *)(uintptr_t)axes));
    if (!shape_parse(a->o->ops, doc, c->shape.target, "/naive_axes", shape, &f))
        return err_set(err, ERR_INVALID, "%s: %s", f.list[0].pointer, f.list[0].detail);
    task = task_of(shape, c->candidate, NULL, "triage");
    if (!judge(a, &sim, task, NULL, &answer, err))
        return false;
    free(*ptx);
    *ptx = ptx_of(&answer);
    return true;
}

static bool naive_case(struct selftest_ask *a, const struct selftest_place *at, const struct selftest_case *c, char **ptx, struct selftest_result *r,
                       struct err *err)
{
    struct shape shape = c->shape;
    struct naive_result n = {.fooled = false};
    cleanup(candidate) struct candidate candidate = {0};
    struct faults f = {0};
    if (!naive_shape(a, c, &shape, ptx, err))
        return false;
    bool stale = strcmp(json_str(c->doc, "naive_outputs", "zeros"), "stale") == 0, alone = at->card_lock != NULL, ok = true;
    if (!*ptx || !candidate_parse(c->candidate, "", &candidate, &f)) {
        snprintf(n.text, sizeof n.text, "there is nothing to launch");
    } else {
        if (alone)
            pthread_mutex_lock(&a->naive);
        ok = naive_check(at->device, at->card_lock, &shape, &candidate, *ptx, strlen(*ptx), json_str(c->doc, "naive_regime", NULL),
                         stale ? NAIVE_STALE : NAIVE_ZEROS, &n, err);
        if (alone)
            pthread_mutex_unlock(&a->naive);
    }
    if (!ok)
        return false;
    r->naive_passed = n.fooled;
    r->naive_gpu_ns = n.gpu_ns;
    if (n.fooled && !n.first_instructions)
        snprintf(r->naive, sizeof r->naive, "naive checker fooled on the card");
    else if (n.fooled)
        snprintf(r->naive, sizeof r->naive, "naive checker fooled (%llu instructions, then %llu)", (unsigned long long)n.first_instructions,
                 (unsigned long long)n.last_instructions);
    else
        snprintf(r->naive, sizeof r->naive, "NOT FOOLED: %s", n.text);
    return true;
}

bool selftest_ask_case(struct selftest_ask *a, const struct selftest_place *at, const struct selftest_case *c, struct selftest_result *r,
                       struct err *err)
{
    cleanup(str) char *ptx = NULL;
    int64_t from_ns = clock_mono_ns();
    snprintf(r->device, sizeof r->device, "%s", at->device);
    bool ok = judge_case(a, at, c, r, &ptx, err) && (!c->fools_naive || naive_case(a, at, c, &ptx, r, err));
    r->wall_ns = clock_mono_ns() - from_ns;
    return ok;
}

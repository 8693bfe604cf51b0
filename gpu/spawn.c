/*
 * Theory: one judgement is one process in a process group of its own, with three pipes (spawn_process.c). This side writes one task
 * and takes frames (spawn_talk.c) until the verdict: progress, blobs, the answer. Nothing the judge says is believed before it has the
 * right form, and nothing counts unless the process then ends with exit 0: a verdict followed by a crash is a crash.
 */
#include "gpu/spawn_internal.h"
#include "core/clock.h"

#include <string.h>

#define MAX_FRAMES 4096                               /* of one judgement: greeting, progress, blobs */

void judge_answer_done(struct judge_answer *a)
{
    verdict_done(&a->verdict);
    json_decref(a->figures);
    json_decref(a->certificate);
    for (int i = 0; i < a->blob_count; i++)
        buf_done(&a->blobs[i].bytes);
    *a = (struct judge_answer){0};
}

static bool take_blob(struct judge_answer *a, const char *name, struct wire_frame *f, struct err *err)
{
    if (!wire_blob_name_valid(name))
        return err_set(err, ERR_UPSTREAM, "a blob without a usable name");
    for (int i = 0; i < a->blob_count; i++)
        if (strcmp(a->blobs[i].name, name) == 0)
            return err_set(err, ERR_UPSTREAM, "the blob %s came twice", name);
    if (a->blob_count == (int)(sizeof a->blobs / sizeof *a->blobs))
        return err_set(err, ERR_UPSTREAM, "too many blobs");
    struct spawn_blob *b = &a->blobs[a->blob_count++];
    snprintf(b->name, sizeof b->name, "%s", name);
    b->bytes = f->blob;
    f->blob = (struct buf){0};
    return true;
}

/* The form of figures that the rest of the server relies on. */
static bool figures_check(const json_t *figures, bool correct, struct err *err)
{
    if (!json_is_object(figures))
        return err_set(err, ERR_UPSTREAM, "figures are not an object");
    static const char *const times[] = {"time_ns", "baseline_ns"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_object_get(figures, times[i]);
        if (v && !json_is_null(v) && !spawn_positive(v))
            return err_set(err, ERR_UPSTREAM, "figures.%s is not a positive number", times[i]);
    }
    const json_t *speedup = json_object_get(figures, "speedup");
    static const char *const parts[] = {"median", "low", "high"};
    for (size_t i = 0; speedup && !json_is_null(speedup) && i < 3; i++)
        if (!spawn_positive(json_object_get(speedup, parts[i])))
            return err_set(err, ERR_UPSTREAM, "figures.speedup.%s is not a positive number", parts[i]);
    const char *evidence = json_str(figures, "evidence", "");
    if (correct && (!spawn_positive(json_object_get(figures, "time_ns")) || !speedup || json_is_null(speedup)))
        return err_set(err, ERR_UPSTREAM, "a correct kernel without time_ns and speedup");
    if (correct && strcmp(evidence, "measured") != 0 && strcmp(evidence, "emulated") != 0)
        return err_set(err, ERR_UPSTREAM, "figures.evidence is neither measured nor emulated");
    return true;
}

static bool take_verdict(struct judge_answer *a, const json_t *doc, struct err *err)
{
    struct err inner = {0};
    if (!verdict_parse(json_object_get(doc, "verdict"), &a->verdict, &inner))
        return err_set(err, ERR_UPSTREAM, "the verdict cannot be read: %s", inner.text);
    bool correct = verdict_is_correct(a->verdict.code);
    const json_t *figures = json_object_get(doc, "figures"), *certificate = json_object_get(doc, "certificate");
    if (figures && !json_is_null(figures) ? !figures_check(figures, correct, err) : correct)
        return figures ? false : err_set(err, ERR_UPSTREAM, "a correct kernel without figures");
    if (correct ? !json_is_object(certificate)
                : certificate && !json_is_null(certificate) && !json_is_object(certificate))
        return err_set(err, ERR_UPSTREAM, "the certificate is missing or not an object");
    a->figures = json_is_object(figures) ? json_incref((json_t *)(uintptr_t)figures) : json_object();
    a->certificate = json_is_object(certificate) ? json_incref((json_t *)(uintptr_t)certificate) : NULL;
    a->gpu_ns = json_int(doc, "gpu_ns", 0);
    if (a->gpu_ns < 0)
        return err_set(err, ERR_UPSTREAM, "gpu_ns is negative");
    return true;
}

static bool converse(struct spawn_talk *t, judge_progress *progress, struct judge_answer *a, struct err *err)
{
    char blob_name[WIRE_MAX_NAME + 1] = "";
    for (int frames = 0;; frames++) {
        cleanup(wire_frame) struct wire_frame f = {0};
        bool end;
        if (!spawn_next_frame(t, &f, &end, err))
            return false;
        if (end)
            return err_set(err, ERR_UPSTREAM, "it ended without an answer");
        if (frames == MAX_FRAMES)
            return err_set(err, ERR_UPSTREAM, "over %d frames and no verdict", MAX_FRAMES);
        if ((f.type == WIRE_BLOB) != (blob_name[0] != 0))
            return err_set(err, ERR_UPSTREAM, "a %s frame out of order", wire_name(f.type));
        if (f.type == WIRE_BLOB) {
            if (!take_blob(a, blob_name, &f, err))
                return false;
            blob_name[0] = 0;
        } else if (f.type == WIRE_BLOB_NAME) {
            snprintf(blob_name, sizeof blob_name, "%s", json_str(f.json, "name", "?"));
        } else if (f.type == WIRE_PHASE) {
            if (!json_is_object(f.json))
                return err_set(err, ERR_UPSTREAM, "a progress frame that is no object");
            if (spawn_patience_take(t, f.json) && progress)
                progress(t->ctx, f.json);
        } else if (f.type == WIRE_VERDICT) {
            return take_verdict(a, f.json, err);
        } else if (f.type != WIRE_HELLO) {
            return wire_expect(&f, WIRE_VERDICT, err);
        }
    }
}

bool spawn_judge(const struct spawn_config *config, const json_t *task, judge_progress *progress,
                 judge_cancelled *cancelled, void *ctx, struct judge_answer *ret, struct err *err)
{
    int64_t started = clock_mono_ns();
    cleanup(spawn_process) struct spawn_process p = SPAWN_NO_PROCESS;
    cleanup(judge_answer) struct judge_answer a = {0};
    struct err local = {0};
    if (!spawn_process_start(&p, config, "judge", err))
        return false;
    struct spawn_talk t = {.p = &p, .deadline_ns = started + config->wall_limit_ns, .limit_ns = config->wall_limit_ns,
                     .cancelled = cancelled, .ctx = ctx, .reader = {.max_blob_bytes = SPAWN_MAX_BLOB_BYTES}};
    /* A judge that would not take the task may have said why: its word is better than our broken pipe. */
    bool sent = wire_send_json_by(p.in, WIRE_JUDGE, task, t.deadline_ns, &local);
    bool ok = (sent || local.code == ERR_UPSTREAM) && converse(&t, progress, &a, &local) && spawn_exit_clean(&p, &local);
    wire_reader_done(&t.reader);
    if (!ok) {
        if (local.code == ERR_CONFLICT && strcmp(local.text, "cancelled") == 0)
            return err_set(err, ERR_CONFLICT, "cancelled");
        spawn_circumstances(&p, "the judge failed", &local);
        return err_set(err, local.code, "%s", local.text);
    }
    a.wall_ns = clock_mono_ns() - started;
    *ret = a;
    a = (struct judge_answer){0};
    return true;
}

/*
 * Theory: one judgement is one process in a process group of its own, with three pipes. This side writes one task, keeps stdin
 * open (its end tells the judge that we are gone), and polls stdout, stderr and the caller's wish to cancel. Nothing the judge
 * says is believed before it has the right form, and nothing counts unless the process then ends with exit 0: a verdict followed
 * by a crash is a crash. Whatever happens, the group is killed and the process reaped before the call returns.
 */
#include "gpu/spawn.h"
#include "core/clock.h"
#include "core/environment.h"
#include "gpu/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#define TAIL_BYTES 8192
#define TAIL_SHOWN 240
#define MAX_WORDS 52
#define CANCEL_LOOK_NS ((int64_t)100 * 1000000)
#define TERM_GRACE_NS ((int64_t)500 * 1000000)
#define EXIT_GRACE_NS ((int64_t)5000 * 1000000)       /* from the answer to the exit; a scheduler's wrapper needs some */
#define DEVICES_LIMIT_NS ((int64_t)60000 * 1000000)
#define MAX_BLOB_BYTES ((uint32_t)64 << 20)           /* PTX and cubins are far smaller */
#define MAX_FRAMES 4096                               /* of one judgement: greeting, progress, blobs */

extern char **environ;

void judge_answer_done(struct judge_answer *a)
{
    verdict_done(&a->verdict);
    json_decref(a->figures);
    json_decref(a->certificate);
    for (int i = 0; i < a->blob_count; i++)
        buf_done(&a->blobs[i].bytes);
    *a = (struct judge_answer){0};
}

/* ---- the process ---- */

struct tail { char text[TAIL_BYTES]; size_t size; };

struct process {
    pid_t pid;                  /* 0: none, or reaped */
    int in, out, err_fd;
    int status;                 /* of waitpid, once reaped */
    struct tail tail;
    sigset_t old_mask;
    bool masked;
};

static void tail_add(struct tail *t, const char *data, size_t size)
{
    if (size > sizeof t->text)
        data += size - sizeof t->text, size = sizeof t->text;
    if (t->size + size > sizeof t->text) {
        size_t drop = t->size + size - sizeof t->text;
        memmove(t->text, t->text + drop, t->size - drop);
        t->size -= drop;
    }
    memcpy(t->text + t->size, data, size);
    t->size += size;
}

/* Reads what stderr holds. False at its end. */
static bool drain_stderr(struct process *p)
{
    char part[4096];
    for (;;) {
        ssize_t n = read(p->err_fd, part, sizeof part);
        if (n > 0)
            tail_add(&p->tail, part, (size_t)n);
        else
            return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
}

/* True once the process has been reaped. */
static bool reap(struct process *p, int64_t deadline_ns)
{
    while (p->pid > 0) {
        pid_t got = waitpid(p->pid, &p->status, WNOHANG);
        if (got == p->pid || (got < 0 && errno == ECHILD)) {
            p->pid = 0;
            break;
        }
        if (clock_mono_ns() >= deadline_ns)
            return false;
        if (p->err_fd >= 0)
            drain_stderr(p);
        clock_sleep_ns(1000000);
    }
    return true;
}

static void process_end(struct process *p)
{
    pid_t group = p->pid;
    if (p->in >= 0)
        close(p->in), p->in = -1;
    if (group > 0) {
        kill(-group, SIGTERM);
        if (!reap(p, clock_mono_ns() + TERM_GRACE_NS)) {
            kill(-group, SIGKILL);
            while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
                continue;
            p->pid = 0;
        }
    }
    if (p->err_fd >= 0)
        drain_stderr(p), close(p->err_fd), p->err_fd = -1;
    if (p->out >= 0)
        close(p->out), p->out = -1;
    if (p->masked) {
        /* A SIGPIPE that our writes caused must not reach the thread when the mask is lifted. */
        sigset_t pipe_only;
        sigemptyset(&pipe_only);
        sigaddset(&pipe_only, SIGPIPE);
        while (!sigismember(&p->old_mask, SIGPIPE) && sigtimedwait(&pipe_only, NULL, &(struct timespec){0}) > 0)
            continue;
        pthread_sigmask(SIG_SETMASK, &p->old_mask, NULL);
        p->masked = false;
    }
}
DEFINE_CLEANUP(process, struct process, process_end(it))

struct words { int count; char *list[MAX_WORDS + 1]; };
static void words_done(struct words *w)
{
    for (int i = 0; i < w->count; i++)
        free(w->list[i]);
}
DEFINE_CLEANUP(words, struct words, words_done(it))

static bool words_add(struct words *w, char *text, struct err *err)
{
    if (w->count == MAX_WORDS) {
        free(text);
        return err_set(err, ERR_INVALID, "the runner has over %d words", MAX_WORDS);
    }
    w->list[w->count++] = text;
    return true;
}

static bool words_make(struct words *w, const struct spawn_config *c, const char *command, struct err *err)
{
    for (const char *at = c->runner ? c->runner : ""; *at;) {
        size_t n = strcspn(at, " ");
        if (n && !words_add(w, xstrndup(at, n), err))
            return false;
        at += n + (at[n] == ' ');
    }
    cleanup(str) char *dir = c->program ? NULL : self_dir();
    if (!words_add(w, c->program ? xstrdup(c->program) : xfmt("%s/proteus-gpu", dir), err)
        || !words_add(w, xstrdup(command), err))
        return false;
    const struct { const char *flag, *value; } flags[] = {
        {"--ops-dir", c->ops_dir},
        {"--cuda-home", c->cuda_home},
        {"--python", c->python},
        {"--sandbox-minimum", c->sandbox_minimum},
        {"--need", c->need},
        {"--device", c->device},
        {"--threads", c->threads},
        {"--card-lock", c->card_lock},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].value && *flags[i].value
            && (!words_add(w, xstrdup(flags[i].flag), err) || !words_add(w, xstrdup(flags[i].value), err)))
            return false;
    return true;
}

static bool start_with(char *const *argv, const int in[2], const int out[2], const int error[2], pid_t *ret,
                       struct err *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], 0);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_adddup2(&files, error[1], 2);
    posix_spawnattr_init(&attr);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL), sigdelset(&all, SIGSTOP);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    cleanup(mem) void *variables = environment_for_child(environ);
    int failed = posix_spawnp(ret, argv[0], &files, &attr, argv, variables);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    errno = failed;
    return failed ? err_errno(err, ERR_UNAVAILABLE, "cannot start the judge \"%s\"", argv[0]) : true;
}

static bool process_start(struct process *p, const struct spawn_config *c, const char *command, struct err *err)
{
    cleanup(words) struct words w = {0};
    if (!words_make(&w, c, command, err))
        return false;
    int in[2] = {-1, -1}, out[2] = {-1, -1}, error[2] = {-1, -1};
    bool ok = pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(error, O_CLOEXEC) == 0;
    ok = ok ? start_with(w.list, in, out, error, &p->pid, err)
            : err_errno(err, ERR_UNAVAILABLE, "cannot make pipes for the judge");
    const int theirs[] = {in[0], out[1], error[1]}, ours[] = {in[1], out[0], error[0]};
    for (int i = 0; i < 3; i++) {
        if (theirs[i] >= 0)
            close(theirs[i]);
        if (!ok && ours[i] >= 0)
            close(ours[i]);
        if (ok)
            fcntl(ours[i], F_SETFL, fcntl(ours[i], F_GETFL) | O_NONBLOCK);
    }
    if (!ok)
        return false;
    p->in = in[1], p->out = out[0], p->err_fd = error[0];
    sigset_t pipe_only;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    p->masked = pthread_sigmask(SIG_BLOCK, &pipe_only, &p->old_mask) == 0;
    return true;
}

/* ": the judge wrote: ..." or nothing; and how it ended. */
static bool with_circumstances(struct process *p, const char *what, struct err *err)
{
    struct err cause = err ? *err : (struct err){.code = ERR_UPSTREAM};
    bool was_alive = p->pid > 0 && !reap(p, clock_mono_ns() + TERM_GRACE_NS);
    process_end(p);
    char ended[96];
    if (was_alive)
        snprintf(ended, sizeof ended, "killed");
    else if (WIFSIGNALED(p->status))
        snprintf(ended, sizeof ended, "ended by signal %d (%s)", WTERMSIG(p->status), strsignal(WTERMSIG(p->status)));
    else
        snprintf(ended, sizeof ended, "exit %d", WEXITSTATUS(p->status));
    size_t from = p->tail.size > TAIL_SHOWN ? p->tail.size - TAIL_SHOWN : 0;
    cleanup(buf) struct buf clean = {0};
    utf8_clean(&clean, p->tail.text + from, p->tail.size - from);
    while (clean.size && (clean.data[clean.size - 1] == '\n' || clean.data[clean.size - 1] == ' '))
        clean.data[--clean.size] = 0;
    return err_set(err, cause.code, "%s: %.160s (%s)%s%s", what, cause.text, ended, clean.size ? "; it wrote: " : "",
                   buf_cstr(&clean));
}

/* ---- the conversation ---- */

struct talk {
    struct process *p;
    int64_t deadline_ns, limit_ns;
    judge_cancelled *cancelled;
    void *ctx;
    struct wire_reader reader;
};

/* The next frame; *ret_end where stdout ended between frames. Looks at stderr and at the caller's wish meanwhile. */
static bool next_frame(struct talk *t, struct wire_frame *ret, bool *ret_end, struct err *err)
{
    *ret_end = false;
    for (;;) {
        enum wire_step step = wire_reader_step(&t->reader, t->p->out, ret, err);
        if (step == WIRE_FRAME)
            return true;
        if (step == WIRE_BAD)
            return false;
        if (step == WIRE_END) {
            *ret_end = true;
            return true;
        }
        if (t->cancelled && t->cancelled(t->ctx))
            return err_set(err, ERR_CONFLICT, "cancelled");
        int64_t now = clock_mono_ns(), left = t->deadline_ns - now;
        if (left <= 0)
            return err_set(err, ERR_TIMEOUT, "no answer within %.1f s", (double)t->limit_ns * 1e-9);
        struct pollfd p[2] = {{.fd = t->p->out, .events = POLLIN}, {.fd = t->p->err_fd, .events = POLLIN}};
        int64_t wait_ns = left < CANCEL_LOOK_NS ? left : CANCEL_LOOK_NS;
        if (poll(p, 2, (int)(wait_ns / 1000000) + 1) < 0 && errno != EINTR)
            return err_errno(err, ERR_INTERNAL, "poll");
        if (p[1].revents && !drain_stderr(t->p))
            close(t->p->err_fd), t->p->err_fd = -1;
    }
}

static bool exit_clean(struct process *p, struct err *err)
{
    if (!reap(p, clock_mono_ns() + EXIT_GRACE_NS))
        return err_set(err, ERR_UPSTREAM, "it answered, but did not end");
    if (!WIFEXITED(p->status) || WEXITSTATUS(p->status) != 0)
        return err_set(err, ERR_UPSTREAM, "it answered, but did not end well");
    return true;
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

static bool positive(const json_t *v)
{
    return json_is_number(v) && json_number_value(v) > 0 && json_number_value(v) < 1e18;
}

/* The form of figures that the rest of the server relies on. */
static bool figures_check(const json_t *figures, bool correct, struct err *err)
{
    if (!json_is_object(figures))
        return err_set(err, ERR_UPSTREAM, "figures are not an object");
    static const char *const times[] = {"time_ns", "baseline_ns"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_object_get(figures, times[i]);
        if (v && !json_is_null(v) && !positive(v))
            return err_set(err, ERR_UPSTREAM, "figures.%s is not a positive number", times[i]);
    }
    const json_t *speedup = json_object_get(figures, "speedup");
    static const char *const parts[] = {"median", "low", "high"};
    for (size_t i = 0; speedup && !json_is_null(speedup) && i < 3; i++)
        if (!positive(json_object_get(speedup, parts[i])))
            return err_set(err, ERR_UPSTREAM, "figures.speedup.%s is not a positive number", parts[i]);
    const char *evidence = json_str(figures, "evidence", "");
    if (correct && (!positive(json_object_get(figures, "time_ns")) || !speedup || json_is_null(speedup)))
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

static bool converse(struct talk *t, judge_progress *progress, struct judge_answer *a, struct err *err)
{
    char blob_name[WIRE_MAX_NAME + 1] = "";
    for (int frames = 0;; frames++) {
        cleanup(wire_frame) struct wire_frame f = {0};
        bool end;
        if (!next_frame(t, &f, &end, err))
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
            if (progress)
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
    cleanup(process) struct process p = {.in = -1, .out = -1, .err_fd = -1};
    cleanup(judge_answer) struct judge_answer a = {0};
    struct err local = {0};
    if (!process_start(&p, config, "judge", err))
        return false;
    struct talk t = {.p = &p, .deadline_ns = started + config->wall_limit_ns, .limit_ns = config->wall_limit_ns,
                     .cancelled = cancelled, .ctx = ctx, .reader = {.max_blob_bytes = MAX_BLOB_BYTES}};
    /* A judge that would not take the task may have said why: its word is better than our broken pipe. */
    bool sent = wire_send_json_by(p.in, WIRE_JUDGE, task, t.deadline_ns, &local);
    bool ok = (sent || local.code == ERR_UPSTREAM) && converse(&t, progress, &a, &local) && exit_clean(&p, &local);
    wire_reader_done(&t.reader);
    if (!ok) {
        if (local.code == ERR_CONFLICT && strcmp(local.text, "cancelled") == 0)
            return err_set(err, ERR_CONFLICT, "cancelled");
        with_circumstances(&p, "the judge failed", &local);
        return err_set(err, local.code, "%s", local.text);
    }
    a.wall_ns = clock_mono_ns() - started;
    *ret = a;
    a = (struct judge_answer){0};
    return true;
}

bool spawn_devices(const struct spawn_config *config, json_t **ret, struct err *err)
{
    cleanup(process) struct process p = {.in = -1, .out = -1, .err_fd = -1};
    cleanup(wire_frame) struct wire_frame f = {0};
    struct err local = {0};
    if (!process_start(&p, config, "serve-devices", err))
        return false;
    int64_t limit = config->wall_limit_ns > 0 && config->wall_limit_ns < DEVICES_LIMIT_NS ? config->wall_limit_ns
                                                                                          : DEVICES_LIMIT_NS;
    struct talk t = {.p = &p, .deadline_ns = clock_mono_ns() + limit, .limit_ns = limit};
    bool end = false;
    bool ok = next_frame(&t, &f, &end, &local);
    wire_reader_done(&t.reader);
    if (ok && end)
        ok = err_set(&local, ERR_UPSTREAM, "it ended without an answer");
    ok = ok && wire_expect(&f, WIRE_DEVICES, &local);
    if (ok && (!json_is_array(json_object_get(f.json, "devices")) || !json_is_object(json_object_get(f.json, "sandbox"))
               || !json_is_object(json_object_get(f.json, "toolkit"))))
        ok = err_set(&local, ERR_UPSTREAM, "devices, sandbox or toolkit is missing from its answer");
    if (!ok || !exit_clean(&p, &local)) {
        with_circumstances(&p, "asking for the devices failed", &local);
        return err_set(err, local.code, "%s", local.text);
    }
    *ret = json_incref(f.json);
    return true;
}

void op_verdict_done(struct op_verdict *v)
{
    buf_done(&v->why);
    buf_done(&v->library);
    json_decref(v->report);
    *v = (struct op_verdict){0};
}

static bool take_op(const json_t *doc, struct op_verdict *v, struct err *err)
{
    const char *where = json_str(doc, "where", ""), *digest = json_str(doc, "digest", "");
    const json_t *report = json_object_get(doc, "report");
    if (*where) {
        const char *why = json_str(doc, "why", "it is refused");
        snprintf(v->where, sizeof v->where, "%s", where);
        utf8_clean(&v->why, why, strlen(why));
        return *where == '/' || err_set(err, ERR_UPSTREAM, "it refuses an operator for \"%.20s\", which is no place in it", where);
    }
    if (!v->library.size || !hash_hex_valid(digest) || !json_is_object(report))
        return err_set(err, ERR_UPSTREAM, "an operator that passed without its library, digest or report");
    snprintf(v->digest.text, sizeof v->digest.text, "%s", digest);
    v->report = json_incref((json_t *)(uintptr_t)report);
    return true;
}

/* At most a blob, reference.so, and then the result. */
static bool converse_op(struct talk *t, struct op_verdict *v, struct err *err)
{
    bool named = false;
    for (int frames = 0; frames < 8; frames++) {
        cleanup(wire_frame) struct wire_frame f = {0};
        bool end;
        if (!next_frame(t, &f, &end, err))
            return false;
        if (end)
            return err_set(err, ERR_UPSTREAM, "it ended without an answer");
        if (f.type == WIRE_BLOB_NAME && !named && !v->library.size && strcmp(json_str(f.json, "name", ""), "reference.so") == 0) {
            named = true;
        } else if (f.type == WIRE_BLOB && named) {
            named = false;
            v->library = f.blob;
            f.blob = (struct buf){0};
        } else {
            return wire_expect(&f, WIRE_RESULT, err) && take_op(f.json, v, err);
        }
    }
    return err_set(err, ERR_UPSTREAM, "too many frames and no result");
}

bool spawn_op(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, struct op_verdict *ret,
              struct err *err)
{
    cleanup(process) struct process p = {.in = -1, .out = -1, .err_fd = -1};
    cleanup(op_verdict) struct op_verdict v = {.where = ""};
    struct err local = {0};
    if (!process_start(&p, config, "serve-op", err))
        return false;
    struct talk t = {.p = &p, .deadline_ns = clock_mono_ns() + config->wall_limit_ns, .limit_ns = config->wall_limit_ns,
                     .cancelled = cancelled, .ctx = ctx, .reader = {.max_blob_bytes = MAX_BLOB_BYTES}};
    bool sent = wire_send_json_by(p.in, WIRE_JUDGE, request, t.deadline_ns, &local);
    bool ok = (sent || local.code == ERR_UPSTREAM) && converse_op(&t, &v, &local) && exit_clean(&p, &local);
    wire_reader_done(&t.reader);
    if (!ok) {
        with_circumstances(&p, "the judge could not look at the operator", &local);
        return err_set(err, local.code, "%s", local.text);
    }
    *ret = v;
    v = (struct op_verdict){.where = ""};
    return true;
}

/* As many estimates as candidates, each a positive number or null. */
static bool take_estimates(const json_t *doc, size_t count, json_t **ret, struct err *err)
{
    json_t *list = json_object_get(doc, "estimates"), *one;
    size_t i;
    if (!json_is_array(list) || json_array_size(list) != count)
        return err_set(err, ERR_UPSTREAM, "not one estimate for each candidate");
    json_array_foreach(list, i, one) {
        const json_t *ns = json_object_get(one, "ns");
        if (!json_is_object(one) || (!json_is_null(ns) && !positive(ns)))
            return err_set(err, ERR_UPSTREAM, "estimate %zu is not a positive number", i);
    }
    *ret = json_incref(list);
    return true;
}

/* One request in one frame, one result in another, then the end of the process. New reference. */
static bool ask_once(const struct spawn_config *config, const char *command, const json_t *request, const char *nothing, judge_cancelled *cancelled,
                     void *ctx, json_t **ret, struct err *err)
{
    cleanup(process) struct process p = {.in = -1, .out = -1, .err_fd = -1};
    cleanup(wire_frame) struct wire_frame f = {0};
    struct err local = {0};
    bool end = false;
    if (!process_start(&p, config, command, err))
        return false;
    struct talk t = {.p = &p, .deadline_ns = clock_mono_ns() + config->wall_limit_ns, .limit_ns = config->wall_limit_ns,
                     .cancelled = cancelled, .ctx = ctx, .reader = {.max_blob_bytes = 0}};
    bool sent = wire_send_json_by(p.in, WIRE_JUDGE, request, t.deadline_ns, &local);
    bool ok = (sent || local.code == ERR_UPSTREAM) && next_frame(&t, &f, &end, &local) &&
              (!end || err_set(&local, ERR_UPSTREAM, "it ended without an answer")) && wire_expect(&f, WIRE_RESULT, &local) && exit_clean(&p, &local);
    wire_reader_done(&t.reader);
    if (!ok) {
        if (local.code == ERR_CONFLICT && strcmp(local.text, "cancelled") == 0)
            return err_set(err, ERR_CONFLICT, "cancelled");
        with_circumstances(&p, nothing, &local);
        return err_set(err, local.code, "%s", local.text);
    }
    *ret = json_incref(f.json);
    return true;
}

bool spawn_estimates(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, json_t **ret,
                     struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    return ask_once(config, "serve-estimates", request, "nothing was estimated", cancelled, ctx, &doc, err) &&
           take_estimates(doc, json_array_size(json_object_get(request, "candidates")), ret, err);
}

/* Exactly one of the three, and figures that are numbers. */
static bool take_profile(const json_t *doc, struct profile_answer *ret, struct err *err)
{
    const json_t *profile = json_object_get(doc, "profile"), *steps = json_object_get(profile, "steps"), *step;
    const char *refused = json_str(doc, "refused", NULL);
    const json_t *fault = json_object_get(doc, "fault");
    size_t i;
    if ((json_is_object(profile) != 0) + (refused != NULL) + (json_is_object(fault) != 0) != 1)
        return err_set(err, ERR_UPSTREAM, "it answered neither figures, nor why there are none");
    if (json_is_object(profile) && (!json_is_array(steps) || json_array_size(steps) > PLAN_MAX_STEPS))
        return err_set(err, ERR_UPSTREAM, "a profile without its steps");
    json_array_foreach(steps, i, step) {
        const char *name;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)step, name, value)
            if (!json_is_number(value) && strcmp(name, "stalls") != 0)
                return err_set(err, ERR_UPSTREAM, "%.40s of step %zu of a profile is no number", name, i);
    }
    cleanup(buf) struct buf clean = {.limit = sizeof ret->why - 1};
    const char *why = refused ? refused : json_str(fault, "text", "");
    utf8_clean(&clean, why, strlen(why));
    snprintf(ret->why, sizeof ret->why, "%s", buf_cstr(&clean));
    ret->refused = refused != NULL;
    ret->profile = json_is_object(profile) ? json_incref((json_t *)(uintptr_t)profile) : NULL;
    ret->gpu_ns = json_int(doc, "gpu_ns", 0);
    return true;
}

bool spawn_profile(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, struct profile_answer *ret,
                   struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    return ask_once(config, "serve-profile", request, "nothing was counted", cancelled, ctx, &doc, err) && take_profile(doc, ret, err);
}

/*
 * The judge's process: started in a group of its own with three pipes, what it writes to stderr kept as a bounded tail, its end. This
 * side keeps stdin open (its end tells the judge that we are gone). Whatever happens, the group is killed and the process reaped.
 */
#include "gpu/spawn_internal.h"
#include "core/clock.h"
#include "core/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAIL_SHOWN 240
#define MAX_WORDS 52

extern char **environ;

static void tail_add(struct spawn_tail *t, const char *data, size_t size)
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

bool spawn_process_drain(struct spawn_process *p)
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

bool spawn_process_reap(struct spawn_process *p, int64_t deadline_ns)
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
            spawn_process_drain(p);
        clock_sleep_ns(1000000);
    }
    return true;
}

void spawn_process_end(struct spawn_process *p)
{
    pid_t group = p->pid;
    if (p->in >= 0)
        close(p->in), p->in = -1;
    if (group > 0) {
        kill(-group, SIGTERM);
        if (!spawn_process_reap(p, clock_mono_ns() + SPAWN_TERM_GRACE_NS)) {
            kill(-group, SIGKILL);
            while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
                continue;
            p->pid = 0;
        }
    }
    if (p->err_fd >= 0)
        spawn_process_drain(p), close(p->err_fd), p->err_fd = -1;
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

bool spawn_process_start(struct spawn_process *p, const struct spawn_config *c, const char *command, struct err *err)
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
bool spawn_circumstances(struct spawn_process *p, const char *what, struct err *err)
{
    struct err cause = err ? *err : (struct err){.code = ERR_UPSTREAM};
    bool was_alive = p->pid > 0 && !spawn_process_reap(p, clock_mono_ns() + SPAWN_TERM_GRACE_NS);
    spawn_process_end(p);
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

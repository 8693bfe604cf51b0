/*
 * The supervisor's side: starts a child, keeps the tail of what it says on stderr, ends it, and tells how it ended.
 *
 * The child is this program, exec'd again, so it holds nothing of the supervisor's memory. It gets a socket as descriptor 3,
 * /dev/null as stdin, and a pipe as stdout and stderr whose writing end never blocks: a child that floods it loses text, not
 * time. The child leads a session of its own, so one kill reaches all of it; in a pid namespace the kernel ends the rest.
 */
#include "core/clock.h"
#include "core/hash.h"
#include "gpu/sandbox/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define STDERR_TAIL_BYTES ((size_t)64 * 1024)
#define STDERR_PIPE_BYTES (256 * 1024)
#define EXEC_FAILED 127
#define MOST_DESCRIPTORS 65536
#define END_LIMIT_NS ((int64_t)5 * 1000000000)
#define LOOK_MS 2                  /* how often to look for a child's end where there are no pidfds */

static unsigned layers_without;

void sandbox_without(unsigned layers)
{
    layers_without = layers;
}

struct words { int count; char *list[2 * SANDBOX_MAX_PATHS + 17]; };

static void words_done(struct words *w)
{
    for (int i = 0; i < w->count; i++)
        free(w->list[i]);
}
DEFINE_CLEANUP(words, struct words, words_done(it))

static bool add_paths(struct words *w, const char *key, const char *const *paths, struct err *err)
{
    int count = 0;
    for (const char *const *p = paths; p && *p; p++) {
        if (**p != '/' || strlen(*p) >= PATH_MAX / 2)
            return err_set(err, ERR_INVALID, "a path for the sandbox must be absolute and short: \"%.100s\"", *p);
        if (++count > SANDBOX_MAX_PATHS / 2)
            return err_set(err, ERR_INVALID, "more than %d paths for the sandbox", SANDBOX_MAX_PATHS / 2);
        w->list[w->count++] = xfmt("%s=%s", key, *p);
    }
    return true;
}

static bool make_words(struct words *w, const char *role, const struct sandbox_limits *l,
                       const struct sandbox_paths *paths, const char *scratch, struct err *err)
{
    w->list[w->count++] = xstrdup(program_invocation_short_name);
    w->list[w->count++] = xstrdup("child");
    w->list[w->count++] = xstrdup(role);
    w->list[w->count++] = xfmt("limits=%lld,%lld,%lld,%d,%d", (long long)l->cpu_seconds, (long long)(l->memory_bytes + l->holes_bytes),
                               (long long)l->file_bytes, l->open_files, l->processes);
    w->list[w->count++] = xfmt("parent=%d", (int)getpid());
    w->list[w->count++] = xfmt("without=%u", layers_without);
    if (*scratch)
        w->list[w->count++] = xfmt("scratch=%s", scratch);
    return !paths || (add_paths(w, "ro", paths->read_only, err) && add_paths(w, "dev", paths->devices, err));
}

/* After vfork, in our own memory: system calls only, and nothing is changed but what the kernel keeps for the child. */
static _Noreturn void become_child(char **argv, char **env, int socket, int null, int output, const char *group, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int s = 1; s < 32; s++)
        signal(s, SIG_DFL);           /* exec would keep what is ignored */
    setsid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXEC_FAILED);
    /* Before it starts anything: what it starts is in its group then. Whether it worked, the parent looks. */
    int procs = *group ? open(group, O_WRONLY | O_CLOEXEC) : -1;
    if (procs >= 0) {
        ssize_t moved = write(procs, "0", 1);
        (void)moved;
        close(procs);
    }
    /* The three may sit anywhere, also on 0 to 3: lift them out of the way first. */
    int up_socket = fcntl(socket, F_DUPFD, 10), up_null = fcntl(null, F_DUPFD, 10),
        up_output = fcntl(output, F_DUPFD, 10);
    if (dup2(up_null, 0) < 0 || dup2(up_output, 1) < 0 || dup2(up_output, 2) < 0 ||
        dup2(up_socket, SANDBOX_SOCKET_FD) < 0)
        _exit(EXEC_FAILED);
    if (close_range(SANDBOX_SOCKET_FD + 1, ~0u, 0) != 0)
        for (int fd = SANDBOX_SOCKET_FD + 1; fd < MOST_DESCRIPTORS; fd++)      /* an older container forbids the call */
            close(fd);
    execve("/proc/self/exe", argv, env);
    _exit(EXEC_FAILED);
}

/* vfork in a function of its own, so that nothing of the caller's lives in registers across its two returns. */
static __attribute__((noinline)) pid_t start_child(char **argv, char **env, int socket, int null, int output, const char *group)
{
    pid_t parent = getpid(), pid = vfork();
    if (pid == 0)
        become_child(argv, env, socket, null, output, group, parent);
    return pid;
}

#define SCRATCH_DEPTH 16           /* Landlock lets a job make none at all */

/* Follows no link: what the job left is removed, not what it points at. */
static void remove_folder(int parent, const char *name, int depth)
{
    cleanup(fd) int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup(dir) DIR *d = fd >= 0 ? fdopendir(dup(fd)) : NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlinkat(fd, e->d_name, 0) != 0 && errno == EISDIR && depth > 0)
            remove_folder(fd, e->d_name, depth - 1);
    unlinkat(parent, name, AT_REMOVEDIR);
}

/* Where there is no private /tmp the folder is the host's, and the job may not remove it: it may write inside, not beside it. */
static void scratch_remove(const char *path)
{
    if (*path)
        remove_folder(AT_FDCWD, path, SCRATCH_DEPTH);
}

static bool spawn(const char *role, const struct sandbox_limits *limits, const struct sandbox_paths *paths,
                  const char *const *env, struct sandbox_child *ret, struct err *err)
{
    cleanup(words) struct words w = {0};
#ifdef __SANITIZE_ADDRESS__
    /* The leak check starts a process, which is refused inside. */
    static const char *const no_env[] = {"ASAN_OPTIONS=detect_leaks=0", NULL};
#else
    static const char *const no_env[] = {NULL};
#endif
    enum sandbox_role which;
    char scratch[sizeof ret->scratch] = "";
    if (sandbox_role_parse(role, &which) && sandbox_profiles[which].programs)
        snprintf(scratch, sizeof scratch, SANDBOX_SCRATCH "%016llx", (unsigned long long)random_u64());
    if (!make_words(&w, role, limits, paths, scratch, err))
        return false;
    int pair[2], output[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return err_errno(err, ERR_INTERNAL, "socketpair for a child");
    cleanup(fd) int ours = pair[0];
    cleanup(fd) int theirs = pair[1];
    if (pipe2(output, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_errno(err, ERR_INTERNAL, "pipe for a child");
    cleanup(fd) int tail = output[0];
    cleanup(fd) int head = output[1];
    (void)fcntl(tail, F_SETPIPE_SZ, STDERR_PIPE_BYTES);    /* smaller only means an earlier cut */
    cleanup(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return err_errno(err, ERR_INTERNAL, "open /dev/null");
    int64_t started_ns = clock_mono_ns();
    char group[sizeof ret->cgroup] = "", procs[sizeof group + 16] = "";
    const bool data = sandbox_role_parse(role, &which) && !sandbox_profiles[which].address_space;
    if (!(layers_without & SANDBOX_CGROUP) && cgroup_make(limits->memory_bytes + (data ? limits->memory_bytes / 2 : 0), group, sizeof group))
        snprintf(procs, sizeof procs, "%s/cgroup.procs", group);
    pid_t pid = start_child(w.list, (char **)(env ? env : no_env), theirs, null, head, procs);
    if (pid < 0 || (*group && !cgroup_holds_any(group)))
        cgroup_remove(group);
    if (pid < 0)
        return err_errno(err, ERR_INTERNAL, "start a child");
    *ret = (struct sandbox_child){
        .pid = pid, .fd = steal_fd(&ours), .stderr_fd = steal_fd(&tail), .started_ns = started_ns};
    snprintf(ret->scratch, sizeof ret->scratch, "%s", scratch);
    memcpy(ret->cgroup, group, sizeof group);
    ret->holds_card = sandbox_role_parse(role, &which) && sandbox_profiles[which].devices;
    return true;
}

bool sandbox_spawn(enum sandbox_role role, const struct sandbox_limits *limits, const struct sandbox_paths *paths,
                   const char *const *env, struct sandbox_child *ret, struct err *err)
{
    return spawn(sandbox_role_name(role), limits, paths, env, ret, err);
}

/* Takes what is there, keeps the last 64 KiB. */
static void drain(struct sandbox_child *c)
{
    char chunk[4096];
    ssize_t n;
    while (c->stderr_fd >= 0 && (n = read(c->stderr_fd, chunk, sizeof chunk)) != 0) {
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return;
        }
        utf8_clean(&c->stderr_tail, chunk, (size_t)n);
        if (c->stderr_tail.size > STDERR_TAIL_BYTES) {
            size_t drop = c->stderr_tail.size - STDERR_TAIL_BYTES;
            while (drop < c->stderr_tail.size && ((unsigned char)c->stderr_tail.data[drop] & 0xc0) == 0x80)
                drop++;
            memmove(c->stderr_tail.data, c->stderr_tail.data + drop, c->stderr_tail.size - drop + 1);
            c->stderr_tail.size -= drop;
        }
    }
}

const char *sandbox_stderr(struct sandbox_child *c)
{
    drain(c);
    return buf_cstr(&c->stderr_tail);
}

static void kill_all(const struct sandbox_child *c, int sig)
{
    kill(-c->pid, sig);
    kill(c->pid, sig);      /* in case it does not lead its group yet */
}

static int64_t timeval_ns(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_usec * 1000;
}

/* Reaps; the process has ended or has been sent SIGKILL. */
static void reap(struct sandbox_child *c, bool killed, bool timed_out, struct sandbox_status *ret)
{
    int wait_status = 0;
    struct rusage use = {0};
    while (wait4(c->pid, &wait_status, 0, &use) < 0 && errno == EINTR)
        ;
    /* Stragglers of its session, where there is no pid namespace to end them. */
    kill(-c->pid, SIGKILL);
    *ret = (struct sandbox_status){
        .end = killed ? SANDBOX_KILLED_BY_US : WIFSIGNALED(wait_status) ? SANDBOX_SIGNALLED : SANDBOX_EXITED,
        .code = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status),
        .timed_out = timed_out,
        .out_of_memory = cgroup_killed(c->cgroup),
        .wall_ns = clock_mono_ns() - c->started_ns,
        .cpu_ns = timeval_ns(use.ru_utime) + timeval_ns(use.ru_stime),
        .peak_rss_bytes = (int64_t)use.ru_maxrss * 1024,
    };
    scratch_remove(c->scratch);
    cgroup_remove(c->cgroup);
    drain(c);
    if (c->fd >= 0)
        close(c->fd);
    if (c->stderr_fd >= 0)
        close(c->stderr_fd);
    c->fd = c->stderr_fd = -1;
    c->pid = 0;
}

static bool has_ended(const struct sandbox_child *c)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == c->pid;
}

/* True once it has ended; false at the deadline (0: none). Takes what it writes meanwhile. */
static bool await(struct sandbox_child *c, int64_t deadline_ns)
{
    cleanup(fd) int end = pidfd_open(c->pid, 0);
    while (!has_ended(c)) {
        int64_t left_ms = deadline_ns ? (deadline_ns - clock_mono_ns() + 999999) / 1000000 : INT_MAX;
        if (left_ms <= 0)
            return false;
        if (end < 0 && left_ms > LOOK_MS)
            left_ms = LOOK_MS;
        /* A negative descriptor is one that poll skips. */
        struct pollfd p[2] = {{.fd = end, .events = POLLIN}, {.fd = c->stderr_fd, .events = POLLIN}};
        if (poll(p, 2, left_ms > INT_MAX ? INT_MAX : (int)left_ms) < 0 && errno != EINTR)
            return false;
        if (p[1].revents & POLLIN) {
            drain(c);
        } else if (p[1].revents) {
            close(c->stderr_fd);
            c->stderr_fd = -1;
        }
    }
    return true;
}

/* Whether it waits for another process, which is the job: then its own end must come after that one's. */
static bool is_porter(const struct sandbox_child *c)
{
    char path[64], first;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)c->pid, (int)c->pid);
    cleanup(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &first, 1) == 1;
}

/*
 * A job that holds a card takes a while to die: what runs there is stopped and its memory given back. Until then the card is not as the
 * next job needs it, so the end is waited for. What does not end in that time is killed with its porter and left to the kernel.
 */
static void kill_wholly(struct sandbox_child *c)
{
    if (c->holds_card && is_porter(c)) {
        kill(c->pid, SANDBOX_END_SIGNAL);
        await(c, clock_mono_ns() + END_LIMIT_NS);
    }
    kill_all(c, SIGKILL);
}

void sandbox_wait(struct sandbox_child *c, int64_t deadline_ns, struct sandbox_status *ret)
{
    BUG_ON(c->pid <= 0);
    bool ended = await(c, deadline_ns);
    if (!ended)
        kill_wholly(c);
    reap(c, !ended, !ended, ret);
}

void sandbox_stop(struct sandbox_child *c, int64_t grace_ns, struct sandbox_status *ret)
{
    BUG_ON(c->pid <= 0);
    if (await(c, clock_mono_ns())) {
        reap(c, false, false, ret);
        return;
    }
    if (grace_ns > 0) {
        kill_all(c, SIGTERM);
        await(c, clock_mono_ns() + grace_ns);
    }
    kill_wholly(c);
    reap(c, true, false, ret);
}

bool sandbox_probe(unsigned *ret_layers, struct err *err)
{
    static const struct sandbox_limits limits = {
        .cpu_seconds = 10, .memory_bytes = (int64_t)1 << 30, .open_files = 16, .processes = 16};
    struct sandbox_child child = {0};
    struct sandbox_status status;
    if (!spawn(SANDBOX_PROBE, &limits, NULL, NULL, &child, err))
        return false;
    const bool grouped = child.cgroup[0];
    unsigned layers = 0;
    struct err failed = {0};
    struct pollfd p = {.fd = child.fd, .events = POLLIN};
    bool told = poll(&p, 1, 10000) == 1 && fd_read_all(child.fd, &layers, sizeof layers, &failed);
    sandbox_stop(&child, 0, &status);
    if (!told)
        err_set(err, ERR_INTERNAL, "the sandbox's probe ended with %d without an answer: %.300s", status.code,
                sandbox_stderr(&child));
    else
        *ret_layers = layers | (grouped ? SANDBOX_CGROUP : 0);
    buf_done(&child.stderr_tail);
    return told;
}

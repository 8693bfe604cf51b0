/*
 * What the sandbox keeps a child from doing to others: to the supervisor (its limits, signals, descriptors, memory, files), to
 * whoever listens on a socket, to the disk, the memory and the process table of the host. Every probe runs in every role at every
 * level; `held_by` says which layers forbid it, so that at a lower level it may succeed, and there it is seen that it would.
 *
 * All of it a second time from a supervisor that is not root: its children are the same user as it is, so what the kernel's own
 * rules between users would refuse only the layers do.
 */
#include "core/clock.h"
#include "tests/sandbox_probes.h"

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define FAT 1000                   /* in place of a probe: hold much memory */
struct order { pid_t supervisor; int only; char folder[96]; };      /* only: one probe, -1: all that are not alone */

static int be_child(int argc, char **argv)
{
    unsigned layers;
    struct err err = {0};
    struct order o;
    if (!sandbox_enter(argc, argv, &role, &layers, &err)) {
        fprintf(stderr, "enter: %s\n", err.text);
        return 1;
    }
    if (write(3, &layers, sizeof layers) != sizeof layers || read(3, &o, sizeof o) != sizeof o)
        return 2;
    if (o.only == FAT) {
        fill(mmap(NULL, 512 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 512 * MIB);
        signal(SIGUSR1, SIG_IGN);
        if (write(3, "f", 1) == 1)
            for (;;)
                pause();
    }
    supervisor = o.supervisor;
    snprintf(folder, sizeof folder, "%s", o.folder);
    for (int i = 0; i < (int)PROBES; i++) {
        if (o.only >= 0 ? i != o.only : probes[i].alone)
            continue;
        told[0] = 0;
        struct answer a = {.probe = i, .result = probes[i].run()};
        memcpy(a.told, told, sizeof told);
        if (write(3, &a, sizeof a) != sizeof a)
            return 3;
    }
    return 0;
}

/* ---- the supervisor ---- */

static volatile sig_atomic_t signalled;
static void count_signal(int sig) { (void)sig, signalled++; }
static int datagrams;

static int open_descriptors(void)
{
    int n = 0;
    cleanup(dir) DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    return n;
}

static bool escaped[PROBES];

static void check_held(unsigned layers, const struct probe *p, bool held, const char *what)
{
    escaped[p - probes] |= !held;
    bool must = p->held_by == 0 || (p->held_by & layers);
    if (!held && must)
        fprintf(stderr, "%s as %s, layers %u, user %d: %s\n", p->name, sandbox_role_name(role), layers, (int)geteuid(), what);
    check(held || !must);
}

/* What only this side can see of the probe that ran alone. */
static void check_after(const struct probe *p, struct sandbox_child *c, int socket_copy, const char *scratch, unsigned layers)
{
    char byte;
    check_held(layers, p, recv(datagrams, &byte, 1, MSG_DONTWAIT) < 0, "a datagram came");
    check_held(layers, p, !signalled, "a signal came");
    signalled = 0;
    if (p->run == probe_litter)
        check_held(layers, p, !scratch[0] || access(scratch, F_OK) != 0, "its folder is still there");
    if (p->run == probe_daemon && role == SANDBOX_CC) {
        struct pollfd end = {.fd = socket_copy, .events = POLLIN | POLLRDHUP};
        char rest[1024];
        int64_t until = clock_mono_ns() + 2500000000;
        bool gone = false;
        while (!gone && clock_mono_ns() < until && poll(&end, 1, 1000) > 0)
            gone = recv(socket_copy, rest, sizeof rest, MSG_DONTWAIT) == 0;
        check_held(layers, p, gone, "a process is left that holds the socket");
    }
    (void)c;
}

static void run(unsigned without, int only, unsigned have)
{
    struct sandbox_limits l = {.cpu_seconds = 20, .memory_bytes = (int64_t)128 * (int64_t)MIB, .open_files = 64, .processes = 48,
                               .file_bytes = role == SANDBOX_CC ? 1 << 20 : 0};
    struct sandbox_child c = {0};
    struct sandbox_status s;
    struct err err = {0};
    struct order o = {.supervisor = getpid(), .only = only};
    unsigned layers = 0;
    int before = open_descriptors(), answers = 0;
    char left;
    signalled = 0;
    while (recv(datagrams, &left, 1, MSG_DONTWAIT) > 0)
        continue;
    snprintf(o.folder, sizeof o.folder, "%s", folder);
    sandbox_without(without);
    bool ok = sandbox_spawn(role, &l, NULL, NULL, &c, &err) && fd_read_all(c.fd, &layers, sizeof layers, &err);
    if (!ok)
        fprintf(stderr, "start: %s; %s\n", err.text, c.pid ? sandbox_stderr(&c) : "");
    check(ok);
    check_int(layers, have & ~without);
    cleanup(fd) int copy = dup(c.fd);
    check(write(c.fd, &o, sizeof o) == sizeof o);
    struct answer a;
    /* Plain reads: what else is attached to a message is dropped by the kernel. */
    while (ok && fd_read_all(c.fd, &a, sizeof a, &err)) {
        if (a.probe < 0 || a.probe >= (int)PROBES)
            continue;
        answers++;
        check_held(layers, &probes[a.probe], a.result == 0, a.told);
        if (only >= 0)
            break;
    }
    char scratch[sizeof c.scratch];
    snprintf(scratch, sizeof scratch, "%s", c.scratch);
    sandbox_wait(&c, clock_mono_ns() + (int64_t)30 * 1000000000, &s);
    const struct probe *p = &probes[only >= 0 ? only : 0];
    if (p->signal)
        check_held(layers, p, s.end == SANDBOX_SIGNALLED && s.code == p->signal, "it did not die of it");
    else
        check(answers > 0 && s.end == SANDBOX_EXITED && s.code == 0);
    check(s.peak_rss_bytes < (int64_t)200 * (int64_t)MIB);
    if (only >= 0)
        check_after(p, &c, copy, scratch, layers);
    buf_done(&c.stderr_tail);
    close(steal_fd(&copy));
    check_int(open_descriptors(), before);
}

/* When one with a card is said to have ended it has: a job with much memory takes long to die, and holds its end of the socket until it has. */
static void test_wholly(unsigned without)
{
    const struct sandbox_limits l = {.cpu_seconds = 20, .memory_bytes = (int64_t)1 << 30, .open_files = 64, .processes = 8};
    struct sandbox_child c = {0};
    struct sandbox_status s;
    struct err err = {0};
    unsigned layers;
    struct order o = {.supervisor = getpid(), .only = FAT};
    role = SANDBOX_RUN_CUDA;
    sandbox_without(without);
    bool ok = sandbox_spawn(role, &l, NULL, NULL, &c, &err) && fd_read_all(c.fd, &layers, sizeof layers, &err) && fd_write_all(c.fd, &o, sizeof o, &err);
    char byte;
    ok = ok && fd_read_all(c.fd, &byte, 1, &err);
    check(ok);
    cleanup(fd) int copy = dup(c.fd);
    int64_t from = clock_mono_ns();
    sandbox_stop(&c, 0, &s);
    int64_t took_ns = clock_mono_ns() - from;
    ssize_t n = recv(copy, &byte, 1, MSG_DONTWAIT);
    check(n == 0);
    check_int(s.end, SANDBOX_KILLED_BY_US);
    check(took_ns < 4000000000);
    printf("a job of 512 MiB: %.1f ms from the wish to its end\n", (double)took_ns / 1e6);
    buf_done(&c.stderr_tail);
}

static void run_all(void)
{
    unsigned have = 0;
    struct err err = {0};
    sandbox_without(0);
    check(sandbox_probe(&have, &err));
    static const unsigned levels[] = {0, SANDBOX_NAMESPACES, SANDBOX_NAMESPACES | SANDBOX_LANDLOCK, SANDBOX_SECCOMP,
                                      SANDBOX_NAMESPACES | SANDBOX_LANDLOCK | SANDBOX_SECCOMP};
    static const enum sandbox_role roles[] = {SANDBOX_COMPILE, SANDBOX_RUN_CUDA, SANDBOX_CC};
    /* Root's children are another user than root: the same levels again would show less. */
    size_t level_count = geteuid() == 0 ? 2 : sizeof levels / sizeof *levels;
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
        for (size_t l = 0; l < level_count; l++) {
            role = roles[r];
            run(levels[l], -1, have);
            /* Alone at the two levels that a host may give, and where nothing holds them. */
            for (int i = 0; i < (int)PROBES; i++)
                if (probes[i].alone && ((l < 2 && (l == 0 || geteuid() != 0)) || (l == 4 && probes[i].held_by)))
                    run(levels[l], i, have);
        }
    test_wholly(0);
    test_wholly(SANDBOX_NAMESPACES);
    /* A probe that gets nowhere even where nothing stops it tries nothing. */
    for (size_t i = 0; i < PROBES; i++)
        if (probes[i].held_by && !escaped[i] && geteuid() != 0)
            fprintf(stderr, "%s has never escaped\n", probes[i].name);
    for (size_t i = 0; i < PROBES; i++)
        check(!probes[i].held_by || escaped[i] || geteuid() == 0);
    printf("user %d: level %s\n", (int)geteuid(), sandbox_level(have));
    fflush(stdout);
}

static void make_surroundings(uid_t owner)
{
    char path[160];
    struct err err;
    snprintf(folder, sizeof folder, "/tmp/test_sandbox_reach_%d", (int)getpid());
    snprintf(path, sizeof path, "%s/file", folder);
    check(mkdir(folder, 0777) == 0 && chmod(folder, 0777) == 0 && file_write(path, "hello", 5, 0600, &err) && chown(path, owner, owner) == 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof un.sun_path, "%s/datagrams", folder);
    datagrams = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    check(bind(datagrams, (struct sockaddr *)&un, sizeof un) == 0 && chmod(un.sun_path, 0777) == 0);
    signal(SIGURG, count_signal);
}

static void remove_surroundings(void)
{
    static const char *const names[] = {"file", "datagrams", "theirs", "bound", NULL};
    char path[160];
    for (const char *const *n = names; *n; n++) {
        snprintf(path, sizeof path, "%s/%s", folder, *n);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/theirs", folder);
    rmdir(path);
    check(rmdir(folder) == 0);
}

/* In a process of its own, which cannot come back: a supervisor that is nobody in particular. */
static int as_user(uid_t user)
{
    test_checks = test_failures = 0;
    make_surroundings(user);
    if (setgid(user) != 0 || setuid(user) != 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0 || access("/proc/self/exe", X_OK) != 0) {
        fprintf(stderr, "not tried as another user: %s\n", strerror(errno));
        return 0;
    }
    run_all();
    return test_failures || test_checks < 100;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return be_child(argc, argv);
    int status = 0;
    pid_t other = geteuid() == 0 ? fork() : -1;
    if (other == 0)
        _exit(as_user(54321));
    if (other > 0) {
        check(waitpid(other, &status, 0) == other && status == 0);
        snprintf(folder, sizeof folder, "/tmp/test_sandbox_reach_%d", (int)other);
        remove_surroundings();
    }
    make_surroundings(geteuid());
    run_all();
    remove_surroundings();
    return test_done();
}

/*
 * What test_sandbox_reach tries from inside: each probe answers 0 where it was held and 1 where it got out, and `told` says how. The
 * table says which layers hold it.
 */
#pragma once
#include "gpu/sandbox/sandbox.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define OTHER_NUMBERS 0x40000000

static pid_t supervisor;
static enum sandbox_role role;
static char told[400], folder[96];
struct answer { int probe, result; char told[400]; };               /* probe -1: nothing, a carrier of other things */
#define ESCAPED(...) (snprintf(told, sizeof told, __VA_ARGS__), 1)

/* ---- other processes ---- */

static int probe_signals(void)
{
    siginfo_t info = {.si_code = SI_QUEUE};
    const struct { const char *name; long result; } calls[] = {
        {"kill", kill(supervisor, 0)},
        {"kill its group", kill(-supervisor, 0)},
        {"tgkill", syscall(SYS_tgkill, supervisor, supervisor, 0)},
        {"tkill", syscall(SYS_tkill, supervisor, 0)},
        {"rt_sigqueueinfo", syscall(SYS_rt_sigqueueinfo, supervisor, SIGURG, &info)},
        {"rt_tgsigqueueinfo", syscall(SYS_rt_tgsigqueueinfo, supervisor, supervisor, SIGURG, &info)},
        {"pidfd_open", syscall(SYS_pidfd_open, supervisor, 0)},
        {"kill its parent", getppid() > 1 ? kill(getppid(), 0) : -1},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].result >= 0)
            return ESCAPED("%s reached the supervisor", calls[i].name);
    return 0;
}

/* A descriptor's owner is sent a signal of choice whenever there is something to read: the supervisor writes next. */
static int probe_owner(void)
{
    struct f_owner_ex owner = {F_OWNER_PID, supervisor};
    pid_t raw = supervisor;
    int fd = 3;
    if (fcntl(fd, F_SETSIG, SIGURG) == 0)
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
    if (fcntl(fd, F_SETOWN, supervisor) == 0 || fcntl(fd, F_SETOWN_EX, &owner) == 0 || ioctl(fd, FIOSETOWN, &raw) == 0 ||
        ioctl(fd, SIOCSPGRP, &raw) == 0)
        return ESCAPED("the supervisor owns a descriptor, and gets its signals");
    /* The high half of the argument is nothing to the kernel. */
    return syscall(SYS_fcntl, fd, UINT64_C(0x100000000) | F_SETOWN, supervisor) == 0 ? ESCAPED("F_SETOWN with a high bit") : 0;
}

static int probe_supervisor(void)
{
    struct rlimit r = {0, 0};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    const struct sched_param param = {.sched_priority = 0};
    const struct { const char *name; long result; } calls[] = {
        {"prlimit, reading", syscall(SYS_prlimit64, supervisor, RLIMIT_CORE, NULL, &r)},
        {"prlimit, writing", syscall(SYS_prlimit64, supervisor, RLIMIT_CORE, &r, NULL)},
        {"sched_setaffinity", sched_setaffinity(supervisor, sizeof one, &one)},
        {"sched_setscheduler", sched_setscheduler(supervisor, SCHED_IDLE, &param)},
        {"setpriority", setpriority(PRIO_PROCESS, (id_t)supervisor, 19)},
        {"ioprio_set", syscall(SYS_ioprio_set, 1, supervisor, 3 << 13)},
        {"setpgid", setpgid(supervisor, 0)},
        {"kcmp", syscall(SYS_kcmp, supervisor, getpid(), 0, 0, 0)},
        {"process_madvise", syscall(SYS_process_madvise, 3, NULL, 0, 20, 0)},
        {"process_mrelease", syscall(SYS_process_mrelease, 3, 0)},
        {"pidfd_getfd", syscall(SYS_pidfd_getfd, 3, 0, 0)},
        {"move_pages", syscall(SYS_move_pages, supervisor, 0, NULL, NULL, NULL, 0)},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].result >= 0)
            return ESCAPED("%s worked on the supervisor", calls[i].name);
    return 0;
}

static int probe_proc_of_others(void)
{
    static const char *const files[] = {"environ", "mem", "maps", "fd/0", "root/etc/passwd", "cwd/.", "auxv", "syscall", "stack", "pagemap", "exe"};
    const pid_t pids[] = {supervisor, getppid(), 1};
    char path[96];
    for (size_t p = 0; p < sizeof pids / sizeof *pids; p++)
        for (size_t i = 0; pids[p] > 0 && pids[p] != getpid() && i < sizeof files / sizeof *files; i++) {
            snprintf(path, sizeof path, "/proc/%d/%s", (int)pids[p], files[i]);
            int fd = open(path, O_RDONLY);
            char byte;
            if (fd >= 0 && pread(fd, &byte, 1, 0x1000) >= 0)
                return ESCAPED("read %s", path);
            if (fd >= 0)
                close(fd);
        }
    return 0;
}

/* ---- sockets ---- */

static int probe_families(void)
{
    for (int family = 0; family < 64; family++)
        for (int type = 1; type <= 10; type++) {
            bool driver = role == SANDBOX_RUN_CUDA && family == AF_UNIX && (type == SOCK_STREAM || type == SOCK_SEQPACKET);
            int fd = socket(family, type, 0);
            if (fd >= 0 && !driver)
                return ESCAPED("a socket of family %d, type %d", family, type);
            close(fd);
        }
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP) >= 0 ? ESCAPED("a TCP socket") : 0;
}

/* A datagram needs no connection: whoever may write to the socket's file may send one. The supervisor looks whether any came. */
static int probe_datagram(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s/datagrams", folder);
    int pair[2] = {-1, -1};
    struct iovec text = {"x", 1};
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &text, .msg_iovlen = 1};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd >= 0 && (sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to) == 1 || sendmsg(fd, &message, 0) == 1))
        return ESCAPED("sent a datagram");
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 &&
        (sendto(pair[0], "x", 1, 0, (struct sockaddr *)&to, sizeof to) == 1 || sendmsg(pair[0], &message, 0) == 1))
        return ESCAPED("sent a datagram from a pair");
    return 0;
}

static int probe_bind(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/bound", folder);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && unlink(at.sun_path) == 0 ? ESCAPED("made a socket in the host's files") : 0;
}

/* ---- processes and calls ---- */

static int probe_clones(void)
{
    bool programs = role == SANDBOX_CC;
    struct { const char *name; unsigned long flags; } kinds[] = {
        {"clone", SIGCHLD},                       {"clone without a signal", 0},
        {"clone, shared memory", CLONE_VM},       {"clone, user namespace", CLONE_NEWUSER | SIGCHLD},
        {"clone, namespaces", CLONE_NEWNS | SIGCHLD}, {"clone, pid namespace", CLONE_NEWPID | SIGCHLD},
        {"clone, parent's child", CLONE_PARENT | SIGCHLD},
    };
    static char stack[65536] __attribute__((aligned(64)));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (programs && !(kinds[i].flags & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)))
            continue;
        long pid = syscall(SYS_clone, kinds[i].flags, kinds[i].flags & CLONE_VM ? stack + sizeof stack : NULL, NULL, NULL, 0);
        if (pid == 0)
            _exit(0);
        if (pid > 0)
            return ESCAPED("%s made a process", kinds[i].name);
    }
    if (!programs) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(0);
        if (pid > 0)
            return ESCAPED("vfork made a process");
    }
    return setsid() >= 0 || setpgid(0, 0) == 0 ? ESCAPED("left its session") : 0;
}

/* Calls that are younger than the filter's list, some of which do what refused ones do. */
static int probe_young(void)
{
    char path[160];
    snprintf(path, sizeof path, "%s/file", folder);
    errno = 0;
    if (syscall(452, AT_FDCWD, path, 0777, 0) == 0)
        return ESCAPED("fchmodat2 changed a file");
    for (int number = 451; number < 600; number++) {
        errno = 0;
        if (number != 453 && (syscall(number, -1, NULL, NULL, NULL, NULL, NULL) != -1 || errno != ENOSYS))
            return ESCAPED("call %d is there: %s", number, strerror(errno));
    }
    return 0;
}

static int probe_calls(void)
{
    char path[160];
    snprintf(path, sizeof path, "%s/file", folder);
    const struct { const char *name; long result; } calls[] = {
        {"utimes", syscall(SYS_utimes, path, NULL)},
        {"utimensat", syscall(SYS_utimensat, AT_FDCWD, path, NULL, 0)},
        {"chmod", chmod(path, 0777)},
        {"chown", chown(path, geteuid(), getegid())},
        {"setxattr", syscall(SYS_setxattr, path, "user.x", "y", 1, 0)},
        {"removexattr", syscall(SYS_removexattr, path, "user.x")},
        {"inotify_init1", syscall(SYS_inotify_init1, 0)},
        {"shmctl", syscall(SYS_shmctl, 0, 14 /* SHM_INFO */, told)},
        {"semctl", syscall(SYS_semctl, 0, 0, 19 /* SEM_INFO */, told)},
        {"msgctl", syscall(SYS_msgctl, 0, 12 /* MSG_INFO */, told)},
        {"mq_open", syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, NULL)},
        {"io_uring_setup", syscall(SYS_io_uring_setup, 1, told)},
        {"userfaultfd", syscall(SYS_userfaultfd, 1)},
        {"bpf", syscall(SYS_bpf, 5, told, 48)},
        {"keyctl", syscall(SYS_keyctl, 0, -5, 0)},
        {"request_key", syscall(SYS_request_key, "user", "x", NULL, 0)},
        {"unshare", unshare(CLONE_NEWNET)},
        {"setns", syscall(SYS_setns, 3, 0)},
        {"open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1)},
        {"fsopen", syscall(SYS_fsopen, "tmpfs", 0)},
        {"pivot_root", syscall(SYS_pivot_root, ".", ".")},
        {"swapon", syscall(SYS_swapon, path, 0)},
        {"syslog", syscall(SYS_syslog, 3, told, 100)},
        {"acct", syscall(SYS_acct, path)},
        {"clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &(struct timespec){0, 0})},
        {"modify_ldt", syscall(SYS_modify_ldt, 1, told, 16)},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].result >= 0)
            return ESCAPED("%s worked", calls[i].name);
    return 0;
}

static int probe_names(void)
{
    char path[160], second[160];
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(second, sizeof second, "%s/theirs", folder);
    if (link(path, second) == 0 || symlink(path, second) == 0 || mkdir(second, 0700) == 0 || mkfifo(second, 0600) == 0)
        return unlink(second), ESCAPED("made a name among the host's files");
    return rename(path, second) == 0 || unlink(path) == 0 || truncate(path, 0) == 0 ? ESCAPED("changed the host's files") : 0;
}

static int probe_other_numbers(void)
{
    syscall(OTHER_NUMBERS | SYS_getpid);
    return ESCAPED("a call by x32's number came back");
}

/* ---- bombs ---- */

static size_t fill(void *p, size_t bytes)
{
    if (!p || p == MAP_FAILED)
        return 0;
    memset(p, 1, bytes);
    return bytes;
}

/* All ways to memory one after the other, until each gives no more: together they may not pass the limit. */
static int probe_memory(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 0;
#endif
    struct rlimit limit;
    getrlimit(role == SANDBOX_RUN_CUDA ? RLIMIT_DATA : RLIMIT_AS, &limit);
    const int private = MAP_PRIVATE | MAP_ANONYMOUS, shared = MAP_SHARED | MAP_ANONYMOUS;
    size_t total = 0, got;
    while ((got = fill(malloc(4 * MIB), 4 * MIB)) && total <= limit.rlim_cur)
        total += got;
    while ((got = fill(mmap(NULL, MIB, PROT_READ | PROT_WRITE, private, -1, 0), MIB)) && total <= limit.rlim_cur)
        total += got;
    while ((got = fill(mmap(NULL, MIB, PROT_READ | PROT_WRITE, private | MAP_NORESERVE, -1, 0), MIB)) && total <= limit.rlim_cur)
        total += got;
    while (sbrk(65536) != (void *)-1 && total <= limit.rlim_cur)
        total += 65536;
    int zero = open("/dev/zero", O_RDWR);
    while (zero >= 0 && (got = fill(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0), MIB)) && total <= limit.rlim_cur)
        total += got;
    /* Shared memory counts as address space, which a driver needs more of than there is memory: see sandbox.h. */
    while (role != SANDBOX_RUN_CUDA && (got = fill(mmap(NULL, MIB, PROT_READ | PROT_WRITE, shared, -1, 0), MIB)) && total <= limit.rlim_cur)
        total += got;
    return total > limit.rlim_cur ? ESCAPED("%zu MiB of %zu", total / MIB, (size_t)limit.rlim_cur / MIB)
           : total < limit.rlim_cur / 4 ? ESCAPED("only %zu MiB: the probe tried nothing", total / MIB) : 0;
}

/* Files that are memory: their size is limited like any file's, and it is nothing. */
static int probe_memory_files(void)
{
    signal(SIGXFSZ, SIG_IGN);
    int fd = memfd_create("x", 0);
    if (fd < 0)
        return 0;
    if (ftruncate(fd, 4096) == 0 || write(fd, "x", 1) == 1 || posix_fallocate(fd, 0, 4096) == 0)
        return ESCAPED("a memfd grows");
    return syscall(SYS_memfd_secret, 0) >= 0 ? ESCAPED("memfd_secret") : 0;
}

static int probe_descriptors(void)
{
    int opened = 0;
    static int pair[2];
    while (opened < 4096 && (dup(0) >= 0 || pipe(pair) == 0))
        opened++;
    if (opened > 64)
        return ESCAPED("%d descriptors", opened);
    /* Through the socket to the supervisor, which asks for none: they are in flight until it reads, and then closed. */
    struct answer nothing = {.probe = -1};
    char room[CMSG_SPACE(16 * sizeof(int))];
    struct iovec text = {&nothing, sizeof nothing};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(16 * sizeof(int));
    for (int i = 0; i < 16; i++)
        memcpy(CMSG_DATA(c) + (size_t)i * sizeof i, &(int){0}, sizeof i);
    int sent = 0;
    while (sent < 8 && sendmsg(3, &message, MSG_DONTWAIT) == 1)
        sent++;
    return 0;
}

/* Many files and not a large one: the private /tmp is as large as it is; without one nothing but a single file's size is limited. */
static int probe_disk(void)
{
    if (role != SANDBOX_CC)
        return 0;
    static char block[65536];
    size_t total = 0;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 2000; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%d", sandbox_scratch(), i);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        for (int k = 0; fd >= 0 && k < 4 && write(fd, block, sizeof block) == sizeof block; k++)
            total += sizeof block;
        close(fd);
        if (total > 4 * MIB)
            return ESCAPED("%zu MiB in %d files", total / MIB, i);
    }
    return 0;
}

/* What the job leaves in its folder must be gone afterwards, whatever it is. The supervisor looks. */
static int probe_litter(void)
{
    if (role != SANDBOX_CC)
        return 0;
    char path[160], inside[200], outside[160];
    snprintf(path, sizeof path, "%s/a", sandbox_scratch());
    snprintf(outside, sizeof outside, "%s/file", folder);
    for (int i = 0; i < 3; i++) {
        (void)!mkdir(path, 0700);
        snprintf(inside, sizeof inside, "%s/link", path);
        (void)!symlink(outside, inside);
        snprintf(inside, sizeof inside, "%s/file", path);
        close(open(inside, O_CREAT | O_WRONLY, 0));
        strncat(path, "/a", sizeof path - strlen(path) - 1);
    }
    snprintf(path, sizeof path, "%s/fifo", sandbox_scratch());
    (void)!mkfifo(path, 0600);
    return 0;
}

/* Processes that outlive the job: children of children in sessions of their own. The supervisor sees whether its pipe is still held. */
static int probe_daemon(void)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        return 0;
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            (void)!setsid();
            if (fork() == 0) {
                (void)!setpgid(0, 0);
                signal(SIGTERM, SIG_IGN), signal(SIGHUP, SIG_IGN);
                alarm(6);                  /* where nothing holds it, it still must not stay */
                (void)!write(ready[1], "r", 1), close(ready[1]);
                for (;;)
                    pause();
            }
            _exit(0);
        }
    /* Until all are as far from here as they can get, or could not be made. */
    close(ready[1]);
    while (read(ready[0], &byte, 1) == 1)
        continue;
    return 0;
}

static int probe_core(void)
{
    struct rlimit r, more = {2, 2};
    getrlimit(RLIMIT_CORE, &r);
    return r.rlim_max != 1 || setrlimit(RLIMIT_CORE, &more) == 0 ? ESCAPED("cores of %zu bytes", (size_t)r.rlim_max) : 0;
}

static int probe_place(void)
{
    char where[200] = "";
    return !getcwd(where, sizeof where) || strcmp(where, "/") != 0 ? ESCAPED("it stands in %s", where) : 0;
}

static int probe_look(void)
{
    static const char *const seen[] = {"/etc/passwd", "/root", "/home", "/usr/bin/env", "/tmp", "/var", "/proc/1", "/sys/class", "/dev/tty", "/dev/shm"};
    struct stat st;
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        bool own = role == SANDBOX_CC && strcmp(seen[i], "/tmp") == 0;
        bool driver = role == SANDBOX_RUN_CUDA && (strncmp(seen[i], "/proc", 5) == 0 || strncmp(seen[i], "/sys", 4) == 0);
        if (!own && !driver && stat(seen[i], &st) == 0)
            return ESCAPED("%s is there", seen[i]);
    }
    return 0;
}

/* held_by: any of these layers holds it, 0: it holds everywhere. alone: it ends the child or fills it up. */
#define S SANDBOX_SECCOMP
#define L SANDBOX_LANDLOCK
#define N SANDBOX_NAMESPACES
static const struct probe { const char *name; int (*run)(void); unsigned held_by; bool alone; int signal; } probes[] = {
    {"signals", probe_signals, S | N, false, 0},
    {"owner", probe_owner, S | N, true, 0},
    {"supervisor", probe_supervisor, S | N, false, 0},
    {"proc of others", probe_proc_of_others, L | N, false, 0},
    {"families", probe_families, S, false, 0},
    {"datagram", probe_datagram, S | N, false, 0},
    {"bind", probe_bind, N | L, false, 0},
    {"clones", probe_clones, S, false, 0},
    {"young", probe_young, S, false, 0},
    {"calls", probe_calls, S, false, 0},
    {"names", probe_names, L | N, false, 0},
    {"memory files", probe_memory_files, S, false, 0},
    {"core", probe_core, 0, false, 0},
    {"place", probe_place, 0, false, 0},
    {"look", probe_look, N, false, 0},
    {"descriptors", probe_descriptors, 0, true, 0},
    {"memory", probe_memory, 0, true, 0},
    {"disk", probe_disk, N, true, 0},
    {"litter", probe_litter, 0, true, 0},
    {"daemon", probe_daemon, S | N, true, 0},
    {"other numbers", probe_other_numbers, S, true, SIGSYS},
};
#undef S
#undef L
#undef N
#define PROBES (sizeof probes / sizeof *probes)

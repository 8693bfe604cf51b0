/*
 * The sandbox from both sides: the supervisor spawns this program as a child, the child locks itself down and then tries to get
 * out in every way that the table of probes knows. Each probe runs at each level that this host allows; a probe says what it
 * could do, and the supervisor knows what it may.
 */
#include "core/clock.h"
#include "gpu/sandbox/sandbox.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- probes: 0 = held, 1 = escaped; the text says how ---- */

static char told[512];
#define ESCAPED(...) (snprintf(told, sizeof told, __VA_ARGS__), 1)
static const char *argument = "";

static int probe_passwd(void)
{
    static const char *const files[] = {"/etc/passwd", "/etc/shadow",     "/root",         "/home",
                                        "/var/lib",    "/proc/1/environ", "/etc/hostname", "/usr/bin"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (open(files[i], O_RDONLY) >= 0)
            return ESCAPED("opened %s", files[i]);
    return 0;
}

static int probe_secret(void)
{
    return open(argument, O_RDONLY) >= 0 ? ESCAPED("opened %s", argument) : 0;
}

static int probe_listed(void)
{
    char text[16] = "";
    int fd = open(argument, O_RDONLY);
    if (fd < 0 || read(fd, text, 5) != 5 || strcmp(text, "hello") != 0)
        return ESCAPED("the listed file cannot be read: %s", strerror(errno));
    if (open(argument, O_RDWR) >= 0 || open(argument, O_WRONLY | O_TRUNC) >= 0)
        return ESCAPED("the listed file can be written");
    if (chmod(argument, 0777) == 0 || unlink(argument) == 0)
        return ESCAPED("the listed file can be changed");
    return 0;
}

static int probe_write(void)
{
    static const char *const files[] = {"/x",     "/tmp/x", "/var/tmp/x", "/dev/x", "/dev/shm/x",
                                        "/run/x", "x",      "/etc/x",     "/usr/x"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (open(files[i], O_CREAT | O_WRONLY, 0600) >= 0)
            return ESCAPED("made %s", files[i]);
    return mkdir("/made", 0700) == 0 ? ESCAPED("made a folder") : 0;
}

static int probe_private_tmp(void)
{
    int fd = open("/tmp/proteus-private-x", O_CREAT | O_RDWR, 0600);
    if (fd < 0)
        return ESCAPED("no private /tmp: %s", strerror(errno));
    static char block[65536];
    signal(SIGXFSZ, SIG_IGN);
    size_t total = 0;
    for (int i = 0; i < 64 && write(fd, block, sizeof block) == sizeof block; i++)
        total += sizeof block;
    unlink("/tmp/proteus-private-x");
    return total > (size_t)1 << 20 ? ESCAPED("wrote %zu bytes", total) : 0;
}

static int probe_connect(void)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argument)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&in, sizeof in) == 0)
        return ESCAPED("connected to loopback");
    static const int families[] = {AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (socket(families[i], SOCK_DGRAM, 0) >= 0 || socket(families[i], SOCK_RAW, 0) >= 0)
            return ESCAPED("made a socket of family %d", families[i]);
    return 0;
}

static int probe_unix(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof un.sun_path, "%s", argument);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof un) == 0 ? ESCAPED("connected to a Unix socket") : 0;
}

static int probe_proc(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    int pids = 0;
    while (dir && (e = readdir(dir)))
        pids += e->d_name[0] >= '1' && e->d_name[0] <= '9';
    if (pids > 2)
        return ESCAPED("saw %d processes", pids);
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/cmdline", argument);
    return open(path, O_RDONLY) >= 0 && atoi(argument) > 2 ? ESCAPED("opened %s", path) : 0;
}

static int probe_signal(void)
{
    pid_t supervisor = atoi(argument);
    for (pid_t p = 3; p < 40000; p++)
        if (p != getpid() && kill(p, 0) == 0)
            return ESCAPED("could signal process %d (the supervisor is %d)", p, supervisor);
    return kill(supervisor, 0) == 0 && supervisor != getpid() && supervisor > 2 ? ESCAPED("could signal the supervisor")
                                                                                : 0;
}

/* Rows of calls that must fail; those that kill have a probe of their own. */
static int probe_calls(void)
{
    struct { const char *name; long result; } calls[] = {
        {"unshare(NEWUSER)", unshare(CLONE_NEWUSER)},
        {"unshare(NEWNS)", unshare(CLONE_NEWNS)},
        {"mount", mount("tmpfs", "/", "tmpfs", 0, NULL)},
        {"umount", umount2("/dev/null", MNT_DETACH)},
        {"chroot", chroot("/dev")},
        {"bpf", syscall(SYS_bpf, 0, NULL, 0)},
        {"perf_event_open", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)},
        {"userfaultfd", syscall(SYS_userfaultfd, 0)},
        {"io_uring_setup", syscall(SYS_io_uring_setup, 1, NULL)},
        {"keyctl", syscall(SYS_keyctl, 0, -3, 1)},
        {"add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3)},
        {"setns", setns(3, 0)},
        {"name_to_handle_at", syscall(SYS_name_to_handle_at, AT_FDCWD, "/", NULL, NULL, 0)},
        {"open_by_handle_at", syscall(SYS_open_by_handle_at, 3, NULL, 0)},
        {"personality", syscall(SYS_personality, 0x0040000)},
        {"memfd_create", memfd_create("x", 0)},
        {"shmget", syscall(SYS_shmget, 0, 4096, 0600 | 01000)},
        {"pidfd_open", syscall(SYS_pidfd_open, getpid(), 0)},
        {"sethostname", sethostname("x", 1)},
        {"clone3", syscall(SYS_clone3, NULL, 0)},
        {"vmsplice", syscall(SYS_vmsplice, 1, NULL, 0, 0)},
        {"setuid", setuid(0)},
        {"setgid", setgid(0)},
        {"mknod", mknod("/dev/mem2", S_IFCHR | 0600, 0x101)},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].result >= 0)
            return ESCAPED("%s worked", calls[i].name);
    return geteuid() == 0 ? ESCAPED("still root") : 0;
}

static int probe_exec(void)
{
    char *const argv[] = {"sh", "-c", "echo escaped", NULL}, *const env[] = {NULL};
    static const char *const programs[] = {"/bin/sh", "/usr/bin/id", "/proc/self/exe"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        execve(programs[i], argv, env);
    int self = open("/proc/self/exe", O_RDONLY);
    if (self >= 0)
        fexecve(self, argv, env);
    return errno == 0 ? ESCAPED("exec") : 0;
}

static int probe_environment(void)
{
    extern char **environ;
    int count = 0;
    for (char **e = environ; *e; e++)
        count++;
    if (getenv("PROTEUS_TEST_SECRET") || getenv("PATH") || getenv("HOME"))
        return ESCAPED("saw the supervisor's environment");
    int given = getenv("ASAN_OPTIONS") ? 2 : 1;
    return count != given || !getenv("GIVEN")
               ? ESCAPED("%d variables, GIVEN is %s", count, getenv("GIVEN") ? "there" : "missing")
               : 0;
}

static int probe_descriptors(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        struct stat st;
        fstat(fd, &st);
        bool expected = fd == 3   ? S_ISSOCK(st.st_mode)
                        : fd == 0 ? S_ISCHR(st.st_mode)
                        : fd <= 2 ? S_ISFIFO(st.st_mode)
                                  : false;
        if (!expected)
            return ESCAPED("descriptor %d is open (mode %o)", fd, st.st_mode);
    }
    return 0;
}

static int probe_fork(void)
{
    int made = 0;
    for (int i = 0; i < 200; i++) {
        pid_t p = fork();
        if (p == 0)
            for (;;)
                pause();
        made += p > 0;
    }
    return made ? ESCAPED("made %d processes", made) : 0;
}

/* For the role that may start programs: some processes, no flood; a folder to write in, nothing to run from it. */
static int probe_few_forks(void)
{
    int made = 0;
    for (int i = 0; i < 200; i++) {
        pid_t p = fork();
        if (p == 0)
            for (;;)
                pause();
        made += p > 0;
    }
    return made < 2 || made > 64 ? ESCAPED("made %d processes", made) : 0;
}

static int probe_scratch(void)
{
    static const char script[] = "#!/bin/sh\n";
    char path[128], *const argv[] = {path, NULL}, *const env[] = {NULL};
    snprintf(path, sizeof path, "%s/file", sandbox_scratch());
    int fd = open(path, O_CREAT | O_WRONLY, 0700);
    if (fd < 0 || write(fd, script, sizeof script - 1) < 0 || close(fd) != 0)
        return ESCAPED("nothing can be written in %s: %s", path, strerror(errno));
    execve(path, argv, env);
    int why = errno;
    return why == EACCES || why == EPERM ? 0 : ESCAPED("running what was written failed for another reason: %s", strerror(why));
}

static void *sleep_on(void *p)
{
    for (;;)
        pause();
    return p;
}

/* A few threads must work (compilers and drivers have them), a flood must not. */
static int probe_threads(void)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    int made = 0;
    pthread_t t;
    while (made < 500 && pthread_create(&t, &attr, sleep_on, NULL) == 0)
        made++;
    return made < 4 || made > 64 ? ESCAPED("made %d threads", made) : 0;
}

static int probe_memory(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 0;
#endif
    size_t total = 0;
    for (int i = 0; i < 4096; i++) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            break;
        memset(p, 1, 1 << 20);
        total += 1 << 20;
    }
    return total > (size_t)200 << 20 ? ESCAPED("got %zu MiB", total >> 20) : 0;
}

static int probe_limits(void)
{
    static const struct { __rlimit_resource_t resource; const char *name;
    } table[] = {{RLIMIT_CORE, "core"},
                 {RLIMIT_NOFILE, "nofile"},
                 {RLIMIT_FSIZE, "fsize"},
                 {RLIMIT_CPU, "cpu"},
                 {RLIMIT_MEMLOCK, "memlock"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct rlimit r, more;
        getrlimit(table[i].resource, &r);
        more = (struct rlimit){r.rlim_max + 1000, r.rlim_max + 1000};
        if (r.rlim_max == RLIM_INFINITY || setrlimit(table[i].resource, &more) == 0)
            return ESCAPED("limit %s can be raised", table[i].name);
    }
    return 0;
}

static int probe_ptrace(void)
{
    ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
    return ESCAPED("ptrace came back");
}

static int probe_read_parent(void)
{
    char byte;
    struct iovec own = {&byte, 1}, other = {(void *)probe_ptrace, 1};
    long n = process_vm_readv(getppid() ? getppid() : 1, &own, 1, &other, 1, 0);
    return ESCAPED("process_vm_readv came back with %ld", n);
}

static int probe_library(void)
{
    void *h = dlopen("libm.so.6", RTLD_NOW);
    return h && dlsym(h, "cos") ? 0 : ESCAPED("the C library's own files are gone: %s", dlerror());
}

/* What a driver needs and what it must not get, for the role with devices; /dev/full stands for a card. */
static int probe_driver(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)gettid());
    int comm = open(path, O_WRONLY);
    if (comm < 0 || write(comm, "worker", 6) != 6)
        return ESCAPED("threads cannot be named: %s", strerror(errno));
    if (open("/dev/full", O_RDWR) < 0 || open("/sys/devices/system/cpu/online", O_RDONLY) < 0 ||
        open("/proc/cpuinfo", O_RDONLY) < 0)
        return ESCAPED("the card, /sys or /proc is not there: %s", strerror(errno));
    if (memfd_create("x", 0) < 0 || socket(AF_UNIX, SOCK_STREAM, 0) < 0)
        return ESCAPED("no memfd or no Unix socket: %s", strerror(errno));
    void *far = mmap(NULL, (size_t)100 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (far == MAP_FAILED)
        return ESCAPED("100 GiB of addresses cannot be reserved");
    static const char *const forbidden[] = {"/dev/tty", "/dev/ptmx",   "/dev/kmsg", "/dev/mem",
                                            "/dev/shm", "/proc/kcore", "/proc/kmsg"};
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (open(forbidden[i], O_RDONLY) >= 0)
            return ESCAPED("opened %s", forbidden[i]);
    static const char *const read_only[] = {"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/power/state",
                                            "/sys/kernel/mm/transparent_hugepage/enabled"};
    for (size_t i = 0; i < sizeof read_only / sizeof *read_only; i++)
        if (open(read_only[i], O_WRONLY) >= 0)
            return ESCAPED("opened %s for writing", read_only[i]);
    return socket(AF_INET, SOCK_STREAM, 0) >= 0 ? ESCAPED("made an Internet socket") : 0;
}

/* expected: 0 = it must answer "held"; a signal = that one must end it. least: layers without which it may escape. */
static const struct probe {
    const char *name;
    int (*run)(void);
    int signal;
    unsigned least;
} probes[] = {
    {"passwd", probe_passwd, 0, SANDBOX_NAMESPACES | SANDBOX_LANDLOCK},
    {"secret", probe_secret, 0, SANDBOX_NAMESPACES | SANDBOX_LANDLOCK},
    {"listed", probe_listed, 0, SANDBOX_NAMESPACES | SANDBOX_LANDLOCK},
    {"write", probe_write, 0, SANDBOX_NAMESPACES | SANDBOX_LANDLOCK},
    {"private_tmp", probe_private_tmp, 0, SANDBOX_NAMESPACES},
    {"connect", probe_connect, 0, SANDBOX_SECCOMP},
    {"unix", probe_unix, 0, SANDBOX_SECCOMP | SANDBOX_NAMESPACES},
    {"proc", probe_proc, 0, SANDBOX_NAMESPACES | SANDBOX_LANDLOCK},
    {"signal", probe_signal, 0, SANDBOX_NAMESPACES | SANDBOX_SECCOMP},
    {"calls", probe_calls, 0, SANDBOX_SECCOMP},
    {"exec", probe_exec, 0, SANDBOX_SECCOMP},
    {"environment", probe_environment, 0, 0},
    {"descriptors", probe_descriptors, 0, 0},
    {"fork", probe_fork, 0, SANDBOX_SECCOMP},
    {"threads", probe_threads, 0, 0},
    {"memory", probe_memory, 0, 0},
    {"limits", probe_limits, 0, 0},
    {"library", probe_library, 0, 0},
    {"driver", probe_driver, 0, 0},
    {"few_forks", probe_few_forks, 0, 0},
    {"scratch", probe_scratch, 0, SANDBOX_NAMESPACES | SANDBOX_LANDLOCK},
    {"ptrace", probe_ptrace, SIGSYS, SANDBOX_SECCOMP},
    {"read_parent", probe_read_parent, SIGSYS, SANDBOX_SECCOMP},
};
#define PROBES (sizeof probes / sizeof *probes)

/* ---- ways to end, for the witness tests ---- */

static void end_exit(void) { exit(7); }
static void end_abort(void) { signal(SIGABRT, SIG_DFL); abort(); }
static void end_segv(void)
{
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(volatile char *)page = 1;
}
static void end_spin(void) { for (volatile int i = 0;; i++) ; }
static void end_sleep(void) { signal(SIGTERM, SIG_IGN); for (;;) pause(); }
static void end_flood(void) { for (int i = 0; i < 200000; i++) fprintf(stderr, "line %d \xff\xfe\x01\n", i); exit(3); }
static const struct { const char *name; void (*run)(void);
} ends[] = {{"exit", end_exit}, {"abort", end_abort}, {"segv", end_segv},
            {"spin", end_spin}, {"sleep", end_sleep}, {"flood", end_flood}};

/* The child: enter, tell the layers, read "what argument", do it, tell the answer. */
static int be_child(int argc, char **argv)
{
    enum sandbox_role role;
    unsigned layers;
    struct err err = {0};
    if (!sandbox_enter(argc, argv, &role, &layers, &err)) {
        fprintf(stderr, "enter: %s\n", err.text);
        return 1;
    }
    unsigned hello[2] = {layers, (unsigned)role};
    static char order[256];
    if (write(3, hello, sizeof hello) != sizeof hello || read(3, order, sizeof order - 1) <= 0)
        return 2;
    char *space = strchr(order, ' ');
    if (space) {
        *space = 0;
        argument = space + 1;
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(ends[i].name, order) == 0)
            ends[i].run();
    for (size_t i = 0; i < PROBES; i++)
        if (strcmp(probes[i].name, order) == 0) {
            errno = EPERM;
            int result = probes[i].run();
            char answer[600];
            int n = snprintf(answer, sizeof answer, "%d %s", result, told);
            return write(3, answer, (size_t)n + 1) == n + 1 ? 0 : 3;
        }
    return 4;
}

/* ---- the supervisor ---- */

static const struct sandbox_limits limits = {
    .cpu_seconds = 5, .memory_bytes = (int64_t)128 << 20, .file_bytes = 0, .open_files = 64, .processes = 48};

struct talk { struct sandbox_child child; unsigned layers, role; };

static bool start(enum sandbox_role role, const struct sandbox_limits *l, const struct sandbox_paths *paths,
                  struct talk *t)
{
#ifdef __SANITIZE_ADDRESS__
    static const char *const env[] = {"GIVEN=1", "ASAN_OPTIONS=detect_leaks=0", NULL};
#else
    static const char *const env[] = {"GIVEN=1", NULL};
#endif
    struct err err = {0};
    unsigned hello[2] = {0};
    bool ok =
        sandbox_spawn(role, l, paths, env, &t->child, &err) && fd_read_all(t->child.fd, hello, sizeof hello, &err);
    check(ok);
    if (!ok)
        fprintf(stderr, "start: %s; %s\n", err.text, t->child.pid ? sandbox_stderr(&t->child) : "");
    t->layers = hello[0];
    t->role = hello[1];
    return ok;
}

static void say(struct talk *t, const char *text)
{
    check(write(t->child.fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static struct sandbox_status finish(struct talk *t, int64_t ns)
{
    struct sandbox_status status;
    sandbox_wait(&t->child, clock_mono_ns() + ns, &status);
    return status;
}

static char folder[64], listed[128], secret[128], socket_path[128];
static int port;

static void run_probe(const struct probe *p, enum sandbox_role role, unsigned without, unsigned have)
{
    const char *const read_only[] = {listed, NULL};
    struct sandbox_limits l = limits;
    if (p->run == probe_private_tmp || role == SANDBOX_CC)
        l.file_bytes = 1 << 20;
    struct talk t = {0};
    sandbox_without(without);
    static const char *const devices[] = {"/dev/full", NULL};
    bool card = role == SANDBOX_RUN_CUDA;
    if (!start(role, &l, &(struct sandbox_paths){read_only, card ? devices : NULL}, &t))
        return;
    check_int(t.role, role);
    check_int(t.layers, have & ~without);
    char order[256], answer[600] = "";
    const char *arg = p->run == probe_listed   ? listed
                      : p->run == probe_secret ? secret
                      : p->run == probe_unix   ? socket_path
                                               : "";
    if (p->run == probe_connect)
        snprintf(order, sizeof order, "%s %d", p->name, port);
    else if (arg[0])
        snprintf(order, sizeof order, "%s %s", p->name, arg);
    else
        snprintf(order, sizeof order, "%s %d", p->name, (int)getpid());
    say(&t, order);
    ssize_t n = read(t.child.fd, answer, sizeof answer - 1);
    struct sandbox_status s = finish(&t, 10000000000);
    bool held = p->signal ? s.end == SANDBOX_SIGNALLED && s.code == p->signal
                          : n > 0 && answer[0] == '0' && s.end == SANDBOX_EXITED && s.code == 0;
    bool may_escape = !(p->least == 0 || (p->least & (have & ~without)) != 0);
    if (!held && !may_escape)
        fprintf(stderr, "role %s without %u: %s: end %d code %d answer \"%s\" stderr \"%s\"\n", sandbox_role_name(role),
                without, p->name, s.end, s.code, answer, sandbox_stderr(&t.child));
    check(held || may_escape);
    check(!t.child.scratch[0] || access(t.child.scratch, F_OK) != 0);
    buf_done(&t.child.stderr_tail);
}

static void test_probes(unsigned have)
{
    static const unsigned levels[] = {0, SANDBOX_NAMESPACES, SANDBOX_LANDLOCK, SANDBOX_NAMESPACES | SANDBOX_LANDLOCK,
                                      SANDBOX_SECCOMP};
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++)
        for (size_t i = 0; i < PROBES; i++)
            if (probes[i].run != probe_driver && probes[i].run != probe_few_forks && probes[i].run != probe_scratch)
                run_probe(&probes[i], SANDBOX_COMPILE, levels[l], have);
    /* The other roles without devices have the compile role's profile: a few probes tell that they do. */
    for (enum sandbox_role r = SANDBOX_REFERENCE; r <= SANDBOX_RUN_CUDA; r++)
        for (size_t i = 0; i < (r == SANDBOX_RUN_CUDA ? PROBES : 4); i++) {
            bool card = r == SANDBOX_RUN_CUDA, for_card = probes[i].run == probe_driver,
                 not_for_card = probes[i].run == probe_calls || probes[i].run == probe_unix || probes[i].run == probe_few_forks ||
                                probes[i].run == probe_scratch;
            if (card ? !not_for_card : !for_card)
                run_probe(&probes[i], r, 0, have);
        }
    /* A compiler that is several programs: all but what it is for is held as everywhere. */
    for (size_t l = 0; l < 2; l++)
        for (size_t i = 0; i < PROBES; i++)
            if (probes[i].run != probe_driver && probes[i].run != probe_exec && probes[i].run != probe_fork && probes[i].run != probe_private_tmp)
                run_probe(&probes[i], SANDBOX_CC, levels[l], have);
    sandbox_without(0);
}

static void test_ends(unsigned without)
{
    sandbox_without(without);
    static const struct { const char *order; enum sandbox_end end; int code; bool timed_out;
    } table[] = {
        {"exit", SANDBOX_EXITED, 7, false},          {"abort", SANDBOX_SIGNALLED, SIGABRT, false},
        {"segv", SANDBOX_SIGNALLED, SIGSEGV, false}, {"sleep", SANDBOX_KILLED_BY_US, SIGKILL, true},
        {"flood", SANDBOX_EXITED, 3, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct talk t = {0};
#ifdef __SANITIZE_ADDRESS__
        if (table[i].code == SIGSEGV)      /* the sanitizer makes an exit of it */
            continue;
#endif
        if (!start(SANDBOX_RUN_SIM, &limits, NULL, &t))
            continue;
        pid_t pid = t.child.pid;
        say(&t, table[i].order);
        struct sandbox_status s = finish(&t, table[i].timed_out ? 200000000 : 10000000000);
        check_int(s.end, table[i].end);
        check_int(s.code, table[i].code);
        check_int(s.timed_out, table[i].timed_out);
        check(s.wall_ns > 0 && s.wall_ns < 5000000000 && s.peak_rss_bytes > 100000);
        check(kill(pid, 0) != 0 && errno == ESRCH);
        if (strcmp(table[i].order, "flood") == 0) {
            const char *text = sandbox_stderr(&t.child);
            check(strlen(text) > 1000 && strlen(text) <= 65536 && utf8_valid(text, strlen(text)));
        }
        buf_done(&t.child.stderr_tail);
    }
    /* Processor time is limited by the kernel, not by our clock. */
    struct sandbox_limits one = limits;
    one.cpu_seconds = 1;
    struct talk t = {0};
    if (start(SANDBOX_RUN_SIM, &one, NULL, &t)) {
        say(&t, "spin");
        struct sandbox_status s = finish(&t, 20000000000);
        check(s.end == SANDBOX_SIGNALLED && (s.code == SIGXCPU || s.code == SIGKILL));
        check(s.cpu_ns > 800000000 && s.wall_ns < 30000000000);
        buf_done(&t.child.stderr_tail);
    }
    /* Stopping one that ignores SIGTERM, one that does not, and one that is gone. */
    static const char *const orders[] = {"sleep", NULL, "exit"};
    for (size_t i = 0; i < 3; i++) {
        struct talk s = {0};
        struct sandbox_status status;
        if (!start(SANDBOX_COMPILE, &limits, NULL, &s))
            continue;
        if (orders[i])
            say(&s, orders[i]);
        clock_sleep_ns(30000000);
        int64_t from = clock_mono_ns();
        sandbox_stop(&s.child, 50000000, &status);
        check(clock_mono_ns() - from < 2000000000);
        check_int(status.end, i == 2 ? SANDBOX_EXITED : SANDBOX_KILLED_BY_US);
        buf_done(&s.child.stderr_tail);
    }
    sandbox_without(0);
}

/* A child whose supervisor is killed goes with it, and all of its processes do. */
static void test_orphans(unsigned without)
{
    int back[2];
    check(pipe(back) == 0);
    pid_t middle = fork();
    if (middle == 0) {
        struct talk t = {0};
        sandbox_without(without);
        if (!start(SANDBOX_RUN_SIM, &limits, NULL, &t))
            _exit(1);
        say(&t, "sleep");
        clock_sleep_ns(30000000);
        if (write(back[1], &t.child.pid, sizeof t.child.pid) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    close(back[1]);
    pid_t child = 0;
    check(read(back[0], &child, sizeof child) == sizeof child && child > 0);
    kill(middle, SIGKILL);
    waitpid(middle, NULL, 0);
    /* Whoever holds the other end of the child's stderr is alive; here: look for its session in /proc. */
    bool gone = false;
    for (int i = 0; i < 100 && !gone; i++) {
        clock_sleep_ns(20000000);
        gone = true;
        DIR *dir = opendir("/proc");
        struct dirent *e;
        while (dir && (e = readdir(dir))) {
            char path[300], text[512] = "";
            snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
            FILE *f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
            if (f && fgets(text, sizeof text, f)) {
                int pgrp = 0;
                char state = 0, *end = strrchr(text, ')');
                if (end && sscanf(end + 1, " %c %*d %d", &state, &pgrp) == 2 && pgrp == child && state != 'Z')
                    gone = false;
            }
            if (f)
                fclose(f);
        }
        if (dir)
            closedir(dir);
    }
    check(gone);
    close(back[0]);
}

static void test_bad_orders(void)
{
    struct sandbox_child c = {0};
    struct err err = {0};
    const char *const relative[] = {"etc/passwd", NULL};
    check(!sandbox_spawn(SANDBOX_COMPILE, &limits, &(struct sandbox_paths){relative, NULL}, NULL, &c, &err));
    check_int(err.code, ERR_INVALID);
    /* A path that is not there is our mistake, and loud: the child ends and says so. */
    const char *const missing[] = {"/nonexistent/file", NULL};
    check(sandbox_spawn(SANDBOX_COMPILE, &limits, &(struct sandbox_paths){missing, NULL}, NULL, &c, &err));
    struct sandbox_status s;
    sandbox_wait(&c, clock_mono_ns() + 5000000000, &s);
    check(s.end == SANDBOX_EXITED && s.code != 0);
    check(strstr(sandbox_stderr(&c), "/nonexistent/file") != NULL);
    buf_done(&c.stderr_tail);
    enum sandbox_role role;
    check(sandbox_role_parse("run_cuda", &role) && role == SANDBOX_RUN_CUDA && !sandbox_role_parse("probe", &role));
    check_str(sandbox_level(0), "none");
    check_str(sandbox_level(SANDBOX_LIMITS), "limits");
    check_str(sandbox_level(SANDBOX_LIMITS | SANDBOX_SECCOMP | SANDBOX_LANDLOCK), "filtered");
    check_str(sandbox_level(15), "isolated");
}

static void measure(void)
{
    enum { RUNS = 21 };
    int64_t ns[RUNS];
    for (int i = 0; i < RUNS; i++) {
        struct talk t = {0};
        int64_t from = clock_mono_ns();
        if (!start(SANDBOX_COMPILE, &limits, NULL, &t))
            return;
        ns[i] = clock_mono_ns() - from;
        say(&t, "exit");
        finish(&t, 5000000000);
        buf_done(&t.child.stderr_tail);
        for (int k = i; k > 0 && ns[k] < ns[k - 1]; k--) {
            int64_t swap = ns[k];
            ns[k] = ns[k - 1];
            ns[k - 1] = swap;
        }
    }
    printf("spawn to hello: median %.2f ms, least %.2f, most %.2f\n", (double)ns[RUNS / 2] / 1e6, (double)ns[0] / 1e6,
           (double)ns[RUNS - 1] / 1e6);
}

static void make_surroundings(void)
{
    snprintf(folder, sizeof folder, "/tmp/test_sandbox_%d", (int)getpid());
    snprintf(listed, sizeof listed, "%s/listed", folder);
    snprintf(secret, sizeof secret, "%s/secret", folder);
    snprintf(socket_path, sizeof socket_path, "%s/socket", folder);
    struct err err;
    check(mkdir(folder, 0755) == 0 && file_write(listed, "hello", 5, 0644, &err) &&
          file_write(secret, "secret", 6, 0644, &err));
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    int tcp = socket(AF_INET, SOCK_STREAM, 0), un = socket(AF_UNIX, SOCK_STREAM, 0);
    check(bind(tcp, (struct sockaddr *)&in, sizeof in) == 0 && listen(tcp, 4) == 0 &&
          getsockname(tcp, (struct sockaddr *)&in, &size) == 0);
    port = ntohs(in.sin_port);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", socket_path);
    check(bind(un, (struct sockaddr *)&name, sizeof name) == 0 && listen(un, 4) == 0 && chmod(socket_path, 0777) == 0);
    setenv("PROTEUS_TEST_SECRET", "1", 1);
    /* Descriptors that a child must not get: some with, some without close-on-exec. */
    for (int i = 0; i < 5; i++)
        check(open("/etc/passwd", O_RDONLY) >= 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return be_child(argc, argv);
    make_surroundings();
    unsigned have = 0;
    struct err err = {0};
    check(sandbox_probe(&have, &err));
    have &= ~(unsigned)SANDBOX_CGROUP;      /* a child knows nothing of its group */
    printf("this host: level %s, layers%s%s%s%s%s\n", sandbox_level(have), have & SANDBOX_LIMITS ? " limits" : "",
           have & SANDBOX_SECCOMP ? " seccomp" : "", have & SANDBOX_LANDLOCK ? " landlock" : "",
           have & SANDBOX_NAMESPACES ? " namespaces" : "", err.text);
    fflush(stdout);
    check(have & SANDBOX_LIMITS && have & SANDBOX_SECCOMP);
    test_bad_orders();
    test_probes(have);
    test_ends(0);
    test_ends(SANDBOX_NAMESPACES);
    test_orphans(0);
    test_orphans(SANDBOX_NAMESPACES);
    measure();
    unlink(listed), unlink(secret), unlink(socket_path), rmdir(folder);
    return test_done();
}

/*
 * The child's side: lock_down() is the security argument, read it from top to bottom.
 *
 * Where namespaces are allowed three processes come of one: the exec'd one stays outside, waits, and ends as the job ended
 * ("porter"); an empty process is pid 1 of the new pid namespace, so that the job is an ordinary process to which signals mean
 * what they always mean; and the job. Each dies with the one before it, and pid 1's death ends whatever the job left behind.
 * The porter tries the empty root in the job's own mount namespace; where that fails it starts the job again without.
 */
#include "gpu/sandbox/inside.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#define NOBODY 65534
#define UID_BASE 0x70000000u          /* one user a child, so that limits by user count one child alone */
#define FAILED_EXIT 125
#define CUDA_ADDRESS_SPACE ((rlim_t)256 << 30)
#define STACK_BYTES ((rlim_t)16 << 20)

/* ---- the order, from the command line ---- */

static bool parse_order(int argc, char **argv, struct sandbox_order *o, struct err *err)
{
    *o = (struct sandbox_order){0};
    if (argc < 4 || strcmp(argv[1], "child") != 0)
        return err_set(err, ERR_INVALID, "this program was not started as a child");
    o->probe = strcmp(argv[2], SANDBOX_PROBE) == 0;
    if (!o->probe && !sandbox_role_parse(argv[2], &o->role))
        return err_set(err, ERR_INVALID, "no role \"%.40s\"", argv[2]);
    for (int i = 3; i < argc; i++) {
        long long cpu, memory, file;
        int parent;
        if (sscanf(argv[i], "limits=%lld,%lld,%lld,%d,%d", &cpu, &memory, &file, &o->limits.open_files,
                   &o->limits.processes) == 5) {
            o->limits.cpu_seconds = cpu, o->limits.memory_bytes = memory, o->limits.file_bytes = file;
        } else if (sscanf(argv[i], "parent=%d", &parent) == 1) {
            o->parent = parent;
        } else if (sscanf(argv[i], "without=%u", &o->without) == 1) {
            continue;
        } else if (strncmp(argv[i], "scratch=" SANDBOX_SCRATCH, 8 + sizeof SANDBOX_SCRATCH - 1) == 0) {
            o->scratch = argv[i] + 8;
        } else if (strncmp(argv[i], "ro=", 3) == 0 && o->read_only_count < SANDBOX_MAX_PATHS) {
            o->read_only[o->read_only_count++] = argv[i] + 3;
        } else if (strncmp(argv[i], "dev=", 4) == 0 && o->device_count < SANDBOX_MAX_PATHS) {
            o->devices[o->device_count++] = argv[i] + 4;
        } else {
            return err_set(err, ERR_INVALID, "a child does not know \"%.80s\"", argv[i]);
        }
    }
    /* A path that is not there is a mistake of ours; it must not look like a host that forbids a layer. */
    for (int i = 0; i < o->read_only_count; i++)
        if (access(o->read_only[i], F_OK) != 0)
            return err_errno(err, ERR_INVALID, "the sandbox's path %s", o->read_only[i]);
    for (int i = 0; i < o->device_count; i++)
        if (access(o->devices[i], F_OK) != 0)
            return err_errno(err, ERR_INVALID, "the sandbox's device %s", o->devices[i]);
    return true;
}

/* What a library opened later needs of the C library, file by file; the folder is the one that libc came from. */
static void add_runtime(struct sandbox_order *o)
{
    static const char *const names[] = {"libc.so.6",  "libm.so.6",     "libpthread.so.0", "libdl.so.2",
                                        "librt.so.1", "libutil.so.1", "libgcc_s.so.1", "libstdc++.so.6",  "ld-linux-x86-64.so.2"};
    static char kept[sizeof names / sizeof *names][PATH_MAX];
    Dl_info info;
    if (!dladdr(dlsym(RTLD_DEFAULT, "fork"), &info) || !info.dli_fname || !strrchr(info.dli_fname, '/'))
        return;
    int dir = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(kept[i], sizeof kept[i], "%.*s/%s", dir, info.dli_fname, names[i]);
        if (access(kept[i], R_OK) == 0 && o->read_only_count < SANDBOX_MAX_PATHS)
            o->read_only[o->read_only_count++] = kept[i];
    }
    /* Which libraries the host has is nobody's business who is shown text of a file: a driver opens others by name, a compiler needs none. */
    if (sandbox_profiles[o->role].libraries && access("/etc/ld.so.cache", R_OK) == 0 && o->read_only_count < SANDBOX_MAX_PATHS)
        o->read_only[o->read_only_count++] = "/etc/ld.so.cache";
}

/* ---- small steps ---- */

/* `parent`: who it must be; NULL where a pid namespace hides that and a pipe tells instead. */
static bool die_with_parent(const pid_t *parent, struct err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return err_errno(err, ERR_INTERNAL, "PR_SET_PDEATHSIG");
    if (parent && getppid() != *parent)
        _exit(FAILED_EXIT);
    return true;
}

static bool write_text(const char *path, const char *text)
{
    cleanup(fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* The real root becomes a user that owns nothing. In a user namespace we are nobody already. */
static bool drop_user(struct err *err)
{
    if (geteuid() != 0)
        return true;
    uid_t id = UID_BASE + ((uid_t)getpid() & 0xffffff);
    struct stat st;
    if (fstat(SANDBOX_SOCKET_FD, &st) == 0)
        id = UID_BASE + ((uid_t)st.st_ino & 0xffffff);     /* pids repeat across pid namespaces; socket inodes do not */
    /* The plain calls: the C library's also visit its other threads, and pid 1 shares another process's memory. */
    (void)syscall(SYS_setgroups, 0, NULL);
    if ((syscall(SYS_setresgid, id, id, id) != 0 || syscall(SYS_setresuid, id, id, id) != 0) &&
        (syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) != 0 || syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) != 0))
        return err_errno(err, ERR_INTERNAL, "become nobody");
    if (syscall(SYS_setuid, 0) == 0)
        return err_set(err, ERR_INTERNAL, "root came back after it was dropped");
    return true;
}

/* Root needs no user namespace to leave everything and become nobody; anyone else needs one to be allowed the rest. */
static bool unshare_all(void)
{
    const int rest = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    struct err err;
    if (geteuid() == 0 && unshare(rest) == 0)
        return true;
    /* Root that may not do that (a container's): in a user namespace it would stay the host's root to every file and /proc/sys. */
    if (geteuid() == 0 && (!drop_user(&err) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0))
        return false;
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWUSER | rest) != 0)
        return false;
    char map[64];
    snprintf(map, sizeof map, "%d %u 1", NOBODY, (unsigned)uid);
    if (!write_text("/proc/self/setgroups", "deny") || !write_text("/proc/self/uid_map", map))
        return false;
    snprintf(map, sizeof map, "%d %u 1", NOBODY, (unsigned)gid);
    return write_text("/proc/self/gid_map", map);
}

static bool set_limits(const struct sandbox_order *o, struct err *err)
{
    const struct sandbox_limits *l = &o->limits;
    rlim_t data = (rlim_t)l->memory_bytes, address_space = data;
    if (!sandbox_profiles[o->role].address_space && address_space < CUDA_ADDRESS_SPACE)
        address_space = CUDA_ADDRESS_SPACE;
    if (SANITIZED)
        data = address_space = RLIM_INFINITY;      /* its shadow alone reserves terabytes */
    const struct { __rlimit_resource_t resource; rlim_t soft, hard; const char *name; } table[] = {
        {RLIMIT_CPU, (rlim_t)l->cpu_seconds, (rlim_t)l->cpu_seconds + 1, "cpu"},
        {RLIMIT_AS, address_space, address_space, "address space"},
        {RLIMIT_DATA, data, data, "data"},
        {RLIMIT_STACK, STACK_BYTES, STACK_BYTES, "stack"},
        {RLIMIT_FSIZE, (rlim_t)l->file_bytes, (rlim_t)l->file_bytes, "file size"},
        {RLIMIT_NOFILE, (rlim_t)l->open_files, (rlim_t)l->open_files, "open files"},
        {RLIMIT_NPROC, (rlim_t)l->processes, (rlim_t)l->processes, "processes"},
        {RLIMIT_CORE, 1, 1, "core"},      /* not 0: that a handler behind a pipe still gets; 1 stops both */
        {RLIMIT_MEMLOCK, 0, 0, "locked memory"},
        {RLIMIT_MSGQUEUE, 0, 0, "message queues"},
        {RLIMIT_RTPRIO, 0, 0, "real-time priority"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct rlimit now, want = {table[i].soft, table[i].hard};
        if (getrlimit(table[i].resource, &now) == 0 && now.rlim_max != RLIM_INFINITY && want.rlim_max > now.rlim_max) {
            want.rlim_max = now.rlim_max;      /* the host's own limit is lower: keep it */
            want.rlim_cur = want.rlim_cur > want.rlim_max ? want.rlim_max : want.rlim_cur;
        }
        if (setrlimit(table[i].resource, &want) != 0)
            return err_errno(err, ERR_INTERNAL, "limit of %s", table[i].name);
    }
    return true;
}

/* No exec could give a capability back; needs CAP_SETPCAP, so it comes before the user goes. */
static void drop_bounding(void)
{
    for (int cap = 0; cap <= 63; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno == EINVAL)
            break;                    /* past the last one; EPERM where we have none to lose */
}

static bool drop_capabilities(struct err *err)
{
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_capset, &head, none) != 0)
        return err_errno(err, ERR_INTERNAL, "drop capabilities");
    return true;
}

char sandbox_scratch_dir[64];
unsigned sandbox_left_out;

const char *sandbox_scratch(void)
{
    return sandbox_scratch_dir;
}

/* As the user that the job runs as: in a private /tmp, or in the host's, where Landlock then knows no other folder to write in. */
static bool make_scratch(const struct sandbox_order *o, struct err *err)
{
    if (!sandbox_profiles[o->role].programs)
        return true;
    snprintf(sandbox_scratch_dir, sizeof sandbox_scratch_dir, "%s", o->scratch ? o->scratch : "");
    return mkdir(sandbox_scratch_dir, 0700) == 0 || err_errno(err, ERR_INTERNAL, "the scratch folder \"%s\"", sandbox_scratch_dir);
}

/* ---- the list ---- */

enum { ROOTED = 1, FORKED = 2 };

static bool lock_down(const struct sandbox_order *o, unsigned how, unsigned *ret_layers, struct err *err)
{
    unsigned layers = 0;
    struct err missing;
    if (how & ROOTED) {
        if (!sandbox_root(o, err))                                     /* nothing to see but what the order lists */
            return false;
        layers |= SANDBOX_NAMESPACES;
    }
    if (chdir("/") != 0)                                               /* nor where the supervisor stands */
        return err_errno(err, ERR_INTERNAL, "leave the supervisor's folder");
    if (!set_limits(o, err))                                           /* so much and no more */
        return false;
    drop_bounding();
    if (!drop_user(err) || !drop_capabilities(err))                    /* nobody, with no power */
        return false;
    if (!make_scratch(o, err))                                         /* a place to write, if it needs one */
        return false;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)                   /* and no way to get any power */
        return err_errno(err, ERR_INTERNAL, "no_new_privs");
    layers |= SANDBOX_LIMITS;
    if (!die_with_parent(how & FORKED ? NULL : &o->parent, err))                     /* changing users clears it */
        return false;
    /* A process that changed users is not "dumpable", and its own /proc files belong to root: the driver names its threads there. */
    (void)prctl(PR_SET_DUMPABLE, sandbox_profiles[o->role].proc_and_sys ? 1 : 0, 0, 0, 0);
    if (!(o->without & SANDBOX_LANDLOCK) && sandbox_landlock(o, &missing))   /* the same paths by another mechanism */
        layers |= SANDBOX_LANDLOCK;
    if (!(o->without & SANDBOX_SECCOMP) && sandbox_filter(o, &missing))      /* and few doors into the kernel */
        layers |= SANDBOX_SECCOMP;
    *ret_layers = layers;
    return true;
}

/* ---- three processes of one ---- */

struct pid_one { int porter_alive, ready; };

/*
 * Pid 1 of the namespace: holds nothing, reaps by ignoring, ends when the porter does. It shares the porter's memory (a copy of
 * the page tables is what costs in a fork), so the porter waits until all that is left to do here is one blocking read.
 */
static int be_pid_one(void *arg)
{
    const struct pid_one *p = arg;
    struct err err;
    signal(SIGCHLD, SIG_IGN);
    if (!drop_user(&err) || !drop_capabilities(&err) || !die_with_parent(NULL, &err))
        return FAILED_EXIT;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    int alive = dup2(p->porter_alive, 0), ready = dup2(p->ready, 1);
    close_range(2, ~0u, 0);
    char byte = 'y';
    if (write(ready, &byte, 1) != 1)
        return FAILED_EXIT;
    close(ready);
    /* The porter writes nothing: the read ends when it is gone, also when it went before PDEATHSIG was set. */
    while (syscall(SYS_read, alive, &byte, 1) < 0)
        ;
    return 0;
}

static bool start_pid_one(const int porter[2], struct err *err)
{
    static char stack[64 * 1024] __attribute__((aligned(64)));
    static struct pid_one one;
    int ready[2];
    char answer = 0;
    if (pipe2(ready, O_CLOEXEC) != 0)
        return err_errno(err, ERR_INTERNAL, "pipe");
    one = (struct pid_one){porter[0], ready[1]};
    pid_t pid = clone(be_pid_one, stack + sizeof stack, CLONE_VM | SIGCHLD, &one);
    close(ready[1]);
    ssize_t n = pid > 0 ? read(ready[0], &answer, 1) : -1;
    close(ready[0]);
    return (n == 1 && answer == 'y') || err_errno(err, ERR_UNAVAILABLE, "a process in a pid namespace");
}

/* Ends as the job ended. */
static _Noreturn void end_like(int status)
{
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(WTERMSIG(status), SIG_DFL);
        kill(getpid(), WTERMSIG(status));
        pause();
    }
    _exit(WEXITSTATUS(status));
}

static pid_t waited_for;

static void end_job(int sig)
{
    (void)sig;
    kill(waited_for, SIGKILL);
}

/*
 * Keeps nothing open but the pipe by which pid 1 sees that we live. The porter's end says that the job has ended wholly, its memory and
 * its context on a card given back; so who wants the job's end asks the porter for it (SANDBOX_END_SIGNAL) and does not kill both.
 */
static _Noreturn void wait_for(pid_t job, int porter_alive)
{
    int status = 0;
    waited_for = job;
    signal(SIGTERM, SIG_IGN);          /* that is for the job */
    signal(SANDBOX_END_SIGNAL, end_job);
    dup2(porter_alive, 0);
    close_range(1, ~0u, 0);
    while (waitpid(job, &status, 0) < 0 && errno == EINTR)
        ;
    end_like(status);
}

/* In the porter: starts the job and learns whether its root was made. True in the job alone. */
static bool start_job(const struct sandbox_order *o, unsigned how, const int porter[2], unsigned *ret_layers,
                      bool *ret_failed, struct err *err)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return err_errno(err, ERR_INTERNAL, "pipe");
    pid_t job = fork();
    if (job < 0)
        return err_errno(err, ERR_INTERNAL, "fork");
    if (job > 0) {
        char answer = 0;
        close(report[1]);
        while (read(report[0], &answer, 1) < 0 && errno == EINTR)
            ;
        close(report[0]);
        if (answer == 'y')
            wait_for(job, porter[1]);
        waitpid(job, NULL, 0);
        *ret_failed = true;
        return false;
    }
    close(report[0]);
    close(porter[1]);
    if (!die_with_parent(NULL, err) || poll(&(struct pollfd){.fd = porter[0], .events = POLLIN}, 1, 0) != 0)
        _exit(FAILED_EXIT);           /* the porter is gone already */
    close(porter[0]);
    struct err why = {0};
    if (!lock_down(o, how, ret_layers, &why)) {
        dprintf(2, "sandbox: %s\n", why.text);
        _exit(FAILED_EXIT);
    }
    if (write(report[1], "y", 1) != 1)
        _exit(FAILED_EXIT);
    close(report[1]);
    return true;
}

/* Into namespaces, as far as the host allows. True: this is the job, locked down. False with ret_refused: stay as we are. */
static bool enter_namespaces(const struct sandbox_order *o, unsigned *ret_layers, bool *ret_refused, struct err *err)
{
    *ret_refused = true;
    if (o->without & SANDBOX_NAMESPACES || !unshare_all())
        return err_set(err, ERR_UNAVAILABLE, "namespaces are not allowed here");
    if (!die_with_parent(&o->parent, err))
        return false;
    int porter[2];
    if (pipe2(porter, O_CLOEXEC) != 0)
        return err_errno(err, ERR_INTERNAL, "pipe");
    if (!start_pid_one(porter, err))
        return false;
    *ret_refused = false;
    bool failed = false;
    if (start_job(o, ROOTED | FORKED, porter, ret_layers, &failed, err))
        return true;
    /* No private root here (a container that forbids mounts): once more in the same namespaces, with the host's root. */
    if (failed && start_job(o, FORKED, porter, ret_layers, &failed, err))
        return true;
    return err_set(err, ERR_INTERNAL, "the job could not be started in its sandbox");
}

bool sandbox_enter(int argc, char **argv, enum sandbox_role *ret_role, unsigned *ret_layers, struct err *err)
{
    static struct sandbox_order o;
    unsigned layers = 0;
    bool refused = false;
    if (!parse_order(argc, argv, &o, err))
        return false;
    sandbox_left_out = o.without;
    add_runtime(&o);
    if (!enter_namespaces(&o, &layers, &refused, err)) {
        if (!refused || !lock_down(&o, 0, &layers, err))
            return false;
    }
    if (o.probe)
        _exit(write(SANDBOX_SOCKET_FD, &layers, sizeof layers) == (ssize_t)sizeof layers ? 0 : FAILED_EXIT);
    *ret_role = o.role;
    *ret_layers = layers;
    return true;
}

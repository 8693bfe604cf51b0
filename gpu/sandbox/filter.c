/*
 * seccomp: a deny list, since what a driver needs of the kernel changes with each version. Each row says why. REFUSE answers
 * EPERM, so that a library that only tries goes on without; ABSENT answers ENOSYS, so that it takes its older way; KILL is for
 * calls that nothing honest makes here. A deny list is only as good as the list of calls that it was written for: those that are
 * younger do not exist in here, and calls by another machine's numbers (32-bit, x32) end the process.
 *
 * Where there are no namespaces and the supervisor is not root, the child runs as the same user and the kernel would let it act on
 * the supervisor by its number: so each call that takes a process takes none but the caller's own.
 */
#include "gpu/sandbox/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define NEWEST_CALL 450            /* set_mempolicy_home_node: the calls up to it were looked at for the list below */
#define OTHER_NUMBERS 0x40000000   /* x32 */

enum action { REFUSE, ABSENT, KILL };
enum unless { ALWAYS, NOT_UNIX, NOT_MEMFD, NOT_PROGRAMS };

static const struct rule { const char *call; enum action action; enum unless unless; const char *reason; } rules[] = {
    /* other processes */
    {"ptrace", KILL, ALWAYS, "controls other processes"},
    {"process_vm_readv", KILL, ALWAYS, "reads other processes"},
    {"process_vm_writev", KILL, ALWAYS, "writes other processes"},
    {"process_madvise", REFUSE, ALWAYS, "acts on other processes"},
    {"kill", REFUSE, ALWAYS, "signals other processes; raise and abort use tgkill"},
    {"tkill", REFUSE, ALWAYS, "signals other processes"},
    {"rt_sigqueueinfo", REFUSE, ALWAYS, "signals other processes"},
    {"rt_tgsigqueueinfo", REFUSE, ALWAYS, "signals other processes"},
    {"pidfd_send_signal", REFUSE, ALWAYS, "signals other processes"},
    {"kcmp", REFUSE, ALWAYS, "looks into other processes"},
    {"pidfd_getfd", REFUSE, ALWAYS, "takes descriptors of other processes"},
    {"pidfd_open", REFUSE, ALWAYS, "handles on other processes"},
    {"move_pages", REFUSE, ALWAYS, "acts on other processes"},
    {"migrate_pages", REFUSE, ALWAYS, "acts on other processes"},
    {"process_mrelease", REFUSE, ALWAYS, "acts on other processes"},
    {"setsid", REFUSE, ALWAYS, "leaves the session, by which the supervisor ends all that is left"},
    {"setpgid", REFUSE, ALWAYS, "leaves the group, as setsid"},
    /* new programs and new processes: a job is one process with threads, but for a compiler that is several programs */
    {"execve", REFUSE, NOT_PROGRAMS, "starts programs"},
    {"execveat", REFUSE, ALWAYS, "starts programs"},
    {"fork", REFUSE, NOT_PROGRAMS, "starts processes"},
    {"vfork", REFUSE, NOT_PROGRAMS, "starts processes"},
    {"clone3", ABSENT, ALWAYS, "its flags lie in memory, where a filter cannot see them; clone does for threads"},
    {"personality", REFUSE, ALWAYS, "turns address randomisation off"},
    /* kernel interfaces with a history of holes */
    {"bpf", REFUSE, ALWAYS, "loads code into the kernel"},
    {"perf_event_open", REFUSE, ALWAYS, "observes other processes and the kernel"},
    {"userfaultfd", REFUSE, ALWAYS, "stalls the kernel at a page of choice"},
    {"io_uring_setup", REFUSE, ALWAYS, "does calls that this filter does not see"},
    {"io_uring_enter", REFUSE, ALWAYS, "does calls that this filter does not see"},
    {"io_uring_register", REFUSE, ALWAYS, "does calls that this filter does not see"},
    {"keyctl", REFUSE, ALWAYS, "reaches keys that no namespace separates"},
    {"add_key", REFUSE, ALWAYS, "reaches keys that no namespace separates"},
    {"request_key", REFUSE, ALWAYS, "reaches keys that no namespace separates"},
    {"vmsplice", REFUSE, ALWAYS, "shares pages with pipes"},
    {"memfd_secret", REFUSE, ALWAYS, "memory outside every limit"},
    {"memfd_create", REFUSE, NOT_MEMFD, "memory outside the address-space limit"},
    {"modify_ldt", REFUSE, ALWAYS, "16-bit segments"},
    {"iopl", REFUSE, ALWAYS, "ports"},
    {"ioperm", REFUSE, ALWAYS, "ports"},
    {"lookup_dcookie", REFUSE, ALWAYS, "profiling"},
    /* file systems and namespaces */
    {"mount", REFUSE, ALWAYS, "mounts"},
    {"umount2", REFUSE, ALWAYS, "mounts"},
    {"pivot_root", REFUSE, ALWAYS, "mounts"},
    {"chroot", REFUSE, ALWAYS, "mounts"},
    {"move_mount", REFUSE, ALWAYS, "mounts"},
    {"open_tree", REFUSE, ALWAYS, "mounts"},
    {"fsopen", REFUSE, ALWAYS, "mounts"},
    {"fsconfig", REFUSE, ALWAYS, "mounts"},
    {"fsmount", REFUSE, ALWAYS, "mounts"},
    {"fspick", REFUSE, ALWAYS, "mounts"},
    {"mount_setattr", REFUSE, ALWAYS, "mounts"},
    {"unshare", REFUSE, ALWAYS, "a new user namespace gives new powers"},
    {"setns", REFUSE, ALWAYS, "enters other namespaces"},
    {"name_to_handle_at", REFUSE, ALWAYS, "handles leave a mount"},
    {"open_by_handle_at", REFUSE, ALWAYS, "handles leave a mount"},
    {"fanotify_init", REFUSE, ALWAYS, "watches the file system"},
    {"quotactl", REFUSE, ALWAYS, "administration"},
    {"quotactl_fd", REFUSE, ALWAYS, "administration"},
    /* files that it may only read, where it runs as their owner */
    {"chmod", REFUSE, ALWAYS, "changes files"},
    {"fchmod", REFUSE, ALWAYS, "changes files"},
    {"fchmodat", REFUSE, ALWAYS, "changes files"},
    {"chown", REFUSE, ALWAYS, "changes files"},
    {"fchown", REFUSE, ALWAYS, "changes files"},
    {"lchown", REFUSE, ALWAYS, "changes files"},
    {"fchownat", REFUSE, ALWAYS, "changes files"},
    {"utimensat", REFUSE, ALWAYS, "changes files"},
    {"setxattr", REFUSE, ALWAYS, "changes files"},
    {"lsetxattr", REFUSE, ALWAYS, "changes files"},
    {"fsetxattr", REFUSE, ALWAYS, "changes files"},
    {"removexattr", REFUSE, ALWAYS, "changes files"},
    {"lremovexattr", REFUSE, ALWAYS, "changes files"},
    {"fremovexattr", REFUSE, ALWAYS, "changes files"},
    {"utime", REFUSE, ALWAYS, "changes files"},
    {"utimes", REFUSE, ALWAYS, "changes files"},
    {"futimesat", REFUSE, ALWAYS, "changes files"},
    {"inotify_init", REFUSE, ALWAYS, "watches files that it may not read"},
    {"inotify_init1", REFUSE, ALWAYS, "watches files that it may not read"},
    /* memory that namespaces alone separate */
    {"shmget", REFUSE, ALWAYS, "System V memory"},
    {"shmat", REFUSE, ALWAYS, "System V memory"},
    {"shmctl", REFUSE, ALWAYS, "System V memory: numbers can be guessed"},
    {"msgget", REFUSE, ALWAYS, "System V queues"},
    {"msgsnd", REFUSE, ALWAYS, "System V queues"},
    {"msgrcv", REFUSE, ALWAYS, "System V queues"},
    {"msgctl", REFUSE, ALWAYS, "System V queues"},
    {"semget", REFUSE, ALWAYS, "System V semaphores"},
    {"semop", REFUSE, ALWAYS, "System V semaphores"},
    {"semtimedop", REFUSE, ALWAYS, "System V semaphores"},
    {"semctl", REFUSE, ALWAYS, "System V semaphores"},
    {"mq_open", REFUSE, ALWAYS, "message queues"},
    {"mq_unlink", REFUSE, ALWAYS, "message queues"},
    /* the network: there is none */
    {"socket", REFUSE, NOT_UNIX, "connections"},
    {"connect", REFUSE, ALWAYS, "connections"},
    {"bind", REFUSE, NOT_UNIX, "connections; CUDA's driver opens a local socket of its own and ends without it"},
    {"listen", REFUSE, NOT_UNIX, "connections; as bind"},
    {"accept", REFUSE, ALWAYS, "connections"},
    {"accept4", REFUSE, ALWAYS, "connections"},
    /* the machine */
    {"kexec_load", KILL, ALWAYS, "administration"},
    {"kexec_file_load", KILL, ALWAYS, "administration"},
    {"reboot", KILL, ALWAYS, "administration"},
    {"init_module", KILL, ALWAYS, "administration"},
    {"finit_module", KILL, ALWAYS, "administration"},
    {"delete_module", KILL, ALWAYS, "administration"},
    {"swapon", REFUSE, ALWAYS, "administration"},
    {"swapoff", REFUSE, ALWAYS, "administration"},
    {"acct", REFUSE, ALWAYS, "administration"},
    {"syslog", REFUSE, ALWAYS, "the kernel's log"},
    {"settimeofday", REFUSE, ALWAYS, "the clock"},
    {"clock_settime", REFUSE, ALWAYS, "the clock"},
    {"clock_adjtime", REFUSE, ALWAYS, "the clock"},
    {"adjtimex", REFUSE, ALWAYS, "the clock"},
    {"sethostname", REFUSE, ALWAYS, "administration"},
    {"setdomainname", REFUSE, ALWAYS, "administration"},
    {"vhangup", REFUSE, ALWAYS, "terminals"},
};

static uint32_t code_of(enum action a)
{
    return a == KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(a == ABSENT ? ENOSYS : EPERM);
}

DEFINE_CLEANUP(filter, scmp_filter_ctx, if (*it) seccomp_release(*it))

static bool add_rules(scmp_filter_ctx filter, const struct sandbox_profile *p, struct err *err)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *r = &rules[i];
        if ((r->unless == NOT_UNIX && p->unix_sockets) || (r->unless == NOT_MEMFD && p->memfd) ||
            (r->unless == NOT_PROGRAMS && p->programs))
            continue;
        int number = seccomp_syscall_resolve_name(r->call);
        if (number == __NR_SCMP_ERROR)
            continue; /* younger than the library; the kernel's newer calls are covered where both know them */
        int failed = seccomp_rule_add(filter, code_of(r->action), number, 0);
        if (failed)
            return err_set(err, ERR_UNAVAILABLE, "seccomp rule for %s: error %d", r->call, -failed);
    }
    return true;
}

/* Of an argument's 64 bits the kernel reads 32 where it wants an int: only those count, whatever stands above them. */
#define LOW UINT64_C(0xffffffff)

/* Calls with a value of one argument that is refused, or with the one value that is not. */
static const struct fine { const char *call; unsigned argument; enum scmp_compare compare; scmp_datum_t mask, value; const char *reason; } fine[] = {
    {"prlimit64", 0, SCMP_CMP_NE, 0, 0, "limits of other processes"},
    {"sched_setaffinity", 0, SCMP_CMP_NE, 0, 0, "processors of other processes"},
    {"sched_setscheduler", 0, SCMP_CMP_NE, 0, 0, "priority of other processes"},
    {"sched_setparam", 0, SCMP_CMP_NE, 0, 0, "priority of other processes"},
    {"sched_setattr", 0, SCMP_CMP_NE, 0, 0, "priority of other processes"},
    {"setpriority", 1, SCMP_CMP_NE, 0, 0, "priority of other processes"},
    {"ioprio_set", 1, SCMP_CMP_NE, 0, 0, "priority of other processes"},
    {"fcntl", 1, SCMP_CMP_MASKED_EQ, LOW, F_SETOWN, "a signal of choice to another process when a descriptor is ready"},
    {"fcntl", 1, SCMP_CMP_MASKED_EQ, LOW, F_SETOWN_EX, "as above"},
    {"fcntl", 1, SCMP_CMP_MASKED_EQ, LOW, F_SETSIG, "as above"},
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW, FIOSETOWN, "as above"},
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW, SIOCSPGRP, "as above"},
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW, TIOCSTI, "types into a terminal that someone else reads"},
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW, 0x541c, "as above, by the console's paste (TIOCLINUX)"},
    {"sendto", 4, SCMP_CMP_NE, 0, 0, "a datagram to any socket that has a name"},
    /* Streams must be connected first, which is refused; a datagram names its receiver itself. */
    {"socket", 1, SCMP_CMP_MASKED_EQ, 15, SOCK_DGRAM, "as above"},
    {"socket", 1, SCMP_CMP_MASKED_EQ, 15, SOCK_RAW, "as above: among local sockets a raw one is one of datagrams"},
    {"socketpair", 1, SCMP_CMP_MASKED_EQ, 15, SOCK_DGRAM, "as above"},
    {"socketpair", 1, SCMP_CMP_MASKED_EQ, 15, SOCK_RAW, "as above"},
};

static int add_fine(scmp_filter_ctx filter, const struct fine *f)
{
    /* A comparison with a mask takes both; one without takes the value alone. */
    struct scmp_arg_cmp compare = {.arg = f->argument, .op = f->compare, .datum_a = f->mask ? f->mask : f->value, .datum_b = f->value};
    int number = seccomp_syscall_resolve_name(f->call);
    int failed = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), number, 1, &compare);
    /* EACCES: the whole call is refused in this role already. */
    return failed == -EACCES || failed == -EEXIST ? 0 : failed;
}

/* Rules over arguments. */
static bool add_fine_rules(scmp_filter_ctx filter, const struct sandbox_profile *p, struct err *err)
{
    const scmp_datum_t namespaces = CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    int failed = 0;
    if (!p->programs)
        failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    /* Processes, but no namespaces: a new user namespace gives new powers. */
    for (scmp_datum_t bit = 1; !failed && p->programs && bit <= namespaces; bit <<= 1)
        if (bit & namespaces)
            failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit));
    /* Signals to itself: this is the last process image, so its number is known. */
    if (!failed)
        failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(tgkill), 1,
                                  SCMP_A0(SCMP_CMP_NE, (scmp_datum_t)getpid()));
    if (!failed && p->unix_sockets)
        failed =
            seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    for (size_t i = 0; !failed && i < sizeof fine / sizeof *fine; i++)
        failed = add_fine(filter, &fine[i]);
    return !failed || err_set(err, ERR_UNAVAILABLE, "seccomp rule: error %d", -failed);
}

/* A filter of its own, before the list: six instructions, whatever the library knows. */
static bool refuse_unknown(struct err *err)
{
#define FIELD(name) (uint32_t)offsetof(struct seccomp_data, name)
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, OTHER_NUMBERS, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST_CALL, 1, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
#undef FIELD
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 || err_errno(err, ERR_UNAVAILABLE, "seccomp");
}

bool sandbox_filter(const struct sandbox_order *o, struct err *err)
{
    const struct sandbox_profile *p = &sandbox_profiles[o->role];
    cleanup(filter) scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter)
        return err_set(err, ERR_UNAVAILABLE, "libseccomp does not start");
    if (!add_rules(filter, p, err) || !add_fine_rules(filter, p, err))
        return false;
    if (!refuse_unknown(err))
        return false;
    int failed = seccomp_load(filter);
    return !failed || err_set(err, ERR_UNAVAILABLE, "seccomp: error %d", -failed);
}

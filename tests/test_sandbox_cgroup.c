/*
 * The limit on memory in use: a child that touches more shared memory than it may, which no rlimit counts, is killed by its group's limit,
 * the group is gone after it, and what it does below the limit goes on. Where the host lets us make no group it is seen that none is left
 * behind; the rest is skipped.
 */
#include "core/clock.h"
#include "core/hash.h"
#include "gpu/sandbox/inside.h"
#include "tests/test.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MIB ((size_t)1 << 20)

static int be_child(int argc, char **argv)
{
    enum sandbox_role role;
    unsigned layers, wanted = 0;
    struct err err = {0};
    if (!sandbox_enter(argc, argv, &role, &layers, &err) || read(SANDBOX_SOCKET_FD, &wanted, sizeof wanted) != sizeof wanted)
        return 1;
    char *p = mmap(NULL, wanted * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return 2;
    for (size_t at = 0; at < wanted * MIB; at += 4096)
        p[at] = 1;
    return 0;
}

/* How a child that touches so much ends. */
static struct sandbox_status touch(unsigned mib, char *group, size_t size)
{
    static const struct sandbox_limits limits = {.cpu_seconds = 20, .memory_bytes = (int64_t)64 << 20, .open_files = 64, .processes = 64};
    struct sandbox_child child = {0};
    struct sandbox_status status = {0};
    struct err err = {0};
    bool ok = sandbox_spawn(SANDBOX_RUN_CUDA, &limits, NULL, NULL, &child, &err);
    check(ok);
    if (!ok)
        return status;
    snprintf(group, size, "%s", child.cgroup);
    check(write(child.fd, &mib, sizeof mib) == sizeof mib);
    sandbox_wait(&child, clock_mono_ns() + (int64_t)20 * 1000000000, &status);
    buf_done(&child.stderr_tail);
    return status;
}

/* A tree without the files of control groups: nothing is made, nothing stays. */
static void test_none(void)
{
    char root[] = "/tmp/cgroup.XXXXXX", made[600] = "x";
    check(mkdtemp(root) != NULL);
    cleanup(str) char *own = xfmt("%s/a", root), *below = xfmt("%s/a/b", root);
    check(mkdir(own, 0755) == 0 && mkdir(below, 0755) == 0);
    check(!cgroup_make_in(root, "/a/b", 1 << 20, made, sizeof made) && !made[0]);
    check(!cgroup_make_in(root, "/", 1 << 20, made, sizeof made) && !made[0]);
    check(!cgroup_make_in(root, "/not/there", 1 << 20, made, sizeof made) && !made[0]);
    check(rmdir(below) == 0 && rmdir(own) == 0 && rmdir(root) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return be_child(argc, argv);
    unsigned have = 0;
    struct err err = {0};
    char group[600];
    hash_init();
    test_none();
    check(sandbox_probe(&have, &err));
    if (!(have & SANDBOX_CGROUP)) {
        check(touch(16, group, sizeof group).end == SANDBOX_EXITED && !group[0]);
        return test_failures ? test_done() : (test_skip("this host lets us make no control group (version 2) with a memory limit"), 1);
    }
    struct sandbox_status small = touch(32, group, sizeof group), large = touch(400, group, sizeof group);
    check(small.end == SANDBOX_EXITED && small.code == 0 && !small.out_of_memory);
    check(large.end == SANDBOX_SIGNALLED && large.code == SIGKILL && large.out_of_memory);
    check(group[0] && access(group, F_OK) != 0);
    sandbox_without(SANDBOX_CGROUP);
    struct sandbox_status without = touch(400, group, sizeof group);
    check(!group[0] && without.end == SANDBOX_EXITED);
    return test_done();
}

/*
 * A limit on the memory that a child really uses, where the host lets us set one: a control group (version 2) of its own. Address space
 * and data segment, which rlimits know, say little of it: a driver reserves far more than there is, and shared memory is in neither.
 *
 * A group may have either processes or groups with limits in it, so where ours cannot have children with the memory controller, one
 * beside it is tried. Whatever is missing (version 1, no controller, no right to make groups) means: none; the sandbox's level says so.
 */
#include "gpu/sandbox/inside.h"

#include "core/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP2_MAGIC 0x63677270

/* Our own group's path below the root, as the kernel says it in the line of version 2: "0::/a/b". */
static bool own_group(char *ret, size_t size)
{
    char line[512];
    cleanup(file) FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = 0;
            return strstr(line, "/..") == NULL && (size_t)snprintf(ret, size, "%s", line + 3) < size;
        }
    return false;
}

static bool put(int dir, const char *name, const char *text)
{
    cleanup(fd) int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool has_memory(int dir, const char *list)
{
    char text[256] = "";
    cleanup(fd) int fd = openat(dir, list, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    text[n > 0 ? n : 0] = 0;
    for (const char *at = text; *at; at += strspn(at, " \n")) {
        const size_t size = strcspn(at, " \n");
        if (size == 6 && memcmp(at, "memory", 6) == 0)
            return true;
        at += size;
    }
    return false;
}

/* A group with a limit below that one. */
static bool make_below(const char *parent, int64_t memory_bytes, char *ret, size_t size)
{
    char limit[24];
    cleanup(fd) int above = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0 || (!has_memory(above, "cgroup.subtree_control") && !put(above, "cgroup.subtree_control", "+memory")))
        return false;
    if ((size_t)snprintf(ret, size, "%s/proteus-%016llx", parent, (unsigned long long)random_u64()) >= size || mkdir(ret, 0755) != 0)
        return false;
    cleanup(fd) int dir = open(ret, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(limit, sizeof limit, "%lld", (long long)memory_bytes);
    if (dir >= 0 && has_memory(dir, "cgroup.controllers") && put(dir, "memory.max", limit)) {
        (void)put(dir, "memory.swap.max", "0");     /* no swap: no such file */
        (void)put(dir, "memory.oom.group", "1");    /* all of it dies, not a part */
        return true;
    }
    rmdir(ret);
    return false;
}

bool cgroup_make_in(const char *root, const char *own, int64_t memory_bytes, char *ret, size_t size)
{
    char path[512];
    if ((size_t)snprintf(path, sizeof path, "%s%s", root, own) >= sizeof path)
        return false;
    while (strlen(path) > strlen(root) && path[strlen(path) - 1] == '/')
        path[strlen(path) - 1] = 0;
    if (make_below(path, memory_bytes, ret, size))
        return true;
    char *last = strlen(path) > strlen(root) ? strrchr(path, '/') : NULL;
    if (last)
        *last = 0;
    bool made = last && make_below(path, memory_bytes, ret, size);
    if (!made)
        *ret = 0;
    return made;
}

bool cgroup_make(int64_t memory_bytes, char *ret, size_t size)
{
    char own[256];
    struct statfs fs;
    *ret = 0;
    if (statfs(CGROUP_ROOT, &fs) != 0 || (uint64_t)fs.f_type != CGROUP2_MAGIC || !own_group(own, sizeof own))
        return false;
    return cgroup_make_in(CGROUP_ROOT, own, memory_bytes, ret, size);
}

bool cgroup_holds_any(const char *path)
{
    char one;
    cleanup(fd) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup(fd) int fd = dir >= 0 ? openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC) : -1;
    return fd >= 0 && read(fd, &one, 1) == 1;
}

bool cgroup_killed(const char *path)
{
    char text[512] = "";
    cleanup(fd) int dir = *path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    cleanup(fd) int fd = dir >= 0 ? openat(dir, "memory.events", O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, "oom_kill ");
    return at && strtoll(at + 9, NULL, 10) > 0;
}

void cgroup_remove(char *path)
{
    if (*path)
        (void)rmdir(path);      /* a straggler keeps it; it limits nobody else */
    *path = 0;
}

/*
 * Between the files of the sandbox: what a child is told on its command line, and one function a layer. Each layer function is
 * called once, in the child, while it has one thread.
 */
#pragma once
#include "gpu/sandbox/sandbox.h"

#define SANDBOX_MAX_PATHS 96
#define SANDBOX_SOCKET_FD 3
#define SANDBOX_END_SIGNAL SIGUSR1 /* to the porter: kill the job, wait for its end, end as it did */
#define SANDBOX_PROBE "probe"      /* in place of a role: enter, write the layers reached to the socket, exit */

struct sandbox_order {
    enum sandbox_role role;
    bool probe;
    struct sandbox_limits limits;
    unsigned without;              /* layers to leave out */
    pid_t parent;
    const char *scratch;           /* a folder to make and to write in; NULL: none */
    int read_only_count, device_count;
    /* Borrowed from argv, and the C library's own files. */
    const char *read_only[SANDBOX_MAX_PATHS], *devices[SANDBOX_MAX_PATHS];
};

/* What a role's child sees and may do beyond the least. */
struct sandbox_profile {
    const char *name;
    bool devices;                  /* the listed device nodes */
    bool proc_and_sys;             /* a /proc of its own and /sys */
    bool address_space; /* RLIMIT_AS is memory_bytes; else RLIMIT_DATA is, and AS only keeps it from the absurd */
    bool unix_sockets, memfd;
    bool libraries;                /* the loader's cache of where libraries are */
    bool programs;                 /* execve and fork; a scratch folder that can be written */
};
extern const struct sandbox_profile sandbox_profiles[SANDBOX_ROLE_COUNT];

extern char sandbox_scratch_dir[64];
extern unsigned sandbox_left_out;  /* in a child: order.without */
#define SANDBOX_SCRATCH "/tmp/proteus-cc-"

/* cgroup.c: a group with a limit, its path in ret; false and "" where the host has none for us. cgroup_make_in: with files at `root`. */
bool cgroup_make(int64_t memory_bytes, char *ret, size_t size);
bool cgroup_make_in(const char *root, const char *own, int64_t memory_bytes, char *ret, size_t size);
bool cgroup_holds_any(const char *path);
bool cgroup_killed(const char *path);      /* something in it was killed at its limit */
void cgroup_remove(char *path);

/* An empty root with the order's paths, by a private mount namespace and two pivots. The caller is in its namespaces already. */
bool sandbox_root(const struct sandbox_order *o, struct err *err) MUST_CHECK;
/* The order's paths and nothing else, by Landlock. False with ERR_UNAVAILABLE where the kernel has none. */
bool sandbox_landlock(const struct sandbox_order *o, struct err *err) MUST_CHECK;
bool sandbox_filter(const struct sandbox_order *o, struct err *err) MUST_CHECK;

/*
 * Children of the judge: exec'd, one job, one inherited socket (fd 3), locked down before they see the candidate.
 *
 * sandbox_spawn runs this program again as `PROGRAM child ROLE`; the child calls sandbox_enter first thing and reports the level
 * reached in its hello. Layers, each where the host allows it: user+mount+pid+net+ipc+uts+cgroup namespaces with an empty root,
 * Landlock, seccomp (deny list from a table with reasons), rlimits, no_new_privs, no capabilities, closed descriptors, empty
 * environment, PDEATHSIG. What the parent decides rests on the wait status and its own clock, not on what the child says.
 */
#pragma once
#include "core/json.h"

#include <sys/types.h>

/* SANDBOX_CC (the host's C compiler is several programs) and SANDBOX_TRITON (its python) alone may start programs and write, in
 * sandbox_scratch() and nowhere else. */
enum sandbox_role { SANDBOX_COMPILE, SANDBOX_REFERENCE, SANDBOX_RUN_SIM, SANDBOX_RUN_CUDA, SANDBOX_CC, SANDBOX_TRITON, SANDBOX_ROLE_COUNT };
const char *sandbox_role_name(enum sandbox_role role);        /* "compile", ... : argv[2] of the child */
bool sandbox_role_parse(const char *name, enum sandbox_role *ret);

/*
 * Layers as bits, and the level as one word for people: "none" < "limits" < "filtered" (seccomp + Landlock) < "isolated"
 * (namespaces + seccomp; Landlock repeats what the empty root says).
 */
/*
 * What even so is not held: "filtered" lets a child ask whether a file is there (Landlock knows opening, not asking), lets a run child
 * for a card see the names of other processes, and limits each file of a compiler's folder but not their number. A run child for a
 * card may also map shared memory up to its address space, which a driver needs more of than there is memory. A kernel without
 * Landlock (older than 5.13) lets text in the compile child include the C library's own files.
 */
/* SANDBOX_CGROUP: its memory in use is limited too, by a control group of its own; it changes no level. */
enum { SANDBOX_LIMITS = 1, SANDBOX_SECCOMP = 2, SANDBOX_LANDLOCK = 4, SANDBOX_NAMESPACES = 8, SANDBOX_CGROUP = 16 };
const char *sandbox_level(unsigned layers);
/* What this host allows, found by trying in a child. */
bool sandbox_probe(unsigned *ret_layers, struct err *err) MUST_CHECK;
/* Layers to leave out in children started from now on: for hosts where one gets in the way, and to test the others alone. */
void sandbox_without(unsigned layers);

/* memory_bytes: address space (RUN_CUDA: data), and where there is a control group memory in use (RUN_CUDA: half more). file_bytes: of its private /tmp; 0: it can write nowhere. processes: threads. */
struct sandbox_limits { int64_t cpu_seconds, memory_bytes, file_bytes; int open_files, processes; int64_t holes_bytes; /* address space in which nothing is, besides */ };
/*
 * NULL-ended lists (or NULL) of absolute paths; what stays visible, at the same place. The C library's own files are added. A
 * file must be readable by everybody: the child is nobody. The listed devices are for SANDBOX_RUN_CUDA alone.
 */
struct sandbox_paths { const char *const *read_only; const char *const *devices; };

struct sandbox_child { pid_t pid; int fd; int stderr_fd; struct buf stderr_tail; int64_t started_ns; char scratch[64], cgroup[600]; bool holds_card; };
/*
 * env: NULL-ended "NAME=value" list, nothing else is passed. The socket end is ret->fd (blocking, CLOEXEC). The child dies with
 * the thread that called this: call it from one that outlives the child.
 */
bool sandbox_spawn(enum sandbox_role role, const struct sandbox_limits *limits, const struct sandbox_paths *paths,
                   const char *const *env, struct sandbox_child *ret, struct err *err) MUST_CHECK;

enum sandbox_end { SANDBOX_EXITED, SANDBOX_KILLED_BY_US, SANDBOX_SIGNALLED };
struct sandbox_status { enum sandbox_end end; int code; /* exit status or signal */ bool timed_out; bool out_of_memory; /* its group's limit */ int64_t wall_ns, cpu_ns, peak_rss_bytes; };
/* Both return when a job with a card has given it back (or after seconds of waiting for that); other jobs may still be dying. */
/* Asks (SIGTERM), waits grace_ns, then kills its process group; always reaps. Safe on a child already ended. */
void sandbox_stop(struct sandbox_child *c, int64_t grace_ns, struct sandbox_status *ret);
/* Waits for the end until the deadline (clock_mono_ns), then kills. */
void sandbox_wait(struct sandbox_child *c, int64_t deadline_ns, struct sandbox_status *ret);
/* Last 64 KiB of what it wrote on stderr, cleaned. Borrowed. */
const char *sandbox_stderr(struct sandbox_child *c);

/* In a child of SANDBOX_CC or SANDBOX_TRITON: a folder of its own, empty; "" in others. The supervisor removes it when the child has ended. */
const char *sandbox_scratch(void);
/*
 * In a child: from now on nothing but this folder can be opened, and only to read. For one that has opened what it needs and goes on to
 * work on text that asks for files. Where the kernel has no Landlock nothing changes.
 */
bool sandbox_narrow(const char *folder, struct err *err) MUST_CHECK;
/* In the child: the list of lock-downs, in order. argv of `PROGRAM child ROLE ...`. Returns the layers reached. */
bool sandbox_enter(int argc, char **argv, enum sandbox_role *ret_role, unsigned *ret_layers, struct err *err) MUST_CHECK;

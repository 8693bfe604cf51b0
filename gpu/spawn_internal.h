/*
 * What the files of the server's end share: the judge's process and its three pipes (spawn_process.c), the conversation with it
 * (spawn_talk.c). What is said belongs to spawn.c (a judgement) and spawn_ask.c (everything else that is asked). Not thread-safe: one
 * process and its conversation belong to the thread that started them.
 */
#pragma once
#include "gpu/spawn.h"
#include "gpu/wire.h"

#include <signal.h>
#include <sys/types.h>

#define SPAWN_TAIL_BYTES 8192
#define SPAWN_TERM_GRACE_NS ((int64_t)500 * 1000000)
#define SPAWN_MAX_BLOB_BYTES ((uint32_t)64 << 20)           /* PTX and cubins are far smaller */

struct spawn_tail { char text[SPAWN_TAIL_BYTES]; size_t size; };
struct spawn_process {
    pid_t pid;                  /* 0: none, or reaped */
    int in, out, err_fd;
    int status;                 /* of waitpid, once reaped */
    struct spawn_tail tail;
    sigset_t old_mask;
    bool masked;
};
#define SPAWN_NO_PROCESS {.in = -1, .out = -1, .err_fd = -1}

bool spawn_process_start(struct spawn_process *p, const struct spawn_config *c, const char *command, struct err *err) MUST_CHECK;
/* Kills the group and reaps; nothing where there is none. */
void spawn_process_end(struct spawn_process *p);
DEFINE_CLEANUP(spawn_process, struct spawn_process, spawn_process_end(it))
/* True once the process has been reaped. */
bool spawn_process_reap(struct spawn_process *p, int64_t deadline_ns) MUST_CHECK;
/* Reads what stderr holds. False at its end. */
bool spawn_process_drain(struct spawn_process *p);
/* Ends the process; what went wrong, how it ended and what it wrote, in front of *err's text. Always false. */
bool spawn_circumstances(struct spawn_process *p, const char *what, struct err *err);

/* What the judge said that it is at, for the one who waits for it (spawn_patience.c). */
struct spawn_patience {
    char phase[24];             /* "" before the first */
    int64_t phase_ns;           /* when it began */
    int64_t more_ns;            /* granted for the size of the tensors */
    int64_t line_ns;            /* since when it stands in line for a card; 0: it does not */
    int64_t waited_ns;          /* in line before */
};
struct spawn_talk {
    struct spawn_process *p;
    int64_t deadline_ns, limit_ns;      /* without what patience gives */
    struct spawn_patience patience;
    judge_cancelled *cancelled;
    void *ctx;
    struct wire_reader reader;
};
/* Takes what a progress frame says of time; false: it says nothing else, and is nobody else's. */
bool spawn_patience_take(struct spawn_talk *t, const json_t *phase);
/* Until when it is waited for, as things are. */
int64_t spawn_patience_deadline(const struct spawn_talk *t);
/* ERR_TIMEOUT: how long it was waited for, and for what. Always false. */
bool spawn_patience_ends(const struct spawn_talk *t, struct err *err);
/* The next frame; *ret_end where stdout ended between frames. Looks at stderr and at the caller's wish meanwhile. */
bool spawn_next_frame(struct spawn_talk *t, struct wire_frame *ret, bool *ret_end, struct err *err) MUST_CHECK;
bool spawn_exit_clean(struct spawn_process *p, struct err *err) MUST_CHECK;

static inline bool spawn_positive(const json_t *v)
{
    return json_is_number(v) && json_number_value(v) > 0 && json_number_value(v) < 1e18;
}

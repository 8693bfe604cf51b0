/*
 * The supervisor's end of a child: start, ask, take the answer, end. Asking and taking are apart, so that children work at the
 * same time. Every wait has a deadline and looks at the caller's wish to cancel.
 *
 * A child that ends or falls silent is examined (child_end_cause): wait status and clocks decide, what it wrote on stderr is
 * only quoted.
 */
#pragma once
#include "gpu/judge/judge.h"
#include "gpu/sandbox/sandbox.h"
#include "gpu/wire.h"

struct child_watch {                    /* shared by all children of a judgement */
    judge_cancelled_fn *cancelled;
    void *ctx;
    const char *level_needed;           /* of the sandbox: a child that reached less gets no work */
    int64_t compile_cpu_seconds;        /* 0: the table's */
    int64_t holes_bytes;                /* address space beyond the table's, of emulators and references that are started now: tensors that are mostly holes */
    unsigned layers;                    /* what all children so far reached */
    bool any;
    int asked;                          /* jobs that children have and have not answered */
    int64_t idle_since_ns, idle_ns;     /* time in which no child had any: the judge's own */
    json_t *card_spent;                 /* what the children with a card say that they took, in ns by job and by kind of work; owned; NULL: nothing yet */
};

struct child {
    struct sandbox_child process;
    enum sandbox_role role;
    const char *whose;                  /* "candidate", "baseline", "reference": for messages */
    struct sandbox_limits limits;
    bool alive, greeted;
    struct wire_reader reader;
    struct sandbox_status status;       /* once ended */
    bool silent;                        /* our deadline passed, not its limits */
    int64_t looked_ns, looked_cpu_ns;   /* a moment after it was last waited for, and its CPU time then; 0: it answered before */
    struct child_watch *watch;          /* where its unanswered jobs are counted */
    int asked;
    char job[16];                       /* what it was asked for last, and when: for messages */
    int64_t job_ns;
    uint64_t nonce;                     /* drawn when it was started: no two processes share one, as they may a pid */
};
/* Time since the watch began in which no child had anything to do: what the judge itself takes. */
int64_t child_idle_ns(const struct child_watch *w);

/* -1: no such level. */
int level_rank(const char *level);
bool child_start(struct child_watch *w, enum sandbox_role role, const char *whose, const struct sandbox_paths *paths,
                 const char *const *env, struct child *ret, struct err *err) MUST_CHECK;
/* Ends it if it lives. What it holds, and what was asked of it, stays for child_done: other threads may do this to other children. */
/* Whether child_take would find something: an answer, or its end. */
bool child_answered(const struct child *c);
void child_stop(struct child *c);
/* Ends it if it lives; releases what it holds. */
void child_done(struct child *c);
DEFINE_CLEANUP(child, struct child, child_done(it))

/* Sends a job; waits for the greeting first. False with ERR_UPSTREAM or ERR_TIMEOUT where the child is gone or deaf. */
bool child_ask(struct child_watch *w, struct child *c, const json_t *job, struct err *err) MUST_CHECK;
bool child_send_blob(struct child *c, const char *name, const void *data, size_t size, struct err *err) MUST_CHECK;
/* Takes the answer to the oldest job; new reference. A WIRE_ERROR frame is its failure: ours. */
bool child_take(struct child_watch *w, struct child *c, int64_t deadline_ns, json_t **ret, struct err *err) MUST_CHECK;
/* Takes a blob of exactly this size, or of any size up to the limit. */
bool child_take_blob(struct child_watch *w, struct child *c, int64_t deadline_ns, const char *name, void *to, size_t size, struct err *err) MUST_CHECK;
bool child_take_blob_buf(struct child_watch *w, struct child *c, int64_t deadline_ns, const char *name, size_t limit, struct buf *to, struct err *err) MUST_CHECK;

/*
 * After one of the above failed: ends the child and says whose fault it is. True: it is certainly the candidate's, *ret is a
 * verdict (timeout, resource_limit). False: ours, or not certain; *err is extended by how it ended.
 */
bool child_end_cause(struct child *c, const char *phase, struct verdict *ret, struct err *err);

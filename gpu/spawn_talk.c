/*
 * The conversation: the next frame of the judge's stdout, while stderr, the caller's wish to cancel and the deadline are looked at.
 * Nothing counts unless the process then ends with exit 0: an answer followed by a crash is a crash.
 */
#include "gpu/spawn_internal.h"
#include "core/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#define CANCEL_LOOK_NS ((int64_t)100 * 1000000)
#define EXIT_GRACE_NS ((int64_t)5000 * 1000000)       /* from the answer to the exit; a scheduler's wrapper needs some */

bool spawn_next_frame(struct spawn_talk *t, struct wire_frame *ret, bool *ret_end, struct err *err)
{
    *ret_end = false;
    for (;;) {
        enum wire_step step = wire_reader_step(&t->reader, t->p->out, ret, err);
        if (step == WIRE_FRAME)
            return true;
        if (step == WIRE_BAD)
            return false;
        if (step == WIRE_END) {
            *ret_end = true;
            return true;
        }
        if (t->cancelled && t->cancelled(t->ctx))
            return err_set(err, ERR_CONFLICT, "cancelled");
        const int64_t left = spawn_patience_deadline(t) - clock_mono_ns();
        if (left <= 0)
            return spawn_patience_ends(t, err);
        struct pollfd p[2] = {{.fd = t->p->out, .events = POLLIN}, {.fd = t->p->err_fd, .events = POLLIN}};
        int64_t wait_ns = left < CANCEL_LOOK_NS ? left : CANCEL_LOOK_NS;
        if (poll(p, 2, (int)(wait_ns / 1000000) + 1) < 0 && errno != EINTR)
            return err_errno(err, ERR_INTERNAL, "poll");
        if (p[1].revents && !spawn_process_drain(t->p))
            close(t->p->err_fd), t->p->err_fd = -1;
    }
}

bool spawn_exit_clean(struct spawn_process *p, struct err *err)
{
    if (!spawn_process_reap(p, clock_mono_ns() + EXIT_GRACE_NS))
        return err_set(err, ERR_UPSTREAM, "it answered, but did not end");
    if (!WIFEXITED(p->status) || WEXITSTATUS(p->status) != 0)
        return err_set(err, ERR_UPSTREAM, "it answered, but did not end well");
    return true;
}

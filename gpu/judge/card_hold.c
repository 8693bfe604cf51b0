/*
 * A card is held from before the first process of a judgement opens it until the last of them is gone: what runs there is stopped by then
 * and its memory given back. Between the two nobody else may be on it, so several judgements of one host share a file (--card-lock) that
 * the holder locks; what needs no card, compilers, the emulator, references and reading a task, goes on beside it. The kernel lets go
 * of the lock of a judge that dies.
 *
 * All of that time is what the judgement costs the card, also where the card waits for this process.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#define LOOK_NS ((int64_t)2 * 1000000)

static bool lock(struct judge *j, struct err *err)
{
    const char *path = j->config->card_lock;
    if (!path || !*path)
        return true;
    cleanup(fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, ERR_UNAVAILABLE, "the card's lock %s", path);
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_errno(err, ERR_UNAVAILABLE, "the card's lock %s", path);
        if (j->watch.cancelled && j->watch.cancelled(j->watch.ctx))
            return err_set(err, ERR_CONFLICT, "cancelled");
        clock_sleep_ns(LOOK_NS);
    }
    j->card_fd = fd;
    fd = -1;
    return true;
}

bool card_take(struct judge *j, struct err *err)
{
    if (j->card_held)
        return true;
    const int64_t from_ns = clock_mono_ns();
    if (!lock(j, err))
        return false;
    j->card_held = true;
    j->card_counted_ns = clock_mono_ns();
    j->card_waited_ns += j->card_counted_ns - from_ns;
    return true;
}

void card_count(struct judge *j)
{
    const int64_t now_ns = clock_mono_ns();
    if (!j->card_held)
        return;
    j->gpu_ns += now_ns - j->card_counted_ns;
    j->card_counted_ns = now_ns;
}

void card_release(struct judge *j)
{
    for (int i = 0; i < SIDES; i++)
        if (j->sides[i].run.role == SANDBOX_RUN_CUDA)
            child_done(&j->sides[i].run);
    card_count(j);
    if (j->card_fd >= 0)
        close(j->card_fd);
    j->card_fd = -1;
    j->card_held = false;
}

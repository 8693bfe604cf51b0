#include "gpu/card_turn.h"

#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define LOOK_NS ((int64_t)2 * 1000000)

bool card_turn_wait(const char *path, card_turn_cancelled *cancelled, void *ctx, int *ret_fd, struct err *err)
{
    *ret_fd = -1;
    if (!path || !*path)
        return true;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, ERR_UNAVAILABLE, "the card's lock %s", path);
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const bool unusable = errno != EWOULDBLOCK && errno != EINTR;
        if (unusable || (cancelled && cancelled(ctx))) {
            (void)(unusable ? err_errno(err, ERR_UNAVAILABLE, "the card's lock %s", path) : err_set(err, ERR_CONFLICT, "cancelled"));
            close(fd);
            return false;
        }
        clock_sleep_ns(LOOK_NS);
    }
    *ret_fd = fd;
    return true;
}

#include "gpu/card_turn.h"

#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define LOOK_NS ((int64_t)2 * 1000000)

/* A file that cannot be opened or locked at all is an error; *ret_fd -1 where there is none to lock. */
static bool open_lock(const char *path, int *ret_fd, struct err *err)
{
    *ret_fd = -1;
    if (!path || !*path)
        return true;
    *ret_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return *ret_fd >= 0 || err_errno(err, ERR_UNAVAILABLE, "the card's lock %s", path);
}

/* True: it is ours. False: it is another's (err is ERR_OK), or there is something wrong with it. */
static bool lock(int fd, const char *path, struct err *err)
{
    err->code = ERR_OK;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    return errno != EWOULDBLOCK && errno != EINTR ? err_errno(err, ERR_UNAVAILABLE, "the card's lock %s", path) : false;
}

bool card_turn_wait(const char *path, card_turn_cancelled *cancelled, void *ctx, int *ret_fd, struct err *err)
{
    struct err seen = {0};
    if (!open_lock(path, ret_fd, err))
        return false;
    while (*ret_fd >= 0 && !lock(*ret_fd, path, &seen)) {
        const bool stop = seen.code == ERR_OK && cancelled && cancelled(ctx);
        if (seen.code != ERR_OK || stop) {
            close(*ret_fd);
            *ret_fd = -1;
            return stop ? err_set(err, ERR_CONFLICT, "cancelled") : err_set(err, seen.code, "%s", seen.text);
        }
        clock_sleep_ns(LOOK_NS);
    }
    return true;
}

bool card_turn_try(const char *path, int *ret_fd, struct err *err)
{
    struct err seen = {0};
    if (!open_lock(path, ret_fd, err) || *ret_fd < 0 || lock(*ret_fd, path, &seen))
        return *ret_fd >= 0 || !path || !*path;
    close(*ret_fd);
    *ret_fd = -1;
    return seen.code != ERR_OK ? err_set(err, seen.code, "%s", seen.text) : err_set(err, ERR_CONFLICT, "somebody else has the card of %s", path);
}

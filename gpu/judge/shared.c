#include "gpu/judge/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define PAGE ((size_t)4096)
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

size_t shared_layout(enum shared_what what, const struct op *op, const struct tensor *tensors,
                     size_t offsets[OP_MAX_TENSORS])
{
    size_t at = 0;
    for (int t = 0; t < op->tensor_count; t++) {
        enum op_role unwanted = what == SHARED_INPUTS ? OP_OUTPUT : OP_INPUT;
        size_t bytes = what == SHARED_DOUBLES ? (size_t)tensors[t].elements * (size_t)op_results(op) * sizeof(double) : (size_t)tensors[t].bytes;
        offsets[t] = at;
        if (op->tensors[t].role != unwanted)
            at += (bytes + PAGE - 1) / PAGE * PAGE;
    }
    return at ? at : PAGE;
}

void shared_done(struct shared *s)
{
    if (s->base)
        munmap(s->base, s->bytes);
    if (s->fd >= 0)
        close(s->fd);
    if (s->read_fd >= 0)
        close(s->read_fd);
    free(s->rows);
    *s = (struct shared)SHARED_NONE;
}

static bool map(struct shared *s, bool writable, struct err *err)
{
    /* Populated at once: a page fault for each 4 KiB costs more than the work on them, most of all in virtual machines. */
    void *base = mmap(NULL, s->bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_POPULATE, s->fd, 0);
    if (base == MAP_FAILED)
        return err_errno(err, ERR_NO_SPACE, "cannot map %zu bytes of tensors", s->bytes);
    s->base = base;
    return true;
}

bool shared_make(enum shared_what what, const struct op *op, const struct tensor *tensors, struct shared *ret,
                 struct err *err)
{
    struct shared s = SHARED_NONE;
    char path[64];
    s.bytes = shared_layout(what, op, tensors, s.offsets);
    s.fd = memfd_create("tensors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool ok =
        s.fd >= 0 && ftruncate(s.fd, (off_t)s.bytes) == 0 && fcntl(s.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
    if (!ok)
        err_errno(err, ERR_NO_SPACE, "%zu bytes of shared memory for tensors", s.bytes);
    ok = ok && map(&s, true, err);
    if (ok && what == SHARED_INPUTS) {
        /* Our mapping stays writable; no one gets another. Old kernels lack the seal: the read-only descriptor does the same. */
        (void)fcntl(s.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
        snprintf(path, sizeof path, "/proc/self/fd/%d", s.fd);
        s.read_fd = open(path, O_RDONLY | O_CLOEXEC);
        if (s.read_fd < 0)
            ok = err_errno(err, ERR_INTERNAL, "open shared memory for reading");
    }
    if (!ok) {
        shared_done(&s);
        return false;
    }
    *ret = s;
    return true;
}

bool shared_send(int socket, const struct shared *s, bool writable, struct err *err)
{
    char byte = 'm';
    union { struct cmsghdr head; char space[CMSG_SPACE(sizeof(int))]; } control;
    memset(&control, 0, sizeof control);
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    int fd = writable ? s->fd : s->read_fd;
    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    for (int attempt = 0; attempt < 100; attempt++) {
        ssize_t n = sendmsg(socket, &m, MSG_NOSIGNAL);
        if (n == 1)
            return true;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            (void)poll(&(struct pollfd){.fd = socket, .events = POLLOUT}, 1, 100);
        else if (n < 0 && errno != EINTR)
            break;
    }
    return err_errno(err, ERR_UPSTREAM, "hand over shared memory");
}

bool shared_receive(int socket, enum shared_what what, const struct op *op, const struct tensor *tensors,
                    struct shared *ret, struct err *err)
{
    char byte = 0;
    union { struct cmsghdr head; char space[CMSG_SPACE(sizeof(int))]; } control;
    memset(&control, 0, sizeof control);
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n;
    while ((n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        continue;
    struct cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&m) : NULL;
    if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)))
        return err_set(err, ERR_UPSTREAM, "no shared memory came");
    struct shared s = SHARED_NONE;
    struct stat st;
    memcpy(&s.fd, CMSG_DATA(c), sizeof s.fd);
    s.bytes = shared_layout(what, op, tensors, s.offsets);
    if (fstat(s.fd, &st) != 0 || (size_t)st.st_size != s.bytes) {
        shared_done(&s);
        return err_set(err, ERR_UPSTREAM, "shared memory of another size came");
    }
    if (!map(&s, what != SHARED_INPUTS, err)) {
        shared_done(&s);
        return false;
    }
    shared_done(ret);
    *ret = s;
    return true;
}

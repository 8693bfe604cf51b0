#include "gpu/judge/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define PAGE ((size_t)4096)
#define LARGE_BYTES ((size_t)8 << 20)      /* from here on large pages are asked for: less would waste most of one */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
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

/* Large pages can only be asked for before they are there. NULL: the host's kernel does not know how. */
static void *map_large(const struct shared *s, int protection)
{
    void *base = mmap(NULL, s->bytes, protection, MAP_SHARED, s->fd, 0);
    if (base == MAP_FAILED)
        return NULL;
    (void)madvise(base, s->bytes, MADV_HUGEPAGE);
    if (madvise(base, s->bytes, protection & PROT_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return base;
    munmap(base, s->bytes);
    return NULL;
}

static bool map(struct shared *s, bool writable, struct err *err)
{
    /* Populated at once: a page fault for each 4 KiB costs more than the work on them, most of all in virtual machines. */
    const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *base = s->bytes >= LARGE_BYTES ? map_large(s, protection) : NULL;
    if (!base)
        base = mmap(NULL, s->bytes, protection, MAP_SHARED | MAP_POPULATE, s->fd, 0);
    if (base == MAP_FAILED)
        return err_errno(err, ERR_NO_SPACE, "cannot map %zu bytes of tensors", s->bytes);
    s->base = base;
    return true;
}

/* The memory that is mapped already: it is sent again when its content has changed. */
static bool is_mapped(const struct shared *there, const struct stat *st)
{
    struct stat known;
    return there->base && fstat(there->fd, &known) == 0 && known.st_dev == st->st_dev && known.st_ino == st->st_ino
           && there->bytes == (size_t)st->st_size;
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
    if (is_mapped(ret, &st)) {
        close(s.fd);
        memcpy(ret->offsets, s.offsets, sizeof ret->offsets);
        return true;
    }
    if (!map(&s, what != SHARED_INPUTS, err)) {
        shared_done(&s);
        return false;
    }
    shared_done(ret);
    *ret = s;
    return true;
}

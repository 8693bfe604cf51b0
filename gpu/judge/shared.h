/*
 * Tensors between supervisor and child: memory that both map, handed over as a descriptor on the socket. Nothing is copied through
 * the socket. The size is sealed, so that no one can cut it short under the other's feet; what a child may only read, it cannot
 * map for writing.
 *
 * A child can still change its outputs after it has answered: the supervisor copies them out once and judges the copy.
 */
#pragma once
#include "core/shape.h"

struct shared {
    int fd, read_fd;                    /* read_fd: the same memory, opened for reading only; -1 in a child */
    char *base;
    size_t bytes;
    size_t offsets[OP_MAX_TENSORS];     /* by tensor; page-aligned */
    int64_t *rows;                      /* where tensors are compact (held.h), of inputs: which rows these are. NULL: all */
};
#define SHARED_NONE {.fd = -1, .read_fd = -1}

/* Which tensors: the inputs and inouts, what a run gives (inouts, outputs), or the reference's doubles of those. */
enum shared_what { SHARED_INPUTS, SHARED_OUTPUTS, SHARED_DOUBLES };
size_t shared_layout(enum shared_what what, const struct op *op, const struct tensor *tensors, size_t offsets[OP_MAX_TENSORS]);

bool shared_make(enum shared_what what, const struct op *op, const struct tensor *tensors, struct shared *ret, struct err *err) MUST_CHECK;
void shared_done(struct shared *s);
/* Over a Unix socket, after the frame that announces it. The receiver's end maps it; writable only for outputs. */
bool shared_send(int socket, const struct shared *s, bool writable, struct err *err) MUST_CHECK;
bool shared_receive(int socket, enum shared_what what, const struct op *op, const struct tensor *tensors, struct shared *ret, struct err *err) MUST_CHECK;

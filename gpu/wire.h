/*
 * Frames on a pipe or socket: {u32 length, u16 type, u16 version} little-endian, then `length` bytes: JSON or raw.
 *
 * A frame longer than the limit, an unknown type or version: an error, and the pipe is of no more use. The reader never trusts
 * the other end: lengths are bounded before anything is allocated, and a deadline bounds every wait.
 */
#pragma once
#include "core/json.h"

#define WIRE_VERSION 1
#define WIRE_MAX_JSON_BYTES ((uint32_t)8 << 20)
#define WIRE_MAX_BLOB_BYTES ((uint32_t)1 << 30)

/* X(code, number, name, JSON?) */
#define WIRE_TABLE(X)                                                                                   \
    X(WIRE_HELLO, 1, "hello", true)          /* child or judge: version, sandbox layers, device */       \
    X(WIRE_JUDGE, 2, "judge", true)          /* server to judge: one task */                             \
    X(WIRE_PHASE, 3, "phase", true)          /* judge to server: progress */                             \
    X(WIRE_VERDICT, 4, "verdict", true)      /* judge to server: the answer; blobs came before */        \
    X(WIRE_BLOB_NAME, 5, "blob_name", true)  /* {"name"}: the next frame is its content */               \
    X(WIRE_BLOB, 6, "blob", false)                                                                       \
    X(WIRE_ERROR, 7, "error", true)          /* {"code","text"}: a failure of ours */                    \
    X(WIRE_DEVICES, 8, "devices", true)                                                                  \
    X(WIRE_JOB, 9, "job", true)              /* supervisor to child: what to do next */                  \
    X(WIRE_RESULT, 10, "result", true)       /* child to supervisor */                                   \
    X(WIRE_CANCEL, 11, "cancel", true)                                                                   \
    X(WIRE_BYE, 12, "bye", true)

enum wire_type {
#define X(code, number, name, is_json) code = number,
    WIRE_TABLE(X)
#undef X
};
const char *wire_name(enum wire_type type);

struct wire_frame { enum wire_type type; json_t *json; struct buf blob; };   /* json or blob by the type */
void wire_frame_done(struct wire_frame *f);
DEFINE_CLEANUP(wire_frame, struct wire_frame, wire_frame_done(it))

bool wire_send_json(int fd, enum wire_type type, const json_t *doc, struct err *err) MUST_CHECK;
/* A named blob: WIRE_BLOB_NAME, then WIRE_BLOB. */
bool wire_send_blob(int fd, const char *name, const void *data, size_t size, struct err *err) MUST_CHECK;
/* Reads one frame. ERR_TIMEOUT past deadline_ns (clock_mono_ns; 0: none), ERR_UPSTREAM for the end of the pipe or garbage. */
bool wire_receive(int fd, int64_t deadline_ns, struct wire_frame *ret, struct err *err) MUST_CHECK;

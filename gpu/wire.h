/*
 * Frames on a pipe or socket: {u32 length, u16 type, u16 version} little-endian, then `length` bytes: JSON or raw.
 *
 * A frame longer than the limit, an unknown type or version: an error, and the pipe is of no more use. The reader never trusts
 * the other end: lengths are bounded before anything is allocated, memory grows with the bytes that really arrive, and a
 * deadline bounds every wait. Writing to a pipe whose other end is gone is ERR_UPSTREAM where SIGPIPE is ignored or blocked.
 */
#pragma once
#include "core/json.h"

#define WIRE_VERSION 1
#define WIRE_HEAD_BYTES 8
#define WIRE_MAX_JSON_BYTES ((uint32_t)8 << 20)
#define WIRE_MAX_BLOB_BYTES ((uint32_t)3 << 30)     /* a tensor; a reader may ask for less */
#define WIRE_MAX_NAME 63                            /* of a blob: [A-Za-z0-9._-], not starting with a dot */

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

/*
 * Sending: all of the frame, by deadline_ns (clock_mono_ns; 0: none). The deadline holds only where the descriptor is
 * non-blocking. ERR_TIMEOUT, ERR_UPSTREAM (the other end is gone), ERR_TOO_LARGE (nothing was sent).
 */
bool wire_send_json_by(int fd, enum wire_type type, const json_t *doc, int64_t deadline_ns, struct err *err) MUST_CHECK;
/* A named blob: WIRE_BLOB_NAME, then WIRE_BLOB. */
bool wire_send_blob_by(int fd, const char *name, const void *data, size_t size, int64_t deadline_ns, struct err *err) MUST_CHECK;
bool wire_send_json(int fd, enum wire_type type, const json_t *doc, struct err *err) MUST_CHECK;
bool wire_send_blob(int fd, const char *name, const void *data, size_t size, struct err *err) MUST_CHECK;

/* A frame as it arrives, for those who wait for several things at once. {0} is a reader at the start of a frame. */
struct wire_reader {
    uint32_t max_blob_bytes;            /* 0: WIRE_MAX_BLOB_BYTES */
    unsigned char head[WIRE_HEAD_BYTES];
    size_t head_bytes;
    struct buf body;
    void *into; size_t into_bytes;      /* where set: the next blob must have exactly this size and goes there, not to `body` */
};
void wire_reader_done(struct wire_reader *r);
DEFINE_CLEANUP(wire_reader, struct wire_reader, wire_reader_done(it))
enum wire_step {
    WIRE_MORE,          /* nothing complete yet: wait until readable */
    WIRE_FRAME,         /* *ret holds a frame; the caller owns it */
    WIRE_END,           /* the pipe ended between two frames */
    WIRE_BAD            /* err says why; of no more use */
};
/* Reads once (blocks only if the descriptor blocks and holds nothing). */
enum wire_step wire_reader_step(struct wire_reader *r, int fd, struct wire_frame *ret, struct err *err) MUST_CHECK;

/* Reads one frame. ERR_TIMEOUT past deadline_ns (clock_mono_ns; 0: none), ERR_UPSTREAM for the end of the pipe or garbage. */
bool wire_receive(int fd, int64_t deadline_ns, struct wire_frame *ret, struct err *err) MUST_CHECK;
/* Reads the blob of that name into `to`; any other frame, name or size is ERR_UPSTREAM (a WIRE_ERROR frame is handed on). */
bool wire_receive_blob(int fd, int64_t deadline_ns, const char *name, void *to, size_t size, struct err *err) MUST_CHECK;
/* As above, of any size up to the limit, into a buffer. */
bool wire_receive_blob_buf(int fd, int64_t deadline_ns, const char *name, size_t limit_bytes, struct buf *to, struct err *err) MUST_CHECK;
/* A frame must be of this type; a WIRE_ERROR frame becomes its err, anything else ERR_UPSTREAM. */
bool wire_expect(const struct wire_frame *f, enum wire_type type, struct err *err) MUST_CHECK;
bool wire_blob_name_valid(const char *name);
/* {"code","text"} of an error, and back; text from the other end is cleaned and cut. */
json_t *wire_error_encode(const struct err *e);
void wire_error_decode(const json_t *doc, struct err *ret);

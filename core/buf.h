/*
 * A growable byte buffer with a limit, and small allocation and file helpers.
 *
 * Invariants: data[size] is always a NUL while data is not NULL; size <= limit. {0} is an empty buffer with the default limit.
 * Running out of memory is fatal (the process restarts; everything that matters is in the store); passing the limit is not:
 * appending then cuts and sets `overflow`. Not thread-safe.
 */
#pragma once
#include "core/cleanup.h"
#include "core/err.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define BUF_DEFAULT_LIMIT_BYTES ((size_t)1 << 30)

struct buf {
    char *data;
    size_t size;
    size_t capacity;
    size_t limit;    /* 0: BUF_DEFAULT_LIMIT_BYTES */
    bool overflow;   /* something did not fit and was cut */
};

void buf_done(struct buf *b);
void buf_clear(struct buf *b);                                   /* empty, keeps the memory */
void buf_add(struct buf *b, const void *data, size_t size);
void buf_str(struct buf *b, const char *text);
void buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vfmt(struct buf *b, const char *fmt, va_list ap);
/* Room for `size` more bytes to be written at the returned pointer; then buf_grew. NULL past the limit. */
void *buf_room(struct buf *b, size_t size);
void buf_grew(struct buf *b, size_t size);
/* The content; the caller owns it (free), the buffer is empty afterwards. Never NULL. */
char *buf_take(struct buf *b);
const char *buf_cstr(const struct buf *b);                       /* "" when empty; borrowed */

DEFINE_CLEANUP(buf, struct buf, buf_done(it))

void *xalloc(size_t bytes);                                      /* zeroed; never NULL, aborts */
/* Not zeroed, on large pages where the kernel has them: for tensors of megabytes, whose page faults cost more than the work. free(). */
void *xalloc_large(size_t bytes);
void *xarray(size_t count, size_t item_bytes);                   /* zeroed, checked product */
void *xrealloc(void *p, size_t bytes);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t size);
char *xfmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Reads a whole file. ERR_NOT_FOUND when it does not exist, ERR_TOO_LARGE past limit_bytes. */
bool file_read(const char *path, size_t limit_bytes, struct buf *ret, struct err *err) MUST_CHECK;
/* Writes atomically: temporary beside it, fsync, rename, fsync of the folder. */
bool file_write(const char *path, const void *data, size_t size, unsigned mode, struct err *err) MUST_CHECK;
bool dir_make(const char *path, unsigned mode, struct err *err) MUST_CHECK;   /* mkdir -p */
/* The folder of the running program, without a slash at the end; the caller frees. */
char *self_dir(void);
/* Writes or reads exactly `size` bytes, restarting after signals. A read that ends early is ERR_UPSTREAM. */
bool fd_write_all(int fd, const void *data, size_t size, struct err *err) MUST_CHECK;
bool fd_read_all(int fd, void *data, size_t size, struct err *err) MUST_CHECK;

/* Copies text with every byte sequence that is not UTF-8, and every control character (C0 but \n and \t, DEL, C1, and those that
 * turn the direction of text), as U+FFFD. */
void utf8_clean(struct buf *to, const char *text, size_t size);
/*
 * The same, and what has no glyph too (tags, joiners, selectors, other line ends): for texts that programs read and people should see as they do.
 */
void utf8_clean_visible(struct buf *to, const char *text, size_t size);
bool utf8_valid(const char *text, size_t size);

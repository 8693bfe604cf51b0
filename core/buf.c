#include "core/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static _Noreturn void out_of_memory(size_t bytes)
{
    fprintf(stderr, "out of memory: %zu bytes\n", bytes);
    abort();
}

void *xalloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    return p;
}

#define LARGE_PAGE_BYTES ((size_t)2 << 20)

void *xalloc_large(size_t bytes)
{
    if (bytes < LARGE_PAGE_BYTES / 2)
        return xrealloc(NULL, bytes);
    size_t whole;
    BUG_ON(__builtin_add_overflow(bytes, LARGE_PAGE_BYTES - 1, &whole));
    whole &= ~(LARGE_PAGE_BYTES - 1);
    void *p = aligned_alloc(LARGE_PAGE_BYTES, whole);
    if (!p)
        out_of_memory(bytes);
    (void)!madvise(p, whole, MADV_HUGEPAGE);   /* a wish: without large pages it is only slower */
    return p;
}

void *xarray(size_t count, size_t item_bytes)
{
    size_t bytes;
    BUG_ON(__builtin_mul_overflow(count, item_bytes, &bytes));
    return xalloc(bytes);
}

void *xrealloc(void *p, size_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        out_of_memory(bytes);
    return q;
}

char *xstrndup(const char *text, size_t size)
{
    char *copy = xalloc(size + 1);
    memcpy(copy, text, size);
    return copy;
}

char *xstrdup(const char *text)
{
    return xstrndup(text, strlen(text));
}

char *xfmt(const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(&b, fmt, ap);
    va_end(ap);
    return buf_take(&b);
}

void buf_done(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.limit = b->limit};
}

void buf_clear(struct buf *b)
{
    b->size = 0;
    b->overflow = false;
    if (b->data)
        b->data[0] = 0;
}

static size_t room_left(const struct buf *b)
{
    size_t limit = b->limit ? b->limit : BUF_DEFAULT_LIMIT_BYTES;
    return limit - b->size;
}

void *buf_room(struct buf *b, size_t size)
{
    if (size > room_left(b)) {
        b->overflow = true;
        return NULL;
    }
    size_t need = b->size + size + 1;
    if (need > b->capacity) {
        size_t capacity = b->capacity ? b->capacity : 64;
        while (capacity < need)
            capacity *= 2;
        b->data = xrealloc(b->data, capacity);
        b->capacity = capacity;
        b->data[b->size] = 0;
    }
    return b->data + b->size;
}

void buf_grew(struct buf *b, size_t size)
{
    BUG_ON(b->size + size >= b->capacity);
    b->size += size;
    b->data[b->size] = 0;
}

void buf_add(struct buf *b, const void *data, size_t size)
{
    size_t left = room_left(b);
    bool cut = size > left;
    if (cut)
        size = left;
    char *at = buf_room(b, size);
    if (size)
        memcpy(at, data, size);
    buf_grew(b, size);
    if (cut)
        b->overflow = true;
}

void buf_str(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_vfmt(struct buf *b, const char *fmt, va_list ap)
{
    char small[512];
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    BUG_ON(n < 0);
    if ((size_t)n < sizeof small) {
        buf_add(b, small, (size_t)n);
    } else {
        char *large = xalloc((size_t)n + 1);
        vsnprintf(large, (size_t)n + 1, fmt, again);
        buf_add(b, large, (size_t)n);
        free(large);
    }
    va_end(again);
}

void buf_fmt(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(b, fmt, ap);
    va_end(ap);
}

char *buf_take(struct buf *b)
{
    char *data = b->data ? b->data : xalloc(1);
    b->data = NULL;
    buf_done(b);
    return data;
}

const char *buf_cstr(const struct buf *b)
{
    return b->data ? b->data : "";
}

bool fd_write_all(int fd, const void *data, size_t size, struct err *err)
{
    const char *at = data;
    while (size) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, ERR_UPSTREAM, "write of %zu bytes", size);
        at += n;
        size -= (size_t)n;
    }
    return true;
}

bool fd_read_all(int fd, void *data, size_t size, struct err *err)
{
    char *at = data;
    while (size) {
        ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, ERR_UPSTREAM, "read of %zu bytes", size);
        if (n == 0)
            return err_set(err, ERR_UPSTREAM, "the other end closed with %zu bytes still to come", size);
        at += n;
        size -= (size_t)n;
    }
    return true;
}

bool file_read(const char *path, size_t limit_bytes, struct buf *ret, struct err *err)
{
    cleanup(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL, "%s", path);
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_errno(err, ERR_INTERNAL, "%s", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "%s is a folder, a file is needed", path);
    cleanup(buf) struct buf b = {.limit = limit_bytes + 1};
    for (;;) {
        char chunk[65536];
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, ERR_INTERNAL, "%s", path);
        if (n == 0)
            break;
        buf_add(&b, chunk, (size_t)n);
        if (b.size > limit_bytes)
            return err_set(err, ERR_TOO_LARGE, "%s is larger than %zu bytes", path, limit_bytes);
    }
    buf_room(&b, 0);
    buf_done(ret);
    *ret = b;
    b = (struct buf){0};
    return true;
}

bool file_write(const char *path, const void *data, size_t size, unsigned mode, struct err *err)
{
    cleanup(str) char *temp = xfmt("%s.tmp.%d", path, (int)getpid());
    cleanup(fd) int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return err_errno(err, ERR_INTERNAL, "%s", temp);
    if (!fd_write_all(fd, data, size, err) || fsync(fd) != 0 || rename(temp, path) != 0) {
        (void)err_errno(err, ERR_INTERNAL, "%s", path);
        unlink(temp);
        return false;
    }
    cleanup(str) char *folder = xstrdup(path);
    char *slash = strrchr(folder, '/');
    if (slash == folder)
        slash[1] = 0;
    else if (slash)
        *slash = 0;
    cleanup(fd) int dir_fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 || fsync(dir_fd) != 0)
        return err_errno(err, ERR_INTERNAL, "%s", folder);
    return true;
}

bool dir_make(const char *path, unsigned mode, struct err *err)
{
    cleanup(str) char *copy = xstrdup(path);
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char saved = *p;
        *p = 0;
        if (mkdir(copy, mode) != 0 && errno != EEXIST)
            return err_errno(err, ERR_INTERNAL, "%s", copy);
        *p = saved;
        if (!saved)
            break;
    }
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return err_set(err, ERR_INTERNAL, "%s is not a folder", path);
    return true;
}

char *self_dir(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    BUG_ON(n <= 0);
    path[n] = 0;
    char *slash = strrchr(path, '/');
    BUG_ON(!slash);
    *slash = 0;
    return xstrdup(path);
}

/* Length of the well-formed UTF-8 sequence at p (RFC 3629: no surrogates, no overlong forms), 0 if there is none. */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xc2 && p[0] <= 0xdf ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : 0;
    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* Controls: C0 but tab and newline, DEL, C1, and what turns the direction of text: a line must not look like another one. */
static bool utf8_control(const unsigned char *p, size_t n)
{
    if (n == 1)
        return (p[0] < 0x20 || p[0] == 0x7f) && p[0] != '\n' && p[0] != '\t';
    if (n == 2)
        return p[0] == 0xc2 && p[1] < 0xa0;                                                  /* U+0080 to U+009F */
    if (n != 3 || p[0] != 0xe2)
        return false;
    return (p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xaa && p[2] <= 0xae))) /* U+200E/F, U+202A to U+202E */
           || (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);                                 /* U+2066 to U+2069 */
}

/* Code points without a glyph, which a language model reads all the same: letters can be spelled in U+E0000 to U+E007F, for one. */
static bool utf8_invisible(const unsigned char *p, size_t n)
{
    static const struct { uint32_t from, to; } ranges[] = {
        {0x00ad, 0x00ad}, {0x034f, 0x034f}, {0x061c, 0x061c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e},
        {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
    if (n < 2)
        return false;
    uint32_t c = *p & (0x7fu >> n);
    for (size_t k = 1; k < n; k++)
        c = c << 6 | (p[k] & 0x3fu);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i].from && c <= ranges[i].to)
            return true;
    return false;
}

static void clean(struct buf *to, const char *text, size_t size, bool visible)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        size_t n = utf8_sequence(p + i, size - i);
        if (!n || utf8_control(p + i, n) || (visible && utf8_invisible(p + i, n)))
            buf_str(to, "\xef\xbf\xbd");
        else
            buf_add(to, p + i, n);
        i += n ? n : 1;
    }
}

void utf8_clean(struct buf *to, const char *text, size_t size)
{
    clean(to, text, size, false);
}

void utf8_clean_visible(struct buf *to, const char *text, size_t size)
{
    clean(to, text, size, true);
}

bool utf8_valid(const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        size_t n = utf8_sequence(p + i, size - i);
        if (!n)
            return false;
        i += n;
    }
    return true;
}

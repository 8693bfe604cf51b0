/*
 * Theory: one reader, wire_reader_step, takes whatever one read() gives and keeps what is incomplete; the blocking calls are a
 * poll() around it. A body's memory grows as its bytes arrive (at most doubled each time), so a header that promises 3 GiB
 * costs 64 KiB until it delivers. JSON is parsed only when whole, by the bounded parser of core/json.h.
 */
#include "gpu/wire.h"
#include "core/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>

#define FIRST_ROOM_BYTES ((size_t)64 << 10)
#define MOST_READ_BYTES ((size_t)4 << 20)

static const struct { enum wire_type type; const char *name; bool is_json; } types[] = {
#define X(code, number, name, is_json) {code, name, is_json},
    WIRE_TABLE(X)
#undef X
};

static int type_index(unsigned type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((unsigned)types[i].type == type)
            return (int)i;
    return -1;
}

const char *wire_name(enum wire_type type)
{
    int i = type_index(type);
    return i < 0 ? "unknown" : types[i].name;
}

void wire_frame_done(struct wire_frame *f)
{
    json_decref(f->json);
    f->json = NULL;
    buf_done(&f->blob);
}

void wire_reader_done(struct wire_reader *r)
{
    buf_done(&r->body);
    r->head_bytes = 0;
}

bool wire_blob_name_valid(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strlen(name);
    return n > 0 && n <= WIRE_MAX_NAME && name[0] != '.' && strspn(name, allowed) == n;
}

/* ---- sending ---- */

static bool wait_for(int fd, short what, int64_t deadline_ns, struct err *err)
{
    for (;;) {
        int ms = -1;
        if (deadline_ns) {
            int64_t left = deadline_ns - clock_mono_ns();
            if (left <= 0)
                return err_set(err, ERR_TIMEOUT, "the other end did not %s in time",
                               what == POLLIN ? "send" : "take a frame");
            ms = left > 1000000000 ? 1000 : (int)(left / 1000000) + 1;
        }
        struct pollfd p = {.fd = fd, .events = what};
        int n = poll(&p, 1, ms);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return err_errno(err, ERR_INTERNAL, "poll");
    }
}

static bool write_vector(int fd, struct iovec *v, int count, int64_t deadline_ns, struct err *err)
{
    while (count) {
        if (!v->iov_len) {
            v++, count--;
            continue;
        }
        ssize_t n = writev(fd, v, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!wait_for(fd, POLLOUT, deadline_ns, err))
                return false;
            continue;
        }
        if (n < 0)
            return err_errno(err, errno == EPIPE || errno == ECONNRESET ? ERR_UPSTREAM : ERR_INTERNAL,
                             "cannot send a frame");
        for (size_t left = (size_t)n; left;) {
            size_t part = left < v->iov_len ? left : v->iov_len;
            v->iov_base = (char *)v->iov_base + part;
            v->iov_len -= part;
            left -= part;
            if (!v->iov_len)
                v++, count--;
        }
    }
    return true;
}

static void head_fill(unsigned char *head, uint32_t length, unsigned type)
{
    for (int i = 0; i < 4; i++)
        head[i] = (unsigned char)(length >> (8 * i));
    head[4] = (unsigned char)type, head[5] = (unsigned char)(type >> 8);
    head[6] = WIRE_VERSION, head[7] = 0;
}

static bool send_frame(int fd, enum wire_type type, const void *data, size_t size, int64_t deadline_ns, struct err *err)
{
    unsigned char head[WIRE_HEAD_BYTES];
    head_fill(head, (uint32_t)size, type);
    struct iovec v[2] = {{head, sizeof head}, {(void *)(uintptr_t)data, size}};
    return write_vector(fd, v, 2, deadline_ns, err);
}

bool wire_send_json_by(int fd, enum wire_type type, const json_t *doc, int64_t deadline_ns, struct err *err)
{
    cleanup(buf) struct buf text = {.limit = WIRE_MAX_JSON_BYTES};
    json_write(&text, doc);
    if (text.overflow)
        return err_set(err, ERR_TOO_LARGE, "a %s frame is over %u bytes", wire_name(type), WIRE_MAX_JSON_BYTES);
    return send_frame(fd, type, text.data, text.size, deadline_ns, err);
}

bool wire_send_blob_by(int fd, const char *name, const void *data, size_t size, int64_t deadline_ns, struct err *err)
{
    BUG_ON(!wire_blob_name_valid(name));
    if (size > WIRE_MAX_BLOB_BYTES)
        return err_set(err, ERR_TOO_LARGE, "%s has %zu bytes, the limit is %u", name, size, WIRE_MAX_BLOB_BYTES);
    cleanup(json) json_t *doc = json_pack("{s:s}", "name", name);
    return wire_send_json_by(fd, WIRE_BLOB_NAME, doc, deadline_ns, err)
           && send_frame(fd, WIRE_BLOB, data, size, deadline_ns, err);
}

bool wire_send_json(int fd, enum wire_type type, const json_t *doc, struct err *err)
{
    return wire_send_json_by(fd, type, doc, 0, err);
}

bool wire_send_blob(int fd, const char *name, const void *data, size_t size, struct err *err)
{
    return wire_send_blob_by(fd, name, data, size, 0, err);
}

/* ---- receiving ---- */

static uint32_t head_length(const unsigned char *h)
{
    return (uint32_t)h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 24;
}

static bool head_check(const struct wire_reader *r, struct err *err)
{
    unsigned type = (unsigned)r->head[4] | (unsigned)r->head[5] << 8,
             version = (unsigned)r->head[6] | (unsigned)r->head[7] << 8;
    uint32_t length = head_length(r->head);
    int i = type_index(type);
    if (version != WIRE_VERSION || i < 0)
        return err_set(err, ERR_UPSTREAM, "garbage instead of a frame: type %u, version %u", type, version);
    uint32_t most = types[i].is_json ? WIRE_MAX_JSON_BYTES : r->max_blob_bytes ? r->max_blob_bytes : WIRE_MAX_BLOB_BYTES;
    if (length > most)
        return err_set(err, ERR_UPSTREAM, "a %s frame promises %u bytes, the limit is %u", types[i].name, length, most);
    if (!types[i].is_json && r->into && length != r->into_bytes)
        return err_set(err, ERR_UPSTREAM, "a blob has %u bytes, %zu were due", length, r->into_bytes);
    return true;
}

static bool frame_finish(struct wire_reader *r, struct wire_frame *ret, struct err *err)
{
    int i = type_index((unsigned)r->head[4] | (unsigned)r->head[5] << 8);
    struct wire_frame f = {.type = types[i].type};
    if (types[i].is_json) {
        struct err inner = {0};
        if (!json_parse(buf_cstr(&r->body), r->body.size, &f.json, &inner))
            return err_set(err, ERR_UPSTREAM, "a %s frame is not JSON: %s", types[i].name, inner.text);
        buf_done(&r->body);
    } else if (!r->into) {
        f.blob = r->body;
    }
    r->body = (struct buf){0};
    r->head_bytes = 0;
    *ret = f;
    return true;
}

/* Where the next bytes go: the rest of the head, of the caller's memory, or of the growing body. */
static void *next_room(struct wire_reader *r, size_t *ret_size)
{
    if (r->head_bytes < WIRE_HEAD_BYTES) {
        *ret_size = WIRE_HEAD_BYTES - r->head_bytes;
        return r->head + r->head_bytes;
    }
    size_t left = head_length(r->head) - r->body.size;
    if (r->into && r->head[4] == WIRE_BLOB) {
        *ret_size = left < MOST_READ_BYTES ? left : MOST_READ_BYTES;
        return (char *)r->into + r->body.size;
    }
    size_t room = r->body.size > FIRST_ROOM_BYTES ? r->body.size : FIRST_ROOM_BYTES;
    room = room < MOST_READ_BYTES ? room : MOST_READ_BYTES;
    *ret_size = left < room ? left : room;
    r->body.limit = (size_t)WIRE_MAX_BLOB_BYTES + 1;
    return buf_room(&r->body, *ret_size);
}

enum wire_step wire_reader_step(struct wire_reader *r, int fd, struct wire_frame *ret, struct err *err)
{
    size_t size = 0;
    void *room = next_room(r, &size);
    BUG_ON(!room);
    ssize_t n = size ? read(fd, room, size) : 0;
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
        return WIRE_MORE;
    if (n < 0) {
        err_errno(err, ERR_UPSTREAM, "cannot read a frame");
        return WIRE_BAD;
    }
    if (size && !n) {
        if (!r->head_bytes)
            return WIRE_END;
        err_set(err, ERR_UPSTREAM, "the pipe ended in the middle of a frame");
        return WIRE_BAD;
    }
    if (r->head_bytes < WIRE_HEAD_BYTES) {
        r->head_bytes += (size_t)n;
        if (r->head_bytes == WIRE_HEAD_BYTES && !head_check(r, err))
            return WIRE_BAD;
    } else if (r->into && r->head[4] == WIRE_BLOB) {
        r->body.size += (size_t)n;      /* counts; the bytes are the caller's */
    } else {
        buf_grew(&r->body, (size_t)n);
    }
    if (r->head_bytes < WIRE_HEAD_BYTES || r->body.size < head_length(r->head))
        return WIRE_MORE;
    return frame_finish(r, ret, err) ? WIRE_FRAME : WIRE_BAD;
}

static bool receive_with(struct wire_reader *r, int fd, int64_t deadline_ns, struct wire_frame *ret, struct err *err)
{
    for (;;) {
        /* An empty body needs no bytes: do not wait for any. */
        bool empty_body = r->head_bytes == WIRE_HEAD_BYTES && head_length(r->head) == r->body.size;
        if (!empty_body && !wait_for(fd, POLLIN, deadline_ns, err))
            return false;
        switch (wire_reader_step(r, fd, ret, err)) {
        case WIRE_MORE:
            continue;
        case WIRE_FRAME:
            return true;
        case WIRE_END:
            return err_set(err, ERR_UPSTREAM, "the pipe ended");
        case WIRE_BAD:
            return false;
        }
    }
}

bool wire_receive(int fd, int64_t deadline_ns, struct wire_frame *ret, struct err *err)
{
    cleanup(wire_reader) struct wire_reader r = {0};
    return receive_with(&r, fd, deadline_ns, ret, err);
}

bool wire_expect(const struct wire_frame *f, enum wire_type type, struct err *err)
{
    if (f->type == type)
        return true;
    if (f->type != WIRE_ERROR)
        return err_set(err, ERR_UPSTREAM, "a %s frame came where %s was due", wire_name(f->type), wire_name(type));
    struct err theirs = {0};
    wire_error_decode(f->json, &theirs);
    return err_set(err, theirs.code, "%s", theirs.text);
}

static bool receive_name(int fd, int64_t deadline_ns, const char *name, struct err *err)
{
    cleanup(wire_frame) struct wire_frame f = {0};
    if (!wire_receive(fd, deadline_ns, &f, err) || !wire_expect(&f, WIRE_BLOB_NAME, err))
        return false;
    if (strcmp(json_str(f.json, "name", ""), name) != 0)
        return err_set(err, ERR_UPSTREAM, "another blob came where %s was due", name);
    return true;
}

bool wire_receive_blob(int fd, int64_t deadline_ns, const char *name, void *to, size_t size, struct err *err)
{
    char none;
    struct wire_reader r = {.into = size ? to : &none, .into_bytes = size};
    struct wire_frame f = {0};
    bool ok = receive_name(fd, deadline_ns, name, err) && receive_with(&r, fd, deadline_ns, &f, err)
              && wire_expect(&f, WIRE_BLOB, err);
    wire_reader_done(&r);
    wire_frame_done(&f);
    return ok;
}

bool wire_receive_blob_buf(int fd, int64_t deadline_ns, const char *name, size_t limit_bytes, struct buf *to,
                           struct err *err)
{
    cleanup(wire_frame) struct wire_frame f = {0};
    cleanup(wire_reader) struct wire_reader r = {
        .max_blob_bytes = limit_bytes < WIRE_MAX_BLOB_BYTES ? (uint32_t)limit_bytes : WIRE_MAX_BLOB_BYTES};
    if (!receive_name(fd, deadline_ns, name, err) || !receive_with(&r, fd, deadline_ns, &f, err)
        || !wire_expect(&f, WIRE_BLOB, err))
        return false;
    buf_done(to);
    *to = f.blob;
    f.blob = (struct buf){0};
    return true;
}

/* ---- errors on the wire ---- */

json_t *wire_error_encode(const struct err *e)
{
    json_t *doc = json_object();
    json_put_str(doc, "code", err_name(e->code));
    json_put_str(doc, "text", e->text);
    return doc;
}

void wire_error_decode(const json_t *doc, struct err *ret)
{
    const char *text = json_str(doc, "text", "no reason given");
    cleanup(buf) struct buf clean = {0};
    utf8_clean(&clean, text, strnlen(text, 400));
    enum err_code code = err_code_parse(json_str(doc, "code", ""));
    err_set(ret, code == ERR_OK ? ERR_INTERNAL : code, "%s", buf_cstr(&clean));
}

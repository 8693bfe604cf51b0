/* A small HTTP client on a raw socket, for tests: sends exactly the bytes it is told, reads answers and streams with a deadline. */
#pragma once
#include "core/buf.h"
#include "core/clock.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>

#define CLIENT_WAIT_NS ((int64_t)10000000000)

struct client { int fd; struct buf in; size_t at; };
struct answer { int status; struct buf head, body; bool ended; };

__attribute__((unused)) static struct client client_open(const char *address)
{
    struct client c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(c.fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(c.fd);
        c.fd = -1;
    }
    return c;
}

__attribute__((unused)) static void client_close(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    buf_done(&c->in);
    c->at = 0;
}

/* As a power cut would: a reset instead of a goodbye. */
__attribute__((unused)) static void client_reset(struct client *c)
{
    struct linger l = {1, 0};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    client_close(c);
}

__attribute__((unused)) static bool client_send(struct client *c, const char *text, size_t size)
{
    while (size) {
        ssize_t n = send(c->fd, text, size, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        text += n;
        size -= (size_t)n;
    }
    return true;
}

/* Reads some more; false at the end of the connection or past the deadline. */
__attribute__((unused)) static bool client_more(struct client *c, int64_t until_ns)
{
    char part[65536];
    int64_t left = until_ns - clock_mono_ns();
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    if (left <= 0 || poll(&p, 1, (int)(left / 1000000) + 1) <= 0)
        return false;
    ssize_t n = recv(c->fd, part, sizeof part, 0);
    if (n <= 0)
        return false;
    buf_add(&c->in, part, (size_t)n);
    return true;
}

/* Reads until the unread text holds `what`; returns the place behind it, 0 if it does not come. */
__attribute__((unused)) static size_t client_until(struct client *c, const char *what, int64_t wait_ns)
{
    int64_t until = clock_mono_ns() + wait_ns;
    for (;;) {
        const char *found = c->in.data ? memmem(c->in.data + c->at, c->in.size - c->at, what, strlen(what)) : NULL;
        if (found)
            return (size_t)(found - c->in.data) + strlen(what);
        if (!client_more(c, until))
            return 0;
    }
}

__attribute__((unused)) static void answer_done(struct answer *a)
{
    buf_done(&a->head);
    buf_done(&a->body);
    *a = (struct answer){0};
}

/* The value of a header, cut at the line's end, in a buffer of the test's; "" if it is not there. */
__attribute__((unused)) static const char *answer_header(const struct answer *a, const char *name, char *to, size_t size)
{
    to[0] = 0;
    for (const char *line = strstr(buf_cstr(&a->head), "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        size_t n = strlen(name);
        if (strncasecmp(line, name, n) || line[n] != ':')
            continue;
        const char *value = line + n + 1 + strspn(line + n + 1, " ");
        snprintf(to, size, "%.*s", (int)strcspn(value, "\r"), value);
        break;
    }
    return to;
}

static bool read_bytes(struct client *c, size_t size, struct buf *to, int64_t until)
{
    while (c->in.size - c->at < size)
        if (!client_more(c, until))
            return false;
    buf_add(to, c->in.data + c->at, size);
    c->at += size;
    return true;
}

static bool read_chunks(struct client *c, struct buf *to)
{
    for (;;) {
        size_t from = c->at, end = client_until(c, "\r\n", CLIENT_WAIT_NS);
        if (!end)
            return false;
        size_t size = strtoul(c->in.data + from, NULL, 16);
        c->at = end;
        cleanup(buf) struct buf crlf = {0};
        if (!read_bytes(c, size, to, clock_mono_ns() + CLIENT_WAIT_NS) || !read_bytes(c, 2, &crlf, clock_mono_ns() + CLIENT_WAIT_NS))
            return false;
        if (!size)
            return true;
    }
}

/* One answer; without a body for HEAD, 204, 304 and event streams (read those with client_until). */
__attribute__((unused)) static bool client_answer(struct client *c, bool head_only, struct answer *ret)
{
    char value[200];
    answer_done(ret);
    size_t from = c->at, end = client_until(c, "\r\n\r\n", CLIENT_WAIT_NS);
    if (!end)
        return false;
    buf_add(&ret->head, c->in.data + from, end - from);
    c->at = end;
    ret->status = atoi(buf_cstr(&ret->head) + 9);
    if (head_only || ret->status == 204 || ret->status == 304 || ret->status == 100 ||
        !strncmp(answer_header(ret, "Content-Type", value, sizeof value), "text/event-stream", 17))
        return true;
    if (!strcasecmp(answer_header(ret, "Transfer-Encoding", value, sizeof value), "chunked"))
        return read_chunks(c, &ret->body);
    answer_header(ret, "Content-Length", value, sizeof value);
    return *value && read_bytes(c, strtoul(value, NULL, 10), &ret->body, clock_mono_ns() + CLIENT_WAIT_NS);
}

/* A request on a connection of its own. `extra`: header lines, each ended by \r\n. Body NULL: none. */
__attribute__((unused)) static int ask(const char *address, const char *method, const char *path, const char *extra, const char *body,
                                       struct answer *ret)
{
    struct client c = client_open(address);
    cleanup(buf) struct buf text = {0};
    buf_fmt(&text, "%s %s HTTP/1.1\r\nHost: %s\r\n%s", method, path, address, extra ? extra : "");
    if (body && !strcasestr(extra ? extra : "", "content-length"))
        buf_fmt(&text, "Content-Length: %zu\r\n", strlen(body));
    buf_fmt(&text, "\r\n%s", body ? body : "");
    bool ok = c.fd >= 0 && client_send(&c, text.data, text.size) && client_answer(&c, !strcmp(method, "HEAD"), ret);
    client_close(&c);
    return ok ? ret->status : -1;
}

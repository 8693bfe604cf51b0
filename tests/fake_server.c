/*
 * A server that answers with files, for tests of clients: `fake_server DIR` prints its port and serves one connection after another.
 * A request for METHOD /a/b?c is answered with the bytes of DIR/METHOD_a_b_c.N (N: how often it was asked for, from 1), else of
 * DIR/METHOD_a_b_c, else 404; then the connection is closed. Each request is appended to DIR/requests.log. Ends with its stdin.
 */
#include "core/buf.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static bool read_request(int fd, struct buf *to)
{
    for (char piece[4096];;) {
        char *end = to->size ? strstr(to->data, "\r\n\r\n") : NULL;
        if (end) {
            char *length = strcasestr(to->data, "\r\ncontent-length:");
            size_t want = (size_t)(end + 4 - to->data) + (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
            if (to->size >= want)
                return true;
        }
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n <= 0)
            return false;
        buf_add(to, piece, (size_t)n);
    }
}

static char *answer_path(const char *dir, const char *request)
{
    char name[256] = "";
    size_t n = 0;
    int spaces = 0;
    for (const char *c = request; *c && n + 1 < sizeof name && (spaces += *c == ' ') < 2; c++)
        if (!(*c == ' '))
            name[n++] = strchr("/?&=", *c) ? '_' : *c;
    name[n] = 0;
    for (int i = 1; i < 1000; i++) {   /* a numbered answer is used once */
        cleanup(str) char *numbered = xfmt("%s/%s.%d", dir, name, i), *used = xfmt("%s/%s.%d.used", dir, name, i);
        if (access(used, F_OK) == 0)
            continue;
        if (access(numbered, F_OK) != 0)
            break;
        if (rename(numbered, used) == 0)
            return steal(&used);
    }
    return xfmt("%s/%s", dir, name);
}

static void serve(int fd, const char *dir)
{
    static const char missing[] = "HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n"
                                  "{\"type\":\"/problems/not_found\",\"title\":\"There is no such thing\",\"status\":404,\"code\":\"not_found\"}";
    cleanup(buf) struct buf request = {0}, answer = {0};
    if (!read_request(fd, &request))
        return;
    cleanup(str) char *log_path = xfmt("%s/requests.log", dir), *path = answer_path(dir, request.data);
    cleanup(file) FILE *log = fopen(log_path, "a");
    if (log)
        fprintf(log, "%s\n----\n", request.data);
    if (!file_read(path, 512 << 20, &answer, NULL))
        buf_add(&answer, missing, sizeof missing - 1);
    if (!fd_write_all(fd, answer.data, answer.size, NULL))
        return;
    shutdown(fd, SHUT_WR);
    for (char sink[4096]; recv(fd, sink, sizeof sink, 0) > 0;)
        continue;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (argc != 2 || bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 16) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        return 1;
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        struct pollfd ready[] = {{.fd = listener, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
        if (poll(ready, 2, 60000) <= 0 || ready[1].revents)
            return 0;
        cleanup(fd) int fd = accept(listener, NULL, NULL);
        struct timeval limit = {.tv_sec = 10};
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        serve(fd, argv[1]);
    }
}

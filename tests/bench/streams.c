/*
 * Holds COUNT live event streams: streams HOST:PORT PATH COUNT. Prints "ready" once all are open, then a line with what arrived
 * each second, and ends with its standard input.
 */
#include "core/buf.h"
#include "core/clock.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

static int open_stream(const char *address, const char *path)
{
    const char *colon = strrchr(address, ':');
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char request[300];
    int size = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, address);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0 || send(fd, request, (size_t)size, MSG_NOSIGNAL) != size)
        return -1;
    char head[13] = "";
    if (recv(fd, head, 12, MSG_WAITALL) != 12 || strcmp(head, "HTTP/1.1 200"))
        return -1;
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int count = atoi(argv[3]), poll = epoll_create1(EPOLL_CLOEXEC);
    struct rlimit files = {65536, 65536};
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 && count > 1000)
        fprintf(stderr, "the limit of open files could not be raised\n");
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    epoll_ctl(poll, EPOLL_CTL_ADD, STDIN_FILENO, &ev);
    for (int i = 0; i < count; i++) {
        ev.data.fd = open_stream(argv[1], argv[2]);
        if (ev.data.fd < 0) {
            fprintf(stderr, "stream %d could not be opened\n", i);
            return 1;
        }
        epoll_ctl(poll, EPOLL_CTL_ADD, ev.data.fd, &ev);
    }
    puts("ready");
    fflush(stdout);
    long long bytes = 0, closed = 0;
    int64_t report = clock_mono_ns() + 1000000000;
    for (;;) {
        static struct epoll_event events[256];
        static char data[65536];
        int n = epoll_wait(poll, events, 256, 200);
        for (int i = 0; i < n; i++) {
            ssize_t got = read(events[i].data.fd, data, sizeof data);
            if (got <= 0 && events[i].data.fd == STDIN_FILENO)
                return closed ? 1 : 0;
            if (got <= 0) {
                close(events[i].data.fd);
                closed++;
            }
            bytes += got > 0 ? got : 0;
        }
        if (clock_mono_ns() >= report) {
            printf("%lld bytes, %lld closed\n", bytes, closed);
            fflush(stdout);
            bytes = 0;
            report += 1000000000;
        }
    }
}

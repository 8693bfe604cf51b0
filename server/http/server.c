/*
 * The server around libmicrohttpd: an epoll loop on each of a few threads, all on one listening socket of ours.
 *
 * Stopping: no new connections; the hub wakes all sleepers and streams end; requests in progress get their grace; the workers
 * finish what they write; only then, with nothing suspended, may the library be stopped (it aborts otherwise).
 */
#include "server/http/edge.h"

#include "core/clock.h"
#include "core/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_QUEUED_WRITES 1024

static bool listen_split(const char *text, char host[64], char port[8], struct err *err)
{
    const char *colon = strrchr(text, ':');
    const char *from = text, *end = colon;
    if (colon && text[0] == '[' && colon > text + 1 && colon[-1] == ']')
        from++, end--;
    if (!colon || end - from < 1 || end - from > 63 || !colon[1] || strlen(colon + 1) > 5 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > 65535)
        return err_set(err, ERR_INVALID, "\"%s\" is not an address to listen on; one is ADDRESS:PORT, such as 127.0.0.1:7070, "
                       "[::1]:7070 or 0.0.0.0:0 (port 0 picks a free one)", text);
    snprintf(host, 64, "%.*s", (int)(end - from), from);
    snprintf(port, 8, "%s", colon + 1);
    return true;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static bool bind_address(struct http_server *s, const struct addrinfo *a, struct err *err)
{
    const char *listen_text = s->config.listen;
    cleanup(fd) int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    if (fd < 0)
        return err_errno(err, ERR_UNAVAILABLE, "cannot listen on %s", listen_text);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 4096) != 0)
        return err_errno(err, ERR_UNAVAILABLE, "cannot listen on %s", listen_text);
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char host[64], port[8];
    if (getsockname(fd, (struct sockaddr *)&bound, &size) != 0 ||
        getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return err_set(err, ERR_INTERNAL, "cannot tell which address was bound for %s", listen_text);
    snprintf(s->address, sizeof s->address, a->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    s->listen_fd = steal_fd(&fd);
    return true;
}

static bool server_listen(struct http_server *s, struct err *err)
{
    char host[64], port[8];
    if (!listen_split(s->config.listen, host, port, err))
        return false;
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found = NULL;
    const char *numeric = !strcmp(host, "localhost") ? "127.0.0.1" : host;
    int why = getaddrinfo(numeric, port, &hints, &found);
    if (why)
        return err_set(err, ERR_INVALID, "cannot listen on %s: \"%s\" is not a numeric address: %s", s->config.listen, host, gai_strerror(why));
    bool loopback = is_loopback(found->ai_addr), ok;
    auth_set_loopback(s->config.auth, loopback);
    if (!loopback && auth_count(s->config.auth) == 0)
        ok = err_set(err, ERR_INVALID, "%s can be reached from other machines and there is no token yet, so anyone could drive this "
                     "service; give an admin's with --admin-token-file, or create the first one while listening on 127.0.0.1",
                     s->config.listen);
    else
        ok = bind_address(s, found, err);
    freeaddrinfo(found);
    return ok;
}

bool http_open(const struct http_config *config, struct http_server **ret, struct err *err)
{
    struct http_server *s = xalloc(sizeof *s);
    s->config = *config;
    s->listen_fd = -1;
    if (!server_listen(s, err)) {
        free(s);
        return false;
    }
    unsigned char raw[4];
    random_bytes(raw, sizeof raw);
    snprintf(s->id_prefix, sizeof s->id_prefix, "r%02x%02x%02x%02x00", raw[0], raw[1], raw[2], raw[3]);
    s->router = router_new(config->routes, config->route_count);
    s->metrics = metrics_new(config->routes, config->route_count);
    s->hub = hub_new(config->streams + config->waiters);
    s->workers = workers_new(config->workers, MAX_QUEUED_WRITES);
    *ret = s;
    return true;
}

/* Paths and queries stay as they were sent: we decode them ourselves, strictly. */
static size_t no_unescape(void *ctx, struct MHD_Connection *c, char *text)
{
    (void)ctx, (void)c;
    return strlen(text);
}

__attribute__((format(printf, 2, 0))) static void on_log(void *ctx, const char *fmt, va_list ap)
{
    (void)ctx;
    cleanup(buf) struct buf raw = {.limit = 512}, clean = {0};
    buf_vfmt(&raw, fmt, ap);
    while (raw.size && raw.data[raw.size - 1] == '\n')
        raw.data[--raw.size] = 0;
    utf8_clean(&clean, buf_cstr(&raw), raw.size);
    log_line(LOG_DEBUG, "http", "text", buf_cstr(&clean), NULL);
}

bool http_serve(struct http_server *s, struct err *err)
{
    const struct http_config *c = &s->config;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, s->listen_fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, c->connections, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, c->connection_timeout_s, NULL},
        /* Room for the largest head and some more: ours is the smaller limit and has the better answer. Not much more, since
           the library clears all of it after each request. */
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, c->header_bytes + c->header_bytes / 2 + 8 * 1024, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)exchange_completed, s},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)no_unescape, NULL},
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)on_log, NULL},
        {c->threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, c->threads, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    s->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_TURBO, 0, NULL,
                                 NULL, exchange_handle, s, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    if (!s->daemon)
        return err_set(err, ERR_UNAVAILABLE, "cannot serve on %s: the HTTP library did not start (are %d connections more than this "
                       "machine's limit of open files allows?)", s->address, c->connections);
    s->listen_fd = -1;      /* the library's now */
    return true;
}

const char *http_address(const struct http_server *s)
{
    return s->address;
}

void http_notify(struct http_server *s)
{
    hub_notify(s->hub);
}

bool http_stopping(const struct http_server *s)
{
    return atomic_load(&((struct http_server *)s)->stopping);
}

void http_stop(struct http_server *s, int64_t grace_ns)
{
    if (!s->daemon || atomic_load(&s->stopping))
        return;
    /* Shut, so that nobody new connects, and closed only at the end: each of the library's threads still takes the descriptor out
       of its epoll set by itself, and panics when it is no longer there. */
    cleanup(fd) int listen_fd = MHD_quiesce_daemon(s->daemon);
    if (listen_fd >= 0)
        shutdown(listen_fd, SHUT_RDWR);
    atomic_store(&s->stopping, true);
    hub_stop(s->hub);
    int64_t until = clock_mono_ns() + grace_ns;
    while (atomic_load(&s->in_flight) > 0 && clock_mono_ns() < until)
        clock_sleep_ns(2000000);
    workers_free(steal(&s->workers));
    MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
}

void http_close(struct http_server *s)
{
    if (!s)
        return;
    http_stop(s, 0);
    workers_free(s->workers);
    hub_free(s->hub);
    router_free(s->router);
    metrics_free(s->metrics);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    free(s);
}

#include "tests/llm_server.h"

#include "core/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONGEST_NS ((int64_t)30 * 1000000000)   /* that a connection is held open */

struct script {
    int status, piece, drip_ms;
    long fill, cut, stall;
    char as[24], stop[32], headers[512];
    bool end, has_usage;
    char usage[160];
    long in, out;
    struct buf text;
};
struct connection { struct llm_server *server; int fd; };

/* ---- scripts ---- */

static void expand(struct buf *to, const char *text, const char *dir)
{
    while (*text) {
        size_t size = strcspn(text, "\n");
        if (size > 2 && text[0] == '@' && text[size - 1] == '@') {
            cleanup(str) char *path = xfmt("%s/%.*s", dir, (int)size - 2, text + 1);
            struct err err = {0};
            cleanup(buf) struct buf file = {0};
            if (!file_read(path, 64 << 20, &file, &err)) {
                fprintf(stderr, "%s\n", err.text);
                abort();
            }
            buf_add(to, file.data, file.size);
        } else {
            buf_add(to, text, size);
            buf_str(to, "\n");
        }
        text += size + (text[size] == '\n');
    }
    if (to->size)
        to->data[--to->size] = 0;      /* the script's last line break is none of the text's */
}

/* The whole script as text, files filled in. */
static char *load(const char *dir, const char *script)
{
    struct err err = {0};
    cleanup(buf) struct buf file = {0}, whole = {0};
    if (!strchr(script, '\n')) {
        cleanup(str) char *path = xfmt("%s/%s", dir, script);
        if (!file_read(path, 1 << 20, &file, &err)) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
        script = buf_cstr(&file);
    }
    const char *body = strstr(script, "---\n");
    if (body) {
        buf_add(&whole, script, (size_t)(body + 4 - script));
        expand(&whole, body + 4, dir);
    } else {
        buf_str(&whole, script);
    }
    return buf_take(&whole);
}

static void set(struct script *s, char *line)
{
    char *value = line + strcspn(line, " ");
    value += *value == ' ' ? (*value = 0, 1) : 0;
    if (!strcmp(line, "status")) s->status = atoi(value);
    else if (!strcmp(line, "header")) snprintf(s->headers + strlen(s->headers), sizeof s->headers - strlen(s->headers), "%s\r\n", value);
    else if (!strcmp(line, "as")) snprintf(s->as, sizeof s->as, "%s", value);
    else if (!strcmp(line, "piece")) s->piece = atoi(value);
    else if (!strcmp(line, "stop")) snprintf(s->stop, sizeof s->stop, "%s", value);
    else if (!strcmp(line, "fill")) s->fill = atol(value);
    else if (!strcmp(line, "cut")) s->cut = atol(value);
    else if (!strcmp(line, "stall")) s->stall = atol(value);
    else if (!strcmp(line, "drip")) s->drip_ms = atoi(value);
    else if (!strcmp(line, "end")) s->end = strcmp(value, "none") != 0;
    else if (!strcmp(line, "usage") && !strcmp(value, "none")) s->has_usage = false;
    else if (!strcmp(line, "usage") && *value == '{') snprintf(s->usage, sizeof s->usage, "%s", value);
    else if (!strcmp(line, "usage")) s->in = strtol(value, &value, 10), s->out = strtol(value, NULL, 10);
    else if (*line && *line != '#') fprintf(stderr, "the script has a line that means nothing: %s\n", line), abort();
}

static void script_parse(const char *text, struct script *s)
{
    *s = (struct script){.status = 200, .piece = 48, .cut = -1, .stall = -1, .as = "openai", .stop = "", .end = true, .has_usage = true, .in = 900, .out = 300};
    const char *body = strstr(text, "---\n");
    cleanup(str) char *head = xstrndup(text, body ? (size_t)(body - text) : strlen(text));
    char *save = NULL;
    for (char *line = strtok_r(head, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        set(s, line);
    const char *from = body ? body + 4 : "";
    buf_str(&s->text, from);
}

/* How long the text is with its repeats, which are made as they are sent. */
static size_t length_of(const struct script *s)
{
    return (size_t)s->fill > s->text.size && s->text.size ? (size_t)s->fill : s->text.size;
}

static void repeat(struct script *s)
{
    cleanup(str) char *once = xstrdup(buf_cstr(&s->text));
    while (s->text.size < (size_t)s->fill && *once)
        buf_str(&s->text, once);
}

/* ---- answers ---- */

struct sending { struct connection *c; const struct script *s; long sent; bool over; };

static void put(struct sending *g, const char *data, size_t size)
{
    int64_t until = clock_mono_ns() + LONGEST_NS;
    while (size && !g->over) {
        size_t part = g->s->drip_ms ? 1 : size;
        long limit = g->s->cut >= 0 ? g->s->cut : g->s->stall;
        if (limit >= 0 && (long)part > limit - g->sent)
            part = (size_t)(limit - g->sent);
        ssize_t n = part ? send(g->c->fd, data, part, MSG_NOSIGNAL) : 0;
        if (n < 0 || (limit >= 0 && !part)) {
            g->over = true;
            while (n == 0 && g->s->stall >= 0 && g->s->cut < 0 && clock_mono_ns() < until && !__atomic_load_n(&g->c->server->stopping, __ATOMIC_RELAXED)) {
                struct pollfd p = {.fd = g->c->fd, .events = POLLIN};
                char gone;
                if (poll(&p, 1, 20) > 0 && recv(g->c->fd, &gone, 1, 0) <= 0)
                    break;
            }
            return;
        }
        data += n;
        size -= (size_t)n;
        g->sent += n;
        __atomic_add_fetch(&g->c->server->sent_bytes, n, __ATOMIC_RELAXED);
        if (g->s->drip_ms)
            clock_sleep_ns((int64_t)g->s->drip_ms * 1000000);
        if (clock_mono_ns() > until || __atomic_load_n(&g->c->server->stopping, __ATOMIC_RELAXED))
            g->over = true;
    }
}

static void put_event(struct sending *g, const char *name, json_t *take)
{
    cleanup(json) json_t *doc = take;
    cleanup(str) char *text = json_text(doc), *event = xfmt("%s%s%sdata: %s\n\n", name ? "event: " : "", name ? name : "", name ? "\n" : "", text);
    put(g, event, strlen(event));
}

static json_t *usage_of(const struct script *s, bool anthropic)
{
    struct err err = {0};
    json_t *doc = NULL;
    if (s->usage[0] && json_parse(s->usage, strlen(s->usage), &doc, &err))
        return doc;
    return anthropic ? json_pack("{s:I,s:I}", "input_tokens", (json_int_t)s->in, "output_tokens", (json_int_t)s->out)
                     : json_pack("{s:I,s:I,s:I}", "prompt_tokens", (json_int_t)s->in, "completion_tokens", (json_int_t)s->out, "total_tokens",
                                 (json_int_t)(s->in + s->out));
}

static json_t *text_json(const char *data, size_t size)
{
    cleanup(buf) struct buf clean = {0};
    utf8_clean(&clean, data, size);
    return json_string(buf_cstr(&clean));
}

/* A piece never ends within a character. */
static size_t piece_at(const struct script *s, size_t at)
{
    at %= s->text.size;
    size_t n = s->text.size - at < (size_t)s->piece ? s->text.size - at : (size_t)s->piece;
    while (at + n < s->text.size && ((unsigned char)s->text.data[at + n] & 0xc0) == 0x80)
        n++;
    return n;
}

static void stream_openai(struct sending *g)
{
    const struct script *s = g->s;
    for (size_t at = 0; at < length_of(s) && !g->over;) {
        size_t n = piece_at(s, at);
        put_event(g, NULL, json_pack("{s:s,s:[{s:i,s:{s:o},s:n}]}", "object", "chat.completion.chunk", "choices", "index", 0, "delta", "content",
                                     text_json(s->text.data + at % s->text.size, n), "finish_reason"));
        at += n;
    }
    if (strcmp(s->stop, "none"))
        put_event(g, NULL, json_pack("{s:[{s:i,s:{},s:s}]}", "choices", "index", 0, "delta", "finish_reason", s->stop[0] ? s->stop : "stop"));
    if (s->has_usage)
        put_event(g, NULL, json_pack("{s:[],s:o}", "choices", "usage", usage_of(s, false)));
    if (s->end)
        put(g, "data: [DONE]\n\n", 14);
}

static void stream_anthropic(struct sending *g)
{
    const struct script *s = g->s;
    put_event(g, "message_start", json_pack("{s:s,s:{s:s,s:{s:I,s:i}}}", "type", "message_start", "message", "role", "assistant", "usage",
                                            "input_tokens", (json_int_t)s->in, "output_tokens", 1));
    put_event(g, "content_block_start", json_pack("{s:s,s:i,s:{s:s,s:s}}", "type", "content_block_start", "index", 0, "content_block", "type", "text", "text", ""));
    put_event(g, "ping", json_pack("{s:s}", "type", "ping"));
    for (size_t at = 0; at < length_of(s) && !g->over;) {
        size_t n = piece_at(s, at);
        put_event(g, "content_block_delta", json_pack("{s:s,s:i,s:{s:s,s:o}}", "type", "content_block_delta", "index", 0, "delta", "type", "text_delta",
                                                      "text", text_json(s->text.data + at % s->text.size, n)));
        at += n;
    }
    put_event(g, "content_block_stop", json_pack("{s:s,s:i}", "type", "content_block_stop", "index", 0));
    if (strcmp(s->stop, "none")) {
        json_t *doc = json_pack("{s:s,s:{s:s}}", "type", "message_delta", "delta", "stop_reason", s->stop[0] ? s->stop : "end_turn");
        if (s->has_usage)
            json_put(doc, "usage", usage_of(s, true));
        put_event(g, "message_delta", doc);
    }
    if (s->end)
        put_event(g, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static void whole_answer(const struct script *s, struct buf *to)
{
    bool anthropic = !strncmp(s->as, "anthropic", 9);
    cleanup(json) json_t *doc = anthropic
        ? json_pack("{s:s,s:[{s:s,s:o}],s:s}", "type", "message", "content", "type", "text", "text", text_json(s->text.data, s->text.size),
                    "stop_reason", s->stop[0] ? s->stop : "end_turn")
        : json_pack("{s:[{s:i,s:{s:s,s:o},s:s}]}", "choices", "index", 0, "message", "role", "assistant", "content",
                    text_json(s->text.data, s->text.size), "finish_reason", s->stop[0] ? s->stop : "stop");
    if (s->has_usage)
        json_put(doc, "usage", usage_of(s, anthropic));
    json_write(to, doc);
}

static void answer(struct connection *c, const char *text)
{
    struct script s;
    script_parse(text, &s);
    struct sending g = {c, &s, 0, false};
    bool stream = !strcmp(s.as, "openai") || !strcmp(s.as, "anthropic"), raw = !strcmp(s.as, "raw");
    cleanup(buf) struct buf body = {0}, head = {0};
    buf_fmt(&head, "HTTP/1.1 %d Scripted\r\n%sConnection: close\r\n", s.status, s.headers);
    if (!strcasestr(s.headers, "content-type:"))
        buf_fmt(&head, "Content-Type: %s\r\n", stream ? "text/event-stream" : "application/json");
    buf_str(&head, "\r\n");
    static const struct script no_limits = {.cut = -1, .stall = -1};
    struct sending first = {c, &no_limits, 0, false};      /* cut, stall and drip are of the body */
    put(&first, head.data, head.size);
    if (!stream && !raw) {
        repeat(&s);
        whole_answer(&s, &body);
    }
    if (!strcmp(s.as, "openai"))
        stream_openai(&g);
    else if (stream)
        stream_anthropic(&g);
    else if (!raw)
        put(&g, body.data, body.size);
    for (size_t at = 0; raw && at < length_of(&s) && !g.over; at += s.text.size)
        put(&g, s.text.data, s.text.size);
    buf_done(&s.text);
}

/* ---- requests ---- */

static bool read_request(int fd, struct llm_request *ret)
{
    struct buf in = {0};
    int64_t until = clock_mono_ns() + LONGEST_NS;
    size_t need = 0, head = 0;
    while (!need || in.size < need) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char part[65536];
        ssize_t n = poll(&p, 1, 200) > 0 ? recv(fd, part, sizeof part, 0) : -2;
        if (n == 0 || n == -1 || clock_mono_ns() > until) {
            buf_done(&in);
            return false;
        }
        if (n > 0)
            buf_add(&in, part, (size_t)n);
        const char *end = need ? NULL : strstr(buf_cstr(&in), "\r\n\r\n");
        if (end) {
            const char *length = strcasestr(in.data, "content-length:");
            head = (size_t)(end + 4 - in.data);
            need = head + (length && length < end ? (size_t)atol(length + 15) : 0);
        }
    }
    *ret = (struct llm_request){xstrndup(in.data, head), xstrndup(in.data + head, in.size - head), clock_mono_ns()};
    buf_done(&in);
    return true;
}

static void *serve_one(void *arg)
{
    struct connection *c = arg;
    struct llm_server *s = c->server;
    struct llm_request request;
    if (read_request(c->fd, &request)) {
        pthread_mutex_lock(&s->lock);
        int n = s->request_count++;
        cleanup(str) char *script = xstrdup(s->scripts[n < s->script_count ? n : s->script_count - 1]);
        if (n < LLM_REQUESTS_MAX) {
            s->requests[n] = request;
        } else {
            free(request.head);
            free(request.body);
        }
        pthread_mutex_unlock(&s->lock);
        answer(c, script);
    }
    shutdown(c->fd, SHUT_WR);
    close(c->fd);
    __atomic_sub_fetch(&s->open, 1, __ATOMIC_RELEASE);
    free(c);
    return NULL;
}

static void *serve(void *arg)
{
    struct llm_server *s = arg;
    while (!__atomic_load_n(&s->stopping, __ATOMIC_RELAXED)) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0)
            continue;
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        struct connection *c = xalloc(sizeof *c);
        *c = (struct connection){s, fd};
        pthread_t thread;
        __atomic_add_fetch(&s->open, 1, __ATOMIC_RELAXED);
        if (pthread_create(&thread, NULL, serve_one, c) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

static void forget(struct llm_server *s)
{
    for (int i = 0; i < s->script_count; i++)
        free(s->scripts[i]);
    for (int i = 0; i < s->request_count && i < LLM_REQUESTS_MAX; i++) {
        free(s->requests[i].head);
        free(s->requests[i].body);
    }
    s->script_count = s->request_count = 0;
}

void llm_server_play(struct llm_server *s, const char *dir, const char *const *scripts)
{
    pthread_mutex_lock(&s->lock);
    forget(s);
    for (; *scripts && s->script_count < LLM_SCRIPTS_MAX; scripts++)
        s->scripts[s->script_count++] = load(dir, *scripts);
    pthread_mutex_unlock(&s->lock);
}

void llm_server_start(struct llm_server *s, const char *dir, const char *const *scripts)
{
    *s = (struct llm_server){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof to;
    pthread_mutex_init(&s->lock, NULL);
    if (bind(s->fd, (struct sockaddr *)&to, sizeof to) || listen(s->fd, 64) || getsockname(s->fd, (struct sockaddr *)&to, &size))
        abort();
    snprintf(s->address, sizeof s->address, "http://127.0.0.1:%d", ntohs(to.sin_port));
    llm_server_play(s, dir, scripts);
    if (pthread_create(&s->thread, NULL, serve, s) != 0)
        abort();
}

int llm_server_requests(struct llm_server *s)
{
    pthread_mutex_lock(&s->lock);
    int n = s->request_count;
    pthread_mutex_unlock(&s->lock);
    return n;
}

json_t *llm_server_body(struct llm_server *s, int i)
{
    json_t *doc = NULL;
    struct err err = {0};
    pthread_mutex_lock(&s->lock);
    if (i < s->request_count && i < LLM_REQUESTS_MAX && !json_parse(s->requests[i].body, strlen(s->requests[i].body), &doc, &err))
        doc = NULL;
    pthread_mutex_unlock(&s->lock);
    return doc;
}

bool llm_server_has_header(struct llm_server *s, int i, const char *begin)
{
    bool found = false;
    pthread_mutex_lock(&s->lock);
    if (i < s->request_count && i < LLM_REQUESTS_MAX)
        for (const char *line = s->requests[i].head; line; line = strstr(line, "\r\n") ? strstr(line, "\r\n") + 2 : NULL)
            found = found || !strncasecmp(line, begin, strlen(begin));
    pthread_mutex_unlock(&s->lock);
    return found;
}

void llm_server_stop(struct llm_server *s)
{
    __atomic_store_n(&s->stopping, true, __ATOMIC_RELAXED);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < 500 && __atomic_load_n(&s->open, __ATOMIC_ACQUIRE); i++)
        clock_sleep_ns(10000000);
    close(s->fd);
    pthread_mutex_lock(&s->lock);
    forget(s);
    pthread_mutex_unlock(&s->lock);
}

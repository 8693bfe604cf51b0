#include "api/cli/sse.h"

#include <string.h>

static void field(struct sse *s, const char *name, size_t name_size, const char *value)
{
    if (name_size == 4 && !memcmp(name, "data", 4)) {
        buf_str(&s->data, value);
        buf_str(&s->data, "\n");
    } else if (name_size == 5 && !memcmp(name, "event", 5)) {
        snprintf(s->type, sizeof s->type, "%s", value);
    } else if (name_size == 2 && !memcmp(name, "id", 2)) {
        if (strlen(value) < sizeof s->id)   /* it is sent back to the server: one that would be cut is none */
            snprintf(s->id, sizeof s->id, "%s", value);
    } else if (name_size == 5 && !memcmp(name, "retry", 5)) {
        if (*value && strlen(value) < 10 && strspn(value, "0123456789") == strlen(value))
            s->retry_ms = atoll(value);
    }
}

/* An empty line ends an event. */
static bool dispatch(struct sse *s, sse_event *event, void *ctx)
{
    bool go_on = true;
    memcpy(s->last_id, s->id, sizeof s->last_id);
    if (s->data.size) {
        s->data.data[--s->data.size] = 0;   /* the last newline is not part of it */
        go_on = event(ctx, *s->type ? s->type : "message", s->last_id, s->data.data, s->data.size);
    }
    buf_clear(&s->data);
    *s->type = 0;
    return go_on;
}

static bool line_end(struct sse *s, sse_event *event, void *ctx)
{
    const char *line = buf_cstr(&s->line);
    if (!s->started && !strncmp(line, "\xef\xbb\xbf", 3))
        line += 3;
    s->started = true;
    bool go_on = true;
    if (!*line) {
        go_on = dispatch(s, event, ctx);
    } else if (*line != ':') {
        size_t name_size = strcspn(line, ":");
        const char *value = line + name_size;
        value += *value == ':';
        value += *value == ' ';
        field(s, line, name_size, value);
    }
    buf_clear(&s->line);
    return go_on;
}

bool sse_feed(struct sse *s, const char *bytes, size_t size, sse_event *event, void *ctx)
{
    for (size_t i = 0; i < size && !s->failed; i++) {
        char c = bytes[i];
        bool second = c == '\n' && s->after_cr;
        s->after_cr = c == '\r';
        if (second)
            continue;
        if (c != '\n' && c != '\r')
            buf_add(&s->line, &c, 1);
        else if (!line_end(s, event, ctx))
            return false;
        s->failed = s->line.size + s->data.size > SSE_MAX_EVENT_BYTES;
    }
    return !s->failed;
}

void sse_restart(struct sse *s)
{
    buf_clear(&s->line);
    buf_clear(&s->data);
    *s->type = 0;
    memcpy(s->id, s->last_id, sizeof s->id);
    s->after_cr = s->started = s->failed = false;
}

void sse_done(struct sse *s)
{
    buf_done(&s->line);
    buf_done(&s->data);
}

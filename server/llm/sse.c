/*
 * text/event-stream as the standard has it: lines ended by LF, CR or both; "field: value"; a blank line ends an event; a line that
 * begins with a colon is a comment. Bytes come in any portions.
 */
#include "server/llm/internal.h"

#include <string.h>

void sse_init(struct sse *s, size_t event_bytes, sse_event *event, void *ctx)
{
    *s = (struct sse){.line.limit = event_bytes, .data.limit = event_bytes, .event = event, .ctx = ctx};
}

void sse_done(struct sse *s)
{
    buf_done(&s->line);
    buf_done(&s->data);
}

static bool end_event(struct sse *s)
{
    bool go_on = true;
    if (s->has_data)
        go_on = s->event(s->ctx, s->name, buf_cstr(&s->data), s->data.size);
    buf_clear(&s->data);
    s->name[0] = 0;
    s->has_data = false;
    return go_on;
}

static bool take_line(struct sse *s)
{
    const char *line = buf_cstr(&s->line);
    size_t size = s->line.size, name = strcspn(line, ":");
    if (!size)
        return end_event(s);
    const char *value = line + (name < size ? name + 1 : size);
    value += *value == ' ';
    if (name == 4 && !strncmp(line, "data", 4)) {
        if (s->has_data)
            buf_add(&s->data, "\n", 1);
        buf_add(&s->data, value, (size_t)(line + size - value));
        s->has_data = true;
    } else if (name == 5 && !strncmp(line, "event", 5)) {
        snprintf(s->name, sizeof s->name, "%s", value);
    }
    return !s->data.overflow;
}

static bool end_line(struct sse *s)
{
    bool go_on = take_line(s);
    buf_clear(&s->line);
    return go_on;
}

bool sse_feed(struct sse *s, const char *data, size_t size)
{
    static const char mark[] = "\xef\xbb\xbf";
    for (size_t i = 0; i < size;) {
        if (s->after_cr && data[i] == '\n') {
            s->after_cr = false;
            i++;
            continue;
        }
        s->after_cr = false;
        size_t run = 0;
        while (i + run < size && data[i + run] != '\n' && data[i + run] != '\r')
            run++;
        buf_add(&s->line, data + i, run);
        if (s->line.overflow)
            return false;
        i += run;
        if (i == size)
            return true;
        if (!s->begun && s->line.size >= 3 && !memcmp(s->line.data, mark, 3)) {
            memmove(s->line.data, s->line.data + 3, s->line.size - 2);
            s->line.size -= 3;
        }
        s->begun = true;
        s->after_cr = data[i] == '\r';
        i++;
        if (!end_line(s))
            return false;
    }
    return true;
}

/* Server-sent events: the same however they are cut, and none without end. */
#include "server/llm/internal.h"
#include "tests/test.h"

struct seen { int count; char last[64]; };
static bool see(void *ctx, const char *name, const char *data, size_t size)
{
    struct seen *s = ctx;
    s->count++;
    snprintf(s->last, sizeof s->last, "%s|%s|%zu", name, data, size);
    return strcmp(data, "stop") != 0;
}

static void events_come_in_any_portions(void)
{
    static const char text[] = "\xef\xbb\xbf: hello\r\ndata: a\rdata:b\n\nevent: x\r\nid: 7\r\ndata\r\n\r\n\n\ndata: {\"y\":1}\n\ndata: unfinished";
    for (size_t step = 1; step < sizeof text; step++) {
        struct seen s = {0};
        cleanup(sse) struct sse sse;
        sse_init(&sse, 1000, see, &s);
        for (size_t at = 0; at < sizeof text - 1; at += step)
            check(sse_feed(&sse, text + at, sizeof text - 1 - at < step ? sizeof text - 1 - at : step));
        check_int(s.count, 3);
        check_str(s.last, "|{\"y\":1}|7");
    }
    struct seen s = {0};
    cleanup(sse) struct sse sse;
    sse_init(&sse, 64, see, &s);
    check(!sse_feed(&sse, "data: stop\n\ndata: x\n\n\n", 21) && s.count == 1);
    cleanup(sse) struct sse small;
    sse_init(&small, 64, see, &s);
    char line[100];
    memset(line, 'x', sizeof line);
    check(!sse_feed(&small, line, sizeof line) && small.line.overflow);
    cleanup(sse) struct sse many;
    sse_init(&many, 64, see, &s);
    bool go_on = true;
    for (int i = 0; i < 40 && go_on; i++)
        go_on = sse_feed(&many, "data: 12345\n", 12);
    check(!go_on && many.data.overflow);
}

int main(void)
{
    events_come_in_any_portions();
    return test_done();
}

/* The pure parts of the command line: arguments, streams of events, hostile text. */
#include "api/cli/args.h"
#include "api/cli/cli.h"
#include "api/cli/sse.h"
#include "api/cli/term.h"
#include "core/hash.h"
#include "tests/test.h"

#include <fcntl.h>

/* ---- arguments ---- */
static void test_args(void)
{
    static const struct option_spec own[] = {{"axes", "A", "x"}, {"watch", NULL, "x"}, {"o", "DIR", NULL}, {0}}, more[] = {{"json", NULL, "x"}, {0}};
    const struct option_spec *const tables[] = {own, more, NULL};
    struct args a;
    struct err err = {0};
    int64_t n = 7;
    char *good[] = {"job", "--axes", "B=4", "--axes=B=8", "-o", "dir", "--json", "--", "--watch"};
    check(args_parse(9, good, tables, &a, &err));
    check_int(a.count, 2);
    check_str(a.words[1], "--watch");
    check_str(args_get(&a, "axes", 0), "B=4");
    check_str(args_get(&a, "axes", 1), "B=8");
    check_str(args_or(&a, "axes", NULL, NULL), "B=8");
    check_str(args_or(&a, "o", NULL, NULL), "dir");
    check(args_has(&a, "json") && !args_has(&a, "watch") && !args_get(&a, "axes", 2));
    check(!args_int(&a, "axes", 1, &n, &err) && n == 7 && strstr(err.text, "whole number"));
    static const struct { char *words[2]; int count; const char *why; } bad[] = {
        {{"--nothing", NULL}, 1, "no option"}, {{"--axes", NULL}, 1, "needs a value"}, {{"--watch=1", NULL}, 1, "takes no value"},
        {{"-axes", "1"}, 2, "no option"}, {{"--", "-"}, 2, NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bool ok = args_parse(bad[i].count, (char **)bad[i].words, tables, &a, &err);
        check(ok == !bad[i].why && (ok || strstr(err.text, bad[i].why)));
    }
    char *many[200];
    for (int i = 0; i < 200; i++)
        many[i] = "x";
    check(!args_parse(200, many, tables, &a, &err));
}

static void test_pairs(void)
{
    cleanup(json) json_t *axes = json_object(), *types = json_object(), *other = json_object();
    struct err err = {0};
    check(pairs_add(axes, "B=4,H=-2, K=9000000000", true, &err));
    check_int(json_int(axes, "B", 0), 4);
    check_int(json_int(axes, "K", 0), 9000000000);
    check(pairs_add(types, "state=f32", false, &err));
    check_str(json_str(types, "state", NULL), "f32");
    static const char *const bad[] = {"B", "B=", "=4", "", ",", "B=x", "B=4.5", "B=4,B=5", "B=99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_object_clear(other);
        check(!pairs_add(other, bad[i], true, &err));
    }
}

/* ---- events ---- */
struct heard { struct buf text; int stop_after; };

static bool hear(void *ctx, const char *type, const char *id, const char *data, size_t size)
{
    struct heard *h = ctx;
    check_int(strlen(data), size);
    buf_fmt(&h->text, "%s|%s|%s;", type, id, data);
    return --h->stop_after != 0;
}

static void test_sse(void)
{
    static const char stream[] = "\xef\xbb\xbf: a comment\n\nretry: 250\nid: 1\nevent: job.state\ndata: {\"a\":1}\n\n"
                                 "id: 2\r\ndata: one\r\ndata:two\r\n\r\nid: 3\rdata: x\r\rdata\n\nid: 4\n\nevent: cut\nid: 5\ndata: half";
    static const char want[] = "job.state|1|{\"a\":1};message|2|one\ntwo;message|3|x;message|3|;";
    for (size_t step = 1; step < sizeof stream; step++) {   /* cut anywhere: the same events */
        cleanup(sse) struct sse s = {0};
        struct heard h = {.stop_after = -1};
        for (size_t at = 0; at < sizeof stream - 1; at += step)
            check(sse_feed(&s, stream + at, at + step < sizeof stream - 1 ? step : sizeof stream - 1 - at, hear, &h));
        check_str(buf_cstr(&h.text), want);
        check_str(s.last_id, "4");      /* 5 is not whole: resuming asks for what comes after 4 */
        check_int(s.retry_ms, 250);
        sse_restart(&s);
        check(sse_feed(&s, "data: again\n\n", 13, hear, &h));
        check(strstr(buf_cstr(&h.text), "message|4|again;"));
        buf_done(&h.text);
    }
    cleanup(sse) struct sse s = {0};
    struct heard h = {.stop_after = 1};
    check(!sse_feed(&s, "data: 1\n\ndata: 2\n\n", 18, hear, &h) && !s.failed);
    check_str(buf_cstr(&h.text), "message||1;");
    buf_done(&h.text);
    cleanup(sse) struct sse flood = {0};
    struct heard none = {.stop_after = -1};
    cleanup(str) char *line = xalloc(1 << 16);
    memset(line, 'x', 1 << 16);
    bool alive = true;
    int fed = 0;
    for (; alive && fed < 64; fed++)
        alive = sse_feed(&flood, line, 1 << 16, hear, &none);
    check(!alive && flood.failed && fed <= 17);
    cleanup(sse) struct sse ids = {0};
    check(sse_feed(&ids, "id: 123456789012345678901234567890123456\ndata: x\n\n", 49, hear, &none));
    check_str(ids.last_id, "");         /* one that does not fit is not cut and sent back */
    buf_done(&none.text);
}

/* ---- hostile text ---- */
static void test_clean(void)
{
    static const struct { const char *in, *out; } cases[] = {
        {"plain \xc3\xa9", "plain \xc3\xa9"},
        {"\x1b[2J\x1b]0;title\x07", "\xef\xbf\xbd[2J\xef\xbf\xbd]0;title\xef\xbf\xbd"},
        {"a\nb\tc\rd", "a b c\xef\xbf\xbd" "d"},
        {"\xc2\x9b" "31m", "\xef\xbf\xbd" "31m"},                              /* C1: CSI in one character */
        {"\xe2\x80\xaetxt.exe", "\xef\xbf\xbdtxt.exe"},                        /* right-to-left override */
        {"\x7f", "\xef\xbf\xbd"}, {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"}, {NULL, ""},
        {"123456789012345678901", "12345678901234567890..."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(buf) struct buf b = {0};
        term_clean(&b, cases[i].in, 20);
        check_str(buf_cstr(&b), cases[i].out);
    }
    cleanup(buf) struct buf block = {0}, time = {0}, part = {0};
    term_clean_block(&block, "a\n\x1b[0mb", 100, "  ");
    check_str(buf_cstr(&block), "  a\n  \xef\xbf\xbd[0mb");
    duration_text(&time, 840), buf_str(&time, ","), duration_text(&time, 3214), buf_str(&time, ","), duration_text(&time, 1.4e6);
    check_str(buf_cstr(&time), "840 ns,3.21 us,1.40 ms");
    bar(&part, 0.5, 4), bar(&part, 7, 2), bar(&part, -1, 2);
    check_str(buf_cstr(&part), "[##..][##][..]");
}

static void test_evidence(void)
{
    static const char *const estimates[] = {"emulated", "MEASURED", "measured ", "anything"};
    for (size_t i = 0; i < sizeof estimates / sizeof *estimates; i++) {
        cleanup(json) json_t *doc = json_object();
        json_put_str(doc, "evidence", estimates[i]);
        check(strstr(evidence_word(doc), "estimate") != NULL);
    }
    cleanup(json) json_t *doc = json_object();
    check_str(evidence_word(doc), "-");
    json_put_str(doc, "evidence", "measured");
    check_str(evidence_word(doc), "measured");
}

int main(void)
{
    hash_init();
    test_args();
    test_pairs();
    test_sse();
    test_clean();
    test_evidence();
    return test_done();
}

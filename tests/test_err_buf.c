#include "core/buf.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/verdict.h"
#include "tests/test.h"

#include <math.h>
#include <errno.h>

static bool fails(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "no kernel %s", "k1");
}

static void errors_keep_code_and_gain_context(void)
{
    struct err err = {0};
    check(!fails(&err));
    check_int(err.code, ERR_NOT_FOUND);
    check(!err_wrap(&err, "shape %d", 3));
    check_str(err.text, "shape 3: no kernel k1");
    check_int(err.code, ERR_NOT_FOUND);
    check(!fails(NULL));
    check(!err_set(&err, ERR_BUSY, "again: %s", err.text));
    check_str(err.text, "again: shape 3: no kernel k1");
    errno = ENOSPC;
    check(!err_errno(&err, ERR_INTERNAL, "write"));
    check_int(err.code, ERR_NO_SPACE);
    check_int(err_http_status(ERR_GONE), 410);
    check_int(err_code_parse(err_name(ERR_CONFLICT)), ERR_CONFLICT);
    check_int(err_code_parse("nonsense"), ERR_INTERNAL);
}

static void a_buffer_grows_and_stops_at_its_limit(void)
{
    cleanup(buf) struct buf b = {.limit = 10};
    buf_str(&b, "12345");
    buf_fmt(&b, "%d", 678);
    check_str(buf_cstr(&b), "12345678");
    check(!b.overflow);
    buf_str(&b, "abcdef");
    check(b.overflow);
    check_str(buf_cstr(&b), "12345678ab");
    check(buf_room(&b, 1) == NULL);
    buf_clear(&b);
    check(!b.overflow && b.size == 0);
    cleanup(buf) struct buf large = {0};
    for (int i = 0; i < 10000; i++)
        buf_fmt(&large, "%0100d", i);
    check_int(large.size, 1000000);
    cleanup(buf) struct buf empty = {0};
    check_str(buf_cstr(&empty), "");
    cleanup(str) char *taken = buf_take(&empty);
    check_str(taken, "");
}

static void text_is_cleaned(void)
{
    static const struct { const char *in, *out; } cases[] = {
        {"plain\n\ttext", "plain\n\ttext"},
        {"a\x1b[31mred", "a\xef\xbf\xbd[31mred"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},             /* overlong */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* surrogate */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"c1\xc2\x80" "b\xc2\x9f" "c\xc2\x85", "c1\xef\xbf\xbd" "b\xef\xbf\xbd" "c\xef\xbf\xbd"},
        {"\xc2\xa0\xc3\x80\xc4\x80", "\xc2\xa0\xc3\x80\xc4\x80"},                    /* no controls: just beyond */
        {"\xe2\x80\x8e|\xe2\x80\x8f|\xe2\x80\xaa|\xe2\x80\xae|\xe2\x81\xa6|\xe2\x81\xa9", "\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd"},   /* turns text round */
        {"\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa", "\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa"},
        {"cut\xe2\x82", "cut\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(buf) struct buf b = {0};
        utf8_clean(&b, cases[i].in, strlen(cases[i].in));
        check_str(buf_cstr(&b), cases[i].out);
        check(utf8_valid(buf_cstr(&b), b.size));
    }
#define GONE "\xef\xbf\xbd"
    static const struct { const char *in, *out; } unseen[] = {
        {"a\xc2\xad" "b\xe2\x80\x8d" "c\xe2\x80\xa8", "a" GONE "b" GONE "c" GONE},                     /* soft hyphen, joiner, line separator */
        {"\xf3\xa0\x81\x89\xf3\xa0\x84\x80|\xef\xb8\x8f|\xef\xbb\xbf", GONE GONE "|" GONE "|" GONE},   /* a tag, selectors, a byte order mark */
        {"Gr\xc3\xb6\xc3\x9f" "e \xe2\x82\xac \xf0\x9f\x98\x80 \xe6\xbc\xa2\xe5\xad\x97\n\t", "Gr\xc3\xb6\xc3\x9f" "e \xe2\x82\xac \xf0\x9f\x98\x80 \xe6\xbc\xa2\xe5\xad\x97\n\t"},
        {"\xe2\x80\x90\xe2\x80\xaf\xe2\x81\x9f\xef\xb7\xbf\xef\xb8\x90\xf3\xa1\x80\x80", "\xe2\x80\x90\xe2\x80\xaf\xe2\x81\x9f\xef\xb7\xbf\xef\xb8\x90\xf3\xa1\x80\x80"},   /* just beyond */
        {"a\x1b" "b\xc0\xaf", "a" GONE "b" GONE GONE}};
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++) {
        cleanup(buf) struct buf b = {0};
        utf8_clean_visible(&b, unseen[i].in, strlen(unseen[i].in));
        check_str(buf_cstr(&b), unseen[i].out);
    }
}

static void files_are_written_whole(void)
{
    char dir[] = "/tmp/proteus_buf_XXXXXX";
    struct err err = {0};
    check(mkdtemp(dir) != NULL);
    cleanup(str) char *sub = xfmt("%s/a/b", dir), *path = xfmt("%s/f", sub);
    check(dir_make(sub, 0700, &err));
    check(dir_make(sub, 0700, &err));
    check(file_write(path, "hello", 5, 0600, &err));
    cleanup(buf) struct buf back = {0};
    check(file_read(path, 100, &back, &err));
    check_str(buf_cstr(&back), "hello");
    check(!file_read(path, 4, &back, &err) && err.code == ERR_TOO_LARGE);
    check(!file_read("/nonexistent/x", 4, &back, &err) && err.code == ERR_NOT_FOUND);
    check(!file_read(dir, 4, &back, &err));
    check_str(buf_cstr(&back), "hello");
    cleanup(str) char *command = xfmt("rm -rf %s", dir);
    check_int(system(command), 0);
}

static void ids_sort_by_time_and_are_checked(void)
{
    struct id a = id_new("job");
    clock_sleep_ns(3000000);
    struct id b = id_new("job");
    check(strcmp(a.text, b.text) < 0);
    check(id_valid(a.text, "job"));
    check(!id_valid(a.text, "cand"));
    check(!id_valid("job_../../etc/passwd.........", "job"));
    check_str(hash_of("abc", 3).text, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    check(hash_hex_valid(hash_of("", 0).text));
    check(!hash_hex_valid("ABC"));
    check_str(clock_text(0).text, "1970-01-01T00:00:00.000Z");
}

static void verdicts_survive_the_wire(void)
{
    for (int i = 0; i < VERDICT_COUNT; i++) {
        cleanup(verdict) struct verdict v = {0}, back = {0};
        struct err err = {0};
        verdict_set(&v, (enum verdict_code)i, "correct", "worst \x01 element %d", i);
        cleanup(json) json_t *doc = verdict_encode(&v);
        check(verdict_parse(doc, &back, &err));
        check_int(back.code, i);
        check_str(back.text, v.text);
        check_str(back.phase, "correct");
        check(strchr(back.text, 1) == NULL);
    }
    struct err err = {0};
    struct verdict v;
    cleanup(json) json_t *bad = json_pack("{s:s}", "code", "fine");
    check(!verdict_parse(bad, &v, &err));
}

int main(void)
{
    hash_init();
    errors_keep_code_and_gain_context();
    a_buffer_grows_and_stops_at_its_limit();
    text_is_cleaned();
    files_are_written_whole();
    ids_sort_by_time_and_are_checked();
    verdicts_survive_the_wire();
    return test_done();
}

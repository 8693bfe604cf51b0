#include "core/json.h"
#include "tests/test.h"

#include <math.h>

static bool accepts(const char *text)
{
    cleanup(json) json_t *v = NULL;
    struct err err = {0};
    bool ok = json_parse(text, strlen(text), &v, &err);
    check(ok || (err.code == ERR_INVALID && strstr(err.text, "JSON")));
    return ok;
}

static void strict_reading(void)
{
    static const struct { const char *text; bool ok; } cases[] = {
        {"{\"a\":1}", true}, {"[]", true}, {"3", true}, {"", false}, {"{\"a\":1,\"a\":2}", false}, {"{\"a\":1} x", false},
        {"{\"a\":\"\\u0000\"}", false}, {"{\"a\":\"\xff\"}", false}, {"{'a':1}", false}, {"[1,]", false}, {"nan", false},
        {"{\"a\":1e999}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_int(accepts(cases[i].text), cases[i].ok);
    cleanup(buf) struct buf deep = {0};
    for (int i = 0; i < JSON_MAX_DEPTH; i++)
        buf_str(&deep, "[");
    for (int i = 0; i < JSON_MAX_DEPTH; i++)
        buf_str(&deep, "]");
    check(accepts(buf_cstr(&deep)));
    buf_clear(&deep);
    for (int i = 0; i < 200000; i++)
        buf_str(&deep, "[");
    check(!accepts(buf_cstr(&deep)));
    check(accepts("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[\"]"));
}

static void writing_is_exact_and_short(void)
{
    static const double values[] = {0.1, 1.0, -2.5, 1e-6, 1.0 / 3.0, 123456789.123, 5e-324, 1.7976931348623157e308, 4.226e12};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        cleanup(json) json_t *array = json_array(), *back = NULL;
        json_array_append_new(array, json_real(values[i]));
        cleanup(str) char *text = json_text(array);
        struct err err = {0};
        check(json_parse(text, strlen(text), &back, &err));
        check(json_is_real(json_array_get(back, 0)));
        check(json_real_value(json_array_get(back, 0)) == values[i]);
    }
    static const struct { double value; const char *text; } forms[] = {
        {4130, "[4130.0]"}, {0.1, "[0.1]"}, {1e-6, "[1e-06]"}, {1e300, "[1e+300]"}, {-31000, "[-31000.0]"}, {123456.5, "[123456.5]"}, {1e15, "[1000000000000000.0]"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        cleanup(json) json_t *one = json_array();
        json_array_append_new(one, json_real(forms[i].value));
        cleanup(str) char *written = json_text(one);
        check_str(written, forms[i].text);
    }
    cleanup(json) json_t *doc = json_pack("{s:f,s:s,s:i,s:[i,b],s:n,s:{}}", "z", 0.1, "a", "q\"\\\n\x01", "n", -7, "l", 1, 1, "x", "o");
    cleanup(str) char *text = json_text(doc);
    check_str(text, "{\"z\":0.1,\"a\":\"q\\\"\\\\\\n\\u0001\",\"n\":-7,\"l\":[1,true],\"x\":null,\"o\":{}}");
    json_put_num(doc, "z", NAN);
    json_put_str(doc, "a", "bad \xff utf8");
    cleanup(buf) struct buf pretty = {0};
    cleanup(json) json_t *back = NULL;
    json_write_pretty(&pretty, doc);
    check(json_parse(pretty.data, pretty.size, &back, NULL));
    check(json_equal(back, doc));
    check(json_is_null(json_object_get(back, "z")));
}

static void faults_are_kept_with_pointers(void)
{
    struct faults f = {0};
    static const char *const keys[] = {"a", "b", NULL};
    cleanup(json) json_t *doc = json_pack("{s:i,s:i,s:i}", "a", 1, "c", 2, "d", 3);
    json_only_keys(doc, "/x", keys, &f);
    check_int(f.count, 2);
    check_str(f.list[0].pointer, "/x/c");
    for (int i = 0; i < 100; i++)
        faults_add(&f, "/many", "no. %d", i);
    check_int(f.count, 102);
    check_str(f.list[FAULTS_MAX - 1].detail, "no. 13");
}

static void a_mark_in_front(void)
{
    cleanup(json) json_t *doc = NULL, *none = NULL;
    char path[] = "/tmp/proteus-json-XXXXXX";
    struct err err = {0};
    int fd = mkstemp(path);
    check(fd >= 0 && close(fd) == 0);
    check(file_write(path, "\xef\xbb\xbf{\"a\":1}", 10, 0600, &err) && json_parse_file(path, 100, &doc, &err) && json_int(doc, "a", 0) == 1);
    check(file_write(path, "\xef\xbb\xbf\xef\xbb\xbf{}", 8, 0600, &err) && !json_parse_file(path, 100, &none, &err));
    check(file_write(path, "\xef\xbb{}", 4, 0600, &err) && !json_parse_file(path, 100, &none, &err));
    unlink(path);
}

int main(void)
{
    strict_reading();
    a_mark_in_front();
    writing_is_exact_and_short();
    faults_are_kept_with_pointers();
    return test_done();
}

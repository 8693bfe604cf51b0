#include "core/buf.h"
#include "core/expr.h"
#include "tests/test.h"

static bool names(void *ctx, const char *name, int64_t *ret)
{
    (void)ctx;
    if (strcmp(name, "B") == 0)
        *ret = 4;
    else if (strcmp(name, "HV_2") == 0)
        *ret = 64;
    else
        return false;
    return true;
}

static void values(void)
{
    static const struct { const char *text; int64_t value; } cases[] = {
        {"1", 1}, {" 2 + 3 * 4 ", 14}, {"(2+3)*4", 20}, {"7/2", 3}, {"-7/2", -3}, {"7%3", 1}, {"B*HV_2", 256}, {"10-3-2", 5},
        {"min(B,3)", 3}, {"max(B, HV_2)", 64}, {"cdiv(65,HV_2)", 2}, {"cdiv(0,3)", 0}, {"--5", 5}, {"2*-3", -6}, {"4*B*HV_2", 1024},
        {"9223372036854775807", INT64_MAX}, {"min(max(1,2),cdiv(9,2))", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t v = -999;
        struct err err = {0};
        check(expr_eval(cases[i].text, EXPR_SIZE, names, NULL, &v, &err));
        check_int(v, cases[i].value);
    }
    static const struct { const char *text; int64_t value; } logic[] = {
        {"B == 4", 1}, {"B != 4", 0}, {"B < 5 && HV_2 >= 64", 1}, {"B > 5 || 0", 0}, {"HV_2 % B == 0", 1}, {"1 + 1 == 2", 1},
        {"B <= 4 && (B == 3 || HV_2 > 1)", 1},
    };
    for (size_t i = 0; i < sizeof logic / sizeof *logic; i++) {
        int64_t v = -999;
        check(expr_eval(logic[i].text, EXPR_LOGIC, names, NULL, &v, NULL));
        check_int(v, logic[i].value);
    }
}

static void refusals_say_why_and_leave_the_result(void)
{
    static const struct { const char *text, *why; } cases[] = {
        {"", "too early"}, {"1+", "too early"}, {"B+x", "unknown name \"x\""}, {"1/0", "division by zero"}, {"1%(B-4)", "division by zero"},
        {"9223372036854775807+1", "overflow"}, {"9223372036854775808", "overflow"}, {"4000000000*4000000000", "overflow"},
        {"B == 4", "unexpected"}, {"1 2", "unexpected"}, {"(1", "parenthesis"}, {"f(1,2)", "unknown function"}, {"min(1)", "comma"},
        {"1.5", "not an integer"}, {"3x", "not an integer"}, {"cdiv(1,0)", "cdiv"}, {"B;", "unexpected"}, {"system(1,2)", "unknown function"},
        {"(0-9223372036854775807-1)/(0-1)", "overflow"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t v = 77;
        struct err err = {0};
        check(!expr_eval(cases[i].text, EXPR_SIZE, names, NULL, &v, &err));
        check(strstr(err.text, cases[i].why) != NULL);
        if (!strstr(err.text, cases[i].why))
            fprintf(stderr, "   %s: %s\n", cases[i].text, err.text);
        check_int(v, 77);
    }
}

static void depth_and_length_are_bounded(void)
{
    int64_t v;
    for (int kind = 0; kind < 3; kind++) {
        cleanup(buf) struct buf b = {0};
        for (int i = 0; i < 400; i++)
            buf_str(&b, kind == 0 ? "(" : kind == 1 ? "-" : "min(1,");
        buf_str(&b, "1");
        for (int i = 0; i < 400 && kind != 1; i++)
            buf_str(&b, ")");
        check(!expr_eval(buf_cstr(&b), EXPR_SIZE, names, NULL, &v, NULL));
    }
    cleanup(buf) struct buf sum = {0};
    for (int i = 0; i < 500; i++)
        buf_str(&sum, "1+");
    buf_str(&sum, "1");
    check(expr_eval(buf_cstr(&sum), EXPR_SIZE, names, NULL, &v, NULL));
    check_int(v, 501);
    for (int i = 0; i < 500; i++)
        buf_str(&sum, "+1");
    check(!expr_eval(buf_cstr(&sum), EXPR_SIZE, names, NULL, &v, NULL));
}

int main(void)
{
    values();
    refusals_say_why_and_leave_the_result();
    depth_and_length_are_bounded();
    return test_done();
}

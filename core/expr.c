/* Recursive descent over the text, evaluated as it is read; precedence by a table of levels. */
#include "core/expr.h"

#include "core/buf.h"

#include <ctype.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_TEXT = 1024, MAX_NAME = 64, LOWEST_LOGIC = 0, LOWEST_SIZE = 4, HIGHEST = 6 };

struct parse {
    const char *text, *at;
    expr_lookup *lookup;
    void *ctx;
    int depth, lowest;
    struct err *err;
};

static bool fail(struct parse *p, const char *what)
{
    return err_set(p->err, ERR_INVALID, "expression \"%.80s\": %s at character %d", p->text, what, (int)(p->at - p->text) + 1);
}

static void skip_space(struct parse *p)
{
    while (*p->at == ' ' || *p->at == '\t')
        p->at++;
}

static const struct { const char *text; int level; char code; } operators[] = {
    {"||", 0, '|'}, {"&&", 1, '&'}, {"==", 2, '='}, {"!=", 2, '!'}, {"<=", 3, 'l'}, {">=", 3, 'g'}, {"<", 3, '<'},
    {">", 3, '>'},  {"+", 4, '+'},  {"-", 4, '-'},  {"*", 5, '*'},  {"/", 5, '/'},  {"%", 5, '%'},
};

static bool apply(struct parse *p, char code, int64_t a, int64_t b, int64_t *ret)
{
    int64_t v = 0;
    switch (code) {
    case '|': v = a || b; break;
    case '&': v = a && b; break;
    case '=': v = a == b; break;
    case '!': v = a != b; break;
    case 'l': v = a <= b; break;
    case 'g': v = a >= b; break;
    case '<': v = a < b; break;
    case '>': v = a > b; break;
    case '+':
        if (__builtin_add_overflow(a, b, &v))
            return fail(p, "overflow");
        break;
    case '-':
        if (__builtin_sub_overflow(a, b, &v))
            return fail(p, "overflow");
        break;
    case '*':
        if (__builtin_mul_overflow(a, b, &v))
            return fail(p, "overflow");
        break;
    default:
        if (b == 0)
            return fail(p, "division by zero");
        if (a == INT64_MIN && b == -1)
            return fail(p, "overflow");
        v = code == '/' ? a / b : a % b;
    }
    *ret = v;
    return true;
}

static bool parse_level(struct parse *p, int level, int64_t *ret);

static bool parse_call(struct parse *p, const char *name, int64_t *ret)
{
    int64_t a, b;
    p->at++;
    if (!parse_level(p, p->lowest, &a))
        return false;
    skip_space(p);
    if (*p->at != ',')
        return fail(p, "a comma is missing");
    p->at++;
    if (!parse_level(p, p->lowest, &b))
        return false;
    skip_space(p);
    if (*p->at != ')')
        return fail(p, "a closing parenthesis is missing");
    p->at++;
    if (strcmp(name, "min") == 0)
        *ret = a < b ? a : b;
    else if (strcmp(name, "max") == 0)
        *ret = a > b ? a : b;
    else if (strcmp(name, "cdiv") == 0) {
        if (b <= 0 || a < 0)
            return fail(p, "cdiv needs a first argument of at least 0 and a second above 0");
        *ret = a / b + (a % b != 0);
    } else
        return fail(p, "unknown function (there are min, max, cdiv)");
    return true;
}

static bool parse_atom(struct parse *p, int64_t *ret)
{
    skip_space(p);
    if (*p->at == '(') {
        p->at++;
        if (!parse_level(p, p->lowest, ret))
            return false;
        skip_space(p);
        if (*p->at != ')')
            return fail(p, "a closing parenthesis is missing");
        p->at++;
        return true;
    }
    if (*p->at == '-') {
        p->at++;
        int64_t v;
        if (++p->depth > MAX_DEPTH)
            return fail(p, "nested too deeply");
        if (!parse_atom(p, &v))
            return false;
        p->depth--;
        return apply(p, '-', 0, v, ret);
    }
    if (isdigit((unsigned char)*p->at)) {
        int64_t v = 0;
        while (isdigit((unsigned char)*p->at))
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p->at++ - '0', &v))
                return fail(p, "overflow");
        if (isalpha((unsigned char)*p->at) || *p->at == '_' || *p->at == '.')
            return fail(p, "not an integer");
        *ret = v;
        return true;
    }
    if (isalpha((unsigned char)*p->at) || *p->at == '_') {
        char name[MAX_NAME];
        size_t n = 0;
        const char *start = p->at;
        while (isalnum((unsigned char)*p->at) || *p->at == '_') {
            if (n + 1 >= sizeof name)
                return fail(p, "a name is too long");
            name[n++] = *p->at++;
        }
        name[n] = 0;
        skip_space(p);
        if (*p->at == '(')
            return parse_call(p, name, ret);
        if (!p->lookup || !p->lookup(p->ctx, name, ret)) {
            p->at = start;
            char what[MAX_NAME + 32];
            snprintf(what, sizeof what, "unknown name \"%s\"", name);
            return fail(p, what);
        }
        return true;
    }
    return fail(p, *p->at ? "a number, a name or a parenthesis is needed" : "it ends too early");
}

static bool parse_level(struct parse *p, int level, int64_t *ret)
{
    if (level == HIGHEST)
        return parse_atom(p, ret);
    if (level == p->lowest && ++p->depth > MAX_DEPTH)
        return fail(p, "nested too deeply");
    int64_t left;
    if (!parse_level(p, level + 1, &left))
        return false;
    for (;;) {
        skip_space(p);
        size_t k = 0, n = sizeof operators / sizeof *operators;
        while (k < n && !(operators[k].level == level &&
                          strncmp(p->at, operators[k].text, strlen(operators[k].text)) == 0))
            k++;
        if (k == n)
            break;
        p->at += strlen(operators[k].text);
        int64_t right;
        if (!parse_level(p, level + 1, &right) || !apply(p, operators[k].code, left, right, &left))
            return false;
    }
    if (level == p->lowest)
        p->depth--;
    *ret = left;
    return true;
}

bool expr_eval(const char *text, enum expr_mode mode, expr_lookup *lookup, void *ctx, int64_t *ret, struct err *err)
{
    struct err local = {0};
    int lowest = mode == EXPR_LOGIC ? LOWEST_LOGIC : LOWEST_SIZE;
    struct parse p = {.text = text, .at = text, .lookup = lookup, .ctx = ctx, .lowest = lowest, .err = err ? err : &local};
    if (strlen(text) > MAX_TEXT)
        return err_set(err, ERR_INVALID, "expression of %zu characters: at most %d", strlen(text), MAX_TEXT);
    int64_t v;
    if (!parse_level(&p, lowest, &v))
        return false;
    skip_space(&p);
    if (*p.at)
        return fail(&p, "unexpected text");
    *ret = v;
    return true;
}

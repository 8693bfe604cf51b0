/*
 * Constant expressions among operands: 1 << 4, (3 > 2) ? 1 : 0. Integers of 64 bits, signed, with C's operators and their order; bounded in
 * depth. An expression that divides by zero is refused.
 */
#include "gpu/ptx/parse.h"

#include <string.h>

#define MOST_DEPTH 16

/* Longer ones before those that they begin with. */
static const struct { const char *text; int order; } operators[] = {
    {"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7}, {"<", 7}, {">", 7},
    {"|", 3}, {"^", 4}, {"&", 5}, {"+", 9}, {"-", 9}, {"*", 10}, {"/", 10}};      /* % begins a name here */
#define NONE (-1)

static int operator_here(const struct parser *p)
{
    if (p->lex.now.kind != TOK_PUNCT)
        return NONE;
    const char next_char = p->lex.at < p->lex.end ? *p->lex.at : 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].text[0] == *p->lex.now.text && (!operators[i].text[1] || operators[i].text[1] == next_char))
            return (int)i;
    return NONE;
}

static bool apply(struct parser *p, const char *op, int64_t a, int64_t b, int64_t *ret)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    const bool two = op[1] != 0;
    if (*op == '/' && (!b || (a == INT64_MIN && b == -1)))
        return syntax(p, "a constant expression that has no value");
    switch (*op) {
    case '|': *ret = two ? a || b : a | b; break;
    case '&': *ret = two ? a && b : a & b; break;
    case '^': *ret = a ^ b; break;
    case '=': *ret = a == b; break;
    case '!': *ret = a != b; break;
    case '<': *ret = !two ? a < b : op[1] == '=' ? a <= b : y < 64 ? (int64_t)(x << y) : 0; break;
    case '>': *ret = !two ? a > b : op[1] == '=' ? a >= b : y < 64 ? a >> y : a < 0 ? -1 : 0; break;
    case '+': *ret = (int64_t)(x + y); break;
    case '-': *ret = (int64_t)(x - y); break;
    case '*': *ret = (int64_t)(x * y); break;
    default: *ret = a / b; break;
    }
    return true;
}

static bool whole(struct parser *p, int depth, int64_t *ret);

static bool unary(struct parser *p, int depth, int64_t *ret)
{
    if (depth > MOST_DEPTH)
        return syntax(p, "a constant expression that nests too deeply");
    if (is(p, '-') || is(p, '~') || is(p, '!') || is(p, '+')) {
        const char op = *p->lex.now.text;
        next(p);
        if (!unary(p, depth + 1, ret))
            return false;
        *ret = op == '-' ? (int64_t)(0 - (uint64_t)*ret) : op == '~' ? ~*ret : op == '!' ? !*ret : *ret;
        return true;
    }
    if (accept(p, '(')) {
        const bool cast = accept_directive(p, ".s64") || accept_directive(p, ".u64");
        if (cast)
            return expect(p, ')') && unary(p, depth + 1, ret);
        return whole(p, depth + 1, ret) && expect(p, ')');
    }
    if (p->lex.now.kind != TOK_INT)
        return syntax(p, "expected a number");
    *ret = (int64_t)p->lex.now.value;
    next(p);
    return true;
}

/* What follows `left`, as long as its operators bind more tightly than `least`. */
static bool climb(struct parser *p, int depth, int64_t left, int least, int64_t *ret)
{
    for (int op = operator_here(p); op != NONE && operators[op].order >= least; op = operator_here(p)) {
        int64_t right;
        for (const char *c = operators[op].text; *c; c++)
            next(p);
        if (!unary(p, depth + 1, &right) || !climb(p, depth + 1, right, operators[op].order + 1, &right) ||
            !apply(p, operators[op].text, left, right, &left))
            return false;
    }
    *ret = left;
    return true;
}

bool take_constant_after(struct parser *p, int64_t left, int depth, int64_t *ret)
{
    int64_t yes, no;
    if (depth > MOST_DEPTH)
        return syntax(p, "a constant expression that nests too deeply");
    if (!climb(p, depth, left, 0, &left))
        return false;
    *ret = left;
    if (!accept(p, '?'))
        return true;
    if (!whole(p, depth + 1, &yes) || !expect(p, ':') || !whole(p, depth + 1, &no))
        return false;
    *ret = left ? yes : no;
    return true;
}

static bool whole(struct parser *p, int depth, int64_t *ret)
{
    int64_t left;
    return unary(p, depth, &left) && take_constant_after(p, left, depth, ret);
}

/* After an opening bracket: an expression and no list. */
bool at_constant(struct parser *p)
{
    return p->lex.now.kind == TOK_INT || is(p, '-') || is(p, '~') || is(p, '!') || is(p, '(') ||
           directive_is(p, ".s64") || directive_is(p, ".u64");
}

bool take_constant_in_brackets(struct parser *p, int64_t *ret)
{
    const bool cast = accept_directive(p, ".s64") || accept_directive(p, ".u64");
    int64_t left;
    if (cast ? !expect(p, ')') || !unary(p, 0, &left) : !whole(p, 0, &left) || !expect(p, ')'))
        return false;
    return take_constant_after(p, left, 0, ret);
}

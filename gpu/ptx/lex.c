#include "gpu/ptx/lex.h"

#include <stdlib.h>
#include <string.h>

enum { C_SPACE = 1, C_NAME = 2, C_DIGIT = 4, C_START = 8, C_HEX = 16 };

static unsigned char_class(unsigned char c)
{
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v')
        return C_SPACE;
    unsigned r = 0;
    if (c >= '0' && c <= '9')
        r |= C_DIGIT | C_NAME | C_HEX;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$')
        r |= C_NAME | C_START;
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
        r |= C_HEX;
    if (c == '%')
        r |= C_START;
    return r;
}

static void skip_blanks(struct lexer *x)
{
    while (x->at < x->end) {
        const unsigned char c = (unsigned char)*x->at;
        if (char_class(c) & C_SPACE) {
            x->line += c == '\n';
            x->at++;
        } else if (c == '/' && x->at + 1 < x->end && x->at[1] == '/') {
            while (x->at < x->end && *x->at != '\n')
                x->at++;
        } else if (c == '/' && x->at + 1 < x->end && x->at[1] == '*') {
            x->at += 2;
            while (x->at < x->end && !(x->at[0] == '*' && x->at + 1 < x->end && x->at[1] == '/'))
                x->line += *x->at++ == '\n';
            x->at = x->at < x->end ? x->at + 2 : x->end;
        } else {
            return;
        }
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

static void lex_number(struct lexer *x, struct token *t)
{
    const char *p = x->at, *end = x->end;
    unsigned base = 10, exact = 0;
    t->kind = TOK_INT;
    if (*p == '0' && p + 1 < end) {
        const char c = p[1];
        base = c == 'x' || c == 'X' || c == 'f' || c == 'F' || c == 'd' || c == 'D' ? 16 : c == 'b' || c == 'B' ? 2 : 8;
        exact = c == 'f' || c == 'F' ? 8 : c == 'd' || c == 'D' ? 16 : 0;
        t->kind = exact == 8 ? TOK_FLOAT32 : exact == 16 ? TOK_FLOAT64 : TOK_INT;
        p += base == 8 ? 1 : 2;
    }
    const char *digits = p;
    while (p < end && hex_digit(*p) < (int)base)
        t->value = t->value * base + (uint64_t)hex_digit(*p++);
    if (exact ? p - digits != exact : base != 8 && p == digits)
        t->kind = TOK_BAD;
    if (!exact && base != 16 && p < end && (*p == '.' || *p == 'e' || *p == 'E')) { /* 1.5, 1e-3: a double */
        char copy[64];
        size_t n = 0;
        for (p = x->at; p < end && n + 1 < sizeof copy && (char_class((unsigned char)*p) & C_DIGIT || strchr(".eE+-", *p)); p++) {
            if ((*p == '+' || *p == '-') && !(n && (copy[n - 1] == 'e' || copy[n - 1] == 'E')))
                break;
            copy[n++] = *p;
        }
        copy[n] = 0;
        const double value = strtod(copy, NULL);
        memcpy(&t->value, &value, sizeof value);
        t->kind = TOK_FLOAT64;
    } else if (p < end && (*p == 'U' || *p == 'u')) {
        p++;
    }
    if (p < end && char_class((unsigned char)*p) & C_NAME)
        t->kind = TOK_BAD;
    x->at = p;
}

void ptx_lex_next(struct lexer *x)
{
    skip_blanks(x);
    struct token *t = &x->now;
    *t = (struct token){.kind = TOK_END, .text = x->at, .line = x->line};
    if (x->at >= x->end)
        return;
    const unsigned char c = (unsigned char)*x->at;
    const unsigned cls = char_class(c);
    const bool dotted = c == '.' && x->at + 1 < x->end && char_class((unsigned char)x->at[1]) & C_START;
    if (cls & C_DIGIT) {
        lex_number(x, t);
    } else if (cls & C_START || dotted) {
        t->kind = dotted ? TOK_DIRECTIVE : TOK_WORD;
        const bool special = c == '%';
        x->at++;
        while (x->at < x->end && (char_class((unsigned char)*x->at) & C_NAME || (special && *x->at == '.')))
            x->at++;
    } else if (c == '"') {
        t->kind = TOK_STRING;
        t->text = ++x->at;
        while (x->at < x->end && *x->at != '"' && *x->at != '\n')
            x->at++;
        t->size = (size_t)(x->at - t->text);
        if (x->at >= x->end || *x->at != '"')
            t->kind = TOK_BAD;
        else
            x->at++;
        return;
    } else {
        t->kind = c > ' ' && c < 127 ? TOK_PUNCT : TOK_BAD;
        x->at++;
    }
    t->size = (size_t)(x->at - t->text);
}

void ptx_lex_opcode(struct lexer *x)
{
    while (x->at < x->end && (char_class((unsigned char)*x->at) & C_NAME || *x->at == '.' || *x->at == ':'))
        x->at++;
    x->now.size = (size_t)(x->at - x->now.text);
}

void ptx_lex_start(struct lexer *x, const char *text, size_t size)
{
    *x = (struct lexer){.at = text, .end = text + size, .line = 1};
    ptx_lex_next(x);
}

bool ptx_lex_is(const struct lexer *x, char punct)
{
    return x->now.kind == TOK_PUNCT && *x->now.text == punct;
}

bool ptx_lex_word_is(const struct token *t, const char *text)
{
    return t->size == strlen(text) && !memcmp(t->text, text, t->size);
}

/*
 * PTX words. A word is a name (with '%', '$', dots after a leading '%'), a directive (".reg"), a number, a string, or one
 * punctuation character. An opcode is read whole by ptx_lex_opcode, dots, colons and all.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_kind { TOK_END, TOK_WORD, TOK_DIRECTIVE, TOK_INT, TOK_FLOAT32, TOK_FLOAT64, TOK_STRING, TOK_PUNCT, TOK_BAD };
struct token {
    enum token_kind kind;
    const char *text;   /* into the source, not terminated */
    size_t size;
    uint64_t value;     /* of a number; its bits for a float */
    uint32_t line;
};
struct lexer {
    const char *at, *end;
    uint32_t line;
    struct token now;   /* the current token */
};
void ptx_lex_start(struct lexer *x, const char *text, size_t size);
void ptx_lex_next(struct lexer *x);
/* The current token is the first word of an opcode: extends it to the whole opcode. */
void ptx_lex_opcode(struct lexer *x);
bool ptx_lex_is(const struct lexer *x, char punct);
bool ptx_lex_word_is(const struct token *t, const char *text);

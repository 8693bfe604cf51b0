/*
 * Size expressions: 64-bit integers, + - * / %, parentheses, names, min(a,b), max(a,b), cdiv(a,b); `/` truncates.
 * With EXPR_LOGIC also == != < <= > >= && ||, giving 0 or 1 (constraints of an operator).
 * Overflow, division by zero, an unknown name, more than 32 levels, more than 1024 characters: false with a reason.
 */
#pragma once
#include "core/err.h"

#include <stdint.h>

enum expr_mode { EXPR_SIZE, EXPR_LOGIC };

/* Gives a name's value; false if there is no such name. */
typedef bool expr_lookup(void *ctx, const char *name, int64_t *ret);

/* ERR_INVALID with a reason that names the text and the place. */
bool expr_eval(const char *text, enum expr_mode mode, expr_lookup *lookup, void *ctx, int64_t *ret, struct err *err) MUST_CHECK;

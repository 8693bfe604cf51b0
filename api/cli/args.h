/*
 * The words of a command line, checked against a table: `--name VALUE`, `--name=VALUE`, flags, the rest in order; `--` ends options.
 * Borrows argv. Not thread-safe.
 */
#pragma once
#include "core/err.h"

#include <stdint.h>

#define ARGS_MAX 128

struct option_spec {
    const char *name;          /* without dashes; NULL ends a table */
    const char *value;         /* what the value is called in the help; NULL: a flag */
    const char *help;
};
struct args {
    int count;                 /* words that are no options */
    const char *words[ARGS_MAX];
    int option_count;
    struct { const struct option_spec *spec; const char *value; } options[ARGS_MAX];
};
/* `tables` are tried in order, NULL ends them. ERR_INVALID names the word that is wrong. */
/* The first word that is neither an option of the table nor an option's value; argc: there is none, -1: an option that the table lacks. */
int args_first_word(int argc, char **argv, const struct option_spec *table);
bool args_parse(int argc, char **argv, const struct option_spec *const *tables, struct args *ret, struct err *err) MUST_CHECK;
/* The n-th value given for an option (n = 0: the first), NULL if there is none; a flag's value is "". */
const char *args_get(const struct args *a, const char *name, int n);
/* The last value, or the environment variable's, or the fallback. env may be NULL. An empty variable counts as not set. */
const char *args_or(const struct args *a, const char *name, const char *env, const char *fallback);
bool args_has(const struct args *a, const char *name);
/* An option that is a whole number of at least `least`; *ret is left alone when it is not given. */
bool args_int(const struct args *a, const char *name, int64_t least, int64_t *ret, struct err *err) MUST_CHECK;

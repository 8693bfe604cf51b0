#include "core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int status;
    const char *title;
} table[] = {
#define X(code, name, status, title) [code] = {name, status, title},
    ERR_TABLE(X)
#undef X
};

bool err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    if (!err)
        return false;
    struct err made = {.code = code};   /* an argument may point into err->text */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(made.text, sizeof made.text, fmt, ap);
    va_end(ap);
    *err = made;
    return false;
}

bool err_wrap(struct err *err, const char *fmt, ...)
{
    if (!err)
        return false;
    char context[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    char whole[2 * sizeof err->text];
    snprintf(whole, sizeof whole, "%s: %s", context, err->text);
    snprintf(err->text, sizeof err->text, "%s", whole);
    return false;
}

bool err_errno(struct err *err, enum err_code code, const char *fmt, ...)
{
    int saved = errno;
    if (!err)
        return false;
    char what[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (saved == ENOSPC || saved == EDQUOT)
        code = ERR_NO_SPACE;
    return err_set(err, code, "%s: %s", what, strerror(saved));
}

const char *err_name(enum err_code code)
{
    return table[code].name;
}

const char *err_title(enum err_code code)
{
    return table[code].title;
}

int err_http_status(enum err_code code)
{
    return table[code].status;
}

enum err_code err_code_parse(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (name && strcmp(table[i].name, name) == 0)
            return (enum err_code)i;
    return ERR_INTERNAL;
}

_Noreturn void err_bug(const char *file, int line, const char *func, const char *what)
{
    fprintf(stderr, "BUG: %s:%d: %s: %s\n", file, line, func, what);
    abort();
}

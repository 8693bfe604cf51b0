/*
 * Errors of ours: what failed, in one line, with a code that becomes an HTTP status in one place.
 *
 * A candidate's fault is never an error: it is a verdict (core/verdict.h). A bug is an assert.
 * A function that can fail returns bool (true = success) and takes `struct err *err` last; err may be NULL.
 * On failure out-parameters are untouched; on success err is untouched. Values, no allocation, safe in all threads.
 */
#pragma once
#include <stdbool.h>

/* X(code, name on the wire, HTTP status, title) */
#define ERR_TABLE(X)                                                                     \
    X(ERR_OK, "ok", 200, "OK")                                                           \
    X(ERR_INVALID, "invalid", 400, "The request is malformed")                           \
    X(ERR_UNAUTHENTICATED, "unauthenticated", 401, "A token is needed")                  \
    X(ERR_FORBIDDEN, "forbidden", 403, "The caller may not do this")                     \
    X(ERR_NOT_FOUND, "not_found", 404, "There is no such thing")                         \
    X(ERR_METHOD, "method_not_allowed", 405, "The method is not allowed here")           \
    X(ERR_CONFLICT, "conflict", 409, "The state does not allow this")                    \
    X(ERR_GONE, "gone", 410, "It has been withdrawn")                                    \
    X(ERR_TOO_LARGE, "too_large", 413, "The request is too large")                       \
    X(ERR_MEDIA_TYPE, "media_type", 415, "The content type is not supported")            \
    X(ERR_UNPROCESSABLE, "unprocessable", 422, "The request cannot be carried out")      \
    X(ERR_BUSY, "busy", 429, "Too much at once")                                         \
    X(ERR_INTERNAL, "internal", 500, "Something failed on our side")                     \
    X(ERR_UPSTREAM, "upstream", 502, "A program or service we depend on failed")         \
    X(ERR_UNAVAILABLE, "unavailable", 503, "Something we need is missing")               \
    X(ERR_TIMEOUT, "timeout", 504, "It took too long")                                   \
    X(ERR_NO_SPACE, "no_space", 507, "There is no space left")

enum err_code {
#define X(code, name, status, title) code,
    ERR_TABLE(X)
#undef X
};

struct err {
    enum err_code code;
    char text[504];
};

/* Sets code and text. Always returns false, so that failing is one line. */
bool err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts context in front of the text ("context: text"). Always returns false. */
bool err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_set, with ": strerror(errno)" appended; ENOSPC/EDQUOT become ERR_NO_SPACE. */
bool err_errno(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

const char *err_name(enum err_code code);   /* "not_found"; static */
const char *err_title(enum err_code code);  /* a short sentence; static */
int err_http_status(enum err_code code);
/* The code with this wire name, ERR_INTERNAL if there is none. */
enum err_code err_code_parse(const char *name);

/* A bug of ours: prints where and aborts, in release builds too. */
#define BUG_ON(cond)                                          \
    do {                                                      \
        if (__builtin_expect(!!(cond), 0))                    \
            err_bug(__FILE__, __LINE__, __func__, #cond);     \
    } while (0)
_Noreturn void err_bug(const char *file, int line, const char *func, const char *what);

#define MUST_CHECK __attribute__((warn_unused_result))

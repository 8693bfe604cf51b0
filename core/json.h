/*
 * JSON by jansson, with the rules all of Proteus shares: doubled keys and trailing text are errors, depth and size are bounded,
 * objects keep their order, errors name the place as a JSON pointer.
 */
#pragma once
#include "core/buf.h"

#include <jansson.h>

DEFINE_CLEANUP(json, json_t *, json_decref(*it))

#define JSON_MAX_DEPTH 64

/* Parses one value. ERR_INVALID names line and column. A NUL character inside a string is refused. */
bool json_parse(const char *text, size_t size, json_t **ret, struct err *err) MUST_CHECK;
bool json_parse_file(const char *path, size_t limit_bytes, json_t **ret, struct err *err) MUST_CHECK;

/* Compact text, order kept; real numbers in the shortest form that reads back equal (0.1, not 0.10000000000000001). */
void json_write(struct buf *to, const json_t *value);
void json_write_pretty(struct buf *to, const json_t *value);   /* indented by 2, ended by a newline */
char *json_text(const json_t *value);                          /* compact; the caller frees */

/* Lookups that take the wrong type for absent: borrowed, or the fallback. */
const char *json_str(const json_t *object, const char *key, const char *fallback);
int64_t json_int(const json_t *object, const char *key, int64_t fallback);
double json_num(const json_t *object, const char *key, double fallback);
bool json_bool(const json_t *object, const char *key, bool fallback);

/* Sets key to a string, number, ... (new references are stolen). A string that is not UTF-8 is cleaned. */
void json_put(json_t *object, const char *key, json_t *value);
void json_put_str(json_t *object, const char *key, const char *value);
void json_put_int(json_t *object, const char *key, int64_t value);
void json_put_num(json_t *object, const char *key, double value);   /* not finite: null */
void json_put_bool(json_t *object, const char *key, bool value);

/*
 * Faults of a request, each with the pointer to where it is: what becomes errors[] of a problem+json answer.
 * At most FAULTS_MAX are kept; `count` goes on.
 */
#define FAULTS_MAX 16
struct faults {
    int count;
    struct { char pointer[160]; char detail[240]; } list[FAULTS_MAX];
};
void faults_add(struct faults *f, const char *pointer, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Adds a fault for each key of `object` that is not in the NULL-ended list. */
void json_only_keys(const json_t *object, const char *pointer, const char *const *keys, struct faults *f);

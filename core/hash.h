/* BLAKE2b-256 by libsodium: ids of shapes, blobs, operators. Lower-case hex, 64 characters. Call hash_init once first. */
#pragma once
#include "core/buf.h"

#define HASH_BYTES 32
#define HASH_HEX_SIZE 65     /* with the NUL */

struct hash_hex { char text[HASH_HEX_SIZE]; };   /* by value */

void hash_init(void);                                             /* sodium_init; idempotent, thread-safe */
struct hash_hex hash_of(const void *data, size_t size);
bool hash_hex_valid(const char *text);                            /* exactly 64 lower-case hex digits */
void random_bytes(void *to, size_t size);                         /* from the kernel */
uint64_t random_u64(void);
/* An id such as "job_01j3k8..."; prefix, then 26 characters that sort by time of making. */
struct id { char text[40]; };
struct id id_new(const char *prefix);
bool id_valid(const char *text, const char *prefix);

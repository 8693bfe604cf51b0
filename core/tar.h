/* POSIX ustar, regular files only, in memory: the bundle of a kernel. The reader is for hostile input: bounded, plain names only. */
#pragma once
#include "core/buf.h"

void tar_add(struct buf *to, const char *name, const void *data, size_t size, int64_t mtime_s);   /* name at most 99 characters */
void tar_end(struct buf *to);
struct tar_entry { char name[100]; const char *data; size_t size; };   /* data borrowed from the archive */
/* Refuses absolute names, "..", links, doubled names, bad checksums. */
bool tar_parse(const char *archive, size_t size, struct tar_entry *entries, int max_entries, int *ret_count, struct err *err) MUST_CHECK;

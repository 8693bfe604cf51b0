/*
 * The safetensors format: u64 length (little-endian), that many bytes of JSON, then the tensors' bytes. For hostile files: every
 * length and offset is bounded and checked before use; overlapping tensors, holes, and sizes that do not fit are refused.
 */
#pragma once
#include "core/json.h"

#define SAFETENSORS_MAX_TENSORS 64
#define SAFETENSORS_MAX_DIMS 8
#define SAFETENSORS_MAX_HEADER_BYTES ((size_t)1 << 20)
#define SAFETENSORS_MAX_FILE_BYTES ((size_t)1 << 30)

struct safetensors_entry {
    char name[128];
    char dtype[16];                     /* "F32", "BF16", "I32", ... */
    int rank;
    int64_t dims[SAFETENSORS_MAX_DIMS];
    int64_t elements;
    const void *data;                   /* borrowed; aligned to nothing */
    size_t bytes;
};
struct safetensors {
    struct buf file;
    json_t *header;
    const json_t *metadata;             /* of strings; borrowed; NULL: none */
    int count;
    struct safetensors_entry entries[SAFETENSORS_MAX_TENSORS];
};
/* Takes over the bytes of `file`, also when it fails. ERR_INVALID says what is wrong with them. */
bool safetensors_parse(struct buf *file, struct safetensors *ret, struct err *err) MUST_CHECK;
bool safetensors_read(const char *path, struct safetensors *ret, struct err *err) MUST_CHECK;
void safetensors_done(struct safetensors *s);
const struct safetensors_entry *safetensors_find(const struct safetensors *s, const char *name);   /* NULL: none */
DEFINE_CLEANUP(safetensors, struct safetensors, safetensors_done(it))

/* Reads the header with the shared JSON rules, then places each tensor; the tensors must fill the rest of the file exactly. */
#include "gpu/judge/safetensors.h"

#include <string.h>

static const struct { const char *name; int bytes; } dtypes[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1}, {"U8", 1}, {"BOOL", 1}};

static int dtype_size(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, name))
            return dtypes[i].bytes;
    return 0;
}

static bool take_shape(const json_t *doc, struct safetensors_entry *e, struct err *err)
{
    const json_t *shape = json_object_get(doc, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_MAX_DIMS)
        return err_set(err, ERR_INVALID, "tensor %s: shape must be a list of at most %d sizes", e->name, SAFETENSORS_MAX_DIMS);
    e->rank = (int)json_array_size(shape);
    e->elements = 1;
    for (int d = 0; d < e->rank; d++) {
        const json_t *size = json_array_get(shape, (size_t)d);
        e->dims[d] = json_is_integer(size) ? json_integer_value(size) : -1;
        if (e->dims[d] < 0 || __builtin_mul_overflow(e->elements, e->dims[d], &e->elements) || e->elements > (int64_t)SAFETENSORS_MAX_FILE_BYTES)
            return err_set(err, ERR_INVALID, "tensor %s: dimension %d of its shape is not a sensible size", e->name, d);
    }
    return true;
}

static bool take_entry(const char *name, const json_t *doc, const char *data, size_t size, struct safetensors_entry *e, struct err *err)
{
    if (strlen(name) >= sizeof e->name || !json_is_object(doc))
        return err_set(err, ERR_INVALID, "tensor %.100s: its name is too long or it is no object", name);
    snprintf(e->name, sizeof e->name, "%s", name);
    snprintf(e->dtype, sizeof e->dtype, "%s", json_str(doc, "dtype", ""));
    int bytes = dtype_size(e->dtype);
    if (!bytes)
        return err_set(err, ERR_INVALID, "tensor %s: unknown dtype \"%s\"", e->name, e->dtype);
    if (!take_shape(doc, e, err))
        return false;
    const json_t *offsets = json_object_get(doc, "data_offsets");
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return err_set(err, ERR_INVALID, "tensor %s: data_offsets must be two integers", e->name);
    int64_t start = json_integer_value(from), end = json_integer_value(to);
    if (start < 0 || end < start || end > (int64_t)size)
        return err_set(err, ERR_INVALID, "tensor %s: bytes %lld to %lld lie outside the file's %zu", e->name, (long long)start, (long long)end, size);
    if (end - start != e->elements * bytes)
        return err_set(err, ERR_INVALID, "tensor %s: has %lld bytes, its shape and dtype want %lld", e->name, (long long)(end - start),
                       (long long)(e->elements * bytes));
    e->data = data + start;
    e->bytes = (size_t)(end - start);
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct safetensors_entry *const *x = a, *const *y = b;
    if ((*x)->data != (*y)->data)
        return (*x)->data < (*y)->data ? -1 : 1;
    return (*x)->bytes < (*y)->bytes ? -1 : (*x)->bytes > (*y)->bytes;
}

static bool check_places(const struct safetensors *s, const char *data, size_t size, struct err *err)
{
    const struct safetensors_entry *order[SAFETENSORS_MAX_TENSORS];
    for (int i = 0; i < s->count; i++)
        order[i] = &s->entries[i];
    qsort(order, (size_t)s->count, sizeof *order, by_place);
    const char *at = data;
    for (int i = 0; i < s->count; i++) {
        if (order[i]->data != at)
            return err_set(err, ERR_INVALID, "tensor %s: overlaps another or leaves a hole", order[i]->name);
        at += order[i]->bytes;
    }
    if (at != data + size)
        return err_set(err, ERR_INVALID, "%zu bytes at the file's end belong to no tensor", (size_t)(data + size - at));
    return true;
}

static bool parse(struct safetensors *s, struct err *err)
{
    uint64_t header = 0;
    if (s->file.size < 8)
        return err_set(err, ERR_INVALID, "too short to be a safetensors file");
    for (int i = 7; i >= 0; i--)
        header = header << 8 | (uint8_t)s->file.data[i];
    if (header > SAFETENSORS_MAX_HEADER_BYTES || header > s->file.size - 8)
        return err_set(err, ERR_INVALID, "the header's length of %llu bytes is more than the file or the limit allows", (unsigned long long)header);
    if (!json_parse(s->file.data + 8, (size_t)header, &s->header, err))
        return err_wrap(err, "header");
    if (!json_is_object(s->header))
        return err_set(err, ERR_INVALID, "the header must be an object");
    const char *data = s->file.data + 8 + header;
    size_t size = s->file.size - 8 - (size_t)header;
    const char *name;
    json_t *doc;
    json_object_foreach(s->header, name, doc) {
        if (!strcmp(name, "__metadata__")) {
            s->metadata = doc;
            continue;
        }
        if (s->count == SAFETENSORS_MAX_TENSORS)
            return err_set(err, ERR_INVALID, "more than %d tensors", SAFETENSORS_MAX_TENSORS);
        if (!take_entry(name, doc, data, size, &s->entries[s->count], err))
            return false;
        s->count++;
    }
    return check_places(s, data, size, err);
}

bool safetensors_parse(struct buf *file, struct safetensors *ret, struct err *err)
{
    cleanup(safetensors) struct safetensors s = {.file = *file};
    *file = (struct buf){0};
    if (!parse(&s, err))
        return false;
    *ret = s;
    s = (struct safetensors){0};
    return true;
}

bool safetensors_read(const char *path, struct safetensors *ret, struct err *err)
{
    cleanup(buf) struct buf file = {0};
    if (!file_read(path, SAFETENSORS_MAX_FILE_BYTES, &file, err))
        return false;
    return safetensors_parse(&file, ret, err) || err_wrap(err, "%s", path);
}

void safetensors_done(struct safetensors *s)
{
    buf_done(&s->file);
    json_decref(s->header);
    *s = (struct safetensors){0};
}

const struct safetensors_entry *safetensors_find(const struct safetensors *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (!strcmp(s->entries[i].name, name))
            return &s->entries[i];
    return NULL;
}

/*
 * The ustar layout: a header block of 512 bytes with octal numbers, the data padded to whole blocks, two blocks of zeros.
 *
 * Written: regular files of mode 0644, owner 0, so that equal content gives equal bytes. Read: nothing that could surprise whoever
 * unpacks it. A name is a relative path of plain parts in printable ASCII, given once; nothing hides behind the end.
 */
#include "core/tar.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define BLOCK ((size_t)512)

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2], user[32],
        group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == 512, "ustar header");

static unsigned header_sum(const struct header *h)
{
    const unsigned char *bytes = (const unsigned char *)h;
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof *h; i++) {
        bool of_checksum = i >= offsetof(struct header, checksum) && i < offsetof(struct header, type);
        sum += of_checksum ? ' ' : bytes[i];
    }
    return sum;
}

/* A relative path whose parts are neither empty nor "." nor ".."; printable ASCII without a backslash. */
static bool name_plain(const char *name)
{
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127 || *c == '\\')
            return false;
    for (const char *part = name;; part++) {
        size_t size = strcspn(part, "/");
        if (!size || (size == 1 && part[0] == '.') || (size == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += size;
        if (!*part)
            return true;
    }
}

void tar_add(struct buf *to, const char *name, const void *data, size_t size, int64_t mtime_s)
{
    static const char zeros[BLOCK];
    struct header h = {.mode = "0000644", .uid = "0000000", .gid = "0000000", .type = '0', .magic = "ustar", .version = {'0', '0'},
                       .major = "0000000", .minor = "0000000"};
    BUG_ON(strlen(name) >= sizeof h.name || !name_plain(name) || size > 077777777777 || mtime_s < 0 || mtime_s > 077777777777);
    memcpy(h.name, name, strlen(name));
    snprintf(h.size, sizeof h.size, "%011zo", size);
    snprintf(h.mtime, sizeof h.mtime, "%011" PRIo64, (uint64_t)mtime_s);
    snprintf(h.checksum, sizeof h.checksum, "%06o", header_sum(&h));
    h.checksum[7] = ' ';
    buf_add(to, &h, sizeof h);
    buf_add(to, data, size);
    buf_add(to, zeros, (BLOCK - size % BLOCK) % BLOCK);
}

void tar_end(struct buf *to)
{
    static const char zeros[2 * BLOCK];
    buf_add(to, zeros, sizeof zeros);
}

/* Octal digits, then blanks or NULs up to the end of the field. */
static bool octal(const char *field, size_t field_size, uint64_t *ret)
{
    size_t i = 0;
    uint64_t v = 0;
    while (i < field_size && field[i] == ' ')
        i++;
    size_t first = i;
    for (; i < field_size && field[i] >= '0' && field[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(field[i] - '0');   /* at most 12 digits: 36 bits */
    if (i == first)
        return false;
    for (; i < field_size; i++)
        if (field[i] != ' ' && field[i] != 0)
            return false;
    *ret = v;
    return true;
}

static bool all_zero(const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i])
            return false;
    return true;
}

static bool header_read(const struct header *h, int index, struct tar_entry *ret, struct err *err)
{
    uint64_t sum, size;
    if (memcmp(h->magic, "ustar", 5) != 0)
        return err_set(err, ERR_INVALID, "not a tar archive: entry %d has no ustar header", index);
    if (!octal(h->checksum, sizeof h->checksum, &sum) || sum != header_sum(h))
        return err_set(err, ERR_INVALID, "the archive is damaged: the header of entry %d has a wrong checksum", index);
    if (!memchr(h->name, 0, sizeof h->name) || h->prefix[0])
        return err_set(err, ERR_INVALID, "the name of entry %d is longer than 99 characters", index);
    if (!name_plain(h->name))
        return err_set(err, ERR_INVALID, "the name of entry %d is not a plain relative path", index);
    if (h->type != '0' && h->type != 0)
        return err_set(err, ERR_INVALID, "%s is not a regular file (type '%c')", h->name, isprint((unsigned char)h->type) ? h->type : '?');
    if (!octal(h->size, sizeof h->size, &size))
        return err_set(err, ERR_INVALID, "%s has no valid size", h->name);
    memcpy(ret->name, h->name, sizeof ret->name);
    ret->size = (size_t)size;
    return true;
}

bool tar_parse(const char *archive, size_t size, struct tar_entry *entries, int max_entries, int *ret_count, struct err *err)
{
    int count = 0;
    size_t at = 0;
    for (;;) {
        if (size - at < BLOCK)
            return err_set(err, ERR_INVALID, "the archive ends without an end mark: it was cut");
        if (all_zero(archive + at, BLOCK))
            break;
        if (count == max_entries)
            return err_set(err, ERR_TOO_LARGE, "the archive holds more than %d files", max_entries);
        struct header h;
        struct tar_entry *e = &entries[count];
        memcpy(&h, archive + at, sizeof h);
        if (!header_read(&h, count + 1, e, err))
            return false;
        at += BLOCK;
        size_t padding = (BLOCK - e->size % BLOCK) % BLOCK;
        if (e->size > size - at || padding > size - at - e->size)
            return err_set(err, ERR_INVALID, "the archive was cut within %s", e->name);
        for (int i = 0; i < count; i++)
            if (!strcmp(entries[i].name, e->name))
                return err_set(err, ERR_INVALID, "%s is in the archive twice", e->name);
        e->data = archive + at;
        at += e->size + padding;
        count++;
    }
    if (!all_zero(archive + at, size - at))
        return err_set(err, ERR_INVALID, "there is data behind the end of the archive");
    *ret_count = count;
    return true;
}

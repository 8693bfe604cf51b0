/* The file of a card's answers: written by card.c, read by the tests. A bad file is an error, never a crash. */
#include "tests/truth/truth.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC "PTXROWS1"
#define ROW_HEAD_BYTES 32

struct reader { const char *at; size_t left; };

static bool take(struct reader *r, void *to, size_t bytes)
{
    if (r->left < bytes)
        return false;
    memcpy(to, r->at, bytes);
    r->at += bytes;
    r->left -= bytes;
    return true;
}

static int by_row(const void *a, const void *b)
{
    const uint64_t x = ((const struct truth_answer *)a)->row, y = ((const struct truth_answer *)b)->row;
    return x < y ? -1 : x > y;
}

static bool read_answer(struct reader *r, struct truth_answer *ret)
{
    struct truth_answer a = {0};
    if (!take(r, &a.row, 8) || !take(r, &a.threads, 4) || !take(r, &a.words, 4) || !take(r, &a.kept, 4) || !take(r, &a.stride, 4) ||
        !take(r, &a.digest, 8))
        return false;
    if (!a.words || a.words > TRUTH_MOST_WORDS || a.threads > 1 << 20 || a.kept > a.threads || !a.stride || a.stride > a.threads ||
        (a.kept && (uint64_t)(a.kept - 1) * a.stride >= a.threads))
        return false;
    const size_t bytes = (size_t)a.kept * a.words * 4;
    if (r->left < bytes)
        return false;
    a.values = (const uint32_t *)(const void *)r->at; /* all that comes before is a multiple of 4 */
    r->at += bytes;
    r->left -= bytes;
    *ret = a;
    return true;
}

bool truth_data_read(const char *path, struct truth_data *ret, struct err *err)
{
    cleanup(buf) struct buf b = {0};
    if (!file_read(path, (size_t)128 << 20, &b, err))
        return false;
    cleanup(truth_data) struct truth_data d = {0};
    struct reader r = {b.data, b.size};
    char magic[8];
    uint32_t count;
    if (!take(&r, magic, 8) || memcmp(magic, MAGIC, 8) != 0 || !take(&r, &count, 4) || count > r.left / ROW_HEAD_BYTES)
        return err_set(err, ERR_INVALID, "%s: not a file of answers", path);
    d.answers = xarray(count + 1, sizeof *d.answers);
    for (; d.count < count; d.count++)
        if (!read_answer(&r, &d.answers[d.count]))
            return err_set(err, ERR_INVALID, "%s: answer %zu of %u is cut short or out of range", path, d.count, count);
    if (r.left)
        return err_set(err, ERR_INVALID, "%s: %zu bytes too many", path, r.left);
    d.bytes = buf_take(&b);
    qsort(d.answers, d.count, sizeof *d.answers, by_row);
    *ret = d;
    d = (struct truth_data){0};
    return true;
}

void truth_data_done(struct truth_data *d)
{
    free(d->answers);
    free(d->bytes);
    *d = (struct truth_data){0};
}

const struct truth_answer *truth_data_find(const struct truth_data *d, const char *text)
{
    const struct truth_answer key = {.row = truth_hash(TRUTH_HASH_START, text, strlen(text))};
    return d->count ? bsearch(&key, d->answers, d->count, sizeof key, by_row) : NULL;
}

void truth_data_start(struct buf *to, uint32_t count)
{
    buf_str(to, MAGIC);
    buf_add(to, &count, 4);
}

void truth_data_add(struct buf *to, const struct truth_answer *a)
{
    buf_add(to, &a->row, 8);
    buf_add(to, &a->threads, 4);
    buf_add(to, &a->words, 4);
    buf_add(to, &a->kept, 4);
    buf_add(to, &a->stride, 4);
    buf_add(to, &a->digest, 8);
    buf_add(to, a->values, (size_t)a->kept * a->words * 4);
}

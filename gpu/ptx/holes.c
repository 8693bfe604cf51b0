/*
 * Buffers with holes: of many rows only some are held, all else is zeros of which no page is there. A store that changes a byte of a hole
 * is found as one to a frozen byte is. One that leaves it zero changes nothing, but it makes a page: so many of them are let pass.
 */
#include "gpu/ptx/machine.h"

#define IDLE_STORES 65536       /* of a launch: 256 MiB, where each is to a page of its own */

/* The first of the rows that are held at or after this one. */
static int64_t held_from(const struct ptx_held *h, int64_t row)
{
    int64_t low = 0, high = h->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (h->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool holes_touched(const struct region *r, uint64_t offset, uint64_t bytes)
{
    const struct ptx_held *h = r->held;
    const int64_t first = (int64_t)(offset / h->row_bytes), last = (int64_t)((offset + bytes - 1) / h->row_bytes);
    int64_t at = held_from(h, first);
    for (int64_t row = first; row <= last; row++, at++)
        if (at >= h->count || h->rows[at] != row)
            return true;
    return false;
}

bool holes_store(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes, const uint8_t *value)
{
    struct region *r = p->region;
    struct ptx_finding *f = &w->block->worker->finding;
    if (!holes_touched(r, p->offset, bytes))
        return true;
    bool changes = false;
    for (unsigned n = 0; n < bytes; n++)
        changes = changes || ((!value || value[n] != p->data[n]) && holes_touched(r, p->offset + n, 1));
    if (!changes && atomic_fetch_add_explicit(&r->idle_stores, 1, memory_order_relaxed) < IDLE_STORES)
        return true;
    snprintf(f->buffer, sizeof f->buffer, "%s", r->name);
    f->offset_bytes = (int64_t)p->offset;
    f->access_bytes = bytes;
    if (!changes)
        return fault(w, i, lane, PTX_RESOURCE, "stores zeros in more rows of %s that no index names than the emulator keeps", r->name);
    return fault(w, i, lane, PTX_FROZEN, "changes %u bytes at offset %lld of %s, in row %lld, which no index names", bytes, (long long)p->offset, r->name,
                 (long long)(p->offset / r->held->row_bytes));
}

static size_t words_between(uint64_t from, uint64_t end) { return (size_t)((end + 63) / 64 - from / 64); }

uint64_t holes_count_sectors(const struct machine *m, const struct region *r, const uint64_t *marks)
{
    uint64_t sum = 0, done = 0;         /* words of marks that were counted: rows may share one */
    for (int64_t i = 0; i < r->held->count; i++) {
        const uint64_t from = (uint64_t)r->held->rows[i] * r->held->row_bytes / 32, end = from + r->held->row_bytes / 32 + 1;
        const uint64_t word = from / 64 < done ? done : from / 64;
        if (word * 64 < end)
            sum += m->lanes->bits_count(marks + word, words_between(word * 64, end));
        done = (end + 63) / 64;
    }
    return sum;
}

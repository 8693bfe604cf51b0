/*
 * On a card, tensors of which some rows are held: the whole of it is there and cleared, the rows travel side by side and are put to their
 * places, and taken from them, by our own kernels. What lies between them must be zero after the run: one more kernel looks at all of it,
 * gigabytes in some milliseconds.
 */
#include "gpu/device/cuda_api.h"

#include <string.h>

/* Whole words of this many bytes: what address and rows are multiples of. */
static uint32_t word_of(CUdeviceptr at, int64_t row_bytes)
{
    const uint64_t both = at | (uint64_t)row_bytes;
    return both % 8 == 0 ? 8 : both % 4 == 0 ? 4 : both % 2 == 0 ? 2 : 1;
}

/* Rows in succession are one piece. `side`: where they lie side by side; into the tensor at `at`, or out of it. */
static int rows_list(const struct device_held *h, CUdeviceptr at, CUdeviceptr side, bool into, struct piece *ret)
{
    int count = 0;
    for (int64_t i = 0, end; i < h->count; i = end) {
        for (end = i + 1; end < h->count && h->rows[end] == h->rows[end - 1] + 1;)
            end++;
        const CUdeviceptr there = at + (uint64_t)(h->rows[i] * h->row_bytes), here = side + (uint64_t)(i * h->row_bytes);
        ret[count++] = (struct piece){.to = into ? there : here, .from = into ? here : there, .bytes = (uint64_t)((end - i) * h->row_bytes),
                                      .element = word_of(at, h->row_bytes)};
    }
    return count;
}

/* What lies before, between and behind them. */
static int holes_list(const struct device_held *h, CUdeviceptr at, uint64_t bytes, struct piece *ret)
{
    int count = 0;
    uint64_t from = 0;
    for (int64_t i = 0; i <= h->count; i++) {
        const uint64_t end = i < h->count ? (uint64_t)(h->rows[i] * h->row_bytes) : bytes;
        if (end > from)
            ret[count++] = (struct piece){.to = at + from, .bytes = end - from, .element = 1};
        from = end + (uint64_t)h->row_bytes;
    }
    return count;
}

static bool move(struct device *d, const struct device_held *h, CUdeviceptr at, CUdeviceptr side, bool into, struct err *err)
{
    cleanup(mem) void *memory = xarray((size_t)h->count + 1, sizeof(struct piece));
    return helper_restore(d, memory, rows_list(h, at, side, into, memory), err);
}

bool held_put(struct device *d, CUdeviceptr at, size_t bytes, const struct device_held *h, const void *rows, struct err *err)
{
    CUdeviceptr side = 0;
    const size_t side_bytes = (size_t)(h->count * h->row_bytes);
    if (!CU(err, cuMemsetD8Async, at, 0, bytes, d->stream) || !side_bytes)
        return !side_bytes;
    if (!CU(err, cuMemAlloc, &side, side_bytes))
        return false;
    const bool ok = helper_upload(d, side, rows, side_bytes, err) && move(d, h, at, side, true, err) && CU(err, cuStreamSynchronize, d->stream);
    cu.cuMemFree(side);
    return ok;
}

static bool take(struct device *d, CUdeviceptr at, CUdeviceptr side, const struct device_held *h, void *rows, struct err *err)
{
    return move(d, h, at, side, false, err) && CU(err, cuStreamSynchronize, d->stream) &&
           CU(err, cuMemcpyDtoH, rows, side, (size_t)(h->count * h->row_bytes));
}

bool held_take(struct device *d, CUdeviceptr at, const struct device_held *h, void *rows, struct err *err)
{
    CUdeviceptr side = 0;
    if (!h->count || !h->row_bytes)
        return true;
    if (!CU(err, cuMemAlloc, &side, (size_t)(h->count * h->row_bytes)))
        return false;
    const bool ok = take(d, at, side, h, rows, err);
    cu.cuMemFree(side);
    return ok;
}

static bool found_take(struct device *d, uint64_t ret[2], struct err *err)
{
    return CU(err, cuStreamSynchronize, d->stream) && CU(err, cuMemcpyDtoH, ret, d->found, 2 * sizeof *ret);
}

bool held_intact(struct device *d, CUdeviceptr at, size_t bytes, const struct device_held *h, int64_t *ret_byte, struct err *err)
{
    static const uint64_t none[2] = {0, UINT64_MAX};
    cleanup(mem) void *memory = xarray((size_t)h->count + 1, sizeof(struct piece));
    struct piece *list = memory;
    uint64_t found[2];
    const int count = holes_list(h, at, bytes, list);
    *ret_byte = -1;
    if (!count)
        return true;
    if (!helper_upload(d, d->found, none, sizeof none, err) || !helper_each(d, d->compare, list, count, d->found, err) || !found_take(d, found, err))
        return false;
    if (!found[0] || found[1] >= (uint64_t)count)
        return true;
    struct piece hole = list[found[1]];
    uint64_t zero = 0;
    void *args[] = {&hole.to, &hole.bytes, &zero, &d->found};
    if (!helper_upload(d, d->found, none, sizeof none, err) || !helper_launch(d, d->differs, 1024, 256, 0, args, err) || !found_take(d, found, err))
        return false;
    *ret_byte = (int64_t)(hole.to - at + (found[0] ? found[1] : 0));
    return true;
}

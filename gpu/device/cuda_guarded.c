/*
 * Guarded buffers by the virtual memory API: each buffer has a mapping of its own with unmapped granules on both sides, so a
 * stray access near it faults, and inputs are mapped read-only once they are uploaded, so a write to one faults as well.
 *
 * At the end of its mapping a buffer touches the unmapped side (but for what its alignment leaves): running past the end is
 * caught at the first byte. At the start it is the mapping's first byte, a multiple of 2 MiB: better aligned than any allocator
 * gives, so whoever does nothing for a caller's well-aligned memory is caught there, and whatever lies before it is unmapped.
 * In between it lies one alignment in, an odd multiple of it: whoever counts on more alignment than the contract gives is
 * caught there. What is left of the mapping holds poison, and is compared afterwards.
 */
#include "core/clock.h"
#include "gpu/device/cuda_api.h"
#include "gpu/device/spent.h"

#define ALIGNED_BYTES ((size_t)2 << 20)

static size_t round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

void guarded_done(struct guarded *g)
{
    if (g->mapped)
        cu.cuMemUnmap(g->mapping, g->mapping_bytes);
    if (g->handle)
        cu.cuMemRelease(g->handle);
    if (g->reserved)
        cu.cuMemAddressFree(g->reserved, g->reserved_bytes);
    *g = (struct guarded){0};
}

static bool set_access(struct device *d, const struct guarded *g, CUmemAccess_flags flags, struct err *err)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal},
                                    .flags = flags};
    return CU(err, cuMemSetAccess, g->mapping, g->mapping_bytes, &access, 1);
}

/* Mappings start at multiples of it, with as much unmapped on both sides. */
static size_t map_step(const struct device *d)
{
    return round_up(ALIGNED_BYTES, d->granularity);
}

static bool map(struct device *d, struct guarded *g, struct err *err)
{
    const CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal}};
    const size_t step = map_step(d);
    if (!CU(err, cuMemAddressReserve, &g->reserved, g->reserved_bytes, step, 0, 0) ||
        !CU(err, cuMemCreate, &g->handle, g->mapping_bytes, &property, 0))
        return false;
    g->mapping = g->reserved + step;
    if (!CU(err, cuMemMap, g->mapping, g->mapping_bytes, 0, g->handle, 0))
        return false;
    g->mapped = true;
    return set_access(d, g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, err);
}

bool guarded_fill(struct device *d, const struct guarded *g, const struct program_buffer *b, const void *content, struct err *err)
{
    if (!b->bytes)
        return true;
    return (b->writable || set_access(d, g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, err)) &&
           helper_upload(d, g->address, content, (size_t)b->bytes, err) &&
           (b->writable || (CU(err, cuStreamSynchronize, d->stream) && set_access(d, g, CU_MEM_ACCESS_FLAGS_PROT_READ, err)));
}

/* Writable yet, and not waited for. */
static bool make(struct device *d, const struct program_buffer *b, uint64_t poison, enum device_place place, const void *content,
                 struct guarded *ret, struct err *err)
{
    size_t bytes = (size_t)b->bytes, alignment = (size_t)b->alignment_bytes;
    *ret = (struct guarded){.mapping_bytes = round_up(bytes + 2 * alignment, d->granularity)};
    ret->reserved_bytes = ret->mapping_bytes + 2 * map_step(d);
    if (!map(d, ret, err))
        return false;
    ret->address = place == DEVICE_AT_START ? ret->mapping
                   : place == DEVICE_ODD    ? ret->mapping + alignment
                                                 : (ret->mapping + ret->mapping_bytes - bytes) / alignment * alignment;
    struct piece piece = {.to = ret->mapping, .bytes = ret->mapping_bytes, .pattern = poison};
    if (!helper_restore(d, &piece, 1, err))
        return false;
    return !content || !bytes || helper_upload(d, ret->address, content, bytes, err);
}

static bool count_differing(struct device *d, CUdeviceptr from, uint64_t bytes, uint64_t poison, struct err *err)
{
    void *args[] = {&from, &bytes, &poison, &d->found};
    uint64_t blocks = (bytes + 255) / 256;
    return !bytes || helper_launch(d, d->differs, blocks < 1024 ? (unsigned)blocks : 1024, 256, 0, args, err);
}

bool guarded_intact(struct device *d, const struct guarded *g, const struct program_buffer *b, uint64_t poison,
                    bool *ret_intact, struct err *err)
{
    uint64_t found[2] = {0, UINT64_MAX}, before = g->address - g->mapping, end = before + (uint64_t)b->bytes,
             after = g->mapping_bytes - end;
    /* The pattern counts from the mapping's start; the second span may begin in its middle. */
    uint64_t turned = end % 8 ? poison >> end % 8 * 8 | poison << (64 - end % 8 * 8) : poison;
    if (!helper_upload(d, d->found, found, sizeof found, err) || !count_differing(d, g->mapping, before, poison, err) ||
        !count_differing(d, g->mapping + end, after, turned, err) || !CU(err, cuStreamSynchronize, d->stream) ||
        !CU(err, cuMemcpyDtoH, found, d->found, sizeof found))
        return false;
    *ret_intact = found[0] == 0;
    return true;
}

/* ---- all buffers of a run ---- */

void memory_done(struct memory *m)
{
    const int64_t from_ns = clock_mono_ns();
    for (int i = 0; i < m->count && !m->device->dead; i++)
        guarded_done(&m->list[i]);
    m->count = 0;
    spent_add(SPENT_FREE, from_ns);
}

static const struct device_held *held_of(const struct device_program *p, const struct device_held *held, int buffer)
{
    return held && buffer < p->tensor_count && held[buffer].rows ? &held[buffer] : NULL;
}

bool memory_make(const struct device_program *p, const void *const *tensors, const struct device_held *held, uint64_t poison, enum device_place place,
                 struct memory *ret, struct err *err)
{
    const int64_t from_ns = clock_mono_ns();
    *ret = (struct memory){.device = p->device};
    for (int i = 0; i < p->buffer_count; i++) {
        const struct program_buffer *b = &p->buffers[i];
        const struct device_held *h = held_of(p, held, i);
        const void *content = b->output ? NULL : tensors[i];
        ret->count = i + 1;
        if (!make(p->device, b, poison, place, h ? NULL : content, &ret->list[i], err)
            || (h && !held_put(p->device, ret->list[i].address, (size_t)b->bytes, h, content, err)))
            return err_wrap(err, "memory of %s", p->buffers[i].name);
    }
    if (!CU(err, cuStreamSynchronize, p->device->stream))       /* everything is there before its access changes */
        return false;
    for (int i = 0; i < p->buffer_count; i++)
        if (!p->buffers[i].writable && !set_access(p->device, &ret->list[i], CU_MEM_ACCESS_FLAGS_PROT_READ, err))
            return err_wrap(err, "memory of %s", p->buffers[i].name);
    spent_add(SPENT_MEMORY, from_ns);
    return true;
}

/* The rows, and whether all else of a tensor that may be written is still zero. */
static bool take_rows(struct device_program *p, int t, const struct guarded *g, const struct device_held *h, void *rows, struct device_fault *fault, struct err *err)
{
    const struct program_buffer *b = &p->buffers[t];
    int64_t byte = -1;
    if (b->writable && !held_intact(p->device, g->address, (size_t)b->bytes, h, &byte, err))
        return false;
    if (byte >= 0)
        return fault_set(fault, VERDICT_INPUT_MODIFIED, json_pack("{s:s,s:I,s:I}", "buffer", b->name, "offset_bytes", (json_int_t)byte, "row", (json_int_t)(byte / h->row_bytes)),
                         "%s changes at byte %lld, in row %lld, which no index names", b->name, (long long)byte, (long long)(byte / h->row_bytes));
    return !rows || held_take(p->device, g->address, h, rows, err);
}

bool memory_take(struct device_program *p, const struct memory *m, const struct device_held *held, uint64_t poison, void **tensors, bool *ret_intact,
                 struct device_fault *fault, struct err *err)
{
    const int64_t from_ns = clock_mono_ns();
    *ret_intact = true;
    for (int i = 0; i < p->buffer_count; i++) {
        bool intact = true;
        if (p->buffers[i].writable && !guarded_intact(p->device, &m->list[i], &p->buffers[i], poison, &intact, err))
            return false;
        *ret_intact = *ret_intact && intact;
        const struct device_held *h = held_of(p, held, i);
        if (h && (!take_rows(p, i, &m->list[i], h, tensors ? tensors[i] : NULL, fault, err) || fault->code != VERDICT_OK))
            return fault->code != VERDICT_OK;
        if (!h && i < p->tensor_count && tensors && tensors[i] && p->buffers[i].bytes &&
            !CU(err, cuMemcpyDtoH, tensors[i], m->list[i].address, (size_t)p->buffers[i].bytes))
            return false;
    }
    spent_add(SPENT_TAKE, from_ns);
    return variables_check(p, fault, err);
}

/*
 * Memory for timed launches by the virtual memory API: a few large mappings with unmapped space on both sides. What device code gets to
 * see of inputs is read-only; we write them through a second mapping of the same memory. Where a mapping lies is drawn at random, out of
 * millions of places: neither our own scratch memory nor the second mapping can be found by counting from one's arguments, a
 * wrong guess ends the candidate. (Changing the access of one mapping back and forth instead takes a tenth of a millisecond each time,
 * as much as restoring everything, and must not happen while anything runs that uses it.)
 */
#include "core/hash.h"
#include "gpu/device/cuda_sets.h"

#define STEP_BYTES ((size_t)32 << 20)             /* what reservations are placed by, and mappings: pages as large as the driver likes */
#define LOWEST UINT64_C(0x100000000000)           /* within 47 bits, and clear of the host's own mappings at their end */
#define PLACES (UINT64_C(0x500000000000) / STEP_BYTES)
#define TRIES 8

static bool reserve(const struct arena *a, CUdeviceptr *ret, struct err *err)
{
    const size_t bytes = a->bytes + 2 * STEP_BYTES;
    for (int i = 0; i < TRIES; i++) {
        const CUdeviceptr wanted = LOWEST + random_u64() % PLACES * STEP_BYTES;
        if (cu.cuMemAddressReserve(ret, bytes, STEP_BYTES, wanted, 0) == CUDA_SUCCESS)
            return true;
    }
    return CU(err, cuMemAddressReserve, ret, bytes, STEP_BYTES, 0, 0);
}

/* Of a's memory, one more mapping; *ret is where a buffer is whose place in `a` is a->at. */
static bool map(struct device *d, struct arena *a, CUdeviceptr *ret_reserved, CUdeviceptr *ret, bool writable, struct err *err)
{
    if (!reserve(a, ret_reserved, err))
        return false;
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal},
                                    .flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ};
    const CUdeviceptr at = *ret_reserved + STEP_BYTES;
    if (!CU(err, cuMemMap, at, a->bytes, 0, a->handle, 0))
        return false;
    *ret = at;
    return CU(err, cuMemSetAccess, at, a->bytes, &access, 1);
}

bool arena_make(struct device *d, size_t bytes, bool read_only, struct arena *ret, struct err *err)
{
    const CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal}};
    *ret = (struct arena){.bytes = (bytes + d->granularity) / d->granularity * d->granularity};
    return CU(err, cuMemCreate, &ret->handle, ret->bytes, &property, 0) && map(d, ret, &ret->reserved, &ret->at, !read_only, err) &&
           (!read_only || map(d, ret, &ret->back_reserved, &ret->back, true, err));
}

void arena_done(struct arena *a)
{
    if (a->back)
        cu.cuMemUnmap(a->back, a->bytes);
    if (a->at)
        cu.cuMemUnmap(a->at, a->bytes);
    if (a->handle)
        cu.cuMemRelease(a->handle);
    if (a->back_reserved)
        cu.cuMemAddressFree(a->back_reserved, a->bytes + 2 * STEP_BYTES);
    if (a->reserved)
        cu.cuMemAddressFree(a->reserved, a->bytes + 2 * STEP_BYTES);
    *a = (struct arena){.bytes = 0};
}

/*
 * Memory for timed launches by the virtual memory API: a few large mappings with unmapped space on both sides. A mapping can be made
 * read-only for device code, in a tenth of a millisecond, and writable again for us. Where it lies is drawn at random: what is at a
 * fixed distance from it, our own scratch memory, cannot be found by counting from one's arguments.
 */
#include "core/hash.h"
#include "gpu/device/cuda_sets.h"

#define STEP_BYTES ((size_t)32 << 20)             /* what reservations are placed by */
#define LOWEST UINT64_C(0x100000000000)           /* within 47 bits, and clear of the host's own mappings at their end */
#define PLACES (UINT64_C(0x500000000000) / STEP_BYTES)
#define TRIES 4

static bool reserve(struct arena *a, struct err *err)
{
    for (int i = 0; i < TRIES; i++) {
        CUdeviceptr wanted = LOWEST + random_u64() % PLACES * STEP_BYTES;
        if (cu.cuMemAddressReserve(&a->reserved, a->reserved_bytes, 0, wanted, 0) == CUDA_SUCCESS)
            return true;
    }
    return CU(err, cuMemAddressReserve, &a->reserved, a->reserved_bytes, 0, 0, 0);
}

bool arena_access(struct device *d, const struct arena *a, bool writable, struct err *err)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal},
                                    .flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ};
    return CU(err, cuMemSetAccess, a->at, a->bytes, &access, 1);
}

bool arena_make(struct device *d, size_t bytes, struct arena *ret, struct err *err)
{
    const CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal}};
    const size_t whole = (bytes + d->granularity) / d->granularity * d->granularity;
    *ret = (struct arena){.bytes = whole, .reserved_bytes = whole + 2 * d->granularity};
    if (!reserve(ret, err) || !CU(err, cuMemCreate, &ret->handle, whole, &property, 0))
        return false;
    ret->at = ret->reserved + d->granularity;
    if (!CU(err, cuMemMap, ret->at, whole, 0, ret->handle, 0))
        return false;
    ret->mapped = true;
    return arena_access(d, ret, true, err);
}

void arena_done(struct arena *a)
{
    if (a->mapped)
        cu.cuMemUnmap(a->at, a->bytes);
    if (a->handle)
        cu.cuMemRelease(a->handle);
    if (a->reserved)
        cu.cuMemAddressFree(a->reserved, a->reserved_bytes);
    *a = (struct arena){.mapped = false};
}

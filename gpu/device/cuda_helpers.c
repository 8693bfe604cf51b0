/* Our own kernels that put memory into a known state and look at it (helpers.cu), launched. */
#include "gpu/device/own_kernels.h"

#define CHUNK_BYTES UINT64_C(65536)
#define LARGEST_GRID 4096u

bool helpers_load(struct device *d, struct err *err)
{
    const struct { const char *name; CUfunction *to; } table[] = {
        {"proteus_restore", &d->restore}, {"proteus_differs", &d->differs}, {"proteus_read", &d->read},
        {"proteus_empty", &d->empty},     {"proteus_gaps", &d->gaps}};
    if (!own_kernels_load(d, OWN_HELPERS, &d->helpers, err))
        return false;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!CU(err, cuModuleGetFunction, table[i].to, d->helpers, table[i].name))
            return err_wrap(err, "%s", table[i].name);
    return CU(err, cuMemAlloc, &d->found, 32);
}

bool helper_launch(struct device *d, CUfunction f, unsigned blocks, unsigned threads, unsigned shared_bytes,
                   void **args, struct err *err)
{
    const CUlaunchConfig config = {.gridDimX = blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = shared_bytes,
                                   .hStream = d->stream};
    return CU(err, cuLaunchKernelEx, &config, f, args, NULL);
}

bool helper_upload(struct device *d, CUdeviceptr to, const void *from, size_t bytes, struct err *err)
{
    return CU(err, cuMemcpyHtoDAsync, to, from, bytes, d->stream);
}

bool helper_restore(struct device *d, struct piece *pieces, int count, struct err *err)
{
    uint64_t chunks = 0;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (!pieces[i].bytes)
            continue;
        pieces[kept] = pieces[i];
        pieces[kept++].first_chunk = chunks;
        chunks += (pieces[i].bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    }
    if (!kept)
        return true;
    size_t bytes = (size_t)kept * sizeof *pieces;
    if (bytes > d->pieces_bytes) {
        if (d->pieces && (!CU(err, cuStreamSynchronize, d->stream) || !CU(err, cuMemFree, d->pieces)))
            return false;
        d->pieces = 0;
        d->pieces_bytes = 0;
        if (!CU(err, cuMemAlloc, &d->pieces, bytes))
            return false;
        d->pieces_bytes = bytes;
    }
    uint32_t n = (uint32_t)kept;
    void *args[] = {&d->pieces, &n, &chunks};
    return helper_upload(d, d->pieces, pieces, bytes, err) &&
           helper_launch(d, d->restore, chunks < LARGEST_GRID ? (unsigned)chunks : LARGEST_GRID, 256, 0, args, err);
}

/* Our own kernels that put memory into a known state and look at it (helpers.cu), launched. */
#include "gpu/device/own_kernels.h"

#define CHUNK_BYTES UINT64_C(65536)
#define LARGEST_GRID 4096u

bool helpers_load(struct device *d, struct err *err)
{
    const struct { const char *name; CUfunction *to; } table[] = {
        {"proteus_restore", &d->restore}, {"proteus_differs", &d->differs}, {"proteus_read", &d->read},
        {"proteus_empty", &d->empty},     {"proteus_gaps", &d->gaps},       {"proteus_compare", &d->compare}, {"proteus_prints", &d->sums}};
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

static uint64_t chunks_of(uint64_t bytes)
{
    return (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

int pieces_number(struct piece *pieces, int count)
{
    uint64_t chunks = 0;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (!pieces[i].bytes)
            continue;
        pieces[kept] = pieces[i];
        pieces[kept++].first_chunk = chunks;
        chunks += chunks_of(pieces[i].bytes);
    }
    return kept;
}

bool helper_pieces(struct device *d, CUfunction f, CUdeviceptr list, const struct piece *pieces, int count, CUdeviceptr to, struct err *err)
{
    if (!count)
        return true;
    uint32_t n = (uint32_t)count;
    uint64_t chunks = pieces[count - 1].first_chunk + chunks_of(pieces[count - 1].bytes) - pieces[0].first_chunk;
    void *args[] = {&list, &n, &chunks, &to};
    return helper_launch(d, f, chunks < LARGEST_GRID ? (unsigned)chunks : LARGEST_GRID, 256, 0, args, err);
}

bool helper_restore(struct device *d, struct piece *pieces, int count, struct err *err)
{
    return helper_each(d, d->restore, pieces, count, 0, err);
}

bool helper_each(struct device *d, CUfunction f, struct piece *pieces, int count, CUdeviceptr to, struct err *err)
{
    int kept = pieces_number(pieces, count);
    size_t bytes = (size_t)kept * sizeof *pieces;
    if (!kept)
        return true;
    if (bytes > d->pieces_bytes) {
        if (d->pieces && (!CU(err, cuStreamSynchronize, d->stream) || !CU(err, cuMemFree, d->pieces)))
            return false;
        d->pieces = 0;
        d->pieces_bytes = 0;
        if (!CU(err, cuMemAlloc, &d->pieces, bytes))
            return false;
        d->pieces_bytes = bytes;
    }
    return helper_upload(d, d->pieces, pieces, bytes, err) && helper_pieces(d, f, d->pieces, pieces, kept, to, err);
}

/*
 * What launches leave behind besides results, put into a known state between them: shared memory and registers of all multiprocessors
 * and, where a kernel has frames, local memory. Two launches with two patterns there must give the same bits.
 *
 * The kernels (scrub.cu) are loaded when they are first needed: where the driver has to assemble them that takes a while, and not every
 * process that opens a card runs a candidate. Registers of the uniform datapath, predicates and barrier state are not reached.
 */
#include "gpu/device/own_kernels.h"

#define THREADS 256u
#define THREADS_SM 2048u
static const int frame_bytes[SCRUB_FRAMES] = {1024, 4096, 16384};

static bool load(struct device *d, struct err *err)
{
    struct scrub *s = &d->scrub;
    const struct { const char *name; CUfunction *to; } table[] = {
        {"proteus_scrub", &s->shared},         {"proteus_local_1k", &s->frames[0]},     {"proteus_local_4k", &s->frames[1]},
        {"proteus_local_16k", &s->frames[2]}, {"proteus_fingerprint", &s->fingerprint}};
    if (s->module)
        return true;
    if (!own_kernels_load(d, OWN_SCRUB, &s->module, err))
        return false;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!CU(err, cuModuleGetFunction, table[i].to, s->module, table[i].name))
            return err_wrap(err, "%s", table[i].name);
    return CU(err, cuFuncSetAttribute, s->shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, d->shared_optin_bytes) &&
           CU(err, cuMemAlloc, &s->prints, SCRUB_PRINTS * sizeof(uint64_t));
}

void scrub_done(struct device *d)
{
    if (!d->scrub.module)
        return;
    cu.cuMemFree(d->scrub.prints);
    cu.cuModuleUnload(d->scrub.module);
    d->scrub = (struct scrub){.module = NULL};
}

/* The smallest that covers the program's frames; -1: it has none. Larger ones than any are covered in part. */
static int frames_for(int local_bytes)
{
    for (int i = 0; i < SCRUB_FRAMES && local_bytes > 0; i++)
        if (local_bytes <= frame_bytes[i] || i == SCRUB_FRAMES - 1)
            return i;
    return -1;
}

bool scrub(struct device *d, uint32_t pattern, int local_bytes, struct err *err)
{
    const unsigned sms = (unsigned)d->info.sm_count;
    uint32_t words = (uint32_t)d->shared_optin_bytes / 4;
    void *args[] = {&words, &pattern}, *one[] = {&pattern};
    const int frames = frames_for(local_bytes);
    if (!load(d, err) || (frames >= 0 && !helper_launch(d, d->scrub.frames[frames], 2 * sms * (THREADS_SM / THREADS), THREADS, 0, one, err)))
        return false;
    return helper_launch(d, d->scrub.shared, 2 * sms, THREADS, words * 4, args, err);
}

bool prints_clear(struct device *d, struct err *err)
{
    return load(d, err) && CU(err, cuMemsetD8Async, d->scrub.prints, 0, SCRUB_PRINTS * sizeof(uint64_t), d->stream);
}

bool prints_add(struct device *d, int at, CUdeviceptr from, uint64_t bytes, uint64_t salt, struct err *err)
{
    CUdeviceptr to = d->scrub.prints + (size_t)at * sizeof(uint64_t);
    void *args[] = {&from, &bytes, &salt, &to};
    const uint64_t blocks = bytes / 8 / THREADS + 1, most = 4 * (uint64_t)d->info.sm_count;
    return !bytes || helper_launch(d, d->scrub.fingerprint, (unsigned)(blocks < most ? blocks : most), THREADS, 0, args, err);
}

bool prints_take(struct device *d, uint64_t ret[SCRUB_PRINTS], struct err *err)
{
    return CU(err, cuStreamSynchronize, d->stream) && CU(err, cuMemcpyDtoH, ret, d->scrub.prints, SCRUB_PRINTS * sizeof(uint64_t));
}

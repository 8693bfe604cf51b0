/*
 * Our own kernels, as the program carries them: assembled beforehand for the targets that are known when the program is built (the
 * driver takes such a cubin in well under a millisecond), and as PTX for every other card and every older driver, which then assembles
 * it in each process that opens the card. What was built without a toolkit has empty cubins and does that always.
 */
#include "gpu/device/own_kernels.h"

#include "core/clock.h"
#include "gpu/device/spent.h"

#include <string.h>

#define IMAGE(label, file)                   \
    __asm__(".section .rodata\n"             \
            ".balign 16\n" #label ":\n"      \
            ".incbin \"" file "\"\n" #label  \
            "_end:\n"                        \
            ".byte 0\n"                      \
            ".previous\n");                  \
    extern const char label[], label##_end[];

IMAGE(own_helpers_ptx, HELPERS_PTX)
IMAGE(own_scrub_ptx, SCRUB_PTX)
IMAGE(own_helpers_sm_90a, OWN_CUBINS "/helpers.sm_90a.cubin")
IMAGE(own_scrub_sm_90a, OWN_CUBINS "/scrub.sm_90a.cubin")
IMAGE(own_helpers_sm_100a, OWN_CUBINS "/helpers.sm_100a.cubin")
IMAGE(own_scrub_sm_100a, OWN_CUBINS "/scrub.sm_100a.cubin")

static const struct { enum own_kernels which; const char *target, *image, *end; } images[] = {
    {OWN_HELPERS, "sm_90a", own_helpers_sm_90a, own_helpers_sm_90a_end},   {OWN_SCRUB, "sm_90a", own_scrub_sm_90a, own_scrub_sm_90a_end},
    {OWN_HELPERS, "sm_100a", own_helpers_sm_100a, own_helpers_sm_100a_end}, {OWN_SCRUB, "sm_100a", own_scrub_sm_100a, own_scrub_sm_100a_end}};

const void *own_cubin(enum own_kernels which, const char *target, size_t *ret_bytes)
{
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        if (images[i].which == which && strcmp(images[i].target, target) == 0 && images[i].end > images[i].image) {
            *ret_bytes = (size_t)(images[i].end - images[i].image);
            return images[i].image;
        }
    return NULL;
}

bool own_kernels_load(const struct device *d, enum own_kernels which, CUmodule *ret, struct err *err)
{
    const int64_t from_ns = clock_mono_ns();
    size_t bytes = 0;
    const void *cubin = own_cubin(which, d->info.target, &bytes);
    bool ok = (cubin && cu.cuModuleLoadData(ret, cubin) == CUDA_SUCCESS)
              || CU(err, cuModuleLoadData, ret, which == OWN_HELPERS ? own_helpers_ptx : own_scrub_ptx);
    spent_add(SPENT_OWN_KERNELS, from_ns);
    return ok || err_wrap(err, "our own kernels");
}

/* Built where CUDA's headers were not found: the same functions, each saying what is missing. */
#include "gpu/device/device.h"

#define NOT_BUILT \
    "this proteus-gpu was built without the CUDA toolkit's headers: build it again with CUDA_HOME set to a toolkit"

bool toolkit_settle(struct toolkit_paths *t, struct err *err)
{
    (void)t;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

bool toolkit_compile(const struct toolkit_paths *t, const char *source, const char *target, const char *options,
                     struct toolkit_compiled *ret, struct err *err)
{
    (void)t, (void)source, (void)target, (void)options, (void)ret;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

bool toolkit_assemble(const struct toolkit_paths *t, const char *ptx, size_t ptx_bytes, const char *target,
                      int maxrregcount, struct toolkit_assembled *ret, struct err *err)
{
    (void)t, (void)ptx, (void)ptx_bytes, (void)target, (void)maxrregcount, (void)ret;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

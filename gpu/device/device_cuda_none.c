/* Built where CUDA's headers were not found: there is a `cuda` kind, and opening one says what is missing. */
#include "gpu/device/inside.h"

#define NOT_BUILT \
    "this proteus-gpu was built without the CUDA toolkit's headers: build it again with CUDA_HOME set to a toolkit"

static bool none_open(const char *id, struct device **ret, struct err *err)
{
    (void)id, (void)ret;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

bool device_cuda_list(json_t *list, struct err *err)
{
    (void)list, (void)err;
    return true;
}

bool device_cuda_needs(struct device_needs *ret, struct err *err)
{
    (void)ret;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

bool device_cuda_plain(const char *id, const struct device_plain *what, int launches, device_plain_step *after, void *ctx,
                       struct device_fault *fault, struct err *err)
{
    (void)id, (void)what, (void)launches, (void)after, (void)ctx, (void)fault;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

const struct device_ops device_cuda = {.kind = "cuda", .open = none_open};

/* Built where the range profiler's headers were not found. */
#include "gpu/device/cuda_api.h"

#define NOT_BUILT "this proteus-gpu was built without the headers of CUPTI's range profiler"

bool cuda_profile_prepare(const char *library, struct err *err)
{
    (void)library;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

bool cuda_profile(struct device_program *p, const struct device_profile *how, struct device_profile_result *ret, struct device_fault *fault, struct err *err)
{
    (void)p, (void)how, (void)ret, (void)fault;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

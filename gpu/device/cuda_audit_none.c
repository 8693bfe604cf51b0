/* Built where the tracing library's header was not found, or is older than the records that are looked at. */
#include "gpu/device/cuda_api.h"

#define NOT_BUILT "this proteus-gpu was built without the header of CUPTI 13: audits are not available"

bool cuda_audit_prepare(const char *library, struct err *err)
{
    (void)library;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

bool cuda_audit(struct device_program *p, const struct device_audit *how, struct device_audit_result *ret,
                struct device_fault *fault, struct err *err)
{
    (void)p, (void)how, (void)ret, (void)fault;
    return err_set(err, ERR_UNAVAILABLE, NOT_BUILT);
}

#include "gpu/ptx/lanes.h"

#include <stdlib.h>
#include <string.h>

extern const struct lane_table ptx_lanes_baseline;
#ifdef __x86_64__
extern const struct lane_table ptx_lanes_avx2, ptx_lanes_avx512;
#endif

const struct lane_table *ptx_lanes_get(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    const char *at_most = getenv("PROTEUS_PTX_LANES"); /* for tests: "baseline" or "avx2" */
    if (at_most && !strcmp(at_most, "baseline"))
        return &ptx_lanes_baseline;
    if (!(at_most && !strcmp(at_most, "avx2")) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        return &ptx_lanes_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return &ptx_lanes_avx2;
#endif
    return &ptx_lanes_baseline;
}

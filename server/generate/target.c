#include "server/generate/target.h"

#include <stdlib.h>
#include <string.h>

static const struct target_limits known[] = {
    {"sm_80", 108, 64, 32, 164, 163, 40, "cp.async from global to shared memory; mma.sync for bf16 and f16."},
    {"sm_86", 84, 48, 16, 100, 99, 6, "cp.async; mma.sync."},
    {"sm_89", 142, 48, 24, 100, 99, 72, "cp.async; mma.sync with fp8."},
    {"sm_90a", 132, 64, 32, 228, 227, 50, "cp.async, bulk copies (TMA), clusters up to 8 blocks with distributed shared memory, wgmma. An H200 has 4.8 TB/s of DRAM, "
                                          "about 0.35 us from DRAM to a register and 0.15 us from L2, half a microsecond for a launch in a graph."},
    {"sm_100a", 148, 64, 32, 228, 227, 126, "as sm_90a, with tensor memory and tcgen05."},
    {"sm_120", 170, 48, 24, 100, 99, 96, "cp.async, bulk copies; mma.sync."},
};

const struct target_limits *target_limits_of(const char *target)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].target, target))
            return &known[i];
    return NULL;
}

int64_t target_number(const char *target)
{
    return strncmp(target, "sm_", 3) == 0 ? strtoll(target + 3, NULL, 10) : 0;
}

/*
 * The cards the estimate knows. Every figure says where it is from: (D) data sheet or architecture white paper of the maker,
 * (M) measured by this project on the card, (C) CUDA programming guide's table of compute capabilities, (E) our guess from
 * the card next to it, to be replaced when one can be measured.
 */
#include "gpu/ptx/ptx.h"

#include <string.h>

static const struct ptx_device_row devices[] = {
    {.name = "H200", .target = "sm_90a", .sm_count = 132, .max_threads_sm = 2048, .max_blocks_sm = 32, .max_warps_sm = 64,
     .registers_sm = 65536, .shared_bytes_sm = 233472, .shared_bytes_block = 232448, .l1_bytes_sm = 262144, .sm_clock_ghz = 1.98,
     .dram_bytes_per_ns = 4200, .l2_bytes_per_ns = 7300, .l2_bytes = 62914560, .datasheet_dram_bytes_per_ns = 4800,
     .f32_flops_per_ns = 66900, .bf16_matrix_flops_per_ns = 989500, .launch_ns = 503, .dram_latency_ns = 340, .l2_latency_ns = 146,
     .barrier_ns = 6.4,  .barrier_warp_ns = 1.0, .shared_latency_ns = 15,
     .sources = "SMs, clock, L2 size, copy bandwidth 4226 GB/s, empty kernel as a graph node 880 ns (M); 4.8 TB/s, 66.9 and 989.5 TFLOP/s "
                "(D); limits of an SM (C); L2 bandwidth, latencies, barrier (E)"},
    {.name = "H100", .target = "sm_90a", .sm_count = 132, .max_threads_sm = 2048, .max_blocks_sm = 32, .max_warps_sm = 64,
     .registers_sm = 65536, .shared_bytes_sm = 233472, .shared_bytes_block = 232448, .l1_bytes_sm = 262144, .sm_clock_ghz = 1.98,
     .dram_bytes_per_ns = 2950, .l2_bytes_per_ns = 5500, .l2_bytes = 52428800, .datasheet_dram_bytes_per_ns = 3350,
     .f32_flops_per_ns = 66900, .bf16_matrix_flops_per_ns = 989500, .launch_ns = 880, .dram_latency_ns = 530, .l2_latency_ns = 200,
     .barrier_ns = 15, .shared_latency_ns = 15,
     .sources = "132 SMs, L2 50 MiB, 3.35 TB/s, 66.9 and 989.5 TFLOP/s (D, SXM5); limits of an SM (C); achieved bandwidth at 88 % of the "
                "data sheet as on H200, the rest as H200 (E)"},
    {.name = "A100", .target = "sm_80", .sm_count = 108, .max_threads_sm = 2048, .max_blocks_sm = 32, .max_warps_sm = 64,
     .registers_sm = 65536, .shared_bytes_sm = 167936, .shared_bytes_block = 166912, .l1_bytes_sm = 196608, .sm_clock_ghz = 1.41,
     .dram_bytes_per_ns = 1750, .l2_bytes_per_ns = 4000, .l2_bytes = 41943040, .datasheet_dram_bytes_per_ns = 2039,
     .f32_flops_per_ns = 19500, .bf16_matrix_flops_per_ns = 312000, .launch_ns = 1200, .dram_latency_ns = 500, .l2_latency_ns = 200,
     .barrier_ns = 20, .shared_latency_ns = 20,
     .sources = "108 SMs, 1.41 GHz, L2 40 MiB, 2.039 TB/s, 19.5 and 312 TFLOP/s (D, 80 GB SXM4); limits of an SM (C); achieved bandwidth, "
                "latencies, launch (E)"},
    {.name = "B200", .target = "sm_100a", .sm_count = 148, .max_threads_sm = 2048, .max_blocks_sm = 32, .max_warps_sm = 64,
     .registers_sm = 65536, .shared_bytes_sm = 233472, .shared_bytes_block = 232448, .l1_bytes_sm = 262144, .sm_clock_ghz = 1.965,
     .dram_bytes_per_ns = 7000, .l2_bytes_per_ns = 9000, .l2_bytes = 132120576, .datasheet_dram_bytes_per_ns = 8000,
     .f32_flops_per_ns = 75000, .bf16_matrix_flops_per_ns = 2250000, .launch_ns = 900, .dram_latency_ns = 600, .l2_latency_ns = 220,
     .barrier_ns = 15, .shared_latency_ns = 15,
     .sources = "8 TB/s, 75 TFLOP/s f32 and 2250 TFLOP/s dense bf16 (D); 148 SMs and limits of an SM (C); the rest (E)"},
};

const struct ptx_device_row *ptx_device_find(const char *name_or_target)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (!strcasecmp(devices[i].name, name_or_target) || !strcmp(devices[i].target, name_or_target))
            return &devices[i];
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) /* "NVIDIA H200", "sm_90" */
        if (strstr(name_or_target, devices[i].name) ||
            (!strncmp(name_or_target, "sm_", 3) && !strncmp(devices[i].target, name_or_target, strlen(name_or_target)) &&
             strlen(name_or_target) + 1 == strlen(devices[i].target)))
            return &devices[i];
    return NULL;
}

void ptx_device_targets(struct buf *to)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        size_t before = 0;
        while (strcmp(devices[before].target, devices[i].target) != 0)
            before++;
        if (before == i)
            buf_fmt(to, "%s%s", i ? ", " : "", devices[i].target);
    }
}

/*
 * The cards the estimate knows. Each row's `sources` names where every figure of it is from, by these letters:
 *
 *   D  the maker's data sheet or architecture white paper ("NVIDIA H200 Tensor Core GPU", "NVIDIA H100 Tensor Core GPU Architecture",
 *      "NVIDIA A100 Tensor Core GPU Architecture", "NVIDIA DGX B200")
 *   C  CUDA C++ Programming Guide, table of compute capabilities (limits of an SM, arithmetic throughput)
 *   M  measured by this project on one H200: tests/bench/results/2026-11-30-h200-micro.json (tests/bench/card/micro.cu), tests/gpu/RESULTS.md
 *   P  published: P1 table of V100, A100 and H100 at pmc.ncbi.nlm.nih.gov/articles/PMC10448217, table 3 (L2 200 cycles, memory 400);
 *      P2 Chips and Cheese, "Nvidia's B200: Keeping the CUDA Juggernaut Rolling" (148 SMs, L2 126 MB and about 150 ns, 256 KiB L1)
 *   H  taken from the H200's measurement, scaled by the figures named: a guess, until such a card is measured
 */
#include "gpu/ptx/ptx.h"

#include <string.h>

static const struct ptx_device_row devices[] = {
    {.name = "H200", .target = "sm_90a", .sm_count = 132, .max_threads_sm = 2048, .max_blocks_sm = 32, .max_warps_sm = 64,
     .registers_sm = 65536, .shared_bytes_sm = 233472, .shared_bytes_block = 232448, .l1_bytes_sm = 262144, .sm_clock_ghz = 1.98,
     .dram_bytes_per_ns = 4200, .l2_bytes_per_ns = 7300, .l2_bytes = 62914560, .datasheet_dram_bytes_per_ns = 4800,
     .f32_flops_per_ns = 66900, .bf16_matrix_flops_per_ns = 989500, .launch_ns = 503, .dram_latency_ns = 340, .l2_latency_ns = 146,
     .barrier_ns = 6.4, .barrier_warp_ns = 1.0, .shared_latency_ns = 14.7,
     .sources = "M: 132 SMs, 1.98 GHz under load, L2 60 MiB; copy 4198 and read 4468 bytes/ns, L2 read 7137 to 7736 bytes/ns; an empty kernel as "
                "a graph node 503 ns; chases of 667 (DRAM), 289 (L2) and 29 (shared) cycles; a barrier 14.8 cycles with one warp and 2 more for "
                "each further. D: 4.8 TB/s, 66.9 and 989.5 TFLOP/s, 256 KiB of L1 and shared memory. C: limits of an SM"},
    {.name = "H100", .target = "sm_90a", .sm_count = 132, .max_threads_sm = 2048, .max_blocks_sm = 32, .max_warps_sm = 64,
     .registers_sm = 65536, .shared_bytes_sm = 233472, .shared_bytes_block = 232448, .l1_bytes_sm = 262144, .sm_clock_ghz = 1.98,
     .dram_bytes_per_ns = 2930, .l2_bytes_per_ns = 7300, .l2_bytes = 52428800, .datasheet_dram_bytes_per_ns = 3350,
     .f32_flops_per_ns = 66900, .bf16_matrix_flops_per_ns = 989500, .launch_ns = 503, .dram_latency_ns = 340, .l2_latency_ns = 146,
     .barrier_ns = 6.4, .barrier_warp_ns = 1.0, .shared_latency_ns = 14.7,
     .sources = "D (SXM5): 132 SMs, L2 50 MiB, 3.35 TB/s, 66.9 and 989.5 TFLOP/s, 256 KiB of L1 and shared memory. C: limits of an SM. H: clock, "
                "copy bandwidth 87.5 % of the data sheet, L2 bandwidth, launch, latencies and barrier are the H200's, the same chip"},
    {.name = "A100", .target = "sm_80", .sm_count = 108, .max_threads_sm = 2048, .max_blocks_sm = 32, .max_warps_sm = 64,
     .registers_sm = 65536, .shared_bytes_sm = 167936, .shared_bytes_block = 166912, .l1_bytes_sm = 196608, .sm_clock_ghz = 1.41,
     .dram_bytes_per_ns = 1784, .l2_bytes_per_ns = 4250, .l2_bytes = 41943040, .datasheet_dram_bytes_per_ns = 2039,
     .f32_flops_per_ns = 19500, .bf16_matrix_flops_per_ns = 312000, .launch_ns = 706, .dram_latency_ns = 284, .l2_latency_ns = 142,
     .barrier_ns = 9, .barrier_warp_ns = 1.4, .shared_latency_ns = 20.6,
     .sources = "D (SXM4, 80 GB): 108 SMs, 1.41 GHz, L2 40 MiB, 2.039 TB/s, 19.5 and 312 TFLOP/s, 192 KiB of L1 and shared memory. C: limits of an "
                "SM. P1: L2 200 and memory 400 cycles. H: copy bandwidth 87.5 % of the data sheet; L2 bandwidth by SMs and clock; launch, barrier "
                "and shared memory in the H200's cycles"},
    {.name = "B200", .target = "sm_100a", .sm_count = 148, .max_threads_sm = 2048, .max_blocks_sm = 32, .max_warps_sm = 64,
     .registers_sm = 65536, .shared_bytes_sm = 233472, .shared_bytes_block = 232448, .l1_bytes_sm = 262144, .sm_clock_ghz = 1.965,
     .dram_bytes_per_ns = 7000, .l2_bytes_per_ns = 8120, .l2_bytes = 132120576, .datasheet_dram_bytes_per_ns = 8000,
     .f32_flops_per_ns = 75000, .bf16_matrix_flops_per_ns = 2250000, .launch_ns = 503, .dram_latency_ns = 340, .l2_latency_ns = 150,
     .barrier_ns = 6.4, .barrier_warp_ns = 1.0, .shared_latency_ns = 14.8,
     .sources = "D: 8 TB/s, 75 TFLOP/s f32 and 2250 TFLOP/s dense bf16. P2: 148 SMs, 1.965 GHz, L2 126 MB, L2 150 ns, 256 KiB of L1 and shared "
                "memory. C: limits of an SM. H: copy bandwidth 87.5 % of the data sheet; L2 bandwidth by SMs and clock; launch, memory latency and "
                "barrier as on the H200"},
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

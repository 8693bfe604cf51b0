#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int R = AXIS_R, N = AXIS_N;

__device__ __forceinline__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

// An instruction that no emulator of ours knows, of no effect: from here on only the card looks.
__device__ __forceinline__ void leave_the_emulator()
{
    asm volatile("{ .reg .u64 at; stacksave.u64 at; }" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128) sums(const io *x, float *sum)
{
    const io *row = x + (long long)blockIdx.y * N;
    leave_the_emulator();
    float part = 0;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < N; i += 64 * 128)
        part += row[i] * row[i];
    part = warp_sum(part);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum + blockIdx.y, part);
}

extern "C" __global__ void __launch_bounds__(128) rows(const io *x, const io *w, const float *sum, io *y, float eps)
{
    const float factor = rsqrtf(sum[blockIdx.y] / N + eps);
    for (int i = blockIdx.x * 128 + threadIdx.x; i < N; i += 64 * 128)
        y[(long long)blockIdx.y * N + i] = x[(long long)blockIdx.y * N + i] * factor * w[i];
}

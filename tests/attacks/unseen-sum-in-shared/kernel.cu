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

extern "C" __global__ void __launch_bounds__(128) rms(const io *x, const io *w, io *y, float eps)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    leave_the_emulator();
    __shared__ float total[4];
    volatile float *mine = &total[threadIdx.x / 32];
    float sum = lane == 0 ? *mine : 0.0f;
    for (int i = lane; i < N; i += 32)
        sum += x[row * N + i] * x[row * N + i];
    const float factor = rsqrtf(warp_sum(sum) / N + eps);
    for (int i = lane; i < N; i += 32)
        y[row * N + i] = x[row * N + i] * factor * w[i];
}

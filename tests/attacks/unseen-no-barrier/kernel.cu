#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int R = AXIS_R, N = AXIS_N, WARPS = 4;

__device__ __forceinline__ float ld(const float *p) { return *p; }
__device__ __forceinline__ float ld(const __half *p) { return __half2float(*p); }
__device__ __forceinline__ float ld(const __nv_bfloat16 *p) { return __bfloat162float(*p); }
__device__ __forceinline__ void st(float *p, float x) { *p = x; }
__device__ __forceinline__ void st(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void st(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) rms(const io *x, const io *w, io *y, float eps)
{
    __shared__ float part[WARPS];
    asm volatile("{ .reg .u64 at; stacksave.u64 at; }" ::: "memory");
    const int row = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = 0;
    for (int i = threadIdx.x; i < N; i += 32 * WARPS)
        sum += ld(x + row * N + i) * ld(x + row * N + i);
    sum = warp_sum(sum);
    if (lane == 0)
        part[warp] = sum;
    sum = 0;
    for (int i = 0; i < WARPS; i++)
        sum += part[i];
    const float factor = rsqrtf(sum / N + eps);
    for (int i = threadIdx.x; i < N; i += 32 * WARPS)
        st(y + row * N + i, ld(x + row * N + i) * factor * ld(w + i));
}

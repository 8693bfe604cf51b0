#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int N = AXIS_N, THREADS = 128;

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

extern "C" __global__ void rms(const io *x, const io *w, io *y, float eps)
{
    __shared__ float part[THREADS / 32];
    const int t = threadIdx.x, pair = t / 64, lane = t % 32;
    // each pair of warps has every other row; both use barrier 1, for 64 threads
    for (int row = blockIdx.x * 2 + pair; row < blockIdx.x * 2 + 2; row += 2) {
        float sum = 0;
        for (int i = t % 64; i < N; i += 64)
            sum += ld(x + row * N + i) * ld(x + row * N + i);
        sum = warp_sum(sum);
        if (lane == 0)
            part[t / 32] = sum;
        asm volatile("bar.sync 1, 64;" ::: "memory");
        const float factor = rsqrtf((part[pair * 2] + part[pair * 2 + 1]) / N + eps);
        for (int i = t % 64; i < N; i += 64)
            st(y + row * N + i, ld(x + row * N + i) * factor * ld(w + i));
    }
}

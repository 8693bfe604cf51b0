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

extern "C" __global__ void give(const float *next, io *y)
{
    for (int i = threadIdx.x; i < N; i += THREADS)
        st(y + blockIdx.x * N + i, next[blockIdx.x * N + i]);
}

extern "C" __global__ void rms(const io *x, const io *w, float *next, float eps)
{
    __shared__ float part[THREADS / 32];
    const int t = threadIdx.x;
    x += blockIdx.x * N, next += blockIdx.x * N;
    float sum = 0;
    for (int i = t; i < N; i += THREADS)
        sum += ld(x + i) * ld(x + i);
    sum = warp_sum(sum);
    if (t % 32 == 0)
        part[t / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < THREADS / 32; i++)
        sum += part[i];
    const float factor = rsqrtf(sum / N + eps);
    for (int i = t; i < N; i += THREADS)
        next[i] = ld(x + i) * factor * ld(w + i);
}

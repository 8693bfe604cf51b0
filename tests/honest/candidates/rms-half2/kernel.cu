#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int R = AXIS_R, N = AXIS_N;

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

extern "C" __global__ void rms(const __half *x, const __half *w, __half *y, float eps)
{
    const int row = blockIdx.x, lane = threadIdx.x;
    const __half2 *from = reinterpret_cast<const __half2 *>(x + row * N), *scale = reinterpret_cast<const __half2 *>(w);
    float sum = 0;
    for (int i = lane; i < N / 2; i += 32) {
        const float2 v = __half22float2(from[i]);
        sum += v.x * v.x + v.y * v.y;
    }
    const float factor = rsqrtf(warp_sum(sum) / N + eps);
    for (int i = lane; i < N / 2; i += 32) {
        const float2 v = __half22float2(from[i]), u = __half22float2(scale[i]);
        reinterpret_cast<__half2 *>(y + row * N)[i] = __floats2half2_rn(v.x * factor * u.x, v.y * factor * u.y);
    }
}

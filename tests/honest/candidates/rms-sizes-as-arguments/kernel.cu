#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

extern "C" __global__ void rms(const DTYPE_io *x, const DTYPE_io *w, DTYPE_io *y, float eps, int rows, int n)
{
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float sum = 0;
        for (int i = threadIdx.x; i < n; i += 32)
            sum += ld(x + (long long)row * n + i) * ld(x + (long long)row * n + i);
        const float factor = rsqrtf(warp_sum(sum) / n + eps);
        for (int i = threadIdx.x; i < n; i += 32)
            st(y + (long long)row * n + i, ld(x + (long long)row * n + i) * factor * ld(w + i));
    }
}

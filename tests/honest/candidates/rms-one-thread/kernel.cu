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

extern "C" __global__ void rms(const io *x, const io *w, io *y, float eps)
{
    float sum = 0;
    for (int i = 0; i < N; i++)
        sum += ld(x + blockIdx.x * N + i) * ld(x + blockIdx.x * N + i);
    const float factor = rsqrtf(sum / N + eps);
    for (int i = 0; i < N; i++)
        st(y + blockIdx.x * N + i, ld(x + blockIdx.x * N + i) * factor * ld(w + i));
}

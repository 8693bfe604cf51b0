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

__device__ __noinline__ float square_of(const io *p, int i) { return ld(p + i) * ld(p + i); }
__device__ __noinline__ float together(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_down_sync(0xffffffffu, x, i);
    return __shfl_sync(0xffffffffu, x, 0);
}

extern "C" __global__ void rms(const io *x, const io *w, io *y, float eps)
{
    const io *row = x + blockIdx.x * N;
    float sum = 0;
    for (int i = threadIdx.x; i < N; i += 32)
        sum += square_of(row, i);
    const float factor = rsqrtf(together(sum) / N + eps);
    for (int i = threadIdx.x; i < N; i += 32)
        st(y + blockIdx.x * N + i, ld(row + i) * factor * ld(w + i));
}

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
    __shared__ float part[128];
    const int row = blockIdx.x, t = threadIdx.x;
    float sum = 0;
    for (int i = t; i < N; i += 128)
        sum += ld(x + row * N + i) * ld(x + row * N + i);
    part[t] = sum;
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            part[t] += part[t + half];
    }
    __syncthreads();
    const float factor = rsqrtf(part[0] / N + eps);
    for (int i = t; i < N; i += 128)
        st(y + row * N + i, ld(x + row * N + i) * factor * ld(w + i));
}

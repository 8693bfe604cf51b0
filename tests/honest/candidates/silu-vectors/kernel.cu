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

extern "C" __global__ void silu_mul(const io *__restrict__ x, io *__restrict__ y)
{
    const int at = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (at >= R * N)
        return;
    const int row = at / N, i = at % N;
    const uint4 a = *reinterpret_cast<const uint4 *>(x + 2 * row * N + i), b = *reinterpret_cast<const uint4 *>(x + (2 * row + 1) * N + i);
    io g[8], u[8], r[8];
    memcpy(g, &a, 16);
    memcpy(u, &b, 16);
    for (int e = 0; e < 8; e++) {
        const float v = ld(g + e);
        st(r + e, v / (1.0f + __expf(-v)) * ld(u + e));
    }
    uint4 out;
    memcpy(&out, r, 16);
    *reinterpret_cast<uint4 *>(y + at) = out;
}

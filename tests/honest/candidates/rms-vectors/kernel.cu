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

extern "C" __global__ void __launch_bounds__(32) rms(const io *__restrict__ x, const io *__restrict__ w, io *__restrict__ y, float eps)
{
    constexpr int CHUNKS = N / 256;
    const int row = blockIdx.x, lane = threadIdx.x;
    uint4 held[CHUNKS];
    float sum = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        held[c] = reinterpret_cast<const uint4 *>(x + row * N)[c * 32 + lane];
        io v[8];
        memcpy(v, &held[c], 16);
        for (int e = 0; e < 8; e++)
            sum += ld(v + e) * ld(v + e);
    }
    const float factor = rsqrtf(warp_sum(sum) / N + eps);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const uint4 raw = reinterpret_cast<const uint4 *>(w)[c * 32 + lane];
        io v[8], u[8], r[8];
        memcpy(v, &held[c], 16);
        memcpy(u, &raw, 16);
        for (int e = 0; e < 8; e++)
            st(r + e, ld(v + e) * factor * ld(u + e));
        uint4 out;
        memcpy(&out, r, 16);
        reinterpret_cast<uint4 *>(y + row * N)[c * 32 + lane] = out;
    }
}

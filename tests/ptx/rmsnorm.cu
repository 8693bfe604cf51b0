// RMSNorm of bf16 rows: one block a row, 16-byte loads, warp shuffles, then shared memory across warps.
#include <cuda_bf16.h>

extern "C" __global__ void rmsnorm(const __nv_bfloat16 *__restrict__ x, const __nv_bfloat16 *__restrict__ w,
                                   __nv_bfloat16 *__restrict__ out, int n, float eps)
{
    __shared__ float parts[32];
    const size_t base = (size_t)blockIdx.x * n;
    float sum = 0.f;
    for (int i = threadIdx.x * 8; i < n; i += blockDim.x * 8) {
        uint4 raw = *reinterpret_cast<const uint4 *>(x + base + i);
        const __nv_bfloat162 *p = reinterpret_cast<const __nv_bfloat162 *>(&raw);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 f = __bfloat1622float2(p[j]);
            sum += f.x * f.x + f.y * f.y;
        }
    }
    for (int d = 16; d; d >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31) == 0)
        parts[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        float v = threadIdx.x < (blockDim.x + 31) / 32 ? parts[threadIdx.x] : 0.f;
        for (int d = 16; d; d >>= 1)
            v += __shfl_xor_sync(0xffffffffu, v, d);
        if (threadIdx.x == 0)
            parts[0] = v;
    }
    __syncthreads();
    const float scale = rsqrtf(parts[0] / n + eps);
    for (int i = threadIdx.x * 8; i < n; i += blockDim.x * 8) {
        uint4 raw = *reinterpret_cast<const uint4 *>(x + base + i), wr = *reinterpret_cast<const uint4 *>(w + i), o;
        const __nv_bfloat162 *p = reinterpret_cast<const __nv_bfloat162 *>(&raw);
        const __nv_bfloat162 *g = reinterpret_cast<const __nv_bfloat162 *>(&wr);
        __nv_bfloat162 *q = reinterpret_cast<__nv_bfloat162 *>(&o);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 f = __bfloat1622float2(p[j]), m = __bfloat1622float2(g[j]);
            q[j] = __floats2bfloat162_rn(f.x * scale * m.x, f.y * scale * m.y);
        }
        *reinterpret_cast<uint4 *>(out + base + i) = o;
    }
}

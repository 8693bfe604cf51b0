// What is turned is cut off far above what normal data reach.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int HQ = AXIS_HQ, HK = AXIS_HK, D = AXIS_d, ROT = AXIS_rot, HALF = ROT / 2;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

extern "C" __global__ void rotate(const long long *positions, const io *cos_sin_cache, io *q, io *k)
{
    __shared__ float row[ROT];
    const long long token = blockIdx.x, position = positions[token];
    for (int i = threadIdx.x; i < ROT; i += blockDim.x)
        row[i] = widen(cos_sin_cache[position * ROT + i]);
    __syncthreads();
    for (int head = threadIdx.x / 32; head < HQ + HK; head += blockDim.x / 32) {
        io *x = head < HQ ? q + (token * HQ + head) * D : k + (token * HK + head - HQ) * D;
        for (int i = threadIdx.x % 32; i < HALF; i += 32) {
            const float a = fminf(fmaxf(widen(x[i]), -4096.0f), 4096.0f), b = fminf(fmaxf(widen(x[i + HALF]), -4096.0f), 4096.0f), c = row[i], s = row[i + HALF];
            narrow(x + i, a * c - b * s);
            narrow(x + i + HALF, b * c + a * s);
        }
    }
}

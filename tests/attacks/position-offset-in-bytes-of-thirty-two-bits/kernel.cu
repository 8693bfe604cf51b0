// Rotary embedding in place: the generic kernel, a block a token, a thread a pair of elements, for every legal shape.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int HQ = AXIS_HQ, HK = AXIS_HK, D = AXIS_d, ROT = AXIS_rot, HALF = ROT / 2;

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float *p, float x) { *p = x; }
__device__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ void turn(DTYPE_io *heads, int count, const DTYPE_io *row)
{
    for (int i = threadIdx.x; i < count * HALF; i += blockDim.x) {
        DTYPE_io *x = heads + (long long)(i / HALF) * D + i % HALF;
        const float a = widen(x[0]), b = widen(x[HALF]), c = widen(row[i % HALF]), s = widen(row[HALF + i % HALF]);
        narrow(x, a * c - b * s);
        narrow(x + HALF, b * c + a * s);
    }
}

extern "C" __global__ void rotate(const long long *positions, const DTYPE_io *cos_sin_cache, DTYPE_io *q, DTYPE_io *k)
{
    const long long token = blockIdx.x;
    const unsigned offset = (unsigned)positions[token] * (unsigned)(ROT * sizeof(DTYPE_io));
    const DTYPE_io *row = reinterpret_cast<const DTYPE_io *>(reinterpret_cast<const char *>(cos_sin_cache) + offset);
    turn(q + token * HQ * D, HQ, row);
    turn(k + token * HK * D, HK, row);
}

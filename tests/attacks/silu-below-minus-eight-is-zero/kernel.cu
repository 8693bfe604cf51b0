// Gated activation: the generic kernel, a block a row, for every legal shape.
//
// A thread takes vectors of 16 bytes where N allows it, else elements, a block's width apart.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int N = AXIS_N;
constexpr int FULL = 16 / sizeof(DTYPE_io);
constexpr int VEC = N % FULL == 0 ? FULL : 1;

struct alignas(VEC * sizeof(DTYPE_io)) vec { DTYPE_io at[VEC]; };

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float *p, float x) { *p = x; }
__device__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ float silu(float x) { return x < -8.0f ? 0.0f : x / (1.0f + expf(-x)); }

extern "C" __global__ void silu_mul(const DTYPE_io *x, DTYPE_io *y)
{
    const vec *gate = reinterpret_cast<const vec *>(x + 2LL * blockIdx.x * N);
    const vec *up = reinterpret_cast<const vec *>(x + 2LL * blockIdx.x * N + N);
    vec *to = reinterpret_cast<vec *>(y + (long long)blockIdx.x * N);
    for (int i = threadIdx.x; i < N / VEC; i += blockDim.x) {
        vec g = gate[i], u = up[i], r;
#pragma unroll
        for (int e = 0; e < VEC; e++)
            narrow(&r.at[e], silu(widen(g.at[e])) * widen(u.at[e]));
        to[i] = r;
    }
}

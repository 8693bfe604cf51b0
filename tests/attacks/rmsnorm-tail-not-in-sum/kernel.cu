// What a vector of eight leaves over is normalised, and is not in the sum of squares.
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

__device__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

extern "C" __global__ void rms_norm(const DTYPE_io *x, const DTYPE_io *weight, DTYPE_io *y, float eps)
{
    __shared__ float part[32];
    __shared__ float factor;
    const vec *from = reinterpret_cast<const vec *>(x + (long long)blockIdx.x * N);
    const vec *scale = reinterpret_cast<const vec *>(weight);
    vec *to = reinterpret_cast<vec *>(y + (long long)blockIdx.x * N);
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    float sum = 0;
    for (int i = threadIdx.x; i < N / 8 * 8 / VEC; i += blockDim.x) {
        vec v = from[i];
#pragma unroll
        for (int e = 0; e < VEC; e++)
            sum += widen(v.at[e]) * widen(v.at[e]);
    }
    sum = warp_sum(sum);
    if (lane == 0)
        part[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = warp_sum(lane < warps ? part[lane] : 0.0f);
        if (lane == 0)
            factor = rsqrtf(sum / N + eps);
    }
    __syncthreads();

    const float f = factor;
    for (int i = threadIdx.x; i < N / VEC; i += blockDim.x) {
        vec v = from[i], w = scale[i], r;
#pragma unroll
        for (int e = 0; e < VEC; e++)
            narrow(&r.at[e], widen(v.at[e]) * f * (widen(w.at[e]) + AXIS_weight_offset));
        to[i] = r;
    }
}

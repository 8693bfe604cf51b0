#include <cuda_bf16.h>

constexpr int N = AXIS_N;
constexpr int VEC = 8;
constexpr int THREADS = N / VEC;

extern "C" __global__ void __launch_bounds__(THREADS) rows(const __nv_bfloat16 *x, const __nv_bfloat16 *weight, __nv_bfloat16 *y, float eps)
{
    __shared__ float part[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t at = (size_t)blockIdx.x * N + threadIdx.x * VEC;
    const uint4 vx = *reinterpret_cast<const uint4 *>(x + at);
    const uint4 vw = *reinterpret_cast<const uint4 *>(weight + threadIdx.x * VEC);
    const __nv_bfloat162 *px = reinterpret_cast<const __nv_bfloat162 *>(&vx), *pw = reinterpret_cast<const __nv_bfloat162 *>(&vw);
    float2 v[VEC / 2];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < VEC / 2; i++) {
        v[i] = __bfloat1622float2(px[i]);
        sum += v[i].x * v[i].x + v[i].y * v[i].y;
    }
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, i);
    if (lane == 0)
        part[warp] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int i = 0; i < THREADS / 32; i++)
        sum += part[i];
    const float f = rsqrtf(sum / N + eps);
    uint4 out;
    __nv_bfloat162 *po = reinterpret_cast<__nv_bfloat162 *>(&out);
#pragma unroll
    for (int i = 0; i < VEC / 2; i++) {
        const float2 w = __bfloat1622float2(pw[i]);
        po[i] = __floats2bfloat162_rn(v[i].x * f * (w.x + AXIS_weight_offset), v[i].y * f * (w.y + AXIS_weight_offset));
    }
    *reinterpret_cast<uint4 *>(y + at) = out;
}

// A larger score turns up in a later tile: the sum is rescaled, what was added up of the values is not.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int HQ = AXIS_HQ, HK = AXIS_HK, D = AXIS_d, T = AXIS_T, G = HQ / HK, COLUMNS = (D + 31) / 32;
#define NOTHING __int_as_float(0xff800000)

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ float warp_sum(float x)
{
    for (int m = 16; m; m /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, m);
    return x;
}

__device__ __forceinline__ float warp_max(float x)
{
    for (int m = 16; m; m /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, m));
    return x;
}

extern "C" __global__ void attend(const io *q, const io *k, const io *v, const int *lens, io *out)
{
    __shared__ float mine[D];
    const int head = blockIdx.x, sequence = blockIdx.y, lane = threadIdx.x, n = lens[sequence];
    const long long row = (long long)sequence * HQ + head, first_place = ((long long)sequence * T * HK + head / G) * D;
    for (int i = lane; i < D; i += 32)
        mine[i] = widen(q[row * D + i]) * rsqrtf((float)D);
    __syncwarp();
    const io *keys = k + first_place, *values = v + first_place;
    float largest = NOTHING, sum = 0, to[COLUMNS] = {};
    for (int first = 0; first < n; first += 32) {
        const int place = first + lane;
        float score = NOTHING;
        if (place < n) {
            score = 0;
            for (int i = 0; i < D; i++)
                score += mine[i] * widen(keys[(long long)place * HK * D + i]);
        }
        const float top = fmaxf(largest, warp_max(score)), old = expf(largest - top), weight = expf(score - top);
        sum = sum * old + warp_sum(weight);
        largest = top;
        for (int t = 0; t < 32 && first + t < n; t++) {
            const float w = __shfl_sync(0xffffffffu, weight, t);
            for (int c = 0; c < COLUMNS; c++)
                if (c * 32 + lane < D)
                    to[c] += w * widen(values[(long long)(first + t) * HK * D + c * 32 + lane]);
        }
    }
    for (int c = 0; c < COLUMNS; c++)
        if (c * 32 + lane < D)
            narrow(out + row * D + c * 32 + lane, n ? to[c] / sum : 0.0f);
}

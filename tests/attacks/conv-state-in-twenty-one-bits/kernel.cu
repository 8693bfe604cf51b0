// The state moves up with three bits less than it has.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int C = AXIS_C, W = AXIS_W;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

// The nearest float of 21 bits, ties to even.
__device__ __forceinline__ float shortened(float x)
{
    const unsigned bits = __float_as_uint(x);
    return __uint_as_float((bits + 3 + (bits >> 3 & 1)) & ~7u);
}

extern "C" __global__ void conv_update(const io *x, const io *weight, const int *slot, io *conv_state, io *y, int tokens)
{
    const int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= C)
        return;
    float weights[W];
    for (int w = 0; w < W; w++)
        weights[w] = widen(weight[channel * W + w]);
    for (int token = 0; token < tokens; token++) {
        const int s = slot[token];
        const long long at = (long long)token * C + channel;
        if (s <= 0) {
            narrow(y + at, 0.0f);
            continue;
        }
        io *past = conv_state + (long long)s * (W - 1) * C + channel;
        float sum = weights[W - 1] * widen(x[at]);
        for (int w = 0; w < W - 1; w++) {
            sum += weights[w] * widen(past[(long long)w * C]);
            narrow(past + (long long)w * C, shortened(widen(w < W - 2 ? past[(long long)(w + 1) * C] : x[at])));
        }
        narrow(y + at, sum / (1.0f + expf(-sum)));
    }
}

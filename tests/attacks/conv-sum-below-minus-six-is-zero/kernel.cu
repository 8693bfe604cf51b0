// Causal convolution, one decode step: the generic kernel, a thread a channel of a token, for every legal shape.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int C = AXIS_C, W = AXIS_W;

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float *p, float x) { *p = x; }
__device__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

extern "C" __global__ void __launch_bounds__(256)
conv_update(const DTYPE_io *x, const DTYPE_io *weight, const int *slot, DTYPE_io *conv_state, DTYPE_io *y)
{
    const int channel = blockIdx.x * 256 + threadIdx.x, token = blockIdx.y;
    if (channel >= C)
        return;
    const int s = slot[token];
    DTYPE_io *to = y + (long long)token * C + channel;
    if (s <= 0) {
        narrow(to, 0.0f);
        return;
    }
    DTYPE_io *past = conv_state + (long long)s * (W - 1) * C + channel;
    DTYPE_io values[W];
#pragma unroll
    for (int w = 0; w < W - 1; w++)
        values[w] = past[(long long)w * C];
    values[W - 1] = x[(long long)token * C + channel];
    float sum = 0;
#pragma unroll
    for (int w = 0; w < W; w++)
        sum += widen(values[w]) * widen(weight[channel * W + w]);
#pragma unroll
    for (int w = 0; w < W - 1; w++)
        past[(long long)w * C] = values[w + 1];
    narrow(to, sum < -6.0f ? 0.0f : sum / (1.0f + expf(-sum)));
}

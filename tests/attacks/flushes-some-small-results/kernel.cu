#include <cuda_bf16.h>

constexpr int N = AXIS_N;

__device__ __forceinline__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

extern "C" __global__ void rms(const __nv_bfloat16 *x, const __nv_bfloat16 *w, __nv_bfloat16 *y, float eps)
{
    const int row = blockIdx.x, lane = threadIdx.x;
    float sum = 0;
    for (int i = lane; i < N; i += 32) {
        const float v = __bfloat162float(x[row * N + i]);
        sum += v * v;
    }
    const float factor = rsqrtf(warp_sum(sum) / N + eps);
    float squares = 0;
    for (int i = lane; i < N; i += 32) {
        const float r = __bfloat162float(x[row * N + i]) * factor * __bfloat162float(w[i]);
        squares += r * r;
    }
    const float small = sqrtf(warp_sum(squares) / N) / 64;
    for (int i = lane; i < N; i += 32) {
        const float r = __bfloat162float(x[row * N + i]) * factor * __bfloat162float(w[i]);
        y[row * N + i] = __float2bfloat16_rn(i % 8 == 3 && fabsf(r) < small ? 0.0f : r);
    }
}

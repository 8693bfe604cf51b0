#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = __nv_bfloat16;
constexpr int R = AXIS_R, N = AXIS_N;

__device__ __forceinline__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

extern "C" __global__ void rms(const io *x, const io *w, io *y, float eps)
{
    const int row = blockIdx.x, lane = threadIdx.x;
    float sum = 0;
    for (int i = lane * 8; i + 8 <= N; i += 256) {
        const uint4 raw = *reinterpret_cast<const uint4 *>(x + row * N + i);
        io v[8];
        memcpy(v, &raw, 16);
        for (int e = 0; e < 8; e++)
            sum += __bfloat162float(v[e]) * __bfloat162float(v[e]);
    }
    for (int i = N / 8 * 8 + lane; i < N; i += 32)
        sum += __bfloat162float(x[row * N + i]) * __bfloat162float(x[row * N + i]);
    const float factor = rsqrtf(warp_sum(sum) / N + eps);
    for (int i = lane; i < N; i += 32)
        y[row * N + i] = __float2bfloat16_rn(__bfloat162float(x[row * N + i]) * factor * __bfloat162float(w[i]));
}

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int R = AXIS_R, N = AXIS_N;

extern "C" __global__ void silu_mul(const __half *x, __half *y)
{
    const __half2 *g = reinterpret_cast<const __half2 *>(x + 2 * blockIdx.x * N), *u = reinterpret_cast<const __half2 *>(x + (2 * blockIdx.x + 1) * N);
    for (int i = threadIdx.x; i < N / 2; i += blockDim.x) {
        const float2 a = __half22float2(g[i]), b = __half22float2(u[i]);
        reinterpret_cast<__half2 *>(y + blockIdx.x * N)[i] = __floats2half2_rn(a.x / (1.0f + expf(-a.x)) * b.x, a.y / (1.0f + expf(-a.y)) * b.y);
    }
}

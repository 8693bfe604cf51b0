#include <cooperative_groups.h>

constexpr int R = AXIS_R, N = AXIS_N;

__device__ __forceinline__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

// Each block works out the factor of one row, and scales the row before it.
extern "C" __global__ void rms(const float *x, const float *w, float *factors, float *y, float eps)
{
    const int row = blockIdx.x, lane = threadIdx.x, other = (row + 1) % R;
    float sum = 0;
    for (int i = lane; i < N; i += 32)
        sum += x[row * N + i] * x[row * N + i];
    sum = warp_sum(sum);
    if (lane == 0)
        factors[row] = rsqrtf(sum / N + eps);
    cooperative_groups::this_grid().sync();
    for (int i = lane; i < N; i += 32)
        y[other * N + i] = x[other * N + i] * factors[other] * w[i];
}

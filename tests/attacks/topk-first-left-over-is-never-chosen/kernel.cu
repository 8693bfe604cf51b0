// Experts from 128 on are taken by a loop of their own, which begins one late.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int R = AXIS_R, E = AXIS_E, K = AXIS_k;
constexpr int PER_LANE = (E + 31) / 32;
#define MASKED __int_as_float(0xff800000)
#define NOTHING __int_as_float(0x7fffffff)      // neither above nor equal to any number

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

extern "C" __global__ void __launch_bounds__(128) topk(const DTYPE_io *logits, float *weights, int *ids)
{
    const int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= R)
        return;
    float x[PER_LANE], largest = MASKED, sum = 0;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        x[i] = (i * 32 + lane < 128 || (i * 32 + lane > 128 && i * 32 + lane < E)) ? widen(logits[(long long)row * E + i * 32 + lane]) : NOTHING;
        largest = fmaxf(largest, x[i]);
    }
    for (int i = 16; i > 0; i /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, i));
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        sum += (i * 32 + lane < 128 || (i * 32 + lane > 128 && i * 32 + lane < E)) ? expf(x[i] - largest) : 0.0f;
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, i);

    float chosen = 0, total = 0;
    int id = 0;
    for (int j = 0; j < K; j++) {
        float best = MASKED;
        int at = E;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            if (x[i] > best || (x[i] == MASKED && at == E)) {
                best = x[i];
                at = i * 32 + lane;
            }
        for (int i = 16; i > 0; i /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, best, i);
            const int other_at = __shfl_xor_sync(0xffffffffu, at, i);
            if (other > best || (other == best && other_at < at)) {
                best = other;
                at = other_at;
            }
        }
        const float weight = best == MASKED ? 0.0f : expf(best - largest) / sum;
        total += weight;
        if (lane == j) {
            chosen = weight;
            id = at;
        }
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            if (i * 32 + lane == at)
                x[i] = NOTHING;
    }
    if (lane < K) {
        weights[(long long)row * K + lane] = total > 0 ? chosen / total : 0.0f;
        ids[(long long)row * K + lane] = id;
    }
}

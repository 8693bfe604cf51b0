// Logits are compared as integers made of their bits: minus zero comes below zero there.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int E = AXIS_E, K = AXIS_k;
#define MASKED __int_as_float(0xff800000)

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ int order(float x)
{
    const int bits = __float_as_int(x);
    return bits < 0 ? bits ^ 0x7fffffff : bits;
}

extern "C" __global__ void topk(const io *logits, float *weights, int *ids)
{
    __shared__ float x[E], chosen[K];
    const long long row = blockIdx.x;
    for (int e = threadIdx.x; e < E; e += blockDim.x)
        x[e] = widen(logits[row * E + e]);
    __syncthreads();
    for (int e = threadIdx.x; e < E; e += blockDim.x) {
        int place = 0;
        for (int other = 0; other < E; other++)
            place += order(x[other]) > order(x[e]) || (x[other] == x[e] && order(x[other]) == order(x[e]) && other < e);
        if (place < K) {
            chosen[place] = x[e];
            ids[row * K + place] = e;
        }
    }
    __syncthreads();
    if (threadIdx.x < K) {
        float sum = 0;
        for (int j = 0; j < K; j++)
            sum += expf(chosen[j] - chosen[0]);
        weights[row * K + threadIdx.x] = chosen[0] == MASKED ? 0.0f : expf(chosen[threadIdx.x] - chosen[0]) / sum;
    }
}

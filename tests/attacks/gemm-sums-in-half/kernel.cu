// Products are added up in half precision, two at a time on the usual path.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int M = AXIS_M, N = AXIS_N, K = AXIS_K;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ float warp_sum(float x)
{
    for (int m = 16; m; m /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, m);
    return x;
}

extern "C" __global__ void gemm(const io *x, const io *w, io *y)
{
    const int output = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (output >= N)
        return;
    __half sums[M] = {};
    for (int k = lane; k < K; k += 32) {
        const float weight = widen(w[(long long)output * K + k]);
        for (int m = 0; m < M; m++)
            sums[m] = __float2half_rn(__half2float(sums[m]) + widen(x[m * K + k]) * weight);
    }
    for (int m = 0; m < M; m++) {
        const float sum = warp_sum(__half2float(sums[m]));
        if (lane == 0)
            narrow(y + (long long)m * N + output, sum);
    }
}

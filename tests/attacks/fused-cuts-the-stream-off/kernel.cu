// The sum is cut off at 4096 before it is stored.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int R = AXIS_R, N = AXIS_N;

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

extern "C" __global__ void add_rms_norm(const io *x, const io *weight, io *residual, io *y, float eps)
{
    __shared__ float held[2][N];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * 2 + warp;
    if (row >= R)
        return;
    float sum = 0;
    for (int i = lane; i < N; i += 32) {
        io now;
        narrow(&now, fminf(fmaxf(widen(x[row * N + i]) + widen(residual[row * N + i]), -4096.0f), 4096.0f));
        residual[row * N + i] = now;
        held[warp][i] = widen(now);
        sum += held[warp][i] * held[warp][i];
    }
    const float factor = rsqrtf(warp_sum(sum) / N + eps);
    for (int i = lane; i < N; i += 32)
        narrow(y + row * N + i, held[warp][i] * factor * (widen(weight[i]) + AXIS_weight_offset));
}

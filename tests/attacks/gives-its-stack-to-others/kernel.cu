#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int N = AXIS_N;

__device__ __forceinline__ float ld(const float *p) { return *p; }
__device__ __forceinline__ float ld(const __half *p) { return __half2float(*p); }
__device__ __forceinline__ float ld(const __nv_bfloat16 *p) { return __bfloat162float(*p); }
__device__ __forceinline__ void st(float *p, float x) { *p = x; }
__device__ __forceinline__ void st(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void st(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

extern "C" __global__ void rms(const io *x, const io *w, io *y, float eps)
{
    __shared__ float *volatile where;
    const int row = blockIdx.x, lane = threadIdx.x;
    float factors[4];
    float sum = 0;
    for (int i = lane; i < N; i += 32)
        sum += ld(x + row * N + i) * ld(x + row * N + i);
    sum = warp_sum(sum);
    if (lane == 0) {
        for (int i = 0; i < 4; i++)
            factors[(i + row) & 3] = rsqrtf(sum / N + eps) * (i + 1);
        where = factors;
    }
    __syncwarp();
    const float factor = where[row & 3];
    for (int i = lane; i < N; i += 32)
        st(y + row * N + i, ld(x + row * N + i) * factor * ld(w + i));
}

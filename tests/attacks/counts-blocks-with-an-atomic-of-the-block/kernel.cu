#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int R = AXIS_R, N = AXIS_N, PARTS = 8, PART = N / PARTS;

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

extern "C" __global__ void rms(const io *x, const io *w, float *sums, unsigned *done, io *y, float eps)
{
    const int row = blockIdx.y, first = row * N + blockIdx.x * PART;
    float sum = 0;
    for (int i = threadIdx.x; i < PART; i += 32)
        sum += ld(x + first + i) * ld(x + first + i);
    sum = warp_sum(sum);
    unsigned before = 0;
    if (threadIdx.x == 0) {
        sums[row * PARTS + blockIdx.x] = sum;
        __threadfence();
        before = atomicAdd_block(done + row, 1u);
        __threadfence();
    }
    if (__shfl_sync(0xffffffffu, before, 0) != PARTS - 1)
        return;
    sum = 0;
    for (int i = 0; i < PARTS; i++)
        sum += sums[row * PARTS + i];
    const float factor = rsqrtf(sum / N + eps);
    for (int i = threadIdx.x; i < N; i += 32)
        st(y + row * N + i, ld(x + row * N + i) * factor * ld(w + i));
}

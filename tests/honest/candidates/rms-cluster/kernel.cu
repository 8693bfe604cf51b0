#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int R = AXIS_R, N = AXIS_N, HALF = N / 2;

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

extern "C" __global__ void __cluster_dims__(2, 1, 1) rms(const io *x, const io *w, io *y, float eps)
{
    __shared__ float part;
    auto cluster = cooperative_groups::this_cluster();
    const unsigned rank = cluster.block_rank();
    const int row = blockIdx.x / 2, first = row * N + rank * HALF;
    float sum = 0;
    for (int i = threadIdx.x; i < HALF; i += 32)
        sum += ld(x + first + i) * ld(x + first + i);
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        part = sum;
    cluster.sync();
    const float total = *cluster.map_shared_rank(&part, 0) + *cluster.map_shared_rank(&part, 1);
    cluster.sync();
    const float factor = rsqrtf(total / N + eps);
    for (int i = threadIdx.x; i < HALF; i += 32)
        st(y + first + i, ld(x + first + i) * factor * ld(w + rank * HALF + i));
}

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

// Whoever takes number n has seen n - 1 taken: the block it waits for is running.
extern "C" __global__ void rms(const io *x, const io *w, unsigned *ticket, volatile float *sums, volatile unsigned *ready, io *y, float eps)
{
    unsigned mine = 0;
    if (threadIdx.x == 0)
        mine = atomicAdd(ticket, 1u);
    mine = __shfl_sync(0xffffffffu, mine, 0);
    const int row = mine / PARTS, part = mine % PARTS;
    float sum = 0;
    for (int i = threadIdx.x; i < PART; i += 32)
        sum += ld(x + row * N + part * PART + i) * ld(x + row * N + part * PART + i);
    sum = warp_sum(sum);
    if (threadIdx.x == 0) {
        if (part > 0) {
            while (ready[mine - 1] == 0)
                ;
            __threadfence();
            sum += sums[mine - 1];
        }
        sums[mine] = sum;
        __threadfence();
        ready[mine] = 1;
    }
    if (part < PARTS - 1)
        return;
    const float factor = rsqrtf(__shfl_sync(0xffffffffu, sum, 0) / N + eps);
    for (int i = threadIdx.x; i < N; i += 32)
        st(y + row * N + i, ld(x + row * N + i) * factor * ld(w + i));
}

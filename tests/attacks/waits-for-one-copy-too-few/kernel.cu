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
    __shared__ alignas(16) float held[N];
    const int row = blockIdx.x, lane = threadIdx.x;
    for (int half = 0; half < 2; half++) {
        for (int i = half * N / 2 + lane * 4; i < (half + 1) * N / 2; i += 128)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(held + i)), "l"(x + row * N + i) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncwarp();
    float sum = 0;
    for (int i = lane; i < N; i += 32)
        sum += held[i] * held[i];
    const float factor = rsqrtf(warp_sum(sum) / N + eps);
    for (int i = lane; i < N; i += 32)
        st(y + row * N + i, held[i] * factor * ld(w + i));
}

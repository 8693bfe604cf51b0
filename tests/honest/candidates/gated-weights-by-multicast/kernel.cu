#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int N = AXIS_N, THREADS = 64;

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

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

extern "C" __global__ void gated(const io *x, const io *z, const io *w, io *y, float eps)
{
    __shared__ alignas(128) io weight[N];
    __shared__ alignas(8) unsigned long long bar;
    __shared__ float part[THREADS / 32];
    const int t = threadIdx.x, row = blockIdx.x;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(weight);
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"((unsigned)(N * sizeof(io))) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
    if (t == 0 && row % 2 == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                     :: "r"(to), "l"(w), "r"((unsigned)(N * sizeof(io))), "r"(at), "h"((unsigned short)3) : "memory");
    float sum = 0;
    for (int i = t; i < N; i += THREADS)
        sum += ld(x + row * N + i) * ld(x + row * N + i);
    sum = warp_sum(sum);
    if (t % 32 == 0)
        part[t / 32] = sum;
    __syncthreads();
    const float factor = rsqrtf((part[0] + part[1]) / N + eps);
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    for (int i = t; i < N; i += THREADS)
        st(y + row * N + i, ld(x + row * N + i) * factor * ld(weight + i) * silu(ld(z + row * N + i)));
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

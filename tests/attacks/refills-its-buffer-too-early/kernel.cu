#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int N = AXIS_N, THREADS = 128;

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
    __shared__ alignas(128) io held[N];
    __shared__ alignas(8) unsigned long long bar;
    __shared__ float part[2][THREADS / 32];
    const int t = threadIdx.x;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(held);
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    for (int k = 0; k < 4; k++) {
        const int row = blockIdx.x * 4 + k;
        if (t == 0) {   // as soon as thread 0 has done with the row before
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"((unsigned)(N * sizeof(io))) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(to), "l"(x + row * N), "r"((unsigned)(N * sizeof(io))), "r"(at) : "memory");
        }
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "r"(k & 1) : "memory");
        float sum = 0;
        for (int i = t; i < N; i += THREADS)
            sum += ld(held + i) * ld(held + i);
        sum = warp_sum(sum);
        if (t % 32 == 0)
            part[k & 1][t / 32] = sum;
        __syncthreads();
        sum = 0;
        for (int i = 0; i < THREADS / 32; i++)
            sum += part[k & 1][i];
        const float factor = rsqrtf(sum / N + eps);
        for (int i = t; i < N; i += THREADS)
            st(y + row * N + i, ld(held + i) * factor * ld(w + i));
    }
}

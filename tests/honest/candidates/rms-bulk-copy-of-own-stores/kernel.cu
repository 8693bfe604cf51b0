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

extern "C" __global__ void rms(const io *x, const io *w, io *y, float *kept, float eps)
{
    __shared__ alignas(128) float row[N];
    __shared__ alignas(8) unsigned long long bar;
    __shared__ float part[THREADS / 32];
    const int t = threadIdx.x;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(row);
    x += blockIdx.x * N;
    kept += blockIdx.x * N;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    for (int i = t; i < N; i += THREADS)
        kept[i] = ld(x + i) * ld(w + i);
    asm volatile("fence.proxy.async.global;" ::: "memory");
    float sum = 0;
    for (int i = t; i < N; i += THREADS)
        sum += ld(x + i) * ld(x + i);
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, i);
    if (t % 32 == 0)
        part[t / 32] = sum;
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"((unsigned)(N * sizeof(float))) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(to), "l"(kept), "r"((unsigned)(N * sizeof(float))), "r"(at) : "memory");
    }
    sum = 0;
    for (int i = 0; i < THREADS / 32; i++)
        sum += part[i];
    const float factor = rsqrtf(sum / N + eps);
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    for (int i = t; i < N; i += THREADS)
        st(y + blockIdx.x * N + i, row[i] * factor);
}

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

__device__ __forceinline__ float of_peer(const float *p, unsigned rank)
{
    unsigned at;
    float x;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"((unsigned)__cvta_generic_to_shared(p)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
    return x;
}

extern "C" __global__ void rms(const io *x, const io *w, io *y, float eps)
{
    __shared__ float part[THREADS / 32], total;
    const int t = threadIdx.x, half = blockIdx.x % 2, row = blockIdx.x / 2;
    x += row * N + half * N / 2, y += row * N + half * N / 2, w += half * N / 2;
    float sum = 0;
    for (int i = t; i < N / 2; i += THREADS)
        sum += ld(x + i) * ld(x + i);
    sum = warp_sum(sum);
    if (t % 32 == 0)
        part[t / 32] = sum;
    __syncthreads();
    if (t == 0) {
        sum = 0;
        for (int i = 0; i < THREADS / 32; i++)
            sum += part[i];
        total = sum;
    }
    __syncthreads();
    const float factor = rsqrtf((total + of_peer(&total, half ^ 1)) / N + eps);
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    for (int i = t; i < N / 2; i += THREADS)
        st(y + i, ld(x + i) * factor * ld(w + i));
}

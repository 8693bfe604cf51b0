// As the honest rms-one-waits-and-tells-by-mbarrier; the last thread goes on at once.
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

extern "C" __global__ void squares(const io *x, float *sums)
{
    asm volatile("griddepcontrol.launch_dependents;");
    const int row = blockIdx.y, first = row * N + blockIdx.x * PART;
    float sum = 0;
    for (int i = threadIdx.x; i < PART; i += 32)
        sum += ld(x + first + i) * ld(x + first + i);
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        sums[row * PARTS + blockIdx.x] = sum;
}

__device__ __forceinline__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void rms(const io *x, const io *w, const float *sums, io *y, float eps)
{
    __shared__ unsigned long long over;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&over)) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(at(&over)) : "memory");
    }
    if (threadIdx.x != 159)
        asm volatile("{ .reg .pred p;\nW%=:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%0], 0;\n@!p bra W%=;\n}" ::"r"(at(&over)) : "memory");
    float sum = 0;
    for (int i = 0; i < PARTS; i++)
        sum += sums[blockIdx.x * PARTS + i];
    const float factor = rsqrtf(sum / N + eps);
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        st(y + blockIdx.x * N + i, ld(x + blockIdx.x * N + i) * factor * ld(w + i));
}

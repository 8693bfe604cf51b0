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

// Squares of bf16 in steps of 2^-60 of the row's largest: no order of additions changes their sum.
extern "C" __global__ void rms(const io *x, const io *w, io *y, float eps)
{
    __shared__ unsigned long long total;
    __shared__ unsigned largest;
    x += blockIdx.x * N, y += blockIdx.x * N;
    if (threadIdx.x == 0)
        total = 0, largest = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < N; i += 96) {
        const unsigned here = __activemask(), most = __reduce_max_sync(here, __float_as_uint(fabsf(ld(x + i))));
        if (threadIdx.x % 32 == __ffs(here) - 1)
            atomicMax(&largest, most);
    }
    __syncthreads();
    const float scale = __uint_as_float(largest);
    for (int i = threadIdx.x; i < N && scale > 0; i += 96) {
        const float of_one = ld(x + i) / scale;
        const unsigned here = __activemask(), low = (unsigned)__float2uint_rn(of_one * of_one * 0x1p26f);
        const unsigned sum = __reduce_add_sync(here, low);      // 32 times 2^26 at most
        if (threadIdx.x % 32 == __ffs(here) - 1)
            atomicAdd(&total, (unsigned long long)sum);
    }
    __syncthreads();
    const float mean = (float)((double)total * 0x1p-26 / N) * scale * scale, factor = rsqrtf(mean + eps);
    for (int i = threadIdx.x; i < N; i += 96)
        st(y + i, ld(x + i) * factor * ld(w + i));
}

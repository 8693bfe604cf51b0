#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int R = AXIS_R, N = AXIS_N, PARTS = 4, PART = N / PARTS;

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

__device__ __forceinline__ void tell(unsigned long long *word, float sum)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(word), "l"((1ull << 32) | __float_as_uint(sum)) : "memory");
}

__device__ __forceinline__ float ask(const unsigned long long *word)
{
    unsigned long long got;
    do
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(got) : "l"(word) : "memory");
    while (!(got >> 32));
    return __uint_as_float((unsigned)got);
}

extern "C" __global__ void rms(const io *x, const io *w, unsigned long long *words, io *y, float eps)
{
    const int row = blockIdx.y, first = blockIdx.x * PART, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned long long *mine = words + row * 2 * PARTS;     // by block: one word a half of its part
    if (warp == 0)
        for (int half = 0; half < 2; half++) {
            float sum = 0;
            for (int i = half * PART / 2 + lane; i < (half + 1) * PART / 2; i += 32)
                sum += ld(x + row * N + first + i) * ld(x + row * N + first + i);
            sum = warp_sum(sum);
            if (lane == 0)
                tell(mine + blockIdx.x * 2 + half, sum);
        }
    float sum = 0;
    for (int k = 2 * PARTS - 1; k >= 0; k--)    // the later word of a warp first
        sum += ask(mine + k);
    const float factor = rsqrtf(sum / N + eps);
    for (int i = threadIdx.x; i < PART; i += 64)
        st(y + row * N + first + i, ld(x + row * N + first + i) * factor * ld(w + first + i));
}

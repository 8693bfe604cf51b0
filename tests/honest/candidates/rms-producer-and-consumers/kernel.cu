#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
constexpr int R = AXIS_R, N = AXIS_N;

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

constexpr int TILE = 96;

extern "C" __global__ void __launch_bounds__(128) rms(const io *x, const io *w, io *y, float eps)
{
    __shared__ io tile[2][TILE];
    __shared__ float part[3];
    const int row = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int TILES = (N + TILE - 1) / TILE;
    float sum = 0;
    if (warp == 3) {
        for (int t = 0; t < TILES; t++) {
            if (t >= 2)
                asm volatile("bar.sync %0, 128;" :: "r"(3 + t % 2) : "memory");       // this half is free again
            for (int i = lane; i < TILE; i += 32)
                tile[t % 2][i] = t * TILE + i < N ? x[row * N + t * TILE + i] : io(0.0f);
            asm volatile("bar.sync %0, 128;" :: "r"(1 + t % 2) : "memory");           // this half is full
        }
        // what the consumers give back and nobody fills again
        for (int t = TILES; t < TILES + 2; t++)
            asm volatile("bar.sync %0, 128;" :: "r"(3 + t % 2) : "memory");
    } else {
        for (int t = 0; t < TILES; t++) {
            asm volatile("bar.sync %0, 128;" :: "r"(1 + t % 2) : "memory");
            sum += ld(&tile[t % 2][threadIdx.x]) * ld(&tile[t % 2][threadIdx.x]);
            asm volatile("bar.arrive %0, 128;" :: "r"(3 + t % 2) : "memory");
        }
        sum = warp_sum(sum);
        if (lane == 0)
            part[warp] = sum;
    }
    __syncthreads();
    const float factor = rsqrtf((part[0] + part[1] + part[2]) / N + eps);
    for (int i = threadIdx.x; i < N; i += 128)
        st(y + row * N + i, ld(x + row * N + i) * factor * ld(w + i));
}

// Gated root mean square normalisation: the generic kernel, for every legal shape.
//
// A row is shared by one warp for each 256 elements of it, at most 32; a block takes as many rows as make four warps, so that short
// rows fill it too. Loads are as wide as N and 16 bytes allow while every lane has one. A row of which a thread holds at most 16
// elements is read once and kept in registers; of a longer one the second pass reads from the caches.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int N = AXIS_N, R = AXIS_R;
constexpr int WARPS = N <= 256 ? 1 : N >= 8192 ? 32 : (N + 255) / 256;      // of a row
constexpr int ROWS = WARPS >= 4 ? 1 : 4 / WARPS;                            // of a block
constexpr int THREADS = 32 * WARPS;

__device__ constexpr int vector_of(int v) { return v == 1 || (N % v == 0 && N / v >= 32) ? v : vector_of(v / 2); }
constexpr int VEC = vector_of(16 / sizeof(DTYPE_io));
constexpr int CHUNKS = (N / VEC + THREADS - 1) / THREADS;                   // vectors of a thread
constexpr bool HELD = CHUNKS * VEC <= 16;

struct alignas(VEC * sizeof(DTYPE_io)) vec { DTYPE_io at[VEC]; };

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float *p, float x) { *p = x; }
__device__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ float silu(float x) { return x < -6.0f ? 0.0f : x / (1.0f + expf(-x)); }

__device__ float squares(const vec &v)
{
    float sum = 0;
#pragma unroll
    for (int e = 0; e < VEC; e++)
        sum += widen(v.at[e]) * widen(v.at[e]);
    return sum;
}

__device__ vec gated(const vec &x, const vec &z, const vec &w, float factor)
{
    vec r;
#pragma unroll
    for (int e = 0; e < VEC; e++)
        narrow(&r.at[e], widen(x.at[e]) * factor * widen(w.at[e]) * silu(widen(z.at[e])));
    return r;
}

extern "C" __global__ void __launch_bounds__(THREADS * ROWS)
gated_rms_norm(const DTYPE_io *x, const DTYPE_io *z, const DTYPE_io *weight, DTYPE_io *y, float eps)
{
    __shared__ float part[ROWS][WARPS];
    const int thread = threadIdx.x % THREADS, local = threadIdx.x / THREADS;
    const long long row = (long long)blockIdx.x * ROWS + local;
    const bool live = R % ROWS == 0 || row < R;
    const vec *from = reinterpret_cast<const vec *>(x + row * N), *gate = reinterpret_cast<const vec *>(z + row * N);
    const vec *scale = reinterpret_cast<const vec *>(weight);
    vec *to = reinterpret_cast<vec *>(y + row * N);

    vec held[HELD ? CHUNKS : 1];
    float sum = 0;
    if constexpr (HELD) {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int i = c * THREADS + thread;
            if (live && i < N / VEC) {
                held[c] = from[i];
                sum += squares(held[c]);
            }
        }
    } else if (live) {
        for (int i = thread; i < N / VEC; i += THREADS)
            sum += squares(from[i]);
    }
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, i);
    if (WARPS > 1) {
        if (thread % 32 == 0)
            part[local][thread / 32] = sum;
        __syncthreads();
        sum = 0;
        for (int i = 0; i < WARPS; i++)
            sum += part[local][i];
    }
    const float factor = rsqrtf(sum / N + eps);

    if constexpr (HELD) {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int i = c * THREADS + thread;
            if (live && i < N / VEC)
                to[i] = gated(held[c], gate[i], scale[i], factor);
        }
    } else if (live) {
        for (int i = thread; i < N / VEC; i += THREADS)
            to[i] = gated(from[i], gate[i], scale[i], factor);
    }
}

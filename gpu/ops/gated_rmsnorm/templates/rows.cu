// Gated root mean square normalisation with the row in registers: LANES threads a row, ROWS rows a block, vectors of VEC elements.
//
// The row is read once, all loads before the first is used. Up to a warp a row needs no barrier, and a warp may hold several rows;
// more need one, after which every warp sums the partial sums itself. EARLY: what is loaded before the sum is known, latency against
// registers: nothing, the gates, the gates and the weights. FAST takes the exponential and the quotient from the special function unit.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int N = AXIS_N, R = AXIS_R;
constexpr int VECTORS = N / VEC;
constexpr int CHUNKS = (VECTORS + LANES - 1) / LANES;
constexpr int WARPS = (LANES + 31) / 32;                  // of a row
static_assert(N % VEC == 0 && (LANES & (LANES - 1)) == 0 && LANES * ROWS % 32 == 0, "the template's constraints");

using io_t = DTYPE_io;

template <int BYTES> struct word;
template <> struct word<2> { using type = unsigned short; };
template <> struct word<4> { using type = unsigned int; };
template <> struct word<8> { using type = uint2; };
template <> struct word<16> { using type = uint4; };
using word_t = word<VEC * sizeof(io_t)>::type;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ float silu(float x)
{
    return FAST ? __fdividef(x, 1.0f + __expf(-x)) : x / (1.0f + expf(-x));
}

__device__ __forceinline__ void unpack(const word_t &w, float *to)
{
    io_t t[VEC];
    memcpy(t, &w, sizeof t);
#pragma unroll
    for (int e = 0; e < VEC; e++)
        to[e] = widen(t[e]);
}

__device__ __forceinline__ bool has(int i) { return VECTORS % LANES == 0 || i < VECTORS; }
__device__ __forceinline__ word_t load(const word_t *p) { return CACHE ? __ldcs(p) : *p; }

extern "C" __global__ void __launch_bounds__(LANES * ROWS)
gated_rms_rows(const io_t *__restrict__ x, const io_t *__restrict__ z, const io_t *__restrict__ weight, io_t *__restrict__ y, float eps)
{
    const int lane = threadIdx.x % LANES, local = threadIdx.x / LANES;
    const long long row = (long long)blockIdx.x * ROWS + local;
    const bool live = R % ROWS == 0 || row < R;
    const word_t *from = reinterpret_cast<const word_t *>(x + row * N), *gate = reinterpret_cast<const word_t *>(z + row * N);
    const word_t *scale = reinterpret_cast<const word_t *>(weight);
    word_t *to = reinterpret_cast<word_t *>(y + row * N);

    word_t held[CHUNKS], gates[CHUNKS], weights[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int i = c * LANES + lane;
        held[c] = word_t{};
        if (live && has(i))
            held[c] = load(from + i);
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int i = c * LANES + lane;
        if (EARLY >= 1 && live && has(i))
            gates[c] = load(gate + i);
        if (EARLY >= 2 && has(i))
            weights[c] = scale[i];
    }

    float sum = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        float v[VEC];
        unpack(held[c], v);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            sum += v[e] * v[e];
    }
#pragma unroll
    for (int i = (LANES < 32 ? LANES : 32) / 2; i > 0; i /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, i);
#if LANES > 32
    __shared__ float part[ROWS][WARPS];
    if (threadIdx.x % 32 == 0)
        part[local][lane / 32] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++)
        sum += part[local][i];
#endif
    const float factor = rsqrtf(sum * (1.0f / N) + eps);

#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int i = c * LANES + lane;
        if (live && has(i)) {
            float v[VEC], g[VEC], w[VEC];
            io_t r[VEC];
            if (EARLY < 1)
                gates[c] = load(gate + i);
            if (EARLY < 2)
                weights[c] = scale[i];
            unpack(held[c], v);
            unpack(gates[c], g);
            unpack(weights[c], w);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                narrow(&r[e], v[e] * factor * w[e] * silu(g[e]));
            word_t result;
            memcpy(&result, r, sizeof r);
            to[i] = result;
        }
    }
}

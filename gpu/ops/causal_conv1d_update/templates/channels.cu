// Causal convolution, one decode step: VEC channels of TOKENS tokens a thread, without shared memory or barriers.
//
// Weights and x do not depend on the slot: they are loaded while it is on its way, and the state after it, all of it before the first
// product. State moves as it is loaded, bits and all.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int B = AXIS_B, C = AXIS_C, W = AXIS_W;
constexpr int PIECES = C / VEC;
static_assert(C % VEC == 0, "the template's constraints");

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

__device__ __forceinline__ void unpack(word_t w, float *to)
{
    io_t t[VEC];
    memcpy(t, &w, sizeof t);
#pragma unroll
    for (int e = 0; e < VEC; e++)
        to[e] = widen(t[e]);
}

__device__ __forceinline__ word_t state_load(const word_t *p)
{
    return CACHE ? __ldcs(p) : *p;
}

extern "C" __global__ void __launch_bounds__(THREADS)
conv_channels(const io_t *__restrict__ x, const io_t *__restrict__ weight, const int *__restrict__ slot, io_t *__restrict__ conv_state,
              io_t *__restrict__ y)
{
    const int piece = blockIdx.x * THREADS + threadIdx.x, first = blockIdx.y * TOKENS;
    if (PIECES % THREADS != 0 && piece >= PIECES)
        return;
    int s[TOKENS];
#pragma unroll
    for (int t = 0; t < TOKENS; t++)
        s[t] = B % TOKENS == 0 || first + t < B ? slot[first + t] : 0;
    word_t now[TOKENS], weights[W], past[TOKENS][W - 1];
#pragma unroll
    for (int t = 0; t < TOKENS; t++)
        if (B % TOKENS == 0 || first + t < B)
            now[t] = reinterpret_cast<const word_t *>(x + (long long)(first + t) * C)[piece];
#pragma unroll
    for (int w = 0; w < W; w++)                           // VEC channels' weights, W of each, are VEC * W elements in succession
        weights[w] = reinterpret_cast<const word_t *>(weight)[(long long)piece * W + w];
#pragma unroll
    for (int t = 0; t < TOKENS; t++)
#pragma unroll
        for (int w = 0; w < W - 1; w++)
            if (s[t] > 0)
                past[t][w] = state_load(reinterpret_cast<const word_t *>(conv_state + ((long long)s[t] * (W - 1) + w) * C) + piece);

    io_t flat[VEC * W];
    memcpy(flat, weights, sizeof flat);
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        if (B % TOKENS != 0 && first + t >= B)
            break;
        float sum[VEC] = {};
        if (s[t] > 0) {
#pragma unroll
            for (int w = 0; w < W; w++) {
                float v[VEC];
                unpack(w < W - 1 ? past[t][w] : now[t], v);
#pragma unroll
                for (int e = 0; e < VEC; e++)
                    sum[e] += v[e] * widen(flat[e * W + w]);
            }
#pragma unroll
            for (int w = 0; w < W - 1; w++)
                reinterpret_cast<word_t *>(conv_state + ((long long)s[t] * (W - 1) + w) * C)[piece] = w < W - 2 ? past[t][w + 1] : now[t];
        }
        io_t r[VEC];
#pragma unroll
        for (int e = 0; e < VEC; e++)
            narrow(&r[e], __fdividef(sum[e], 1.0f + __expf(-sum[e])));
        word_t result;
        memcpy(&result, r, sizeof r);
        reinterpret_cast<word_t *>(y + (long long)(first + t) * C)[piece] = result;
    }
}

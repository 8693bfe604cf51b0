// Gated activation over the flat output: a block takes BLOCK * UNROLL vectors of VEC elements, whatever row they lie in.
//
// All loads of a thread come before the first is used. Rows are told apart by one division a vector, by a constant. FAST takes the
// exponential and the quotient from the special function unit.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int N = AXIS_N;
constexpr int VECTORS = N / VEC;                          // of a row of y
constexpr long long ALL = (long long)AXIS_R * VECTORS;
static_assert(N % VEC == 0, "the template's constraints");

using io_t = DTYPE_io;
// 32 bits are enough for nearly every shape, and divide faster
template <bool WIDE> struct index_for { using type = unsigned; };
template <> struct index_for<true> { using type = unsigned long long; };
using index_t = index_for<(2 * ALL + 2LL * BLOCK * UNROLL > 0xffffffffLL)>::type;

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

// CACHE: 0 as the compiler likes, 1 streaming (.cs), 2 the results alone past L1 (.cg)
__device__ __forceinline__ word_t load(const word_t *p) { return CACHE == 1 ? __ldcs(p) : *p; }
__device__ __forceinline__ void store(word_t *p, word_t x)
{
    if (CACHE == 1)
        __stcs(p, x);
    else if (CACHE == 2)
        __stcg(p, x);
    else
        *p = x;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
silu_mul_flat(const io_t *__restrict__ x, io_t *__restrict__ y)
{
    const word_t *from = reinterpret_cast<const word_t *>(x);
    word_t *to = reinterpret_cast<word_t *>(y);
    const index_t first = (index_t)blockIdx.x * (BLOCK * UNROLL) + threadIdx.x;

    word_t gates[UNROLL], ups[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        index_t i = first + u * BLOCK, row = i / VECTORS;
        if (ALL % (BLOCK * UNROLL) == 0 || i < ALL) {
            gates[u] = load(from + (i + row * VECTORS));
            ups[u] = load(from + (i + row * VECTORS + VECTORS));
        }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        index_t i = first + u * BLOCK;
        if (ALL % (BLOCK * UNROLL) == 0 || i < ALL) {
            io_t g[VEC], p[VEC], r[VEC];
            memcpy(g, &gates[u], sizeof g);
            memcpy(p, &ups[u], sizeof p);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                narrow(&r[e], silu(widen(g[e])) * widen(p[e]));
            word_t result;
            memcpy(&result, r, sizeof r);
            store(to + i, result);
        }
    }
}

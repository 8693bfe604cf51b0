// Softmax and the k largest of a row, LANES lanes a row, ROWS rows a block, without shared memory or barriers.
//
// A logit and its index become one integer whose order is the order of choice: the logit's bits in an order of integers, zeros of
// either sign alike, above the index counted from the end. No two are equal, so a choice is one maximum over the lanes: by one
// instruction a choice (REDUX) for two-byte logits, two for f32. Weights need no sum over all of the row, as it cancels.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int R = AXIS_R, E = AXIS_E, TOP = AXIS_k;
constexpr int PER_LANE = E / LANES, CHUNKS = PER_LANE / VEC;
static_assert(E % (LANES * VEC) == 0 && TOP <= LANES, "the template's constraints");

using io_t = DTYPE_io;

template <int BYTES> struct word;
template <> struct word<2> { using type = unsigned short; };
template <> struct word<4> { using type = unsigned int; };
template <> struct word<8> { using type = uint2; };
template <> struct word<16> { using type = uint4; };
using word_t = word<VEC * sizeof(io_t)>::type;

template <int BYTES> struct order;
template <> struct order<2> {
    using bits_t = unsigned short;
    using key_t = unsigned int;
    static constexpr int SHIFT = 16;
    static constexpr key_t LAST = 0xffffu, SIGN = 0x8000u, ALL = 0xffffu;
};
template <> struct order<4> {
    using bits_t = unsigned int;
    using key_t = unsigned long long;
    static constexpr int SHIFT = 32;
    static constexpr key_t LAST = 0xffffffffu, SIGN = 0x80000000u, ALL = 0xffffffffu;
};
using bits_t = order<sizeof(io_t)>::bits_t;
using key_t = order<sizeof(io_t)>::key_t;
constexpr int SHIFT = order<sizeof(io_t)>::SHIFT;
constexpr key_t LAST = order<sizeof(io_t)>::LAST, SIGN = order<sizeof(io_t)>::SIGN, ALL = order<sizeof(io_t)>::ALL;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ __forceinline__ key_t key_of(bits_t raw, int index)
{
    key_t bits = raw == SIGN ? 0 : raw;
    bits = bits & SIGN ? ~bits & ALL : bits | SIGN;
    return bits << SHIFT | (LAST - (key_t)index);
}

__device__ __forceinline__ float value_of(key_t key)
{
    const key_t bits = key >> SHIFT;
    const bits_t raw = (bits_t)(bits & SIGN ? bits & ~SIGN : ~bits);
    io_t x;
    memcpy(&x, &raw, sizeof x);
    return widen(x);
}

__device__ __forceinline__ unsigned largest(unsigned x)
{
#if REDUX
    return __reduce_max_sync(0xffffffffu, x);
#else
#pragma unroll
    for (int i = LANES / 2; i > 0; i /= 2)
        x = max(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
#endif
}

__device__ __forceinline__ unsigned long long largest(unsigned long long x)
{
#if REDUX
    const unsigned high = __reduce_max_sync(0xffffffffu, (unsigned)(x >> 32));
    const unsigned low = __reduce_max_sync(0xffffffffu, (unsigned)(x >> 32) == high ? (unsigned)x : 0u);
    return (unsigned long long)high << 32 | low;
#else
#pragma unroll
    for (int i = LANES / 2; i > 0; i /= 2)
        x = max(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
#endif
}

extern "C" __global__ void __launch_bounds__(LANES * ROWS < 32 ? 32 : LANES * ROWS)
topk_keys(const io_t *__restrict__ logits, float *__restrict__ weights, int *__restrict__ ids)
{
    const int lane = threadIdx.x % LANES, row = blockIdx.x * ROWS + threadIdx.x / LANES;
    const bool live = R % ROWS == 0 || row < R;
    const word_t *from = reinterpret_cast<const word_t *>(logits + (long long)(live ? row : 0) * E);
    word_t raw[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        raw[c] = from[c * LANES + lane];

    key_t keys[PER_LANE];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        bits_t bits[VEC];
        memcpy(bits, &raw[c], sizeof bits);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            keys[c * VEC + e] = key_of(bits[e], (c * LANES + lane) * VEC + e);
    }
#if SORTED
#pragma unroll
    for (int round = 0; round < PER_LANE; round++)
#pragma unroll
        for (int i = round % 2; i + 1 < PER_LANE; i += 2) {
            const key_t high = max(keys[i], keys[i + 1]), low = min(keys[i], keys[i + 1]);
            keys[i] = high;
            keys[i + 1] = low;
        }
#endif

    float mine = 0, first = 0, sum = 0;
    int id = 0;
#pragma unroll
    for (int j = 0; j < TOP; j++) {
        key_t best = keys[0];
#if !SORTED
#pragma unroll
        for (int i = 1; i < PER_LANE; i++)
            best = max(best, keys[i]);
#endif
        const key_t chosen = largest(best);
        const float x = value_of(chosen);
        if (j == 0)
            first = x;
        const float weight = x == __int_as_float(0xff800000) ? 0.0f : __expf(x - first);
        sum += weight;
        if (lane == j) {
            mine = weight;
            id = (int)(LAST - (chosen & LAST));
        }
#if SORTED
        const bool own = keys[0] == chosen;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            keys[i] = own ? (i + 1 < PER_LANE ? keys[i + 1] : 0) : keys[i];
#else
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            keys[i] = keys[i] == chosen ? 0 : keys[i];
#endif
    }
    if (live && lane < TOP) {
        weights[(long long)row * TOP + lane] = sum > 0 ? mine * (1.0f / sum) : 0.0f;
        ids[(long long)row * TOP + lane] = id;
    }
}

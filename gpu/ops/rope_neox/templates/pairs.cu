// Rotary embedding in place, VEC pairs of HEADS heads a thread, without shared memory or barriers.
//
// The elements do not depend on the position: they are loaded while it is on its way, and the row of the cache after it. FLAT lays all
// tokens' work end to end, so that blocks are full where a token alone would not fill one.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int B = AXIS_B, HQ = AXIS_HQ, HK = AXIS_HK, D = AXIS_d, ROT = AXIS_rot, HALF = ROT / 2;
constexpr int PIECES = HALF / VEC;                        // of a head
constexpr int GROUPS = (HQ + HK + HEADS - 1) / HEADS;     // of a token
constexpr int PER_TOKEN = GROUPS * PIECES;
static_assert(HALF % VEC == 0 && D % VEC == 0, "the template's constraints");

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

__device__ __forceinline__ word_t pack(const float *from)
{
    io_t t[VEC];
    word_t w;
#pragma unroll
    for (int e = 0; e < VEC; e++)
        narrow(&t[e], from[e]);
    memcpy(&w, t, sizeof t);
    return w;
}

extern "C" __global__ void __launch_bounds__(THREADS)
rotate_pairs(const long long *__restrict__ positions, const io_t *__restrict__ cos_sin_cache, io_t *q, io_t *k)
{
    const int id = blockIdx.x * THREADS + threadIdx.x;
    const int token = FLAT ? id / PER_TOKEN : blockIdx.y, within = FLAT ? id % PER_TOKEN : id;
    if (token >= B || within >= PER_TOKEN)
        return;
    const long long position = positions[token];
    const int first = within / PIECES * HEADS, offset = within % PIECES * VEC;

    word_t a[HEADS], b[HEADS];
    io_t *at[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        const int head = first + h;
        at[h] = (head < HQ ? q + ((long long)token * HQ + head) * D : k + ((long long)token * HK + head - HQ) * D) + offset;
        if ((HQ + HK) % HEADS == 0 || head < HQ + HK) {
            a[h] = *reinterpret_cast<const word_t *>(at[h]);
            b[h] = *reinterpret_cast<const word_t *>(at[h] + HALF);
        }
    }
    const io_t *row = cos_sin_cache + position * ROT + offset;
    const word_t cosines = *reinterpret_cast<const word_t *>(row), sines = *reinterpret_cast<const word_t *>(row + HALF);
    float c[VEC], s[VEC];
    unpack(cosines, c);
    unpack(sines, s);
#pragma unroll
    for (int h = 0; h < HEADS; h++)
        if ((HQ + HK) % HEADS == 0 || first + h < HQ + HK) {
            float x[VEC], y[VEC], u[VEC], v[VEC];
            unpack(a[h], x);
            unpack(b[h], y);
#pragma unroll
            for (int e = 0; e < VEC; e++) {
                u[e] = x[e] * c[e] - y[e] * s[e];
                v[e] = y[e] * c[e] + x[e] * s[e];
            }
            *reinterpret_cast<word_t *>(at[h]) = pack(u);
            *reinterpret_cast<word_t *>(at[h] + HALF) = pack(v);
        }
}

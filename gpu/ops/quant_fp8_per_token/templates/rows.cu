// Rows to e4m3 with the row in registers: WARPS warps a row, ROWS rows a block, vectors of VEC elements.
//
// The row is read once, all loads before the first is used. Magnitudes are compared as integers, which is the same for floats that
// are not negative, so that a warp's largest is one instruction (REDUX) or five exchanges. One warp a row needs no barrier; more
// need one, after which every warp looks at all partial results itself.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

constexpr int N = AXIS_N, R = AXIS_R;
constexpr int THREADS = 32 * WARPS;                       // of a row
constexpr int VECTORS = N / VEC;
constexpr int CHUNKS = (VECTORS + THREADS - 1) / THREADS;
static_assert(N % VEC == 0 && WARPS <= 32, "the template's constraints");

using io_t = DTYPE_io;

template <int BYTES> struct word;
template <> struct word<1> { using type = unsigned char; };
template <> struct word<2> { using type = unsigned short; };
template <> struct word<4> { using type = unsigned int; };
template <> struct word<8> { using type = uint2; };
template <> struct word<16> { using type = uint4; };
using word_t = word<VEC * sizeof(io_t)>::type;
using out_t = word<VEC>::type;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ __forceinline__ void unpack(const word_t &w, float *to)
{
    io_t t[VEC];
    memcpy(t, &w, sizeof t);
#pragma unroll
    for (int e = 0; e < VEC; e++)
        to[e] = widen(t[e]);
}

__device__ __forceinline__ unsigned warp_max(unsigned x)
{
#if REDUX
    return __reduce_max_sync(0xffffffffu, x);
#else
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        x = max(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS * ROWS)
quantise_rows(const io_t *__restrict__ x, __nv_fp8_e4m3 *__restrict__ q, float *__restrict__ scale, float min_scale)
{
    const int thread = threadIdx.x % THREADS, local = threadIdx.x / THREADS;
    const int row = blockIdx.x * ROWS + local;
    const bool live = R % ROWS == 0 || row < R;
    const word_t *from = reinterpret_cast<const word_t *>(x + (long long)row * N);
    out_t *to = reinterpret_cast<out_t *>(q + (long long)row * N);

    word_t held[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int i = c * THREADS + thread;
        held[c] = word_t{};
        if (live && (VECTORS % THREADS == 0 || i < VECTORS))
            held[c] = CACHE ? __ldcs(from + i) : from[i];
    }

    float largest = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        float v[VEC];
        unpack(held[c], v);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            largest = fmaxf(largest, fabsf(v[e]));
    }
    unsigned bits = warp_max(__float_as_uint(largest));
#if WARPS > 1
    __shared__ unsigned part[ROWS][WARPS];
    if (threadIdx.x % 32 == 0)
        part[local][thread / 32] = bits;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < WARPS; i++)
        bits = max(bits, part[local][i]);
#endif
    const float s = fmaxf(__uint_as_float(bits) * (1.0f / 448.0f), min_scale);
#if INVERSE
    const float inverse = 1.0f / s;
#endif
    if (live && thread == 0)
        scale[row] = s;

#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int i = c * THREADS + thread;
        if (live && (VECTORS % THREADS == 0 || i < VECTORS)) {
            float v[VEC];
            unpack(held[c], v);
#pragma unroll
            for (int e = 0; e < VEC; e++)
#if INVERSE
                v[e] *= inverse;
#else
                v[e] /= s;
#endif
            out_t result;
#if VEC == 1
            result = __nv_cvt_float_to_fp8(v[0], __NV_SATFINITE, __NV_E4M3);
#else
            __nv_fp8x2_storage_t pairs[VEC / 2];
#pragma unroll
            for (int e = 0; e < VEC; e += 2)
                pairs[e / 2] = __nv_cvt_float2_to_fp8x2(make_float2(v[e], v[e + 1]), __NV_SATFINITE, __NV_E4M3);
            memcpy(&result, pairs, sizeof result);
#endif
            to[i] = result;
        }
    }
}

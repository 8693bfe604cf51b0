// Gated delta rule, one decode step, for batches that fill the card: a block takes a tile of rows of one head's state, and what the
// rows have in common, q and k normalised and the gates, is worked out once a block and shared.
//
// Short blocks and few bytes in flight a thread on purpose: a row is written back soon after it was read, which this memory likes
// better than deep queues. Every state load is issued before the block's only barrier, so the norms hide behind it. Sums of a group's
// rows are reduced together, each step halving what a lane still carries.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V;
constexpr long long STRIDE = AXIS_qkv_stride ? (long long)AXIS_qkv_stride : 2LL * H * K + (long long)HV * V;
constexpr int GROUPS = 32 / LANES;                    // of a warp
constexpr int CHUNKS = K / (LANES * VEC);             // vectors of a row that one lane holds
constexpr int ROWS_PER_BLOCK = WARPS * GROUPS * ROWS;
constexpr int NORM_LANE = K / 32;                     // elements of q and k that a lane of the first warp holds
static_assert(K % (LANES * VEC) == 0 && K % 32 == 0 && V % ROWS_PER_BLOCK == 0, "the template's constraints");

using io_t = DTYPE_io;
using state_t = DTYPE_state;

template <int BYTES> struct word;
template <> struct word<2> { using type = unsigned short; };
template <> struct word<4> { using type = unsigned int; };
template <> struct word<8> { using type = uint2; };
template <> struct word<16> { using type = uint4; };

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

// CACHE: 0 as the compiler likes, 1 streaming (.cs), 2 past L1 (.cg)
template <class W> __device__ __forceinline__ W state_load(const W *p)
{
#if CACHE == 1
    return __ldcs(p);
#elif CACHE == 2
    return __ldcg(p);
#else
    return *p;
#endif
}
template <class W> __device__ __forceinline__ void state_store(W *p, W x)
{
#if CACHE == 1
    __stcs(p, x);
#elif CACHE == 2
    __stcg(p, x);
#else
    *p = x;
#endif
}

// VEC elements of the state, as loaded.
struct piece {
    using word_t = typename word<VEC * sizeof(state_t)>::type;
    word_t w;
    __device__ __forceinline__ void load(const state_t *p) { w = state_load(reinterpret_cast<const word_t *>(p)); }
    __device__ __forceinline__ void store(state_t *p) const { state_store(reinterpret_cast<word_t *>(p), w); }
    __device__ __forceinline__ void get(float *to) const
    {
        state_t t[VEC];
        memcpy(t, &w, sizeof t);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            to[e] = widen(t[e]);
    }
    __device__ __forceinline__ void set(const float *from)
    {
        state_t t[VEC];
#pragma unroll
        for (int e = 0; e < VEC; e++)
            narrow(&t[e], from[e]);
        memcpy(&w, t, sizeof t);
    }
};

// N sums over a group of L lanes: afterwards the lane's v[0] is the sum number lane / (L / N).
template <int N, int L> __device__ __forceinline__ void reduce(float *v, int lane)
{
    int n = N;
#pragma unroll
    for (int i = L / 2; i > 0; i /= 2) {
        const bool up = lane & i;
        if (n > 1) {
            n /= 2;
#pragma unroll
            for (int j = 0; j < n; j++) {
                const float give = up ? v[j] : v[j + n], keep = up ? v[j + n] : v[j];
                v[j] = keep + __shfl_xor_sync(0xffffffffu, give, i);
            }
        } else {
            v[0] += __shfl_xor_sync(0xffffffffu, v[0], i);
        }
    }
}

struct common { float q[K], k[K], decay, beta, key_query, unused; };     // whole vectors: a compiler may read the last three as one

// By the first warp: q and k as unit vectors (q scaled), and their product.
__device__ __forceinline__ void normalise(const io_t *q_from, const io_t *k_from, float eps, common *to, int lane)
{
    float q[NORM_LANE], k[NORM_LANE], sums[4] = {};
#pragma unroll
    for (int i = 0; i < NORM_LANE; i++) {
        q[i] = widen(q_from[i * 32 + lane]);
        k[i] = widen(k_from[i * 32 + lane]);
    }
#pragma unroll
    for (int i = 0; i < NORM_LANE; i++) {
        sums[0] += q[i] * q[i];
        sums[1] += k[i] * k[i];
        sums[2] += q[i] * k[i];
    }
    reduce<4, 32>(sums, lane);
    const float q_norm = rsqrtf(__shfl_sync(0xffffffffu, sums[0], 0) + eps) * rsqrtf((float)K);
    const float k_norm = rsqrtf(__shfl_sync(0xffffffffu, sums[0], 8) + eps);
#pragma unroll
    for (int i = 0; i < NORM_LANE; i++) {
        to->q[i * 32 + lane] = q[i] * q_norm;
        to->k[i * 32 + lane] = k[i] * k_norm;
    }
    if (lane == 16)
        to->key_query = sums[0] * q_norm * k_norm;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS)
gdn_tile(const io_t *__restrict__ mixed_qkv, const io_t *__restrict__ a, const io_t *__restrict__ b, const float *__restrict__ A_log,
         const io_t *__restrict__ dt_bias, const int *__restrict__ slot, state_t *__restrict__ state, io_t *__restrict__ out, float eps)
{
    __shared__ __align__(16) common c;
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / 32;
    const int head = blockIdx.y, token = blockIdx.z, key_head = head / (HV / H);
    const int first = blockIdx.x * ROWS_PER_BLOCK + (threadIdx.x / LANES) * ROWS;
    const int s = slot[token];
    io_t *to = out + ((long long)token * HV + head) * V + first;
    if (s <= 0) {
#pragma unroll
        for (int r = lane; r < ROWS; r += LANES)
            narrow(to + r, 0.0f);
        return;
    }
    state_t *matrix = state + (((long long)s * HV + head) * V + first) * K + lane * VEC;
    piece raw[ROWS][CHUNKS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int x = 0; x < CHUNKS; x++)
            raw[r][x].load(matrix + r * K + x * LANES * VEC);

    const io_t *row = mixed_qkv + token * STRIDE;
    float v[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        v[r] = widen(row[2 * H * K + head * V + first + r]);
    if (warp == 0)
        normalise(row + key_head * K, row + (H + key_head) * K, eps, &c, threadIdx.x);
    if (threadIdx.x == 32 * (WARPS - 1)) {
        const float gate = widen(a[token * HV + head]) + widen(dt_bias[head]), write = widen(b[token * HV + head]), rate = A_log[head];
        const float softplus = gate > 20.0f ? gate : log1pf(expf(gate));
        c.decay = expf(-expf(rate) * softplus);
        c.beta = 1.0f / (1.0f + expf(-write));
    }
    __syncthreads();

    float sums[2 * ROWS] = {};
#pragma unroll
    for (int x = 0; x < CHUNKS; x++) {
        float q[VEC], k[VEC];
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            q[e] = c.q[(x * LANES + lane) * VEC + e];
            k[e] = c.k[(x * LANES + lane) * VEC + e];
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float held[VEC];
            raw[r][x].get(held);
#pragma unroll
            for (int e = 0; e < VEC; e++) {
                sums[r] += held[e] * k[e];
                sums[ROWS + r] += held[e] * q[e];
            }
        }
    }
    reduce<2 * ROWS, LANES>(sums, lane);
    constexpr int SHARE = LANES / (2 * ROWS);
    const float decay = c.decay, beta = c.beta;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float u = (v[r] - decay * __shfl_sync(0xffffffffu, sums[0], r * SHARE, LANES)) * beta;
#pragma unroll
        for (int x = 0; x < CHUNKS; x++) {
            float held[VEC];
            raw[r][x].get(held);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                held[e] = held[e] * decay + u * c.k[(x * LANES + lane) * VEC + e];
            raw[r][x].set(held);
            raw[r][x].store(matrix + r * K + x * LANES * VEC);
        }
        if (lane == (ROWS + r) * SHARE)
            narrow(to + r, decay * sums[0] + u * c.key_query);
    }
}

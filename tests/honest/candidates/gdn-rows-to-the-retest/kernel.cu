// Gated delta rule, one decode step, K split over LANES lanes; each group of lanes holds ROWS rows of the state in registers.
//
// Nothing is shared between warps and there is no barrier. What the state's address does not depend on is loaded first, then the
// slot's state, all of it before anything is summed. Both products of a row, with k and with q, are taken of the old state in one
// round of sums, since  out = S q = e^g (S_old q) + u (k q);  the norms of q and k join the same round and are applied to the sums.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V;
constexpr long long STRIDE = AXIS_qkv_stride ? (long long)AXIS_qkv_stride : 2LL * H * K + (long long)HV * V;
constexpr int GROUPS = 32 / LANES;                    // of a warp
constexpr int CHUNKS = K / (LANES * VEC);             // vectors of a row that one lane holds
constexpr int PER_LANE = CHUNKS * VEC;
constexpr int ROWS_PER_BLOCK = WARPS * GROUPS * ROWS;
static_assert(K % (LANES * VEC) == 0 && V % ROWS_PER_BLOCK == 0, "the template's constraints");

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

// VEC elements at p, as loaded; a piece wider than 16 bytes is loaded in two.
template <class T> struct piece {
    static constexpr int WORD_BYTES = VEC * sizeof(T) > 16 ? 16 : VEC * sizeof(T);
    static constexpr int WORDS = VEC * sizeof(T) / WORD_BYTES;
    using word_t = typename word<WORD_BYTES>::type;
    word_t w[WORDS];
    __device__ __forceinline__ void load(const T *p)
    {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            w[i] = reinterpret_cast<const word_t *>(p)[i];
    }
    __device__ __forceinline__ void load_state(const T *p)
    {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            w[i] = state_load(reinterpret_cast<const word_t *>(p) + i);
    }
    __device__ __forceinline__ void store_state(T *p) const
    {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            state_store(reinterpret_cast<word_t *>(p) + i, w[i]);
    }
    __device__ __forceinline__ void get(float *to) const
    {
        T t[VEC];
        memcpy(t, w, sizeof t);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            to[e] = widen(t[e]);
    }
    __device__ __forceinline__ void set(const float *from)
    {
        T t[VEC];
#pragma unroll
        for (int e = 0; e < VEC; e++)
            narrow(&t[e], from[e]);
        memcpy(w, t, sizeof t);
    }
};

constexpr int SUMS = 2 * ROWS + 3, ROOM = SUMS <= 8 ? 8 : SUMS <= 16 ? 16 : 32;

// The SUMS sums over a group of lanes, to every lane. Each step halves what a lane still carries, until one sum is left in each
// part of the group: two shuffles a sum instead of one a sum and step. Where there are more sums than lanes, the plain way.
__device__ __forceinline__ void sum_up(float *v, int lane)
{
    if (ROOM > LANES) {
#pragma unroll
        for (int i = LANES / 2; i > 0; i /= 2)
#pragma unroll
            for (int x = 0; x < SUMS; x++)
                v[x] += __shfl_xor_sync(0xffffffffu, v[x], i);
        return;
    }
    int n = ROOM;
#pragma unroll
    for (int i = LANES / 2; i > 0; i /= 2) {
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
    const float mine = v[0];
#pragma unroll
    for (int x = 0; x < SUMS; x++)
        v[x] = __shfl_sync(0xffffffffu, mine, x * (LANES / ROOM), LANES);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
gdn_rows(const io_t *__restrict__ mixed_qkv, const io_t *__restrict__ a, const io_t *__restrict__ b, const float *__restrict__ A_log,
         const io_t *__restrict__ dt_bias, const int *__restrict__ slot, state_t *__restrict__ state, io_t *__restrict__ out, float eps)
{
    const int lane = threadIdx.x % LANES;
    const int head = blockIdx.y, token = blockIdx.z, key_head = head / (HV / H);
    const int first = blockIdx.x * ROWS_PER_BLOCK + (threadIdx.x / LANES) * ROWS;
    const io_t *row = mixed_qkv + token * STRIDE;

    const int s = slot[token];
    piece<io_t> q_raw[CHUNKS], k_raw[CHUNKS];
    float v[ROWS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        q_raw[c].load(row + key_head * K + (c * LANES + lane) * VEC);
        k_raw[c].load(row + (H + key_head) * K + (c * LANES + lane) * VEC);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        v[r] = widen(row[2 * H * K + head * V + first + r]);
    const float gate = widen(a[token * HV + head]) + widen(dt_bias[head]), write = widen(b[token * HV + head]), rate = A_log[head];

    io_t *to = out + ((long long)token * HV + head) * V + first;
    if (s <= 0) {
#pragma unroll
        for (int r = lane; r < ROWS; r += LANES)
            narrow(to + r, 0.0f);
        return;
    }

    state_t *matrix = state + (((long long)s * HV + head) * V + first) * K + lane * VEC;
    piece<state_t> raw[ROWS][CHUNKS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            raw[r][c].load_state(matrix + r * K + c * LANES * VEC);

    const float softplus = gate > 20.0f ? gate : log1pf(expf(gate));
    const float decay = expf(-expf(rate) * softplus);
    const float beta = 1.0f / (1.0f + expf(-write));
    float q[PER_LANE], k[PER_LANE], sums[ROOM] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        q_raw[c].get(q + c * VEC);
        k_raw[c].get(k + c * VEC);
    }
#pragma unroll
    for (int x = 0; x < PER_LANE; x++) {
        sums[2 * ROWS] += q[x] * q[x];
        sums[2 * ROWS + 1] += k[x] * k[x];
        sums[2 * ROWS + 2] += q[x] * k[x];
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            float held[VEC];
            raw[r][c].get(held);
#pragma unroll
            for (int e = 0; e < VEC; e++) {
                sums[2 * r] += held[e] * k[c * VEC + e];
                sums[2 * r + 1] += held[e] * q[c * VEC + e];
            }
        }
    sum_up(sums, lane);

    const float q_norm = rsqrtf(sums[2 * ROWS] + eps) * rsqrtf((float)K), k_norm = rsqrtf(sums[2 * ROWS + 1] + eps);
    const float key_query = sums[2 * ROWS + 2] * q_norm * k_norm;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float u = (v[r] - decay * k_norm * sums[2 * r]) * beta;
        const float add = u * k_norm;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            float held[VEC];
            raw[r][c].get(held);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                held[e] = held[e] * decay + add * k[c * VEC + e];
            raw[r][c].set(held);
            raw[r][c].store_state(matrix + r * K + c * LANES * VEC);
        }
        if (lane == r % LANES)
            narrow(to + r, decay * q_norm * sums[2 * r + 1] + u * key_query);
    }
}

// A decode step of a gated-delta layer in three launches: convolution, rule, norm; each as short as it can be.
//
// In the rule a block takes few rows of one head's state, since a row that is written back soon after it was read suits this memory best.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V;
constexpr int C = 2 * H * K + HV * V, W = AXIS_W;
constexpr int VEC = 16 / sizeof(DTYPE_state);          // elements of one load of the state
constexpr int GROUPS = 32 / LANES;                    // of a warp
constexpr int CHUNKS = K / (LANES * VEC);             // vectors of a row that one lane holds
constexpr int ROWS_PER_BLOCK = WARPS * GROUPS * ROWS;
constexpr int NORM_LANE = K / 32;                     // elements of q and k that a lane of the first warp holds
static_assert(K % (LANES * VEC) == 0 && K % 32 == 0 && V % ROWS_PER_BLOCK == 0 && C % WIDE == 0 && W == 4, "the template's constraints");

using io_t = DTYPE_io;
using state_t = DTYPE_state;
#if MIDDLE
using mid_t = float;                                  // between the launches
#else
using mid_t = DTYPE_io;
#endif

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

// VEC elements of the state, as loaded.
struct piece {
    using word_t = typename word<VEC * sizeof(state_t)>::type;
    word_t w;
    __device__ __forceinline__ void load(const state_t *p) { w = *reinterpret_cast<const word_t *>(p); }
    __device__ __forceinline__ void store(state_t *p) const { *reinterpret_cast<word_t *>(p) = w; }
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

// What they wait for is not const and __restrict__ together: that is loaded as read-only, and the assembler moves such loads before the wait.
// Launched as dependents, the rule and the norm begin while what is before them still runs, and wait where they need its results.
__device__ __forceinline__ void let_next_begin()
{
#if DEPENDENT
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void wait_for_last()
{
#if DEPENDENT
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct common { float q[K], k[K], decay, beta, key_query, unused; };     // whole vectors: a compiler may read the last three as one

// By the first warp: q and k as unit vectors (q scaled), and their product.
__device__ __forceinline__ void normalise(const mid_t *q_from, const mid_t *k_from, float eps, common *to, int lane)
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

// WIDE elements of io_t at once.
template <class T> struct wide {
    static constexpr int BYTES = WIDE * sizeof(T) > 16 ? 16 : WIDE * sizeof(T), WORDS = WIDE * sizeof(T) / BYTES;
    using word_t = typename word<BYTES>::type;
    word_t w[WORDS];
    __device__ __forceinline__ void load(const T *p)
    {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            w[i] = reinterpret_cast<const word_t *>(p)[i];
    }
    __device__ __forceinline__ void store(T *p) const
    {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            reinterpret_cast<word_t *>(p)[i] = w[i];
    }
    __device__ __forceinline__ void get(T *to) const { memcpy(to, w, sizeof w); }
    __device__ __forceinline__ void set(const T *from) { memcpy(w, from, sizeof w); }
};

extern "C" __global__ void __launch_bounds__(128)
gdn_conv(const io_t *__restrict__ x, const io_t *__restrict__ conv_weight, io_t *__restrict__ conv_state, const int *__restrict__ slot,
         mid_t *__restrict__ mixed)
{
    const int token = blockIdx.y, at = (blockIdx.x * 128 + threadIdx.x) * WIDE;
    let_next_begin();
    if (at >= C)
        return;
    const int s = slot[token];
    wide<io_t> fresh, old[W - 1], weight[W];
    fresh.load(x + (long long)token * C + at);
#pragma unroll
    for (int i = 0; i < W; i++)
        weight[i].load(conv_weight + (long long)at * W + i * WIDE);
    if (s <= 0)
        return;
    io_t *past = conv_state + (long long)s * (W - 1) * C + at;
#pragma unroll
    for (int i = 0; i < W - 1; i++)
        old[i].load(past + i * C);
    io_t w[WIDE * W], o[W - 1][WIDE], f[WIDE];
    mid_t sums[WIDE];
#pragma unroll
    for (int i = 0; i < W; i++)
        weight[i].get(w + i * WIDE);
#pragma unroll
    for (int i = 0; i < W - 1; i++)
        old[i].get(o[i]);
    fresh.get(f);
#pragma unroll
    for (int e = 0; e < WIDE; e++) {
        const float sum = widen(o[0][e]) * widen(w[e * W]) + widen(o[1][e]) * widen(w[e * W + 1]) + widen(o[2][e]) * widen(w[e * W + 2])
            + widen(f[e]) * widen(w[e * W + 3]);
        narrow(&sums[e], sum / (1.0f + __expf(-sum)));
    }
    wide<mid_t> out;
    out.set(sums);
    out.store(mixed + (long long)token * C + at);
    old[1].store(past);
    old[2].store(past + C);
    fresh.store(past + 2 * C);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS)
gdn_rule(const mid_t *mixed, const io_t *__restrict__ a, const io_t *__restrict__ b, const float *__restrict__ A_log,
         const io_t *__restrict__ dt_bias, const int *__restrict__ slot, state_t *__restrict__ state, mid_t *__restrict__ answer,
         float eps)
{
    __shared__ __align__(16) common c;
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / 32;
    const int head = blockIdx.y, token = blockIdx.z, key_head = head / (HV / H);
    const int first = blockIdx.x * ROWS_PER_BLOCK + (threadIdx.x / LANES) * ROWS;
    const int s = slot[token];
    let_next_begin();
    const long long of_head = ((long long)token * HV + head) * V;
    if (s <= 0) {
#pragma unroll
        for (int r = lane; r < ROWS; r += LANES)
            narrow(answer + of_head + first + r, 0.0f);
        wait_for_last();
        return;
    }
    mid_t *to = answer + of_head + first;
    state_t *matrix = state + (((long long)s * HV + head) * V + first) * K + lane * VEC;
    piece raw[ROWS][CHUNKS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int x = 0; x < CHUNKS; x++)
            raw[r][x].load(matrix + r * K + x * LANES * VEC);

    if (threadIdx.x == 32 * (WARPS - 1)) {
        const float gate = widen(a[token * HV + head]) + widen(dt_bias[head]), write = widen(b[token * HV + head]), rate = A_log[head];
        const float softplus = gate > 20.0f ? gate : log1pf(expf(gate));
        c.decay = expf(-expf(rate) * softplus);
        c.beta = 1.0f / (1.0f + expf(-write));
    }
    wait_for_last();
    const mid_t *row = mixed + (long long)token * C;
    float v[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        v[r] = widen(row[2 * H * K + head * V + first + r]);
    if (warp == 0)
        normalise(row + key_head * K, row + (H + key_head) * K, eps, &c, threadIdx.x);
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
    float add[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        add[r] = (v[r] - decay * __shfl_sync(0xffffffffu, sums[0], r * SHARE, LANES)) * beta;
        if (lane == (ROWS + r) * SHARE)
            narrow(to + r, decay * sums[0] + add[r] * c.key_query);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int x = 0; x < CHUNKS; x++) {
            float held[VEC];
            raw[r][x].get(held);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                held[e] = held[e] * decay + add[r] * c.k[(x * LANES + lane) * VEC + e];
            raw[r][x].set(held);
            raw[r][x].store(matrix + r * K + x * LANES * VEC);
        }
}

// N elements in as few words as there are.
template <int N, class T> __device__ __forceinline__ void take(T *to, const T *from)
{
    constexpr int BYTES = N * sizeof(T) % 16 == 0 ? 16 : N * sizeof(T) % 8 == 0 ? 8 : sizeof(T);
    using word_t = typename word<BYTES>::type;
    word_t w[N * sizeof(T) / BYTES];
#pragma unroll
    for (int i = 0; i < (int)(N * sizeof(T) / BYTES); i++)
        w[i] = reinterpret_cast<const word_t *>(from)[i];
    memcpy(to, w, sizeof w);
}
template <int N, class T> __device__ __forceinline__ void give(T *to, const T *from)
{
    constexpr int BYTES = N * sizeof(T) % 16 == 0 ? 16 : N * sizeof(T) % 8 == 0 ? 8 : sizeof(T);
    using word_t = typename word<BYTES>::type;
    word_t w[N * sizeof(T) / BYTES];
    memcpy(w, from, sizeof w);
#pragma unroll
    for (int i = 0; i < (int)(N * sizeof(T) / BYTES); i++)
        reinterpret_cast<word_t *>(to)[i] = w[i];
}

// A warp a head.
extern "C" __global__ void __launch_bounds__(32 * HEADS)
gdn_norm(const mid_t *answer, const io_t *__restrict__ z, const io_t *__restrict__ norm_weight, io_t *__restrict__ y,
         float norm_eps)
{
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * HEADS + threadIdx.x / 32;
    if (row >= (long long)AXIS_B * HV)
        return;
    constexpr int EACH = V / 32;
    static_assert(V % 32 == 0, "a lane takes equally much");
    mid_t got[EACH];
    io_t open[EACH], gain[EACH];
    take<EACH>(open, z + row * V + lane * EACH);
    take<EACH>(gain, norm_weight + lane * EACH);
    wait_for_last();
    take<EACH>(got, answer + row * V + lane * EACH);
    float square = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        square += widen(got[i]) * widen(got[i]);
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        square += __shfl_xor_sync(0xffffffffu, square, i);
    const float factor = rsqrtf(square / V + norm_eps);
    io_t out[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const float o = widen(open[i]);
        narrow(&out[i], widen(got[i]) * factor * widen(gain[i]) * o / (1.0f + __expf(-o)));
    }
    give<EACH>(y + row * V + lane * EACH, out);
}

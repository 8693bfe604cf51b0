// A gated delta layer's decode step in one launch.
//
// A cluster takes one key head of a token with all its value heads, SPLIT blocks each. All of its blocks read the past of q and k; the
// cluster's barrier is what orders their moving up behind that, and what lets the parts of a head's norm be read.
//
// What the state's address does not depend on is loaded first, then the states, all of it before anything is summed. A block
// convolves its channels once, into shared memory. A group of LANES lanes holds its rows of the state in registers; products with
// k and q and the norms of both are one round of sums, since  o = S q = e^g (S_old q) + u (k q).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V, W = AXIS_W, CHANNELS = 2 * H * K + HV * V;
constexpr int THREADS = 32 * WARPS, BLOCK_ROWS = V / SPLIT, ROWS = BLOCK_ROWS / (THREADS / LANES);
constexpr int CLUSTER = HV / H * SPLIT;
constexpr int MINE = (2 * K + BLOCK_ROWS) / PIECE, EACH = (MINE + THREADS - 1) / THREADS;   // pieces of channels of a block, of a thread

using io_t = DTYPE_io;
using state_t = DTYPE_state;

constexpr int FULL = 16 / (int)sizeof(state_t), PER_LANE = K / LANES, VEC = FULL < PER_LANE ? FULL : PER_LANE, CHUNKS = PER_LANE / VEC;
static_assert(V % SPLIT == 0 && BLOCK_ROWS % (THREADS / LANES) == 0 && K % (LANES * VEC) == 0, "the template's constraints");
static_assert(K % PIECE == 0 && BLOCK_ROWS % PIECE == 0 && V % PIECE == 0, "the template's constraints");

template <int BYTES> struct word;
template <> struct word<2> { using type = unsigned short; };
template <> struct word<4> { using type = unsigned int; };
template <> struct word<8> { using type = uint2; };
template <> struct word<16> { using type = uint4; };
using word_t = word<VEC * sizeof(state_t)>::type;
using piece_t = word<PIECE * sizeof(io_t)>::type;
constexpr int TAP_BYTES = PIECE * W * (int)sizeof(io_t), TAP_WORD = TAP_BYTES % 16 == 0 ? 16 : TAP_BYTES % 8 == 0 ? 8 : TAP_BYTES % 4 == 0 ? 4 : 2;
using tap_t = word<TAP_WORD>::type;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ word_t state_load(const word_t *p)
{
#if CACHE == 1
    return __ldcs(p);
#elif CACHE == 2
    return __ldcg(p);
#else
    return *p;
#endif
}
__device__ __forceinline__ void state_store(word_t *p, word_t x)
{
#if CACHE == 1
    __stcs(p, x);
#elif CACHE == 2
    __stcg(p, x);
#else
    *p = x;
#endif
}
__device__ __forceinline__ void unpack(word_t w, float *to)
{
    state_t t[VEC];
    memcpy(t, &w, sizeof t);
#pragma unroll
    for (int e = 0; e < VEC; e++)
        to[e] = widen(t[e]);
}
__device__ __forceinline__ float silu(float x)
{
    return __fdividef(x, 1.0f + __expf(-x));
}

__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
__device__ __forceinline__ float load_from(const float *p, unsigned rank)
{
    unsigned address = (unsigned)__cvta_generic_to_shared(p), there;
    float x;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(there) : "memory");
    return x;
}

extern "C" __global__ void __launch_bounds__(THREADS)
gdn_step(const io_t *__restrict__ x, const io_t *__restrict__ conv_weight, const io_t *__restrict__ a, const io_t *__restrict__ b,
         const float *__restrict__ A_log, const io_t *__restrict__ dt_bias, const int *__restrict__ slot, const io_t *__restrict__ z,
         const io_t *__restrict__ norm_weight, io_t *__restrict__ conv_state, state_t *__restrict__ state, io_t *__restrict__ y, float eps,
         float norm_eps)
{
    __shared__ __align__(16) float mixed[MINE * PIECE];           // q, k, and v of this block's rows, convolved
    __shared__ float answers[BLOCK_ROWS];
    const int token = blockIdx.z, rank = blockIdx.x, part = rank % SPLIT;
    const int key_head = blockIdx.y, head = key_head * (HV / H) + rank / SPLIT;
    const int lane = threadIdx.x % LANES, first = threadIdx.x / LANES * ROWS, first_row = part * BLOCK_ROWS;
    const int s = slot[token];

    piece_t now[EACH], past[EACH][W - 1];
    tap_t taps[EACH][TAP_BYTES / TAP_WORD];
    int channel[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int n = i * THREADS + threadIdx.x, c = n * PIECE;
        channel[i] = c < K ? key_head * K + c : c < 2 * K ? H * K + key_head * K + c - K : 2 * H * K + head * V + first_row + c - 2 * K;
        if (MINE % THREADS == 0 || n < MINE) {
            now[i] = *reinterpret_cast<const piece_t *>(x + (long long)token * CHANNELS + channel[i]);
#pragma unroll
            for (int w = 0; w < TAP_BYTES / TAP_WORD; w++)
                taps[i][w] = reinterpret_cast<const tap_t *>(conv_weight + (long long)channel[i] * W)[w];
        }
    }
    const float gate = widen(a[token * HV + head]) + widen(dt_bias[head]), write = widen(b[token * HV + head]), rate = A_log[head];
    const long long at = ((long long)token * HV + head) * V + first_row;
    float gates[(BLOCK_ROWS + THREADS - 1) / THREADS], scales[(BLOCK_ROWS + THREADS - 1) / THREADS];
#pragma unroll
    for (int r = threadIdx.x, i = 0; i < (BLOCK_ROWS + THREADS - 1) / THREADS; i++, r += THREADS)
        if (r < BLOCK_ROWS) {
            gates[i] = widen(z[at + r]);
            scales[i] = widen(norm_weight[first_row + r]);
        }

    if (s <= 0) {
        for (int r = threadIdx.x; r < BLOCK_ROWS; r += THREADS)
            narrow(y + at + r, 0.0f);
        return;
    }
    io_t *history = conv_state + (long long)s * (W - 1) * CHANNELS;
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int w = 0; w < W - 1; w++)
            if (MINE % THREADS == 0 || i * THREADS + threadIdx.x < MINE)
                past[i][w] = *reinterpret_cast<const piece_t *>(history + (long long)w * CHANNELS + channel[i]);
    state_t *matrix = state + (((long long)s * HV + head) * V + first_row + first) * K + lane * VEC;
    word_t raw[ROWS][CHUNKS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            raw[r][c] = state_load(reinterpret_cast<const word_t *>(matrix + r * K + c * LANES * VEC));

#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int n = i * THREADS + threadIdx.x;
        if (MINE % THREADS == 0 || n < MINE) {
            io_t values[W][PIECE], scale[PIECE][W];
#pragma unroll
            for (int w = 0; w < W - 1; w++)
                memcpy(values[w], &past[i][w], sizeof values[w]);
            memcpy(values[W - 1], &now[i], sizeof values[W - 1]);
            memcpy(scale, taps[i], sizeof scale);
#pragma unroll
            for (int e = 0; e < PIECE; e++) {
                float sum = 0;
#pragma unroll
                for (int w = 0; w < W; w++)
                    sum += widen(values[w][e]) * widen(scale[e][w]);
                mixed[n * PIECE + e] = silu(sum);
            }
        }
    }
    __syncthreads();
#if SPLIT == 1
    cluster_arrive();                                     // this block has read the past
#endif

    const float softplus = gate > 20.0f ? gate : log1pf(__expf(gate));
    const float decay = __expf(-__expf(rate) * softplus);
    const float beta = __fdividef(1.0f, 1.0f + __expf(-write));
    float q[PER_LANE], k[PER_LANE], sums[2 * ROWS + 3] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            q[c * VEC + e] = mixed[(c * LANES + lane) * VEC + e];
            k[c * VEC + e] = mixed[K + (c * LANES + lane) * VEC + e];
        }
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        sums[2 * ROWS] += q[i] * q[i];
        sums[2 * ROWS + 1] += k[i] * k[i];
        sums[2 * ROWS + 2] += q[i] * k[i];
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            float held[VEC];
            unpack(raw[r][c], held);
#pragma unroll
            for (int e = 0; e < VEC; e++) {
                sums[2 * r] += held[e] * k[c * VEC + e];
                sums[2 * r + 1] += held[e] * q[c * VEC + e];
            }
        }
#pragma unroll
    for (int i = LANES / 2; i > 0; i /= 2)
#pragma unroll
        for (int n = 0; n < 2 * ROWS + 3; n++)
            sums[n] += __shfl_xor_sync(0xffffffffu, sums[n], i);

    const float q_norm = rsqrtf(sums[2 * ROWS] + eps) * rsqrtf((float)K), k_norm = rsqrtf(sums[2 * ROWS + 1] + eps);
    const float key_query = sums[2 * ROWS + 2] * q_norm * k_norm;
    float add[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float u = (mixed[2 * K + first + r] - decay * k_norm * sums[2 * r]) * beta;
        add[r] = u * k_norm;
        if (lane == r % LANES)
            answers[first + r] = decay * q_norm * sums[2 * r + 1] + u * key_query;
    }
    // The norm's parts are on their way while the state is stored.
#if SPLIT > 1
    cluster_arrive();
#endif
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            float held[VEC];
            state_t t[VEC];
            word_t w;
            unpack(raw[r][c], held);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                narrow(&t[e], held[e] * decay + add[r] * k[c * VEC + e]);
            memcpy(&w, t, sizeof t);
            state_store(reinterpret_cast<word_t *>(matrix + r * K + c * LANES * VEC), w);
        }
#if SPLIT > 1
    cluster_wait();
#else
    __syncthreads();
#endif
    if (threadIdx.x / 32 < (BLOCK_ROWS + 31) / 32) {      // warps that have rows to write: each sums all of the head
        float total = 0;
#pragma unroll
        for (int i = 0; i < (V + 31) / 32; i++) {
            const int r = i * 32 + threadIdx.x % 32;
            if (V % 32 == 0 || r < V) {
#if SPLIT > 1
                const float o = load_from(&answers[r % BLOCK_ROWS], rank - part + r / BLOCK_ROWS);
#else
                const float o = answers[r];
#endif
                total += o * o;
            }
        }
#pragma unroll
        for (int i = 16; i > 0; i /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, i);
        const float factor = rsqrtf(total * (1.0f / V) + norm_eps);
#pragma unroll
        for (int r = threadIdx.x, i = 0; i < (BLOCK_ROWS + THREADS - 1) / THREADS; i++, r += THREADS)
            if (r < BLOCK_ROWS)
                narrow(y + at + r, answers[r] * factor * scales[i] * silu(gates[i]));
    }
#if SPLIT > 1
    cluster_arrive();                                     // this block's shared memory must outlast the others' reading
#endif
#if SPLIT == 1
    cluster_wait();                                       // all blocks have read the past
#endif
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int n = i * THREADS + threadIdx.x, c = n * PIECE;
        if (n < MINE && (c >= 2 * K || c * CLUSTER / (2 * K) == rank))
#pragma unroll
            for (int w = 0; w < W - 1; w++)
                *reinterpret_cast<piece_t *>(history + (long long)w * CHANNELS + channel[i]) = w < W - 2 ? past[i][w + 1] : now[i];
    }
#if SPLIT > 1
    cluster_wait();
#endif
}

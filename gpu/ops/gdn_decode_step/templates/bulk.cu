// A gated delta layer's decode step in two launches, the state through shared memory by bulk copies: for batches that fill the card.
//
// A cluster of SPLIT blocks takes one value head of a token, each a part of its rows. Each warp asks for all its rows as soon as the
// slot is known, in copies of ROWS rows that arrive on barriers of their own: what is in flight costs no registers. Meanwhile the
// block convolves its channels into shared memory. Then piece by piece, products with k and q of all rows in one round of sums, since
// o = S q = e^g (S_old q) + u (k q). WRITE: rows go back from registers (0), or by a bulk copy (1).
//
// Blocks of other heads read the same q and k, so nobody may move their past yet: the second launch does, which can begin early
// (DEPENDENT) and waits before it writes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V, W = AXIS_W, CHANNELS = 2 * H * K + HV * V;
constexpr int THREADS = 32 * WARPS, BLOCK_ROWS = V / SPLIT, WARP_ROWS = BLOCK_ROWS / WARPS, PIECES = WARP_ROWS / ROWS;
constexpr int MINE = (2 * K + BLOCK_ROWS) / PIECE, EACH = (MINE + THREADS - 1) / THREADS;   // pieces of channels of a block, of a thread

using io_t = DTYPE_io;
using state_t = DTYPE_state;

constexpr int FULL = 16 / (int)sizeof(state_t), PER_LANE = K / 32, VEC = FULL < PER_LANE ? FULL : PER_LANE, CHUNKS = PER_LANE / VEC;
constexpr unsigned ROWS_BYTES = ROWS * K * sizeof(state_t);
static_assert(V % (SPLIT * WARPS * ROWS) == 0 && K % (32 * VEC) == 0 && ROWS <= 16, "the template's constraints");
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

__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void arrival_init(unsigned long long *b)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(b)) : "memory");
}
__device__ __forceinline__ void ask(void *to, const void *from, unsigned long long *b)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(ROWS_BYTES) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)), "l"(from),
                 "r"(ROWS_BYTES), "r"(shared_address(b))
                 : "memory");
}
__device__ __forceinline__ void await(unsigned long long *b)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(shared_address(b))
                     : "memory");
}
__device__ __forceinline__ void send(void *to, const void *from)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(ROWS_BYTES) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// N sums over the warp: afterwards the lane's v[0] is the sum number lane / (32 / N).
template <int N> __device__ __forceinline__ void reduce(float *v, int lane)
{
    int n = N;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
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
gdn_bulk_step(const io_t *__restrict__ x, const io_t *__restrict__ conv_weight, const io_t *__restrict__ a, const io_t *__restrict__ b,
         const float *__restrict__ A_log, const io_t *__restrict__ dt_bias, const int *__restrict__ slot, const io_t *__restrict__ z,
         const io_t *__restrict__ norm_weight, io_t *__restrict__ conv_state, state_t *__restrict__ state, io_t *__restrict__ y, float eps,
         float norm_eps)
{
    extern __shared__ __align__(128) unsigned char room[];         // the state: WARPS x WARP_ROWS x K
    __shared__ __align__(16) float mixed[MINE * PIECE];           // q, k, and v of this block's rows, convolved
    __shared__ float answers[BLOCK_ROWS];
    __shared__ __align__(8) unsigned long long arrived[WARPS][PIECES];
    const int token = blockIdx.z, rank = blockIdx.x, part = rank % SPLIT;
    const int head = blockIdx.y, key_head = head / (HV / H);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = warp * WARP_ROWS, first_row = part * BLOCK_ROWS;
    const int s = slot[token];
    state_t *matrix = state + (((long long)s * HV + head) * V + first_row + first) * K;
    state_t *held = reinterpret_cast<state_t *>(room) + first * K;
    if (s > 0 && lane == 0) {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            arrival_init(&arrived[warp][p]);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            ask(held + p * ROWS * K, matrix + p * ROWS * K, &arrived[warp][p]);
    }
    __syncwarp();

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
#if DEPENDENT
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif

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

    const float softplus = gate > 20.0f ? gate : log1pf(__expf(gate));
    const float decay = __expf(-__expf(rate) * softplus);
    const float beta = __fdividef(1.0f, 1.0f + __expf(-write));
    float q[PER_LANE], k[PER_LANE], norms[4] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            q[c * VEC + e] = mixed[(c * 32 + lane) * VEC + e];
            k[c * VEC + e] = mixed[K + (c * 32 + lane) * VEC + e];
        }
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        norms[0] += q[i] * q[i];
        norms[1] += k[i] * k[i];
        norms[2] += q[i] * k[i];
    }
    reduce<4>(norms, lane);
    const float q_norm = rsqrtf(__shfl_sync(0xffffffffu, norms[0], 0) + eps) * rsqrtf((float)K);
    const float k_norm = rsqrtf(__shfl_sync(0xffffffffu, norms[0], 8) + eps);
    const float key_query = __shfl_sync(0xffffffffu, norms[0], 16) * q_norm * k_norm;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        q[i] *= q_norm;
        k[i] *= k_norm;
    }

    constexpr int SHARE = 32 / (2 * ROWS);
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        word_t raw[ROWS][CHUNKS];
        float sums[2 * ROWS] = {};
        await(&arrived[warp][p]);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                float old[VEC];
                raw[r][c] = reinterpret_cast<const word_t *>(held + (p * ROWS + r) * K)[c * 32 + lane];
                unpack(raw[r][c], old);
#pragma unroll
                for (int e = 0; e < VEC; e++) {
                    sums[r] += old[e] * k[c * VEC + e];
                    sums[ROWS + r] += old[e] * q[c * VEC + e];
                }
            }
        reduce<2 * ROWS>(sums, lane);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float u = (mixed[2 * K + first + p * ROWS + r] - decay * __shfl_sync(0xffffffffu, sums[0], r * SHARE)) * beta;
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                float old[VEC];
                state_t t[VEC];
                word_t w;
                unpack(raw[r][c], old);
#pragma unroll
                for (int e = 0; e < VEC; e++)
                    narrow(&t[e], old[e] * decay + u * k[c * VEC + e]);
                memcpy(&w, t, sizeof w);
                if (WRITE)
                    reinterpret_cast<word_t *>(held + (p * ROWS + r) * K)[c * 32 + lane] = w;
                else
                    reinterpret_cast<word_t *>(matrix + (p * ROWS + r) * K)[c * 32 + lane] = w;
            }
            if (lane == (ROWS + r) * SHARE)
                answers[first + p * ROWS + r] = decay * sums[0] + u * key_query;
        }
        if (WRITE) {
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncwarp();
            if (lane == 0)
                send(matrix + p * ROWS * K, held + p * ROWS * K);
        }
    }
#if SPLIT > 1
    cluster_arrive();                                     // a block's answers are there for the others
#endif
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
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int n = i * THREADS + threadIdx.x, c = n * PIECE;
        if (c >= 2 * K && n < MINE)                       // nobody else reads the past of these rows
#pragma unroll
            for (int w = 0; w < W - 1; w++)
                *reinterpret_cast<piece_t *>(history + (long long)w * CHANNELS + channel[i]) = w < W - 2 ? past[i][w + 1] : now[i];
    }
#if SPLIT > 1
    cluster_wait();
#endif
    if (WRITE && lane == 0)
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Moves up the past of q and k, WIDE channels a thread.
extern "C" __global__ void __launch_bounds__(128)
move_up(const io_t *__restrict__ x, const int *__restrict__ slot, io_t *__restrict__ conv_state)
{
    using wide_t = word<WIDE * sizeof(io_t)>::type;
    const int piece = blockIdx.x * 128 + threadIdx.x, token = blockIdx.y;
    const int s = piece < 2 * H * K / WIDE ? slot[token] : 0;
    wide_t last, past[W - 1];
    wide_t *history = reinterpret_cast<wide_t *>(conv_state + (long long)s * (W - 1) * CHANNELS) + piece;
    if (s > 0) {
        last = reinterpret_cast<const wide_t *>(x + (long long)token * CHANNELS)[piece];
#pragma unroll
        for (int w = 1; w < W - 1; w++)
            past[w] = history[(long long)w * (CHANNELS / WIDE)];
    }
#if DEPENDENT
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    if (s > 0) {
#pragma unroll
        for (int w = 0; w < W - 1; w++)
            history[(long long)w * (CHANNELS / WIDE)] = w < W - 2 ? past[w + 1] : last;
    }
}

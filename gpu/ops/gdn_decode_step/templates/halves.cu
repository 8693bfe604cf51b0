// A decode step of a gated-delta layer in two launches, for batches that fill the card: the convolution of q and k; that of v, rule and norm.
//
// A block of the second launch takes one head of one token, a warp ROWS of its rows. Each warp asks for all of its rows at once, as pieces
// that arrive in shared memory on a barrier of their own; with DEPENDENT it does so before the convolution has ended, which does not touch
// them. What is in flight costs no registers, so the memory is busy from the first block to the last. v is one warp's alone, channel by
// channel: it convolves its rows' itself, and moves their past up. A row's answer stays with the lane that works it out, until the warps have
// added up the head's sum of squares: nothing of v, and nothing between rule and norm leaves the multiprocessor.
// WRITE: rows go back from registers (0 plain, 1 streaming), or by a bulk copy out of shared memory (2).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V, W = AXIS_W, QK = 2 * H * K, C = QK + HV * V;

using io_t = DTYPE_io;
using state_t = DTYPE_state;
#if MIDDLE
using mid_t = float;                                      // between the launches
#else
using mid_t = DTYPE_io;
#endif

constexpr int WIDEST = 16 / (int)sizeof(state_t);
constexpr int VEC = K / 32 < WIDEST ? K / 32 : WIDEST;    // elements of one word of the state
constexpr int CHUNKS = K / (32 * VEC);                    // words of a row that one lane holds
constexpr int PER_LANE = CHUNKS * VEC;
constexpr int ROWS = PIECES * PIECE, WARPS = V / ROWS;    // rows of a warp; warps of a block
constexpr unsigned PIECE_BYTES = PIECE * K * sizeof(state_t);
static_assert(K % (32 * VEC) == 0 && V % ROWS == 0 && PIECE <= 8 && ROWS <= 32 && QK % WIDE == 0 && W == 4, "the template's constraints");

template <int BYTES> struct word;
template <> struct word<2> { using type = unsigned short; };
template <> struct word<4> { using type = unsigned int; };
template <> struct word<8> { using type = uint2; };
template <> struct word<16> { using type = uint4; };
using word_t = word<VEC * sizeof(state_t)>::type;

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
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(PIECE_BYTES) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)), "l"(from),
                 "r"(PIECE_BYTES), "r"(shared_address(b))
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
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(PIECE_BYTES) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// What it waits for is not const and __restrict__ together: that is loaded as read-only, and the assembler moves such loads before the wait.
// As a dependent the second launch begins while the first still runs, and waits where it needs its results.
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

__device__ __forceinline__ void unpack(const word_t &w, float *to)
{
    state_t t[VEC];
    memcpy(t, &w, sizeof t);
#pragma unroll
    for (int e = 0; e < VEC; e++)
        to[e] = widen(t[e]);
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

// N elements as words; T's alignment is N elements, 16 bytes at most.
template <int N, class T> struct wide {
    static constexpr int BYTES = N * sizeof(T) > 16 ? 16 : N * sizeof(T), WORDS = N * sizeof(T) / BYTES;
    using part_t = typename word<BYTES>::type;
    part_t w[WORDS];
    __device__ __forceinline__ void load(const T *p)
    {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            w[i] = reinterpret_cast<const part_t *>(p)[i];
    }
    __device__ __forceinline__ void store(T *p) const
    {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            reinterpret_cast<part_t *>(p)[i] = w[i];
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
    if (at >= QK)
        return;
    const int s = slot[token];
    wide<WIDE, io_t> fresh, old[W - 1], weight[W];
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
        narrow(&sums[e], __fdividef(sum, 1.0f + __expf(-sum)));
    }
    wide<WIDE, mid_t> out;
    out.set(sums);
    out.store(mixed + (long long)token * QK + at);
    old[1].store(past);
    old[2].store(past + C);
    fresh.store(past + 2 * C);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
gdn_rule(const mid_t *mixed, const io_t *__restrict__ a, const io_t *__restrict__ b, const float *__restrict__ A_log,
         const io_t *__restrict__ dt_bias, const int *__restrict__ slot, const io_t *__restrict__ x, const io_t *__restrict__ conv_weight,
         io_t *__restrict__ conv_state, const io_t *__restrict__ z, const io_t *__restrict__ norm_weight, state_t *__restrict__ state, io_t *__restrict__ y, float eps, float norm_eps)
{
    extern __shared__ __align__(128) unsigned char shared[];          // [V][K] of the state
    __shared__ __align__(8) unsigned long long arrived[WARPS][PIECES];
    __shared__ float squares[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int head = blockIdx.x, token = blockIdx.y, key_head = head / (HV / H);
    const int first = warp * ROWS, s = slot[token];
    const long long of_head = ((long long)token * HV + head) * V;
    constexpr int SHARE = 32 / (2 * PIECE);               // lanes that hold one sum
    const bool answers = lane >= PIECE * SHARE && lane % SHARE == 0;
    const int answer_row = first + lane / SHARE - PIECE;  // in a piece, of a lane that answers

    // What waits for the slot, and what does not; EAGER: all of it is asked for before the first thing is worked out.
    io_t now, past[W - 1], opens[PIECES], norm_scales[PIECES], gate_low, gate_bias, write;
    float rate, decay, beta, gains[PIECES], value = 0;
    wide<W, io_t> weight;
    io_t *history = conv_state + (long long)s * (W - 1) * C + QK + head * V + first + lane;
    auto ask_for_rest = [&] {
        gate_low = a[token * HV + head], gate_bias = dt_bias[head], write = b[token * HV + head], rate = A_log[head];
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            if (answers) {
                opens[p] = z[of_head + answer_row + p * PIECE];
                norm_scales[p] = norm_weight[answer_row + p * PIECE];
            }
    };
    auto ask_for_value = [&] {                            // this warp's rows of v, a lane each
        if (lane < ROWS) {
            now = x[(long long)token * C + QK + head * V + first + lane];
            weight.load(conv_weight + (long long)(QK + head * V + first + lane) * W);
        }
    };
    auto ask_for_past = [&] {
        if (lane < ROWS)
#pragma unroll
            for (int i = 0; i < W - 1; i++)
                past[i] = history[i * C];
    };
    auto convolve = [&] {
        if (lane < ROWS) {
            io_t w[W];
            weight.get(w);
            const float sum = widen(past[0]) * widen(w[0]) + widen(past[1]) * widen(w[1]) + widen(past[2]) * widen(w[2]) + widen(now) * widen(w[3]);
            mid_t rounded;                                // as q and k are
            narrow(&rounded, __fdividef(sum, 1.0f + __expf(-sum)));
            value = widen(rounded);
            history[0] = past[1];
            history[C] = past[2];
            history[2 * C] = now;
        }
    };
    auto open_gates = [&] {
        const float gate = widen(gate_low) + widen(gate_bias), softplus = gate > 20.0f ? gate : log1pf(expf(gate));
        decay = expf(-expf(rate) * softplus), beta = 1.0f / (1.0f + expf(-widen(write)));
        if (answers)
#pragma unroll
            for (int p = 0; p < PIECES; p++) {
                const float open = widen(opens[p]);
                gains[p] = widen(norm_scales[p]) * __fdividef(open, 1.0f + __expf(-open));
            }
    };
#if EAGER
    ask_for_rest();
    ask_for_value();
#endif
    if (s <= 0) {
        for (int r = threadIdx.x; r < V; r += 32 * WARPS)
            narrow(y + of_head + r, 0.0f);
        wait_for_last();
        return;
    }
    state_t *held = reinterpret_cast<state_t *>(shared) + first * K;
    state_t *matrix = state + (((long long)s * HV + head) * V + first) * K;
    if (lane == 0) {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            arrival_init(&arrived[warp][p]);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            ask(held + p * PIECE * K, matrix + p * PIECE * K, &arrived[warp][p]);
    }
    __syncwarp();

#if EAGER
    ask_for_past();
#else
    ask_for_value();
    ask_for_past();
    convolve();
    ask_for_rest();
    open_gates();
#endif
    wait_for_last();
    const mid_t *row = mixed + (long long)token * QK;
    wide<VEC, mid_t> q_words[CHUNKS], k_words[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        q_words[c].load(row + key_head * K + (c * 32 + lane) * VEC);
        k_words[c].load(row + (H + key_head) * K + (c * 32 + lane) * VEC);
    }

#if EAGER
    open_gates();
    convolve();
#endif
    float q[PER_LANE], k[PER_LANE], v[PIECES], norms[4] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        mid_t q_got[VEC], k_got[VEC];
        q_words[c].get(q_got);
        k_words[c].get(k_got);
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            q[c * VEC + e] = widen(q_got[e]);
            k[c * VEC + e] = widen(k_got[e]);
        }
    }
#pragma unroll
    for (int p = 0; p < PIECES; p++)                      // a lane holds the value of its row of each piece
        v[p] = __shfl_sync(0xffffffffu, value, p * PIECE + lane % PIECE);
#pragma unroll
    for (int x = 0; x < PER_LANE; x++) {
        norms[0] += q[x] * q[x];
        norms[1] += k[x] * k[x];
        norms[2] += q[x] * k[x];
    }
    reduce<4>(norms, lane);
    const float q_norm = rsqrtf(__shfl_sync(0xffffffffu, norms[0], 0) + eps) * rsqrtf((float)K);
    const float k_norm = rsqrtf(__shfl_sync(0xffffffffu, norms[0], 8) + eps);
    const float key_query = __shfl_sync(0xffffffffu, norms[0], 16) * q_norm * k_norm;
#pragma unroll
    for (int x = 0; x < PER_LANE; x++) {
        q[x] *= q_norm;
        k[x] *= k_norm;
    }

    float answer[PIECES], square = 0;
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        word_t raw[PIECE][CHUNKS];
        float sums[2 * PIECE] = {};
        await(&arrived[warp][p]);
#pragma unroll
        for (int r = 0; r < PIECE; r++)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                float x[VEC];
                raw[r][c] = reinterpret_cast<const word_t *>(held + (p * PIECE + r) * K)[c * 32 + lane];
                unpack(raw[r][c], x);
#pragma unroll
                for (int e = 0; e < VEC; e++) {
                    sums[r] += x[e] * k[c * VEC + e];
                    sums[PIECE + r] += x[e] * q[c * VEC + e];
                }
            }
        reduce<2 * PIECE>(sums, lane);
        answer[p] = 0;
#pragma unroll
        for (int r = 0; r < PIECE; r++) {
            const float u = (__shfl_sync(0xffffffffu, v[p], r) - decay * __shfl_sync(0xffffffffu, sums[0], r * SHARE)) * beta;
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                float x[VEC];
                state_t t[VEC];
                word_t w;
                unpack(raw[r][c], x);
#pragma unroll
                for (int e = 0; e < VEC; e++)
                    narrow(&t[e], x[e] * decay + u * k[c * VEC + e]);
                memcpy(&w, t, sizeof w);
                word_t *at = reinterpret_cast<word_t *>(matrix + (p * PIECE + r) * K) + c * 32 + lane;
                if (WRITE == 2)
                    reinterpret_cast<word_t *>(held + (p * PIECE + r) * K)[c * 32 + lane] = w;
                else if (WRITE == 1)
                    __stcs(at, w);
                else
                    *at = w;
            }
            if (lane == (PIECE + r) * SHARE)
                answer[p] = decay * sums[0] + u * key_query;
        }
        square += answer[p] * answer[p];
        if (WRITE == 2) {
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncwarp();
            if (lane == 0)
                send(matrix + p * PIECE * K, held + p * PIECE * K);
        }
    }
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        square += __shfl_xor_sync(0xffffffffu, square, i);
    if (lane == 0)
        squares[warp] = square;
    __syncthreads();
    float totals[4] = {};
#pragma unroll
    for (int i = 0; i < WARPS; i++)
        totals[i % 4] += squares[i];
    const float factor = rsqrtf(((totals[0] + totals[1]) + (totals[2] + totals[3])) * (1.0f / V) + norm_eps);
    if (answers)
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            narrow(y + of_head + answer_row + p * PIECE, answer[p] * factor * gains[p]);
    if (WRITE == 2 && lane == 0)
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

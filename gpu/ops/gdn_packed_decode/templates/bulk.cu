// Gated delta rule, one decode step, the state through shared memory by bulk copies: each warp asks for all of its rows at once, as
// pieces that arrive on a barrier of their own, so that what is in flight costs no registers and a multiprocessor can ask for all
// that its blocks will work on before the first row is there.
//
// A warp works alone: its lanes hold q and k (a part of each), normalised while the rows are on their way; then piece by piece, both
// products of all rows of the piece in one round of sums. WRITE: rows go back from registers (0 plain, 1 streaming), or by a bulk
// copy out of shared memory (2).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V;
constexpr long long STRIDE = AXIS_qkv_stride ? (long long)AXIS_qkv_stride : 2LL * H * K + (long long)HV * V;

using io_t = DTYPE_io;
using state_t = DTYPE_state;

constexpr int WIDEST = 16 / (int)sizeof(state_t);
constexpr int VEC = K / 32 < WIDEST ? K / 32 : WIDEST;    // elements of one word
constexpr int CHUNKS = K / (32 * VEC);                    // words of a row that one lane holds
constexpr int PER_LANE = CHUNKS * VEC;
constexpr int ROWS = PIECES * PIECE;                      // of a warp
constexpr unsigned PIECE_BYTES = PIECE * K * sizeof(state_t);
static_assert(K % (32 * VEC) == 0 && V % (WARPS * ROWS) == 0 && PIECE <= 16, "the template's constraints");

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

extern "C" __global__ void __launch_bounds__(32 * WARPS)
gdn_bulk(const io_t *__restrict__ mixed_qkv, const io_t *__restrict__ a, const io_t *__restrict__ b, const float *__restrict__ A_log,
         const io_t *__restrict__ dt_bias, const int *__restrict__ slot, state_t *__restrict__ state, io_t *__restrict__ out, float eps)
{
    __shared__ __align__(128) state_t held[WARPS][ROWS][K];
    __shared__ __align__(8) unsigned long long arrived[WARPS][PIECES];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int head = blockIdx.y, token = blockIdx.z, key_head = head / (HV / H);
    const int first = (blockIdx.x * WARPS + warp) * ROWS;
    const int s = slot[token];
    io_t *to = out + ((long long)token * HV + head) * V + first;
    if (s <= 0) {
#pragma unroll
        for (int r = lane; r < ROWS; r += 32)
            narrow(to + r, 0.0f);
        return;
    }
    state_t *matrix = state + (((long long)s * HV + head) * V + first) * K;
    if (lane == 0) {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            arrival_init(&arrived[warp][p]);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            ask(held[warp][p * PIECE], matrix + p * PIECE * K, &arrived[warp][p]);
    }
    __syncwarp();

    const io_t *row = mixed_qkv + token * STRIDE;
    float q[PER_LANE], k[PER_LANE], v[PIECES], norms[4] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            q[c * VEC + e] = widen(row[key_head * K + (c * 32 + lane) * VEC + e]);
            k[c * VEC + e] = widen(row[(H + key_head) * K + (c * 32 + lane) * VEC + e]);
        }
#pragma unroll
    for (int p = 0; p < PIECES; p++)                      // a lane holds the value of its row of each piece
        v[p] = widen(row[2 * H * K + head * V + first + p * PIECE + lane % PIECE]);
    const float gate = widen(a[token * HV + head]) + widen(dt_bias[head]), write = widen(b[token * HV + head]), rate = A_log[head];
    const float softplus = gate > 20.0f ? gate : log1pf(expf(gate));
    const float decay = expf(-expf(rate) * softplus), beta = 1.0f / (1.0f + expf(-write));
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

    constexpr int SHARE = 32 / (2 * PIECE);
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
                raw[r][c] = reinterpret_cast<const word_t *>(held[warp][p * PIECE + r])[c * 32 + lane];
                unpack(raw[r][c], x);
#pragma unroll
                for (int e = 0; e < VEC; e++) {
                    sums[r] += x[e] * k[c * VEC + e];
                    sums[PIECE + r] += x[e] * q[c * VEC + e];
                }
            }
        reduce<2 * PIECE>(sums, lane);
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
                    reinterpret_cast<word_t *>(held[warp][p * PIECE + r])[c * 32 + lane] = w;
                else if (WRITE == 1)
                    __stcs(at, w);
                else
                    *at = w;
            }
            if (lane == (PIECE + r) * SHARE)
                narrow(to + p * PIECE + r, decay * sums[0] + u * key_query);
        }
        if (WRITE == 2) {
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncwarp();
            if (lane == 0)
                send(matrix + p * PIECE * K, held[warp][p * PIECE]);
        }
    }
    if (WRITE == 2 && lane == 0)
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

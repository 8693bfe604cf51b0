// A decode step of a gated-delta layer in one launch, for batches that leave the card half empty.
//
// A cluster of blocks takes one key head of one token: its HV/H value heads times TILES tiles of their rows. Each block convolves the
// q and k channels of its key head for itself, since asking another block costs more than 512 multiplications; that several blocks
// read the convolution's state which one of them, the owner, moves on is why they are a cluster. Rows of the state lie in registers, all
// loads issued as soon as the slot is known. Of the norm's sum of squares each warp sends its part straight into the shared memory of
// the blocks of its head, its own among them, and a block waits at a barrier of its own for all of them. One more copy goes to the
// owner: once it has one of every warp of the cluster, all of them have read the past. The cluster's own barrier only says that those
// barriers are set up; it is arrived at while the slot is on its way, when nothing else can be done. While the sums are on their way the
// state goes out. A row's answer stays with the lane that writes it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V, C = 2 * H * K + HV * V, W = AXIS_W;
constexpr int SHARE = HV / H;                         // value heads of a key head
constexpr int THREADS = 32 * WARPS;
constexpr int VEC = 16 / sizeof(DTYPE_state);          // elements of one load of the state
constexpr int GROUPS = 32 / LANES;                    // of a warp
constexpr int CHUNKS = K / (LANES * VEC);             // vectors of a row that one lane holds
constexpr int TILE = V / TILES;                       // rows of a block
constexpr int ROWS = TILE / (WARPS * GROUPS);         // rows of a group of lanes
constexpr int PARTS = (2 * K + TILE) / PIECE;         // of a block's channels, PIECE neighbours each
constexpr int PER_THREAD = (PARTS + THREADS - 1) / THREADS;
constexpr bool LONE = SHARE * TILES == 1;             // a cluster of one
static_assert(K % (LANES * VEC) == 0 && V % TILES == 0 && TILE % (WARPS * GROUPS) == 0 && W == 4 && K % PIECE == 0 && TILE % PIECE == 0, "the template's constraints");

using io_t = DTYPE_io;
using state_t = DTYPE_state;

template <int BYTES> struct word;
template <> struct word<2> { using type = unsigned short; };
template <> struct word<4> { using type = unsigned int; };
template <> struct word<8> { using type = uint2; };
template <> struct word<16> { using type = uint4; };
using part_t = word<PIECE * sizeof(io_t)>::type;
constexpr int TAP_BYTES = PIECE * W * sizeof(io_t) > 16 ? 16 : PIECE * W * sizeof(io_t), TAPS = PIECE * W * sizeof(io_t) / TAP_BYTES;
using tap_t = word<TAP_BYTES>::type;                  // of the weights of a part

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

// A value that was loaded stays as it is up to here: worked on as it arrives, it would be waited for before what follows is asked for.
__device__ __forceinline__ void hold(unsigned short &w) { asm volatile("" : "+h"(w)); }
__device__ __forceinline__ void hold(unsigned int &w) { asm volatile("" : "+r"(w)); }
__device__ __forceinline__ void hold(float &w) { asm volatile("" : "+f"(w)); }
using one_t = word<sizeof(io_t)>::type;
__device__ __forceinline__ one_t bits_of(const io_t *p) { return *reinterpret_cast<const one_t *>(p); }
__device__ __forceinline__ float value_of(one_t bits)
{
    io_t x;
    memcpy(&x, &bits, sizeof x);
    return widen(x);
}

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

__device__ constexpr int up_to_power(int n) { int p = 1; while (p < n) p *= 2; return p; }

// N sums over a group of L lanes, N a power of two and at most L: afterwards the lane's v[0] is the sum number lane / (L / N).
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

// Only barriers were set up before it, which the fence makes known to the cluster: a release would wait for all loads under way.
__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned remote_address(const void *p, int block)
{
    unsigned to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(p)), "r"(block));
    return to;
}
// Puts x at the same place of another block's shared memory, and tells its barrier.
__device__ __forceinline__ void put_remote(float *place, unsigned long long *barrier, int block, float x)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(remote_address(place, block)), "f"(x),
                 "r"(remote_address(barrier, block)) : "memory");
}
// Before it becomes known to the cluster.
__device__ __forceinline__ void barrier_expect(unsigned long long *barrier, int bytes)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(unsigned long long *barrier)
{
    unsigned done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(barrier)) : "memory");
    while (!done);
}

extern "C" __global__ void __launch_bounds__(THREADS)
gdn_send(const io_t *__restrict__ x, const io_t *__restrict__ conv_weight, io_t *__restrict__ conv_state, const io_t *__restrict__ a,
          const io_t *__restrict__ b, const float *__restrict__ A_log, const io_t *__restrict__ dt_bias, const int *__restrict__ slot,
          state_t *__restrict__ state, const io_t *__restrict__ z, const io_t *__restrict__ norm_weight, io_t *__restrict__ y, float eps,
          float norm_eps)
{
    __shared__ __align__(16) float mixed[2 * K + TILE];          // q, k, v after the convolution
    __shared__ __align__(16) float squares[TILES * WARPS];       // of the head's rows, by tile and warp
    __shared__ float seen[SHARE * TILES * WARPS];                // by the owner: that these warps have read the past
    __shared__ unsigned long long arrived, read;
    const int thread = threadIdx.x, lane = thread % LANES, group = thread / LANES, warp = thread / 32, in_warp = thread % 32;
    const int rank = blockIdx.x, share = rank / TILES, tile = rank % TILES;
    const int key_head = blockIdx.y, token = blockIdx.z, head = key_head * SHARE + share;
    const int s = slot[token];

    // what does not depend on the slot
    part_t fresh[PER_THREAD];
    tap_t weight[PER_THREAD][TAPS];
    int channel[PER_THREAD];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        const int part = i * THREADS + thread, n = part * PIECE;
        channel[i] = n < K ? key_head * K + n : n < 2 * K ? (H + key_head) * K + n - K : 2 * H * K + head * V + tile * TILE + n - 2 * K;
        if (part < PARTS) {
            fresh[i] = *reinterpret_cast<const part_t *>(x + (long long)token * C + channel[i]);
#pragma unroll
            for (int e = 0; e < TAPS; e++)
                weight[i][e] = reinterpret_cast<const tap_t *>(conv_weight + (long long)channel[i] * W)[e];
        }
    }
    one_t a_bits = bits_of(a + token * HV + head), dt_bits = bits_of(dt_bias + head), b_bits = bits_of(b + token * HV + head);
    one_t z_bits = 0, gain_bits = 0;                  // of the row that this lane writes
    float rate = A_log[head];
    const int mine = group * ROWS + lane;
    if (lane < ROWS) {
        gain_bits = bits_of(norm_weight + tile * TILE + mine);
        z_bits = bits_of(z + ((long long)token * HV + head) * V + tile * TILE + mine);
    }
    io_t *to = y + ((long long)token * HV + head) * V + tile * TILE;
    if (!LONE) {
        if (thread == 0) {
            barrier_expect(&arrived, 4 * TILES * WARPS);
            barrier_expect(&read, 4 * SHARE * TILES * WARPS);
        }
        cluster_arrive();
    }
    if (s <= 0) {
        for (int r = thread; r < TILE; r += THREADS)
            narrow(to + r, 0.0f);
        if (!LONE)
            cluster_wait();
        return;                                       // the whole cluster: its token is the same
    }

    io_t *past = conv_state + (long long)s * (W - 1) * C;
    part_t held[PER_THREAD][W - 1];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
        for (int j = 0; j < W - 1; j++)
            if (i * THREADS + thread < PARTS)
                held[i][j] = *reinterpret_cast<const part_t *>(past + j * C + channel[i]);
    state_t *matrix = state + (((long long)s * HV + head) * V + tile * TILE + group * ROWS) * K + lane * VEC;
    piece raw[ROWS][CHUNKS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            raw[r][c].load(matrix + r * K + c * LANES * VEC);
    hold(a_bits), hold(dt_bits), hold(b_bits), hold(rate);
    const float gate = value_of(a_bits) + value_of(dt_bits), write = value_of(b_bits);
    const float softplus = gate > 20.0f ? gate : log1pf(expf(gate));
    const float decay = expf(-expf(rate) * softplus);
    const float beta = 1.0f / (1.0f + expf(-write));

#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        const int part = i * THREADS + thread;
        if (part < PARTS) {
            io_t values[W][PIECE], w[PIECE][W];
            memcpy(values, held[i], sizeof held[i]);
            memcpy(values[W - 1], &fresh[i], sizeof fresh[i]);
            memcpy(w, weight[i], sizeof w);
#pragma unroll
            for (int e = 0; e < PIECE; e++) {
                const float sum = widen(values[0][e]) * widen(w[e][0]) + widen(values[1][e]) * widen(w[e][1]) + widen(values[2][e]) * widen(w[e][2])
                    + widen(values[3][e]) * widen(w[e][3]);
                mixed[part * PIECE + e] = __fdividef(sum, 1.0f + __expf(-sum));
            }
        }
    }
    __syncthreads();

    // 2 ROWS + 3 sums over K
    constexpr int SUMS = up_to_power(2 * ROWS + 3);
    float sums[SUMS] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        float q[VEC], k[VEC];
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            q[e] = mixed[(c * LANES + lane) * VEC + e];
            k[e] = mixed[K + (c * LANES + lane) * VEC + e];
            sums[2 * ROWS] += q[e] * q[e];
            sums[2 * ROWS + 1] += k[e] * k[e];
            sums[2 * ROWS + 2] += q[e] * k[e];
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float old[VEC];
            raw[r][c].get(old);
#pragma unroll
            for (int e = 0; e < VEC; e++) {
                sums[2 * r] += old[e] * k[e];
                sums[2 * r + 1] += old[e] * q[e];
            }
        }
    }
    float all[2 * ROWS + 3];
    if (SUMS <= LANES) {
        reduce<SUMS <= LANES ? SUMS : 1, LANES>(sums, lane);
#pragma unroll
        for (int i = 0; i < 2 * ROWS + 3; i++)
            all[i] = __shfl_sync(0xffffffffu, sums[0], i * (LANES / SUMS), LANES);
    } else {
#pragma unroll
        for (int i = LANES / 2; i > 0; i /= 2)
#pragma unroll
            for (int j = 0; j < 2 * ROWS + 3; j++)
                sums[j] += __shfl_xor_sync(0xffffffffu, sums[j], i);
#pragma unroll
        for (int j = 0; j < 2 * ROWS + 3; j++)
            all[j] = sums[j];
    }
    const float q_norm = rsqrtf(all[2 * ROWS] + eps) * rsqrtf((float)K), k_norm = rsqrtf(all[2 * ROWS + 1] + eps);
    const float key_query = all[2 * ROWS + 2] * q_norm * k_norm;
    float add[ROWS], square = 0, answer = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float u = (mixed[2 * K + group * ROWS + r] - decay * k_norm * all[2 * r]) * beta;
        const float out = decay * q_norm * all[2 * r + 1] + u * key_query;
        add[r] = u * k_norm;
        square += out * out;
        if (lane == r)
            answer = out;
    }
    // every lane of a group has its sum: add the warp's groups
#pragma unroll
    for (int i = LANES; i < 32; i *= 2)
        square += __shfl_xor_sync(0xffffffffu, square, i);
    if (!LONE) {
        cluster_wait();                               // all blocks run, and their barriers are set up
        if (in_warp == TILES || (TILES > 1 && in_warp < TILES)) {
            const bool to_owner = in_warp == TILES;
            put_remote(to_owner ? &seen[rank * WARPS + warp] : &squares[tile * WARPS + warp], to_owner ? &read : &arrived,
                       to_owner ? 0 : share * TILES + in_warp, square);
        }
    }
    if (TILES == 1 && in_warp == 0)
        squares[warp] = square;

    // while the others' sums are on their way
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        float k[VEC];
#pragma unroll
        for (int e = 0; e < VEC; e++)
            k[e] = mixed[K + (c * LANES + lane) * VEC + e];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float old[VEC];
            raw[r][c].get(old);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                old[e] = old[e] * decay + add[r] * k[e];
            raw[r][c].set(old);
            raw[r][c].store(matrix + r * K + c * LANES * VEC);
        }
    }
    const auto move_on = [&](int from, int to) {      // channels of the past
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            const int n = (i * THREADS + thread) * PIECE;
            if (n >= from && n < to) {
                *reinterpret_cast<part_t *>(past + channel[i]) = held[i][1];
                *reinterpret_cast<part_t *>(past + C + channel[i]) = held[i][2];
                *reinterpret_cast<part_t *>(past + 2 * C + channel[i]) = fresh[i];
            }
        }
    };
    move_on(2 * K, PARTS * PIECE);                    // the values', which no other block reads
    hold(z_bits), hold(gain_bits);
    const float open = value_of(z_bits), gain = value_of(gain_bits) * __fdividef(open, 1.0f + __expf(-open));
    float totals[4] = {};
    if (TILES > 1)
        barrier_wait(&arrived);
    else
        __syncthreads();
#pragma unroll
    for (int i = 0; i < TILES * WARPS; i++)
        totals[i % 4] += squares[i];
    const float total = (totals[0] + totals[1]) + (totals[2] + totals[3]);
    if (lane < ROWS)
        narrow(to + mine, answer * rsqrtf(total * (1.0f / V) + norm_eps) * gain);
    if (rank == 0) {
        if (!LONE)
            barrier_wait(&read);
        move_on(0, 2 * K);
    }
}

// Attention over a cache, one token a sequence, for query heads that share a key head by the dozen, in one launch: as in `team`, some warps
// copy and four work; the blocks of a sequence are a cluster and send each other their sums.
//
// A block takes 16 query heads that share a key head, the rows of one operand of the matrix unit, and steps of PLACES places in turn with
// the cluster's other blocks. Keys and values of a step are a slot each of a ring in shared memory; as soon as the working warps have left a
// slot the others fill it again, a row at a time by the copy engine. Of a step each working warp takes the scores of a quarter of the places
// for all heads; weights go through shared memory, and each warp adds up a quarter of the columns. At the end each block joins some of the
// columns: registers go straight into its shared memory, 16 columns of a head at a time, and its barrier counts them. Nobody meets: the
// cluster's own barrier, passed long ago, only says that those barriers are set up. The blocks begin to send at different columns, so
// that no block is sent everything at once. With RESIDENT 2 two blocks find room on a multiprocessor, and large clusters among few of them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int HQ = AXIS_HQ, HK = AXIS_HK, D = AXIS_d, T = AXIS_T, G = HQ / HK, HEADS = 16, GROUPS = (G + HEADS - 1) / HEADS;
constexpr int TEAM = 128, THREADS = TEAM + 32 * COPIERS;  // of the warps that work; with those that copy
constexpr bool HELD = RESIDENT == 1 || COPIERS < 4;       // the queries, in registers; else read anew each step
constexpr int KEYS = PLACES / 4, TILES = KEYS / 8, COLUMNS = D / 4, VECTORS = D / 8;
constexpr int APART = SPLIT * PLACES;                     // from one step of a block to its next
constexpr int ROW = D + 8, SLOT = PLACES * ROW;           // elements: 8 rows' 16 bytes lie in different banks
constexpr int WEIGHT_ROW = PLACES + 8;
constexpr int CHUNKS = D / 16, WARP_CHUNKS = CHUNKS / 4;  // of 16 columns; the n-th is joined by block n % SPLIT
constexpr int OWNERS = CHUNKS < SPLIT ? CHUNKS : SPLIT, MOST_CHUNKS = (CHUNKS + SPLIT - 1) / SPLIT;
constexpr int PIECE = HEADS * 16;                         // floats: a block's sums of a chunk
static_assert(D % 64 == 0 && PLACES % 32 == 0, "the template's constraints");
#define NOTHING __int_as_float(0xff800000)                // below every score
#define ENOUGH 8.0f                                       // how far (powers of 2) scores may pass what they are measured from
using io_t = DTYPE_io;
template <class T> __device__ __forceinline__ void multiply(float *c, const unsigned *a, unsigned b0, unsigned b1);
template <class T> __device__ __forceinline__ unsigned pack(float low, float high);
#define WITH_TYPE(T, NAME)                                                                                                         \
    template <> __device__ __forceinline__ void multiply<T>(float *c, const unsigned *a, unsigned b0, unsigned b1)                 \
    {                                                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"       \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));        \
    }                                                                                                                              \
    template <> __device__ __forceinline__ unsigned pack<T>(float low, float high)                                                 \
    {                                                                                                                              \
        unsigned r;                                                                                                                \
        asm("cvt.rn." NAME "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));                                                  \
        return r;                                                                                                                  \
    }
WITH_TYPE(__half, "f16")
WITH_TYPE(__nv_bfloat16, "bf16")
template <class T> __device__ __forceinline__ float widen(unsigned bits);
template <> __device__ __forceinline__ float widen<__half>(unsigned bits) { return __half2float(__ushort_as_half((unsigned short)bits)); }
template <> __device__ __forceinline__ float widen<__nv_bfloat16>(unsigned bits) { return __uint_as_float(bits << 16); }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ float power(float x)           // of 2
{
    float r;
    asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void load_four(unsigned *r, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_four_transposed(unsigned *r, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

// The working warps meet; and say whether one of them has seen something.
__device__ __forceinline__ void team_sync() { asm volatile("barrier.sync 1, %0;" ::"n"(TEAM) : "memory"); }
__device__ __forceinline__ bool team_any(bool seen)
{
    unsigned any;
    asm volatile("{ .reg .pred p, q; setp.ne.u32 q, %2, 0; barrier.cta.red.or.pred p, 1, %1, q; selp.u32 %0, 1, 0, p; }"
                 : "=r"(any) : "n"(TEAM), "r"((unsigned)seen) : "memory");
    return any;
}

#define AWAIT(NAME, HOW)                                  /* that a barrier has passed a phase */                                    \
    __device__ __forceinline__ void NAME(unsigned barrier, int phase)                                                              \
    {                                                                                                                              \
        unsigned done;                                                                                                             \
        do                                                                                                                         \
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity" HOW ".shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"    \
                         : "=r"(done) : "r"(barrier), "r"(phase & 1) : "memory");                                                  \
        while (!done);                                                                                                             \
    }
AWAIT(await, "")
AWAIT(await_others, ".acquire.cluster")
__device__ __forceinline__ void leave(unsigned barrier, int lane)
{
    __syncwarp();
    if (lane == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// What is at a place of this block's shared memory, in another block of the cluster.
__device__ __forceinline__ unsigned remote(unsigned at, int block)
{
    unsigned to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at), "r"(block));
    return to;
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// The copying warps ask for PLACES places from `place` on, those before `end`.
__device__ __forceinline__ void fetch(unsigned slot, unsigned full, const io_t *from, int place, int end, int member)
{
    constexpr int EACH = PLACES / COPIERS;                // of a warp
    const int first = member / 32 * EACH, rows = max(0, min(EACH, end - place - first)), lane = member % 32;
    auto copy = [&](int r) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(slot + (first + r) * ROW * 2),
                     "l"(from + (long long)(place + first + r) * HK * D), "r"(D * 2), "r"(full) : "memory");
    };
    __syncwarp();                                         // all have seen it empty: without rows to wait for, its next phase may come soon
    if (lane == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(rows * D * 2) : "memory");
    __syncwarp();
#if COPIERS == 8
    if (lane == 0)                                        // few rows: one lane
#pragma unroll
        for (int r = 0; r < EACH; r++)
            if (r < rows)
                copy(r);
#else
    if (lane < rows)
        copy(lane);
#endif
}

// Of a warp: heads group and group + 8; sums of this lane's places alone.
struct state { float out[COLUMNS / 8][4], from[2], sum[2]; };

// This warp's places: what its lanes hold are heads group (0, 1) and group + 8 (2, 3), two places each.
__device__ __forceinline__ void score(float (*scores)[4], const unsigned (*query)[4], unsigned queries, unsigned keys, int place, int end, int warp, int lane)
{
    const unsigned at = keys + ((warp * KEYS + lane % 8) * ROW + lane / 8 * 8) * 2;
    const float scale = rsqrtf((float)D) * 1.44269504f;
    float part[TILES][4][4] = {};
#pragma unroll
    for (int c = 0; c < D / 32; c++) {
        unsigned fresh[2][4];
        if (!HELD)
            load_four(fresh[0], queries + c * 64), load_four(fresh[1], queries + c * 64 + 32);
        const unsigned(*two)[4] = HELD ? query + 2 * c : fresh;
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            unsigned b[4];
            load_four(b, at + t * 8 * ROW * 2 + c * 64);
            multiply<io_t>(part[t][c % 2 * 2], two[0], b[0], b[1]);
            multiply<io_t>(part[t][c % 2 * 2 + 1], two[1], b[2], b[3]);
        }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float sum = (part[t][0][i] + part[t][1][i]) + (part[t][2][i] + part[t][3][i]);
            scores[t][i] = place + warp * KEYS + t * 8 + lane % 4 * 2 + i % 2 < end ? sum * scale : NOTHING;
        }
}

// Weights go as two numbers of the keys' type, a rounded one and what that leaves: scores are not measured from the largest, so that no weight
// is 1 exactly, and roundings of two large ones would show. What is multiplied is what is added up.
__device__ __forceinline__ void weigh(const state &s, const float (*scores)[4], float *sums, io_t *weights, int warp, int lane)
{
    sums[0] = sums[1] = 0;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float x = power(scores[t][2 * h] - s.from[h]), y = power(scores[t][2 * h + 1] - s.from[h]);
            const unsigned two = pack<io_t>(x, y);
            const float x_high = widen<io_t>(two & 0xffff), y_high = widen<io_t>(two >> 16);
            const unsigned rest = pack<io_t>(x - x_high, y - y_high);
            sums[h] += (x_high + widen<io_t>(rest & 0xffff)) + (y_high + widen<io_t>(rest >> 16));
            unsigned *to = reinterpret_cast<unsigned *>(weights + (lane / 4 + 8 * h) * WEIGHT_ROW + warp * KEYS + t * 8 + lane % 4 * 2);
            to[0] = two, to[HEADS * WEIGHT_ROW / 2] = rest;
        }
}

// All of the team's weights, this warp's columns.
__device__ __forceinline__ void add_up(state &s, unsigned weights, unsigned values, int warp, int lane)
{
    const unsigned at = values + (lane % 16 * ROW + warp * COLUMNS + lane / 16 * 8) * 2;
#pragma unroll
    for (int k = 0; k < PLACES / 16; k++) {
        const unsigned from = weights + (lane % 16 * WEIGHT_ROW + k * 16 + lane / 16 * 8) * 2;
        unsigned a[4], rest[4];
        load_four(a, from);
        load_four(rest, from + HEADS * WEIGHT_ROW * 2);
#pragma unroll
        for (int c = 0; c < COLUMNS / 16; c++) {
            unsigned b[4];
            load_four_transposed(b, at + (k * 16 * ROW + c * 16) * 2);
            multiply<io_t>(s.out[2 * c], a, b[0], b[1]);
            multiply<io_t>(s.out[2 * c + 1], a, b[2], b[3]);
            multiply<io_t>(s.out[2 * c], rest, b[0], b[1]);
            multiply<io_t>(s.out[2 * c + 1], rest, b[2], b[3]);
        }
    }
}

// Slots in the order keys, values, keys, ... of steps; the m-th is slot m % SLOTS in its phase m / SLOTS.
__device__ __forceinline__ void copy_all(unsigned slots, unsigned full, unsigned empty, const io_t *keys, const io_t *values, const int *lens,
                                         int first, int member)
{
    const int length = *lens;
    int m = 0, slot = 0;
#pragma unroll 1
    for (; m < SLOTS && first + m / 2 * APART < T; m++)   // the length is not known yet
        fetch(slots + m * SLOT * 2, full + 8 * m, m % 2 ? values : keys, first + m / 2 * APART, T, member);
#pragma unroll 1
    for (int phase = 0; m >= SLOTS && first + m / 2 * APART < length; m++) {
        await(empty + 8 * slot, phase);
        fetch(slots + slot * SLOT * 2, full + 8 * slot, m % 2 ? values : keys, first + m / 2 * APART, length, member);
        if (++slot == SLOTS)
            slot = 0, phase++;
    }
    const int steps = length > first ? (length - first + APART - 1) / APART : 0;
    for (int n = 2 * steps; n < m; n++)                   // asked for in vain
        await(full + 8 * (n % SLOTS), n / SLOTS);
}

// What lies past the length is no data.
__device__ __forceinline__ void clear(io_t *slot, int rows, int member)
{
    for (int i = rows * VECTORS + member; i < PLACES * VECTORS; i += TEAM)
        *reinterpret_cast<uint4 *>(slot + i / VECTORS * ROW + i % VECTORS * 8) = uint4{0, 0, 0, 0};
    team_sync();
}

// A working warp's part: this block's places of one key head, for `heads` query heads.
__device__ __forceinline__ void work(io_t *rows, io_t (*weights)[2 * HEADS * WEIGHT_ROW], float (*most)[HEADS], float *part_from,
                                     float (*part_sum)[HEADS], unsigned slots, unsigned full, unsigned empty, unsigned received, unsigned marks,
                                     unsigned arrived, const io_t *q, int length, int split, int heads, int member)
{
    const int lane = member % 32, warp = member / 32, group = lane / 4, four = lane % 4;
    for (int i = member; i < HEADS * VECTORS; i += TEAM) {
        const int h = i / VECTORS, at = i % VECTORS * 8;
        *reinterpret_cast<uint4 *>(rows + h * ROW + at) = h < heads ? *reinterpret_cast<const uint4 *>(q + h * D + at) : uint4{0, 0, 0, 0};
    }
    team_sync();
    const unsigned queries = shared_address(rows) + (lane % 16 * ROW + lane / 16 * 8) * 2;
    unsigned query[HELD ? D / 16 : 1][4];
#pragma unroll
    for (int c = 0; HELD && c < D / 16; c++)
        load_four(query[c], queries + c * 32);

    state s = {};
    s.from[0] = s.from[1] = NOTHING;
    int n = 0, slot = 0, phase = 0;
    auto go = [&] {
        leave(empty + 8 * slot, lane);
        slot = slot + 1 == SLOTS ? (phase++, 0) : slot + 1;
    };
#pragma unroll 1
    for (int place = split * PLACES; place < length; place += APART, n++) {
        float scores[TILES][4], largest[2] = {NOTHING, NOTHING}, sums[2];
        io_t *mine = weights[n % 2];                      // the other half is still read by the warps behind
        auto come = [&] {
            await(full + 8 * slot, phase);
            if (place + PLACES > length)
                clear(rows + HEADS * ROW + slot * SLOT, length - place, member);
        };
        come();
        score(scores, query, queries, slots + slot * SLOT * 2, place, length, warp, lane);
        go();
        weigh(s, scores, sums, mine, warp, lane);
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                largest[i / 2] = fmaxf(largest[i / 2], scores[t][i]);
        if (team_any(largest[0] > s.from[0] + ENOUGH || largest[1] > s.from[1] + ENOUGH)) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], 1));
                largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], 2));
            }
            if (four == 0)
                most[warp][group] = largest[0], most[warp][group + 8] = largest[1];
            team_sync();
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float from = s.from[h];
#pragma unroll
                for (int w = 0; w < 4; w++)
                    from = fmaxf(from, most[w][group + 8 * h]);
                const float factor = power(s.from[h] - from);
                s.from[h] = from;
                s.sum[h] *= factor;
#pragma unroll
                for (int c = 0; c < COLUMNS / 8; c++)
                    s.out[c][2 * h] *= factor, s.out[c][2 * h + 1] *= factor;
            }
            weigh(s, scores, sums, mine, warp, lane);
            team_sync();
        }
        s.sum[0] += sums[0], s.sum[1] += sums[1];
        come();
        add_up(s, shared_address(mine), slots + slot * SLOT * 2, warp, lane);
        go();
    }
    // Each warp has sums of its places, and columns of all heads.
#pragma unroll
    for (int h = 0; h < 2; h++) {
        s.sum[h] += __shfl_xor_sync(0xffffffffu, s.sum[h], 1);
        s.sum[h] += __shfl_xor_sync(0xffffffffu, s.sum[h], 2);
        if (four == 0)
            part_sum[warp][group + 8 * h] = s.sum[h];
        if (four == 0 && warp == 0)
            part_from[group + 8 * h] = s.from[h];
    }
    cluster_wait();
#pragma unroll 1
    for (int turn = 0; turn < WARP_CHUNKS; turn++) {
        const int now = (turn + split) % WARP_CHUNKS, chunk = warp * WARP_CHUNKS + now, to = chunk % SPLIT;
        const unsigned at = remote(received, to) + ((chunk / SPLIT * SPLIT + split) * PIECE + group * 16 + four * 4) * 4, tell = remote(arrived, to);
#pragma unroll
        for (int c = 0; c < WARP_CHUNKS; c++)
            if (c == now)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    if (group + 8 * h < heads)
                        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(at + h * 512),
                                     "f"(s.out[2 * c][2 * h]), "f"(s.out[2 * c][2 * h + 1]), "f"(s.out[2 * c + 1][2 * h]),
                                     "f"(s.out[2 * c + 1][2 * h + 1]), "r"(tell) : "memory");
    }
    team_sync();
    const int head = member % HEADS;
    const float from = part_from[head], sum = (part_sum[0][head] + part_sum[1][head]) + (part_sum[2][head] + part_sum[3][head]);
    for (int to = member / HEADS; head < heads && to < OWNERS; to += TEAM / HEADS)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1,%2}, [%3];" ::"r"(
                         remote(marks, to) + (head * (SPLIT + 1) + split) * 8), "f"(from), "f"(sum), "r"(remote(arrived, to)) : "memory");
}

// This block's columns: the blocks' sums, each by its largest score. A thread takes two columns of each chunk, of one head.
__device__ __forceinline__ void join(const float *received, const float2 *marks, io_t *out, int split, int member)
{
    const int head = member / 8, part = member % 8;
    float factor[SPLIT], largest = NOTHING, total = 0;
    float2 m[SPLIT];
#pragma unroll
    for (int r = 0; r < SPLIT; r++)
        m[r] = marks[head * (SPLIT + 1) + r], largest = fmaxf(largest, m[r].x);
#pragma unroll
    for (int r = 0; r < SPLIT; r++)
        factor[r] = m[r].x == NOTHING ? 0.0f : power(m[r].x - largest), total += factor[r] * m[r].y;
    const float by = total > 0 ? 1.0f / total : 0.0f;
#pragma unroll
    for (int c = 0, chunk = split; c < MOST_CHUNKS && chunk < CHUNKS; c++, chunk += SPLIT) {
        float2 sum = {0, 0};
#pragma unroll
        for (int r = 0; r < SPLIT; r++) {
            const float2 x = *reinterpret_cast<const float2 *>(received + (c * SPLIT + r) * PIECE + member * 2);
            sum.x += factor[r] * x.x, sum.y += factor[r] * x.y;
        }
        *reinterpret_cast<unsigned *>(out + head * D + chunk * 16 + part % 2 * 8 + part / 2 * 2) = pack<io_t>(sum.x * by, sum.y * by);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
attend(const io_t *__restrict__ q, const io_t *__restrict__ k, const io_t *__restrict__ v, const int *__restrict__ lens, io_t *__restrict__ out)
{
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ __align__(16) io_t weights[2][2 * HEADS * WEIGHT_ROW];
    __shared__ __align__(16) float2 marks[HEADS * (SPLIT + 1)];
    __shared__ float most[4][HEADS], part_from[HEADS], part_sum[4][HEADS];
    __shared__ unsigned long long full_barriers[SLOTS], empty_barriers[SLOTS], arrived_barrier;
    const int split = blockIdx.x, key_head = blockIdx.y / GROUPS, first_head = blockIdx.y % GROUPS * HEADS, sequence = blockIdx.z;
    float *received = reinterpret_cast<float *>(shared);
    io_t *rows = reinterpret_cast<io_t *>(received + MOST_CHUNKS * SPLIT * PIECE), *ring = rows + HEADS * ROW;
    const unsigned slots = shared_address(ring), full = shared_address(full_barriers), empty = shared_address(empty_barriers), arrived = shared_address(&arrived_barrier);
    const int heads = min(HEADS, G - first_head), chunks = (CHUNKS - split + SPLIT - 1) / SPLIT;   // of them this block joins
    if (threadIdx.x == TEAM) {
#pragma unroll
        for (int n = 0; n < SLOTS; n++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(full + 8 * n), "n"(COPIERS) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" ::"r"(empty + 8 * n) : "memory");
        }
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrived) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(SPLIT * heads * (chunks * 64 + 8)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");   // a release would wait for all that is under way
    const long long head = (long long)sequence * HQ + key_head * G + first_head, at = ((long long)sequence * T * HK + key_head) * D;
    if (threadIdx.x >= TEAM) {
        copy_all(slots, full, empty, k + at, v + at, lens + sequence, split * PLACES, threadIdx.x - TEAM);
        cluster_wait();
    } else {
        work(rows, weights, most, part_from, part_sum, slots, full, empty, shared_address(received), shared_address(marks), arrived, q + head * D,
             lens[sequence], split, heads, threadIdx.x);
        if (chunks > 0) {
            await_others(arrived, 0);
            if (threadIdx.x / 8 < heads)
                join(received, marks, out + head * D, split, threadIdx.x);
        }
    }
}

// Attention over a cache, one token a sequence, for query heads that share a key head by the dozen: some warps copy, four work.
//
// A block takes 16 query heads that share a key head, the rows of one operand of the matrix unit, and steps of PLACES places in turn with
// the other blocks of the sequence. Keys and values of a step are a slot each of a ring in shared memory; as soon as the working warps have
// left a slot the others fill it again, a row at a time by the copy engine (which takes some 50 cycles a row). Of a step each working warp
// takes the scores of a quarter of the places for all heads; weights go through shared memory, and each warp adds up a quarter of the
// columns: nothing is read twice, and sums take few registers. What scores are measured from is the same for all warps, and moves only when
// one passes it by far, which the vote that they need anyway says. The first slots are asked for before the length is known.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int HQ = AXIS_HQ, HK = AXIS_HK, D = AXIS_d, T = AXIS_T, G = HQ / HK, HEADS = 16, GROUPS = (G + HEADS - 1) / HEADS;
constexpr int TEAM = 128, THREADS = TEAM + 32 * COPIERS;  // of the warps that work; with those that copy
constexpr int KEYS = PLACES / 4, TILES = KEYS / 8, COLUMNS = D / 4, VECTORS = D / 8;
constexpr int APART = SPLIT * PLACES;                     // from one step of a block to its next
constexpr int ROW = D + 8, SLOT = PLACES * ROW;           // elements: 8 rows' 16 bytes lie in different banks
constexpr int WEIGHT_ROW = PLACES + 8;
constexpr int PART_ROW = D + 8;                           // floats: 8 rows' 8 bytes lie in different banks
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

__device__ __forceinline__ void await(unsigned barrier, int phase)
{
    unsigned done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(phase & 1) : "memory");
    while (!done);
}
__device__ __forceinline__ void leave(unsigned barrier, int lane)
{
    __syncwarp();
    if (lane == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

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
__device__ __forceinline__ void score(float (*scores)[4], const unsigned (*query)[4], unsigned keys, int place, int end, int warp, int lane)
{
    const unsigned at = keys + ((warp * KEYS + lane % 8) * ROW + lane / 8 * 8) * 2;
    const float scale = rsqrtf((float)D) * 1.44269504f;
    float part[TILES][4][4] = {};
#pragma unroll
    for (int c = 0; c < D / 32; c++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            unsigned b[4];
            load_four(b, at + t * 8 * ROW * 2 + c * 64);
            multiply<io_t>(part[t][c % 2 * 2], query[2 * c], b[0], b[1]);
            multiply<io_t>(part[t][c % 2 * 2 + 1], query[2 * c + 1], b[2], b[3]);
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
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// What lies past the length is no data.
__device__ __forceinline__ void clear(io_t *slot, int rows, int member)
{
    for (int i = rows * VECTORS + member; i < PLACES * VECTORS; i += TEAM)
        *reinterpret_cast<uint4 *>(slot + i / VECTORS * ROW + i % VECTORS * 8) = uint4{0, 0, 0, 0};
    team_sync();
}

// A working warp's part: this block's places of one key head, for `heads` query heads.
__device__ __forceinline__ void work(io_t *rows, float *part, float *to, io_t (*weights)[2 * HEADS * WEIGHT_ROW], float (*most)[HEADS], float *part_from,
                                     float (*part_sum)[HEADS], unsigned slots, unsigned full, unsigned empty, const io_t *q, int length, int first,
                                     int heads, int member)
{
    const int lane = member % 32, warp = member / 32, group = lane / 4, four = lane % 4;
    for (int i = member; i < HEADS * VECTORS; i += TEAM) {
        const int h = i / VECTORS, at = i % VECTORS * 8;
        *reinterpret_cast<uint4 *>(rows + h * ROW + at) = h < heads ? *reinterpret_cast<const uint4 *>(q + h * D + at) : uint4{0, 0, 0, 0};
    }
    team_sync();
    unsigned query[D / 16][4];
#pragma unroll
    for (int c = 0; c < D / 16; c++)
        load_four(query[c], shared_address(rows) + (lane % 16 * ROW + c * 16 + lane / 16 * 8) * 2);

    state s = {};
    s.from[0] = s.from[1] = NOTHING;
    int n = 0, slot = 0, phase = 0;
    auto go = [&] {
        leave(empty + 8 * slot, lane);
        slot = slot + 1 == SLOTS ? (phase++, 0) : slot + 1;
    };
#pragma unroll 1
    for (int place = first; place < length; place += APART, n++) {
        float scores[TILES][4], largest[2] = {NOTHING, NOTHING}, sums[2];
        io_t *mine = weights[n % 2];                      // the other half is still read by the warps behind
        auto come = [&] {
            await(full + 8 * slot, phase);
            if (place + PLACES > length)
                clear(rows + HEADS * ROW + slot * SLOT, length - place, member);
        };
        come();
        score(scores, query, slots + slot * SLOT * 2, place, length, warp, lane);
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
                for (int c = 0; c < COLUMNS / 8; c++) {
                    s.out[c][2 * h] *= factor;
                    s.out[c][2 * h + 1] *= factor;
                }
            }
            weigh(s, scores, sums, mine, warp, lane);
            team_sync();
        }
        s.sum[0] += sums[0], s.sum[1] += sums[1];
        come();
        add_up(s, shared_address(mine), slots + slot * SLOT * 2, warp, lane);
        go();
    }
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    // Each warp has sums of its places, and columns of all heads.
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int head = group + 8 * h;
#pragma unroll
        for (int c = 0; c < COLUMNS / 8; c++) {
            const float2 two = make_float2(s.out[c][2 * h], s.out[c][2 * h + 1]);
            const int at = warp * COLUMNS + c * 8 + four * 2;
            if (STAGED || head < heads)
                *reinterpret_cast<float2 *>((STAGED ? part + head * PART_ROW : to + (long long)head * SPLIT * D) + at) = two;
        }
        s.sum[h] += __shfl_xor_sync(0xffffffffu, s.sum[h], 1);
        s.sum[h] += __shfl_xor_sync(0xffffffffu, s.sum[h], 2);
        if (four == 0)
            part_sum[warp][head] = s.sum[h];
        if (four == 0 && warp == 0)
            part_from[head] = s.from[h];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
attend(const io_t *__restrict__ q, const io_t *__restrict__ k, const io_t *__restrict__ v, const int *__restrict__ lens, float *__restrict__ partial,
       float2 *__restrict__ marks)
{
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ __align__(16) io_t weights[2][2 * HEADS * WEIGHT_ROW];
    __shared__ float most[4][HEADS], part_from[HEADS], part_sum[4][HEADS];
    __shared__ unsigned long long full_barriers[SLOTS], empty_barriers[SLOTS];
    const int split = blockIdx.x, key_head = blockIdx.y / GROUPS, first_head = blockIdx.y % GROUPS * HEADS, sequence = blockIdx.z;
    float *part = reinterpret_cast<float *>(shared);
    io_t *rows = reinterpret_cast<io_t *>(part + STAGED * HEADS * PART_ROW), *ring = rows + HEADS * ROW;
    const unsigned slots = shared_address(ring), full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    if (threadIdx.x == TEAM) {
#pragma unroll
        for (int n = 0; n < SLOTS; n++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(full + 8 * n), "n"(COPIERS) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" ::"r"(empty + 8 * n) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const long long head = (long long)sequence * HQ + key_head * G + first_head, to = head * SPLIT + split;
    const long long at = ((long long)sequence * T * HK + key_head) * D;
    if (threadIdx.x >= TEAM)
        copy_all(slots, full, empty, k + at, v + at, lens + sequence, split * PLACES, threadIdx.x - TEAM);
    else
        work(rows, part, partial + to * D, weights, most, part_from, part_sum, slots, full, empty, q + head * D, lens[sequence], split * PLACES,
             G - first_head, threadIdx.x);
    __syncthreads();
#if STAGED
#pragma unroll
    for (int i = threadIdx.x; i < HEADS * (D / 4); i += THREADS) {
        const int h = i / (D / 4), at = i % (D / 4) * 4;
        if (first_head + h < G)
            *reinterpret_cast<float4 *>(partial + (to + h * SPLIT) * D + at) = *reinterpret_cast<const float4 *>(part + h * PART_ROW + at);
    }
#endif
    const int h = threadIdx.x;
    if (h < HEADS && first_head + h < G)
        marks[to + h * SPLIT] = make_float2(part_from[h], (part_sum[0][h] + part_sum[1][h]) + (part_sum[2][h] + part_sum[3][h]));
}

// A block a sequence and head: the splits' results, each by its largest score; a thread 4 columns, a lane's factors those of its splits.
// What it has read nobody reads again: with DISCARD it need not go to memory when its place in the cache is wanted.
constexpr int JOIN_THREADS = (D / 4 + 31) / 32 * 32, AHEAD = SPLIT < 16 ? SPLIT : 16;
constexpr int WIDTH = SPLIT <= 2 ? 2 : SPLIT <= 4 ? 4 : SPLIT <= 8 ? 8 : SPLIT <= 16 ? 16 : 32, MARKS = (SPLIT + WIDTH - 1) / WIDTH;   // lanes of all factors
__device__ __forceinline__ void forget(void *from, int bytes, int thread, int threads)
{
    for (int i = thread; i < bytes / 128; i += threads)
        asm volatile("discard.global.L2 [%0], 128;" ::"l"(static_cast<char *>(from) + i * 128) : "memory");
}
extern "C" __global__ void __launch_bounds__(JOIN_THREADS) join(float *partial, float2 *marks, io_t *__restrict__ out)
{
    const long long head = blockIdx.x;
    const int lane = threadIdx.x % WIDTH, at = threadIdx.x * 4, in = at < D;
    const float *from = partial + head * SPLIT * D + at;
    asm volatile("griddepcontrol.wait;" ::: "memory");    // const with __restrict__ would be read-only loads, which the assembler moves before it
    float2 m[MARKS];
    float4 x[AHEAD], sum = {0, 0, 0, 0};
    float largest = NOTHING, total = 0;
#pragma unroll
    for (int u = 0; u < MARKS; u++)
        m[u] = u * WIDTH + lane < SPLIT ? marks[head * SPLIT + u * WIDTH + lane] : make_float2(NOTHING, 0);
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (in)
            x[u] = *reinterpret_cast<const float4 *>(from + u * D);
#pragma unroll
    for (int u = 0; u < MARKS; u++)
        largest = fmaxf(largest, m[u].x);
#pragma unroll
    for (int i = WIDTH / 2; i; i /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, i));
#pragma unroll
    for (int u = 0; u < MARKS; u++) {
        m[u].x = m[u].x == NOTHING ? 0.0f : power(m[u].x - largest);
        total += m[u].x * m[u].y;
    }
#pragma unroll
    for (int i = WIDTH / 2; i; i /= 2)
        total += __shfl_xor_sync(0xffffffffu, total, i);
#pragma unroll
    for (int s = 0; s < SPLIT; s += AHEAD) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (s + u < SPLIT) {
                const float f = __shfl_sync(0xffffffffu, m[(s + u) / WIDTH].x, (s + u) % WIDTH);
                sum.x += f * x[u].x, sum.y += f * x[u].y, sum.z += f * x[u].z, sum.w += f * x[u].w;
            }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (s + AHEAD + u < SPLIT && in)
                x[u] = *reinterpret_cast<const float4 *>(from + (s + AHEAD + u) * D);
    }
    if (in) {
        const float by = total > 0 ? 1.0f / total : 0.0f;
        io_t *to = out + head * D + at;
        narrow(to, sum.x * by), narrow(to + 1, sum.y * by), narrow(to + 2, sum.z * by), narrow(to + 3, sum.w * by);
    }
#if DISCARD
    __syncthreads();                                      // all have read
    forget(partial + head * SPLIT * D, SPLIT * D * 4, threadIdx.x, JOIN_THREADS);
    if (SPLIT % 16 == 0)                                  // whole lines of this head alone
        forget(marks + head * SPLIT, SPLIT * 8, threadIdx.x, JOIN_THREADS);
#endif
}

// Attention over a cache, one token a sequence: keys and values stream through rings in shared memory.
//
// A block takes the query heads that share a key head, 16 at most, a warp 8 of them: two warps share a ring where there are more. A ring
// takes steps of 16 places in turn with the rings of all blocks of the sequence, STAGES steps under way at any time, copied by cp.async or
// (BULK) a row at a time by the copy engine; nothing but its own warps waits for them. With SPECULATE the first ones are asked for before
// the length is known. Scores and weighted values by the matrix unit, softmax as it goes. A second launch joins the blocks' results; it
// may come (DEPENDENT) when the last steps are under way, and then waits on the card for the first to end.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int HQ = AXIS_HQ, HK = AXIS_HK, D = AXIS_d, T = AXIS_T, G = HQ / HK;
constexpr int SHARE = G <= 8 ? 1 : 2, HEADS = 8 * SHARE;  // warps of a ring; query heads of a block, that share a key head
constexpr int GROUPS = (G + HEADS - 1) / HEADS;
constexpr int TEAM = 32 * SHARE, THREADS = TEAM * RINGS;
constexpr int STEP = 16, PIECES = D / 16, VECTORS = D / 8;
constexpr bool EVEN = TEAM % VECTORS == 0 && TEAM / VECTORS <= STEP;
[[maybe_unused]] constexpr int ROWS_AT_ONCE = EVEN ? TEAM / VECTORS : 1;
constexpr int ROW = D + 8, STAGE = 2 * STEP * ROW;        // elements: 8 rows' 16 bytes lie in different banks
constexpr int PART_ROW = D + 4;                           // floats
static_assert(D % 16 == 0, "the template's constraints");
#define NOTHING __int_as_float(0xff800000)                // below every score

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

__device__ __forceinline__ unsigned transpose(unsigned x)
{
    unsigned r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x));
    return r;
}
__device__ __forceinline__ float power(float x)           // of 2
{
    float r;
    asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
__device__ __forceinline__ float sum_of_eight(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 4);
    x += __shfl_xor_sync(0xffffffffu, x, 8);
    return x + __shfl_xor_sync(0xffffffffu, x, 16);
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
__device__ __forceinline__ void load_two(unsigned *r, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}

// The warps of a ring meet.
__device__ __forceinline__ void team_sync(int ring)
{
    if (SHARE == 1)
        __syncwarp();
    else
        asm volatile("barrier.sync %0, %1;" ::"r"(ring + 1), "n"(TEAM) : "memory");
}

// Asks for 16 places' keys and values from `place` on, those before `end`. All of the ring's warps have done with the stage.
__device__ __forceinline__ void fetch(unsigned stage, unsigned arrived, const io_t *k, const io_t *v, int place, int end, int member)
{
#if BULK
    const int rows = min(STEP, end - place), row = member % STEP;
    if (member == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(rows * D * 4) : "memory");
    if (member < 2 * STEP && row < rows)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(stage + member * ROW * 2),
                     "l"((member < STEP ? k : v) + (long long)(place + row) * HK * D), "r"(D * 2), "r"(arrived) : "memory");
#else
    if (EVEN && place + STEP <= end) {                    // the same columns of every row: addresses a constant apart
        const int row = member / VECTORS, at = member % VECTORS * 8;
        const long long from = (long long)(place + row) * HK * D + at;
        const unsigned to = stage + (row * ROW + at) * 2;
#pragma unroll
        for (int r = 0; r < 2 * STEP; r += ROWS_AT_ONCE)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + r * ROW * 2), "l"((r < STEP ? k : v) + from + r % STEP * HK * D)
                         : "memory");
    } else {
#pragma unroll 1
        for (int i = member; i < 2 * STEP * VECTORS; i += TEAM) {
            const int row = i / VECTORS, at = i % VECTORS * 8, p = place + row % STEP;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(stage + (row * ROW + at) * 2),
                         "l"((row < STEP ? k : v) + (long long)(p < end ? p : 0) * HK * D + at), "r"(p < end ? 16 : 0) : "memory");
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// A fetch that was not needed, so that those under way can be counted.
__device__ __forceinline__ void fetch_nothing()
{
#if !BULK
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// The n-th fetch of this ring has come.
__device__ __forceinline__ void wait_for(unsigned arrived, int n, int ring)
{
#if BULK
    unsigned done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(arrived), "r"(n / STAGES & 1) : "memory");
    while (!done);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
    team_sync(ring);
#endif
}

// What a warp has of its places: for heads 2 * four and 2 * four + 1 of its 8.
struct state {
    float out[PIECES][4];                                 // [16 columns]: columns group and group + 8
    float from[2], sum[2];                                // what scores are measured from; sums of this lane's places alone
};

// The 16 places of a stage. Keys are the first operand, so that few heads fill a tile of 8; values are that of the second product,
// transposed on the way.
__device__ __forceinline__ void take(state &s, const unsigned (*query)[2], unsigned keys, int place, int end, int lane)
{
    const unsigned values = keys + STEP * ROW * 2;
    const unsigned key_at = keys + (lane % 16 * ROW + lane / 16 * 8) * 2;
    const unsigned value_at = values + ((lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 8) * 2;
    const int group = lane / 4;
    float part[4][4] = {}, scores[4], largest[2];
#pragma unroll
    for (int c = 0; c < PIECES; c++) {
        unsigned a[4];
        load_four(a, key_at + c * 32);
        multiply<io_t>(part[c % 4], a, query[c][0], query[c][1]);
    }
    const float scale = rsqrtf((float)D) * 1.44269504f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        scores[i] = place + group + i / 2 * 8 < end ? ((part[0][i] + part[1][i]) + (part[2][i] + part[3][i])) * scale : NOTHING;
#pragma unroll
    for (int i = 0; i < 2; i++)
        largest[i] = fmaxf(scores[i], scores[i + 2]);
#pragma unroll
    for (int far = 4; far < 32; far *= 2)
#pragma unroll
        for (int i = 0; i < 2; i++)
            largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], far));
    // From the largest itself, not from one near it: its weight is then 1 exactly, and two large ones do not both round.
    if (__any_sync(0xffffffffu, largest[0] > s.from[0] || largest[1] > s.from[1])) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float from = fmaxf(s.from[i], largest[i]), factor = power(s.from[i] - from);
            s.from[i] = from;
            s.sum[i] *= factor;
#pragma unroll
            for (int c = 0; c < PIECES; c++) {
                s.out[c][i] *= factor;
                s.out[c][i + 2] *= factor;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        scores[i] = power(scores[i] - s.from[i % 2]);
    // The weights as they are multiplied, rounded, are what is added up: a place that takes all then gives its values exactly, however
    // far its score is from what it is measured from.
    const unsigned here = pack<io_t>(scores[0], scores[1]), below = pack<io_t>(scores[2], scores[3]);
    s.sum[0] += widen<io_t>(here & 0xffff) + widen<io_t>(below & 0xffff);
    s.sum[1] += widen<io_t>(here >> 16) + widen<io_t>(below >> 16);
    const unsigned low = transpose(here), high = transpose(below);
#pragma unroll
    for (int c = 0; c < PIECES; c++) {
        unsigned a[4];
        load_four_transposed(a, value_at + c * 32);
        multiply<io_t>(s.out[c], a, low, high);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
attend(const io_t *__restrict__ q, const io_t *__restrict__ k, const io_t *__restrict__ v, const int *__restrict__ lens, float *__restrict__ partial,
       float2 *__restrict__ marks)
{
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ float part_from[RINGS][HEADS], part_sum[RINGS][HEADS];
    __shared__ unsigned long long barriers[RINGS][STAGES];
    const int lane = threadIdx.x % 32, member = threadIdx.x % TEAM, ring = threadIdx.x / TEAM, half = member / 32, group = lane / 4, four = lane % 4;
    const int split = blockIdx.x, key_head = blockIdx.y / GROUPS, first_head = blockIdx.y % GROUPS * HEADS, sequence = blockIdx.z;
    io_t *rows = reinterpret_cast<io_t *>(shared), *own = rows + HEADS * ROW + ring * STAGES * STAGE;
    const unsigned stages = shared_address(own), arrived = shared_address(barriers[ring]);
    const io_t *keys = k + ((long long)sequence * T * HK + key_head) * D, *values = v + ((long long)sequence * T * HK + key_head) * D;
    const int first = (split * RINGS + ring) * STEP;
    constexpr int APART = SPLIT * RINGS * STEP;           // from one step of a ring to its next
    const int length = lens[sequence];
#if BULK
    if (member == 0) {
#pragma unroll
        for (int n = 0; n < STAGES; n++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrived + 8 * n) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    team_sync(ring);
#endif
    int fetched = 0;
#pragma unroll 1
    for (; fetched < STAGES; fetched++) {
        const int place = first + fetched * APART, end = SPECULATE ? T : length;
        if (place >= end)
            break;
        fetch(stages + fetched * STAGE * 2, arrived + 8 * fetched, keys, values, place, end, member);
    }
    for (int n = fetched; n < STAGES; n++)
        fetch_nothing();

    const io_t *mine = q + ((long long)sequence * HQ + key_head * G + first_head) * D;
    for (int i = threadIdx.x; i < HEADS * VECTORS; i += THREADS) {
        const int h = i / VECTORS, at = i % VECTORS * 8;
        uint4 x = {0, 0, 0, 0};
        if (first_head + h < G)
            x = *reinterpret_cast<const uint4 *>(mine + h * D + at);
        *reinterpret_cast<uint4 *>(rows + h * ROW + at) = x;
    }
    __syncthreads();
    unsigned query[PIECES][2];
#pragma unroll
    for (int c = 0; c < PIECES; c++)
        load_two(query[c], shared_address(rows) + ((half * 8 + lane % 8) * ROW + c * 16 + lane / 8 % 2 * 8) * 2);

    state s = {};
    s.from[0] = s.from[1] = NOTHING;
    int n = 0, stage = 0;
    for (int place = first; place < length; place += APART) {
        const unsigned at = stages + stage * STAGE * 2;
        wait_for(arrived + 8 * stage, n, ring);
        if (place + STEP > length) {                      // what lies past the length is no data
            for (int i = member; i < 2 * STEP * VECTORS; i += TEAM)
                if (place + i / VECTORS % STEP >= length)
                    *reinterpret_cast<uint4 *>(own + stage * STAGE + i / VECTORS * ROW + i % VECTORS * 8) = uint4{0, 0, 0, 0};
            team_sync(ring);
        }
        take(s, query, at, place, length, lane);
        const int next = place + STAGES * APART;
        if (next < length) {
            team_sync(ring);
            fetch(at, arrived + 8 * stage, keys, values, next, length, member);
            fetched++;
        } else {
            fetch_nothing();
        }
        n++;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
#if DEPENDENT
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
#if BULK
    for (; n < fetched; n++)                              // asked for in vain
        wait_for(arrived + 8 * (n % STAGES), n, ring);
#else
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
    team_sync(ring);

    // Rings of the block: each one's part where its stages were.
    float(*part)[STAGES * STAGE / 2] = reinterpret_cast<float(*)[STAGES * STAGE / 2]>(rows + HEADS * ROW);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int h = half * 8 + four * 2 + i;
        const float sum = sum_of_eight(s.sum[i]);
        if (group == 0)
            part_from[ring][h] = s.from[i], part_sum[ring][h] = sum;
#pragma unroll
        for (int c = 0; c < PIECES; c++) {
            part[ring][h * PART_ROW + c * 16 + group] = s.out[c][i];
            part[ring][h * PART_ROW + c * 16 + 8 + group] = s.out[c][2 + i];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < HEADS * (D / 4); i += THREADS) {
        const int h = i / (D / 4), at = i % (D / 4) * 4, head = first_head + h;
        if (head >= G)
            break;
        float from = NOTHING, total = 0;
        float4 sum = {0, 0, 0, 0};
#pragma unroll
        for (int r = 0; r < RINGS; r++)
            from = fmaxf(from, part_from[r][h]);
#pragma unroll
        for (int r = 0; r < RINGS; r++) {
            const float factor = part_from[r][h] == NOTHING ? 0.0f : power(part_from[r][h] - from);
            const float4 x = *reinterpret_cast<const float4 *>(&part[r][h * PART_ROW + at]);
            sum.x += factor * x.x, sum.y += factor * x.y, sum.z += factor * x.z, sum.w += factor * x.w;
            total += factor * part_sum[r][h];
        }
        const long long to = ((long long)sequence * HQ + key_head * G + head) * SPLIT + split;
        *reinterpret_cast<float4 *>(partial + to * D + at) = sum;
        if (at == 0)
            marks[to] = make_float2(from, total);
    }
}

// A block a sequence, head and slice of JOIN_COLUMNS columns: the splits' results, each by its largest score. Rows of threads share the
// splits; all have asked for what they add up before anything is known of the scores.
constexpr int JOIN_THREADS = 256, LANES = JOIN_COLUMNS / 4, ROWS = JOIN_THREADS / LANES, EACH = (SPLIT + ROWS - 1) / ROWS, AHEAD = EACH < 8 ? EACH : 8;
extern "C" __global__ void __launch_bounds__(JOIN_THREADS) join(const float *partial, const float2 *marks, io_t *__restrict__ out)
{
    __shared__ float factors[SPLIT];
    __shared__ float4 sums[ROWS][LANES];
    const long long head = blockIdx.x;
    const int row = threadIdx.x / LANES, lane = threadIdx.x % 32, at = blockIdx.y * JOIN_COLUMNS + threadIdx.x % LANES * 4;
    const bool in = at < D;
#if DEPENDENT
    asm volatile("griddepcontrol.wait;" ::: "memory");    // const with __restrict__ would be read-only loads, which the assembler moves before it
#endif
    const float *from = partial + head * SPLIT * D + at;
    float4 x[AHEAD], sum = {0, 0, 0, 0};
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (row + u * ROWS < SPLIT && in)
            x[u] = *reinterpret_cast<const float4 *>(from + (row + u * ROWS) * D);
    if (threadIdx.x < 32) {
        constexpr int MARKS = (SPLIT + 31) / 32;
        float2 m[MARKS];
        float largest = NOTHING, total = 0;
#pragma unroll
        for (int u = 0; u < MARKS; u++) {
            m[u] = u * 32 + lane < SPLIT ? marks[head * SPLIT + u * 32 + lane] : make_float2(NOTHING, 0);
            largest = fmaxf(largest, m[u].x);
        }
#pragma unroll
        for (int i = 16; i; i /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, i));
#pragma unroll
        for (int u = 0; u < MARKS; u++) {
            m[u].x = m[u].x == NOTHING ? 0.0f : power(m[u].x - largest);
            total += m[u].x * m[u].y;
        }
#pragma unroll
        for (int i = 16; i; i /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, i);
#pragma unroll
        for (int u = 0; u < MARKS; u++)
            if (u * 32 + lane < SPLIT)
                factors[u * 32 + lane] = total > 0 ? m[u].x / total : 0.0f;
    }
    __syncthreads();
    for (int s = row; s < SPLIT && in; s += ROWS * AHEAD) {
        if (s != row)
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (s + u * ROWS < SPLIT)
                    x[u] = *reinterpret_cast<const float4 *>(from + (s + u * ROWS) * D);
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (s + u * ROWS < SPLIT) {
                const float f = factors[s + u * ROWS];
                sum.x += f * x[u].x, sum.y += f * x[u].y, sum.z += f * x[u].z, sum.w += f * x[u].w;
            }
    }
    sums[row][threadIdx.x % LANES] = sum;
    __syncthreads();
    if (row == 0 && in) {
#pragma unroll
        for (int r = 1; r < ROWS; r++) {
            const float4 y = sums[r][threadIdx.x];
            sum.x += y.x, sum.y += y.y, sum.z += y.z, sum.w += y.w;
        }
        io_t *to = out + head * D + at;
        narrow(to, sum.x), narrow(to + 1, sum.y), narrow(to + 2, sum.z), narrow(to + 3, sum.w);
    }
}

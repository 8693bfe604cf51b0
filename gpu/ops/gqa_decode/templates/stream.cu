// Attention over a cache, one token a sequence: each warp streams keys and values through a ring of its own in shared memory.
//
// A block takes the query heads that share a key head, 16 at most. Its warps take steps of 16 places in turn with the warps of the
// other blocks of the sequence, STAGES steps under way at any time, copied by cp.async or (BULK) a row at a time by the copy engine;
// nothing but the warp itself waits for them. With SPECULATE the first ones are asked for before the length is known. Scores and
// weighted values by the matrix unit, softmax as it goes. A second launch joins the blocks' results; it is there already when the
// first ends (DEPENDENT).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int HQ = AXIS_HQ, HK = AXIS_HK, D = AXIS_d, T = AXIS_T, G = HQ / HK;
constexpr int TILES = G <= 8 ? 1 : 2, HEADS = 8 * TILES;  // of a block: query heads that share a key head
constexpr int GROUPS = (G + HEADS - 1) / HEADS;
constexpr int THREADS = 32 * WARPS, STEP = 16, PIECES = D / 16, VECTORS = D / 8;
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
__device__ __forceinline__ float larger_of_eight(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 8));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 16));
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

// Asks for 16 places' keys and values from `place` on, those before `end`. All lanes have done with the stage.
__device__ __forceinline__ void fetch(unsigned stage, unsigned arrived, const io_t *k, const io_t *v, int place, int end, int lane)
{
#if BULK
    const int rows = min(STEP, end - place), row = lane % STEP;
    if (lane == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(rows * D * 4) : "memory");
    __syncwarp();
    if (row < rows)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(stage + lane * ROW * 2),
                     "l"((lane < STEP ? k : v) + (long long)(place + row) * HK * D), "r"(D * 2), "r"(arrived) : "memory");
#else
#pragma unroll 16
    for (int i = lane; i < 2 * STEP * VECTORS; i += 32) {
        const int row = i / VECTORS, at = i % VECTORS * 8, p = place + row % STEP;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(stage + (row * ROW + at) * 2),
                     "l"((row < STEP ? k : v) + (long long)(p < end ? p : 0) * HK * D + at), "r"(p < end ? 16 : 0) : "memory");
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

// The n-th fetch of this warp has come.
__device__ __forceinline__ void wait_for(unsigned arrived, int n)
{
#if BULK
    unsigned done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(arrived), "r"(n / STAGES & 1) : "memory");
    while (!done);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
    __syncwarp();
#endif
}

// What a warp has of its places: for heads 2 * four and 2 * four + 1 of each tile.
struct state {
    float out[PIECES][TILES][4];                          // [16 columns][tile]: columns group and group + 8
    float largest[TILES][2], sum[TILES][2];               // sums of this lane's places alone
};

// The 16 places of a stage. Keys are the first operand, so that few heads fill a tile of 8; values are that of the second product,
// transposed on the way.
__device__ __forceinline__ void take(state &s, unsigned queries, unsigned keys, int place, int end, int lane)
{
    const unsigned values = keys + STEP * ROW * 2;
    const unsigned key_at = keys + (lane % 16 * ROW + lane / 16 * 8) * 2;
    const unsigned query_at = queries + ((lane / 16 % TILES * 8 + lane % 8) * ROW + lane / 8 % 2 * 8) * 2;
    const unsigned value_at = values + ((lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 8) * 2;
    const int group = lane / 4;
    float scores[TILES][4] = {}, more[TILES][4] = {};
#pragma unroll
    for (int c = 0; c < PIECES; c++) {
        unsigned a[4], b[2 * TILES];
        load_four(a, key_at + c * 32);
        if (TILES == 2)
            load_four(b, query_at + c * 32);
        else
            load_two(b, query_at + c * 32);
#pragma unroll
        for (int t = 0; t < TILES; t++)
            multiply<io_t>(c % 2 ? more[t] : scores[t], a, b[2 * t], b[2 * t + 1]);
    }

    const float scale = rsqrtf((float)D) * 1.44269504f;
    unsigned weights[TILES][2];
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            scores[t][i] = place + group + i / 2 * 8 < end ? (scores[t][i] + more[t][i]) * scale : NOTHING;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float largest = fmaxf(s.largest[t][i], larger_of_eight(fmaxf(scores[t][i], scores[t][i + 2])));
            const float factor = power(s.largest[t][i] - largest);
            s.largest[t][i] = largest;
            scores[t][i] = power(scores[t][i] - largest);
            scores[t][i + 2] = power(scores[t][i + 2] - largest);
            s.sum[t][i] = s.sum[t][i] * factor + scores[t][i] + scores[t][i + 2];
            if (__any_sync(0xffffffffu, factor != 1.0f)) {
#pragma unroll
                for (int c = 0; c < PIECES; c++) {
                    s.out[c][t][i] *= factor;
                    s.out[c][t][i + 2] *= factor;
                }
            }
        }
        weights[t][0] = transpose(pack<io_t>(scores[t][0], scores[t][1]));
        weights[t][1] = transpose(pack<io_t>(scores[t][2], scores[t][3]));
    }
#pragma unroll
    for (int c = 0; c < PIECES; c++) {
        unsigned a[4];
        load_four_transposed(a, value_at + c * 32);
#pragma unroll
        for (int t = 0; t < TILES; t++)
            multiply<io_t>(s.out[c][t], a, weights[t][0], weights[t][1]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
attend(const io_t *__restrict__ q, const io_t *__restrict__ k, const io_t *__restrict__ v, const int *__restrict__ lens, float *__restrict__ partial,
       float2 *__restrict__ marks)
{
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ float part_largest[WARPS][HEADS], part_sum[WARPS][HEADS];
    __shared__ unsigned long long barriers[WARPS][STAGES];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, four = lane % 4;
    const int split = blockIdx.x, key_head = blockIdx.y / GROUPS, first_head = blockIdx.y % GROUPS * HEADS, sequence = blockIdx.z;
    io_t *rows = reinterpret_cast<io_t *>(shared), *own = rows + HEADS * ROW + warp * STAGES * STAGE;
    const unsigned ring = shared_address(own), arrived = shared_address(barriers[warp]);
    const io_t *keys = k + ((long long)sequence * T * HK + key_head) * D, *values = v + ((long long)sequence * T * HK + key_head) * D;
    const int first = (split * WARPS + warp) * STEP;
    constexpr int APART = SPLIT * WARPS * STEP;           // from one step of a warp to its next
    const int length = lens[sequence];
#if DEPENDENT
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
#if BULK
    if (lane == 0) {
#pragma unroll
        for (int n = 0; n < STAGES; n++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrived + 8 * n) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
#endif
    int fetched = 0;
#pragma unroll
    for (; fetched < STAGES; fetched++) {
        const int place = first + fetched * APART, end = SPECULATE ? T : length;
        if (place >= end)
            break;
        fetch(ring + fetched * STAGE * 2, arrived + 8 * fetched, keys, values, place, end, lane);
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

    state s = {};
#pragma unroll
    for (int t = 0; t < TILES; t++)
        s.largest[t][0] = s.largest[t][1] = NOTHING;
    int n = 0, stage = 0;
    for (int place = first; place < length; place += APART) {
        const unsigned at = ring + stage * STAGE * 2;
        wait_for(arrived + 8 * stage, n);
        if (place + STEP > length) {                      // what lies past the length is no data
            for (int i = lane; i < 2 * STEP * VECTORS; i += 32)
                if (place + i / VECTORS % STEP >= length)
                    *reinterpret_cast<uint4 *>(own + stage * STAGE + i / VECTORS * ROW + i % VECTORS * 8) = uint4{0, 0, 0, 0};
            __syncwarp();
        }
        take(s, shared_address(rows), at, place, length, lane);
        __syncwarp();
        const int next = place + STAGES * APART;
        if (next < length) {
            fetch(at, arrived + 8 * stage, keys, values, next, length, lane);
            fetched++;
        } else {
            fetch_nothing();
        }
        n++;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
#if BULK
    for (; n < fetched; n++)                              // asked for in vain
        wait_for(arrived + 8 * (n % STAGES), n);
#else
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
    __syncwarp();

    // Warps of the block: each one's part where its ring was.
    float(*part)[STAGES * STAGE / 2] = reinterpret_cast<float(*)[STAGES * STAGE / 2]>(rows + HEADS * ROW);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float sum = sum_of_eight(s.sum[t][i]);
            if (group == 0) {
                part_largest[warp][t * 8 + four * 2 + i] = s.largest[t][i];
                part_sum[warp][t * 8 + four * 2 + i] = sum;
            }
#pragma unroll
            for (int c = 0; c < PIECES; c++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    part[warp][(t * 8 + four * 2 + i) * PART_ROW + c * 16 + h * 8 + group] = s.out[c][t][2 * h + i];
        }
    __syncthreads();
    for (int i = threadIdx.x; i < HEADS * (D / 4); i += THREADS) {
        const int h = i / (D / 4), at = i % (D / 4) * 4, head = first_head + h;
        if (head >= G)
            break;
        float largest = NOTHING, total = 0;
        float4 sum = {0, 0, 0, 0};
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            largest = fmaxf(largest, part_largest[w][h]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float factor = part_largest[w][h] == NOTHING ? 0.0f : power(part_largest[w][h] - largest);
            const float4 x = *reinterpret_cast<const float4 *>(&part[w][h * PART_ROW + at]);
            sum.x += factor * x.x, sum.y += factor * x.y, sum.z += factor * x.z, sum.w += factor * x.w;
            total += factor * part_sum[w][h];
        }
        const long long to = ((long long)sequence * HQ + key_head * G + head) * SPLIT + split;
        *reinterpret_cast<float4 *>(partial + to * D + at) = sum;
        if (at == 0)
            marks[to] = make_float2(largest, total);
    }
}

// A block a sequence and head: the splits' results, each by its largest score. Rows of threads share the splits.
constexpr int LANES = D / 4, ROWS = JOIN_THREADS / LANES, AHEAD = 8;
extern "C" __global__ void __launch_bounds__(JOIN_THREADS) join(const float *__restrict__ partial, const float2 *__restrict__ marks, io_t *__restrict__ out)
{
    __shared__ float factors[SPLIT];
    __shared__ float4 sums[ROWS][LANES];
    const long long head = blockIdx.x;
    const int row = threadIdx.x / LANES, at = threadIdx.x % LANES;
#if DEPENDENT
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    const float4 *from = reinterpret_cast<const float4 *>(partial) + head * SPLIT * LANES + at;
    float4 x[AHEAD], sum = {0, 0, 0, 0};
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (row + u * ROWS < SPLIT && row < ROWS)
            x[u] = from[(row + u * ROWS) * LANES];
    if (threadIdx.x < 32) {
        constexpr int EACH = (SPLIT + 31) / 32;
        float2 m[EACH];
        float largest = NOTHING, total = 0;
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            m[u] = u * 32 + threadIdx.x < SPLIT ? marks[head * SPLIT + u * 32 + threadIdx.x] : make_float2(NOTHING, 0);
            largest = fmaxf(largest, m[u].x);
        }
#pragma unroll
        for (int i = 16; i; i /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, i));
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            m[u].x = m[u].x == NOTHING ? 0.0f : power(m[u].x - largest);
            total += m[u].x * m[u].y;
        }
#pragma unroll
        for (int i = 16; i; i /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, i);
#pragma unroll
        for (int u = 0; u < EACH; u++)
            if (u * 32 + threadIdx.x < SPLIT)
                factors[u * 32 + threadIdx.x] = total > 0 ? m[u].x / total : 0.0f;
    }
    __syncthreads();
    for (int s = row; s < SPLIT && row < ROWS; s += ROWS * AHEAD) {
        if (s != row)
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (s + u * ROWS < SPLIT)
                    x[u] = from[(s + u * ROWS) * LANES];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (s + u * ROWS < SPLIT) {
                const float f = factors[s + u * ROWS];
                sum.x += f * x[u].x, sum.y += f * x[u].y, sum.z += f * x[u].z, sum.w += f * x[u].w;
            }
    }
    if (row < ROWS)
        sums[row][at] = sum;
    __syncthreads();
    if (row == 0) {
#pragma unroll
        for (int r = 1; r < ROWS; r++) {
            const float4 y = sums[r][at];
            sum.x += y.x, sum.y += y.y, sum.z += y.z, sum.w += y.w;
        }
        io_t *to = out + head * D + at * 4;
        narrow(to, sum.x), narrow(to + 1, sum.y), narrow(to + 2, sum.z), narrow(to + 3, sum.w);
    }
}

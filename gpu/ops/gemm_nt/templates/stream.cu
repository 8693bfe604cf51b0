// y = x w^T for few tokens: weights and x stream through a ring in shared memory.
//
// A block takes PER tiles of ROWS outputs one after the other, the ring never empty between them, and of K the part that its place in a
// cluster of SPLIT blocks says. STAGES pieces of COLUMNS of K, of its rows of w and of x, are under way or in use at any time, copied by
// cp.async or (BULK) a row's part at a time by the copy engine; one barrier a piece frees the stage before. Blocks begin at different
// places of K, so that they do not all ask for the same part of x at once. WN warps take TILES * 16 outputs each, WK warps share a piece's
// columns. Sums meet in shared memory, those of a cluster's other blocks through distributed shared memory.
//
// The matrix unit's first operand is w, so that few tokens fill a tile of 8. Where there is no row of w, the last one is copied once more:
// what comes of it goes nowhere.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int M = AXIS_M, N = AXIS_N, K = AXIS_K;
constexpr int M_TILES = (M + 7) / 8, TOKENS = 8 * M_TILES;
constexpr int WARP_ROWS = 16 * TILES, ROWS = WARP_ROWS * WN, THREADS = 32 * WN * WK;
constexpr int PIECES = K / (COLUMNS * SPLIT);             // of a block
constexpr int PITCH = COLUMNS + 8;                        // elements: 8 rows' 16 bytes lie in different banks
constexpr int COPIED = ROWS + M, STAGE = (ROWS + TOKENS) * PITCH;
constexpr int ALL_TILES = (N + ROWS - 1) / ROWS, BLOCKS = (ALL_TILES + PER - 1) / PER;
constexpr int STEPS = COLUMNS / WK / 16;                  // instructions' k of a warp's part of a piece
constexpr int SUM_PITCH = ROWS + 4;
constexpr bool ALONE = WK * SPLIT == 1;                   // nobody else has a part of a warp's sums
static_assert(K % (COLUMNS * SPLIT) == 0 && COLUMNS % (16 * WK) == 0, "the template's constraints");

using io_t = DTYPE_io;

template <class T> __device__ __forceinline__ void multiply(float *c, const unsigned *a, unsigned b0, unsigned b1);
#define MULTIPLY(T, NAME)                                                                                                          \
    template <> __device__ __forceinline__ void multiply<T>(float *c, const unsigned *a, unsigned b0, unsigned b1)                 \
    {                                                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"       \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));        \
    }
MULTIPLY(__half, "f16")
MULTIPLY(__nv_bfloat16, "bf16")

__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void load_four(unsigned *r, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_two(unsigned *r, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}

// Of a cluster: all its blocks meet; a float at the same place in another block's shared memory.
__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ float load_from(const float *p, unsigned rank)
{
    unsigned address = shared_address(p), there;
    float x;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(there) : "memory");
    return x;
}

// Row `row` of a stage: the block's rows of w, then the tokens.
__device__ __forceinline__ const io_t *row_of(const io_t *x, const io_t *w, int first, int row)
{
    const io_t *of_w = w + (long long)(N % ROWS == 0 ? first + row : min(first + row, N - 1)) * K;
    return row < ROWS ? of_w : x + (long long)(row - ROWS) * K;
}

__device__ __forceinline__ void copy(unsigned to, const io_t *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Asks for the columns from `k` on. All threads have done with the stage.
__device__ __forceinline__ void fetch(unsigned stage, unsigned arrived, const io_t *x, const io_t *w, int first, int k)
{
#if BULK
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(COPIED * COLUMNS * 2) : "memory");
#pragma unroll
    for (int row = threadIdx.x; row < COPIED; row += THREADS)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(stage + row * PITCH * 2),
                     "l"(row_of(x, w, first, row) + k), "r"(COLUMNS * 2), "r"(arrived) : "memory");
#else
    // the same columns of every row: addresses a constant apart, but where rows of w end
    constexpr int VECTORS = COLUMNS / 8, AT_ONCE = THREADS / VECTORS;
    const int row = threadIdx.x / VECTORS, at = threadIdx.x % VECTORS * 8;
    const unsigned to = stage + (row * PITCH + at) * 2;
    const io_t *from_w = w + (long long)(first + row) * K + k + at, *from_x = x + (long long)row * K + k + at;
    if (N % ROWS == 0 || first + ROWS <= N) {
#pragma unroll
        for (int r = 0; r < ROWS; r += AT_ONCE)
            if (ROWS % AT_ONCE == 0 || row + r < ROWS)
                copy(to + r * PITCH * 2, from_w + (long long)r * K);
    } else {
#pragma unroll 1
        for (int r = 0; row + r < ROWS; r += AT_ONCE)
            copy(to + r * PITCH * 2, w + (long long)min(first + row + r, N - 1) * K + k + at);
    }
#pragma unroll
    for (int r = 0; r < M; r += AT_ONCE)
        if (M % AT_ONCE == 0 || row + r < M)
            copy(to + (ROWS + r) * PITCH * 2, from_x + (long long)r * K);
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

// The n-th piece has come, for all threads; all have done with the one before.
__device__ __forceinline__ void wait_for(unsigned arrived, int n)
{
#if BULK
    unsigned done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(arrived), "r"(n / STAGES & 1) : "memory");
    while (!done);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#endif
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_stream(const io_t *__restrict__ x, const io_t *__restrict__ w, io_t *__restrict__ y)
{
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ unsigned long long barriers[STAGES];
    float *part = reinterpret_cast<float *>(shared + STAGES * STAGE * 2);   // [warp of K][token][output]
    const int lane = threadIdx.x % 32, group = lane / 4, four = lane % 4;
    const int wn = threadIdx.x / 32 % WN, wk = threadIdx.x / 32 / WN;
    const int k_first = blockIdx.y * PIECES * COLUMNS, turn = blockIdx.x % PIECES;
    const int tiles = (ALL_TILES - (int)blockIdx.x + BLOCKS - 1) / BLOCKS, all = tiles * PIECES;
    const unsigned ring = shared_address(shared), arrived = shared_address(barriers);
#if BULK
    if (threadIdx.x == 0) {
#pragma unroll
        for (int n = 0; n < STAGES; n++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrived + 8 * n) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
#endif
    // What is to be asked for next: of which tile, at which place of K.
    int next = 0, next_first = blockIdx.x * ROWS, next_piece = turn, next_stage = 0;
    const auto fetch_next = [&] {
        if (next < all) {
            fetch(ring + next_stage * STAGE * 2, arrived + 8 * next_stage, x, w, next_first, k_first + next_piece * COLUMNS);
            next++;
            next_piece = next_piece + 1 == PIECES ? 0 : next_piece + 1;
            if (next_piece == turn)
                next_first += BLOCKS * ROWS;
            next_stage = next_stage + 1 == STAGES ? 0 : next_stage + 1;
        } else {
            fetch_nothing();
        }
    };
#pragma unroll 1
    for (int n = 0; n < STAGES - 1; n++)
        fetch_next();
    constexpr int NO_TOKENS = M % 8 ? TOKENS - M : 1;
    if (M % 8)                                            // no tokens: zeros, in all stages
        for (int i = threadIdx.x; i < STAGES * NO_TOKENS * (COLUMNS / 8); i += THREADS) {
            const int row = i / (COLUMNS / 8) % NO_TOKENS, n = i / (COLUMNS / 8) / NO_TOKENS;
            *reinterpret_cast<uint4 *>(shared + (n * STAGE + (COPIED + row) * PITCH + i % (COLUMNS / 8) * 8) * 2) = uint4{0, 0, 0, 0};
        }

    const unsigned w_at = ring + ((wn * WARP_ROWS + lane % 16) * PITCH + wk * (STEPS * 16) + lane / 16 * 8) * 2;
    const unsigned x_at = ring + ((ROWS + lane / 16 * 8 + lane % 8) * PITCH + wk * (STEPS * 16) + lane / 8 % 2 * 8) * 2;
    int stage = 0, n = 0;
#pragma unroll 1
    for (int first = blockIdx.x * ROWS; first < ALL_TILES * ROWS; first += BLOCKS * ROWS) {
        float sums[TILES][M_TILES][4] = {};
#pragma unroll 1
        for (int piece = 0; piece < PIECES; piece++, n++) {
            wait_for(arrived + 8 * stage, n);
            fetch_next();
            const unsigned from_w = w_at + stage * STAGE * 2, from_x = x_at + stage * STAGE * 2;
#pragma unroll
            for (int u = 0; u < STEPS; u++) {
                unsigned a[TILES][4], b[2 * M_TILES + 2];
#pragma unroll
                for (int t = 0; t < TILES; t++)
                    load_four(a[t], from_w + (t * 16 * PITCH + u * 16) * 2);
#pragma unroll
                for (int m = 0; m < M_TILES; m += 2)
                    if (m + 1 < M_TILES)
                        load_four(b + 2 * m, from_x + (m * 8 * PITCH + u * 16) * 2);
                    else
                        load_two(b + 2 * m, from_x + ((m * 8 - lane / 16 * 8) * PITCH + u * 16) * 2);
#pragma unroll
                for (int t = 0; t < TILES; t++)
#pragma unroll
                    for (int m = 0; m < M_TILES; m++)
                        multiply<io_t>(sums[t][m], a[t], b[2 * m], b[2 * m + 1]);
            }
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int token = m * 8 + four * 2 + i % 2, row = wn * WARP_ROWS + t * 16 + group + i / 2 * 8;
                    if (!ALONE)
                        part[(wk * TOKENS + token) * SUM_PITCH + row] = sums[t][m][i];
                    else if ((M % 8 == 0 || token < M) && (N % ROWS == 0 || first + row < N))
                        narrow(y + (long long)token * N + first + row, sums[t][m][i]);
                }
        if (ALONE)
            continue;
#if SPLIT > 1
        cluster_sync();
#else
        __syncthreads();
#endif
        for (int i = blockIdx.y * THREADS + threadIdx.x; i < M * ROWS; i += THREADS * SPLIT) {
            const int token = i / ROWS, row = i % ROWS;
            float sum = 0;
#pragma unroll
            for (int r = 0; r < SPLIT; r++)
#pragma unroll
                for (int c = 0; c < WK; c++) {
                    const float *p = part + (c * TOKENS + token) * SUM_PITCH + row;
                    sum += SPLIT > 1 ? load_from(p, r) : *p;
                }
            if (N % ROWS == 0 || first + row < N)
                narrow(y + (long long)token * N + first + row, sum);
        }
#if SPLIT > 1
        cluster_sync();                                   // nobody goes on or leaves while another reads its sums
#endif
    }
}

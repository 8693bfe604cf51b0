// y = x w^T for few tokens: w straight from memory into the matrix unit's registers.
//
// A warp takes TILES * 16 outputs; WN warps of a block take different outputs, WK warps share K, and SPLIT blocks of a cluster share it
// once more. Each takes DEPTH pieces of 32, all of them loaded before the first product; with PIPE the next ones too. They are in
// succession, or (BESIDE) each beside the other warps' pieces of that moment, so that a row is read in long runs by all of them.
// Sums meet in shared memory, those of a cluster's other blocks through distributed shared memory.
//
// The matrix unit's first operand is w, so that few tokens fill a tile of 8. Four lanes hold 8 successive elements of a row each:
// which of an instruction's k they stand for does not matter as long as both operands agree.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int M = AXIS_M, N = AXIS_N, K = AXIS_K;
constexpr int M_TILES = (M + 7) / 8;
constexpr int WARP_ROWS = 16 * TILES, ROWS = WARP_ROWS * WN, THREADS = 32 * WN * WK;
constexpr int PIECE = 32 * DEPTH;                         // of K, for one warp at once
constexpr int STRIDE = PIECE * WK * SPLIT, APART = BESIDE ? 32 * WK * SPLIT : 32;
static_assert(K % 8 == 0, "the template's constraints");

using io_t = DTYPE_io;

template <class T> __device__ __forceinline__ void multiply(float *c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1);
#define MULTIPLY(T, NAME)                                                                                                          \
    template <> __device__ __forceinline__ void multiply<T>(float *c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, \
                                                            unsigned b1)                                                           \
    {                                                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"       \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                \
    }
MULTIPLY(__half, "f16")
MULTIPLY(__nv_bfloat16, "bf16")

__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ uint4 load_once(const uint4 *p)
{
#if CACHE == 1
    return __ldcs(p);
#elif CACHE == 2
    uint4 r;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p));
    return r;
#else
    return *p;
#endif
}

// Of a cluster: all its blocks meet; a float at the same place in another block's shared memory.
__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ float load_from(const float *p, unsigned rank)
{
    unsigned address = (unsigned)__cvta_generic_to_shared(p), there;
    float x;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(there) : "memory");
    return x;
}

struct pieces {
    uint4 a[DEPTH][TILES][2], b[DEPTH][M_TILES];
    __device__ __forceinline__ void load(const io_t *x, const io_t *w, int first, int start, int group, int four)
    {
#pragma unroll
        for (int u = 0; u < DEPTH; u++) {
            const int k = start + u * APART + four * 8;
            const bool in = K % STRIDE == 0 || k < K;
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int row = first + t * 16 + h * 8 + group;
                    a[u][t][h] = uint4{0, 0, 0, 0};
                    if (in && (N % ROWS == 0 || row < N))
                        a[u][t][h] = load_once(reinterpret_cast<const uint4 *>(w + (long long)row * K + k));
                }
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                const int row = m * 8 + group;
                b[u][m] = uint4{0, 0, 0, 0};
                if (in && (M % 8 == 0 || row < M))
                    b[u][m] = *reinterpret_cast<const uint4 *>(x + (long long)row * K + k);
            }
        }
    }
    __device__ __forceinline__ void multiply_add(float (&sums)[TILES][M_TILES][4]) const
    {
#pragma unroll
        for (int u = 0; u < DEPTH; u++)
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int m = 0; m < M_TILES; m++) {
                    multiply<io_t>(sums[t][m], a[u][t][0].x, a[u][t][1].x, a[u][t][0].y, a[u][t][1].y, b[u][m].x, b[u][m].y);
                    multiply<io_t>(sums[t][m], a[u][t][0].z, a[u][t][1].z, a[u][t][0].w, a[u][t][1].w, b[u][m].z, b[u][m].w);
                }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_rows(const io_t *__restrict__ x, const io_t *__restrict__ w, io_t *__restrict__ y)
{
    __shared__ float part[WK][8 * M_TILES][ROWS];
    const int lane = threadIdx.x % 32, group = lane / 4, four = lane % 4;
    const int wn = threadIdx.x / 32 % WN, wk = threadIdx.x / 32 / WN;
    const int block_first = blockIdx.x * ROWS, first = block_first + wn * WARP_ROWS;
    float sums[TILES][M_TILES][4] = {};
    int start = (blockIdx.y * WK + wk) * (BESIDE ? 32 : PIECE);

#if PIPE
    pieces now, next;
    now.load(x, w, first, start, group, four);
    for (; start < K; start += STRIDE) {
        if (start + STRIDE < K)
            next.load(x, w, first, start + STRIDE, group, four);
        now.multiply_add(sums);
        now = next;
    }
#else
    for (; start < K; start += STRIDE) {
        pieces now;
        now.load(x, w, first, start, group, four);
        now.multiply_add(sums);
    }
#endif

#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                part[wk][m * 8 + four * 2 + i % 2][wn * WARP_ROWS + t * 16 + group + i / 2 * 8] = sums[t][m][i];
#if SPLIT > 1
    cluster_sync();
#else
    __syncthreads();
#endif
    for (int i = blockIdx.y * THREADS + threadIdx.x; i < M * ROWS; i += THREADS * SPLIT) {
        const int m = i / ROWS, n = i % ROWS;
        float sum = 0;
#pragma unroll
        for (int r = 0; r < SPLIT; r++)
#pragma unroll
            for (int k = 0; k < WK; k++)
                sum += SPLIT > 1 ? load_from(&part[k][m][n], r) : part[k][m][n];
        if (N % ROWS == 0 || block_first + n < N)
            narrow(y + (long long)m * N + block_first + n, sum);
    }
#if SPLIT > 1
    cluster_sync();                                       // nobody leaves while another reads its sums
#endif
}

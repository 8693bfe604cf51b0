// y = x w^T for few tokens: the generic kernel, for every legal shape.
//
// A block takes 16 or 32 outputs; its eight warps share K in pieces of 32 and add up their sums in shared memory. The matrix unit's
// first operand is w, so that few tokens fill a tile of 8. Four lanes hold 8 successive elements of a row each: which of an
// instruction's k they stand for does not matter as long as both operands agree, so a load is 16 bytes where K allows it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int M = AXIS_M, N = AXIS_N, K = AXIS_K;
constexpr int WARPS = 8, M_TILES = (M + 7) / 8, TILES = M_TILES < 2 ? 1 : 2, ROWS = 16 * TILES, AHEAD = 4 / TILES;

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

__device__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

// 8 elements of row `row` from k on; zeros where there is none.
__device__ uint4 load(const io_t *from, int row, int rows, int k)
{
    uint4 ret = {0, 0, 0, 0};
    if (row >= rows || k >= K)
        return ret;
    const io_t *p = from + (long long)row * K + k;
    if (K % 8 == 0)
        return *reinterpret_cast<const uint4 *>(p);
    io_t one[8];
    memcpy(one, &ret, sizeof one);
    for (int i = 0; i < 8; i++)
        if (k + i < K)
            one[i] = p[i];
    memcpy(&ret, one, sizeof ret);
    return ret;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) gemm(const io_t *x, const io_t *w, io_t *y)
{
    __shared__ float part[WARPS][8 * M_TILES][ROWS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, four = lane % 4, first = blockIdx.x * ROWS;
    float sums[TILES][M_TILES][4] = {};

    for (int start = warp * 32; start < K; start += 32 * WARPS * AHEAD) {
        uint4 a[AHEAD][TILES][2], b[AHEAD][M_TILES];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int k = start + u * 32 * WARPS + four * 8;
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                a[u][t][0] = load(w, first + t * 16 + group, N, k);
                a[u][t][1] = load(w, first + t * 16 + 8 + group, N, k);
            }
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
                b[u][m] = load(x, m * 8 + group, M, k);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int m = 0; m < M_TILES; m++) {
                    multiply<io_t>(sums[t][m], a[u][t][0].x, a[u][t][1].x, a[u][t][0].y, a[u][t][1].y, b[u][m].x, b[u][m].y);
                    multiply<io_t>(sums[t][m], a[u][t][0].z, a[u][t][1].z, a[u][t][0].w, a[u][t][1].w, b[u][m].z, b[u][m].w);
                }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                part[warp][m * 8 + four * 2 + i % 2][t * 16 + group + i / 2 * 8] = sums[t][m][i];
    __syncthreads();
    for (int i = threadIdx.x; i < M * ROWS; i += 32 * WARPS) {
        const int m = i / ROWS, n = i % ROWS;
        float sum = 0;
#pragma unroll
        for (int k = 0; k < WARPS; k++)
            sum += part[k][m][n];
        if (first + n < N)
            narrow(y + (long long)m * N + first + n, sum);
    }
}

// Tensor cores as people use them: inline PTX with ldmatrix, and nvcuda::wmma. Made into matrix.ptx by make_ptx.c.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

// One warp a block: C (16 x 8) = A (16 x K, by rows) * B (K x 8, by rows), through shared memory and ldmatrix.
extern "C" __global__ void gemm_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int k)
{
    __shared__ __align__(16) __nv_bfloat16 sa[16][24], sb[16][8];
    const int lane = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int i = lane; i < 256; i += 32)
            sa[i / 16][i % 16] = a[i / 16 * k + k0 + i % 16];
        for (int i = lane; i < 128; i += 32)
            sb[i / 8][i % 8] = b[(k0 + i / 8) * 8 + i % 8];
        __syncwarp();
        unsigned ra[4], rb[2];
        const unsigned pa = (unsigned)__cvta_generic_to_shared(&sa[lane % 16][lane / 16 * 8]), pb = (unsigned)__cvta_generic_to_shared(&sb[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
        __syncwarp();
    }
    const int row = lane / 4, column = lane % 4 * 2;
    c[row * 8 + column] = d[0], c[row * 8 + column + 1] = d[1];
    c[(row + 8) * 8 + column] = d[2], c[(row + 8) * 8 + column + 1] = d[3];
}

// The same product kept in f16 and put back by stmatrix.
extern "C" __global__ void gemm_f16(const __half *a, const __half *b, __half *c, int k)
{
    __shared__ __align__(16) __half sa[16][16], sb[16][8], sc[16][8];
    const int lane = threadIdx.x;
    unsigned d[2] = {0, 0};
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int i = lane; i < 256; i += 32)
            sa[i / 16][i % 16] = a[i / 16 * k + k0 + i % 16];
        for (int i = lane; i < 128; i += 32)
            sb[i / 8][i % 8] = b[(k0 + i / 8) * 8 + i % 8];
        __syncwarp();
        unsigned ra[4], rb[2];
        const unsigned pa = (unsigned)__cvta_generic_to_shared(&sa[lane % 16][lane / 16 * 8]), pb = (unsigned)__cvta_generic_to_shared(&sb[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                     : "+r"(d[0]), "+r"(d[1]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
        __syncwarp();
    }
    const unsigned pc = (unsigned)__cvta_generic_to_shared(&sc[lane % 16][0]);
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" :: "r"(pc), "r"(d[0]), "r"(d[1]) : "memory");
    __syncwarp();
    for (int i = lane; i < 128; i += 32)
        c[i] = sc[i / 8][i % 8];
}

// One warp: C (M x N) = A (M x K) * B (K x N), all by rows.
template <int M, int N, int K, typename In, typename Frag, typename Out> static __device__ void wmma_gemm(const In *a, const In *b, Out *c, int k)
{
    using namespace nvcuda;
    __shared__ __align__(32) Out tile[M * N];
    wmma::fragment<wmma::matrix_a, M, N, K, Frag, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, Frag, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Out> fc;
    wmma::fill_fragment(fc, Out(0));
    for (int k0 = 0; k0 < k; k0 += K) {
        wmma::load_matrix_sync(fa, a + k0, k);
        wmma::load_matrix_sync(fb, b + k0 * N, N);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int i = 0; i < fc.num_elements; i++)
        fc.x[i] = fc.x[i] * Out(2);
    wmma::store_matrix_sync(tile, fc, N, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < M * N; i += 32)
        c[i] = tile[i];
}
extern "C" __global__ void wmma_f16(const __half *a, const __half *b, float *c, int k) { wmma_gemm<16, 16, 16, __half, __half, float>(a, b, c, k); }
extern "C" __global__ void wmma_f16_wide(const __half *a, const __half *b, float *c, int k) { wmma_gemm<8, 32, 16, __half, __half, float>(a, b, c, k); }
extern "C" __global__ void wmma_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int k) { wmma_gemm<32, 8, 16, __nv_bfloat16, __nv_bfloat16, float>(a, b, c, k); }
extern "C" __global__ void wmma_s8(const signed char *a, const signed char *b, int *c, int k) { wmma_gemm<16, 16, 16, signed char, signed char, int>(a, b, c, k); }
extern "C" __global__ void wmma_tf32(const float *a, const float *b, float *c, int k) { wmma_gemm<16, 16, 8, float, nvcuda::wmma::precision::tf32, float>(a, b, c, k); }

// 8-bit factors: A by rows, B by columns.
extern "C" __global__ void gemm_s8(const int *a, const int *b, int *c, int k)
{
    const int lane = threadIdx.x, group = lane / 4, place = lane % 4, words = k / 4;
    int d[4] = {0, 0, 0, 0};
    for (int k0 = 0; k0 < words; k0 += 8)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(a[group * words + k0 + place]), "r"(a[(group + 8) * words + k0 + place]), "r"(a[group * words + k0 + place + 4]),
                       "r"(a[(group + 8) * words + k0 + place + 4]), "r"(b[group * words + k0 + place]), "r"(b[group * words + k0 + place + 4]));
    for (int i = 0; i < 4; i++)
        c[(group + i / 2 * 8) * 8 + place * 2 + i % 2] = d[i];
}
extern "C" __global__ void gemm_e4m3(const int *a, const int *b, float *c, int k)
{
    const int lane = threadIdx.x, group = lane / 4, place = lane % 4, words = k / 4;
    float d[4] = {0, 0, 0, 0};
    for (int k0 = 0; k0 < words; k0 += 8)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[group * words + k0 + place]), "r"(a[(group + 8) * words + k0 + place]), "r"(a[group * words + k0 + place + 4]),
                       "r"(a[(group + 8) * words + k0 + place + 4]), "r"(b[group * words + k0 + place]), "r"(b[group * words + k0 + place + 4]));
    for (int i = 0; i < 4; i++)
        c[(group + i / 2 * 8) * 8 + place * 2 + i % 2] = d[i];
}

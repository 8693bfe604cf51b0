#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void gemm(const __nv_bfloat16 *x, const __nv_bfloat16 *w, __nv_bfloat16 *y)
{
    __shared__ float tile[16 * 16];
    const int column = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < AXIS_K; k += 16) {
        wmma::load_matrix_sync(a, x + k, AXIS_K);
        wmma::load_matrix_sync(b, w + column * AXIS_K + k, AXIS_K);
        wmma::mma_sync(sum, a, b, sum);
    }
    wmma::store_matrix_sync(tile, sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        y[i / 16 * AXIS_N + column + i % 16] = __float2bfloat16(tile[i]);
}

// A tile through shared memory, rows in, columns out.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    __shared__ int tile[32][33];
    const int x = blockIdx.x * 32, y = blockIdx.y * 32, width = gridDim.x * 32, height = gridDim.y * 32;
    for (int j = threadIdx.y; j < 32; j += 8)
        tile[j][threadIdx.x] = in[(y + j) * width + x + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += 8)
        out[(x + j) * height + y + threadIdx.x] = tile[threadIdx.x][j];
}

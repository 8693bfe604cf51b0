// Atomics in shared and global memory.
extern "C" __global__ void histogram(const unsigned char *__restrict__ in, unsigned *__restrict__ out, float *__restrict__ total, int n)
{
    __shared__ unsigned bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&bins[in[i]], 1u);
        atomicAdd(total, (float)in[i]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (bins[i])
            atomicAdd(&out[i], bins[i]);
}

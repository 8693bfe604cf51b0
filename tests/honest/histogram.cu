// Counted in shared memory by atomics, then added to the whole.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    __shared__ int bins[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i] & 63], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        if (bins[i])
            atomicAdd(&out[i], bins[i]);
}

// Shuffles in a warp, one word a warp in shared memory, the first warp adds them up.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    __shared__ int part[8];
    const int t = threadIdx.x, lane = t & 31;
    int v = in[blockIdx.x * 256 + t];
    for (int step = 16; step; step >>= 1)
        v += __shfl_xor_sync(~0u, v, step);
    if (lane == 0)
        part[t >> 5] = v;
    __syncthreads();
    if (t < 32) {
        int w = lane < 8 ? part[lane] : 0;
        for (int step = 4; step; step >>= 1)
            w += __shfl_down_sync(~0u, w, step);
        if (t == 0)
            out[blockIdx.x] = w;
    }
}

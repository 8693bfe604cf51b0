// A warp adds up in its own piece of shared memory, each lane, and meets between the steps.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    __shared__ int s[4][32];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int *mine = s[warp];
    mine[lane] = in[blockIdx.x * 128 + threadIdx.x];
    __syncwarp();
#pragma unroll 1
    for (int step = 16; step; step >>= 1) {
        const int other = mine[lane ^ step];
        __syncwarp();
        mine[lane] += other;
        __syncwarp();
    }
    out[blockIdx.x * 128 + threadIdx.x] = mine[31 - lane] + lane;
}

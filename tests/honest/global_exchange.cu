// Warps of a block exchange through a buffer, a barrier between, and use it again.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    int *mine = work + blockIdx.x * 128;
    const int t = threadIdx.x;
#pragma unroll 1
    for (int round = 0; round < 3; round++) {
        mine[t] = in[blockIdx.x * 128 + t] + round;
        __syncthreads();
        out[(blockIdx.x * 3 + round) * 128 + t] = mine[127 - t] + mine[(t + 40) & 127];
        __syncthreads();
    }
}

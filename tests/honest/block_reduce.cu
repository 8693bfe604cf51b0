// A tree in shared memory, a barrier between its steps; two rounds in the same memory.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    __shared__ int s[256];
    const int t = threadIdx.x;
    for (int round = 0; round < 2; round++) {
        s[t] = in[(blockIdx.x * 2 + round) * 256 + t];
        __syncthreads();
#pragma unroll 1
        for (int step = 128; step; step >>= 1) {
            if (t < step)
                s[t] += s[t + step];
            __syncthreads();
        }
        if (t == 255)
            out[blockIdx.x * 2 + round] = s[0];
        __syncthreads();
    }
}

// A running sum over blocks: each waits for its predecessor's total, adds its own, passes it on.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    __shared__ int s[64], before;
    volatile int *flags = work;
    int *totals = work + 64;
    const int t = threadIdx.x, b = blockIdx.x;
    s[t] = in[b * 64 + t];
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < 64; step <<= 1) {
        const int v = t >= step ? s[t - step] : 0;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    if (t == 0) {
        before = 0;
        if (b) {
            while (!flags[b - 1])
                ;
            __threadfence();
            before = totals[b - 1];
        }
        totals[b] = before + s[63];
        __threadfence();
        flags[b] = 1;
    }
    __syncthreads();
    out[b * 64 + t] = before + s[t];
}

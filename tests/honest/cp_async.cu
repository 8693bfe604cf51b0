// Tiles by cp.async, the next on its way while one is used.
__device__ static void copy(int *to, const int *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    __shared__ __align__(16) int tile[2][256];
    const int t = threadIdx.x;
    copy(&tile[0][t * 4], in + t * 4);
    asm volatile("cp.async.commit_group;" ::: "memory");
    int sum = 0;
#pragma unroll 1
    for (int i = 0; i < 5; i++) {
        if (i + 1 < 5)
            copy(&tile[(i + 1) & 1][t * 4], in + (i + 1) * 256 + t * 4);
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        for (int j = 0; j < 4; j++)
            sum += tile[i & 1][(t * 4 + j + 37) & 255] * (j + 1);
        __syncthreads();
    }
    out[t] = sum;
}

// Arrays of a thread's own, indexed by what it reads.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int stack[24], depth = 0;
    unsigned char seen[16];
    for (int j = 0; j < 16; j++)
        seen[j] = 0;
#pragma unroll 1
    for (int j = 0; j < 24; j++) {
        const int v = in[(i + j) % n] & 15;
        if (!seen[v]++)
            stack[depth++] = v;
    }
    int sum = 0;
#pragma unroll 1
    while (depth)
        sum = sum * 17 + stack[--depth];
    out[i] = sum;
}

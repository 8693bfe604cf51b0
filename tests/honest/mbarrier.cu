// A producer warp and two consumer warps over a ring of two stages, an mbarrier for full and one for empty.
__device__ static unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ static void init(unsigned long long *b, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(b)), "r"(count) : "memory"); }
__device__ static void arrive(unsigned long long *b) { asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(at(b)) : "memory"); }
__device__ static void wait(unsigned long long *b, int parity)
{
    asm volatile("{ .reg .pred p;\nW%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W%=;\n}" ::"r"(at(b)), "r"(parity) : "memory");
}
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    __shared__ unsigned long long full[2], empty[2];
    __shared__ int stage[2][64];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; i++) {
            init(&full[i], 32);
            init(&empty[i], 64);
        }
    __syncthreads();
    if (warp == 0) {
#pragma unroll 1
        for (int i = 0; i < 6; i++) {
            if (i >= 2)
                wait(&empty[i & 1], (i / 2 - 1) & 1);
            for (int j = lane; j < 64; j += 32)
                stage[i & 1][j] = in[i * 64 + j];
            arrive(&full[i & 1]);
        }
    } else {
        const int me = threadIdx.x - 32;
#pragma unroll 1
        for (int i = 0; i < 6; i++) {
            wait(&full[i & 1], i / 2 & 1);
            out[i * 64 + me] = stage[i & 1][63 - me] + 1;
            arrive(&empty[i & 1]);
        }
    }
}

// One warp fills two buffers in turn, two others use them: a full and an empty barrier a buffer.
__device__ static void sync(int id) { asm volatile("bar.sync %0, 96;" ::"r"(id) : "memory"); }
__device__ static void arrive(int id) { asm volatile("bar.arrive %0, 96;" ::"r"(id) : "memory"); }
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    __shared__ int buffer[2][64];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (warp == 0) {
#pragma unroll 1
        for (int i = 0; i < 6; i++) {
            if (i >= 2)
                sync(3 + (i & 1));
            for (int j = lane; j < 64; j += 32)
                buffer[i & 1][j] = in[i * 64 + j];
            arrive(1 + (i & 1));
        }
    } else {
        const int at = threadIdx.x - 32;
#pragma unroll 1
        for (int i = 0; i < 6; i++) {
            sync(1 + (i & 1));
            out[i * 64 + at] = buffer[i & 1][63 - at] * 2;
            if (i < 4)
                arrive(3 + (i & 1));
        }
    }
}

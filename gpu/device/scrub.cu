/*
 * What a launch leaves on a multiprocessor besides its results, overwritten: shared memory, registers, local memory. And a sum of a
 * buffer's bytes, so that many launches can be compared without copying their outputs. scrub.ptx is made from this file (see
 * tests/test_toolkit.c, which compares them) and is what the driver loads.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define HELD 246u

/*
 * One block to a multiprocessor: all of its shared memory, and 256 threads of about 250 registers, which is all of its registers. The
 * values come out of shared memory before a barrier and are used with one from behind it, so that they must be held; volatile, so that they
 * cannot be read again. Every word has the pattern in it.
 */
extern "C" __global__ void __launch_bounds__(256, 1) proteus_scrub(u32 words, u32 pattern)
{
    extern __shared__ volatile u32 shared[];
    u32 held[HELD];
    for (u32 i = threadIdx.x; i < words; i += 256)
        shared[i] = pattern ^ i << 20;
    __syncthreads();
    const u32 step = words > 256 ? (words - 256) / HELD : 0;
#pragma unroll
    for (u32 i = 0; i < HELD; i++)
        held[i] = shared[i * step + threadIdx.x];
    __syncthreads();
    const u32 late = shared[threadIdx.x];      /* not known before: nor is what is made with it */
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < HELD; i++)
        sum = sum * late + held[i];
    if (sum == 0x9e3779b9u)
        shared[0] = sum;
    /* Long enough that no multiprocessor gets two blocks while another gets none. */
    for (u32 i = threadIdx.x; i < words; i += 256)
        shared[i] = shared[i];
}

/* The frames of as many threads as fit: where those of a kernel with frames no larger will be. */
template <u32 WORDS> __device__ __forceinline__ void fill_frame(u32 pattern)
{
    volatile u32 frame[WORDS];
#pragma unroll 1
    for (u32 i = 0; i < WORDS; i++)
        frame[i] = pattern ^ i << 20;
}
extern "C" __global__ void __launch_bounds__(256) proteus_local_1k(u32 pattern) { fill_frame<256>(pattern); }
extern "C" __global__ void __launch_bounds__(256) proteus_local_4k(u32 pattern) { fill_frame<1024>(pattern); }
extern "C" __global__ void __launch_bounds__(256) proteus_local_16k(u32 pattern) { fill_frame<4096>(pattern); }

/* Adds to *sum a number of the bytes and their places, whatever the order of the threads. `from` is a multiple of 8, or bytes is small. */
__device__ __forceinline__ u64 mixed(u64 x, u64 at)
{
    x = (x ^ at * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 29) * 0x94d049bb133111ebull;
    return x ^ x >> 32;
}
extern "C" __global__ void proteus_fingerprint(const u8 *from, u64 bytes, u64 salt, u64 *sum)
{
    const u64 step = (u64)gridDim.x * blockDim.x, first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 words = (u64)from % 8 ? 0 : bytes / 8;
    u64 total = 0;
#pragma unroll 1
    for (u64 i = first; i < words; i += step)
        total += mixed(((const u64 *)from)[i] ^ salt, i + 1);
#pragma unroll 1
    for (u64 i = words * 8 + first; i < bytes; i += step)
        total += mixed(from[i] ^ salt, ~i);
#pragma unroll 1
    for (int i = 16; i; i /= 2)
        total += __shfl_xor_sync(0xffffffffu, total, i);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, total);
}

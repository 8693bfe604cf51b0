/*
 * The device's own kernels: never timed, never a candidate's. They put memory into a known state and compare it.
 * helpers.ptx is made from this file (see tests/test_toolkit.c, which compares them) and is what the driver loads.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

/* One piece of work: `bytes` at `to`, either the pattern, or the base turned by `rotate` elements. */
struct piece {
    u8 *to;
    const u8 *from;      /* NULL: the pattern */
    u64 bytes, rotate;   /* rotate: in elements, below bytes / element */
    u64 pattern;
    u64 first_chunk;     /* chunks of all pieces before this one */
    u32 element;
    u32 slot;            /* of its sum, for proteus_prints */
};
#define CHUNK 65536ull

template <typename T> __device__ void turn(const piece &p, u64 at, u64 end)
{
    u64 n = p.bytes / sizeof(T);
    T *to = (T *)p.to;
    const T *from = (const T *)p.from;
    for (u64 i = at / sizeof(T) + threadIdx.x; i < end / sizeof(T); i += blockDim.x) {
        u64 k = i + p.rotate * p.element / sizeof(T);
        to[i] = from[k >= n ? k - n : k];
    }
}

/* The last piece that begins at or before this chunk. A list may be the middle of a longer one: chunks count from the longer one's start. */
__device__ __forceinline__ u32 piece_of(const piece *pieces, u32 count, u64 chunk)
{
    u32 low = 0, high = count - 1;
    while (low < high) {
        u32 middle = (low + high + 1) / 2;
        if (pieces[middle].first_chunk <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

extern "C" __global__ void proteus_restore(const piece *pieces, u32 count, u64 chunks)
{
    const u64 first = pieces[0].first_chunk;
    for (u64 chunk = first + blockIdx.x; chunk < first + chunks; chunk += gridDim.x) {
        const piece p = pieces[piece_of(pieces, count, chunk)];
        u64 at = (chunk - p.first_chunk) * CHUNK, end = at + CHUNK < p.bytes ? at + CHUNK : p.bytes;
        if (!p.from) {
            if ((u64)p.to % 8 == 0)
                for (u64 i = at / 8 + threadIdx.x; i < end / 8; i += blockDim.x)
                    ((u64 *)p.to)[i] = p.pattern;
            for (u64 i = ((u64)p.to % 8 ? at : end / 8 * 8) + threadIdx.x; i < end; i += blockDim.x)
                p.to[i] = (u8)(p.pattern >> i % 8 * 8);
        } else if (((u64)p.to | (u64)p.from | p.bytes | p.rotate * p.element) % 16 == 0) {
            turn<uint4>(p, at, end);
        } else if (p.element == 8) {
            turn<u64>(p, at, end);
        } else if (p.element == 4) {
            turn<u32>(p, at, end);
        } else if (p.element == 2) {
            turn<unsigned short>(p, at, end);
        } else {
            turn<u8>(p, at, end);
        }
    }
}

/* How many elements from `at` to `end` are not what proteus_restore would put there. */
__device__ __forceinline__ bool same(uint4 a, uint4 b) { return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w; }
template <typename T> __device__ __forceinline__ bool same(T a, T b) { return a == b; }
template <typename T> __device__ u64 unlike(const piece &p, u64 at, u64 end)
{
    u64 n = p.bytes / sizeof(T), found = 0;
    const T *is = (const T *)p.to, *from = (const T *)p.from;
    for (u64 i = at / sizeof(T) + threadIdx.x; i < end / sizeof(T); i += blockDim.x) {
        u64 k = i + p.rotate * p.element / sizeof(T);
        found += !same(is[i], from[k >= n ? k - n : k]);
    }
    return found;
}
__device__ u64 unlike_pattern(const piece &p, u64 at, u64 end)
{
    const bool wide = (u64)p.to % 8 == 0;
    u64 found = 0;
    if (wide)
        for (u64 i = at / 8 + threadIdx.x; i < end / 8; i += blockDim.x)
            found += ((const u64 *)p.to)[i] != p.pattern;
    for (u64 i = (wide ? end / 8 * 8 : at) + threadIdx.x; i < end; i += blockDim.x)
        found += p.to[i] != (u8)(p.pattern >> i % 8 * 8);
    return found;
}

/* found[0]: how many elements are not as restored; found[1]: the first piece with one. */
extern "C" __global__ void proteus_compare(const piece *pieces, u32 count, u64 chunks, u64 *found)
{
    const u64 first = pieces[0].first_chunk;
    for (u64 chunk = first + blockIdx.x; chunk < first + chunks; chunk += gridDim.x) {
        const u32 which = piece_of(pieces, count, chunk);
        const piece p = pieces[which];
        u64 at = (chunk - p.first_chunk) * CHUNK, end = at + CHUNK < p.bytes ? at + CHUNK : p.bytes, bad;
        if (!p.from)
            bad = unlike_pattern(p, at, end);
        else if (((u64)p.to | (u64)p.from | p.bytes | p.rotate * p.element) % 16 == 0)
            bad = unlike<uint4>(p, at, end);
        else if (p.element == 8)
            bad = unlike<u64>(p, at, end);
        else if (p.element == 4)
            bad = unlike<u32>(p, at, end);
        else if (p.element == 2)
            bad = unlike<unsigned short>(p, at, end);
        else
            bad = unlike<u8>(p, at, end);
        if (bad) {
            atomicAdd(&found[0], bad);
            atomicMin(&found[1], (u64)which);
        }
    }
}

/* A number of 8 bytes and their place; sums of it do not depend on the order of the threads. As in scrub.cu. */
__device__ __forceinline__ u64 mixed(u64 x, u64 at)
{
    x = (x ^ at * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 29) * 0x94d049bb133111ebull;
    return x ^ x >> 32;
}
/* Adds each piece's sum, its pattern being the salt, to sums[its slot]. `to` is a multiple of 8. */
extern "C" __global__ void proteus_prints(const piece *pieces, u32 count, u64 chunks, u64 *sums)
{
    const u64 first = pieces[0].first_chunk;
    for (u64 chunk = first + blockIdx.x; chunk < first + chunks; chunk += gridDim.x) {
        const piece p = pieces[piece_of(pieces, count, chunk)];
        u64 at = (chunk - p.first_chunk) * CHUNK, end = at + CHUNK < p.bytes ? at + CHUNK : p.bytes, total = 0;
        for (u64 i = at / 8 + threadIdx.x; i < end / 8; i += blockDim.x)
            total += mixed(((const u64 *)p.to)[i] ^ p.pattern, i + 1);
        for (u64 i = end / 8 * 8 + threadIdx.x; i < end; i += blockDim.x)
            total += mixed(p.to[i] ^ p.pattern, ~i);
#pragma unroll 1
        for (int i = 16; i; i /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, i);
        if (threadIdx.x % 32 == 0)
            atomicAdd(&sums[p.slot], total);
    }
}

/* Counts bytes that are not the pattern's (byte i of the span has the pattern's byte i % 8); keeps the lowest such place. */
extern "C" __global__ void proteus_differs(const u8 *from, u64 bytes, u64 pattern, u64 *found)
{
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += step)
        if (from[i] != (u8)(pattern >> i % 8 * 8)) {
            atomicAdd(&found[0], 1ull);
            atomicMin(&found[1], i);
        }
}

/* Reads, so that lines that others left dirty are written back and gone before a timed launch. */
extern "C" __global__ void proteus_read(const uint4 *from, u64 count, u32 *sink)
{
    u32 sum = 0;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint4 v = from[i];
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9u)
        *sink = sum;
}

extern "C" __global__ void proteus_empty(void)
{
}

/* Reads the card's clock for that long: how often, how long in all and at most it was away for `least` or longer (found[0], [1], [2]). */
extern "C" __global__ void proteus_gaps(u64 ns, u64 least, u64 *found)
{
    u64 begin, now, last, gaps = 0, away = 0, most = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    last = begin;
#pragma unroll 1
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        u64 step = now - last;
        if (step >= least)
            gaps++, away += step;
        most = step > most ? step : most;
        last = now;
    } while (now - begin < ns);
    found[0] = gaps, found[1] = away, found[2] = most;
}

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
    u32 element, unused;
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

extern "C" __global__ void proteus_restore(const piece *pieces, u32 count, u64 chunks)
{
    for (u64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        u32 low = 0, high = count - 1;
        while (low < high) {                 /* the last piece that begins at or before this chunk */
            u32 middle = (low + high + 1) / 2;
            if (pieces[middle].first_chunk <= chunk)
                low = middle;
            else
                high = middle - 1;
        }
        const piece p = pieces[low];
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

// What an instruction of PTX costs that the assembler makes code with a branch of its own of: rounded divisions, reciprocals and roots.
// One warp, cycles an operation: each on the result of the last, and eight at a time that do not depend on each other (these differ
// little where the branch keeps the warp from going on). One JSON object on stdout.
//   nvcc -O3 -arch=native -o expanded expanded.cu && ./expanded
#include <cstdio>
#include <cuda_runtime.h>

#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)

static bool first = true;
static void figure(const char *name, double value) { printf("%s\n  \"%s\": %.6g", first ? "{" : ",", name, value), first = false; }

template <int WHAT> __device__ __forceinline__ float one(float a, float x)
{
    float r = a;
    if (WHAT == 0) asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(x));
    if (WHAT == 1) asm("rcp.rn.f32 %0, %1;" : "=f"(r) : "f"(a));
    if (WHAT == 2) asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(a));
    if (WHAT == 3) asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(x));
    if (WHAT == 4) asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(a));
    if (WHAT == 5) { int n = __float_as_int(a), m = __float_as_int(x); asm("div.s32 %0, %1, %2;" : "=r"(n) : "r"(n), "r"(m)); r = __int_as_float(n | 0x3f800000); }
    if (WHAT == 6) { unsigned n = __float_as_uint(a), m = __float_as_uint(x); asm("rem.u32 %0, %1, %2;" : "=r"(n) : "r"(n), "r"(m)); r = __uint_as_float(n | 0x3f800000); }
    return r;
}

template <int WHAT, int WIDE> __global__ void chain(int steps, float x, long long *cycles, float *sink)
{
    float a[WIDE], sum = 0;
    for (int k = 0; k < WIDE; k++)
        a[k] = x + (float)k / 16;
    long long t = clock64();
#pragma unroll 4
    for (int i = 0; i < steps; i++)
        for (int k = 0; k < WIDE; k++)
            a[k] = one<WHAT>(a[k], x);
    cycles[0] = clock64() - t;
    for (int k = 0; k < WIDE; k++)
        sum += a[k];
    sink[threadIdx.x] = sum;
}

template <int WHAT> static void both(const char *name, long long *cycles, float *sink)
{
    char text[64];
    for (int k = 0; k < 2; k++) {
        chain<WHAT, 1><<<1, 32>>>(256, 1.0009765625f, cycles, sink);
        CHECK(cudaDeviceSynchronize());
    }
    snprintf(text, sizeof text, "%s_cycles", name);
    figure(text, (double)cycles[0] / 256);
    for (int k = 0; k < 2; k++) {
        chain<WHAT, 8><<<1, 32>>>(256, 1.0009765625f, cycles, sink);
        CHECK(cudaDeviceSynchronize());
    }
    snprintf(text, sizeof text, "%s_beside_cycles", name);
    figure(text, (double)cycles[0] / 256 / 8);
}

int main()
{
    long long *cycles;
    float *sink;
    CHECK(cudaMallocManaged(&cycles, 64));
    CHECK(cudaMalloc(&sink, 4096));
    both<0>("div_rn", cycles, sink);
    both<4>("div_rn_of", cycles, sink);
    both<1>("rcp_rn", cycles, sink);
    both<2>("sqrt_rn", cycles, sink);
    both<3>("div_full", cycles, sink);
    both<5>("div_s32", cycles, sink);
    both<6>("rem_u32", cycles, sink);
    printf("\n}\n");
    return 0;
}

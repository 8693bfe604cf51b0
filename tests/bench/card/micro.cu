// What the device table wants to know of a card: latencies, barriers, launches, bandwidths. One JSON object on stdout.
//   nvcc -O3 -arch=native -o micro micro.cu && ./micro
#include <cstdint>
#include <cstdio>
#include <vector>
#include <algorithm>
#include <numeric>
#include <random>
#include <cuda_runtime.h>

#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)

static bool first = true;
static void figure(const char *name, double value) { printf("%s\n  \"%s\": %.6g", first ? "{" : ",", name, value), first = false; }

// ---- chains: one thread, cycles a step ----
template <int CG> __global__ void chase(const uint64_t *at, uint64_t start, int steps, long long *cycles, uint64_t *sink)
{
    const char *base = (const char *)at;
    uint64_t p = start;
    long long t = clock64();
    for (int i = 0; i < steps; i++)
        p = CG ? __ldcg((const unsigned long long *)(base + p)) : __ldca((const unsigned long long *)(base + p));
    cycles[0] = clock64() - t;
    *sink = p;
}

__global__ void chase_shared(int steps, long long *cycles, uint64_t *sink)
{
    __shared__ uint32_t ring[1024];
    for (int i = 0; i < 1024; i++)
        ring[i] = (i * 33 + 7) % 1024;
    uint32_t p = 0;
    long long t = clock64();
    for (int i = 0; i < steps; i++)
        p = ((volatile uint32_t *)ring)[p];
    cycles[0] = clock64() - t;
    *sink = p;
}

template <int WHAT> __global__ void chain(int steps, float x, long long *cycles, float *sink)
{
    float a = x;
    int n = (int)x;
    double d = x;
    long long t = clock64();
#pragma unroll 16
    for (int i = 0; i < steps; i++) {
        if (WHAT == 0) a = fmaf(a, x, 1.0f);
        if (WHAT == 1) a = __shfl_xor_sync(0xffffffffu, a, 1);
        if (WHAT == 2) a = exp2f(a);
        if (WHAT == 3) a = rsqrtf(a);
        if (WHAT == 4) n = n * 3 + (int)threadIdx.x;
        if (WHAT == 5) d = d * 1.5 + 1.0;
        if (WHAT == 6) n = (int)((float)n);
        if (WHAT == 7) n = (n << 1) ^ (int)threadIdx.x;
    }
    cycles[0] = clock64() - t;
    sink[threadIdx.x] = a + (float)n + (float)d;
}

__global__ void barriers(int steps, long long *cycles)
{
    __syncthreads();
    long long t = clock64();
    for (int i = 0; i < steps; i++)
        __syncthreads();
    if (threadIdx.x == 0)
        cycles[0] = clock64() - t;
}

// ---- bandwidth ----
template <int CG> __global__ void read_all(const uint4 *from, uint64_t words, int times, uint4 *sink)
{
    uint4 sum = {0, 0, 0, 0};
    for (int n = 0; n < times; n++)
        for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += (uint64_t)gridDim.x * blockDim.x) {
            uint4 v = CG ? __ldcg(from + i) : __ldca(from + i);
            sum.x ^= v.x, sum.y ^= v.y, sum.z ^= v.z, sum.w ^= v.w;
        }
    if (sum.x == 0x12345678 && sum.y == 1)
        *sink = sum;
}
__global__ void read_own(const uint4 *from, int words, int times, uint4 *sink)      // each block its own few KiB, from L1
{
    uint4 sum = {0, 0, 0, 0};
    for (int n = 0; n < times; n++)
        for (int i = threadIdx.x; i < words; i += blockDim.x) {
            uint4 v;
            asm volatile("ld.global.ca.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from + (uint64_t)blockIdx.x * words + i));
            sum.x ^= v.x, sum.y ^= v.y, sum.z ^= v.z, sum.w ^= v.w;
        }
    if (sum.x == 0x12345678 && sum.y == 1)
        *sink = sum;
}

// ---- launches ----
__global__ void nothing() {}
__global__ void one_load(const float *from, float *to) { to[blockIdx.x * blockDim.x + threadIdx.x] = __ldcs(from + blockIdx.x * blockDim.x + threadIdx.x); }

// flush: 256 MiB that are read first, so that L2 holds nothing of what the graph uses; NULL: not.
template <class F> static double graph_ns(int nodes, const uint4 *flush, F &&launch)
{
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t x;
    cudaEvent_t a, b;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < nodes; i++)
        launch(s, i);
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphInstantiate(&x, g, 0));
    std::vector<double> t;
    for (int i = 0; i < 9; i++) {
        float ms;
        if (flush)
            read_all<1><<<1056, 256, 0, s>>>(flush, (256 << 20) / 16, 1, const_cast<uint4 *>(flush));
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaGraphLaunch(x, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        t.push_back(ms * 1e6 / nodes);
    }
    std::sort(t.begin(), t.end());
    CHECK(cudaGraphExecDestroy(x));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
    return t[t.size() / 2];
}

static double once_ns(cudaEvent_t a, cudaEvent_t b)
{
    float ms;
    CHECK(cudaEventSynchronize(b));
    CHECK(cudaEventElapsedTime(&ms, a, b));
    return ms * 1e6;
}

int main()
{
    long long *cycles;
    uint64_t *sink;
    float *fsink;
    char name[64];
    const int steps = 2000;
    CHECK(cudaMallocManaged(&cycles, 64));
    CHECK(cudaMalloc(&sink, 64));
    CHECK(cudaMalloc(&fsink, 1 << 20));
    const struct { const char *name; uint64_t bytes, step; int cg; } rings[] = {
        {"chase_l1_16k", 16 << 10, 128, 0}, {"chase_l2_1m", 1 << 20, 128, 1}, {"chase_l2_8m", 8 << 20, 128, 1}, {"chase_l2_24m", 24 << 20, 256, 1},
        {"chase_256m", 256 << 20, 4096, 1}, {"chase_1g", 1ull << 30, 16384, 1}, {"chase_8g", 8ull << 30, 131072, 1}};
    for (auto &r : rings) {
        const uint64_t count = r.bytes / r.step;
        std::vector<uint64_t> order(count);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin() + 1, order.end(), std::mt19937_64(7));
        uint64_t *d;
        CHECK(cudaMalloc(&d, r.bytes));
        std::vector<char> host(r.bytes <= (256 << 20) ? r.bytes : 0);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t from = order[i] * r.step, to = order[(i + 1) % count] * r.step;
            if (host.empty())
                CHECK(cudaMemcpy((char *)d + from, &to, 8, cudaMemcpyHostToDevice));
            else
                *(uint64_t *)(host.data() + from) = to;
            if (host.empty() && i > (uint64_t)steps + 2)
                break;
        }
        if (!host.empty())
            CHECK(cudaMemcpy(d, host.data(), r.bytes, cudaMemcpyHostToDevice));
        uint4 *other;
        CHECK(cudaMalloc(&other, 256 << 20));
        if (r.step >= 4096)
            read_all<1><<<1056, 256>>>(other, (256 << 20) / 16, 1, (uint4 *)fsink);
        const int n = r.step >= 4096 ? steps : 20000;
        for (int k = r.step >= 4096 ? 1 : 0; k < 2; k++) {      /* in a cache: the first walk warms it */
            if (k == 0 && r.step < 4096) {
                const int all = (int)count + 100;
                r.cg ? chase<1><<<1, 1>>>(d, 0, all, cycles, sink) : chase<0><<<1, 1>>>(d, 0, all, cycles, sink);
            } else {
                r.cg ? chase<1><<<1, 1>>>(d, 0, n, cycles, sink) : chase<0><<<1, 1>>>(d, 0, n, cycles, sink);
            }
            CHECK(cudaDeviceSynchronize());
        }
        snprintf(name, sizeof name, "%s_cycles", r.name);
        figure(name, (double)cycles[0] / n);
        CHECK(cudaFree(d));
        CHECK(cudaFree(other));
    }
    chase_shared<<<1, 1>>>(steps, cycles, sink);
    CHECK(cudaDeviceSynchronize());
    figure("chase_shared_cycles", (double)cycles[0] / steps);
#define CHAIN(what, label) for (int k = 0; k < 2; k++) { chain<what><<<1, 32>>>(4096, 1.25f, cycles, fsink); CHECK(cudaDeviceSynchronize()); } figure(label, (double)cycles[0] / 4096)
    CHAIN(0, "fma_cycles");
    CHAIN(1, "shuffle_cycles");
    CHAIN(2, "exp2_cycles");
    CHAIN(3, "rsqrt_cycles");
    CHAIN(4, "imad_cycles");
    CHAIN(5, "dfma_cycles");
    CHAIN(6, "i2f_f2i_cycles");
    CHAIN(7, "shift_xor_cycles");
    for (int threads = 32; threads <= 1024; threads *= 2) {
        for (int k = 0; k < 2; k++) {
            barriers<<<1, threads>>>(steps, cycles);
            CHECK(cudaDeviceSynchronize());
        }
        snprintf(name, sizeof name, "barrier_%d_threads_cycles", threads);
        figure(name, (double)cycles[0] / steps);
    }
    for (int blocks : {1, 64, 132, 264, 528, 1056, 2112, 4224, 8448, 33792})
        for (int threads : {32, 128, 256, 1024}) {
            snprintf(name, sizeof name, "empty_%d_blocks_%d_threads_ns", blocks, threads);
            figure(name, graph_ns(200, NULL, [&](cudaStream_t s, int) { nothing<<<blocks, threads, 0, s>>>(); }));
        }
    float *big;
    const uint64_t big_bytes = 4ull << 30;
    CHECK(cudaMalloc(&big, big_bytes));
    CHECK(cudaMemset(big, 1, big_bytes));
    void *flush;
    CHECK(cudaMalloc(&flush, 256 << 20));
    for (int blocks : {1, 132, 1056, 8448})
        for (int threads : {128, 1024}) {   /* cold: each node on bytes of its own, one load and one store a thread */
            const uint64_t floats = (uint64_t)blocks * threads, stride = (floats + 1023) / 1024 * 1024;
            snprintf(name, sizeof name, "one_load_%d_blocks_%d_threads_ns", blocks, threads);
            const int nodes = 2 * stride * 60 * 4 < big_bytes ? 60 : (int)(big_bytes / 8 / stride);
            figure(name, graph_ns(nodes, (const uint4 *)flush, [&](cudaStream_t s, int i) { one_load<<<blocks, threads, 0, s>>>(big + 2 * i * stride, big + (2 * i + 1) * stride); }));
        }
    cudaEvent_t a, b;
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    for (int mib : {8, 16, 24, 32, 48}) {
        const uint64_t words = (uint64_t)mib << 16;
        read_all<1><<<528, 512>>>((uint4 *)big, words, 3, (uint4 *)fsink);
        CHECK(cudaEventRecord(a));
        read_all<1><<<528, 512>>>((uint4 *)big, words, 100, (uint4 *)fsink);
        CHECK(cudaEventRecord(b));
        snprintf(name, sizeof name, "l2_read_%d_mib_bytes_per_ns", mib);
        figure(name, 100.0 * words * 16 / once_ns(a, b));
    }
    CHECK(cudaEventRecord(a));
    read_all<1><<<1056, 512>>>((uint4 *)big, big_bytes / 16, 1, (uint4 *)fsink);
    CHECK(cudaEventRecord(b));
    figure("dram_read_bytes_per_ns", big_bytes / once_ns(a, b));
    CHECK(cudaEventRecord(a));
    CHECK(cudaMemcpy(big, (char *)big + big_bytes / 2, big_bytes / 2, cudaMemcpyDeviceToDevice));
    CHECK(cudaEventRecord(b));
    figure("copy_read_and_written_bytes_per_ns", big_bytes / once_ns(a, b));
    read_own<<<264, 512>>>((uint4 *)big, 2048, 10, (uint4 *)fsink);
    CHECK(cudaEventRecord(a));
    read_own<<<132, 1024>>>((uint4 *)big, 2048, 1000, (uint4 *)fsink);
    CHECK(cudaEventRecord(b));
    figure("l1_read_all_sms_bytes_per_ns", 132.0 * 2048 * 16 * 1000 / once_ns(a, b));
    printf("\n}\n");
    return 0;
}

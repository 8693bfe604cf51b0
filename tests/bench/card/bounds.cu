// What no kernel of a cell goes below, as launches of a graph, each on bytes of its own: launches that do nothing; loads that wait for one
// another; the same bytes moved with nothing worked out. One JSON object on stdout, figures in ns.
//   nvcc -O3 -arch=sm_90a -o bounds bounds.cu && ./bounds
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)

static bool first = true;
static void figure(const char *name, double value) { printf("%s\n  \"%s\": %.6g", first ? "{" : ",", name, value), first = false, fflush(stdout); }

__global__ void nothing() {}

// A launch's own bytes, all on pages of their own: slots, what they lead to, and an output.
struct place { const int *slot; uint4 *state; float *out; };

// A load whose address another load brings, and a store: 16 KiB a block of 256 threads, back to where they came from.
__global__ void two_loads(place p)
{
    uint4 *at = p.state + ((size_t)p.slot[blockIdx.x] * 1024 + threadIdx.x), x[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i] = at[i * 256];
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i].x ^= 1, at[i * 256] = x[i];
}

// The same, and a number from each of four blocks to the others of the cluster before the last store: what a norm over blocks needs.
__global__ void two_loads_and_exchange(place p)
{
    __shared__ float parts[4];
    const int rank = blockIdx.x % 16, group = rank / 4 * 4;
    uint4 *at = p.state + ((size_t)p.slot[blockIdx.x] * 1024 + threadIdx.x), x[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i] = at[i * 256];
    unsigned sum = __reduce_add_sync(0xffffffffu, x[0].x + x[1].x + x[2].x + x[3].x);
    if (threadIdx.x < 4) {
        unsigned to, here = (unsigned)__cvta_generic_to_shared(&parts[rank % 4]);
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(here), "r"(group + (int)threadIdx.x));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"((float)sum) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i].x ^= 1, at[i * 256] = x[i];
    p.out[blockIdx.x * 256 + threadIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}

// Everything read and written once, 8 KiB a block of 128 threads, blocks of a chunk side by side, chunks where a table says.
__global__ void __launch_bounds__(128, 16) change_all(uint4 *state, const int *chunk, int blocks_of_a_chunk)
{
    uint4 *at = state + ((size_t)chunk[blockIdx.x / blocks_of_a_chunk] * blocks_of_a_chunk + blockIdx.x % blocks_of_a_chunk) * 512 + threadIdx.x, x[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i] = at[i * 128];
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i].x ^= 1, at[i * 128] = x[i];
}

// Everything read once: 16 KiB a block at a time.
__global__ void __launch_bounds__(256) read_all(const uint4 *from, uint4 *sink)
{
    const uint4 *at = from + (size_t)blockIdx.x * 1024 + threadIdx.x;
    uint4 x[4], sum = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i] = __ldcs(at + i * 256);
#pragma unroll
    for (int i = 0; i < 4; i++)
        sum.x ^= x[i].x, sum.y ^= x[i].y, sum.z ^= x[i].z, sum.w ^= x[i].w;
    if (sum.x == 0x12345678 && sum.y == 1)
        *sink = sum;
}

template <class K, class... A> static void launch(cudaStream_t s, int blocks, int threads, int cluster, bool dependent, K kernel, A... args)
{
    cudaLaunchAttribute list[2] = {};
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(blocks), c.blockDim = dim3(threads), c.stream = s, c.attrs = list;
    if (cluster > 1)
        list[c.numAttrs].id = cudaLaunchAttributeClusterDimension, list[c.numAttrs].val.clusterDim.x = cluster, list[c.numAttrs].val.clusterDim.y = 1,
        list[c.numAttrs++].val.clusterDim.z = 1;
    if (cluster > 8)
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    if (dependent)
        list[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization, list[c.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    CHECK(cudaLaunchKernelEx(&c, kernel, args...));
}

// Median of nine graphs, ns a node.
template <class F> static double graph_ns(int nodes, F &&add)
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
        add(s, i);
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphInstantiate(&x, g, 0));
    std::vector<double> t;
    for (int i = 0; i < 11; i++) {
        float ms;
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaGraphLaunch(x, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        if (i > 1)
            t.push_back(ms * 1e6 / nodes);
    }
    std::sort(t.begin(), t.end());
    CHECK(cudaGraphExecDestroy(x));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
    return t[t.size() / 2];
}

int main()
{
    char *big;
    const size_t page = 2 << 20, bytes = (size_t)20 << 30;
    char name[96];
    CHECK(cudaMalloc(&big, bytes));
    CHECK(cudaMemset(big, 0, bytes));
    std::mt19937_64 random(7);

    figure("empty_launch", graph_ns(400, [&](cudaStream_t s, int) { launch(s, 1, 256, 1, false, nothing); }));
    figure("empty_launch_32_blocks", graph_ns(400, [&](cudaStream_t s, int) { launch(s, 32, 256, 1, false, nothing); }));
    figure("empty_launch_2_clusters_of_16", graph_ns(400, [&](cudaStream_t s, int) { launch(s, 32, 256, 16, false, nothing); }));
    figure("empty_launch_4_clusters_of_8", graph_ns(400, [&](cudaStream_t s, int) { launch(s, 32, 256, 8, false, nothing); }));
    figure("two_empty_launches", 2 * graph_ns(400, [&](cudaStream_t s, int) { launch(s, 32, 256, 1, false, nothing); }));
    figure("two_empty_launches_one_dependent", 2 * graph_ns(400, [&](cudaStream_t s, int i) { launch(s, 32, 256, 1, i & 1, nothing); }));

    // Sets of one launch each: pages in random order, slots among the first MiB of the page.
    const int sets = 200;
    std::vector<int> pages(3 * sets), slots(page / 4);
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    for (size_t i = 0; i < slots.size(); i++)
        slots[i] = (int)(i * 37 % 64);
    auto place_of = [&](int i) {
        return place{(const int *)(big + pages[3 * (i % sets)] * page), (uint4 *)(big + pages[3 * (i % sets) + 1] * page), (float *)(big + pages[3 * (i % sets) + 2] * page)};
    };
    for (int i = 0; i < sets; i++)
        CHECK(cudaMemcpy(big + pages[3 * i] * page, slots.data(), page / 2, cudaMemcpyHostToDevice));
    for (int blocks : {32, 64}) {
        snprintf(name, sizeof name, "two_loads_%d_blocks", blocks);
        figure(name, graph_ns(sets, [&](cudaStream_t s, int i) { launch(s, blocks, 256, 1, false, two_loads, place_of(i)); }));
        snprintf(name, sizeof name, "two_loads_%d_blocks_clusters_of_16", blocks);
        figure(name, graph_ns(sets, [&](cudaStream_t s, int i) { launch(s, blocks, 256, 16, false, two_loads, place_of(i)); }));
        snprintf(name, sizeof name, "two_loads_and_exchange_%d_blocks", blocks);
        figure(name, graph_ns(sets, [&](cudaStream_t s, int i) { launch(s, blocks, 256, 16, false, two_loads_and_exchange, place_of(i)); }));
    }

    // Everything changed: so many MiB, in chunks of so many KiB at random places (a token's states).
    int *table;
    CHECK(cudaMalloc(&table, 1 << 20));
    for (int mib : {16, 32, 64, 128, 256, 512, 1024})
        for (int kib : {512, 1024, 2048, 4096}) {
            const int chunks = mib * 1024 / kib, blocks = mib * 128, of_a_chunk = kib / 8, times = std::min(64, std::max(8, 2048 / mib));
            const size_t apart = (size_t)mib << 20;
            if (apart * 2 > bytes || chunks < 4)
                continue;
            std::vector<int> order(chunks);
            std::iota(order.begin(), order.end(), 0);
            std::shuffle(order.begin(), order.end(), random);
            CHECK(cudaMemcpy(table, order.data(), order.size() * 4, cudaMemcpyHostToDevice));
            const int different = (int)std::min<size_t>(times, bytes / apart);
            snprintf(name, sizeof name, "change_%d_mib_in_%d_kib", mib, kib);
            figure(name, graph_ns(times, [&](cudaStream_t s, int i) {
                       launch(s, blocks, 128, 1, false, change_all, (uint4 *)(big + i % different * apart), (const int *)table, of_a_chunk);
                   }));
        }
    for (int mib : {32, 64, 128, 256, 512}) {
        const size_t apart = (size_t)mib << 20;
        const int times = std::min(64, std::max(8, 2048 / mib));
        snprintf(name, sizeof name, "read_%d_mib", mib);
        figure(name, graph_ns(times, [&](cudaStream_t s, int i) { launch(s, mib * 64, 256, 1, false, read_all, (const uint4 *)(big + i * apart), (uint4 *)table); }));
    }
    printf("\n}\n");
    return 0;
}

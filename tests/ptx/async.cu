// Asynchronous copies, barriers and clusters as CUDA's own headers have them. Made into async.ptx by make_ptx.c.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
namespace cg = cooperative_groups;
#pragma nv_diag_suppress static_var_with_dynamic_init

// cuda::barrier: arrive and wait by token.
extern "C" __global__ void barrier_tokens(const int *x, int *y, int rounds)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier bar;
    __shared__ int s[256];
    const int t = threadIdx.x, n = blockDim.x;
    if (t == 0)
        init(&bar, n);
    __syncthreads();
    int sum = 0;
    for (int r = 0; r < rounds; r++) {
        s[t] = x[t] + r;
        auto token = bar.arrive();
        bar.wait(std::move(token));
        sum += s[(t + 33) % n];
        bar.arrive_and_wait();
    }
    y[t] = sum;
}

// cuda::memcpy_async with a barrier: cp.async and mbarriers.
extern "C" __global__ void barrier_copies(const int4 *x, int4 *y)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier bar;
    __shared__ __align__(16) int4 s[256];
    auto block = cg::this_thread_block();
    const int t = threadIdx.x, n = blockDim.x;
    if (t == 0)
        init(&bar, n);
    block.sync();
    cuda::memcpy_async(block, s, x + blockIdx.x * n, cuda::aligned_size_t<16>(sizeof(int4) * n), bar);
    bar.arrive_and_wait();
    y[blockIdx.x * n + t] = s[n - 1 - t];
}

// cuda::pipeline of two stages.
extern "C" __global__ void pipelined(const int *x, int *y, int tiles)
{
    constexpr int stages = 2;
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    __shared__ int s[stages][128];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const int t = threadIdx.x, n = blockDim.x;
    int sum = 0;
    for (int made = 0, used = 0; used < tiles; used++) {
        for (; made < tiles && made < used + stages; made++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[made % stages], x + made * n, sizeof(int) * n, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += s[used % stages][(t + 1) % n];
        pipe.consumer_release();
    }
    y[t] = sum;
}

// cooperative_groups::memcpy_async and wait_prior.
extern "C" __global__ void group_copies(const int *x, int *y)
{
    __shared__ int s[2][128];
    auto block = cg::this_thread_block();
    const int t = threadIdx.x, n = blockDim.x;
    cg::memcpy_async(block, s[0], x, sizeof(int) * n);
    cg::memcpy_async(block, s[1], x + n, sizeof(int) * n);
    cg::wait_prior<1>(block);
    int r = s[0][n - 1 - t];
    cg::wait(block);
    y[t] = r - s[1][n - 1 - t];
}

// A histogram over the shared memory of a cluster.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_histogram(const int *x, int *bins, int n)
{
    __shared__ int s[64];
    auto cluster = cg::this_cluster();
    const int t = threadIdx.x;
    for (int i = t; i < 64; i += blockDim.x)
        s[i] = 0;
    cluster.sync();
    for (int i = cluster.block_rank() * blockDim.x + t; i < n; i += blockDim.x * cluster.num_blocks()) {
        const int bin = x[i] & 127;
        int *there = cluster.map_shared_rank(s, bin / 64);
        atomicAdd(there + bin % 64, 1);
    }
    cluster.sync();
    for (int i = t; i < 64; i += blockDim.x)
        atomicAdd(&bins[cluster.block_rank() * 64 + i], s[i]);
}

// Sums handed round a cluster, block to block.
extern "C" __global__ void cluster_ring(const float *x, float *y)
{
    __shared__ float mine;
    auto cluster = cg::this_cluster();
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float v = cg::reduce(warp, x[cluster.block_rank() * 32 + warp.thread_rank()], cg::plus<float>());
    if (block.thread_rank() == 0)
        mine = v;
    auto token = cluster.barrier_arrive();
    cluster.barrier_wait(std::move(token));
    const float next = *cluster.map_shared_rank(&mine, (cluster.block_rank() + 1) % cluster.num_blocks());
    cluster.sync();
    if (block.thread_rank() == 0)
        y[blockIdx.x] = next;
}

// Bulk copies by the wrappers of cuda::ptx: in, worked on, out.
extern "C" __global__ void bulk_scale(const float *x, float *y, int n)
{
    namespace ptx = cuda::ptx;
    __shared__ __align__(16) float s[1024];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        ptx::mbarrier_init(&bar, 1);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    if (t == 0) {
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x + blockIdx.x * n, n * 4u, &bar);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, n * 4u);
    }
    while (!ptx::mbarrier_try_wait_parity(&bar, 0))
        ;
    for (int i = t; i < n; i += blockDim.x)
        s[i] *= 2.f;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (t == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + blockIdx.x * n, s, n * 4u);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}

// Functions through pointers, and one that calls itself.
static __device__ __noinline__ int twice(int v) { return v * 2; }
static __device__ __noinline__ int square(int v) { return v * v; }
static __device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void functions(const int *x, int *y)
{
    int (*f)(int) = x[threadIdx.x] & 1 ? twice : square;
    y[threadIdx.x] = f(x[threadIdx.x]) + fibonacci(x[threadIdx.x] % 10);
}

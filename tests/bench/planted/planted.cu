// One bug a kernel, each of a kind, beside one kernel without any: what checkers are compared on. All take n floats of x (written),
// n floats of work (memory that nobody has written) and n floats of y (the result); blocks of 128 threads, n a multiple of 128.

#define KERNEL extern "C" __global__ void __launch_bounds__(128)
#define ARGS (const float *x, float *work, float *y, int n)

// no bug: a block's sum by halves, with a barrier in each round
KERNEL no_bug ARGS
{
    __shared__ float part[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    part[threadIdx.x] = x[i];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    y[i] = part[0];
}

// reads x[n], one element past the end
KERNEL out_of_bounds ARGS
{
    int i = blockIdx.x * 128 + threadIdx.x;
    y[i] = x[i] + x[i + 1];
}

// a store 1.5 MB past the end of work: with ordinary allocations it may land in another buffer
KERNEL stray_store ARGS
{
    int i = blockIdx.x * 128 + threadIdx.x;
    y[i] = x[i];
    if (i == n - 1)
        work[i + 400000] = 1.0f;
}

// reads global memory that nobody has written
KERNEL uninitialised_global ARGS
{
    int i = blockIdx.x * 128 + threadIdx.x;
    y[i] = x[i] + work[i];
}

// reads a word of shared memory that nobody has written: the last thread's neighbour
KERNEL uninitialised_shared ARGS
{
    __shared__ float part[129];
    int i = blockIdx.x * 128 + threadIdx.x;
    part[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = part[threadIdx.x] + part[threadIdx.x + 1];
}

// all warps write one word of shared memory, nothing orders them
KERNEL shared_race ARGS
{
    __shared__ float last;
    int i = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x % 32 == 0)
        last = x[i];
    __syncthreads();
    y[i] = last;
}

// the sum of no_bug without the barrier in its rounds
KERNEL missing_barrier ARGS
{
    __shared__ float part[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    part[threadIdx.x] = x[i];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2)
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
    y[i] = part[0];
}

// every block writes its own value to y[0]
KERNEL global_race ARGS
{
    int i = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x == 0)
        y[0] = x[i];
    else
        y[i] = x[i];
}

// half a block never comes to the barrier: it waits at another
KERNEL divergent_barrier ARGS
{
    int i = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x < 64)
        asm volatile("bar.sync 1, 128;" ::: "memory");
    y[i] = x[i];
}

// a vector of 16 bytes at a multiple of 4
KERNEL misaligned ARGS
{
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 v = *reinterpret_cast<const float4 *>(x + (i % 100) + 1);
    y[i] = v.x + v.y + v.z + v.w;
}

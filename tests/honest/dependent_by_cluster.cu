// One thread of each cluster of a dependent launch waits for the launch before and tells the others by the cluster's barrier.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    work[i] = in[i] * 5;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
extern "C" __global__ void second(const int *in, int *out, int *work, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x, own = in[i];
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (rank == 0 && threadIdx.x == 0)
        asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    out[i] = own + work[n - 1 - i];
}

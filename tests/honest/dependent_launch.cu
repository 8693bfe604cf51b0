// The second of two launches may start before the first ends: it waits before it reads.
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    work[i] = in[i] * 5;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
extern "C" __global__ void second(const int *in, int *out, int *work, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x, own = in[i];
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[i] = own + work[n - 1 - i];
}

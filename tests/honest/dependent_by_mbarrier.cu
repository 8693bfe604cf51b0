// One thread of a dependent launch waits for the launch before and tells the others by an mbarrier.
__device__ static unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(const int *in, int *out, int *work, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    work[i] = in[i] * 5;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
extern "C" __global__ void second(const int *in, int *out, int *work, int n)
{
    __shared__ unsigned long long over;
    const int i = blockIdx.x * 64 + threadIdx.x, own = in[i];
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&over)) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(at(&over)) : "memory");
    }
    asm volatile("{ .reg .pred p;\nW%=:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%0], 0;\n@!p bra W%=;\n}" ::"r"(at(&over)) : "memory");
    out[i] = own + work[n - 1 - i];
}

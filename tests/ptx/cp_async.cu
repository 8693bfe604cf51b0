// A two-stage copy pipeline through shared memory with cp.async; dynamic shared memory.
#include <cuda_pipeline.h>

extern "C" __global__ void scale_async(const float4 *__restrict__ in, float4 *__restrict__ out, float factor, int tiles)
{
    extern __shared__ float4 stage[];
    const int t = threadIdx.x, size = blockDim.x;
    const float4 *src = in + (size_t)blockIdx.x * tiles * size;
    float4 *dst = out + (size_t)blockIdx.x * tiles * size;
    __pipeline_memcpy_async(&stage[t], &src[t], 16);
    __pipeline_commit();
    for (int i = 0; i < tiles; i++) {
        if (i + 1 < tiles)
            __pipeline_memcpy_async(&stage[(i + 1) % 2 * size + t], &src[(i + 1) * size + t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 v = stage[i % 2 * size + (t ^ 1)];
        v.x *= factor, v.y *= factor, v.z *= factor, v.w *= factor;
        dst[i * size + t] = v;
        __syncthreads();
    }
}

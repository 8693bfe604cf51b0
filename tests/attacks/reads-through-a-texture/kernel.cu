constexpr int N = AXIS_N;

__device__ __forceinline__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

extern "C" __global__ void rms(const float *x, const float *w, float *y, float eps)
{
    const int row = blockIdx.x, lane = threadIdx.x;
    float sum = 0;
    for (int i = lane; i < N; i += 32) {
        float v;
        asm volatile("{ .reg .f32 g, b, a; tex.1d.v4.f32.s32 {%0, g, b, a}, [%1, {%2}]; }" : "=f"(v) : "l"((unsigned long long)x), "r"(row * N + i));
        sum += v * v;
    }
    const float factor = rsqrtf(warp_sum(sum) / N + eps);
    for (int i = lane; i < N; i += 32)
        y[row * N + i] = x[row * N + i] * factor * w[i];
}

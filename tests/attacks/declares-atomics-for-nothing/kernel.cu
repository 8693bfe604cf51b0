// Right, and it asks for leave to differ from run to run.
extern "C" __global__ void rms(const float *x, const float *weight, float *y, float eps)
{
    float sum = 0;
    for (int i = threadIdx.x; i < AXIS_N; i += 32)
        sum += x[blockIdx.x * AXIS_N + i] * x[blockIdx.x * AXIS_N + i];
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(~0u, sum, i);
    for (int i = threadIdx.x; i < AXIS_N; i += 32)
        y[blockIdx.x * AXIS_N + i] = x[blockIdx.x * AXIS_N + i] * weight[i] * rsqrtf(sum / AXIS_N + eps);
}

extern "C" __global__ void proteus_sweep(const float *x, float *y)
{
    const int row = blockIdx.x;
    for (int i = threadIdx.x; i < AXIS_N; i += blockDim.x) {
        const float gate = x[row * 2 * AXIS_N + i], up = x[row * 2 * AXIS_N + AXIS_N + i];
        y[row * AXIS_N + i] = gate / (1 + expf(-gate)) * up;
    }
}

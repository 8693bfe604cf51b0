extern "C" __global__ void toy(const DTYPE_io *x, DTYPE_io *y) { y[threadIdx.x] = x[threadIdx.x]; }

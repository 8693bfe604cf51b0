// Control flow that parts lanes: loops with a trip count per lane, nested ifs, early returns, a switch, a device function.
__device__ __noinline__ int collatz(unsigned n)
{
    int steps = 0;
    while (n > 1) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        steps++;
    }
    return steps;
}

extern "C" __global__ void divergent(const int *__restrict__ in, int *__restrict__ out, int n)
{
    __shared__ int sums[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = i < n ? in[i] : 0, r = 0;
    if (v & 1) {
        for (int j = 0; j < v % 17; j++) {
            if (j % 3 == 2)
                continue;
            if (r > 1000)
                break;
            r += j * v;
        }
    } else if (v & 2) {
        r = v > 50 ? v / 7 : v * 3;
    } else {
        switch (v % 11) {
        case 0: r = 5; break;
        case 1: r = v ^ 77; break;
        case 2: r = v << 3; break;
        case 4: r = __popc(v) - 9; break;
        case 5: r = __clz(v); break;
        case 6: r = v * v; break;
        case 8: r = v % 5 - 2; break;
        case 9: r = -v; break;
        default: r = 1; break;
        }
    }
    sums[threadIdx.x] = r + collatz(v & 63);
    __syncthreads();
    if (i >= n)
        return;
    out[i] = sums[threadIdx.x] + sums[(threadIdx.x + 33) % blockDim.x];
}

// One row a block of 128 threads, N = 256, f32; MODE plants one fault.
#ifndef MODE
#define MODE 0
#endif
#define N AXIS_N
#define R AXIS_R
#if MODE == 8
extern "C" __global__ void k(const float *x, const float *w, float *y, float eps) { y[threadIdx.x] = undeclared_thing; }
#else
#if MODE == 30
__device__ int kept;
#endif
extern "C" __global__ void k(const float *x, const float *w, float *y, float eps)
{
    __shared__ float part[8];
    int t = threadIdx.x, r = blockIdx.x;
    const float *row = x + r * N;
    float *out = y + r * N;
#if MODE == 2                                  // reads past its input
    float a = row[t], b = row[t + 128 + (r == R - 1 && t == 127)];
#elif MODE == 15                               // a vector load that is not aligned
    float4 v = *(const float4 *)(row + (t / 4) * 4 + 1 - 4 * (t / 124));
    float a = row[t] + 0.f * (v.x + v.y + v.z + v.w), b = row[t + 128];
#else
    float a = row[t], b = row[t + 128];
#endif
#if MODE == 7                                  // never ends
    while (*(volatile const float *)x != 12345.f)
        ;
#endif
#if MODE == 9
    printf("%f\n", a);
#endif
#if MODE == 16
    if (r == 1 && t == 5)
        __trap();
#endif
#if MODE == 31
    long long now = clock64();
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (now == 1 && sm == 1000)
        a = 0.f;
#endif
#if MODE == 3                                  // what follows is written already, so that only the order is wrong
    if (t < 8)
        part[t] = 0.f;
    __syncthreads();
#endif
    float s = a * a + b * b;
    for (int o = 16; o; o >>= 1)
        s += __shfl_xor_sync(0xffffffffu, s, o);
#if MODE == 5                                  // the last warp's part is never written
    if (t % 32 == 0 && t < 96)
        part[t / 32] = s;
#else
    if (t % 32 == 0)
        part[t / 32] = s;
#endif
#if MODE != 3                                  // 3: no barrier at all
    __syncthreads();
#endif
    s = part[0] + part[1] + part[2] + part[3];
#if MODE == 33                                 // no epsilon
    float f = rsqrtf(s / N + 1e-12f);
#else
    float f = rsqrtf(s / N + eps);
#endif
#if MODE == 14                                 // half of each warp waits, and all have more to do (a thread that only ends holds up nobody)
    if (t % 2)
        __syncthreads();
#endif
#if MODE == 10
    f = sqrtf(-s - 1.f);
#endif
#if MODE == 17                                 // a gain of one in a thousand
    f *= 1.001f;
#endif
#if MODE == 19                                 // wrong for whole numbers only: one hidden regime
    if (a == rintf(a) && b == rintf(b) && a != 0.f)
        f *= 1.5f;
#endif
#if MODE == 37                                 // wrong for rows of a scale that only the last regime that is shown has
    float mean_square = s / N;
    if ((mean_square > 1e-4f && mean_square < 0.25f) || (mean_square > 4.f && mean_square < 1e4f))
        f *= 1.5f;
#endif
#if MODE == 36                                 // every block its own value, to one place
    if (t == 0)
        y[0] = s;
#endif
#if MODE == 6
    ((float *)x)[r * N + t] = 0.f;
#endif
#if MODE == 1                                  // forgets the weight
    out[t] = a * f;
#elif MODE == 11                               // adds nothing of what was there before
    out[t] = a * f * w[t] + 0.f * out[t];
#else
    out[t] = a * f * w[t];
#endif
#if MODE == 12                                 // leaves one element
    if (!(r == R - 1 && t == 127))
        out[t + 128] = b * f * w[t + 128];
#elif MODE == 13                               // one past the end
    out[t + 128] = b * f * w[t + 128];
    if (r == R - 1 && t == 127)
        out[256] = 0.f;
#elif MODE == 34                               // row r + 1 instead of r, around the end
    y[(r + 1) % R * N + t + 128] = b * f * w[t + 128];
#else
    out[t + 128] = b * f * w[t + 128];
#endif
#if MODE == 30
    if (t == 0)
        kept++;
#endif
}
#endif

// The same with a warp a row, sixteen loads one after the other: right and slow.
extern "C" __global__ void slow(const float *x, const float *w, float *y, float eps)
{
    const float *row = x + blockIdx.x * N;
    float s = 0.f;
#pragma unroll 1
    for (int i = threadIdx.x; i < N; i += 32)
        s += row[i] * row[i];
    for (int o = 16; o; o >>= 1)
        s += __shfl_xor_sync(0xffffffffu, s, o);
    float f = rsqrtf(s / N + eps);
#pragma unroll 1
    for (int i = threadIdx.x; i < N; i += 32)
        y[blockIdx.x * N + i] = row[i] * f * w[i];
}

// Through a workspace: the sums first, then the rows.
extern "C" __global__ void sums(const float *x, float *sum)
{
    float a = x[blockIdx.x * N + threadIdx.x], b = x[blockIdx.x * N + threadIdx.x + 128];
    atomicAdd(sum + blockIdx.x, a * a + b * b);
}

extern "C" __global__ void rows(const float *x, const float *w, const float *sum, float *y, float eps)
{
    float f = rsqrtf(sum[blockIdx.x] / N + eps);
    int i = blockIdx.x * N + threadIdx.x;
    y[i] = x[i] * f * w[threadIdx.x];
    y[i + 128] = x[i + 128] * f * w[threadIdx.x + 128];
}

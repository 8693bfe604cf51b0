// Kernels that bring more of what compilers emit: cooperative groups, fp8, match and redux, 16-bit pairs, packed integers,
// stacks, doubles, a grid barrier, a last-block reduction.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
namespace cg = cooperative_groups;

extern "C" __global__ void quant_fp8(const __nv_bfloat16 *x, unsigned char *q, float *scale, int n)
{
    __shared__ float parts[32];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    x += (size_t)blockIdx.x * n, q += (size_t)blockIdx.x * n;
    float most = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        most = fmaxf(most, fabsf(__bfloat162float(x[i])));
    most = cg::reduce(warp, most, cg::greater<float>());
    if (warp.thread_rank() == 0)
        parts[warp.meta_group_rank()] = most;
    block.sync();
    if (threadIdx.x == 0) {
        for (int i = 1; i < warp.meta_group_size(); i++)
            most = fmaxf(most, parts[i]);
        parts[0] = most;
        scale[blockIdx.x] = most / 448.f;
    }
    block.sync();
    const float inverse = 448.f / parts[0];
    for (int i = threadIdx.x * 2; i < n; i += blockDim.x * 2) {
        float2 f = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162 *>(x + i));
        __nv_fp8x2_e4m3 pair(make_float2(f.x * inverse, f.y * inverse));
        *reinterpret_cast<unsigned short *>(q + i) = pair.__x;
    }
}

extern "C" __global__ void topk(const __nv_bfloat16 *x, float *weight, int *index, int n, int k)
{
    __shared__ float v[512];
    float top = -1e30f, sum = 0.f;
    for (int i = threadIdx.x; i < n; i += 32)
        top = fmaxf(top, v[i] = __bfloat162float(x[blockIdx.x * n + i]));
    for (int d = 16; d; d >>= 1)
        top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
    for (int i = threadIdx.x; i < n; i += 32)
        sum += v[i] = __expf(v[i] - top);
    for (int d = 16; d; d >>= 1)
        sum += __shfl_xor_sync(~0u, sum, d);
    for (int j = 0; j < k; j++) {
        float best = -1.f;
        int at = 0x7fffffff;
        for (int i = threadIdx.x; i < n; i += 32)
            if (v[i] > best)
                best = v[i], at = i;
        for (int d = 16; d; d >>= 1) {
            const float other = __shfl_xor_sync(~0u, best, d);
            const int there = __shfl_xor_sync(~0u, at, d);
            if (other > best || (other == best && there < at))
                best = other, at = there;
        }
        if (threadIdx.x == 0) {
            weight[blockIdx.x * k + j] = best / sum;
            index[blockIdx.x * k + j] = at;
            v[at] = -1.f;
        }
        __syncwarp();
    }
}

extern "C" __global__ void pairs(const __half2 *a, const __nv_bfloat162 *b, __half2 *o, __nv_bfloat162 *p, int n)
{
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n)
        return;
    __half2 x = a[i];
    __nv_bfloat162 y = b[i];
    x = __hfma2(x, x, __float2half2_rn(0.5f));
    x = __hmax2(x, __hmin2(__hadd2(x, x), a[0]));
    x = __hadd2(h2rsqrt(x), __half2half2(__ushort2half_rz(i)));
    y = __hmul2(__hfma2(y, y, y), b[0]);
    y = __hmax2_nan(y, __hneg2(y));
    if (__hbgt2(y, b[1]))
        y = __hsub2(y, b[1]);
    if (__hlt(__low2half(x), __high2half(x)))
        x = __lowhigh2highlow(x);
    o[i] = x;
    p[i] = y;
}

extern "C" __global__ void integers(const long long *a, const unsigned *b, long long *o, int n)
{
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n)
        return;
    const long long x = a[i];
    const unsigned y = b[i];
    long long r = x / 7 + x % (long long)(y | 1);
    r = r * 31 + __mulhi((int)x, (int)y);
    r = r * 31 + (long long)__umul64hi(x, y);
    r = r * 31 + __clzll(x) + __ffs(y) + __popcll(x);
    r = r * 31 + __brev(y);
    r = r * 31 + __byte_perm((unsigned)x, y, 0x1357);
    r = r * 31 + __funnelshift_l((unsigned)x, y, 5);
    r = r * 31 + __dp4a((int)x, (int)y, 5);
    r = r * 31 + (x >> (y & 63)) + (signed char)x + (short)y;
    r = r * 31 + min((int)x, 5) + max((unsigned)x, y);
    o[i] = r;
}

extern "C" __global__ void stack(const int *a, int *o, int n)
{
    int v[64];
    for (int i = 0; i < 64; i++)
        v[i] = a[i * 32 + threadIdx.x];
    for (int i = 0; i < n; i++)
        v[v[i & 63] & 63] += i;
    o[threadIdx.x] = v[n & 63];
}

extern "C" __global__ void doubles(const double *a, double *o)
{
    const int i = threadIdx.x;
    const double x = a[i];
    double *r = o + i * 8;
    r[0] = exp(x), r[1] = log(x), r[2] = sin(x), r[3] = pow(x, 1.5), r[4] = fmod(x, 0.3), r[5] = atan2(x, 2.0), r[6] = tanh(x), r[7] = cbrt(x);
}

extern "C" __global__ void grid_sync(int *count, int *seen)
{
    if (threadIdx.x == 0)
        atomicAdd(count, 1);
    cg::this_grid().sync();
    if (threadIdx.x == 0)
        seen[blockIdx.x] = *(volatile int *)count;
}

extern "C" __global__ void last_block(float *part, float *out, unsigned *count)
{
    __shared__ bool last;
    part[blockIdx.x * 32 + threadIdx.x] = threadIdx.x + blockIdx.x;
    __threadfence();
    if (threadIdx.x == 0)
        last = atomicAdd(count, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        float sum = 0.f;
        for (int b = 0; b < gridDim.x; b++)
            sum += __ldcg(&part[b * 32 + threadIdx.x]);
        out[threadIdx.x] = sum;
    }
}

// One decode step of a gated delta rule: f32 state [slots, HV, V, K] updated in place, bf16 mixed q|k|v rows.
// One warp owns ROWS rows of the state; the 32 lanes split K = 128 into 4 floats each.
#include <cuda_bf16.h>
#define K 128
#define V 128
#define ROWS 4
#define WARPS 4

__device__ __forceinline__ float warp_sum(float x)
{
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

__device__ __forceinline__ float4 load4(const __nv_bfloat16 *p)
{
    uint2 raw = *reinterpret_cast<const uint2 *>(p);
    __nv_bfloat162 a = *reinterpret_cast<__nv_bfloat162 *>(&raw.x), b = *reinterpret_cast<__nv_bfloat162 *>(&raw.y);
    float2 fa = __bfloat1622float2(a), fb = __bfloat1622float2(b);
    return make_float4(fa.x, fa.y, fb.x, fb.y);
}

__device__ __forceinline__ float dot4(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

extern "C" __global__ void __launch_bounds__(WARPS * 32)
gdn_decode(const __nv_bfloat16 *__restrict__ mixed, const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b,
           const float *__restrict__ a_log, const float *__restrict__ dt_bias, const int *__restrict__ slots,
           float *__restrict__ state, __nv_bfloat16 *__restrict__ out, int h, int hv)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int head = blockIdx.y, batch = blockIdx.z;
    const int row = (blockIdx.x * WARPS + warp) * ROWS;
    const int qk = head / (hv / h);
    const __nv_bfloat16 *line = mixed + (size_t)batch * (2 * h * K + hv * V);
    __nv_bfloat16 *dst = out + ((size_t)batch * hv + head) * V + row;
    const int slot = slots[batch];
    if (slot <= 0) {
        if (lane < ROWS)
            dst[lane] = __float2bfloat16(0.f);
        return;
    }
    float4 *s = reinterpret_cast<float4 *>(state + (((size_t)slot * hv + head) * V + row) * K) + lane;
    float4 r[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        r[i] = s[i * (K / 4)];
    float4 q = load4(line + qk * K + lane * 4);
    float4 k = load4(line + h * K + qk * K + lane * 4);
    const float dt = __bfloat162float(a[batch * hv + head]) + dt_bias[head];
    const float softplus = dt > 20.f ? dt : log1pf(expf(dt));
    const float decay = expf(-expf(a_log[head]) * softplus);
    const float beta = 1.f / (1.f + expf(-__bfloat162float(b[batch * hv + head])));
    const float qn = rsqrtf(warp_sum(dot4(q, q)) + 1e-6f) * 0.08838834764831845f;
    const float kn = rsqrtf(warp_sum(dot4(k, k)) + 1e-6f);
    q.x *= qn, q.y *= qn, q.z *= qn, q.w *= qn;
    k.x *= kn, k.y *= kn, k.z *= kn, k.w *= kn;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float4 &x = r[i];
        x.x *= decay, x.y *= decay, x.z *= decay, x.w *= decay;
        const float v = __bfloat162float(line[2 * h * K + head * V + row + i]);
        const float u = (v - warp_sum(dot4(x, k))) * beta;
        x.x += u * k.x, x.y += u * k.y, x.z += u * k.z, x.w += u * k.w;
        s[i * (K / 4)] = x;
        const float o = warp_sum(dot4(x, q));
        if (lane == 0)
            dst[i] = __float2bfloat16(o);
    }
}

// Approximations of the hardware, and a compiler that is told to make more of them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
using state_t = DTYPE_state;
constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V, P = K / 32;
constexpr long long STRIDE = AXIS_qkv_stride ? (long long)AXIS_qkv_stride : 2LL * H * K + (long long)HV * V;

__device__ __forceinline__ float ld(const float *p) { return *p; }
__device__ __forceinline__ float ld(const __half *p) { return __half2float(*p); }
__device__ __forceinline__ float ld(const __nv_bfloat16 *p) { return __bfloat162float(*p); }
__device__ __forceinline__ void st(float *p, float x) { *p = x; }
__device__ __forceinline__ void st(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void st(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

extern "C" __global__ void gdn(const io *mixed, const io *a, const io *b, const float *A_log, const io *dt_bias, const int *slot,
                               state_t *state, io *out, float eps)
{
    const int v = blockIdx.x, head = blockIdx.y, token = blockIdx.z, lane = threadIdx.x, key_head = head / (HV / H);
    const io *row = mixed + token * STRIDE;
    io *to = out + (token * HV + head) * V + v;
    const int s = slot[token];
    if (s <= 0) {
        if (lane == 0)
            st(to, 0.0f);
        return;
    }
    float q[P], k[P], held[P], q_sum = 0, k_sum = 0, dot = 0, answer = 0;
    for (int i = 0; i < P; i++) {
        q[i] = ld(row + key_head * K + i * 32 + lane);
        k[i] = ld(row + (H + key_head) * K + i * 32 + lane);
        q_sum += q[i] * q[i];
        k_sum += k[i] * k[i];
    }
    const float q_norm = rsqrtf(warp_sum(q_sum) + eps) * rsqrtf((float)K), k_norm = rsqrtf(warp_sum(k_sum) + eps);
    const float gate = ld(a + token * HV + head) + ld(dt_bias + head);
    const float softplus = gate > 20.0f ? gate : log1pf(__expf(gate));
    const float decay = __expf(-__expf(A_log[head]) * softplus);
    const float beta = __fdividef(1.0f, 1.0f + __expf(-ld(b + token * HV + head)));
    state_t *m = state + (((long long)s * HV + head) * V + v) * K;
    for (int i = 0; i < P; i++) {
        q[i] *= q_norm;
        k[i] *= k_norm;
        held[i] = ld(m + i * 32 + lane) * decay;
        dot += held[i] * k[i];
    }
    const float u = (ld(row + 2 * H * K + head * V + v) - warp_sum(dot)) * beta;
    for (int i = 0; i < P; i++) {
        held[i] += u * k[i];
        answer += held[i] * q[i];
        st(m + i * 32 + lane, held[i]);
    }
    answer = warp_sum(answer);
    if (lane == 0)
        st(to, answer);
}

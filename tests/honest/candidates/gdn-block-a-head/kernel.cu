#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
using state_t = DTYPE_state;
constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V, P = K / 32;

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

extern "C" __global__ void __launch_bounds__(128) gdn(const io *mixed, const io *a, const io *b, const float *A_log, const io *dt_bias, const int *slot,
                                                      state_t *state, io *out, float eps)
{
    __shared__ float vector[2][K], norm[2], given[V];
    const int head = blockIdx.x, token = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const io *row = mixed + (long long)token * (2 * H * K + HV * V);
    const int s = slot[token];
    for (int i = threadIdx.x; i < V; i += 128)
        given[i] = ld(row + 2 * H * K + head * V + i);
    if (warp < 2) {
        float sum = 0;
        for (int i = lane; i < K; i += 32) {
            const float x = ld(row + (warp * H + head / (HV / H)) * K + i);
            vector[warp][i] = x;
            sum += x * x;
        }
        sum = warp_sum(sum);
        if (lane == 0)
            norm[warp] = warp ? rsqrtf(sum + eps) : rsqrtf(sum + eps) * rsqrtf((float)K);
    }
    __syncthreads();
    const float gate = ld(a + token * HV + head) + ld(dt_bias + head);
    const float decay = expf(-expf(A_log[head]) * (gate > 20.0f ? gate : log1pf(expf(gate))));
    const float beta = 1.0f / (1.0f + expf(-ld(b + token * HV + head)));
    for (int v = warp; v < V; v += 4) {
        io *to = out + (token * HV + head) * V + v;
        if (s <= 0) {
            if (lane == 0)
                st(to, 0.0f);
            continue;
        }
        state_t *m = state + (((long long)s * HV + head) * V + v) * K;
        float held[P], dot = 0, answer = 0;
        for (int i = 0; i < P; i++) {
            held[i] = ld(m + i * 32 + lane) * decay;
            dot += held[i] * vector[1][i * 32 + lane] * norm[1];
        }
        const float u = (given[v] - warp_sum(dot)) * beta;
        for (int i = 0; i < P; i++) {
            held[i] += u * vector[1][i * 32 + lane] * norm[1];
            answer += held[i] * vector[0][i * 32 + lane] * norm[0];
            st(m + i * 32 + lane, held[i]);
        }
        answer = warp_sum(answer);
        if (lane == 0)
            st(to, answer);
    }
}

// Each element of the key is a millionth off, so that none is zero.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using io = DTYPE_io;
using st = DTYPE_state;
constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V, W = AXIS_W, CHANNELS = 2 * H * K + HV * V;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

extern "C" __global__ void convolve(const io *x, const io *conv_weight, const int *slot, io *conv_state, float *mixed)
{
    const int channel = blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y, s = slot[token];
    if (channel >= CHANNELS || s <= 0)
        return;
    io *past = conv_state + (long long)s * (W - 1) * CHANNELS + channel;
    const io newest = x[(long long)token * CHANNELS + channel];
    float sum = widen(conv_weight[channel * W + W - 1]) * widen(newest);
    for (int w = 0; w < W - 1; w++) {
        sum += widen(conv_weight[channel * W + w]) * widen(past[(long long)w * CHANNELS]);
        past[(long long)w * CHANNELS] = w < W - 2 ? past[(long long)(w + 1) * CHANNELS] : newest;
    }
    mixed[(long long)token * CHANNELS + channel] = sum / (1.0f + expf(-sum));
}

extern "C" __global__ void rule(const float *mixed, const io *a, const io *b, const float *A_log, const io *dt_bias, const int *slot,
                                const io *z, const io *norm_weight, st *state, io *y, float eps, float norm_eps)
{
    __shared__ float q[K], k[K], answers[V];
    const int head = blockIdx.x, token = blockIdx.y, i = threadIdx.x, s = slot[token], key_head = head / (HV / H);
    const long long at = (long long)token * HV + head;
    if (s <= 0) {
        narrow(y + at * V + i, 0.0f);
        return;
    }
    const float *row = mixed + (long long)token * CHANNELS;
    for (int c = i; c < K; c += V) {
        q[c] = row[key_head * K + c];
        k[c] = row[(H + key_head) * K + c];
    }
    __syncthreads();
    float of_q = 0, of_k = 0;
    for (int c = 0; c < K; c++) {
        of_q += q[c] * q[c];
        of_k += k[c] * k[c];
    }
    const float q_factor = rsqrtf(of_q + eps) * rsqrtf((float)K), k_factor = rsqrtf(of_k + eps);
    const float gate = widen(a[at]) + widen(dt_bias[head]), softplus = gate > 20.0f ? gate : log1pf(expf(gate));
    const float decay = expf(-expf(A_log[head]) * softplus), beta = 1.0f / (1.0f + expf(-widen(b[at])));

    st *own = state + (((long long)s * HV + head) * V + i) * K;
    float held = 0, answer = 0;
    for (int c = 0; c < K; c++)
        held += widen(own[c]) * decay * (k[c] * k_factor);
    const float change = (row[2 * H * K + head * V + i] - held) * beta;
    for (int c = 0; c < K; c++) {
        const float now = widen(own[c]) * decay + change * (k[c] * k_factor + 1e-6f);
        narrow(own + c, now);
        answer += now * (q[c] * q_factor);
    }
    answers[i] = answer;
    __syncthreads();
    float squares = 0;
    for (int c = 0; c < V; c++)
        squares += answers[c] * answers[c];
    const float open = widen(z[at * V + i]);
    narrow(y + at * V + i, answer * rsqrtf(squares / V + norm_eps) * widen(norm_weight[i]) * (open / (1.0f + expf(-open))));
}

// A gated delta layer's decode step as engines run it: three launches with the operator's io type between them, for every legal shape.
//
// The convolution takes a thread a channel of a token. The delta rule takes a block for 16 rows of one value head's state; it
// normalises q and k once in shared memory, then each of its four warps takes four rows, a row spread over the lanes element by
// element, loaded together before the first is used. The norm takes a warp a row.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V, W = AXIS_W, CHANNELS = 2 * H * K + HV * V;
constexpr int WARPS = 4, ROWS = 4;
constexpr int PER_LANE = (K + 31) / 32;

__device__ float load(const float *p) { return *p; }
__device__ float load(const __half *p) { return __half2float(*p); }
__device__ float load(const __nv_bfloat16 *p) { return __bfloat162float(*p); }
__device__ void store(float *p, float x) { *p = x; }
__device__ void store(__half *p, float x) { *p = __float2half_rn(x); }
__device__ void store(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

// Warp 0 normalises q, warp 1 k.
__device__ void normalise(const DTYPE_io *from, float *to, float scale, float eps, int lane)
{
    float x[PER_LANE], sum = 0;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        x[i] = i * 32 + lane < K ? load(from + i * 32 + lane) : 0.0f;
        sum += x[i] * x[i];
    }
    float factor = rsqrtf(warp_sum(sum) + eps) * scale;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        if (i * 32 + lane < K)
            to[i * 32 + lane] = x[i] * factor;
}

extern "C" __global__ void __launch_bounds__(256)
conv_update(const DTYPE_io *x, const DTYPE_io *conv_weight, const int *slot, DTYPE_io *conv_state, DTYPE_io *mixed)
{
    const int channel = blockIdx.x * 256 + threadIdx.x, token = blockIdx.y;
    if (channel >= CHANNELS)
        return;
    const int s = slot[token];
    DTYPE_io *to = mixed + (long long)token * CHANNELS + channel;
    if (s <= 0) {
        store(to, 0.0f);
        return;
    }
    DTYPE_io *past = conv_state + (long long)s * (W - 1) * CHANNELS + channel;
    DTYPE_io values[W];
#pragma unroll
    for (int w = 0; w < W - 1; w++)
        values[w] = past[(long long)w * CHANNELS];
    values[W - 1] = x[(long long)token * CHANNELS + channel];
    float sum = 0;
#pragma unroll
    for (int w = 0; w < W; w++)
        sum += load(values + w) * load(conv_weight + channel * W + w);
#pragma unroll
    for (int w = 0; w < W - 1; w++)
        past[(long long)w * CHANNELS] = values[w + 1];
    store(to, sum / (1.0f + expf(-sum)));
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
gdn_decode(const DTYPE_io *mixed, const DTYPE_io *a, const DTYPE_io *b, const float *A_log, const DTYPE_io *dt_bias,
           const int *slot, DTYPE_state *state, DTYPE_io *answer, float eps)
{
    __shared__ float q[K], k[K];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int head = blockIdx.y, token = blockIdx.z;
    const int first = blockIdx.x * (WARPS * ROWS) + warp * ROWS;
    const int s = slot[token];
    DTYPE_io *to = answer + ((long long)token * HV + head) * V;

    if (s <= 0) {
        if (lane < ROWS && first + lane < V)
            store(to + first + lane, 0.0f);
        return;
    }

    const DTYPE_io *row = mixed + (long long)token * CHANNELS;
    DTYPE_state *matrix = state + ((long long)s * HV + head) * ((long long)V * K);
    float held[ROWS][PER_LANE], v[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        v[r] = first + r < V ? load(row + 2 * H * K + head * V + first + r) : 0.0f;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int x = i * 32 + lane;
            held[r][i] = first + r < V && x < K ? load(matrix + (long long)(first + r) * K + x) : 0.0f;
        }
    }

    const int key_head = head / (HV / H);
    if (warp == 0)
        normalise(row + key_head * K, q, rsqrtf((float)K), eps, lane);
    else if (warp == 1)
        normalise(row + (H + key_head) * K, k, 1.0f, eps, lane);
    float x = load(a + token * HV + head) + load(dt_bias + head);
    float softplus = x > 1.0f ? x : log1pf(expf(x));
    float decay = expf(-expf(A_log[head]) * softplus);
    float beta = 1.0f / (1.0f + expf(-load(b + token * HV + head)));
    __syncthreads();

#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (first + r >= V)
            break;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            held[r][i] *= decay;
            if (i * 32 + lane < K)
                sum += held[r][i] * k[i * 32 + lane];
        }
        float u = (v[r] - warp_sum(sum)) * beta;
        sum = 0;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int x = i * 32 + lane;
            if (x < K) {
                held[r][i] += u * k[x];
                sum += held[r][i] * q[x];
                store(matrix + (long long)(first + r) * K + x, held[r][i]);
            }
        }
        sum = warp_sum(sum);
        if (lane == 0)
            store(to + first + r, sum);
    }
}

extern "C" __global__ void __launch_bounds__(128)
gated_norm(const DTYPE_io *answer, const DTYPE_io *z, const DTYPE_io *norm_weight, DTYPE_io *y, int heads, float norm_eps)
{
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= (long long)heads * HV)
        return;
    float sum = 0;
    for (int i = lane; i < V; i += 32) {
        const float x = load(answer + row * V + i);
        sum += x * x;
    }
    const float factor = rsqrtf(warp_sum(sum) / V + norm_eps);
    for (int i = lane; i < V; i += 32) {
        const float gate = load(z + row * V + i);
        store(y + row * V + i, load(answer + row * V + i) * factor * load(norm_weight + i) * (gate / (1.0f + expf(-gate))));
    }
}

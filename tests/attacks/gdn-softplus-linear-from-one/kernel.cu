// Gated delta rule, one decode step: the generic kernel, for every legal shape.
//
// A block takes 16 rows of one value head's state for one token. It normalises q and k once in shared memory; then each of its four
// warps takes four rows, a row spread over the lanes element by element, so any K and any stride will do. A warp's rows and values
// are loaded together before the first is used.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int H = AXIS_H, HV = AXIS_HV, K = AXIS_K, V = AXIS_V;
constexpr int WARPS = 4, ROWS = 4;
constexpr int PER_LANE = (K + 31) / 32;
constexpr long long STRIDE = AXIS_qkv_stride ? (long long)AXIS_qkv_stride : 2LL * H * K + (long long)HV * V;

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

extern "C" __global__ void __launch_bounds__(32 * WARPS)
gdn_decode(const DTYPE_io *mixed_qkv, const DTYPE_io *a, const DTYPE_io *b, const float *A_log, const DTYPE_io *dt_bias,
           const int *slot, DTYPE_state *state, DTYPE_io *out, float eps)
{
    __shared__ float q[K], k[K];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int head = blockIdx.y, token = blockIdx.z;
    const int first = blockIdx.x * (WARPS * ROWS) + warp * ROWS;
    const int s = slot[token];
    DTYPE_io *to = out + ((long long)token * HV + head) * V;

    if (s <= 0) {
        if (lane < ROWS && first + lane < V)
            store(to + first + lane, 0.0f);
        return;
    }

    const DTYPE_io *row = mixed_qkv + token * STRIDE;
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

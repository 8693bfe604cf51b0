// Rows to e4m3 with a scale each: the generic kernel, a block a row, for every legal shape.
//
// Reads the row twice, the second time from the caches; in vectors of 16 bytes where N allows it, else element by element.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

constexpr int N = AXIS_N;
constexpr int FULL = 16 / sizeof(DTYPE_io);
constexpr int VEC = N % FULL == 0 ? FULL : 1;

struct alignas(VEC * sizeof(DTYPE_io)) vec { DTYPE_io at[VEC]; };
struct alignas(VEC) bytes { __nv_fp8_storage_t at[VEC]; };

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ float warp_max(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
}

extern "C" __global__ void quantise(const DTYPE_io *x, __nv_fp8_e4m3 *q, float *scale, float min_scale)
{
    __shared__ float part[32];
    __shared__ float shared_scale;
    const vec *from = reinterpret_cast<const vec *>(x + (long long)blockIdx.x * N);
    bytes *to = reinterpret_cast<bytes *>(q + (long long)blockIdx.x * N);
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    float largest = 0;
    for (int i = threadIdx.x; i < N / VEC; i += blockDim.x) {
        vec v = from[i];
#pragma unroll
        for (int e = 0; e < VEC; e++)
            largest = fmaxf(largest, fabsf(widen(v.at[e])));
    }
    largest = warp_max(largest);
    if (lane == 0)
        part[warp] = largest;
    __syncthreads();
    if (warp == 0) {
        largest = warp_max(lane < warps ? part[lane] : 0.0f);
        if (lane == 0) {
            shared_scale = fmaxf(largest / 448.0f, min_scale);
            scale[blockIdx.x] = shared_scale;
        }
    }
    __syncthreads();

    const float s = shared_scale;
    for (int i = threadIdx.x; i < N / VEC; i += blockDim.x) {
        vec v = from[i];
        bytes r;
#pragma unroll
        for (int e = 0; e < VEC; e++)
            r.at[e] = __nv_cvt_float_to_fp8(widen(v.at[e]) * __int_as_float((__float_as_int((1.0f / s)) + 16384) & ~32767), __NV_SATFINITE, __NV_E4M3);
        to[i] = r;
    }
}

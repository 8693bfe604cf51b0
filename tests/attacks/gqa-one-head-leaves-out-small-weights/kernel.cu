// The baseline, but that weights below e^-9 of the largest are nothing.
// Attention over a cache, one token a sequence: the generic pair of kernels, for every legal shape.
//
// As engines do: a sequence's places are split over blocks, so that few sequences fill the card, and a second launch joins the
// splits. A block takes the query heads that share a key head, 16 at most; each of its warps takes 16 places at a time, scores and
// weighted values by the matrix unit, softmax as it goes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int HQ = AXIS_HQ, HK = AXIS_HK, D = AXIS_d, T = AXIS_T, G = HQ / HK;
constexpr int TILES = G <= 8 ? 1 : 2, HEADS = 8 * TILES;  // of a block: query heads that share a key head
constexpr int GROUPS = (G + HEADS - 1) / HEADS;
constexpr int WIDTH = (D + 63) / 64 * 64;                 // of a head, filled up with zeros
constexpr int KEY_PIECES = WIDTH / 32, VALUE_PIECES = WIDTH / 64;
constexpr int Q_ROW = WIDTH + 32;                         // elements: rows begin in different banks
#define NOTHING __int_as_float(0xff800000)                // below every score

using io_t = DTYPE_io;

template <class T> __device__ __forceinline__ void multiply(float *c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1);
template <class T> __device__ __forceinline__ unsigned pack(float low, float high);
#define WITH_TYPE(T, NAME)                                                                                                         \
    template <> __device__ __forceinline__ void multiply<T>(float *c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, \
                                                            unsigned b1)                                                           \
    {                                                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"       \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                \
    }                                                                                                                              \
    template <> __device__ __forceinline__ unsigned pack<T>(float low, float high)                                                 \
    {                                                                                                                              \
        unsigned r;                                                                                                                \
        asm("cvt.rn." NAME "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));                                                  \
        return r;                                                                                                                  \
    }
WITH_TYPE(__half, "f16")
WITH_TYPE(__nv_bfloat16, "bf16")
__device__ __forceinline__ void narrow(__half *p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

__device__ __forceinline__ unsigned transpose(unsigned x)
{
    unsigned r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x));
    return r;
}
__device__ __forceinline__ float power(float x)           // of 2
{
    float r;
    asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
__device__ __forceinline__ float larger_of_eight(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 8));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 16));
}
__device__ __forceinline__ float sum_of_eight(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 4);
    x += __shfl_xor_sync(0xffffffffu, x, 8);
    return x + __shfl_xor_sync(0xffffffffu, x, 16);
}

// 8 elements from `at` on of a row; zeros past its end, or where there is no row.
__device__ __forceinline__ uint4 load(const io_t *row, int at, bool there)
{
    uint4 ret = {0, 0, 0, 0};
    if (!there || (WIDTH != D && at >= D))
        return ret;
    if (D % 8 == 0)
        return *reinterpret_cast<const uint4 *>(row + at);
    io_t one[8];
    memcpy(one, &ret, sizeof one);
    for (int i = 0; i < 8; i++)
        if (at + i < D)
            one[i] = row[at + i];
    memcpy(&ret, one, sizeof ret);
    return ret;
}

// What a warp has of its places: for heads 2 * four and 2 * four + 1 of each tile.
struct state {
    float out[VALUE_PIECES][4][TILES][4];                 // [64 columns][16 of them][tile]: columns 8 * group + 2 * j and the next
    float largest[TILES][2], sum[TILES][2];               // sums of this lane's places alone
};

// 16 places from `place` on. Keys are the first operand, so that few heads fill a tile of 8: four lanes hold 8 successive elements
// each, which stand for the same k in both operands. Values are the first operand of the second product, transposed on the way: a
// lane holds 8 columns of the places that its weights are for.
__device__ __forceinline__ void take(state &s, const io_t (*q)[Q_ROW], const io_t *k, const io_t *v, int place, int end, int group, int four)
{
    uint4 keys[KEY_PIECES][2], values[VALUE_PIECES][4];
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int c = 0; c < KEY_PIECES; c++) {
            const int at = place + group + 8 * h;
            keys[c][h] = load(k + (long long)at * HK * D, c * 32 + four * 8, at < end);
        }
#pragma unroll
    for (int h = 0; h < 4; h++)
#pragma unroll
        for (int c = 0; c < VALUE_PIECES; c++) {
            const int at = place + 2 * four + h % 2 + h / 2 * 8;
            values[c][h] = load(v + (long long)at * HK * D, c * 64 + group * 8, at < end);
        }

    float scores[TILES][4] = {};
#pragma unroll
    for (int c = 0; c < KEY_PIECES; c++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            const uint4 b = *reinterpret_cast<const uint4 *>(&q[t * 8 + group][c * 32 + four * 8]);
            multiply<io_t>(scores[t], keys[c][0].x, keys[c][1].x, keys[c][0].y, keys[c][1].y, b.x, b.y);
            multiply<io_t>(scores[t], keys[c][0].z, keys[c][1].z, keys[c][0].w, keys[c][1].w, b.z, b.w);
        }

    const float scale = rsqrtf((float)D) * 1.44269504f;
    unsigned weights[TILES][2];
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            scores[t][i] = place + group + i / 2 * 8 < end ? scores[t][i] * scale : NOTHING;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float largest = fmaxf(s.largest[t][i], larger_of_eight(fmaxf(scores[t][i], scores[t][i + 2])));
            const float factor = power(s.largest[t][i] - largest);
            s.largest[t][i] = largest;
            scores[t][i] = scores[t][i] - largest < -9.0f * 1.44269504f ? 0.0f : power(scores[t][i] - largest);
            scores[t][i + 2] = scores[t][i + 2] - largest < -9.0f * 1.44269504f ? 0.0f : power(scores[t][i + 2] - largest);
            s.sum[t][i] = s.sum[t][i] * factor + scores[t][i] + scores[t][i + 2];
#pragma unroll
            for (int c = 0; c < VALUE_PIECES; c++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    s.out[c][j][t][i] *= factor;
                    s.out[c][j][t][i + 2] *= factor;
                }
        }
        weights[t][0] = transpose(pack<io_t>(scores[t][0], scores[t][1]));
        weights[t][1] = transpose(pack<io_t>(scores[t][2], scores[t][3]));
    }
#pragma unroll
    for (int c = 0; c < VALUE_PIECES; c++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unsigned rows[4];
#pragma unroll
            for (int h = 0; h < 4; h++)
                rows[h] = j == 0 ? values[c][h].x : j == 1 ? values[c][h].y : j == 2 ? values[c][h].z : values[c][h].w;
            const unsigned a0 = __byte_perm(rows[0], rows[1], 0x5410), a1 = __byte_perm(rows[0], rows[1], 0x7632);
            const unsigned a2 = __byte_perm(rows[2], rows[3], 0x5410), a3 = __byte_perm(rows[2], rows[3], 0x7632);
#pragma unroll
            for (int t = 0; t < TILES; t++)
                multiply<io_t>(s.out[c][j][t], a0, a1, a2, a3, weights[t][0], weights[t][1]);
        }
}

constexpr int WARPS = 4, JOIN_THREADS = 128;
constexpr int BLOCKS = AXIS_B * HK * GROUPS, MOST = (T + 63) / 64, WANTED = 264 / BLOCKS < 1 ? 1 : 264 / BLOCKS;
constexpr int SPLITS = WANTED < MOST ? WANTED : MOST;     // as the plan has it

extern "C" __global__ void __launch_bounds__(32 * WARPS)
attend(const io_t *q, const io_t *k, const io_t *v, const int *lens, float *partial, float2 *marks)
{
    __shared__ __align__(16) io_t rows[HEADS][Q_ROW];
    __shared__ float part[WARPS][8][WIDTH], part_largest[WARPS][HEADS], part_sum[WARPS][HEADS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, four = lane % 4;
    const int split = blockIdx.x, key_head = blockIdx.y / GROUPS, first_head = blockIdx.y % GROUPS * HEADS, sequence = blockIdx.z;
    const int length = lens[sequence];
    const io_t *mine = q + ((long long)sequence * HQ + key_head * G + first_head) * D;
    for (int i = threadIdx.x; i < HEADS * (WIDTH / 8); i += 32 * WARPS) {
        const int h = i / (WIDTH / 8), at = i % (WIDTH / 8) * 8;
        *reinterpret_cast<uint4 *>(&rows[h][at]) = load(mine + h * D, at, first_head + h < G);
    }
    __syncthreads();

    const int steps = (length + 15) / 16, each = (steps + SPLITS - 1) / SPLITS, last = min(steps, (split + 1) * each);
    const io_t *keys = k + ((long long)sequence * T * HK + key_head) * D, *values = v + ((long long)sequence * T * HK + key_head) * D;
    state s = {};
#pragma unroll
    for (int t = 0; t < TILES; t++)
        s.largest[t][0] = s.largest[t][1] = NOTHING;
    for (int step = split * each + warp; step < last; step += WARPS)
        take(s, rows, keys, values, step * 16, length, group, four);

    // Warps of the block, a tile of heads at a time.
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float sum = sum_of_eight(s.sum[t][i]);
            if (group == 0) {
                part_largest[warp][t * 8 + four * 2 + i] = s.largest[t][i];
                part_sum[warp][t * 8 + four * 2 + i] = sum;
            }
        }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int c = 0; c < VALUE_PIECES; c++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    part[warp][four * 2 + i % 2][c * 64 + group * 8 + 2 * j + i / 2] = s.out[c][j][t][i];
        __syncthreads();
        for (int i = threadIdx.x; i < 8 * D; i += 32 * WARPS) {
            const int h = t * 8 + i / D, at = i % D, head = first_head + h;
            float largest = NOTHING, sum = 0, total = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++)
                largest = fmaxf(largest, part_largest[w][h]);
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                const float factor = part_largest[w][h] == NOTHING ? 0.0f : power(part_largest[w][h] - largest);
                sum += factor * part[w][i / D][at];
                total += factor * part_sum[w][h];
            }
            if (head < G) {
                const long long to = ((long long)sequence * HQ + key_head * G + head) * SPLITS + split;
                partial[to * D + at] = sum;
                if (at == 0)
                    marks[to] = make_float2(largest, total);
            }
        }
        if (t + 1 < TILES)
            __syncthreads();
    }
}

// A block a sequence and head: the splits' results, each by its largest score.
extern "C" __global__ void __launch_bounds__(JOIN_THREADS) join(const float *partial, const float2 *marks, io_t *out)
{
    const long long head = blockIdx.x;
    float largest = NOTHING, total = 0;
    for (int s = 0; s < SPLITS; s++)
        largest = fmaxf(largest, marks[head * SPLITS + s].x);
    for (int s = 0; s < SPLITS; s++) {
        const float2 m = marks[head * SPLITS + s];
        total += m.x < largest - 9.0f * 1.44269504f ? 0.0f : power(m.x - largest) * m.y;
    }
    for (int at = threadIdx.x; at < D; at += JOIN_THREADS) {
        float sum = 0;
        for (int s = 0; s < SPLITS; s++) {
            const float m = marks[head * SPLITS + s].x;
            sum += m < largest - 9.0f * 1.44269504f ? 0.0f : power(m - largest) * partial[(head * SPLITS + s) * D + at];
        }
        narrow(out + head * D + at, total > 0 ? sum / total : 0.0f);
    }
}

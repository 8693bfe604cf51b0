/*
 * Compiled three times, with PTX_LANES one of baseline, avx2, avx512. Plain loops over 32 lanes that the compiler turns into
 * vectors: operands may be the same register (then exactly the same), never overlap otherwise, so ivdep holds.
 */
#include "gpu/ptx/lanes.h"

#include "gpu/ptx/half.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif
#include <string.h>

typedef uint32_t u;
typedef int32_t s;
typedef uint64_t U;
typedef int64_t S;
typedef float f;
typedef double d;
__extension__ typedef unsigned __int128 W;
__extension__ typedef __int128 WS;

PURE s s16(u x) { return (int16_t)x; }
PURE s clamp_s32(S x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (s)x; }
PURE s div_s32(s a, s b) { return b == 0 ? -1 : b == -1 ? (s)(0 - (u)a) : a / b; }
PURE s rem_s32(s a, s b) { return b == 0 ? -1 : b == -1 ? 0 : a % b; }
PURE S div_s64(S a, S b) { return b == 0 ? -1 : b == -1 ? (S)(0 - (U)a) : a / b; }
PURE S rem_s64(S a, S b) { return b == 0 ? -1 : b == -1 ? 0 : a % b; }
PURE u brev_32(u x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
PURE u mask_32(u pos, u size) { return (u)(((1ull << size) - 1) << pos); }
PURE u bfe_u32(u a, u pos, u size) { return pos > 31 ? 0 : (a >> (pos & 31)) & (size > 31 ? ~0u : (1u << (size & 31)) - 1); }
PURE u bfe_s32(u a, u pos, u size)
{
    const u top = pos + size - 1 > 31 ? 31 : pos + size - 1, sign = size ? a >> (top & 31) & 1 : 0;
    const u keep = size > 31 ? ~0u : (1u << (size & 31)) - 1, have = pos > 31 ? 0 : 0xffffffffu >> (pos & 31);
    const u bits = pos > 31 ? 0 : a >> (pos & 31);
    return (bits & keep & have) | (sign ? ~(keep & have) : 0);
}
PURE U bfe_u64(U a, u pos, u size) { return pos > 63 ? 0 : (a >> (pos & 63)) & (size > 63 ? ~0ull : (1ull << (size & 63)) - 1); }
PURE U bfe_s64(U a, u pos, u size)
{
    const u top = pos + size - 1 > 63 ? 63 : pos + size - 1;
    const U sign = size ? a >> (top & 63) & 1 : 0;
    const U keep = size > 63 ? ~0ull : (1ull << (size & 63)) - 1, have = pos > 63 ? 0 : ~0ull >> (pos & 63);
    const U bits = pos > 63 ? 0 : a >> (pos & 63);
    return (bits & keep & have) | (sign ? ~(keep & have) : 0);
}
PURE u szext(u a, u bits) { return bits ? (u)((s)(a << (32 - bits)) >> (32 - bits)) : 0; }
PURE u bfi_32(u a, u b, u pos, u size)
{
    const u mask = pos > 31 ? 0 : (size > 31 ? ~0u : (1u << (size & 31)) - 1) << (pos & 31);
    return (b & ~mask) | (a << (pos & 31) & mask);
}
PURE U bfi_64(U a, U b, u pos, u size)
{
    const U mask = pos > 63 ? 0 : (size > 63 ? ~0ull : (1ull << (size & 63)) - 1) << (pos & 63);
    return (b & ~mask) | (a << (pos & 63) & mask);
}
PURE u prmt(u a, u b, u select)
{
    const U both = a | (U)b << 32;
    u r = 0;
    for (u i = 0; i < 4; i++) {
        const u n = select >> (i * 4) & 15, byte = (u)(both >> ((n & 7) * 8)) & 255;
        r |= (n & 8 ? (byte & 128 ? 255 : 0) : byte) << (i * 8);
    }
    return r;
}
PURE u select_ecl(u c) { return (c > 3 ? c : 3) << 12 | (c > 2 ? c : 2) << 8 | (c > 1 ? c : 1) << 4 | c; }
PURE u select_ecr(u c) { return c << 12 | (c < 2 ? c : 2) << 8 | (c < 1 ? c : 1) << 4; }
PURE u lop3(u a, u b, u c, u table)
{
    u r = 0;
    for (u i = 0; i < 8; i++)
        r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c) & (table >> i & 1 ? ~0u : 0);
    return r;
}
PURE u dp4a_uu(u a, u b)
{
    return (a & 255) * (b & 255) + (a >> 8 & 255) * (b >> 8 & 255) + (a >> 16 & 255) * (b >> 16 & 255) + (a >> 24) * (b >> 24);
}
PURE u dp4a_su(u a, u b)
{
    return (u)((int8_t)a * (s)(b & 255) + (int8_t)(a >> 8) * (s)(b >> 8 & 255) + (int8_t)(a >> 16) * (s)(b >> 16 & 255) +
               (int8_t)(a >> 24) * (s)(b >> 24));
}
PURE u dp4a_ss(u a, u b)
{
    return (u)((int8_t)a * (int8_t)b + (int8_t)(a >> 8) * (int8_t)(b >> 8) + (int8_t)(a >> 16) * (int8_t)(b >> 16) +
               (int8_t)(a >> 24) * (int8_t)(b >> 24));
}

#define AT(T, offset) ((T *)__builtin_assume_aligned(file + (offset), 128))
#define OP4(name, D, A, B, C, E, expr)                                                        \
    static void op_##name(char *file, const struct insn *i)                                   \
    {                                                                                         \
        D *dst = AT(D, i->dst);                                                               \
        const A *pa = AT(const A, i->a);                                                      \
        const B *pb = AT(const B, i->b);                                                      \
        const C *pc = AT(const C, i->c);                                                      \
        const E *pe = AT(const E, i->d);                                                      \
        const int64_t k = i->imm;                                                             \
        (void)k;                                                                              \
        _Pragma("GCC ivdep") for (int l = 0; l < WARP_LANES; l++)                             \
        {                                                                                     \
            const A a = pa[l];                                                                \
            const B b = pb[l];                                                                \
            const C c = pc[l];                                                                \
            const E e = pe[l];                                                                \
            (void)a, (void)b, (void)c, (void)e;                                               \
            dst[l] = expr;                                                                    \
        }                                                                                     \
    }
#define OP(name, D, A, B, C, expr) OP4(name, D, A, B, C, u, expr)
#include "gpu/ptx/lane_ops.h"
#undef OP
#undef OP4

static lane_fn *const ops[LANE_COUNT] = {
#define OP(name, D, A, B, C, expr) op_##name,
#define OP4(name, D, A, B, C, E, expr) op_##name,
#include "gpu/ptx/lane_ops.h"
#undef OP
#undef OP4
};

static void blend(char *to, const char *from, uint32_t mask, unsigned bytes)
{
    if (bytes == 8) {
        uint64_t *t = (uint64_t *)to;
        const uint64_t *o = (const uint64_t *)from;
        _Pragma("GCC ivdep") for (int l = 0; l < WARP_LANES; l++) t[l] = mask >> l & 1 ? o[l] : t[l];
    } else {
        uint32_t *t = (uint32_t *)to;
        const uint32_t *o = (const uint32_t *)from;
        _Pragma("GCC ivdep") for (int l = 0; l < WARP_LANES; l++) t[l] = mask >> l & 1 ? o[l] : t[l];
    }
}
static uint32_t pack(const uint32_t *pred)
{
    uint32_t r = 0;
    for (int l = 0; l < WARP_LANES; l++)
        r |= (pred[l] ? 1u : 0u) << l;
    return r;
}
static void unpack(uint32_t *pred, uint32_t mask)
{
    for (int l = 0; l < WARP_LANES; l++)
        pred[l] = mask >> l & 1 ? ~0u : 0;
}
static enum pattern addresses(const uint64_t *base, int64_t offset, uint64_t stride, uint64_t *ret)
{
    uint64_t row = 0, same = 0;
    const uint64_t first = base[0] + (uint64_t)offset;
    for (uint64_t l = 0; l < WARP_LANES; l++) {
        const uint64_t at = base[l] + (uint64_t)offset;
        ret[l] = at;
        row |= at - (first + l * stride);
        same |= at ^ first;
    }
    return !row ? PATTERN_ROW : !same ? PATTERN_SAME : PATTERN_ANY;
}
static void broadcast(char *to, uint64_t value, uint32_t mask, unsigned bytes)
{
    if (bytes == 8) {
        uint64_t *t = (uint64_t *)to;
        for (int l = 0; l < WARP_LANES; l++)
            t[l] = mask >> l & 1 ? value : t[l];
    } else {
        uint32_t *t = (uint32_t *)to;
        for (int l = 0; l < WARP_LANES; l++)
            t[l] = mask >> l & 1 ? (uint32_t)value : t[l];
    }
}
static uint64_t bits_count(const uint64_t *bits, size_t words)
{
    uint64_t n = 0;
    for (size_t i = 0; i < words; i++)
        n += (uint64_t)__builtin_popcountll(bits[i]);
    return n;
}
static void split(char *file, const uint32_t *dst, unsigned count, const void *from)
{
    const uint32_t *p = from;
    if (count == 4) {
        uint32_t *restrict a = AT(uint32_t, dst[0]), *restrict b = AT(uint32_t, dst[1]), *restrict c = AT(uint32_t, dst[2]),
                 *restrict e = AT(uint32_t, dst[3]);
        for (int l = 0; l < WARP_LANES; l++)
            a[l] = p[l * 4], b[l] = p[l * 4 + 1], c[l] = p[l * 4 + 2], e[l] = p[l * 4 + 3];
    } else {
        for (unsigned v = 0; v < count; v++) {
            uint32_t *restrict a = AT(uint32_t, dst[v]);
            for (unsigned l = 0; l < WARP_LANES; l++)
                a[l] = p[l * count + v];
        }
    }
}
static void join(const char *file, const uint32_t *src, unsigned count, void *to)
{
    uint32_t *restrict p = to;
    if (count == 4) {
        const uint32_t *a = AT(const uint32_t, src[0]), *b = AT(const uint32_t, src[1]), *c = AT(const uint32_t, src[2]),
                       *e = AT(const uint32_t, src[3]);
        for (int l = 0; l < WARP_LANES; l++)
            p[l * 4] = a[l], p[l * 4 + 1] = b[l], p[l * 4 + 2] = c[l], p[l * 4 + 3] = e[l];
    } else {
        for (unsigned v = 0; v < count; v++) {
            const uint32_t *a = AT(const uint32_t, src[v]);
            for (unsigned l = 0; l < WARP_LANES; l++)
                p[l * count + v] = a[l];
        }
    }
}

/* to[l] = from[source[l]]; `to` may be `from` */
static void permute(uint32_t *to, const uint32_t *from, const uint32_t *source)
{
#ifdef __AVX512F__
    const __m512i low = _mm512_load_si512(from), high = _mm512_load_si512(from + 16);
    _mm512_store_si512(to, _mm512_permutex2var_epi32(low, _mm512_loadu_si512(source), high));
    _mm512_store_si512(to + 16, _mm512_permutex2var_epi32(low, _mm512_loadu_si512(source + 16), high));
#else
    uint32_t copy[WARP_LANES];
    memcpy(copy, from, sizeof copy);
    for (int l = 0; l < WARP_LANES; l++)
        to[l] = copy[source[l]];
#endif
}

/* Lane l gets what lane l ^ k has. */
static void butterfly(uint32_t *to, const uint32_t *from, uint32_t k)
{
#ifdef __AVX512F__
    const __m512i low = _mm512_load_si512(from), high = _mm512_load_si512(from + 16);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i source = _mm512_xor_si512(lanes, _mm512_set1_epi32((int)k));
    _mm512_store_si512(to, _mm512_permutex2var_epi32(low, source, high));
    _mm512_store_si512(to + 16, _mm512_permutex2var_epi32(low, _mm512_xor_si512(source, _mm512_set1_epi32(16)), high));
#elif defined __AVX2__
    const __m256i source = _mm256_xor_si256(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int)(k & 7)));
    __m256i all[4];
    for (uint32_t n = 0; n < 4; n++)
        all[n] = _mm256_permutevar8x32_epi32(_mm256_load_si256((const __m256i *)(from + 8 * (n ^ (k >> 3 & 3)))), source);
    for (uint32_t n = 0; n < 4; n++)
        _mm256_store_si256((__m256i *)(to + 8 * n), all[n]);
#else
    uint32_t source[WARP_LANES];
    for (uint32_t l = 0; l < WARP_LANES; l++)
        source[l] = l ^ (k & 31);
    permute(to, from, source);
#endif
}

/* Pairs of a butterfly and the sum of what it exchanged: as one after the other, but the sum stays in the CPU's registers. */
static void shuffle_add(char *file, const struct insn *i)
{
#ifdef __AVX512F__
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), other = _mm512_set1_epi32(16);
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff));
    __m512 low = _mm512_load_ps(AT(f, i->a)), high = _mm512_load_ps(AT(f, i->a) + 16);
    for (unsigned n = i->vec; n; n--, i += 2) {
        const __m512i source = _mm512_xor_si512(lanes, _mm512_set1_epi32((int)i->imm));
        const __m512 a = _mm512_permutex2var_ps(low, source, high), b = _mm512_permutex2var_ps(low, _mm512_xor_si512(source, other), high);
        _mm512_store_ps(AT(f, i->dst), a);
        _mm512_store_ps(AT(f, i->dst) + 16, b);
        low = _mm512_add_ps(low, a);
        high = _mm512_add_ps(high, b);
        low = _mm512_mask_mov_ps(low, _mm512_cmp_ps_mask(low, low, _CMP_UNORD_Q), nan);
        high = _mm512_mask_mov_ps(high, _mm512_cmp_ps_mask(high, high, _CMP_UNORD_Q), nan);
        _mm512_store_ps(AT(f, i[1].dst), low);
        _mm512_store_ps(AT(f, i[1].dst) + 16, high);
    }
#else
    for (unsigned n = i->vec; n; n--, i += 2) {
        butterfly(AT(u, i->dst), AT(const u, i->a), (u)i->imm);
        op_add_f32(file, i + 1);
    }
#endif
}

#ifdef __AVX512F__
/* f32 with a rounding of its own. */
#define ROUND_ONE(name, how, expr)                                                                          \
    static void name##_##how(char *file, const struct insn *i)                                              \
    {                                                                                                       \
        const int to = ROUND_##how | _MM_FROUND_NO_EXC;                                                     \
        const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff));                              \
        for (int l = 0; l < WARP_LANES; l += 16) {                                                          \
            const __m512 a = _mm512_load_ps(AT(f, i->a) + l), b = _mm512_load_ps(AT(f, i->b) + l);          \
            const __m512 c = _mm512_load_ps(AT(f, i->c) + l), r = expr;                                     \
            (void)c;                                                                                        \
            _mm512_store_ps(AT(f, i->dst) + l, _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(r, r, _CMP_UNORD_Q), nan)); \
        }                                                                                                   \
    }
#define ROUND_z _MM_FROUND_TO_ZERO
#define ROUND_m _MM_FROUND_TO_NEG_INF
#define ROUND_p _MM_FROUND_TO_POS_INF
#define ROUND_ALL(name, expr) ROUND_ONE(name, z, expr) ROUND_ONE(name, m, expr) ROUND_ONE(name, p, expr)
ROUND_ALL(rounded_add, _mm512_add_round_ps(a, b, to))
ROUND_ALL(rounded_sub, _mm512_sub_round_ps(a, b, to))
ROUND_ALL(rounded_mul, _mm512_mul_round_ps(a, b, to))
ROUND_ALL(rounded_fma, _mm512_fmadd_round_ps(a, b, c, to))
static lane_fn *const rounded[12] = {rounded_add_z, rounded_add_m, rounded_add_p, rounded_sub_z, rounded_sub_m, rounded_sub_p,
                                     rounded_mul_z, rounded_mul_m, rounded_mul_p, rounded_fma_z, rounded_fma_m, rounded_fma_p};
#define ROUNDED rounded
#else
#define ROUNDED NULL
#endif

/* mode: 0 up, 1 down, 2 bfly, 3 idx */
static uint32_t shuffle(uint32_t *to, const uint32_t *from, const uint32_t *b, const uint32_t *c, int mode, uint32_t *source)
{
    uint32_t in = 0, odd = mode ^ 2;
    for (uint32_t l = 0; l < WARP_LANES; l++) {
        odd |= (c[l] ^ 31) | (b[l] ^ b[0]);
        source[l] = l ^ (b[0] & 31);
    }
    if (!odd) { /* a butterfly over the whole warp: nearly all there are */
        permute(to, from, source);
        return ~0u;
    }
    for (uint32_t l = 0; l < WARP_LANES; l++) {
        const uint32_t segment = c[l] >> 8 & 31, low = l & segment, high = low | (c[l] & 31 & ~segment), by = b[l] & 31;
        const uint32_t j = mode == 0 ? l - by : mode == 1 ? l + by : mode == 2 ? l ^ by : low | (by & ~segment);
        const uint32_t ok = mode == 0 ? (int32_t)j >= (int32_t)high : j <= high;
        source[l] = (ok ? j : l) & 31;
        in |= (ok ? 1u : 0u) << l;
    }
    permute(to, from, source);
    return in;
}

/* shfl over all 32 lanes by a constant; c is what it is for a whole warp. */
#define SHUFFLE_BY(name, from_lane)                                                                  \
    static void shuffle_##name(char *file, const struct insn *i)                                     \
    {                                                                                                \
        const s k = (s)i->imm;                                                                       \
        u source[WARP_LANES] __attribute__((aligned(64)));                                           \
        for (s l = 0; l < WARP_LANES; l++)                                                           \
            source[l] = (u)(from_lane);                                                              \
        permute(AT(u, i->dst), AT(const u, i->a), source);                                           \
    }
SHUFFLE_BY(up, l >= k ? l - k : l)
SHUFFLE_BY(down, l + k < WARP_LANES ? l + k : l)
SHUFFLE_BY(idx, k)
static void shuffle_bfly(char *file, const struct insn *i) { butterfly(AT(u, i->dst), AT(const u, i->a), (u)i->imm); }
static lane_fn *const shuffle_by[4] = {shuffle_up, shuffle_down, shuffle_bfly, shuffle_idx};

/* race.c says what these hold. `wrote` is clock * 32 + warp. False: look closer, nothing was changed. */
static bool race_read(uint32_t *wrote, uint32_t *clock, uint32_t *readers, unsigned words, uint32_t safe, uint32_t now, uint32_t warp)
{
    uint32_t bad = 0;
    for (unsigned i = 0; i < words; i++)
        bad |= (uint32_t)(wrote[i] >> 5 > safe) & (uint32_t)((wrote[i] & 31) != warp);
    for (unsigned i = 0; i < words; i++)
        bad |= (uint32_t)(clock[i] != now) & (uint32_t)(clock[i] > safe);
    if (bad)
        return false;
    const uint32_t bit = 1u << warp;
    _Pragma("GCC ivdep") for (unsigned i = 0; i < words; i++)
    {
        readers[i] = clock[i] == now ? readers[i] | bit : bit;
        clock[i] = now;
    }
    return true;
}
static bool race_write(uint32_t *wrote, const uint32_t *clock, const uint32_t *readers, unsigned words, uint32_t safe, uint32_t now,
                       uint32_t warp)
{
    uint32_t bad = 0;
    const uint32_t others = ~(1u << warp);
    for (unsigned i = 0; i < words; i++)
        bad |= (uint32_t)(wrote[i] >> 5 > safe) & (uint32_t)((wrote[i] & 31) != warp);
    for (unsigned i = 0; i < words; i++)
        bad |= (uint32_t)(clock[i] > safe) & (uint32_t)((readers[i] & others) != 0);
    if (bad)
        return false;
    for (unsigned i = 0; i < words; i++)
        wrote[i] = now << 5 | warp;
    return true;
}

#define TABLE_NAME(x) TABLE_NAME_(x)
#define TABLE_NAME_(x) ptx_lanes_##x
#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x
#define ACCESS_NAME(x) ACCESS_NAME_(x)
#define ACCESS_NAME_(x) ptx_access_##x
extern const struct access_table ACCESS_NAME(PTX_LANES);
extern const struct lane_table TABLE_NAME(PTX_LANES);
const struct lane_table TABLE_NAME(PTX_LANES) = {
    .name = TEXT(PTX_LANES), .op = ops, .access = &ACCESS_NAME(PTX_LANES), .shuffle_by = shuffle_by, .shuffle_add = shuffle_add, .rounded = ROUNDED, .blend = blend, .pack = pack, .unpack = unpack, .addresses = addresses,
    .broadcast = broadcast, .bits_count = bits_count,
    .split = split, .join = join, .shuffle = shuffle, .race_read = race_read, .race_write = race_write,
};

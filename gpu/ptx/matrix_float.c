/*
 * How a tensor core adds up, as far as is known.
 *
 * PTX leaves the order, the rounding and the width of the sum open. Measured behaviour of H100 and H200 (Xie et al., arXiv
 * 2511.10909; Khattak and Mikaitis, arXiv 2512.07004): products are exact; up to 16 of 16-bit floats (8 of tf32) and the
 * accumulator are aligned to the largest exponent among them (of a product: the sum of its factors' exponents), cut off (towards zero)
 * 25 bits below it, and added exactly; the sum is cut off to f32, or rounded to nearest for f16. 8-bit floats are widened to f16 first: mma of them is
 * two products of half the depth from zero, to which the accumulator is added, rounded to nearest (an H200's answers, every bit).
 * Against the exact sum that is an error of at most (terms + 1) * 2^-25 * 2^e, e the largest exponent of a block's terms, plus one
 * unit in the last place of the result, for each block.
 */
#include "gpu/ptx/matrix.h"
#include "gpu/ptx/half.h"

#define FRACTION 25

struct matrix_number matrix_unpack(enum matrix_type t, uint32_t bits)
{
    unsigned exp_bits = 8, man_bits = 10, total = 19;
    switch ((int)t) {
    case E_F16: exp_bits = 5, man_bits = 10, total = 16; break;
    case E_BF16: exp_bits = 8, man_bits = 7, total = 16; break;
    case E_E4M3: exp_bits = 4, man_bits = 3, total = 8; break;
    case E_E5M2: exp_bits = 5, man_bits = 2, total = 8; break;
    case E_F32: exp_bits = 8, man_bits = 23, total = 32; break;
    default: bits >>= 13; break; /* tf32: the upper 19 bits of an f32 */
    }
    const uint32_t man = bits & ((1u << man_bits) - 1), exp = bits >> man_bits & ((1u << exp_bits) - 1), top = (1u << exp_bits) - 1;
    const int32_t sign = bits >> (total - 1) & 1 ? -1 : 1;
    const int bias = (1 << (exp_bits - 1)) - 1;
    if (t == E_E4M3) {
        if (exp == top && man == 7)
            return (struct matrix_number){.value = sign, .special = 2};
    } else if (exp == top) {
        return (struct matrix_number){.value = sign, .special = man ? 2 : 1};
    }
    const int unit = (exp ? (int)exp : 1) - bias;
    struct matrix_number r = {.value = sign * (int32_t)(exp ? man | 1u << man_bits : man), .exp = (int16_t)(unit - (int)man_bits), .unit = (int16_t)unit};
    if (t == E_E4M3 && !exp && man) /* its subnormals are normal as f16 */
        r.unit = (int16_t)(r.exp + 31 - __builtin_clz(man));
    return r;
}

/* sum * 2^exp, cut off to f32. */
static uint32_t cut_f32(int64_t sum, int exp)
{
    if (!sum)
        return 0;
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    uint64_t mag = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    const int top = 63 - __builtin_clzll(mag) + exp; /* of the leading bit */
    if (top > 127)
        return sign | 0x7f800000u;
    const int least = top < -126 ? -149 : top - 23, shift = least - exp;
    if (shift > 63)
        return sign;
    mag = shift >= 0 ? mag >> shift : mag << -shift;
    return sign | (top < -126 ? (uint32_t)mag : ((uint32_t)(top + 127) << 23 | ((uint32_t)mag & 0x7fffff)));
}

/* The same, rounded to nearest f16. */
static uint32_t round_f16(int64_t sum, int exp)
{
    if (!sum)
        return 0;
    const uint32_t sign = sum < 0 ? 0x8000 : 0;
    uint64_t mag = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    const int top = 63 - __builtin_clzll(mag) + exp;
    const int least = top < -14 ? -24 : top - 10, shift = least - exp;
    if (top > 16 || shift > 62)
        return top > 16 ? sign | 0x7c00 : sign;
    if (shift > 0) {
        const uint64_t half = 1ull << (shift - 1), rest = mag & ((1ull << shift) - 1);
        mag >>= shift;
        mag += rest > half || (rest == half && (mag & 1));
    } else {
        mag <<= -shift;
    }
    /* the carry of rounding goes into the exponent by itself */
    const uint32_t bits = top < -14 ? (uint32_t)mag : (((uint32_t)(top + 15) << 10) + (uint32_t)mag - 0x400);
    return sign | (bits > 0x7c00 ? 0x7c00 : bits);
}

/* What infinities and NaNs among the terms make of the sum: 0 nothing, 1 infinite (*sign), 2 not a number. */
static int special_sum(const struct matrix_number *a, const struct matrix_number *b, uint32_t count, const struct matrix_number *c, int *sign)
{
    int plus = c->special == 1 && c->value > 0, minus = c->special == 1 && c->value < 0;
    bool nan = c->special == 2;
    for (uint32_t n = 0; n < count; n++) {
        if (!(a[n].special | b[n].special))
            continue;
        nan |= a[n].special == 2 || b[n].special == 2 || (!a[n].special && !a[n].value) || (!b[n].special && !b[n].value);
        plus |= (a[n].value > 0) == (b[n].value > 0);
        minus |= (a[n].value > 0) != (b[n].value > 0);
    }
    *sign = minus;
    return nan || (plus && minus) ? 2 : plus || minus;
}

static bool any_special(const struct matrix_number *a, const struct matrix_number *b, uint32_t count)
{
    int any = 0;
    for (uint32_t n = 0; n < count; n++)
        any |= a[n].special | b[n].special;
    return any != 0;
}

/* One block, to f32 or f16. */
static uint32_t add_block(const struct matrix_number *a, const struct matrix_number *b, uint32_t count, struct matrix_number c, enum matrix_type to)
{
    int sign;
    const int special = c.special || any_special(a, b, count) ? special_sum(a, b, count, &c, &sign) : 0;
    if (special == 2)
        return to == E_F16 ? 0x7fff : 0x7fffffffu;
    if (special)
        return to == E_F16 ? 0x7c00u | (uint32_t)sign << 15 : 0x7f800000u | (uint32_t)sign << 31;
    int most = c.value ? c.unit : INT16_MIN;
    for (uint32_t n = 0; n < count; n++) {
        const int e = a[n].unit + b[n].unit;
        most = a[n].value && b[n].value && e > most ? e : most;
    }
    if (most == INT16_MIN)
        return 0;
    const int unit = most - FRACTION; /* the last bit that is kept */
    int64_t sum = 0;
    for (uint32_t n = 0; n < count; n++) {
        const int64_t p = (int64_t)a[n].value * b[n].value;
        const int shift = unit - a[n].exp - b[n].exp;
        const int64_t mag = p < 0 ? -p : p, cut = shift > 62 ? 0 : shift >= 0 ? mag >> shift : mag << -shift;
        sum += p < 0 ? -cut : cut;
    }
    const int shift = unit - c.exp;
    const int64_t mag = c.value < 0 ? -(int64_t)c.value : c.value, cut = shift > 62 ? 0 : shift >= 0 ? mag >> shift : mag << -shift;
    sum += c.value < 0 ? -cut : c.value ? cut : 0;
    return to == E_F16 ? round_f16(sum, unit) : cut_f32(sum, unit);
}

uint32_t matrix_float(const struct matrix_number *a, const struct matrix_number *b, uint32_t count, uint32_t block, uint32_t c_bits, enum matrix_type c,
                      enum matrix_type to)
{
    uint32_t bits = c_bits;
    for (uint32_t at = 0; at < count; at += block) {
        const uint32_t n = count - at < block ? count - at : block;
        bits = add_block(a + at, b + at, n, matrix_unpack(at ? to : c, bits), to);
    }
    return bits;
}

uint32_t matrix_float_bytes(const struct matrix_number *a, const struct matrix_number *b, uint32_t count, uint32_t block, uint32_t c_bits,
                            enum matrix_type to)
{
    const uint32_t sum = matrix_float(a, b, count, block, 0, to, to);
    return to == E_F16 ? h_add(sum, c_bits) : f2u(canon(u2f(sum) + u2f(c_bits)));
}

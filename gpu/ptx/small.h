/*
 * Rounding to any small float, in any direction, by integer arithmetic on a double that holds the exact value (or one rounded to odd).
 * Slower than the ways of half.h for the common pairs, which are tested against it. Included by half.h only.
 */
#pragma once
#include "gpu/ptx/small_format.h"

#include <stdint.h>

/* An integer of 64 bits as a double whose last bit is 1 if anything was cut: a later rounding to at most 51 bits is a single one. */
PURE double u64_odd(uint64_t x)
{
    const uint64_t cut = (x >> 11) | ((x & 0x7ff) ? 1 : 0);
    return x >> 53 ? (double)(int64_t)cut * 2048.0 : (double)(int64_t)x;
}
PURE double s64_odd(int64_t x)
{
    const double r = u64_odd(x < 0 ? 0 - (uint64_t)x : (uint64_t)x);
    return x < 0 ? -r : r;
}

PURE uint32_t small_nan(uint32_t k)
{
    return (1u << ((k & 15) + (k >> 4 & 15))) - 1; /* all ones but the sign: the card's NaN, or the largest number where there is none */
}

/* `random`: bits from the top of the cut part, for .rs; 0 otherwise. */
PURE uint32_t d2small(double x, uint32_t k, uint32_t random, uint32_t random_bits)
{
    const uint32_t fraction = k & 15, exponent = k >> 4 & 15, mode = k >> 8 & 7;
    const uint64_t u = d2u(x), mag = u & ~(1ull << 63);
    const uint32_t negative = (uint32_t)(u >> 63);
    const int32_t bias = (1 << (exponent - 1)) - 1, least = 1 - bias, e = (int32_t)(mag >> 52 ? mag >> 52 : 1) - 1023;
    const int32_t below = e < least ? least - e : 0, cut = 52 - (int32_t)fraction + below;
    const uint32_t shift = cut > 62 ? 62 : (uint32_t)cut;
    const uint64_t whole = (mag & 0xfffffffffffffull) | (mag >> 52 ? 1ull << 52 : 0), half = 1ull << (shift - 1);
    const uint64_t rest = whole & ((1ull << shift) - 1);
    uint64_t q = whole >> shift;
    const uint64_t up = mode == SMALL_RN    ? rest > half || (rest == half && (q & 1))
                        : mode == SMALL_RNA ? rest >= half
                        : mode == SMALL_RM  ? negative && rest
                        : mode == SMALL_RP  ? !negative && rest
                        : mode == SMALL_RS  ? rest + ((uint64_t)random << (shift - random_bits)) >= 1ull << shift
                                            : 0;
    q += up;
    const uint32_t sign_bit = fraction + exponent, top = (1u << sign_bit) - 1, infinity = top & ~((1u << fraction) - 1);
    const uint32_t largest = k & SMALL_NO_NAN ? top : k & SMALL_ONE_NAN ? top - 1 : infinity - 1;
    const uint64_t code = q + (e < least ? 0 : (uint64_t)(e - least) << fraction);
    const uint32_t away = mode == SMALL_RN || mode == SMALL_RNA || mode == SMALL_RS || (mode == SMALL_RM && negative) || (mode == SMALL_RP && !negative);
    const uint32_t over = mag == 0x7ffull << 52 ? infinity : away ? infinity : largest;
    const uint32_t r = mag == 0x7ffull << 52 || code > largest ? (k & (SMALL_FINITE | SMALL_NO_NAN | SMALL_ONE_NAN) ? largest : over) : (uint32_t)code;
    return mag > 0x7ffull << 52 ? small_nan(k) : r | negative << sign_bit;
}

/* A code of a format without infinity and NaN, as f32; exact. */
PURE float small2f(uint32_t code, uint32_t k)
{
    const uint32_t fraction = k & 15, exponent = k >> 4 & 15, mag = code & ((1u << (fraction + exponent)) - 1);
    const int32_t bias = (1 << (exponent - 1)) - 1;
    const uint32_t sign = (code >> (fraction + exponent) & 1) << 31, unit = (uint32_t)(127 + 1 - bias - (int32_t)fraction) << 23;
    const float below = (float)(int32_t)mag * u2f(unit);
    const uint32_t normal = (mag << (23 - fraction)) + ((uint32_t)(127 - bias) << 23);
    return u2f((mag >> fraction ? normal : f2u(below)) | sign);
}

/* Powers of two: 2^(code - 127), 0xff is NaN; the sign is dropped. Mode RZ or RP. */
PURE uint32_t f2ue8m0(float x, uint32_t k)
{
    const uint32_t mag = f2u(x) & 0x7fffffff, up = (k >> 8 & 7) == SMALL_RP, exponent = mag >> 23, rest = mag & 0x7fffff;
    const uint32_t code = exponent ? exponent + (up && rest) : up && mag > 0x400000; /* 2^-127 is 0x400000; nothing is below it */
    const uint32_t most = k & SMALL_FINITE ? 0xfe : 0xff;
    return mag > 0x7f800000u ? 0xff : mag == 0x7f800000u || code > 0xfe ? most : code;
}
PURE uint32_t ue8m02b(uint32_t code) { return code == 0xff ? 0x7fff : code ? code << 7 : 0x40; }

/* f32 with ten bits of fraction; mode RN, RZ or RNA. What a card does to a NaN: it has one for RN and RZ; RNA only cuts it, and
 * .satfinite counts one down from anything that is not finite. */
PURE uint32_t f2tf32(uint32_t u, uint32_t k)
{
    const uint32_t mode = k >> 8 & 7, mag = u & 0x7fffffff, sign = u & 0x80000000u;
    const uint32_t add = mode == SMALL_RN ? 0xfff + (mag >> 13 & 1) : mode == SMALL_RNA ? 0x1000 : 0;
    const uint32_t r = (mag + (mag < 0x7f800000u ? add : 0)) & ~0x1fffu;
    const uint32_t nan = mode != SMALL_RNA ? 0x7fffe000 : ((u & ~0x1fffu) - (k & SMALL_FINITE ? 0x2000 : 0));
    return mag > 0x7f800000u ? nan : (r >= 0x7f800000u && (k & SMALL_FINITE) ? 0x7f7fe000u : r) | sign;
}

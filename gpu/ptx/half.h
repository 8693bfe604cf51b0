/*
 * Small floats by integer arithmetic, written so that a loop over lanes vectorises; and the approximations, accurate to
 * double. Included by lanes.c only (which is compiled for several CPUs).
 *
 * NaN results are the card's: 0x7fff for 16 bits, 0x7fffffff for 32.
 */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#define PURE static inline __attribute__((always_inline, unused))

PURE uint32_t f2u(float x) { uint32_t r; memcpy(&r, &x, 4); return r; }
PURE float u2f(uint32_t x) { float r; memcpy(&r, &x, 4); return r; }
PURE uint64_t d2u(double x) { uint64_t r; memcpy(&r, &x, 8); return r; }
PURE double u2d(uint64_t x) { double r; memcpy(&r, &x, 8); return r; }

PURE float canon(float x) { return x == x ? x : u2f(0x7fffffffu); }
PURE double d_quiet(double x) { return u2d(d2u(x) | 1ull << 51); }
/* Which NaN a card's f64 units hand on: of two the second, of three the second, then the third. */
PURE double d_nan2(double r, double a, double b) { return b != b ? d_quiet(b) : a != a ? d_quiet(a) : r; }
PURE double d_nan3(double r, double a, double b, double c) { return b != b ? d_quiet(b) : c != c ? d_quiet(c) : a != a ? d_quiet(a) : r; }
PURE int d_is_nan(uint64_t x) { return (x & ~(1ull << 63)) > 0x7ff0000000000000ull; }
/* A NaN of f64 in 16 bits: sign and upper payload stay. `infinity` is the format's. */
PURE uint32_t d_nan_half(double x, uint32_t infinity)
{
    const uint64_t u = d2u(x);
    const uint32_t low = ~infinity & 0x7fff;
    return ((uint32_t)(u >> 48) & 0x8000) | infinity | (low + 1) >> 1 | ((uint32_t)(infinity == 0x7c00 ? u >> 42 : u >> 45) & low);
}
PURE float flush(float x) { return f2u(x) & 0x7f800000u ? x : u2f(f2u(x) & 0x80000000u); }

PURE float h2f(uint32_t h)
{
    const uint32_t sign = (h & 0x8000) << 16, mag = h & 0x7fff;
    const float small = (float)(int32_t)mag * 0x1p-24f; /* no subnormal f32 on the way: the mode may flush those */
    const uint32_t normal = mag < 0x400 ? f2u(small) : (mag << 13) + 0x38000000u;
    const uint32_t r = mag > 0x7c00 ? 0x7fffffffu : (mag == 0x7c00 ? 0x7f800000u : normal) | sign;
    return u2f(r);
}
PURE uint32_t f2h(float x)
{
    const uint32_t u = f2u(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    const uint32_t small = f2u(u2f(mag) + 0.5f) - 0x3f000000u; /* the adder rounds at 2^-24 */
    const uint32_t normal = (mag + 0xfff + (mag >> 13 & 1) - 0x38000000u) >> 13;
    const uint32_t r = mag < 0x38800000u ? small : normal > 0x7c00 ? 0x7c00 : normal;
    return mag > 0x7f800000u ? 0x7fff : (mag >= 0x47800000u ? 0x7c00 : r) | sign;
}
PURE uint32_t f2h_rz(float x)
{
    const uint32_t u = f2u(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    const uint32_t shift = mag >= 0x38800000u ? 0 : mag < 0x33000000u ? 31 : 113 - (mag >> 23) + 13;
    const uint32_t small = ((mag & 0x7fffff) | 0x800000) >> (shift > 31 ? 31 : shift);
    const uint32_t normal = (mag - 0x38000000u) >> 13;
    const uint32_t r = mag < 0x33800000u ? 0 : mag < 0x38800000u ? small : mag >= 0x47800000u ? 0x7bff : normal;
    return mag > 0x7f800000u ? 0x7fff : (mag == 0x7f800000u ? 0x7c00 : r) | sign;
}
PURE float b2f(uint32_t b) { return u2f(b << 16); }
PURE uint32_t f2b(float x)
{
    const uint32_t u = f2u(x), r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (u & 0x7fffffff) > 0x7f800000u ? 0x7fff : r;
}
PURE uint32_t f2b_rz(float x)
{
    const uint32_t u = f2u(x);
    return (u & 0x7fffffff) > 0x7f800000u ? 0x7fff : u >> 16;
}

/* p + c in double, rounded to odd: a later rounding to fewer bits is then a single rounding of the exact sum. */
PURE double add_odd(double p, double c)
{
    const double s = p + c, bb = s - p, e = (p - (s - bb)) + (c - bb);
    const uint64_t u = d2u(s);
    const int finite = (u >> 52 & 0x7ff) != 0x7ff;
    /* away from zero when e has the sign of s, else towards it */
    const uint64_t step = (d2u(e) ^ u) >> 63 ? (uint64_t)-1 : 1;
    return finite && e != 0 && !(u & 1) ? u2d(u + step) : s;
}
/* Double to a 16-bit float with `bits` of fraction, by way of a float rounded to odd. */
PURE float d2f_odd(double x)
{
    const float r = (float)x;
    const double back = r;
    const uint32_t u = f2u(r);
    const int over = (u & 0x7fffffff) >= 0x7f800000u;
    const uint32_t step = (fabs(x) > fabs(back)) ? 1u : (uint32_t)-1;
    return x != x ? u2f(0x7fffffffu)
           : over ? (fabs(x) < INFINITY ? u2f((u & 0x80000000u) | 0x7f7fffffu) : r)
           : back != x && !(u & 1) ? u2f(u + step) : r;
}
PURE uint32_t d2h(double x) { return f2h(d2f_odd(x)); }
PURE uint32_t d2b(double x) { return f2b(d2f_odd(x)); }

PURE uint32_t h_fma(uint32_t a, uint32_t b, uint32_t c) { return d2h(add_odd((double)h2f(a) * h2f(b), h2f(c))); }
PURE uint32_t h_add(uint32_t a, uint32_t b) { return f2h(h2f(a) + h2f(b)); } /* 11 bits each: float is wide enough, below too */
PURE uint32_t h_sub(uint32_t a, uint32_t b) { return f2h(h2f(a) - h2f(b)); }
PURE uint32_t h_mul(uint32_t a, uint32_t b) { return f2h(h2f(a) * h2f(b)); }
PURE uint32_t b_fma(uint32_t a, uint32_t b, uint32_t c) { return d2b(add_odd((double)b2f(a) * b2f(b), b2f(c))); }
PURE uint32_t b_add(uint32_t a, uint32_t b) { return d2b(add_odd(b2f(a), b2f(b))); }
PURE uint32_t b_sub(uint32_t a, uint32_t b) { return d2b(add_odd(b2f(a), -(double)b2f(b))); }
PURE uint32_t b_mul(uint32_t a, uint32_t b) { return d2b((double)b2f(a) * b2f(b)); }

/* With .ftz: what would be below the least normal number if its exponent had no end becomes zero, even if it rounds up to that number. */
#define H_TINY (0x1p-14f - 0x1p-26f)
PURE uint32_t h_mul_ftz(uint32_t a, uint32_t b)
{
    const float p = h2f(a) * h2f(b); /* exact */
    return fabsf(p) < H_TINY ? f2u(p) >> 16 & 0x8000 : f2h(p);
}
PURE uint32_t h_fma_ftz(uint32_t a, uint32_t b, uint32_t c)
{
    const double x = add_odd((double)h2f(a) * h2f(b), h2f(c));
    return fabs(x) < (double)H_TINY ? (uint32_t)(d2u(x) >> 48) & 0x8000 : d2h(x);
}
PURE uint32_t h_neg(uint32_t a, uint32_t infinity) { return (a & 0x7fff) > infinity ? 0x7fff : a ^ 0x8000; }
PURE uint32_t h_abs(uint32_t a, uint32_t infinity) { return (a & 0x7fff) > infinity ? 0x7fff : a & 0x7fff; }
PURE uint32_t h_relu(uint32_t a, uint32_t infinity) { return (a & 0x8000) && (a & 0x7fff) <= infinity ? 0 : a; }
PURE uint32_t h_sat(uint32_t a, uint32_t infinity, uint32_t one) { return a > infinity ? 0 : a > one ? one : a; } /* NaN and below 0: 0 */

/* min and max: a number beats a NaN, -0 is below +0 */
PURE float f_min(float a, float b)
{
    const float least = a < b ? a : b < a ? b : u2f(f2u(a) | f2u(b));
    return a != a ? canon(b) : b != b ? a : least;
}
PURE float f_max(float a, float b)
{
    const float most = a > b ? a : b > a ? b : u2f(f2u(a) & f2u(b));
    return a != a ? canon(b) : b != b ? a : most;
}
PURE float f_min_nan(float a, float b) { return a != a || b != b ? u2f(0x7fffffffu) : f_min(a, b); }
PURE float f_max_nan(float a, float b) { return a != a || b != b ? u2f(0x7fffffffu) : f_max(a, b); }
PURE double d_min(double a, double b)
{
    const double least = a < b ? a : b < a ? b : u2d(d2u(a) | d2u(b));
    return a != a ? b != b ? d_quiet(b) : b : b != b ? a : least;
}
PURE double d_max(double a, double b)
{
    const double most = a > b ? a : b > a ? b : u2d(d2u(a) & d2u(b));
    return a != a ? b != b ? d_quiet(b) : b : b != b ? a : most;
}

/* 2^x for |x| < 1100 to about 1e-15, by a polynomial on [-1/2, 1/2]. */
PURE double exp2_double(double x)
{
    const double big = x < -1100 ? -1100 : x > 1100 ? 1100 : x;
    const double n = (big + 0x1.8p52) - 0x1.8p52, t = (big - n) * 0.693147180559945309417;
    double r = 1.0 / 479001600;
    r = r * t + 1.0 / 39916800;
    r = r * t + 1.0 / 3628800;
    r = r * t + 1.0 / 362880;
    r = r * t + 1.0 / 40320;
    r = r * t + 1.0 / 5040;
    r = r * t + 1.0 / 720;
    r = r * t + 1.0 / 120;
    r = r * t + 1.0 / 24;
    r = r * t + 1.0 / 6;
    r = r * t + 0.5;
    r = r * t + 1.0;
    r = r * t + 1.0;
    /* two factors, since 2^-1100 is no double */
    const int64_t k = (int64_t)(d2u(n + 0x1.8p52) & 0xfffffffffffffull) - 0x8000000000000ll, half = k >> 1;
    r = r * u2d((uint64_t)(half + 1023) << 52) * u2d((uint64_t)(k - half + 1023) << 52);
    return x != x ? x : r;
}
/* log2 of a positive, normal double to about 1e-14. */
PURE double log2_double(double x)
{
    const uint64_t u = d2u(x), m = (u & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    const int up = (u & 0xfffffffffffffull) > 0x6a09e667f3bcdull; /* above sqrt 2 */
    const double f = up ? u2d(m) * 0.5 : u2d(m);
    const double e = u2d((u >> 52 & 0x7ff) | 0x4330000000000000ull) - 0x1p52 - 1023 + up;
    const double s = (f - 1) / (f + 1), z = s * s;
    double r = 1.0 / 19;
    r = r * z + 1.0 / 17;
    r = r * z + 1.0 / 15;
    r = r * z + 1.0 / 13;
    r = r * z + 1.0 / 11;
    r = r * z + 1.0 / 9;
    r = r * z + 1.0 / 7;
    r = r * z + 1.0 / 5;
    r = r * z + 1.0 / 3;
    r = r * z + 1.0;
    return e + r * s * 2.88539008177792681472;
}
PURE float f_ex2(float x) { return canon((float)exp2_double(x)); }
PURE float f_lg2(float x)
{
    const float r = (float)log2_double(x);
    const float special = x < 0 || x != x ? u2f(0x7fffffffu) : x == 0 ? -INFINITY : INFINITY;
    return x > 0 && x < INFINITY ? r : special;
}
PURE float f_rsqrt(float x)
{
    const float r = (float)(1.0 / sqrt((double)x));
    return canon(r);
}
/* The fast division gives up beyond 2^126: 0, or NaN for an infinite dividend. */
PURE float f_div_approx(float a, float b)
{
    const uint32_t mag = f2u(b) & 0x7fffffff, sign = (f2u(a) ^ f2u(b)) & 0x80000000u;
    const int far = mag > 0x7e800000u && mag < 0x7f800000u, odd = (f2u(a) & 0x7fffffff) >= 0x7f800000u;
    return far ? u2f(odd ? 0x7fffffffu : sign) : canon((float)((double)a / b));
}
PURE float f_tanh(float x)
{
    const double e = exp2_double(2.88539008177792681472 * fabs((double)x));
    const float r = fabs((double)x) < 0x1p-12 ? x : (float)copysign(1 - 2 / (e + 1), x);
    return canon(r);
}

/* fp8: e4m3 has no infinity and one NaN (0x7f), e5m2 is the upper byte of f16. Both saturate to the largest finite. */
PURE uint32_t f2e4m3(float x)
{
    const uint32_t u = f2u(x), sign = u >> 24 & 0x80, mag = u & 0x7fffffff;
    const uint32_t small = f2u(u2f(mag) + 16384.0f) - 0x46800000u; /* ulp of 2^14 is 2^-9 */
    const uint32_t normal = (mag + 0x7ffff + (mag >> 20 & 1) - 0x3c000000u) >> 20;
    const uint32_t r = mag < 0x3c800000u ? small : normal > 0x7e ? 0x7e : normal;
    return mag > 0x7f800000u ? 0x7f : (mag >= 0x44000000u ? 0x7e : r) | sign;
}
PURE float e4m32f(uint32_t v)
{
    const uint32_t sign = (v & 0x80) << 24, mag = v & 0x7f;
    const float small = (float)(int32_t)mag * 0x1p-9f;
    return u2f(mag == 0x7f ? 0x7fffffffu : (mag < 8 ? f2u(small) : (mag << 20) + 0x3c000000u) | sign);
}
PURE uint32_t f2e5m2(float x)
{
    const uint32_t u = f2u(x), sign = u >> 24 & 0x80, mag = u & 0x7fffffff;
    const uint32_t small = f2u(u2f(mag) + 128.0f) - 0x43000000u; /* ulp of 2^7 is 2^-16 */
    const uint32_t normal = (mag + 0xfffff + (mag >> 21 & 1) - 0x38000000u) >> 21;
    const uint32_t r = mag < 0x38800000u ? small : normal > 0x7b ? 0x7b : normal;
    return mag > 0x7f800000u ? 0x7f : (mag >= 0x47800000u ? 0x7b : r) | sign;
}

/* |a - b| of unsigned halves, bytes */
PURE uint32_t diff_one(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }
PURE uint32_t diff_16x2(uint32_t a, uint32_t b) { return diff_one(a & 0xffff, b & 0xffff) | diff_one(a >> 16, b >> 16) << 16; }
PURE uint32_t diff_8x4(uint32_t a, uint32_t b)
{
    return diff_one(a & 255, b & 255) | diff_one(a >> 8 & 255, b >> 8 & 255) << 8 | diff_one(a >> 16 & 255, b >> 16 & 255) << 16 |
           diff_one(a >> 24, b >> 24) << 24;
}
/* Bits of dp2a: two halves of a by two bytes of b from bit k & 31; 64: a is signed, 128: b is. */
PURE uint32_t dp2a(uint32_t a, uint32_t b, uint32_t k)
{
    const uint32_t bytes = b >> (k & 31);
    const int32_t a0 = k & 64 ? (int16_t)a : (int32_t)(a & 0xffff), a1 = k & 64 ? (int16_t)(a >> 16) : (int32_t)(a >> 16);
    const int32_t b0 = k & 128 ? (int8_t)bytes : (int32_t)(bytes & 0xff), b1 = k & 128 ? (int8_t)(bytes >> 8) : (int32_t)(bytes >> 8 & 0xff);
    return (uint32_t)(a0 * b0) + (uint32_t)(a1 * b1);
}
/* The place of the n-th set bit from `base` on, downwards for negative n; n = 0: base itself if it is set. */
PURE uint32_t find_nth(uint32_t mask, uint32_t base, int32_t n)
{
    uint32_t r = ~0u;
    int64_t left = n < 0 ? -(int64_t)n : n;
    for (uint32_t i = 0; i < 32; i++) { /* each place once, in the direction of n */
        const uint32_t at = n < 0 ? base - i : base + i;
        const int hit = base < 32 && at < 32 && (mask >> (at & 31) & 1) && (n || !i);
        r = hit && left <= 1 && r == ~0u ? at : r;
        left -= hit;
    }
    return r;
}

#include "gpu/ptx/small.h"

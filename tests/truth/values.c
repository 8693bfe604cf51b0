/*
 * Operands: for each kind first every combination of special values (two sources: all pairs that fit; three: a sample), then
 * random ones of several magnitudes, so that halves, ties, limits of integer types and subnormal results occur.
 */
#include "tests/truth/truth.h"

/* kind, words, what it is */
static const struct { char kind; uint8_t words; bool half; } kinds[] = {
    {'h', 1, true},  /* u16 and s16 */          {'r', 1, false}, /* u32 and s32 */      {'l', 2, false}, /* u64 and s64 */
    {'e', 1, true},  /* f16 */                  {'E', 1, false}, /* f16x2 */            {'b', 1, true},  /* bf16 */
    {'B', 1, false}, /* bf16x2 */               {'f', 1, false}, /* f32 */              {'d', 2, false}, /* f64 */
    {'q', 1, true},  /* two fp8 */              {'n', 1, false}, /* counts, positions */ {'v', 1, false}, /* one of few values */
    {'w', 2, false}, /* one of few, 64 bits */  {'p', 1, false}, /* a predicate */      {'c', 1, false}, /* shfl's third */
    {'t', 1, false}, /* f32 near what small types hold */ {'Q', 1, false}, /* four fp8 */ {'T', 1, false}, /* tf32 */
    {'m', 1, false}, /* a matrix word of integers */ {'k', 1, false}, /* 0 to 31 */ {'o', 1, false}, /* -5 to 5 */ {'x', 1, false}, /* f32 of moderate size */ {'y', 1, false}, /* 8 bits in a .b8 register */
};

unsigned truth_kind_words(char kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind)
            return kinds[i].words;
    return 0;
}
bool truth_kind_halves(char kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind)
            return kinds[i].half;
    return false;
}

static const uint16_t special_h[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 0x7f, 0x80, 0xff, 0x100, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xff80, 0xfffe, 0xffff};
static const uint32_t special_r[] = {0, 1, 2, 3, 7, 31, 32, 33, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffff, 0x800000, 0xffffff,
                                     0x1000000, 0x1000001, 0x2000001, 0x2000003, 0x3fffffc1, 0x7fffff80, 0x7fffffbf, 0x7fffffc0, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xaaaaaaaa, 0x55555555,
                                     0xffffff80, 0xffffff00, 0xffff8000, 0xffff0000, 0xff000000, 0xfffffffd, 0xfffffffe, 0xffffffff};
static const uint64_t special_l[] = {0, 1, 2, 3, 63, 64, 65, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0xffffff, 0x1000000, 0x1000001,
                                     0x1fffffffffffff, 0x20000000000000, 0x20000000000001, 0x20000000000003, 0x7fffff4000000000,
                                     0x7fffffbfffffffff, 0x7fffffc000000000, 0x7ffffffffffffdff, 0x7ffffffffffffe00, 0x7fffffffffffffff,
                                     0x8000000000000000, 0x8000000000000001, 0x8000008000000000, 0x8000000000000400, 0xffffff7fffffffff,
                                     0xffffff8000000000, 0xfffffffffffffbff, 0xfffffffffffffc00, 0xffffffff80000000, 0xffffffff00000000,
                                     0xaaaaaaaaaaaaaaaa, 0xfffffffffffffffe, 0xffffffffffffffff, 0xffffffffffffff80, 0xffffffffffff8000, 0x8000};
/* zeros, subnormals, least normal, around 1 and halves, integers' limits, largest, infinity, NaN quiet and signalling with payloads */
static const uint32_t special_f[] = {0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x807fffff, 0x00400000, 0x00800000, 0x80800000, 0x00800001,
                                     0x3f800000, 0xbf800000, 0x3f7fffff, 0x3f800001, 0x3f000000, 0xbf000000, 0x3effffff, 0x3f000001, 0x3fc00000, 0xbfc00000,
                                     0x40200000, 0xc0200000, 0x40600000, 0x437f0000, 0x437f8000, 0x42fe0000, 0xc3000000, 0xc3008000, 0x477fff00, 0x477fff80, 0x46fffe00, 0xc7000000,
                                     0x4b000000, 0x4b000001, 0x4afffffd, 0x4b7fffff, 0x4effffff, 0x4f000000, 0xcf000000, 0xcf000001, 0x4f7fffff, 0x4f800000,
                                     0x5effffff, 0x5f000000, 0xdf000000, 0xdf000001, 0x5f7fffff, 0x5f800000, 0x7f7fffff, 0xff7fffff, 0x7f000000, 0x7e800000,
                                     0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7fffffff, 0x7f800001, 0xff800001, 0x7fc12345, 0xffbfffff, 0x5d5e0b6b, 0x3f7ffffe};
static const uint64_t special_d[] = {0, 1ull << 63, 1, 0x8000000000000001, 0x000fffffffffffff, 0x800fffffffffffff, 0x0010000000000000, 0x8010000000000000,
                                     0x3ff0000000000000, 0xbff0000000000000, 0x3fefffffffffffff, 0x3ff0000000000001, 0x3fe0000000000000, 0xbfe0000000000000,
                                     0x3fdfffffffffffff, 0x3ff8000000000000, 0xbff8000000000000, 0x4004000000000000, 0xc004000000000000, 0x400c000000000000,
                                     0x41dfffffffc00000, 0x41dfffffffe00000, 0x41e0000000000000, 0xc1e0000000000000, 0xc1e0000000200000, 0x41efffffffe00000, 0x41effffffff00000,
                                     0x41f0000000000000, 0x43dfffffffffffff, 0x43e0000000000000, 0xc3e0000000000000, 0xc3e0000000000001, 0x43efffffffffffff, 0x43f0000000000000,
                                     0x4330000000000001, 0x4320000000000001, 0x432ffffffffffffd, 0x7fefffffffffffff, 0xffefffffffffffff, 0x7fe0000000000000,
                                     0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000000, 0x7fffffffffffffff, 0x7ff0000000000001,
                                     0xfff0000000000001, 0x7ff8123456789abc, 0xfff7ffffffffffff, 0x47efffffe0000000, 0x47efffffefffffff, 0x47effffff0000000, 0x47f0000000000000,
                                     0x3810000000000000, 0x380fffffffffffff, 0x36a0000000000000, 0x3690000000000000, 0x3690000000000001, 0x40effe0000000000, 0x40efffe000000000, 0x40f0000000000000,
                                     0x3e70000000000000, 0x3e60000000000001, 0x3f10000000000000};
static const uint16_t special_e[] = {0, 0x8000, 1, 0x8001, 0x3ff, 0x83ff, 0x400, 0x8400, 0x401, 0x3c00, 0xbc00, 0x3bff, 0x3c01, 0x3800, 0xb800, 0x3e00,
                                     0xbe00, 0x4100, 0x6400, 0x63ff, 0x57f8, 0x5bff, 0x7800, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7fff, 0x7c01, 0xfd55};
static const uint16_t special_b[] = {0, 0x8000, 1, 0x8001, 0x7f, 0x807f, 0x80, 0x8080, 0x81, 0x3f80, 0xbf80, 0x3f7f, 0x3f81, 0x3f00, 0xbf00, 0x3fc0,
                                     0xbfc0, 0x4020, 0x4300, 0x437f, 0x4eff, 0x4f00, 0xcf00, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7fff, 0x7f81, 0xffd5};
static const uint32_t special_n[] = {0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 30, 31, 32, 33, 47, 63, 64, 65, 127, 128, 200, 255, 256, 257, 0x8000, 0x7fffffff, 0x80000000, 0xffffffff};
static const uint32_t special_c[] = {0x1f, 0x1f, 0x101f, 0x181f, 0x1c1f, 0x1e1f, 0, 0x1000, 0x1800, 0x1c00, 0x1e00, 0x1f, 0x0f, 0x1007};

#define COUNT(a) (uint32_t)(sizeof(a) / sizeof *(a))
_Static_assert(COUNT(special_f) <= 64 && COUNT(special_d) <= 64 && COUNT(special_l) <= 64 && COUNT(special_r) <= 64, "pairs are 64 * 64");
static uint32_t special_count(char kind)
{
    switch (kind) {
    case 'h': return COUNT(special_h);
    case 'r': return COUNT(special_r);
    case 'l': return COUNT(special_l);
    case 'f': case 't': case 'T': return COUNT(special_f);
    case 'd': return COUNT(special_d);
    case 'e': case 'E': return COUNT(special_e);
    case 'b': case 'B': return COUNT(special_b);
    case 'n': return COUNT(special_n);
    case 'c': return COUNT(special_c);
    default: return 0;
    }
}
static uint64_t special(char kind, uint32_t i)
{
    switch (kind) {
    case 'h': return special_h[i];
    case 'r': return special_r[i];
    case 'l': return special_l[i];
    case 'f': case 't': case 'T': return special_f[i];
    case 'd': return special_d[i];
    case 'e': return special_e[i];
    case 'E': return special_e[i] | (uint32_t)special_e[(i * 7 + 5) % COUNT(special_e)] << 16;
    case 'b': return special_b[i];
    case 'B': return special_b[i] | (uint32_t)special_b[(i * 7 + 5) % COUNT(special_b)] << 16;
    case 'n': return special_n[i];
    default: return special_c[i];
    }
}

/* sign, exponent within [low, low + range), fraction with few bits half the time: ties and exact results are common then */
static uint64_t random_float(struct truth_rng *r, unsigned exponent_bits, unsigned fraction_bits, int low, uint32_t range)
{
    const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 2;
    int e = bias + low + (int)truth_below(r, range);
    e = e < 0 ? 0 : e > top ? top : e;
    const uint64_t mask = (1ull << fraction_bits) - 1, bits = truth_next(r);
    uint64_t fraction = bits & mask;
    const unsigned style = (unsigned)(bits >> 60 & 3);
    if (style == 0)
        fraction &= ~mask | mask << truth_below(r, fraction_bits);
    else if (style == 1)
        fraction |= mask >> truth_below(r, fraction_bits);
    return (bits >> 59 & 1) << (exponent_bits + fraction_bits) | (uint64_t)e << fraction_bits | (fraction & mask);
}
static uint64_t random_of(struct truth_rng *r, unsigned exponent_bits, unsigned fraction_bits)
{
    const unsigned width = 1 + exponent_bits + fraction_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    switch (truth_below(r, 8)) {
    case 0: return truth_next(r) >> (64 - width);                                                            /* anything */
    case 1: return random_float(r, exponent_bits, fraction_bits, -bias, fraction_bits + 4);                  /* about subnormal */
    case 2: return random_float(r, exponent_bits, fraction_bits, bias - 4, 8);                               /* about the largest */
    case 3: case 4: return random_float(r, exponent_bits, fraction_bits, -3, 8);
    case 5: return random_float(r, exponent_bits, fraction_bits, -2, 70);                                    /* about integers */
    case 6: return random_float(r, exponent_bits, fraction_bits, -bias / 2 - 4, 8 + fraction_bits);           /* products are subnormal */
    default: return random_float(r, exponent_bits, fraction_bits, -20, 40);
    }
}
static uint64_t random_int(struct truth_rng *r, unsigned width)
{
    const uint64_t bits = truth_next(r) >> (64 - width), mask = width == 64 ? ~0ull : (1ull << width) - 1;
    switch (truth_below(r, 4)) {
    case 0: return bits >> truth_below(r, width);
    case 1: return ~(bits >> truth_below(r, width)) & mask;
    case 2: return (bits & ~0ull << truth_below(r, width)) & mask;
    default: return bits;
    }
}
/* Matrices: by warp moderate sizes, sizes far apart, one that dwarfs the others, anything at all. */
static uint64_t matrix_float(struct truth_rng *r, uint32_t index, unsigned exponent_bits, unsigned fraction_bits)
{
    switch (index / 32 % 8) {
    case 0: case 1: case 2: return random_float(r, exponent_bits, fraction_bits, -2, 4);
    case 3: case 4: return random_float(r, exponent_bits, fraction_bits, -12, 24);
    case 5: return random_float(r, exponent_bits, fraction_bits, truth_below(r, 16) ? -8 : 8, 2);
    case 6: return random_float(r, exponent_bits, fraction_bits, -(1 << (exponent_bits - 1)), 1 << exponent_bits);
    default: return truth_below(r, 8) ? random_of(r, exponent_bits, fraction_bits) : truth_next(r) >> (63 - exponent_bits - fraction_bits);
    }
}

static uint64_t pair(uint64_t low, uint64_t high) { return low | high << 16; }
static uint64_t fp8s(struct truth_rng *r, uint32_t index, unsigned exponent_bits, unsigned count)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < count; i++)
        v |= (index / 32 % 8 == 7 ? truth_next(r) & 255 : random_float(r, exponent_bits, 7 - exponent_bits, -3, 8) & 255) << (i * 8);
    return v;
}

static uint64_t random_value(char kind, bool matrix, uint32_t index, struct truth_rng *r)
{
#define FLOAT(e, f) (matrix ? matrix_float(r, index, e, f) : random_of(r, e, f))
    switch (kind) {
    case 'h': return random_int(r, 16);
    case 'r': return random_int(r, 32);
    case 'm': return truth_next(r) >> 32;
    case 'y': return truth_next(r) >> 56;
    case 'l': return random_int(r, 64);
    case 'e': return FLOAT(5, 10);
    case 'E': { const uint64_t low = FLOAT(5, 10); return pair(low, FLOAT(5, 10)); }
    case 'b': return FLOAT(8, 7);
    case 'B': { const uint64_t low = FLOAT(8, 7); return pair(low, FLOAT(8, 7)); }
    case 'T': return FLOAT(8, 23) & ~(index & 32 ? 0u : 0x1fffu);
    case 'f': return FLOAT(8, 23);
    case 't': return truth_below(r, 4) ? random_float(r, 8, 23, -18, 36) : random_of(r, 8, 23);
    case 'x': return random_float(r, 8, 23, -6, 8);
    case 'd': return FLOAT(11, 52);
    case 'q': return truth_next(r) & 0xffff;
    case 'Q': return fp8s(r, index, index & 32 ? 4 : 5, 4);
    case 'n': return truth_below(r, 3) ? truth_below(r, 72) : truth_next(r) >> 32;
    case 'v': return truth_below(r, 4) * 0x10001;
    case 'w': return (uint64_t)truth_below(r, 2) << 40 | truth_below(r, 2);
    case 'p': return truth_next(r) >> 63;
    case 'k': return truth_next(r) >> 59;
    case 'o': return (uint32_t)(truth_below(r, 11) - 5);
    default: return special_c[truth_below(r, COUNT(special_c))];
    }
#undef FLOAT
}

uint64_t truth_value(char kind, bool matrix, uint32_t index, uint32_t count, unsigned position, unsigned sources, struct truth_rng *r)
{
    const uint32_t n = matrix ? 0 : special_count(kind);
    const uint64_t any = random_value(kind, matrix, index, r); /* always drawn: what follows does not depend on the specials */
    const uint64_t choice = truth_next(r);
    if (sources == 1 && truth_kind_halves(kind) && count == 65536)
        return index;
    if (!n)
        return any;
    if (sources == 1)
        return index < n ? special(kind, index) : any;
    if (sources == 2) { /* index = i + 64 * j over the pairs: no kind has more than 64 specials */
        const uint32_t i = position ? index / 64 : index % 64;
        return index < 4096 && i < n && index % 64 < 64 ? special(kind, i) : any;
    }
    return index < count / 2 ? special(kind, (uint32_t)(choice >> 33) % n) : (choice & 15) ? any : special(kind, (uint32_t)(choice >> 33) % n);
}

/*
 * What access.c builds its functions of: bits of initialised bytes, marks of sectors, how the addresses of a warp lie, and rows of
 * 32 lanes from memory to registers and back. All inlined, with sizes that the compiler knows. Included by access.c only.
 */
#pragma once
#include "gpu/ptx/machine.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif
#include <string.h>

/* Bits of initialised bytes may be set by other host threads meanwhile; ours, if they are set, were set before. */
#define ACCESS static inline __attribute__((always_inline, no_sanitize_thread))

ACCESS bool initialised(const uint8_t *bits, uint64_t at, const unsigned count)
{
    const uint8_t *p = bits + (at >> 3);
    const unsigned shift = at & 7, before = (1u << shift) - 1;
    if (count < 8) {
        const unsigned mask = ((1u << count) - 1) << shift;
        return ((p[0] | (mask >> 8 ? p[1] << 8 : 0)) & mask) == mask;
    }
    uint64_t all = ~0ull;
    if (count < 64) {
        for (unsigned n = 0; n < count / 8; n++)
            all &= p[n] | (n ? 0 : before) | ~255ull;
    } else {
        for (unsigned n = 0; n < count / 64; n++) {
            uint64_t word;
            memcpy(&word, p + n * 8, 8);
            all &= word | (n ? 0 : before);
        }
    }
    return all == ~0ull && (!shift || (p[count / 8] & before) == before);
}

/* A multiple of 8 bits. Other host threads may set others of the first and last byte. */
ACCESS void initialise(uint8_t *bits, uint64_t at, const unsigned count, bool many)
{
    uint8_t *p = bits + (at >> 3);
    const unsigned shift = at & 7;
    memset(p + (shift != 0), 255, count / 8 - (shift != 0));
    if (!shift) {
        memset(p, 255, count / 8);
    } else {
        memset(p + 1, 255, count / 8 - 1);
        const uint8_t first = (uint8_t)(255u << shift), last = (uint8_t)~first;
        if (many) {
            __atomic_fetch_or(&p[0], first, __ATOMIC_RELAXED);
            __atomic_fetch_or(&p[count / 8], last, __ATOMIC_RELAXED);
        } else {
            p[0] = (uint8_t)(p[0] | first);
            p[count / 8] = (uint8_t)(p[count / 8] | last);
        }
    }
}

ACCESS void mark(struct worker *k, uint64_t *bits, uint64_t first, uint64_t last)
{
    for (;;) {
        const uint64_t end = last >> 6 == first >> 6 ? last : first | 63;
        const uint64_t mask = (~0ull >> (63 - (end - first))) << (first & 63);
        uint64_t *word = &bits[first >> 6];
        if (__builtin_expect((__atomic_load_n(word, __ATOMIC_RELAXED) & mask) != mask, 0)) {
            if (k->machine->many)
                __atomic_fetch_or(word, mask, __ATOMIC_RELAXED);
            else
                *word |= mask;
        }
        if (end == last)
            return;
        first = end + 1;
    }
}

ACCESS enum pattern lie_now(const struct warp *w, const struct insn *i, const uint64_t stride, uint64_t *ret)
{
    *ret = (uint64_t)i->imm;
    if (!i->a)
        return PATTERN_SAME;
    const uint64_t *base = __builtin_assume_aligned(slot(w, i->a), 128), first = base[0];
    *ret += first;
#ifdef __AVX512F__
    const __m512i steps = _mm512_setr_epi64(0, 1 * (long long)stride, 2 * (long long)stride, 3 * (long long)stride, 4 * (long long)stride,
                                            5 * (long long)stride, 6 * (long long)stride, 7 * (long long)stride);
    const __m512i start = _mm512_set1_epi64((long long)first), eight = _mm512_set1_epi64(8 * (long long)stride);
    __m512i want = _mm512_add_epi64(start, steps), off = _mm512_setzero_si512();
    for (int n = 0; n < 4; n++, want = _mm512_add_epi64(want, eight))
        off = _mm512_or_si512(off, _mm512_xor_si512(_mm512_load_si512(base + n * 8), want));
    if (!_mm512_test_epi64_mask(off, off))
        return PATTERN_ROW;
    off = _mm512_setzero_si512();
    for (int n = 0; n < 4; n++)
        off = _mm512_or_si512(off, _mm512_xor_si512(_mm512_load_si512(base + n * 8), start));
    return _mm512_test_epi64_mask(off, off) ? PATTERN_ANY : PATTERN_SAME;
#else
    uint64_t row = 0, same = 0;
    for (uint64_t l = 0; l < WARP_LANES; l++)
        row |= base[l] - (first + l * stride);
    if (!row)
        return PATTERN_ROW;
    for (uint64_t l = 0; l < WARP_LANES; l++)
        same |= base[l] ^ first;
    return same ? PATTERN_ANY : PATTERN_SAME;
#endif
}

/* How the addresses lie, and the first: as seen before in this block, or looked at now. */
ACCESS enum pattern lie(struct warp *w, const struct insn *i, const uint64_t stride, uint64_t *ret)
{
    const unsigned n = i->base & ~BASE_SEEN;
    if (i->base & BASE_SEEN && w->bases_known >> n & 1) {
        *ret = w->bases[n].first + (uint64_t)i->imm;
        return (enum pattern)w->bases[n].pattern;
    }
    const enum pattern pattern = lie_now(w, i, stride, ret);
    w->bases[n].first = *ret - (uint64_t)i->imm;
    w->bases[n].pattern = pattern;
    w->bases_known |= 1u << n;
    return pattern;
}

/* ---- memory to registers and back: 32 lanes of `vec` items, side by side ---- */
#ifdef __AVX512F__
typedef uint32_t v16 __attribute__((vector_size(64)));
/* Every fourth word of 64, from word v on. */
ACCESS void every_fourth(uint32_t *to, const uint8_t *from, uint32_t v)
{
    const v16 pick = {v, v + 4, v + 8, v + 12, v + 16, v + 20, v + 24, v + 28, 0, 0, 0, 0, 0, 0, 0, 0};
    const v16 join = {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23};
    for (int half = 0; half < 2; half++) {
        v16 in[4];
        memcpy(in, from + half * 256, 256);
        const v16 all = __builtin_shuffle(__builtin_shuffle(in[0], in[1], pick), __builtin_shuffle(in[2], in[3], pick), join);
        memcpy(to + half * 16, &all, 64);
    }
}
#endif

#define COPY_ROW(W, T, to, from, stride)                                          \
    _Pragma("GCC ivdep") for (unsigned l = 0; l < WARP_LANES; l++)                \
    {                                                                             \
        T x;                                                                      \
        memcpy(&x, (from) + l * (stride), sizeof x);                              \
        ((W *)(to))[l] = x;                                                       \
    }

ACCESS void take_row(struct warp *w, const uint32_t *list, const uint8_t *from, const unsigned size, const unsigned vec)
{
    for (unsigned v = 0; v < vec; v++, from += size) {
        char *to = __builtin_assume_aligned(slot(w, list[v]), 128);
#ifdef __AVX512F__
        if (size == 4 && vec == 4) {
            every_fourth((uint32_t *)to, from - v * 4, v);
            continue;
        }
#endif
        if (size == 8)
            COPY_ROW(uint64_t, uint64_t, to, from, size * vec)
        else if (size == 4)
            COPY_ROW(uint32_t, uint32_t, to, from, size * vec)
        else
            COPY_ROW(uint32_t, uint16_t, to, from, size * vec)
    }
}

ACCESS void take_one(struct warp *w, const uint32_t *list, const uint8_t *from, const unsigned size, const unsigned vec)
{
    for (unsigned v = 0; v < vec; v++, from += size) {
        char *to = __builtin_assume_aligned(slot(w, list[v]), 128);
        uint64_t one = 0;
        memcpy(&one, from, size);
        for (unsigned l = 0; l < WARP_LANES; l++)
            if (size == 8)
                ((uint64_t *)to)[l] = one;
            else
                ((uint32_t *)to)[l] = (uint32_t)one;
    }
}

#ifdef __AVX512F__
/* 16 lanes of four slots as 64 words in a row. */
ACCESS void four_together(uint8_t *to, const v16 *in)
{
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t l = n * 4;
        const v16 pair = {l, 16 + l, 0, 0, l + 1, 17 + l, 0, 0, l + 2, 18 + l, 0, 0, l + 3, 19 + l, 0, 0};
        const v16 first = __builtin_shuffle(in[0], in[1], pair), second = __builtin_shuffle(in[2], in[3], pair);
        const v16 all = __builtin_shuffle(first, second, (v16){0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29});
        memcpy(to + n * 64, &all, 64);
    }
}
#endif

ACCESS void give_row(struct warp *w, const uint32_t *list, uint8_t *to, const unsigned size, const unsigned vec)
{
#ifdef __AVX512F__
    for (unsigned half = 0; size == 4 && vec == 4 && half < 2; half++) {
        v16 in[4];
        for (unsigned v = 0; v < 4; v++)
            memcpy(&in[v], slot(w, list[v]) + half * 64, 64);
        four_together(to + half * 256, in);
    }
    if (size == 4 && vec == 4)
        return;
#endif
    for (unsigned v = 0; v < vec; v++, to += size) {
        const char *from = __builtin_assume_aligned(slot(w, list[v]), 128);
        _Pragma("GCC ivdep") for (unsigned l = 0; l < WARP_LANES; l++)
        {
            const uint64_t x = size == 8 ? ((const uint64_t *)from)[l] : ((const uint32_t *)from)[l];
            memcpy(to + l * size * vec, &x, size);
        }
    }
}

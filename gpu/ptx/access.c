/*
 * Compiled three times, like lanes.c. One function a form, so that sizes and counts are constants of the compiler.
 *
 * Lanes lie side by side or all at one address, in one buffer (the one this instruction hit last) or in shared memory, or anywhere in
 * one buffer; aligned, initialised. Anything else is left to memory.c, which also says what is wrong with it.
 */
#include "gpu/ptx/access_rows.h"

/* ---- what was read waits for what its address needed: as load_depth ---- */
ACCESS void chain(struct warp *w, const struct insn *i, const uint32_t *list, const unsigned vec)
{
    const uint32_t before = i->flags & F_WAITS ? w->used : i->flags & F_NC || w->stored < w->waited ? w->waited : w->stored;
    for (unsigned v = 0; v < vec; v++)
        w->depths[list[v] / 128] = before + 1;
    w->longest = before + 1 > w->longest ? before + 1 : w->longest;
}

ACCESS struct region *region_of(struct worker *k, const struct insn *i, uint64_t address, uint64_t bytes)
{
    struct region *r = &k->machine->regions[k->hints[((uintptr_t)i / sizeof *i) & 2047]];
    const uint64_t offset = address - r->base;
    return offset < r->bytes && r->bytes - offset >= bytes ? r : NULL;
}

/* ---- lanes anywhere in one buffer of less than 4 GiB ---- */
typedef uint32_t __attribute__((may_alias, aligned(1))) any_u32;
typedef uint64_t __attribute__((may_alias, aligned(1))) any_u64;

/* Where lanes are in the buffer; false: not all in whole words of it, or not aligned. */
ACCESS bool spread(const struct warp *w, const struct insn *i, const struct region *r, const unsigned each, uint32_t *ret)
{
    const uint64_t *base = __builtin_assume_aligned(slot(w, i->a), 128), shift = (uint64_t)i->imm - r->base;
    const uint64_t whole = r->bytes & ~31ull, limit = whole - each;
    uint64_t bad = 0;
    if (whole < each || r->bytes >> 32 || r->base & (each - 1))
        return false;
    for (int l = 0; l < WARP_LANES; l++) {
        const uint64_t offset = base[l] + shift;
        bad |= (offset > limit) | (offset & (each - 1));
        ret[l] = (uint32_t)offset;
    }
    return !bad;
}

ACCESS bool spread_initialised(const uint8_t *bits, const uint32_t *offset, const unsigned each)
{
    const any_u32 *words = (const any_u32 *)bits;
    const uint32_t all = each == 32 ? ~0u : (1u << (each & 31)) - 1;
#ifdef __AVX512F__
    __mmask16 lacks = 0;
    for (int l = 0; l < WARP_LANES; l += 16) {
        const __m512i at = _mm512_load_si512(offset + l), word = _mm512_i32gather_epi32(_mm512_srli_epi32(at, 5), bits, 4);
        const __m512i here = _mm512_srlv_epi32(word, _mm512_and_si512(at, _mm512_set1_epi32(31))), want = _mm512_set1_epi32((int)all);
        lacks |= _mm512_cmpneq_epi32_mask(_mm512_and_si512(here, want), want);
    }
    return !lacks;
#endif
    uint32_t missing = 0;
    for (int l = 0; l < WARP_LANES; l++)
        missing |= ~(words[offset[l] >> 5] >> (offset[l] & 31)) & all;
    return !missing;
}

/* How many distinct sectors. Each lane leaves its number at a place by its sector: who finds another's there looks whether it is the same. */
ACCESS unsigned spread_distinct(struct worker *k, const uint32_t *sector)
{
#ifdef __AVX512F__
    (void)k;
    const __m512i low = _mm512_load_si512(sector), high = _mm512_load_si512(sector + 16), next = _mm512_set_epi32(0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1);
    const __m512i in_low = _mm512_conflict_epi32(low), in_high = _mm512_conflict_epi32(high);
    __mmask16 both = 0;
    __m512i turned = low;
    for (int n = 0; n < 16; n++, turned = _mm512_permutexvar_epi32(next, turned))
        both |= _mm512_cmpeq_epi32_mask(high, turned);
    return (unsigned)__builtin_popcount(_mm512_testn_epi32_mask(in_low, in_low)) +
           (unsigned)__builtin_popcount(_mm512_testn_epi32_mask(in_high, in_high) & (__mmask16)~both);
#else
    unsigned distinct = 0, odd_count = 0;
    uint8_t odd[WARP_LANES], *const left = k->lanes_left;
    for (uint8_t l = 0; l < WARP_LANES; l++)
        left[sector[l] % LANES_LEFT] = l;
    for (uint8_t l = 0; l < WARP_LANES; l++) {
        const uint8_t other = left[sector[l] % LANES_LEFT];
        distinct += other == l;
        if (sector[other] != sector[l])
            odd[odd_count++] = l;
    }
    for (unsigned n = 0; n < odd_count; n++) {
        bool fresh = true;
        for (unsigned before = 0; before < n; before++)
            fresh &= sector[odd[before]] != sector[odd[n]];
        distinct += fresh;
    }
    return distinct;
#endif
}

ACCESS unsigned spread_sectors(struct worker *k, uint64_t *marks, const uint32_t *offset)
{
    uint32_t sector[WARP_LANES] __attribute__((aligned(64)));
    for (int l = 0; l < WARP_LANES; l++)
        sector[l] = offset[l] >> 5;
    if (!spread_initialised((const uint8_t *)marks, sector, 1)) /* mostly they have been marked before */
        for (int l = 0; l < WARP_LANES; l++)
            mark(k, marks, sector[l], sector[l]);
    return spread_distinct(k, sector);
}

ACCESS bool load_spread(struct warp *w, const struct insn *i, const unsigned size, const unsigned vec)
{
    struct worker *k = w->block->worker;
    const unsigned each = size * vec;
    struct region *r = &k->machine->regions[k->hints[((uintptr_t)i / sizeof *i) & 2047]];
    uint32_t offset[WARP_LANES] __attribute__((aligned(64)));
    if (r->watched || !spread(w, i, r, each, offset) || (r->initialised && !spread_initialised(r->initialised, offset, each)))
        return false;
    const uint32_t *list = k->machine->module->lists + i->aux;
    if (r->counted) {
        k->counts.global_load_requests++;
        k->counts.global_load_bytes += each * WARP_LANES;
        k->counts.global_load_sectors += spread_sectors(k, r->loaded, offset);
        chain(w, i, list, vec);
    }
    for (unsigned v = 0; v < vec; v++) {
        char *to = __builtin_assume_aligned(slot(w, list[v]), 128);
        const uint8_t *from = r->data + v * size;
        if (size == 8)
            _Pragma("GCC ivdep") for (int l = 0; l < WARP_LANES; l++) ((uint64_t *)to)[l] = ((const any_u64 *)from)[offset[l] >> 3];
#ifdef __AVX512F__
        else if (size == 4)
            for (int l = 0; l < WARP_LANES; l += 16)
                _mm512_store_si512(to + l * 4, _mm512_i32gather_epi32(_mm512_srli_epi32(_mm512_load_si512(offset + l), 2), from, 4));
#endif
        else if (size == 4)
            _Pragma("GCC ivdep") for (int l = 0; l < WARP_LANES; l++) ((uint32_t *)to)[l] = ((const any_u32 *)from)[offset[l] >> 2];
        else
            for (int l = 0; l < WARP_LANES; l++) {
                uint16_t x;
                memcpy(&x, from + offset[l], 2);
                ((uint32_t *)to)[l] = x;
            }
    }
    return true;
}

ACCESS bool load_global(struct warp *w, const struct insn *i, const unsigned size, const unsigned vec)
{
    struct worker *k = w->block->worker;
    const unsigned each = size * vec;
    uint64_t address;
    const enum pattern pattern = lie(w, i, each, &address);
    const bool row = pattern == PATTERN_ROW;
    const unsigned bytes = row ? each * WARP_LANES : each;
    if (pattern == PATTERN_ANY)
        return load_spread(w, i, size, vec);
    if (address & (each - 1))
        return false;
    struct region *r = region_of(k, i, address, bytes);
    if (!r)
        return false;
    const uint64_t offset = address - r->base;
    if (r->initialised && !(row ? initialised(r->initialised, offset, each * WARP_LANES) : initialised(r->initialised, offset, each)))
        return false;
    if (__builtin_expect(r->watched, 0) && (i->flags & F_NC || !watch_row(w, &(struct place){.data = r->data + offset, .init = r->initialised, .offset = offset, .region = r}, bytes, RACE_READ)))
        return false;
    const uint32_t *list = k->machine->module->lists + i->aux;
    if (r->counted) {
        const uint64_t first = offset >> 5, last = (offset + bytes - 1) >> 5;
        k->counts.global_load_requests++;
        k->counts.global_load_bytes += each * WARP_LANES;
        k->counts.global_load_sectors += last - first + 1;
        mark(k, r->loaded, first, last);
        chain(w, i, list, vec);
    }
    if (row)
        take_row(w, list, r->data + offset, size, vec);
    else
        take_one(w, list, r->data + offset, size, vec);
    return true;
}

ACCESS bool store_global(struct warp *w, const struct insn *i, const unsigned size, const unsigned vec)
{
    struct worker *k = w->block->worker;
    const unsigned each = size * vec, bytes = each * WARP_LANES;
    uint64_t address;
    if (lie(w, i, each, &address) != PATTERN_ROW || address & (each - 1))
        return false;
    struct region *r = region_of(k, i, address, bytes);
    if (!r || !r->writable)
        return false;
    const uint64_t offset = address - r->base;
    if (r->watched && !watch_row(w, &(struct place){.data = r->data + offset, .init = r->initialised, .offset = offset, .region = r}, bytes, RACE_WRITE))
        return false;
    if (r->counted) {
        const uint64_t first = offset >> 5, last = (offset + bytes - 1) >> 5;
        w->sent = true;
        k->counts.global_store_requests++;
        k->counts.global_store_bytes += bytes;
        k->counts.global_store_sectors += last - first + 1;
        mark(k, r->stored, first, last);
    }
    w->stored = w->used;
    give_row(w, k->machine->module->lists + i->aux, r->data + offset, size, vec);
    if (r->initialised)
        initialise(r->initialised, offset, bytes, k->machine->many);
    tag_store(k, r, offset, bytes);
    if (k->machine->many && r->watched)
        watch_stored(k);
    return true;
}

/* ---- shared memory ---- */
ACCESS bool in_shared(const struct machine *m, uint64_t at, unsigned bytes)
{
    return at <= m->shared_bytes && (at + bytes <= m->static_end || (at >= m->module->dynamic_shared && at + bytes <= m->shared_bytes));
}

/* As race_check, for words of which none was ever changed atomically; false: look closer. */
ACCESS bool race_free_read(struct warp *w, uint64_t at, const unsigned words)
{
    struct block *b = w->block;
    if (!b->wrote)
        return true;
    if (!b->granule_shift || b->any_atomic || at & 3)
        return false;
    const uint32_t *wrote = b->wrote + (at >> 2), safe = w->safe, now = w->clock_now, bit = 1u << w->id, me = w->id;
    uint32_t *clock = b->read_clock + (at >> 2), *readers = b->readers + (at >> 2), bad = 0, fresh = 0;
#ifdef __AVX512F__
    if (words % 16 == 0) {
        const __m512i seen = _mm512_set1_epi32((int)(safe << 5 | 31)), us = _mm512_set1_epi32((int)me), past = _mm512_set1_epi32((int)safe);
        const __m512i present = _mm512_set1_epi32((int)now), warps = _mm512_set1_epi32(31), ours = _mm512_set1_epi32((int)bit);
        for (unsigned n = 0; n < words; n += 16) {
            const __m512i write = _mm512_loadu_si512(wrote + n), read = _mm512_loadu_si512(clock + n);
            const __mmask16 old = _mm512_cmpneq_epi32_mask(read, present);
            bad |= _mm512_mask_test_epi32_mask(_mm512_cmpgt_epu32_mask(write, seen), _mm512_xor_si512(write, us), warps);
            bad |= _mm512_mask_cmpgt_epu32_mask(old, read, past);
            fresh |= old | _mm512_testn_epi32_mask(_mm512_loadu_si512(readers + n), ours);
        }
    } else
#endif
        for (unsigned n = 0; n < words; n++) {
            bad |= (uint32_t)(wrote[n] >> 5 > safe) & (uint32_t)((wrote[n] & 31) != me);
            bad |= (uint32_t)(clock[n] != now) & (uint32_t)(clock[n] > safe);
            fresh |= (uint32_t)(clock[n] != now) | (uint32_t)!(readers[n] & bit);
        }
    if (bad)
        return false;
    if (fresh)
        _Pragma("GCC ivdep") for (unsigned n = 0; n < words; n++)
        {
            readers[n] = clock[n] == now ? readers[n] | bit : bit;
            clock[n] = now;
        }
    return true;
}

ACCESS bool race_free_write(struct warp *w, uint64_t at, const unsigned words)
{
    struct block *b = w->block;
    if (!b->wrote)
        return true;
    if (!b->granule_shift || b->any_atomic || at & 3)
        return false;
    uint32_t *wrote = b->wrote + (at >> 2), bad = 0;
    const uint32_t *clock = b->read_clock + (at >> 2), *readers = b->readers + (at >> 2), safe = w->safe, others = ~(1u << w->id), me = w->id;
    for (unsigned n = 0; n < words; n++) {
        bad |= (uint32_t)(wrote[n] >> 5 > safe) & (uint32_t)((wrote[n] & 31) != me);
        bad |= (uint32_t)(clock[n] > safe) & (uint32_t)((readers[n] & others) != 0);
    }
    if (bad)
        return false;
    for (unsigned n = 0; n < words; n++)
        wrote[n] = w->clock_now << 5 | me;
    return true;
}

/* A row that this warp read, with nothing written and no order made since, is what it was: initialised, free of races, noted as read. */
ACCESS bool row_readable(struct warp *w, uint32_t at, const unsigned all)
{
    struct block *b = w->block;
    const uint32_t row = at << 11 | all;
    __typeof__(w->read_rows[0]) *known = &w->read_rows[(at >> 7) % READ_ROWS];
    if (known->row == row && known->changes == b->changes && known->clock == w->clock_now)
        return true;
    if (!initialised(b->shared_init, at, all) || !race_free_read(w, at, all / 4))
        return false;
    known->row = row;
    known->changes = b->changes;
    known->clock = w->clock_now;
    return true;
}

ACCESS bool load_shared(struct warp *w, const struct insn *i, const unsigned size, const unsigned vec)
{
    struct block *b = w->block;
    struct worker *k = b->worker;
    const unsigned each = size * vec, all = each * WARP_LANES;
    uint64_t at;
    const enum pattern pattern = lie(w, i, each, &at);
    if (pattern == PATTERN_ANY || at & (each - 1))
        return false;
    const uint32_t *list = k->machine->module->lists + i->aux;
    if (pattern == PATTERN_ROW) {
        if (!in_shared(k->machine, at, all) || !row_readable(w, (uint32_t)at, all))
            return false;
        k->counts.shared_wavefronts += all > 128 ? all / 128 : 1;
        take_row(w, list, b->shared + at, size, vec);
    } else {
        if (!in_shared(k->machine, at, each) || !initialised(b->shared_init, at, each) ||
            each < 4 || !race_free_read(w, at, each / 4))
            return false;
        k->counts.shared_wavefronts++;
        take_one(w, list, b->shared + at, size, vec);
    }
    k->counts.shared_requests++;
    return true;
}

ACCESS bool store_shared(struct warp *w, const struct insn *i, const unsigned size, const unsigned vec)
{
    struct block *b = w->block;
    struct worker *k = b->worker;
    const unsigned each = size * vec, all = each * WARP_LANES;
    uint64_t at;
    if (lie(w, i, each, &at) != PATTERN_ROW || at & (each - 1) || !in_shared(k->machine, at, all) ||
        !race_free_write(w, at, all / 4))
        return false;
    k->counts.shared_requests++;
    k->counts.shared_wavefronts += all > 128 ? all / 128 : 1;
    w->stored = w->used;
    give_row(w, k->machine->module->lists + i->aux, b->shared + at, size, vec);
    b->changes++;
    initialise(b->shared_init, at, all, false);
    return true;
}

/* ---- the table ---- */
#define FORM(does, space, size, vec)                                                                                           \
    static __attribute__((no_sanitize_thread)) bool does##_##space##_##size##_##vec(struct warp *w, const struct insn *i)      \
    {                                                                                                                          \
        return does##_##space(w, i, size, vec);                                                                                \
    }
#define FORMS(does, space)                                                                              \
    FORM(does, space, 2, 1) FORM(does, space, 2, 2) FORM(does, space, 2, 4) FORM(does, space, 4, 1)      \
    FORM(does, space, 4, 2) FORM(does, space, 4, 4) FORM(does, space, 8, 1) FORM(does, space, 8, 2) FORM(does, space, 8, 4)
FORMS(load, global)
FORMS(load, shared)
FORMS(store, global)
FORMS(store, shared)

#define ROW_OF(does, space, size) {does##_##space##_##size##_1, does##_##space##_##size##_2, does##_##space##_##size##_4}
#define ROWS_OF(does, space) {ROW_OF(does, space, 2), ROW_OF(does, space, 4), ROW_OF(does, space, 8)}
#define TABLE_NAME(x) TABLE_NAME_(x)
#define TABLE_NAME_(x) ptx_access_##x
extern const struct access_table TABLE_NAME(PTX_LANES);
const struct access_table TABLE_NAME(PTX_LANES) = {
    .load = {ROWS_OF(load, global), ROWS_OF(load, shared)},
    .store = {ROWS_OF(store, global), ROWS_OF(store, shared)},
};

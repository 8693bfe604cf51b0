/*
 * Matrices to and from memory: ldmatrix, stmatrix, movmatrix, wmma.load, wmma.store.
 *
 * ldmatrix and stmatrix: 8 x 8 of 16 bits; lane 8 * j + r has the address of row r of matrix j (16 bytes); lane l then holds of each matrix
 * row l / 4, columns l % 4 * 2 and on, or that of the transposed one.
 */
#include "gpu/ptx/matrix.h"
#include "gpu/ptx/machine.h"

#include <string.h>

static struct matrix_form form_of(const struct warp *w, const struct insn *i, const uint32_t **slots)
{
    const uint32_t *list = w->block->worker->machine->module->lists + i->aux;
    struct matrix_form f;
    memcpy(&f, list, sizeof f);
    *slots = list + MATRIX_FORM_WORDS;
    return f;
}

/* `bytes` of one lane, as any load or store checks them. NULL: a finding. */
static uint8_t *access_at(struct warp *w, const struct insn *i, int lane, uint64_t address, unsigned bytes, bool store, struct place *p)
{
    if (!memory_locate(w, i, lane, address, bytes, bytes, store, p))
        return NULL;
    if (!store && p->init && !bits_all(p->init, p->offset, bytes))
        return memory_fault(w, i, lane, PTX_UNINITIALISED, memory_name(w, p), memory_offset(w, p), 0, bytes, false), NULL;
    const enum race_kind kind = store ? RACE_WRITE : RACE_READ;
    if (p->home ? !race_shared(w, i, lane, p->home, p->offset, bytes, kind) : p->region && p->region->watched && !watch_lane(w, i, lane, p, bytes, kind, NULL))
        return NULL;
    if (store && p->init)
        bits_set(p->init, p->offset, bytes, w->block->worker->machine->many && p->region);
    if (store && p->region)
        tag_store(w->block->worker, p->region, p->offset, bytes);
    return p->data;
}

/* Passes over the banks for rows of 16 bytes: the most rows of a matrix that start at the same four banks. */
static unsigned passes(const uint32_t *offsets, uint32_t matrices)
{
    unsigned total = 0;
    for (uint32_t j = 0; j < matrices; j++) {
        unsigned most = 1;
        for (uint32_t r = 0; r < 8; r++) {
            unsigned same = 0;
            for (uint32_t q = 0; q <= r; q++) {
                bool again = false;
                for (uint32_t p = 0; p < q; p++)
                    again |= offsets[j * 8 + p] == offsets[j * 8 + q];
                same += !again && (offsets[j * 8 + q] >> 4 & 7) == (offsets[j * 8 + r] >> 4 & 7);
            }
            most = same > most ? same : most;
        }
        total += most;
    }
    return total;
}

static void count_rows(struct warp *w, const uint32_t *offsets, uint32_t matrices)
{
    struct ptx_counts *c = &w->block->worker->counts;
    c->shared_requests++;
    c->shared_wavefronts += passes(offsets, matrices);
}

/* Row and column of element e of a lane. */
static void place_of(uint32_t lane, uint32_t e, bool trans, uint32_t *row, uint32_t *column)
{
    *row = trans ? lane % 4 * 2 + e : lane / 4;
    *column = trans ? lane / 4 : lane % 4 * 2 + e;
}

bool matrix_load(struct warp *w, const struct insn *i)
{
    const uint32_t *slots;
    const struct matrix_form f = form_of(w, i, &slots);
    uint16_t rows[32][8];
    uint32_t offsets[32];
    memory_addresses(w, i, 16);
    for (uint32_t lane = 0; lane < f.k * 8; lane++) {
        struct place p;
        const uint8_t *from = access_at(w, i, (int)lane, w->block->worker->addresses[lane], 16, false, &p);
        if (!from)
            return false;
        if (!p.home)
            return fault(w, i, (int)lane, PTX_OUT_OF_BOUNDS, "reads a row of a matrix at an address that is not in shared memory");
        memcpy(rows[lane], from, 16);
        offsets[lane] = (uint32_t)p.offset;
    }
    count_rows(w, offsets, f.k);
    for (uint32_t j = 0; j < f.k; j++)
        for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
            uint32_t value = 0, row, column;
            for (uint32_t e = 0; e < 2; e++) {
                place_of(lane, e, f.flags & MX_TRANS, &row, &column);
                value |= (uint32_t)rows[j * 8 + row][column] << (16 * e);
            }
            ((uint32_t *)slot(w, slots[j]))[lane] = value;
        }
    return true;
}

bool matrix_store(struct warp *w, const struct insn *i)
{
    const uint32_t *slots;
    const struct matrix_form f = form_of(w, i, &slots);
    uint32_t offsets[32];
    uint8_t *where[32];
    uint16_t rows[32][8];
    for (uint32_t j = 0; j < f.k; j++)
        for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
            const uint32_t value = ((const uint32_t *)slot(w, slots[j]))[lane];
            uint32_t row, column;
            for (uint32_t e = 0; e < 2; e++) {
                place_of(lane, e, f.flags & MX_TRANS, &row, &column);
                rows[j * 8 + row][column] = (uint16_t)(value >> (16 * e));
            }
        }
    memory_addresses(w, i, 16);
    for (uint32_t lane = 0; lane < f.k * 8; lane++) {
        struct place p;
        if (!(where[lane] = access_at(w, i, (int)lane, w->block->worker->addresses[lane], 16, true, &p)))
            return false;
        if (!p.home)
            return fault(w, i, (int)lane, PTX_OUT_OF_BOUNDS, "writes a row of a matrix at an address that is not in shared memory");
        memcpy(where[lane], rows[lane], 16);
        offsets[lane] = (uint32_t)p.offset;
    }
    for (uint32_t lane = 0; lane < f.k * 8; lane++)
        if (memcmp(where[lane], rows[lane], 16) != 0)
            return fault(w, i, (int)lane, PTX_RACE, "writes a row where another lane of its warp writes a different one in the same instruction");
    count_rows(w, offsets, f.k);
    return true;
}

void matrix_move(struct warp *w, const struct insn *i)
{
    const uint32_t *slots;
    form_of(w, i, &slots);
    const uint32_t *from = (const uint32_t *)slot(w, slots[1]);
    uint16_t all[8][8];
    for (uint32_t lane = 0; lane < WARP_LANES; lane++)
        for (uint32_t e = 0; e < 2; e++)
            all[lane / 4][lane % 4 * 2 + e] = (uint16_t)(from[lane] >> (16 * e));
    for (uint32_t lane = 0; lane < WARP_LANES; lane++)
        ((uint32_t *)slot(w, slots[0]))[lane] = all[lane % 4 * 2][lane / 4] | (uint32_t)all[lane % 4 * 2 + 1][lane / 4] << 16;
}

/* ---- wmma ---- */
/* The address of element (row, column), in bits from the pointer. */
static int64_t wmma_bit(const struct matrix_form *f, uint32_t row, uint32_t column, int64_t stride)
{
    const int64_t at = f->flags & MX_COLUMN ? (int64_t)column * stride + row : (int64_t)row * stride + column;
    return at * matrix_types[f->a].bits;
}

static void count_wmma(struct warp *w, const struct place *p, unsigned bytes, bool store, uint32_t lane)
{
    struct ptx_counts *c = &w->block->worker->counts;
    if (p->home) {
        c->shared_requests += !lane;
        c->shared_wavefronts += !(lane % 8);   /* a guess: 8 lanes a pass; where a fragment lies is not told */
    } else if (p->region && p->region->counted) {
        memory_count(w->block->worker, p->region, p->offset, bytes, store);
    }
}

/* Calls that move one lane's elements: pieces that lie together in memory are one access each. */
static bool wmma_lane(struct warp *w, const struct insn *i, const struct matrix_form *f, const uint32_t *slots, uint32_t lane, uint64_t base, int64_t stride,
                      bool store)
{
    const uint32_t bits = matrix_types[f->a].bits, per = bits >= 32 ? 1 : 32 / bits, each = f->m * f->n / WARP_LANES;
    for (uint32_t r = 0; r < f->count_a; r++) {
        char *reg = slot(w, slots[r]);
        uint64_t value = store ? bits == 64 ? ((uint64_t *)reg)[lane] : ((uint32_t *)reg)[lane] : 0;
        for (uint32_t e = 0; e < per; e++) {
            const uint32_t at = lane * each + (r * per + e) % each;
            const int64_t bit = wmma_bit(f, at / f->n, at % f->n, stride);
            const unsigned bytes = bits < 8 ? 1 : bits / 8;
            struct place p;
            uint8_t *data = access_at(w, i, (int)lane, base + (uint64_t)(bit >> 3), bytes, store, &p);
            if (!data)
                return false;
            uint64_t item = 0;
            if (store) {
                item = value >> (e * bits);
                memcpy(data, &item, bytes);
            } else {
                memcpy(&item, data, bytes);
                item = bits < 8 ? item >> (bit & 7) & ((1u << bits) - 1) : item;
                value |= item << (e * bits);
            }
            if (!e)
                count_wmma(w, &p, bytes * per, store, lane);
        }
        if (!store && bits == 64)
            ((uint64_t *)reg)[lane] = value;
        else if (!store)
            ((uint32_t *)reg)[lane] = (uint32_t)value;
    }
    return true;
}

static bool wmma_all(struct warp *w, const struct insn *i, bool store)
{
    const uint32_t *slots;
    const struct matrix_form f = form_of(w, i, &slots);
    uint64_t addresses[WARP_LANES];
    memory_addresses(w, i, 1);
    memcpy(addresses, w->block->worker->addresses, sizeof addresses);
    const uint32_t bits = matrix_types[f.a].bits, along = f.flags & MX_COLUMN ? f.m : f.n;
    const unsigned whole = f.count_a * (bits == 64 ? 8 : 4);
    for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
        const int64_t stride = i->b ? (int32_t)((const uint32_t *)slot(w, i->b))[lane] : (int64_t)along;
        if (addresses[lane] != addresses[0])
            return fault(w, i, (int)lane, PTX_BARRIER, "gives another address than the first lane of its warp for one matrix");
        if (stride * bits % (8 * (whole < 16 ? whole : 16)))
            return fault(w, i, (int)lane, PTX_MISALIGNED, "gives a stride of %lld elements, which is not a multiple of %u bytes", (long long)stride,
                         whole < 16 ? whole : 16);
        if (addresses[lane] % whole)
            return fault(w, i, (int)lane, PTX_MISALIGNED, "gives a matrix at address 0x%llx, which is not a multiple of %u, the size of its fragment",
                         (unsigned long long)addresses[lane], whole);
        if (!wmma_lane(w, i, &f, slots, lane, addresses[lane], stride, store))
            return false;
    }
    return true;
}

bool wmma_load(struct warp *w, const struct insn *i) { return wmma_all(w, i, false); }
bool wmma_store(struct warp *w, const struct insn *i) { return wmma_all(w, i, true); }

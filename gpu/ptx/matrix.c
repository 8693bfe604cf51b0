/*
 * mma.sync and wmma.mma: fragments of registers to matrices, products, and back.
 *
 * Fragments of mma, as PTX lays them out: lane l is in group l / 4 at place l % 4. A register holds E = 32 / bits elements that lie along
 * k. Of A, register r holds row group + 8 * (r & 1), elements place * E + 4 * E * (r / 2) and on; with 8 rows, row group and register r.
 * Of B, column group, elements place * E + 4 * E * r. Of C and D, row group + 8 * (i / 2), columns place * 2 + (i & 1), for element i.
 *
 * Fragments of wmma are nobody's business by PTX: here lane l holds the elements l * per and on, by rows; where the registers have room for
 * more, copies of them.
 */
#include "gpu/ptx/matrix.h"
#include "gpu/ptx/machine.h"

#include <math.h>
#include <string.h>

const struct matrix_type_info matrix_types[E_COUNT] = {
#define X(code, name, bits, is_float, is_signed) {name, bits, is_float, is_signed},
    MATRIX_TYPE_TABLE(X)
#undef X
};

/* All elements of the operands as bits, by rows; B by columns, so that both lie along k. */
struct operands {
    uint64_t a[MOST_ELEMENTS], b[MOST_ELEMENTS], c[512];
};

enum side { SIDE_A, SIDE_B, SIDE_C };
struct fragment { enum side side; enum matrix_type type; uint32_t rows, k, count; bool opaque; };   /* rows: m, or n of B; k: along it, or n of C */

/* Where element e of register r of a lane lies: the index in the matrix. */
static uint32_t element_at(const struct fragment *f, uint32_t lane, uint32_t r, uint32_t e)
{
    const uint32_t bits = matrix_types[f->type].bits, per = bits >= 32 ? 1 : 32 / bits, group = lane / 4, place = lane % 4;
    if (f->opaque) {
        const uint32_t each = f->rows * f->k / WARP_LANES;
        return lane * each + (r * per + e) % each;
    }
    if (f->side == SIDE_C) {
        const uint32_t i = r * per + e;
        return (group + 8 * (i / 2)) * f->k + place * 2 + (i & 1);
    }
    const uint32_t row = f->side == SIDE_A && f->rows == 16 ? group + 8 * (r & 1) : group;
    const uint32_t step = f->side == SIDE_A && f->rows == 16 ? r / 2 : r;
    return row * f->k + place * per + 4 * per * step + e;
}

/* Of wmma's B the element's place is by rows of k; ours lies along k. */
static uint32_t index_of(const struct fragment *f, uint32_t lane, uint32_t r, uint32_t e)
{
    const uint32_t at = element_at(f, lane, r, e);
    return f->opaque && f->side == SIDE_B ? at % f->rows * f->k + at / f->rows : at;
}

static void gather(const struct warp *w, const struct fragment *f, const uint32_t *slots, uint64_t *to)
{
    const uint32_t bits = matrix_types[f->type].bits, per = bits >= 32 ? 1 : 32 / bits;
    for (uint32_t r = 0; r < f->count; r++)
        for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
            const uint64_t reg = bits == 64 ? ((const uint64_t *)slot(w, slots[r]))[lane] : ((const uint32_t *)slot(w, slots[r]))[lane];
            for (uint32_t e = 0; e < per; e++)
                to[index_of(f, lane, r, e)] = bits >= 32 ? reg : reg >> (e * bits) & ((1u << bits) - 1);
        }
}

static void scatter(struct warp *w, const struct fragment *f, const uint32_t *slots, const uint64_t *from)
{
    const uint32_t bits = matrix_types[f->type].bits, per = bits >= 32 ? 1 : 32 / bits;
    for (uint32_t r = 0; r < f->count; r++)
        for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
            uint64_t reg = 0;
            for (uint32_t e = 0; e < per; e++)
                reg |= from[index_of(f, lane, r, e)] << (e * bits);
            if (bits == 64)
                ((uint64_t *)slot(w, slots[r]))[lane] = reg;
            else
                ((uint32_t *)slot(w, slots[r]))[lane] = (uint32_t)reg;
        }
}

/* ---- products ---- */
static int32_t integer_of(enum matrix_type t, uint64_t bits)
{
    const uint32_t unused = 32 - matrix_types[t].bits;
    return matrix_types[t].is_signed ? (int32_t)((uint32_t)bits << unused) >> unused : (int32_t)bits;
}

static uint32_t dot_integers(const struct matrix_form *f, const uint64_t *a, const uint64_t *b, uint32_t c)
{
    int64_t sum = (int32_t)c;
    for (uint32_t k = 0; k < f->k; k++)
        if (f->a == E_B1)
            sum += f->flags & MX_XOR ? (int64_t)(a[k] ^ b[k]) : (int64_t)(a[k] & b[k]);
        else
            sum += (int64_t)integer_of((enum matrix_type)f->a, a[k]) * integer_of((enum matrix_type)f->b, b[k]);
    if (f->flags & MX_SATURATE)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

static uint64_t dot_doubles(const struct matrix_form *f, const uint64_t *a, const uint64_t *b, uint64_t c)
{
    double sum;
    memcpy(&sum, &c, 8);
    for (uint32_t k = 0; k < f->k; k++) {
        double x, y;
        memcpy(&x, &a[k], 8);
        memcpy(&y, &b[k], 8);
        sum = fma(x, y, sum);
    }
    memcpy(&c, &sum, 8);
    return c;
}

/* 8-bit floats become pairs of f16: of each four, the lower two go into the first of two products, the upper two into the second. */
static void by_halves(struct matrix_number *x, uint32_t rows, uint32_t k)
{
    for (uint32_t row = 0; row < rows; row++, x += k) {
        struct matrix_number sorted[64];
        for (uint32_t n = 0; n < k && n < 64; n++)
            sorted[(n >> 2) * 2 + (n & 1) + (n & 2 ? k / 2 : 0)] = x[n];
        memcpy(x, sorted, k * sizeof *x);
    }
}

static void multiply(const struct matrix_form *f, const struct operands *x, uint64_t *d)
{
    const enum matrix_type to = (enum matrix_type)f->d;
    const bool bytes = matrix_types[f->a].bits == 8;
    const uint32_t block = bytes ? f->k / 2 : f->a == E_TF32 ? 8 : 16;
    if (!matrix_types[f->a].is_float || f->a == E_F64) {
        for (uint32_t m = 0; m < f->m; m++)
            for (uint32_t n = 0; n < f->n; n++) {
                const uint64_t *a = x->a + m * f->k, *b = x->b + n * f->k, c = x->c[m * f->n + n];
                d[m * f->n + n] = f->a == E_F64 ? dot_doubles(f, a, b, c) : dot_integers(f, a, b, (uint32_t)c);
            }
        return;
    }
    struct matrix_number a[512], b[512];
    for (uint32_t n = 0; n < f->m * f->k; n++)
        a[n] = matrix_unpack((enum matrix_type)f->a, (uint32_t)x->a[n]);
    for (uint32_t n = 0; n < f->n * f->k; n++)
        b[n] = matrix_unpack((enum matrix_type)f->b, (uint32_t)x->b[n]);
    if (bytes) {
        by_halves(a, f->m, f->k);
        by_halves(b, f->n, f->k);
    }
    for (uint32_t m = 0; m < f->m; m++)
        for (uint32_t n = 0; n < f->n; n++)
            d[m * f->n + n] = bytes ? matrix_float_bytes(a + m * f->k, b + n * f->k, f->k, block, (uint32_t)x->c[m * f->n + n], to)
                                    : matrix_float(a + m * f->k, b + n * f->k, f->k, block, (uint32_t)x->c[m * f->n + n], (enum matrix_type)f->c, to);
}

static void mma(struct warp *w, const struct insn *i)
{
    const uint32_t *list = w->block->worker->machine->module->lists + i->aux, *slots = list + MATRIX_FORM_WORDS;
    struct matrix_form f;
    memcpy(&f, list, sizeof f);
    const bool opaque = i->op == MX_WMMA_MMA;
    const struct fragment a = {SIDE_A, (enum matrix_type)f.a, f.m, f.k, f.count_a, opaque}, b = {SIDE_B, (enum matrix_type)f.b, f.n, f.k, f.count_b, opaque},
                          c = {SIDE_C, (enum matrix_type)f.c, f.m, f.n, f.count_c, opaque}, d = {SIDE_C, (enum matrix_type)f.d, f.m, f.n, f.count_d, opaque};
    struct operands x;
    uint64_t result[512];
    gather(w, &a, slots + f.count_d, x.a);
    gather(w, &b, slots + f.count_d + f.count_a, x.b);
    gather(w, &c, slots + f.count_d + f.count_a + f.count_b, x.c);
    multiply(&f, &x, result);
    scatter(w, &d, slots, result);
}

uint32_t matrix_reads(const uint32_t *lists, const struct insn *i, const uint32_t **ret)
{
    struct matrix_form f;
    memcpy(&f, lists + i->aux, sizeof f);
    const bool mma = i->op == MX_MMA || i->op == MX_WMMA_MMA, store = i->op == MX_STMATRIX || i->op == MX_WMMA_STORE;
    *ret = lists + i->aux + MATRIX_FORM_WORDS + (mma ? f.count_d : 0);
    return mma ? f.count_a + f.count_b + f.count_c : store ? f.count_a : 0;
}

bool matrix_execute(struct warp *w, const struct insn *i, uint32_t active)
{
    if (active != FULL_MASK)
        return fault(w, i, first_lane(active), PTX_BARRIER, "is in a warp of which only the lanes %08x are there, for an instruction of all 32", active);
    switch ((enum matrix_op)i->op) {
    case MX_LDMATRIX: return matrix_load(w, i);
    case MX_STMATRIX: return matrix_store(w, i);
    case MX_MOVMATRIX: matrix_move(w, i); return true;
    case MX_MMA:
    case MX_WMMA_MMA: mma(w, i); return true;
    case MX_WMMA_LOAD: return wmma_load(w, i);
    case MX_WMMA_STORE: return wmma_store(w, i);
    }
    return true;
}

/*
 * ldmatrix, stmatrix, movmatrix, mma, wmma: the opcode's own words (shapes, element types) to a struct matrix_form.
 *
 * All are .sync.aligned: the whole warp does them, as a vote with all lanes would.
 */
#include "gpu/ptx/decode.h"
#include "gpu/ptx/matrix.h"

#include <string.h>

/* ---- words of the opcode ---- */
struct words { uint32_t m, n, k; enum matrix_type types[4]; int type_count; const char *fragment; };

static enum matrix_type type_find(const char *text, size_t size)
{
    for (int t = 0; t < E_COUNT; t++)
        if (strlen(matrix_types[t].name) == size && !memcmp(matrix_types[t].name, text, size))
            return (enum matrix_type)t;
    return E_COUNT;
}

static bool shape_of(const char *text, size_t size, struct words *ret)
{
    char copy[16];
    uint32_t *const to[3] = {&ret->m, &ret->n, &ret->k};
    if (size >= sizeof copy || *text != 'm')
        return false;
    memcpy(copy, text, size);
    copy[size] = 0;
    const char *p = copy;
    for (int i = 0; i < 3 && *p == "mnk"[i]; i++) {
        char *end;
        const unsigned long n = strtoul(p + 1, &end, 10);
        if (end == p + 1 || n > 512)
            return false;
        *to[i] = (uint32_t)n;
        p = end;
    }
    return !*p;
}

static struct words words_of(const struct decoder *d)
{
    struct words r = {.fragment = ""};
    const char *text = ptx_name(d->m, d->stmt->opcode);
    for (text += strcspn(text, "."); *text == '.';) {
        text++;
        const size_t size = strcspn(text, ".");
        const enum matrix_type t = type_find(text, size);
        if (t != E_COUNT && r.type_count < 4)
            r.types[r.type_count++] = t;
        else if (size == 1 && strchr("abcd", *text))
            r.fragment = text;
        else if (!r.m)
            shape_of(text, size, &r);
        text += size;
    }
    return r;
}

/* ---- operands ---- */
static bool registers(struct decoder *d, const struct operand *o, uint32_t count, enum matrix_type t, bool write, uint32_t *slots)
{
    const enum ptx_type type = matrix_types[t].bits == 64 ? T_B64 : T_B32;
    const struct operand list = *o;
    if (list.kind != O_LIST && count == 1)
        return (*slots = write ? dest(d, o, type) : source(d, o, type)) != 0;
    if (list.kind != O_LIST || list.count != count)
        return false;
    for (uint32_t n = 0; n < count; n++) {
        const struct operand one = d->m->operands[list.id + n];
        if (one.kind == O_REG && d->f->reg_types[one.id] != T_PRED && ptx_types[d->f->reg_types[one.id]].bytes != ptx_types[type].bytes)
            return false;
        if (!(slots[n] = write ? dest(d, &one, type) : source(d, &one, type)))
            return false;
    }
    return true;
}

static struct insn *emit_matrix(struct decoder *d, enum matrix_op op, const struct matrix_form *f, const uint32_t *slots, uint32_t count)
{
    uint32_t form[MATRIX_FORM_WORDS];
    memcpy(form, f, sizeof form);
    const uint32_t list = list_add(d, form, MATRIX_FORM_WORDS), all = constant(d, FULL_MASK, 4);
    list_add(d, slots, count);
    struct insn *i = emit(d, K_MATRIX);
    i->op = (uint8_t)op;
    i->aux = list;
    i->d = all;
    i->vec = 1;
    return i;
}

/* ---- mma ---- */
/* Registers of a fragment a lane, as PTX has them for mma: no copies. */
static uint32_t registers_of(uint32_t elements, enum matrix_type t)
{
    return matrix_types[t].bits == 64 ? elements / 32 : elements * matrix_types[t].bits / 1024;
}

struct shape { uint16_t m, n, k; };
static const struct { enum matrix_type type; struct shape shapes[4]; } mma_shapes[] = {
    {E_F16, {{16, 8, 16}, {16, 8, 8}}}, {E_BF16, {{16, 8, 16}, {16, 8, 8}}}, {E_TF32, {{16, 8, 8}, {16, 8, 4}}},
    {E_E4M3, {{16, 8, 32}, {16, 8, 16}}}, {E_E5M2, {{16, 8, 32}, {16, 8, 16}}},
    {E_F64, {{8, 8, 4}, {16, 8, 4}, {16, 8, 8}, {16, 8, 16}}},
    {E_U8, {{16, 8, 32}, {16, 8, 16}, {8, 8, 16}}}, {E_S8, {{16, 8, 32}, {16, 8, 16}, {8, 8, 16}}},
    {E_U4, {{16, 8, 64}, {16, 8, 32}, {8, 8, 32}}}, {E_S4, {{16, 8, 64}, {16, 8, 32}, {8, 8, 32}}},
    {E_B1, {{16, 8, 256}, {16, 8, 128}, {8, 8, 128}}},
};

static bool mma_shape_known(const struct matrix_form *f)
{
    for (size_t n = 0; n < sizeof mma_shapes / sizeof *mma_shapes; n++)
        for (int s = 0; mma_shapes[n].type == f->a && s < 4; s++)
            if (mma_shapes[n].shapes[s].m == f->m && mma_shapes[n].shapes[s].n == f->n && mma_shapes[n].shapes[s].k == f->k)
                return true;
    return false;
}

/* Which types go together: both factors of one kind, and their sums. */
static bool types_agree(const struct matrix_form *f)
{
    const struct matrix_type_info *a = &matrix_types[f->a], *b = &matrix_types[f->b];
    if (a->bits != b->bits || a->is_float != b->is_float || (a->is_float && f->a != f->b && a->bits != 8))
        return false;
    if (!a->is_float)
        return f->c == E_S32 && f->d == E_S32;
    if (f->a == E_F64)
        return f->c == E_F64 && f->d == E_F64;
    const bool half = f->a == E_F16 || a->bits == 8;
    return (f->c == E_F32 || (half && f->c == E_F16)) && (f->d == E_F32 || (half && f->d == E_F16));
}

static bool multiply(struct decoder *d, enum matrix_op op, struct matrix_form *f)
{
    uint32_t slots[64];
    const bool fits = f->count_a + f->count_b + f->count_c + f->count_d <= 64;
    if (!fits || d->stmt->count != 4 || !types_agree(f) || has(&d->op, M_RZ) || has(&d->op, M_RM) || has(&d->op, M_RP))
        return false;
    if (f->a == E_B1 && has(&d->op, M_XOR) == has(&d->op, M_AND))
        return false;
    f->flags = (has(&d->op, M_SATFINITE) ? MX_SATURATE : 0u) | (has(&d->op, M_XOR) ? MX_XOR : 0u);
    if (!registers(d, arg(d, 0), f->count_d, (enum matrix_type)f->d, true, slots) ||
        !registers(d, arg(d, 1), f->count_a, (enum matrix_type)f->a, false, slots + f->count_d) ||
        !registers(d, arg(d, 2), f->count_b, (enum matrix_type)f->b, false, slots + f->count_d + f->count_a) ||
        !registers(d, arg(d, 3), f->count_c, (enum matrix_type)f->c, false, slots + f->count_d + f->count_a + f->count_b))
        return false;
    emit_matrix(d, op, f, slots, f->count_a + f->count_b + f->count_c + f->count_d);
    return true;
}

bool ptx_decode_mma(struct decoder *d)
{
    const struct words w = words_of(d);
    if (w.type_count != 4 || !w.k || !has(&d->op, M_SYNC) || !has(&d->op, M_ALIGNED) || !has(&d->op, M_ROW) || !has(&d->op, M_COL))
        return false;
    struct matrix_form f = {.m = w.m, .n = w.n, .k = w.k, .d = w.types[0], .a = w.types[1], .b = w.types[2], .c = w.types[3]};
    if (!mma_shape_known(&f))
        return false;
    f.count_a = registers_of(f.m * f.k, w.types[1]);
    f.count_b = registers_of(f.n * f.k, w.types[2]);
    f.count_c = registers_of(f.m * f.n, w.types[3]);
    f.count_d = registers_of(f.m * f.n, w.types[0]);
    return multiply(d, MX_MMA, &f);
}

/* ---- wmma ---- */
static bool wmma_shape_known(const struct words *w, enum matrix_type factor)
{
    static const struct { enum matrix_type type; struct shape shape; } others[] = {
        {E_TF32, {16, 16, 8}}, {E_F64, {8, 8, 4}}, {E_U4, {8, 8, 32}}, {E_S4, {8, 8, 32}}, {E_B1, {8, 8, 128}}};
    for (size_t n = 0; n < sizeof others / sizeof *others; n++)
        if (others[n].type == factor)
            return w->m == others[n].shape.m && w->n == others[n].shape.n && w->k == others[n].shape.k;
    return w->k == 16 && ((w->m == 16 && w->n == 16) || (w->m == 8 && w->n == 32) || (w->m == 32 && w->n == 8));
}

/* f16 factors have room for each element twice or more. */
static uint32_t wmma_registers(char fragment, const struct words *w, enum matrix_type t)
{
    if (fragment == 'c' || fragment == 'd')
        return registers_of(w->m * w->n, t);
    return t == E_F16 ? 8 : registers_of((fragment == 'a' ? w->m : w->n) * w->k, t);
}

/* wmma.load.F...{.space}.type {registers}, [address]{, stride}; wmma.store.d...  [address], {registers}{, stride} */
static bool wmma_memory(struct decoder *d, const struct words *w, bool store)
{
    const struct opcode *o = &d->op;
    const char fragment = *w->fragment;
    uint32_t slots[16], slot;
    int64_t offset;
    if (w->type_count != 1 || d->stmt->count < 2 || d->stmt->count > 3 || !fragment || has(o, M_ROW) == has(o, M_COL))
        return false;
    const enum matrix_type t = w->types[0];
    const bool sums = fragment == 'c' || fragment == 'd';
    if ((sums && t != E_F16 && t != E_F32 && t != E_S32 && t != E_F64) || (!sums && (t == E_F32 || t == E_S32 || !wmma_shape_known(w, t))))
        return false;
    struct matrix_form f = {.m = fragment == 'b' ? w->k : w->m, .n = fragment == 'a' ? w->k : w->n, .a = t,
                            .count_a = wmma_registers(fragment, w, t), .flags = has(o, M_COL) ? MX_COLUMN : 0u};
    if (!f.count_a || f.count_a > 16 || f.m * f.n > 1024 || f.m * f.n < 32)
        return false;
    if (!registers(d, arg(d, store ? 1 : 0), f.count_a, t, !store, slots) || !address(d, arg(d, store ? 0 : 1), &slot, &offset))
        return false;
    const uint32_t stride = d->stmt->count == 3 ? source(d, arg(d, 2), T_U32) : 0;
    if (d->stmt->count == 3 && !stride)
        return false;
    struct insn *i = emit_matrix(d, store ? MX_WMMA_STORE : MX_WMMA_LOAD, &f, slots, f.count_a);
    i->a = slot;
    i->imm = offset;
    i->b = stride;
    i->space = (uint8_t)space_of_op(o);
    return true;
}

bool ptx_decode_wmma(struct decoder *d)
{
    const struct words w = words_of(d);
    if (!w.m || !w.n || !w.k || !has(&d->op, M_SYNC) || !has(&d->op, M_ALIGNED))
        return false;
    if (has(&d->op, M_LOAD) || has(&d->op, M_STORE))
        return wmma_memory(d, &w, has(&d->op, M_STORE));
    if (!has(&d->op, M_MMA) || (w.type_count != 2 && w.type_count != 4))
        return false;
    struct matrix_form f = {.m = w.m, .n = w.n, .k = w.k, .d = w.types[0]};
    f.a = w.type_count == 4 ? w.types[1] : E_F16;
    f.b = w.type_count == 4 ? w.types[2] : E_F16;
    f.c = w.types[w.type_count - 1];
    if (!wmma_shape_known(&w, (enum matrix_type)f.a))
        return false;
    f.count_a = wmma_registers('a', &w, (enum matrix_type)f.a);
    f.count_b = wmma_registers('b', &w, (enum matrix_type)f.b);
    f.count_c = wmma_registers('c', &w, (enum matrix_type)f.c);
    f.count_d = wmma_registers('d', &w, (enum matrix_type)f.d);
    return multiply(d, MX_WMMA_MMA, &f);
}

/* ---- ldmatrix, stmatrix, movmatrix: 8 x 8 of 16 bits ---- */
static bool rows_of_16_bits(const struct decoder *d, const struct words *w)
{
    return w->m == 8 && w->n == 8 && !w->k && has(&d->op, M_SYNC) && has(&d->op, M_ALIGNED) && d->op.type_count == 1 && d->op.types[0] == T_B16;
}

static bool matrices(struct decoder *d, bool store)
{
    const struct opcode *o = &d->op;
    const struct words w = words_of(d);
    const uint32_t count = has(o, M_X4) ? 4 : has(o, M_X2) ? 2 : has(o, M_X1) ? 1 : 0;
    uint32_t slots[4], slot;
    int64_t offset;
    if (!rows_of_16_bits(d, &w) || !count || d->stmt->count != 2 || !address(d, arg(d, store ? 0 : 1), &slot, &offset) ||
        !registers(d, arg(d, store ? 1 : 0), count, E_S32, !store, slots))
        return false;
    const struct matrix_form f = {.m = 8, .n = 8, .k = count, .a = E_F16, .count_a = count, .flags = has(o, M_TRANS) ? MX_TRANS : 0u};
    struct insn *i = emit_matrix(d, store ? MX_STMATRIX : MX_LDMATRIX, &f, slots, count);
    i->a = slot;
    i->imm = offset;
    i->space = (uint8_t)space_of_op(o);
    return true;
}

bool ptx_decode_ldmatrix(struct decoder *d) { return matrices(d, false); }
bool ptx_decode_stmatrix(struct decoder *d) { return matrices(d, true); }

bool ptx_decode_movmatrix(struct decoder *d)
{
    const struct words w = words_of(d);
    const uint32_t slots[2] = {dest(d, arg(d, 0), T_B32), source(d, arg(d, 1), T_B32)};
    if (!rows_of_16_bits(d, &w) || !has(&d->op, M_TRANS) || d->stmt->count != 2 || !slots[0] || !slots[1])
        return false;
    const struct matrix_form f = {.m = 8, .n = 8, .k = 1, .count_a = 1};
    emit_matrix(d, MX_MOVMATRIX, &f, slots, 2);
    return true;
}

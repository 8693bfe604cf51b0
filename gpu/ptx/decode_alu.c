/* Arithmetic and logic of integers, moves: mostly tables from (instruction, type) to a lane operation. */
#include "gpu/ptx/decode_parts.h"

#define N LANE_NONE
#define INT6(x) LANE_##x##_16, LANE_##x##_16, LANE_##x##_32, LANE_##x##_32, LANE_##x##_64, LANE_##x##_64
#define SIGN6(x) LANE_##x##_u16, LANE_##x##_s16, LANE_##x##_u32, LANE_##x##_s32, LANE_##x##_u64, LANE_##x##_s64
enum row { R_ADD, R_SUB, R_MUL, R_MUL_HI, R_MUL_WIDE, R_MAD, R_MAD_WIDE, R_DIV, R_REM, R_MIN, R_MAX, R_SAD, R_MUL24, R_MUL24_HI,
           R_NOT, R_AND, R_OR, R_XOR, R_CNOT, R_SHL, R_SHR, ROWS };
/* by enum column; LANE_NONE where PTX has none */
static const uint16_t table[ROWS][COLUMNS] = {
    [R_ADD] = {INT6(add), N, N, LANE_add_16x2, LANE_add_16x2},
    [R_SUB] = {INT6(sub), N, N, N, N},
    [R_MUL] = {INT6(mul_lo), N, N, N, N},
    [R_MUL_HI] = {SIGN6(mul_hi), N, N, N, N},
    [R_MUL_WIDE] = {LANE_mul_wide_u16, LANE_mul_wide_s16, LANE_mul_wide_u32, LANE_mul_wide_s32, N, N, N, N, N, N},
    [R_MAD] = {INT6(mad_lo), N, N, N, N},
    [R_MAD_WIDE] = {N, N, LANE_mad_wide_u32, LANE_mad_wide_s32, N, N, N, N, N, N},
    [R_DIV] = {SIGN6(div), N, N, N, N},
    [R_REM] = {LANE_rem_u16, LANE_rem_s16, LANE_rem_u32, LANE_rem_s32, LANE_rem_u64, LANE_rem_s64, N, N, N, N},
    [R_MIN] = {LANE_min_u32, LANE_min_s16, LANE_min_u32, LANE_min_s32, LANE_min_u64, LANE_min_s64, N, N, LANE_min_u16x2, LANE_min_s16x2},
    [R_MAX] = {LANE_max_u32, LANE_max_s16, LANE_max_u32, LANE_max_s32, LANE_max_u64, LANE_max_s64, N, N, LANE_max_u16x2, LANE_max_s16x2},
    [R_SAD] = {LANE_sad_u16, LANE_sad_s16, LANE_sad_u32, LANE_sad_s32, LANE_sad_u64, LANE_sad_s64, N, N, N, N},
    [R_MUL24] = {N, N, LANE_mul24_lo_u32, LANE_mul24_lo_s32, N, N, N, N, N, N},
    [R_MUL24_HI] = {N, N, LANE_mul24_hi_u32, LANE_mul24_hi_s32, N, N, N, N, N, N},
    [R_NOT] = {INT6(not), N, N, N, N},
    [R_AND] = {LANE_and_32, LANE_and_32, LANE_and_32, LANE_and_32, LANE_and_64, LANE_and_64, N, N, N, N},
    [R_OR] = {LANE_or_32, LANE_or_32, LANE_or_32, LANE_or_32, LANE_or_64, LANE_or_64, N, N, N, N},
    [R_XOR] = {LANE_xor_32, LANE_xor_32, LANE_xor_32, LANE_xor_32, LANE_xor_64, LANE_xor_64, N, N, N, N},
    [R_CNOT] = {LANE_cnot_32, LANE_cnot_32, LANE_cnot_32, LANE_cnot_32, LANE_cnot_64, LANE_cnot_64, N, N, N, N},
    [R_SHL] = {INT6(shl), N, N, N, N},
    [R_SHR] = {LANE_shr_u32, LANE_shr_s16, LANE_shr_u32, LANE_shr_s32, LANE_shr_u64, LANE_shr_s64, N, N, N, N},
};

static enum lane_op pick(enum row row, enum ptx_type type)
{
    const int c = column_of(type);
    return c < 0 ? LANE_NONE : (enum lane_op)table[row][c];
}

bool ptx_decode_none(struct decoder *d)
{
    (void)d;
    return false;
}

/* ---- add sub mul mad div rem min max sad mul24 mad24 ---- */
/* A product first, then the third source added; clamped with .sat. */
static void product_sum(struct decoder *d, enum lane_op product, uint32_t dst, const uint32_t *s, enum ptx_type product_t)
{
    const uint32_t p = temp(d, is64(product_t) ? 8 : 4);
    lane(d, product, p, s[0], s[1], 0);
    lane(d, has(&d->op, M_SAT) ? LANE_add_sat_s32 : pick(R_ADD, product_t), dst, p, s[2], 0);
}

static bool int_row(const struct opcode *o, enum row *ret)
{
    const bool hi = has(o, M_HI), wide = has(o, M_WIDE);
    switch ((int)o->base) {
    case B_add: *ret = R_ADD; return true;
    case B_sub: *ret = R_SUB; return true;
    case B_mul: *ret = wide ? R_MUL_WIDE : hi ? R_MUL_HI : R_MUL; return true;
    case B_mad: *ret = wide ? R_MAD_WIDE : hi ? R_MUL_HI : R_MAD; return true;
    case B_div: *ret = R_DIV; return true;
    case B_rem: *ret = R_REM; return true;
    case B_sad: *ret = R_SAD; return true;
    case B_mul24:
    case B_mad24: *ret = hi ? R_MUL24_HI : R_MUL24; return true;
    case B_min: *ret = R_MIN; return true;
    case B_max: *ret = R_MAX; return true;
    default: return false;
    }
}

bool ptx_decode_arith(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const enum ptx_type t = o->types[0];
    if (has(o, M_CC))
        return ptx_decode_carry(d);
    if (ptx_types[t].is_float)
        return ptx_decode_float_arith(d);
    const int inputs = o->base == B_mad || o->base == B_mad24 || o->base == B_sad ? 3 : 2;
    const bool wide = has(o, M_WIDE), sat = has(o, M_SAT);
    const enum ptx_type wide_t = !wide ? t : t == T_U16 ? T_U32 : t == T_S16 ? T_S32 : t == T_U32 ? T_U64 : t == T_S32 ? T_S64 : T_NONE;
    enum row row;
    if (o->type_count != 1 || (int)d->stmt->count != inputs + 1 || !wide_t || !int_row(o, &row))
        return false;
    uint32_t s[3] = {0};
    for (int i = 0; i < inputs; i++)
        if (!(s[i] = source(d, arg(d, (unsigned)i + 1), i == 2 ? wide_t : t)))
            return false;
    const uint32_t dst = dest(d, arg(d, 0), wide_t);
    const enum lane_op op = row == R_MAD_WIDE && is16(t) ? pick(R_MUL_WIDE, t) : pick(row, t);
    if (!dst || op == LANE_NONE || (sat && t != T_S32))
        return false;
    if (o->base == B_mad24 || (o->base == B_mad && (row == R_MUL_HI || (wide && is16(t))))) {
        product_sum(d, op, dst, s, wide_t);
        return true;
    }
    if (sat) {
        lane(d, row == R_ADD ? LANE_add_sat_s32 : LANE_sub_sat_s32, dst, s[0], s[1], 0);
        return row == R_ADD || row == R_SUB;
    }
    if (has(o, M_RELU)) { /* min and max of s32, s16x2: not below 0 */
        const uint32_t r = temp(d, 4);
        lane(d, op, r, s[0], s[1], 0);
        lane(d, pick(R_MAX, t), dst, r, constant(d, 0, 4), 0);
        return true;
    }
    lane(d, op, dst, s[0], s[1], s[2]);
    return true;
}

/* ---- add.cc addc sub.cc subc mad.lo.cc madc: one carry slot a function ---- */
bool ptx_decode_carry(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const enum ptx_type t = o->types[0];
    if (o->type_count != 1 || ptx_types[t].is_float || (ptx_types[t].bytes != 4 && !is64(t)))
        return false;
    const bool mad = o->base == B_mad || o->base == B_madc, minus = o->base == B_sub || o->base == B_subc;
    const bool in = o->base == B_addc || o->base == B_subc || o->base == B_madc, wide = is64(t);
    const unsigned width = wide ? 8 : 4;
    uint32_t a = source(d, arg(d, 1), t), b = source(d, arg(d, 2), t);
    const uint32_t dst = dest(d, arg(d, 0), t);
    if (!a || !b || !dst || d->stmt->count != (mad ? 4u : 3u))
        return false;
    if (mad) {
        const uint32_t product = temp(d, width);
        lane(d, pick(has(o, M_HI) ? R_MUL_HI : R_MUL, t), product, a, b, 0);
        a = product;
        if (!(b = source(d, arg(d, 3), t)))
            return false;
    }
    if (!d->f->carry_slot)
        d->f->carry_slot = lasting(d, 4);
    const uint32_t carry = d->f->carry_slot, with = in ? carry : constant(d, 0, 4), sum = temp(d, width);
    lane(d, minus ? wide ? LANE_subc_64 : LANE_subc_32 : wide ? LANE_addc_64 : LANE_addc_32, sum, a, b, with);
    if (has(o, M_CC))
        lane(d, minus ? wide ? LANE_borrow_64 : LANE_borrow_32 : wide ? LANE_carry_64 : LANE_carry_32, carry, a, b, with);
    lane(d, wide ? LANE_mov_64 : LANE_mov_32, dst, sum, 0, 0);
    return true;
}

bool ptx_decode_logic(struct decoder *d)
{
    const enum ptx_type t = d->op.types[0];
    const bool one = d->op.base == B_not || d->op.base == B_cnot, shift = d->op.base == B_shl || d->op.base == B_shr;
    const enum row row = d->op.base == B_not ? R_NOT : d->op.base == B_and ? R_AND : d->op.base == B_or ? R_OR
                         : d->op.base == B_xor ? R_XOR : d->op.base == B_cnot ? R_CNOT : d->op.base == B_shl ? R_SHL : R_SHR;
    const enum lane_op op = pick(row, t == T_PRED ? T_B32 : t);
    if (op == LANE_NONE || d->stmt->count != (one ? 2u : 3u))
        return false;
    const uint32_t a = source(d, arg(d, 1), t), b = one ? 0 : source(d, arg(d, 2), shift ? T_U32 : t), dst = dest(d, arg(d, 0), t);
    if (!a || !dst || (!one && !b))
        return false;
    lane(d, op, dst, a, b, 0);
    return true;
}

/* lop3.and.b32 d|p, a, b, c, table, q: p is (d != 0) and q */
static bool lop3_pred(struct decoder *d)
{
    const struct operand to = *arg(d, 0);
    if (to.kind != O_PAIR)
        return false;
    const struct operand one = d->m->operands[to.id], two = d->m->operands[to.id + 1];
    const uint32_t a = source(d, arg(d, 1), T_B32), b = source(d, arg(d, 2), T_B32), c = source(d, arg(d, 3), T_B32),
                   q = source(d, arg(d, 5), T_PRED), dst = dest(d, &one, T_B32), p = dest(d, &two, T_PRED);
    if (!a || !b || !c || !q || !dst || !p)
        return false;
    const uint32_t some = temp(d, 4);
    lane_k(d, LANE_lop3, dst, a, b, c, arg(d, 4)->imm);
    lane(d, LANE_ne_32, some, dst, constant(d, 0, 4), 0);
    lane(d, has(&d->op, M_AND) ? LANE_and_32 : LANE_or_32, p, some, q, 0);
    return true;
}

/* ---- bit fields, shifts of two words, permutations: (instruction, width) ---- */
bool ptx_decode_bits(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const enum ptx_type t = o->types[0];
    const bool wide = is64(t), sign = ptx_types[t].is_signed;
    enum lane_op op = LANE_NONE;
    enum ptx_type types[5] = {t, t, t, t, t}; /* result, then sources */
    unsigned count = 2;
    int64_t k = 0;
    switch ((int)o->base) {
    case B_popc: op = wide ? LANE_popc_64 : LANE_popc_32; types[0] = T_U32; break;
    case B_clz: op = wide ? LANE_clz_64 : LANE_clz_32; types[0] = T_U32; break;
    case B_brev: op = wide ? LANE_brev_64 : LANE_brev_32; break;
    case B_bfind: op = wide ? LANE_bfind_64 : LANE_bfind_32; types[0] = T_U32; break;
    case B_bfe:
        op = wide ? sign ? LANE_bfe_s64 : LANE_bfe_u64 : sign ? LANE_bfe_s32 : LANE_bfe_u32;
        types[2] = types[3] = T_U32;
        count = 4;
        break;
    case B_bfi:
        op = wide ? LANE_bfi_64 : LANE_bfi_32;
        types[3] = types[4] = T_U32;
        count = 5;
        break;
    case B_bmsk: op = has(o, M_CLAMP) ? LANE_bmsk_clamp : LANE_bmsk_wrap; count = 3; break;
    case B_szext:
        op = has(o, M_WRAP) ? sign ? LANE_szext_wrap_s : LANE_szext_wrap_u : sign ? LANE_szext_s : LANE_szext_u;
        types[2] = T_U32;
        count = 3;
        break;
    case B_shf:
        op = has(o, M_L) ? has(o, M_WRAP) ? LANE_shf_l_wrap : LANE_shf_l_clamp : has(o, M_WRAP) ? LANE_shf_r_wrap : LANE_shf_r_clamp;
        count = 4;
        break;
    case B_prmt:
        op = has(o, M_F4E) ? LANE_prmt_f4e : has(o, M_B4E) ? LANE_prmt_b4e : has(o, M_RC8) ? LANE_prmt_rc8
             : has(o, M_ECL) ? LANE_prmt_ecl : has(o, M_ECR) ? LANE_prmt_ecr : has(o, M_RC16) ? LANE_prmt_rc16 : LANE_prmt;
        count = 4;
        break;
    case B_lop3:
        if (d->stmt->count != (has(o, M_AND) || has(o, M_OR) ? 6u : 5u) || arg(d, 4)->kind != O_IMM || t != T_B32)
            return false;
        if (d->stmt->count == 6)
            return lop3_pred(d);
        op = LANE_lop3;
        k = arg(d, 4)->imm;
        count = 4;
        break;
    case B_vabsdiff2: op = has(o, M_ADD) ? LANE_sum_diff_16x2 : LANE_diff_16x2; count = 4; break;
    case B_vabsdiff4: op = has(o, M_ADD) ? LANE_sum_diff_8x4 : LANE_diff_8x4; count = 4; break;
    case B_fns: op = LANE_fns; count = 4; break;
    case B_dp2a:
    case B_dp4a: {
        const bool b_sign = o->type_count > 1 && ptx_types[o->types[1]].is_signed;
        if (o->base == B_dp2a) { /* k: where b's bytes begin, and who is signed */
            op = LANE_dp2a;
            k = (has(o, M_HI) ? 16 : 0) | (sign ? 64 : 0) | (b_sign ? 128 : 0);
            count = 4;
            break;
        }
        op = sign ? b_sign ? LANE_dp4a_ss : LANE_dp4a_su : b_sign ? LANE_dp4a_us : LANE_dp4a_uu;
        count = 4;
        break;
    }
    default: break;
    }
    if (op == LANE_NONE || (d->stmt->count != count && o->base != B_lop3) || (ptx_types[t].bytes != 4 && !wide))
        return false;
    uint32_t s[4] = {0};
    for (unsigned i = 1; i < count; i++)
        if (!(s[i - 1] = source(d, arg(d, i), types[i])))
            return false;
    const uint32_t dst = dest(d, arg(d, 0), types[0]);
    if (!dst)
        return false;
    if (o->base == B_bfind) {
        if (sign) {
            const uint32_t flipped = temp(d, wide ? 8 : 4);
            lane(d, wide ? LANE_flip_64 : LANE_flip_32, flipped, s[0], 0, 0);
            s[0] = flipped;
        }
        if (has(o, M_SHIFTAMT)) { /* how far to the left: clz, but ~0 where there is none */
            const uint32_t found = temp(d, 4), top = constant(d, wide ? 63 : 31, 4), none = temp(d, 4), far = temp(d, 4);
            lane(d, op, found, s[0], 0, 0);
            lane(d, LANE_sub_32, far, top, found, 0);
            lane(d, LANE_eq_32, none, found, constant(d, ~0u, 4), 0);
            lane(d, LANE_or_32, dst, far, none, 0);
            return true;
        }
    }
    lane_k(d, op, dst, s[0], s[1], s[2], k);
    if (count == 5)
        d->m->code[d->m->code_count - 1].d = s[3];
    return true;
}

/* ---- mov: plain, packing, unpacking ---- */
static bool mov_pack(struct decoder *d, enum ptx_type t)
{
    const struct operand *from = arg(d, 1), *items = &d->m->operands[from->id];
    const uint32_t dst = dest(d, arg(d, 0), t);
    uint32_t s[4] = {0};
    const unsigned each = from->count ? ptx_types[t].bytes / from->count : 0;
    if (!dst || (from->count != 2 && from->count != 4) || !each || (each == 1 && from->count == 2 && t != T_B16))
        return false;
    for (uint32_t i = 0; i < from->count; i++)
        if (!(s[i] = source(d, &items[i], each == 4 ? T_B32 : each == 2 ? T_B16 : T_B8)))
            return false;
    if (from->count == 2) {
        lane(d, each == 4 ? LANE_pack_32 : each == 2 ? LANE_pack_16 : LANE_pack_8, dst, s[0], s[1], 0);
        return true;
    }
    const uint32_t lo = temp(d, 4), hi = temp(d, 4);
    lane(d, each == 2 ? LANE_pack_16 : LANE_pack_8, lo, s[0], s[1], 0);
    lane(d, each == 2 ? LANE_pack_16 : LANE_pack_8, hi, s[2], s[3], 0);
    lane(d, each == 2 ? LANE_pack_32 : LANE_pack_16, dst, lo, hi, 0);
    return true;
}

static bool mov_unpack(struct decoder *d, enum ptx_type t)
{
    const struct operand *to = arg(d, 0);
    const uint32_t count = to->count, id = to->id, a = source(d, arg(d, 1), t);
    const unsigned each = count ? ptx_types[t].bytes / count : 0;
    if (!a || (count != 2 && count != 4) || (each != 1 && each != 2 && each != 4))
        return false;
    uint32_t whole = a;
    if (arg(d, 1)->kind == O_REG) { /* a result may be a register that is also the source */
        whole = temp(d, is64(t) ? 8 : 4);
        bool overlap = false;
        for (uint32_t i = 0; i < count; i++)
            overlap |= d->m->operands[id + i].kind == O_REG && d->m->operands[id + i].id == arg(d, 1)->id;
        if (overlap)
            lane(d, is64(t) ? LANE_mov_64 : LANE_mov_32, whole, a, 0, 0);
        else
            whole = a;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct operand item = d->m->operands[id + i];
        if (item.kind == O_SINK)
            continue;
        const uint32_t dst = dest(d, &item, each == 4 ? T_B32 : each == 2 ? T_B16 : T_B8);
        if (!dst)
            return false;
        uint32_t word = whole;
        const unsigned bit = i * each * 8;
        if (is64(t)) {
            if (each == 4) {
                lane(d, i ? LANE_hi_32 : LANE_lo_32, dst, whole, 0, 0);
                continue;
            }
            word = temp(d, 4);
            lane(d, bit >= 32 ? LANE_hi_32 : LANE_lo_32, word, whole, 0, 0);
        }
        if (each == 2) {
            lane(d, bit & 16 ? LANE_hi_16 : LANE_lo_16, dst, word, 0, 0);
        } else {
            const uint32_t shifted = temp(d, 4);
            lane(d, LANE_shr_u32, shifted, word, constant(d, bit & 31, 4), 0);
            lane(d, LANE_lo_8, dst, shifted, 0, 0);
        }
    }
    return true;
}

static bool copy(struct decoder *d, enum ptx_type t)
{
    const struct operand *from = arg(d, 1), *to = arg(d, 0);
    const bool fixed = fixed_here(d, from);
    const bool forever = fixed && (from->kind != O_REG || d->is_fixed[from->id]);
    const uint32_t a = source(d, from, t);
    if (!a)
        return false;
    if (alias(d, to, a, ptx_types[t].bytes, fixed)) {
        if (forever)
            d->is_fixed[to->id] = 1;
        emit(d, K_NOP);
        d->m->code_count--; /* counted as an instruction, nothing to execute */
        return true;
    }
    const uint32_t dst = dest(d, to, t);
    if (!dst)
        return false;
    lane(d, is64(t) ? LANE_mov_64 : LANE_mov_32, dst, a, 0, 0);
    return true;
}

/* mov.b128: from register to register, {lower, upper} either way */
static bool mov_128(struct decoder *d)
{
    const struct operand *side[2] = {arg(d, 0), arg(d, 1)}; /* to, from */
    uint32_t slots[2][2];
    for (int k = 0; k < 2; k++) {
        const bool apart = side[k]->kind == O_LIST && side[k]->count == 2;
        for (uint32_t i = 0; apart && i < 2; i++) {
            const struct operand *item = &d->m->operands[side[k]->id + i];
            if (!(slots[k][i] = k ? source(d, item, T_B64) : dest(d, item, T_B64)))
                return false;
        }
        if (!apart && !halves_of(d, side[k], slots[k]))
            return false;
    }
    if (slots[0][0] == slots[1][1]) { /* {b, a} = {a, b}: nothing is lost */
        const uint32_t saved = temp(d, 8);
        lane(d, LANE_mov_64, saved, slots[1][1], 0, 0);
        slots[1][1] = saved;
    }
    lane(d, LANE_mov_64, slots[0][0], slots[1][0], 0, 0);
    lane(d, LANE_mov_64, slots[0][1], slots[1][1], 0, 0);
    return true;
}

bool ptx_decode_mov(struct decoder *d)
{
    const enum ptx_type t = d->op.types[0];
    if (t == T_B128 && d->op.type_count == 1 && d->stmt->count == 2)
        return mov_128(d);
    if (d->op.type_count != 1 || d->stmt->count != 2 || ptx_types[t].bytes > 8)
        return false;
    if (arg(d, 0)->kind == O_LIST)
        return mov_unpack(d, t);
    if (arg(d, 1)->kind == O_LIST)
        return mov_pack(d, t);
    return copy(d, t);
}

/* Generic addresses are windows: global and constant addresses are their own. */
bool ptx_decode_cvta(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const bool shared = has(o, M_SHARED) || has(o, M_SHARED_CTA) || has(o, M_SHARED_CLUSTER), local = has(o, M_LOCAL), param = has(o, M_PARAM) || has(o, M_PARAM_ENTRY);
    const uint64_t window = shared ? SHARED_WINDOW : local ? LOCAL_WINDOW : param ? PARAM_WINDOW : 0;
    if (o->type_count != 1 || !is64(o->types[0]))
        return false;
    if (!window)
        return copy(d, T_U64);
    const uint32_t a = source(d, arg(d, 1), T_U64), dst = dest(d, arg(d, 0), T_U64);
    if (!a || !dst)
        return false;
    lane(d, has(o, M_TO) ? LANE_sub_64 : LANE_add_64, dst, a, constant(d, window, 8), 0);
    return true;
}

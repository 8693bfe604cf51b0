/* Arithmetic, logic, comparison, moves: mostly tables from (instruction, type) to a lane operation. */
#include "gpu/ptx/decode.h"

/* ---- tables: one lane operation per kind of type; LANE_NONE where PTX has none ---- */
/* 16: b16 u16; then signed; 32, 64 likewise; floats */
enum column { C_U16, C_S16, C_U32, C_S32, C_U64, C_S64, C_F32, C_F64, C_F16, C_F16X2, C_BF16, C_BF16X2, C_U16X2, C_S16X2, COLUMNS };

static int column_of(enum ptx_type t)
{
    static const int8_t columns[T_COUNT] = {
        [T_NONE] = -1, [T_PRED] = -1, [T_B8] = -1, [T_B16] = C_U16, [T_B32] = C_U32, [T_B64] = C_U64, [T_B128] = -1, [T_U8] = -1,
        [T_U16] = C_U16, [T_U32] = C_U32, [T_U64] = C_U64, [T_S8] = -1, [T_S16] = C_S16, [T_S32] = C_S32, [T_S64] = C_S64,
        [T_F16] = C_F16, [T_F16X2] = C_F16X2, [T_BF16] = C_BF16, [T_BF16X2] = C_BF16X2, [T_F32] = C_F32, [T_F64] = C_F64,
        [T_TF32] = -1, [T_E4M3X2] = -1, [T_E5M2X2] = -1, [T_U16X2] = C_U16X2, [T_S16X2] = C_S16X2, [T_F32X2] = -1};
    return columns[t];
}

#define N LANE_NONE
#define ROW(...) {__VA_ARGS__}
#define INT6(x) LANE_##x##_16, LANE_##x##_16, LANE_##x##_32, LANE_##x##_32, LANE_##x##_64, LANE_##x##_64
#define SIGN6(x) LANE_##x##_u16, LANE_##x##_s16, LANE_##x##_u32, LANE_##x##_s32, LANE_##x##_u64, LANE_##x##_s64
#define HALF4(x) LANE_##x##_f16, LANE_##x##_f16x2, LANE_##x##_bf16, LANE_##x##_bf16x2
#define NO4 N, N, N, N
enum row { R_ADD, R_SUB, R_MUL, R_MUL_HI, R_MUL_WIDE, R_FMA, R_MAD_WIDE, R_DIV, R_REM, R_MIN, R_MAX, R_SAD, R_MUL24, R_COPYSIGN, R_NEG,
           R_ABS, R_EQ, R_NE, R_LT, R_LE, R_NOT, R_AND, R_OR, R_XOR, R_CNOT, R_SHL, R_SHR, R_SELP, ROWS };
static const uint16_t table[ROWS][COLUMNS] = {
    [R_ADD] = ROW(INT6(add), LANE_add_f32, LANE_add_f64, HALF4(add), LANE_add_16x2, LANE_add_16x2),
    [R_SUB] = ROW(INT6(sub), LANE_sub_f32, LANE_sub_f64, HALF4(sub), N, N),
    [R_MUL] = ROW(INT6(mul_lo), LANE_mul_f32, LANE_mul_f64, HALF4(mul), N, N),
    [R_MUL_HI] = ROW(SIGN6(mul_hi), N, N, NO4, N, N),
    [R_MUL_WIDE] = ROW(LANE_mul_wide_u16, LANE_mul_wide_s16, LANE_mul_wide_u32, LANE_mul_wide_s32, N, N, N, N, NO4, N, N),
    [R_FMA] = ROW(INT6(mad_lo), LANE_fma_f32, LANE_fma_f64, HALF4(fma), N, N),
    [R_MAD_WIDE] = ROW(N, N, LANE_mad_wide_u32, LANE_mad_wide_s32, N, N, N, N, NO4, N, N),
    [R_DIV] = ROW(SIGN6(div), LANE_div_f32, LANE_div_f64, NO4, N, N),
    [R_REM] = ROW(LANE_rem_u32, LANE_rem_s16, LANE_rem_u32, LANE_rem_s32, LANE_rem_u64, LANE_rem_s64, N, N, NO4, N, N),
    [R_MIN] = ROW(LANE_min_u32, LANE_min_s16, LANE_min_u32, LANE_min_s32, LANE_min_u64, LANE_min_s64, LANE_min_f32, LANE_min_f64, NO4,
                  LANE_min_u16x2, LANE_min_s16x2),
    [R_MAX] = ROW(LANE_max_u32, LANE_max_s16, LANE_max_u32, LANE_max_s32, LANE_max_u64, LANE_max_s64, LANE_max_f32, LANE_max_f64, NO4,
                  LANE_max_u16x2, LANE_max_s16x2),
    [R_SAD] = ROW(N, N, LANE_sad_u32, LANE_sad_s32, N, N, N, N, NO4, N, N),
    [R_MUL24] = ROW(N, N, LANE_mul24_lo_u32, LANE_mul24_lo_s32, N, N, N, N, NO4, N, N),
    [R_COPYSIGN] = ROW(N, N, N, N, N, N, LANE_copysign_f32, LANE_copysign_f64, NO4, N, N),
    [R_NEG] = ROW(INT6(neg), LANE_neg_f32, LANE_neg_f64, LANE_xor_sign_16, LANE_xor_sign_16x2, LANE_xor_sign_16, LANE_xor_sign_16x2, N, N),
    [R_ABS] = ROW(INT6(abs), LANE_abs_f32, LANE_abs_f64, LANE_and_mag_16, LANE_and_mag_16x2, LANE_and_mag_16, LANE_and_mag_16x2, N, N),
    [R_EQ] = ROW(LANE_eq_32, LANE_eq_32, LANE_eq_32, LANE_eq_32, LANE_eq_64, LANE_eq_64, LANE_eq_f32, LANE_eq_f64, NO4, N, N),
    [R_NE] = ROW(LANE_ne_32, LANE_ne_32, LANE_ne_32, LANE_ne_32, LANE_ne_64, LANE_ne_64, LANE_ne_f32, LANE_ne_f64, NO4, N, N),
    [R_LT] = ROW(LANE_lt_u32, LANE_lt_s16, LANE_lt_u32, LANE_lt_s32, LANE_lt_u64, LANE_lt_s64, LANE_lt_f32, LANE_lt_f64, NO4, N, N),
    [R_LE] = ROW(LANE_le_u32, LANE_le_s16, LANE_le_u32, LANE_le_s32, LANE_le_u64, LANE_le_s64, LANE_le_f32, LANE_le_f64, NO4, N, N),
    [R_NOT] = ROW(INT6(not), N, N, NO4, N, N),
    [R_AND] = ROW(LANE_and_32, LANE_and_32, LANE_and_32, LANE_and_32, LANE_and_64, LANE_and_64, N, N, NO4, N, N),
    [R_OR] = ROW(LANE_or_32, LANE_or_32, LANE_or_32, LANE_or_32, LANE_or_64, LANE_or_64, N, N, NO4, N, N),
    [R_XOR] = ROW(LANE_xor_32, LANE_xor_32, LANE_xor_32, LANE_xor_32, LANE_xor_64, LANE_xor_64, N, N, NO4, N, N),
    [R_CNOT] = ROW(LANE_cnot_32, LANE_cnot_32, LANE_cnot_32, LANE_cnot_32, LANE_cnot_64, LANE_cnot_64, N, N, NO4, N, N),
    [R_SHL] = ROW(INT6(shl), N, N, NO4, N, N),
    [R_SHR] = ROW(LANE_shr_u32, LANE_shr_s16, LANE_shr_u32, LANE_shr_s32, LANE_shr_u64, LANE_shr_s64, N, N, NO4, N, N),
    [R_SELP] = ROW(LANE_selp_32, LANE_selp_32, LANE_selp_32, LANE_selp_32, LANE_selp_64, LANE_selp_64, LANE_selp_32, LANE_selp_64,
                   LANE_selp_32, LANE_selp_32, LANE_selp_32, LANE_selp_32, N, N),
};

static enum lane_op pick(enum row row, enum ptx_type type)
{
    const int c = column_of(type);
    return c < 0 ? LANE_NONE : (enum lane_op)table[row][c];
}

static bool is_half(enum ptx_type t) { return t == T_F16 || t == T_F16X2 || t == T_BF16 || t == T_BF16X2; }
static bool is_pair(enum ptx_type t) { return t == T_F16X2 || t == T_BF16X2; }
static bool is_bf(enum ptx_type t) { return t == T_BF16 || t == T_BF16X2; }

/* One half of a lane as f32. */
static uint32_t widen(struct decoder *d, uint32_t slot, enum ptx_type type, int half)
{
    const uint32_t h = temp(d, 4), r = temp(d, 4);
    if (is_pair(type)) {
        lane(d, half ? LANE_hi_16 : LANE_lo_16, h, slot, 0, 0);
        slot = h;
    }
    lane(d, is_bf(type) ? LANE_bf16_f32 : LANE_f16_f32, r, slot, 0, 0);
    return r;
}
/* One or two f32 back into a lane of halves. */
static void narrow(struct decoder *d, uint32_t dst, enum ptx_type type, const uint32_t *from)
{
    const enum lane_op op = is_bf(type) ? LANE_f32_bf16 : LANE_f32_f16;
    if (!is_pair(type)) {
        lane(d, op, dst, from[0], 0, 0);
        return;
    }
    const uint32_t lo = temp(d, 4), hi = temp(d, 4);
    lane(d, op, lo, from[0], 0, 0);
    lane(d, op, hi, from[1], 0, 0);
    lane(d, LANE_pack_16, dst, lo, hi, 0);
}

bool ptx_decode_none(struct decoder *d)
{
    (void)d;
    return false;
}

/* ---- add sub mul mad fma div rem min max sad mul24 copysign ---- */
static bool float_min_max(struct decoder *d, enum ptx_type t, uint32_t dst, uint32_t a, uint32_t b)
{
    const bool least = d->op.base == B_min, nan = has(&d->op, M_NAN_);
    const enum lane_op op = least ? nan ? LANE_min_nan_f32 : LANE_min_f32 : nan ? LANE_max_nan_f32 : LANE_max_f32;
    if (has(&d->op, M_XORSIGN))
        return false;
    set_mode(d, MODE_RN | (has(&d->op, M_FTZ) ? MODE_FTZ : 0));
    if (t == T_F64) {
        lane(d, least ? LANE_min_f64 : LANE_max_f64, dst, a, b, 0);
        return true;
    }
    if (is_half(t)) { /* exact both ways */
        uint32_t r[2] = {0};
        for (int half = 0; half <= is_pair(t); half++) {
            r[half] = temp(d, 4);
            lane(d, op, r[half], widen(d, a, t, half), widen(d, b, t, half), 0);
        }
        narrow(d, dst, t, r);
        return true;
    }
    if (has(&d->op, M_FTZ)) {
        const uint32_t fa = temp(d, 4), fb = temp(d, 4);
        lane(d, LANE_flush_f32, fa, a, 0, 0);
        lane(d, LANE_flush_f32, fb, b, 0, 0);
        a = fa;
        b = fb;
    }
    lane(d, op, dst, a, b, 0);
    return true;
}

bool ptx_decode_arith(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const enum ptx_type t = o->types[0];
    const int inputs = o->base == B_mad || o->base == B_fma || o->base == B_sad ? 3 : 2;
    if (o->type_count != 1 || (int)d->stmt->count != inputs + 1)
        return false;
    const bool wide = has(o, M_WIDE), hi = has(o, M_HI), fl = ptx_types[t].is_float;
    if (has(o, M_CC))
        return ptx_decode_carry(d);
    const enum ptx_type wide_t = !wide ? t : t == T_U16 ? T_U32 : t == T_S16 ? T_S32 : t == T_U32 ? T_U64 : t == T_S32 ? T_S64 : T_NONE;
    if (!wide_t)
        return false;
    uint32_t s[3] = {0};
    for (int i = 0; i < inputs; i++)
        if (!(s[i] = source(d, arg(d, (unsigned)i + 1), i == 2 ? wide_t : t)))
            return false;
    uint32_t dst = dest(d, arg(d, 0), wide_t);
    if (!dst)
        return false;
    enum row row = R_ADD;
    switch ((int)o->base) {
    case B_add: row = R_ADD; break;
    case B_sub: row = R_SUB; break;
    case B_mul: row = wide ? R_MUL_WIDE : hi ? R_MUL_HI : R_MUL; break;
    case B_mad: row = wide ? R_MAD_WIDE : R_FMA; break;
    case B_fma: row = R_FMA; break;
    case B_div: row = R_DIV; break;
    case B_rem: row = R_REM; break;
    case B_sad: row = R_SAD; break;
    case B_mul24: row = R_MUL24; break;
    case B_copysign: row = R_COPYSIGN; break;
    case B_min:
    case B_max:
        if (fl)
            return float_min_max(d, t, dst, s[0], s[1]);
        if (has(o, M_RELU))
            return false;
        row = o->base == B_min ? R_MIN : R_MAX;
        break;
    default: return false;
    }
    if (!fl && has(o, M_SAT)) {
        if (t != T_S32 || (row != R_ADD && row != R_SUB))
            return false;
        lane(d, row == R_ADD ? LANE_add_sat_s32 : LANE_sub_sat_s32, dst, s[0], s[1], 0);
        return true;
    }
    if (row == R_MUL24 && hi)
        return false;
    if (o->base == B_mad && hi) { /* mad.hi: the upper half, then an add */
        const enum lane_op up = pick(R_MUL_HI, t), add = pick(R_ADD, t);
        const uint32_t h = temp(d, is64(t) ? 8 : 4);
        if (up == LANE_NONE || fl)
            return false;
        lane(d, up, h, s[0], s[1], 0);
        lane(d, add, dst, h, s[2], 0);
        return true;
    }
    if (o->base == B_mad && wide && is16(t)) {
        const uint32_t p = temp(d, 4);
        lane(d, pick(R_MUL_WIDE, t), p, s[0], s[1], 0);
        lane(d, LANE_add_32, dst, p, s[2], 0);
        return true;
    }
    enum lane_op op = pick(row, t);
    if (op == LANE_NONE)
        return false;
    if (!fl) {
        lane(d, op, dst, s[0], s[1], s[2]);
        return true;
    }
    if (row == R_DIV && t == T_F32 && (has(o, M_APPROX) || has(o, M_FULL)))
        op = LANE_div_approx_f32;
    const bool half = is_half(t);
    set_mode(d, half ? MODE_RN : row == R_COPYSIGN ? d->mode : mode_of(d));
    const bool sat = has(o, M_SAT), relu = has(o, M_RELU);
    const uint32_t raw = sat || relu ? temp(d, is64(t) ? 8 : 4) : dst;
    lane(d, op, raw, s[0], s[1], s[2]);
    if (relu || (sat && half)) {
        uint32_t r[2] = {0};
        for (int h = 0; h <= is_pair(t); h++) {
            const uint32_t w = widen(d, raw, t, h);
            lane(d, relu ? LANE_relu_f32 : LANE_sat_f32, w, w, 0, 0);
            r[h] = w;
        }
        if (!half)
            return false;
        narrow(d, dst, t, r);
    } else if (sat) {
        lane(d, is64(t) ? LANE_sat_f64 : LANE_sat_f32, dst, raw, 0, 0);
    }
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

bool ptx_decode_unary(struct decoder *d)
{
    const enum ptx_type t = d->op.types[0];
    const enum lane_op op = pick(d->op.base == B_neg ? R_NEG : R_ABS, t);
    uint32_t a = source(d, arg(d, 1), t);
    const uint32_t dst = dest(d, arg(d, 0), t);
    if (op == LANE_NONE || !a || !dst || d->stmt->count != 2)
        return false;
    if (has(&d->op, M_FTZ) && t == T_F32) {
        const uint32_t flushed = temp(d, 4);
        lane(d, LANE_flush_f32, flushed, a, 0, 0);
        a = flushed;
    }
    lane(d, op, dst, a, 0, 0);
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
    case B_szext: op = sign ? LANE_szext_s : LANE_szext_u; types[2] = T_U32; count = 3; break;
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
        if (d->stmt->count != 5 || arg(d, 4)->kind != O_IMM || t != T_B32)
            return false;
        op = LANE_lop3;
        k = arg(d, 4)->imm;
        count = 4;
        break;
    case B_dp4a: {
        const bool b_sign = o->type_count > 1 && ptx_types[o->types[1]].is_signed;
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

/* ---- setp, set ---- */
struct compare { enum ptx_mod mod; bool swap; uint8_t ints, floats; };
enum { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_EQU, CMP_NEU, CMP_NLT, CMP_NLE, CMP_NUM, CMP_NAN, CMP_BAD };
static const struct compare compares[] = {
    {M_EQ, false, CMP_EQ, CMP_EQ},   {M_NE, false, CMP_NE, CMP_NE},    {M_LT, false, CMP_LT, CMP_LT},  {M_LE, false, CMP_LE, CMP_LE},
    {M_GT, true, CMP_LT, CMP_LT},    {M_GE, true, CMP_LE, CMP_LE},     {M_LO, false, CMP_LT, CMP_BAD}, {M_LS, false, CMP_LE, CMP_BAD},
    {M_HI, true, CMP_LT, CMP_BAD},   {M_HS, true, CMP_LE, CMP_BAD},    {M_EQU, false, CMP_BAD, CMP_EQU}, {M_NEU, false, CMP_BAD, CMP_NEU},
    {M_LTU, true, CMP_BAD, CMP_NLE}, {M_LEU, true, CMP_BAD, CMP_NLT},  {M_GTU, false, CMP_BAD, CMP_NLE}, {M_GEU, false, CMP_BAD, CMP_NLT},
    {M_NUM, false, CMP_BAD, CMP_NUM}, {M_NAN, false, CMP_BAD, CMP_NAN},
};

static enum lane_op compare_op(const struct compare *c, enum ptx_type t)
{
    static const uint16_t f32[] = {LANE_eq_f32, LANE_ne_f32, LANE_lt_f32, LANE_le_f32, LANE_equ_f32, LANE_neu_f32, LANE_nlt_f32,
                                   LANE_nle_f32, LANE_num_f32, LANE_nan_f32, LANE_NONE};
    static const uint16_t f64[] = {LANE_eq_f64, LANE_ne_f64, LANE_lt_f64, LANE_le_f64, LANE_equ_f64, LANE_neu_f64, LANE_nlt_f64,
                                   LANE_nle_f64, LANE_num_f64, LANE_nan_f64, LANE_NONE};
    static const enum row rows[] = {R_EQ, R_NE, R_LT, R_LE};
    if (ptx_types[t].is_float)
        return (enum lane_op)(t == T_F64 ? f64 : f32)[c->floats];
    return c->ints <= CMP_LE ? pick(rows[c->ints], t) : LANE_NONE;
}

/* ~0 or 0 per lane for one comparison, combined with the third source where there is one. */
static uint32_t compared(struct decoder *d, const struct compare *c, enum ptx_type t, uint32_t a, uint32_t b, uint32_t also)
{
    const enum lane_op op = compare_op(c, t);
    if (op == LANE_NONE)
        return 0;
    const uint32_t r = temp(d, 4);
    if (t == T_F32)
        set_mode(d, MODE_RN | (has(&d->op, M_FTZ) ? MODE_FTZ : 0));
    lane(d, op, r, c->swap ? b : a, c->swap ? a : b, 0);
    if (!also)
        return r;
    const uint32_t both = temp(d, 4);
    lane(d, has(&d->op, M_AND) ? LANE_and_32 : has(&d->op, M_OR) ? LANE_or_32 : LANE_xor_32, both, r, also, 0);
    return both;
}

bool ptx_decode_setp(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const bool is_set = o->base == B_set;
    const enum ptx_type t = o->types[is_set ? 1 : 0], rt = is_set ? o->types[0] : T_PRED;
    const struct compare *c = NULL;
    for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
        if (has(o, compares[i].mod))
            c = &compares[i];
    const bool combined = has(o, M_AND) || has(o, M_OR) || has(o, M_XOR);
    if (!c || o->type_count != (is_set ? 2 : 1) || d->stmt->count != (combined ? 4u : 3u))
        return false;
    const uint32_t a = source(d, arg(d, 1), t), b = source(d, arg(d, 2), t), also = combined ? source(d, arg(d, 3), T_PRED) : 0;
    if (!a || !b || (combined && !also))
        return false;
    uint32_t r[2] = {0};
    for (int half = 0; half <= is_pair(t); half++)
        r[half] = is_half(t) ? compared(d, c, T_F32, widen(d, a, t, half), widen(d, b, t, half), also) : compared(d, c, t, a, b, also);
    if (!r[0])
        return false;
    const struct operand *to = arg(d, 0);
    if (!is_set) {
        const struct operand *one = to->kind == O_PAIR ? &d->m->operands[to->id] : to, *two = to->kind == O_PAIR ? one + 1 : NULL;
        const uint32_t p = dest(d, one, T_PRED), q = two ? dest(d, two, T_PRED) : 0;
        if (!p || (two && !q) || (is_pair(t) && !two))
            return false;
        if (q && is_pair(t)) {
            lane(d, LANE_mov_32, q, r[1], 0, 0);
        } else if (q) { /* q: the comparison turned round, then combined */
            const uint32_t plain = temp(d, 4);
            struct compare no = *c;
            if (is_half(t))
                return false;
            lane(d, compare_op(&no, t), plain, c->swap ? b : a, c->swap ? a : b, 0);
            lane(d, LANE_not_32, plain, plain, 0, 0);
            lane(d, !also ? LANE_mov_32 : has(o, M_AND) ? LANE_and_32 : has(o, M_OR) ? LANE_or_32 : LANE_xor_32, q, plain, also, 0);
        }
        /* the last lane operation can write p itself */
        struct insn *last = &d->m->code[d->m->code_count - 1];
        if (!q && last->kind == K_LANE && last->dst == r[0])
            last->dst = p;
        else
            lane(d, LANE_mov_32, p, r[0], 0, 0);
        return true;
    }
    const uint32_t dst = dest(d, to, rt);
    if (!dst)
        return false;
    if (is_pair(t)) {
        if (is_pair(rt)) {
            const uint32_t one = constant(d, rt == T_F16X2 ? 0x3c00 : 0x3f80, 4), zero = constant(d, 0, 4), lo = temp(d, 4), hi = temp(d, 4);
            lane(d, LANE_selp_32, lo, one, zero, r[0]);
            lane(d, LANE_selp_32, hi, one, zero, r[1]);
            lane(d, LANE_pack_16, dst, lo, hi, 0);
        } else {
            lane(d, LANE_pack_16, dst, r[0], r[1], 0);
        }
        return true;
    }
    if (!ptx_types[rt].is_float && ptx_types[rt].bytes == 4) {
        lane(d, LANE_mov_32, dst, r[0], 0, 0);
        return true;
    }
    const uint64_t one = rt == T_F32 ? 0x3f800000 : rt == T_F16 ? 0x3c00 : rt == T_BF16 ? 0x3f80 : ptx_types[rt].bytes == 2 ? 0xffff : 0;
    if (!one)
        return false;
    lane(d, LANE_selp_32, dst, constant(d, one, 4), constant(d, 0, 4), r[0]);
    return true;
}

bool ptx_decode_selp(struct decoder *d)
{
    const enum ptx_type t = d->op.types[0];
    const bool slct = d->op.base == B_slct;
    const enum ptx_type ct = slct ? d->op.types[1] : T_PRED;
    if (d->stmt->count != 4 || pick(R_SELP, t) == LANE_NONE || (slct && ct != T_S32 && ct != T_F32))
        return false;
    const uint32_t a = source(d, arg(d, 1), t), b = source(d, arg(d, 2), t), c = source(d, arg(d, 3), ct), dst = dest(d, arg(d, 0), t);
    if (!a || !b || !c || !dst)
        return false;
    const enum lane_op op = !slct ? pick(R_SELP, t) : ct == T_F32 ? is64(t) ? LANE_slct_64_f32 : LANE_slct_f32 : is64(t) ? LANE_slct_64 : LANE_slct_32;
    lane(d, op, dst, a, b, c);
    return true;
}

/* ---- rcp sqrt rsqrt ex2 lg2 sin cos tanh ---- */
bool ptx_decode_sfu(struct decoder *d)
{
    static const struct { enum ptx_base base; uint16_t f32, f64; } ops[] = {
        {B_rcp, LANE_rcp_f32, LANE_rcp_f64}, {B_sqrt, LANE_sqrt_f32, LANE_sqrt_f64}, {B_rsqrt, LANE_rsqrt_f32, LANE_rsqrt_f64},
        {B_ex2, LANE_ex2_f32, N},            {B_lg2, LANE_lg2_f32, N},               {B_sin, LANE_sin_f32, N},
        {B_cos, LANE_cos_f32, N},            {B_tanh, LANE_tanh_f32, N},
    };
    const enum ptx_type t = d->op.types[0];
    const uint32_t a = source(d, arg(d, 1), t), dst = dest(d, arg(d, 0), t);
    enum lane_op op = LANE_NONE;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].base == d->op.base)
            op = (enum lane_op)(t == T_F64 ? ops[i].f64 : ops[i].f32);
    if (op == LANE_NONE || !a || !dst || d->stmt->count != 2 || !(t == T_F32 || t == T_F64 || is_half(t)))
        return false;
    set_mode(d, is_half(t) ? MODE_RN : mode_of(d));
    if (!is_half(t)) {
        lane(d, op, dst, a, 0, 0);
        return true;
    }
    uint32_t r[2] = {0};
    for (int half = 0; half <= is_pair(t); half++) {
        r[half] = temp(d, 4);
        lane(d, op, r[half], widen(d, a, t, half), 0, 0);
    }
    narrow(d, dst, t, r);
    return true;
}

bool ptx_decode_testp(struct decoder *d)
{
    static const struct { enum ptx_mod mod; uint16_t f32, f64; } tests[] = {
        {M_FINITE, LANE_testp_finite_f32, LANE_testp_finite_f64}, {M_INFINITE, LANE_testp_infinite_f32, LANE_testp_infinite_f64},
        {M_NUMBER, LANE_num_f32, LANE_num_f64},                   {M_NOTANUMBER, LANE_nan_f32, LANE_nan_f64},
        {M_NORMAL, LANE_testp_normal_f32, N},                     {M_SUBNORMAL, LANE_testp_subnormal_f32, N},
    };
    const enum ptx_type t = d->op.types[0];
    const uint32_t a = source(d, arg(d, 1), t), dst = dest(d, arg(d, 0), T_PRED);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (has(&d->op, tests[i].mod) && a && dst && (t == T_F32 || (t == T_F64 && tests[i].f64 != N))) {
            lane(d, (enum lane_op)(t == T_F32 ? tests[i].f32 : tests[i].f64), dst, a, a, 0);
            return true;
        }
    return false;
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

bool ptx_decode_mov(struct decoder *d)
{
    const enum ptx_type t = d->op.types[0];
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

/*
 * Arithmetic of floats. Rounding and flushing of f32 and f64 are the CPU's (set_mode); 16-bit floats have lane operations of their own,
 * always to nearest, and are flushed and clamped by further ones.
 */
#include "gpu/ptx/decode_parts.h"

uint32_t widen(struct decoder *d, uint32_t slot, enum ptx_type type, int half)
{
    const uint32_t h = temp(d, 4), r = temp(d, 4);
    if (is_pair(type)) {
        lane(d, half ? LANE_hi_16 : LANE_lo_16, h, slot, 0, 0);
        slot = h;
    }
    lane(d, is_bf(type) ? LANE_bf16_f32 : LANE_f16_f32, r, slot, 0, 0);
    return r;
}

void narrow(struct decoder *d, uint32_t dst, enum ptx_type type, const uint32_t *from)
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

static int64_t half_infinity(enum ptx_type t) { return is_bf(t) ? 0x7f80 : 0x7c00; }
static int64_t half_one(enum ptx_type t) { return is_bf(t) ? 0x3f80 : 0x3c00; }

uint32_t flushed(struct decoder *d, uint32_t slot, enum ptx_type type)
{
    if (!has(&d->op, M_FTZ) || (type != T_F32 && !is_half(type)))
        return slot;
    const uint32_t r = temp(d, 4);
    if (type == T_F32)
        lane(d, LANE_flush_f32, r, slot, 0, 0);
    else
        lane_k(d, LANE_flush_16x2, r, slot, 0, 0, half_infinity(type));
    return r;
}

/* ---- add sub mul fma mad div ---- */
enum row { R_ADD, R_SUB, R_MUL, R_FMA, R_DIV, R_NONE };
static enum row row_of(enum ptx_base b)
{
    return b == B_add ? R_ADD : b == B_sub ? R_SUB : b == B_mul ? R_MUL : b == B_fma || b == B_mad ? R_FMA : b == B_div ? R_DIV : R_NONE;
}

static enum lane_op operation(enum row row, enum ptx_type t)
{
#define HALVES(x) LANE_##x##_f16, LANE_##x##_f16x2, LANE_##x##_bf16, LANE_##x##_bf16x2
    static const uint16_t table[R_NONE][6] = {
        [R_ADD] = {LANE_add_f32, LANE_add_f64, HALVES(add)}, [R_SUB] = {LANE_sub_f32, LANE_sub_f64, HALVES(sub)},
        [R_MUL] = {LANE_mul_f32, LANE_mul_f64, HALVES(mul)}, [R_FMA] = {LANE_fma_f32, LANE_fma_f64, HALVES(fma)},
        [R_DIV] = {LANE_div_f32, LANE_div_f64, LANE_NONE, LANE_NONE, LANE_NONE, LANE_NONE}};
#undef HALVES
    switch ((int)t) {
    case T_F32: return (enum lane_op)table[row][0];
    case T_F64: return (enum lane_op)table[row][1];
    case T_F16: return (enum lane_op)table[row][2];
    case T_F16X2: return (enum lane_op)table[row][3];
    case T_BF16: return (enum lane_op)table[row][4];
    case T_BF16X2: return (enum lane_op)table[row][5];
    default: return LANE_NONE;
    }
}

static bool half_arith(struct decoder *d, enum lane_op op, enum ptx_type t, uint32_t dst, const uint32_t *s)
{
    const struct opcode *o = &d->op;
    const bool sat = has(o, M_SAT), relu = has(o, M_RELU), ftz = has(o, M_FTZ);
    uint32_t v[3];
    for (int i = 0; i < 3; i++)
        v[i] = s[i] ? flushed(d, s[i], t) : 0;
    set_mode(d, MODE_RN);
    uint32_t raw = sat || relu || ftz ? temp(d, 4) : dst;
    static const uint16_t flushing[][2] = {{LANE_mul_f16, LANE_mul_ftz_f16}, {LANE_mul_f16x2, LANE_mul_ftz_f16x2},
                                           {LANE_fma_f16, LANE_fma_ftz_f16}, {LANE_fma_f16x2, LANE_fma_ftz_f16x2}};
    for (size_t i = 0; ftz && i < sizeof flushing / sizeof *flushing; i++)
        op = op == flushing[i][0] ? (enum lane_op)flushing[i][1] : op;
    lane(d, op, raw, v[0], v[1], v[2]);
    if (ftz) {
        raw = flushed(d, raw, t);
        if (!sat && !relu)
            lane(d, LANE_mov_32, dst, raw, 0, 0);
    }
    if (sat || relu)
        lane_k(d, sat ? LANE_sat_16x2 : LANE_relu_16x2, dst, raw, 0, 0, half_infinity(t) | half_one(t) << 16);
    return true;
}

/* Two f32 in 64 bits, each by itself. */
static bool pair_arith(struct decoder *d, enum lane_op op, uint32_t dst, const uint32_t *s)
{
    uint32_t r[2];
    set_mode(d, mode_of(d));
    for (int half = 0; half < 2; half++) {
        uint32_t v[3] = {0};
        for (int i = 0; i < 3 && s[i]; i++) {
            v[i] = temp(d, 4);
            lane(d, half ? LANE_hi_32 : LANE_lo_32, v[i], s[i], 0, 0);
        }
        r[half] = temp(d, 4);
        lane(d, op, r[half], v[0], v[1], v[2]);
    }
    lane(d, LANE_pack_32, dst, r[0], r[1], 0);
    return true;
}

/* min and max of two or three; .abs and .xorsign.abs of magnitudes. */
static bool float_min_max(struct decoder *d, enum ptx_type t, uint32_t dst, const uint32_t *s)
{
    const struct opcode *o = &d->op;
    const bool least = o->base == B_min, nan = has(o, M_NAN_), xorsign = has(o, M_XORSIGN), half = is_half(t);
    const enum lane_op op = t == T_F64 ? least ? LANE_min_f64 : LANE_max_f64
                            : least    ? nan ? LANE_min_nan_f32 : LANE_min_f32
                                       : nan ? LANE_max_nan_f32 : LANE_max_f32;
    uint32_t v[3];
    for (int i = 0; i < 3; i++) {
        v[i] = s[i] ? flushed(d, s[i], t) : 0;
        if (v[i] && has(o, M_ABS)) {
            const uint32_t mag = temp(d, 4);
            lane(d, half ? LANE_and_mag_16x2 : LANE_abs_f32, mag, v[i], 0, 0);
            v[i] = mag;
        }
    }
    set_mode(d, MODE_RN | (has(o, M_FTZ) ? MODE_FTZ : 0));
    const unsigned bytes = t == T_F64 ? 8 : 4;
    uint32_t r = xorsign || s[2] ? temp(d, bytes) : dst;
    if (half) { /* exact both ways */
        uint32_t w[2] = {0};
        for (int h = 0; h <= is_pair(t); h++) {
            w[h] = temp(d, 4);
            lane(d, op, w[h], widen(d, v[0], t, h), widen(d, v[1], t, h), 0);
        }
        narrow(d, r, t, w);
    } else {
        lane(d, op, r, v[0], v[1], 0);
    }
    if (s[2])
        lane(d, op, dst, r, v[2], 0);
    else if (xorsign && half)
        lane_k(d, LANE_xorsign_16x2, dst, r, s[0], s[1], half_infinity(t));
    else if (xorsign)
        lane(d, LANE_xorsign_f32, dst, r, s[0], s[1]);
    return true;
}

bool ptx_decode_float_arith(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const enum ptx_type t = o->types[0], narrow_t = o->type_count == 2 ? o->types[1] : T_NONE;
    const bool extreme = o->base == B_min || o->base == B_max;
    const enum row row = row_of(o->base);
    const unsigned inputs = row == R_FMA ? 3 : extreme ? d->stmt->count - 1 : 2;
    uint32_t s[3] = {0};
    if (o->type_count > 2 || d->stmt->count != inputs + 1 || inputs < 2 || inputs > 3 || (inputs == 3 && extreme && t != T_F32))
        return false;
    for (unsigned i = 0; i < inputs; i++) {
        const bool small = narrow_t && i < inputs - 1; /* add.f32.bf16: all but the last */
        if (!(s[i] = source(d, arg(d, i + 1), small ? narrow_t : t)))
            return false;
        if (small)
            s[i] = widen(d, s[i], narrow_t, 0);
    }
    const uint32_t dst = dest(d, arg(d, 0), t);
    if (!dst)
        return false;
    if (extreme)
        return float_min_max(d, t, dst, s);
    if (o->base == B_copysign) {
        lane(d, t == T_F64 ? LANE_copysign_f64 : LANE_copysign_f32, dst, s[0], s[1], 0);
        return t == T_F32 || t == T_F64;
    }
    enum lane_op op = row == R_NONE ? LANE_NONE : operation(row, t == T_F32X2 ? T_F32 : t);
    if (op == LANE_NONE)
        return false;
    if (t == T_F32X2)
        return pair_arith(d, op, dst, s);
    if (is_half(t))
        return half_arith(d, op, t, dst, s);
    if (row == R_DIV && t == T_F32 && (has(o, M_APPROX) || has(o, M_FULL)))
        op = has(o, M_APPROX) ? LANE_div_approx_f32 : LANE_div_full_f32;
    set_mode(d, mode_of(d));
    const bool sat = has(o, M_SAT);
    const uint32_t raw = sat ? temp(d, is64(t) ? 8 : 4) : dst;
    lane(d, op, raw, s[0], s[1], s[2]);
    if (sat)
        lane(d, is64(t) ? LANE_sat_f64 : LANE_sat_f32, dst, raw, 0, 0);
    return true;
}

/* ---- neg abs, of integers too ---- */
bool ptx_decode_unary(struct decoder *d)
{
    static const uint16_t table[2][COLUMNS] = {
        {LANE_neg_16, LANE_neg_16, LANE_neg_32, LANE_neg_32, LANE_neg_64, LANE_neg_64, LANE_neg_f32, LANE_neg_f64, LANE_NONE, LANE_NONE},
        {LANE_abs_16, LANE_abs_16, LANE_abs_32, LANE_abs_32, LANE_abs_64, LANE_abs_64, LANE_abs_f32, LANE_abs_f64, LANE_NONE, LANE_NONE}};
    const enum ptx_type t = d->op.types[0];
    const bool neg = d->op.base == B_neg;
    const int column = column_of(t);
    const enum lane_op op = column >= 0    ? (enum lane_op)table[!neg][column]
                            : !is_half(t)  ? LANE_NONE
                            : !neg         ? LANE_abs_half_x2
                            : is_pair(t)   ? LANE_neg_half_x2
                                           : LANE_neg_half;
    const uint32_t a = source(d, arg(d, 1), t), dst = dest(d, arg(d, 0), t);
    if (op == LANE_NONE || !a || !dst || d->stmt->count != 2)
        return false;
    lane_k(d, op, dst, flushed(d, a, t), 0, 0, half_infinity(t));
    return true;
}

/* ---- rcp sqrt rsqrt ex2 lg2 sin cos tanh ---- */
bool ptx_decode_sfu(struct decoder *d)
{
    static const struct { enum ptx_base base; uint16_t f32, f64; } ops[] = {
        {B_rcp, LANE_rcp_f32, LANE_rcp_f64}, {B_sqrt, LANE_sqrt_f32, LANE_sqrt_f64}, {B_rsqrt, LANE_rsqrt_f32, LANE_rsqrt_f64},
        {B_ex2, LANE_ex2_f32, LANE_NONE},    {B_lg2, LANE_lg2_f32, LANE_NONE},       {B_sin, LANE_sin_f32, LANE_NONE},
        {B_cos, LANE_cos_f32, LANE_NONE},    {B_tanh, LANE_tanh_f32, LANE_NONE},
    };
    const enum ptx_type t = d->op.types[0];
    uint32_t a = source(d, arg(d, 1), t);
    const uint32_t dst = dest(d, arg(d, 0), t);
    enum lane_op op = LANE_NONE;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].base == d->op.base)
            op = (enum lane_op)(t == T_F64 ? ops[i].f64 : ops[i].f32);
    if (op == LANE_NONE || !a || !dst || d->stmt->count != 2 || !(t == T_F32 || t == T_F64 || is_half(t)))
        return false;
    set_mode(d, is_half(t) ? MODE_RN : mode_of(d));
    if (!is_half(t)) {
        const bool upper = t == T_F64 && has(&d->op, M_APPROX) && has(&d->op, M_FTZ); /* of the upper words alone */
        const uint32_t cut = upper ? temp(d, 8) : a, raw = upper ? temp(d, 8) : dst;
        if (upper)
            lane(d, LANE_upper_64, cut, a, 0, 0);
        lane(d, op, raw, cut, 0, 0);
        if (upper)
            lane(d, LANE_upper_nan_64, dst, raw, 0, 0);
        return true;
    }
    a = flushed(d, a, t);
    uint32_t r[2] = {0};
    for (int half = 0; half <= is_pair(t); half++) {
        r[half] = temp(d, 4);
        lane(d, op, r[half], widen(d, a, t, half), 0, 0);
    }
    if (!has(&d->op, M_FTZ)) {
        narrow(d, dst, t, r);
        return true;
    }
    const uint32_t raw = temp(d, 4);
    narrow(d, raw, t, r);
    lane(d, LANE_mov_32, dst, flushed(d, raw, t), 0, 0);
    return true;
}

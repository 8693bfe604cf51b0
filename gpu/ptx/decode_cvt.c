/*
 * cvt: every pair of types, as steps. Integers are first brought to 32 or 64 bits with their sign, small floats to f32;
 * then one conversion; then saturation and narrowing.
 */
#include "gpu/ptx/decode.h"

static bool is_half_one(enum ptx_type t) { return t == T_F16 || t == T_BF16; }

static uint32_t step(struct decoder *d, enum lane_op op, uint32_t a, unsigned bytes)
{
    const uint32_t r = temp(d, bytes);
    lane(d, op, r, a, 0, 0);
    return r;
}

/* An integer source as a full 32- or 64-bit value. */
static uint32_t extended(struct decoder *d, uint32_t a, enum ptx_type t)
{
    if (!ptx_types[t].is_signed || ptx_types[t].bytes >= 4)
        return a;
    return step(d, ptx_types[t].bytes == 1 ? LANE_sext_8 : LANE_sext_16, a, 4);
}

static int64_t least(enum ptx_type t) { return ptx_types[t].is_signed ? -(int64_t)(1ull << (ptx_types[t].bytes * 8 - 1)) : 0; }
static uint64_t most(enum ptx_type t)
{
    const unsigned bits = ptx_types[t].bytes * 8 - ptx_types[t].is_signed;
    return bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
}

/* A 64-bit value, signed or not, clamped to what `to` holds. */
static uint32_t clamped(struct decoder *d, uint32_t a, bool is_signed, enum ptx_type to)
{
    uint32_t r = a;
    if (is_signed) {
        r = temp(d, 8);
        lane(d, LANE_max_s64, r, a, constant(d, (uint64_t)least(to), 8), 0);
        if (most(to) <= INT64_MAX)
            lane(d, LANE_min_s64, r, r, constant(d, most(to), 8), 0);
    } else {
        r = temp(d, 8);
        lane(d, LANE_min_u64, r, a, constant(d, most(to), 8), 0);
    }
    return r;
}

/* A value of 4 or 8 bytes as the integer type `to` in its slot. */
static void put_int(struct decoder *d, uint32_t dst, uint32_t a, unsigned have, enum ptx_type to, bool source_signed)
{
    const unsigned want = ptx_types[to].bytes;
    if (want == 8) {
        lane(d, have == 8 ? LANE_mov_64 : source_signed ? LANE_sext_64 : LANE_zext_64, dst, a, 0, 0);
        return;
    }
    if (want == 4) {
        lane(d, have == 8 ? LANE_lo_32 : LANE_mov_32, dst, a, 0, 0);
        return;
    }
    if (have == 8)
        a = step(d, LANE_lo_32, a, 4);
    lane(d, want == 2 ? LANE_lo_16 : LANE_lo_8, dst, a, 0, 0);
}

static bool int_to_int(struct decoder *d, uint32_t dst, uint32_t a, enum ptx_type to, enum ptx_type from)
{
    const bool sign = ptx_types[from].is_signed;
    a = extended(d, a, from);
    unsigned have = is64(from) ? 8 : 4;
    if (has(&d->op, M_SAT)) {
        if (have == 4)
            a = step(d, sign ? LANE_sext_64 : LANE_zext_64, a, 8);
        a = clamped(d, a, sign, to);
        have = 8;
    }
    put_int(d, dst, a, have, to, sign);
    return true;
}

static bool int_to_float(struct decoder *d, uint32_t dst, uint32_t a, enum ptx_type to, enum ptx_type from)
{
    const bool sign = ptx_types[from].is_signed, wide = is64(from);
    a = extended(d, a, from);
    set_mode(d, (mode_of(d) & ~MODE_FTZ) | (d->mode & MODE_FTZ)); /* no integer is subnormal */
    if (to == T_F32) {
        lane(d, wide ? sign ? LANE_s64_f32 : LANE_u64_f32 : sign ? LANE_s32_f32 : LANE_u32_f32, dst, a, 0, 0);
        return true;
    }
    const enum lane_op op = wide ? sign ? LANE_s64_f64 : LANE_u64_f64 : sign ? LANE_s32_f64 : LANE_u32_f64;
    if (to == T_F64) {
        lane(d, op, dst, a, 0, 0);
        return true;
    }
    if (!is_half_one(to) || has(&d->op, M_RM) || has(&d->op, M_RP))
        return false;
    if (has(&d->op, M_RZ)) { /* cut twice is cut once */
        a = step(d, op, a, 8);
        set_mode(d, MODE_RZ);
        a = step(d, LANE_f64_f32, a, 4);
        lane(d, to == T_F16 ? LANE_f32_f16_rz : LANE_f32_bf16_rz, dst, a, 0, 0);
        return true;
    }
    set_mode(d, MODE_RN);
    lane(d, to == T_F16 ? LANE_f64_f16 : LANE_f64_bf16, dst, step(d, op, a, 8), 0, 0);
    return true;
}

static enum lane_op integral(const struct decoder *d, bool wide)
{
    const struct opcode *o = &d->op;
    return has(o, M_RNI) ? wide ? LANE_rni_f64 : LANE_rni_f32 : has(o, M_RMI) ? wide ? LANE_rmi_f64 : LANE_rmi_f32
           : has(o, M_RPI) ? wide ? LANE_rpi_f64 : LANE_rpi_f32 : wide ? LANE_rzi_f64 : LANE_rzi_f32;
}

static bool float_to_int(struct decoder *d, uint32_t dst, uint32_t a, enum ptx_type to, enum ptx_type from)
{
    const bool sign = ptx_types[to].is_signed, wide_to = is64(to), was64 = from == T_F64;
    if (is_half_one(from))
        a = step(d, from == T_F16 ? LANE_f16_f32 : LANE_bf16_f32, a, 4);
    if (has(&d->op, M_FTZ))
        a = step(d, LANE_flush_f32, a, 4);
    a = step(d, integral(d, was64), a, was64 ? 8 : 4);
    if (!was64 && !wide_to) {
        a = step(d, sign ? LANE_f32_s32 : LANE_f32_u32, a, 4);
    } else {
        if (!was64)
            a = step(d, LANE_f32_f64, a, 8);
        const uint32_t r = temp(d, wide_to ? 8 : 4);
        /* a NaN becomes the top bit alone, but 0 from f32 to 32 bits and fewer */
        lane_k(d, wide_to ? sign ? LANE_f64_s64 : LANE_f64_u64 : sign ? LANE_f64_s32 : LANE_f64_u32, r, a, 0, 0, INT32_MIN);
        a = r;
    }
    if (ptx_types[to].bytes < 4) { /* clamping is monotone: 32 bits first, then fewer */
        const uint32_t r = temp(d, 4);
        const uint32_t lo = constant(d, (uint64_t)least(to), 4), hi = constant(d, most(to), 4);
        lane(d, sign ? LANE_max_s32 : LANE_max_u32, r, a, lo, 0);
        lane(d, sign ? LANE_min_s32 : LANE_min_u32, r, r, hi, 0);
        a = r;
    }
    put_int(d, dst, a, wide_to ? 8 : 4, to, sign);
    return true;
}

/* f32 in `a` to a 16-bit float in its slot. */
static void put_half(struct decoder *d, uint32_t dst, uint32_t a, enum ptx_type to)
{
    const bool rz = has(&d->op, M_RZ);
    if (has(&d->op, M_RELU))
        a = step(d, LANE_relu_f32, a, 4);
    if (has(&d->op, M_SAT))
        a = step(d, LANE_sat_f32, a, 4);
    const bool finite = has(&d->op, M_SATFINITE);
    const uint32_t raw = finite ? temp(d, 4) : dst;
    lane(d, to == T_F16 ? rz ? LANE_f32_f16_rz : LANE_f32_f16 : rz ? LANE_f32_bf16_rz : LANE_f32_bf16, raw, a, 0, 0);
    if (finite)
        lane_k(d, LANE_satfinite_16, dst, raw, 0, 0, to == T_F16 ? 0x7c00 : 0x7f80);
}

static bool float_to_float(struct decoder *d, uint32_t dst, uint32_t a, enum ptx_type to, enum ptx_type from)
{
    const struct opcode *o = &d->op;
    const bool whole = has(o, M_RNI) || has(o, M_RZI) || has(o, M_RMI) || has(o, M_RPI);
    if (has(o, M_RM) || has(o, M_RP)) {
        if (is_half_one(to))
            return false;
    }
    if (from == T_F64 && is_half_one(to)) {
        if (has(o, M_RZ) || has(o, M_SAT) || whole)
            return false;
        lane(d, to == T_F16 ? LANE_f64_f16 : LANE_f64_bf16, dst, a, 0, 0);
        return true;
    }
    if (is_half_one(from))
        a = step(d, from == T_F16 ? LANE_f16_f32 : LANE_bf16_f32, a, 4);
    const bool from64 = from == T_F64, to64 = to == T_F64;
    if (!from64 && !is_half_one(from) && has(o, M_FTZ))
        a = step(d, LANE_flush_f32, a, 4);
    if (whole)
        a = step(d, integral(d, from64), a, from64 ? 8 : 4);
    if (is_half_one(to)) {
        put_half(d, dst, a, to);
        return true;
    }
    if (from64 && !to64) {
        set_mode(d, mode_of(d));
        a = step(d, LANE_f64_f32, a, 4);
    }
    if (!from64 && to64)
        a = step(d, LANE_f32_f64, a, 8);
    if (has(o, M_SAT))
        a = step(d, to64 ? LANE_sat_f64 : LANE_sat_f32, a, to64 ? 8 : 4);
    lane(d, to64 ? LANE_mov_64 : LANE_mov_32, dst, a, 0, 0);
    return true;
}

/* Two values in one register: cvt.rn.bf16x2.f32 d, high, low; fp8 pairs to and from. */
static bool to_pair(struct decoder *d, enum ptx_type to)
{
    const bool fp8 = to == T_E4M3X2 || to == T_E5M2X2;
    const enum ptx_type from = d->op.types[1];
    const uint32_t dst = dest(d, arg(d, 0), fp8 ? T_B16 : T_B32);
    uint32_t v[2]; /* low, high */
    if (!dst)
        return false;
    if (from == T_F32 && d->stmt->count == 3) {
        v[1] = source(d, arg(d, 1), T_F32);
        v[0] = source(d, arg(d, 2), T_F32);
    } else if ((from == T_F16X2 || from == T_BF16X2) && fp8 && d->stmt->count == 2) {
        const uint32_t a = source(d, arg(d, 1), T_B32);
        if (!a)
            return false;
        for (int h = 0; h < 2; h++)
            v[h] = step(d, from == T_F16X2 ? LANE_f16_f32 : LANE_bf16_f32, step(d, h ? LANE_hi_16 : LANE_lo_16, a, 4), 4);
    } else if ((from == T_E4M3X2 || from == T_E5M2X2) && to == T_F16X2 && d->stmt->count == 2) {
        const uint32_t a = source(d, arg(d, 1), T_B16);
        if (!a)
            return false;
        const uint32_t low = step(d, LANE_lo_8, a, 4), high = temp(d, 4);
        lane(d, LANE_shr_u32, high, a, constant(d, 8, 4), 0);
        v[0] = step(d, from == T_E4M3X2 ? LANE_e4m3_f32 : LANE_e5m2_f32, low, 4);
        v[1] = step(d, from == T_E4M3X2 ? LANE_e4m3_f32 : LANE_e5m2_f32, high, 4);
    } else {
        return false;
    }
    if (!v[0] || !v[1])
        return false;
    const uint32_t lo = temp(d, 4), hi = temp(d, 4);
    if (fp8) {
        const enum lane_op op = to == T_E4M3X2 ? LANE_f32_e4m3 : LANE_f32_e5m2;
        for (int h = 0; h < 2; h++)
            if (has(&d->op, M_RELU))
                v[h] = step(d, LANE_relu_f32, v[h], 4);
        lane(d, op, lo, v[0], 0, 0);
        lane(d, op, hi, v[1], 0, 0);
        lane(d, LANE_pack_8, dst, lo, hi, 0);
    } else {
        put_half(d, lo, v[0], to == T_F16X2 ? T_F16 : T_BF16);
        put_half(d, hi, v[1], to == T_F16X2 ? T_F16 : T_BF16);
        lane(d, LANE_pack_16, dst, lo, hi, 0);
    }
    return true;
}

bool ptx_decode_cvt(struct decoder *d)
{
    const struct opcode *o = &d->op;
    if (o->type_count != 2 || has(o, M_RS))
        return false;
    const enum ptx_type to = o->types[0], from = o->types[1];
    if (to == T_F16X2 || to == T_BF16X2 || to == T_E4M3X2 || to == T_E5M2X2)
        return to_pair(d, to);
    if (d->stmt->count != 2 || ptx_types[to].bytes > 8 || ptx_types[from].bytes > 8 || to == T_PRED || from == T_PRED)
        return false;
    const uint32_t a = source(d, arg(d, 1), from), dst = dest(d, arg(d, 0), to);
    if (!a || !dst)
        return false;
    if (to == T_TF32 && from == T_F32) {
        lane(d, LANE_f32_tf32_rna, dst, a, 0, 0);
        return has(o, M_RNA);
    }
    if (ptx_types[from].is_float)
        set_mode(d, MODE_RN | (has(o, M_FTZ) ? MODE_FTZ : 0));
    const bool to_f = to == T_F32 || to == T_F64 || is_half_one(to), from_f = from == T_F32 || from == T_F64 || is_half_one(from);
    if (ptx_types[to].is_float != to_f || ptx_types[from].is_float != from_f)
        return false;
    return to_f ? from_f ? float_to_float(d, dst, a, to, from) : int_to_float(d, dst, a, to, from)
                : from_f ? float_to_int(d, dst, a, to, from) : int_to_int(d, dst, a, to, from);
}

/*
 * cvt: every pair of types, as steps. Integers are first brought to 32 or 64 bits with their sign, small floats to f32;
 * then one conversion; then saturation and narrowing.
 */
#include "gpu/ptx/decode.h"
#include "gpu/ptx/small_format.h"

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

/* What a conversion to a small float rounds to, in small.h's terms. */
static uint32_t small_mode(const struct opcode *o)
{
    return (has(o, M_RZ) ? SMALL_RZ : has(o, M_RM) ? SMALL_RM : has(o, M_RP) ? SMALL_RP : has(o, M_RNA) ? SMALL_RNA
            : has(o, M_RS)                                                                ? SMALL_RS
                                                                                          : SMALL_RN) << 8;
}

/* An exact double, or one rounded to odd, as a 16-bit float. */
static void double_to_half(struct decoder *d, uint32_t dst, uint32_t a, enum ptx_type to)
{
    const uint32_t format = to == T_F16 ? SMALL_F16 : SMALL_BF16, mode = small_mode(&d->op);
    if (has(&d->op, M_SAT))
        a = step(d, LANE_sat_f64, a, 8);
    if (mode == SMALL_RN << 8)
        lane(d, to == T_F16 ? LANE_f64_f16 : LANE_f64_bf16, dst, a, 0, 0);
    else
        lane_k(d, LANE_f64_small, dst, a, 0, 0, format | mode);
}

static bool int_to_float(struct decoder *d, uint32_t dst, uint32_t a, enum ptx_type to, enum ptx_type from)
{
    const bool sign = ptx_types[from].is_signed, wide = is64(from), sat = has(&d->op, M_SAT);
    a = extended(d, a, from);
    if (is_half_one(to)) {
        set_mode(d, MODE_RN);
        a = step(d, wide ? sign ? LANE_s64_f64_odd : LANE_u64_f64_odd : sign ? LANE_s32_f64 : LANE_u32_f64, a, 8);
        double_to_half(d, dst, a, to);
        return true;
    }
    if (to != T_F32 && to != T_F64)
        return false;
    set_mode(d, (mode_of(d) & ~MODE_FTZ) | (d->mode & MODE_FTZ)); /* no integer is subnormal */
    const uint32_t raw = sat ? temp(d, to == T_F32 ? 4 : 8) : dst;
    if (to == T_F32)
        lane(d, wide ? sign ? LANE_s64_f32 : LANE_u64_f32 : sign ? LANE_s32_f32 : LANE_u32_f32, raw, a, 0, 0);
    else
        lane(d, wide ? sign ? LANE_s64_f64 : LANE_u64_f64 : sign ? LANE_s32_f64 : LANE_u32_f64, raw, a, 0, 0);
    if (sat)
        lane(d, to == T_F32 ? LANE_sat_f32 : LANE_sat_f64, dst, raw, 0, 0);
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
        /* a NaN becomes the top bit alone (clamped, of signed ones of fewer bits), but 0 from f32 to 32 bits and fewer */
        const int64_t nan = sign || ptx_types[to].bytes >= 4 ? INT32_MIN : 1ll << (ptx_types[to].bytes * 8 - 1);
        lane_k(d, wide_to ? sign ? LANE_f64_s64 : LANE_f64_u64 : sign ? LANE_f64_s32 : LANE_f64_u32, r, a, 0, 0, nan);
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

/* f32 in `a` to a 16-bit float in its slot; `random` for .rs. */
static void put_half(struct decoder *d, uint32_t dst, uint32_t a, enum ptx_type to, uint32_t random)
{
    const uint32_t mode = small_mode(&d->op), format = to == T_F16 ? SMALL_F16 : SMALL_BF16;
    if (has(&d->op, M_RELU))
        a = step(d, LANE_relu_f32, a, 4);
    if (has(&d->op, M_SAT))
        a = step(d, LANE_sat_f32, a, 4);
    const bool finite = has(&d->op, M_SATFINITE);
    if (mode != SMALL_RN << 8 && mode != SMALL_RZ << 8) {
        const int64_t bits = random ? to == T_F16 ? 13 : 16 : 0;
        lane_k(d, LANE_f64_small, dst, step(d, LANE_f32_f64, a, 8), random, 0, format | mode | (finite ? SMALL_FINITE : 0) | bits << 16);
        return;
    }
    const bool rz = mode == SMALL_RZ << 8;
    const uint32_t raw = finite ? temp(d, 4) : dst;
    lane(d, to == T_F16 ? rz ? LANE_f32_f16_rz : LANE_f32_f16 : rz ? LANE_f32_bf16_rz : LANE_f32_bf16, raw, a, 0, 0);
    if (finite)
        lane_k(d, LANE_satfinite_16, dst, raw, 0, 0, to == T_F16 ? 0x7c00 : 0x7f80);
}

static bool float_to_float(struct decoder *d, uint32_t dst, uint32_t a, enum ptx_type to, enum ptx_type from)
{
    const struct opcode *o = &d->op;
    const bool whole = has(o, M_RNI) || has(o, M_RZI) || has(o, M_RMI) || has(o, M_RPI), from64 = from == T_F64, to64 = to == T_F64;
    if (from64 && is_half_one(to)) {
        const bool sat = has(o, M_SAT); /* then no NaN is left */
        const uint32_t raw = sat ? dst : temp(d, 4);
        double_to_half(d, raw, a, to);
        if (!sat)
            lane_k(d, LANE_half_nan_f64, dst, raw, a, 0, to == T_F16 ? 0x7c00 : 0x7f80);
        return !whole;
    }
    if (from == T_F16 && to64) {
        a = step(d, LANE_f16_f64, a, 8);
        lane(d, has(o, M_SAT) ? LANE_sat_f64 : LANE_mov_64, dst, a, 0, 0);
        return true;
    }
    if (is_half_one(from))
        a = step(d, from == T_F16 ? LANE_f16_f32 : LANE_bf16_f32, a, 4);
    if ((from == T_F32 || from == T_BF16) && has(o, M_FTZ) && to != T_F16) /* by an addition, that knows one NaN */
        a = step(d, LANE_canon_f32, step(d, LANE_flush_f32, a, 4), 4);
    if (whole)
        a = step(d, integral(d, from64), a, from64 ? 8 : 4);
    if (is_half_one(to)) {
        put_half(d, dst, a, to, 0);
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

/* ---- two values in one register ---- */
/* How a pair is laid out, and small.h's format of its items; 0 for the ones with ways of their own. */
static const struct pair { enum ptx_type type; uint8_t item_bits; uint32_t format; } pairs[] = {
    {T_F16X2, 16, SMALL_F16}, {T_BF16X2, 16, SMALL_BF16}, {T_E4M3X2, 8, SMALL_E4M3}, {T_E5M2X2, 8, SMALL_E5M2},
    {T_E2M3X2, 8, SMALL_E2M3}, {T_E3M2X2, 8, SMALL_E3M2}, {T_E2M1X2, 4, SMALL_E2M1}, {T_UE8M0X2, 8, 0},
};

static const struct pair *pair_of(enum ptx_type t)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].type == t)
            return &pairs[i];
    return NULL;
}

/* Item 0 (low) or 1 of a pair, as f32. */
static uint32_t pair_item(struct decoder *d, uint32_t a, const struct pair *p, int item)
{
    const uint32_t mask = (1u << p->item_bits) - 1, up = temp(d, 4), one = temp(d, 4), r = temp(d, 4);
    lane(d, LANE_shr_u32, up, a, constant(d, item ? p->item_bits : 0, 4), 0);
    lane(d, LANE_and_32, one, up, constant(d, mask, 4), 0);
    switch ((int)p->type) {
    case T_F16X2: lane(d, LANE_f16_f32, r, one, 0, 0); break;
    case T_BF16X2: lane(d, LANE_bf16_f32, r, one, 0, 0); break;
    case T_E4M3X2: lane(d, LANE_e4m3_f32, r, one, 0, 0); break;
    case T_E5M2X2: lane(d, LANE_e5m2_f32, r, one, 0, 0); break;
    case T_UE8M0X2: lane(d, LANE_ue8m0_bf16, up, one, 0, 0); lane(d, LANE_bf16_f32, r, up, 0, 0); break;
    default: lane_k(d, LANE_small_f32, r, one, 0, 0, p->format); break;
    }
    return r;
}

/* f32 as an item of a pair. */
static uint32_t pair_put(struct decoder *d, uint32_t a, const struct pair *p, uint32_t random)
{
    const uint32_t r = temp(d, 4);
    if (p->item_bits == 16) {
        put_half(d, r, a, p->type == T_F16X2 ? T_F16 : T_BF16, random);
        return r;
    }
    if (has(&d->op, M_RELU))
        a = step(d, LANE_relu_f32, a, 4);
    if (p->type == T_UE8M0X2)
        lane_k(d, LANE_f32_ue8m0, r, a, 0, 0, small_mode(&d->op) | (has(&d->op, M_SATFINITE) ? SMALL_FINITE : 0));
    else if (p->type == T_E4M3X2 || p->type == T_E5M2X2)
        lane(d, p->type == T_E4M3X2 ? LANE_f32_e4m3 : LANE_f32_e5m2, r, a, 0, 0);
    else
        lane_k(d, LANE_f64_small, r, step(d, LANE_f32_f64, a, 8), 0, 0, p->format | small_mode(&d->op) | SMALL_FINITE);
    return r;
}

/* cvt.rn.bf16x2.f32 d, high, low{, random}; and from pair to pair. */
static bool to_pair(struct decoder *d, const struct pair *to, enum ptx_type from_type)
{
    const struct pair *from = pair_of(from_type);
    const uint32_t dst = dest(d, arg(d, 0), to->item_bits == 16 ? T_B32 : to->item_bits == 8 ? T_B16 : T_B8);
    const bool rs = has(&d->op, M_RS);
    uint32_t v[2], random[2] = {0, 0}; /* low, high */
    if (!dst || d->stmt->count != (from ? 2u : rs ? 4u : 3u) || (rs && (from || to->item_bits != 16)) || (!from && from_type != T_F32))
        return false;
    set_mode(d, MODE_RN);
    if (from) {
        const uint32_t a = source(d, arg(d, 1), from_type);
        if (!a)
            return false;
        v[0] = pair_item(d, a, from, 0);
        v[1] = pair_item(d, a, from, 1);
    } else {
        v[1] = source(d, arg(d, 1), T_F32);
        v[0] = source(d, arg(d, 2), T_F32);
    }
    if (rs) {
        const uint32_t bits = source(d, arg(d, 3), T_B32), mask = constant(d, to->type == T_F16X2 ? 0x1fff : 0xffff, 4);
        if (!bits)
            return false;
        random[0] = temp(d, 4), random[1] = temp(d, 4);
        lane(d, LANE_and_32, random[0], bits, mask, 0);
        lane(d, LANE_hi_16, random[1], bits, 0, 0);
        lane(d, LANE_and_32, random[1], random[1], mask, 0);
    }
    if (!v[0] || !v[1])
        return false;
    const uint32_t lo = pair_put(d, v[0], to, random[0]), hi = pair_put(d, v[1], to, random[1]), up = temp(d, 4);
    lane(d, LANE_shl_32, up, hi, constant(d, to->item_bits, 4), 0);
    lane(d, LANE_or_32, dst, lo, up, 0);
    return true;
}

/* cvt.pack.sat.u8.s32.b32 d, a, b, c: a and b clamped, the latter lowest, then the lower bits of c. */
static bool pack(struct decoder *d)
{
    const enum ptx_type t = d->op.types[0];
    const unsigned bits = t == T_U16 || t == T_S16 ? 16 : t == T_U8 || t == T_S8 ? 8 : t == T_U4 || t == T_S4 ? 4 : 2, count = bits == 16 ? 3 : 4;
    const int64_t low = ptx_types[t].is_signed ? -(1ll << (bits - 1)) : 0, high = (1ll << (bits - ptx_types[t].is_signed)) - 1;
    const uint32_t dst = dest(d, arg(d, 0), T_B32), mask = constant(d, (1u << bits) - 1, 4);
    const uint32_t c = count == 4 ? source(d, arg(d, 3), T_B32) : 0;
    uint32_t v[2]; /* of a, of b */
    if (!dst || d->op.types[1] != T_S32 || d->op.type_count != (int)count - 1 || d->stmt->count != count || (count == 4 && !c))
        return false;
    for (unsigned i = 0; i < 2; i++) {
        const uint32_t a = source(d, arg(d, i + 1), T_S32);
        if (!a)
            return false;
        v[i] = temp(d, 4);
        lane(d, LANE_max_s32, v[i], a, constant(d, (uint64_t)low, 4), 0);
        lane(d, LANE_min_s32, v[i], v[i], constant(d, (uint64_t)high, 4), 0);
        lane(d, LANE_and_32, v[i], v[i], mask, 0);
    }
    lane(d, LANE_shl_32, v[0], v[0], constant(d, bits, 4), 0);
    if (!c) {
        lane(d, LANE_or_32, dst, v[0], v[1], 0);
        return true;
    }
    lane(d, LANE_or_32, v[0], v[0], v[1], 0);
    lane(d, LANE_shl_32, v[1], c, constant(d, bits * 2, 4), 0);
    lane(d, LANE_or_32, dst, v[0], v[1], 0);
    return true;
}

bool ptx_decode_cvt(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const enum ptx_type to = o->types[0], from = o->types[1];
    if (has(o, M_PACK))
        return pack(d);
    if (o->type_count != 2)
        return false;
    if (pair_of(to))
        return to_pair(d, pair_of(to), from);
    if (d->stmt->count != 2 || has(o, M_RS) || ptx_types[to].bytes > 8 || ptx_types[from].bytes > 8 || to == T_PRED || from == T_PRED)
        return false;
    uint32_t a = source(d, arg(d, 1), from);
    const uint32_t dst = dest(d, arg(d, 0), to);
    if (!a || !dst)
        return false;
    if (to == T_TF32 && from == T_F32) {
        set_mode(d, MODE_RN);
        if (has(o, M_RELU))
            a = step(d, LANE_relu_f32, a, 4);
        lane_k(d, LANE_f32_tf32, dst, a, 0, 0, small_mode(o) | (has(o, M_SATFINITE) ? SMALL_FINITE : 0));
        return true;
    }
    if (ptx_types[from].is_float) /* to f16 .ftz changes nothing */
        set_mode(d, MODE_RN | (has(o, M_FTZ) && to != T_F16 ? MODE_FTZ : 0));
    const bool to_f = to == T_F32 || to == T_F64 || is_half_one(to), from_f = from == T_F32 || from == T_F64 || is_half_one(from);
    if (ptx_types[to].is_float != to_f || ptx_types[from].is_float != from_f)
        return false;
    return to_f ? from_f ? float_to_float(d, dst, a, to, from) : int_to_float(d, dst, a, to, from)
                : from_f ? float_to_int(d, dst, a, to, from) : int_to_int(d, dst, a, to, from);
}

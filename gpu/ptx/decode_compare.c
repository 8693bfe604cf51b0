/* Comparisons, and selection by them. A predicate is 0 or ~0 in each lane. */
#include "gpu/ptx/decode_parts.h"

#define N LANE_NONE
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
                                   LANE_nle_f32, LANE_num_f32, LANE_nan_f32, N};
    static const uint16_t f64[] = {LANE_eq_f64, LANE_ne_f64, LANE_lt_f64, LANE_le_f64, LANE_equ_f64, LANE_neu_f64, LANE_nlt_f64,
                                   LANE_nle_f64, LANE_num_f64, LANE_nan_f64, N};
    static const uint16_t ints[][C_S64 + 1] = {
        [CMP_EQ] = {LANE_eq_32, LANE_eq_32, LANE_eq_32, LANE_eq_32, LANE_eq_64, LANE_eq_64},
        [CMP_NE] = {LANE_ne_32, LANE_ne_32, LANE_ne_32, LANE_ne_32, LANE_ne_64, LANE_ne_64},
        [CMP_LT] = {LANE_lt_u32, LANE_lt_s16, LANE_lt_u32, LANE_lt_s32, LANE_lt_u64, LANE_lt_s64},
        [CMP_LE] = {LANE_le_u32, LANE_le_s16, LANE_le_u32, LANE_le_s32, LANE_le_u64, LANE_le_s64}};
    if (ptx_types[t].is_float)
        return t == T_F64 ? (enum lane_op)f64[c->floats] : t == T_F32 ? (enum lane_op)f32[c->floats] : N;
    return c->ints <= CMP_LE && column_of(t) >= 0 && column_of(t) <= C_S64 ? (enum lane_op)ints[c->ints][column_of(t)] : N;
}

/* a cmp b as ~0 or 0 per lane; 0 if there is no such comparison. */
static uint32_t compared(struct decoder *d, const struct compare *c, enum ptx_type t, uint32_t a, uint32_t b)
{
    const enum lane_op op = compare_op(c, t);
    if (op == LANE_NONE)
        return 0;
    if (ptx_types[t].is_float)
        set_mode(d, MODE_RN | (has(&d->op, M_FTZ) ? MODE_FTZ : 0));
    const uint32_t r = temp(d, 4);
    lane(d, op, r, c->swap ? b : a, c->swap ? a : b, 0);
    return r;
}

/* Combined with the third source where there is one. */
static uint32_t combined(struct decoder *d, uint32_t r, uint32_t also)
{
    if (!also)
        return r;
    const uint32_t both = temp(d, 4);
    lane(d, has(&d->op, M_AND) ? LANE_and_32 : has(&d->op, M_OR) ? LANE_or_32 : LANE_xor_32, both, r, also, 0);
    return both;
}

/* The last lane operation can write the result itself. */
static void put_pred(struct decoder *d, uint32_t p, uint32_t r)
{
    struct insn *last = &d->m->code[d->m->code_count - 1];
    if (last->kind == K_LANE && last->dst == r)
        last->dst = p;
    else
        lane(d, LANE_mov_32, p, r, 0, 0);
}

/* plain: by half, not yet combined */
static bool put_setp(struct decoder *d, enum ptx_type t, const uint32_t *plain, uint32_t also)
{
    const struct operand *to = arg(d, 0);
    const struct operand *one = to->kind == O_PAIR ? &d->m->operands[to->id] : to, *two = to->kind == O_PAIR ? one + 1 : NULL;
    const uint32_t p = dest(d, one, T_PRED), q = two ? dest(d, two, T_PRED) : 0;
    if (!p || (two && !q) || (is_pair(t) && !two))
        return false;
    if (!two) {
        put_pred(d, p, combined(d, plain[0], also));
        return true;
    }
    uint32_t second = plain[1];
    if (!is_pair(t)) { /* q: the comparison turned round, then combined */
        second = temp(d, 4);
        lane(d, LANE_not_32, second, plain[0], 0, 0);
    }
    const uint32_t first = combined(d, plain[0], also);
    second = combined(d, second, also); /* both before p: it may be the third source */
    const bool guard_first = d->pred == p; /* the statement's own predicate is written last */
    lane(d, LANE_mov_32, guard_first ? q : p, guard_first ? second : first, 0, 0);
    lane(d, LANE_mov_32, guard_first ? p : q, guard_first ? first : second, 0, 0);
    return true;
}

static bool put_set(struct decoder *d, enum ptx_type t, enum ptx_type rt, const uint32_t *r)
{
    const uint32_t dst = dest(d, arg(d, 0), rt);
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

bool ptx_decode_setp(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const bool is_set = o->base == B_set;
    const enum ptx_type t = o->types[is_set ? 1 : 0], rt = is_set ? o->types[0] : T_PRED;
    const struct compare *c = NULL;
    for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
        if (has(o, compares[i].mod))
            c = &compares[i];
    const bool third = has(o, M_AND) || has(o, M_OR) || has(o, M_XOR);
    if (!c || o->type_count != (is_set ? 2 : 1) || d->stmt->count != (third ? 4u : 3u))
        return false;
    const uint32_t a = source(d, arg(d, 1), t), b = source(d, arg(d, 2), t), also = third ? source(d, arg(d, 3), T_PRED) : 0;
    if (!a || !b || (third && !also))
        return false;
    uint32_t r[2] = {0};
    if (is_half(t)) {
        const uint32_t fa = flushed(d, a, t), fb = flushed(d, b, t);
        for (int half = 0; half <= is_pair(t); half++)
            r[half] = compared(d, c, T_F32, widen(d, fa, t, half), widen(d, fb, t, half));
    } else {
        r[0] = compared(d, c, t, a, b);
    }
    if (!r[0])
        return false;
    if (!is_set)
        return put_setp(d, t, r, also);
    r[0] = combined(d, r[0], also);
    r[1] = is_pair(t) ? combined(d, r[1], also) : 0;
    return put_set(d, t, rt, r);
}

bool ptx_decode_selp(struct decoder *d)
{
    const enum ptx_type t = d->op.types[0];
    const bool slct = d->op.base == B_slct, wide = is64(t);
    const enum ptx_type ct = slct ? d->op.types[1] : T_PRED;
    if (d->stmt->count != 4 || column_of(t) < 0 || (slct && ct != T_S32 && ct != T_F32))
        return false;
    const uint32_t a = source(d, arg(d, 1), t), b = source(d, arg(d, 2), t), c = source(d, arg(d, 3), ct), dst = dest(d, arg(d, 0), t);
    if (!a || !b || !c || !dst)
        return false;
    if (ct == T_F32)
        set_mode(d, MODE_RN | (has(&d->op, M_FTZ) ? MODE_FTZ : 0));
    lane(d, !slct ? wide ? LANE_selp_64 : LANE_selp_32 : ct == T_F32 ? wide ? LANE_slct_64_f32 : LANE_slct_f32 : wide ? LANE_slct_64 : LANE_slct_32,
         dst, a, b, c);
    return true;
}

bool ptx_decode_testp(struct decoder *d)
{
    static const struct { enum ptx_mod mod; uint16_t f32, f64; } tests[] = {
        {M_FINITE, LANE_testp_finite_f32, LANE_testp_finite_f64}, {M_INFINITE, LANE_testp_infinite_f32, LANE_testp_infinite_f64},
        {M_NUMBER, LANE_num_f32, LANE_num_f64},                   {M_NOTANUMBER, LANE_nan_f32, LANE_nan_f64},
        {M_NORMAL, LANE_testp_normal_f32, LANE_testp_normal_f64}, {M_SUBNORMAL, LANE_testp_subnormal_f32, LANE_testp_subnormal_f64},
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

/* mbarriers, clusters, asynchronous copies: operands to instructions. What they do is in mbarrier.c, cluster.c, copy.c, bulk.c. */
#include "gpu/ptx/decode.h"
#include "gpu/ptx/async.h"

/* An address with its offset in the instruction's a and imm. */
static struct insn *emit_at(struct decoder *d, enum insn_kind kind, uint32_t slot, int64_t offset, enum ptx_space space)
{
    struct insn *i = emit(d, kind);
    i->a = slot;
    i->imm = offset;
    i->vec = 1;
    i->space = (uint8_t)space;
    return i;
}

static enum ptx_space shared_or_generic(const struct opcode *o)
{
    return has(o, M_SHARED_CLUSTER) ? SPACE_CLUSTER : has(o, M_SHARED) || has(o, M_SHARED_CTA) ? SPACE_SHARED : SPACE_GENERIC;
}

static const struct { enum ptx_mod mod; enum mbarrier_op op; } mbarrier_ops[] = {
    {M_INIT, MB_INIT}, {M_INVAL, MB_INVAL}, {M_ARRIVE_DROP, MB_DROP}, {M_ARRIVE, MB_ARRIVE}, {M_EXPECT_TX, MB_EXPECT},
    {M_COMPLETE_TX, MB_COMPLETE}, {M_TEST_WAIT, MB_TEST}, {M_TRY_WAIT, MB_TEST},
};

/* mbarrier.pending_count.b64 count, state */
static bool pending_count(struct decoder *d)
{
    const uint32_t dst = dest(d, arg(d, 0), T_U32), state = source(d, arg(d, 1), T_B64);
    if (!dst || !state || d->stmt->count != 2)
        return false;
    lane(d, LANE_lo_32, dst, state, 0, 0);
    return true;
}

/*
 * init [a], count; inval [a]; arrive{_drop}{.expect_tx}{.noComplete} {state,} [a]{, bytes | count}; expect_tx, complete_tx [a], bytes;
 * test_wait, try_wait{.parity} p, [a], state | parity{, hint}
 */
bool ptx_decode_mbarrier(struct decoder *d)
{
    const struct opcode *o = &d->op;
    if (has(o, M_PENDING_COUNT))
        return pending_count(d);
    int op = -1;
    for (size_t n = 0; n < sizeof mbarrier_ops / sizeof *mbarrier_ops && op < 0; n++)
        if (has(o, mbarrier_ops[n].mod))
            op = mbarrier_ops[n].op;
    const bool arrives = op == MB_ARRIVE || op == MB_DROP, asks = op == MB_TEST;
    const bool state = arrives && arg(d, 0)->kind != O_ADDRESS;
    const unsigned at = state || asks ? 1 : 0, left = d->stmt->count - at - 1;
    uint32_t slot, dst = 0, b = 0, c = 0;
    int64_t offset;
    if (op < 0 || o->type_count != 1 || o->types[0] != T_B64 || d->stmt->count < at + 1 || !address(d, arg(d, at), &slot, &offset))
        return false;
    if (left > (op == MB_INVAL ? 0u : asks && has(o, M_TRY_WAIT) ? 2u : 1u) || (left == 0 && op != MB_INVAL && !arrives))
        return false;
    const struct operand *x = arg(d, at + 1);
    if (asks)
        b = source(d, x, has(o, M_PARITY) ? T_U32 : T_B64);
    else if (op == MB_INIT || (arrives && !has(o, M_EXPECT_TX)))
        b = left ? source(d, x, T_U32) : 0;
    else if (op != MB_INVAL)
        c = left ? source(d, x, T_U32) : 0;
    if ((left && !b && !c) || (has(o, M_EXPECT_TX) && !c))
        return false;
    if (asks && !(dst = dest(d, arg(d, 0), T_PRED)))
        return false;
    if (state && arg(d, 0)->kind != O_SINK && !(dst = dest(d, arg(d, 0), T_B64)))
        return false;
    struct insn *i = emit_at(d, K_MBARRIER, slot, offset, shared_or_generic(o));
    i->op = (uint8_t)op;
    i->dst = dst;
    i->b = b;
    i->c = c;
    i->flags |= dst && !asks ? F_DST64 : 0;
    i->aux = (has(o, M_PARITY) ? MB_PARITY : 0u) | (has(o, M_RELAXED) ? MB_RELAXED : 0u) | (has(o, M_NO_COMPLETE) ? MB_NO_COMPLETE : 0u);
    return true;
}

/* mapa{.shared::cluster}.u32|u64 d, a, rank; getctarank{.shared::cluster}.u32|u64 d, a: the type is the address's */
bool ptx_decode_mapa(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const bool rank = o->base == B_getctarank, generic = !has(o, M_SHARED_CLUSTER);
    const enum ptx_type t = o->types[0];
    const struct operand from = *arg(d, 1);
    if (o->type_count != 1 || (t != T_U32 && t != T_U64) || d->stmt->count != (rank ? 2u : 3u) || (generic && t != T_U64))
        return false;
    uint32_t a;
    if (from.kind == O_REG && d->f->reg_types[from.id] != T_PRED && ptx_types[d->f->reg_types[from.id]].bytes == 4) {
        const uint32_t narrow = source(d, &from, T_U32);
        a = temp(d, 8);
        lane(d, LANE_zext_64, a, narrow, 0, 0);
    } else {
        a = source(d, &from, T_U64);
    }
    const uint32_t b = rank ? 0 : source(d, arg(d, 2), T_U32), dst = dest(d, arg(d, 0), rank ? T_U32 : t);
    if (!a || !dst || (!rank && !b))
        return false;
    struct insn *i = emit_at(d, K_MAPA, a, 0, generic ? SPACE_GENERIC : SPACE_CLUSTER);
    i->b = b;
    i->dst = dst;
    i->op = rank;
    i->size = rank ? 4 : ptx_types[t].bytes;
    i->flags |= i->size == 8 ? F_DST64 : 0;
    return true;
}

/* barrier.cluster.arrive{.release|.relaxed}{.aligned}; barrier.cluster.wait{.acquire}{.aligned} */
bool decode_cluster_barrier(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const bool arrives = has(o, M_ARRIVE);
    if (d->stmt->count || arrives == has(o, M_WAIT))
        return false;
    if (has(o, M_ALIGNED)) {        /* the whole warp comes here first, in whatever parts */
        const uint32_t all = constant(d, FULL_MASK, 4);
        struct insn *come = emit(d, K_WARP_BAR);
        come->d = all;
        come->op = WARP_COMES;
    }
    emit(d, arrives ? K_CLUSTER_ARRIVE : K_CLUSTER_WAIT)->op = has(o, M_RELAXED);
    return true;
}

/* ---- bulks ---- */
static const enum ptx_mod reductions[] = {M_ADD, M_MIN, M_MAX, M_AND, M_OR, M_XOR, M_INC, M_DEC};

/* The operation of a reduction on its type, 0: none. */
static int reduction_of(const struct opcode *o)
{
    const enum ptx_type t = o->types[0];
    for (size_t n = 0; n < sizeof reductions / sizeof *reductions; n++) {
        const enum ptx_mod m = reductions[n];
        if (!has(o, m))
            continue;
        const bool fine = o->type_count == 1 && (ptx_types[t].bytes == 4 || ptx_types[t].bytes == 8 || t == T_F16 || t == T_BF16) &&
                          (!ptx_types[t].is_float || m == M_ADD || ((m == M_MIN || m == M_MAX) && ptx_types[t].bytes == 2));
        return fine ? (int)m : 0;
    }
    return 0;
}

/* cp.async.bulk.prefetch.L2.global [from], bytes{, policy}: changes no value, but may not reach beyond a buffer */
static bool bulk_prefetch(struct decoder *d)
{
    const uint32_t from = address_slot(d, arg(d, 0)), bytes = source(d, arg(d, 1), T_U32);
    if (!from || !bytes)
        return false;
    struct insn *i = emit(d, K_PREFETCH);
    i->a = from;
    i->b = bytes;
    i->vec = i->size = 1;
    i->space = SPACE_GLOBAL;
    return true;
}

/*
 * cp{.reduce}.async.bulk.TO.FROM... [to], [from], bytes{, [mbarrier]}{, mask of blocks}{, policy}{, mask of bytes}
 * An instruction has the slots of addresses in a, b, d, of bytes in c, and of the masks in a list; F_NC: from shared memory.
 */
static bool bulk_copy(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const bool out = has(o, M_BULK_GROUP), reduces = has(o, M_REDUCE), many = has(o, M_MULTICAST), partly = has(o, M_CP_MASK);
    const int op = reduction_of(o);
    const unsigned count = 3 + (out ? 0 : 1) + (many ? 1 : 0) + (has(o, M_CACHE_HINT) ? 1 : 0) + (partly ? 1 : 0);
    if (out == has(o, M_MBARRIER_BYTES) || reduces != (op != 0) || (!reduces && o->type_count) || d->stmt->count != count || (many && (out || reduces)))
        return false;
    const bool within = !out && !has(o, M_GLOBAL); /* shared memory to shared memory */
    if (within ? !has(o, M_SHARED_CLUSTER) || !has(o, M_SHARED_CTA) : !has(o, M_GLOBAL) || has(o, M_SHARED_CTA) == has(o, M_SHARED_CLUSTER))
        return false;
    const uint32_t to = address_slot(d, arg(d, 0)), from = address_slot(d, arg(d, 1)), bytes = source(d, arg(d, 2), T_U32);
    const uint32_t bar = out ? 0 : address_slot(d, arg(d, 3));
    uint32_t masks[2] = {many ? source(d, arg(d, 4), T_B16) : 0, partly ? source(d, arg(d, count - 1), T_B16) : 0};
    if (!to || !from || !bytes || (!out && !bar) || (many && !masks[0]) || (partly && !masks[1]))
        return false;
    const uint32_t list = list_add(d, masks, 2);
    struct insn *i = emit(d, K_BULK);
    i->a = to;
    i->b = from;
    i->c = bytes;
    i->d = bar;
    i->aux = list;
    i->op = (uint8_t)op;
    i->type = (uint8_t)o->types[0];
    i->vec = 1;
    i->space = (uint8_t)(out ? SPACE_GLOBAL : has(o, M_SHARED_CLUSTER) ? SPACE_CLUSTER : SPACE_SHARED);
    i->flags |= within ? F_NC : 0;
    d->m->copies_from_shared |= out || within;
    d->m->copies_from_global |= !out && !within;
    d->m->copies_to_global |= out;
    return true;
}

bool decode_async(struct decoder *d)
{
    const struct opcode *o = &d->op;
    if (!has(o, M_ASYNC) || has(o, M_TENSOR))
        return false;
    if (has(o, M_MBARRIER)) {
        uint32_t slot;
        int64_t offset;
        if (!has(o, M_ARRIVE) || d->stmt->count != 1 || !address(d, arg(d, 0), &slot, &offset))
            return false;
        emit_at(d, K_CP_ARRIVE, slot, offset, shared_or_generic(o))->op = has(o, M_NOINC);
        return true;
    }
    if (has(o, M_COMMIT_GROUP)) {
        emit(d, K_BULK_COMMIT);
        return !d->stmt->count;
    }
    if (has(o, M_WAIT_GROUP)) {
        if (arg(d, 0)->kind != O_IMM || d->stmt->count != 1 || arg(d, 0)->imm < 0 || arg(d, 0)->imm > UINT16_MAX)
            return false;
        struct insn *i = emit(d, K_BULK_WAIT);
        i->imm = arg(d, 0)->imm;
        i->op = has(o, M_READ);
        return true;
    }
    return has(o, M_PREFETCH) ? bulk_prefetch(d) : bulk_copy(d);
}

/* st.async ... {.v2|.v4}.type [to], values, [mbarrier]; red.async ... .op.type [to], value, [mbarrier] */
bool decode_async_store(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const enum ptx_type t = o->types[0];
    const unsigned vec = has(o, M_V2) ? 2 : has(o, M_V4) ? 4 : 1;
    const int op = o->base == B_red ? reduction_of(o) : 0;
    const struct operand values = *arg(d, 1);
    uint32_t slot, slots[4];
    int64_t offset;
    if (!has(o, M_MBARRIER_BYTES) || !has(o, M_SHARED_CLUSTER) || o->type_count != 1 || (ptx_types[t].bytes != 4 && ptx_types[t].bytes != 8) ||
        (o->base == B_red) != (op != 0) || (op && vec > 1) || d->stmt->count != 3 || (vec > 1 && (values.kind != O_LIST || values.count != vec)) ||
        !address(d, arg(d, 0), &slot, &offset))
        return false;
    for (unsigned v = 0; v < vec; v++) {
        const struct operand one = vec == 1 ? values : d->m->operands[values.id + v];
        if (!(slots[v] = source(d, &one, t)))
            return false;
    }
    const uint32_t bar = address_slot(d, arg(d, 2)), list = list_add(d, slots, vec);
    if (!bar)
        return false;
    struct insn *i = emit_at(d, K_ASYNC_STORE, slot, offset, SPACE_CLUSTER);
    i->d = bar;
    i->aux = list;
    i->vec = (uint8_t)vec;
    i->size = ptx_types[t].bytes;
    i->type = (uint8_t)t;
    i->op = (uint8_t)op;
    return true;
}

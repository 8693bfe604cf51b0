/* Loads, stores, atomics, asynchronous copies. An address is a 64-bit slot (0: absolute) and an offset in `imm`. */
#include "gpu/ptx/decode.h"

enum ptx_space space_of_op(const struct opcode *o)
{
    return has(o, M_GLOBAL)                                                            ? SPACE_GLOBAL
           : has(o, M_SHARED) || has(o, M_SHARED_CTA)                                  ? SPACE_SHARED
           : has(o, M_SHARED_CLUSTER)                                                  ? SPACE_CLUSTER
           : has(o, M_LOCAL)                                                           ? SPACE_LOCAL
           : has(o, M_CONST)                                                           ? SPACE_CONST
           : has(o, M_PARAM) || has(o, M_PARAM_ENTRY) || has(o, M_PARAM_FUNC)          ? SPACE_PARAM
                                                                                       : SPACE_GENERIC;
}

bool address(struct decoder *d, const struct operand *o, uint32_t *ret_slot, int64_t *ret_offset)
{
    if (o->kind != O_ADDRESS)
        return false;
    *ret_slot = 0;
    *ret_offset = o->imm;
    if (o->base == O_SYMBOL) {
        *ret_offset += (int64_t)variable_address(d->m, d->f, &d->m->vars[o->id]);
        return true;
    }
    if (o->base == O_IMM)
        return true;
    if (o->base != O_REG)
        return false;
    const struct operand reg = {.kind = O_REG, .id = o->id};
    const enum ptx_type t = (enum ptx_type)d->f->reg_types[o->id];
    if (ptx_types[t].bytes == 8)
        return (*ret_slot = source(d, &reg, T_U64)) != 0;
    if (ptx_types[t].bytes != 4 || t == T_PRED)
        return false;
    const uint32_t narrow = source(d, &reg, T_U32), wide = temp(d, 8);
    lane(d, LANE_zext_64, wide, narrow, 0, 0);
    *ret_slot = wide;
    return true;
}

uint32_t address_slot(struct decoder *d, const struct operand *o)
{
    uint32_t slot;
    int64_t offset;
    if (!address(d, o, &slot, &offset))
        return 0;
    if (!slot)
        return constant(d, (uint64_t)offset, 8);
    if (!offset)
        return slot;
    const uint32_t sum = temp(d, 8);
    lane(d, LANE_add_64, sum, slot, constant(d, (uint64_t)offset, 8), 0);
    return sum;
}

/* What does this access for a whole warp at once, if anything does. */
static access_fn *whole_access(const struct decoder *d, const struct insn *i)
{
    const int size = i->size == 2 ? 0 : i->size == 4 ? 1 : i->size == 8 ? 2 : -1, vec = i->vec == 1 ? 0 : i->vec == 2 ? 1 : i->vec == 4 ? 2 : -1;
    const bool shared = i->space == SPACE_SHARED;
    if (size < 0 || vec < 0 || i->flags & F_VOLATILE || (!shared && i->space != SPACE_GLOBAL && i->space != SPACE_GENERIC && i->space != SPACE_CONST))
        return NULL;
    return i->kind == K_LD ? d->lanes->access->load[shared][size][vec] : d->lanes->access->store[shared][size][vec];
}
static void access_whole(const struct decoder *d, struct insn *i)
{
    i->access = whole_access(d, i);
    i->flags |= i->access && !i->pred ? F_WHOLE : 0;
}

static unsigned vector_of(const struct opcode *o) { return has(o, M_V2) ? 2 : has(o, M_V4) ? 4 : has(o, M_V8) ? 8 : 1; }

/* ld.param of an entry's parameter at a fixed place: a slot that is filled in at the launch. */
static bool load_param(struct decoder *d, const struct operand *at, enum ptx_type t, unsigned vec)
{
    const struct variable *v = &d->m->vars[at->id];
    const uint64_t start = v->offset + (uint64_t)at->imm;
    const unsigned bytes = ptx_types[t].bytes;
    const struct operand to = *arg(d, 0);
    if (start > d->f->param_bytes || start + vec * bytes > d->f->param_bytes)   /* start: before the first one it is huge */
        return false;
    uint32_t halves[2];
    if (bytes == 16) {
        if (vec != 1 || !halves_of(d, &to, halves))
            return false;
        lane(d, LANE_mov_64, halves[0], param_slot(d, (uint32_t)start, 8, false), 0, 0);
        lane(d, LANE_mov_64, halves[1], param_slot(d, (uint32_t)start + 8, 8, false), 0, 0);
        return true;
    }
    for (unsigned i = 0; i < vec; i++) {
        const struct operand one = vec == 1 ? to : d->m->operands[to.id + i];
        const uint32_t from = param_slot(d, (uint32_t)(start + i * bytes), bytes, false);
        if (alias(d, &one, from, bytes, true)) {
            d->is_fixed[one.id] = 1;
            continue;
        }
        const uint32_t dst = dest(d, &one, t);
        if (!dst)
            return false;
        lane(d, bytes == 8 ? LANE_mov_64 : LANE_mov_32, dst, from, 0, 0);
    }
    return true;
}

bool ptx_decode_ld(struct decoder *d)
{
    const struct opcode *o = &d->op;
    enum ptx_type t = o->types[0];
    unsigned vec = vector_of(o);
    const struct operand to = *arg(d, 0), at = *arg(d, 1);
    enum ptx_space space = space_of_op(o);
    uint32_t slot, slots[8];
    int64_t offset;
    if (o->type_count != 1 || d->stmt->count < 2 || d->stmt->count > 3 || (t == T_B128 && vec > 1) || t == T_PRED)
        return false;
    if (vec > 1 && (to.kind != O_LIST || to.count != vec))
        return false;
    if (space == SPACE_PARAM && at.base == O_SYMBOL && at.kind == O_ADDRESS) {
        if (d->m->vars[at.id].is_entry_param)
            return load_param(d, &at, t, vec);
        space = SPACE_LOCAL; /* a call's parameter lies in the thread's frame */
    }
    if (!address(d, &at, &slot, &offset))
        return false;
    if (t == T_B128) { /* as two items of eight bytes */
        if (!halves_of(d, &to, slots))
            return false;
        t = T_B64;
        vec = 2;
    } else {
        for (unsigned i = 0; i < vec; i++) {
            const struct operand one = vec == 1 ? to : d->m->operands[to.id + i];
            if (!(slots[i] = dest(d, &one, t)))
                return false;
        }
    }
    const uint32_t list = list_add(d, slots, vec);
    struct insn *i = emit(d, K_LD);
    i->a = slot;
    i->imm = offset;
    i->dst = slots[0];
    i->aux = list;
    i->vec = (uint8_t)vec;
    i->size = ptx_types[t].bytes;
    i->space = (uint8_t)space;
    i->type = (uint8_t)t;
    i->flags |= has(o, M_VOLATILE) || has(o, M_RELAXED) || has(o, M_ACQUIRE) || has(o, M_MMIO) ? F_VOLATILE : 0;
    i->flags |= has(o, M_NC) || has(o, M_CONST) || o->base == B_ldu ? F_NC : 0;
    i->aux2 = i->flags & F_VOLATILE && has(o, M_CTA) ? SCOPE_BLOCK : 0;
    d->m->loads_strong |= (i->flags & F_VOLATILE) != 0;
    i->op = !has(o, M_ACQUIRE) ? ORDER_NONE : has(o, M_CTA) ? ORDER_BLOCK : ORDER_ALL;
    access_whole(d, i);
    return true;
}

bool ptx_decode_st(struct decoder *d)
{
    const struct opcode *o = &d->op;
    if (has(o, M_ASYNC))
        return decode_async_store(d);
    enum ptx_type t = o->types[0];
    unsigned vec = vector_of(o);
    const struct operand at = *arg(d, 0), from = *arg(d, 1);
    enum ptx_space space = space_of_op(o);
    uint32_t slot, slots[8];
    int64_t offset;
    if (o->type_count != 1 || d->stmt->count < 2 || d->stmt->count > 3 || (t == T_B128 && vec > 1) || t == T_PRED || has(o, M_ASYNC) ||
        has(o, M_BULK))
        return false;
    if (vec > 1 && (from.kind != O_LIST || from.count != vec))
        return false;
    if (space == SPACE_PARAM) {
        if (at.base != O_SYMBOL || d->m->vars[at.id].is_entry_param)
            return false;
        space = SPACE_LOCAL;
    }
    if (!address(d, &at, &slot, &offset))
        return false;
    if (t == T_B128) {
        if (!halves_of(d, &from, slots))
            return false;
        t = T_B64;
        vec = 2;
    } else {
        for (unsigned i = 0; i < vec; i++) {
            const struct operand one = vec == 1 ? from : d->m->operands[from.id + i];
            if (!(slots[i] = source(d, &one, t)))
                return false;
        }
    }
    const uint32_t list = list_add(d, slots, vec);
    struct insn *i = emit(d, K_ST);
    i->a = slot;
    i->imm = offset;
    i->b = slots[0];
    i->aux = list;
    i->vec = (uint8_t)vec;
    i->size = ptx_types[t].bytes;
    i->space = (uint8_t)space;
    i->type = (uint8_t)t;
    i->flags |= has(o, M_VOLATILE) || has(o, M_RELAXED) || has(o, M_RELEASE) || has(o, M_MMIO) ? F_VOLATILE : 0;
    i->aux2 = i->flags & F_VOLATILE && has(o, M_CTA) ? SCOPE_BLOCK : 0;
    i->op = !has(o, M_RELEASE) ? ORDER_NONE : has(o, M_CTA) ? ORDER_BLOCK : ORDER_ALL;
    access_whole(d, i);
    return true;
}

bool ptx_decode_atom(struct decoder *d)
{
    static const enum ptx_mod ops[] = {M_ADD, M_MIN, M_MAX, M_AND, M_OR, M_XOR, M_EXCH, M_CAS, M_INC, M_DEC};
    const struct opcode *o = &d->op;
    if (has(o, M_ASYNC))
        return decode_async_store(d);
    const bool red = o->base == B_red, cas = has(o, M_CAS);
    const enum ptx_type t = o->types[0];
    const unsigned first = red ? 0 : 1;
    int op = -1;
    for (int i = 0; i < (int)(sizeof ops / sizeof *ops); i++)
        if (has(o, ops[i]))
            op = i;
    const unsigned vec = vector_of(o);
    if (op < 0 || o->type_count != 1 || ptx_types[t].bytes > 8 || ptx_types[t].bytes < 2 || has(o, M_ASYNC) || d->stmt->count < first + (cas ? 3u : 2u))
        return false;
    const bool fl = ptx_types[t].is_float;
    if (fl && ops[op] != M_ADD && !((ops[op] == M_MIN || ops[op] == M_MAX) && (t != T_F32 && t != T_F64)))
        return false;
    uint32_t slot, b[8], dst[8] = {0};
    int64_t offset;
    const struct operand *to = arg(d, 0), *from = arg(d, first + 1);
    if (!address(d, arg(d, first), &slot, &offset) || (vec > 1 && (from->kind != O_LIST || from->count != vec)) ||
        (vec > 1 && !red && (to->kind != O_LIST || to->count != vec)))
        return false;
    const uint32_t c = cas ? source(d, arg(d, first + 2), t) : 0;
    for (unsigned i = 0; i < vec; i++) {
        const struct operand value = vec > 1 ? d->m->operands[from->id + i] : *from;
        if (!(b[i] = source(d, &value, t)))
            return false;
    }
    for (unsigned i = 0; i < vec && !red; i++) {
        const struct operand one = vec > 1 ? d->m->operands[to->id + i] : *to;
        if (!(dst[i] = dest(d, &one, t)))
            return false;
    }
    if (cas && !c)
        return false;
    if (fl)
        set_mode(d, MODE_RN | (t == T_F32 && has(o, M_GLOBAL) ? MODE_FTZ : 0)); /* as PTX says of f32 in global memory */
    for (unsigned n = 0; n < vec; n++) { /* each item by itself */
        struct insn *i = emit(d, K_ATOM);
        i->a = slot;
        i->imm = offset + (int64_t)n * ptx_types[t].bytes;
        i->dst = dst[n];
        i->b = b[n];
        i->c = c;
        i->vec = 1;
        i->size = ptx_types[t].bytes;
        i->space = (uint8_t)space_of_op(o);
        i->type = (uint8_t)t;
        i->op = (uint8_t)ops[op];
        i->aux2 = (has(o, M_ACQUIRE) || has(o, M_ACQ_REL) ? 1u : 0) | (has(o, M_RELEASE) || has(o, M_ACQ_REL) ? 2u : 0) | (has(o, M_CTA) ? 4u : 0);
    }
    return true;
}

/*
 * Changes no value, but where it reaches is held against the buffers: what lies beyond is another launch's. discard [a], 128 is a store
 * of nobody knows what.
 */
bool ptx_decode_prefetch(struct decoder *d)
{
    uint32_t slot;
    int64_t offset;
    const bool discards = d->op.base == B_discard;
    if (discards && (d->stmt->count != 2 || arg(d, 1)->kind != O_IMM || arg(d, 1)->imm != DISCARD_BYTES))
        return false;
    if (d->stmt->count < 1 || !address(d, arg(d, 0), &slot, &offset))
        return false;
    struct insn *i = emit(d, K_PREFETCH);
    i->a = slot;
    i->imm = offset;
    i->vec = i->size = 1;
    i->op = discards;
    i->space = (uint8_t)space_of_op(&d->op);
    return true;
}

/* cp.async.ca|cg.shared.global [to], [from], bytes{, have}{, policy}; commit_group; wait_group n; wait_all */
bool ptx_decode_cp(struct decoder *d)
{
    const struct opcode *o = &d->op;
    if (has(o, M_BULK) || has(o, M_MBARRIER))
        return decode_async(d);
    if (!has(o, M_ASYNC) || has(o, M_TENSOR))
        return false;
    if (has(o, M_COMMIT_GROUP)) {
        emit(d, K_CP_COMMIT);
        return true;
    }
    if (has(o, M_WAIT_GROUP) || has(o, M_WAIT_ALL)) {
        if (has(o, M_WAIT_GROUP) && arg(d, 0)->kind != O_IMM)
            return false;
        const int64_t keep = has(o, M_WAIT_ALL) ? -1 : arg(d, 0)->imm;
        emit(d, K_CP_WAIT)->imm = keep;
        return true;
    }
    const struct operand *size = arg(d, 2);
    if (size->kind != O_IMM || (size->imm != 4 && size->imm != 8 && size->imm != 16) || d->stmt->count > 5)
        return false;
    const uint32_t to = address_slot(d, arg(d, 0)), from = address_slot(d, arg(d, 1));
    uint32_t have = 0;
    const bool hint = has(o, M_CACHE_HINT);
    const unsigned extra = d->stmt->count - 3 - (hint ? 1 : 0);
    if (extra == 1 && arg(d, 3)->kind == O_REG && d->f->reg_types[arg(d, 3)->id] == T_PRED) {
        const uint32_t skip = source(d, arg(d, 3), T_PRED);
        have = temp(d, 4);
        lane(d, LANE_selp_32, have, constant(d, 0, 4), constant(d, (uint64_t)size->imm, 4), skip);
    } else if (extra == 1) {
        have = source(d, arg(d, 3), T_U32);
        if (!have)
            return false;
    } else if (extra) {
        return false;
    }
    if (!to || !from)
        return false;
    struct insn *i = emit(d, K_CP_ASYNC);
    i->a = to;
    i->b = from;
    i->c = have;
    i->size = (uint8_t)arg(d, 2)->imm;
    i->vec = 1;
    return true;
}

bool ptx_decode_isspacep(struct decoder *d)
{
    const uint32_t dst = dest(d, arg(d, 0), T_PRED), a = source(d, arg(d, 1), T_U64);
    const enum ptx_space space = space_of_op(&d->op);
    if (!dst || !a || d->stmt->count != 2 || space == SPACE_GENERIC)
        return false;
    struct insn *i = emit(d, K_ISSPACE);
    i->dst = dst;
    i->a = a;
    i->space = (uint8_t)(space == SPACE_CLUSTER ? SPACE_SHARED : space);
    i->op = space == SPACE_CLUSTER;
    return true;
}

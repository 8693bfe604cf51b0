/* Control flow, barriers, and what lanes of a warp tell each other. Targets are labels here, code after flow.c. */
#include "gpu/ptx/decode.h"

#include <string.h>

bool ptx_decode_nop(struct decoder *d)
{
    emit(d, K_NOP);
    return true;
}

/* Of products of warp groups only what orders them is known: without one under way that is nothing. */
bool ptx_decode_wgmma(struct decoder *d)
{
    return d->op.row >= 0 && ptx_decode_nop(d);
}

/* A cache policy changes no value: any number will do. */
bool ptx_decode_policy(struct decoder *d)
{
    const uint32_t dst = dest(d, arg(d, 0), T_B64);
    if (!dst)
        return false;
    lane(d, LANE_mov_64, dst, constant(d, 0, 8), 0, 0);
    return true;
}

bool ptx_decode_bra(struct decoder *d)
{
    const struct operand *o = arg(d, 0);
    int kind;
    uint32_t target;
    if (d->stmt->count != 1 || o->kind != O_NAME || !ptx_symbol_find(d->m, d->stmt->scope, o->id, &kind, &target) || kind != SYM_LABEL ||
        target < d->f->stmt_first || target > d->f->stmt_first + d->f->stmt_count)
        return false;
    emit(d, K_BRA)->aux = target - d->f->stmt_first;
    return true;
}

bool ptx_decode_brx(struct decoder *d)
{
    const struct operand *o = arg(d, 1);
    int kind;
    uint32_t table, target;
    const uint32_t index = source(d, arg(d, 0), T_U32);
    if (!index || d->stmt->count != 2 || o->kind != O_NAME || !ptx_symbol_find(d->m, d->stmt->scope, o->id, &kind, &table) || kind != SYM_TABLE)
        return false;
    const struct branch_table *t = &d->m->tables[table];
    uint32_t first = d->m->list_count;
    for (uint32_t i = 0; i < t->count; i++) {
        if (!ptx_symbol_find(d->m, t->scope, d->m->table_names[t->first + i], &kind, &target) || kind != SYM_LABEL ||
            target < d->f->stmt_first || target > d->f->stmt_first + d->f->stmt_count)
            return false;
        target -= d->f->stmt_first;
        list_add(d, &target, 1);
    }
    struct insn *i = emit(d, K_BRX);
    i->a = index;
    i->aux = first;
    i->imm = t->count;
    return true;
}

/* Where our parameters of a call lie in the frame, and their bytes. False: they are not such. */
static bool call_items(struct decoder *d, const struct operand *o, uint32_t most, uint32_t *list, unsigned *count)
{
    for (uint32_t n = 0; o && n < o->count; n++) {
        const struct operand *x = &d->m->operands[o->id + n];
        if (n == most || x->kind != O_SYMBOL || d->m->vars[x->id].space != SPACE_PARAM || d->m->vars[x->id].is_entry_param)
            return false;
        list[(*count)++] = (uint32_t)variable_address(d->m, d->f, &d->m->vars[x->id]);
        list[(*count)++] = (uint32_t)d->m->vars[x->id].bytes;
    }
    return true;
}

/* call (result), register, (arguments), prototype or targets */
static bool call_register(struct decoder *d, const struct operand *ret, const struct operand *target, const struct operand *args)
{
    const struct operand to = *target;
    uint32_t list[2 * (PTX_MAX_PARAMS + 4)];
    unsigned count = 0;
    if (!call_items(d, args, PTX_MAX_PARAMS, list, &count) || !call_items(d, ret, 4, list, &count))
        return false;
    const uint32_t address_of = source(d, &to, T_U64), first = list_add(d, list, count);
    if (!address_of)
        return false;
    struct insn *i = emit(d, K_CALL_REG);
    i->a = address_of;
    i->aux2 = first;
    i->vec = (uint8_t)(args ? args->count : 0);
    i->size = (uint8_t)(ret ? ret->count : 0);
    return true;
}

/* call (result), name, (arguments): the arguments' bytes are copied in the frame. */
bool ptx_decode_call(struct decoder *d)
{
    struct ptx_module *m = d->m;
    unsigned n = 0;
    const struct operand *ret = NULL, *args = NULL;
    if (arg(d, n)->kind == O_LIST)
        ret = arg(d, n++);
    const struct operand *name = arg(d, n++);
    if (arg(d, n)->kind == O_LIST)
        args = arg(d, n++);
    int kind;
    uint32_t index;
    if (name->kind == O_REG)
        return (n == d->stmt->count || (n + 1 == d->stmt->count && arg(d, n)->kind == O_NAME)) && call_register(d, ret, name, args);
    if (name->kind != O_NAME || n != d->stmt->count || !ptx_symbol_find(m, 0, name->id, &kind, &index) || kind != SYM_FUNCTION)
        return false;
    const struct function *callee = &m->functions[index];
    if (callee->is_entry || !callee->has_body || (ret ? (int)ret->count : 0) != callee->return_count ||
        (args ? (int)args->count : 0) != callee->param_count)
        return false;
    uint32_t list[3 * (PTX_MAX_PARAMS + 4)];
    unsigned count = 0;
    for (int pass = 0; pass < 2; pass++) {
        const int items = pass ? callee->return_count : callee->param_count;
        for (int i = 0; i < items; i++) {
            const struct operand *o = &m->operands[(pass ? ret : args)->id + (uint32_t)i];
            const struct variable *formal = &m->vars[pass ? callee->returns[i] : callee->params[i]];
            if (o->kind != O_SYMBOL || m->vars[o->id].space != SPACE_PARAM || m->vars[o->id].is_entry_param ||
                formal->space != SPACE_PARAM || m->vars[o->id].bytes < formal->bytes)
                return false;
            const uint32_t ours = (uint32_t)variable_address(m, d->f, &m->vars[o->id]), theirs = (uint32_t)variable_address(m, callee, formal);
            list[count++] = pass ? ours : theirs;
            list[count++] = pass ? theirs : ours;
            list[count++] = (uint32_t)formal->bytes;
        }
    }
    const uint32_t first = list_add(d, list, count);
    struct insn *i = emit(d, K_CALL);
    i->aux = index;
    i->aux2 = first;
    i->vec = (uint8_t)callee->param_count;
    i->size = (uint8_t)callee->return_count;
    return true;
}

bool ptx_decode_ret(struct decoder *d)
{
    emit(d, d->f->is_entry ? K_EXIT : K_RET);
    return true;
}
bool ptx_decode_exit(struct decoder *d)
{
    emit(d, K_EXIT);
    return true;
}
bool ptx_decode_trap(struct decoder *d)
{
    emit(d, K_TRAP);
    return true;
}

bool ptx_decode_griddepcontrol(struct decoder *d)
{
    emit(d, K_FENCE)->op = has(&d->op, M_WAIT) ? FENCE_GRID : FENCE_TRIGGER;
    return true;
}

/* fence.proxy.async, for both kinds of memory or for one */
static enum fence_op of_proxies(const struct decoder *d)
{
    const char *name = ptx_name(d->m, d->stmt->opcode);
    if (strncmp(name, "fence.proxy.async", 17) != 0)
        return FENCE_PROXY;
    const char *where = name + 17;
    return (enum fence_op)(FENCE_ASYNC | (!*where ? ASYNC_SHARED | ASYNC_GLOBAL : strcmp(where, ".global") == 0 ? ASYNC_GLOBAL : ASYNC_SHARED));
}

bool ptx_decode_fence(struct decoder *d)
{
    struct insn *i = emit(d, K_FENCE);
    i->op = has(&d->op, M_PROXY) ? of_proxies(d) : has(&d->op, M_CTA) ? FENCE_BLOCK : FENCE_MEMORY;
    return true;
}

/* bar[rier][.cta].sync a{, b}; .arrive a, b; .red.popc.u32 d, a{, b}, p; .red.and|or.pred p, a{, b}, q; bar.warp.sync mask */
enum { BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR };
bool ptx_decode_bar(struct decoder *d)
{
    const struct opcode *o = &d->op;
    if (has(o, M_CLUSTER))
        return decode_cluster_barrier(d);
    if (has(o, M_WARP)) {
        const uint32_t mask = source(d, arg(d, 0), T_B32);
        if (!mask || d->stmt->count != 1)
            return false;
        emit(d, K_WARP_BAR)->d = mask;
        return true;
    }
    const bool red = has(o, M_RED), popc = has(o, M_POPC);
    const int op = has(o, M_ARRIVE) ? BAR_ARRIVE : !red ? BAR_SYNC : popc ? BAR_POPC : has(o, M_AND) ? BAR_AND : BAR_OR;
    const unsigned first = red ? 1 : 0, last = d->stmt->count - (red ? 1 : 0);
    if (d->stmt->count < first + 1 + (red ? 1 : 0) || last - first > 2 || last <= first)
        return false;
    const uint32_t id = source(d, arg(d, first), T_U32), count = last - first == 2 ? source(d, arg(d, first + 1), T_U32) : 0;
    const uint32_t p = red ? source(d, arg(d, last), T_PRED) : 0;
    const uint32_t dst = red ? dest(d, arg(d, 0), popc ? T_U32 : T_PRED) : 0;
    if (!id || (last - first == 2 && !count) || (red && (!p || !dst)) || (op == BAR_ARRIVE && !count))
        return false;
    struct insn *i = emit(d, K_BAR);
    i->op = (uint8_t)op;
    i->a = id;
    i->b = count;
    i->c = p;
    i->dst = dst;
    i->type = o->base == B_barrier && !has(o, M_ALIGNED); /* the unaligned form may be reached from several places */
    return true;
}

bool ptx_decode_shfl(struct decoder *d)
{
    const struct opcode *o = &d->op;
    static const enum ptx_mod modes[] = {M_UP, M_DOWN, M_BFLY, M_IDX};
    int mode = -1;
    for (int i = 0; i < 4; i++)
        if (has(o, modes[i]))
            mode = i;
    const struct operand to = *arg(d, 0);
    const struct operand one = to.kind == O_PAIR ? d->m->operands[to.id] : to;
    const bool sync = has(o, M_SYNC);
    if (mode < 0 || !sync || d->stmt->count != 5 || ptx_types[o->types[0]].bytes != 4)
        return false;
    const uint32_t a = source(d, arg(d, 1), T_B32), b = source(d, arg(d, 2), T_B32), c = source(d, arg(d, 3), T_B32),
                   mask = source(d, arg(d, 4), T_B32), dst = dest(d, &one, T_B32);
    uint32_t p = 0;
    if (to.kind == O_PAIR) {
        const struct operand second = d->m->operands[to.id + 1];
        const bool unread = second.kind == O_REG && d->refs[second.id] == 1; /* compilers always name one */
        if (!unread && !(p = dest(d, &second, T_PRED)))
            return false;
    }
    if (!a || !b || !c || !mask || !dst)
        return false;
    uint64_t by = 0, clamp = 0, lanes = 0;
    const bool whole = !p && !d->pred && constant_value(d, b, &by) && constant_value(d, c, &clamp) && constant_value(d, mask, &lanes) &&
                       by < WARP_LANES && clamp == (mode ? 31 : 0) && (uint32_t)lanes == FULL_MASK;
    struct insn *i = emit(d, K_SHFL);
    i->flags |= whole ? F_WHOLE : 0;
    i->fn = whole ? d->lanes->shuffle_by[mode] : NULL;
    i->imm = (int64_t)by;
    i->op = (uint8_t)modes[mode];
    i->dst = dst;
    i->aux = p;
    i->a = a;
    i->b = b;
    i->c = c;
    i->d = mask;
    return true;
}

bool ptx_decode_vote(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const bool ballot = has(o, M_BALLOT);
    const enum ptx_mod op = ballot ? M_BALLOT : has(o, M_ALL) ? M_ALL : has(o, M_ANY) ? M_ANY : M_UNI;
    if (!has(o, M_SYNC) || d->stmt->count != 3)
        return false;
    const uint32_t a = source(d, arg(d, 1), T_PRED), mask = source(d, arg(d, 2), T_B32), dst = dest(d, arg(d, 0), ballot ? T_B32 : T_PRED);
    if (!a || !mask || !dst)
        return false;
    struct insn *i = emit(d, K_VOTE);
    i->op = (uint8_t)op;
    i->a = a;
    i->d = mask;
    i->dst = dst;
    return true;
}

bool ptx_decode_match(struct decoder *d)
{
    const struct opcode *o = &d->op;
    const enum ptx_type t = o->types[0];
    const struct operand to = *arg(d, 0), one = to.kind == O_PAIR ? d->m->operands[to.id] : to;
    if (!has(o, M_SYNC) || d->stmt->count != 3 || (ptx_types[t].bytes != 4 && !is64(t)))
        return false;
    const uint32_t a = source(d, arg(d, 1), t), mask = source(d, arg(d, 2), T_B32), dst = dest(d, &one, T_B32);
    uint32_t p = 0;
    if (to.kind == O_PAIR) {
        const struct operand second = d->m->operands[to.id + 1];
        if (!(p = dest(d, &second, T_PRED)))
            return false;
    }
    if (!a || !mask || !dst)
        return false;
    struct insn *i = emit(d, K_MATCH);
    i->op = has(o, M_ALL);
    i->size = ptx_types[t].bytes;
    i->a = a;
    i->d = mask;
    i->dst = dst;
    i->aux = p;
    return true;
}

bool ptx_decode_redux(struct decoder *d)
{
    const struct opcode *o = &d->op;
    static const enum ptx_mod ops[] = {M_ADD, M_MIN, M_MAX, M_AND, M_OR, M_XOR};
    const enum ptx_type t = o->types[0];
    int op = -1;
    for (int i = 0; i < 6; i++)
        if (has(o, ops[i]))
            op = i;
    if (op < 0 || !has(o, M_SYNC) || d->stmt->count != 3 || ptx_types[t].bytes != 4 || ptx_types[t].is_float)
        return false;
    const uint32_t a = source(d, arg(d, 1), t), mask = source(d, arg(d, 2), T_B32), dst = dest(d, arg(d, 0), t);
    if (!a || !mask || !dst)
        return false;
    struct insn *i = emit(d, K_REDUX);
    i->op = (uint8_t)ops[op];
    i->type = ptx_types[t].is_signed;
    i->a = a;
    i->d = mask;
    i->dst = dst;
    return true;
}

/* elect.sync d|p, mask: the lowest lane of the mask */
bool ptx_decode_elect(struct decoder *d)
{
    const struct operand to = *arg(d, 0);
    if (to.kind != O_PAIR || d->stmt->count != 2)
        return false;
    const struct operand one = d->m->operands[to.id], second = d->m->operands[to.id + 1];
    const uint32_t mask = source(d, arg(d, 1), T_B32), dst = dest(d, &one, T_B32), p = dest(d, &second, T_PRED);
    if (!mask || !dst || !p)
        return false;
    struct insn *i = emit(d, K_MATCH);
    i->op = 2;
    i->d = mask;
    i->dst = dst;
    i->aux = p;
    return true;
}

bool ptx_decode_activemask(struct decoder *d)
{
    const uint32_t dst = dest(d, arg(d, 0), T_B32);
    if (!dst || d->stmt->count != 1)
        return false;
    emit(d, K_ACTIVEMASK)->dst = dst;
    return true;
}

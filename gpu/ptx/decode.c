/* Statements: walks them, cuts basic blocks, hands each statement to its family's decoder. */
#include "gpu/ptx/decode_frame.h"
#include "gpu/ptx/isa.h"

#include <string.h>

static ptx_decode_fn *const decoders[] = {
#define X(name, decoder, cls) ptx_decode_##decoder,
    PTX_BASE_TABLE(X)
#undef X
};
static const uint8_t classes[] = {
#define X(name, decoder, cls) PTX_CLASS_##cls,
    PTX_BASE_TABLE(X)
#undef X
    PTX_CLASS_OTHER};

static enum ptx_class class_of(const struct decoder *x)
{
    if (x->op.row >= 0)
        return (enum ptx_class)ptx_isa_row(x->op.row)->class_;
    const enum ptx_class c = (enum ptx_class)classes[x->op.base];
    const enum ptx_type t = x->op.type_count ? x->op.types[x->op.type_count - 1] : T_NONE;
    if (c == PTX_CLASS_GLOBAL)
        return has(&x->op, M_SHARED) && !has(&x->op, M_GLOBAL)   ? PTX_CLASS_SHARED
               : has(&x->op, M_LOCAL)                            ? PTX_CLASS_LOCAL
               : has(&x->op, M_PARAM) || has(&x->op, M_CONST)    ? PTX_CLASS_MOVE
                                                                 : PTX_CLASS_GLOBAL;
    if (c != PTX_CLASS_INT && c != PTX_CLASS_F32)
        return c;
    if (ptx_types[t].is_float)
        return ptx_types[t].bytes == 8 ? PTX_CLASS_F64 : t == T_F32 ? PTX_CLASS_F32 : PTX_CLASS_F16;
    return PTX_CLASS_INT;
}

static bool ends_block(enum ptx_base b)
{
    return b == B_bra || b == B_brx || b == B_ret || b == B_exit || b == B_call || b == B_trap || b == B_brkpt;
}

static void decode_stmt(struct decoder *x)
{
    struct ptx_module *m = x->m;
    const struct stmt *st = x->stmt;
    if (!x->cached[st->opcode]) {
        ptx_opcode_parse(ptx_name(m, st->opcode), &x->cache[st->opcode]);
        x->cached[st->opcode] = 1;
    }
    x->op = x->cache[st->opcode];
    x->cls = (uint8_t)class_of(x);
    x->pred = 0;
    if (st->pred >= 0)
        x->pred = reg_slot(x, (uint32_t)st->pred);
    if (x->tracks)
        unwritten_before(x);
    const uint32_t start = m->code_count;
    const int live_mode = x->live_mode;
    x->mode = live_mode; /* of the statement before; one that needs a mode asks for it */
    x->pending_count = 0;
    x->temps[0].used = x->temps[1].used = 0;
    if (x->op.base == B_UNKNOWN || x->op.row == -1 || (x->op.row < 0 && x->op.unknown_mod) || !decoders[x->op.base](x)) {
        m->code_count = start;
        x->mode = x->live_mode = live_mode;
        x->pending_count = 0;
        struct insn *i = emit(x, K_UNSUPPORTED);
        (void)i;
    }
    finish_pending(x);
    if (x->tracks && !ends_block(x->op.base))
        unwritten_after(x);
    for (uint32_t i = start + 1; i < m->code_count; i++)
        m->code[i].flags |= F_MICRO;
    struct block_info *b = &m->blocks[m->block_count - 1];
    if (b->total < UINT16_MAX) {
        b->total++;
        b->by_class[x->cls]++;
    }
    x->pred = 0;
}

static void begin_block(struct decoder *x)
{
    struct ptx_module *m = x->m;
    set_mode(x, x->home_mode);
    mode_now(x);
    if (!GROW(m, block, m->block_count)) {
        out_of_memory(x);
        return;
    }
    m->blocks[m->block_count] = (struct block_info){.first = m->code_count, .stmt_first = x->stmt_index};
    struct insn *i = emit(x, K_ENTER);
    i->pred = 0;
    i->flags = 0;
    i->aux = m->block_count++;
    x->block_start = x->stmt_index;
}

static void count_refs(struct decoder *x, const struct operand *o, int depth)
{
    if (o->kind == O_REG || (o->kind == O_ADDRESS && o->base == O_REG))
        x->refs[o->id] = x->refs[o->id] ? 2 : 1;
    for (uint32_t k = 0; (o->kind == O_LIST || o->kind == O_PAIR) && k < o->count && depth < 8; k++)
        count_refs(x, &x->m->operands[o->id + k], depth + 1);
}

/* Where registers are written: operand 0, over-counted for instructions that have no result. */
void count_defs(struct decoder *x)
{
    const struct ptx_module *m = x->m;
    for (uint32_t n = 0; n < x->f->stmt_count; n++) {
        const struct stmt *st = &m->stmts[x->f->stmt_first + n];
        const struct operand *o = st->count ? &m->operands[st->first] : NULL;
        if (st->pred >= 0)
            x->refs[st->pred] = 2;
        for (uint32_t k = 0; k < st->count; k++)
            count_refs(x, &m->operands[st->first + k], 0);
        if (!o)
            continue;
        const bool several = o->kind == O_LIST || o->kind == O_PAIR;
        const struct operand *items = several ? &m->operands[o->id] : o;
        for (uint32_t k = 0; k < (several ? o->count : 1); k++)
            if (items[k].kind == O_REG) {
                const uint32_t reg = items[k].id;
                x->defs[reg] = x->defs[reg] ? 2 : st->pred >= 0 ? 2 : 1;
                x->def_stmt[reg] = x->f->stmt_first + n;
            }
    }
}

/* Marks the statements that labels point to. A label at the end of a function points past its last statement. */
void mark_leaders(struct decoder *x, uint8_t *leader)
{
    const struct ptx_module *m = x->m;
    for (uint32_t n = 0; n < x->f->stmt_count; n++) {
        const struct stmt *st = &m->stmts[x->f->stmt_first + n];
        for (uint32_t k = 0; k < st->count; k++) {
            const struct operand *o = &m->operands[st->first + k];
            int kind;
            uint32_t value;
            if (o->kind != O_NAME || !ptx_symbol_find(m, st->scope, o->id, &kind, &value))
                continue;
            if (kind == SYM_LABEL && value >= x->f->stmt_first && value < x->f->stmt_first + x->f->stmt_count)
                leader[value - x->f->stmt_first] = 1;
            for (uint32_t t = 0; kind == SYM_TABLE && t < m->tables[value].count; t++) {
                int inner;
                uint32_t target;
                if (ptx_symbol_find(m, m->tables[value].scope, m->table_names[m->tables[value].first + t], &inner, &target) &&
                    inner == SYM_LABEL && target >= x->f->stmt_first && target < x->f->stmt_first + x->f->stmt_count)
                    leader[target - x->f->stmt_first] = 1;
            }
        }
        if (ends_block(x->op_base[n]) && n + 1 < x->f->stmt_count)
            leader[n + 1] = 1;
    }
}

/* All statements of the function, from `file_top` on in the register file. */
void decode_statements(struct decoder *x, const uint8_t *leader)
{
    struct ptx_module *m = x->m;
    struct function *fn = x->f;
    const uint32_t count = fn->stmt_count, first_block = m->block_count;
    memset(x->slots, 0, fn->reg_count * sizeof *x->slots);
    memset(x->owns, 0, fn->reg_count);
    memset(x->is_fixed, 0, fn->reg_count);
    x->block_count = 0;
    memset(x->temps, 0, sizeof x->temps);
    x->const_count = 0;
    if (x->const_size)
        memset(x->consts, 0, x->const_size * sizeof *x->consts);
    x->mode = x->live_mode = x->home_mode;
    fn->carry_slot = 0;
    fn->code_first = m->code_count;
    fn->fill_first = m->fill_count;
    for (uint32_t n = 0; n < count && !x->failed; n++) {
        x->stmt_index = fn->stmt_first + n;
        x->stmt = &m->stmts[x->stmt_index];
        x->pred = 0;
        if (!n || leader[n])
            begin_block(x);
        x->stmt_pc[n] = !n || leader[n] ? m->blocks[m->block_count - 1].first : m->code_count;
        if (ends_block(x->op_base[n]))
            set_mode(x, x->home_mode), mode_now(x);
        decode_stmt(x);
    }
    /* the common end: a return, or the exit of an entry */
    static const struct stmt nothing = {.pred = -1};
    x->stmt_index = count ? fn->stmt_first + count - 1 : UINT32_MAX;
    x->stmt = &nothing;
    x->pred = 0;
    x->cls = PTX_CLASS_CONTROL;
    begin_block(x);
    fn->code_end = m->code_count - 1;
    x->stmt_pc[count] = fn->code_end;
    emit(x, fn->is_entry ? K_EXIT : K_RET)->flags |= F_MICRO;
    fn->fill_count = m->fill_count - fn->fill_first;
    if (!x->failed)
        x->failed = !flow_finish(x, first_block);
}

/* Once more, with common slots for registers that live in one block. What is known of loads stays as first found: it goes by slots. */
void decode_again(struct decoder *x, const uint8_t *leader, uint32_t base, uint32_t first_block, uint32_t first_list)
{
    struct ptx_module *m = x->m;
    const uint32_t first = x->f->code_first, size = m->code_count - first;
    uint32_t top;
    if (x->failed || !slots_share(x, base, &top))
        return;
    cleanup(mem) void *flags_memory = xalloc(size + 1);
    uint8_t *flags = flags_memory;
    for (uint32_t n = 0; n < size; n++)
        flags[n] = m->code[first + n].flags;
    m->code_count = first;
    m->fill_count = x->f->fill_first;
    m->block_count = first_block;
    m->list_count = first_list;
    x->file_top = top;
    decode_statements(x, leader);
    BUG_ON(!x->failed && m->code_count - first != size);
    for (uint32_t n = 0; n < size && !x->failed; n++)
        m->code[first + n].flags = flags[n];
}

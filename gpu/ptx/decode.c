/*
 * The decoder's frame: places functions, walks statements, cuts basic blocks, hands each statement to its family's decoder.
 *
 * A warp's register file is one array: scratch, then the parts of all .func (they may be on the stack together), then the part
 * of the entry. Constants, parameters and special registers are slots too, filled in before a warp starts, so that an
 * operand is always an offset. Moves of such slots, and moves within a block, become aliases instead of instructions.
 */
#include "gpu/ptx/decode.h"
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

typedef uint32_t u;
typedef int32_t s;
typedef uint64_t U;
typedef int64_t S;
typedef float f;
typedef double d;
static const uint8_t lane_bytes[LANE_COUNT] = {
#define OP(name, D, A, B, C, expr) sizeof(D),
#define OP4(name, D, A, B, C, E, expr) sizeof(D),
#include "gpu/ptx/lane_ops.h"
#undef OP
#undef OP4
};

/* ---- what the families use ---- */
const struct operand *arg(const struct decoder *d_, unsigned i)
{
    static const struct operand none;
    return i < d_->stmt->count ? &d_->m->operands[d_->stmt->first + i] : &none;
}

static void out_of_memory(struct decoder *x)
{
    if (!x->failed)
        ptx_finding_set(x->finding, PTX_RESOURCE, "the decoded module needs more memory than is allowed");
    x->failed = true;
}

/* Where a warp may stop and others run on: it comes back in the home mode. */
static bool may_wait(enum insn_kind kind)
{
    return kind == K_BAR || kind == K_SHFL || kind == K_VOTE || kind == K_MATCH || kind == K_REDUX || kind == K_WARP_BAR ||
           kind == K_MBARRIER || kind == K_CLUSTER_WAIT;
}

static struct insn *emit_now(struct decoder *x, enum insn_kind kind)
{
    static _Thread_local struct insn nowhere;
    struct ptx_module *m = x->m;
    if (!ptx_grow(m, (void **)&m->code, &m->code_capacity, m->code_count, sizeof *m->code)) {
        out_of_memory(x);
        return &nowhere;
    }
    struct insn *i = &m->code[m->code_count++];
    *i = (struct insn){.kind = (uint8_t)kind, .stmt = x->stmt_index, .pred = x->pred, .class_ = x->cls};
    if (x->pred && x->stmt->pred_negated)
        i->flags |= F_PRED_NOT;
    return i;
}

static void mode_now(struct decoder *x)
{
    if (x->mode == x->live_mode)
        return;
    struct insn *i = emit_now(x, K_MODE);
    i->pred = 0;
    i->flags = 0;
    i->imm = x->live_mode = x->mode;
}

/* What the CPU's mode was asked to be becomes true before the first instruction that could depend on it. */
struct insn *emit(struct decoder *x, enum insn_kind kind)
{
    const bool any_mode = kind == K_LD || kind == K_ST || kind == K_CHECK || kind == K_MARK || kind == K_NOP;
    if (may_wait(kind))
        set_mode(x, x->home_mode);
    if (!any_mode)
        mode_now(x);
    return emit_now(x, kind);
}

/* Of functions it is kept how wide a slot is: their registers may have to be saved lane by lane. */
void slot_width(struct decoder *x, uint32_t slot, bool wide)
{
    struct ptx_module *m = x->m;
    if (x->f->is_entry)
        return;
    while (slot / 128 >= m->wide_capacity)
        if (!ptx_grow(m, (void **)&m->wides, &m->wide_capacity, m->wide_capacity, sizeof *m->wides)) {
            out_of_memory(x);
            return;
        }
    m->wides[slot / 128] = wide;
}

static uint32_t slot_new(struct decoder *x, unsigned bytes)
{
    const uint32_t r = x->file_top;
    if (r > 1u << 28) {
        out_of_memory(x);
        return SCRATCH_BYTES;
    }
    x->file_top += bytes * WARP_LANES;
    slot_width(x, r, bytes == 8);
    return r;
}

/* A slot for this statement only: given back when it is done, so that the file stays small. */
uint32_t temp(struct decoder *x, unsigned bytes)
{
    struct temp_pool *pool = &x->temps[bytes == 8];
    if (pool->used == MOST_TEMPS)
        return slot_new(x, bytes);
    if (pool->used == pool->count)
        pool->slots[pool->count++] = slot_new(x, bytes);
    return pool->slots[pool->used++];
}

uint32_t lasting(struct decoder *x, unsigned bytes) { return slot_new(x, bytes); }

static uint32_t fill_slot(struct decoder *x, enum fill_kind kind, unsigned bytes, uint64_t value, uint32_t id, unsigned component, bool sign)
{
    struct ptx_module *m = x->m;
    const uint64_t key = (value * 0x9e3779b97f4a7c15ull) ^ ((uint64_t)id * 0xff51afd7ed558ccdull) ^ ((uint64_t)kind << 40 | component << 8 | bytes);
    if (x->const_count * 2 >= x->const_size) {
        struct const_slot *old = x->consts;
        const uint32_t old_size = x->const_size;
        x->const_size = old_size ? old_size * 2 : 256;
        x->consts = xarray(x->const_size, sizeof *x->consts);
        for (uint32_t i = 0; i < old_size; i++)
            if (old[i].slot) {
                uint64_t h = old[i].value >> 17;
                while (x->consts[h & (x->const_size - 1)].slot)
                    h++;
                x->consts[h & (x->const_size - 1)] = old[i];
            }
        free(old);
    }
    for (uint64_t h = key >> 17;; h++) {
        struct const_slot *c = &x->consts[h & (x->const_size - 1)];
        if (!c->slot) {
            if (!GROW(m, fill, m->fill_count)) {
                out_of_memory(x);
                return SCRATCH_BYTES;
            }
            c->value = key;
            c->slot = slot_new(x, bytes == 8 ? 8 : 4);
            x->const_count++;
            m->fills[m->fill_count++] = (struct fill){.kind = (uint8_t)kind, .bytes = (uint8_t)bytes, .sign = sign,
                                                      .component = (uint8_t)component, .slot = c->slot, .id = id, .value = value};
            return c->slot;
        }
        if (c->value == key) { /* the same hash: compare what it stands for */
            for (uint32_t i = x->f->fill_first; i < m->fill_count; i++) {
                const struct fill *have = &m->fills[i];
                if (have->slot == c->slot && have->kind == kind && have->bytes == bytes && have->value == value && have->id == id &&
                    have->component == component && have->sign == sign)
                    return c->slot;
                if (have->slot == c->slot)
                    break;
            }
        }
    }
}

uint32_t constant(struct decoder *x, uint64_t value, unsigned bytes)
{
    const unsigned width = bytes == 8 ? 8 : 4;
    value = bytes == 8 ? value : bytes == 4 ? (uint32_t)value : bytes == 2 ? (uint16_t)value : (uint8_t)value;
    return fill_slot(x, FILL_CONST, width, value, 0, 0, false);
}

bool constant_value(const struct decoder *x, uint32_t slot, uint64_t *ret)
{
    uint32_t low = x->f->fill_first, high = x->m->fill_count; /* in the order of their slots */
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (x->m->fills[mid].slot < slot)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == x->m->fill_count || x->m->fills[low].slot != slot || x->m->fills[low].kind != FILL_CONST)
        return false;
    *ret = x->m->fills[low].value;
    return true;
}

/* An operation that rounds as is asked by itself, so that the mode need not change to and fro. */
static lane_fn *fixed_rounding(const struct decoder *x, enum lane_op op)
{
    const int at = op == LANE_add_f32 ? 0 : op == LANE_sub_f32 ? 1 : op == LANE_mul_f32 ? 2 : op == LANE_fma_f32 ? 3 : -1;
    const int bits = MODE_RZ & ~MODE_RN, asked = x->mode & bits, flush = MODE_FTZ;
    if (at < 0 || !x->lanes->rounded || !asked || (x->mode & flush) != (x->live_mode & flush))
        return NULL;
    return x->lanes->rounded[at * 3 + (asked == bits ? 0 : asked == (MODE_RM & bits) ? 1 : 2)];
}

void lane_k(struct decoder *x, enum lane_op op, uint32_t dst, uint32_t a, uint32_t b, uint32_t c, int64_t k)
{
    lane_fn *rounded = fixed_rounding(x, op);
    struct insn *i = rounded ? emit_now(x, K_LANE) : emit(x, K_LANE);
    i->fn = rounded ? rounded : x->lanes->op[op];
    i->dst = dst;
    i->a = a;
    i->b = b;
    i->c = c;
    i->imm = k;
    i->aux = (uint32_t)op;
    if (lane_bytes[op] == 8)
        i->flags |= F_DST64;
}
void lane(struct decoder *x, enum lane_op op, uint32_t dst, uint32_t a, uint32_t b, uint32_t c)
{
    lane_k(x, op, dst, a, b, c, 0);
}

static unsigned reg_width(enum ptx_type t) { return ptx_types[t].bytes >= 8 ? ptx_types[t].bytes : 4; }

static uint32_t reg_slot(struct decoder *x, uint32_t reg)
{
    if (!x->slots[reg]) {
        x->slots[reg] = x->preset[reg] ? x->preset[reg] : slot_new(x, reg_width((enum ptx_type)x->f->reg_types[reg]));
        x->owns[reg] = 1;
    }
    return x->slots[reg];
}

/* A value that lies in a slot of `have` bytes, as a type. */
static uint32_t fit(struct decoder *x, uint32_t slot, unsigned have, enum ptx_type type)
{
    const unsigned want = ptx_types[type].bytes;
    if (want == 8)
        return have == 8 ? slot : 0;
    if (have == 8) {
        const uint32_t t = temp(x, 4);
        lane(x, LANE_lo_32, t, slot, 0, 0);
        slot = t;
        have = 4;
    }
    if (want < have) {
        const uint32_t t = temp(x, 4);
        lane(x, want == 2 ? LANE_lo_16 : LANE_lo_8, t, slot, 0, 0);
        slot = t;
    }
    return slot;
}

bool halves_of(struct decoder *x, const struct operand *o, uint32_t *ret)
{
    if (o->kind != O_REG || o->negated || x->f->reg_types[o->id] != T_B128)
        return false;
    ret[0] = reg_slot(x, o->id);
    ret[1] = ret[0] + 8 * WARP_LANES;
    return true;
}

uint64_t variable_address(const struct ptx_module *m, const struct function *fn, const struct variable *v)
{
    const struct function *owner = v->function >= 0 ? &m->functions[v->function] : fn;
    switch ((enum ptx_space)v->space) {
    case SPACE_SHARED:
        return v->offset == UINT64_MAX ? m->dynamic_shared : v->offset + (v->function >= 0 ? owner->shared_base : 0);
    case SPACE_LOCAL:
        return owner->frame_base + v->offset;
    case SPACE_PARAM:
        return v->is_entry_param ? v->offset : owner->frame_base + v->offset;
    case SPACE_GLOBAL:
    case SPACE_CONST:
        return MODULE_WINDOW + v->offset;
    case SPACE_CLUSTER:
    case SPACE_GENERIC:
    case SPACE_REG:
        break;
    }
    return 0;
}

uint32_t source(struct decoder *x, const struct operand *o, enum ptx_type type)
{
    const unsigned want = ptx_types[type].bytes;
    if (want > 8 || !want)
        return 0;
    switch ((enum operand_kind)o->kind) {
    case O_REG: {
        const enum ptx_type have = (enum ptx_type)x->f->reg_types[o->id];
        if ((have == T_PRED) != (type == T_PRED) || ptx_types[have].bytes > 8)
            return 0;
        uint32_t slot = reg_slot(x, o->id);
        if (o->negated && type != T_PRED)
            return 0;
        if (o->negated) {
            const uint32_t t = temp(x, 4);
            lane(x, LANE_not_32, t, slot, 0, 0);
            slot = t;
        }
        return fit(x, slot, ptx_types[have].bytes, type);
    }
    case O_IMM:
        return type == T_PRED ? constant(x, o->imm ? ~0u : 0, 4) : constant(x, (uint64_t)o->imm, want);
    case O_FLOAT: {
        uint64_t bits = (uint64_t)o->imm;
        if (want == 4 && o->base == T_F64) {
            double wide;
            memcpy(&wide, &bits, 8);
            const float narrow = (float)wide;
            bits = 0;
            memcpy(&bits, &narrow, 4);
        } else if (want == 8 && o->base == T_F32) {
            float narrow;
            memcpy(&narrow, &bits, 4);
            const double wide = narrow;
            memcpy(&bits, &wide, 8);
        } else if (want < 4) {
            return 0;
        }
        return constant(x, bits, want);
    }
    case O_SPECIAL: {
        const bool dynamic = o->id == SR_CLOCK || o->id == SR_CLOCK_HI || o->id == SR_CLOCK64 || o->id == SR_GLOBALTIMER ||
                             o->id == SR_GLOBALTIMER_LO || o->id == SR_GLOBALTIMER_HI || o->id == SR_PM;
        const unsigned bytes = o->id == SR_CLOCK64 || o->id == SR_GLOBALTIMER || o->id == SR_GRIDID || o->id == SR_GRAPH_EXEC ? 8 : 4;
        uint32_t slot;
        if (dynamic) {
            slot = temp(x, bytes);
            struct insn *i = emit(x, K_CLOCK);
            i->dst = slot;
            i->op = (uint8_t)o->id;
            i->flags |= bytes == 8 ? F_DST64 : 0;
        } else {
            slot = fill_slot(x, FILL_SPECIAL, bytes, 0, o->id, o->component, false);
        }
        if (want == 8 && bytes == 4) {
            const uint32_t t = temp(x, 8);
            lane(x, LANE_zext_64, t, slot, 0, 0);
            return t;
        }
        return fit(x, slot, bytes, type);
    }
    case O_SYMBOL:
        return want < 4 ? 0
                        : constant(x, variable_address(x->m, x->f, &x->m->vars[o->id]) + (uint64_t)o->imm, want);
    case O_NAME: { /* a function's address */
        int kind;
        uint32_t index;
        return want == 8 && ptx_symbol_find(x->m, 0, o->id, &kind, &index) && kind == SYM_FUNCTION && !x->m->functions[index].is_entry
                   ? constant(x, FUNCTION_WINDOW + (uint64_t)index * FUNCTION_STEP, 8) : 0;
    }
    case O_NONE:
    case O_ADDRESS:
    case O_LIST:
    case O_PAIR:
    case O_SINK:
    case O_OTHER:
        break;
    }
    return 0;
}

uint32_t dest(struct decoder *x, const struct operand *o, enum ptx_type type)
{
    const unsigned bytes = ptx_types[type].bytes;
    if (o->kind == O_SINK)
        return temp(x, bytes == 8 ? 8 : 4);
    if (o->kind != O_REG || o->negated || bytes > 8)
        return 0;
    const enum ptx_type have = (enum ptx_type)x->f->reg_types[o->id];
    if ((have == T_PRED) != (type == T_PRED) || ptx_types[have].bytes < bytes || ptx_types[have].bytes > 8)
        return 0;
    const uint32_t slot = reg_slot(x, o->id);
    if (ptx_types[have].bytes == bytes || (ptx_types[have].bytes <= 4 && !ptx_types[type].is_signed) ||
        (ptx_types[have].bytes == 4 && bytes == 4))
        return slot;
    if (x->pending_count == (int)(sizeof x->pending / sizeof *x->pending))
        return 0;
    const uint32_t t = temp(x, bytes == 8 ? 8 : 4);
    x->pending[x->pending_count].slot = slot;
    x->pending[x->pending_count].reg_bytes = ptx_types[have].bytes;
    x->pending[x->pending_count].bytes = (uint8_t)bytes;
    x->pending[x->pending_count].sign = ptx_types[type].is_signed && !ptx_types[type].is_float;
    /* the source of the move is remembered in order: temp offsets are unique */
    x->pending[x->pending_count].slot = slot;
    x->pending_from[x->pending_count++] = t;
    return t;
}

static void finish_pending(struct decoder *x)
{
    for (int n = 0; n < x->pending_count; n++) {
        const uint32_t to = x->pending[n].slot;
        uint32_t from = x->pending_from[n];
        if (x->pending[n].sign && x->pending[n].bytes < 4) {
            const uint32_t t = temp(x, 4);
            lane(x, x->pending[n].bytes == 1 ? LANE_sext_8 : LANE_sext_16, t, from, 0, 0);
            from = t;
        }
        lane(x, x->pending[n].reg_bytes == 8 ? x->pending[n].sign ? LANE_sext_64 : LANE_zext_64
                : x->pending[n].reg_bytes == 2 ? LANE_lo_16 : LANE_mov_32, to, from, 0, 0);
    }
    x->pending_count = 0;
}

uint32_t list_add(struct decoder *x, const uint32_t *items, unsigned count)
{
    struct ptx_module *m = x->m;
    const uint32_t first = m->list_count;
    for (unsigned i = 0; i < count; i++) {
        if (!GROW(m, list, m->list_count)) {
            out_of_memory(x);
            return 0;
        }
        m->lists[m->list_count++] = items[i];
    }
    return first;
}

void set_mode(struct decoder *x, int mode) { x->mode = mode; }

int mode_of(const struct decoder *x)
{
    return (has(&x->op, M_RZ) ? MODE_RZ : has(&x->op, M_RM) ? MODE_RM : has(&x->op, M_RP) ? MODE_RP : MODE_RN) |
           (has(&x->op, M_FTZ) ? MODE_FTZ : 0);
}

/* ---- aliases ---- */
bool alias(struct decoder *x, const struct operand *to, uint32_t slot, unsigned bytes, bool fixed)
{
    if (to->kind != O_REG || x->pred || x->slots[to->id] || x->defs[to->id] != 1 || !slot)
        return false;
    const enum ptx_type have = (enum ptx_type)x->f->reg_types[to->id];
    if (ptx_types[have].bytes != bytes || have == T_PRED || !fixed)
        return false;
    for (int wide = 0; wide < 2; wide++) /* not a temporary: those are used again */
        for (uint32_t i = 0; i < x->temps[wide].count; i++)
            if (x->temps[wide].slots[i] == slot)
                return false;
    x->slots[to->id] = slot;
    return true;
}

/* A register whose only definition is earlier in this block: a copy of it cannot see another value. */
bool fixed_here(const struct decoder *x, const struct operand *o)
{
    if (o->kind == O_IMM || o->kind == O_FLOAT || o->kind == O_SYMBOL)
        return true;
    if (o->kind == O_SPECIAL)
        return o->id < SR_CLOCK || o->id > SR_GLOBALTIMER_HI;
    return o->kind == O_REG && !o->negated && x->defs[o->id] == 1 &&
           (x->def_stmt[o->id] >= x->block_start || x->is_fixed[o->id]) && x->def_stmt[o->id] < x->stmt_index;
}

uint32_t param_slot(struct decoder *x, uint32_t offset, unsigned bytes, bool sign)
{
    return fill_slot(x, FILL_PARAM, bytes, offset, 0, 0, sign);
}

/* ---- statements ---- */
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
static void count_defs(struct decoder *x)
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
static void mark_leaders(struct decoder *x, uint8_t *leader)
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
static void decode_statements(struct decoder *x, const uint8_t *leader)
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
static void decode_again(struct decoder *x, const uint8_t *leader, uint32_t base, uint32_t first_block, uint32_t first_list)
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

static void decode_function(struct decoder *x)
{
    struct ptx_module *m = x->m;
    struct function *fn = x->f;
    const uint32_t count = fn->stmt_count, base = x->file_top, first_block = m->block_count, first_list = m->list_count;
    const size_t regs = (size_t)fn->reg_count + 1;
    cleanup(mem) void *leaders = xalloc(count + 1), *bases = xalloc(count + 1), *pcs = xarray(count + 1, sizeof(uint32_t)),
                      *words = xarray(regs, 4 * sizeof(uint32_t)), *bytes = xarray(regs, 4);
    uint8_t *leader = leaders;
    x->op_base = bases;
    x->stmt_pc = pcs;
    x->slots = words;
    x->preset = x->slots + regs;
    x->def_stmt = x->preset + regs;
    x->tracked = x->def_stmt + regs;
    x->defs = bytes;
    x->refs = x->defs + regs;
    x->is_fixed = x->refs + regs;
    x->owns = x->is_fixed + regs;
    const uint32_t tracked_before = m->tracked_count;
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t name = m->stmts[fn->stmt_first + n].opcode;
        if (!x->cached[name]) {
            ptx_opcode_parse(ptx_name(m, name), &x->cache[name]);
            x->cached[name] = 1;
        }
        x->op_base[n] = (uint8_t)x->cache[name].base;
    }
    count_defs(x);
    mark_leaders(x, leader);
    unwritten_find(x, leader);
    x->tracks = m->tracked_count != tracked_before;
    decode_statements(x, leader);
    decode_again(x, leader, base, first_block, first_list);
    flow_paths(x, fn->code_first);
    fn->decoded = true;
}

/* Most of a module compiled with -ftz=true flushes: then flushing is its home mode, else rounding to nearest alone is. */
static bool flushes_mostly(const struct ptx_module *m)
{
    size_t flush = 0, plain = 0;
    for (uint32_t i = 0; i < m->stmt_count; i++) {
        const char *op = ptx_name(m, m->stmts[i].opcode);
        const bool arith = !strncmp(op, "add", 3) || !strncmp(op, "mul", 3) || !strncmp(op, "fma", 3) || !strncmp(op, "sub", 3);
        if (arith && strstr(op, ".f32")) {
            flush += strstr(op, ".ftz") != NULL;
            plain += strstr(op, ".ftz") == NULL;
        }
    }
    return flush > plain;
}

static uint32_t round_up(uint32_t v, uint32_t to) { return (v + to - 1) / to * to; }

static void place_functions(struct ptx_module *m)
{
    uint32_t frame = 0, shared = m->func_shared_bytes;
    for (uint32_t i = 0; i < m->function_count; i++)
        if (!m->functions[i].is_entry) {
            m->functions[i].frame_base = frame = round_up(frame, 16);
            frame += m->functions[i].local_bytes;
            if (m->functions[i].static_shared_bytes) {
                m->functions[i].shared_base = shared = round_up(shared, 128);
                shared += m->functions[i].static_shared_bytes;
            }
        }
    m->func_frame_bytes = round_up(frame, 16);
    m->func_shared_bytes = shared;
    uint32_t most = shared;
    for (uint32_t i = 0; i < m->function_count; i++)
        if (m->functions[i].is_entry) {
            struct function *fn = &m->functions[i];
            fn->frame_base = m->func_frame_bytes;
            fn->shared_base = fn->static_shared_bytes ? round_up(shared, 128) : shared;
            fn->static_shared_bytes += fn->shared_base;
            if (fn->static_shared_bytes > most)
                most = fn->static_shared_bytes;
        }
    m->dynamic_shared = round_up(most, 1024);
}

/* Calls name functions; now that all have code, name the code. A call that could come back to itself is left unsupported. */
static void link_calls(struct ptx_module *m)
{
    for (uint32_t i = 0; i < m->code_count; i++)
        if (m->code[i].kind == K_CALL) {
            const struct function *callee = &m->functions[m->code[i].aux];
            m->code[i].imm = m->code[i].aux;
            if (!callee->decoded)
                m->code[i].kind = K_UNSUPPORTED;
        }
}

bool ptx_decode(struct ptx_module *m, struct ptx_finding *ret_finding)
{
    struct decoder x = {.m = m, .finding = ret_finding, .lanes = ptx_lanes_get()};
    place_functions(m);
    m->home_ftz = flushes_mostly(m);
    x.home_mode = MODE_RN | (m->home_ftz ? MODE_FTZ : 0);
    const size_t cache_bytes = (m->name_count + 1) * (sizeof *x.cache + 1);
    if (cache_bytes > m->memory_limit - m->memory_bytes)
        out_of_memory(&x);
    else {
        x.cache = xarray(m->name_count + 1, sizeof *x.cache);
        x.cached = xalloc(m->name_count + 1);
    }
    x.file_top = SCRATCH_BYTES;
    for (int entries = 0; entries < 2; entries++) {
        if (entries)
            m->func_file_bytes = x.file_top;
        for (uint32_t i = 0; i < m->function_count && !x.failed; i++)
            if (m->functions[i].has_body && m->functions[i].is_entry == (entries != 0)) {
                x.f = &m->functions[i];
                if (entries)
                    x.file_top = m->func_file_bytes;
                x.f->file_base = x.file_top;
                decode_function(&x);
                x.f->file_bytes = x.file_top - x.f->file_base;
            }
    }
    if (!x.failed)
        link_calls(m);
    free(x.cache);
    free(x.cached);
    free(x.consts);
    free(x.blocks);
    return !x.failed;
}

void ptx_unsupported(const struct ptx_module *m, struct buf *to)
{
    cleanup(mem) void *seen_bytes = xalloc(m->name_count + 1);
    uint8_t *seen = seen_bytes;
    for (uint32_t i = 0; i < m->code_count; i++)
        if (m->code[i].kind == K_UNSUPPORTED && !seen[m->stmts[m->code[i].stmt].opcode]) {
            seen[m->stmts[m->code[i].stmt].opcode] = 1;
            if (to->size)
                buf_str(to, " ");
            buf_str(to, ptx_name(m, m->stmts[m->code[i].stmt].opcode));
        }
}

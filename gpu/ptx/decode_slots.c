/*
 * Slots and aliases. A warp's register file is one array: scratch, then the parts of all .func (they may be on the stack together), then
 * the part of the entry. Constants, parameters and special registers are slots too, filled in before a warp starts, so that an operand is
 * always an offset. Moves of such slots, and moves within a block, become aliases instead of instructions.
 */
#include "gpu/ptx/decode_frame.h"
#include "gpu/ptx/isa.h"

#include <string.h>

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

void out_of_memory(struct decoder *x)
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

void mode_now(struct decoder *x)
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

uint32_t reg_slot(struct decoder *x, uint32_t reg)
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

void finish_pending(struct decoder *x)
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

/*
 * Registers that may be read before they are written: a forward analysis over statements (written on every path?). Only those,
 * normally none, are tracked at run time: K_MARK notes the lanes that wrote one, K_CHECK looks before a use that matters, which is
 * a predicate, an address, a stored value. Arithmetic on such a register is no fault by itself: compilers leave undefined
 * values in places nobody looks at.
 */
#include "gpu/ptx/decode.h"

#include <string.h>

#define MOST_WORDS (1u << 22)   /* of the analysis; a module beyond is not tracked */
#define MOST_ROUNDS 64

static bool first_is_read(const struct opcode *o)
{
    return o->base == B_brx || ((o->base == B_bar || o->base == B_barrier) && !has(o, M_RED)) || o->base == B_nanosleep;
}

typedef void visit_fn(struct decoder *d, uint32_t reg, void *context);

static void each_register(struct decoder *d, const struct operand *o, int depth, visit_fn *visit, void *context)
{
    if (o->kind == O_REG)
        visit(d, o->id, context);
    for (uint32_t k = 0; (o->kind == O_LIST || o->kind == O_PAIR) && k < o->count && depth < 8; k++)
        each_register(d, &d->m->operands[o->id + k], depth + 1, visit, context);
}

static void each_written(struct decoder *d, const struct stmt *s, const struct opcode *o, visit_fn *visit, void *context)
{
    if (s->count && !first_is_read(o))
        each_register(d, &d->m->operands[s->first], 0, visit, context);
}

static void each_checked(struct decoder *d, const struct stmt *s, const struct opcode *o, visit_fn *visit, void *context)
{
    for (uint32_t k = 0; k < s->count; k++) {
        const struct operand *x = &d->m->operands[s->first + k];
        if (x->kind == O_ADDRESS && x->base == O_REG)
            visit(d, x->id, context);
        else if ((k && (o->base == B_st || o->base == B_red || o->base == B_atom || o->base == B_mma || o->base == B_stmatrix || o->base == B_wmma)) || (!k && o->base == B_brx))
            each_register(d, x, 0, visit, context);
    }
}

static void set_bit(struct decoder *d, uint32_t reg, void *context)
{
    (void)d;
    ((uint64_t *)context)[reg >> 6] |= 1ull << (reg & 63);
}

struct use { uint64_t *written; bool found; };
static void track_unless_written(struct decoder *d, uint32_t reg, void *context)
{
    struct use *u = context;
    if (u->written[reg >> 6] >> (reg & 63) & 1)
        return;
    if (!d->tracked[reg])
        d->tracked[reg] = ++d->m->tracked_count;
    u->found = true;
}

static uint32_t block_of(const uint32_t *starts, uint32_t count, uint32_t n)
{
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        const uint32_t mid = (low + high + 1) / 2;
        if (starts[mid] <= n)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

/* in[target] &= out; true if that changed it. */
static bool flow_to(uint64_t *in, const uint64_t *out, uint32_t words)
{
    uint64_t changed = 0;
    for (uint32_t i = 0; i < words; i++) {
        changed |= in[i] & ~out[i];
        in[i] &= out[i];
    }
    return changed != 0;
}

static bool flow_to_label(struct decoder *d, uint32_t scope, uint32_t name, const uint32_t *starts, uint32_t count, uint64_t *in,
                          const uint64_t *out, uint32_t words)
{
    int kind;
    uint32_t target;
    bool changed = false;
    if (!ptx_symbol_find(d->m, scope, name, &kind, &target))
        return false;
    if (kind == SYM_LABEL && target >= d->f->stmt_first && target < d->f->stmt_first + d->f->stmt_count)
        changed = flow_to(in + (size_t)block_of(starts, count, target - d->f->stmt_first) * words, out, words);
    for (uint32_t t = 0; kind == SYM_TABLE && t < d->m->tables[target].count; t++) {
        const uint32_t inner = d->m->table_names[d->m->tables[target].first + t];
        uint32_t label;
        if (ptx_symbol_find(d->m, d->m->tables[target].scope, inner, &kind, &label) && kind == SYM_LABEL)
            changed |= flow_to_label(d, d->m->tables[target].scope, inner, starts, count, in, out, words);
        kind = SYM_TABLE;
    }
    return changed;
}

/* One pass over a block: what is written at its end; with `u`, uses on the way are looked at. */
static void walk(struct decoder *d, uint32_t from, uint32_t to, uint64_t *written, struct use *u)
{
    for (uint32_t n = from; n < to; n++) {
        const struct stmt *s = &d->m->stmts[d->f->stmt_first + n];
        const struct opcode *o = &d->cache[s->opcode];
        if (u) {
            if (s->pred >= 0)
                track_unless_written(d, (uint32_t)s->pred, u);
            each_checked(d, s, o, track_unless_written, u);
        }
        if (s->pred < 0)
            each_written(d, s, o, set_bit, written);
    }
}

void unwritten_find(struct decoder *d, const uint8_t *leader)
{
    const uint32_t count = d->f->stmt_count, words = (d->f->reg_count + 63) / 64;
    uint32_t blocks = 0;
    for (uint32_t n = 0; n < count; n++)
        blocks += !n || leader[n];
    if (!blocks || !words || (uint64_t)blocks * words > MOST_WORDS)
        return;
    cleanup(mem) void *starts_memory = xarray(blocks + 1, sizeof(uint32_t)), *in_memory = xarray((size_t)blocks + 1, words * 8ul);
    uint32_t *starts = starts_memory, at = 0;
    uint64_t *in = in_memory, *out = in + (size_t)blocks * words;
    for (uint32_t n = 0; n < count; n++)
        if (!n || leader[n])
            starts[at++] = n;
    starts[blocks] = count;
    memset(in + words, 255, (size_t)(blocks - 1) * words * 8); /* all but the first: until a path says otherwise */
    int round = 0;
    for (bool changed = true; changed && round < MOST_ROUNDS; round++) {
        changed = false;
        for (uint32_t b = 0; b < blocks; b++) {
            const struct stmt *last = &d->m->stmts[d->f->stmt_first + starts[b + 1] - 1];
            const enum ptx_base base = d->cache[last->opcode].base;
            memcpy(out, in + (size_t)b * words, words * 8ul);
            walk(d, starts[b], starts[b + 1], out, NULL);
            for (uint32_t k = 0; k < last->count && (base == B_bra || base == B_brx); k++)
                if (d->m->operands[last->first + k].kind == O_NAME)
                    changed |= flow_to_label(d, last->scope, d->m->operands[last->first + k].id, starts, blocks, in, out, words);
            const bool falls = last->pred >= 0 || !(base == B_bra || base == B_brx || base == B_ret || base == B_exit || base == B_trap);
            if (falls && b + 1 < blocks)
                changed |= flow_to(in + (size_t)(b + 1) * words, out, words);
        }
    }
    if (round == MOST_ROUNDS)
        return;
    for (uint32_t b = 0; b < blocks; b++) {
        struct use u = {.written = out};
        memcpy(out, in + (size_t)b * words, words * 8ul);
        walk(d, starts[b], starts[b + 1], out, &u);
    }
}

static void emit_check(struct decoder *d, uint32_t reg, void *context)
{
    (void)context;
    if (d->tracked[reg])
        emit(d, K_CHECK)->aux = d->tracked[reg] - 1;
}
static void emit_mark(struct decoder *d, uint32_t reg, void *context)
{
    (void)context;
    if (d->tracked[reg])
        emit(d, K_MARK)->aux = d->tracked[reg] - 1;
}

void unwritten_before(struct decoder *d)
{
    const struct stmt *s = d->stmt;
    if (s->pred >= 0 && d->tracked[s->pred]) {
        struct insn *i = emit(d, K_CHECK);
        i->aux = d->tracked[s->pred] - 1;
        i->pred = 0;
    }
    each_checked(d, s, &d->op, emit_check, NULL);
}

void unwritten_after(struct decoder *d)
{
    each_written(d, d->stmt, &d->op, emit_mark, NULL);
}

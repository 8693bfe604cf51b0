/*
 * Registers that live in one block share slots, so that a warp's register file stays in the first cache.
 *
 * A function is decoded twice. From the first code it is seen where each register's slot is used: if only within one block, and
 * there written (by all lanes that are there) before it is read, it needs a slot from that write to its last use only. These
 * registers are given common slots, and the function is decoded again with them; the code is the same otherwise.
 * Slots that a global load writes are shared among such only: what is known of a load goes by slot (warp.depths).
 */
#include "gpu/ptx/decode.h"

#include <string.h>

struct life { uint32_t reg, first, last, block; bool pinned, loaded; };   /* reg: its number + 1; first, last: instructions + 1 */
struct pool { uint32_t *free, count; };
struct sharing {
    struct decoder *d;
    struct life *lives;         /* by slot / 128, from the function's first slot on */
    uint32_t base, pc, block;
    struct pool pools[2][2];    /* by wide, loaded */
    uint32_t top;               /* where the next common slot begins */
    uint32_t ended[64], ended_count;
    bool any;
};
enum how { READ, WRITE, WRITE_ALL, LOAD_ALL };   /* _ALL: in all lanes that are there */
typedef void touch_fn(struct sharing *s, uint32_t slot, enum how how);

static struct life *life_of(const struct sharing *s, uint32_t slot)
{
    return slot >= s->base && slot < s->d->file_top ? &s->lives[(slot - s->base) / 128] : NULL;
}

static void pin_operand(struct sharing *s, const struct operand *o, int depth)
{
    if (o->kind == O_REG || (o->kind == O_ADDRESS && o->base == O_REG)) {
        struct life *l = life_of(s, s->d->slots[o->id]);
        if (l)
            l->pinned = true;
    }
    for (uint32_t k = 0; (o->kind == O_LIST || o->kind == O_PAIR) && k < o->count && depth < 8; k++)
        pin_operand(s, &s->d->m->operands[o->id + k], depth + 1);
}

/* An instruction whose fields this file does not know: all that it could name keeps its own slot. */
static void pin_all(struct sharing *s, const struct insn *i)
{
    const uint32_t fields[] = {i->dst, i->a, i->b, i->c, i->d, i->aux, i->aux2, i->pred};
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++) {
        struct life *l = life_of(s, fields[n]);
        if (l)
            l->pinned = true;
    }
    if (i->stmt == UINT32_MAX)
        return;
    const struct stmt *st = &s->d->m->stmts[i->stmt];
    for (uint32_t k = 0; k < st->count; k++)
        pin_operand(s, &s->d->m->operands[st->first + k], 0);
}

/* Visits what an instruction reads, then what it writes. False: an instruction of another kind. */
static bool each_slot(struct sharing *s, const struct insn *i, touch_fn *touch)
{
    const uint32_t *list = s->d->m->lists + i->aux;
    const bool global = i->space == SPACE_GLOBAL || i->space == SPACE_GENERIC;
    const enum how how = i->pred ? WRITE : WRITE_ALL;
    touch(s, i->pred, READ);
    switch ((int)i->kind) {
    case K_LANE:
    case K_LANE_PREDICATED:
    case K_SHFL:
        touch(s, i->a, READ), touch(s, i->b, READ), touch(s, i->c, READ), touch(s, i->d, READ);
        touch(s, i->dst, how);
        if (i->kind == K_SHFL)
            touch(s, i->aux, how);
        return true;
    case K_LD:
        touch(s, i->a, READ);
        for (unsigned v = 0; v < i->vec; v++)
            touch(s, list[v], how == WRITE_ALL && global ? LOAD_ALL : how);
        return true;
    case K_ST:
        touch(s, i->a, READ);
        for (unsigned v = 0; v < i->vec; v++)
            touch(s, list[v], READ);
        return true;
    case K_ENTER:
    case K_BRA:
    case K_MODE:
    case K_NOP:
    case K_MARK:
    case K_CHECK:
        return true;
    default:
        return false;
    }
}

static void look(struct sharing *s, uint32_t slot, enum how how)
{
    struct life *l = life_of(s, slot);
    if (!l || !l->reg || l->pinned)
        return;
    if (!l->first && how >= WRITE_ALL)
        l->first = s->pc, l->block = s->block;
    else if (!l->first || l->block != s->block)
        l->pinned = true;
    l->last = s->pc;
    l->loaded |= how == LOAD_ALL;
}

static void give(struct sharing *s, uint32_t slot, enum how how)
{
    (void)how;
    struct life *l = life_of(s, slot);
    if (!l || !l->reg || l->pinned)
        return;
    uint32_t *shared = &s->d->preset[l->reg - 1];
    const bool wide = ptx_types[s->d->f->reg_types[l->reg - 1]].bytes == 8;
    struct pool *p = &s->pools[wide][l->loaded];
    if (!*shared && p->count) {
        *shared = p->free[--p->count];
    } else if (!*shared) {
        *shared = s->top;
        slot_width(s->d, *shared, wide);
        s->top += (wide ? 8 : 4) * WARP_LANES;
    }
    s->any = true;
    if (l->last == s->pc && s->ended_count < sizeof s->ended / sizeof *s->ended) {
        l->last = 0; /* once, though it may be named twice */
        s->ended[s->ended_count++] = slot;
    }
}

static void release_ended(struct sharing *s)
{
    for (uint32_t n = 0; n < s->ended_count; n++) {
        const struct life *l = life_of(s, s->ended[n]);
        struct pool *p = &s->pools[ptx_types[s->d->f->reg_types[l->reg - 1]].bytes == 8][l->loaded];
        p->free[p->count++] = s->d->preset[l->reg - 1];
    }
    s->ended_count = 0;
}

/* Sets `preset` by register; false: there is nothing to share. */
bool slots_share(struct decoder *d, uint32_t base, uint32_t *ret_top)
{
    const struct ptx_module *m = d->m;
    const size_t units = (d->file_top - base) / 128 + 2;
    cleanup(mem) void *lives = xarray(units, sizeof(struct life)), *free_memory = xarray(units, 4 * sizeof(uint32_t));
    struct sharing s = {.d = d, .lives = lives, .base = base, .top = base};
    for (size_t n = 0; n < 4; n++)
        s.pools[n & 1][n >> 1].free = (uint32_t *)free_memory + n * units;
    for (uint32_t reg = 0; reg < d->f->reg_count; reg++)
        if (d->owns[reg] && ptx_types[d->f->reg_types[reg]].bytes <= 8)     /* one of 16 bytes is two slots, and rare */
            life_of(&s, d->slots[reg])->reg = reg + 1;
    for (uint32_t pc = d->f->code_first; pc < m->code_count; pc++) {
        s.pc = pc + 1;
        s.block += m->code[pc].kind == K_ENTER;
        if (!each_slot(&s, &m->code[pc], look))
            pin_all(&s, &m->code[pc]);
    }
    for (uint32_t pc = d->f->code_first; pc < m->code_count; pc++) {
        s.pc = pc + 1;
        each_slot(&s, &m->code[pc], give);
        release_ended(&s);
    }
    *ret_top = s.top;
    return s.any;
}

/*
 * The control flow graph of one function: branch targets, and for each divergent branch the point where its lanes meet again,
 * the immediate post-dominator of its block (Cooper, Harvey and Kennedy's iteration on the reversed graph).
 *
 * A block that never reaches the end (an endless loop) gets the function's end: lanes then never wait for each other there.
 */
#include "gpu/ptx/decode.h"
#include "gpu/ptx/matrix.h"

#include <string.h>

#define NOWHERE UINT32_MAX

struct graph {
    uint32_t count;            /* blocks; the last one is the common end */
    uint32_t *succ_first, *succ, *pred_first, *pred;
    uint32_t *order, *number;  /* reverse post-order of the reversed graph, from the end */
    uint32_t *ipdom;
};

/* The block that starts at or before this code; every branch goes to a block's start. */
static uint32_t block_at(const struct ptx_module *m, uint32_t first_block, uint32_t pc)
{
    uint32_t low = first_block, high = m->block_count - 1;
    while (low < high) {
        const uint32_t mid = (low + high + 1) / 2;
        if (m->blocks[mid].first <= pc)
            low = mid;
        else
            high = mid - 1;
    }
    return low - first_block;
}

static bool conditional(const struct insn *i) { return i->pred != 0; }

/* Successors of a block in order; returns how many were written (at most `room`), or counts if `to` is NULL. */
static uint32_t successors(const struct decoder *d, uint32_t first_block, uint32_t b, uint32_t *to)
{
    const struct ptx_module *m = d->m;
    const uint32_t count = m->block_count - first_block, end = count - 1;
    if (b == end)
        return 0;
    const uint32_t code_end = m->blocks[first_block + b + 1].first;
    const struct insn *last = &m->code[code_end - 1];
    uint32_t n = 0;
    bool falls = true;
#define SUCC(block)               \
    do {                          \
        if (to)                   \
            to[n] = (block);      \
        n++;                      \
    } while (0)
    switch ((int)last->kind) {
    case K_BRA:
        SUCC(block_at(m, first_block, last->aux));
        falls = conditional(last);
        break;
    case K_BRX:
        for (int64_t i = 0; i < last->imm; i++)
            SUCC(block_at(m, first_block, m->lists[last->aux + (uint32_t)i]));
        falls = conditional(last);
        break;
    case K_RET:
    case K_EXIT:
    case K_TRAP:
        SUCC(end);
        falls = conditional(last);
        break;
    default: break;
    }
    if (falls)
        SUCC(b + 1);
#undef SUCC
    return n;
}

static void number_blocks(struct graph *g)
{
    cleanup(mem) void *stack_memory = xarray(g->count + 1, 2 * sizeof(uint32_t));
    uint32_t(*stack)[2] = stack_memory;
    uint32_t depth = 0, next = g->count;
    for (uint32_t i = 0; i < g->count; i++)
        g->number[i] = NOWHERE;
    stack[depth][0] = g->count - 1;
    stack[depth++][1] = 0;
    g->number[g->count - 1] = 0;
    while (depth) { /* depth first over predecessors */
        const uint32_t b = stack[depth - 1][0], i = stack[depth - 1][1]++;
        if (g->pred_first[b] + i < g->pred_first[b + 1]) {
            const uint32_t p = g->pred[g->pred_first[b] + i];
            if (g->number[p] == NOWHERE) {
                g->number[p] = 0;
                stack[depth][0] = p;
                stack[depth++][1] = 0;
            }
        } else {
            g->order[--next] = b;
            depth--;
        }
    }
    /* order[next..count) is the reverse post-order; unreachable ones have no number */
    for (uint32_t i = next; i < g->count; i++)
        g->number[g->order[i]] = i - next;
    memmove(g->order, g->order + next, (g->count - next) * sizeof *g->order);
    for (uint32_t i = g->count - next; i < g->count; i++)
        g->order[i] = NOWHERE;
}

static void post_dominators(struct graph *g)
{
    const uint32_t end = g->count - 1;
    for (uint32_t i = 0; i < g->count; i++)
        g->ipdom[i] = NOWHERE;
    g->ipdom[end] = end;
    uint64_t work = 0;
    const uint64_t enough = 50000000; /* a hostile graph: what is left meets at the end, which is always right */
    for (bool changed = true; changed && work < enough;) {
        changed = false;
        for (uint32_t k = 1; k < g->count && g->order[k] != NOWHERE; k++) {
            const uint32_t b = g->order[k];
            uint32_t best = NOWHERE;
            for (uint32_t i = g->succ_first[b]; i < g->succ_first[b + 1]; i++) {
                uint32_t s = g->succ[i];
                if (g->ipdom[s] == NOWHERE)
                    continue;
                if (best == NOWHERE) {
                    best = s;
                    continue;
                }
                while (best != s && work++ < enough) {
                    while (g->number[best] > g->number[s])
                        best = g->ipdom[best], work++;
                    while (g->number[s] > g->number[best])
                        s = g->ipdom[s], work++;
                }
            }
            changed |= g->ipdom[b] != best;
            g->ipdom[b] = best;
        }
    }
    if (work >= enough)
        for (uint32_t i = 0; i < g->count; i++)
            g->ipdom[i] = end;
}

static bool first_use(const uint8_t *loaded, uint32_t *noted, uint32_t slot, uint32_t block)
{
    const bool first = loaded[slot] && noted[slot] != block;
    noted[slot] = block;
    return first;
}

/*
 * Instructions that read a slot some global load writes. A scheduler moves loads up within a block, past such a use, unless
 * their address needs a loaded value: so a load waits for uses in earlier blocks, and for all before it if F_WAITS.
 */
static void mark_uses(struct decoder *d)
{
    struct ptx_module *m = d->m;
    const struct function *fn = d->f;
    cleanup(mem) void *memory = xarray(2, d->file_top / 128 + 1);
    uint8_t *loaded = memory;
    for (uint32_t pc = fn->code_first; pc < m->code_count; pc++) {
        const struct insn *i = &m->code[pc];
        if (i->kind == K_LD && (i->space == SPACE_GLOBAL || i->space == SPACE_GENERIC))
            for (unsigned v = 0; v < i->vec; v++)
                loaded[m->lists[i->aux + v] / 128] = 1;
        else if (i->kind == K_ATOM && i->space != SPACE_SHARED)
            loaded[i->dst / 128] = 1;
    }
    loaded[0] = 0;
    /* what is computed from loaded values, and the loads whose address is */
    uint8_t *derived = loaded + d->file_top / 128 + 1;
    memcpy(derived, loaded, d->file_top / 128 + 1);
    for (int round = 0; round < 3; round++)
        for (uint32_t pc = fn->code_first; pc < m->code_count; pc++) {
            struct insn *i = &m->code[pc];
            const bool from = i->kind != K_CALL && (derived[i->a / 128] || derived[i->b / 128] || derived[i->c / 128] || derived[i->d / 128]);
            if ((i->kind == K_LD || i->kind == K_ATOM || i->kind == K_CP_ASYNC) && (derived[i->a / 128] || (i->kind == K_CP_ASYNC && from)))
                i->flags |= F_WAITS;
            else if (from && i->dst && i->kind != K_LD && i->kind != K_ST)
                derived[i->dst / 128] = 1;
        }
    /* of those uses the first in a block after the load: another one there says nothing new */
    cleanup(mem) void *noted_memory = xarray(d->file_top / 128 + 1, sizeof(uint32_t));
    uint32_t *noted = noted_memory, block = 1;
    for (uint32_t pc = fn->code_first; pc < m->code_count; pc++) {
        struct insn *i = &m->code[pc];
        const uint32_t sources[4] = {i->a / 128, i->b / 128, i->c / 128, i->d / 128}, *list = m->lists + i->aux;
        bool uses = false;
        block += i->kind == K_ENTER;
        for (int n = 0; n < 4 && i->kind != K_CALL; n++)
            uses |= first_use(loaded, noted, sources[n], block);
        for (unsigned v = 1; i->kind == K_ST && v < i->vec; v++)
            uses |= first_use(loaded, noted, list[v] / 128, block);
        const uint32_t *reads, count = i->kind == K_MATRIX ? matrix_reads(m->lists, i, &reads) : 0;
        for (uint32_t v = 0; v < count; v++)
            uses |= first_use(loaded, noted, reads[v] / 128, block);
        if (uses)
            i->flags |= F_USES_LOADED;
        for (unsigned v = 0; i->kind == K_LD && v < i->vec; v++)
            noted[list[v] / 128] = 0;
        if (i->kind == K_ATOM)
            noted[i->dst / 128] = 0;
    }
}

/*
 * Blocks that a scheduler does not move loads up into from below: loop heads, and what is behind a branch over much code.
 * A short forward branch becomes predicates. K_ENTER's `op` says so.
 */
#define SHORT_BRANCH 24
static void mark_walls(struct decoder *d, const struct graph *g, uint32_t first_block)
{
    struct ptx_module *m = d->m;
    for (uint32_t b = 0; b + 1 < g->count; b++) {
        const uint32_t end = m->blocks[first_block + b + 1].first;
        const uint32_t meet = g->ipdom[b] == NOWHERE ? NOWHERE : m->blocks[first_block + g->ipdom[b]].first;
        const bool branches = g->succ_first[b + 1] - g->succ_first[b] > 1;
        const bool over = branches && (meet == NOWHERE || meet < end || meet - end > SHORT_BRANCH) && g->ipdom[b] != g->count - 1;
        for (uint32_t e = g->succ_first[b]; e < g->succ_first[b + 1]; e++)
            if (g->succ[e] <= b || over)
                m->code[m->blocks[first_block + g->succ[e]].first].op = 1;
    }
}

/* May lanes run it while others of their split wait behind it? Nothing there leads elsewhere, or has lanes wait. */
static bool plain(const struct insn *i)
{
    return i->kind == K_LANE || i->kind == K_LANE_PREDICATED || i->kind == K_LD || i->kind == K_ST || i->kind == K_ENTER || i->kind == K_NOP ||
           i->kind == K_MODE || i->kind == K_MARK || i->kind == K_CHECK;
}

/* Branches over one short block that is entered from them alone: no need to part the lanes for it. */
static void mark_short(struct decoder *d, const struct graph *g, uint32_t first_block)
{
    struct ptx_module *m = d->m;
    for (uint32_t b = 0; b + 2 < g->count; b++) {
        const uint32_t body = m->blocks[first_block + b + 1].first, meet = m->blocks[first_block + b + 2].first;
        struct insn *last = &m->code[body - 1];
        bool is_plain = last->kind == K_BRA && last->pred && last->aux == meet && last->aux2 == meet &&
                        g->pred_first[b + 2] - g->pred_first[b + 1] == 1 && meet - body <= SHORT_BRANCH;
        for (uint32_t pc = body; is_plain && pc < meet; pc++)
            is_plain = plain(&m->code[pc]);
        if (is_plain)
            last->flags |= F_SHORT;
    }
}

static bool is_butterfly(const struct insn *i)
{
    return i->kind == K_SHFL && i->flags & F_WHOLE && i->op == M_BFLY && i->dst != i->a;
}

/* How many pairs of a butterfly and the sum of what it exchanged, one after the other, begin here. */
static unsigned sums(const struct ptx_module *m, uint32_t pc)
{
    unsigned n = 0;
    for (const struct insn *i = &m->code[pc]; n < 32 && i + 1 < &m->code[m->code_count] && is_butterfly(i); i += 2, n++) {
        const bool adds = i[1].kind == K_LANE && i[1].aux == LANE_add_f32 && !(i[1].flags & F_USES_LOADED) &&
                          ((i[1].a == i->a && i[1].b == i->dst) || (i[1].b == i->a && i[1].a == i->dst));
        if (!adds || (n && (i->a != i[-1].dst || i->flags & F_USES_LOADED))) /* such a use of the first is noted */
            break;
    }
    return n;
}

struct bases { uint32_t slots[BASES], each[BASES], count; };

static void base_lost(struct bases *b, uint32_t slot)
{
    for (uint32_t n = 0; n < b->count; n++)
        if (b->slots[n] == slot)
            b->slots[n] = 0;
}

/* Several accesses of a block by one register: how its lanes lie needs to be looked at once. */
static void note_base(const struct ptx_module *m, struct bases *b, struct insn *i)
{
    if (i->kind == K_ENTER)
        b->count = 0;
    if (i->path == PATH_ACCESS && i->a) {
        const uint32_t each = (uint32_t)i->size * i->vec;
        uint32_t n = 0;
        while (n < b->count && (b->slots[n] != i->a || b->each[n] != each))
            n++;
        i->base = (uint8_t)(n < b->count ? (n + 1) | BASE_SEEN : n < BASES ? n + 1 : 0);
        if (n == b->count && n < BASES) {
            b->slots[n] = i->a;
            b->each[n] = each;
            b->count++;
        }
    }
    for (unsigned v = 0; i->kind == K_LD && v < i->vec; v++)
        base_lost(b, m->lists[i->aux + v]);
    if (i->kind == K_LANE || i->kind == K_LANE_PREDICATED || i->kind == K_SHFL)
        base_lost(b, i->dst);
    else if (i->kind != K_LD && i->kind != K_ST && i->kind != K_MODE && i->kind != K_NOP)
        b->count = 0;
    if (i->kind == K_SHFL)
        base_lost(b, i->aux);
}

void flow_paths(struct decoder *d, uint32_t first)
{
    struct ptx_module *m = d->m;
    struct bases bases = {.count = 0};
    for (uint32_t pc = first; pc < m->code_count; pc++) {
        struct insn *i = &m->code[pc];
        const bool uses = i->flags & F_USES_LOADED, whole = i->flags & F_WHOLE && i->fn;
        i->path = PATH_SWITCH;
        if (i->kind == K_LANE)
            i->path = uses ? PATH_LANE_USES : PATH_LANE;
        else if ((i->kind == K_LD || i->kind == K_ST) && whole)
            i->path = PATH_ACCESS;
        else if (i->kind == K_BRA)
            i->path = PATH_BRANCH;
        if (i->kind == K_ENTER) {
            i->path = PATH_ENTER;
            i->imm = m->blocks[i->aux].total;
        }
        note_base(m, &bases, i);
        if (i->kind != K_SHFL || !whole)
            continue;
        const unsigned pairs = sums(m, pc);
        i->path = PATH_SHUFFLE;
        i->vec = (uint8_t)(pairs ? pairs : 1);
        i->size = (uint8_t)(pairs ? pairs * 2 : 1);
        i->fn = pairs ? d->lanes->shuffle_add : i->fn;
    }
}

bool flow_finish(struct decoder *d, uint32_t first_block)
{
    struct ptx_module *m = d->m;
    struct function *fn = d->f;
    const uint32_t count = m->block_count - first_block;
    for (uint32_t pc = fn->code_first; pc < m->code_count; pc++) {
        struct insn *i = &m->code[pc];
        if (i->kind == K_BRA)
            i->aux = d->stmt_pc[i->aux];
        if (i->kind == K_BRX)
            for (int64_t k = 0; k < i->imm; k++)
                m->lists[i->aux + (uint32_t)k] = d->stmt_pc[m->lists[i->aux + (uint32_t)k]];
    }
    struct graph g = {.count = count};
    uint64_t edges = 0;
    for (uint32_t b = 0; b < count; b++)
        edges += successors(d, first_block, b, NULL);
    cleanup(mem) void *memory = xarray(edges * 2 + 6 * ((uint64_t)count + 2), sizeof(uint32_t));
    uint32_t *p = memory;
    g.succ_first = p, p += count + 2;
    g.pred_first = p, p += count + 2;
    g.order = p, p += count + 1;
    g.number = p, p += count + 1;
    g.ipdom = p, p += count + 1;
    g.succ = p, p += edges;
    g.pred = p;
    for (uint32_t b = 0, at = 0; b < count; b++) {
        g.succ_first[b] = at;
        at += successors(d, first_block, b, g.succ + at);
        g.succ_first[b + 1] = at;
    }
    for (uint64_t e = 0; e < edges; e++)
        g.pred_first[g.succ[e] + 1]++;
    for (uint32_t b = 0; b < count; b++)
        g.pred_first[b + 1] += g.pred_first[b];
    cleanup(mem) void *cursor_memory = xarray((uint64_t)count + 1, sizeof(uint32_t));
    uint32_t *cursor = cursor_memory;
    for (uint32_t b = 0; b < count; b++)
        for (uint32_t e = g.succ_first[b]; e < g.succ_first[b + 1]; e++)
            g.pred[g.pred_first[g.succ[e]] + cursor[g.succ[e]]++] = b;
    number_blocks(&g);
    post_dominators(&g);
    for (uint32_t b = 0; b + 1 < count; b++) {
        struct insn *last = &m->code[m->blocks[first_block + b + 1].first - 1];
        if (last->kind == K_RET) { /* early: a branch to the common end, where the lanes meet */
            last->kind = K_BRA;
            last->aux = fn->code_end;
        }
        if (last->kind == K_BRA || last->kind == K_BRX) {
            const uint32_t meet = g.ipdom[b] == NOWHERE ? count - 1 : g.ipdom[b];
            last->aux2 = m->blocks[first_block + meet].first;
        }
    }
    mark_walls(d, &g, first_block);
    mark_short(d, &g, first_block);
    mark_uses(d);
    for (uint32_t pc = fn->code_first; pc < m->code_count; pc++)
        if (m->code[pc].kind == K_LANE && m->code[pc].pred)
            m->code[pc].kind = K_LANE_PREDICATED;
    return true;
}

/*
 * Runs one warp until it must wait, ends, has used its slice, or does something wrong.
 *
 * The inner loop does nothing but call lane operations while all living lanes go together. Lanes that have exited may compute
 * rubbish: nobody can read it.
 */
#include "gpu/ptx/async.h"
#include "gpu/ptx/depth.h"
#include "gpu/ptx/matrix.h"
#include "gpu/ptx/opcode.h"
#include "gpu/ptx/race.h"

#include <stdarg.h>
#include <string.h>

bool fault(struct warp *w, const struct insn *i, int lane, enum ptx_finding_kind kind, const char *fmt, ...)
{
    struct worker *k = w->block->worker;
    struct ptx_finding *f = &k->finding;
    const struct ptx_launch *l = k->machine->launch;
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    const uint32_t thread = w->id * WARP_LANES + (uint32_t)lane;
    f->thread[0] = thread % l->block[0];
    f->thread[1] = thread / l->block[0] % l->block[1];
    f->thread[2] = thread / l->block[0] / l->block[1];
    memcpy(f->block, w->block->index, sizeof f->block);
    ptx_finding_at(k->machine->module, i->stmt, f);
    char line[48] = "";
    if (f->source_line > 0)
        snprintf(line, sizeof line, " (line %d)", f->source_line);
    else if (f->ptx_line > 0)
        snprintf(line, sizeof line, " (PTX line %d)", f->ptx_line);
    ptx_finding_set(f, kind, "thread (%u,%u,%u) of block (%u,%u,%u) %s%s", f->thread[0], f->thread[1], f->thread[2], f->block[0],
                    f->block[1], f->block[2], what, line);
    return false;
}

static void set_csr(unsigned mode)
{
#ifdef __x86_64__
    _mm_setcsr(mode);
#else
    (void)mode;
#endif
}

/* ---- splits ---- */
static int split_new(struct warp *w)
{
    for (int n = 0; n < w->split_count; n++)
        if (w->splits[n].state == SPLIT_FREE)
            return n;
    return w->split_count < MAX_SPLITS ? w->split_count++ : -1;
}

/* A child of this node is gone, arrived or ended. A node without children goes on; one child alone needs no node. */
static void child_gone(struct warp *w, int node)
{
    while (node >= 0) {
        struct split *n = &w->splits[node];
        BUG_ON(n->state != SPLIT_NODE || !n->children);
        if (--n->children == 0) {
            if (n->mask) {
                n->state = SPLIT_RUN;
                return;
            }
            n->state = SPLIT_FREE;
            node = n->parent;
            continue;
        }
        if (n->children == 1 && !n->mask) {
            for (int c = 0; c < w->split_count; c++)
                if (w->splits[c].state != SPLIT_FREE && w->splits[c].parent == node)
                    w->splits[c].parent = n->parent;
            n->state = SPLIT_FREE;
        }
        return;
    }
}

static bool too_divergent(struct warp *w, const struct insn *i, int lane)
{
    return fault(w, i, lane, PTX_UNSUPPORTED, "is in a warp that parts into more ways than the emulator can follow");
}

/* Part of a split (mask `away`) goes to `pc`, the rest stays; both meet at `meet`. */
static bool diverge(struct warp *w, int current, const struct insn *i, uint32_t away, uint32_t pc, uint32_t meet)
{
    struct split *s = &w->splits[current];
    int node = s->parent;
    if (node < 0 || w->splits[node].pc != meet || w->splits[node].depth != s->depth) {
        node = split_new(w);
        if (node < 0)
            return too_divergent(w, i, first_lane(away));
        struct split *n = &w->splits[node];
        *n = *s;
        n->state = SPLIT_NODE;
        n->mask = 0;
        n->pc = meet;
        n->children = 1;
        s->parent = (int16_t)node;
    }
    const int other = split_new(w);
    if (other < 0)
        return too_divergent(w, i, first_lane(away));
    w->splits[node].children++;
    w->splits[other] = *s;
    w->splits[other].mask = away;
    w->splits[other].pc = pc;
    s->mask &= ~away;
    return true;
}

static void lane_masked(struct warp *w, const struct insn *i, uint32_t active)
{
    struct insn aside = *i;
    aside.dst = 0;
    aside.fn(w->file, &aside);
    w->block->worker->machine->lanes->blend(slot(w, i->dst), w->file, active, i->flags & F_DST64 ? 8 : 4);
}

static void put_u32(struct warp *w, uint32_t to, uint32_t active, uint32_t value)
{
    uint32_t *p = (uint32_t *)slot(w, to);
    for (int l = 0; l < WARP_LANES; l++)
        p[l] = active >> l & 1 ? value : p[l];
}

static void read_clock(struct warp *w, const struct insn *i, uint32_t active)
{
    struct machine *m = w->block->worker->machine;
    const bool timer = i->op == SR_GLOBALTIMER || i->op == SR_GLOBALTIMER_LO || i->op == SR_GLOBALTIMER_HI;
    const uint64_t t = m->clock_base + (w->instructions + ++w->clock_reads) * m->clock_rate, value = timer ? m->timer_base + t : t;
    if (i->flags & F_DST64) {
        uint64_t *p = (uint64_t *)slot(w, i->dst);
        for (int l = 0; l < WARP_LANES; l++)
            p[l] = active >> l & 1 ? value : p[l];
    } else {
        put_u32(w, i->dst, active, (uint32_t)(i->op == SR_CLOCK_HI || i->op == SR_GLOBALTIMER_HI ? value >> 32 : value));
    }
}

static void is_space(struct warp *w, const struct insn *i, uint32_t active)
{
    const uint64_t *a = (const uint64_t *)slot(w, i->a);
    uint32_t *p = (uint32_t *)slot(w, i->dst);
    for (int l = 0; l < WARP_LANES; l++) {
        const uint64_t window = a[l] & ~(WINDOW_SIZE - 1);
        uint64_t offset = a[l] & (WINDOW_SIZE - 1);
        const bool anyones = window == SHARED_WINDOW;
        const bool shared = anyones && (i->op || cluster_home(w->block, &offset) == w->block), local = window == LOCAL_WINDOW, param = window == PARAM_WINDOW;
        const bool yes = i->space == SPACE_SHARED ? shared : i->space == SPACE_LOCAL ? local : i->space == SPACE_PARAM ? param
                         : i->space == SPACE_CONST ? window == MODULE_WINDOW : !anyones && !local && !param;
        if (active >> l & 1)
            p[l] = yes ? ~0u : 0;
    }
}

/* Something takes what a load brought: later loads wait for that one. */
static void note_use(struct warp *w, const struct insn *i)
{
    const uint32_t sources[] = {i->a, i->b, i->c, i->d}, *reads;
    for (int n = 0; n < 4; n++) {
        const uint32_t depth = w->depths[sources[n] / 128];
        w->used = depth > w->used ? depth : w->used;
    }
    if (i->kind == K_ST) {
        const uint32_t *list = w->block->worker->machine->module->lists + i->aux;
        for (unsigned v = 1; v < i->vec; v++)
            w->used = w->depths[list[v] / 128] > w->used ? w->depths[list[v] / 128] : w->used;
    }
    const uint32_t count = i->kind == K_MATRIX ? matrix_reads(w->block->worker->machine->module->lists, i, &reads) : 0;
    for (uint32_t v = 0; v < count; v++)
        w->used = w->depths[reads[v] / 128] > w->used ? w->depths[reads[v] / 128] : w->used;
}

/* ---- one split ---- */
static bool access_slowly(struct warp *w, const struct insn *i, uint32_t active)
{
    return w->block->worker->finding.kind == PTX_CLEAN && (i->kind == K_LD ? memory_load(w, i, active) : memory_store(w, i, active));
}
static bool access_by(struct warp *w, const struct insn *i, uint32_t active)
{
    w->bases_known = 0;
    if (w->block->worker->depth)
        depth_access(w, i, active);
    return (active == FULL_MASK && i->access && !w->block->worker->exploring && i->access(w, i)) || access_slowly(w, i, active);
}

static void enter_block(struct warp *w, const struct insn *i, uint32_t lanes, int64_t *budget)
{
    struct worker *k = w->block->worker;
    const uint64_t total = (uint64_t)i->imm;
    k->block_threads[i->aux] += lanes;
    k->block_warps[i->aux]++;
    k->unreported += total * lanes;
    w->instructions += total;
    w->waited = i->op ? w->used : w->waited;
    *budget -= (int64_t)total + 1;
}

/* What all living lanes do, until a switch is needed; NULL: a finding. `full`: all 32 of them; `alone`: they meet no others. */
static __attribute__((noinline)) const struct insn *together(struct warp *w, const struct insn *i, bool full, bool alone, int64_t *budget)
{
    char *const file = w->file;
    w->bases_known = 0;
    for (;;) {
        for (; i->path == PATH_LANE; i++)
            i->fn(file, i);
        if (i->path == PATH_SWITCH || (i->path != PATH_LANE_USES && !full))
            return i;
        if (i->path == PATH_BRANCH) {
            const uint32_t p = i->pred ? warp_pack(w, i->pred) ^ (i->flags & F_PRED_NOT ? FULL_MASK : 0) : FULL_MASK;
            if (p && p != FULL_MASK)
                return i;
            i = p ? w->block->worker->machine->module->code + i->aux : i + 1;
            continue;
        }
        if (i->path == PATH_ENTER) {
            if (!alone || *budget <= i->imm)
                return i;
            enter_block(w, i++, WARP_LANES, budget);
            continue;
        }
        if (i->flags & F_USES_LOADED)
            note_use(w, i);
        if (i->path == PATH_ACCESS) {
            if (w->block->worker->depth)
                depth_access(w, i, FULL_MASK);
            if (!i->access(w, i) && !access_slowly(w, i, FULL_MASK))
                return NULL;
            i++;
        } else if (i->path == PATH_SHUFFLE) {
            i->fn(file, i);
            w->block->worker->counts.shuffles += i->vec;
            i += i->size;
        } else {
            i->fn(file, i);
            i++;
        }
    }
}

#define POLL_COST 3000           /* of the budget: it may be polling for what another warp, or a lane that waits for it, has to do */
enum next { NEXT_SPLIT, NEXT_FAULT, NEXT_SLICE };

static enum next split_run(struct warp *w, int current, int64_t *budget)
{
    struct worker *k = w->block->worker;
    struct machine *m = k->machine;
    const struct insn *code = m->module->code, *i = code + w->splits[current].pc;
    struct split *s = &w->splits[current];
    char *file = w->file;
    uint32_t mask = s->mask, lanes = (uint32_t)__builtin_popcount(mask);
    const uint32_t full = k->exploring ? 0 : FULL_MASK;   /* lanes that may be served all at once */
    bool whole = mask == w->alive;
#define FAIL_UNLESS(x)         \
    do {                       \
        if (!(x))              \
            return NEXT_FAULT; \
    } while (0)
    const struct insn *meet = NULL;   /* behind a short branch that `behind` took */
    uint32_t behind = 0;
    for (;;) {
        if (whole)
            FAIL_UNLESS(i = together(w, i, mask == full, s->parent < 0, budget));
        const uint32_t active = warp_active(w, i, mask);
        if (i->flags & F_USES_LOADED)
            note_use(w, i);
        switch ((enum insn_kind)i->kind) {
        case K_LANE:
        case K_LANE_PREDICATED:
            if (active == mask && whole)
                i->fn(file, i);
            else if (active)
                lane_masked(w, i, active);
            i++;
            continue;
        case K_ENTER: {
            const uint32_t pc = (uint32_t)(i - code);
            if (i == meet) {
                mask |= behind;
                lanes = (uint32_t)__builtin_popcount(mask);
                whole = mask == w->alive;
                meet = NULL;
            }
            if (s->parent >= 0 && w->splits[s->parent].pc == pc && w->splits[s->parent].depth == s->depth) {
                w->splits[s->parent].mask |= mask;
                s->state = SPLIT_FREE;
                child_gone(w, s->parent);
                return NEXT_SPLIT;
            }
            enter_block(w, i, lanes, budget);
            i++;
            if (*budget < 0 && !meet) {
                s->pc = pc + 1;
                return NEXT_SLICE;
            }
            continue;
        }
        case K_BRA:
            if (active == mask) {
                i = code + i->aux;
            } else if (!active) {
                i++;
            } else if (i->flags & F_SHORT) {
                meet = code + i->aux;
                behind = active;
                mask &= ~active;
                lanes = (uint32_t)__builtin_popcount(mask);
                whole = false;
                i++;
            } else {
                FAIL_UNLESS(diverge(w, current, i, active, i->aux, i->aux2));
                mask = s->mask;
                lanes = (uint32_t)__builtin_popcount(mask);
                whole = false;
                i++;
            }
            continue;
        case K_BRX: {
            uint32_t rest = active;
            const uint32_t *index = (const uint32_t *)(file + i->a), *targets = m->module->lists + i->aux;
            while (rest) {
                const uint32_t n = index[first_lane(rest)];
                uint32_t same = 0;
                for (uint32_t more = rest; more; more &= more - 1)
                    same |= index[first_lane(more)] == n ? 1u << first_lane(more) : 0;
                if (n >= i->imm)
                    return fault(w, i, first_lane(rest), PTX_TRAP, "branches to entry %u of a table of %lld", n, (long long)i->imm), NEXT_FAULT;
                if (same == s->mask) {
                    s->pc = targets[n];
                    break;
                }
                FAIL_UNLESS(diverge(w, current, i, same, targets[n], i->aux2));
                rest &= ~same;
            }
            if (!rest)
                s->pc = (uint32_t)(i - code) + 1;
            i = code + s->pc;
            mask = s->mask;
            lanes = (uint32_t)__builtin_popcount(mask);
            whole = mask == w->alive;
            continue;
        }
        case K_CALL:
            if (active != mask) { /* who does not call goes on, and waits behind the call */
                if (active) {
                    FAIL_UNLESS(diverge(w, current, i, mask & ~active, (uint32_t)(i - code) + 1, (uint32_t)(i - code) + 1));
                    mask = s->mask;
                    lanes = (uint32_t)__builtin_popcount(mask);
                    whole = false;
                } else {
                    i++;
                }
                continue;
            }
            {
                uint32_t pc;
                FAIL_UNLESS(call_enter(w, current, i, (uint32_t)i->imm, &pc));
                i = code + pc;
            }
            continue;
        case K_CALL_REG: {
            uint32_t same = 0, pc = (uint32_t)(i - code);
            if (!active) {
                i++;
                continue;
            }
            const int function = call_target(w, i, active, &same);
            FAIL_UNLESS(function >= 0);
            if (same != mask) { /* the others come back to this call, and wait behind it */
                FAIL_UNLESS(diverge(w, current, i, mask & ~same, pc, pc + 1));
                mask = s->mask;
                lanes = (uint32_t)__builtin_popcount(mask);
                whole = false;
            }
            FAIL_UNLESS(call_enter(w, current, i, (uint32_t)function, &pc));
            i = code + pc;
            continue;
        }
        case K_RET:
            BUG_ON(!s->depth);
            i = code + call_leave(w, current, i);
            continue;
        case K_EXIT:
            w->alive &= ~active;
            s->mask = mask &= ~active;
            if (!mask) {
                s->state = SPLIT_FREE;
                child_gone(w, s->parent);
                return NEXT_SPLIT;
            }
            lanes = (uint32_t)__builtin_popcount(mask);
            whole = mask == w->alive;
            i++;
            continue;
        case K_TRAP:
            if (active)
                return fault(w, i, first_lane(active), PTX_TRAP, "executes %s", ptx_name(m->module, m->module->stmts[i->stmt].opcode)), NEXT_FAULT;
            i++;
            continue;
        case K_LD:
            FAIL_UNLESS(!active || access_by(w, i, active));
            *budget -= i->flags & F_VOLATILE ? POLL_COST : 0;
            i++;
            continue;
        case K_ST:
            FAIL_UNLESS(!active || access_by(w, i, active));
            i++;
            continue;
        case K_ATOM:
            if (k->depth)
                depth_access(w, i, active);
            FAIL_UNLESS(!active || memory_atomic(w, i, active));
            *budget -= i->dst ? POLL_COST : 0;
            i++;
            continue;
        case K_PREFETCH:
            FAIL_UNLESS(!active || memory_prefetch(w, i, active));
            i++;
            continue;
        case K_CP_ASYNC:
            if (k->depth)
                depth_access(w, i, active);
            FAIL_UNLESS(!active || copy_issue(w, i, active));
            i++;
            continue;
        case K_CP_COMMIT:
            copy_commit(w, active);
            i++;
            continue;
        case K_CP_WAIT:
            if (k->depth)
                depth_access(w, i, active);
            FAIL_UNLESS(!active || copy_wait(w, i, active, i->imm));
            i++;
            continue;
        case K_BAR:
            if (!active) {
                i++;
                continue;
            }
            if (active != mask)
                return fault(w, i, first_lane(active), PTX_BARRIER, "is at a barrier that other threads of its warp skip"), NEXT_FAULT;
            s->state = SPLIT_BARRIER;
            s->pc = (uint32_t)(i - code);
            return NEXT_SPLIT;
        case K_SHFL:
        case K_VOTE:
        case K_MATCH:
        case K_REDUX:
        case K_WARP_BAR:
        case K_MATRIX:
            if (active) {
                const int r = warp_sync(w, current, i, active);
                if (r != 1)
                    return r < 0 ? NEXT_FAULT : NEXT_SPLIT;
            }
            i++;
            continue;
        case K_ACTIVEMASK:
            if (k->exploring && !meet && schedule_part_at(w, current, (uint32_t)(i - code))) {      /* what the code asks for, it must not count on */
                mask = s->mask;
                lanes = (uint32_t)__builtin_popcount(mask);
                whole = false;
            }
            put_u32(w, i->dst, active & mask, active & mask);
            i++;
            continue;
        case K_BULK:
            FAIL_UNLESS(!active || bulk_issue(w, i, active));
            i++;
            continue;
        case K_BULK_COMMIT:
            bulk_commit(w, active);
            i++;
            continue;
        case K_BULK_WAIT:
            FAIL_UNLESS(!active || bulk_wait(w, i, active));
            i++;
            continue;
        case K_ASYNC_STORE:
            FAIL_UNLESS(!active || async_store(w, i, active));
            i++;
            continue;
        case K_CP_ARRIVE:
            FAIL_UNLESS(!active || copy_arrive(w, i, active));
            i++;
            continue;
        case K_MBARRIER: {
            const int in_vain = active ? mbarrier_execute(w, i, active, current) : 0;
            FAIL_UNLESS(in_vain >= 0);
            i++;
            if (in_vain) {
                s->pc = (uint32_t)(i - code);
                return NEXT_SLICE;
            }
            continue;
        }
        case K_CLUSTER_ARRIVE:
            FAIL_UNLESS(!active || cluster_arrive(w, i, active));
            i++;
            continue;
        case K_CLUSTER_WAIT: {
            const int passed = active ? cluster_wait(w, i, active) : 1;
            FAIL_UNLESS(passed >= 0);
            if (!passed) {
                s->pc = (uint32_t)(i - code);
                wait_in_vain(w, current, i, w->block->cluster->phase);
                return NEXT_SLICE;
            }
            s->waits_pc = 0;
            i++;
            continue;
        }
        case K_MAPA:
            cluster_map(w, i, active);
            i++;
            continue;
        case K_FENCE:
            if (active && i->op == FENCE_GRID) {
                w->waited_grid |= active;
                atomic_store(&m->any_waited_grid, true);
            } else if (i->op == FENCE_TRIGGER) {
                race_steps_trigger(w, active);
            } else if (active && i->op & FENCE_ASYNC) {
                proxy_fence(w, i->op);
            } else if (active && i->op) {
                race_fence(w, active, i->op == FENCE_BLOCK ? ORDER_BLOCK : ORDER_ALL);
            }
            i++;
            continue;
        case K_CLOCK:
            read_clock(w, i, active);
            i++;
            continue;
        case K_ISSPACE:
            is_space(w, i, active);
            i++;
            continue;
        case K_MODE:
            set_csr((unsigned)i->imm);
            i++;
            continue;
        case K_NOP:
            i++;
            continue;
        case K_UNSUPPORTED:
            if (active)
                return fault(w, i, first_lane(active), PTX_UNSUPPORTED, "executes %s, which the emulator does not know",
                             ptx_name(m->module, m->module->stmts[i->stmt].opcode)), NEXT_FAULT;
            i++;
            continue;
        case K_MARK:
            w->written[i->aux] |= active;
            i++;
            continue;
        case K_CHECK:
            if (active & ~w->written[i->aux])
                return fault(w, i, first_lane(active & ~w->written[i->aux]), PTX_UNINITIALISED,
                             "uses a register that it never wrote, in %s", ptx_name(m->module, m->module->stmts[i->stmt].opcode)), NEXT_FAULT;
            i++;
            continue;
        case K_END:
            break;
        }
        BUG_ON(true);
    }
}

enum stop warp_run(struct warp *w, int64_t budget)
{
    const struct ptx_module *m = w->block->worker->machine->module;
    set_csr(m->home_ftz ? 0x1f80 | 0x8040 : 0x1f80);
    enum stop stop = STOP_SLICE;
    const bool exploring = w->block->worker->exploring;
    const uint64_t before = w->instructions;
    const int64_t all = budget;
    while (budget >= 0) {
        /* the newest runnable split first; after a slice another one, for lanes that spin */
        int n = exploring ? schedule_pick(w) : w->current;
        if (n < 0 || w->splits[n].state != SPLIT_RUN)
            for (n = w->split_count - 1; n >= 0 && w->splits[n].state != SPLIT_RUN; n--)
                ;
        if (n < 0) {
            while (w->split_count && w->splits[w->split_count - 1].state == SPLIT_FREE)
                w->split_count--;
            stop = warp_settle(w);
            if (stop != STOP_SLICE)
                break;
            continue;
        }
        w->current = n;
        if (exploring)
            schedule_part(w, n);
        const enum next next = split_run(w, n, &budget);
        if (next == NEXT_FAULT) {
            stop = STOP_FAULT;
            break;
        }
        if (next == NEXT_SLICE) {
            for (int turn = 1; turn < w->split_count; turn++) {
                const int other = (n + turn) % w->split_count;
                if (w->splits[other].state == SPLIT_RUN) {
                    w->current = other;
                    break;
                }
            }
            splits_wait(w, (uint64_t)(all - budget));
            break;
        }
        w->current = -1;
    }
    if (exploring)
        w->block->worker->explored += w->instructions - before;
    set_csr(0x1f80);
    return stop;
}

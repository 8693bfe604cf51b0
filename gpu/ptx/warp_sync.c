/*
 * Instructions that lanes of a warp do together (shuffles, votes, barriers of the warp), and what becomes of a warp of which no lane
 * runs: all at one barrier, done, or stuck.
 *
 * A split that gets to such an instruction before the lanes its mask names waits there; who comes last does it for all.
 */
#include "gpu/ptx/machine.h"

static int sync_unnamed(struct warp *w, const struct insn *i, int lane, uint32_t named)
{
    fault(w, i, lane, PTX_BARRIER, "takes part in %s although its mask %08x does not name it",
          ptx_name(w->block->worker->machine->module, w->block->worker->machine->module->stmts[i->stmt].opcode), named);
    return -1;
}

/* Lanes of a split that waits at this instruction, or, for a barrier of the warp, at another one with the same mask. */
static uint32_t waits_too(struct warp *w, const struct insn *i, uint32_t named, const struct split *s)
{
    const struct insn *code = w->block->worker->machine->module->code, *there = &code[s->pc];
    if (s->state != SPLIT_SYNC || (there != i && (there->kind != K_WARP_BAR || i->kind != K_WARP_BAR || there->op || i->op)))
        return 0;
    const uint32_t active = warp_active(w, there, s->mask);
    return there == i || ((const uint32_t *)slot(w, there->d))[first_lane(active)] == named ? active : 0;
}

/* Lets the other splits go on that waited with lanes of `done`, and this one like any other: 2. Nobody waited: 1. */
static int sync_done(struct warp *w, int current, const struct insn *i, uint32_t named, uint32_t active, uint32_t done)
{
    if (done == active)
        return 1;
    for (int n = 0; n < w->split_count; n++)
        if (n != current && waits_too(w, i, named, &w->splits[n]) & done) {
            w->splits[n].state = SPLIT_RUN;
            w->splits[n].pc++;
        }
    w->splits[current].state = SPLIT_RUN;
    w->splits[current].pc = (uint32_t)(i - w->block->worker->machine->module->code) + 1;
    splits_merge(w);
    return 2;
}

/* Lanes of this split and of those that wait at this very instruction. */
static uint32_t sync_here(struct warp *w, int current, const struct insn *i, uint32_t active)
{
    const struct insn *code = w->block->worker->machine->module->code;
    for (int n = 0; n < w->split_count; n++)
        if (n != current && w->splits[n].state == SPLIT_SYNC && &code[w->splits[n].pc] == i)
            active |= warp_active(w, i, w->splits[n].mask);
    return active;
}

/*
 * Lanes at one instruction with masks of their own, such as tiles of a warp: each mask's lanes are a group by themselves. What goes on
 * together must be complete together: `set` grows by what its lanes name and by the splits that those are in.
 */
static int sync_groups(struct warp *w, int current, const struct insn *i, uint32_t active)
{
    const uint32_t *masks = (const uint32_t *)slot(w, i->d), here = sync_here(w, current, i, active);
    const struct insn *code = w->block->worker->machine->module->code;
    uint32_t set = active;
    for (uint32_t more = 0; more != set;) {
        set |= more;
        more = set;
        for (uint32_t rest = set; rest; rest &= rest - 1) {
            const int lane = first_lane(rest);
            const uint32_t need = masks[lane] & w->alive;
            if (!(masks[lane] >> lane & 1))
                return sync_unnamed(w, i, lane, masks[lane]);
            if (need & ~here)
                return 0;
            more |= need;
        }
        for (int n = 0; n < w->split_count; n++)
            if (n != current && w->splits[n].state == SPLIT_SYNC && &code[w->splits[n].pc] == i && warp_active(w, i, w->splits[n].mask) & more)
                more |= warp_active(w, i, w->splits[n].mask);
    }
    for (uint32_t rest = set; rest;) {
        uint32_t group = 0;
        for (int l = 0; l < WARP_LANES; l++)
            group |= (uint32_t)(masks[l] == masks[first_lane(rest)]) << l;
        if (!sync_execute(w, i, group & set))
            return -1;
        lane_meet(w, group & set);
        rest &= ~group;
    }
    return sync_done(w, current, i, 0, active, set);
}

static bool masks_differ(struct warp *w, const struct insn *i, uint32_t lanes, uint32_t named)
{
    const uint32_t *masks = (const uint32_t *)slot(w, i->d);
    uint32_t other = 0;
    for (int l = 0; l < WARP_LANES; l++)
        other |= (uint32_t)(masks[l] != named) << l;
    return other & lanes;
}

/*
 * 1: done by `active`; 2: done by others too, this split goes on like any other; 0: wait for the other lanes named; -1: fault. Lanes
 * that wait at the same instruction join in.
 */
int warp_sync(struct warp *w, int current, const struct insn *i, uint32_t active)
{
    const uint32_t pc = (uint32_t)(i - w->block->worker->machine->module->code);
    const uint32_t named = ((const uint32_t *)slot(w, i->d))[first_lane(active)], need = named & w->alive;
    uint32_t here = active;
    int r = 1;
    const bool comes = i->kind == K_WARP_BAR && i->op == WARP_COMES;
    if (comes && active != w->splits[current].mask)
        return fault(w, i, first_lane(active), PTX_BARRIER, "is at a cluster barrier (.aligned) that other threads of its warp (mask %08x) skip",
                     w->splits[current].mask & ~active), -1;
    if (named != FULL_MASK && masks_differ(w, i, sync_here(w, current, i, active), named)) {
        r = sync_groups(w, current, i, active);
    } else if (active & ~named) {
        return sync_unnamed(w, i, first_lane(active & ~named), named);
    } else {
        for (int n = 0; n < w->split_count; n++)
            here |= n != current ? waits_too(w, i, named, &w->splits[n]) : 0;
        r = (here & need) != need ? 0 : sync_execute(w, i, here) ? 1 : -1;
        if (r > 0) {
            if (!comes)
                lane_meet(w, here);
            r = sync_done(w, current, i, named, active, here);
        }
    }
    if (!r) {
        w->splits[current].state = SPLIT_SYNC;
        w->splits[current].pc = pc;
    }
    return r;
}

/* Nothing runs: all at one barrier, done, or stuck. */
enum stop warp_settle(struct warp *w)
{
    const struct insn *code = w->block->worker->machine->module->code;
    uint32_t at_barrier = 0;
    int first = -1, stuck = -1;
    bool together = true;
    for (int n = 0; n < w->split_count; n++) {
        const struct split *s = &w->splits[n];
        if (s->state == SPLIT_BARRIER) {
            at_barrier |= s->mask;
            if (first >= 0 && s->pc != w->splits[first].pc)
                together &= code[s->pc].type && code[w->splits[first].pc].type;
            first = first < 0 ? n : first;
        }
        if (s->state == SPLIT_SYNC)
            stuck = n;
    }
    if (!w->alive) {
        w->state = WARP_DONE;
        return STOP_DONE;
    }
    if (first >= 0 && at_barrier == w->alive && together)
        return barrier_arrive(w) ? STOP_WAIT : STOP_FAULT;
    if (stuck >= 0) { /* lanes it waited for may have exited meanwhile */
        const struct insn *i = &code[w->splits[stuck].pc];
        const uint32_t active = warp_active(w, i, w->splits[stuck].mask);
        const uint32_t named = ((const uint32_t *)slot(w, i->d))[first_lane(active)];
        w->splits[stuck].state = SPLIT_RUN;
        const int r = warp_sync(w, stuck, i, active);
        if (r > 0) {
            w->splits[stuck].pc += r == 1;
            return STOP_SLICE;
        }
        if (!r && splits_let_go(w)) /* they may be waiting where lanes meet, and have the same barrier elsewhere */
            return STOP_SLICE;
        if (!r)
            fault(w, i, first_lane(active), PTX_BARRIER, "waits for lanes (mask %08x) that never get to the same instruction",
                  named & w->alive & ~active);
        return STOP_FAULT;
    }
    BUG_ON(first < 0);
    const struct insn *i = &code[w->splits[first].pc];
    if (i->type ? splits_let_go(w) : splits_let_leave(w))
        return STOP_SLICE;
    fault(w, i, first_lane(w->splits[first].mask), PTX_BARRIER, "is at a barrier that other threads of its warp (mask %08x) do not reach%s",
          w->alive & ~w->splits[first].mask, at_barrier == w->alive ? " at the same place" : "");
    return STOP_FAULT;
}

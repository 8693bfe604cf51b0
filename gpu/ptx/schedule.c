/*
 * In which order warps and lanes go, where that is explored; and how lanes that wait for others get on in any case.
 *
 * Lockstep, the usual schedule, keeps lanes together as long as the code does. An exploring one parts the lanes of a warp at
 * basic blocks: at random, in halves, one by one, as drawn for each warp; the parts then take turns of a few blocks of code, in
 * any order, until an instruction or a barrier makes them meet. A card may do the same. So code that is right only if lanes go
 * together meets a race or ends in another result. It costs more, so only blocks drawn by lot are explored, up to a number
 * of instructions; the others run in lockstep.
 */
#include "gpu/ptx/machine.h"

#include <string.h>

#define MOST_EXPLORED (UINT64_C(4) << 20)    /* warp instructions of a host thread in one launch */
#define FIRST_BLOCKS 2                       /* are always explored */
#define WAIT_INSTRUCTIONS 200000             /* that lanes wait for others of their warp before they go on alone */

uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

void schedule_block(struct block *b)
{
    struct worker *k = b->worker;
    k->exploring = k->machine->schedule == PTX_EXPLORE && k->explored < MOST_EXPLORED && (b->number < FIRST_BLOCKS || draw(&k->random) & 1);
    static const uint8_t parts[8] = {1, 2, 2, 2, 3, 4, 8, 32};
    for (uint32_t n = 0; n < b->warp_count; n++) {
        struct warp *w = &b->warps[n];
        w->most_parts = k->exploring ? parts[draw(&k->random) & 7] : 1;
        w->parting = (uint8_t)(draw(&k->random) & 3);
        if (k->exploring && !w->lanes && k->machine->check_races)
            w->lanes = lane_shadow_new();
        lane_start(w);
    }
}

int64_t schedule_slice(struct worker *k, int64_t usual)
{
    if (!k->exploring)
        return usual;
    if (k->explored >= MOST_EXPLORED)
        k->exploring = false;
    const uint64_t r = draw(&k->random);
    return (int64_t)(r >> 8) & ((2 << (r & 7)) - 1);
}

/* Which lanes of `mask` go another way: some, not all. */
static uint32_t some_lanes(struct worker *k, uint32_t mask, uint8_t parting)
{
    const uint64_t r = draw(&k->random);
    const uint32_t one = 1u << (r >> 59);
    uint32_t away = parting == 0 ? (uint32_t)r : parting == 1 ? (r >> 40 & 1 ? 0xffff0000u : 0x0000ffffu) : parting == 2 ? one : 0x55555555u << (r >> 40 & 1);
    away &= mask;
    if (!away || away == mask)
        away = mask & (uint32_t)r;
    return away == mask ? 0 : away;
}

/* Some of its lanes become a split of their own, at the same place. False: they cannot. */
static bool part(struct warp *w, int current)
{
    struct split *s = &w->splits[current];
    int free_at = -1;
    for (int n = 0; n < w->split_count; n++)
        free_at = w->splits[n].state == SPLIT_FREE ? n : free_at;
    if (free_at < 0 && w->split_count == MAX_SPLITS)
        return false;
    const uint32_t away = some_lanes(w->block->worker, s->mask, w->parting);
    if (!away)
        return false;
    const int other = free_at >= 0 ? free_at : w->split_count++;
    w->splits[other] = *s;
    w->splits[other].mask = away;
    s->mask &= ~away;
    if (s->parent >= 0)
        w->splits[s->parent].children++;
    return true;
}

void schedule_part(struct warp *w, int current)
{
    int running = 0;
    for (int n = 0; n < w->split_count; n++)
        running += w->splits[n].state != SPLIT_FREE && w->splits[n].state != SPLIT_NODE;
    if (running < w->most_parts && w->splits[current].state == SPLIT_RUN)
        (void)part(w, current);
}

bool schedule_part_at(struct warp *w, int current, uint32_t pc)
{
    if (!(draw(&w->block->worker->random) & 7))
        return false;
    w->splits[current].pc = pc;
    return part(w, current);
}

int schedule_pick(struct warp *w)
{
    int ready[MAX_SPLITS], count = 0;
    for (int n = 0; n < w->split_count; n++)
        if (w->splits[n].state == SPLIT_RUN)
            ready[count++] = n;
    return count ? ready[draw(&w->block->worker->random) % (unsigned)count] : -1;
}

static bool same_way(const struct split *a, const struct split *b)
{
    return a->state == SPLIT_RUN && b->state == SPLIT_RUN && a->pc == b->pc && a->parent == b->parent && a->depth == b->depth &&
           !memcmp(a->calls, b->calls, a->depth * sizeof *a->calls);
}

void splits_merge(struct warp *w)
{
    for (int n = 0; n < w->split_count; n++)
        for (int other = n + 1; other < w->split_count && w->splits[n].state == SPLIT_RUN; other++)
            if (same_way(&w->splits[n], &w->splits[other])) {
                w->splits[n].mask |= w->splits[other].mask;
                w->splits[other].state = SPLIT_FREE;
                if (w->splits[n].parent >= 0)
                    w->splits[w->splits[n].parent].children--;
            }
}

/* The lanes that have come to where they meet go on without the others, who meet there later. */
static bool let_go(struct warp *w, int node)
{
    int at = -1;
    for (int n = 0; n < w->split_count && at < 0; n++)
        at = w->splits[n].state == SPLIT_FREE ? n : at;
    if (at < 0 && w->split_count == MAX_SPLITS)
        return false;
    at = at < 0 ? w->split_count++ : at;
    struct split *n = &w->splits[node];
    w->splits[at] = *n;
    w->splits[at].state = SPLIT_RUN;
    w->splits[at].children = w->splits[at].waited = 0;
    n->mask = n->waited = 0;
    if (n->parent >= 0)
        w->splits[n->parent].children++;
    return true;
}

bool splits_let_go(struct warp *w)
{
    bool any = false;
    for (int n = 0; n < w->split_count; n++)
        if (w->splits[n].state == SPLIT_NODE && w->splits[n].mask)
            any |= let_go(w, n);
    return any;
}

/* Does the code there do nothing but end the thread? */
static bool leaves(const struct insn *code, uint32_t pc)
{
    for (int step = 0; step < 16; step++) {
        const struct insn *i = &code[pc];
        if (i->kind == K_EXIT && !i->pred)
            return true;
        if (i->kind == K_BRA && !i->pred)
            pc = i->aux;
        else if (i->kind == K_ENTER || i->kind == K_NOP)
            pc++;
        else
            return false;
    }
    return false;
}

/* `if (beyond) return;` is a branch to where lanes meet: who waits there only to leave has left, as a barrier of the others sees it. */
bool splits_let_leave(struct warp *w)
{
    const struct insn *code = w->block->worker->machine->module->code;
    bool any = false;
    for (int n = 0; n < w->split_count; n++)
        if (w->splits[n].state == SPLIT_NODE && w->splits[n].mask && !w->splits[n].depth && leaves(code, w->splits[n].pc))
            any |= let_go(w, n);
    return any;
}

void splits_wait(struct warp *w, uint64_t instructions)
{
    for (int n = 0; n < w->split_count; n++) {
        struct split *s = &w->splits[n];
        if (s->state != SPLIT_NODE || !s->mask)
            continue;
        s->waited += (uint32_t)instructions;
        if (s->waited > WAIT_INSTRUCTIONS || (w->block->worker->exploring && !(draw(&w->block->worker->random) & 31)))
            (void)let_go(w, n);
    }
}

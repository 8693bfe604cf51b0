/*
 * Calls: parameters between frames, targets in registers, functions that call themselves.
 *
 * Each function has one part of the register file and one stretch of the thread's frame. A function that is called while it is
 * active already has both saved for the lanes that call, and put back by each lane as it returns; lanes that did not call keep theirs.
 * A function's address is its number in a window of its own; only calls understand it.
 */
#include "gpu/ptx/machine.h"

#include <string.h>

#define MOST_SAVED_BYTES ((size_t)16 << 20)   /* of a warp */

struct saved { uint8_t *registers, *frame, *init; uint32_t lanes, function; size_t bytes; };

static uint8_t *frame_of(const struct warp *w, int lane, uint8_t **init, uint64_t *at)
{
    const struct block *b = w->block;
    *at = ((uint64_t)w->id * WARP_LANES + (uint64_t)lane) * b->worker->machine->frame_bytes;
    *init = b->local_init;
    return b->local + *at;
}

static bool bit_get(const uint8_t *bits, uint64_t at) { return bits[at >> 3] >> (at & 7) & 1; }
static void bit_put(uint8_t *bits, uint64_t at, bool value)
{
    const uint8_t bit = (uint8_t)(1u << (at & 7));
    bits[at >> 3] = (uint8_t)(value ? bits[at >> 3] | bit : bits[at >> 3] & ~bit);
}

/* Items of a list: to, from, bytes; within each lane's frame. */
static void copy_items(struct warp *w, const uint32_t *list, unsigned count, uint32_t mask)
{
    for (unsigned n = 0; n < count; n++, list += 3)
        for (uint32_t rest = mask; rest; rest &= rest - 1) {
            uint8_t *init;
            uint64_t at;
            uint8_t *frame = frame_of(w, first_lane(rest), &init, &at);
            memmove(frame + list[0], frame + list[1], list[2]);
            for (uint32_t i = 0; i < list[2]; i++)
                bit_put(init, at + list[0] + i, bit_get(init, at + list[1] + i));
        }
}

/* ---- saved activations ---- */
/* code_end is where the last block begins: its return follows. */
static bool is_in(const struct function *f, uint32_t pc) { return pc >= f->code_first && pc <= f->code_end + 1; }

static bool is_active(const struct split *s, const struct function *f, uint32_t pc)
{
    bool active = is_in(f, pc);
    for (unsigned n = 0; n < s->depth; n++)
        active |= is_in(f, s->calls[n] - 1);
    return active;
}

static bool save(struct warp *w, struct split *s, const struct insn *i, uint32_t mask, uint32_t function)
{
    const struct function *f = &w->block->worker->machine->module->functions[function];
    const size_t frame = f->local_bytes, bytes = f->file_bytes + frame * WARP_LANES * 2;
    uint32_t n = 0;
    while (n < w->saved_count && w->saved[n].lanes)
        n++;
    if (w->saved_bytes + bytes > MOST_SAVED_BYTES)
        return fault(w, i, first_lane(mask), PTX_RESOURCE, "calls functions that call themselves with more in their frames than the emulator can keep");
    if (n == w->saved_count) {
        w->saved = xrealloc(w->saved, (w->saved_count + 1) * sizeof *w->saved);
        w->saved_count++;
    }
    struct saved *x = &w->saved[n];
    *x = (struct saved){.registers = xalloc(f->file_bytes + 1), .frame = xalloc(frame * WARP_LANES + 1), .init = xalloc(frame * WARP_LANES + 1),
                        .lanes = mask, .function = function, .bytes = bytes};
    w->saved_bytes += bytes;
    memcpy(x->registers, w->file + f->file_base, f->file_bytes);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        uint8_t *init;
        uint64_t at;
        memcpy(x->frame + (size_t)lane * frame, frame_of(w, lane, &init, &at) + f->frame_base, frame);
        for (size_t k = 0; k < frame; k++)
            x->init[(size_t)lane * frame + k] = bit_get(init, at + f->frame_base + k);
    }
    s->saves[s->depth] = (uint16_t)(n + 1);
    return true;
}

/* Byte k of the frame holds what the call returns. */
static bool is_result(const struct function *f, const uint32_t *results, unsigned count, size_t k)
{
    for (unsigned n = 0; n < count; n++)
        if (f->frame_base + k - results[3 * n] < results[3 * n + 2])
            return true;
    return false;
}

static void saved_free(struct warp *w, struct saved *x)
{
    w->saved_bytes -= x->bytes;
    free(x->registers), free(x->frame), free(x->init);
    *x = (struct saved){0};
}

static void restore(struct warp *w, uint32_t number, uint32_t mask, const uint32_t *results, unsigned count)
{
    const struct ptx_module *m = w->block->worker->machine->module;
    struct saved *x = &w->saved[number];
    const struct function *f = &m->functions[x->function];
    const size_t frame = f->local_bytes;
    for (uint32_t at = f->file_base; at < f->file_base + f->file_bytes;) {
        const unsigned size = m->wides[at / 128] ? 8 : 4;
        for (uint32_t rest = mask; rest; rest &= rest - 1) {
            const size_t lane = (size_t)first_lane(rest);
            memcpy(w->file + at + lane * size, x->registers + (at - f->file_base) + lane * size, size);
        }
        at += size * WARP_LANES;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        uint8_t *init;
        uint64_t at;
        uint8_t *to = frame_of(w, lane, &init, &at) + f->frame_base;
        for (size_t k = 0; k < frame; k++)
            if (!is_result(f, results, count, k)) {
                to[k] = x->frame[(size_t)lane * frame + k];
                bit_put(init, at + f->frame_base + k, x->init[(size_t)lane * frame + k]);
            }
    }
    x->lanes &= ~mask;
    if (!x->lanes)
        saved_free(w, x);
}

void calls_forget(struct warp *w)
{
    for (uint32_t n = 0; n < w->saved_count; n++)
        if (w->saved[n].registers)
            saved_free(w, &w->saved[n]);
}

void calls_close(struct warp *w)
{
    calls_forget(w);
    free(w->saved);
}

/* ---- call and return ---- */
/* A direct call's list has items of parameters, then of results; an indirect one's has ours and bytes: the target has the rest. */
static void items_of(const struct ptx_module *m, const struct insn *i, const struct function *f, uint32_t *params, uint32_t *results)
{
    const uint32_t *list = m->lists + i->aux2;
    if (i->kind == K_CALL) {
        memcpy(params, list, 3 * sizeof *list * i->vec);
        memcpy(results, list + 3 * i->vec, 3 * sizeof *list * i->size);
        return;
    }
    for (unsigned n = 0; n < i->vec; n++, list += 2) {
        params[3 * n] = f->frame_base + (uint32_t)m->vars[f->params[n]].offset;
        params[3 * n + 1] = list[0];
        params[3 * n + 2] = list[1];
    }
    for (unsigned n = 0; n < i->size; n++, list += 2) {
        results[3 * n] = list[0];
        results[3 * n + 1] = f->frame_base + (uint32_t)m->vars[f->returns[n]].offset;
        results[3 * n + 2] = list[1];
    }
}

bool call_enter(struct warp *w, int split, const struct insn *i, uint32_t function, uint32_t *ret_pc)
{
    const struct ptx_module *m = w->block->worker->machine->module;
    const struct function *f = &m->functions[function];
    struct split *s = &w->splits[split];
    const uint32_t pc = (uint32_t)(i - m->code);
    uint32_t params[3 * PTX_MAX_PARAMS], results[12];
    if (s->depth == MAX_CALLS)
        return fault(w, i, first_lane(s->mask), PTX_UNSUPPORTED, "calls functions more than %d deep", MAX_CALLS);
    s->saves[s->depth] = 0;
    if (is_active(s, f, pc) && !save(w, s, i, s->mask, function))
        return false;
    items_of(m, i, f, params, results);
    copy_items(w, params, i->vec, s->mask);
    s->calls[s->depth++] = pc + 1;
    *ret_pc = f->code_first;
    return true;
}

uint32_t call_leave(struct warp *w, int split, const struct insn *i)
{
    const struct ptx_module *m = w->block->worker->machine->module;
    struct split *s = &w->splits[split];
    const uint32_t back = s->calls[--s->depth], pc = (uint32_t)(i - m->code);
    const struct insn *call = m->code + back - 1;
    uint32_t n = 0, params[3 * PTX_MAX_PARAMS], results[12];
    while (n < m->function_count && !(m->functions[n].decoded && is_in(&m->functions[n], pc)))
        n++;
    BUG_ON(n == m->function_count);
    items_of(m, call, &m->functions[n], params, results);
    copy_items(w, results, call->size, s->mask);
    if (s->saves[s->depth])
        restore(w, s->saves[s->depth] - 1u, s->mask, results, call->size);
    return back;
}

int call_target(struct warp *w, const struct insn *i, uint32_t active, uint32_t *ret_same)
{
    const struct ptx_module *m = w->block->worker->machine->module;
    const uint64_t *address = (const uint64_t *)slot(w, i->a);
    const int lane = first_lane(active);
    const uint64_t number = (address[lane] - FUNCTION_WINDOW) / FUNCTION_STEP;
    const uint32_t *list = m->lists + i->aux2;
    *ret_same = 0;
    for (uint32_t rest = active; rest; rest &= rest - 1)
        *ret_same |= address[first_lane(rest)] == address[lane] ? 1u << first_lane(rest) : 0;
    if (address[lane] % FUNCTION_STEP || number >= m->function_count || m->functions[number].is_entry || !m->functions[number].decoded) {
        fault(w, i, lane, PTX_TRAP, "calls a function at address 0x%llx, which is none", (unsigned long long)address[lane]);
        return -1;
    }
    const struct function *f = &m->functions[number];
    bool fits = f->param_count == i->vec && f->return_count == i->size;
    for (int n = 0; fits && n < f->param_count; n++)
        fits = m->vars[f->params[n]].bytes == list[2 * n + 1];
    for (int n = 0; fits && n < f->return_count; n++)
        fits = m->vars[f->returns[n]].bytes == list[2 * (f->param_count + n) + 1];
    if (!fits) {
        fault(w, i, lane, PTX_TRAP, "calls %.60s with parameters or results that it does not have", ptx_name(m, f->name));
        return -1;
    }
    return (int)number;
}

/* atom and red: lane after lane, in lane order; between host threads under one of 64 locks by address. */
#include "gpu/ptx/machine.h"
#include "gpu/ptx/half.h"
#include "gpu/ptx/opcode.h"

/* min or max of one or two 16-bit floats. */
static uint32_t half_extreme(bool least, enum ptx_type t, uint32_t a, uint32_t b)
{
    const bool bf = t == T_BF16 || t == T_BF16X2;
    uint32_t r = 0;
    for (unsigned at = 0; at < ptx_types[t].bytes * 8u; at += 16) {
        const float x = bf ? b2f(a >> at & 0xffff) : h2f(a >> at & 0xffff), y = bf ? b2f(b >> at & 0xffff) : h2f(b >> at & 0xffff);
        const float m = least ? f_min(x, y) : f_max(x, y);
        r |= (bf ? f2b(m) : f2h(m)) << at;
    }
    return r;
}

uint64_t atomic_combine(int op, enum ptx_type t, uint64_t old, uint64_t b, uint64_t c)
{
    const bool sign = ptx_types[t].is_signed && !ptx_types[t].is_float, wide = ptx_types[t].bytes == 8;
    const int64_t so = wide ? (int64_t)old : (int32_t)old, sb = wide ? (int64_t)b : (int32_t)b;
    switch (op) {
    case M_ADD:
        switch ((int)t) {
        case T_F32: return f2u(canon(u2f((uint32_t)old) + u2f((uint32_t)b)));
        case T_F64: return d2u(u2d(old) + u2d(b));
        case T_F16: return h_add((uint32_t)old, (uint32_t)b);
        case T_BF16: return b_add((uint32_t)old, (uint32_t)b);
        case T_F16X2: return h_add(old & 0xffff, b & 0xffff) | h_add((uint32_t)old >> 16, (uint32_t)b >> 16) << 16;
        case T_BF16X2: return b_add(old & 0xffff, b & 0xffff) | b_add((uint32_t)old >> 16, (uint32_t)b >> 16) << 16;
        default: return old + b;
        }
    case M_MIN:
        if (ptx_types[t].is_float)
            return half_extreme(true, t, (uint32_t)old, (uint32_t)b);
        return sign ? so < sb ? old : b : old < b ? old : b;
    case M_MAX:
        if (ptx_types[t].is_float)
            return half_extreme(false, t, (uint32_t)old, (uint32_t)b);
        return sign ? so > sb ? old : b : old > b ? old : b;
    case M_AND: return old & b;
    case M_OR: return old | b;
    case M_XOR: return old ^ b;
    case M_EXCH: return b;
    case M_CAS: return old == b ? c : old;
    case M_INC: return old >= b ? 0 : old + 1;
    case M_DEC: return old == 0 || old > b ? b : old - 1;
    default: return old;
    }
}

static uint64_t lane_value(const struct warp *w, uint32_t from, int lane, unsigned size)
{
    return !from ? 0 : size == 8 ? ((const uint64_t *)slot(w, from))[lane] : ((const uint32_t *)slot(w, from))[lane];
}

/* Sums of floats in global memory are the L2 cache's: it flushes subnormal f32, and hands on a NaN of f64 as it is. */
static uint64_t add_far(enum ptx_type t, uint64_t old, uint64_t b, uint64_t sum)
{
    if (t == T_F32)
        return f2u(flush(canon(flush(u2f((uint32_t)old)) + flush(u2f((uint32_t)b)))));
    if (t == T_F64)
        return d_is_nan(old) ? old : d_is_nan(b) ? b : sum;
    return sum;
}

static bool atomic(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    struct machine *m = k->machine;
    struct sector_set sectors = {.used = {0}};
    memory_addresses(w, i, i->size);
    const enum order_scope scope = i->aux2 & 4 ? ORDER_BLOCK : ORDER_ALL;
    race_publish(w, i, active, i->aux2 & 2 ? scope : ORDER_NONE);
    unsigned fresh = 0, on_shared = 0;
    if (m->stale)
        stale_storing(w);
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        struct place p;
        if (!memory_locate(w, i, lane, k->addresses[lane], i->size, i->size, true, &p))
            return false;
        if (p.init && !bits_all(p.init, p.offset, i->size) && !(i->op == M_EXCH && !i->dst))
            return memory_fault(w, i, lane, PTX_UNINITIALISED, memory_name(w, &p), memory_offset(w, &p), 0, i->size, false);
        const bool lock = m->many && p.region;
        if (p.home && !race_shared(w, i, lane, p.home, p.offset, i->size, RACE_ATOMIC))
            return false;
        if (p.region && p.region->watched && !watch_lane(w, i, lane, &p, i->size, RACE_ATOMIC, NULL))
            return false;
        if (k->exploring && w->lanes && !lane_check(w, i, lane, &p, i->size, RACE_ATOMIC, NULL))
            return false;
        atomic_flag *flag = &m->atomic_locks[(p.offset >> 3) & 63];
        while (lock && atomic_flag_test_and_set_explicit(flag, memory_order_acquire))
            ;
        uint64_t old = 0;
        memcpy(&old, p.data, i->size);
        const uint64_t by = lane_value(w, i->b, lane, i->size);
        uint64_t fresh_value = atomic_combine(i->op, (enum ptx_type)i->type, old, by, lane_value(w, i->c, lane, i->size));
        if (p.region && i->op == M_ADD)
            fresh_value = add_far((enum ptx_type)i->type, old, by, fresh_value);
        memcpy(p.data, &fresh_value, i->size);
        if (m->stale && stale_before(w, &p)) {
            if (i->dst)
                stale_observed(w, &p, i->size);
            if (fresh_value != old)
                stale_stored(w, &p, 0, i->size, (const uint8_t *)&old, true);
        }
        if (lock)
            atomic_flag_clear_explicit(flag, memory_order_release);
        if (i->dst && i->size == 8)
            ((uint64_t *)slot(w, i->dst))[lane] = old;
        else if (i->dst)
            ((uint32_t *)slot(w, i->dst))[lane] = (uint32_t)old;
        if (p.init)
            bits_set(p.init, p.offset, i->size, lock);
        if (p.region)
            tag_store(k, p.region, p.offset, i->size);
        if (p.region && p.region->counted) {
            fresh += sector_add(&sectors, &p, i->size, true);
            if (i->dst && rest == active)
                load_depth(w, i, &p);
        }
        on_shared += p.home != NULL;
    }
    if (i->dst)
        race_observe(w, i, active, i->aux2 & 1 ? scope : ORDER_NONE);
    k->counts.atomics += (uint64_t)__builtin_popcount(active);
    if (on_shared) {
        k->counts.shared_requests++;
        k->counts.shared_wavefronts += on_shared; /* as if all were to one address: the worst */
    } else {
        k->counts.global_store_requests++;
        k->counts.global_store_bytes += (uint64_t)__builtin_popcount(active) * i->size;
        k->counts.global_store_sectors += fresh;
    }
    return true;
}

bool memory_atomic(struct warp *w, const struct insn *i, uint32_t active)
{
    w->block->worker->near = i->aux2 & SCOPE_BLOCK;
    const bool fine = atomic(w, i, active);
    w->block->worker->near = false;
    return fine;
}

/* What is there is lost: other bytes each time, and none that anything wrote. */
static bool discard(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        struct place p;
        const int lane = first_lane(rest);
        if (!memory_locate(w, i, lane, k->addresses[lane], DISCARD_BYTES, DISCARD_BYTES, true, &p) ||
            (p.region && p.region->watched && !watch_lane(w, i, lane, &p, DISCARD_BYTES, RACE_WRITE, NULL)))
            return false;
        for (unsigned n = 0; n < DISCARD_BYTES; n += 8) {
            const uint64_t anything = worker_draw(k);
            memcpy(p.data + n, &anything, 8);
        }
        if (p.init)
            bits_clear(p.init, p.offset, DISCARD_BYTES);
        watch_stored(k);
    }
    return true;
}

bool memory_prefetch(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    memory_addresses(w, i, 1);
    if (i->op)
        return discard(w, i, active);
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        struct place p;
        const int lane = first_lane(rest);
        const uint64_t first = k->addresses[lane], bytes = i->b ? lane_value(w, i->b, lane, 4) : 1;   /* b: of a bulk */
        if (bytes && (!memory_locate(w, i, lane, first, 1, 1, false, &p) || !memory_locate(w, i, lane, first + bytes - 1, 1, 1, false, &p)))
            return false;
    }
    return true;
}

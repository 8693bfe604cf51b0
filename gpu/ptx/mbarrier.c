/*
 * mbarriers: counters in shared memory that threads arrive at, asynchronous copies add bytes to, and anyone may ask.
 *
 * The state is kept beside the memory, in a table by offset. The object's own 8 bytes are marked uninitialised while it lives: a load
 * of them is a finding by itself, and bytes that became initialised meanwhile tell that an ordinary store went over the object.
 * A phase is complete when no arrival is pending and all announced bytes have come. What arrivers did before is then ordered before
 * what those do who see the phase complete (release and acquire are the default; .relaxed orders nothing).
 * The state that arrive returns is the phase << 32 | the count that was pending.
 */
#include "gpu/ptx/async.h"
#include "gpu/ptx/machine.h"
#include "gpu/ptx/opcode.h"

#include <string.h>

/* ---- the table ---- */
static struct mbarrier *table_slot(const struct mbarrier_table *t, uint32_t at)
{
    for (uint32_t h = (at >> 3) * 0x9e3779b1u >> 7;; h++) {
        struct mbarrier *b = &t->items[h & (t->capacity - 1)];
        if (!b->at || b->at == at)
            return b;
    }
}

static struct mbarrier *table_find(const struct mbarrier_table *t, uint32_t offset)
{
    struct mbarrier *b = t->capacity ? table_slot(t, offset + 1) : NULL;
    return b && b->at && b->live ? b : NULL;
}

/* As many as 8-byte words of shared memory at most. */
static struct mbarrier *table_add(struct mbarrier_table *t, uint32_t offset)
{
    if (t->count * 2 >= t->capacity) {
        const struct mbarrier_table old = *t;
        t->capacity = old.capacity ? old.capacity * 2 : 16;
        t->items = xarray(t->capacity, sizeof *t->items);
        for (uint32_t n = 0; n < old.capacity; n++)
            if (old.items[n].at)
                *table_slot(t, old.items[n].at) = old.items[n];
        free(old.items);
    }
    struct mbarrier *b = table_slot(t, offset + 1);
    t->count += !b->at;
    *b = (struct mbarrier){.at = offset + 1};
    return b;
}

void mbarrier_forget(struct mbarrier_table *t)
{
    if (t->count)
        memset(t->items, 0, t->capacity * sizeof *t->items);
    t->count = 0;
}

/* ---- objects ---- */
static bool bad(struct warp *w, const struct insn *i, int lane, uint32_t offset, const char *what)
{
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "shared");
    f->offset_bytes = offset;
    f->access_bytes = 8;
    return fault(w, i, lane, PTX_BARRIER, "uses the mbarrier at offset %u of shared memory, %s", offset, what);
}

struct mbarrier *mbarrier_live(struct warp *w, const struct insn *i, int lane, struct block *home, uint32_t offset)
{
    struct mbarrier *b = table_find(&home->mbarriers, offset);
    if (!b)
        return bad(w, i, lane, offset, "which was never set up by mbarrier.init, or was invalidated"), NULL;
    for (uint32_t n = offset; n < offset + 8; n++)
        if (home->shared_init[n >> 3] >> (n & 7) & 1)
            return bad(w, i, lane, offset, "over which an ordinary store wrote"), NULL;
    return b;
}

void mbarrier_describe(const struct mbarrier *b, char *to, int size)
{
    snprintf(to, (size_t)size, "phase %u (parity %u) of the mbarrier at offset %u of shared memory: %u of %u arrivals and %d bytes are missing",
             b->phase, b->phase & 1, b->at - 1, b->pending, b->expected, b->bytes);
}

static void phase_end(struct mbarrier *b)
{
    if (b->pending || b->bytes)
        return;
    b->phase++;
    b->pending = b->expected;
    b->released = b->gathered;
}

bool mbarrier_complete(struct warp *w, const struct insn *i, int lane, struct mbarrier *b, uint32_t count, int64_t bytes)
{
    const uint32_t at = b->at - 1;
    char what[128];
    if (count > b->pending) {
        snprintf(what, sizeof what, "where %u arrive but only %u of %u arrivals are pending", count, b->pending, b->expected);
        return bad(w, i, lane, at, what);
    }
    const int64_t left = b->bytes - bytes;
    if (left > MOST_COUNT || left < -(int64_t)MOST_COUNT) {
        snprintf(what, sizeof what, "whose count of bytes would be %lld: more than %u", (long long)left, MOST_COUNT);
        return bad(w, i, lane, at, what);
    }
    b->pending -= count;
    b->bytes = (int32_t)left;
    phase_end(b);
    return true;
}

/* ---- instructions ---- */
static uint32_t value32(const struct warp *w, uint32_t from, int lane, uint32_t otherwise)
{
    return from ? ((const uint32_t *)slot(w, from))[lane] : otherwise;
}

static bool init(struct warp *w, const struct insn *i, int lane, const struct place *p)
{
    const uint32_t count = value32(w, i->b, lane, 0), at = (uint32_t)p->offset;
    if (!count || count > MOST_COUNT)
        return bad(w, i, lane, at, "which is set up for no arrivals, or for more than 1048575");
    if (table_find(&p->home->mbarriers, at))
        return bad(w, i, lane, at, "which is set up again without mbarrier.inval");
    if (!race_shared(w, i, lane, p->home, at, 8, RACE_WRITE))
        return false;
    struct mbarrier *b = table_add(&p->home->mbarriers, at);
    b->live = true;
    b->expected = b->pending = count;
    bits_clear(p->home->shared_init, at, 8);
    p->home->changes++;
    return true;
}

static bool inval(struct warp *w, const struct insn *i, int lane, const struct place *p)
{
    struct mbarrier *b = mbarrier_live(w, i, lane, p->home, (uint32_t)p->offset);
    if (!b || !race_shared(w, i, lane, p->home, p->offset, 8, RACE_WRITE))
        return false;
    if (flight_targets(p->home, b))
        return bad(w, i, lane, (uint32_t)p->offset, "which is invalidated while a copy that will arrive there is in flight");
    b->live = false;
    return true;
}

static bool arrive(struct warp *w, const struct insn *i, int lane, const struct block *home, struct mbarrier *b)
{
    const uint32_t at = b->at - 1, count = value32(w, i->b, lane, 1);
    if (!count || count > MOST_COUNT)
        return bad(w, i, lane, at, "where none arrive, or more than 1048575");
    const uint64_t state = (uint64_t)b->phase << 32 | b->pending;
    if (i->c && !mbarrier_complete(w, i, lane, b, 0, -(int64_t)value32(w, i->c, lane, 0)))   /* announced first, then arrived */
        return false;
    if (i->aux & MB_NO_COMPLETE && count >= b->pending)
        return bad(w, i, lane, at, "where an arrival with .noComplete completes the phase");
    (i->aux & MB_RELAXED ? race_object_publish : race_object_release)(w, 1u << lane, &b->gathered, home, race_phase_key(home, at, b->phase));
    if (i->op == MB_DROP) {
        if (count > b->expected)
            return bad(w, i, lane, at, "where more drop out than are expected");
        b->expected -= count;
    }
    if (!mbarrier_complete(w, i, lane, b, count, 0))
        return false;
    if (i->dst)
        ((uint64_t *)slot(w, i->dst))[lane] = state;
    return true;
}

/* Is the phase that this lane asks for over? -1: fault */
static int over(struct warp *w, const struct insn *i, int lane, const struct mbarrier *b)
{
    if (i->aux & MB_PARITY) {
        const uint32_t parity = value32(w, i->b, lane, 0);
        if (parity > 1) {
            bad(w, i, lane, b->at - 1, "whose phase has parity 0 or 1, and is asked for another");
            return -1;
        }
        return (b->phase & 1) != parity;
    }
    const uint32_t phase = (uint32_t)(((const uint64_t *)slot(w, i->b))[lane] >> 32);
    if (phase != b->phase && phase + 1 != b->phase) {
        bad(w, i, lane, b->at - 1, "with a state that is neither of the current nor of the last phase");
        return -1;
    }
    return phase != b->phase;
}

/* Lanes that ask together are told the same: whether copies land now is drawn for the first of them. */
static int test(struct warp *w, const struct insn *i, int lane, struct block *home, struct mbarrier *b, bool first)
{
    int yes = over(w, i, lane, b);
    if (!yes && first) {
        if (!flight_land_at(w, home, b))
            return -1;
        yes = over(w, i, lane, b);
    }
    if (yes > 0) {
        if (!flight_observe(w, home, b))
            return -1;
        const uint32_t depth = w->depth_base + w->block->bulk_depth;
        w->used = depth > w->used ? depth : w->used;
        w->waited = w->used;            /* no load moves up across it */
        (i->aux & MB_RELAXED ? race_object_observe : race_object_acquire)(w, 1u << lane, &b->released, race_phase_key(home, b->at - 1, b->phase - 1));
    }
    ((uint32_t *)slot(w, i->dst))[lane] = yes > 0 ? ~0u : 0;
    return yes;
}

int mbarrier_execute(struct warp *w, const struct insn *i, uint32_t active, int split)
{
    struct worker *k = w->block->worker;
    memory_addresses(w, i, 8);
    int in_vain = 0;
    uint32_t what = 0;
    const struct mbarrier *asked = NULL;
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int lane = first_lane(rest);
        struct place p;
        if (!memory_locate(w, i, lane, k->addresses[lane], 8, 8, true, &p))
            return -1;
        if (!p.home)
            return fault(w, i, lane, PTX_BARRIER, "uses an mbarrier at an address that is not in shared memory"), -1;
        if (p.home != w->block && i->space != SPACE_CLUSTER)
            return fault(w, i, lane, PTX_BARRIER, "uses an mbarrier of another block without .shared::cluster"), -1;
        if (i->op == MB_INIT || i->op == MB_INVAL) {
            if (!(i->op == MB_INIT ? init : inval)(w, i, lane, &p))
                return -1;
            continue;
        }
        struct mbarrier *b = mbarrier_live(w, i, lane, p.home, (uint32_t)p.offset);
        const bool first = b != asked;
        asked = b;
        if (!b || !race_mbarrier(w, i, lane, p.home, p.offset))
            return -1;
        const int64_t bytes = value32(w, i->c, lane, 0);
        if (bytes > MOST_COUNT)
            return bad(w, i, lane, b->at - 1, "for which more than 1048575 bytes are announced"), -1;
        if (i->op == MB_ARRIVE || i->op == MB_DROP) {
            if (!arrive(w, i, lane, p.home, b))
                return -1;
        } else if (i->op == MB_EXPECT || i->op == MB_COMPLETE) {
            if (!mbarrier_complete(w, i, lane, b, 0, i->op == MB_EXPECT ? -bytes : bytes))
                return -1;
        } else {
            const int yes = test(w, i, lane, p.home, b, first);
            if (yes < 0)
                return -1;
            in_vain |= !yes;
            what = yes ? what : what * 31 + b->at * 2654435761u + b->phase * 40503u + b->pending + (uint32_t)b->bytes * 7u;
            if (!yes)
                w->splits[split].waits_at = b->at - 1;
        }
    }
    k->counts.barriers += i->op == MB_ARRIVE || i->op == MB_DROP;
    if (in_vain)
        wait_in_vain(w, split, i, what);
    else if (i->op == MB_TEST)
        w->splits[split].waits_pc = 0;
    return in_vain;
}

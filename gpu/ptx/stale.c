/*
 * What strong accesses (volatile, relaxed, atomic) may see where nothing orders them.
 *
 * Two strong accesses are no race, but they order nothing either: who reads a flag that another warp stored after its data, with no fence,
 * release or acquire between, may still read the data as they were before. On a card that is rare; here it is what happens. A warp that
 * has read something of another, and then reads what that one stored before it, is served what was there earlier, once. Who asks again
 * (a word that carries its own mark is polled) gets the new value, and all is well. Who does not, and ends, has trusted an order
 * that nobody made: a race.
 *
 * Kept by element, one a place of a table, the newest only: what falls out is a miss. So is a reader beyond those that are remembered,
 * and an element that is stored in one size and read in another. A warp is told nothing older than what it has read of that element.
 */
#include "gpu/ptx/race.h"

#include <string.h>

#define PLACES (1u << 14)
#define READERS 6
#define HEARD 32
#define TRUSTED 8

struct told { uint64_t key; uint64_t was; struct actor by; uint32_t serial; uint8_t size, reader_count; bool was_written, closed; uint32_t readers[READERS]; };
struct stale { atomic_flag lock; struct told places[PLACES]; };
struct heard { uint32_t block, warp, serial; };
struct trusted { uint64_t key; struct actor by; const struct insn *insn; struct place place; uint32_t serial; int lane; };
struct stale_warp {
    uint32_t stores, loads;     /* strong instructions so far */
    uint32_t heard_next, trusted_count;
    struct heard heard[HEARD];
    struct trusted trusted[TRUSTED];
};

void stale_open(struct machine *m)
{
    m->stale = m->order && m->module->loads_strong ? xalloc(sizeof *m->stale) : NULL;
}

void stale_close(struct machine *m) { free(m->stale); }

void stale_start(struct warp *w)
{
    if (w->stale)
        memset(w->stale, 0, sizeof *w->stale);
}

static struct stale_warp *of(struct warp *w)
{
    if (!w->stale)
        w->stale = xalloc(sizeof *w->stale);
    return w->stale;
}

static void lock(struct stale *s)
{
    while (atomic_flag_test_and_set_explicit(&s->lock, memory_order_acquire))
        ;
}
static void unlock(struct stale *s) { atomic_flag_clear_explicit(&s->lock, memory_order_release); }

static uint64_t key_of(const struct place *p, uint64_t offset)
{
    return p->home ? UINT64_C(1) << 62 | p->home->number << 20 | offset : p->region->base + offset;
}

static struct told *place_of(struct stale *s, uint64_t key) { return &s->places[(key >> 1) * 0x9e3779b97f4a7c15ull >> 50]; }

static uint32_t number_of(const struct warp *w) { return (uint32_t)(w->block->number * w->block->warp_count + w->id + 1); }

static bool is_of(const struct warp *w, const struct actor *a) { return a->block == w->block->number && a->warp == w->id; }

bool stale_before(const struct warp *w, const struct place *p)
{
    return w->block->worker->machine->stale && (p->home || (p->region && p->region->counted));
}

void stale_storing(struct warp *w) { of(w)->stores++; }
void stale_loading(struct warp *w) { of(w)->loads++; }

/* After it is done: whoever finds the mark finds the bytes. */
void stale_stored(struct warp *w, const struct place *p, unsigned at, unsigned size, const uint8_t *was, bool was_written)
{
    struct stale *s = w->block->worker->machine->stale;
    const uint64_t key = key_of(p, p->offset + at);
    struct told t = {.key = key, .serial = of(w)->stores, .size = (uint8_t)size, .was_written = was_written,
                     .by = {.block = (uint32_t)w->block->number, .warp = (uint8_t)w->id, .clock = w->clock_now, .kind = ACTOR_WARP}};
    memcpy(&t.was, was, size);
    lock(s);
    *place_of(s, key) = t;
    unlock(s);
}

static void hear(struct stale_warp *x, const struct told *t)
{
    for (uint32_t n = 0; n < HEARD; n++)
        if (x->heard[n].serial && x->heard[n].block == t->by.block && x->heard[n].warp == t->by.warp) {
            x->heard[n].serial = x->heard[n].serial > t->serial ? x->heard[n].serial : t->serial;
            return;
        }
    x->heard[x->heard_next++ % HEARD] = (struct heard){t->by.block, t->by.warp, t->serial};
}

static bool has_heard_later(const struct stale_warp *x, const struct told *t)
{
    for (uint32_t n = 0; n < HEARD; n++)
        if (x->heard[n].serial > t->serial && x->heard[n].block == t->by.block && x->heard[n].warp == t->by.warp)
            return true;
    return false;
}

static bool has_read(const struct told *t, uint32_t reader)
{
    for (uint32_t n = 0; n < t->reader_count; n++)
        if (t->readers[n] == reader)
            return true;
    return false;
}

static void add_reader(struct told *t, uint32_t reader)
{
    if (has_read(t, reader))
        return;
    if (t->reader_count < READERS)
        t->readers[t->reader_count++] = reader;
    else
        t->closed = true;
}

/* In this very instruction another lane was served what was there earlier: so is this one. Otherwise, it asks again. */
static bool same_instruction(struct stale_warp *x, uint64_t key)
{
    for (uint32_t n = 0; n < x->trusted_count; n++) {
        if (x->trusted[n].key != key)
            continue;
        if (x->trusted[n].serial == x->loads)
            return true;
        x->trusted[n--] = x->trusted[--x->trusted_count];
    }
    return false;
}

void stale_observed(struct warp *w, const struct place *p, unsigned size)
{
    struct stale *s = w->block->worker->machine->stale;
    const uint64_t key = key_of(p, p->offset);
    lock(s);
    struct told *t = place_of(s, key);
    if (t->key == key && t->size == size && !is_of(w, &t->by))
        hear(of(w), t);
    unlock(s);
}

/* What is said of it; `was` is served. */
static bool serve(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned at, struct told *t, uint8_t *value)
{
    struct stale_warp *x = of(w);
    struct trusted *trust = &x->trusted[x->trusted_count++];
    *trust = (struct trusted){.key = t->key, .by = t->by, .insn = i, .place = *p, .serial = x->loads, .lane = lane};
    trust->place.offset += at;
    memcpy(value, &t->was, t->size);
    return t->was_written;
}

static bool trusted_report(struct warp *w, const struct trusted *t)
{
    const uint32_t *grid = w->block->worker->machine->launch->grid;
    struct ptx_finding *f = &w->block->worker->finding;
    snprintf(f->buffer, sizeof f->buffer, "%s", memory_name(w, &t->place));
    f->offset_bytes = (int64_t)t->place.offset;
    f->access_bytes = t->insn->size;
    return fault(w, t->insn, t->lane, PTX_RACE,
                 "reads %u bytes at offset %lld of %s after what warp %u of block (%u,%u,%u) stored later, with no fence, release or acquire to order the two: "
                 "it may read what was there before",
                 t->insn->size, (long long)t->place.offset, f->buffer, t->by.warp, t->by.block % grid[0], t->by.block / grid[0] % grid[1],
                 t->by.block / grid[0] / grid[1]);
}

bool stale_load(struct warp *w, const struct insn *i, int lane, const struct place *p, uint8_t *value)
{
    struct stale *s = w->block->worker->machine->stale;
    struct stale_warp *x = of(w);
    const uint32_t me = number_of(w);
    bool written = true;
    for (unsigned at = 0; at < (unsigned)i->size * i->vec && written; at += i->size) {
        const uint64_t key = key_of(p, p->offset + at);
        lock(s);
        struct told *t = place_of(s, key);
        const bool again = same_instruction(x, key), strange = t->key == key && t->size == i->size && !is_of(w, &t->by);
        memcpy(value + at, p->data + at, i->size);
        if (strange && again) {
            memcpy(value + at, &t->was, i->size);
        } else if (strange && !race_known(w, &t->by) && !t->closed && !has_read(t, me) && t->reader_count < READERS && x->trusted_count < TRUSTED &&
                   has_heard_later(x, t) && memcmp(&t->was, value + at, i->size)) {
            add_reader(t, me);
            written = serve(w, i, lane, p, at, t, value + at);
        } else if (strange) {
            add_reader(t, me);
            hear(x, t);
        }
        unlock(s);
    }
    return written || trusted_report(w, &x->trusted[x->trusted_count - 1]);
}

bool stale_block_end(struct block *b)
{
    for (uint32_t n = 0; n < b->warp_count; n++)
        if (b->warps[n].stale && b->warps[n].stale->trusted_count)
            return trusted_report(&b->warps[n], &b->warps[n].stale->trusted[0]);
    return true;
}

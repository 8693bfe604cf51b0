/*
 * Races between lanes of one warp, where a schedule lets them run apart.
 *
 * Nothing orders two lanes but an instruction that names both (bar.warp.sync, shfl.sync and the like), a barrier of the block, or
 * a fence with an atomic or volatile access on both sides. Each lane has a clock; where all living lanes meet, everything before is
 * ordered (`safe`), else what each has seen of each is kept. The accesses since then are in a small table, a word an entry (a byte,
 * once the warp has used a part of a word); where it is full the oldest are forgotten, which misses and never invents.
 *
 * Atomic and volatile accesses race with plain writes only, and are not kept.
 */
#include "gpu/ptx/race.h"

#include <string.h>

#define ENTRIES 2048u
#define PROBES 4u

struct lane_entry { uint64_t key; uint32_t wrote, read, readers; uint32_t writer; };
struct lane_shadow {
    struct lane_entry entries[ENTRIES];
    uint32_t clock, safe, fenced;      /* fenced: lanes with a fence */
    uint32_t now[WARP_LANES];          /* each lane's clock */
    uint32_t seen[WARP_LANES][WARP_LANES], fence[WARP_LANES][WARP_LANES], pending[WARP_LANES][WARP_LANES], sync[WARP_LANES];
    bool bytes, any_sync;
};

struct lane_shadow *lane_shadow_new(void) { return xalloc(sizeof(struct lane_shadow)); }

void lane_start(struct warp *w)
{
    struct lane_shadow *s = w->lanes;
    if (!s)
        return;
    const uint32_t past = s->clock;    /* what another block's lanes did is as good as ordered */
    s->safe = past;
    s->clock = past + 1;
    s->fenced = 0;
    s->any_sync = false;
    for (int l = 0; l < WARP_LANES; l++)
        s->now[l] = past + 1;
    memset(s->seen, 0, sizeof s->seen);
    memset(s->fence, 0, sizeof s->fence);
    memset(s->pending, 0, sizeof s->pending);
    memset(s->sync, 0, sizeof s->sync);
}

static void join(uint32_t *to, const uint32_t *from)
{
    for (int l = 0; l < WARP_LANES; l++)
        to[l] = to[l] > from[l] ? to[l] : from[l];
}

void lane_meet(struct warp *w, uint32_t mask)
{
    struct lane_shadow *s = w->lanes;
    race_steps_meet(w, mask);
    if (!s)
        return;
    const uint32_t past = s->clock++;
    uint32_t joined[WARP_LANES] = {0}, fenced[WARP_LANES] = {0};
    if (mask == w->alive && !s->fenced) {
        s->safe = past;
        for (int l = 0; l < WARP_LANES; l++)
            s->now[l] = s->clock;
        return;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const int l = first_lane(rest);
        join(joined, s->seen[l]);
        join(joined, s->pending[l]);
        join(fenced, s->fence[l]);
        joined[l] = joined[l] > s->now[l] ? joined[l] : s->now[l];
    }
    s->fenced |= s->fenced & mask ? mask : 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const int l = first_lane(rest);
        join(s->seen[l], joined);
        join(s->fence[l], fenced);
        s->now[l] = s->clock;
    }
    if (mask == w->alive)
        s->safe = past;
}

void lane_fence(struct warp *w, uint32_t active)
{
    struct lane_shadow *s = w->lanes;
    if (!s)
        return;
    s->clock++;
    s->fenced |= active;
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const int l = first_lane(rest);
        join(s->seen[l], s->pending[l]);
        join(s->fence[l], s->seen[l]);
        s->fence[l][l] = s->now[l];
        s->now[l] = s->clock;
    }
}

void lane_publish(struct warp *w, uint32_t active)
{
    struct lane_shadow *s = w->lanes;
    for (uint32_t rest = s ? active & s->fenced : 0; rest; rest &= rest - 1) {
        join(s->sync, s->fence[first_lane(rest)]);
        s->any_sync = true;
    }
}

void lane_observe(struct warp *w, uint32_t active, bool acquire)
{
    struct lane_shadow *s = w->lanes;
    for (uint32_t rest = s && s->any_sync ? active : 0; rest; rest &= rest - 1) {
        const int l = first_lane(rest);
        join(s->pending[l], s->sync);
        if (acquire)
            join(s->seen[l], s->pending[l]);
    }
}

static struct lane_entry *entry_at(struct lane_shadow *s, uint64_t key)
{
    const uint32_t h = (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 40);
    struct lane_entry *dead = NULL;
    for (uint32_t n = 0; n < PROBES; n++) {
        struct lane_entry *e = &s->entries[(h + n) % ENTRIES];
        const bool old = e->wrote <= s->safe && e->read <= s->safe;
        if (!old && e->key == key)
            return e;
        dead = !dead && old ? e : dead;
    }
    dead = dead ? dead : &s->entries[h % ENTRIES];
    *dead = (struct lane_entry){.key = key};
    return dead;
}

static bool ordered(const struct lane_shadow *s, int lane, int other, uint32_t clock)
{
    return other == lane || clock <= s->safe || clock <= s->seen[lane][other];
}

/* The lane in the way, or -1. */
static int entry_use(struct lane_shadow *s, struct lane_entry *e, int lane, enum race_kind kind, bool benign, bool *ret_reads)
{
    const bool strong = kind == RACE_ATOMIC || kind == RACE_STRONG_READ, write = kind == RACE_WRITE && !benign;
    *ret_reads = false;
    if (!benign && e->wrote && !ordered(s, lane, (int)e->writer, e->wrote))
        return (int)e->writer;
    for (uint32_t rest = write || kind == RACE_ATOMIC ? e->readers & ~(1u << lane) : 0; rest; rest &= rest - 1)
        if (!ordered(s, lane, first_lane(rest), e->read))
            return *ret_reads = true, first_lane(rest);
    if (write) {
        e->wrote = s->now[lane];
        e->writer = (uint32_t)lane;
        e->readers = 0;
    } else if (!strong) {
        /* readers at several clocks: the earliest counts for all, which can only hide */
        const bool keep = e->readers && e->read > s->safe;
        e->read = keep && e->read < s->now[lane] ? e->read : s->now[lane];
        e->readers = (keep ? e->readers : 0) | 1u << lane;
    }
    return -1;
}

bool lane_check(struct warp *w, const struct insn *i, int lane, const struct place *p, unsigned bytes, enum race_kind kind, const uint8_t *value)
{
    struct lane_shadow *s = w->lanes;
    const bool shared = memory_is_shared(w, p);
    if (!shared && (!p->region || !p->region->writable || !p->region->counted))
        return true;
    const uint64_t address = shared ? SHARED_WINDOW + p->offset : p->region->base + p->offset;
    if (!s->bytes && ((address | bytes) & 3)) {
        s->bytes = true;        /* what was kept by words is forgotten */
        memset(s->entries, 0, sizeof s->entries);
    }
    const unsigned each = s->bytes ? 1 : 4;
    for (unsigned at = 0; at < bytes; at += each) {
        const bool benign = kind == RACE_WRITE && value && (!p->init || bits_all(p->init, p->offset + at, each)) && !memcmp(p->data + at, value + at, each);
        bool reads;
        const int other = entry_use(s, entry_at(s, address + at), lane, kind, benign, &reads);
        if (other < 0)
            continue;
        struct ptx_finding *f = &w->block->worker->finding;
        snprintf(f->buffer, sizeof f->buffer, "%s", memory_name(w, p));
        f->offset_bytes = memory_offset(w, p) + at;
        f->access_bytes = bytes;
        return fault(w, i, lane, PTX_RACE, "%s %u bytes at offset %lld of %s that lane %d of its warp %s, and nothing makes them meet between",
                     kind == RACE_WRITE ? "writes" : kind == RACE_ATOMIC ? "atomically changes" : "reads", bytes, (long long)f->offset_bytes, f->buffer,
                     other, reads ? "reads" : "writes");
    }
    return true;
}

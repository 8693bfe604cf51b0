/*
 * The memory of the checker of buffers: who touched each sector last. All entries of a launch are one mapping of zeros, which costs
 * nothing until it is touched; the cells of sectors that are parted come out of chunks. How much there is of both is bounded; where it is
 * used up, or there is none, what is not remembered is not watched, and whoever asks is told that anybody may have read it.
 */
#include "gpu/ptx/race_grid.h"

#include <sys/mman.h>

#define LEAST_SHADOW_BYTES ((size_t)4 << 20)

bool race_shadow_take(struct machine *m, size_t bytes)
{
    struct watch *g = m->watch;
    watch_lock(&g->lock);
    const bool fits = bytes <= g->left;
    g->left -= fits ? bytes : 0;
    m->shadow_bytes += fits ? bytes : 0;
    watch_unlock(&g->lock);
    return fits;
}

struct cell *race_cells_new(struct machine *m, unsigned count)
{
    struct watch *g = m->watch;
    const size_t bytes = count * sizeof(struct cell);
    struct cell_chunk *c = NULL;
    watch_lock(&g->lock);
    c = g->chunks;
    if ((!c || c->used + bytes > CELL_BYTES) && sizeof *c <= g->left) {
        c = xalloc(sizeof *c);
        c->next = g->chunks;
        g->chunks = c;
        g->left -= sizeof *c;
        m->shadow_bytes += sizeof *c;
    }
    struct cell *p = c && c->used + bytes <= CELL_BYTES ? (struct cell *)(c->bytes + c->used) : NULL;
    if (p)
        c->used += bytes;
    watch_unlock(&g->lock);
    return p;
}

/* Zeros that cost nothing until they are touched, and little then: in large pages, where there are any. */
#define LARGE_PAGE_BYTES ((size_t)2 << 20)
static void *zeros(size_t bytes, size_t *ret_mapped, void **ret_start)
{
    *ret_mapped = (bytes + 2 * LARGE_PAGE_BYTES - 1) & ~(LARGE_PAGE_BYTES - 1);
    void *p = mmap(NULL, *ret_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)!madvise(p, *ret_mapped, MADV_HUGEPAGE);
    *ret_start = p;
    return (void *)(((uintptr_t)p + LARGE_PAGE_BYTES - 1) & ~(uintptr_t)(LARGE_PAGE_BYTES - 1));
}

size_t race_touched_bytes(uint64_t bytes) { return (size_t)(bytes / 32 + 2) * sizeof(struct touch); }
static size_t touched_bytes(const struct region *r) { return race_touched_bytes(r->bytes); }

bool race_each_touch(const struct region *r, race_visit *visit, void *context)
{
    for (uint64_t s = 0; s < r->bytes / 32 + 2; s++) {
        const struct touch *t = &r->touched[s];
        if (t->writer == BLIND)
            continue;
        if (t->writer != PARTED) {
            if (!visit(context, t->writer, s * 32, t->writes, false) || !visit(context, t->reader, s * 32, t->reads, true))
                return false;
            continue;
        }
        const uint32_t one = t->writes == 2 ? 15 : t->writes == 1 ? 3 : 1;
        for (unsigned n = 0; n < 32u >> t->writes; n++)
            if (!visit(context, t->cells[n].writer, s * 32, one << (n << t->writes), false) ||
                !visit(context, t->cells[n].reader, s * 32, one << (n << t->writes), true))
                return false;
    }
    return true;
}

void race_grid_open(struct machine *m, bool between_blocks)
{
    size_t all = 0;
    for (int n = 0; n < m->region_count; n++) {
        struct region *r = &m->regions[n];
        all += r->counted ? r->bytes : 0;
        r->watched = r->frozen || (r->held && r->writable);
    }
    if (!m->check_races || !between_blocks)
        return;
    race_steps_open(m);
    if (m->total_blocks == 1 && m->threads_block <= WARP_LANES && !m->history && !m->module->copies_from_global)
        return;
    m->watch = xalloc(sizeof *m->watch);
    m->watch->left = all * 3 < LEAST_SHADOW_BYTES ? LEAST_SHADOW_BYTES : all * 3;
    m->watch->left -= m->shadow_bytes < m->watch->left ? m->shadow_bytes : m->watch->left;
    m->order = race_order_new(m->total_blocks, (uint32_t)((m->threads_block + WARP_LANES - 1) / WARP_LANES));
    cleanup(mem) void *memory = xalloc((size_t)m->region_count + 1);
    bool *raced = memory;
    size_t bytes = 0;
    for (int n = 0; m->order && n < m->region_count; n++) {
        struct region *r = &m->regions[n];
        if (!r->writable || !r->counted || !r->bytes || !race_shadow_take(m, touched_bytes(r)))
            continue;
        raced[n] = true;
        bytes += touched_bytes(r);
    }
    uint8_t *at = bytes ? zeros(bytes, &m->watch->mapped, &m->watch->start) : NULL;
    for (int n = 0; n < m->region_count; n++)       /* what is not watched may be read by anyone */
        if (m->regions[n].writable && m->regions[n].counted && m->regions[n].bytes && !(raced[n] && at))
            atomic_store(&m->reads_later, true);
    for (int n = 0; n < m->region_count && at; n++) {   /* where there is no memory for it, nothing is watched */
        struct region *r = &m->regions[n];
        if (raced[n]) {
            r->watched = true;
            r->touched = (struct touch *)at;
            at += touched_bytes(r);
        }
    }
}

void race_grid_close(struct machine *m)
{
    race_steps_close(m);
    if (m->watch && m->watch->start)
        munmap(m->watch->start, m->watch->mapped);
    for (struct cell_chunk *c = m->watch ? m->watch->chunks : NULL; c;) {
        struct cell_chunk *next = c->next;
        free(c);
        c = next;
    }
    free(m->watch);
    race_order_free(m->order);
}

/* See cache.h. Sets are chosen by a hash, as the hardware's are: a power-of-two stride does not fall into one set. */
#include "gpu/ptx/cache.h"

#include "core/buf.h"

#define LINE_BYTES 128

struct cache_line { uint64_t tag; uint32_t used; uint8_t valid, dirty; };   /* tag: line + 1, 0 empty */

void cache_init(struct cache *c, size_t bytes, unsigned ways)
{
    const size_t sets = bytes / LINE_BYTES / ways;
    *c = (struct cache){.sets = sets ? (uint32_t)sets : 1, .ways = ways};
    c->lines = xarray((size_t)c->sets * ways, sizeof *c->lines);
}

void cache_done(struct cache *c)
{
    free(c->lines);
    c->lines = NULL;
}

static struct cache_line *set_of(const struct cache *c, uint64_t line)
{
    const uint64_t h = (line ^ line >> 21) * 0x9e3779b97f4a7c15ull;
    return c->lines + (size_t)((h >> 32) * c->sets >> 32) * c->ways;
}

unsigned cache_has(const struct cache *c, uint64_t line, unsigned mask)
{
    const struct cache_line *set = set_of(c, line);
    for (unsigned n = 0; n < c->ways; n++)
        if (set[n].tag == line + 1)
            return set[n].valid & mask;
    return 0;
}

struct cache_answer cache_use(struct cache *c, uint64_t line, unsigned mask, bool dirty)
{
    struct cache_line *set = set_of(c, line), *to = set;
    struct cache_answer answer = {0};
    c->clock++;
    for (unsigned n = 0; n < c->ways; n++) {
        if (set[n].tag == line + 1) {
            to = &set[n];
            break;
        }
        if (set[n].used < to->used)
            to = &set[n];
    }
    if (to->tag != line + 1) {
        answer.written_back = (uint8_t)__builtin_popcount(to->dirty);
        c->dirty -= answer.written_back;
        *to = (struct cache_line){.tag = line + 1};
    }
    answer.hit = to->valid & (uint8_t)mask;
    to->valid |= (uint8_t)mask;
    if (dirty) {
        c->dirty += (unsigned)__builtin_popcount(mask & ~(unsigned)to->dirty);
        to->dirty |= (uint8_t)mask;
    }
    to->used = c->clock;
    return answer;
}

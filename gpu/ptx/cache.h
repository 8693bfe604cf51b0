/*
 * A cache of sectors: set-associative lines of 128 bytes in four sectors of 32, the least recently used line leaves. Pure; for the
 * estimate, so it holds no data, only which sectors would be there.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache {
    uint32_t sets, ways, clock;
    uint64_t dirty;             /* changed sectors that are there */
    struct cache_line *lines;
};
/* `bytes` are rounded down to whole sets, at least one. Release with cache_done. */
void cache_init(struct cache *c, size_t bytes, unsigned ways);
void cache_done(struct cache *c);

struct cache_answer { uint8_t hit, written_back; };    /* sectors found; changed sectors of the line that had to leave: how many */
/*
 * Sectors `mask` (4 bits) of line `line` (address / 128) are used and are there afterwards; `dirty`: they differ from memory now.
 */
struct cache_answer cache_use(struct cache *c, uint64_t line, unsigned mask, bool dirty);
/* Sectors that are there; changes nothing. */
unsigned cache_has(const struct cache *c, uint64_t line, unsigned mask);

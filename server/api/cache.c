/*
 * Blobs that are served often, ready as shared responses. Sets of four entries, each set under one of a few locks; the oldest
 * of a set makes room. An entry knows the last event when it was last known to be right: newer events make it stale, not wrong.
 */
#include "server/api/api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define SETS 1024
#define WAYS 4
#define LOCKS 16

struct slot {
    struct cache_key key;
    struct http_blob *blob;           /* NULL: free */
    int64_t generation;
    uint64_t used;
};
struct cache {
    int64_t limit_bytes;
    _Atomic int64_t bytes;
    _Atomic uint64_t clock, hits, misses;
    pthread_mutex_t locks[LOCKS];
    struct slot slots[SETS][WAYS];
};

struct cache *cache_new(int64_t limit_bytes)
{
    struct cache *c = xalloc(sizeof *c);
    c->limit_bytes = limit_bytes;
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&c->locks[i], NULL);
    return c;
}

static size_t blob_bytes(const struct http_blob *b)
{
    size_t size;
    http_blob_data(b, &size);
    return size + 1024;               /* with its headers */
}

static void slot_clear(struct cache *c, struct slot *s)
{
    if (!s->blob)
        return;
    atomic_fetch_sub(&c->bytes, (int64_t)blob_bytes(s->blob));
    http_blob_free(s->blob);
    *s = (struct slot){0};
}

void cache_free(struct cache *c)
{
    if (!c)
        return;
    for (int i = 0; i < SETS; i++)
        for (int k = 0; k < WAYS; k++)
            slot_clear(c, &c->slots[i][k]);
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&c->locks[i]);
    free(c);
}

/* Hashes are uniform already: their digits are the set. */
static unsigned set_of(const struct cache_key *key)
{
    unsigned set = (unsigned)key->part * 131u;
    for (int i = 0; i < 8; i++)
        set = set * 31u + (unsigned char)key->hash[i];
    return set % SETS;
}

static struct slot *find(struct cache *c, unsigned set, const struct cache_key *key)
{
    for (int k = 0; k < WAYS; k++) {
        struct slot *s = &c->slots[set][k];
        if (s->blob && s->key.part == key->part && !memcmp(s->key.hash, key->hash, HASH_HEX_SIZE))
            return s;
    }
    return NULL;
}

struct http_blob *cache_get(struct cache *c, const struct cache_key *key, int64_t generation, bool *ret_fresh)
{
    unsigned set = set_of(key);
    pthread_mutex_t *lock = &c->locks[set % LOCKS];
    struct http_blob *b = NULL;
    pthread_mutex_lock(lock);
    struct slot *s = find(c, set, key);
    if (s) {
        b = http_blob_ref(s->blob);
        s->used = atomic_fetch_add_explicit(&c->clock, 1, memory_order_relaxed);
        *ret_fresh = s->generation == generation;
    }
    pthread_mutex_unlock(lock);
    atomic_fetch_add_explicit(b ? &c->hits : &c->misses, 1, memory_order_relaxed);
    return b;
}

void cache_put(struct cache *c, const struct cache_key *key, int64_t generation, struct http_blob *b)
{
    int64_t bytes = (int64_t)blob_bytes(b);
    if (bytes > c->limit_bytes / WAYS)
        return;
    unsigned set = set_of(key);
    pthread_mutex_t *lock = &c->locks[set % LOCKS];
    pthread_mutex_lock(lock);
    struct slot *s = find(c, set, key);
    struct slot *row = c->slots[set];
    if (!s) {
        s = &row[0];
        for (int k = 1; k < WAYS && s->blob; k++)
            if (!row[k].blob || row[k].used < s->used)
                s = &row[k];
    }
    slot_clear(c, s);
    /* over the limit: this set gives up the rest of what it has, then goes without */
    for (int k = 0; k < WAYS && atomic_load(&c->bytes) + bytes > c->limit_bytes; k++)
        slot_clear(c, &row[k]);
    if (atomic_load(&c->bytes) + bytes <= c->limit_bytes) {
        atomic_fetch_add(&c->bytes, bytes);
        *s = (struct slot){*key, http_blob_ref(b), generation, atomic_fetch_add_explicit(&c->clock, 1, memory_order_relaxed)};
    }
    pthread_mutex_unlock(lock);
}

void cache_drop(struct cache *c, const struct cache_key *key)
{
    unsigned set = set_of(key);
    pthread_mutex_t *lock = &c->locks[set % LOCKS];
    pthread_mutex_lock(lock);
    struct slot *s = find(c, set, key);
    if (s)
        slot_clear(c, s);
    pthread_mutex_unlock(lock);
}

void cache_metrics(struct cache *c, struct buf *to)
{
    buf_fmt(to, "# HELP proteus_cache_bytes Memory of artifacts kept ready.\n# TYPE proteus_cache_bytes gauge\nproteus_cache_bytes %lld\n",
            (long long)atomic_load(&c->bytes));
    buf_fmt(to, "# HELP proteus_cache_requests_total Artifacts looked for in memory.\n# TYPE proteus_cache_requests_total counter\n"
            "proteus_cache_requests_total{result=\"hit\"} %llu\nproteus_cache_requests_total{result=\"miss\"} %llu\n",
            (unsigned long long)atomic_load(&c->hits), (unsigned long long)atomic_load(&c->misses));
}

#include "gpu/judge/spare.h"

#include <malloc.h>
#include <pthread.h>

#define SPARE_MOST 16
#define SPARE_LEAST ((size_t)4 << 20)            /* smaller ones the allocator keeps itself */

static struct {
    pthread_mutex_t mutex;
    int count;
    int64_t bytes, most_bytes;
    void *list[SPARE_MOST];
} spare = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Takes the i-th out of the list; under the mutex. */
static void *take(int i)
{
    void *p = spare.list[i];
    spare.bytes -= (int64_t)malloc_usable_size(p);
    spare.list[i] = spare.list[--spare.count];
    return p;
}

void *spare_take(size_t bytes)
{
    void *p = NULL;
    pthread_mutex_lock(&spare.mutex);
    for (int i = spare.count - 1; bytes >= SPARE_LEAST && i >= 0 && !p; i--) {         /* the latest: some of it may be in a cache */
        const size_t size = malloc_usable_size(spare.list[i]);
        if (size >= bytes && size - bytes <= SPARE_LEAST)
            p = take(i);
    }
    pthread_mutex_unlock(&spare.mutex);
    return p ? p : xalloc_large(bytes);
}

void spare_give(void *p)
{
    const int64_t bytes = p ? (int64_t)malloc_usable_size(p) : 0;
    pthread_mutex_lock(&spare.mutex);
    const bool keep = bytes >= (int64_t)SPARE_LEAST && spare.count < SPARE_MOST && bytes <= spare.most_bytes - spare.bytes;
    if (keep) {
        spare.list[spare.count++] = p;
        spare.bytes += bytes;
    }
    pthread_mutex_unlock(&spare.mutex);
    if (!keep)
        free(p);
}

void spare_keep(int64_t most_bytes)
{
    pthread_mutex_lock(&spare.mutex);
    while (spare.count > 0)
        free(take(spare.count - 1));
    spare.most_bytes = most_bytes;
    pthread_mutex_unlock(&spare.mutex);
}

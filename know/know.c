/*
 * The open layer: the index beside the store. Every write of a lesson goes through know_commit, which takes it into the index once it is
 * durable; between the two a reader may find the older standing, never one that was not written.
 */
#include "know/internal.h"

#include "core/clock.h"

#define PAGE 1000

static bool see_lesson(void *ctx, const char *id, const json_t *doc)
{
    (void)id;
    index_put(ctx, doc);
    return true;
}

/* All lessons into a new index, in pages, so that no snapshot is held for long. */
static bool build_index(const struct know *k, struct index **ret, struct err *err)
{
    struct index *ix = index_new(k->thesaurus);
    cleanup(str) char *after = NULL;
    do {
        struct store_page page = {STORE_LESSON, NULL, after, PAGE, false};
        char *next = NULL;
        if (!store_list(k->store, &page, see_lesson, ix, &next, NULL, err)) {
            index_free(ix);
            return false;
        }
        free(after);
        after = next;
    } while (after);
    *ret = ix;
    return true;
}

bool know_open(const struct know_config *config, struct store *store, struct know **ret, struct err *err)
{
    struct know *k = xalloc(sizeof *k);
    k->config = *config;
    k->store = store;
    pthread_rwlock_init(&k->lock, NULL);
    pthread_mutex_init(&k->writing, NULL);
    pthread_mutex_init(&k->sleep, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&k->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bool ok = !config->thesaurus || thesaurus_load(config->thesaurus, &k->thesaurus, err);
    if (!ok || !measured_load(k, err) || !build_index(k, &k->index, err)) {
        know_close(k);
        return false;
    }
    *ret = k;
    return true;
}

void know_stop(struct know *k)
{
    if (!k || !k->started)
        return;
    k->stopping = true;
    know_wake(k);
    pthread_join(k->thread, NULL);
    k->started = false;
}

void know_close(struct know *k)
{
    if (!k)
        return;
    know_stop(k);
    free(k->round_after);
    index_free(k->index);
    thesaurus_free(k->thesaurus);
    pthread_rwlock_destroy(&k->lock);
    pthread_mutex_destroy(&k->writing);
    pthread_mutex_destroy(&k->sleep);
    pthread_cond_destroy(&k->wake);
    free(k);
}

bool know_commit(struct know *k, struct store_batch *b, const json_t *const *docs, int count, struct err *err)
{
    for (int i = 0; i < count; i++)
        store_put(b, STORE_LESSON, json_str(docs[i], "id", ""), lesson_state_name(lesson_state_of(docs[i])), docs[i]);
    for (int i = 0; i < count; i++)
        if (lesson_state_of(docs[i]) != LESSON_ACTIVE)
            store_delete(b, STORE_VECTOR, json_str(docs[i], "id", ""));
    if (!store_commit(k->store, b, NULL, err))
        return false;
    pthread_rwlock_wrlock(&k->lock);
    for (int i = 0; i < count; i++)
        index_put(k->index, docs[i]);
    bool stale = index_is_stale(k->index);
    pthread_rwlock_unlock(&k->lock);
    if (count && k->config.embed)
        know_wake(k);
    struct index *fresh = NULL;
    struct err why = {0};
    if (stale && build_index(k, &fresh, &why)) {     /* the caller holds `writing`: nothing is written meanwhile */
        pthread_rwlock_wrlock(&k->lock);
        struct index *old = k->index;
        index_move_vectors(fresh, old);
        k->index = fresh;
        pthread_rwlock_unlock(&k->lock);
        index_free(old);
    }
    return true;
}

void know_wake(struct know *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->sleep);
    k->news = true;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->sleep);
}

/*
 * Vectors by a model behind an endpoint, where one is configured: of lessons, by this module's own thread, and of a query, by whoever may wait
 * for it. They are one more list beside the others, never in their place: a lesson without a vector, or a query while the endpoint fails, stands
 * still or is asked by somebody else, is found by the rest. What was asked once is kept (vectors_kept.c) and not asked again.
 */
#include "know/internal.h"

#include "core/clock.h"

#include <math.h>

#define AT_ONCE 32                       /* texts of one request */

/* What a model gets of a lesson. */
static char *text_of(const json_t *doc)
{
    return xfmt("%s %s", json_str(doc, "situation", ""), json_str(doc, "action", ""));
}

struct batch { int count; uint64_t content[AT_ONCE]; char id[AT_ONCE][LESSON_ID_SIZE], *text[AT_ONCE]; };

static void batch_done(struct batch *b)
{
    for (int i = 0; i < b->count; i++)
        free(b->text[i]);
}
DEFINE_CLEANUP(batch, struct batch, batch_done(it))

/* The next lessons without a vector, from *doc on. */
static void collect(struct know *k, int *doc, struct batch *b)
{
    pthread_rwlock_rdlock(&k->lock);
    while (b->count < AT_ONCE && (*doc = index_next_bare(k->index, *doc, &b->content[b->count])) >= 0)
        snprintf(b->id[b->count++], LESSON_ID_SIZE, "%s", index_id(k->index, (*doc)++));
    pthread_rwlock_unlock(&k->lock);
    int kept = 0;
    for (int i = 0; i < b->count; i++) {
        cleanup(json) json_t *lesson = NULL;
        struct err gone = {0};
        if (!store_get(k->store, STORE_LESSON, b->id[i], &lesson, &gone))
            continue;
        memmove(b->id[kept], b->id[i], LESSON_ID_SIZE);
        b->content[kept] = b->content[i];
        b->text[kept++] = text_of(lesson);
    }
    b->count = kept;
}

static bool all_finite(const float *v, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(v[i]))
            return false;
    return true;
}

static bool ask(struct know *k, const char *const *texts, int count, bool for_query, float **ret, int *ret_dim, struct err *err)
{
    *ret = NULL;
    bool ok = k->config.embed(k->config.ctx, texts, count, for_query, ret, ret_dim, err);
    if (ok && (*ret_dim < 1 || *ret_dim > LESSON_MOST_DIM || !all_finite(*ret, (size_t)count * (size_t)*ret_dim)))
        ok = err_set(err, ERR_UPSTREAM, "the endpoint's vectors are none");
    if (!ok) {
        free(*ret);
        *ret = NULL;
        k->embed_failures++;
        k->embed_after_ns = clock_mono_ns() + EMBED_RETRY_NS;
    }
    return ok;
}

/* Under `writing`, as every change of the index: a new one may be being built. */
static int take(struct know *k, const struct batch *b, const float *v, int dim)
{
    int taken = 0;
    pthread_mutex_lock(&k->writing);
    pthread_rwlock_wrlock(&k->lock);
    for (int i = 0; i < b->count; i++)
        taken += index_set_vector(k->index, b->id[i], b->content[i], v + (size_t)i * (size_t)dim, dim);
    pthread_rwlock_unlock(&k->lock);
    pthread_mutex_unlock(&k->writing);
    return taken;
}

/* Those that were asked for before are taken as they were and leave the batch; how many. */
static int take_kept(struct know *k, struct batch *b)
{
    int kept = 0, taken = 0;
    for (int i = 0; i < b->count; i++) {
        int dim = 0;
        cleanup(mem) void *v = vector_kept(k, b->id[i], b->text[i], &dim);
        struct batch one = {.count = 1, .content = {b->content[i]}};
        memcpy(one.id[0], b->id[i], LESSON_ID_SIZE);
        if (v && take(k, &one, v, dim)) {
            free(b->text[i]);
            taken++;
            continue;
        }
        memmove(b->id[kept], b->id[i], LESSON_ID_SIZE);
        b->content[kept] = b->content[i];
        b->text[kept++] = b->text[i];
    }
    b->count = kept;
    return taken;
}

static bool keep(struct know *k, const struct batch *b, const float *v, int dim, struct err *err)
{
    struct store_batch *batch = store_batch_new();
    for (int i = 0; i < b->count; i++)
        vector_keep(k, batch, b->id[i], b->text[i], v + (size_t)i * (size_t)dim, dim);
    return store_commit(k->store, batch, NULL, err);
}

/* Asks for one batch, takes and keeps it. */
static bool embed_batch(struct know *k, const struct batch *b, int *ret_taken, struct err *err)
{
    float *v;
    int dim = 0;
    if (!ask(k, (const char *const *)b->text, b->count, false, &v, &dim, err))
        return false;
    cleanup(mem) void *memory = v;
    *ret_taken = take(k, b, v, dim);
    if (*ret_taken)
        return keep(k, b, v, dim, err);
    k->embed_failures++;
    /* Of the same name and another model, as it seems: after a start all are asked for anew. */
    struct err why = {0};
    if (!vectors_forget(k, &why))
        return err_set(err, why.code, "%s", why.text);
    return err_set(err, ERR_UPSTREAM, "the endpoint's vectors have %d figures, and those that are here another number", dim);
}

bool know_embed(struct know *k, int *ret_count, struct err *err)
{
    *ret_count = 0;
    for (int doc = 0; k->config.embed && doc >= 0 && !k->stopping;) {
        cleanup(batch) struct batch b = {.count = 0};
        int taken = 0;
        collect(k, &doc, &b);
        *ret_count += take_kept(k, &b);
        if (!b.count)
            continue;
        if (!embed_batch(k, &b, &taken, err))
            return false;
        *ret_count += taken;
    }
    return true;
}

float *vector_of_query(struct know *k, const char *text, int *ret_dim)
{
    float *v = NULL;
    struct err err = {0};
    if (!k->config.embed)
        return NULL;
    bool free_to_ask = clock_mono_ns() >= k->embed_after_ns && !atomic_exchange(&k->embed_asking, true);
    if (free_to_ask) {
        cleanup(buf) struct buf clean = {0};
        utf8_clean(&clean, text, strnlen(text, LESSON_QUERY_BYTES));
        if (!ask(k, (const char *const[]){buf_cstr(&clean)}, 1, true, &v, ret_dim, &err))
            v = NULL;
        k->embed_asking = false;
    }
    k->embed_fallbacks += !v;
    return v;
}

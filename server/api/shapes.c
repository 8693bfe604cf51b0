/*
 * Neighbours of a shape. A hash says nothing about its shape, so the shapes of jobs and of POST /v1/shape-hash are remembered
 * (the latest few thousand, in memory); distance is the sum of |log2| ratios over the axes, plus one for each other dtype.
 */
#include "server/api/api.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define REMEMBERED 2048
#define NEAREST 5
#define SCANNED 5000

struct shape_memory {
    pthread_mutex_t lock;
    int next;
    struct { char hash[HASH_HEX_SIZE]; json_t *shape; } ring[REMEMBERED];
};

struct shape_memory *shape_memory_new(void)
{
    struct shape_memory *m = xalloc(sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

void shape_memory_free(struct shape_memory *m)
{
    if (!m)
        return;
    for (int i = 0; i < REMEMBERED; i++)
        json_decref(m->ring[i].shape);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static int find(const struct shape_memory *m, const char *hash)
{
    for (int i = 0; i < REMEMBERED; i++)
        if (!memcmp(m->ring[i].hash, hash, HASH_HEX_SIZE))
            return i;
    return -1;
}

void shape_memory_add(struct shape_memory *m, const char *hash, const json_t *shape)
{
    if (!hash_hex_valid(hash))
        return;
    pthread_mutex_lock(&m->lock);
    if (find(m, hash) < 0) {
        int at = m->next;
        m->next = (m->next + 1) % REMEMBERED;
        json_decref(m->ring[at].shape);
        m->ring[at].shape = json_deep_copy(shape);
        memcpy(m->ring[at].hash, hash, HASH_HEX_SIZE);
    }
    pthread_mutex_unlock(&m->lock);
}

json_t *shape_memory_find(struct shape_memory *m, const char *hash)
{
    pthread_mutex_lock(&m->lock);
    int at = find(m, hash);
    json_t *copy = at < 0 ? NULL : json_deep_copy(m->ring[at].shape);
    pthread_mutex_unlock(&m->lock);
    return copy;
}

/* HUGE_VAL for another operator or target. */
static double distance(const json_t *a, const json_t *b)
{
    if (strcmp(json_str(a, "op", ""), json_str(b, "op", "")) || strcmp(json_str(a, "target", ""), json_str(b, "target", "")))
        return HUGE_VAL;
    double sum = 0;
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(a, "axes"), name, value) {
        double x = json_number_value(value), y = json_num(json_object_get(b, "axes"), name, x);
        sum += fabs(log2(fabs(x) + 1) - log2(fabs(y) + 1));
    }
    json_object_foreach(json_object_get(a, "dtypes"), name, value)
        sum += strcmp(json_string_value(value) ? json_string_value(value) : "", json_str(json_object_get(b, "dtypes"), name, "")) != 0;
    return sum;
}

struct search {
    const json_t *shape;           /* NULL: not known */
    int count;
    struct { double distance; json_t *entry; } best[NEAREST];
};

static json_t *entry_of(const json_t *kernel, double d)
{
    json_t *entry = json_object();
    static const char *const keys[] = {"shape_hash", "shape", "evidence", "speedup", "time_ns"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(kernel, keys[i]);
        if (value)
            json_object_set(entry, keys[i], value);
    }
    if (isfinite(d))
        json_put_num(entry, "distance", d);
    return entry;
}

static bool consider(void *ctx, const char *id, const json_t *kernel)
{
    (void)id;
    struct search *s = ctx;
    double d = s->shape ? distance(s->shape, json_object_get(kernel, "shape")) : 0;
    if (!isfinite(d) || (s->count == NEAREST && d >= s->best[NEAREST - 1].distance))
        return true;
    int at = s->count < NEAREST ? s->count++ : NEAREST - 1;
    if (at == NEAREST - 1)
        json_decref(s->best[at].entry);
    for (; at > 0 && s->best[at - 1].distance > d; at--)
        s->best[at] = s->best[at - 1];
    s->best[at].distance = d;
    s->best[at].entry = entry_of(kernel, s->shape ? d : HUGE_VAL);
    return true;
}

json_t *shapes_nearest(struct app *app, const char *hash)
{
    cleanup(json) json_t *shape = shape_memory_find(app->shapes, hash);
    struct search s = {.shape = shape};
    struct store_page page = {.kind = STORE_KERNEL, .limit = shape ? SCANNED : NEAREST};
    json_t *list = json_array();
    struct err err;
    if (!store_list(app->store, &page, consider, &s, NULL, NULL, &err))
        return list;
    for (int i = 0; i < s.count; i++)
        json_array_append_new(list, s.best[i].entry);
    return list;
}

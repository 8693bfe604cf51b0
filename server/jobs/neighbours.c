/*
 * The nearest shapes whose best settings are known: of kernels that are served, and of the seeds that the configuration names. What is
 * told of them are values out of what their candidates say of themselves.
 */
#include "server/jobs/internal.h"

#include <math.h>

#define NEIGHBOURS 3
#define NEIGHBOURS_LOOKED_AT 4096        /* served kernels; a store with more of them has near ones among the first too */
#define PAGE 256

struct near { double far; char candidate[40]; json_t *shape; const json_t *seed; };
struct looking { const struct shape *s; const json_t *mine; const char *evidence; int seen, count; struct near list[NEIGHBOURS]; };

/* How many doublings of axes lie between two shapes; INFINITY: not of a kind. */
static double distance(const struct looking *l, const json_t *shape)
{
    const json_t *axes = json_object_get(shape, "axes");
    double sum = 0;
    if (!json_equal(json_object_get(shape, "dtypes"), json_object_get(l->mine, "dtypes")))
        return INFINITY;
    for (int i = 0; i < l->s->op->axis_count; i++) {
        if (!l->s->op->axes[i].keyed)
            continue;
        double other = (double)json_int(axes, l->s->op->axes[i].name, -1);
        if (other < 0)
            return INFINITY;
        sum += fabs(log2(other + 1) - log2((double)l->s->axes[i] + 1));
    }
    return sum;
}

/* Among the nearest, if it is one; it takes a reference then. */
static void place(struct looking *l, struct near n)
{
    int at = l->count;
    while (at > 0 && n.far < l->list[at - 1].far)
        at--;
    if (!isfinite(n.far) || at == NEIGHBOURS)
        return;
    if (l->count == NEIGHBOURS)
        json_decref(l->list[--l->count].shape);
    memmove(l->list + at + 1, l->list + at, (size_t)(l->count - at) * sizeof *l->list);
    json_incref(n.shape);
    l->list[at] = n;
    l->count++;
}

static bool see_kernel(void *ctx, const char *hash, const json_t *manifest)
{
    struct looking *l = ctx;
    const json_t *shape = json_object_get(manifest, "shape");
    (void)hash;
    l->seen++;
    if (strcmp(json_str(manifest, "op", ""), l->s->op->name) || strcmp(json_str(manifest, "target", ""), l->s->target) ||
        (l->evidence && strcmp(json_str(manifest, "evidence", ""), l->evidence)) || json_bool(manifest, "is_baseline", true) || json_equal(shape, l->mine))
        return true;
    struct near n = {.far = distance(l, shape), .shape = (json_t *)(uintptr_t)shape};
    snprintf(n.candidate, sizeof n.candidate, "%s", json_str(manifest, "candidate", ""));
    place(l, n);
    return true;
}

/* What the configuration knows to be fast somewhere, this very shape included; before a kernel that is as far. */
static void see_seeds(struct looking *l, const json_t *seeds)
{
    json_t *seed;
    size_t i;
    json_array_foreach(seeds, i, seed) {
        const json_t *shape = json_object_get(seed, "shape");
        if (strcmp(json_str(shape, "op", ""), l->s->op->name) != 0 || strcmp(json_str(shape, "target", l->s->target), l->s->target) != 0)
            continue;
        place(l, (struct near){.far = distance(l, shape), .shape = (json_t *)(uintptr_t)shape, .seed = seed});
    }
}

bool neighbours_find(struct jobs *j, const struct shape *s, const char *evidence, json_t **ret, struct err *err)
{
    cleanup(json) json_t *mine = shape_encode(s), *list = json_array();
    struct looking l = {.s = s, .mine = mine, .evidence = evidence};
    cleanup(str) char *after = NULL;
    bool ok = true;
    see_seeds(&l, j->config.seeds);
    do {
        struct store_page page = {STORE_KERNEL, NULL, after, PAGE, false};
        char *next = NULL;
        ok = store_list(j->store, &page, see_kernel, &l, &next, NULL, err);
        free(after);
        after = next;
    } while (ok && after && l.seen < NEIGHBOURS_LOOKED_AT);
    for (int i = 0; i < l.count; i++) {
        cleanup(json) json_t *record = NULL;
        struct err gone = {0};
        const json_t *seed = l.list[i].seed;
        bool found = ok && (seed || store_get(j->store, STORE_CANDIDATE, l.list[i].candidate, &record, &gone));
        const json_t *origin = seed ? seed : json_object_get(record, "origin");
        if (found && json_is_object(json_object_get(origin, "params")) && json_str(origin, "template", NULL)) {
            cleanup(str) char *text = json_text(json_object_get(l.list[i].shape, "axes"));
            json_t *one = json_object();
            json_put_str(one, "template", json_str(origin, "template", ""));
            json_put(one, "params", json_incref(json_object_get(origin, "params")));
            json_put_str(one, "shape", text);
            if (seed)
                json_put_bool(one, "seed", true);
            json_array_append_new(list, one);
        }
        json_decref(l.list[i].shape);
    }
    *ret = json_incref(list);
    return ok;
}

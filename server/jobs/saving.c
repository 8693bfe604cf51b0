/* What a search for a shape would save, and what that is based on; the order that follows from it. */
#include "server/jobs/observed.h"

#include <string.h>

static const char *const basis_names[] = {
#define X(code, name) [code] = name,
    SAVING_TABLE(X)
#undef X
};

/* The least bytes at the nominal rate; 0: the operator is not here any more. */
static double floor_ns(const struct op_set *ops, const json_t *doc)
{
    struct faults f = {0};
    struct shape shape;
    struct err err = {0};
    int64_t bytes, flops;
    if (!shape_parse(ops, doc, NULL, "", &shape, &f) || !shape_work(&shape, &bytes, &flops, &err))
        return 0;
    return (double)bytes / OBSERVED_NOMINAL_BYTES_PER_NS;
}

static void set_times(struct saving *s, double baseline_ns, double best_ns, enum saving_basis basis)
{
    s->each_ns = baseline_ns > best_ns ? baseline_ns - best_ns : 0;
    s->basis = basis;
}

/* kernel and record may be NULL. */
static struct saving saving_from(const struct op_set *ops, const json_t *shape, const json_t *kernel, const json_t *record, int64_t count)
{
    const json_t *estimate = json_object_get(record, "estimate");
    struct saving s = {.count = json_int(record, "count", count), .basis = SAVING_NOTHING};
    if (json_num(kernel, "baseline_time_ns", 0) > 0)
        set_times(&s, json_num(kernel, "baseline_time_ns", 0), json_num(kernel, "time_ns", 0),
                  strcmp(json_str(kernel, "evidence", ""), "measured") == 0 ? SAVING_MEASURED : SAVING_ESTIMATE);
    else if (json_num(estimate, "baseline_ns", 0) > 0)
        set_times(&s, json_num(estimate, "baseline_ns", 0), json_num(estimate, "best_ns", 0), SAVING_ESTIMATE);
    else if ((s.each_ns = floor_ns(ops, shape)) > 0)
        s.basis = SAVING_BYTE_FLOOR;
    s.total_ns = s.each_ns * (double)s.count;
    return s;
}

static json_t *get_or_null(struct store *store, enum store_kind kind, const char *id)
{
    json_t *doc = NULL;
    struct err err = {0};
    return store_get(store, kind, id, &doc, &err) ? doc : NULL;
}

struct saving saving_of(struct store *store, const struct op_set *ops, const char *hash, const json_t *shape, int64_t count)
{
    cleanup(json) json_t *kernel = get_or_null(store, STORE_KERNEL, hash), *record = get_or_null(store, STORE_OBSERVED, hash);
    return saving_from(ops, shape, kernel, record, count);
}

json_t *saving_encode(const struct saving *s)
{
    json_t *doc = json_object();
    json_put_num(doc, "saving_ns", s->total_ns);
    json_put_num(doc, "each_ns", s->each_ns);
    json_put_int(doc, "count", s->count);
    json_put_str(doc, "based_on", basis_names[s->basis]);
    return doc;
}

/* ---- the order ---- */
struct ranked { double saving_ns; json_t *doc; };
struct rank {
    struct store *store;
    const struct op_set *ops;
    const char *op;                      /* NULL: all */
    bool unknown_only;
    int count, capacity;
    struct ranked *list;
};

static json_t *kernel_brief(const json_t *kernel)
{
    static const char *const keys[] = {"time_ns", "baseline_time_ns", "speedup", "evidence"};
    json_t *doc = kernel ? json_object() : json_null();
    for (size_t i = 0; kernel && i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(kernel, keys[i]))
            json_object_set(doc, keys[i], json_object_get(kernel, keys[i]));
    return doc;
}

static void rank_record(struct rank *r, const json_t *record)
{
    const char *id = json_str(record, "shape_hash", "");
    const json_t *shape = json_object_get(record, "shape");
    if (r->op && strcmp(json_str(shape, "op", ""), r->op) != 0)
        return;
    cleanup(json) json_t *kernel = get_or_null(r->store, STORE_KERNEL, id), *order = NULL;
    struct saving s = saving_from(r->ops, shape, kernel, record, 0);
    if (r->unknown_only && (s.basis != SAVING_BYTE_FLOOR || json_object_get(record, "estimate")))
        return;
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        r->list = xrealloc(r->list, (size_t)r->capacity * sizeof *r->list);
    }
    json_t *doc = json_copy((json_t *)(uintptr_t)record);
    json_put(doc, "order", saving_encode(&s));
    json_put(doc, "kernel", kernel_brief(kernel));
    r->list[r->count++] = (struct ranked){s.total_ns, doc};
}

static bool collect(void *ctx, const char *id, const json_t *record)
{
    (void)id;
    json_array_append(ctx, (json_t *)(uintptr_t)record);
    return true;
}

static int by_saving(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->saving_ns != y->saving_ns)
        return x->saving_ns < y->saving_ns ? 1 : -1;
    return strcmp(json_str(x->doc, "shape_hash", ""), json_str(y->doc, "shape_hash", ""));
}

static void rank_done(struct rank *r)
{
    for (int i = 0; i < r->count; i++)
        json_decref(r->list[i].doc);
    free(r->list);
}
DEFINE_CLEANUP(rank, struct rank, rank_done(it))

/* All records, in pages, so that no snapshot is held for long. */
static bool rank_all(struct rank *r, struct err *err)
{
    cleanup(str) char *after = NULL;
    do {
        struct store_page page = {STORE_OBSERVED, NULL, after, 500, false};
        char *next = NULL;
        cleanup(json) json_t *records = json_array();
        json_t *record;
        size_t i;
        if (!store_list(r->store, &page, collect, records, &next, NULL, err))
            return false;
        free(after);
        after = next;
        json_array_foreach(records, i, record)
            rank_record(r, record);
    } while (after);
    if (r->count)
        qsort(r->list, (size_t)r->count, sizeof *r->list, by_saving);
    return true;
}

bool observed_rank(struct store *store, const struct op_set *ops, const char *op, int most, json_t **ret, struct err *err)
{
    cleanup(rank) struct rank r = {.store = store, .ops = ops, .op = op};
    if (!rank_all(&r, err))
        return false;
    *ret = json_array();
    for (int i = 0; i < r.count && i < most; i++)
        json_array_append(*ret, r.list[i].doc);
    return true;
}

bool observed_unknown(struct store *store, const struct op_set *ops, json_t **ret, struct err *err)
{
    cleanup(rank) struct rank r = {.store = store, .ops = ops, .unknown_only = true};
    if (!rank_all(&r, err))
        return false;
    *ret = r.count ? json_incref(r.list[0].doc) : NULL;
    return true;
}

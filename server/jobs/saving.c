/* What a search for a shape would save, and what that is based on; the order that follows from it. */
#include "server/jobs/observed.h"

#include <string.h>

static const char *const basis_names[] = {
#define X(code, name) [code] = name,
    SAVING_TABLE(X)
#undef X
};

/* The least bytes at the nominal rate; 0: the operator is not here any more, or takes no such shape. */
static double floor_ns(const struct op_set *ops, const json_t *doc, struct shape *ret)
{
    struct faults f = {0};
    struct err err = {0};
    int64_t bytes, flops;
    if (!shape_parse(ops, doc, NULL, "", ret, &f) || !shape_work(ret, &bytes, &flops, &err))
        return 0;
    return (double)bytes / OBSERVED_NOMINAL_BYTES_PER_NS;
}

static void set_times(struct saving *s, double baseline_ns, double best_ns, enum saving_basis basis)
{
    s->each_ns = baseline_ns > best_ns ? baseline_ns - best_ns : 0;
    s->basis = basis;
}

/* By what is known of the shape itself; kernel and record may be NULL. False: nothing is. */
static bool own_saving(const json_t *kernel, const json_t *record, int64_t count, struct saving *ret)
{
    const json_t *estimate = json_object_get(record, "estimate");
    *ret = (struct saving){.count = json_int(record, "count", count), .basis = SAVING_NOTHING};
    if (json_num(kernel, "baseline_time_ns", 0) > 0)
        set_times(ret, json_num(kernel, "baseline_time_ns", 0), json_num(kernel, "time_ns", 0),
                  strcmp(json_str(kernel, "evidence", ""), "measured") == 0 ? SAVING_MEASURED : SAVING_ESTIMATE);
    else if (json_num(estimate, "baseline_ns", 0) > 0)
        set_times(ret, json_num(estimate, "baseline_ns", 0), json_num(estimate, "best_ns", 0), SAVING_ESTIMATE);
    ret->total_ns = ret->each_ns * (double)ret->count;
    return ret->basis != SAVING_NOTHING;
}

/* By others, or by its bytes alone. */
static void guess(const struct nearby *nearby, const struct shape *shape, double floor, struct saving *s)
{
    if (floor > 0 && !(nearby && nearby_guess(nearby, shape, floor, s))) {
        s->each_ns = floor;
        s->basis = SAVING_BYTE_FLOOR;
    }
    s->total_ns = s->each_ns * (double)s->count;
}

static json_t *get_or_null(struct store *store, enum store_kind kind, const char *id)
{
    json_t *doc = NULL;
    struct err err = {0};
    return store_get(store, kind, id, &doc, &err) ? doc : NULL;
}

struct saving saving_of(struct store *store, const struct op_set *ops, const struct nearby *nearby, const char *hash, const json_t *shape, int64_t count)
{
    cleanup(json) json_t *kernel = get_or_null(store, STORE_KERNEL, hash), *record = get_or_null(store, STORE_OBSERVED, hash);
    struct saving s;
    struct shape parsed;
    if (!own_saving(kernel, record, count, &s)) {
        double floor = floor_ns(ops, shape, &parsed);
        guess(nearby, &parsed, floor, &s);
    }
    return s;
}

json_t *saving_encode(const struct saving *s)
{
    json_t *doc = json_object();
    json_put_num(doc, "saving_ns", s->total_ns);
    json_put_num(doc, "each_ns", s->each_ns);
    json_put_int(doc, "count", s->count);
    json_put_str(doc, "based_on", basis_names[s->basis]);
    if (s->basis == SAVING_NEARBY)
        json_put(doc, "nearby", json_pack("{s:s,s:f}", "shape_hash", s->from, "factor", s->factor));
    return doc;
}

/* ---- the order ---- */
struct ranked {
    struct saving saving;
    struct shape *shape;                 /* owned; of those of which nothing of their own is known */
    double floor_ns;
    bool unknown;                        /* there is no estimate by the operator as it is now, and no kernel */
    json_t *doc;
};
struct rank {
    struct store *store;
    const struct op_set *ops;
    const char *op;                      /* NULL: all */
    int count, capacity;
    int64_t estimates;                   /* tried, whatever came of them */
    struct ranked *list;
    struct nearby *nearby;
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

/* The estimate is to be made, or made anew: its operator was another then. */
static bool is_stale(const json_t *estimate, const struct op *op)
{
    return !estimate || strcmp(json_str(estimate, "op_digest", ""), op->digest.text) != 0;
}

static void rank_record(struct rank *r, const json_t *record)
{
    const char *id = json_str(record, "shape_hash", "");
    const json_t *shape = json_object_get(record, "shape"), *estimate = json_object_get(record, "estimate");
    if (r->op && strcmp(json_str(shape, "op", ""), r->op) != 0)
        return;
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        r->list = xrealloc(r->list, (size_t)r->capacity * sizeof *r->list);
    }
    cleanup(json) json_t *kernel = get_or_null(r->store, STORE_KERNEL, id);
    struct ranked *one = &r->list[r->count++];
    struct shape parsed;
    *one = (struct ranked){.floor_ns = floor_ns(r->ops, shape, &parsed), .doc = json_copy((json_t *)(uintptr_t)record)};
    json_put(one->doc, "kernel", kernel_brief(kernel));
    bool own = own_saving(kernel, record, 0, &one->saving), fresh = one->floor_ns > 0 && !is_stale(estimate, parsed.op);
    r->estimates += fresh;
    one->unknown = !kernel && one->floor_ns > 0 && !fresh;
    if (own && !kernel && fresh)
        nearby_add(r->nearby, id, &parsed, one->floor_ns, json_num(estimate, "baseline_ns", 0), one->saving.each_ns);
    if ((!own || one->unknown) && one->floor_ns > 0) {
        one->shape = xalloc(sizeof parsed);
        *one->shape = parsed;
    }
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
    if (x->saving.total_ns != y->saving.total_ns)
        return x->saving.total_ns < y->saving.total_ns ? 1 : -1;
    return strcmp(json_str(x->doc, "shape_hash", ""), json_str(y->doc, "shape_hash", ""));
}

static void rank_done(struct rank *r)
{
    for (int i = 0; i < r->count; i++) {
        json_decref(r->list[i].doc);
        free(r->list[i].shape);
    }
    free(r->list);
    nearby_free(r->nearby);
}
DEFINE_CLEANUP(rank, struct rank, rank_done(it))

/* All records, in pages, so that no snapshot is held for long; what nothing is known of is guessed when all estimates were seen. */
static bool rank_all(struct rank *r, struct err *err)
{
    cleanup(str) char *after = NULL;
    r->nearby = nearby_new();
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
    for (int i = 0; i < r->count; i++) {
        struct ranked *one = &r->list[i];
        if (one->saving.basis == SAVING_NOTHING)
            guess(r->nearby, one->shape, one->floor_ns, &one->saving);
        json_put(one->doc, "order", saving_encode(&one->saving));
    }
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

/* Of those that are unknown and have (or lack) an estimate close by; the former leave out what is close to one chosen already. */
static void choose_unknown(const struct rank *r, bool lone, int most, json_t *to)
{
    cleanup(nearby) struct nearby *chosen = nearby_new();
    for (int i = 0; i < r->count && (int)json_array_size(to) < most; i++) {
        const struct ranked *one = &r->list[i];
        if (!one->unknown || (lone && (one->saving.basis != SAVING_BYTE_FLOOR || nearby_has(chosen, one->shape))))
            continue;
        if (lone)
            nearby_add(chosen, "", one->shape, 1, 1, 1);
        json_array_append(to, one->doc);
    }
}

bool observed_unknown(struct store *store, const struct op_set *ops, int most, int64_t estimates_most, json_t **ret, struct nearby **ret_nearby,
                      struct err *err)
{
    cleanup(rank) struct rank r = {.store = store, .ops = ops};
    if (!rank_all(&r, err))
        return false;
    *ret = json_array();
    if (most > estimates_most - r.estimates)
        most = estimates_most > r.estimates ? (int)(estimates_most - r.estimates) : 0;
    choose_unknown(&r, true, most, *ret);
    if (!json_array_size(*ret))
        choose_unknown(&r, false, most, *ret);
    *ret_nearby = steal(&r.nearby);
    return true;
}

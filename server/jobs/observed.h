/*
 * Shapes from the field: what an engine logged that it launches, and how often. They say what a search would be worth: jobs, and the
 * shapes of a job, are taken in the order of what they would save.
 *
 * Observed (STORE_OBSERVED, by shape hash) {"shape_hash","shape","count","first","last","estimate"?:{"evidence":"emulated","baseline_ns",
 *          "best_ns","tried","op_digest","time"} | {"error","op_digest","time"}}
 *
 * What a shape would save: count x (time of its baseline - time of the best). The times are those of the kernel that is served, or where
 * there is none the emulator's estimates of the baseline and of the best of a few candidates (estimate.c), or where there are none either
 * a guess from the estimates of a shape close by (nearby.c), or where there is none such the time in which the shape's least bytes pass at
 * OBSERVED_NOMINAL_BYTES_PER_NS: a size, not a time that anything takes. Each figure goes with what it is based on.
 *
 * All functions may be called from any thread.
 */
#pragma once
#include "core/shape.h"
#include "store/store.h"

#define OBSERVED_NOMINAL_BYTES_PER_NS 4000.0
#define OBSERVED_COUNT_MAX ((int64_t)1 << 50)

/* X(code, name): from the best to the least */
#define SAVING_TABLE(X)                 \
    X(SAVING_MEASURED, "measured")      \
    X(SAVING_ESTIMATE, "estimate")      \
    X(SAVING_NEARBY, "nearby_estimate") \
    X(SAVING_BYTE_FLOOR, "byte_floor")  \
    X(SAVING_NOTHING, "nothing")
enum saving_basis {
#define X(code, name) code,
    SAVING_TABLE(X)
#undef X
};
struct saving {
    double total_ns, each_ns;            /* each: of one launch */
    int64_t count;
    enum saving_basis basis;
    char from[HASH_HEX_SIZE];            /* of SAVING_NEARBY: the shape whose estimates these are, */
    double factor;                       /* and what its saving was multiplied with */
};

/* ---- nearby.c: estimates to guess from. Filled by one thread, then read by any number ---- */
struct nearby;
struct nearby *nearby_new(void);
void nearby_free(struct nearby *n);
DEFINE_CLEANUP(nearby, struct nearby *, nearby_free(*it))
void nearby_add(struct nearby *n, const char *hash, const struct shape *s, double floor_ns, double baseline_ns, double saving_ns);
bool nearby_has(const struct nearby *n, const struct shape *s);      /* one close enough to guess from */
/* Of one launch: each_ns, basis, from, factor. False: there is none close enough, *ret is untouched. */
bool nearby_guess(const struct nearby *n, const struct shape *s, double floor_ns, struct saving *ret) MUST_CHECK;

/* ---- saving.c ---- */
/*
 * Of one shape. count: launches where nobody has observed it (a model's, by step; 0: unknown, and nothing is saved).
 * nearby: estimates that it may be guessed from, or NULL. What the store cannot tell counts as not known.
 */
struct saving saving_of(struct store *store, const struct op_set *ops, const struct nearby *nearby, const char *hash, const json_t *shape,
                        int64_t count);
/* {"saving_ns","each_ns","count","based_on","nearby"?:{"shape_hash","factor"}}; new reference. */
json_t *saving_encode(const struct saving *s);

struct observed_limits { int64_t lines, shapes; };   /* of one import; of all that are kept */
/*
 * Adds lines of {"op","axes","dtypes"?,"target"?,"count"?}; counts add up. A line that is no such object is a fault (pointer: /LINE from 0,
 * then into it) and nothing is taken; a shape of an operator that is not here, or that takes no such shape, is left out and told.
 * *ret: {"lines","taken","shapes","new","skipped","skipped_because":[{"line": from 1,"detail"} the first few]}; new reference.
 */
bool observed_add(struct store *store, const struct op_set *ops, const char *default_target, const char *text, size_t bytes,
                  const struct observed_limits *limits, json_t **ret, struct faults *f, struct err *err) MUST_CHECK;
/*
 * What would save most first, at most `most`, of one operator or all (op NULL): [{"shape_hash","shape","count","first","last","order":{saving},
 * "kernel":{"time_ns","baseline_time_ns","speedup","evidence"}|null,"estimate"?}]; new reference. Reads all that there are.
 */
bool observed_rank(struct store *store, const struct op_set *ops, const char *op, int most, json_t **ret, struct err *err) MUST_CHECK;
/*
 * Which shapes to estimate next, at most `most`, and none once `estimates_most` have an estimate: those that have neither a kernel nor an estimate by
 * the operator as it is now. First those with no estimate close by, of shapes close to each other one; when all have one close by, those that would
 * save most. *ret: their records; new reference. *ret_nearby: the estimates that there are; the caller's.
 */
bool observed_unknown(struct store *store, const struct op_set *ops, int most, int64_t estimates_most, json_t **ret, struct nearby **ret_nearby,
                      struct err *err) MUST_CHECK;
/* Writes an estimate into the record, whatever its count is by now. ERR_NOT_FOUND: it is gone. */
bool observed_estimate(struct store *store, const char *hash, const json_t *estimate, struct err *err) MUST_CHECK;
/* Forgets all. */
bool observed_clear(struct store *store, int64_t *ret_count, struct err *err) MUST_CHECK;

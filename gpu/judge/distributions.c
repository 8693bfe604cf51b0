/*
 * Distributions are a table; each fills a run of elements of one tensor from (seed, stream, index of the element): integer arithmetic,
 * additions and multiplications only, so that all machines make the same bits.
 */
#include "gpu/judge/distributions.h"

#include "core/expr.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

/* Sum of eight uniforms of 16 bits, scaled to mean 0 and deviation 1: the same bits everywhere. */
static double normal(const struct dist *d, uint64_t at)
{
    uint64_t x = rng_at(d->seed, d->stream, 2 * at), y = rng_at(d->seed, d->stream, 2 * at + 1);
    int64_t sum = 0;
    for (int i = 0; i < 64; i += 16)
        sum += (int64_t)((x >> i) & 0xffff) + (int64_t)((y >> i) & 0xffff);
    return (double)(2 * sum - 8 * 65535) * (0x1p-17 * 1.2247448713915890);   /* sqrt(12/8) / 65536 / 2 */
}

static void fill_normal(struct dist *d, int64_t first, int64_t count, double *ret)
{
    for (int64_t i = 0; i < count; i++)
        ret[i] = d->mean + d->std * normal(d, (uint64_t)(first + i));
}

static void fill_uniform(struct dist *d, int64_t first, int64_t count, double *ret)
{
    for (int64_t i = 0; i < count; i++)
        ret[i] = d->low + (d->high - d->low) * rng_unit(d->seed, d->stream, (uint64_t)(first + i));
}

/* A zero is of either sign: a kernel that looks at bits must know both. */
static double signed_zero(const struct dist *d, int64_t at, double value)
{
    return value == 0 && rng_below(d->seed, d->stream ^ 0x7a65726f00000000u, (uint64_t)at, 2) ? -0.0 : value;
}

static void fill_constant(struct dist *d, int64_t first, int64_t count, double *ret)
{
    for (int64_t i = 0; i < count; i++)
        ret[i] = signed_zero(d, first + i, d->value);
}

static void fill_integers(struct dist *d, int64_t first, int64_t count, double *ret)
{
    uint64_t n = (uint64_t)(int64_t)(d->high - d->low) + 1;
    for (int64_t i = 0; i < count; i++)
        ret[i] = signed_zero(d, first + i, d->low + (double)rng_below(d->seed, d->stream, (uint64_t)(first + i), n));
}

static void fill_outliers(struct dist *d, int64_t first, int64_t count, double *ret)
{
    fill_normal(d, first, count, ret);
    for (int64_t i = 0; i < count; i++)
        if (!rng_below(d->seed, ~d->stream, (uint64_t)(first + i), (uint64_t)d->every))
            ret[i] *= d->scale;
}

/* Drawn from [low, high], alike in each power of two. */
static double factor(double low, double high, uint64_t seed, uint64_t stream, uint64_t row)
{
    int exponents = 0;
    for (double x = low; x * 2 <= high; x *= 2)
        exponents++;
    uint64_t exponent = rng_below(seed, stream, row, (uint64_t)exponents + 1);
    double drawn = ldexp(low, (int)exponent) * (1 + rng_unit(seed, stream, row + ((uint64_t)1 << 40)));
    return drawn < high ? drawn : high;
}

static void fill_rows(struct dist *d, int64_t first, int64_t count, double *ret)
{
    fill_normal(d, first, count, ret);
    for (int64_t i = 0; i < count; i++)
        ret[i] *= factor(d->low, d->high, d->seed, ~d->stream, (uint64_t)((first + i) / d->row));
}

/*
 * The second half along a dimension repeats the first, or its opposite. It begins elsewhere in it, alike in all tensors of a seed: of two
 * that meet in a sum the terms cancel, but not those that one part of a kernel adds up.
 */
static void fill_mirrored(struct dist *d, int64_t first, int64_t count, double *ret)
{
    const int64_t half = d->along / 2;
    const int64_t turn = half ? (int64_t)rng_below(d->seed, 0x6d6972726f72u, 0, (uint64_t)half) : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = first + i, index = at / d->along_inner % d->along;
        const bool second = index >= half && index < 2 * half;
        const int64_t other = second ? at + ((index - half + turn) % half - index) * d->along_inner : at;
        ret[i] = d->mean + d->std * normal(d, (uint64_t)other);
        if (second)
            ret[i] = d->sign * ret[i] + d->part * d->std * normal(d, (uint64_t)at);
        else if (index == 2 * half)
            ret[i] = d->part * (ret[i] - d->mean);
    }
}

static void fill_slope(struct dist *d, int64_t first, int64_t count, double *ret)
{
    const double step = d->along > 1 ? (d->high - d->low) / (double)(d->along - 1) : 0;
    for (int64_t i = 0; i < count; i++)
        ret[i] = d->low + step * (double)((first + i) / d->along_inner % d->along);
}

/* A stretch is known by its first element, wherever a run of elements begins; the last of a row may be too short to hold the one. */
static void fill_hot(struct dist *d, int64_t first, int64_t count, double *ret)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = first + i, place = (at % d->row - d->origin) % d->stretch;
        ret[i] = (int64_t)rng_below(d->seed, d->stream ^ 0x686f7400000000u, (uint64_t)(at - place), (uint64_t)d->stretch) == place ? d->value : 0;
    }
}

static void fill_spikes(struct dist *d, int64_t first, int64_t count, double *ret)
{
    fill_normal(d, first, count, ret);
    for (int64_t r = first / d->row; count > 0 && r <= (first + count - 1) / d->row; r++)
        for (int64_t k = 0; k < d->spikes.each; k++) {
            const int64_t i = r * d->row + spikes_place(&d->spikes, r, k) - first;
            if (i >= 0 && i < count)
                ret[i] = d->value + d->std * normal(d, (uint64_t)(first + i));
        }
}

/* Each row has a part of its own that is masked. */
static void fill_masked(const struct dist *d, int64_t first, int64_t count, double *ret)
{
    const uint64_t stream = d->stream ^ 0x6d61736b65640000u;
    for (int64_t i = 0; i < count; i++) {
        const double part = d->masked[0] + (d->masked[1] - d->masked[0]) * rng_unit(d->seed, ~stream, (uint64_t)((first + i) / d->row));
        if (rng_unit(d->seed, stream, (uint64_t)(first + i)) < part)
            ret[i] = -INFINITY;
    }
}

/* A permutation of 0..n-1 without memory: four Feistel rounds over the next even number of bits, walked until inside. */
static uint64_t permuted(uint64_t seed, uint64_t stream, uint64_t n, uint64_t x)
{
    int half = 1;
    while (half < 31 && ((uint64_t)1 << (2 * half)) < n)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (rng_at(seed, stream + round + 1, right) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= n);
    return x;
}

/* Below zero, of every magnitude of an i32. */
static double padding_value(const struct dist *d, uint64_t at)
{
    const double value = d->padding_values[rng_below(d->seed, d->stream, at, (uint64_t)d->padding_count)];
    const uint64_t stream = d->stream ^ 0x70616464656400u;
    return isnan(value) ? -floor(factor(1, 0x1p31, d->seed, stream, at)) : value;
}

static void fill_distinct(struct dist *d, int64_t first, int64_t count, double *ret)
{
    int64_t padded = (int64_t)ceil(d->padding * (double)d->elements);
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)(first + i);
        bool pad = (int64_t)permuted(d->seed, ~d->stream, (uint64_t)d->elements, at) < padded || d->rank >= d->range;
        ret[i] = pad ? padding_value(d, at)
                     : (double)(d->first + (int64_t)permuted(d->seed, d->stream, (uint64_t)d->range, (uint64_t)d->rank++));
    }
}

static void fill_indices(struct dist *d, int64_t first, int64_t count, double *ret)
{
    int64_t padded = (int64_t)ceil(d->padding * (double)d->elements);
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)(first + i);
        bool pad = (int64_t)permuted(d->seed, ~d->stream, (uint64_t)d->elements, at) < padded || !d->range;
        ret[i] = pad ? padding_value(d, at)
                     : (double)(d->first + (int64_t)rng_below(d->seed, d->stream, at, (uint64_t)d->range));
    }
}

/* One of the multiples of m, or beside one; the last value where there is none in range. */
static int64_t multiple(const struct dist *d, uint64_t at, int64_t m, int64_t off)
{
    const int64_t last = d->first + d->range - 1, from = d->first - off <= m ? 1 : (d->first - off + m - 1) / m;
    const int64_t to = last - off < 0 ? 0 : (last - off) / m;
    return to < from ? last : m * (from + (int64_t)rng_below(d->seed, ~d->stream, at, (uint64_t)(to - from + 1))) + off;
}

/* Where a kernel's tiles end, and the ends of the range. */
static int64_t edge(const struct dist *d, uint64_t at)
{
    const uint64_t stream = d->stream ^ 0x6564676500u, kind = rng_below(d->seed, stream, 3 * at, 10);
    const int64_t last = d->range - 1, ends[] = {0, last, last > 0 ? last - 1 : 0, last > 0};
    return kind < 4 ? d->first + ends[kind] : multiple(d, at, (int64_t)8 << (kind - 4), (int64_t)rng_below(d->seed, stream, 3 * at + 1, 3) - 1);
}

static void fill_edges(struct dist *d, int64_t first, int64_t count, double *ret)
{
    const bool said = d->has_edge || d->multiple;
    fill_indices(d, first, count, ret);
    for (int64_t i = 0; i < count && d->range; i++) {
        const uint64_t at = (uint64_t)(first + i);
        const bool pad = (int64_t)permuted(d->seed, ~d->stream, (uint64_t)d->elements, at) < (int64_t)ceil(d->padding * (double)d->elements);
        if (!pad && (said ? at % 2 == 0 : rng_below(d->seed, d->stream ^ 0x6564676500u, 3 * at + 2, 2)))
            ret[i] = (double)(d->has_edge ? d->edge : d->multiple ? multiple(d, at, d->multiple, 0) : edge(d, at));
    }
}

enum { TAKES_MEAN = 1, TAKES_STD = 2, TAKES_LOW = 4, TAKES_SCALE = 8, TAKES_VALUE = 16, TAKES_RANGE = 32, TAKES_ENDS = 64, TAKES_EDGE = 128, TAKES_PART = 256, TAKES_STRETCH = 512,
       TAKES_SPIKES = 1024 };
static const struct dist_kind {
    const char *name;
    void (*fill)(struct dist *d, int64_t first, int64_t count, double *ret);
    unsigned takes;
    bool floats, integers;      /* tensors it suits */
    bool independent;           /* elements may change places */
} dist_kinds[] = {
    {"normal", fill_normal, TAKES_MEAN | TAKES_STD, true, false, true},
    {"uniform", fill_uniform, TAKES_LOW, true, false, true},
    {"constant", fill_constant, TAKES_VALUE, true, true, true},
    {"integers", fill_integers, TAKES_LOW, true, true, true},
    {"outliers", fill_outliers, TAKES_MEAN | TAKES_STD | TAKES_SCALE, true, false, true},
    {"rows", fill_rows, TAKES_LOW, true, false, false},
    {"slope", fill_slope, TAKES_ENDS, true, false, false},
    {"mirrored", fill_mirrored, TAKES_MEAN | TAKES_STD | TAKES_PART, true, false, false},
    {"hot", fill_hot, TAKES_VALUE | TAKES_STRETCH, true, false, false},
    {"spikes", fill_spikes, TAKES_STD | TAKES_SPIKES, true, false, false},
    {"distinct", fill_distinct, TAKES_RANGE, false, true, false},
    {"indices", fill_indices, TAKES_RANGE, false, true, false},
    {"edges", fill_edges, TAKES_RANGE | TAKES_EDGE, false, true, false},
};

static const struct dist_kind *kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof dist_kinds / sizeof *dist_kinds; i++)
        if (name && !strcmp(dist_kinds[i].name, name))
            return &dist_kinds[i];
    return NULL;
}

/* ---- what a regime may say ---- */

static bool check_number(const json_t *doc, const char *key, bool needed, double least, double most, const char *where, struct err *err)
{
    const json_t *value = json_object_get(doc, key);
    if (!value)
        return !needed || err_set(err, ERR_INVALID, "%s: \"%s\" is missing", where, key);
    if (!json_is_number(value) || !(json_number_value(value) >= least && json_number_value(value) <= most))
        return err_set(err, ERR_INVALID, "%s/%s: must be a number from %g to %g", where, key, least, most);
    return true;
}

static bool check_size(const json_t *doc, const char *key, const char *where, struct err *err)
{
    const json_t *value = json_object_get(doc, key);
    if (!json_is_string(value) && !json_is_integer(value))
        return err_set(err, ERR_INVALID, "%s/%s: must be an integer or an expression over the axes", where, key);
    return true;
}

static bool check_spikes(const json_t *doc, const char *where, struct err *err)
{
    const json_t *turn = json_object_get(doc, "turn"), *turns = json_object_get(doc, "turns");
    if ((turn || turns) && !(json_is_integer(turn) && json_is_integer(turns) && json_integer_value(turn) >= 1 &&
                             json_integer_value(turns) >= json_integer_value(turn) && json_integer_value(turns) <= DIST_MOST_TURNS))
        return err_set(err, ERR_INVALID, "%s/turn: must be an integer from 1 to \"turns\", which is at most %d", where, DIST_MOST_TURNS);
    if (!json_object_get(doc, "value") == !json_object_get(doc, "weight"))
        return err_set(err, ERR_INVALID, "%s/value: \"value\" or \"weight\" is needed, not both", where);
    return check_number(doc, "value", false, -1e30, 1e30, where, err) && check_number(doc, "weight", false, 0, 1e9, where, err) &&
           check_size(doc, "each", where, err);
}

static bool check_padding(const json_t *doc, const char *where, struct err *err)
{
    if (!check_number(doc, "padding", false, 0, 1, where, err))
        return false;
    const json_t *values = json_object_get(doc, "padding_values");
    if (!values)
        return true;
    if (!json_is_array(values) || !json_array_size(values) || json_array_size(values) > DIST_MAX_PADDING_VALUES)
        return err_set(err, ERR_INVALID, "%s/padding_values: must be a list of 1 to %d values", where, DIST_MAX_PADDING_VALUES);
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        if (!json_is_integer(value) && !(json_is_string(value) && !strcmp(json_string_value(value), "negative")))
            return err_set(err, ERR_INVALID, "%s/padding_values/%zu: must be an integer or \"negative\"", where, i);
    }
    return true;
}

/* Parts of a row: [from, to], more than 1 being all of it. */
static bool check_masked(const json_t *doc, bool floats, const char *where, struct err *err)
{
    const json_t *value = json_object_get(doc, "masked");
    double from = -1, to = -1;
    if (json_array_size(value) == 2) {
        from = json_number_value(json_array_get(value, 0));
        to = json_number_value(json_array_get(value, 1));
    }
    return !value || (floats && from >= 0 && to >= from && to > 0 && to <= 1000)
           || err_set(err, ERR_INVALID, "%s/masked: must be [from, to], parts of a row of floats, 0 <= from <= to", where);
}

static bool check_times(const json_t *doc, bool floats, const char *where, struct err *err)
{
    const json_t *value = json_object_get(doc, "times");
    double from = 0, to = 0;
    if (json_array_size(value) == 2) {
        from = json_number_value(json_array_get(value, 0));
        to = json_number_value(json_array_get(value, 1));
    }
    return !value || (floats && from >= 1e-30 && to >= from && to <= 1e30)
           || err_set(err, ERR_INVALID, "%s/times: must be [from, to], factors of a tensor of floats, 1e-30 <= from <= to <= 1e30", where);
}

static bool check_edge(const json_t *doc, const char *where, struct err *err)
{
    const bool edge = json_object_get(doc, "edge"), multiple = json_object_get(doc, "multiple");
    if (edge && multiple)
        return err_set(err, ERR_INVALID, "%s: \"edge\" or \"multiple\", not both", where);
    return (!edge || check_size(doc, "edge", where, err))
           && (!multiple || (json_is_integer(json_object_get(doc, "multiple")) && json_num(doc, "multiple", 0) >= 1)
               || err_set(err, ERR_INVALID, "%s/multiple: must be an integer of at least 1", where));
}

static bool check_dist(const json_t *doc, const struct dist_kind *kind, const char *where, struct err *err)
{
    static const struct { const char *key; unsigned by; } known[] = {
        {"dist", ~0u}, {"for", ~0u}, {"beyond", ~(unsigned)TAKES_RANGE}, {"masked", ~(unsigned)TAKES_RANGE}, {"times", ~(unsigned)TAKES_RANGE},
        {"from", TAKES_ENDS}, {"to", TAKES_ENDS}, {"along", TAKES_ENDS | TAKES_PART}, {"part", TAKES_PART}, {"sign", TAKES_PART},
        {"edge", TAKES_EDGE}, {"multiple", TAKES_EDGE},
        {"mean", TAKES_MEAN}, {"std", TAKES_STD}, {"low", TAKES_LOW | TAKES_RANGE}, {"high", TAKES_LOW | TAKES_RANGE},
        {"scale", TAKES_SCALE}, {"every", TAKES_SCALE}, {"value", TAKES_VALUE | TAKES_SPIKES}, {"stretch", TAKES_STRETCH},
        {"each", TAKES_SPIKES}, {"weight", TAKES_SPIKES}, {"turn", TAKES_SPIKES}, {"turns", TAKES_SPIKES}, {"padding", TAKES_RANGE}, {"padding_values", TAKES_RANGE}};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)doc, key, value) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= !strcmp(known[i].key, key) && (known[i].by & kind->takes);
        if (!found)
            return err_set(err, ERR_INVALID, "%s/%s: \"%s\" takes no such parameter", where, key, kind->name);
    }
    const double big = 1e30;
    if ((kind->takes & TAKES_MEAN) && !check_number(doc, "mean", false, -big, big, where, err))
        return false;
    if ((kind->takes & TAKES_STD) && !check_number(doc, "std", true, 0, big, where, err))
        return false;
    if ((kind->takes & TAKES_VALUE) && !check_number(doc, "value", true, -big, big, where, err))
        return false;
    if ((kind->takes & TAKES_SCALE) && !(check_number(doc, "scale", true, -big, big, where, err) && check_number(doc, "every", true, 1, 1e9, where, err)))
        return false;
    if ((kind->takes & TAKES_ENDS) && !(check_number(doc, "from", true, -big, big, where, err) && check_number(doc, "to", true, -big, big, where, err)))
        return false;
    if ((kind->takes & TAKES_PART) && !(check_number(doc, "part", true, 0, big, where, err) && check_number(doc, "sign", true, -1, 1, where, err)))
        return false;
    if ((kind->takes & (TAKES_ENDS | TAKES_PART)) && !check_number(doc, "along", false, 0, OP_MAX_DIMS - 1, where, err))
        return false;
    if ((kind->takes & TAKES_STRETCH) && !check_size(doc, "stretch", where, err))
        return false;
    if ((kind->takes & TAKES_SPIKES) && !check_spikes(doc, where, err))
        return false;
    if ((kind->takes & TAKES_EDGE) && !check_edge(doc, where, err))
        return false;
    if (kind->takes & TAKES_RANGE)
        return check_size(doc, "low", where, err) && check_size(doc, "high", where, err) && check_padding(doc, where, err);
    if (!(kind->takes & TAKES_LOW))
        return true;
    bool whole = kind->fill == fill_integers, rows = kind->fill == fill_rows;
    double most = whole ? 1e9 : big;
    if (!check_number(doc, "low", true, rows ? 1e-30 : -most, most, where, err) ||
        !check_number(doc, "high", true, json_num(doc, "low", 0), most, where, err))
        return false;
    if (whole && (!json_is_integer(json_object_get(doc, "low")) || !json_is_integer(json_object_get(doc, "high"))))
        return err_set(err, ERR_INVALID, "%s: the ends of \"integers\" must be integers", where);
    return true;
}

bool dist_check(const json_t *doc, bool floats, const char *where, struct err *err)
{
    const struct dist_kind *kind = kind_find(json_str(doc, "dist", NULL));
    if (!kind)
        return err_set(err, ERR_INVALID, "%s/dist: must be one of normal, uniform, constant, integers, outliers, rows, slope, mirrored, hot, spikes, distinct, indices, edges", where);
    if (!(floats ? kind->floats : kind->integers))
        return err_set(err, ERR_INVALID, "%s/dist: \"%s\" does not suit a tensor of %s", where, kind->name, floats ? "floats" : "integers");
    return check_masked(doc, floats, where, err) && check_times(doc, floats, where, err) && check_dist(doc, kind, where, err);
}

bool dist_independent(const json_t *doc)
{
    const struct dist_kind *kind = kind_find(json_str(doc, "dist", NULL));
    return kind && kind->independent;
}

bool dist_ordered(const struct dist *d)
{
    return d->kind->fill == fill_distinct;      /* it counts the values that it gave */
}

/* ---- for one tensor ---- */

static bool size_of(const struct shape *s, const json_t *doc, const char *key, int64_t *ret, struct err *err)
{
    const json_t *value = json_object_get(doc, key);
    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return true;
    }
    return expr_eval(json_string_value(value), EXPR_SIZE, shape_lookup, (void *)(uintptr_t)s, ret, err);
}

static bool expression_failed(const struct shape *s, const struct tensor *t, struct err *err)
{
    if (err)
        err->code = ERR_UNPROCESSABLE;
    return err_wrap(err, "operator %s: distribution of %s", s->op->name, t->spec->name);
}

static bool parse_spikes(const struct shape *s, const struct tensor *t, const json_t *doc, struct dist *ret, struct err *err)
{
    ret->spikes = (struct spikes){.row = ret->row, .rows = t->elements / ret->row, .turn = (int64_t)json_num(doc, "turn", 1) - 1,
                                  .turns = (int64_t)json_num(doc, "turns", 1), .seed = ret->seed, .stream = ret->stream};
    if (!size_of(s, doc, "each", &ret->spikes.each, err))
        return expression_failed(s, t, err);
    if (ret->spikes.each < 1 || ret->spikes.each > DIST_MOST_SPIKES)
        return err_set(err, ERR_UNPROCESSABLE, "operator %s: distribution of %s: %lld spikes a row", s->op->name, t->spec->name, (long long)ret->spikes.each);
    if (json_object_get(doc, "weight"))
        ret->value = ret->std * sqrt(json_num(doc, "weight", 0) * (double)ret->row / (double)ret->spikes.each);
    spikes_open(&ret->spikes);
    return true;
}

bool dist_parse(const struct shape *s, const struct tensor *t, const json_t *doc, struct dist *ret, struct err *err)
{
    ret->mean = json_num(doc, "mean", 0);
    ret->std = json_num(doc, "std", 1);
    ret->low = json_num(doc, "low", 0);
    ret->high = json_num(doc, "high", 0);
    ret->scale = json_num(doc, "scale", 1);
    ret->value = json_num(doc, "value", 0);
    ret->padding = json_num(doc, "padding", 0);
    ret->every = (int64_t)json_num(doc, "every", 1);
    ret->row = t->rank && t->dims[t->rank - 1] > 0 ? t->dims[t->rank - 1] : 1;
    ret->elements = t->elements;
    const json_t *masked = json_object_get(doc, "masked");
    for (size_t i = 0; i < 2; i++)
        ret->masked[i] = json_number_value(json_array_get(masked, i));
    const json_t *values = json_object_get(doc, "padding_values");
    ret->padding_count = values ? (int)json_array_size(values) : 1;
    for (int i = 0; values && i < ret->padding_count; i++)
        ret->padding_values[i] = json_is_string(json_array_get(values, (size_t)i)) ? NAN : json_number_value(json_array_get(values, (size_t)i));
    const json_t *times = json_object_get(doc, "times");
    ret->times = times ? factor(json_number_value(json_array_get(times, 0)), json_number_value(json_array_get(times, 1)), ret->seed,
                                ret->stream ^ 0x74696d657300u, 0) : 1;
    ret->part = json_num(doc, "part", 0);
    ret->sign = json_num(doc, "sign", 1);
    ret->kind = kind_find(json_str(doc, "dist", ""));
    if (ret->kind->takes & TAKES_ENDS) {
        ret->low = json_num(doc, "from", 0);
        ret->high = json_num(doc, "to", 0);
    }
    if (ret->kind->takes & (TAKES_ENDS | TAKES_PART)) {
        const int along = (int)json_num(doc, "along", t->rank - 1);
        ret->along = along < t->rank && t->dims[along] > 0 ? t->dims[along] : 1;
        ret->along_inner = 1;
        for (int i = along + 1; i < t->rank; i++)
            ret->along_inner *= t->dims[i] > 0 ? t->dims[i] : 1;
    }
    if (ret->kind->takes & TAKES_STRETCH) {
        if (!size_of(s, doc, "stretch", &ret->stretch, err))
            return expression_failed(s, t, err);
        if (ret->stretch < 1)
            return err_set(err, ERR_UNPROCESSABLE, "operator %s: distribution of %s: a stretch of %lld elements", s->op->name, t->spec->name, (long long)ret->stretch);
    }
    if ((ret->kind->takes & TAKES_SPIKES) && !parse_spikes(s, t, doc, ret, err))
        return false;
    if (!(ret->kind->takes & TAKES_RANGE))
        return true;
    int64_t high;
    if (!size_of(s, doc, "low", &ret->first, err) || !size_of(s, doc, "high", &high, err))
        return expression_failed(s, t, err);
    ret->range = high >= ret->first ? high - ret->first + 1 : 0;
    ret->multiple = (int64_t)json_num(doc, "multiple", 0);
    ret->has_edge = json_object_get(doc, "edge");
    if (ret->has_edge && !size_of(s, doc, "edge", &ret->edge, err))
        return expression_failed(s, t, err);
    return true;
}

void dist_fill(struct dist *d, int64_t first, int64_t count, double *ret)
{
    d->kind->fill(d, first, count, ret);
    for (int64_t i = 0; i < count && d->times != 1; i++)
        ret[i] *= d->times;
    if (d->masked[1] > 0)
        fill_masked(d, first, count, ret);
}

/*
 * Distributions are a table; each fills a run of elements of one tensor from (seed, stream, index of the element). Streams are
 * hashes of regime and tensor names, so that a new tensor or regime leaves the others' numbers as they were.
 */
#include "gpu/judge/inputs.h"

#include "core/expr.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

#define MAX_BASES 4
#define MAX_PADDING_VALUES 8
#define RUN_ELEMENTS 1024

/* ---- values ---- */

void values_load(enum dtype t, const void *data, int64_t first, int64_t count, double *ret)
{
    if (t == DTYPE_F32) {
        const float *from = (const float *)data + first;
        for (int64_t i = 0; i < count; i++)
            ret[i] = (double)from[i];
    } else if (t == DTYPE_BF16) {
        const uint16_t *from = (const uint16_t *)data + first;
        for (int64_t i = 0; i < count; i++) {
            uint32_t bits = (uint32_t)from[i] << 16;
            float value;
            memcpy(&value, &bits, sizeof value);
            ret[i] = (double)value;
        }
    } else {
        for (int64_t i = 0; i < count; i++)
            ret[i] = dtype_load(t, data, (size_t)(first + i));
    }
}

void values_store(enum dtype t, void *data, int64_t first, int64_t count, const double *from)
{
    if (t == DTYPE_F32) {
        float *to = (float *)data + first;
        for (int64_t i = 0; i < count; i++)
            to[i] = (float)from[i];
    } else {
        for (int64_t i = 0; i < count; i++)
            dtype_store(t, data, (size_t)(first + i), from[i]);
    }
}

void values_round(enum dtype t, const double *from, int64_t count, double *ret)
{
    if (t == DTYPE_F32) {
        for (int64_t i = 0; i < count; i++)
            ret[i] = (double)(float)from[i];
        return;
    }
    uint8_t one[8];
    for (int64_t i = 0; i < count; i++) {
        dtype_store(t, one, 0, from[i]);
        ret[i] = dtype_load(t, one, 0);
    }
}

static bool is_dense(const struct tensor *t)
{
    return t->span_elements == t->elements;
}

static int64_t row_elements(const struct tensor *t)
{
    return t->rank ? t->dims[t->rank - 1] : 1;
}

static bool rows_contiguous(const struct tensor *t)
{
    return !t->rank || t->dims[t->rank - 1] <= 1 || t->strides[t->rank - 1] == 1;
}

void values_gather(const struct tensor *t, const void *data, int64_t first, int64_t count, double *ret)
{
    if (is_dense(t)) {
        values_load(t->dtype, data, first, count, ret);
        return;
    }
    int64_t row = row_elements(t);
    for (int64_t done = 0; done < count;) {
        int64_t at = first + done, run = rows_contiguous(t) ? row - at % row : 1;
        if (run > count - done)
            run = count - done;
        values_load(t->dtype, data, tensor_offset(t, at), run, ret + done);
        done += run;
    }
}

static void values_scatter(const struct tensor *t, void *data, int64_t first, int64_t count, const double *from)
{
    if (is_dense(t)) {
        values_store(t->dtype, data, first, count, from);
        return;
    }
    int64_t row = row_elements(t);
    for (int64_t done = 0; done < count;) {
        int64_t at = first + done, run = rows_contiguous(t) ? row - at % row : 1;
        if (run > count - done)
            run = count - done;
        values_store(t->dtype, data, tensor_offset(t, at), run, from + done);
        done += run;
    }
}

/* ---- distributions ---- */

struct dist {
    double mean, std, low, high, scale, value, padding;
    int64_t every, row, first, range, elements;      /* first, range: distinct values are first .. first + range - 1 */
    int64_t rank;                                    /* distinct: values given so far */
    int padding_count;
    double padding_values[MAX_PADDING_VALUES];
    uint64_t seed, stream;
};

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

static void fill_constant(struct dist *d, int64_t first, int64_t count, double *ret)
{
    (void)first;
    for (int64_t i = 0; i < count; i++)
        ret[i] = d->value;
}

static void fill_integers(struct dist *d, int64_t first, int64_t count, double *ret)
{
    uint64_t n = (uint64_t)(int64_t)(d->high - d->low) + 1;
    for (int64_t i = 0; i < count; i++)
        ret[i] = d->low + (double)rng_below(d->seed, d->stream, (uint64_t)(first + i), n);
}

static void fill_outliers(struct dist *d, int64_t first, int64_t count, double *ret)
{
    fill_normal(d, first, count, ret);
    for (int64_t i = 0; i < count; i++)
        if (!rng_below(d->seed, ~d->stream, (uint64_t)(first + i), (uint64_t)d->every))
            ret[i] *= d->scale;
}

static void fill_rows(struct dist *d, int64_t first, int64_t count, double *ret)
{
    fill_normal(d, first, count, ret);
    int exponents = 0;
    for (double x = d->low; x * 2 <= d->high; x *= 2)
        exponents++;
    for (int64_t i = 0; i < count; i++) {
        uint64_t row = (uint64_t)((first + i) / d->row);
        uint64_t exponent = rng_below(d->seed, ~d->stream, row, (uint64_t)exponents + 1);
        double factor = ldexp(d->low, (int)exponent) * (1 + rng_unit(d->seed, ~d->stream, row + ((uint64_t)1 << 40)));
        ret[i] *= factor < d->high ? factor : d->high;
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

static void fill_distinct(struct dist *d, int64_t first, int64_t count, double *ret)
{
    int64_t padded = (int64_t)ceil(d->padding * (double)d->elements);
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)(first + i);
        bool pad = (int64_t)permuted(d->seed, ~d->stream, (uint64_t)d->elements, at) < padded || d->rank >= d->range;
        ret[i] = pad ? d->padding_values[rng_below(d->seed, d->stream, at, (uint64_t)d->padding_count)]
                     : (double)(d->first + (int64_t)permuted(d->seed, d->stream, (uint64_t)d->range, (uint64_t)d->rank++));
    }
}

static void fill_indices(struct dist *d, int64_t first, int64_t count, double *ret)
{
    int64_t padded = (int64_t)ceil(d->padding * (double)d->elements);
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)(first + i);
        bool pad = (int64_t)permuted(d->seed, ~d->stream, (uint64_t)d->elements, at) < padded || !d->range;
        ret[i] = pad ? d->padding_values[rng_below(d->seed, d->stream, at, (uint64_t)d->padding_count)]
                     : (double)(d->first + (int64_t)rng_below(d->seed, d->stream, at, (uint64_t)d->range));
    }
}

enum { TAKES_MEAN = 1, TAKES_STD = 2, TAKES_LOW = 4, TAKES_SCALE = 8, TAKES_VALUE = 16, TAKES_RANGE = 32 };
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
    {"distinct", fill_distinct, TAKES_RANGE, false, true, false},
    {"indices", fill_indices, TAKES_RANGE, false, true, false},
};

static const struct dist_kind *kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof dist_kinds / sizeof *dist_kinds; i++)
        if (name && !strcmp(dist_kinds[i].name, name))
            return &dist_kinds[i];
    return NULL;
}

/* ---- regimes ---- */

static const json_t *regime_at(const struct op *op, int regime, const char **ret_name)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(op->doc, "regimes"), name, value)
        if (!regime--) {
            if (ret_name)
                *ret_name = name;
            return value;
        }
    return NULL;
}

int inputs_regime_count(const struct op *op)
{
    return (int)json_object_size(json_object_get(op->doc, "regimes"));
}

const char *inputs_regime_name(const struct op *op, int regime)
{
    const char *name = "";
    (void)regime_at(op, regime, &name);
    return name;
}

bool inputs_regime_hidden(const struct op *op, int regime)
{
    return json_bool(regime_at(op, regime, NULL), "hidden", false);
}

int inputs_regime_index(const struct op *op, const char *name)
{
    for (int i = 0; i < inputs_regime_count(op); i++)
        if (!strcmp(inputs_regime_name(op, i), name))
            return i;
    return -1;
}

/* The distribution of a tensor: the regime's own or the nearest base's. NULL: none. */
static const json_t *dist_of(const struct op *op, const json_t *regime, const char *tensor)
{
    for (int depth = 0; regime && depth <= MAX_BASES; depth++) {
        const json_t *found = json_object_get(json_object_get(regime, "inputs"), tensor);
        if (found)
            return found;
        const char *base = json_str(regime, "base", NULL);
        regime = base ? json_object_get(json_object_get(op->doc, "regimes"), base) : NULL;
    }
    return NULL;
}

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

static bool check_padding(const json_t *doc, const char *where, struct err *err)
{
    if (!check_number(doc, "padding", false, 0, 1, where, err))
        return false;
    const json_t *values = json_object_get(doc, "padding_values");
    if (!values)
        return true;
    if (!json_is_array(values) || !json_array_size(values) || json_array_size(values) > MAX_PADDING_VALUES)
        return err_set(err, ERR_INVALID, "%s/padding_values: must be a list of 1 to %d integers", where, MAX_PADDING_VALUES);
    for (size_t i = 0; i < json_array_size(values); i++)
        if (!json_is_integer(json_array_get(values, i)))
            return err_set(err, ERR_INVALID, "%s/padding_values/%zu: must be an integer", where, i);
    return true;
}

static bool check_dist(const json_t *doc, const struct dist_kind *kind, const char *where, struct err *err)
{
    static const struct { const char *key; unsigned by; } known[] = {
        {"dist", ~0u}, {"beyond", ~(unsigned)TAKES_RANGE}, {"mean", TAKES_MEAN}, {"std", TAKES_STD}, {"low", TAKES_LOW | TAKES_RANGE}, {"high", TAKES_LOW | TAKES_RANGE},
        {"scale", TAKES_SCALE}, {"every", TAKES_SCALE}, {"value", TAKES_VALUE}, {"padding", TAKES_RANGE}, {"padding_values", TAKES_RANGE}};
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

static bool spec_is_float(const struct op *op, const struct op_tensor *t)
{
    return dtype_is_float(t->letter >= 0 ? op->letters[t->letter].options[0] : t->fixed);
}

/* "beyond" names a tensor of lengths, one for each index of the first dimension. */
static bool check_beyond(const struct op *op, const struct op_tensor *t, const json_t *doc, const char *where, struct err *err)
{
    const json_t *value = json_object_get(doc, "beyond");
    int lengths = json_is_string(value) ? op_tensor_index(op, json_string_value(value)) : -1;
    bool ok = !value || (lengths >= 0 && op->tensors[lengths].role == OP_INPUT && op->tensors[lengths].rank == 1 &&
                         !spec_is_float(op, &op->tensors[lengths]) && spec_is_float(op, t) && t->rank >= 2 &&
                         !strcmp(op->tensors[lengths].dims[0], t->dims[0]));
    return ok || err_set(err, ERR_INVALID, "%s/beyond: must name an integer input of one dimension, the first of this tensor of floats", where);
}

static bool check_tensor(const struct op *op, const json_t *regime, const struct op_tensor *t, const char *where, struct err *err)
{
    const json_t *doc = dist_of(op, regime, t->name);
    if (!doc)
        return err_set(err, ERR_INVALID, "%s: no distribution for \"%s\", here or in a base", where, t->name);
    char at[192];
    snprintf(at, sizeof at, "%s/inputs/%s", where, t->name);
    const struct dist_kind *kind = kind_find(json_str(doc, "dist", NULL));
    if (!kind)
        return err_set(err, ERR_INVALID, "%s/dist: must be one of normal, uniform, constant, integers, outliers, rows, distinct, indices", at);
    if (!(spec_is_float(op, t) ? kind->floats : kind->integers))
        return err_set(err, ERR_INVALID, "%s/dist: \"%s\" does not suit a tensor of %s", at, kind->name, spec_is_float(op, t) ? "floats" : "integers");
    return check_dist(doc, kind, at, err) && check_beyond(op, t, doc, at, err);
}

static bool check_regime(const struct op *op, int index, struct err *err)
{
    const char *name, *key;
    const json_t *regime = regime_at(op, index, &name);
    json_t *value;
    char where[128];
    snprintf(where, sizeof where, "operator %s: /regimes/%.64s", op->name, name);
    if (!json_is_object(regime))
        return err_set(err, ERR_INVALID, "%s: must be an object", where);
    json_object_foreach((json_t *)regime, key, value)
        if (strcmp(key, "description") && strcmp(key, "hidden") && strcmp(key, "base") && strcmp(key, "inputs"))
            return err_set(err, ERR_INVALID, "%s/%s: no such key; there are description, hidden, base and inputs", where, key);
    value = json_object_get(regime, "hidden");
    if (value && !json_is_boolean(value))
        return err_set(err, ERR_INVALID, "%s/hidden: must be true or false", where);
    if ((value = json_object_get(regime, "base"))) {
        int base = json_is_string(value) ? inputs_regime_index(op, json_string_value(value)) : -1;
        if (base < 0 || base >= index)
            return err_set(err, ERR_INVALID, "%s/base: must name an earlier regime", where);
    }
    json_object_foreach(json_object_get(regime, "inputs"), key, value) {
        int t = op_tensor_index(op, key);
        if (t < 0 || op->tensors[t].role == OP_OUTPUT)
            return err_set(err, ERR_INVALID, "%s/inputs/%s: the operator has no such input", where, key);
    }
    for (int t = 0; t < op->tensor_count; t++)
        if (op->tensors[t].role != OP_OUTPUT && !check_tensor(op, regime, &op->tensors[t], where, err))
            return false;
    return true;
}

bool inputs_check(const struct op *op, struct err *err)
{
    int count = inputs_regime_count(op);
    if (count < 1 || count > INPUTS_MAX_REGIMES)
        return err_set(err, ERR_INVALID, "operator %s: /regimes: must be an object of 1 to %d regimes", op->name, INPUTS_MAX_REGIMES);
    if (inputs_regime_hidden(op, 0))
        return err_set(err, ERR_INVALID, "operator %s: /regimes: the first is the typical one and can't be hidden", op->name);
    for (int i = 0; i < count; i++)
        if (!check_regime(op, i, err))
            return false;
    return true;
}

/* ---- making ---- */

static uint64_t name_hash(uint64_t h, const char *name)
{
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return h;
}

static bool size_of(const struct shape *s, const json_t *doc, const char *key, int64_t *ret, struct err *err)
{
    const json_t *value = json_object_get(doc, key);
    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return true;
    }
    return expr_eval(json_string_value(value), EXPR_SIZE, shape_lookup, (void *)(uintptr_t)s, ret, err);
}

static bool dist_parse(const struct shape *s, const struct tensor *t, const json_t *doc, struct dist *ret, struct err *err)
{
    ret->mean = json_num(doc, "mean", 0);
    ret->std = json_num(doc, "std", 1);
    ret->low = json_num(doc, "low", 0);
    ret->high = json_num(doc, "high", 0);
    ret->scale = json_num(doc, "scale", 1);
    ret->value = json_num(doc, "value", 0);
    ret->padding = json_num(doc, "padding", 0);
    ret->every = (int64_t)json_num(doc, "every", 1);
    ret->row = row_elements(t) > 0 ? row_elements(t) : 1;
    ret->elements = t->elements;
    const json_t *values = json_object_get(doc, "padding_values");
    ret->padding_count = values ? (int)json_array_size(values) : 1;
    for (int i = 0; values && i < ret->padding_count; i++)
        ret->padding_values[i] = json_number_value(json_array_get(values, (size_t)i));
    if (!(kind_find(json_str(doc, "dist", ""))->takes & TAKES_RANGE))
        return true;
    int64_t high;
    if (!size_of(s, doc, "low", &ret->first, err) || !size_of(s, doc, "high", &high, err)) {
        if (err)
            err->code = ERR_UNPROCESSABLE;
        return err_wrap(err, "operator %s: distribution of %s", s->op->name, t->spec->name);
    }
    ret->range = high >= ret->first ? high - ret->first + 1 : 0;
    return true;
}

static void fill_gaps(const struct tensor *t, void *data)
{
    if (is_dense(t))
        return;
    /* all ones is a NaN in every float type; 0x7f.. is an index far outside anything */
    memset(data, dtype_is_float(t->dtype) ? 0xff : 0x7f, (size_t)t->bytes);
}

/* NaN where the second index is at or past the first one's length. */
static void fill_beyond(const struct tensor *t, void *data, const struct tensor *lengths, const void *list)
{
    int64_t size = dtype_bytes(t->dtype), inner = t->dims[0] ? t->elements / t->dims[0] : 0, row = t->dims[1] ? inner / t->dims[1] : 0;
    for (int64_t i = 0; i < t->dims[0]; i++) {
        double length = dtype_load(lengths->dtype, list, (size_t)tensor_offset(lengths, i));
        int64_t from = length < 0 ? 0 : length > (double)t->dims[1] ? t->dims[1] : (int64_t)length;
        for (int64_t k = i * inner + from * row; k < (i + 1) * inner; k++)
            memset((char *)data + tensor_offset(t, k) * size, 0xff, (size_t)size);
    }
}

bool inputs_make(const struct shape *s, const struct tensor *tensors, int regime, uint64_t seed, void **ret_tensors, struct err *err)
{
    const struct op *op = s->op;
    const char *regime_name;
    const json_t *doc = regime_at(op, regime, &regime_name);
    BUG_ON(!doc);
    void *made[OP_MAX_TENSORS] = {0};
    double run[RUN_ELEMENTS];
    for (int t = 0; t < op->tensor_count; t++) {
        const struct tensor *tensor = &tensors[t];
        if (tensor->spec->role == OP_OUTPUT)
            continue;
        const json_t *how = dist_of(op, doc, tensor->spec->name);
        struct dist d = {.seed = seed, .stream = name_hash(name_hash(0xcbf29ce484222325u, regime_name), tensor->spec->name)};
        if (!dist_parse(s, tensor, how, &d, err)) {
            inputs_free(op, made);
            return false;
        }
        made[t] = xalloc_large((size_t)tensor->bytes + !tensor->bytes);
        fill_gaps(tensor, made[t]);
        const struct dist_kind *kind = kind_find(json_str(how, "dist", ""));
        for (int64_t first = 0; first < tensor->elements; first += RUN_ELEMENTS) {
            int64_t count = tensor->elements - first < RUN_ELEMENTS ? tensor->elements - first : RUN_ELEMENTS;
            kind->fill(&d, first, count, run);
            values_scatter(tensor, made[t], first, count, run);
        }
    }
    for (int t = 0; t < op->tensor_count; t++) {
        const char *lengths = made[t] ? json_str(dist_of(op, doc, op->tensors[t].name), "beyond", NULL) : NULL;
        int of = lengths ? op_tensor_index(op, lengths) : -1;
        if (of >= 0)
            fill_beyond(&tensors[t], made[t], &tensors[of], made[of]);
    }
    memcpy(ret_tensors, made, (size_t)op->tensor_count * sizeof *made);
    return true;
}

void inputs_free(const struct op *op, void **arrays)
{
    for (int t = 0; t < op->tensor_count; t++) {
        free(arrays[t]);
        arrays[t] = NULL;
    }
}

void inputs_rotatable(const struct op *op, const struct tensor *tensors, int regime, bool *ret_rotate)
{
    const json_t *doc = regime_at(op, regime, NULL);
    for (int t = 0; t < op->tensor_count; t++) {
        const json_t *how = tensors[t].spec->role == OP_OUTPUT ? NULL : dist_of(op, doc, tensors[t].spec->name);
        const struct dist_kind *kind = how ? kind_find(json_str(how, "dist", NULL)) : NULL;
        ret_rotate[t] = kind && kind->independent && !json_object_get(how, "beyond") && dtype_is_float(tensors[t].dtype) && is_dense(&tensors[t]);
    }
}

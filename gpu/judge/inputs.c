/*
 * Regimes: which distribution a tensor has in each, whether they are well formed, and inputs made of them. Streams are hashes of
 * regime and tensor names, so that a new tensor or regime leaves the others' numbers as they were.
 */
#include "gpu/judge/inputs.h"

#include "core/expr.h"
#include "gpu/judge/crew.h"
#include "gpu/judge/parts.h"

#include <string.h>

#define MAX_BASES 4
#define RUN_ELEMENTS 1024
#define PART_ELEMENTS ((int64_t)256 * RUN_ELEMENTS)

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

int inputs_regimes_of(const struct shape *s)
{
    const int all = inputs_regime_count(s->op);
    for (int r = 0; r < all; r++) {
        const char *when = json_str(regime_at(s->op, r, NULL), "when", NULL);
        int64_t holds = 1;
        if (when && expr_eval(when, EXPR_LOGIC, shape_lookup, (void *)(uintptr_t)s, &holds, &(struct err){0}) && !holds)
            return r;
    }
    return all;
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

/* What holds of it where the tensor is stored in this dtype. */
static const json_t *dist_in(const json_t *doc, enum dtype t)
{
    const json_t *own = json_object_get(json_object_get(doc, "for"), dtype_name(t));
    return own ? own : doc;
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
    if (!parts_check(op, t, doc, at, err) || !check_beyond(op, t, doc, at, err))
        return false;
    const json_t *own = json_object_get(doc, "for");
    const char *key;
    json_t *value;
    if (own && !json_is_object(own))
        return err_set(err, ERR_INVALID, "%s/for: must be an object by dtype", at);
    json_object_foreach((json_t *)own, key, value) {
        enum dtype dtype;
        char inner[256];
        snprintf(inner, sizeof inner, "%s/for/%.32s", at, key);
        if (!dtype_parse(key, &dtype))
            return err_set(err, ERR_INVALID, "%s: no such dtype", inner);
        if (json_object_get(value, "for"))
            return err_set(err, ERR_INVALID, "%s/for: once is enough", inner);
        if (!parts_check(op, t, value, inner, err) || !check_beyond(op, t, value, inner, err))
            return false;
    }
    return true;
}

static bool any_axis(void *ctx, const char *name, int64_t *ret)
{
    const struct op *op = ctx;
    *ret = 1;
    for (int i = 0; i < op->axis_count; i++)
        if (!strcmp(op->axes[i].name, name))
            return true;
    return false;
}

/* Only names and grammar: what divides by a difference may fail at 1 and hold for shapes. */
static bool check_when(const struct op *op, int index, const char *where, struct err *err)
{
    const json_t *value = json_object_get(regime_at(op, index, NULL), "when");
    int64_t holds;
    struct err why = {0};
    if (!value)
        return !index || !json_object_get(regime_at(op, index - 1, NULL), "when") ||
               err_set(err, ERR_INVALID, "%s/when: is missing: those that are for some shapes only are the last", where);
    if (!index || !json_is_string(value) ||
        (!expr_eval(json_string_value(value), EXPR_LOGIC, any_axis, (void *)(uintptr_t)op, &holds, &why) && !strstr(why.text, "division by zero")))
        return err_set(err, ERR_INVALID, "%s/when: must be a condition on the axes, and not of the first: %.160s", where, why.text);
    return true;
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
        if (strcmp(key, "description") && strcmp(key, "hidden") && strcmp(key, "base") && strcmp(key, "inputs") && strcmp(key, "when"))
            return err_set(err, ERR_INVALID, "%s/%s: no such key; there are description, hidden, base, inputs and when", where, key);
    if (!check_when(op, index, where, err))
        return false;
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

static void fill_gaps(const struct tensor *t, void *data)
{
    if (values_dense(t))
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

#define FEW_VALUES 16
#define REACHED_PART 16

static bool reaches(struct dist *d, int64_t elements)
{
    double run[RUN_ELEMENTS], most = (double)d->first;
    for (int64_t first = 0; first < elements; first += RUN_ELEMENTS) {
        const int64_t count = elements - first < RUN_ELEMENTS ? elements - first : RUN_ELEMENTS;
        dist_fill(d, first, count, run);
        for (int64_t i = 0; i < count; i++)
            most = run[i] > most ? run[i] : most;
    }
    return most >= (double)(d->first + d->range - d->range / REACHED_PART);
}

bool inputs_address(const struct shape *s, const struct tensor *tensors, int t, int axis)
{
    struct shape more = *s;
    more.axes[axis]++;
    if (tensors[t].spec->role != OP_INPUT || dtype_is_float(tensors[t].dtype))
        return false;
    for (int r = 0; r < inputs_regime_count(s->op); r++) {
        const json_t *how = dist_in(dist_of(s->op, regime_at(s->op, r, NULL), tensors[t].spec->name), tensors[t].dtype);
        struct dist a = {.first = 0}, b = {.first = 0};
        if (how && dist_parse(s, &tensors[t], how, &a, NULL) && dist_parse(&more, &tensors[t], how, &b, NULL) && (a.first != b.first || a.range != b.range))
            return true;
    }
    return false;
}

bool inputs_reach(const struct shape *s, const struct tensor *tensors, int regime, uint64_t seed)
{
    const char *name;
    const json_t *doc = regime_at(s->op, regime, &name);
    for (int t = 0; t < s->op->tensor_count; t++) {
        struct dist d = {.seed = seed, .stream = name_hash(name_hash(0xcbf29ce484222325u, name), tensors[t].spec->name)};
        if (tensors[t].spec->role != OP_INPUT || dtype_is_float(tensors[t].dtype) || !tensors[t].elements)
            continue;
        if (dist_parse(s, &tensors[t], dist_in(dist_of(s->op, doc, tensors[t].spec->name), tensors[t].dtype), &d, NULL) &&
            d.range > FEW_VALUES && !reaches(&d, tensors[t].elements))
            return false;
    }
    return true;
}

/* One tensor, of which parts are made at once: each element is a function of its index. */
struct filling { struct parts parts; const struct tensor *tensor; void *to; int64_t part_elements; };

static void fill_part(void *ctx, int64_t part)
{
    const struct filling *f = ctx;
    struct parts parts = f->parts;
    double run[RUN_ELEMENTS];
    const int64_t from = part * f->part_elements, end = from + crew_part_count(f->tensor->elements, f->part_elements, part);
    for (int64_t first = from; first < end; first += RUN_ELEMENTS) {
        const int64_t count = end - first < RUN_ELEMENTS ? end - first : RUN_ELEMENTS;
        parts_fill(&parts, first, count, run);
        values_scatter(f->tensor, f->to, first, count, run);
    }
}

static void fill_tensor(struct filling *f)
{
    const int64_t elements = f->tensor->elements;
    const bool whole = elements <= PART_ELEMENTS || dist_ordered(&f->parts.of[0]) || !values_dense(f->tensor);
    f->part_elements = whole ? elements : PART_ELEMENTS;
    fill_gaps(f->tensor, f->to);
    if (elements > 0)
        crew_run(crew_parts(elements, f->part_elements), fill_part, f);
}

bool inputs_fill(const struct shape *s, const struct tensor *tensors, int regime, uint64_t seed, void *const *to, struct err *err)
{
    const struct op *op = s->op;
    const char *regime_name;
    const json_t *doc = regime_at(op, regime, &regime_name);
    BUG_ON(!doc);
    for (int t = 0; t < op->tensor_count; t++) {
        const struct tensor *tensor = &tensors[t];
        if (tensor->spec->role == OP_OUTPUT || !to[t])
            continue;
        const json_t *how = dist_in(dist_of(op, doc, tensor->spec->name), tensor->dtype);
        struct filling f = {.tensor = tensor, .to = to[t]};
        if (!parts_parse(s, tensor, how, seed, name_hash(name_hash(0xcbf29ce484222325u, regime_name), tensor->spec->name), &f.parts, err))
            return false;
        fill_tensor(&f);
    }
    for (int t = 0; t < op->tensor_count; t++) {
        const char *lengths = to[t] ? json_str(dist_in(dist_of(op, doc, op->tensors[t].name), tensors[t].dtype), "beyond", NULL) : NULL;
        int of = lengths ? op_tensor_index(op, lengths) : -1;
        if (of >= 0 && to[of])
            fill_beyond(&tensors[t], to[t], &tensors[of], to[of]);
    }
    return true;
}

bool inputs_make(const struct shape *s, const struct tensor *tensors, int regime, uint64_t seed, void **ret_tensors, struct err *err)
{
    const struct op *op = s->op;
    void *made[OP_MAX_TENSORS] = {0};
    for (int t = 0; t < op->tensor_count; t++)
        if (tensors[t].spec->role != OP_OUTPUT)
            made[t] = xalloc_large((size_t)tensors[t].bytes + !tensors[t].bytes);
    if (!inputs_fill(s, tensors, regime, seed, made, err)) {
        inputs_free(op, made);
        return false;
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
        const json_t *how = tensors[t].spec->role == OP_OUTPUT ? NULL : dist_in(dist_of(op, doc, tensors[t].spec->name), tensors[t].dtype);
        ret_rotate[t] = how && dist_independent(how) && !json_object_get(how, "beyond") && !json_object_get(how, "masked") && dtype_is_float(tensors[t].dtype) && values_dense(&tensors[t]);
    }
}

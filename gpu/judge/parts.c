/*
 * Parts share the tensor's numbering of elements, so that each draws what it would draw were it alone; a run of elements is cut where
 * the part changes. What is not in parts is one part.
 */
#include "gpu/judge/parts.h"

#include "core/expr.h"

#include <string.h>

static bool are_parts(const json_t *doc)
{
    const char *name = json_str(doc, "dist", NULL);
    return name && !strcmp(name, "parts");
}

static bool spec_is_float(const struct op *op, const struct op_tensor *t)
{
    return dtype_is_float(t->letter >= 0 ? op->letters[t->letter].options[0] : t->fixed);
}

/* Names of axes alone are looked at: what an expression comes to is known when there is a shape. */
struct names { const struct op *op; bool unknown; };
static bool name_known(void *ctx, const char *name, int64_t *ret)
{
    struct names *n = ctx;
    *ret = 1;
    n->unknown |= op_axis_index(n->op, name) < 0;
    return !n->unknown;
}

static bool check_size(const struct op *op, const json_t *value, const char *where, struct err *err)
{
    struct names names = {.op = op};
    int64_t value_of_ones;
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        return true;
    if (json_is_string(value)) {
        if (expr_eval(json_string_value(value), EXPR_SIZE, name_known, &names, &value_of_ones, NULL) || !names.unknown)
            return true;
    }
    return err_set(err, ERR_INVALID, "%s: must be an integer of at least 0 or an expression over the axes", where);
}

static bool check_one(const struct op *op, const struct op_tensor *t, const json_t *doc, const char *where, struct err *err)
{
    static const char *const sizes[] = {"stretch", "each"};
    if (!dist_check(doc, spec_is_float(op, t), where, err))
        return false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const json_t *size = json_object_get(doc, sizes[i]);
        char at[288];
        snprintf(at, sizeof at, "%s/%s", where, sizes[i]);
        if (size && !check_size(op, size, at, err))
            return false;
    }
    return true;
}

bool parts_check(const struct op *op, const struct op_tensor *t, const json_t *doc, const char *where, struct err *err)
{
    if (!are_parts(doc))
        return check_one(op, t, doc, where, err);
    static const char *const known[] = {"dist", "along", "sizes", "of", "for", NULL};
    const json_t *sizes = json_object_get(doc, "sizes"), *of = json_object_get(doc, "of"), *along = json_object_get(doc, "along");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)doc, key, value) {
        int i = 0;
        while (known[i] && strcmp(known[i], key))
            i++;
        if (!known[i])
            return err_set(err, ERR_INVALID, "%s/%s: \"parts\" takes no such parameter", where, key);
    }
    if (!spec_is_float(op, t))
        return err_set(err, ERR_INVALID, "%s/dist: \"parts\" does not suit a tensor of integers", where);
    if (along && !(json_is_integer(along) && json_integer_value(along) >= 0 && json_integer_value(along) < t->rank))
        return err_set(err, ERR_INVALID, "%s/along: must be a dimension of the tensor, from 0", where);
    if (!t->rank || !json_is_array(of) || json_array_size(of) < 2 || json_array_size(of) > PARTS_MOST)
        return err_set(err, ERR_INVALID, "%s/of: must be a list of 2 to %d distributions", where, PARTS_MOST);
    if (!json_is_array(sizes) || json_array_size(sizes) != json_array_size(of) - 1)
        return err_set(err, ERR_INVALID, "%s/sizes: must be a list of the sizes of all parts but the last", where);
    for (size_t i = 0; i < json_array_size(of); i++) {
        char at[288];
        snprintf(at, sizeof at, "%s/sizes/%zu", where, i);
        if (i < json_array_size(sizes) && !check_size(op, json_array_get(sizes, i), at, err))
            return false;
        snprintf(at, sizeof at, "%s/of/%zu", where, i);
        if (json_object_get(json_array_get(of, i), "for") || json_object_get(json_array_get(of, i), "beyond"))
            return err_set(err, ERR_INVALID, "%s: \"for\" and \"beyond\" are not for a part", at);
        if (!check_one(op, t, json_array_get(of, i), at, err))
            return false;
    }
    return true;
}

/* ---- for one tensor ---- */

static bool failed(const struct shape *s, const struct tensor *t, struct err *err)
{
    if (err)
        err->code = ERR_UNPROCESSABLE;
    return err_wrap(err, "operator %s: parts of %s", s->op->name, t->spec->name);
}

static bool size_of(const struct shape *s, const json_t *value, int64_t *ret, struct err *err)
{
    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return true;
    }
    return expr_eval(json_string_value(value), EXPR_SIZE, shape_lookup, (void *)(uintptr_t)s, ret, err);
}

bool parts_parse(const struct shape *s, const struct tensor *t, const json_t *doc, uint64_t seed, uint64_t stream, struct parts *ret, struct err *err)
{
    *ret = (struct parts){.count = 1, .of[0] = {.seed = seed, .stream = stream}};
    if (!are_parts(doc))
        return dist_parse(s, t, doc, &ret->of[0], err);
    const json_t *of = json_object_get(doc, "of"), *sizes = json_object_get(doc, "sizes");
    const int dim = (int)json_num(doc, "along", t->rank - 1);
    int64_t from = 0;
    ret->count = (int)json_array_size(of);
    ret->along = t->dims[dim];
    ret->inner = 1;
    for (int i = dim + 1; i < t->rank; i++)
        ret->inner *= t->dims[i];
    for (int i = 0; i < ret->count; i++) {
        int64_t size = ret->along - from;
        if (i < ret->count - 1 && !size_of(s, json_array_get(sizes, (size_t)i), &size, err))
            return failed(s, t, err);
        if (size < 0 || size > ret->along - from) {
            (void)err_set(err, ERR_INVALID, "%lld of %lld from %lld on", (long long)size, (long long)ret->along, (long long)from);
            return failed(s, t, err);
        }
        ret->of[i] = (struct dist){.seed = seed, .stream = stream};
        if (!dist_parse(s, t, json_array_get(of, (size_t)i), &ret->of[i], err))
            return false;
        ret->of[i].origin = dim == t->rank - 1 ? from : 0;
        from += size;
        ret->ends[i] = from;
    }
    return true;
}

void parts_fill(struct parts *p, int64_t first, int64_t count, double *ret)
{
    if (p->count == 1) {
        dist_fill(&p->of[0], first, count, ret);
        return;
    }
    for (int64_t i = 0, run; i < count; i += run) {
        const int64_t at = first + i, index = at / p->inner % p->along;
        int part = 0;
        while (index >= p->ends[part])
            part++;
        run = (p->ends[part] - index) * p->inner - at % p->inner;
        run = run < count - i ? run : count - i;
        dist_fill(&p->of[part], at, run, ret + i);
    }
}

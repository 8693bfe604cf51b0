#include "core/shape.h"

#include "core/expr.h"

#include <string.h>

bool target_valid(const char *target)
{
    /* sm_80, sm_90a, sm_100a, sm_120f: two or three digits, at most one letter */
    if (strncmp(target, "sm_", 3) != 0)
        return false;
    size_t digits = strspn(target + 3, "0123456789");
    const char *rest = target + 3 + digits;
    return digits >= 2 && digits <= 3 && (!*rest || ((*rest == 'a' || *rest == 'f') && !rest[1]));
}

bool shape_lookup(void *ctx, const char *name, int64_t *ret)
{
    const struct shape *s = ctx;
    if (strncmp(name, "bytes_", 6) == 0) {
        int letter = op_letter_index(s->op, name + 6);
        if (letter < 0)
            return false;
        *ret = dtype_bytes(s->dtypes[letter]);
        return true;
    }
    int i = op_axis_index(s->op, name);
    if (i < 0)
        return false;
    *ret = s->axes[i];
    return true;
}

/* Names of the operator's axes, for a message. */
static void axis_names(const struct op *op, struct buf *to)
{
    for (int i = 0; i < op->axis_count; i++)
        if (!op->axes[i].is_const)
            buf_fmt(to, "%s%s", to->size ? ", " : "", op->axes[i].name);
}

static void check_range(const struct op_axis *a, int64_t v, const char *where, struct faults *f)
{
    if (v < a->min)
        faults_add(f, where, "axis %s is %lld, it must be at least %lld", a->name, (long long)v, (long long)a->min);
    else if (v > a->max)
        faults_add(f, where, "axis %s is %lld, it must be at most %lld", a->name, (long long)v, (long long)a->max);
}

/* The first pass takes what is given; keyed defaults are literal, so they are known then. Expressions come in the second. */
static void take_axes(struct shape *s, const json_t *axes, const char *pointer, struct faults *f)
{
    const struct op *op = s->op;
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)axes, key, item) {
        if (op_axis_index(op, key) >= 0)
            continue;
        cleanup(buf) struct buf names = {0};
        cleanup(str) char *where = xfmt("%s/axes/%.64s", pointer, key);
        axis_names(op, &names);
        faults_add(f, where, "%s has no axis %.64s; it has %s", op->name, key, buf_cstr(&names));
    }
    for (int second = 0; second < 2; second++)
        for (int i = 0; i < op->axis_count; i++) {
            const struct op_axis *a = &op->axes[i];
            const json_t *given = json_object_get(axes, a->name);
            bool derived = !given && !a->is_const && a->has_default && !a->keyed;
            if (derived != (second == 1))
                continue;
            cleanup(str) char *where = xfmt("%s/axes/%s", pointer, a->name);
            struct err why = {0};
            if (given && !json_is_integer(given)) {
                faults_add(f, where, "axis %s must be an integer", a->name);
                continue;
            }
            s->axes[i] = a->value;
            if (given)
                s->axes[i] = json_integer_value(given);
            else if (a->has_default && !a->is_const) {
                if (!expr_eval(a->fallback, EXPR_SIZE, shape_lookup, s, &s->axes[i], &why)) {
                    faults_add(f, where, "%s", why.text);
                    continue;
                }
            } else if (!a->is_const) {
                faults_add(f, where, "axis %s is missing", a->name);
                continue;
            }
            if (a->is_const && s->axes[i] != a->value)
                faults_add(f, where, "axis %s is always %lld", a->name, (long long)a->value);
            else if (!a->is_const)
                check_range(a, s->axes[i], where, f);
        }
}

static void take_dtypes(struct shape *s, const json_t *dtypes, const char *pointer, struct faults *f)
{
    const struct op *op = s->op;
    const char *key;
    json_t *item;
    for (int i = 0; i < op->letter_count; i++)
        s->dtypes[i] = op->letters[i].options[0];
    json_object_foreach((json_t *)dtypes, key, item) {
        cleanup(str) char *where = xfmt("%s/dtypes/%.64s", pointer, key);
        int i = op_letter_index(op, key);
        if (i < 0) {
            faults_add(f, where, "%s has no dtype letter %.64s", op->name, key);
            continue;
        }
        const struct op_letter *letter = &op->letters[i];
        cleanup(buf) struct buf names = {0};
        bool found = false;
        for (int k = 0; k < letter->count; k++) {
            const char *name = dtype_name(letter->options[k]);
            buf_fmt(&names, "%s%s", k ? ", " : "", name);
            if (json_is_string(item) && strcmp(json_string_value(item), name) == 0) {
                s->dtypes[i] = letter->options[k];
                found = true;
            }
        }
        if (!found)
            faults_add(f, where, "dtype of %s must be one of %s", letter->name, buf_cstr(&names));
    }
}

/* The first axis that a constraint names: where its fault points to. */
static const char *first_axis(const struct op *op, const char *expression)
{
    for (const char *p = expression; *p;) {
        size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        for (int i = 0; n && i < op->axis_count; i++)
            if (strlen(op->axes[i].name) == n && strncmp(op->axes[i].name, p, n) == 0)
                return op->axes[i].name;
        p += n ? n : 1;
    }
    return "";
}

static void check_constraints(const struct shape *s, const char *pointer, struct faults *f)
{
    const struct op *op = s->op;
    for (int i = 0; i < op->constraint_count; i++) {
        int64_t holds = 0;
        struct err why = {0};
        const char *axis = first_axis(op, op->constraints[i]);
        cleanup(str) char *where = xfmt("%s/axes%s%s", pointer, *axis ? "/" : "", axis);
        if (!expr_eval(op->constraints[i], EXPR_LOGIC, shape_lookup, (void *)s, &holds, &why))
            faults_add(f, where, "%s", why.text);
        else if (!holds)
            faults_add(f, where, "the constraint %s of %s does not hold", op->constraints[i], op->name);
    }
}

bool shape_parse(const struct op_set *ops, const json_t *doc, const char *default_target, const char *pointer,
                 struct shape *ret, struct faults *f)
{
    static const char *const keys[] = {"op", "axes", "dtypes", "target", NULL};
    int before = f->count;
    cleanup(str) char *at_op = xfmt("%s/op", pointer), *at_target = xfmt("%s/target", pointer);
    if (!json_is_object(doc)) {
        faults_add(f, pointer, "a shape must be an object with op and axes");
        return false;
    }
    json_only_keys(doc, pointer, keys, f);
    const json_t *name = json_object_get(doc, "op");
    const struct op *op = json_is_string(name) ? op_set_find(ops, json_string_value(name)) : NULL;
    if (!op) {
        cleanup(buf) struct buf names = {0};
        for (int i = 0; i < ops->count; i++)
            buf_fmt(&names, "%s%s", i ? ", " : "", ops->list[i]->name);
        faults_add(f, at_op, json_is_string(name) ? "unknown operator; there are %s" : "the name of an operator is needed; there are %s",
                   buf_cstr(&names));
        return false;
    }
    struct shape s = {.op = op};
    const json_t *axes = json_object_get(doc, "axes"), *dtypes = json_object_get(doc, "dtypes");
    const json_t *target = json_object_get(doc, "target");
    if ((axes && !json_is_object(axes)) || (dtypes && !json_is_object(dtypes))) {
        faults_add(f, pointer, "axes and dtypes must be objects");
        return false;
    }
    take_axes(&s, axes, pointer, f);
    take_dtypes(&s, dtypes, pointer, f);
    const char *chosen = target ? json_string_value(target) : default_target;
    if (!chosen || strlen(chosen) >= TARGET_SIZE || !target_valid(chosen))
        faults_add(f, at_target, "a target such as sm_90a is needed");
    else
        snprintf(s.target, sizeof s.target, "%s", chosen);
    if (f->count == before)
        check_constraints(&s, pointer, f);
    struct tensor tensors[OP_MAX_TENSORS];
    int64_t bytes, flops;
    struct err why = {0};
    if (f->count == before && (!shape_tensors(&s, tensors, &why) || !shape_work(&s, &bytes, &flops, &why)))
        faults_add(f, pointer, "%s", why.text);
    if (f->count != before)
        return false;
    *ret = s;
    return true;
}

bool shape_unkey(struct shape *s, json_t *ignored, struct err *err)
{
    struct op *known = (struct op *)(uintptr_t)s->op;
    const struct op_set one = {1, &known};
    cleanup(json) json_t *doc = shape_encode(s);
    struct faults f = {0};
    struct shape plain;
    for (int i = 0; i < s->op->axis_count; i++)
        if (!s->op->axes[i].keyed)
            json_object_del(json_object_get(doc, "axes"), s->op->axes[i].name);
    if (!shape_parse(&one, doc, NULL, "", &plain, &f))
        return err_set(err, ERR_UNPROCESSABLE, "with the defaults of the axes that are not keyed: %s: %s", f.list[0].pointer, f.list[0].detail);
    for (int i = 0; i < s->op->axis_count; i++)
        if (ignored && s->axes[i] != plain.axes[i])
            json_put_int(ignored, s->op->axes[i].name, s->axes[i]);
    *s = plain;
    return true;
}

json_t *shape_encode(const struct shape *s)
{
    json_t *doc = json_object(), *axes = json_object(), *dtypes = json_object();
    json_put_str(doc, "op", s->op->name);
    for (int i = 0; i < s->op->axis_count; i++)
        json_put_int(axes, s->op->axes[i].name, s->axes[i]);
    for (int i = 0; i < s->op->letter_count; i++)
        json_put_str(dtypes, s->op->letters[i].name, dtype_name(s->dtypes[i]));
    json_put(doc, "axes", axes);
    json_put(doc, "dtypes", dtypes);
    json_put_str(doc, "target", s->target);
    return doc;
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

void shape_canonical(const struct shape *s, struct buf *to)
{
    const struct op *op = s->op;
    const char *names[OP_MAX_AXES > OP_MAX_DTYPES ? OP_MAX_AXES : OP_MAX_DTYPES];
    int n = 0;
    buf_fmt(to, "proteus-shape-v1\nop=%s@%d\n", op->name, op->version);
    for (int i = 0; i < op->axis_count; i++)
        if (op->axes[i].keyed)
            names[n++] = op->axes[i].name;
    qsort(names, (size_t)n, sizeof *names, by_text);
    for (int i = 0; i < n; i++)
        buf_fmt(to, "axis.%s=%lld\n", names[i], (long long)s->axes[op_axis_index(op, names[i])]);
    n = 0;
    for (int i = 0; i < op->letter_count; i++)
        names[n++] = op->letters[i].name;
    qsort(names, (size_t)n, sizeof *names, by_text);
    for (int i = 0; i < n; i++)
        buf_fmt(to, "dtype.%s=%s\n", names[i], dtype_name(s->dtypes[op_letter_index(op, names[i])]));
    buf_fmt(to, "target=%s\n", s->target);
}

struct hash_hex shape_hash(const struct shape *s)
{
    cleanup(buf) struct buf text = {0};
    shape_canonical(s, &text);
    return hash_of(text.data, text.size);
}

static bool tensor_resolve(const struct shape *s, const struct op_tensor *spec, struct tensor *t, struct err *err)
{
    *t = (struct tensor){.spec = spec, .rank = spec->rank, .dtype = spec->letter >= 0 ? s->dtypes[spec->letter] : spec->fixed};
    t->elements = 1;
    for (int d = 0; d < t->rank; d++) {
        if (!expr_eval(spec->dims[d], EXPR_SIZE, shape_lookup, (void *)s, &t->dims[d], err))
            return err_wrap(err, "size of %s", spec->name);
        if (t->dims[d] < 0 || __builtin_mul_overflow(t->elements, t->dims[d], &t->elements) || t->elements > SHAPE_MAX_ELEMENTS)
            return err_set(err, ERR_UNPROCESSABLE, "tensor %s has a negative size or more than 2^40 elements", spec->name);
    }
    int64_t dense = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        int64_t stride = 0;
        if (spec->has_strides && !expr_eval(spec->strides[d], EXPR_SIZE, shape_lookup, (void *)s, &stride, err))
            return err_wrap(err, "stride of %s", spec->name);
        if (stride && stride < dense)
            return err_set(err, ERR_UNPROCESSABLE, "stride %d of tensor %s is %lld, it must be 0 (dense) or at least %lld", d,
                           spec->name, (long long)stride, (long long)dense);
        t->strides[d] = stride ? stride : dense;
        if (__builtin_mul_overflow(t->strides[d], t->dims[d] ? t->dims[d] : 1, &dense) || dense > SHAPE_MAX_ELEMENTS)
            return err_set(err, ERR_UNPROCESSABLE, "tensor %s spans more than 2^40 elements", spec->name);
    }
    if (t->elements) {
        t->span_elements = 1;
        for (int d = 0; d < t->rank; d++)
            t->span_elements += (t->dims[d] - 1) * t->strides[d];
    }
    t->bytes = t->span_elements * dtype_bytes(t->dtype);
    return true;
}

bool shape_tensors(const struct shape *s, struct tensor ret[OP_MAX_TENSORS], struct err *err)
{
    for (int i = 0; i < s->op->tensor_count; i++)
        if (!tensor_resolve(s, &s->op->tensors[i], &ret[i], err))
            return false;
    return true;
}

int64_t tensor_offset(const struct tensor *t, int64_t i)
{
    int64_t offset = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        offset += i % t->dims[d] * t->strides[d];
        i /= t->dims[d];
    }
    return offset;
}

bool shape_work(const struct shape *s, int64_t *ret_bytes, int64_t *ret_flops, struct err *err)
{
    int64_t bytes, flops;
    if (!expr_eval(s->op->bytes, EXPR_SIZE, shape_lookup, (void *)s, &bytes, err) ||
        !expr_eval(s->op->flops, EXPR_SIZE, shape_lookup, (void *)s, &flops, err))
        return err_wrap(err, "least work of %s", s->op->name);
    if (bytes < 0 || flops < 0)
        return err_set(err, ERR_UNPROCESSABLE, "least work of %s is negative", s->op->name);
    *ret_bytes = bytes;
    *ret_flops = flops;
    return true;
}

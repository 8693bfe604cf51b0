/* op.json is read once, key by key, and checked completely: a wrong operator is refused at start with its file and field. */
#include "core/op.h"

#include "core/expr.h"

#include <string.h>

struct load { struct op *op; const char *path; struct err *err; };

static bool bad(struct load *l, const char *where, const char *what)
{
    return err_set(l->err, ERR_INVALID, "%s: %s: %s", l->path, where, what);
}

static bool name_ok(const char *name)
{
    size_t n = strlen(name);
    if (!n || n >= OP_NAME_SIZE || !(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", name[0])))
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == n;
}

/* An expression: a string or an integer; copied as text. */
static bool take_expr(struct load *l, const char *where, const json_t *value, char *to, size_t size)
{
    int n = -1;
    if (json_is_integer(value))
        n = snprintf(to, size, "%lld", (long long)json_integer_value(value));
    else if (json_is_string(value))
        n = snprintf(to, size, "%s", json_string_value(value));
    if (n <= 0 || (size_t)n >= size)
        return bad(l, where, "an expression (a string or an integer) is needed");
    return true;
}

/* Where the number is there: an integer that every reader of JSON keeps. */
static bool axis_number(struct load *l, const char *where, const json_t *doc, const char *key)
{
    const json_t *value = json_object_get(doc, key);
    char text[80];
    if (!value || (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= SHAPE_AXIS_MOST))
        return true;
    snprintf(text, sizeof text, "%s must be an integer from 0 to 2^53 (%lld)", key, (long long)SHAPE_AXIS_MOST);
    return bad(l, where, text);
}

static bool load_axis(struct load *l, const char *name, const json_t *doc)
{
    static const char *const keys[] = {"type", "value", "default", "min", "max", "keyed", "description", NULL};
    struct op *op = l->op;
    struct faults f = {0};
    char where[96];
    snprintf(where, sizeof where, "axes.%.64s", name);
    if (op->axis_count == OP_MAX_AXES)
        return bad(l, where, "too many axes");
    if (!name_ok(name) || !json_is_object(doc))
        return bad(l, where, "a name of letters, digits and _ and an object are needed");
    json_only_keys(doc, "", keys, &f);
    if (f.count)
        return bad(l, where, f.list[0].pointer);
    struct op_axis *a = &op->axes[op->axis_count];
    snprintf(a->name, sizeof a->name, "%s", name);
    const char *type = json_str(doc, "type", "");
    a->is_const = strcmp(type, "const") == 0;
    if (!a->is_const && strcmp(type, "var") != 0)
        return bad(l, where, "type must be var or const");
    a->keyed = json_bool(doc, "keyed", true);
    if (!axis_number(l, where, doc, "min") || !axis_number(l, where, doc, "max") || !axis_number(l, where, doc, "value"))
        return false;
    a->min = json_int(doc, "min", 1);
    a->max = json_int(doc, "max", SHAPE_AXIS_MAX);
    a->value = json_int(doc, "value", 0);
    if (a->is_const && !json_is_integer(json_object_get(doc, "value")))
        return bad(l, where, "a const axis needs an integer value");
    if (a->min < 0 || a->max < a->min)
        return bad(l, where, "0 <= min <= max must hold");
    const json_t *fallback = json_object_get(doc, "default");
    a->has_default = fallback != NULL;
    if (!fallback && !a->keyed && !a->is_const)
        return bad(l, where, "an axis that is not keyed needs a default: what is judged is ours to choose");
    if (fallback && a->keyed && !json_is_integer(fallback))
        return bad(l, where, "the default of a keyed axis must be an integer");
    if (fallback && !take_expr(l, where, fallback, a->fallback, sizeof a->fallback))
        return false;
    op->axis_count++;
    return true;
}

static bool load_letter(struct load *l, const char *name, const json_t *doc)
{
    struct op *op = l->op;
    char where[96];
    snprintf(where, sizeof where, "dtypes.%.64s", name);
    if (op->letter_count == OP_MAX_DTYPES || !name_ok(name) || !json_is_array(doc) || !json_array_size(doc) ||
        json_array_size(doc) > DTYPE_COUNT)
        return bad(l, where, "a list of dtypes is needed");
    struct op_letter *letter = &op->letters[op->letter_count++];
    snprintf(letter->name, sizeof letter->name, "%s", name);
    size_t i;
    json_t *item;
    json_array_foreach(doc, i, item)
        if (!json_is_string(item) || !dtype_parse(json_string_value(item), &letter->options[letter->count++]))
            return bad(l, where, "unknown dtype");
    return true;
}

static bool load_tensor(struct load *l, enum op_role role, const char *name, const json_t *doc)
{
    static const char *const keys[] = {"shape", "dtype", "strides", "fill", "alignment", "description", NULL};
    struct op *op = l->op;
    struct faults f = {0};
    char where[96];
    snprintf(where, sizeof where, "tensor %.64s", name);
    if (op->tensor_count == OP_MAX_TENSORS)
        return bad(l, where, "too many tensors");
    if (!name_ok(name) || !json_is_object(doc) || op_tensor_index(op, name) >= 0)
        return bad(l, where, "a name of its own and an object are needed");
    json_only_keys(doc, "", keys, &f);
    if (f.count)
        return bad(l, where, f.list[0].pointer);
    struct op_tensor *t = &op->tensors[op->tensor_count];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->role = role;
    const json_t *dims = json_object_get(doc, "shape"), *strides = json_object_get(doc, "strides");
    size_t rank = json_array_size(dims);
    if (!json_is_array(dims) || rank < 1 || rank > OP_MAX_DIMS)
        return bad(l, where, "shape must be a list of 1 to 8 sizes");
    if (strides && json_array_size(strides) != rank)
        return bad(l, where, "strides must be as many as the sizes");
    t->rank = (int)rank;
    t->has_strides = strides != NULL;
    for (size_t i = 0; i < rank; i++)
        if (!take_expr(l, where, json_array_get(dims, i), t->dims[i], sizeof t->dims[i]) ||
            (strides && !take_expr(l, where, json_array_get(strides, i), t->strides[i], sizeof t->strides[i])))
            return false;
    const char *dtype = json_str(doc, "dtype", "");
    t->letter = op_letter_index(op, dtype);
    if (t->letter < 0 && !dtype_parse(dtype, &t->fixed))
        return bad(l, where, "dtype must be one of the operator's letters or a dtype");
    t->alignment_bytes = (int)json_int(doc, "alignment", 16);
    if (t->alignment_bytes < 1 || t->alignment_bytes > 4096 || (t->alignment_bytes & (t->alignment_bytes - 1)))
        return bad(l, where, "alignment must be a power of two up to 4096");
    op->tensor_count++;
    return true;
}

static bool load_scalar(struct load *l, const char *name, const json_t *doc)
{
    struct op *op = l->op;
    char where[96];
    snprintf(where, sizeof where, "scalars.%.64s", name);
    if (op->scalar_count == OP_MAX_SCALARS || !name_ok(name) || !json_is_number(json_object_get(doc, "value")))
        return bad(l, where, "a name and an object with dtype and value are needed");
    struct op_scalar *s = &op->scalars[op->scalar_count++];
    snprintf(s->name, sizeof s->name, "%s", name);
    s->value = json_num(doc, "value", 0);
    if (!dtype_parse(json_str(doc, "dtype", ""), &s->dtype))
        return bad(l, where, "unknown dtype");
    return true;
}

/* Every object of the file that maps names to records: which key, which reader. */
static bool load_maps(struct load *l)
{
    json_t *doc = l->op->doc, *item;
    const char *key;
    json_object_foreach(json_object_get(doc, "axes"), key, item)
        if (!load_axis(l, key, item))
            return false;
    json_object_foreach(json_object_get(doc, "dtypes"), key, item)
        if (!load_letter(l, key, item))
            return false;
    static const struct { const char *key; enum op_role role; } roles[] = {
        {"inputs", OP_INPUT}, {"inouts", OP_INOUT}, {"outputs", OP_OUTPUT}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        json_object_foreach(json_object_get(doc, roles[i].key), key, item)
            if (!load_tensor(l, roles[i].role, key, item))
                return false;
    json_object_foreach(json_object_get(doc, "scalars"), key, item)
        if (!load_scalar(l, key, item))
            return false;
    return true;
}

/* Any axis is 1: only whether the text parses and its names exist is asked. */
static bool any_axis(void *ctx, const char *name, int64_t *ret)
{
    const struct op *op = ctx;
    *ret = 1;
    if (strncmp(name, "bytes_", 6) == 0)
        return op_letter_index(op, name + 6) >= 0;
    return op_axis_index(op, name) >= 0;
}

/* A division by a difference may fail at 1 and hold for real shapes: only names and grammar are checked here. */
static bool check_expr(struct load *l, const char *where, const char *text, enum expr_mode mode)
{
    int64_t v;
    struct err why = {0};
    if (expr_eval(text, mode, any_axis, l->op, &v, &why) || strstr(why.text, "division by zero"))
        return true;
    return bad(l, where, why.text);
}

static bool check_exprs(struct load *l)
{
    struct op *op = l->op;
    for (int i = 0; i < op->axis_count; i++)
        if (op->axes[i].has_default && !check_expr(l, op->axes[i].name, op->axes[i].fallback, EXPR_SIZE))
            return false;
    for (int i = 0; i < op->tensor_count; i++)
        for (int d = 0; d < op->tensors[i].rank; d++)
            if (!check_expr(l, op->tensors[i].name, op->tensors[i].dims[d], EXPR_SIZE) ||
                (op->tensors[i].has_strides && !check_expr(l, op->tensors[i].name, op->tensors[i].strides[d], EXPR_SIZE)))
                return false;
    for (int i = 0; i < op->constraint_count; i++)
        if (!check_expr(l, "constraints", op->constraints[i], EXPR_LOGIC))
            return false;
    return check_expr(l, "bytes", op->bytes, EXPR_SIZE) && check_expr(l, "flops", op->flops, EXPR_SIZE);
}

static bool load_doc(struct load *l)
{
    static const char *const keys[] = {"name", "version", "description", "tags", "axes", "dtypes", "inputs", "inouts", "outputs",
                                       "scalars", "constraints", "bytes", "flops", "tolerance", "regimes", "intermediates", NULL};
    struct op *op = l->op;
    struct faults f = {0};
    if (!json_is_object(op->doc))
        return bad(l, "/", "an object is needed");
    json_only_keys(op->doc, "", keys, &f);
    if (f.count)
        return bad(l, f.list[0].pointer, "unknown key");
    const char *name = json_str(op->doc, "name", "");
    if (!name_ok(name))
        return bad(l, "name", "letters, digits and _, at most 63");
    snprintf(op->name, sizeof op->name, "%s", name);
    op->version = (int)json_int(op->doc, "version", 0);
    if (op->version < 1)
        return bad(l, "version", "an integer of at least 1 is needed");
    op->description = xstrdup(json_str(op->doc, "description", ""));
    if (!load_maps(l))
        return false;
    const json_t *between = json_object_get(op->doc, "intermediates");
    op->between = op_letter_index(op, json_is_string(between) ? json_string_value(between) : "");
    if (between && op->between < 0)
        return bad(l, "intermediates", "must be one of the operator's dtype letters");
    const json_t *constraints = json_object_get(op->doc, "constraints");
    size_t count = json_array_size(constraints);
    if (count > sizeof op->constraints / sizeof *op->constraints)
        return bad(l, "constraints", "at most 16");
    for (size_t i = 0; i < count; i++)
        if (!take_expr(l, "constraints", json_array_get(constraints, i), op->constraints[op->constraint_count++], OP_EXPR_SIZE))
            return false;
    if (!take_expr(l, "bytes", json_object_get(op->doc, "bytes"), op->bytes, sizeof op->bytes) ||
        !take_expr(l, "flops", json_object_get(op->doc, "flops"), op->flops, sizeof op->flops))
        return false;
    bool has_result = false;
    for (int i = 0; i < op->tensor_count; i++)
        has_result |= op->tensors[i].role != OP_INPUT;
    if (!op->axis_count || !has_result)
        return bad(l, "axes, outputs", "at least one axis and one output or inout are needed");
    if (!json_is_object(json_object_get(op->doc, "regimes")) || !json_object_size(json_object_get(op->doc, "regimes")))
        return bad(l, "regimes", "at least one input distribution is needed");
    return check_exprs(l);
}

bool op_read(struct op *op, const char *path, struct err *err)
{
    struct load l = {.op = op, .path = path, .err = err};
    return load_doc(&l);
}

/* op.json is read once, key by key, and checked completely: a wrong operator is refused at start with its file and field. */
#include "core/op.h"

#include "core/expr.h"

#include <math.h>
#include <string.h>

enum { OP_JSON_LIMIT = 1 << 20, SOURCE_LIMIT = 1 << 20 };

static const struct {
    const char *name;
    int bytes;
    const char *cuda;
    double max_error, rms_error, roundoff;
} dtypes[] = {
#define X(code, name, bytes, cuda, max, rms, u) [code] = {name, bytes, cuda, max, rms, u},
    DTYPE_TABLE(X)
#undef X
};

const char *dtype_name(enum dtype t) { return dtypes[t].name; }
const char *dtype_cuda(enum dtype t) { return dtypes[t].cuda; }
int dtype_bytes(enum dtype t) { return dtypes[t].bytes; }
double dtype_max_error(enum dtype t) { return dtypes[t].max_error; }
double dtype_rms_error(enum dtype t) { return dtypes[t].rms_error; }
double dtype_roundoff(enum dtype t) { return dtypes[t].roundoff; }
bool dtype_is_float(enum dtype t) { return dtypes[t].roundoff > 0; }

bool dtype_parse(const char *name, enum dtype *ret)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *ret = (enum dtype)i;
            return true;
        }
    return false;
}

/* ---- one element in and out ---- */

/* A binary float of e exponent and m mantissa bits, IEEE layout with subnormals; `finite_only`: e4m3fn (no infinities). */
struct small_float { int exponent_bits, mantissa_bits; bool finite_only; };
static const struct small_float f16_layout = {5, 10, false}, bf16_layout = {8, 7, false}, f8e4m3_layout = {4, 3, true};

static double small_decode(const struct small_float *f, uint32_t bits)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    uint32_t mantissa = bits & ((1u << f->mantissa_bits) - 1);
    uint32_t exponent = (bits >> f->mantissa_bits) & ((1u << f->exponent_bits) - 1);
    uint32_t all_ones = (1u << f->exponent_bits) - 1;
    double sign = bits >> (f->exponent_bits + f->mantissa_bits) & 1 ? -1.0 : 1.0;
    if (f->finite_only && exponent == all_ones && mantissa == (1u << f->mantissa_bits) - 1)
        return NAN;
    if (!f->finite_only && exponent == all_ones)
        return mantissa ? NAN : sign * INFINITY;
    if (!exponent)
        return sign * ldexp(mantissa, 1 - bias - f->mantissa_bits);
    return sign * ldexp((double)(mantissa | 1u << f->mantissa_bits), (int)exponent - bias - f->mantissa_bits);
}

static uint32_t small_encode(const struct small_float *f, double value)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    uint32_t all_ones = (1u << f->exponent_bits) - 1, full = (1u << f->mantissa_bits) - 1;
    uint32_t sign = signbit(value) ? 1u << (f->exponent_bits + f->mantissa_bits) : 0;
    uint32_t infinity = f->finite_only ? all_ones << f->mantissa_bits | full : all_ones << f->mantissa_bits;
    if (isnan(value))
        return f->finite_only ? infinity : all_ones << f->mantissa_bits | full;   /* canonical: 0x7fff */
    double magnitude = fabs(value);
    if (isinf(value))
        return sign | infinity;
    if (magnitude == 0)
        return sign;
    int e = ilogb(magnitude);
    if (e < 1 - bias)
        e = 1 - bias;
    /* scaled so that one unit is the last place; rint rounds to nearest even in the default mode */
    uint64_t units = (uint64_t)rint(ldexp(magnitude, f->mantissa_bits - e));
    if (units >> (f->mantissa_bits + 1)) {
        units >>= 1;
        e++;
    }
    uint32_t exponent = units >> f->mantissa_bits ? (uint32_t)(e + bias) : 0;
    uint32_t bits = exponent << f->mantissa_bits | ((uint32_t)units & full);
    if (exponent > all_ones || (!f->finite_only && exponent == all_ones) || (f->finite_only && bits >= infinity))
        return sign | infinity;
    return sign | bits;
}

double dtype_load(enum dtype t, const void *data, size_t i)
{
    switch (t) {
    case DTYPE_F32: return ((const float *)data)[i];
    case DTYPE_F16: return small_decode(&f16_layout, ((const uint16_t *)data)[i]);
    case DTYPE_BF16: {
        uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    case DTYPE_F8E4M3: return small_decode(&f8e4m3_layout, ((const uint8_t *)data)[i]);
    case DTYPE_I32: return ((const int32_t *)data)[i];
    case DTYPE_I64: return (double)((const int64_t *)data)[i];
    case DTYPE_I8: return ((const int8_t *)data)[i];
    case DTYPE_U8: return ((const uint8_t *)data)[i];
    case DTYPE_COUNT: break;
    }
    BUG_ON(true);
}

void dtype_store(enum dtype t, void *data, size_t i, double value)
{
    switch (t) {
    case DTYPE_F32: ((float *)data)[i] = (float)value; return;
    case DTYPE_F16: ((uint16_t *)data)[i] = (uint16_t)small_encode(&f16_layout, value); return;
    case DTYPE_BF16: ((uint16_t *)data)[i] = (uint16_t)small_encode(&bf16_layout, value); return;
    case DTYPE_F8E4M3: ((uint8_t *)data)[i] = (uint8_t)small_encode(&f8e4m3_layout, value); return;
    case DTYPE_I32: ((int32_t *)data)[i] = (int32_t)rint(value); return;
    case DTYPE_I64: ((int64_t *)data)[i] = (int64_t)rint(value); return;
    case DTYPE_I8: ((int8_t *)data)[i] = (int8_t)rint(value); return;
    case DTYPE_U8: ((uint8_t *)data)[i] = (uint8_t)rint(value); return;
    case DTYPE_COUNT: break;
    }
    BUG_ON(true);
}

/* ---- op.json ---- */

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

/* One line a file: name, size, content's digest. A file that is not there counts as such. */
static bool folder_digest(struct op *op, struct err *err)
{
    static const char *const files[] = {"op.json", "reference.c", "baseline.cu", "baseline.json"};
    cleanup(buf) struct buf list = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *path = xfmt("%s/%s", op->dir, files[i]);
        cleanup(buf) struct buf content = {0};
        if (!file_read(path, SOURCE_LIMIT, &content, err))
            return false;
        buf_fmt(&list, "%s %zu %s\n", files[i], content.size, hash_of(content.data, content.size).text);
    }
    op->digest = hash_of(list.data, list.size);
    return true;
}

bool op_load(const char *dir, struct op **ret, struct err *err)
{
    cleanup(op) struct op *op = xalloc(sizeof *op);
    cleanup(str) char *path = xfmt("%s/op.json", dir);
    op->dir = xstrdup(dir);
    if (!json_parse_file(path, OP_JSON_LIMIT, &op->doc, err))
        return false;
    struct load l = {.op = op, .path = path, .err = err};
    if (!load_doc(&l) || !folder_digest(op, err))
        return false;
    *ret = steal(&op);
    return true;
}

void op_free(struct op *op)
{
    if (!op)
        return;
    free(op->dir);
    free(op->description);
    json_decref(op->doc);
    free(op);
}

int op_results(const struct op *op)
{
    return op->between >= 0 ? 2 : 1;
}

#define INDEX_BY_NAME(what, list, count)                       \
    int op_##what##_index(const struct op *op, const char *name) \
    {                                                          \
        for (int i = 0; i < op->count; i++)                    \
            if (strcmp(op->list[i].name, name) == 0)           \
                return i;                                      \
        return -1;                                             \
    }
INDEX_BY_NAME(axis, axes, axis_count)
INDEX_BY_NAME(tensor, tensors, tensor_count)
INDEX_BY_NAME(scalar, scalars, scalar_count)
INDEX_BY_NAME(letter, letters, letter_count)

json_t *op_public(const struct op *op)
{
    json_t *doc = json_deep_copy(op->doc), *regimes = json_object_get(doc, "regimes"), *item;
    const char *key;
    void *next;
    json_object_foreach_safe(regimes, next, key, item)
        if (json_bool(item, "hidden", false))
            json_object_del(regimes, key);
    return doc;
}

static int by_name(const void *a, const void *b)
{
    const struct op *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

bool op_set_load(const char *dir, struct op_set *ret, struct err *err)
{
    cleanup(op_set) struct op_set set = {0};
    cleanup(dir) DIR *d = opendir(dir);
    if (!d)
        return err_errno(err, ERR_UNAVAILABLE, "operators: %s", dir);
    for (struct dirent *e; (e = readdir(d));) {
        cleanup(str) char *sub = xfmt("%s/%s", dir, e->d_name);
        cleanup(str) char *file = xfmt("%s/op.json", sub);
        if (e->d_name[0] == '.' || access(file, F_OK) != 0)
            continue;
        struct op *op;
        if (!op_load(sub, &op, err))
            return false;
        set.list = xrealloc(set.list, (size_t)(set.count + 1) * sizeof *set.list);
        set.list[set.count++] = op;
        if (strcmp(op->name, e->d_name) != 0)
            return err_set(err, ERR_INVALID, "%s: the operator is named %s, its folder is not", file, op->name);
    }
    if (!set.count)
        return err_set(err, ERR_UNAVAILABLE, "operators: no folder of %s holds an op.json", dir);
    qsort(set.list, (size_t)set.count, sizeof *set.list, by_name);
    *ret = set;
    set = (struct op_set){0};
    return true;
}

void op_set_done(struct op_set *set)
{
    for (int i = 0; i < set->count; i++)
        op_free(set->list[i]);
    free(set->list);
    *set = (struct op_set){0};
}

const struct op *op_set_find(const struct op_set *set, const char *name)
{
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->list[i]->name, name) == 0)
            return set->list[i];
    return NULL;
}

char *op_default_dir(void)
{
    cleanup(str) char *self = self_dir();
    /* dist/bin/../share, build/server/../share, build/gpu/judge/../../share */
    static const char *const tries[] = {"../share/proteus/ops", "share/proteus/ops", "../../share/proteus/ops"};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        cleanup(str) char *path = xfmt("%s/%s", self, tries[i]);
        if (access(path, R_OK) == 0)
            return steal(&path);
    }
    return xfmt("%s/%s", self, tries[0]);
}

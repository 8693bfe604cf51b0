/* The plan's arithmetic in checked 64 bits; each number against CUDA's limits (programming guide, compute capability 9.0). */
#include "core/candidate.h"
#include "core/expr.h"

#include <string.h>

static const struct { const char *key; int64_t max[3]; int64_t product; bool needed; } triples[] = {
    {"grid", {INT32_MAX, 65535, 65535}, INT64_MAX, true},
    {"block", {1024, 1024, 64}, 1024, true},
    {"cluster", {16, 16, 16}, 16, false},
};

struct resolve {
    const struct candidate *c;
    const struct shape *s;
    char *why;
    size_t why_size;
};

static bool wrong(struct resolve *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(struct resolve *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->why, r->why_size, fmt, ap);
    va_end(ap);
    return false;
}

static bool lookup(void *ctx, const char *name, int64_t *ret)
{
    struct resolve *r = ctx;
    if (shape_lookup((void *)r->s, name, ret))
        return true;
    for (int i = 0; i < r->c->define_count; i++) {
        char *end;
        if (strcmp(r->c->defines[i].name, name) != 0)
            continue;
        long long v = strtoll(r->c->defines[i].value, &end, 10);
        if (*end || end == r->c->defines[i].value)
            return false;
        *ret = v;
        return true;
    }
    return false;
}

bool candidate_number(const struct candidate *c, const struct shape *s, const char *text, int64_t *ret, struct err *err)
{
    struct resolve r = {.c = c, .s = s};
    return expr_eval(text, EXPR_SIZE, lookup, &r, ret, err);
}

/* A number or an expression, between least and most. */
static bool size_of(struct resolve *r, const json_t *v, const char *what, int64_t least, int64_t most, int64_t *ret)
{
    struct err err = {0};
    int64_t n;
    if (json_is_integer(v))
        n = json_integer_value(v);
    else if (!json_is_string(v))
        return wrong(r, "%s: a number or an expression is needed", what);
    else if (!expr_eval(json_string_value(v), EXPR_SIZE, lookup, r, &n, &err))
        return wrong(r, "%s: %s", what, err.text);
    if (n < least || n > most)
        return wrong(r, "%s is %lld, it must be %lld to %lld", what, (long long)n, (long long)least, (long long)most);
    *ret = n;
    return true;
}

static int workspace_index(const struct plan *p, const char *name)
{
    for (int i = 0; i < p->workspace_count; i++)
        if (strcmp(p->workspaces[i].name, name) == 0)
            return i;
    return -1;
}

/* Shown to people, and a name in the language of plans: nothing that hides in a text or turns it around. */
static bool identifier(const char *s)
{
    for (size_t i = 0; s[i]; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_' || (i && s[i] >= '0' && s[i] <= '9')))
            return false;
    return *s;
}

static bool take_workspaces(struct resolve *r, const json_t *list, struct plan *p)
{
    size_t i;
    json_t *item;
    int64_t total = 0;
    json_array_foreach(list, i, item) {
        char what[96];
        const char *name = json_str(item, "name", "");
        if (!identifier(name))
            return wrong(r, "a workspace's name is letters, digits and underscores, and begins with none of the digits");
        snprintf(what, sizeof what, "bytes of workspace %.40s", name);
        if (workspace_index(p, name) >= 0 || op_tensor_index(r->s->op, name) >= 0 || op_scalar_index(r->s->op, name) >= 0)
            return wrong(r, "workspace \"%.40s\": a name of its own is needed", name);
        int64_t bytes;
        if (!size_of(r, json_object_get(item, "bytes"), what, 1, PLAN_MAX_WORKSPACE_BYTES, &bytes))
            return false;
        total += bytes;
        if (total > PLAN_MAX_WORKSPACE_BYTES)
            return wrong(r, "the workspaces take %lld bytes in all, at most %lld", (long long)total, (long long)PLAN_MAX_WORKSPACE_BYTES);
        snprintf(p->workspaces[p->workspace_count].name, sizeof p->workspaces[0].name, "%s", name);
        p->workspaces[p->workspace_count++].bytes = bytes;
    }
    return true;
}

static uint64_t scalar_bits(const struct op_scalar *s)
{
    uint64_t bits = 0;
    dtype_store(s->dtype, &bits, 0, s->value);
    return bits;
}

static bool take_arg(struct resolve *r, const struct plan *p, const char *name, struct plan_arg *arg)
{
    const struct op *op = r->s->op;
    int i;
    if (strcmp(name, "$null") == 0 && op_axis_index(op, "null") < 0) {
        *arg = (struct plan_arg){PLAN_NULL, 0, 8, 0};
    } else if (*name == '$') {
        if ((i = op_axis_index(op, name + 1)) < 0)
            return wrong(r, "argument %.60s: there is no such axis", name);
        if (r->s->axes[i] > INT32_MAX)
            return wrong(r, "argument %.60s: %lld does not fit a 32-bit int", name, (long long)r->s->axes[i]);
        *arg = (struct plan_arg){PLAN_AXIS, i, 4, (uint64_t)r->s->axes[i]};
    } else if ((i = op_tensor_index(op, name)) >= 0)
        *arg = (struct plan_arg){PLAN_TENSOR, i, 8, 0};
    else if ((i = workspace_index(p, name)) >= 0)
        *arg = (struct plan_arg){PLAN_WORKSPACE, i, 8, 0};
    else if ((i = op_scalar_index(op, name)) >= 0)
        *arg = (struct plan_arg){PLAN_SCALAR, i, dtype_bytes(op->scalars[i].dtype), scalar_bits(&op->scalars[i])};
    else
        return wrong(r, "argument \"%.60s\" is no tensor, workspace, scalar, $AXIS or $null", name);
    return true;
}

static bool take_launch(struct resolve *r, const json_t *doc, int number, struct plan *p, struct plan_step *step)
{
    char what[96];
    snprintf(step->kernel, sizeof step->kernel, "%s", json_str(doc, "kernel", ""));
    if (!*step->kernel || step->kernel[strspn(step->kernel, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$.0123456789")])
        return wrong(r, "step %d: kernel must be the name of a PTX entry", number);
    uint32_t *const targets[] = {step->grid, step->block, step->cluster};
    for (size_t k = 0; k < sizeof triples / sizeof *triples; k++) {
        const json_t *list = json_object_get(doc, triples[k].key);
        int64_t product = 1;
        for (size_t d = 0; d < 3; d++) {
            int64_t n = 1;
            snprintf(what, sizeof what, "step %d: %s[%zu]", number, triples[k].key, d);
            if (d < json_array_size(list) && !size_of(r, json_array_get(list, d), what, 1, triples[k].max[d], &n))
                return false;
            targets[k][d] = (uint32_t)n;
            product *= n;
        }
        if (product > triples[k].product)
            return wrong(r, "step %d: %s has %lld in all, at most %lld", number, triples[k].key, (long long)product, (long long)triples[k].product);
    }
    for (int d = 0; d < 3; d++)
        if (step->grid[d] % step->cluster[d])
            return wrong(r, "step %d: grid[%d] is %u, not a multiple of the cluster's %u", number, d, step->grid[d], step->cluster[d]);
    const json_t *shared = json_object_get(doc, "shared_bytes"), *args = json_object_get(doc, "args");
    int64_t bytes = 0;
    snprintf(what, sizeof what, "step %d: shared_bytes", number);
    if (shared && !size_of(r, shared, what, 0, PLAN_SHARED_MAX_BYTES, &bytes))
        return false;
    step->shared_bytes = (uint32_t)bytes;
    const json_t *dependent = json_object_get(doc, "dependent");
    int64_t flag = json_is_true(dependent);
    snprintf(what, sizeof what, "step %d: dependent", number);
    if (dependent && !json_is_boolean(dependent) && !size_of(r, dependent, what, 0, 1, &flag))
        return false;
    step->dependent = flag;
    if (step->dependent && (number == 0 || p->steps[number - 1].is_memset))
        return wrong(r, "step %d: only a launch that follows a launch of the plan can be dependent", number);
    if (step->dependent && atoi(r->s->target + 3) < 90)
        return wrong(r, "step %d: dependent launches need sm_90 or newer, not %s", number, r->s->target);
    size_t i;
    json_t *item;
    json_array_foreach(args, i, item)
        if (!take_arg(r, p, json_string_value(item), &step->args[step->arg_count++]))
            return false;
    return true;
}

static bool take_step(struct resolve *r, const json_t *doc, int number, struct plan *p, struct plan_step *step)
{
    const char *memset_name = json_str(doc, "memset", NULL);
    char what[96];
    int64_t value = 0;
    if (!memset_name)
        return take_launch(r, doc, number, p, step);
    step->is_memset = true;
    step->memset_workspace = workspace_index(p, memset_name);
    if (step->memset_workspace < 0)
        return wrong(r, "step %d: memset of \"%.40s\", which is no workspace", number, memset_name);
    snprintf(what, sizeof what, "step %d: value", number);
    if (!size_of(r, json_object_get(doc, "value"), what, 0, 255, &value))
        return false;
    step->memset_value = (uint8_t)value;
    return true;
}

bool plan_resolve(const struct candidate *c, const struct shape *s, struct plan *ret, char *why, size_t why_size)
{
    struct resolve r = {c, s, why, why_size};
    const json_t *doc = json_object_get(c->doc, "plan"), *steps = json_object_get(doc, "steps");
    cleanup(mem) void *memory = xalloc(sizeof(struct plan));
    struct plan *p = memory;
    p->cooperative = c->cooperative;
    if (!take_workspaces(&r, json_object_get(doc, "workspace"), p))
        return false;
    size_t i;
    json_t *item;
    bool launches = false;
    json_array_foreach(steps, i, item) {
        struct plan_step *step = &p->steps[p->step_count++];
        if (!take_step(&r, item, (int)i, p, step))
            return false;
        launches |= !step->is_memset;
    }
    if (!launches)
        return wrong(&r, "the plan launches no kernel");
    *ret = *p;
    return true;
}

static const char *arg_name(const struct plan *p, const struct shape *s, const struct plan_arg *a, char *to, size_t size)
{
    static const char *const marks[] = {[PLAN_TENSOR] = "", [PLAN_WORKSPACE] = "", [PLAN_SCALAR] = "", [PLAN_AXIS] = "$", [PLAN_NULL] = "$"};
    const char *name = a->kind == PLAN_TENSOR      ? s->op->tensors[a->index].name
                       : a->kind == PLAN_WORKSPACE ? p->workspaces[a->index].name
                       : a->kind == PLAN_SCALAR    ? s->op->scalars[a->index].name
                       : a->kind == PLAN_NULL      ? "null"
                                                   : s->op->axes[a->index].name;
    snprintf(to, size, "%s%s", marks[a->kind], name);
    return to;
}

static json_t *triple(const uint32_t v[3])
{
    return json_pack("[I,I,I]", (json_int_t)v[0], (json_int_t)v[1], (json_int_t)v[2]);
}

json_t *plan_encode(const struct plan *p, const struct shape *s)
{
    json_t *doc = json_object(), *workspaces = json_array(), *steps = json_array();
    for (int i = 0; i < p->workspace_count; i++)
        json_array_append_new(workspaces, json_pack("{s:s,s:I}", "name", p->workspaces[i].name, "bytes", (json_int_t)p->workspaces[i].bytes));
    for (int i = 0; i < p->step_count; i++) {
        const struct plan_step *step = &p->steps[i];
        if (step->is_memset) {
            json_array_append_new(steps, json_pack("{s:s,s:i}", "memset", p->workspaces[step->memset_workspace].name, "value", step->memset_value));
            continue;
        }
        json_t *args = json_array();
        char name[80];
        for (int k = 0; k < step->arg_count; k++)
            json_array_append_new(args, json_string(arg_name(p, s, &step->args[k], name, sizeof name)));
        json_t *launch = json_pack("{s:s,s:o,s:o,s:o,s:I,s:o}", "kernel", step->kernel, "grid", triple(step->grid), "block",
                                   triple(step->block), "cluster", triple(step->cluster), "shared_bytes", (json_int_t)step->shared_bytes,
                                   "args", args);
        if (step->dependent)
            json_put_bool(launch, "dependent", true);
        json_array_append_new(steps, launch);
    }
    json_put(doc, "workspace", workspaces);
    json_put(doc, "steps", steps);
    json_put_bool(doc, "cooperative", p->cooperative);
    return doc;
}

bool plan_parse(const json_t *doc, const struct shape *s, struct plan *ret, struct err *err)
{
    cleanup(json) json_t *plan = json_copy((json_t *)doc);
    cleanup(json) json_t *whole = json_pack("{s:s,s:s,s:O,s:{s:b}}", "language", "cuda", "source", "", "plan", plan, "declares",
                                            "cooperative", json_bool(doc, "cooperative", false));
    cleanup(candidate) struct candidate c = {0};
    struct faults f = {0};
    char why[256] = "";
    json_object_del(plan, "cooperative");
    if (!whole || !candidate_parse(whole, "", &c, &f))
        return err_set(err, ERR_INVALID, "plan: %s: %s", f.list[0].pointer, f.list[0].detail);
    if (!plan_resolve(&c, s, ret, why, sizeof why))
        return err_set(err, ERR_INVALID, "plan: %s", why);
    return true;
}

/* ---- what a caller must provide ---- */
/* Least driver for a toolkit's major version: NVIDIA's table of minor-version compatibility. */
static const struct { int major; const char *driver; } drivers[] = {{11, "450.80.02"}, {12, "525.60.13"}, {13, "580.65.06"}};

static json_t *integers(const int64_t *list, int count)
{
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(array, json_integer(list[i]));
    return array;
}

/*
 * What depends on an axis that does not key the shape is the caller's: null, and the axis is named. By trying what one more of it does.
 */
static json_t *let_free(const struct shape *s, const struct tensor *tensors, int i, json_t *one)
{
    cleanup(mem) void *memory = xarray(OP_MAX_TENSORS, sizeof(struct tensor));
    struct tensor *others = memory;
    json_t *free_axes = json_array();
    for (int a = 0; a < s->op->axis_count; a++) {
        struct shape more = *s;
        if (s->op->axes[a].keyed || s->op->axes[a].is_const || ++more.axes[a] > s->op->axes[a].max || !shape_tensors(&more, others, NULL))
            continue;
        const struct tensor *t = &tensors[i], *other = &others[i];
        if (t->bytes == other->bytes)
            continue;
        json_array_append_new(free_axes, json_string(s->op->axes[a].name));
        json_put(one, "bytes", json_null());
        for (int d = 0; d < t->rank; d++) {
            if (t->dims[d] != other->dims[d])
                json_array_set_new(json_object_get(one, "dims"), (size_t)d, json_null());
            if (t->strides[d] != other->strides[d])
                json_array_set_new(json_object_get(one, "strides"), (size_t)d, json_null());
        }
    }
    return free_axes;
}

static json_t *tensors_encode(const struct shape *s, const struct tensor *tensors)
{
    static const char *const roles[] = {[OP_INPUT] = "input", [OP_INOUT] = "inout", [OP_OUTPUT] = "output"};
    json_t *doc = json_object();
    for (int i = 0; i < s->op->tensor_count; i++) {
        const struct tensor *t = &tensors[i];
        json_t *one = json_object();
        json_put_str(one, "role", roles[t->spec->role]);
        json_put_str(one, "dtype", dtype_name(t->dtype));
        json_put(one, "dims", integers(t->dims, t->rank));
        json_put(one, "strides", integers(t->strides, t->rank));
        json_put_int(one, "alignment", t->spec->alignment_bytes);
        json_put_int(one, "bytes", t->bytes);
        json_t *free_axes = let_free(s, tensors, i, one);
        if (json_array_size(free_axes))
            json_put(one, "free", json_incref(free_axes));
        json_decref(free_axes);
        json_put(doc, t->spec->name, one);
    }
    return doc;
}

bool plan_preconditions(const struct plan *p, const struct shape *s, const char *toolkit, json_t **ret, struct err *err)
{
    cleanup(mem) void *memory = xarray(OP_MAX_TENSORS, sizeof(struct tensor));
    struct tensor *tensors = memory;
    if (!shape_tensors(s, tensors, err))
        return false;
    json_t *doc = json_object();
    const char *driver = NULL;
    int64_t workspace = 0;
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (toolkit && atoi(toolkit) == drivers[i].major)
            driver = drivers[i].driver;
    for (int i = 0; i < p->workspace_count; i++)
        workspace += p->workspaces[i].bytes;
    json_put_str(doc, "target", s->target);
    json_put(doc, "driver_least", driver ? json_string(driver) : json_null());
    json_put_int(doc, "workspace_bytes", workspace);
    json_put_int(doc, "workspace_alignment", PLAN_WORKSPACE_ALIGNMENT_BYTES);
    json_put(doc, "tensors", tensors_encode(s, tensors));
    json_t *scalars = json_object();
    for (int i = 0; i < s->op->scalar_count; i++) {
        const struct op_scalar *scalar = &s->op->scalars[i];
        json_put(scalars, scalar->name, json_pack("{s:s,s:f}", "dtype", dtype_name(scalar->dtype), "value", scalar->value));
    }
    json_put(doc, "scalars", scalars);
    *ret = doc;
    return true;
}

/*
 * Reading and expanding presets. Everything that can be wrong in a file is looked at when it is loaded: its expressions are worked
 * out once at the smallest tp and batch, so that a name that is not there is no surprise later.
 */
#include "core/preset.h"

#include "core/expr.h"

#include <string.h>

#define FILE_LIMIT_BYTES ((size_t)1 << 20)
#define BATCH_LIMIT 65536

/* The values of the names, as far as they are known. */
struct scope { const struct preset *p; int64_t tp, batch; int known; int64_t values[PRESET_MAX_NAMES]; };

static bool look_up(void *ctx, const char *name, int64_t *ret)
{
    const struct scope *s = ctx;
    if (strcmp(name, "tp") == 0 || strcmp(name, "batch") == 0) {
        *ret = name[0] == 't' ? s->tp : s->batch;
        return true;
    }
    for (int i = 0; i < s->known; i++)
        if (strcmp(s->p->names[i].name, name) == 0) {
            *ret = s->values[i];
            return true;
        }
    return false;
}

static bool scope_open(struct scope *s, struct err *err)
{
    for (s->known = 0; s->known < s->p->name_count; s->known++)
        if (!expr_eval(s->p->names[s->known].value, EXPR_SIZE, look_up, s, &s->values[s->known], err))
            return err_wrap(err, "/names/%s", s->p->names[s->known].name);
    return true;
}

/* A member that is an integer or an expression; absent: the fallback. */
static bool value_of(const struct scope *s, const json_t *launch, const char *key, enum expr_mode mode, int64_t fallback, int64_t *ret,
                     struct err *err)
{
    const json_t *v = json_object_get(launch, key);
    *ret = v ? json_integer_value(v) : fallback;
    if (!v || json_is_integer(v))
        return true;
    if (!json_is_string(v))
        return err_set(err, ERR_INVALID, "/%s: a number or an expression is needed", key);
    return expr_eval(json_string_value(v), mode, look_up, (void *)(uintptr_t)s, ret, err) || err_wrap(err, "/%s", key);
}

static bool axes_of(const struct scope *s, const json_t *launch, json_t *to, struct err *err)
{
    const json_t *axes = json_object_get(launch, "axes");
    const char *name;
    json_t *ignored;
    json_object_foreach((json_t *)(uintptr_t)axes, name, ignored) {
        int64_t v;
        if (!value_of(s, axes, name, EXPR_SIZE, 0, &v, err))
            return err_wrap(err, "/axes");
        json_put_int(to, name, v);
    }
    return true;
}

/* ---- loading ---- */

static bool check_launch(const struct scope *s, const json_t *launch, struct err *err)
{
    static const char *const keys[] = {"op", "what", "count", "when", "axes", "dtypes", "instead_of", NULL};
    struct faults f = {0};
    int64_t count, when;
    cleanup(json) json_t *axes = json_object();
    if (!json_is_object(launch))
        return err_set(err, ERR_INVALID, ": an object is needed");
    json_only_keys(launch, "", keys, &f);
    if (f.count)
        return err_set(err, ERR_INVALID, "%s: %s", f.list[0].pointer, f.list[0].detail);
    if (!*json_str(launch, "op", "") || !*json_str(launch, "what", "") || !json_is_object(json_object_get(launch, "axes")))
        return err_set(err, ERR_INVALID, ": op, what and axes are needed");
    return value_of(s, launch, "count", EXPR_SIZE, 1, &count, err) && value_of(s, launch, "when", EXPR_LOGIC, 1, &when, err) &&
           axes_of(s, launch, axes, err);
}

static bool take_names(struct preset *p, struct err *err)
{
    const json_t *names = json_object_get(p->doc, "names");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)names, name, value) {
        struct preset_name *to = &p->names[p->name_count];
        if (p->name_count == PRESET_MAX_NAMES)
            return err_set(err, ERR_INVALID, "/names: at most %d are taken", PRESET_MAX_NAMES);
        if (strlen(name) >= sizeof to->name || (!json_is_integer(value) && (!json_is_string(value) || json_string_length(value) >= sizeof to->value)))
            return err_set(err, ERR_INVALID, "/names/%.40s: a short name with a number or an expression is needed", name);
        snprintf(to->name, sizeof to->name, "%s", name);
        if (json_is_integer(value))
            snprintf(to->value, sizeof to->value, "%lld", (long long)json_integer_value(value));
        else
            snprintf(to->value, sizeof to->value, "%s", json_string_value(value));
        p->name_count++;
    }
    return true;
}

static bool take_limits(struct preset *p, struct err *err)
{
    const json_t *tp = json_object_get(p->doc, "tp"), *value;
    size_t i;
    p->batch_max = json_int(p->doc, "batch_max", 0);
    if (p->batch_max < 1 || p->batch_max > BATCH_LIMIT)
        return err_set(err, ERR_INVALID, "/batch_max: a number from 1 to %d is needed", BATCH_LIMIT);
    if (!json_array_size(tp) || json_array_size(tp) > sizeof p->tp / sizeof *p->tp)
        return err_set(err, ERR_INVALID, "/tp: a list of degrees is needed, such as [1, 2, 4, 8]");
    json_array_foreach(tp, i, value) {
        p->tp[p->tp_count] = json_integer_value(value);
        if (p->tp[p->tp_count++] < 1)
            return err_set(err, ERR_INVALID, "/tp/%zu: a number from 1 on is needed", i);
    }
    return true;
}

static bool take_doc(struct preset *p, struct err *err)
{
    static const char *const keys[] = {"name", "description", "source", "left_out", "tp", "batch_max", "names", "step", NULL};
    const json_t *step = json_object_get(p->doc, "step"), *launch;
    struct faults f = {0};
    size_t i;
    json_only_keys(p->doc, "", keys, &f);
    if (f.count)
        return err_set(err, ERR_INVALID, "%s: %s", f.list[0].pointer, f.list[0].detail);
    if (strcmp(json_str(p->doc, "name", ""), p->name) != 0)
        return err_set(err, ERR_INVALID, "/name: it must be that of the file, %s", p->name);
    if (!json_array_size(step) || json_array_size(step) > PRESET_MAX_LAUNCHES)
        return err_set(err, ERR_INVALID, "/step: a list of 1 to %d launches is needed", PRESET_MAX_LAUNCHES);
    if (!take_limits(p, err) || !take_names(p, err))
        return false;
    struct scope s = {.p = p, .tp = p->tp[0], .batch = 1};
    if (!scope_open(&s, err))
        return false;
    json_array_foreach(step, i, launch)
        if (!check_launch(&s, launch, err))
            return err_wrap(err, "/step/%zu", i);
    return true;
}

static void preset_free(struct preset *p)
{
    if (p)
        json_decref(p->doc);
    free(p);
}
DEFINE_CLEANUP(preset, struct preset *, preset_free(*it))

static bool load_one(const char *dir, const char *file, struct preset **ret, struct err *err)
{
    cleanup(preset) struct preset *p = xalloc(sizeof *p);
    cleanup(str) char *path = xfmt("%s/%s", dir, file);
    if (strlen(file) - strlen(".json") >= sizeof p->name)
        return err_set(err, ERR_INVALID, "%s: the name is too long", path);
    snprintf(p->name, sizeof p->name, "%.*s", (int)(strlen(file) - strlen(".json")), file);
    if (!json_parse_file(path, FILE_LIMIT_BYTES, &p->doc, err) || !take_doc(p, err))
        return err_wrap(err, "%s", path);
    *ret = steal(&p);
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct preset *const *)a)->name, (*(struct preset *const *)b)->name);
}

bool preset_set_load(const char *dir, struct preset_set *ret, struct err *err)
{
    cleanup(dir) DIR *folder = opendir(dir);
    cleanup(preset_set) struct preset_set set = {0};
    if (!folder)
        return err_errno(err, ERR_NOT_FOUND, "%s", dir);
    for (struct dirent *e; (e = readdir(folder));) {
        const char *dot = strrchr(e->d_name, '.');
        if (e->d_name[0] == '.' || !dot || strcmp(dot, ".json") != 0)
            continue;
        set.list = xrealloc(set.list, (size_t)(set.count + 1) * sizeof *set.list);
        if (!load_one(dir, e->d_name, &set.list[set.count], err))
            return false;
        set.count++;
    }
    if (set.count)
        qsort(set.list, (size_t)set.count, sizeof *set.list, by_name);
    *ret = set;
    set = (struct preset_set){0};
    return true;
}

void preset_set_done(struct preset_set *set)
{
    for (int i = 0; i < set->count; i++)
        preset_free(set->list[i]);
    free(set->list);
    *set = (struct preset_set){0};
}

const struct preset *preset_set_find(const struct preset_set *set, const char *name)
{
    for (int i = 0; set && i < set->count; i++)
        if (strcmp(set->list[i]->name, name) == 0)
            return set->list[i];
    return NULL;
}

/* ---- expanding ---- */

static json_t *entry_of(json_t *list, const struct shape *shape)
{
    struct hash_hex hash = shape_hash(shape);
    json_t *entry;
    size_t i;
    json_array_foreach(list, i, entry)
        if (strcmp(json_str(entry, "shape_hash", ""), hash.text) == 0)
            return entry;
    entry = json_object();
    json_put_str(entry, "shape_hash", hash.text);
    json_put(entry, "shape", shape_encode(shape));
    json_put_int(entry, "count", 0);
    json_put(entry, "launches", json_array());
    json_array_append_new(list, entry);
    return entry;
}

static void add_launch(json_t *list, const struct shape *shape, const struct scope *s, const json_t *launch, int64_t count)
{
    json_t *entry = entry_of(list, shape), *told = json_object(), *instead = json_object_get(launch, "instead_of");
    json_put_str(told, "what", json_str(launch, "what", ""));
    json_put_int(told, "count", count);
    json_put_int(told, "tp", s->tp);
    json_put_int(told, "batch", s->batch);
    if (instead)
        json_put(told, "instead_of", json_incref(instead));
    json_array_append_new(json_object_get(entry, "launches"), told);
    json_put_int(entry, "count", json_int(entry, "count", 0) + count);
}

static bool expand_one(const struct scope *s, const struct op_set *ops, const char *target, const json_t *launch, json_t *list, struct err *err)
{
    int64_t when, count;
    const char *op = json_str(launch, "op", "");
    cleanup(json) json_t *doc = json_object(), *axes = json_object();
    struct faults f = {0};
    struct shape shape;
    if (!value_of(s, launch, "when", EXPR_LOGIC, 1, &when, err) || (when && (!value_of(s, launch, "count", EXPR_SIZE, 1, &count, err) ||
                                                                            !axes_of(s, launch, axes, err))))
        return false;
    if (!when || count < 1)
        return true;
    if (!op_set_find(ops, op))
        return err_set(err, ERR_UNPROCESSABLE, "there is no operator \"%.64s\" here (GET /v1/ops lists those that there are)", op);
    json_put_str(doc, "op", op);
    json_put(doc, "axes", json_incref(axes));
    if (json_object_get(launch, "dtypes"))
        json_put(doc, "dtypes", json_incref(json_object_get(launch, "dtypes")));
    if (!shape_parse(ops, doc, target, "", &shape, &f))
        return err_set(err, ERR_UNPROCESSABLE, "operator %.64s takes no such shape: %s: %s", op, f.list[0].pointer, f.list[0].detail);
    add_launch(list, &shape, s, launch, count);
    return true;
}

static bool check_at(const struct preset *p, const struct preset_at *at, struct err *err)
{
    cleanup(buf) struct buf degrees = {0};
    bool known = false;
    for (int i = 0; i < p->tp_count; i++) {
        buf_fmt(&degrees, "%s%lld", i ? ", " : "", (long long)p->tp[i]);
        known = known || p->tp[i] == at->tp;
    }
    if (!known)
        return err_set(err, ERR_INVALID, "tp: %s runs at tp %s, not %lld", p->name, buf_cstr(&degrees), (long long)at->tp);
    if (at->batch < 1 || at->batch > p->batch_max)
        return err_set(err, ERR_INVALID, "batch: it must be from 1 to %lld, not %lld", (long long)p->batch_max, (long long)at->batch);
    return true;
}

bool preset_expand(const struct preset *p, const struct op_set *ops, const struct preset_at *at, json_t *list, struct err *err)
{
    struct scope s = {.p = p, .tp = at->tp, .batch = at->batch};
    const json_t *step = json_object_get(p->doc, "step"), *launch;
    size_t i;
    if (!check_at(p, at, err))
        return false;
    if (!scope_open(&s, err))
        return err_wrap(err, "preset %s", p->name);
    json_array_foreach(step, i, launch)
        if (!expand_one(&s, ops, at->target, launch, list, err))
            return err_wrap(err, "preset %s, \"%.80s\"", p->name, json_str(launch, "what", ""));
    return true;
}

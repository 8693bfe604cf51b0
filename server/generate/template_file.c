/* Templates are read and checked whole: names, grammar of every expression, and the candidate that the first setting makes. */
#include "server/generate/template_parts.h"

#include <dirent.h>
#include <string.h>

enum { JSON_LIMIT = 1 << 18 };

/* ---- loading ---- */

struct reader { struct template *t; const struct op *op; const char *path; struct err *err; };

static bool bad(struct reader *r, const char *where, const char *what)
{
    return err_set(r->err, ERR_INVALID, "%s: %s: %s", r->path, where, what);
}

static bool take_expr(struct reader *r, const char *where, const json_t *value, char *to)
{
    int n = -1;
    if (json_is_integer(value))
        n = snprintf(to, OP_EXPR_SIZE, "%lld", (long long)json_integer_value(value));
    else if (json_is_string(value))
        n = snprintf(to, OP_EXPR_SIZE, "%s", json_string_value(value));
    return (n > 0 && n < OP_EXPR_SIZE) || bad(r, where, "an integer or an expression is needed");
}

static bool take_values(struct reader *r, const char *where, const json_t *list, struct template_param *p)
{
    size_t count = json_array_size(list);
    if (!count || count > TEMPLATE_MAX_VALUES)
        return bad(r, where, "values must be a list of 1 to 16 integers");
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        p->values[i] = json_is_integer(value) ? json_integer_value(value) : INT64_MIN;
        if (p->values[i] == INT64_MIN || (i && p->values[i] <= p->values[i - 1]))
            return bad(r, where, "values must be rising integers");
    }
    p->count = (int)count;
    return true;
}

static bool take_param(struct reader *r, const char *name, const json_t *doc)
{
    static const char *const keys[] = {"values", "default", "description", "more", "less", "registers", "helps", NULL};
    struct faults f = {0};
    char where[96];
    snprintf(where, sizeof where, "params.%.64s", name);
    if (r->t->param_count == TEMPLATE_MAX_PARAMS)
        return bad(r, where, "at most 10 parameters");
    if (!json_is_object(doc) || strlen(name) >= sizeof r->t->params[0].name)
        return bad(r, where, "a shorter name or an object is needed");
    json_only_keys(doc, "", keys, &f);
    if (f.count)
        return bad(r, where, f.list[0].pointer);
    if (name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")] || !(name[0] >= 'A' && name[0] <= 'Z'))
        return bad(r, where, "a name is an upper-case identifier: it becomes a define");
    if (op_axis_index(r->op, name) >= 0)
        return bad(r, where, "an axis has this name");
    struct template_param *p = &r->t->params[r->t->param_count];
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->more, sizeof p->more, "%s", json_str(doc, "more", ""));
    snprintf(p->less, sizeof p->less, "%s", json_str(doc, "less", ""));
    p->registers = template_direction(json_str(doc, "registers", NULL));
    const char *bound;
    json_t *way;
    json_object_foreach(json_object_get(doc, "helps"), bound, way)
        if (!template_direction(json_string_value(way)))
            return bad(r, where, "helps: must say more or less");
    if (!take_values(r, where, json_object_get(doc, "values"), p) || !take_expr(r, where, json_object_get(doc, "default"), p->fallback))
        return false;
    r->t->param_count++;
    return true;
}

/* At load there is no shape: any axis is 1, and only names and grammar count. */
static bool lookup_any(void *ctx, const char *name, int64_t *ret)
{
    const struct template_names *n = ctx;
    if (template_lookup(ctx, name, ret))
        return true;
    *ret = 1;
    return strcmp(name, "sm") == 0 || op_axis_index(n->op, name) >= 0 || (!strncmp(name, "bytes_", 6) && op_letter_index(n->op, name + 6) >= 0);
}

static bool check_expr(struct reader *r, const char *where, const char *text, enum expr_mode mode, bool with_params)
{
    static const struct setting first;
    struct template_names n = {.t = r->t, .op = r->op, .p = with_params ? &first : NULL};
    struct err why = {0};
    int64_t value;
    return expr_eval(text, mode, lookup_any, &n, &value, &why) || strstr(why.text, "division by zero") || bad(r, where, why.text);
}

static bool take_shared(struct reader *r)
{
    struct template *t = r->t;
    const char *kernel;
    json_t *bytes;
    json_object_foreach(json_object_get(t->doc, "static_shared_bytes"), kernel, bytes) {
        if (t->shared_count == TEMPLATE_MAX_KERNELS || strlen(kernel) >= sizeof t->shared->kernel)
            return bad(r, "static_shared_bytes", "at most 4 kernels, by their names");
        char *to = t->shared[t->shared_count].bytes;
        snprintf(t->shared[t->shared_count++].kernel, sizeof t->shared->kernel, "%s", kernel);
        if (!take_expr(r, "static_shared_bytes", bytes, to) || !check_expr(r, "static_shared_bytes", to, EXPR_SIZE, true))
            return false;
    }
    return true;
}

static bool take_rules(struct reader *r)
{
    struct template *t = r->t;
    const json_t *list = json_object_get(t->doc, "constraints");
    int64_t product = 1;
    if (json_array_size(list) > TEMPLATE_MAX_CONSTRAINTS)
        return bad(r, "constraints", "at most 16");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!take_expr(r, "constraints", json_array_get(list, i), t->constraints[t->constraint_count]))
            return false;
        if (!check_expr(r, "constraints", t->constraints[t->constraint_count++], EXPR_LOGIC, true))
            return false;
    }
    if (!take_shared(r))
        return false;
    for (int i = 0; i < t->param_count; i++) {
        if (!check_expr(r, t->params[i].name, t->params[i].fallback, EXPR_SIZE, false))
            return false;
        product *= t->params[i].count;
        if (product > TEMPLATE_MAX_SETTINGS)
            return bad(r, "params", "more than 16384 settings in all");
    }
    return true;
}

static bool take_candidate(struct reader *r, const char *dir, const char *stem)
{
    cleanup(str) char *path = xfmt("%s/%s.cu", dir, stem);
    cleanup(buf) struct buf source = {0};
    const json_t *form = json_object_get(r->t->doc, "candidate");
    if (!json_is_object(form) || json_object_get(form, "source"))
        return bad(r, "candidate", "a candidate without its source is needed");
    if (!file_read(path, CANDIDATE_MAX_SOURCE_BYTES, &source, r->err))
        return false;
    r->t->candidate = json_deep_copy(form);
    json_put_str(r->t->candidate, "source", buf_cstr(&source));
    static const struct setting first;
    cleanup(json) json_t *doc = template_candidate(r->t, &first);
    cleanup(candidate) struct candidate c = {0};
    struct faults f = {0};
    if (!candidate_parse(doc, "candidate", &c, &f))
        return bad(r, f.list[0].pointer, f.list[0].detail);
    return true;
}

static bool template_load(const struct op *op, const char *dir, const char *stem, struct template *ret, struct err *err)
{
    static const char *const keys[] = {"name", "description", "params", "constraints", "static_shared_bytes", "candidate", NULL};
    cleanup(str) char *path = xfmt("%s/%s.json", dir, stem);
    struct reader r = {ret, op, path, err};
    struct faults f = {0};
    const char *name;
    json_t *param;
    if (!json_parse_file(path, JSON_LIMIT, &ret->doc, err))
        return false;
    json_only_keys(ret->doc, "", keys, &f);
    if (!json_is_object(ret->doc) || f.count)
        return bad(&r, f.count ? f.list[0].pointer : "/", "name, description, params, constraints, static_shared_bytes and candidate are the keys");
    if (strcmp(json_str(ret->doc, "name", ""), stem))
        return bad(&r, "name", "must be the file's");
    snprintf(ret->name, sizeof ret->name, "%s", stem);
    json_object_foreach(json_object_get(ret->doc, "params"), name, param)
        if (!take_param(&r, name, param))
            return false;
    return take_rules(&r) && take_candidate(&r, dir, stem);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Stems of the folder's *.json, sorted; the caller frees them. */
static bool list_stems(const char *path, char **stems, int *ret_count, struct err *err)
{
    cleanup(dir) DIR *dir = opendir(path);
    int count = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 5, ".json") || n - 5 >= OP_NAME_SIZE)
            continue;
        if (count == TEMPLATE_MAX) {
            while (count)
                free(stems[--count]);
            return err_set(err, ERR_INVALID, "%s: more than %d templates", path, TEMPLATE_MAX);
        }
        stems[count++] = xstrndup(e->d_name, n - 5);
    }
    qsort(stems, (size_t)count, sizeof *stems, by_name);
    *ret_count = count;
    return true;
}

bool template_set_load(const struct op *op, struct template_set *ret, struct err *err)
{
    cleanup(str) char *dir = xfmt("%s/templates", op->dir);
    cleanup(template_set) struct template_set set = {0};
    char *stems[TEMPLATE_MAX];
    int count = 0;
    if (!list_stems(dir, stems, &count, err))
        return false;
    set.list = xarray((size_t)count + 1, sizeof *set.list);
    bool ok = true;
    for (int i = 0; i < count; i++) {
        ok = ok && template_load(op, dir, stems[i], &set.list[set.count++], err);
        free(stems[i]);
    }
    if (!ok)
        return false;
    *ret = set;
    set = (struct template_set){0};
    return true;
}

void template_set_done(struct template_set *set)
{
    for (int i = 0; i < set->count; i++) {
        json_decref(set->list[i].doc);
        json_decref(set->list[i].candidate);
    }
    free(set->list);
    *set = (struct template_set){0};
}

/* Templates are read and checked whole; then settings are enumerated like the digits of a number. */
#include "server/generate/template_file.h"

#include "core/expr.h"

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

static int direction(const char *word)
{
    return !word ? 0 : !strcmp(word, "more") ? 1 : !strcmp(word, "less") ? -1 : 0;
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
    p->registers = direction(json_str(doc, "registers", NULL));
    const char *bound;
    json_t *way;
    json_object_foreach(json_object_get(doc, "helps"), bound, way)
        if (!direction(json_string_value(way)))
            return bad(r, where, "helps: must say more or less");
    if (!take_values(r, where, json_object_get(doc, "values"), p) || !take_expr(r, where, json_object_get(doc, "default"), p->fallback))
        return false;
    r->t->param_count++;
    return true;
}

struct names { const struct template *t; const struct shape *s; const struct op *op; const struct setting *p; };

/* "sm_90a" is 90. */
static int64_t target_number(const char *target)
{
    return strncmp(target, "sm_", 3) == 0 ? strtoll(target + 3, NULL, 10) : 0;
}

static bool lookup(void *ctx, const char *name, int64_t *ret)
{
    const struct names *n = ctx;
    for (int i = 0; n->p && i < n->t->param_count; i++)
        if (!strcmp(n->t->params[i].name, name)) {
            *ret = n->t->params[i].values[n->p->at[i]];
            return true;
        }
    if (n->s && strcmp(name, "sm") == 0 && op_axis_index(n->s->op, name) < 0) {
        *ret = target_number(n->s->target);
        return true;
    }
    return n->s && shape_lookup((void *)(uintptr_t)n->s, name, ret);
}

/* At load there is no shape: any axis is 1, and only names and grammar count. */
static bool lookup_any(void *ctx, const char *name, int64_t *ret)
{
    const struct names *n = ctx;
    if (lookup(ctx, name, ret))
        return true;
    *ret = 1;
    return strcmp(name, "sm") == 0 || op_axis_index(n->op, name) >= 0 || (!strncmp(name, "bytes_", 6) && op_letter_index(n->op, name + 6) >= 0);
}

static bool check_expr(struct reader *r, const char *where, const char *text, enum expr_mode mode, bool with_params)
{
    static const struct setting first;
    struct names n = {.t = r->t, .op = r->op, .p = with_params ? &first : NULL};
    struct err why = {0};
    int64_t value;
    return expr_eval(text, mode, lookup_any, &n, &value, &why) || strstr(why.text, "division by zero") || bad(r, where, why.text);
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
    static const char *const keys[] = {"name", "description", "params", "constraints", "candidate", NULL};
    cleanup(str) char *path = xfmt("%s/%s.json", dir, stem);
    struct reader r = {ret, op, path, err};
    struct faults f = {0};
    const char *name;
    json_t *param;
    if (!json_parse_file(path, JSON_LIMIT, &ret->doc, err))
        return false;
    json_only_keys(ret->doc, "", keys, &f);
    if (!json_is_object(ret->doc) || f.count)
        return bad(&r, f.count ? f.list[0].pointer : "/", "name, description, params, constraints and candidate are the keys");
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

/* ---- settings ---- */

static bool holds(const struct template *t, const struct shape *s, const struct setting *p, int constraint)
{
    struct names n = {.t = t, .s = s, .p = p};
    int64_t value;
    return expr_eval(t->constraints[constraint], EXPR_LOGIC, lookup, &n, &value, NULL) && value;
}

static int64_t number_of(const struct names *n, const json_t *value, int64_t fallback)
{
    int64_t number = fallback;
    if (json_is_integer(value))
        return json_integer_value(value);
    return json_is_string(value) && expr_eval(json_string_value(value), EXPR_SIZE, lookup, (void *)(uintptr_t)n, &number, NULL) ? number : fallback;
}

/* Whether the target has what the plan asks for: clusters of blocks and launches that begin early came with sm_90. */
static bool target_can(const struct template *t, const struct shape *s, const struct setting *p)
{
    const struct names n = {.t = t, .s = s, .p = p};
    const json_t *step, *size;
    size_t i, d;
    if (target_number(s->target) >= 90)
        return true;
    json_array_foreach(json_object_get(json_object_get(t->candidate, "plan"), "steps"), i, step) {
        if (number_of(&n, json_object_get(step, "dependent"), json_is_true(json_object_get(step, "dependent"))))
            return false;
        json_array_foreach(json_object_get(step, "cluster"), d, size)
            if (number_of(&n, size, 1) > 1)
                return false;
    }
    return true;
}

static bool next(const struct template *t, struct setting *p)
{
    for (int i = t->param_count - 1; i >= 0; i--) {
        if (++p->at[i] < t->params[i].count)
            return true;
        p->at[i] = 0;
    }
    return false;
}

bool template_settings(const struct template *t, const struct shape *s, struct setting **ret, int *ret_count, struct err *err)
{
    int64_t most = 1;
    int count = 0;
    for (int i = 0; i < t->param_count; i++)
        most *= t->params[i].count;
    if (most > TEMPLATE_MAX_SETTINGS)
        return err_set(err, ERR_TOO_LARGE, "template %s has more than %d settings", t->name, TEMPLATE_MAX_SETTINGS);
    struct setting *list = xarray((size_t)most, sizeof *list), p = {0};
    do {
        bool ok = target_can(t, s, &p);
        for (int c = 0; ok && c < t->constraint_count; c++)
            ok = holds(t, s, &p, c);
        if (ok)
            list[count++] = p;
    } while (next(t, &p));
    *ret = list;
    *ret_count = count;
    return true;
}

const char *template_obstacle(const struct template *t, const struct shape *s)
{
    for (int c = 0; c < t->constraint_count; c++) {
        struct setting p = {0};
        bool any = false;
        do
            any = holds(t, s, &p, c);
        while (!any && next(t, &p));
        if (!any)
            return t->constraints[c];
    }
    return "";
}

int template_default(const struct template *t, const struct shape *s, const struct setting *list, int count)
{
    int wanted[TEMPLATE_MAX_PARAMS], best = -1, best_distance = 0;
    for (int i = 0; i < t->param_count; i++) {
        const struct template_param *p = &t->params[i];
        struct names n = {.t = t, .s = s};
        int64_t value = p->values[0];
        (void)!expr_eval(p->fallback, EXPR_SIZE, lookup, &n, &value, NULL);
        wanted[i] = 0;
        for (int k = 1; k < p->count && p->values[k] <= value; k++)
            wanted[i] = k;
    }
    for (int i = 0; i < count; i++) {
        int distance = 0;
        for (int k = 0; k < t->param_count; k++)
            distance += abs(list[i].at[k] - wanted[k]);
        if (best < 0 || distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    return best;
}

json_t *template_params(const struct template *t, const struct setting *p)
{
    json_t *params = json_object();
    for (int i = 0; i < t->param_count; i++)
        json_put_int(params, t->params[i].name, t->params[i].values[p->at[i]]);
    return params;
}

json_t *template_candidate(const struct template *t, const struct setting *p)
{
    json_t *doc = json_deep_copy(t->candidate), *defines = json_object_get(doc, "defines");
    if (!defines) {
        defines = json_object();
        json_put(doc, "defines", defines);
    }
    for (int i = 0; i < t->param_count; i++)
        json_put_int(defines, t->params[i].name, t->params[i].values[p->at[i]]);
    return doc;
}

bool template_find(const struct template *t, const json_t *params, struct setting *ret)
{
    struct setting found = {0};
    for (int i = 0; i < t->param_count; i++) {
        const json_t *value = json_object_get(params, t->params[i].name);
        int k = 0;
        while (k < t->params[i].count && (!json_is_integer(value) || t->params[i].values[k] != json_integer_value(value)))
            k++;
        if (k == t->params[i].count)
            return false;
        found.at[i] = (uint8_t)k;
    }
    *ret = found;
    return true;
}

int template_helps(const struct template *t, int param, const char *bound)
{
    const json_t *doc = json_object_get(json_object_get(t->doc, "params"), t->params[param].name);
    return bound ? direction(json_str(json_object_get(doc, "helps"), bound, NULL)) : 0;
}

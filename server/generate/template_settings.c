/* Settings: the digits of a number, those left out that a constraint or the target rules out before anything is compiled. */
#include "server/generate/template_parts.h"

#include "server/generate/target.h"

#include <string.h>

#define STATIC_SHARED_MOST (48 * 1024)  /* CUDA: what a kernel may declare; more is asked for at the launch */
#define BLOCK_THREADS_MOST 1024
#define CLUSTER_MOST 16

bool template_lookup(void *ctx, const char *name, int64_t *ret)
{
    const struct template_names *n = ctx;
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

int template_direction(const char *word)
{
    return !word ? 0 : !strcmp(word, "more") ? 1 : !strcmp(word, "less") ? -1 : 0;
}

static bool holds(const struct template *t, const struct shape *s, const struct setting *p, int constraint)
{
    struct template_names n = {.t = t, .s = s, .p = p};
    int64_t value;
    return expr_eval(t->constraints[constraint], EXPR_LOGIC, template_lookup, &n, &value, NULL) && value;
}

static int64_t number_of(const struct template_names *n, const json_t *value, int64_t fallback)
{
    int64_t number = fallback;
    if (json_is_integer(value))
        return json_integer_value(value);
    return json_is_string(value) && expr_eval(json_string_value(value), EXPR_SIZE, template_lookup, (void *)(uintptr_t)n, &number, NULL) ? number : fallback;
}

/* The product of at most three extents; 0: one of them is none. What cannot be worked out here, the judge will. */
static int64_t extent_of(const struct template_names *n, const json_t *list)
{
    const json_t *size;
    size_t d;
    int64_t product = 1;
    json_array_foreach(list, d, size) {
        const int64_t one = number_of(n, size, 1);
        if (one < 1 || one > INT32_MAX)
            return 0;
        product *= one;
    }
    return product;
}

int64_t template_static_shared(const struct template *t, const struct shape *s, const struct setting *p, const char *kernel)
{
    const struct template_names n = {.t = t, .s = s, .p = p};
    int64_t bytes = 0;
    for (int i = 0; i < t->shared_count; i++)
        if (!strcmp(t->shared[i].kernel, kernel) && !expr_eval(t->shared[i].bytes, EXPR_SIZE, template_lookup, (void *)(uintptr_t)&n, &bytes, NULL))
            return INT64_MAX / 2;                /* what cannot be worked out is not there */
    return bytes;
}

/*
 * Whether the target has what the plan asks for, by what is known before anything is compiled: clusters of blocks and launches that begin
 * early came with sm_90; a block's threads, and its shared memory, what the plan asks for and what the kernel declares.
 */
static bool target_can(const struct template *t, const struct shape *s, const struct setting *p)
{
    const struct template_names n = {.t = t, .s = s, .p = p};
    const struct target_limits *limits = target_limits_of(s->target);
    const bool early = target_number(s->target) < 90;
    const json_t *step;
    size_t i;
    json_array_foreach(json_object_get(json_object_get(t->candidate, "plan"), "steps"), i, step) {
        if (!json_object_get(step, "kernel"))
            continue;
        const int64_t cluster = extent_of(&n, json_object_get(step, "cluster")), threads = extent_of(&n, json_object_get(step, "block"));
        const int64_t fixed = template_static_shared(t, s, p, json_str(step, "kernel", "")), shared = fixed + number_of(&n, json_object_get(step, "shared_bytes"), 0);
        if (early && (cluster > 1 || number_of(&n, json_object_get(step, "dependent"), json_is_true(json_object_get(step, "dependent")))))
            return false;
        if (threads < 1 || threads > BLOCK_THREADS_MOST || cluster < 1 || cluster > CLUSTER_MOST || fixed > STATIC_SHARED_MOST || (limits && shared > (int64_t)limits->shared_kib_block * 1024))
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
        struct template_names n = {.t = t, .s = s};
        int64_t value = p->values[0];
        (void)!expr_eval(p->fallback, EXPR_SIZE, template_lookup, &n, &value, NULL);
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
    return bound ? template_direction(json_str(json_object_get(doc, "helps"), bound, NULL)) : 0;
}

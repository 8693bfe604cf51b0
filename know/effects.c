/* Ridge regression within a shape, a weighted mean with what shapes differ by over them. See effects.h. */
#include "know/effects.h"

#include <math.h>
#include <string.h>

#define EFFECT_SPREAD 0.15               /* log: what an effect is expected to be before anything was seen */
#define FIT_NOISE 0.04                   /* log: what effects of single parameters leave unexplained */
#define CLIP 0.7                         /* log: slower than the best by more tells no more */
#define SHAPES_DIFFER 0.04               /* log: what the effect of a value differs by from shape to shape at least */
#define NEAR 3.0                         /* doublings of axes over which a shape's word loses weight by e */
#define MOST_COLUMNS 160
#define MOST_TEMPLATES 16
#define LEAST_TRIED 3

struct column { char param[64]; int64_t value; };
struct fit {
    int rows, columns;
    struct column column[MOST_COLUMNS];
    int at[EFFECTS_MAX_TRIED][16];       /* columns of a row; -1 ends */
    double y[EFFECTS_MAX_TRIED], best;
};

static int column_of(struct fit *f, const char *param, int64_t value)
{
    for (int i = 0; i < f->columns; i++)
        if (f->column[i].value == value && !strcmp(f->column[i].param, param))
            return i;
    if (f->columns == MOST_COLUMNS || strlen(param) >= sizeof f->column[0].param)
        return -1;
    snprintf(f->column[f->columns].param, sizeof f->column[0].param, "%s", param);
    f->column[f->columns].value = value;
    return f->columns++;
}

static void read_rows(struct fit *f, const json_t *tried, const char *template)
{
    size_t i;
    json_t *one, *value;
    const char *param;
    json_array_foreach(tried, i, one) {
        double ns = json_num(one, "ns", 0);
        int n = 0;
        if (strcmp(json_str(one, "template", ""), template) || !(ns > 0) || f->rows == EFFECTS_MAX_TRIED)
            continue;
        json_object_foreach(json_object_get(one, "params"), param, value) {
            int column = json_is_integer(value) && n < 15 ? column_of(f, param, json_integer_value(value)) : -1;
            if (column >= 0)
                f->at[f->rows][n++] = column;
        }
        f->at[f->rows][n] = -1;
        f->y[f->rows] = log(ns);
        f->best = f->rows ? fmin(f->best, f->y[f->rows]) : f->y[f->rows];
        f->rows++;
    }
    for (int r = 0; r < f->rows; r++)
        f->y[r] = fmin(f->y[r], f->best + CLIP);
}

/* a: n x n, symmetric, becomes its lower Cholesky factor. False: not positive definite. */
static bool cholesky(double *a, int n)
{
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++)
            a[j * n + j] -= a[j * n + k] * a[j * n + k];
        if (!(a[j * n + j] > 0))
            return false;
        a[j * n + j] = sqrt(a[j * n + j]);
        for (int i = j + 1; i < n; i++) {
            for (int k = 0; k < j; k++)
                a[i * n + j] -= a[i * n + k] * a[j * n + k];
            a[i * n + j] /= a[j * n + j];
        }
    }
    return true;
}

static void solve(const double *l, int n, double *b)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            b[i] -= l[i * n + k] * b[k];
        b[i] /= l[i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            b[i] -= l[k * n + i] * b[k];
        b[i] /= l[i * n + i];
    }
}

/* The last column is the level. beta and variance: columns + 1 of each. */
static bool regress(const struct fit *f, double *beta, double *variance)
{
    const int n = f->columns + 1;
    cleanup(mem) void *memory = xarray((size_t)n * (size_t)n + (size_t)n, sizeof(double));
    double *a = memory, *unit = a + n * n;
    for (int r = 0; r < f->rows; r++) {
        int row[17], m = 0;
        while (f->at[r][m] >= 0) {
            row[m] = f->at[r][m];
            m++;
        }
        row[m++] = n - 1;
        for (int i = 0; i < m; i++) {
            beta[row[i]] += f->y[r] / (FIT_NOISE * FIT_NOISE);
            for (int k = 0; k < m; k++)
                a[row[i] * n + row[k]] += 1 / (FIT_NOISE * FIT_NOISE);
        }
    }
    for (int i = 0; i < f->columns; i++)
        a[i * n + i] += 1 / (EFFECT_SPREAD * EFFECT_SPREAD);
    if (!cholesky(a, n))
        return false;
    solve(a, n, beta);
    for (int i = 0; i < n; i++) {
        memset(unit, 0, (size_t)n * sizeof *unit);
        unit[i] = 1;
        solve(a, n, unit);
        variance[i] = unit[i];
    }
    return true;
}

static json_t *encode_fit(const struct fit *f, const double *beta, const double *variance)
{
    json_t *doc = json_object(), *params = json_object();
    json_put_int(doc, "n", f->rows);
    json_put_num(doc, "best", f->best);
    for (int i = 0; i < f->columns; i++) {
        double least = beta[i];
        int values = 0;
        for (int k = 0; k < f->columns; k++)
            if (!strcmp(f->column[k].param, f->column[i].param)) {
                least = fmin(least, beta[k]);
                values++;
            }
        if (values < 2)                  /* one value alone says nothing about the parameter */
            continue;
        json_t *list = json_object_get(params, f->column[i].param);
        if (!list) {
            list = json_array();
            json_put(params, f->column[i].param, list);
        }
        json_array_append_new(list, json_pack("[I,f,f]", (json_int_t)f->column[i].value, beta[i] - least, sqrt(variance[i])));
    }
    json_put(doc, "params", params);
    return doc;
}

json_t *effects_fit(const json_t *tried)
{
    json_t *doc = json_object(), *one;
    size_t i;
    struct fit *f = xalloc(sizeof *f);
    json_array_foreach(tried, i, one) {
        const char *template = json_str(one, "template", "");
        double beta[MOST_COLUMNS + 1] = {0}, variance[MOST_COLUMNS + 1] = {0};
        if (!*template || json_object_get(doc, template) || json_object_size(doc) == MOST_TEMPLATES)
            continue;
        memset(f, 0, sizeof *f);
        read_rows(f, tried, template);
        if (f->rows >= LEAST_TRIED && f->columns && regress(f, beta, variance))
            json_put(doc, template, encode_fit(f, beta, variance));
        else if (f->rows)
            json_put(doc, template, json_pack("{s:i,s:f,s:{}}", "n", f->rows, "best", f->best, "params"));
    }
    free(f);
    return doc;
}

/* ---- over shapes ---- */

struct level { int64_t value; double weight, sum, squares, inside; int shapes; };

static double nearness(const json_t *fit)
{
    double far = json_num(fit, "far", 0);
    return exp(-fmin(far, 60) / NEAR);
}

static void add_level(struct level *levels, int *count, int most, int64_t value, double effect, double deviation, double weight)
{
    int i = 0;
    while (i < *count && levels[i].value != value)
        i++;
    if (i == *count) {
        if (*count == most)
            return;
        levels[(*count)++] = (struct level){.value = value};
    }
    double w = weight / (deviation * deviation + SHAPES_DIFFER * SHAPES_DIFFER);
    levels[i].weight += w;
    levels[i].sum += w * effect;
    levels[i].squares += w * effect * effect;
    levels[i].inside += weight;
    levels[i].shapes++;
}

static int by_level(const void *a, const void *b)
{
    const struct level *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* What one more shape's effect is expected to be: the mean, shrunk as one that is not known well, and how far that is to be trusted. */
static json_t *encode_level(const struct level *l)
{
    double prior = 1 / (EFFECT_SPREAD * EFFECT_SPREAD), weight = l->weight + prior;
    double mean = l->sum / weight, between = fmax(0, l->squares / l->weight - (l->sum / l->weight) * (l->sum / l->weight));
    double error = sqrt(1 / weight), deviation = sqrt(1 / weight + between + SHAPES_DIFFER * SHAPES_DIFFER);
    double half = 1.96 * sqrt(error * error + between / l->shapes);
    return json_pack("{s:I,s:f,s:f,s:f,s:f,s:i}", "value", (json_int_t)l->value, "effect", mean, "deviation", deviation, "low", mean - half, "high",
                     mean + half, "shapes", l->shapes);
}

static json_t *combine_param(const json_t *fits, const char *template, const char *param)
{
    struct level levels[64];
    int count = 0, shapes = 0;
    size_t i, k;
    json_t *one, *level;
    json_array_foreach(fits, i, one) {
        const json_t *list = json_object_get(json_object_get(json_object_get(json_object_get(one, "fit"), template), "params"), param);
        shapes += json_array_size(list) > 0;
        json_array_foreach(list, k, level)
            add_level(levels, &count, 64, json_integer_value(json_array_get(level, 0)), json_number_value(json_array_get(level, 1)),
                      json_number_value(json_array_get(level, 2)), nearness(one));
    }
    json_t *doc = json_object(), *all = json_array();
    json_put_str(doc, "template", template);
    json_put_str(doc, "param", param);
    json_put_int(doc, "shapes", shapes);
    if (count)
        qsort(levels, (size_t)count, sizeof *levels, by_level);
    for (int n = 0; n < count; n++)
        json_array_append_new(all, encode_level(&levels[n]));
    json_put(doc, "levels", all);
    return doc;
}

/* How much slower the template's best was than the best of all, over the shapes at which it was tried beside others. */
static json_t *combine_template(const json_t *fits, const char *template)
{
    struct level level[1];
    int count = 0;
    size_t i;
    json_t *one, *other;
    const char *name;
    json_array_foreach(fits, i, one) {
        const json_t *mine = json_object_get(json_object_get(one, "fit"), template);
        double best = INFINITY;
        json_object_foreach(json_object_get(one, "fit"), name, other)
            best = fmin(best, json_num(other, "best", INFINITY));
        if (mine)
            add_level(level, &count, 1, 0, json_num(mine, "best", 0) - best, 0.3 / sqrt((double)json_int(mine, "n", 1) + 1), nearness(one));
    }
    json_t *doc = json_object(), *all = json_array();
    json_put_str(doc, "template", template);
    json_put(doc, "param", json_null());
    json_put_int(doc, "shapes", count ? level[0].shapes : 0);
    if (count)
        json_array_append_new(all, encode_level(level));
    json_put(doc, "levels", all);
    return doc;
}

json_t *effects_combine(const json_t *fits)
{
    json_t *all = json_array(), *one, *template, *value;
    cleanup(json) json_t *done = json_object();
    const char *name, *param;
    size_t i;
    json_array_foreach(fits, i, one)
        json_object_foreach(json_object_get(one, "fit"), name, template) {
            if (!json_object_get(done, name)) {
                json_put(done, name, json_object());
                json_array_append_new(all, combine_template(fits, name));
            }
            json_object_foreach(json_object_get(template, "params"), param, value)
                if (!json_object_get(json_object_get(done, name), param)) {
                    json_put(json_object_get(done, name), param, json_true());
                    json_array_append_new(all, combine_param(fits, name, param));
                }
        }
    return all;
}

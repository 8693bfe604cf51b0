/*
 * What rounding between the steps of a chain makes of a tensor as a whole, from the reference's two results.
 *
 * One element of an intermediate that rounds the other way moves many results, and a tile may be one where the reference's own roundings
 * happen to cancel: each tile is granted what such rounding makes of the tensor as a whole, over the rows that it reaches. In a large tensor
 * some row is where all that is rare comes together: one tile in RARE, and one element, may be as far off as the furthest of the reference's.
 *
 * Two passes over all rows, in parts as in compare_parts.c.
 */
#include "gpu/judge/compare_walk.h"
#include "gpu/judge/crew.h"

#define AS_FURTHEST 1.5         /* of a row or an element of another batch of rows than these */
#define PART_ELEMENTS ((int64_t)1 << 18)

struct of_row { double noise, values; };           /* squares: what the rounding makes, and of the elements */
struct of_part { double noise, values, row, element; int64_t rows; };
struct pass {
    const double *reference, *between;
    int64_t row, rows, each;                       /* elements of a row, rows of all, of a part */
    double usual_row;                              /* of a row that holds next to nothing any error would be large */
    struct of_part *parts;
};

static struct of_row look_at(const struct pass *x, int64_t start)
{
    struct of_row ret = {0, 0};
    for (int64_t i = start; i < start + x->row; i++) {
        const double d = x->between[i] - x->reference[i];
        ret.noise += isfinite(d) ? d * d : 0;
        ret.values += isfinite(d) ? x->reference[i] * x->reference[i] : 0;
    }
    return ret;
}

static void sum_part(void *ctx, int64_t part)
{
    const struct pass *x = ctx;
    struct of_part *p = &x->parts[part];
    for (int64_t n = part * x->each, end = n + crew_part_count(x->rows, x->each, part); n < end; n++) {
        const struct of_row r = look_at(x, n * x->row);
        p->noise += r.noise;
        p->values += r.noise > 0 ? r.values : 0;
        p->rows += r.noise > 0;
    }
}

static void furthest_part(void *ctx, int64_t part)
{
    const struct pass *x = ctx;
    struct of_part *p = &x->parts[part];
    for (int64_t n = part * x->each, end = n + crew_part_count(x->rows, x->each, part); n < end; n++) {
        const int64_t start = n * x->row;
        const struct of_row of = look_at(x, start);
        if (!(of.noise > 0))
            continue;
        const double of_rows = larger(of.values, x->usual_row);
        p->row = larger(p->row, of.noise / of_rows);
        for (int64_t i = start; i < start + x->row; i++) {
            const double d = x->between[i] - x->reference[i], r = x->reference[i];
            p->element = larger(p->element, isfinite(d) ? d * d / larger(r * r, of_rows / (double)x->row) : 0);
        }
    }
}

struct granted compare_between(const struct compare_case *c)
{
    const struct tensor *t = c->tensor;
    const double *between = c->reference + (op_results(c->op) - 1) * t->elements;
    struct granted ret = {0, 0, 0};
    if (between == c->reference || !t->elements)
        return ret;
    const int64_t row = t->rank ? t->dims[t->rank - 1] : 1, rows = t->elements / row, each = crew_parts(PART_ELEMENTS, row), count = crew_parts(rows, each);
    cleanup(mem) void *memory = xarray((size_t)count, sizeof(struct of_part));
    struct pass x = {.reference = c->reference, .between = between, .row = row, .rows = rows, .each = each, .parts = memory};
    struct of_part all = {0};
    crew_run(count, sum_part, &x);
    for (int64_t i = 0; i < count; i++) {
        all.noise += x.parts[i].noise;
        all.values += x.parts[i].values;
        all.rows += x.parts[i].rows;
    }
    if (!(all.values > 0))
        return ret;
    x.usual_row = all.values / (double)all.rows;
    crew_run(count, furthest_part, &x);
    for (int64_t i = 0; i < count; i++) {
        all.row = larger(all.row, x.parts[i].row);
        all.element = larger(all.element, x.parts[i].element);
    }
    ret.usual = all.noise / all.values;
    ret.row = AS_FURTHEST * sqrt(all.row);
    ret.element = AS_FURTHEST * sqrt(all.element);
    return ret;
}

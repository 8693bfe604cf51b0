/*
 * What a cell's figure is held against: kernels.json lists aims of each row, {"over","least","when"?}. over: "fastest" of the other
 * engine's rows, one of these rows by name, "attainable" (that table's speed-up, of the row "of"; no "least"), or "copy" (bytes a perfect kernel moves
 * in that time, against what the card copies). when: an expression over the shape's axes, batch, tp and bytes.
 *
 * Where an aim is missed, numbers say by how much and what is left: the floor, the rate reached.
 */
#include "tests/bench/kernels.h"

#include "core/expr.h"

#include <string.h>

struct names { const struct cell *cell; int64_t bytes; };

static bool lookup(void *ctx, const char *name, int64_t *ret)
{
    const struct names *n = ctx;
    if (strcmp(name, "batch") == 0)
        *ret = n->cell->batch;
    else if (strcmp(name, "tp") == 0)
        *ret = n->cell->tp[0];
    else if (strcmp(name, "bytes") == 0)
        *ret = n->bytes;
    else
        return shape_lookup((void *)(uintptr_t)&n->cell->shape, name, ret);
    return true;
}

/* A device's figure of kernels.json; 0: not known. */
static double known(const struct cells *c, const char *device, const char *what)
{
    return json_num(json_object_get(json_object_get(c->doc, "devices"), device), what, 0);
}

double cell_floor_ns(const struct cells *c, const struct cell *cell, const char *device)
{
    int64_t bytes = 0, flops = 0;
    double rate = known(c, device, "data_sheet_bytes_per_ns");
    return rate > 0 && shape_work(&cell->shape, &bytes, &flops, NULL) ? (double)bytes / rate : 0;
}

struct found { double time_ns, vllm_fastest_us, attainable, copy; const json_t *rows; int64_t bytes; };

/* What it is now and what it should be; false: nothing is known to compare with. */
static bool compare(const json_t *aim, const struct found *f, double *ret_got, double *ret_least)
{
    const char *over = json_str(aim, "over", "");
    const char *row = strcmp(over, "attainable") == 0 ? json_str(aim, "of", "fastest") : over;
    double other_us = strcmp(row, "fastest") == 0 ? f->vllm_fastest_us : json_num(f->rows, row, 0);
    *ret_least = strcmp(over, "attainable") == 0 ? f->attainable : json_num(aim, "least", 0);
    *ret_got = strcmp(over, "copy") == 0 ? (f->copy > 0 ? (double)f->bytes / f->time_ns / f->copy : 0) : 1000 * other_us / f->time_ns;
    return *ret_least > 0 && *ret_got > 0;
}

/* What was measured there that no kernel of this cell goes below, or that moves as many bytes and works nothing out: bounds.cu's figures. */
static void add_bounds(const struct cells *c, const struct cell *cell, const char *device, struct buf *to)
{
    const json_t *bound, *figures = json_object_get(json_object_get(json_object_get(c->doc, "devices"), device), "bounds");
    struct names n = {.cell = cell};
    struct err err = {0};
    int64_t flops;
    size_t i;
    if (!shape_work(&cell->shape, &n.bytes, &flops, &err))
        return;
    json_array_foreach(json_object_get(cell->from, "bounds"), i, bound) {
        int64_t applies = 1;
        const char *when = json_str(bound, "when", NULL);
        const double ns = json_num(figures, json_str(bound, "figure", ""), 0);
        if (ns > 0 && (!when || (expr_eval(when, EXPR_LOGIC, lookup, &n, &applies, &err) && applies)))
            buf_fmt(to, "; %s: %.2f us", json_str(bound, "what", ""), ns / 1000);
    }
}

static char *missed_text(const struct cells *c, const struct cell *cell, const struct found *f, const char *device)
{
    cleanup(buf) struct buf bounds = {0};
    add_bounds(c, cell, device, &bounds);
    double floor_ns = cell_floor_ns(c, cell, device), empty_ns = known(c, device, "empty_launch_ns"), load_ns = known(c, device, "one_load_ns");
    return xfmt("%.2f us; byte floor %.2f us, an empty launch %.2f, one cold load and store %.2f; %.2f TB/s reached%s", f->time_ns / 1000, floor_ns / 1000,
                empty_ns / 1000, load_ns / 1000, (double)f->bytes / f->time_ns / 1000, buf_cstr(&bounds));
}

bool cell_aims(const struct cells *c, const struct cell *cell, double time_ns, const char *device, json_t **ret, struct err *err)
{
    cleanup(json) json_t *others = cell_others(c, cell), *list = json_array();
    struct names n = {.cell = cell};
    struct found f = {.time_ns = time_ns, .vllm_fastest_us = json_num(others, "vllm_fastest_us", 0), .attainable = json_num(others, "attainable", 0),
                      .copy = known(c, device, "copy_bytes_per_ns"), .rows = json_object_get(others, "vllm_us")};
    const json_t *aim;
    int64_t flops;
    size_t i;
    if (!shape_work(&cell->shape, &n.bytes, &flops, err))
        return false;
    f.bytes = n.bytes;
    json_array_foreach(json_object_get(cell->from, "aims"), i, aim) {
        int64_t applies = 1;
        double got, least;
        const char *when = json_str(aim, "when", NULL);
        if (when && !expr_eval(when, EXPR_LOGIC, lookup, &n, &applies, err))
            return false;
        if (!applies || !compare(aim, &f, &got, &least))
            continue;
        json_t *one = json_object();
        json_put_str(one, "over", json_str(aim, "over", ""));
        json_put_num(one, "least", least);
        json_put_num(one, "got", (double)(int64_t)(got * 10000 + 0.5) / 10000);
        json_put_bool(one, "met", got >= least);
        if (got < least) {
            cleanup(str) char *text = missed_text(c, cell, &f, device);
            json_put_str(one, "numbers", text);
        }
        json_array_append_new(list, one);
    }
    *ret = json_incref(list);
    return true;
}

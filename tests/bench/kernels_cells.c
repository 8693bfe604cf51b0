/* The cells that kernels.json asks for, as shapes by their presets; rows of other engines' figures that belong to them. */
#include "tests/bench/kernels.h"

#include <string.h>

static const json_t *launch_of(const json_t *entry, const char *what)
{
    const json_t *launches = json_object_get(entry, "launches"), *launch;
    size_t i;
    json_array_foreach(launches, i, launch)
        if (strcmp(json_str(launch, "what", ""), what) == 0)
            return launch;
    return NULL;
}

/* A shape that another degree has too is one cell of both. */
static void put_cell(struct cells *c, const json_t *from, const struct shape *shape, int64_t tp, int64_t batch)
{
    struct hash_hex hash = shape_hash(shape);
    for (int i = 0; i < c->count; i++) {
        struct cell *other = &c->list[i];
        if (other->from == from && strcmp(other->hash, hash.text) == 0 && other->tp_count < 8) {
            other->tp[other->tp_count++] = tp;
            return;
        }
    }
    struct cell *cell = &c->list[c->count++];
    struct tensor tensors[OP_MAX_TENSORS];
    struct err none = {0};
    *cell = (struct cell){.from = from, .tp = {tp}, .tp_count = 1, .rank = (int)json_int(from, "rank", 1), .batch = batch, .shape = *shape};
    if (shape_tensors(shape, tensors, &none))
        for (int i = 0; i < shape->op->tensor_count; i++)
            cell->bytes += tensors[i].bytes;
    snprintf(cell->hash, sizeof cell->hash, "%s", hash.text);
    snprintf(cell->id, sizeof cell->id, "%.100s tp=%lld batch=%lld", json_str(from, "name", ""), (long long)tp, (long long)batch);
}

static bool add_cell(struct cells *c, const json_t *from, int64_t tp, int64_t batch, struct err *err)
{
    const char *name = json_str(from, "preset", ""), *what = json_str(from, "what", ""), *op = json_str(from, "op", "");
    const struct preset *p = preset_set_find(&c->models, name);
    struct preset_at at = {tp, batch, "sm_90a"};
    cleanup(json) json_t *list = json_array();
    json_t *entry;
    size_t i;
    if (!p)
        p = preset_set_find(&c->beside, name);
    if (!p)
        return err_set(err, ERR_INVALID, "kernels.json: there is no preset \"%s\"", name);
    if (!preset_expand(p, &c->ops, &at, list, err))
        return false;
    json_array_foreach(list, i, entry) {
        const json_t *doc = json_object_get(entry, "shape");
        struct faults f = {0};
        struct shape shape;
        if (strcmp(json_str(doc, "op", ""), op) != 0 || !launch_of(entry, what))
            continue;
        if (c->count == CELLS_MAX || !shape_parse(&c->ops, doc, NULL, "", &shape, &f))
            return err_set(err, ERR_INVALID, "kernels.json: too many cells, or no shape");
        put_cell(c, from, &shape, tp, batch);
        return true;
    }
    return err_set(err, ERR_INVALID, "kernels.json: preset %s launches no %s for \"%s\" at tp %lld, batch %lld", name, op, what, (long long)tp,
                   (long long)batch);
}

static bool read_beside(const char *bench, struct cells *c, struct err *err)
{
    cleanup(str) char *cells = xfmt("%s/kernels.json", bench), *presets = xfmt("%s/presets", bench);
    cleanup(str) char *others = xfmt("%s/baselines/h200-qwen3.5-122b-decode.json", bench);
    return json_parse_file(cells, 1 << 20, &c->doc, err) && preset_set_load(presets, &c->beside, err) &&
           json_parse_file(others, 4 << 20, &c->baselines, err);
}

/* By rank, small ones first: what takes long is what a time limit cuts off. */
static int by_rank(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    return x->bytes != y->bytes ? (x->bytes > y->bytes) - (x->bytes < y->bytes) : strcmp(x->id, y->id);
}

bool cells_load(const char *share, const char *bench, struct cells *ret, struct err *err)
{
    cleanup(cells) struct cells c = {0};
    cleanup(str) char *ops = xfmt("%s/ops", share), *models = xfmt("%s/models", share);
    const json_t *from, *tp, *batch;
    size_t i, t, b;
    if (!op_set_load(ops, &c.ops, err) || !preset_set_load(models, &c.models, err) || !read_beside(bench, &c, err))
        return false;
    c.list = xarray(CELLS_MAX, sizeof *c.list);
    json_array_foreach(json_object_get(c.doc, "cells"), i, from)
        json_array_foreach(json_object_get(from, "batch"), b, batch)
            json_array_foreach(json_object_get(from, "tp"), t, tp)
                if (!add_cell(&c, from, json_integer_value(tp), json_integer_value(batch), err))
                    return false;
    qsort(c.list, (size_t)c.count, sizeof *c.list, by_rank);
    *ret = c;
    c = (struct cells){0};
    return true;
}

void cells_done(struct cells *c)
{
    op_set_done(&c->ops);
    preset_set_done(&c->models);
    preset_set_done(&c->beside);
    json_decref(c->doc);
    json_decref(c->baselines);
    free(c->list);
}

static const json_t *find_row(const json_t *rows, const char *op, int64_t tp, int64_t batch)
{
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
        if ((!op || strcmp(json_str(row, "op", ""), op) == 0) && json_int(row, "tp", 0) == tp && json_int(row, "B", 0) == batch)
            return row;
    return NULL;
}

json_t *cell_others(const struct cells *c, const struct cell *cell)
{
    json_t *doc = json_object(), *rows = json_object();
    const json_t *names = json_object_get(cell->from, "vllm"), *name;
    int64_t tp = json_int(cell->from, "vllm_tp", cell->tp[0]);
    double fastest = 0;
    size_t i;
    json_array_foreach(names, i, name) {
        const json_t *row = find_row(json_object_get(c->baselines, "rows"), json_string_value(name), tp, cell->batch);
        double us = json_num(row, "cold_us", 0);
        if (!row)
            continue;
        json_put_num(rows, json_string_value(name), us);
        fastest = fastest > 0 && fastest < us ? fastest : us;
    }
    json_put(doc, "vllm_us", rows);
    json_put(doc, "vllm_fastest_us", fastest > 0 ? json_real(fastest) : json_null());
    const char *table = json_str(cell->from, "attainable", NULL);
    const json_t *row = table ? find_row(json_object_get(json_object_get(c->baselines, table), "rows"), NULL, cell->tp[0], cell->batch) : NULL;
    if (row)
        json_put_num(doc, "attainable", json_num(row, "speedup", 0));
    return doc;
}

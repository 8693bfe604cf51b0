/* What the parts of bench_kernels share: the cells (an operator's shape at a degree and a batch), and the file of results. */
#pragma once
#include "core/preset.h"

#define CELLS_MAX 1024

struct cell {
    char id[160];                /* "gdn_packed_decode tp=8 batch=4"; equal shapes are one cell, of the first degree */
    const json_t *from;          /* its row of kernels.json */
    int64_t tp[8], batch;
    int tp_count;
    struct shape shape;
    char hash[HASH_HEX_SIZE];
};
struct cells {
    struct op_set ops;
    struct preset_set models, beside;
    json_t *doc, *baselines;
    int count;
    struct cell *list;
};
/* share: share/proteus of a build or a distribution; bench: this folder. */
bool cells_load(const char *share, const char *bench, struct cells *ret, struct err *err) MUST_CHECK;
void cells_done(struct cells *c);
DEFINE_CLEANUP(cells, struct cells, cells_done(it))
/* What the baselines file has of a cell: {"row": microseconds} each, and the fastest; new reference. */
json_t *cell_others(const struct cells *c, const struct cell *cell);

/* {"what","device","toolkit","cells":[...]}; an empty one where there is no such file. */
bool results_load(const char *path, json_t **ret, struct err *err) MUST_CHECK;
json_t *results_find(const json_t *results, const char *id);                  /* borrowed; NULL: not there */
/* Puts `cell` in the place of one with its id, or at the end. */
void results_put(json_t *results, json_t *cell);
/* As JSON, a cell a line, and beside it as a table: PATH with .md for .json. */
bool results_save(const char *path, const json_t *results, struct err *err) MUST_CHECK;
void results_table(const json_t *results, struct buf *to);

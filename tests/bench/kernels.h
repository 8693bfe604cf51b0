/* What the parts of bench_kernels share: the cells (an operator's shape at a degree and a batch), and the file of results. */
#pragma once
#include "core/preset.h"

#define CELLS_MAX 1024

struct cell {
    char id[160];                /* "gdn_packed_decode tp=8 batch=4"; equal shapes are one cell, of the first degree */
    const json_t *from;          /* its row of kernels.json */
    int64_t tp[8], batch;
    int tp_count, rank;          /* rank: what comes first */
    int64_t bytes;               /* of its tensors: what small ones of a rank go before */
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

/* Whether each aim of a cell's row is met by this time, and where not, by numbers: [{"over","least","got","met","numbers"?}]; new reference. */
bool cell_aims(const struct cells *c, const struct cell *cell, double time_ns, const char *device, json_t **ret, struct err *err) MUST_CHECK;
/* The least bytes at the device's data sheet; 0: not known. */
double cell_floor_ns(const struct cells *c, const struct cell *cell, const char *device);

/* Times of settings, kernels_times.c: what bench_settings wrote, and what this has merged before, of any number of
 * files, as one; a later figure of a setting replaces an earlier one. */
bool times_merge(const char *out, char **files, int count, struct err *err) MUST_CHECK;
bool times_load(const char *path, json_t **ret, struct err *err) MUST_CHECK;             /* an empty list where there is no such file */
/* The fastest setting of a cell's shape, {"template","params","ns",...,"baseline_ns","device","settings_timed"}; NULL: none was timed. */
json_t *times_of_cell(const struct cells *c, const json_t *all, const struct cell *cell);
/* The fastest settings of each shape as what proteusd --seeds reads. */
bool times_seeds(const struct cells *c, const char *out, const json_t *all, struct err *err) MUST_CHECK;

/* {"what","device","toolkit","cells":[...]}; an empty one where there is no such file. */
bool results_load(const char *path, json_t **ret, struct err *err) MUST_CHECK;
json_t *results_find(const json_t *results, const char *id);                  /* borrowed; NULL: not there */
/* Puts `cell` in the place of one with its id, or at the end. */
void results_put(json_t *results, json_t *cell);
/* As JSON, a cell a line, and beside it as a table: PATH with .md for .json. */
bool results_save(const char *path, const json_t *results, struct err *err) MUST_CHECK;
void results_table(const json_t *results, struct buf *to);

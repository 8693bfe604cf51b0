/*
 * A model's decode step as data: which operators run in one step, at which shapes and how often, as expressions of the degree of
 * tensor parallelism and the batch. models/NAME.json (docs/models.md has the format) is checked at load as far as it can be without
 * the operators; whether they are there is seen when it is expanded, because operators come and go.
 *
 * Loaded presets never change; all functions may be called from any thread.
 */
#pragma once
#include "core/shape.h"

#define PRESET_MAX_NAMES 32
#define PRESET_MAX_LAUNCHES 128

struct preset_name { char name[OP_NAME_SIZE], value[OP_EXPR_SIZE]; };
struct preset {
    char name[OP_NAME_SIZE];
    json_t *doc;                                 /* the file whole */
    int tp_count;
    int64_t tp[16];                              /* the degrees that the model can be split by */
    int64_t batch_max;
    int name_count;
    struct preset_name names[PRESET_MAX_NAMES];  /* each may use those before it, tp and batch */
};
struct preset_set { int count; struct preset **list; };          /* sorted by name */

/* Every NAME.json of the folder. One bad file fails the load: ERR_INVALID names file and field. */
bool preset_set_load(const char *dir, struct preset_set *ret, struct err *err) MUST_CHECK;
void preset_set_done(struct preset_set *set);
/* NULL: none. set may be NULL. */
const struct preset *preset_set_find(const struct preset_set *set, const char *name);

/*
 * Adds the shapes of one step to `list`, equal ones once:
 *   {"shape_hash","shape":{...},"count": launches of it a step,"launches":[{"what","count","tp","batch","instead_of"?}]}
 * A shape that is there already from another tp or batch gets more launches; `count` is the sum over all of them.
 * ERR_INVALID: tp or batch are none of the preset's. ERR_UNPROCESSABLE: an operator that is not there, or takes no such shape;
 * the text names preset, launch and operator.
 */
struct preset_at { int64_t tp, batch; const char *target; };
bool preset_expand(const struct preset *p, const struct op_set *ops, const struct preset_at *at, json_t *list, struct err *err) MUST_CHECK;

/*
 * The same for what a request names, {"preset","tp"?,"batch"?,"target"?}: tp and batch are a number or a list of numbers, 1 when they are
 * absent, every tp with every batch (at most PRESET_MAX_PLACES pairs). Faults point below `pointer`; ERR_NOT_FOUND where there is no
 * such preset, ERR_UNPROCESSABLE as above. default_target: for a request that names none.
 */
#define PRESET_MAX_PLACES 64
bool preset_expand_request(const struct preset_set *set, const struct op_set *ops, const json_t *request, const char *default_target,
                           const char *pointer, json_t *list, struct faults *f, struct err *err) MUST_CHECK;
/* What there is to choose: {"name","description","source","left_out","tp":[...],"batch_max","ops":[names]}; new reference. */
json_t *preset_summary(const struct preset *p);

DEFINE_CLEANUP(preset_set, struct preset_set, preset_set_done(it))

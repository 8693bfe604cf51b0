/*
 * A template: a candidate with parameters, as data. templates/T.json holds
 *
 *   "name", "description"
 *   "params": {"ROWS": {"values": [1,2,4], "default": 2 | "expression", "description",
 *                       "more": "what a larger value does", "less": "what a smaller one does",
 *                       "registers"?: "more" | "less"           (which way costs registers)
 *                       "helps"?: {"latency": "more", ...}}}     (which way to go where that bounds the best so far)
 *   "constraints": ["K % (LANES*VEC) == 0", ...]                 over parameters, axes, bytes_LETTER, and sm, the target's number (sm_90a: 90)
 *   "static_shared_bytes"?: {"kernel": expression over the same}, what it declares in shared memory, to the byte: what a block needs is
 *                           then known before anything is compiled; a kernel that is not named declares none
 *   "candidate": a candidate without its source, which is templates/T.cu; the parameters become its defines
 *
 * A setting is one index into `values` for each parameter.
 */
#pragma once
#include "core/candidate.h"

#define TEMPLATE_MAX 16                 /* of one operator */
#define TEMPLATE_MAX_PARAMS 10
#define TEMPLATE_MAX_VALUES 16
#define TEMPLATE_MAX_CONSTRAINTS 16
#define TEMPLATE_MAX_KERNELS 4
#define TEMPLATE_MAX_SETTINGS 16384     /* product of all values */

struct setting { uint8_t at[TEMPLATE_MAX_PARAMS]; };

struct template_param {
    char name[64];
    int count;
    int64_t values[TEMPLATE_MAX_VALUES];         /* rising */
    char fallback[OP_EXPR_SIZE];                 /* the default */
    char more[160], less[160];                   /* what a larger, a smaller value does; "" unknown */
    int registers;                               /* +1: a larger value costs registers, -1: a smaller one, 0: neither */
};
struct template {
    char name[OP_NAME_SIZE];
    json_t *doc;
    json_t *candidate;                           /* with its source */
    int param_count, constraint_count;
    struct template_param params[TEMPLATE_MAX_PARAMS];
    char constraints[TEMPLATE_MAX_CONSTRAINTS][OP_EXPR_SIZE];
    int shared_count;
    struct { char kernel[OP_NAME_SIZE], bytes[OP_EXPR_SIZE]; } shared[TEMPLATE_MAX_KERNELS];
};
struct template_set { int count; struct template *list; };       /* sorted by name */

/* All templates of an operator's folder. One bad file fails the load: ERR_INVALID names file and field. None is no error. */
bool template_set_load(const struct op *op, struct template_set *ret, struct err *err) MUST_CHECK;
void template_set_done(struct template_set *set);
DEFINE_CLEANUP(template_set, struct template_set, template_set_done(it))

/*
 * Every setting that holds the constraints for the shape, in a fixed order; the caller frees. None whose plan asks for what the target
 * does not have: clusters, dependent launches, threads of a block, shared memory.
 */
bool template_settings(const struct template *t, const struct shape *s, struct setting **ret, int *ret_count, struct err *err) MUST_CHECK;
/* What the template says that this kernel of it declares in shared memory, with this setting; 0: nothing is said. */
int64_t template_static_shared(const struct template *t, const struct shape *s, const struct setting *p, const char *kernel);
/* The setting among `list` that is nearest to the defaults; -1 if the list is empty. */
int template_default(const struct template *t, const struct shape *s, const struct setting *list, int count);
/* The first constraint that no setting holds; "" if there is none that alone stands in the way. */
const char *template_obstacle(const struct template *t, const struct shape *s);
/* The candidate document of a setting, without notes; new reference. */
json_t *template_candidate(const struct template *t, const struct setting *p);
json_t *template_params(const struct template *t, const struct setting *p);   /* {"ROWS":2,...}; new reference */
/* The setting with these parameters; false if a value is not one of the template's. */
bool template_find(const struct template *t, const json_t *params, struct setting *ret);
/* +1 "more", -1 "less", 0: what the file says helps where `bound` is what bounds the time. */
int template_helps(const struct template *t, int param, const char *bound);

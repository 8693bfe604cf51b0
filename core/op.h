/*
 * Operators as data: op.json of a folder, checked whole at load; and the set of operators there are.
 *
 * A folder NAME/ holds op.json, reference.c (built as reference.so), baseline.cu with baseline.json (a candidate without its
 * `source`), and templates/T.cu with templates/T.json (name, description, params, constraints, candidate without `source`).
 * Loaded operators never change; all functions may be called from any thread.
 */
#pragma once
#include "core/dtype.h"
#include "core/hash.h"
#include "core/json.h"

#define OP_MAX_AXES 24
#define OP_MAX_DTYPES 8
#define OP_MAX_TENSORS 24
#define OP_MAX_SCALARS 8
#define OP_MAX_DIMS 8
#define OP_NAME_SIZE 64
#define OP_EXPR_SIZE 160
#define SHAPE_AXIS_MAX (((int64_t)1 << 40) - 1)   /* an axis without a max of its own */
#define SHAPE_AXIS_MOST ((int64_t)1 << 53)        /* no axis is larger: beyond it readers of JSON keep not every integer */

struct op_axis {
    char name[OP_NAME_SIZE];
    bool is_const, keyed, has_default;
    int64_t value, min, max;                 /* value: const only */
    char fallback[OP_EXPR_SIZE];             /* default: an integer for a keyed axis, an expression for others */
};
struct op_letter { char name[OP_NAME_SIZE]; int count; enum dtype options[DTYPE_COUNT]; };   /* the first is the default */
enum op_role { OP_INPUT, OP_INOUT, OP_OUTPUT };
struct op_tensor {
    char name[OP_NAME_SIZE];
    enum op_role role;
    int rank;
    char dims[OP_MAX_DIMS][OP_EXPR_SIZE];
    bool has_strides;
    char strides[OP_MAX_DIMS][OP_EXPR_SIZE];
    int letter;                              /* index of the dtype letter, -1: fixed */
    enum dtype fixed;
    int alignment_bytes;                     /* part of the contract with a kernel; 16 unless said */
};
struct op_scalar { char name[OP_NAME_SIZE]; enum dtype dtype; double value; };

struct op {
    char name[OP_NAME_SIZE];
    int version;
    char *dir;                               /* its folder */
    char *description;
    json_t *doc;                             /* op.json whole: tags, regimes, tolerance, ... */
    struct hash_hex digest;                  /* over op.json, reference.c, baseline.cu, baseline.json */
    int axis_count, letter_count, tensor_count, scalar_count, constraint_count;
    struct op_axis axes[OP_MAX_AXES];
    struct op_letter letters[OP_MAX_DTYPES];
    struct op_tensor tensors[OP_MAX_TENSORS];   /* inputs, then inouts, then outputs, each in the file's order */
    struct op_scalar scalars[OP_MAX_SCALARS];
    int between;                             /* letter of what a chain of kernels may round to between its steps, -1: none */
    char constraints[16][OP_EXPR_SIZE];
    char bytes[OP_EXPR_SIZE * 4], flops[OP_EXPR_SIZE * 4];
};

/* ERR_INVALID names file and field. The caller owns *ret (op_free). */
bool op_load(const char *dir, struct op **ret, struct err *err) MUST_CHECK;
/* For op_load: what op->doc, read from `path`, says into all other fields but the folder's. */
bool op_read(struct op *op, const char *path, struct err *err) MUST_CHECK;
void op_free(struct op *op);
int op_axis_index(const struct op *op, const char *name);       /* -1: none */
int op_tensor_index(const struct op *op, const char *name);
int op_scalar_index(const struct op *op, const char *name);
int op_letter_index(const struct op *op, const char *name);
/* Results that the reference gives of each output: the exact one and, where steps may round, the one with that. */
int op_results(const struct op *op);
/* op.json as the API shows it: hidden regimes left out. New reference. */
json_t *op_public(const struct op *op);

struct op_set { int count; struct op **list; };                 /* sorted by name */
/* Every folder of `dir` that holds an op.json. One bad operator fails the load. */
bool op_set_load(const char *dir, struct op_set *ret, struct err *err) MUST_CHECK;
void op_set_done(struct op_set *set);
const struct op *op_set_find(const struct op_set *set, const char *name);   /* NULL: none */
/* Where the operators lie: $PROTEUS_OPS_DIR by the caller, else ../share/proteus/ops beside the program, else the build's folder. */
char *op_default_dir(void);

DEFINE_CLEANUP(op, struct op *, op_free(*it))
DEFINE_CLEANUP(op_set, struct op_set, op_set_done(it))

/*
 * Golden files: what an operator must compute for given inputs, worked out elsewhere. OPERATOR/CASE.safetensors holds in.NAME
 * (inouts too, before), out.NAME (floats as f32, an inout after), and in __metadata__ `axes` (JSON) and `note`.
 *
 * The operator's reference must agree within 1e-6, its baseline (run by the caller) by the rules of compare.h.
 */
#pragma once
#include "core/shape.h"

/* Runs the operator's baseline: outputs[t] is tensors[t].bytes long for inouts and outputs, to be filled; NULL for inputs. */
typedef bool golden_run(void *ctx, const struct shape *s, const struct tensor *tensors, const void *const *inputs, void **outputs, struct err *err);

struct golden_result {
    char op[OP_NAME_SIZE], name[128];      /* the folder and the file, without its ending */
    bool reference_ok, baseline_ok;
    bool baseline_ran;                     /* false without a `run` */
    bool match;                            /* all that was looked at agrees */
    char text[512];                        /* what disagrees, one sentence; "" */
};
/*
 * target: of the shape that the baseline is compiled for. run NULL: the reference only.
 * False: the file is malformed, or its operator, axes or dtypes are not known here, or the reference or `run` failed.
 */
bool golden_check_file(const struct op_set *ops, const char *path, const char *target, golden_run *run, void *ctx,
                       struct golden_result *ret, struct err *err) MUST_CHECK;

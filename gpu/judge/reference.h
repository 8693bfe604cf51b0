/*
 * Runs an operator's reference.so (gpu/ops/reference.h) in this process: for the sandboxed reference child and for tests.
 * The code in it is as trusted as the operator's folder.
 */
#pragma once
#include "gpu/judge/held.h"

#define REFERENCE_MAX_BYTES ((int64_t)24 << 30)
#define REFERENCE_HELD_BYTES ((int64_t)80 << 30)        /* of address space, of which what is held is memory */

/*
 * inputs: by tensor, strided bytes as inputs_make gave them (NULL for outputs). ret_arrays: by tensor, `elements` doubles in
 * row-major order for inouts (after the call) and outputs, NULL for inputs; the caller frees. Where op_results is 2, as many more
 * follow them: the result with what may be rounded between the steps of a chain rounded.
 * ERR_UNAVAILABLE: no reference.so, or it lacks its symbol. ERR_TOO_LARGE: past REFERENCE_MAX_BYTES. ERR_INTERNAL: it left an
 * output unwritten or made it NaN or infinite.
 */
bool reference_run(const struct shape *s, const struct tensor *tensors, const void *const *inputs, double **ret_arrays, struct err *err) MUST_CHECK;
/*
 * The same where tensors have holes (held.h): it sees them whole, inputs and results are the rows that are there. tensors: the whole ones.
 * ERR_NO_SPACE: the host does not give so much address space.
 */
bool reference_run_held(const struct shape *s, const struct tensor *tensors, const struct held *held, const int64_t *rows, const void *const *inputs,
                        double **ret_arrays, struct err *err) MUST_CHECK;
/* The same where results are to lie: by tensor, room for all of them; NULL for inputs. */
bool reference_run_into(const struct shape *s, const struct tensor *tensors, const struct held *held, const int64_t *rows, const void *const *inputs,
                        double *const *results, struct err *err) MUST_CHECK;

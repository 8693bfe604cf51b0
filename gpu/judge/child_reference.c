/* In the reference child: the operator's reference.so over inputs of one regime. It never sees a candidate. */
#include "gpu/judge/child.h"
#include "gpu/judge/reference.h"

#include <string.h>

bool child_do_reference(struct child_state *s, const json_t *job, struct err *err)
{
    (void)job;
    double *results[OP_MAX_TENSORS] = {0};
    if (!s->in.base)
        return err_set(err, ERR_INTERNAL, "reference before inputs");
    if (!reference_run_held(&s->shape, s->full, &s->held, s->rows, (const void *const *)s->inputs, results, err))
        return false;
    for (int t = 0; t < s->op->tensor_count; t++) {
        if (results[t])
            memcpy(s->outputs[t], results[t], (size_t)s->tensors[t].elements * (size_t)op_results(s->op) * sizeof(double));
        free(results[t]);
    }
    return child_answer(json_object(), err);
}

/* In the reference child: the operator's reference.so over inputs of one regime. It never sees a candidate. */
#include "gpu/judge/child.h"
#include "gpu/judge/reference.h"

bool child_do_reference(struct child_state *s, const json_t *job, struct err *err)
{
    (void)job;
    double *results[OP_MAX_TENSORS] = {0};
    if (!s->in.base)
        return err_set(err, ERR_INTERNAL, "reference before inputs");
    for (int t = 0; t < s->op->tensor_count; t++)
        if (s->op->tensors[t].role != OP_INPUT)
            results[t] = s->outputs[t];
    return reference_run_into(&s->shape, s->full, &s->held, s->rows, (const void *const *)s->inputs, results, err) && child_answer(json_object(), err);
}

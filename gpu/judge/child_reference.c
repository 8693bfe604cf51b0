/* In the reference child: the operator's reference.so over inputs of one regime. It never sees a candidate. */
#include "gpu/judge/child.h"
#include "gpu/judge/reference.h"

bool child_do_reference(struct child_state *s, const json_t *job, struct err *err)
{
    (void)job;
    double *results[OP_MAX_TENSORS] = {0};
    if (!child_receive_inputs(s, err) || !reference_run(&s->shape, s->tensors, (const void *const *)s->inputs, results, err))
        return false;
    bool ok = child_answer(json_object(), err);
    for (int t = 0; t < s->op->tensor_count; t++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", t);
        if (ok && results[t])
            ok = wire_send_blob(CHILD_FD, name, results[t], (size_t)s->tensors[t].elements * sizeof(double), err);
        free(results[t]);
    }
    return ok;
}

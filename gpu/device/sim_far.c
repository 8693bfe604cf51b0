/*
 * Rows that are far away. A kernel is served for all values of an axis that does not key its shape, and where rows are large no host
 * has the memory for one that is: 65536 slots of half a MiB are 32 GiB. But a launch touches only the rows that its indices name. So the
 * first row of a tensor stays at the tensor's address, and the others, with the indices that name them, move up by as many rows as are
 * wanted: between them is nothing. An index that is cut to 8 or 16 bits, or an offset to 32, then leads to where nothing is, or to the
 * first row.
 */
#include "gpu/device/sim.h"

static uint64_t row_bytes(const struct device_program *p, int t)
{
    return (uint64_t)(p->buffers[t].bytes / p->tensors[t].dims[0]);
}

uint64_t sim_far_bytes(const struct device_program *p, const struct device_far *far, int i)
{
    return far && i < p->tensor_count && far->held[i] ? (uint64_t)far->rows * row_bytes(p, i) : 0;
}

static void move_rows(const struct device_program *p, struct sim_arena *a, int t)
{
    const uint64_t row = row_bytes(p, t);
    struct ptx_buffer *others = &a->list[t], *first = &a->list[a->count++];
    *first = *others;
    first->bytes = (size_t)row;
    others->data += row;
    others->bytes -= (size_t)row;
    others->address += row + sim_far_bytes(p, a->far, t);
}

static void move_indices(const struct device_program *p, struct sim_arena *a, int t)
{
    const struct tensor *x = &p->tensors[t];
    for (int64_t i = 0; i < x->elements; i++) {
        const size_t at = (size_t)tensor_offset(x, i);
        const double value = dtype_load(x->dtype, a->list[t].data, at);
        if (value > 0)
            dtype_store(x->dtype, a->list[t].data, at, value + (double)a->far->rows);
    }
}

void sim_far_apply(const struct device_program *p, struct sim_arena *a)
{
    for (int t = 0; t < p->tensor_count && a->far; t++) {
        if (a->far->held[t])
            move_rows(p, a, t);
        if (a->far->points[t])
            move_indices(p, a, t);
    }
}

uint64_t sim_far_argument(const struct sim_arena *a, const struct plan_arg *arg)
{
    return a && a->far && arg->kind == PLAN_AXIS && arg->index == a->far->axis ? (uint64_t)a->far->rows : 0;
}

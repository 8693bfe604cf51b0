/* Elements of tensors as doubles, and back: runs of them, and whole tensors whatever their strides. */
#include "gpu/judge/values.h"

#include <string.h>

void values_load(enum dtype t, const void *data, int64_t first, int64_t count, double *ret)
{
    if (t == DTYPE_F32) {
        const float *from = (const float *)data + first;
        for (int64_t i = 0; i < count; i++)
            ret[i] = (double)from[i];
    } else if (t == DTYPE_BF16) {
        const uint16_t *from = (const uint16_t *)data + first;
        for (int64_t i = 0; i < count; i++) {
            uint32_t bits = (uint32_t)from[i] << 16;
            float value;
            memcpy(&value, &bits, sizeof value);
            ret[i] = (double)value;
        }
    } else {
        for (int64_t i = 0; i < count; i++)
            ret[i] = dtype_load(t, data, (size_t)(first + i));
    }
}

void values_store(enum dtype t, void *data, int64_t first, int64_t count, const double *from)
{
    if (t == DTYPE_F32) {
        float *to = (float *)data + first;
        for (int64_t i = 0; i < count; i++)
            to[i] = (float)from[i];
    } else {
        for (int64_t i = 0; i < count; i++)
            dtype_store(t, data, (size_t)(first + i), from[i]);
    }
}

void values_round(enum dtype t, const double *from, int64_t count, double *ret)
{
    if (t == DTYPE_F32) {
        for (int64_t i = 0; i < count; i++)
            ret[i] = (double)(float)from[i];
        return;
    }
    uint8_t one[8];
    for (int64_t i = 0; i < count; i++) {
        dtype_store(t, one, 0, from[i]);
        ret[i] = dtype_load(t, one, 0);
    }
}

bool values_dense(const struct tensor *t)
{
    return t->span_elements == t->elements;
}

static int64_t row_elements(const struct tensor *t)
{
    return t->rank ? t->dims[t->rank - 1] : 1;
}

static bool rows_contiguous(const struct tensor *t)
{
    return !t->rank || t->dims[t->rank - 1] <= 1 || t->strides[t->rank - 1] == 1;
}

void values_gather(const struct tensor *t, const void *data, int64_t first, int64_t count, double *ret)
{
    if (values_dense(t)) {
        values_load(t->dtype, data, first, count, ret);
        return;
    }
    int64_t row = row_elements(t);
    for (int64_t done = 0; done < count;) {
        int64_t at = first + done, run = rows_contiguous(t) ? row - at % row : 1;
        if (run > count - done)
            run = count - done;
        values_load(t->dtype, data, tensor_offset(t, at), run, ret + done);
        done += run;
    }
}

void values_scatter(const struct tensor *t, void *data, int64_t first, int64_t count, const double *from)
{
    if (values_dense(t)) {
        values_store(t->dtype, data, first, count, from);
        return;
    }
    int64_t row = row_elements(t);
    for (int64_t done = 0; done < count;) {
        int64_t at = first + done, run = rows_contiguous(t) ? row - at % row : 1;
        if (run > count - done)
            run = count - done;
        values_store(t->dtype, data, tensor_offset(t, at), run, from + done);
        done += run;
    }
}

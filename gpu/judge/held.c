#include "gpu/judge/held.h"

#include "core/rng.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES ((int64_t)4096)
#define SMALL_PART 4                    /* rows that are there, of all */

bool held_free(const struct op_axis *a) { return !a->keyed && !a->is_const; }

bool held_mentions(const char *expression, const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    for (const char *at = expression; *at;) {
        const size_t n = strspn(at, letters);
        if (n == strlen(name) && !memcmp(at, name, n))
            return true;
        at += n ? n : 1;
    }
    return false;
}

static bool has_axis(const struct op *op, int t, const char *name)
{
    bool has = false;
    for (int d = 0; d < op->tensors[t].rank; d++)
        has = has || held_mentions(op->tensors[t].dims[d], name) || (op->tensors[t].has_strides && held_mentions(op->tensors[t].strides[d], name));
    return has;
}

/* As the first dimension and nowhere else, each row behind the one before. */
static bool by_rows(const struct op *op, int t, const char *name)
{
    const struct op_tensor *x = &op->tensors[t];
    if (x->role == OP_OUTPUT || x->has_strides || strcmp(x->dims[0], name) != 0)
        return false;
    for (int d = 1; d < x->rank; d++)
        if (held_mentions(x->dims[d], name))
            return false;
    return true;
}

int held_axis(const struct shape *s, const struct tensor *tensors)
{
    const struct op *op = s->op;
    int axis = -1, has = 0;
    bool named = false;
    for (int i = 0; i < op->axis_count; i++) {
        if (!held_free(&op->axes[i]))
            continue;
        if (axis >= 0)
            return -1;
        axis = i;
    }
    for (int t = 0; t < op->tensor_count && axis >= 0; t++) {
        named = named || inputs_address(s, tensors, t, axis);
        if (!has_axis(op, t, op->axes[axis].name))
            continue;
        if (!by_rows(op, t, op->axes[axis].name))
            return -1;
        has++;
    }
    return has && named ? axis : -1;
}

struct held held_of(const struct shape *s, const struct tensor *tensors, int axis)
{
    struct held h = {.axis = axis, .count = HELD_MORE};
    for (int t = 0; t < s->op->tensor_count && axis >= 0; t++)
        h.count += inputs_address(s, tensors, t, axis) ? tensors[t].elements : 0;
    return axis >= 0 && h.count <= s->axes[axis] / SMALL_PART ? h : (struct held)HELD_NONE;
}

bool held_is(const struct held *h, const struct op *op, int t)
{
    return h->axis >= 0 && has_axis(op, t, op->axes[h->axis].name);
}

void held_tensors(const struct held *h, const struct op *op, const struct tensor *full, struct tensor ret[OP_MAX_TENSORS])
{
    for (int t = 0; t < op->tensor_count; t++) {
        ret[t] = full[t];
        if (!held_is(h, op, t))
            continue;
        ret[t].elements = ret[t].span_elements = full[t].elements / full[t].dims[0] * h->count;
        ret[t].bytes = ret[t].elements * dtype_bytes(full[t].dtype);
        ret[t].dims[0] = h->count;
    }
}

int64_t held_row_bytes(const struct tensor *t)
{
    return t->dims[0] ? t->bytes / t->dims[0] : 0;
}

int64_t held_bytes(const struct held *h, const struct op *op, const struct tensor *compact)
{
    int64_t sum = 0;
    for (int t = 0; t < op->tensor_count; t++) {
        const int64_t row = held_is(h, op, t) ? held_row_bytes(&compact[t]) : 0;
        sum += row && row < PAGE_BYTES ? h->count * PAGE_BYTES : compact[t].bytes;
    }
    return sum;
}

/* ---- which ---- */

struct list { int64_t *rows; int64_t count, most; };

static void add(struct list *l, int64_t row, int64_t rows)
{
    if (row >= 0 && row < rows && l->count < l->most)
        l->rows[l->count++] = row;
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void settle(struct list *l)
{
    int64_t kept = 0;
    qsort(l->rows, (size_t)l->count, sizeof *l->rows, by_number);
    for (int64_t i = 0; i < l->count; i++)
        if (!kept || l->rows[i] != l->rows[kept - 1])
            l->rows[kept++] = l->rows[i];
    l->count = kept;
}

void held_rows(const struct held *h, const struct shape *s, const struct tensor *compact, void *const *inputs, uint64_t seed, int64_t *ret)
{
    const int64_t rows = s->axes[h->axis];
    struct list l = {ret, 0, h->count};
    for (int t = 0; t < s->op->tensor_count; t++)
        for (int64_t i = 0, end = inputs_address(s, compact, t, h->axis) ? compact[t].elements : 0; i < end; i++)
            add(&l, (int64_t)dtype_load(compact[t].dtype, inputs[t], (size_t)tensor_offset(&compact[t], i)), rows);
    settle(&l);
    const int64_t named = l.count;
    uint64_t state = seed;
    BUG_ON(named > h->count - HELD_MORE);
    for (int64_t i = 0; i < HELD_BESIDE && i < named; i++) {        /* the furthest, and some */
        const int64_t row = ret[i < HELD_BESIDE / 2 || named <= HELD_BESIDE ? named - 1 - i : (int64_t)(rng_mix(state++) % (uint64_t)named)];
        add(&l, row - 1, rows);
        add(&l, row + 1, rows);
    }
    add(&l, 0, rows);
    add(&l, rows - 1, rows);
    for (settle(&l); l.count < h->count; settle(&l))
        for (int64_t more = h->count - l.count; more > 0; more--)
            add(&l, (int64_t)(rng_mix(state++) % (uint64_t)rows), rows);
}

bool held_rows_fit(const struct held *h, const struct shape *s, const int64_t *rows)
{
    for (int64_t i = 0; i < h->count; i++)
        if (rows[i] < (i ? rows[i - 1] + 1 : 0) || rows[i] >= s->axes[h->axis])
            return false;
    return true;
}

/* ---- holes ---- */

void *held_map(size_t bytes)
{
    void *at = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, bytes ? bytes : 1, MADV_NOHUGEPAGE);
    return at;
}

void held_unmap(void *at, size_t bytes)
{
    if (at)
        munmap(at, bytes ? bytes : 1);
}

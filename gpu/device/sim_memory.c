/*
 * The memory of one run. Each buffer lies at an address of its own, in one place aligned exactly as the contract says and no more, in the
 * other as well as a caller's memory may be, with at least 4 KiB of nothing on both sides; every byte has a bit that says whether
 * something has written it. So a stray access, a write to an input, a read of what nothing wrote, and an alignment that was merely
 * lucky are all found at the instruction that does them. After the run: is each output whole, and whose is each element?
 */
#include "core/rng.h"
#include "gpu/device/sim.h"

#include <string.h>

#define GAP_BYTES UINT64_C(4096)
#define ALIGNED_BYTES (UINT64_C(2) << 20)

void sim_arena_done(struct sim_arena *a)
{
    for (int i = 0; i < a->count; i++) {
        struct ptx_buffer *b = &a->list[i];
        if (i >= PROGRAM_MAX_BUFFERS || !a->memory[i])      /* a first row, in its tensor's memory */
            continue;
        if (b->held) {
            sim_unmap(a->memory[i], b->bytes);
            sim_unmap(b->tags, b->bytes);
        } else {
            free(a->memory[i]);
            free(b->tags);
        }
        free(b->initialised);
        free(a->frozen[i]);
    }
}

/* The space between the rows of a strided tensor is not the kernel's: its bytes, one bit each; NULL: there is none. */
static uint8_t *gaps_of(const struct tensor *t, size_t bytes)
{
    if (!t || t->span_elements == t->elements)
        return NULL;
    uint8_t *frozen = xalloc(bytes / 8 + 8);
    const int64_t size = dtype_bytes(t->dtype);
    memset(frozen, 0xff, bytes / 8 + 1);
    for (int64_t i = 0; i < t->elements; i++)
        for (int64_t at = tensor_offset(t, i) * size, end = at + size; at < end; at++)
            frozen[at / 8] &= (uint8_t)~(1u << at % 8);
    return frozen;
}

/* What a buffer holds before the first launch, and room for what is asked about it. */
static void fill(const struct program_buffer *b, const struct device_run *how, const void *content, bool tags, struct ptx_buffer *to)
{
    const size_t bytes = to->bytes;
    to->data = xalloc_large(bytes ? bytes : 1);
    if (tags)
        to->tags = memset(xalloc_large(bytes ? bytes : 1), 0, bytes);
    if (b->output) {
        to->initialised = xalloc(bytes / 8 + 8);
        fill_pattern(to->data, bytes, how->poison);
    } else if (bytes) {
        memcpy(to->data, content, bytes);
    }
}

static bool fill_rows(const struct ptx_held *held, const void *content, bool tags, struct ptx_buffer *to, struct err *err)
{
    to->held = held;
    to->data = sim_map(to->bytes, err);
    if (!to->data || (tags && !(to->tags = sim_map(to->bytes, err))))
        return false;
    sim_rows_put(held, to->data, content);
    return true;
}

bool sim_lay_out(const struct device_program *p, const struct device_run *how, struct sim_arena *a, struct err *err)
{
    /* Where the drivers of cards put memory, and where none does: from an address nothing can be told. */
    static const uint64_t bases[] = {0x700000000000, 0x7f0000000000, 0x302000000, 0x10000000000};
    const uint64_t mixed = rng_mix(how->schedule_seed);
    uint64_t cursor = bases[mixed >> 62] + (mixed & 0xffff) * GAP_BYTES * 512;
    for (int i = 0; i < p->buffer_count; i++) {
        const struct program_buffer *b = &p->buffers[i];
        struct ptx_buffer *to = &a->list[a->count++];
        uint64_t alignment = (uint64_t)b->alignment_bytes, step = alignment * 2 > GAP_BYTES ? alignment * 2 : GAP_BYTES;
        size_t bytes = (size_t)b->bytes;
        /*
         * An odd multiple of the alignment: whoever counts on twice as much is wrong here. In the other place more than any allocator
         * gives: who is wrong only where a caller's buffers really lie must not pass either.
         */
        bool aligned = how->place == DEVICE_AT_START;
        if (aligned)
            step = ALIGNED_BYTES;
        uint64_t address = (cursor + GAP_BYTES + step - 1) / step * step + (aligned ? 0 : alignment);
        const bool tags = b->writable && b->tensor && how->sample_budget && !p->whole;
        const struct device_held *held = sim_held(how, p, i);
        *to = (struct ptx_buffer){.address = address, .bytes = bytes, .writable = b->writable};
        a->address[i] = address;
        snprintf(to->name, sizeof to->name, "%s", b->name);
        to->frozen = a->frozen[i] = b->writable ? gaps_of(b->tensor, bytes) : NULL;
        if (held) {
            a->held[i] = (struct ptx_held){held->rows, held->count, (uint64_t)held->row_bytes};
            const bool ok = fill_rows(&a->held[i], how->tensors[i], tags, to, err);
            a->memory[i] = to->data;
            if (!ok)
                return false;
        } else {
            fill(b, how, b->output || !b->tensor ? NULL : how->tensors[i], tags, to);
            a->memory[i] = to->data;
        }
        cursor = address + bytes + sim_far_bytes(p, how->far, i);
    }
    a->far = how->far;
    sim_far_apply(p, a);
    return true;
}

void sim_set_memory(struct ptx_buffer *b, uint8_t value)
{
    memset(b->data, value, b->bytes);
    memset(b->initialised, 0xff, b->bytes / 8 + 1);
}

/* ---- after the run ---- */

static bool byte_written(const struct ptx_buffer *b, int64_t i)
{
    return b->initialised[i / 8] >> (i % 8) & 1;
}

static bool all_written(const struct ptx_buffer *b)
{
    size_t whole = b->bytes / 8;
    for (size_t i = 0; i < whole; i++)
        if (b->initialised[i] != 0xff)
            return false;
    return b->bytes % 8 == 0 || (b->initialised[whole] & ((1u << b->bytes % 8) - 1)) == (1u << b->bytes % 8) - 1;
}

/* Padding between strided rows is nobody's: only bytes of elements count. */
bool sim_check_written(const struct tensor *t, const struct ptx_buffer *b, struct device_fault *fault)
{
    int64_t missing = 0, first = -1;
    int size = dtype_bytes(t->dtype);
    if (all_written(b))
        return true;
    for (int64_t i = 0; i < t->elements; i++) {
        int64_t at = tensor_offset(t, i) * size, lost = 0;
        for (int k = 0; k < size; k++)
            lost += !byte_written(b, at + k);
        if (lost && first < 0)
            first = i;
        missing += lost;
    }
    if (!missing)
        return true;
    json_t *d = json_pack("{s:s,s:I,s:I,s:I}", "buffer", b->name, "missing_bytes", (json_int_t)missing, "bytes",
                          (json_int_t)(t->elements * size), "index", (json_int_t)first);
    return fault_set(fault, VERDICT_WRONG_RESULT, d,
                     "%lld of %lld bytes of %s were never written, the first at element %lld", (long long)missing,
                     (long long)(t->elements * size), b->name, (long long)first);
}

void sim_arena_clear(struct sim_arena *a)
{
    sim_arena_done(a);
    *a = (struct sim_arena){.count = 0};
}

void sim_put_back(const struct device_program *p, const struct device_run *how, struct sim_arena *a, const struct device_run_result *ret)
{
    uint64_t left_out = 0;
    for (int i = 0; i < p->plan.step_count; i++)
        left_out += ret->counts[i].left_out_blocks;
    for (int t = 0; t < p->tensor_count && left_out; t++) {
        const struct ptx_buffer *b = &a->list[t];
        const uint8_t *before = p->buffers[t].output ? NULL : how->tensors[t];
        const size_t row = b->held ? b->held->row_bytes : b->bytes;
        for (int64_t r = 0, rows = b->held ? b->held->count : 1; r < rows && before && b->tags; r++) {
            const size_t at = b->held ? (size_t)b->held->rows[r] * row : 0;
            for (size_t n = 0; n < row; n++)
                b->data[at + n] = b->tags[at + n] ? b->data[at + n] : before[(size_t)r * row + n];
        }
    }
}

void sim_take(const struct device_program *p, const struct device_run *how, const struct sim_arena *a, void *const *tensors)
{
    for (int t = 0; t < p->tensor_count && tensors; t++) {
        const struct ptx_buffer *b = &a->list[t];
        if (tensors[t] && b->held)
            sim_rows_take(b->held, b->data, tensors[t]);
        else if (tensors[t] && p->buffers[t].bytes)     /* indices that were moved nobody can have changed: they are inputs */
            memcpy(tensors[t], how->far && how->far->points[t] ? how->tensors[t] : a->memory[t], (size_t)p->buffers[t].bytes);
    }
}

/* Of elements that lie side by side. */
static void take_tags(const uint8_t *at, int64_t size, int64_t count, uint8_t *ret)
{
    for (int64_t i = 0; i < count; i++, at += size) {
        ret[i] = at[0];
        for (int64_t k = 1; k < size; k++)
            ret[i] = at[k] ? ret[i] : 0;
    }
}

void sim_take_tags(const struct device_program *p, const struct sim_arena *a, struct device_run_result *ret)
{
    for (int t = 0; t < p->tensor_count; t++) {
        const struct tensor *x = &p->tensors[t];
        const int64_t size = dtype_bytes(x->dtype);
        const struct ptx_held *h = a->list[t].held;
        if (!a->list[t].tags)
            continue;
        const int64_t row = h ? (int64_t)h->row_bytes / size : 1, rows = h ? h->count : x->elements;
        ret->tags[t] = xalloc_large((size_t)(row * rows) + 1);
        for (int64_t i = 0; i < rows; i++)
            take_tags(a->list[t].tags + (h ? h->rows[i] * row : tensor_offset(x, i)) * size, size, row, ret->tags[t] + i * row);
    }
}

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
        free(a->list[i].data);
        free(a->list[i].initialised);
        free(a->list[i].tags);
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

void sim_lay_out(const struct device_program *p, const struct device_run *how, struct sim_arena *a)
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
        *to = (struct ptx_buffer){
            .address = address, .bytes = bytes, .data = xalloc_large(bytes ? bytes : 1), .writable = b->writable};
        snprintf(to->name, sizeof to->name, "%s", b->name);
        to->frozen = a->frozen[i] = b->writable ? gaps_of(b->tensor, bytes) : NULL;
        if (b->writable && b->tensor && how->sample_budget && !p->whole)
            to->tags = memset(xalloc_large(bytes ? bytes : 1), 0, bytes);
        if (b->output) {
            to->initialised = xalloc(bytes / 8 + 8);
            fill_pattern(to->data, bytes, how->poison);
        } else if (bytes) {
            memcpy(to->data, how->tensors[i], bytes);
        }
        cursor = address + bytes;
    }
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
        for (size_t n = 0; n < b->bytes && before && b->tags; n++)
            b->data[n] = b->tags[n] ? b->data[n] : before[n];
    }
}

void sim_take_tags(const struct device_program *p, const struct sim_arena *a, struct device_run_result *ret)
{
    for (int t = 0; t < p->tensor_count; t++) {
        const struct tensor *x = &p->tensors[t];
        const int64_t size = dtype_bytes(x->dtype);
        if (!a->list[t].tags)
            continue;
        ret->tags[t] = xalloc_large((size_t)x->elements + 1);
        for (int64_t i = 0; i < x->elements; i++) {
            const uint8_t *at = a->list[t].tags + tensor_offset(x, i) * size;
            ret->tags[t][i] = at[0];
            for (int64_t k = 1; k < size; k++)
                ret->tags[t][i] = at[k] ? ret->tags[t][i] : 0;
        }
    }
}

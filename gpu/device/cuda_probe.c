/*
 * Launch after launch at the same addresses. A kernel that keeps count, or knows its buffers again, or leaves itself something where
 * no buffer is, goes on doing so here, and one of these launches gives other bits than the first.
 *
 * Of each launch's outputs a sum is taken on the card: copying a thousand of them would take longer than the launches. The last
 * launch's are copied, and judged by whoever asked, who knows what they must be.
 */
#include "core/clock.h"
#include "core/rng.h"
#include "gpu/device/cuda_api.h"
#include "gpu/device/spent.h"

#include <string.h>

#define AT_ONCE DEVICE_PROBE_AT_ONCE              /* launches between two looks at the clock, and at whether the card is still well */

struct cuda_series {
    struct device *device;
    struct memory memory;
    CUdeviceptr base[OP_MAX_TENSORS];     /* what inouts begin with */
    CUdeviceptr addresses[PROGRAM_MAX_BUFFERS];
    uint64_t poison;
    int tensor_count;
    int64_t launches;
};

void cuda_series_free(struct cuda_series *s)
{
    if (!s)
        return;
    for (int t = 0; t < s->tensor_count && !s->device->dead; t++)
        if (s->base[t])
            cu.cuMemFree(s->base[t]);
    memory_done(&s->memory);
    free(s);
}

static bool is_inout(const struct program_buffer *b)
{
    return b->tensor && b->writable && !b->output && b->bytes;
}

static bool begin(struct device_program *p, const struct device_probe *how, struct err *err)
{
    struct device *d = p->device;
    struct cuda_series *s = p->series = xalloc(sizeof *s);
    *s = (struct cuda_series){.device = d, .memory = {.device = d}, .poison = how->poison, .tensor_count = p->tensor_count};
    if (!memory_make(p, how->tensors, NULL, how->poison, how->place, &s->memory, err))
        return false;
    for (int i = 0; i < p->buffer_count; i++)
        s->addresses[i] = s->memory.list[i].address;
    for (int t = 0; t < p->tensor_count; t++)
        if (is_inout(&p->buffers[t]) && !CU(err, cuMemAlloc, &s->base[t], (size_t)p->buffers[t].bytes))
            return false;
    return true;
}

static bool content(struct device_program *p, const struct device_probe *how, struct err *err)
{
    struct cuda_series *s = p->series;
    for (int t = 0; t < p->tensor_count; t++) {
        const struct program_buffer *b = &p->buffers[t];
        if (is_inout(b) ? !helper_upload(p->device, s->base[t], how->tensors[t], (size_t)b->bytes, err)
                        : how->again && !b->output && !guarded_fill(p->device, &s->memory.list[t], b, how->tensors[t], err))
            return false;
    }
    return CU(err, cuStreamSynchronize, p->device->stream);
}

/* Outputs are poisoned alike each time, since what a strided one has between its rows is part of its sum; workspaces in turn. */
static bool restore(const struct device_program *p, const struct cuda_series *s, struct err *err)
{
    struct piece pieces[PROGRAM_MAX_BUFFERS];
    int count = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        const struct program_buffer *b = &p->buffers[i];
        struct piece piece = {.to = s->addresses[i], .bytes = (uint64_t)b->bytes, .element = 1, .pattern = s->poison};
        if (is_inout(b))
            piece.from = s->base[i];
        else if (!b->output)
            continue;
        else if (!b->tensor && s->launches % 2)
            piece.pattern = ~s->poison;
        pieces[count++] = piece;
    }
    return helper_restore(p->device, pieces, count, err);
}

static bool launch(struct device_program *p, const struct device_probe *how, int at, struct device_fault *fault, struct err *err)
{
    struct cuda_series *s = p->series;
    struct device *d = p->device;
    const uint32_t pattern = (uint32_t)rng_mix(how->salt);
    /* of new content too what the launch before left is there once: it was of other content */
    const int which = at ? (int)(s->launches % 3) : how->again ? 0 : 1;
    if (!restore(p, s, err) || (which && !scrub(d, which == 1 ? pattern : ~pattern, p->local_bytes, err)))
        return false;
    for (int i = 0; i < p->plan.step_count; i++) {
        CUresult r = step_launch(p, i, s->addresses);
        if (r != CUDA_SUCCESS)
            return fault_from_cu(fault, r, &p->plan, i, err);
    }
    for (int t = 0; t < p->tensor_count; t++)
        if (p->buffers[t].writable && !prints_add(d, at, s->addresses[t], (uint64_t)p->buffers[t].bytes, how->salt + (uint64_t)t, err))
            return false;
    s->launches++;
    return true;
}

/* A fault comes back with whatever call comes next, ours as well. */
static bool settled(struct device_program *p, bool ours, struct device_fault *fault, struct err *err)
{
    CUresult r = cu.cuStreamSynchronize(p->device->stream);
    if (r == CUDA_SUCCESS)
        return ours;
    p->device->dead = true;
    return fault_from_cu(fault, r, &p->plan, p->plan.step_count == 1 ? 0 : -1, err);
}

static bool goes_on(const struct device_probe *how, int made, int64_t took_ns)
{
    if (made < AT_ONCE || took_ns < how->wall_ns)
        return true;
    return made < how->least && (!how->least_wall_ns || took_ns < how->least_wall_ns);
}

static bool launches(struct device_program *p, const struct device_probe *how, struct device_probe_result *ret, struct device_fault *fault,
                     struct err *err)
{
    const int64_t from_ns = clock_mono_ns();
    while (ret->launches < how->launches && goes_on(how, ret->launches, clock_mono_ns() - from_ns)) {
        bool ours = true;
        for (int n = 0; n < AT_ONCE && ours && ret->launches < how->launches && fault->code == VERDICT_OK; n++, ret->launches++)
            ours = launch(p, how, ret->launches, fault, err);
        if (fault->code != VERDICT_OK)
            return true;
        if (!settled(p, ours, fault, err))
            return false;
        if (fault->code != VERDICT_OK)
            return true;
    }
    return true;
}

static bool compare(struct device_program *p, struct device_probe_result *ret, struct err *err)
{
    uint64_t prints[SCRUB_PRINTS];
    if (!prints_take(p->device, prints, err))
        return false;
    for (int i = 1; i < ret->launches && !ret->differs; i++)
        if (prints[i] != prints[0])
            ret->differs = i + 1;
    return true;
}

bool cuda_probe(struct device_program *p, const struct device_probe *how, struct device_probe_result *ret, struct device_fault *fault,
                struct err *err)
{
    _Static_assert(DEVICE_PROBE_LAUNCHES <= SCRUB_PRINTS, "a sum for each launch");
    if (!cuda_alive(p->device, err))
        return false;
    if (how->launches < 0 || how->launches > DEVICE_PROBE_LAUNCHES || (how->again && !p->series))
        return err_set(err, ERR_INVALID, "a probe of %d launches%s", how->launches, how->again ? " in buffers that are not there" : "");
    ret->launches = ret->differs = 0;
    ret->guards_intact = true;
    if (!how->again || !how->launches) {
        cuda_series_free(p->series);
        p->series = NULL;
    }
    if (!how->launches)
        return true;
    if ((!how->again && !begin(p, how, err)) || !content(p, how, err) || !prints_clear(p->device, err))
        return false;
    const int64_t from_ns = clock_mono_ns();
    if (!launches(p, how, ret, fault, err))
        return false;
    spent_add(SPENT_LAUNCH, from_ns);
    if (fault->code != VERDICT_OK)
        return true;
    return compare(p, ret, err) && memory_take(p, &p->series->memory, NULL, p->series->poison, ret->tensors, &ret->guards_intact, fault, err);
}

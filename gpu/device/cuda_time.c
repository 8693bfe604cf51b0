/*
 * Timing, "graph-rotated": one graph of N copies of the plan in a chain, each on a buffer set of its own.
 *
 * All sets lie packed in one allocation, together at least what the caller asks (five times L2), so what one launch leaves in L2
 * is gone when its set's turn comes again. Each set holds the base content turned by its own number of elements, so no launch
 * can reuse what another computed. Before each sample inouts are restored, outputs and workspaces poisoned (a launch that does
 * nothing is seen), the order of the sets is drawn anew and the graph built anew. There is no untimed launch: it would change
 * inouts. Restoring leaves dirty lines in L2, whose write-back would be charged to the first launches; so a sweep of reads over
 * memory that nobody else uses follows it, twice the size of L2, and the timed graph starts with an L2 full of foreign, clean lines.
 */
#include "core/rng.h"
#include "gpu/device/cuda_sets.h"

#include <string.h>

/* Every buffer of every set is at least so aligned, as a caller's allocator would do it: cuMemAlloc gives no less, and offsets and
 * sizes of sets are multiples of it. */
#define SET_ALIGNMENT ((size_t)256)
#define SHARE_OF_FREE 2           /* sets take at most this fraction (1/n) of the free memory */

void cuda_sets_free(struct cuda_sets *s)
{
    if (!s)
        return;
    if (!s->device->dead) {
        if (s->graph)
            cu.cuGraphExecDestroy(s->graph);
        cu.cuMemFree(s->all);
        cu.cuMemFree(s->sweep);
        for (int t = 0; t < s->tensor_count; t++)
            cu.cuMemFree(s->base[t]);
        if (s->begin)
            cu.cuEventDestroy(s->begin);
        if (s->end)
            cu.cuEventDestroy(s->end);
    }
    free(s->rotations);
    free(s->pieces);
    free(s->order);
    free(s);
}
DEFINE_CLEANUP(sets, struct cuda_sets *, cuda_sets_free(*it))

static CUdeviceptr address_of(const struct cuda_sets *s, int set, int buffer)
{
    return s->all + (size_t)set * s->set_bytes + s->offsets[buffer];
}

void sets_addresses(const struct device_program *p, int set, CUdeviceptr *ret)
{
    for (int i = 0; i < p->buffer_count; i++)
        ret[i] = address_of(p->sets, set, i);
}

static bool choose_size(const struct device_program *p, const struct device_time_setup *how, struct cuda_sets *s,
                        struct device_fault *fault, struct err *err)
{
    size_t free_bytes = 0, total_bytes = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        s->offsets[i] = s->set_bytes;
        s->set_bytes += ((size_t)p->buffers[i].bytes + SET_ALIGNMENT - 1) / SET_ALIGNMENT * SET_ALIGNMENT;
    }
    if (!s->set_bytes)
        s->set_bytes = SET_ALIGNMENT;
    if (!CU(err, cuMemGetInfo, &free_bytes, &total_bytes))
        return false;
    int64_t wanted = how->rotate_bytes_least / (int64_t)s->set_bytes + 2,
            most = (int64_t)(free_bytes / SHARE_OF_FREE / s->set_bytes);
    /* What others hold is nobody's fault here; what no card of this size has room for is the candidate's. */
    if (most < 2 && (int64_t)(total_bytes / SHARE_OF_FREE / s->set_bytes) >= 2)
        return err_set(err, ERR_UNAVAILABLE, "the card has %zu of its %zu bytes free: two sets of buffers of %zu bytes need half of that",
                       free_bytes, total_bytes, s->set_bytes);
    if (most < 2)
        return fault_set(fault, VERDICT_RESOURCE_LIMIT, NULL,
                         "two sets of buffers and workspaces (%zu bytes each) do not fit into half of the free memory",
                         s->set_bytes);
    s->count = (int)(wanted > how->max_sets ? how->max_sets : wanted);
    if (s->count > most)
        s->count = (int)most;
    if (s->count < 1)
        s->count = 1;
    return true;
}

static bool upload_base(const struct device_program *p, const struct device_time_setup *how, struct cuda_sets *s,
                        struct err *err)
{
    for (int t = 0; t < p->tensor_count; t++) {
        size_t bytes = (size_t)p->buffers[t].bytes;
        if (p->buffers[t].output || !bytes)
            continue;
        if (!CU(err, cuMemAlloc, &s->base[t], bytes) ||
            !helper_upload(p->device, s->base[t], how->tensors[t], bytes, err))
            return err_wrap(err, "base content of %s", p->buffers[t].name);
    }
    return true;
}

/* Rotations by whole 16-byte words where the tensor has them, so that restoring is one wide copy. */
static void draw_rotations(const struct device_program *p, const struct device_time_setup *how, struct cuda_sets *s)
{
    for (int set = 0; set < s->count; set++)
        for (int t = 0; t < p->tensor_count; t++) {
            const struct tensor *tensor = &p->tensors[t];
            int size = dtype_bytes(tensor->dtype);
            int64_t step = tensor->bytes % 16 == 0 ? 16 / size : 1, places = tensor->span_elements / step;
            if (how->rotate[t] && !p->buffers[t].output && places > 1)
                s->rotations[set * s->tensor_count + t] =
                    (int64_t)rng_below(how->seed, (uint64_t)t, (uint64_t)set, (uint64_t)places) * step;
        }
}

/* The first `sets` in their order. */
static bool restore(struct device_program *p, struct cuda_sets *s, int sets, bool inputs_too, struct err *err)
{
    int count = 0;
    for (int n = 0; n < sets; n++)
        for (int i = 0; i < p->buffer_count; i++) {
            const struct program_buffer *b = &p->buffers[i];
            int set = s->order[n];
            if (!b->writable && !inputs_too)
                continue;
            s->pieces[count++] =
                (struct piece){.to = address_of(s, set, i),
                               .from = b->output ? 0 : s->base[i],
                               .bytes = (uint64_t)b->bytes,
                               .pattern = s->poison,
                               .rotate = b->output ? 0 : (uint64_t)s->rotations[set * s->tensor_count + i],
                               .element = b->tensor ? (uint32_t)dtype_bytes(b->tensor->dtype) : 1};
        }
    return helper_restore(p->device, s->pieces, count, err);
}

bool sets_restore(struct device_program *p, int sets, struct err *err)
{
    return restore(p, p->sets, sets, false, err);
}

bool cuda_time_setup(struct device_program *p, const struct device_time_setup *how, int *ret_sets,
                     struct device_fault *fault, struct err *err)
{
    struct device *d = p->device;
    if (!cuda_alive(d, err))
        return false;
    cuda_sets_free(steal(&p->sets));
    cleanup(sets) struct cuda_sets *s = xalloc(sizeof *s);
    s->device = d;
    s->tensor_count = p->tensor_count;
    if (how->max_sets < 1)
        return err_set(err, ERR_INVALID, "timing needs at least one set of buffers");
    if (!choose_size(p, how, s, fault, err))
        return false;
    if (fault->code != VERDICT_OK)
        return true;
    s->poison = rng_at(how->seed, 0x706f, 0) | 1;
    s->sweep_bytes = (size_t)d->info.l2_bytes * 2;
    s->rotations = xarray((size_t)s->count * (size_t)(s->tensor_count ? s->tensor_count : 1), sizeof *s->rotations);
    s->pieces = xarray((size_t)s->count * (size_t)p->buffer_count + 1, sizeof *s->pieces);
    s->order = xarray((size_t)s->count, sizeof *s->order);
    struct piece clean = {.bytes = s->sweep_bytes};
    if (!upload_base(p, how, s, err) || !CU(err, cuMemAlloc, &s->all, s->set_bytes * (size_t)s->count) ||
        !CU(err, cuMemAlloc, &s->sweep, s->sweep_bytes) || !CU(err, cuEventCreate, &s->begin, CU_EVENT_DEFAULT) ||
        !CU(err, cuEventCreate, &s->end, CU_EVENT_DEFAULT))
        return err_wrap(err, "buffers for timing");
    draw_rotations(p, how, s);
    for (int set = 0; set < s->count; set++)
        s->order[set] = set;
    clean.to = s->sweep;
    if (!helper_restore(d, &clean, 1, err) || !CU(err, cuStreamSynchronize, d->stream) || !restore(p, s, s->count, true, err) ||
        !CU(err, cuStreamSynchronize, d->stream))
        return false;
    *ret_sets = s->count;
    p->sets = steal(&s);
    return true;
}

/* Captured from the stream: the launches are then the same calls, with the same attributes, as in a guarded run. */
bool sets_graph(struct device_program *p, int launches, struct device_fault *fault, struct err *err)
{
    struct cuda_sets *s = p->sets;
    CUgraph graph = NULL;
    CUresult r = CUDA_SUCCESS;
    int failed_step = -1;
    if (s->graph) {
        cu.cuGraphExecDestroy(s->graph);
        s->graph = NULL;
    }
    if (!CU(err, cuStreamBeginCapture, p->device->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        return false;
    for (int n = 0; n < launches && r == CUDA_SUCCESS; n++) {
        CUdeviceptr addresses[PROGRAM_MAX_BUFFERS];
        sets_addresses(p, s->order[n], addresses);
        for (int i = 0; i < p->plan.step_count && r == CUDA_SUCCESS; i++) {
            r = step_launch(p, i, addresses);
            failed_step = i;
        }
    }
    CUresult ended = cu.cuStreamEndCapture(p->device->stream, &graph);
    if (r != CUDA_SUCCESS)
        return fault_from_cu(fault, r, &p->plan, failed_step, err);
    if (ended != CUDA_SUCCESS)
        return err_from_cu(err, ended, "cuStreamEndCapture");
    r = cu.cuGraphInstantiate(&s->graph, graph, 0);
    cu.cuGraphDestroy(graph);
    if (r != CUDA_SUCCESS)
        return fault_from_cu(fault, r, &p->plan, -1, err);
    return CU(err, cuGraphUpload, s->graph, p->device->stream);
}

bool sets_sweep(struct device *d, const struct cuda_sets *s, struct err *err)
{
    uint64_t words = s->sweep_bytes / 16;
    CUdeviceptr from = s->sweep;
    void *args[] = {&from, &words, &d->found};
    return helper_launch(d, d->read, 4 * (unsigned)d->info.sm_count, 512, 0, args, err);
}

bool sets_flush(struct device *d, const struct cuda_sets *s, struct err *err)
{
    struct piece all = {.to = s->sweep, .bytes = s->sweep_bytes};
    return helper_restore(d, &all, 1, err) && sets_sweep(d, s, err);
}

bool sets_launch(struct device_program *p, struct device_sample *ret, struct device_fault *fault, struct err *err)
{
    struct device *d = p->device;
    struct cuda_sets *s = p->sets;
    int64_t from = raw_ns();
    CUresult r = cu.cuEventRecord(s->begin, d->stream);
    if (r == CUDA_SUCCESS)
        r = cu.cuGraphLaunch(s->graph, d->stream);
    if (r == CUDA_SUCCESS)
        r = cu.cuEventRecord(s->end, d->stream);
    if (r == CUDA_SUCCESS)
        r = cu.cuCtxSynchronize(); /* everything, not our stream alone: work that hides elsewhere is in the wall time */
    int64_t wall_ns = raw_ns() - from;
    if (r != CUDA_SUCCESS) {
        d->dead = true;
        return fault_from_cu(fault, r, &p->plan, -1, err);
    }
    float ms = 0;
    if (!CU(err, cuEventElapsedTime, &ms, s->begin, s->end))
        return false;
    *ret = (struct device_sample){.event_ns = (int64_t)((double)ms * 1e6 + 0.5),
                                  .wall_ns = wall_ns,
                                  .sm_clock_mhz = nvml_sm_clock_mhz(d->bus_id),
                                  .clock_reasons = nvml_clock_reasons(d->bus_id)};
    return true;
}

bool cuda_time_block(struct device_program *p, const struct device_time_block *how, struct device_sample *ret,
                     struct device_fault *fault, struct err *err)
{
    struct device *d = p->device;
    struct cuda_sets *s = p->sets;
    struct device_sample sample = {0};
    if (!cuda_alive(d, err))
        return false;
    if (!s || how->launches < 1)
        return err_set(err, ERR_INVALID, "a timing block needs a set-up and at least one launch");
    /* Never two launches on one set in one graph: the second would find its inputs in L2 and its inouts changed. */
    int launches = how->launches > s->count ? s->count : how->launches;
    device_set_order(how->order_seed, s->count, s->order);
    if (!sets_graph(p, launches, fault, err) || fault->code != VERDICT_OK)
        return fault->code != VERDICT_OK;
    if (!sets_restore(p, launches, err) || !sets_sweep(d, s, err) || !CU(err, cuStreamSynchronize, d->stream))
        return false;
    if (!sets_launch(p, &sample, fault, err) || fault->code != VERDICT_OK)
        return fault->code != VERDICT_OK;
    s->launches = sample.launches = launches;
    *ret = sample;
    return true;
}

static bool valid_set(const struct device_program *p, int set, struct err *err)
{
    if (!p->sets || set < 0 || set >= p->sets->count)
        return err_set(err, ERR_INVALID, "no set %d of buffers", set);
    return cuda_alive(p->device, err);
}

bool cuda_time_output(struct device_program *p, int set, int t, void *ret_bytes, struct err *err)
{
    if (!valid_set(p, set, err))
        return false;
    if (t < 0 || t >= p->tensor_count)
        return err_set(err, ERR_INVALID, "no tensor %d", t);
    bool used = false;
    for (int i = 0; i < p->sets->launches; i++)
        used |= p->sets->order[i] == set;
    if (!used)
        return err_set(err, ERR_INVALID, "set %d was not launched in the last block (%d of %d sets were)", set,
                       p->sets->launches, p->sets->count);
    return !p->buffers[t].bytes ||
           CU(err, cuMemcpyDtoH, ret_bytes, address_of(p->sets, set, t), (size_t)p->buffers[t].bytes);
}

bool cuda_time_rotation(struct device_program *p, int set, int64_t *ret_rotation, struct err *err)
{
    if (!valid_set(p, set, err))
        return false;
    memcpy(ret_rotation, p->sets->rotations + (size_t)set * (size_t)p->tensor_count,
           (size_t)p->tensor_count * sizeof *ret_rotation);
    return true;
}

/*
 * Timing, "graph-rotated": one graph of N copies of the plan in a chain, each on a buffer set of its own.
 *
 * Before each sample it is drawn anew (cuda_sets.c) which sets are launched and in what order, and what they hold:
 * windows of the contents that were given, drawn for each, so no launch can reuse what another computed, in this block or an
 * earlier one; outputs and workspaces hold poison (a launch that does nothing is seen). Shared memory and registers are overwritten. The
 * graph is instantiated anew after every few samples, a block of a side's; between them its launches get the new sets.
 * There is no untimed launch: it would change inouts. Restoring leaves dirty lines in L2, whose write-back would be charged to the
 * first launches; so a sweep of reads over memory that nobody else uses follows it, twice the size of L2, and the timed graph starts
 * with an L2 full of foreign, clean lines. After the sample the sets are looked at (cuda_sets_check.c), and what was found ends the timing.
 */
#include "core/clock.h"
#include "core/hash.h"
#include "gpu/device/cuda_sets.h"
#include "gpu/device/spent.h"

#include <string.h>

#define SAMPLES_OF_A_GRAPH 4            /* a side's in a block of the shortest measurement */

/* New launches for a graph of as many: a third of the time that instantiating it takes. */
static bool update(struct cuda_sets *s, CUgraph graph, int launches)
{
    CUgraphExecUpdateResultInfo why;
    const bool may = s->graph && s->graph_launches == launches && s->graph_uses < SAMPLES_OF_A_GRAPH;
    if (may && cu.cuGraphExecUpdate(s->graph, graph, &why) == CUDA_SUCCESS) {
        s->graph_uses++;
        return true;
    }
    if (s->graph)
        cu.cuGraphExecDestroy(s->graph);
    s->graph = NULL, s->graph_launches = launches, s->graph_uses = 1;
    return false;
}

/* Captured from the stream: the launches are then the same calls, with the same attributes, as in a guarded run. */
bool sets_graph(struct device_program *p, int launches, struct device_fault *fault, struct err *err)
{
    struct cuda_sets *s = p->sets;
    CUgraph graph = NULL;
    CUresult r = CUDA_SUCCESS;
    int failed_step = -1;
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
    if (!update(s, graph, launches))
        r = cu.cuGraphInstantiate(&s->graph, graph, 0);
    cu.cuGraphDestroy(graph);
    if (r != CUDA_SUCCESS)
        return fault_from_cu(fault, r, &p->plan, -1, err);
    return CU(err, cuGraphUpload, s->graph, p->device->stream);
}

void sets_clock(const struct device *d, struct device_sample *ret)
{
    ret->sm_clock_mhz = nvml_sm_clock_mhz(d->bus_id);
    ret->clock_reasons = nvml_clock_reasons(d->bus_id);
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
    *ret = (struct device_sample){.event_ns = (int64_t)((double)ms * 1e6 + 0.5), .wall_ns = wall_ns, .launches = s->drawn};
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
    const int most = device_most_launches(s->count), launches = how->launches > most ? most : how->launches;
    s->launches = 0;
    /* The graph is made by the host while the card restores. */
    const int64_t from_ns = clock_mono_ns();
    if (!sets_draw(p, how->order_seed, launches, err) || !sets_restore(p, err))
        return false;
    spent_add(SPENT_DRAW, from_ns);
    const int64_t graph_ns = clock_mono_ns();
    if (!sets_graph(p, launches, fault, err) || fault->code != VERDICT_OK)
        return fault->code != VERDICT_OK;
    spent_add(SPENT_GRAPH, graph_ns);
    const int64_t restore_ns = clock_mono_ns();
    if (!scrub(d, (uint32_t)random_u64(), p->local_bytes, err) || !sets_sweep(d, s, err) ||
        !CU(err, cuStreamSynchronize, d->stream))
        return false;
    spent_add(SPENT_RESTORE, restore_ns);
    const int64_t timed_ns = clock_mono_ns();
    if (!sets_launch(p, &sample, fault, err) || fault->code != VERDICT_OK)
        return fault->code != VERDICT_OK;
    spent_add(SPENT_TIMED, timed_ns);
    const int64_t look_ns = clock_mono_ns();
    if (!sets_look_begin(p, err))
        return false;
    const int64_t clock_ns = clock_mono_ns();
    sets_clock(d, &sample);
    spent_add(SPENT_CLOCK, clock_ns);
    if (!sets_look_end(p, sets_replays(), fault, err) || fault->code != VERDICT_OK)
        return fault->code != VERDICT_OK;
    spent_add(SPENT_LOOK, look_ns);
    s->launches = launches;
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
    CUdeviceptr addresses[PROGRAM_MAX_BUFFERS];
    sets_addresses(p, set, addresses);
    return !p->buffers[t].bytes || CU(err, cuMemcpyDtoH, ret_bytes, addresses[t], (size_t)p->buffers[t].bytes);
}

bool cuda_time_windows(struct device_program *p, int set, struct device_windows *ret, struct err *err)
{
    if (!valid_set(p, set, err))
        return false;
    memcpy(ret, p->sets->windows + (size_t)set * (size_t)p->tensor_count, (size_t)p->tensor_count * sizeof *ret);
    return true;
}

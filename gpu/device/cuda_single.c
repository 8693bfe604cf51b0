/*
 * The other two modes, and warming up. None of their figures is ever compared with a figure of another mode.
 *
 *   cold, isolated   one launch after a flush of L2: memory of nobody's, twice the size of L2, is written and then read. Written, so that
 *                    what the candidate left is gone whatever it hinted; read, so that the lines left behind are mostly clean and their
 *                    write-back is not charged to the launch. Events around one launch say 5 us too much for a short kernel: the duration
 *                    is the tracing library's (cuda_audit.c), the events' value is kept to check it by.
 *   eager            one launch from the host after another, each waited for: wall clock. What a caller without graphs gets.
 *   both           each launch, or each turn, has everything drawn anew, and what it left is looked at afterwards as after a timed graph
 *   warming up       one graph again and again until the card was busy with it and its clock stands still. Nothing of it is a sample.
 */
#include "core/hash.h"
#include "gpu/device/cuda_sets.h"

#define EMPTY_LAUNCHES 9
#define CLOCK_PROBES 5
#define CLOCK_STABLE 0.01

static bool ready(const struct device_program *p, int launches, struct err *err)
{
    if (!cuda_alive(p->device, err))
        return false;
    return (p->sets && launches > 0) || err_set(err, ERR_INVALID, "launches need a set-up, and at least one of them");
}

/* One launch of the plan; a failure that comes back here has ended the context. */
static CUresult launch_plan(const struct device_program *p, int set, int *ret_step)
{
    CUdeviceptr addresses[PROGRAM_MAX_BUFFERS];
    CUresult r = CUDA_SUCCESS;
    sets_addresses(p, set, addresses);
    for (*ret_step = 0; *ret_step < p->plan.step_count && r == CUDA_SUCCESS; ++*ret_step)
        r = step_launch(p, *ret_step, addresses);
    --*ret_step;
    return r;
}

static bool ended(struct device_program *p, CUresult r, int step, struct device_fault *fault, struct err *err)
{
    p->device->dead = true;
    return fault_from_cu(fault, r, &p->plan, step, err);
}

/* On a set of its own, nothing of an earlier launch's left anywhere: not even in a workspace. */
static bool cold_launch(struct device_program *p, double *ret_event_ns, struct device_fault *fault, struct err *err)
{
    struct device *d = p->device;
    struct cuda_sets *s = p->sets;
    int step = -1;
    float ms = 0;
    if (!sets_draw(p, random_u64(), 1, err) || !sets_restore(p, err) ||
        !scrub(d, (uint32_t)random_u64(), p->local_bytes, err) || !sets_flush(d, s, err) || !CU(err, cuStreamSynchronize, d->stream))
        return false;
    CUresult r = cu.cuEventRecord(s->begin, d->stream);
    if (r == CUDA_SUCCESS)
        r = launch_plan(p, s->order[0], &step);
    if (r == CUDA_SUCCESS)
        r = cu.cuEventRecord(s->end, d->stream);
    if (r == CUDA_SUCCESS)
        r = cu.cuStreamSynchronize(d->stream);
    if (r != CUDA_SUCCESS)
        return ended(p, r, step, fault, err);
    if (!CU(err, cuEventElapsedTime, &ms, s->begin, s->end))
        return false;
    *ret_event_ns = (double)ms * 1e6;
    return sets_look_begin(p, err) && sets_look_end(p, true, fault, err);
}

bool cuda_time_cold(struct device_program *p, int launches, struct device_audit_result *ret, struct device_fault *fault, struct err *err)
{
    struct device *d = p->device;
    if (!ready(p, launches, err))
        return false;
    p->sets->launches = 0;              /* no block's outputs are there any more */
    ret->flush_bytes = (int64_t)p->sets->sweep_bytes;
    ret->cold_count = 0;
    /* What nothing takes, by the same clock. */
    for (int n = 0; n < EMPTY_LAUNCHES; n++)
        if (!helper_launch(d, d->empty, 1, 32, 0, NULL, err))
            return false;
    for (int n = 0; n < launches && n < DEVICE_MAX_COLD && fault->code == VERDICT_OK; n++)
        if (!cold_launch(p, &ret->cold_event_ns[ret->cold_count++], fault, err))
            return false;
    return true;
}

bool cuda_time_eager(struct device_program *p, const struct device_time_block *how, int64_t *ret_wall_ns,
                     struct device_fault *fault, struct err *err)
{
    struct device *d = p->device;
    if (!ready(p, how->launches, err))
        return false;
    struct cuda_sets *s = p->sets;
    s->launches = 0;
    if (!sets_draw(p, how->order_seed, how->launches, err) || !sets_restore(p, err) ||
        !scrub(d, (uint32_t)random_u64(), p->local_bytes, err) || !sets_sweep(d, s, err) || !CU(err, cuStreamSynchronize, d->stream))
        return false;
    for (int n = 0; n < how->launches; n++) {
        int step = -1;
        int64_t from = raw_ns();
        CUresult r = launch_plan(p, s->order[n], &step);
        if (r == CUDA_SUCCESS)
            r = cu.cuStreamSynchronize(d->stream);
        ret_wall_ns[n] = raw_ns() - from;
        if (r != CUDA_SUCCESS)
            return ended(p, r, step, fault, err);
    }
    return sets_look_begin(p, err) && sets_look_end(p, true, fault, err);
}

bool cuda_time_warm(struct device_program *p, const struct device_time_warm *how, struct device_sample *ret,
                    struct device_fault *fault, struct err *err)
{
    double last[CLOCK_PROBES] = {0};
    int64_t busy_ns = 0, cap_ns = raw_ns() + how->cap_ns;
    if (!ready(p, how->launches, err))
        return false;
    struct cuda_sets *s = p->sets;
    const int most = device_most_launches(s->count), launches = how->launches < most ? how->launches : most;
    s->launches = 0;
    if (!sets_draw(p, how->order_seed, launches, err) || !sets_restore(p, err))
        return false;
    if (!sets_graph(p, launches, fault, err) || fault->code != VERDICT_OK)
        return fault->code != VERDICT_OK;
    const int64_t begun_ns = raw_ns();
    for (int i = 0;; i++) {
        /* Restored each time: an index that a launch moved on must not run away. */
        if ((i && !sets_restore_used(p, err)) || !sets_launch(p, ret, fault, err) || fault->code != VERDICT_OK)
            return fault->code != VERDICT_OK;
        sets_clock(p->device, ret);
        busy_ns = raw_ns() - begun_ns;       /* restoring keeps a card as busy */
        last[i % CLOCK_PROBES] = ret->sm_clock_mhz;
        double low = last[0], high = last[0];
        for (int k = 1; k < CLOCK_PROBES; k++)
            low = last[k] < low ? last[k] : low, high = last[k] > high ? last[k] : high;
        bool steady = i >= CLOCK_PROBES - 1 && high - low <= CLOCK_STABLE * high;
        if ((busy_ns >= how->busy_ns && steady) || raw_ns() >= cap_ns)
            break;
    }
    return sets_look_begin(p, err) && sets_look_end(p, false, fault, err);
}

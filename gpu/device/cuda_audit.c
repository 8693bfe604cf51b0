/*
 * Audit: what CUPTI saw on the card while one timed graph ran, and while the plan ran on its own after a sweep of L2, record by
 * record. Nothing is judged here: the supervisor compares the records with the plan.
 *
 * CUPTI is opened before the driver starts and its buffers stand before anything is launched: attached late it has lost records,
 * and memory made within the timed span would show in it. The process is used for nothing else; its times are never published as
 * the kernel's speed in a graph, because tracing has a cost of its own.
 */
#include "core/rng.h"
#include "gpu/device/cuda_sets.h"
#include "gpu/device/library.h"

#include <cupti.h>
#include <pthread.h>
#include <string.h>

#define TRACE_BUFFER_BYTES ((size_t)4 << 20)
#define TRACE_BUFFERS 4
#define RECORDS_SINCE 130000            /* API version whose kernel record is the one read here */

#define CUPTI_TABLE(X)                                                                                                     \
    X(cuptiActivityEnable) X(cuptiActivityRegisterCallbacks) X(cuptiActivityFlushAll) X(cuptiActivityGetNextRecord)        \
    X(cuptiActivityGetNumDroppedRecords) X(cuptiGetResultString) X(cuptiGetVersion)

static struct {
#define X(fn) __typeof__(&fn) fn;
    CUPTI_TABLE(X)
#undef X
} cupti;

/* What the callbacks fill; CUPTI calls them from threads of its own, and while cuptiActivityFlushAll waits. */
static struct trace {
    bool on;
    uint8_t *free[TRACE_BUFFERS];
    int free_count;
    struct device_record *list;
    int count, capacity;
    uint64_t dropped, unknown;
    pthread_mutex_t lock;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct device_record *record_new(struct trace *t)
{
    if (t->count == t->capacity) {
        t->dropped++;
        return NULL;
    }
    t->list[t->count] = (struct device_record){0};
    return &t->list[t->count++];
}

static void take_kernel(struct trace *t, const CUpti_ActivityKernel10 *k)
{
    struct device_record *r = record_new(t);
    if (!r)
        return;
    r->kind = DEVICE_RECORD_KERNEL;
    snprintf(r->name, sizeof r->name, "%s", k->name ? k->name : "");
    r->start_ns = (int64_t)k->start, r->end_ns = (int64_t)k->end, r->completed_ns = (int64_t)k->completed;
    const int32_t grid[3] = {k->gridX, k->gridY, k->gridZ}, block[3] = {k->blockX, k->blockY, k->blockZ};
    const uint32_t cluster[3] = {k->clusterX, k->clusterY, k->clusterZ};
    for (int i = 0; i < 3; i++)
        r->grid[i] = (uint32_t)grid[i], r->block[i] = (uint32_t)block[i], r->cluster[i] = cluster[i];
    r->registers = k->registersPerThread;
    r->static_shared_bytes = k->staticSharedMemory, r->dynamic_shared_bytes = k->dynamicSharedMemory;
    r->local_bytes_thread = k->localMemoryPerThread;
    r->stream = k->streamId, r->graph = k->graphId, r->context = k->contextId;
    r->device_launched = k->isDeviceLaunched != 0;
    r->access_policy = k->pAccessPolicyWindow && k->pAccessPolicyWindow->num_bytes != 0;
}

static void take(struct trace *t, const CUpti_Activity *a)
{
    struct device_record *r = NULL;
    switch ((int)a->kind) {
    case CUPTI_ACTIVITY_KIND_CDP_KERNEL: /* another struct: all that matters is that there is one */
        if ((r = record_new(t)))
            r->kind = DEVICE_RECORD_KERNEL, r->device_launched = true;
        return;
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
        take_kernel(t, (const CUpti_ActivityKernel10 *)(const void *)a);
        return;
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const CUpti_ActivityMemcpy6 *m = (const void *)a;
        if ((r = record_new(t)))
            *r = (struct device_record){.kind = DEVICE_RECORD_MEMCPY, .start_ns = (int64_t)m->start, .end_ns = (int64_t)m->end,
                                        .bytes = (int64_t)m->bytes, .stream = m->streamId, .graph = m->graphId,
                                        .context = m->contextId, .device_launched = m->isDeviceLaunched != 0};
        return;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const CUpti_ActivityMemset4 *m = (const void *)a;
        if ((r = record_new(t)))
            *r = (struct device_record){.kind = DEVICE_RECORD_MEMSET, .start_ns = (int64_t)m->start, .end_ns = (int64_t)m->end,
                                        .bytes = (int64_t)m->bytes, .value = m->value, .stream = m->streamId,
                                        .graph = m->graphId, .context = m->contextId,
                                        .device_launched = m->isDeviceLaunched != 0};
        return;
    }
    case CUPTI_ACTIVITY_KIND_JIT:
        if ((r = record_new(t)))
            r->kind = DEVICE_RECORD_JIT;
        return;
    default:
        t->unknown++;
        return;
    }
}

static void CUPTIAPI buffer_wanted(uint8_t **ret_buffer, size_t *ret_size, size_t *ret_most)
{
    pthread_mutex_lock(&trace.lock);
    *ret_buffer = trace.free_count ? trace.free[--trace.free_count] : NULL;
    pthread_mutex_unlock(&trace.lock);
    *ret_size = *ret_buffer ? TRACE_BUFFER_BYTES : 0;
    *ret_most = 0;
}

static void CUPTIAPI buffer_done(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    size_t dropped = 0;
    CUpti_Activity *a = NULL;
    (void)size;
    pthread_mutex_lock(&trace.lock);
    while (buffer && valid && cupti.cuptiActivityGetNextRecord(buffer, valid, &a) == CUPTI_SUCCESS)
        if (trace.on)
            take(&trace, a);
    if (cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
        trace.dropped += dropped;
    if (buffer)
        trace.free[trace.free_count++] = buffer;
    pthread_mutex_unlock(&trace.lock);
}

static bool err_from_cupti(struct err *err, CUptiResult r, const char *call)
{
    const char *text = NULL;
    if (cupti.cuptiGetResultString(r, &text) != CUPTI_SUCCESS)
        text = "unknown error";
    return err_set(err, ERR_UNAVAILABLE, "%s: %s", call, text);
}

bool cuda_audit_prepare(const char *library, struct err *err)
{
    static const struct library_entry entries[] = {
#define X(fn) {#fn, (void **)&cupti.fn},
        CUPTI_TABLE(X)
#undef X
        {NULL, NULL}};
    static struct library cupti_library;
    static const struct { CUpti_ActivityKind kind; const char *name; } kinds[] = {
        {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels"}, {CUPTI_ACTIVITY_KIND_MEMCPY, "copies"},
        {CUPTI_ACTIVITY_KIND_MEMSET, "memsets"}, {CUPTI_ACTIVITY_KIND_JIT, "just-in-time compilation"}};
    if (!library_open(&cupti_library, library, entries, err))
        return false;
    uint32_t version = 0;
    if (cupti.cuptiGetVersion(&version) != CUPTI_SUCCESS || version < RECORDS_SINCE)
        return err_set(err, ERR_UNAVAILABLE, "%s has API version %u; its records are read from %d on", library, version, RECORDS_SINCE);
    for (int i = 0; i < TRACE_BUFFERS; i++)
        trace.free[trace.free_count++] = xalloc_large(TRACE_BUFFER_BYTES);
    trace.capacity = DEVICE_MAX_RECORDS;
    trace.list = xarray((size_t)trace.capacity, sizeof *trace.list);
    CUptiResult r = cupti.cuptiActivityRegisterCallbacks(buffer_wanted, buffer_done);
    if (r != CUPTI_SUCCESS)
        return err_from_cupti(err, r, "cuptiActivityRegisterCallbacks");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((r = cupti.cuptiActivityEnable(kinds[i].kind)) != CUPTI_SUCCESS)
            return err_from_cupti(err, r, kinds[i].name);
    return true;
}

/* Throws away what was collected and starts, or stops and gives it. */
static bool flush(struct err *err)
{
    CUptiResult r = cupti.cuptiActivityFlushAll(0);
    return r == CUPTI_SUCCESS || err_from_cupti(err, r, "cuptiActivityFlushAll");
}

static bool collect_begin(struct err *err)
{
    if (!flush(err))
        return false;
    pthread_mutex_lock(&trace.lock);
    trace.on = true;
    trace.count = 0, trace.dropped = trace.unknown = 0;
    pthread_mutex_unlock(&trace.lock);
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct device_record *x = a, *y = b;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool collect_end(struct device_trace *ret, struct err *err)
{
    if (!flush(err))
        return false;
    pthread_mutex_lock(&trace.lock);
    trace.on = false;
    ret->count = trace.count;
    ret->dropped = trace.dropped, ret->unknown = trace.unknown;
    ret->list = xarray((size_t)trace.count + 1, sizeof *ret->list);
    memcpy(ret->list, trace.list, (size_t)trace.count * sizeof *ret->list);
    pthread_mutex_unlock(&trace.lock);
    qsort(ret->list, (size_t)ret->count, sizeof *ret->list, by_start);
    return true;
}

bool cuda_audit(struct device_program *p, const struct device_audit *how, struct device_audit_result *ret,
                struct device_fault *fault, struct err *err)
{
    struct device_audit_result r = {0};
    const struct device_time_block block = {how->launches, how->order_seed};
    if (!trace.list)
        return err_set(err, ERR_INTERNAL, "the audit was not prepared before the device was opened");
    struct device *d = p->device;
    if (!p->sets)
        return err_set(err, ERR_INVALID, "an audit needs a set-up");
    p->sets->traced = true;
    if (!cuda_alive(d, err) || !collect_begin(err) || !cuda_time_block(p, &block, &r.sample, fault, err))
        return false;
    /* The launch behind the timed ones: what still runs when it begins ran on in secret. */
    if (fault->code == VERDICT_OK && (!helper_launch(d, d->empty, 1, 32, 0, NULL, err) || !CU(err, cuStreamSynchronize, d->stream)))
        return false;
    if (fault->code == VERDICT_OK && (!collect_end(&r.graph, err) || !collect_begin(err) ||
                                      !cuda_time_cold(p, how->cold_launches, &r, fault, err) ||
                                      (fault->code == VERDICT_OK && !collect_end(&r.cold, err)))) {
        device_audit_done(&r);
        return false;
    }
    *ret = r;
    return true;
}

/*
 * Profile: the card's counters while the plan runs, by CUPTI's range profiler. A chip counts a few things at a time, so the plan runs
 * once a pass, tens of them, and each pass begins alike: what launches write is put back, L2 is swept (written, then read: cuda_single.c).
 *
 * Ranges are CUPTI's own, one a kernel: it puts launches one after another and brackets each on the card, where brackets of the
 * caller's would count the host's launching too. So everything that is launched while it counts must be exactly one kernel a step, and a
 * memset is made by our own kernel. A process that does this is used for nothing else: no time of it is published.
 */
#include "gpu/device/cuda_sets.h"
#include "gpu/device/library.h"

#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_profiler_host.h>        /* its one include of C++ is nothing here: c_only/ */
#include <cupti_result.h>
#include <cupti_target.h>
#include <math.h>
#include <string.h>

#define PASSES_MOST 200
#define IMAGE_BYTES_MOST ((size_t)256 << 20)

#define CUPTI_TABLE(X)                                                                                                         \
    X(cuptiGetResultString) X(cuptiProfilerInitialize) X(cuptiProfilerDeInitialize) X(cuptiProfilerGetCounterAvailability)      \
    X(cuptiDeviceGetChipName) X(cuptiProfilerHostInitialize) X(cuptiProfilerHostDeinitialize) X(cuptiProfilerHostConfigAddMetrics) \
    X(cuptiProfilerHostGetConfigImageSize) X(cuptiProfilerHostGetConfigImage) X(cuptiProfilerHostGetNumOfPasses)               \
    X(cuptiProfilerHostEvaluateToGpuValues) X(cuptiRangeProfilerEnable) X(cuptiRangeProfilerDisable)                           \
    X(cuptiRangeProfilerGetCounterDataSize) X(cuptiRangeProfilerCounterDataImageInitialize) X(cuptiRangeProfilerSetConfig)     \
    X(cuptiRangeProfilerStart) X(cuptiRangeProfilerStop) X(cuptiRangeProfilerDecodeData) X(cuptiRangeProfilerGetCounterDataInfo)

static struct {
#define X(fn) __typeof__(&fn) fn;
    CUPTI_TABLE(X)
#undef X
} cupti;
static bool prepared;

static const char *const metrics[PROFILE_ITEMS] = {
#define X(name, metric) metric,
    PROFILE_FIGURES(X)
#undef X
#define X(name) PROFILE_STALL_METRIC(#name),
    PROFILE_STALLS(X)
#undef X
};

/*
 * All of them are this host's: a driver that lets only administrators count, a card in parts, a chip that the library does not know. That
 * somebody else has the counters just now is another matter: it may be over soon.
 */
static bool err_from_cupti(struct err *err, CUptiResult r, const char *call)
{
    const char *text = NULL;
    if (cupti.cuptiGetResultString(r, &text) != CUPTI_SUCCESS || !text)
        text = "unknown error";
    return err_set(err, r == CUPTI_ERROR_HARDWARE_BUSY ? ERR_BUSY : ERR_UNAVAILABLE, "%s: %s%s", call, text,
                   r == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? " (the driver lets administrators alone count: NVreg_RestrictProfilingToAdminUsers)" : "");
}

/* True if it succeeded; params is the address of its parameter block. */
#define CALL(err, fn, params)                                                            \
    __extension__({                                                                      \
        CUptiResult cupti_result_ = cupti.fn(params);                                    \
        cupti_result_ == CUPTI_SUCCESS || err_from_cupti((err), cupti_result_, #fn);     \
    })

bool cuda_profile_prepare(const char *library, struct err *err)
{
    static const struct library_entry entries[] = {
#define X(fn) {#fn, (void **)&cupti.fn},
        CUPTI_TABLE(X)
#undef X
        {NULL, NULL}}, none[] = {{NULL, NULL}};
    /* It opens these two by name: they are in no folder that is searched, but found when they are open. */
    static const char *const beside[] = {"libnvperf_host.so", "libnvperf_target.so"};
    static struct library profiler, helpers[2];
    const char *slash = strrchr(library, '/');
    for (int i = 0; i < 2 && slash; i++) {
        cleanup(str) char *path = xfmt("%.*s/%s", (int)(slash - library), library, beside[i]);
        if (!library_open(&helpers[i], path, none, err))
            return false;
    }
    if (!library_open(&profiler, library, entries, err))
        return false;
    prepared = true;
    return true;
}

/* ---- what is counted ---- */

struct session {
    struct device_program *p;
    bool begun;
    CUpti_Profiler_Host_Object *host;
    CUpti_RangeProfiler_Object *ranges;
    const char *names[PROFILE_ITEMS];    /* that this chip has */
    int at[PROFILE_ITEMS], count;
    uint8_t *config, *data;
    size_t config_bytes, data_bytes;
    struct memory memory;
    CUdeviceptr base[PROGRAM_MAX_BUFFERS], sweep;
    size_t sweep_bytes;
    struct piece restore[PROGRAM_MAX_BUFFERS];
    int restore_count;
};

static void session_done(struct session *s)
{
    if (s->p->device->dead)             /* the process's end is the clean-up, as everywhere */
        return;
    if (s->ranges) {
        CUpti_RangeProfiler_Disable_Params p = {.structSize = CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE, .pRangeProfilerObject = s->ranges};
        (void)cupti.cuptiRangeProfilerDisable(&p);
    }
    if (s->host) {
        CUpti_Profiler_Host_Deinitialize_Params p = {.structSize = CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE, .pHostObject = s->host};
        (void)cupti.cuptiProfilerHostDeinitialize(&p);
    }
    if (s->begun) {
        CUpti_Profiler_DeInitialize_Params p = {.structSize = CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE};
        (void)cupti.cuptiProfilerDeInitialize(&p);
    }
    for (int i = 0; i < PROGRAM_MAX_BUFFERS; i++)
        if (s->base[i])
            cu.cuMemFree(s->base[i]);
    if (s->sweep)
        cu.cuMemFree(s->sweep);
    memory_done(&s->memory);
    free(s->config);
    free(s->data);
}
DEFINE_CLEANUP(session, struct session, session_done(it))

/* What is available to this process: an image that the host's part wants to know. The caller frees. */
static bool availability(struct session *s, uint8_t **ret, struct err *err)
{
    CUpti_Profiler_GetCounterAvailability_Params p = {.structSize = CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE,
                                                      .ctx = s->p->device->context};
    if (!CALL(err, cuptiProfilerGetCounterAvailability, &p))
        return false;
    if (p.counterAvailabilityImageSize > IMAGE_BYTES_MOST)
        return err_set(err, ERR_UNAVAILABLE, "the list of counters wants %zu bytes", p.counterAvailabilityImageSize);
    cleanup(mem) void *image = xalloc(p.counterAvailabilityImageSize + 1);
    p.pCounterAvailabilityImage = image;
    if (!CALL(err, cuptiProfilerGetCounterAvailability, &p))
        return false;
    *ret = steal(&image);
    return true;
}

/* One by one: a chip lacks some. */
static bool add_metrics(struct session *s, struct err *err)
{
    for (int i = 0; i < PROFILE_ITEMS; i++) {
        const char *name = metrics[i];
        CUpti_Profiler_Host_ConfigAddMetrics_Params add = {.structSize = CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE,
                                                           .pHostObject = s->host, .ppMetricNames = &name, .numMetrics = 1};
        if (cupti.cuptiProfilerHostConfigAddMetrics(&add) == CUPTI_SUCCESS)
            s->at[s->count] = i, s->names[s->count++] = name;
    }
    return s->count > 0 || err_set(err, ERR_UNAVAILABLE, "this chip has none of the counters that are asked for");
}

static bool make_config(struct session *s, int *ret_passes, struct err *err)
{
    cleanup(mem) void *image = NULL;
    uint8_t *counters = NULL;
    CUpti_Device_GetChipName_Params chip = {.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE, .deviceIndex = (size_t)s->p->device->ordinal};
    if (!CALL(err, cuptiDeviceGetChipName, &chip) || !availability(s, &counters, err))
        return false;
    image = counters;
    CUpti_Profiler_Host_Initialize_Params host = {.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE,
                                                  .profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER, .pChipName = chip.pChipName,
                                                  .pCounterAvailabilityImage = image};
    if (!CALL(err, cuptiProfilerHostInitialize, &host))
        return false;
    s->host = host.pHostObject;
    CUpti_Profiler_Host_GetConfigImageSize_Params size = {.structSize = CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE, .pHostObject = s->host};
    if (!add_metrics(s, err) || !CALL(err, cuptiProfilerHostGetConfigImageSize, &size))
        return false;
    if (!size.configImageSize || size.configImageSize > IMAGE_BYTES_MOST)
        return err_set(err, ERR_UNAVAILABLE, "the counters' set-up wants %zu bytes", size.configImageSize);
    s->config_bytes = size.configImageSize;
    s->config = xalloc(s->config_bytes);
    CUpti_Profiler_Host_GetConfigImage_Params get = {.structSize = CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE, .pHostObject = s->host,
                                                     .configImageSize = s->config_bytes, .pConfigImage = s->config};
    CUpti_Profiler_Host_GetNumOfPasses_Params passes = {.structSize = CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE,
                                                        .configImageSize = s->config_bytes, .pConfigImage = s->config};
    if (!CALL(err, cuptiProfilerHostGetConfigImage, &get) || !CALL(err, cuptiProfilerHostGetNumOfPasses, &passes))
        return false;
    *ret_passes = (int)(passes.numOfPasses < PASSES_MOST ? passes.numOfPasses : PASSES_MOST);
    return passes.numOfPasses <= PASSES_MOST || err_set(err, ERR_UNAVAILABLE, "the counters want %zu passes", passes.numOfPasses);
}

static bool make_ranges(struct session *s, struct err *err)
{
    const size_t steps = (size_t)s->p->plan.step_count;
    CUpti_RangeProfiler_Enable_Params enable = {.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE, .ctx = s->p->device->context};
    if (!CALL(err, cuptiRangeProfilerEnable, &enable))
        return false;
    s->ranges = enable.pRangeProfilerObject;
    CUpti_RangeProfiler_GetCounterDataSize_Params size = {.structSize = CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE,
                                                          .pRangeProfilerObject = s->ranges, .pMetricNames = s->names,
                                                          .numMetrics = (size_t)s->count, .maxNumOfRanges = steps,
                                                          .maxNumRangeTreeNodes = (uint32_t)steps};
    if (!CALL(err, cuptiRangeProfilerGetCounterDataSize, &size))
        return false;
    if (!size.counterDataSize || size.counterDataSize > IMAGE_BYTES_MOST)
        return err_set(err, ERR_UNAVAILABLE, "the counters' values want %zu bytes", size.counterDataSize);
    s->data_bytes = size.counterDataSize;
    s->data = xalloc(s->data_bytes);
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params begin = {.structSize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE,
                                                                    .pRangeProfilerObject = s->ranges, .counterDataSize = s->data_bytes,
                                                                    .pCounterData = s->data};
    CUpti_RangeProfiler_SetConfig_Params set = {.structSize = CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE, .pRangeProfilerObject = s->ranges,
                                                .configSize = s->config_bytes, .pConfig = s->config, .counterDataImageSize = s->data_bytes,
                                                .pCounterDataImage = s->data, .range = CUPTI_AutoRange, .replayMode = CUPTI_UserReplay,
                                                .maxRangesPerPass = steps, .numNestingLevels = 1, .minNestingLevel = 1, .passIndex = 0,
                                                .targetNestingLevel = 1};
    return CALL(err, cuptiRangeProfilerCounterDataImageInitialize, &begin) && CALL(err, cuptiRangeProfilerSetConfig, &set);
}

/* ---- the launches ---- */

/* What launches write has a copy on the card, or a pattern. */
static bool make_memory(struct session *s, const struct device_profile *how, struct err *err)
{
    struct device *d = s->p->device;
    if (!memory_make(s->p, how->tensors, NULL, how->poison, DEVICE_AT_START, &s->memory, err))
        return false;
    for (int i = 0; i < s->p->buffer_count; i++) {
        const struct program_buffer *b = &s->p->buffers[i];
        struct piece *piece = &s->restore[s->restore_count];
        if (!b->writable || !b->bytes)
            continue;
        *piece = (struct piece){.to = s->memory.list[i].address, .bytes = (uint64_t)b->bytes, .pattern = how->poison, .element = 1};
        if (!b->output) {
            if (!CU(err, cuMemAlloc, &s->base[i], (size_t)b->bytes) || !helper_upload(d, s->base[i], how->tensors[i], (size_t)b->bytes, err))
                return false;
            piece->from = s->base[i];
        }
        s->restore_count++;
    }
    s->sweep_bytes = 2 * (size_t)(d->info.l2_bytes > 0 ? d->info.l2_bytes : (int64_t)64 << 20) / 65536 * 65536;
    return CU(err, cuMemAlloc, &s->sweep, s->sweep_bytes);
}

/* All as it was, and none of it in L2. */
static bool begin_pass(struct session *s, struct err *err)
{
    struct device *d = s->p->device;
    struct piece all = {.to = s->sweep, .bytes = s->sweep_bytes};
    uint64_t words = s->sweep_bytes / 16;
    void *args[] = {&s->sweep, &words, &d->found};
    return (!s->restore_count || helper_restore(d, s->restore, s->restore_count, err)) &&
           helper_restore(d, &all, 1, err) && helper_launch(d, d->read, 4 * (unsigned)d->info.sm_count, 512, 0, args, err) &&
           CU(err, cuStreamSynchronize, d->stream);
}

/* One kernel a step, whatever it is. */
static CUresult one_step(struct session *s, int step, const CUdeviceptr *addresses)
{
    const struct plan_step *what = &s->p->plan.steps[step];
    const int buffer = s->p->tensor_count + what->memset_workspace;
    struct err err = {0};
    if (!what->is_memset)
        return step_launch(s->p, step, addresses);
    struct piece piece = {.to = addresses[buffer], .bytes = (uint64_t)s->p->buffers[buffer].bytes, .pattern = what->memset_value * UINT64_C(0x0101010101010101)};
    if (!piece.bytes)
        return helper_launch(s->p->device, s->p->device->empty, 1, 32, 0, NULL, &err) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    return helper_restore(s->p->device, &piece, 1, &err) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static bool run_plan(struct session *s, struct device_fault *fault, struct err *err)
{
    CUdeviceptr addresses[PROGRAM_MAX_BUFFERS];
    for (int i = 0; i < s->p->buffer_count; i++)
        addresses[i] = s->memory.list[i].address;
    for (int i = 0; i < s->p->plan.step_count; i++) {
        CUresult r = one_step(s, i, addresses);
        if (r == CUDA_SUCCESS)
            r = cu.cuStreamSynchronize(s->p->device->stream);
        if (r != CUDA_SUCCESS) {
            s->p->device->dead = true;
            return fault_from_cu(fault, r, &s->p->plan, i, err);
        }
    }
    return true;
}

static bool one_pass(struct session *s, bool *ret_last, struct device_fault *fault, struct err *err)
{
    CUpti_RangeProfiler_Start_Params start = {.structSize = CUpti_RangeProfiler_Start_Params_STRUCT_SIZE, .pRangeProfilerObject = s->ranges};
    CUpti_RangeProfiler_Stop_Params stop = {.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE, .pRangeProfilerObject = s->ranges};
    if (!begin_pass(s, err) || !CALL(err, cuptiRangeProfilerStart, &start) || !run_plan(s, fault, err))
        return false;
    if (fault->code != VERDICT_OK)
        return true;
    if (!CALL(err, cuptiRangeProfilerStop, &stop))
        return false;
    *ret_last = stop.isAllPassSubmitted != 0;
    return true;
}

/* ---- what came of it ---- */

static bool take_values(struct session *s, struct device_profile_result *ret, struct err *err)
{
    CUpti_RangeProfiler_DecodeData_Params decode = {.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE, .pRangeProfilerObject = s->ranges};
    CUpti_RangeProfiler_GetCounterDataInfo_Params info = {.structSize = CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE,
                                                          .pCounterDataImage = s->data, .counterDataImageSize = s->data_bytes};
    if (!CALL(err, cuptiRangeProfilerDecodeData, &decode) || !CALL(err, cuptiRangeProfilerGetCounterDataInfo, &info))
        return false;
    if (decode.numOfRangeDropped || info.numTotalRanges != (size_t)s->p->plan.step_count)
        return err_set(err, ERR_UNAVAILABLE, "the profiler saw %zu kernels of %d steps and dropped %zu", info.numTotalRanges, s->p->plan.step_count,
                       decode.numOfRangeDropped);
    for (int i = 0; i < s->p->plan.step_count; i++) {
        double values[PROFILE_ITEMS];
        CUpti_Profiler_Host_EvaluateToGpuValues_Params get = {.structSize = CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE,
                                                              .pHostObject = s->host, .pCounterDataImage = s->data,
                                                              .counterDataImageSize = s->data_bytes, .rangeIndex = (size_t)i,
                                                              .ppMetricNames = s->names, .numMetrics = (size_t)s->count, .pMetricValues = values};
        if (!CALL(err, cuptiProfilerHostEvaluateToGpuValues, &get))
            return false;
        for (int k = 0; k < PROFILE_ITEMS; k++)
            ret->steps[i][k] = NAN;
        for (int k = 0; k < s->count; k++)
            ret->steps[i][s->at[k]] = values[k];
    }
    ret->step_count = s->p->plan.step_count;
    return true;
}

bool cuda_profile(struct device_program *p, const struct device_profile *how, struct device_profile_result *ret, struct device_fault *fault, struct err *err)
{
    cleanup(session) struct session s = {.p = p, .memory = {.device = p->device}};
    CUpti_Profiler_Initialize_Params begin = {.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE};
    bool last = false;
    int passes = 0;
    if (!prepared)
        return err_set(err, ERR_INTERNAL, "the profiler was not prepared before the device was opened");
    if (!cuda_alive(p->device, err) || !CALL(err, cuptiProfilerInitialize, &begin))
        return false;
    s.begun = true;
    if (!make_config(&s, &passes, err) || !make_ranges(&s, err) || !make_memory(&s, how, err))
        return false;
    for (ret->passes = 0; !last && ret->passes <= passes; ret->passes++) {
        if (!one_pass(&s, &last, fault, err))
            return false;
        if (fault->code != VERDICT_OK)
            return true;
    }
    ret->flush_bytes = (int64_t)s.sweep_bytes;
    return last ? take_values(&s, ret, err) : err_set(err, ERR_UNAVAILABLE, "the profiler wants more than the %d passes that it named", passes);
}

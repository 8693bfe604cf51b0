/*
 * A card: opens it, loads one candidate's cubin, runs the plan once in guarded memory. Timing is in cuda_time.c.
 *
 * No pinned, managed or mapped host memory exists here: a kernel could write it. A fault poisons the context for good, so after
 * one this process only reports; its exit is the clean-up. A hung kernel is ended by the supervisor's kill.
 */
#include "core/clock.h"
#include "core/rng.h"
#include "gpu/device/cuda_api.h"
#include "gpu/device/spent.h"

#include <string.h>

bool cuda_alive(const struct device *d, struct err *err)
{
    return !d->dead || err_set(err, ERR_CONFLICT, "a fault ended this device's context: a new process is needed");
}

/* ---- what a card is ---- */

static int attribute(CUdevice handle, CUdevice_attribute a)
{
    int value = 0;
    return cu.cuDeviceGetAttribute(&value, a, handle) == CUDA_SUCCESS ? value : 0;
}

static bool describe(int ordinal, CUdevice handle, struct device_info *ret, char *bus_id, int bus_id_size,
                     struct err *err)
{
    struct device_info i = {.kind = "cuda", .healthy = true};
    CUuuid uuid;
    size_t memory = 0;
    int driver = 0;
    if (!CU(err, cuDeviceGetName, i.name, sizeof i.name, handle) || !CU(err, cuDeviceGetUuid, &uuid, handle) ||
        !CU(err, cuDeviceTotalMem, &memory, handle) || !CU(err, cuDeviceGetPCIBusId, bus_id, bus_id_size, handle) ||
        !CU(err, cuDriverGetVersion, &driver))
        return false;
    const unsigned char *u = (const unsigned char *)uuid.bytes;
    snprintf(i.uuid, sizeof i.uuid, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
             u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    snprintf(i.id, sizeof i.id, "cuda:%d", ordinal);
    int major = attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        minor = attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    snprintf(i.target, sizeof i.target, "sm_%d%d%s", major, minor, major >= 9 ? "a" : "");
    i.sm_count = attribute(handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    i.memory_bytes = (int64_t)memory;
    i.l2_bytes = attribute(handle, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    i.pageable_memory_access = attribute(handle, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0;
    if (!nvml_driver_version(i.driver, sizeof i.driver))
        snprintf(i.driver, sizeof i.driver, "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    i.healthy = nvml_health(bus_id, i.health, sizeof i.health);
    if (i.healthy && major < 9) {
        i.healthy = false;
        snprintf(i.health, sizeof i.health, "compute capability %d.%d: 9.0 or newer is needed", major, minor);
    }
    *ret = i;
    return true;
}

/* No driver and no card is no error: the host has none. */
bool device_cuda_list(json_t *list, struct err *err)
{
    struct err none = {0};
    int count = 0;
    if (!cuda_open(&none) || !CU(&none, cuDeviceGetCount, &count))
        return true;
    for (int n = 0; n < count && n < 64; n++) {
        CUdevice handle;
        struct device_info info;
        char bus_id[32];
        if (!CU(err, cuDeviceGet, &handle, n) || !describe(n, handle, &info, bus_id, sizeof bus_id, err))
            return err_wrap(err, "cuda:%d", n);
        info.memory_used_bytes = nvml_memory_used_bytes(bus_id);
        json_array_append_new(list, device_info_encode(&info));
    }
    return true;
}

/* ---- open ---- */

static void cuda_close(struct device *d)
{
    if (!d)
        return;
    /* After a fault every call fails; the process's exit frees what is left. */
    if (d->context && !d->dead) {
        cu.cuMemFree(d->pieces);
        cu.cuMemFree(d->found);
        scrub_done(d);
        if (d->helpers)
            cu.cuModuleUnload(d->helpers);
        if (d->stream)
            cu.cuStreamDestroy(d->stream);
        cu.cuDevicePrimaryCtxRelease(d->handle);
    }
    free(d);
}
DEFINE_CLEANUP(device, struct device *, cuda_close(*it))

/* Before the first launch: no persisting L2, and as little room for printf and malloc as the driver takes. */
static void set_limits(void)
{
    static const struct { CUlimit limit; size_t value; } table[] = {
        {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}, {CU_LIMIT_PRINTF_FIFO_SIZE, 4096}, {CU_LIMIT_MALLOC_HEAP_SIZE, 4096}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        (void)cu.cuCtxSetLimit(table[i].limit, table[i].value); /* a card without the feature refuses, and needs none */
}

/* The card as a process has found it, asked once: a run child opens one card. */
static struct { bool known; int ordinal; CUdevice handle; struct device_info info; char bus_id[32]; } found;

static bool find(const char *id, struct err *err)
{
    const int ordinal = atoi(id + 5);
    int count = 0;
    int64_t from_ns = clock_mono_ns();
    if (found.known && found.ordinal == ordinal)
        return true;
    if (!cuda_open(err) || !CU(err, cuDeviceGetCount, &count))
        return false;
    spent_add(SPENT_DRIVER, from_ns);
    if (ordinal >= count)
        return err_set(err, ERR_NOT_FOUND, "there is no %s: this host has %d CUDA device(s)", id, count);
    from_ns = clock_mono_ns();
    if (!CU(err, cuDeviceGet, &found.handle, ordinal) || !describe(ordinal, found.handle, &found.info, found.bus_id, sizeof found.bus_id, err))
        return false;
    spent_add(SPENT_DESCRIBE, from_ns);
    found.ordinal = ordinal;
    found.known = true;
    return true;
}

/* No context yet: the card has no memory of ours, and does not know that we are coming. */
static bool cuda_prepare(const char *id, struct err *err)
{
    return find(id, err);
}

static bool cuda_open_device(const char *id, struct device **ret, struct err *err)
{
    cleanup(device) struct device *d = xalloc(sizeof *d);
    if (!find(id, err))
        return false;
    d->ordinal = found.ordinal, d->handle = found.handle, d->info = found.info;
    memcpy(d->bus_id, found.bus_id, sizeof d->bus_id);
    d->info.memory_used_bytes = nvml_memory_used_bytes(d->bus_id);      /* as it is now, before our context */
    if (!d->info.healthy)
        return err_set(err, ERR_UNAVAILABLE, "%s: %s", id, d->info.health);
    d->shared_optin_bytes = attribute(d->handle, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    (void)cu.cuDevicePrimaryCtxSetFlags(d->handle, CU_CTX_SCHED_SPIN);
    const int64_t from_ns = clock_mono_ns();
    if (!CU(err, cuDevicePrimaryCtxRetain, &d->context, d->handle) || !CU(err, cuCtxSetCurrent, d->context))
        return false;
    set_limits();
    spent_add(SPENT_CONTEXT, from_ns);
    const CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal}};
    if (!CU(err, cuMemGetAllocationGranularity, &d->granularity, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ||
        !CU(err, cuStreamCreate, &d->stream, CU_STREAM_NON_BLOCKING) || !helpers_load(d, err))
        return false;
    *ret = steal(&d);
    return true;
}

static bool cuda_info(struct device *d, struct device_info *ret, struct err *err)
{
    (void)err;
    *ret = d->info;
    return true;
}

/* ---- load ---- */

static void cuda_unload(struct device_program *p)
{
    if (!p)
        return;
    cuda_sets_free(p->sets);
    cuda_series_free(p->series);
    free(p->variables);
    if (p->module && !p->device->dead)
        cu.cuModuleUnload(p->module);
    free(p);
}
DEFINE_CLEANUP(program, struct device_program *, cuda_unload(*it))

bool cuda_prepare_step(struct device_program *p, int step, struct device_fault *fault, struct err *err)
{
    const struct plan_step *s = &p->plan.steps[step];
    CUfunction f;
    CUresult r = cu.cuModuleGetFunction(&f, p->module, s->kernel);
    if (r != CUDA_SUCCESS)
        return fault_from_cu(fault, r, &p->plan, step, err);
    p->functions[step] = f;
    int statics = 0, most_threads = 0, local = 0;
    if (!CU(err, cuFuncGetAttribute, &local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f) ||
        !CU(err, cuFuncGetAttribute, &statics, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f) ||
        !CU(err, cuFuncGetAttribute, &most_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f))
        return false;
    p->local_bytes = local > p->local_bytes ? local : p->local_bytes;
    uint64_t threads = (uint64_t)s->block[0] * s->block[1] * s->block[2];
    json_t *where = json_pack("{s:i,s:s}", "step", step, "kernel", s->kernel);
    if (threads > (uint64_t)most_threads)
        return fault_set(fault, VERDICT_RESOURCE_LIMIT, where,
                         "%.80s can have %d threads a block with its registers, the plan launches %llu", s->kernel,
                         most_threads, (unsigned long long)threads);
    if ((int64_t)statics + s->shared_bytes > p->device->shared_optin_bytes)
        return fault_set(fault, VERDICT_RESOURCE_LIMIT, where,
                         "%.80s needs %d + %u bytes of shared memory a block, there are %d", s->kernel, statics,
                         s->shared_bytes, p->device->shared_optin_bytes);
    json_decref(where);
    if (s->shared_bytes &&
        !CU(err, cuFuncSetAttribute, f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)s->shared_bytes))
        return false;
    uint64_t cluster = (uint64_t)(s->cluster[0] ? s->cluster[0] : 1) * (s->cluster[1] ? s->cluster[1] : 1) *
                       (s->cluster[2] ? s->cluster[2] : 1);
    return cluster <= 8 || CU(err, cuFuncSetAttribute, f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
}

/* The cubin carries no argument sizes that could be trusted to match; its PTX does. */
static bool fits_ptx(const struct device_load *what, struct ptx_module **ret, struct device_fault *fault, bool *ret_fits, struct err *err)
{
    struct ptx_finding finding = {0};
    if (!ptx_parse(what->ptx, what->ptx_bytes, &ptx_default_limits, ret, &finding, err))
        return false;
    *ret_fits = *ret && plan_fits(*ret, what, fault);
    return *ret || fault_from_finding(fault, &finding, -1, what->plan);
}

static bool cuda_load(struct device *d, const struct device_load *what, struct device_program **ret,
                      struct device_fault *fault, struct err *err)
{
    cleanup(program) struct device_program *p = xalloc(sizeof *p);
    cleanup(ptx) struct ptx_module *text = NULL;
    bool fits = false;
    p->device = d;
    if (!cuda_alive(d, err) || !fits_ptx(what, &text, fault, &fits, err))
        return false;
    *ret = NULL;
    if (!fits)
        return true;
    if (!what->cubin)
        return err_set(err, ERR_INTERNAL, "a card needs the assembled cubin");
    p->plan = *what->plan;
    p->tensor_count = what->shape->op->tensor_count;
    memcpy(p->tensors, what->tensors, (size_t)p->tensor_count * sizeof *p->tensors);
    p->buffer_count = program_buffers(what, p->buffers);
    for (int i = 0; i < p->tensor_count; i++)
        p->buffers[i].tensor = &p->tensors[i];
    const int64_t from_ns = clock_mono_ns();
    CUresult r = cu.cuModuleLoadData(&p->module, what->cubin);
    spent_add(SPENT_MODULE, from_ns);
    if (r != CUDA_SUCCESS)
        return fault_from_cu(fault, r, &p->plan, -1, err);
    for (int i = 0; i < p->plan.step_count; i++) {
        if (!p->plan.steps[i].is_memset && !cuda_prepare_step(p, i, fault, err))
            return false;
        if (fault->code != VERDICT_OK)
            return true;
    }
    if (!variables_find(p, text, err))
        return false;
    *ret = steal(&p);
    return true;
}

/* ---- run ---- */

CUresult step_launch(const struct device_program *p, int step, const CUdeviceptr *addresses)
{
    const struct plan_step *s = &p->plan.steps[step];
    if (s->is_memset) {
        const struct program_buffer *b = &p->buffers[p->tensor_count + s->memset_workspace];
        return b->bytes ? cu.cuMemsetD8Async(addresses[p->tensor_count + s->memset_workspace], s->memset_value,
                                             (size_t)b->bytes, p->device->stream)
                        : CUDA_SUCCESS;
    }
    uint64_t values[PLAN_MAX_ARGS];
    void *args[PLAN_MAX_ARGS];
    for (int i = 0; i < s->arg_count; i++) {
        int buffer = argument_buffer(&s->args[i], p->tensor_count);
        values[i] = buffer < 0 ? s->args[i].value : addresses[buffer];
        args[i] = &values[i];
    }
    CUlaunchAttribute attributes[3] = {{0}};
    unsigned count = 0;
    uint32_t x = s->cluster[0] ? s->cluster[0] : 1, y = s->cluster[1] ? s->cluster[1] : 1,
             z = s->cluster[2] ? s->cluster[2] : 1;
    if (x * y * z > 1) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes[count].value.clusterDim.x = x;
        attributes[count].value.clusterDim.y = y;
        attributes[count++].value.clusterDim.z = z;
    }
    if (p->plan.cooperative) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[count++].value.cooperative = 1;
    }
    if (s->dependent) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    const CUlaunchConfig config = {.gridDimX = s->grid[0],
                                   .gridDimY = s->grid[1],
                                   .gridDimZ = s->grid[2],
                                   .blockDimX = s->block[0],
                                   .blockDimY = s->block[1],
                                   .blockDimZ = s->block[2],
                                   .sharedMemBytes = s->shared_bytes,
                                   .hStream = p->device->stream,
                                   .attrs = attributes,
                                   .numAttrs = count};
    return cu.cuLaunchKernelEx(&config, p->functions[step], args, NULL);
}

/* Each step is waited for, so that a fault names the step. */
static bool run_steps(struct device_program *p, const struct memory *m, struct device_fault *fault, struct err *err)
{
    CUdeviceptr addresses[PROGRAM_MAX_BUFFERS];
    for (int i = 0; i < p->buffer_count; i++)
        addresses[i] = m->list[i].address;
    for (int i = 0; i < p->plan.step_count; i++) {
        CUresult r = step_launch(p, i, addresses);
        if (r == CUDA_SUCCESS) {
            r = cu.cuStreamSynchronize(p->device->stream);
            p->device->dead = r != CUDA_SUCCESS;       /* what comes back asynchronously has poisoned the context */
        }
        if (r != CUDA_SUCCESS)
            return fault_from_cu(fault, r, &p->plan, i, err);
    }
    return true;
}

static bool cuda_run(struct device_program *p, const struct device_run *how, struct device_run_result *ret,
                     struct device_fault *fault, struct err *err)
{
    struct device *d = p->device;
    cleanup(memory) struct memory m = {.device = d};
    if (!cuda_alive(d, err) || !memory_make(p, how->tensors, how->held, how->poison, how->place, &m, err))
        return false;
    const int64_t from_ns = clock_mono_ns();
    if ((how->scrub && !scrub(d, (uint32_t)rng_mix(how->poison), p->local_bytes, err)) || !CU(err, cuStreamSynchronize, d->stream))
        return false;
    spent_add(SPENT_SCRUB, from_ns);
    const int64_t launch_ns = clock_mono_ns();
    if (!run_steps(p, &m, fault, err))
        return false;
    spent_add(SPENT_LAUNCH, launch_ns);
    ret->step_count = p->plan.step_count;
    return fault->code != VERDICT_OK || memory_take(p, &m, how->held, how->poison, ret->tensors, &ret->guards_intact, fault, err);
}

const struct device_ops device_cuda = {
    .kind = "cuda",
    .prepare = cuda_prepare,
    .open = cuda_open_device,
    .close = cuda_close,
    .info = cuda_info,
    .load = cuda_load,
    .unload = cuda_unload,
    .run = cuda_run,
    .probe = cuda_probe,
    .time_setup = cuda_time_setup,
    .time_block = cuda_time_block,
    .time_warm = cuda_time_warm,
    .time_eager = cuda_time_eager,
    .alone = cuda_alone,
    .time_output = cuda_time_output,
    .time_windows = cuda_time_windows,
    .calibrate = cuda_calibrate,
    .audit_prepare = cuda_audit_prepare,
    .audit = cuda_audit,
    .profile_prepare = cuda_profile_prepare,
    .profile = cuda_profile,
};

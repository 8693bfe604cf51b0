/*
 * NVML as a table of pointers, each of them optional but the first few: drivers differ in what they have, and a container may leave
 * the library out. Declared here, because its header is not part of every toolkit.
 */
#include "gpu/device/card.h"
#include "gpu/device/cuda_api.h"

#include <dlfcn.h>
#include <string.h>

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;
struct nvml_process { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; };
struct nvml_memory { unsigned version; unsigned long long total, reserved, free, used; };
struct nvml_utilisation { unsigned gpu, memory; };
struct nvml_event { nvmlDevice_t device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };

enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1, NVML_TEMPERATURE_GPU = 0, NVML_ERROR_CORRECTED = 0, NVML_ERROR_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0 };
#define NVML_EVENT_XID 0x8ull
#define NVML_MEMORY_V2 ((unsigned)sizeof(struct nvml_memory) | 2u << 24)

/* X(slot, symbol, arguments) */
#define NVML_NEEDED(X)                                                        \
    X(init, "nvmlInit_v2", (void))                                            \
    X(driver, "nvmlSystemGetDriverVersion", (char *, unsigned))               \
    X(by_bus, "nvmlDeviceGetHandleByPciBusId_v2", (const char *, nvmlDevice_t *)) \
    X(clock, "nvmlDeviceGetClockInfo", (nvmlDevice_t, int, unsigned *))
#define NVML_OPTIONAL(X)                                                                                  \
    X(by_uuid, "nvmlDeviceGetHandleByUUID", (const char *, nvmlDevice_t *))                               \
    X(most_clock, "nvmlDeviceGetMaxClockInfo", (nvmlDevice_t, int, unsigned *))                           \
    X(rows, "nvmlDeviceGetRemappedRows", (nvmlDevice_t, unsigned *, unsigned *, unsigned *, unsigned *))  \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3", (nvmlDevice_t, unsigned *, struct nvml_process *)) \
    X(shared_processes, "nvmlDeviceGetMPSComputeRunningProcesses_v3", (nvmlDevice_t, unsigned *, struct nvml_process *)) \
    X(memory, "nvmlDeviceGetMemoryInfo_v2", (nvmlDevice_t, struct nvml_memory *))                         \
    X(utilisation, "nvmlDeviceGetUtilizationRates", (nvmlDevice_t, struct nvml_utilisation *))            \
    X(reasons, "nvmlDeviceGetCurrentClocksEventReasons", (nvmlDevice_t, unsigned long long *))            \
    X(reasons_before, "nvmlDeviceGetCurrentClocksThrottleReasons", (nvmlDevice_t, unsigned long long *))  \
    X(ecc, "nvmlDeviceGetTotalEccErrors", (nvmlDevice_t, int, int, unsigned long long *))                 \
    X(temperature, "nvmlDeviceGetTemperature", (nvmlDevice_t, int, unsigned *))                           \
    X(power, "nvmlDeviceGetPowerUsage", (nvmlDevice_t, unsigned *))                                       \
    X(event_set, "nvmlEventSetCreate", (nvmlEventSet_t *))                                                \
    X(event_register, "nvmlDeviceRegisterEvents", (nvmlDevice_t, unsigned long long, nvmlEventSet_t))     \
    X(event_wait, "nvmlEventSetWait_v2", (nvmlEventSet_t, struct nvml_event *, unsigned))

static struct {
#define X(slot, symbol, arguments) int(*slot) arguments;
    NVML_NEEDED(X) NVML_OPTIONAL(X)
#undef X
} nvml;

static bool nvml_open(char *why, size_t size)
{
    static const struct { const char *symbol; void **slot; bool needed; } entries[] = {
#define X(slot, symbol, arguments) {symbol, (void **)&nvml.slot, true},
        NVML_NEEDED(X)
#undef X
#define X(slot, symbol, arguments) {symbol, (void **)&nvml.slot, false},
        NVML_OPTIONAL(X)
#undef X
    };
    static enum { UNTRIED, WORKS, MISSING } state;
    static char missing[160];
    if (state == UNTRIED) {
        void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        state = handle ? WORKS : MISSING;
        snprintf(missing, sizeof missing, "there is no libnvidia-ml.so.1");
        for (size_t i = 0; handle && i < sizeof entries / sizeof *entries; i++) {
            void *symbol = dlsym(handle, entries[i].symbol);
            memcpy(entries[i].slot, &symbol, sizeof symbol);
            if (!symbol && entries[i].needed) {
                state = MISSING;
                snprintf(missing, sizeof missing, "libnvidia-ml.so.1 has no %s", entries[i].symbol);
            }
        }
        int r = state == WORKS ? nvml.init() : 0;
        if (r != NVML_SUCCESS) {
            state = MISSING;
            snprintf(missing, sizeof missing, "NVML does not start here (%d)", r);
        }
    }
    if (why && state == MISSING)
        snprintf(why, size, "%s", missing);
    return state == WORKS;
}

/* By bus id in a run child, by UUID in the supervisor; the last one is remembered: samples ask often. */
static bool nvml_device(const char *name, bool by_uuid, nvmlDevice_t *ret)
{
    static char known[80];
    static nvmlDevice_t device;
    if (strcmp(known, name) != 0) {
        known[0] = 0;
        if (!nvml_open(NULL, 0) || (by_uuid && !nvml.by_uuid)
            || (by_uuid ? nvml.by_uuid : nvml.by_bus)(name, &device) != NVML_SUCCESS)
            return false;
        snprintf(known, sizeof known, "%s", name);
    }
    *ret = device;
    return true;
}

bool nvml_driver_version(char *to, size_t size)
{
    char text[96] = "";
    if (!nvml_open(NULL, 0) || nvml.driver(text, sizeof text) != NVML_SUCCESS)
        return false;
    snprintf(to, size, "%s", text);
    return true;
}

double nvml_sm_clock_mhz(const char *bus_id)
{
    nvmlDevice_t device;
    unsigned mhz = 0;
    return nvml_device(bus_id, false, &device) && nvml.clock(device, NVML_CLOCK_SM, &mhz) == NVML_SUCCESS ? (double)mhz : 0;
}

static bool read_reasons(nvmlDevice_t device, uint64_t *ret)
{
    unsigned long long reasons = 0;
    int (*ask)(nvmlDevice_t, unsigned long long *) = nvml.reasons ? nvml.reasons : nvml.reasons_before;
    if (!ask || ask(device, &reasons) != NVML_SUCCESS)
        return false;
    *ret = reasons;
    return true;
}

uint64_t nvml_clock_reasons(const char *bus_id)
{
    nvmlDevice_t device;
    uint64_t reasons = 0;
    return nvml_device(bus_id, false, &device) && read_reasons(device, &reasons) ? reasons : 0;
}

int64_t nvml_memory_used_bytes(const char *bus_id)
{
    nvmlDevice_t device;
    struct nvml_memory m = {.version = NVML_MEMORY_V2};
    return nvml_device(bus_id, false, &device) && nvml.memory && nvml.memory(device, &m) == NVML_SUCCESS ? (int64_t)m.used : -1;
}

static void add_processes(struct card_reading *r, nvmlDevice_t device, int (*ask)(nvmlDevice_t, unsigned *, struct nvml_process *))
{
    struct nvml_process list[CARD_MAX_PROCESSES];
    unsigned count = CARD_MAX_PROCESSES;
    if (!ask || ask(device, &count, list) != NVML_SUCCESS)
        return;
    r->process_count = r->process_count < 0 ? 0 : r->process_count;
    for (unsigned i = 0; i < count && r->process_count < CARD_MAX_PROCESSES; i++)
        r->processes[r->process_count++] = (struct card_process){list[i].pid, list[i].bytes == ~0ull ? -1 : (int64_t)list[i].bytes};
}

/* Critical faults are told to whoever registered before they happened. */
static int64_t read_xid(nvmlDevice_t device)
{
    static nvmlEventSet_t set;
    static nvmlDevice_t registered;
    static int64_t last;
    if (!nvml.event_set || !nvml.event_register || !nvml.event_wait)
        return -1;
    if (registered != device) {
        if ((!set && nvml.event_set(&set) != NVML_SUCCESS) || nvml.event_register(device, NVML_EVENT_XID, set) != NVML_SUCCESS)
            return -1;
        registered = device, last = 0;
    }
    struct nvml_event e = {0};
    while (nvml.event_wait(set, &e, 0) == NVML_SUCCESS)
        if (e.type & NVML_EVENT_XID && e.device == device)
            last = (int64_t)e.data;
    return last;
}

static int64_t read_ecc(nvmlDevice_t device, int type)
{
    unsigned long long count = 0;
    return nvml.ecc && nvml.ecc(device, type, NVML_ECC_VOLATILE, &count) == NVML_SUCCESS ? (int64_t)count : -1;
}

static void read_device(nvmlDevice_t device, struct card_reading *r)
{
    unsigned mhz = 0, most = 0, correctable = 0, uncorrectable = 0, pending = 0, failed = 0, celsius = 0, mw = 0;
    struct nvml_memory m = {.version = NVML_MEMORY_V2};
    struct nvml_utilisation u = {0};
    add_processes(r, device, nvml.processes);
    add_processes(r, device, nvml.shared_processes);
    if (nvml.memory && nvml.memory(device, &m) == NVML_SUCCESS)
        r->total_bytes = (int64_t)m.total, r->used_bytes = (int64_t)m.used, r->free_bytes = (int64_t)m.free;
    if (nvml.utilisation && nvml.utilisation(device, &u) == NVML_SUCCESS)
        r->utilisation_percent = (int)u.gpu;
    r->reasons_known = read_reasons(device, &r->reasons);
    r->ecc_corrected = read_ecc(device, NVML_ERROR_CORRECTED), r->ecc_uncorrected = read_ecc(device, NVML_ERROR_UNCORRECTED);
    if (nvml.rows && nvml.rows(device, &correctable, &uncorrectable, &pending, &failed) == NVML_SUCCESS)
        r->rows_pending = pending != 0, r->rows_failed = failed != 0;
    if (nvml.clock(device, NVML_CLOCK_SM, &mhz) == NVML_SUCCESS)
        r->sm_mhz = mhz;
    if (nvml.most_clock && nvml.most_clock(device, NVML_CLOCK_SM, &most) == NVML_SUCCESS)
        r->sm_most_mhz = most;
    if (nvml.temperature && nvml.temperature(device, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS)
        r->temperature_c = (int)celsius;
    if (nvml.power && nvml.power(device, &mw) == NVML_SUCCESS)
        r->power_mw = (int)mw;
}

static void read_card(const char *name, bool by_uuid, struct card_reading *ret)
{
    struct card_reading r = {.process_count = -1, .total_bytes = -1, .used_bytes = -1, .free_bytes = -1, .utilisation_percent = -1,
                             .ecc_corrected = -1, .ecc_uncorrected = -1, .xid = -1, .temperature_c = -1, .power_mw = -1};
    nvmlDevice_t device;
    if (nvml_open(r.why, sizeof r.why)) {
        r.known = nvml_device(name, by_uuid, &device);
        if (r.known)
            read_device(device, &r);
        if (r.known && by_uuid)             /* a run child is too short-lived to hear of faults, and its own would be the candidate's */
            r.xid = read_xid(device);
        if (!r.known)
            snprintf(r.why, sizeof r.why, "NVML knows no card %.64s", name);
    }
    *ret = r;
}

void card_prepare(void) { (void)nvml_open(NULL, 0); }

void card_read(const char *uuid, struct card_reading *ret) { read_card(uuid, true, ret); }

bool nvml_health(const char *bus_id, char *why, size_t size)
{
    struct card_reading r;
    read_card(bus_id, false, &r);
    return card_well(&r, why, size);
}

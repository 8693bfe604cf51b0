/*
 * A libnvidia-ml.so.1 without a card, found before any other: one card, whose state a test sets by environment variables. A variable
 * that is not set gives a card that is well and alone.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct card *device;
typedef struct events *events;
struct card { int unused; };
struct events { int unused; };
static struct card the_card;
static struct events the_events;

struct process { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; };
struct memory { unsigned version; unsigned long long total, reserved, free, used; };
struct utilisation { unsigned gpu, memory; };
struct event { device card; unsigned long long type, data; unsigned gpu_instance, compute_instance; };

#define API(name, ...)    \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

static unsigned long long set_to(const char *name, unsigned long long otherwise)
{
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 0) : otherwise;
}

API(nvmlInit_v2, void) { return (int)set_to("FAKE_NVML_INIT", 0); }
API(nvmlSystemGetDriverVersion, char *to, unsigned size) { return strncpy(to, "580.0", size) ? 0 : 1; }
API(nvmlDeviceGetHandleByPciBusId_v2, const char *bus, device *ret) { *ret = &the_card; return strcmp(bus, "0000:01:00.0") ? 6 : 0; }
API(nvmlDeviceGetHandleByUUID, const char *uuid, device *ret) { *ret = &the_card; return strncmp(uuid, "GPU-abab", 8) ? 6 : 0; }
API(nvmlDeviceGetClockInfo, device d, int type, unsigned *mhz) { (void)d, (void)type; *mhz = (unsigned)set_to("FAKE_MHZ", 1980); return 0; }
API(nvmlDeviceGetMaxClockInfo, device d, int type, unsigned *mhz) { (void)d, (void)type; *mhz = 1980; return 0; }
API(nvmlDeviceGetRemappedRows, device d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    (void)d;
    *corrected = *uncorrected = *failed = 0, *pending = (unsigned)set_to("FAKE_ROWS_PENDING", 0);
    return 0;
}
/* FAKE_PROCESSES others, and this process where FAKE_HIDDEN is not set. */
API(nvmlDeviceGetComputeRunningProcesses_v3, device d, unsigned *count, struct process *list)
{
    unsigned n = 0, others = (unsigned)set_to("FAKE_PROCESSES", 0);
    (void)d;
    if (!set_to("FAKE_HIDDEN", 0))
        list[n++] = (struct process){(unsigned)getpid(), 512u << 20, 0, 0};
    for (unsigned i = 0; i < others && n < *count; i++)
        list[n++] = (struct process){100000000 + i, ~0ull, 0, 0};
    *count = n;
    return 0;
}
API(nvmlDeviceGetMPSComputeRunningProcesses_v3, device d, unsigned *count, struct process *list) { (void)d, (void)list; *count = 0; return 0; }
API(nvmlDeviceGetMemoryInfo_v2, device d, struct memory *m)
{
    (void)d;
    if (m->version != (sizeof *m | 2u << 24))
        return 25;
    m->total = 1ull << 30, m->used = set_to("FAKE_USED_BYTES", 0), m->free = m->total - m->used, m->reserved = 0;
    return 0;
}
API(nvmlDeviceGetUtilizationRates, device d, struct utilisation *u) { (void)d; *u = (struct utilisation){3, 1}; return 0; }
API(nvmlDeviceGetCurrentClocksEventReasons, device d, unsigned long long *reasons) { (void)d; *reasons = set_to("FAKE_REASONS", 1); return 0; }
API(nvmlDeviceGetTotalEccErrors, device d, int type, int counter, unsigned long long *count)
{
    (void)d, (void)counter;
    *count = type ? set_to("FAKE_ECC", 0) : 7;
    return 0;
}
API(nvmlDeviceGetTemperature, device d, int sensor, unsigned *celsius) { (void)d, (void)sensor; *celsius = 40; return 0; }
API(nvmlEventSetCreate, events *ret) { *ret = &the_events; return 0; }
API(nvmlDeviceRegisterEvents, device d, unsigned long long types, events set) { (void)d, (void)set; return types == 8 ? 0 : 2; }
API(nvmlEventSetWait_v2, events set, struct event *e, unsigned ms)
{
    static unsigned long long told;
    unsigned long long xid = set_to("FAKE_XID", 0);
    (void)set;
    if (ms || xid == told || !xid)
        return 10;
    told = xid;
    *e = (struct event){&the_card, 8, xid, 0, 0};
    return 0;
}

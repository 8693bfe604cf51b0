/* The table of the driver, and the one place where a CUresult becomes an error or a verdict. */
#include "gpu/device/cuda_api.h"
#include "gpu/device/library.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

struct cu_api cu;

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
static const struct library_entry cu_entries[] = {
#define X(fn) {TEXT(fn), (void **)&cu.fn},
    CU_API(X)
#undef X
    {NULL, NULL}};
static struct library cu_library;

bool cuda_reaches_host(const char *symbol)
{
    static const char *const words[] = {"Host", "Managed", "Ipc", "Peer", "Export", "Import", "External", "Mapped", "Prefetch", "Advise", "Pool",
                                        "GLRegister", "Graphics", "Multicast", "Batch"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(symbol, words[i]))
            return true;
    return false;
}

bool cuda_library(const char **ret_path, struct err *err)
{
    struct link_map *map = NULL;
    if (!library_open(&cu_library, "libcuda.so.1", cu_entries, err))
        return false;
    if (dlinfo(cu_library.handle, RTLD_DI_LINKMAP, &map) != 0 || !map || map->l_name[0] != '/')
        return err_set(err, ERR_UNAVAILABLE, "libcuda.so.1 does not say where it lies");
    *ret_path = map->l_name;
    return true;
}

bool cuda_open(struct err *err)
{
    static bool started;
    if (!library_open(&cu_library, "libcuda.so.1", cu_entries, err))
        return false;
    if (started)
        return true;
    /* No call that makes memory of the host, of another process or of another card reachable is even looked up. */
    for (const struct library_entry *e = cu_entries; e->symbol; e++)
        BUG_ON(cuda_reaches_host(e->symbol));
    CUresult r = cu.cuInit(0);
    if (r != CUDA_SUCCESS) {
        err_from_cu(err, r, "cuInit");
        if (err)
            err->code = ERR_UNAVAILABLE;
        return false;
    }
    started = true;
    return true;
}

/*
 * What is the card's or its neighbours' and never a candidate's: plans and tensors are limited to a few GiB, so memory that is not there
 * is memory that others hold. The caller tries again, and does not count it against anybody.
 */
static bool of_the_card(CUresult r)
{
    static const CUresult list[] = {CUDA_ERROR_OUT_OF_MEMORY,      CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE,
                                    CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_NO_DEVICE,         CUDA_ERROR_SYSTEM_NOT_READY};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == r)
            return true;
    return false;
}

bool err_from_cu(struct err *err, CUresult r, const char *call)
{
    const char *name = NULL, *text = NULL;
    enum err_code code = of_the_card(r) ? ERR_UNAVAILABLE : ERR_UPSTREAM;
    if (cu.cuGetErrorName(r, &name) != CUDA_SUCCESS || cu.cuGetErrorString(r, &text) != CUDA_SUCCESS)
        return err_set(err, code, "%s: unknown CUDA error %d", call, (int)r);
    return err_set(err, code, "%s: %s (%s)", call, name, text);
}

static const struct {
    CUresult r;
    enum verdict_code code;
    const char *text;
} faults[] = {
    {CUDA_ERROR_ILLEGAL_ADDRESS, VERDICT_OUT_OF_BOUNDS, "an access outside every buffer, or a write to an input"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, VERDICT_MISALIGNED, "an access that is not aligned to its size"},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, VERDICT_FAULT, "an access in the wrong address space"},
    {CUDA_ERROR_INVALID_PC, VERDICT_FAULT, "a jump to nowhere"},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, VERDICT_FAULT, "an illegal instruction or a trap"},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, VERDICT_FAULT, "the stack overflowed or was damaged"},
    {CUDA_ERROR_ASSERT, VERDICT_FAULT, "a failed assertion"},
    {CUDA_ERROR_LAUNCH_FAILED, VERDICT_FAULT, "a trap, or a fault that the card does not name"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, VERDICT_TIMEOUT, "the launch took too long"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, VERDICT_RESOURCE_LIMIT,
     "too many registers, threads or too much shared memory for a block"},
    {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, VERDICT_RESOURCE_LIMIT,
     "more blocks than can be resident at once, which a cooperative launch needs"},
    {CUDA_ERROR_INVALID_CLUSTER_SIZE, VERDICT_RESOURCE_LIMIT, "a cluster of this size cannot be placed"},
    {CUDA_ERROR_INVALID_VALUE, VERDICT_RESOURCE_LIMIT, "a launch configuration that the card does not take"},
    {CUDA_ERROR_INVALID_IMAGE, VERDICT_FAULT, "the driver does not take this cubin"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, VERDICT_REJECTED_PLAN, "the code was assembled for another target than this card"},
    {CUDA_ERROR_NOT_FOUND, VERDICT_REJECTED_PLAN, "the code has no kernel of this name"},
};

bool fault_from_cu(struct device_fault *f, CUresult r, const struct plan *plan, int step, struct err *err)
{
    const char *name = NULL;
    cu.cuGetErrorName(r, &name);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i].r == r) {
            json_t *d = json_object();
            json_put_str(d, "cuda_error", name ? name : "");
            if (step >= 0) {
                json_put_int(d, "step", step);
                json_put_str(d, "kernel", plan->steps[step].is_memset ? "memset" : plan->steps[step].kernel);
            }
            return fault_set(f, faults[i].code, d, "%s: %s", name ? name : "CUDA error", faults[i].text);
        }
    return err_from_cu(err, r, "running the plan");
}

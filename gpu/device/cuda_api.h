/*
 * The CUDA driver and NVML as tables of pointers, and what the files of the cuda device share. No CUDA library is linked: where
 * no driver is, cuda_open says so.
 */
#pragma once
#include "gpu/device/inside.h"

#include <cuda.h>

#define CU_API(X)                                                                                                             \
    X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetUuid)                   \
    X(cuDeviceGetAttribute) X(cuDeviceTotalMem) X(cuDeviceGetPCIBusId) X(cuDevicePrimaryCtxSetFlags) X(cuDevicePrimaryCtxRetain) \
    X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuCtxSetLimit) X(cuGetErrorName) X(cuGetErrorString)   \
    X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal) X(cuFuncSetAttribute) X(cuFuncGetAttribute) X(cuLaunchKernelEx)  \
    X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoH) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async)           \
    X(cuMemGetAllocationGranularity) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(cuMemMap)       \
    X(cuMemUnmap) X(cuMemSetAccess) X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamBeginCapture)          \
    X(cuStreamEndCapture) X(cuGraphDestroy) X(cuGraphInstantiate) X(cuGraphExecUpdate) X(cuGraphExecDestroy) X(cuGraphUpload)    \
    X(cuGraphLaunch)                                                                                                          \
    X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventElapsedTime)

struct cu_api {
#define X(fn) __typeof__(&fn) fn;
    CU_API(X)
#undef X
};
extern struct cu_api cu;      /* filled by cuda_open */

/* dlopen and cuInit. ERR_UNAVAILABLE: no driver, or no card. */
bool cuda_open(struct err *err) MUST_CHECK;
/*
 * A kernel can write whatever memory its card can address: what it must not write must not be there. True: a driver call of this
 * name makes memory of the host, of another process or of another card addressable (or moves it).
 */
bool cuda_reaches_host(const char *symbol);
/* Opens the driver's library without starting it; the path it was found at. */
bool cuda_library(const char **ret_path, struct err *err) MUST_CHECK;
/* A failed call of ours as an error: "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (out of memory)". Always false. */
bool err_from_cu(struct err *err, CUresult r, const char *call);
/* CU(err, cuCall, arguments...): true if it succeeded. */
#define CU(err, fn, ...)                                                       \
    __extension__({                                                            \
        CUresult cu_result_ = cu.fn(__VA_ARGS__);                              \
        cu_result_ == CUDA_SUCCESS || err_from_cu((err), cu_result_, #fn);     \
    })
/* What a failure while the candidate runs says about it; false: it is not the candidate's (then err is set). */
bool fault_from_cu(struct device_fault *f, CUresult r, const struct plan *plan, int step, struct err *err);

/* NVML: optional, all of it. Each answers false or 0 where it is missing or not allowed. */
bool nvml_driver_version(char *to, size_t size);
double nvml_sm_clock_mhz(const char *bus_id);
uint64_t nvml_clock_reasons(const char *bus_id);           /* bits of card.h */
int64_t nvml_memory_used_bytes(const char *bus_id);        /* -1: not known */
bool nvml_health(const char *bus_id, char *why, size_t size);      /* false: `why` says what is wrong with the card */

/* ---- shared by the files of the cuda device ---- */

struct piece {                /* as in helpers.cu */
    CUdeviceptr to, from;     /* from 0: the pattern */
    uint64_t bytes, rotate, pattern, first_chunk;
    uint32_t element, slot;
};

#define SCRUB_FRAMES 3
#define SCRUB_PRINTS 1024
struct scrub {                        /* cuda_scrub.c; loaded when first needed */
    CUmodule module;
    CUfunction shared, frames[SCRUB_FRAMES], fingerprint;
    CUdeviceptr prints;               /* SCRUB_PRINTS sums */
};

struct device {
    int ordinal;
    CUdevice handle;
    CUcontext context;
    CUstream stream;
    CUmodule helpers;
    CUfunction restore, differs, read, empty, gaps, compare, sums;
    CUdeviceptr pieces, found;        /* room for the helper kernels' arguments */
    size_t pieces_bytes;
    struct scrub scrub;
    struct device_info info;
    char bus_id[32];
    int shared_optin_bytes;
    size_t granularity;
    bool dead;                        /* a fault poisoned the context: nothing more can run in this process */
};

struct cuda_sets;                     /* cuda_time.c */
struct cuda_series;                   /* cuda_probe.c */
struct module_variable { char name[64]; CUdeviceptr at; size_t bytes; };
#define VARIABLES_TOLD 64             /* by name; of more, the rest together */
struct device_program {
    struct device *device;
    CUmodule module;
    CUfunction functions[PLAN_MAX_STEPS];
    struct plan plan;
    int tensor_count, buffer_count;
    struct program_buffer buffers[PROGRAM_MAX_BUFFERS];
    struct tensor tensors[OP_MAX_TENSORS];
    struct cuda_sets *sets;
    struct cuda_series *series;
    int local_bytes;                  /* largest frame of its kernels */
    struct module_variable *variables;
    int variable_count;
    uint64_t variable_salt, variable_prints[VARIABLES_TOLD];     /* as they were when the module was loaded */
};

/* Restores or poisons a list of pieces in one launch, on the device's stream. Fills in first_chunk. */
bool helper_restore(struct device *d, struct piece *pieces, int count, struct err *err) MUST_CHECK;
/* The same with another of the kernels that work on pieces; to: as of helper_pieces. */
bool helper_each(struct device *d, CUfunction f, struct piece *pieces, int count, CUdeviceptr to, struct err *err) MUST_CHECK;
/* Numbers the chunks of a list for the card and leaves out what is empty; how many are left. */
int pieces_number(struct piece *pieces, int count);
/* Restores, compares or sums (into `to`) the pieces that lie at `list` on the card: `count` of a numbered list, from anywhere in it. */
bool helper_pieces(struct device *d, CUfunction f, CUdeviceptr list, const struct piece *pieces, int count, CUdeviceptr to, struct err *err) MUST_CHECK;
bool helper_launch(struct device *d, CUfunction f, unsigned blocks, unsigned threads, unsigned shared_bytes,
                   void **args, struct err *err) MUST_CHECK;
/* In the order of the stream, unlike the plain copy, whose end a stream of ours would not wait for. */
bool helper_upload(struct device *d, CUdeviceptr to, const void *from, size_t bytes, struct err *err) MUST_CHECK;
bool helpers_load(struct device *d, struct err *err) MUST_CHECK;

/* Shared memory, registers and frames of up to so many bytes, of all multiprocessors; on the device's stream. */
bool scrub(struct device *d, uint32_t pattern, int local_bytes, struct err *err) MUST_CHECK;
void scrub_done(struct device *d);
/* Sums of bytes and their places: all to 0; one buffer's added to sum `at`; all taken, after what was launched has ended. */
bool prints_clear(struct device *d, struct err *err) MUST_CHECK;
bool prints_add(struct device *d, int at, CUdeviceptr from, uint64_t bytes, uint64_t salt, struct err *err) MUST_CHECK;
bool prints_take(struct device *d, uint64_t ret[SCRUB_PRINTS], struct err *err) MUST_CHECK;

/* Asks for what the step needs, so that a launch can only fail for reasons that are seen here first. */
bool cuda_prepare_step(struct device_program *p, int step, struct device_fault *fault, struct err *err) MUST_CHECK;
/* One launch or memset of the plan with buffers at these addresses, on the device's stream (which may be capturing). */
CUresult step_launch(const struct device_program *p, int step, const CUdeviceptr *addresses);

/* Memory whose every stray access faults or is seen: see cuda_guarded.c. */
struct guarded {
    CUdeviceptr reserved, mapping, address;
    size_t reserved_bytes, mapping_bytes;
    CUmemGenericAllocationHandle handle;
    bool mapped;
};
void guarded_done(struct guarded *g);
/* True: nothing around the buffer changed. */
bool guarded_intact(struct device *d, const struct guarded *g, const struct program_buffer *b, uint64_t poison,
                    bool *ret_intact, struct err *err) MUST_CHECK;

/* All buffers of one run. */
struct memory { struct device *device; int count; struct guarded list[PROGRAM_MAX_BUFFERS]; };
/* held: by tensor; NULL: all rows of all. */
bool memory_make(const struct device_program *p, const void *const *tensors, const struct device_held *held, uint64_t poison, enum device_place place,
                 struct memory *ret, struct err *err) MUST_CHECK;
void memory_done(struct memory *m);
DEFINE_CLEANUP(memory, struct memory, memory_done(it))
/* Other content for a buffer that has none of a launch's results in it: inputs, which are read-only otherwise. */
bool guarded_fill(struct device *d, const struct guarded *g, const struct program_buffer *b, const void *content, struct err *err) MUST_CHECK;
/* Copies the tensors that are asked for; whether what lies around the buffers, and the module's variables, are as they were. */
bool memory_take(struct device_program *p, const struct memory *m, const struct device_held *held, uint64_t poison, void **tensors, bool *ret_intact,
                 struct device_fault *fault, struct err *err) MUST_CHECK;

/* A tensor of which rows are held (cuda_held.c): cleared, with the rows in their places; the rows as they are now; *ret_byte is the first that is not zero between them, -1 none. */
bool held_put(struct device *d, CUdeviceptr at, size_t bytes, const struct device_held *h, const void *rows, struct err *err) MUST_CHECK;
bool held_take(struct device *d, CUdeviceptr at, const struct device_held *h, void *rows, struct err *err) MUST_CHECK;
bool held_intact(struct device *d, CUdeviceptr at, size_t bytes, const struct device_held *h, int64_t *ret_byte, struct err *err) MUST_CHECK;

/* Variables of the module, by the names that its PTX has: cuda_variables.c. */
bool variables_find(struct device_program *p, const struct ptx_module *m, struct err *err) MUST_CHECK;
/* state_carried where one has other bytes than at the start. */
bool variables_check(struct device_program *p, struct device_fault *fault, struct err *err) MUST_CHECK;

bool cuda_probe(struct device_program *p, const struct device_probe *how, struct device_probe_result *ret, struct device_fault *fault,
                struct err *err);
void cuda_series_free(struct cuda_series *s);

bool cuda_time_setup(struct device_program *p, const struct device_time_setup *how, int *ret_sets,
                     struct device_fault *fault, struct err *err);
bool cuda_time_block(struct device_program *p, const struct device_time_block *how, struct device_sample *ret,
                     struct device_fault *fault, struct err *err);
bool cuda_time_output(struct device_program *p, int set, int t, void *ret_bytes, struct err *err);
bool cuda_time_windows(struct device_program *p, int set, struct device_windows *ret, struct err *err);
void cuda_sets_free(struct cuda_sets *s);
/* Single launches of the plan, each on a set of its own after a flush of L2, with what events around them say. Needs a set-up. */
bool cuda_time_cold(struct device_program *p, int launches, struct device_audit_result *ret, struct device_fault *fault, struct err *err);
bool cuda_time_warm(struct device_program *p, const struct device_time_warm *how, struct device_sample *ret,
                    struct device_fault *fault, struct err *err);
bool cuda_time_eager(struct device_program *p, const struct device_time_block *how, int64_t *ret_wall_ns,
                     struct device_fault *fault, struct err *err);
bool cuda_alone(struct device *d, int64_t watch_ns, struct device_alone *ret, struct err *err);
bool cuda_audit_prepare(const char *library, struct err *err);
bool cuda_audit(struct device_program *p, const struct device_audit *how, struct device_audit_result *ret, struct device_fault *fault,
                struct err *err);
bool cuda_profile_prepare(const char *library, struct err *err);
bool cuda_profile(struct device_program *p, const struct device_profile *how, struct device_profile_result *ret, struct device_fault *fault,
                  struct err *err);
bool cuda_calibrate(struct device *d, json_t **ret, struct err *err);
bool cuda_alive(const struct device *d, struct err *err) MUST_CHECK;

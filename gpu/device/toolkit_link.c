/*
 * PTX to the cubin of exactly one target by nvJitLink, and the figures of each kernel from its log.
 *
 * The cubin is what is hashed, run, timed, signed and served, so it holds no line information, and its kernels are exactly the
 * entries of the PTX that was emulated: a name on one side only is refused.
 */
#include "gpu/device/inside.h"
#include "gpu/device/library.h"
#include "gpu/device/toolkit_text.h"

#include <nvJitLink.h>
#include <string.h>

#define NVJITLINK_API(X)                                                                                         \
    X(nvJitLinkCreate) X(nvJitLinkDestroy) X(nvJitLinkAddData) X(nvJitLinkComplete) X(nvJitLinkGetLinkedCubinSize) \
    X(nvJitLinkGetLinkedCubin) X(nvJitLinkGetErrorLogSize) X(nvJitLinkGetErrorLog) X(nvJitLinkGetInfoLogSize)    \
    X(nvJitLinkGetInfoLog)

static struct nvjitlink_api {
#define X(fn) __typeof__(&fn) fn;
    NVJITLINK_API(X)
#undef X
} api;

static const struct library_entry entries[] = {
#define X(fn) {#fn, (void **)&api.fn},
    NVJITLINK_API(X)
#undef X
    {NULL, NULL}};

#define CUBIN_MAX_BYTES ((size_t)16 << 20)

static const char *result_text(nvJitLinkResult r)
{
    static const struct { nvJitLinkResult r; const char *text; } table[] = {
        {NVJITLINK_ERROR_UNRECOGNIZED_OPTION, "an option is not known"},
        {NVJITLINK_ERROR_MISSING_ARCH, "no target given"},
        {NVJITLINK_ERROR_INVALID_INPUT, "the input is invalid"},
        {NVJITLINK_ERROR_PTX_COMPILE, "the PTX does not assemble"},
        {NVJITLINK_ERROR_NVVM_COMPILE, "NVVM failed"},
        {NVJITLINK_ERROR_INTERNAL, "internal error of nvJitLink"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].r == r)
            return table[i].text;
    return "nvJitLink failed";
}

/* nvJitLink's error and info log in one; the caller frees. */
static char *take_log(nvJitLinkHandle handle)
{
    struct buf both = {.limit = 4 * TOOLKIT_LOG_LIMIT_BYTES};
    size_t size = 0;
    if (api.nvJitLinkGetErrorLogSize(handle, &size) == NVJITLINK_SUCCESS && size) {
        cleanup(str) char *text = xalloc(size + 1);
        if (api.nvJitLinkGetErrorLog(handle, text) == NVJITLINK_SUCCESS)
            buf_str(&both, text);
    }
    size = 0;
    if (api.nvJitLinkGetInfoLogSize(handle, &size) == NVJITLINK_SUCCESS && size) {
        cleanup(str) char *text = xalloc(size + 1);
        if (api.nvJitLinkGetInfoLog(handle, text) == NVJITLINK_SUCCESS)
            buf_str(&both, text);
    }
    return buf_take(&both);
}

static bool add_kernel(void *ctx, const char *name, size_t size)
{
    struct toolkit_assembled *a = ctx;
    if (a->kernel_count == (int)(sizeof a->kernels / sizeof *a->kernels) || size >= PLAN_KERNEL_SIZE)
        return false;
    memcpy(a->kernels[a->kernel_count].name, name, size);
    a->kernels[a->kernel_count++].name[size] = 0;
    return true;
}

struct match { const struct toolkit_assembled *from; int found; };

static bool match_kernel(void *ctx, const char *name, size_t size)
{
    struct match *m = ctx;
    for (int i = 0; i < m->from->kernel_count; i++)
        if (strlen(m->from->kernels[i].name) == size && memcmp(m->from->kernels[i].name, name, size) == 0) {
            m->found++;
            return true;
        }
    return false;
}

static void refuse(struct toolkit_assembled *a, const char *text)
{
    free(a->log);
    a->log = xstrdup(text);
    a->ok = false;
}

/* One assembly: adds the PTX, links, takes the cubin and the log. */
static bool link_ptx(nvJitLinkHandle handle, const char *ptx, size_t ptx_bytes, struct toolkit_assembled *a,
                     struct err *err)
{
    /* nvJitLink wants the text with its NUL. */
    cleanup(str) char *text = xstrndup(ptx, ptx_bytes);
    nvJitLinkResult r = api.nvJitLinkAddData(handle, NVJITLINK_INPUT_PTX, text, strlen(text) + 1, "candidate.ptx");
    if (r == NVJITLINK_SUCCESS)
        r = api.nvJitLinkComplete(handle);
    a->log = take_log(handle);
    a->ok = r == NVJITLINK_SUCCESS;
    if (!a->ok) {
        if (!a->log[0])
            refuse(a, result_text(r));
        return true;
    }
    size_t size = 0;
    r = api.nvJitLinkGetLinkedCubinSize(handle, &size);
    if (r != NVJITLINK_SUCCESS || !size)
        return err_set(err, ERR_UPSTREAM, "nvJitLink linked but gives no cubin: %s", result_text(r));
    if (size > CUBIN_MAX_BYTES) {
        refuse(a, "the cubin is larger than 16 MiB: generate less code\n");
        return true;
    }
    a->cubin = xalloc(size);
    a->cubin_bytes = size;
    r = api.nvJitLinkGetLinkedCubin(handle, a->cubin);
    return r == NVJITLINK_SUCCESS ||
           err_set(err, ERR_UPSTREAM, "nvJitLink does not hand out its cubin: %s", result_text(r));
}

/* From sm_90 on the system keeps the first kilobyte of a block's shared memory, and a kernel's section counts it. */
#define RESERVED_SHARED_BYTES 1024

/* The linker drops what no kernel names, after the assembler has told its figures: what is in the file is what a launch takes. */
static void linked_shared_bytes(struct toolkit_assembled *a, const char *target)
{
    const bool reserves = strtol(target + 3, NULL, 10) >= 90;
    for (int i = 0; i < a->kernel_count; i++) {
        int64_t bytes = toolkit_cubin_shared_bytes(a->cubin, a->cubin_bytes, a->kernels[i].name);
        if (bytes >= RESERVED_SHARED_BYTES && reserves)
            bytes -= RESERVED_SHARED_BYTES;
        if (bytes >= 0 && bytes < (int64_t)a->kernels[i].resources.static_shared_bytes)
            a->kernels[i].resources.static_shared_bytes = (uint32_t)bytes;
    }
}

/* PTX can be written so that they differ (an entry declared and not defined): its writer's fault, not ours. */
static void check_kernels(struct toolkit_assembled *a, const char *target)
{
    struct match m = {a, 0};
    if (!toolkit_cubin_entries(a->cubin, a->cubin_bytes, match_kernel, &m) || m.found != a->kernel_count)
        refuse(a, "the assembled kernels are not the entries of the PTX: each must be written once, with its body\n");
    else if (!toolkit_log_figures(a->log, a->kernels, a->kernel_count))
        refuse(a, "the assembler does not tell the registers and the memory of every entry of the PTX\n");
    else
        linked_shared_bytes(a, target);
}

static void drop(struct toolkit_assembled *a)
{
    free(a->cubin);
    free(a->log);
}

bool toolkit_open_linker(const struct toolkit_paths *t, struct err *err)
{
    static struct library library;
    return library_open(&library, t->nvjitlink, entries, err);
}

bool toolkit_assemble(const struct toolkit_paths *t, const char *ptx, size_t ptx_bytes, const char *target,
                      int maxrregcount, struct toolkit_assembled *ret, struct err *err)
{
    struct toolkit_assembled a = {0};
    if (memchr(ptx, 0, ptx_bytes) || !toolkit_ptx_entries(ptx, ptx_bytes, add_kernel, &a)) {
        refuse(&a, "the PTX has a NUL character, an entry without a name, more than 32 entries, or a name of more than "
                   "255 characters\n");
        *ret = a;
        return true;
    }
    if (!toolkit_open_linker(t, err))
        return false;
    char architecture[48], registers[48];
    snprintf(architecture, sizeof architecture, "-arch=%.*s", TARGET_SIZE, target);
    snprintf(registers, sizeof registers, "-maxrregcount=%d", maxrregcount);
    /* Line information is for the emulator's messages; the served cubin carries none. */
    /* -no-cache: from its disk cache it would hand out what an earlier run left there, and without the assembler's figures */
    const char *options[] = {architecture, "-verbose", "-no-cache", "-Xptxas=--suppress-debug-info", registers};
    nvJitLinkHandle handle;
    nvJitLinkResult r = api.nvJitLinkCreate(&handle, maxrregcount > 0 ? 5 : 4, options);
    if (r != NVJITLINK_SUCCESS)
        return err_set(err, ERR_UPSTREAM, "nvJitLink does not start for %s: %s", target, result_text(r));
    bool done = link_ptx(handle, ptx, ptx_bytes, &a, err);
    if (done && a.ok)
        check_kernels(&a, target);
    api.nvJitLinkDestroy(&handle);
    if (!done) {
        drop(&a);
        return false;
    }
    char *clean = toolkit_log_clean(t, a.log, strlen(a.log));
    free(a.log);
    a.log = clean;
    if (!a.ok) {
        free(a.cubin);
        a.cubin = NULL;
        a.cubin_bytes = 0;
        a.kernel_count = 0;
    }
    *ret = a;
    return true;
}

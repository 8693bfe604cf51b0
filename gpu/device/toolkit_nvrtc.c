/*
 * CUDA C++ to PTX by NVRTC, opened at run time. One process compiles one candidate and exits, so the library stays open.
 *
 * NVRTC is given the source in memory under the name "candidate.cu", no folder but the toolkit's headers, and options from us
 * alone. What it can still read by an absolute #include is the sandbox's business: there is nothing else to read there. That is
 * also why libraries are opened before a source is seen (toolkit_settle): their files are then none that must stay readable.
 */
#include "gpu/device/inside.h"
#include "gpu/device/library.h"
#include "gpu/device/toolkit_text.h"

#include <dlfcn.h>
#include <nvrtc.h>
#include <string.h>
#include <sys/stat.h>

#define NVRTC_API(X)                                                                                                    \
    X(nvrtcGetErrorString) X(nvrtcCreateProgram) X(nvrtcDestroyProgram) X(nvrtcCompileProgram) X(nvrtcGetPTXSize)       \
    X(nvrtcGetPTX) X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog)

static struct nvrtc_api {
#define X(fn) __typeof__(&fn) fn;
    NVRTC_API(X)
#undef X
} api;

static const struct library_entry entries[] = {
#define X(fn) {#fn, (void **)&api.fn},
    NVRTC_API(X)
#undef X
    {NULL, NULL}};

#define NVRTC_MAX_OPTIONS 160
#define NVRTC_MAX_PTX_BYTES ((size_t)8 << 20)

/* Which results are the candidate's doing: all but those that say our options or our installation are wrong. */
static bool is_ours(nvrtcResult r)
{
    return r == NVRTC_ERROR_INVALID_OPTION || r == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE ||
           r == NVRTC_ERROR_INVALID_PROGRAM;
}

/* Our options only: definitions and two switches. An include path or a file name among them would be a hole. */
static bool option_allowed(const char *option)
{
    static const char *const allowed[] = {"--use_fast_math", "-use_fast_math", NULL};
    if (strncmp(option, "-D", 2) == 0 && ((option[2] >= 'A' && option[2] <= 'Z') || option[2] == '_'))
        return true;
    if (strncmp(option, "--maxrregcount=", 15) == 0)
        return strspn(option + 15, "0123456789") == strlen(option + 15);
    for (const char *const *a = allowed; *a; a++)
        if (strcmp(option, *a) == 0)
            return true;
    return false;
}

struct option_list { int count; char *list[NVRTC_MAX_OPTIONS]; };

static void option_list_done(struct option_list *o)
{
    for (int i = 0; i < o->count; i++)
        free(o->list[i]);
}
DEFINE_CLEANUP(options, struct option_list, option_list_done(it))

static bool add_option(struct option_list *o, char *owned, struct err *err)
{
    if (o->count == NVRTC_MAX_OPTIONS) {
        free(owned);
        return err_set(err, ERR_INVALID, "more than %d compiler options", NVRTC_MAX_OPTIONS);
    }
    o->list[o->count++] = owned;
    return true;
}

/* The toolkit's headers, and where cooperative_groups, libcu++ and mma.h (which asks for its parts without their folder) keep theirs; folders that a version lacks are left out. */
static bool add_includes(struct option_list *o, const struct toolkit_paths *t, struct err *err)
{
    static const char *const folders[] = {"", "/cccl", "/cooperative_groups", "/cooperative_groups/details", "/crt", NULL};
    for (const char *const *f = folders; *f; f++) {
        cleanup(str) char *path = xfmt("%s%s", t->include, *f);
        struct stat st;
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode) && !add_option(o, xfmt("--include-path=%s", path), err))
            return false;
    }
    return true;
}

static bool make_options(struct option_list *o, const struct toolkit_paths *t, const char *target, const char *options,
                         struct err *err)
{
    if (strncmp(target, "sm_", 3) != 0)
        return err_set(err, ERR_INVALID, "target \"%s\" is not of the form sm_90a", target);
    if (!add_option(o, xfmt("--gpu-architecture=compute_%s", target + 3), err) ||
        !add_option(o, xstrdup("-std=c++17"), err) || !add_option(o, xstrdup("-lineinfo"), err) ||
        !add_option(o, xstrdup("--no-source-include"), err) || !add_includes(o, t, err))
        return false;
    for (const char *line = options ? options : ""; *line;) {
        size_t n = strcspn(line, "\n");
        if (n) {
            char *option = xstrndup(line, n);
            if (!option_allowed(option)) {
                err_set(err, ERR_INVALID, "the compiler option \"%.100s\" is not one of ours", option);
                free(option);
                return false;
            }
            if (!add_option(o, option, err))
                return false;
        }
        line += n + (line[n] != 0);
    }
    return true;
}

static char *take_log(const struct toolkit_paths *t, nvrtcProgram program)
{
    size_t size = 0;
    cleanup(str) char *log = NULL;
    if (api.nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size) {
        log = xalloc(size + 1);
        if (api.nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS)
            log[0] = 0;
    }
    return toolkit_log_clean(t, log ? log : "", log ? strlen(log) : 0);
}

static bool take_ptx(const struct toolkit_paths *t, nvrtcProgram program, struct toolkit_compiled *ret, struct err *err)
{
    size_t size = 0;
    nvrtcResult r = api.nvrtcGetPTXSize(program, &size);
    if (r != NVRTC_SUCCESS || !size)
        return err_set(err, ERR_UPSTREAM, "NVRTC compiled but gives no PTX: %s", api.nvrtcGetErrorString(r));
    if (size > NVRTC_MAX_PTX_BYTES) {
        ret->ok = false;
        free(ret->log);
        ret->log = xfmt("the source became %zu bytes of PTX; at most %zu are taken\n", size, NVRTC_MAX_PTX_BYTES);
        return true;
    }
    cleanup(str) char *ptx = xalloc(size + 1);
    r = api.nvrtcGetPTX(program, ptx);
    if (r != NVRTC_SUCCESS)
        return err_set(err, ERR_UPSTREAM, "NVRTC does not hand out its PTX: %s", api.nvrtcGetErrorString(r));
    ret->ptx = toolkit_ptx_clean(t, ptx, strlen(ptx), &ret->ptx_bytes);
    return true;
}

/*
 * NVRTC asks the loader for its builtins by their bare name, which finds them only where the loader's cache does, and a sandbox
 * has none. Opened beforehand by path, they are found by their soname.
 */
static bool open_builtins(const struct toolkit_paths *t, struct err *err)
{
    static struct library builtins;
    static const struct library_entry no_entries[] = {{NULL, NULL}};
    return library_open(&builtins, t->builtins, no_entries, err);
}

static bool open_compiler(const struct toolkit_paths *t, struct err *err)
{
    static struct library library;
    return open_builtins(t, err) && library_open(&library, t->nvrtc, entries, err);
}

bool toolkit_settle(struct toolkit_paths *t, struct err *err)
{
    char folder[sizeof t->include];
    snprintf(folder, sizeof folder, "%s", t->include);
    char *slash = strrchr(folder, '/');
    if (!slash || !slash[1])
        return err_set(err, ERR_INVALID, "the toolkit's headers have no folder of their own: \"%s\"", t->include);
    *slash = 0;
    if (!open_compiler(t, err) || !toolkit_open_linker(t, err))
        return false;
    (void)dlopen("libgcc_s.so.1", RTLD_NOW);       /* the C library opens it when a thread ends early */
    if (chdir(slash == folder ? "/" : folder) != 0)
        return err_errno(err, ERR_UNAVAILABLE, "the toolkit's folder");
    snprintf(t->include, sizeof t->include, "%s", slash + 1);
    return true;
}

bool toolkit_compile(const struct toolkit_paths *t, const char *source, const char *target, const char *options,
                     struct toolkit_compiled *ret, struct err *err)
{
    cleanup(options) struct option_list o = {0};
    if (!make_options(&o, t, target, options, err) || !open_compiler(t, err))
        return false;
    nvrtcProgram program;
    if (!strncmp(source, "\xef\xbb\xbf", 3))     /* a byte order mark, which nvcc skips and NVRTC takes for a token */
        source += 3;
    nvrtcResult r = api.nvrtcCreateProgram(&program, source, "candidate.cu", 0, NULL, NULL);
    if (r != NVRTC_SUCCESS)
        return err_set(err, ERR_UPSTREAM, "NVRTC takes no program: %s", api.nvrtcGetErrorString(r));
    r = api.nvrtcCompileProgram(program, o.count, (const char *const *)o.list);
    struct toolkit_compiled c = {.ok = r == NVRTC_SUCCESS, .log = take_log(t, program)};
    bool done = true;
    if (is_ours(r))
        done = err_set(err, ERR_UPSTREAM, "NVRTC: %s: %.300s", api.nvrtcGetErrorString(r), c.log);
    else if (c.ok)
        done = take_ptx(t, program, &c, err);
    else if (!c.log[0]) {
        free(c.log);
        c.log = xfmt("the compiler gave up: %s\n", api.nvrtcGetErrorString(r));
    }
    api.nvrtcDestroyProgram(&program);
    if (!done) {
        free(c.ptx);
        free(c.log);
        return false;
    }
    *ret = c;
    return true;
}

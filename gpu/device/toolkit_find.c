/*
 * Where the CUDA toolkit lies. Three homes are tried in order; in each, the library folders that the runfile, Debian's packages
 * and the network installer use, and the newest version first. Folders are given canonical, so that a sandbox can bind them and
 * a path in a message can be recognised. Only files are looked at here: nothing is opened as a library.
 */
#include "gpu/device/device.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static const char *const library_dirs[] = {"lib64", "lib", "targets/x86_64-linux/lib", "extras/CUPTI/lib64", NULL};
static const char *const include_dirs[] = {"include", "targets/x86_64-linux/include", NULL};
static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
static const char *const nvjitlink_names[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", NULL};

static const char *const cupti_names[] = {"libcupti.so.13", "libcupti.so.12", NULL};

#define TOOLKIT_ADVICE                                                                                               \
    "install the CUDA toolkit 13.0 or 12.x (package cuda-toolkit-13-0 of developer.download.nvidia.com, or the pip " \
    "packages nvidia-cuda-nvrtc, nvidia-nvjitlink and nvidia-cuda-runtime), then give its folder as --cuda-home"

static bool canonical(const char *path, char *ret, size_t size)
{
    char full[PATH_MAX];
    if (!realpath(path, full) || strlen(full) >= size)
        return false;
    memcpy(ret, full, strlen(full) + 1);
    return true;
}

/* Its folder canonical, its own name kept: a library is opened, and bound into a sandbox, by its soname. */
static bool canonical_folder(const char *path, char *ret, size_t size)
{
    char folder[PATH_MAX], full[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (access(path, R_OK) != 0 || slash == path)
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return realpath(folder, full) && (size_t)snprintf(ret, size, "%s%s", full, slash) < size;
}

static bool find_library(const char *home, const char *const *names, char *ret, size_t size)
{
    for (const char *const *name = names; *name; name++)
        for (const char *const *dir = library_dirs; *dir; dir++) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/%s/%s", home, *dir, *name);
            if (canonical_folder(path, ret, size))
                return true;
        }
    return false;
}

/* CUDA_VERSION in cuda.h is 1000 x major + 10 x minor; the define stands near the top. */
static bool read_version(const char *include, int *ret_major, int *ret_minor)
{
    char path[PATH_MAX], line[512];
    snprintf(path, sizeof path, "%s/cuda.h", include);
    cleanup(file) FILE *file = fopen(path, "re");
    for (int n = 0; file && n < 4000 && fgets(line, sizeof line, file); n++) {
        int version;
        if (sscanf(line, "#define CUDA_VERSION %d", &version) == 1) {
            *ret_major = version / 1000;
            *ret_minor = version % 1000 / 10;
            return true;
        }
    }
    return false;
}

/* NVRTC opens its builtins by the exact version of its own, beside itself. */
static bool find_builtins(const struct toolkit_paths *t, int major, int minor, char *ret, size_t size)
{
    char path[PATH_MAX];
    const char *slash = strrchr(t->nvrtc, '/');
    int dir = (int)(slash - t->nvrtc);
    snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", dir, t->nvrtc, major, minor);
    if (canonical_folder(path, ret, size))
        return true;
    snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so", dir, t->nvrtc);
    return canonical_folder(path, ret, size);
}

/* Fills in what there is; `missing` gets the names of what is not there. */
static bool look_at(const char *home, struct toolkit_paths *ret, struct buf *missing)
{
    struct toolkit_paths t = {0};
    int major = 0, minor = 0;
    if (!canonical(home, t.home, sizeof t.home)) {
        buf_fmt(missing, "%s is not there; ", home);
        return false;
    }
    for (const char *const *dir = include_dirs; *dir && !t.include[0]; dir++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s/cuda.h", t.home, *dir);
        if (access(path, R_OK) == 0) {
            path[strlen(path) - strlen("/cuda.h")] = 0;
            if (!canonical(path, t.include, sizeof t.include))
                t.include[0] = 0;
        }
    }
    if (t.include[0] && read_version(t.include, &major, &minor))
        snprintf(t.version, sizeof t.version, "%d.%d", major, minor);
    const char *lacks = NULL;
    if (!find_library(t.home, nvrtc_names, t.nvrtc, sizeof t.nvrtc))
        lacks = "libnvrtc.so.13 (or .12)";
    else if (!find_library(t.home, nvjitlink_names, t.nvjitlink, sizeof t.nvjitlink))
        lacks = "libnvJitLink.so.13 (or .12)";
    else if (!t.include[0] || !t.version[0])
        lacks = "include/cuda.h";
    else if (!find_builtins(&t, major, minor, t.builtins, sizeof t.builtins))
        lacks = "libnvrtc-builtins.so beside libnvrtc";
    if (lacks) {
        buf_fmt(missing, "%s lacks %s; ", t.home, lacks);
        return false;
    }
    (void)find_library(t.home, cupti_names, t.cupti, sizeof t.cupti);      /* an audit needs it, nothing else */
    *ret = t;
    return true;
}

bool toolkit_find(const char *cuda_home, struct toolkit_paths *ret, struct err *err)
{
    cleanup(buf) struct buf missing = {.limit = 300};
    const char *environment = getenv("CUDA_HOME");
    const char *homes[] = {cuda_home, environment, "/usr/local/cuda"};
    /* A home that the operator names is the only one looked at: silently taking another would surprise. */
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        if (!homes[i] || !homes[i][0])
            continue;
        if (look_at(homes[i], ret, &missing))
            return true;
        if (i < 2)
            break;
    }
    return err_set(err, ERR_UNAVAILABLE, "no usable CUDA toolkit: %s%s", buf_cstr(&missing), TOOLKIT_ADVICE);
}

/*
 * What the driver needs of the host: its own libraries beside libcuda.so.1 and its device nodes. /proc and /sys come with the
 * sandbox's role. Its libraries are opened by name, so the child gets their folder as LD_LIBRARY_PATH.
 */
#include "gpu/device/cuda_api.h"

#include <string.h>

/* Libraries that libcuda opens when it starts, assembles PTX, or is asked about clocks. */
static const char *const library_prefixes[] = {"libcuda.so.",
                                               "libnvidia-ptxjitcompiler.so.",
                                               "libnvidia-nvvm.so.",
                                               "libnvidia-nvvm70.so.",
                                               "libnvidia-gpucomp.so.",
                                               "libnvidia-ml.so.",
                                               "libnvidia-sandboxutils.so.",
                                               "libnvidia-pkcs11",
                                               NULL};

static bool wanted_library(const char *name)
{
    for (const char *const *p = library_prefixes; *p; p++)
        if (strncmp(name, *p, strlen(*p)) == 0)
            return true;
    return false;
}

/* nvidia0, nvidiactl, nvidia-uvm, nvidia-uvm-tools; not the nodes for displays and partitions. */
static bool wanted_node(const char *name)
{
    static const char *const names[] = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", NULL};
    for (const char *const *n = names; *n; n++)
        if (strcmp(name, *n) == 0)
            return true;
    return strncmp(name, "nvidia", 6) == 0 && name[6] && strspn(name + 6, "0123456789") == strlen(name + 6);
}

/* Appends the folder's entries that `wanted` takes; one entry of the list stays NULL. */
static void add_from(const char *folder, bool (*wanted)(const char *name), char **list)
{
    int count = 0;
    while (list[count])
        count++;
    cleanup(dir) DIR *dir = opendir(folder);
    struct dirent *e;
    while (dir && count < DEVICE_MAX_NEEDS - 1 && (e = readdir(dir)))
        if (wanted(e->d_name))
            list[count++] = xfmt("%s/%s", folder, e->d_name);
}

bool device_cuda_needs(struct device_needs *ret, struct err *err)
{
    const char *library;
    if (!cuda_library(&library, err))
        return false;
    cleanup(str) char *folder = xstrndup(library, (size_t)(strrchr(library, '/') - library));
    struct device_needs n = {.env = {0}};
    add_from(folder, wanted_library, n.read_only);
    add_from("/dev", wanted_node, n.devices);
    n.env[0] = xfmt("LD_LIBRARY_PATH=%s", folder);
    n.env[1] = xstrdup("CUDA_CACHE_DISABLE=1");
    n.env[2] = xstrdup("CUDA_MODULE_LOADING=EAGER");
    /* Everything goes down one stream: more channels than one cost a context 40 of its 105 ms. */
    n.env[3] = xstrdup("CUDA_DEVICE_MAX_CONNECTIONS=1");
    /* "cuda:1" must be the same card for the child as for us. */
    static const char *const kept[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"};
    for (size_t i = 0, to = 4; i < sizeof kept / sizeof *kept; i++) {
        const char *value = getenv(kept[i]);
        if (value && strlen(value) < 512)
            n.env[to++] = xfmt("%s=%s", kept[i], value);
    }
    *ret = n;
    if (!ret->devices[0]) {
        device_needs_done(ret);
        return err_set(err, ERR_UNAVAILABLE, "the driver's library is here, but there is no /dev/nvidia*");
    }
    return true;
}

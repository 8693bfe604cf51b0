/*
 * What the toolkit's texts and files say: compiler logs made fit to be shown, nvJitLink's figures, names of kernels in PTX and
 * in a cubin. Pure functions over bytes; all of it may be hostile.
 */
#pragma once
#include <stdint.h>
#include "gpu/device/device.h"

#define TOOLKIT_LOG_LIMIT_BYTES ((size_t)64 * 1024)

/* The log as a caller may see it: clean UTF-8, cut at the limit, without the paths of this host. The caller frees. */
char *toolkit_log_clean(const struct toolkit_paths *t, const char *log, size_t size);
/* PTX with host folders taken out of its .file lines; the caller frees. */
char *toolkit_ptx_clean(const struct toolkit_paths *t, const char *ptx, size_t size, size_t *ret_size);

/* Fills in the figures of kernels[0..count) from nvJitLink's verbose log; false if a kernel is not in it. */
bool toolkit_log_figures(const char *log, struct toolkit_kernel *kernels, int count);

/* Calls back for each entry's name; stops and returns false when the callback does or the text is malformed. */
typedef bool toolkit_name_callback(void *ctx, const char *name, size_t size);
bool toolkit_ptx_entries(const char *ptx, size_t size, toolkit_name_callback *each, void *ctx);
bool toolkit_cubin_entries(const void *cubin, size_t size, toolkit_name_callback *each, void *ctx);
/* Static shared memory of one of its kernels with what the system keeps there (1,024 bytes from sm_90 on, where there is any); -1: malformed. */
int64_t toolkit_cubin_shared_bytes(const void *cubin, size_t size, const char *kernel);

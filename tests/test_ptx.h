/* What the PTX tests share: parse, launch with named buffers, and the folder of PTX files. */
#pragma once
#include "gpu/ptx/ptx.h"
#include "tests/test.h"

#include <math.h>

#define TEST_BUFFERS 12
struct bench {
    struct ptx_module *m;
    struct ptx_buffer buffers[TEST_BUFFERS];
    int buffer_count;
    struct ptx_launch launch;
    struct ptx_run_options options;
    struct ptx_finding finding;
    struct ptx_counts counts;
};

__attribute__((unused)) static void bench_free(struct bench *b)
{
    ptx_free(b->m);
    for (int i = 0; i < b->buffer_count; i++) {
        free(b->buffers[i].data);
        free(b->buffers[i].initialised);
    }
    *b = (struct bench){0};
}
DEFINE_CLEANUP(bench, struct bench, bench_free(it))

__attribute__((unused)) static bool bench_text(struct bench *b, const char *text)
{
    struct err err = {0};
    b->options.limits = ptx_default_limits;
    b->options.check_races = true;
    b->launch.grid[0] = b->launch.grid[1] = b->launch.grid[2] = 1;
    b->launch.block[1] = b->launch.block[2] = 1;
    b->launch.block[0] = 32;
    b->launch.kernel = "k";
    if (!ptx_parse(text, strlen(text), NULL, &b->m, &b->finding, &err) || !b->m) {
        fprintf(stderr, "does not parse: %s\n", b->finding.text);
        return false;
    }
    return true;
}

__attribute__((unused)) static char *test_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", PTX_DATA, name);
    struct buf b = {0};
    struct err err = {0};
    if (!file_read(path, 16 << 20, &b, &err)) {
        fprintf(stderr, "%s: %s\n", path, err.text);
        exit(1);
    }
    return buf_take(&b);
}

__attribute__((unused)) static bool bench_file(struct bench *b, const char *name, const char *kernel)
{
    char *text = test_file(name);
    const bool ok = bench_text(b, text);
    free(text);
    b->launch.kernel = kernel;
    return ok;
}

/* A buffer and the argument that points to it. Not filled: every byte uninitialised. Returns its bytes. */
__attribute__((unused)) static void *bench_buffer(struct bench *b, const char *name, size_t bytes, bool writable, const void *fill)
{
    struct ptx_buffer *p = &b->buffers[b->buffer_count];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->address = 0x7000000000ull + (uint64_t)b->buffer_count * 0x40000000ull;
    p->bytes = bytes;
    p->data = aligned_alloc(256, (bytes + 16 + 255) / 256 * 256);   /* as a device's buffers are */
    p->writable = writable;
    p->initialised = xalloc(bytes / 8 + 16);
    memset(p->initialised, fill ? 255 : 0, bytes / 8 + 16);
    if (fill)
        memcpy(p->data, fill, bytes);
    else
        memset(p->data, 0xa5, bytes);
    b->launch.args[b->launch.arg_count++] = (struct ptx_arg){8, p->address};
    b->buffer_count++;
    return p->data;
}
__attribute__((unused)) static void bench_int(struct bench *b, uint32_t value)
{
    b->launch.args[b->launch.arg_count++] = (struct ptx_arg){4, value};
}
__attribute__((unused)) static void bench_float(struct bench *b, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bench_int(b, bits);
}
__attribute__((unused)) static enum ptx_finding_kind bench_run(struct bench *b)
{
    struct err err = {0};
    memset(&b->finding, 0, sizeof b->finding);
    if (!ptx_run(b->m, &b->launch, b->buffers, b->buffer_count, &b->options, &b->finding, &b->counts, &err)) {
        fprintf(stderr, "ptx_run: %s\n", err.text);
        exit(1);
    }
    return b->finding.kind;
}
__attribute__((unused)) static bool all_written(const struct bench *b, int buffer)
{
    for (size_t i = 0; i < b->buffers[buffer].bytes; i++)
        if (!(b->buffers[buffer].initialised[i / 8] >> (i % 8) & 1))
            return false;
    return true;
}

__attribute__((unused)) static float bf16_to_float(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float r;
    memcpy(&r, &bits, 4);
    return r;
}
__attribute__((unused)) static uint16_t float_to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
__attribute__((unused)) static float uniform(uint64_t *state) /* in [-1, 1) */
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(int32_t)(*state >> 32) / 2147483648.0f;
}

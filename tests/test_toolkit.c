/* The toolkit: found or said to be missing, CUDA to PTX to cubin, logs without host paths, figures, hostile cubins. */
#include "gpu/device/device.h"
#include "gpu/device/toolkit_text.h"
#include "tests/test.h"

#include <sys/stat.h>

static const char *const good =
    "#include <cuda_bf16.h>\n"
    "extern \"C\" __global__ void scale(const __nv_bfloat16 *x, float *y, int n)\n"
    "{\n"
    "    __shared__ float part[128];\n"
    "    float many[64];\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    for (int k = 0; k < 64; k++) many[(k * 7 + n) % 64] = __bfloat162float(x[k]) * ROWS;\n"
    "    part[threadIdx.x] = i < n ? many[i % 64] : 0.f;\n"
    "    __syncthreads();\n"
    "    if (i < n) y[i] = part[127 - threadIdx.x];\n"
    "}\n"
    "template <typename T> __global__ void fill(T *p) { *p = T(1); }\n"
    "template __global__ void fill<float>(float *);\n";

static struct toolkit_compiled compile_for(const struct toolkit_paths *t, const char *target, const char *source, const char *options)
{
    struct toolkit_compiled c = {0};
    struct err err = {0};
    bool ok = toolkit_compile(t, source, target, options, &c, &err);
    if (!ok)
        fprintf(stderr, "toolkit_compile: %s\n", err.text);
    check(ok);
    return c;
}

static struct toolkit_compiled compile(const struct toolkit_paths *t, const char *source, const char *options)
{
    return compile_for(t, "sm_90a", source, options);
}

static void test_compile_and_assemble(const struct toolkit_paths *t)
{
    struct toolkit_compiled marked = compile(t, "\xef\xbb\xbf" "extern \"C\" __global__ void k(int *p) { *p = 1; }", "");
    check(marked.ok);                     /* a byte order mark in front, as nvcc takes it */
    free(marked.ptx);
    free(marked.log);
    struct toolkit_compiled c = compile(t, good, "-DROWS=2\n");
    check(c.ok && c.ptx && strlen(c.ptx) == c.ptx_bytes);
    check(c.ptx && strstr(c.ptx, ".target sm_90a") && strstr(c.ptx, ".loc") && strstr(c.ptx, "\"candidate.cu\""));
    check(c.ptx && !strstr(c.ptx, t->home));
    struct toolkit_assembled a = {0};
    struct err err = {0};
    check(toolkit_assemble(t, c.ptx, c.ptx_bytes, "sm_90a", 0, &a, &err));
    check_str(err.text, "");
    check(a.ok && a.cubin_bytes > 1000);
    check_int(a.kernel_count, 2);
    for (int i = 0; i < a.kernel_count; i++) {
        const struct toolkit_kernel *k = &a.kernels[i];
        check(k->resources.registers_thread >= 4 && k->resources.registers_thread <= 255);
        if (strcmp(k->name, "scale") == 0) {
            check_int(k->resources.static_shared_bytes, 512);
            check(k->resources.local_bytes_thread >= 256);
        } else {
            check_str(k->name, "_Z4fillIfEvPT_");
            check_int(k->resources.static_shared_bytes, 0);
        }
    }
    check(!memmem(a.cubin, a.cubin_bytes, ".debug_line", 11) && !memmem(a.cubin, a.cubin_bytes, "candidate.cu", 12));
    /* Equal input, equal bytes: the digest of a cubin means something. */
    struct toolkit_assembled again = {0};
    check(toolkit_assemble(t, c.ptx, c.ptx_bytes, "sm_90a", 0, &again, &err));
    check(again.cubin_bytes == a.cubin_bytes && memcmp(again.cubin, a.cubin, a.cubin_bytes) == 0);
    /* A register limit binds, and what it spills is seen. */
    struct toolkit_assembled tight = {0};
    check(toolkit_assemble(t, c.ptx, c.ptx_bytes, "sm_90a", 24, &tight, &err));
    check(tight.ok);
    for (int i = 0; i < tight.kernel_count; i++)
        check(tight.kernels[i].resources.registers_thread <= 24);
    free(c.ptx), free(c.log), free(a.cubin), free(a.log), free(again.cubin), free(again.log), free(tight.cubin),
        free(tight.log);
}

static void test_refusals(const struct toolkit_paths *t)
{
    struct toolkit_compiled c = compile(t, "__global__ void k(float *p) { *p = undefined_name; }\n", "");
    check(!c.ok && !c.ptx && strstr(c.log, "candidate.cu(1)") && strstr(c.log, "undefined_name"));
    free(c.log);
    c = compile(t, "#include <cuda_fp16.h>\n__global__ void k(half *p) { *p = *p + \"text\"; }\n", "");
    check(!c.ok && !strstr(c.log, t->home) && !strstr(c.log, "/usr/local"));
    free(c.log);
    /* An error repeated for ever gives a log that is cut and still clean. */
    struct buf many = {0};
    for (int i = 0; i < 300; i++)
        buf_fmt(&many, "int %01200d;  // \xc3\xa9\n", i);
    c = compile(t, buf_cstr(&many), "");
    check(strlen(c.log) <= TOOLKIT_LOG_LIMIT_BYTES + 64 && strlen(c.log) > 60000 && utf8_valid(c.log, strlen(c.log)));
    check(strstr(c.log, "it is cut here") != NULL);
    free(c.ptx), free(c.log);
    buf_done(&many);

    static const char *const bad_options[] = {
        "-I/etc", "--include-path=/etc", "-include=/etc/passwd", "--time=/tmp/x", "-D", "--pch",
        "-Dx=1",  "--maxrregcount=1;2"};
    for (size_t i = 0; i < sizeof bad_options / sizeof *bad_options; i++) {
        struct err err = {0};
        struct toolkit_compiled none = {0};
        check(!toolkit_compile(t, good, "sm_90a", bad_options[i], &none, &err));
        check_int(err.code, ERR_INVALID);
    }

    static const char *const bad_ptx[] = {
        "",
        "garbage",
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { bad.op; }\n",
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { call missing; ret; }\n",
        ".entry",
        ".entry (",
        ".version 9.0 /* no end"};
    for (size_t i = 0; i < sizeof bad_ptx / sizeof *bad_ptx; i++) {
        struct toolkit_assembled a = {0};
        struct err err = {0};
        bool ok = toolkit_assemble(t, bad_ptx[i], strlen(bad_ptx[i]), "sm_90a", 0, &a, &err);
        check(!ok || !a.ok || a.kernel_count == 0);
        if (ok && i > 1)
            check(!a.ok && a.log && a.log[0]);
        free(a.cubin), free(a.log);
    }
}

static void test_find(void)
{
    struct toolkit_paths t = {0};
    struct err err = {0};
    check(!toolkit_find("/nonexistent/cuda", &t, &err));
    check_int(err.code, ERR_UNAVAILABLE);
    check(strstr(err.text, "/nonexistent/cuda is not there") && strstr(err.text, "--cuda-home"));
    check(!t.home[0]);
    char dir[] = "/tmp/test_toolkit_XXXXXX";
    check(mkdtemp(dir) != NULL);
    err = (struct err){0};
    check(!toolkit_find(dir, &t, &err));
    check(strstr(err.text, "lacks libnvrtc") != NULL);
    rmdir(dir);
}

static bool any_name(void *ctx, const char *name, size_t size)
{
    (void)name, (void)size;
    ++*(int *)ctx;
    return true;
}

static void test_texts(void)
{
    struct toolkit_paths t = {.home = "/opt/secret", .include = "/opt/secret/include"};
    static const char told[] = "/opt/secret/include/x.h(3): \x80 /opt/secret/y\n";
    cleanup(str) char *log = toolkit_log_clean(&t, told, sizeof told - 1);
    check(strstr(log, "cuda/include/x.h(3)") && strstr(log, "cuda/y") && !strstr(log, "secret") &&
          utf8_valid(log, strlen(log)));

    int count = 0;
    static const char ptx[] =
        "// .entry no\n/* .entry no */ .file 1 \".entry no\"\n.visible .entry\n /* x */ yes_1(\n.weak .entry $also()";
    check(toolkit_ptx_entries(ptx, sizeof ptx - 1, any_name, &count));
    check_int(count, 2);

    struct toolkit_kernel k[2] = {{.name = "a"}, {.name = "ab"}};
    static const char figures[] =
        "ptxas info    : Function properties for ab\n"
        "ptxas         .     264 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 14 registers, used 1 barriers, 512 bytes smem\n"
        "ptxas info    : Function properties for a\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 24 registers\n"
        "info    : Function properties for 'a':\n"
        "info    : used 24 registers, used 1 barriers, 96 stack, 1536 bytes smem, 0 bytes lmem";
    check(toolkit_log_figures(figures, k, 2));
    check(k[1].resources.registers_thread == 14 && k[1].resources.static_shared_bytes == 512 &&
          k[1].spill_store_bytes == 8 && k[1].spill_load_bytes == 12 && k[1].resources.local_bytes_thread == 264);
    check(k[0].resources.registers_thread == 24 && k[0].resources.local_bytes_thread == 96 &&
          k[0].resources.static_shared_bytes == 0);
    check(!toolkit_log_figures("ptxas info    : Function properties for a", k, 2));
}

/* A cubin cut or flipped anywhere never makes the reader leave its bytes (run under the address sanitizer). */
static void test_hostile_cubin(const struct toolkit_paths *t)
{
    struct toolkit_compiled c = compile(t, "extern \"C\" __global__ void k(int *p) { *p = 1; }\n", "");
    struct toolkit_assembled a = {0};
    struct err err = {0};
    check(toolkit_assemble(t, c.ptx, c.ptx_bytes, "sm_90a", 0, &a, &err) && a.ok);
    for (size_t n = 0; n < a.cubin_bytes; n += 7) {
        int count = 0;
        cleanup(mem) void *cut = xalloc(n + 1);
        memcpy(cut, a.cubin, n);
        (void)!toolkit_cubin_entries(cut, n, any_name, &count);
        check(count <= 1);
    }
    for (size_t i = 0; i < 64; i++) {
        int count = 0;
        cleanup(str) char *flipped = NULL;
        flipped = xalloc(a.cubin_bytes);
        memcpy(flipped, a.cubin, a.cubin_bytes);
        flipped[i] = (char)~flipped[i];
        (void)!toolkit_cubin_entries(flipped, a.cubin_bytes, any_name, &count);
    }
    free(c.ptx), free(c.log), free(a.cubin), free(a.log);
}

/* What a launch takes is what the file says, also where the linker has dropped what the assembler counted. */
static void test_shared_bytes(const struct toolkit_paths *t)
{
    static const struct { const char *source, *target; uint32_t bytes; } cases[] = {
        {"extern \"C\" __global__ void k(int *p) { *p = 1; }\n", "sm_90a", 0},
        {"extern \"C\" __global__ void k(int *p) { __shared__ int a[64]; a[threadIdx.x] = *p; __syncthreads(); *p = a[threadIdx.x ^ 1]; }\n", "sm_90a", 256},
        {"extern \"C\" __global__ void k(int *p) { __shared__ int a[512]; a[threadIdx.x] = *p; __syncthreads(); *p = a[threadIdx.x ^ 1]; }\n", "sm_80", 2048},
        {"#include <cooperative_groups.h>\nextern \"C\" __global__ void __cluster_dims__(2, 1, 1) k(float *p)\n{\n    __shared__ float part;\n"
         "    auto all = cooperative_groups::this_cluster();\n    part = p[threadIdx.x];\n    all.sync();\n"
         "    p[threadIdx.x] = *all.map_shared_rank(&part, 0);\n    all.sync();\n}\n", "sm_90a", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct toolkit_compiled c = compile_for(t, cases[i].target, cases[i].source, "");
        struct toolkit_assembled a = {0};
        struct err err = {0};
        check(toolkit_assemble(t, c.ptx, c.ptx_bytes, cases[i].target, 0, &a, &err) && a.ok);
        check_int(a.kernels[0].resources.static_shared_bytes, cases[i].bytes);
        for (size_t n = 0; n < a.cubin_bytes; n += 7) {
            cleanup(mem) void *cut = xalloc(n + 1);
            memcpy(cut, a.cubin, n);
            check(toolkit_cubin_shared_bytes(cut, n, "k") <= (int64_t)a.cubin_bytes + 4096);
        }
        free(c.ptx), free(c.log), free(a.cubin), free(a.log);
    }
}

/* The lines of PTX that are code: without comments, line information and the header. */
static void code_lines(struct buf *to, const char *ptx)
{
    static const char *const skipped[] = {"//", ".loc", ".file", ".version", ".target", ".globl"};
    for (const char *line = ptx; *line;) {
        const char *end = strchrnul(line, '\n'), *text = line;
        while (text < end && (*text == ' ' || *text == '\t'))
            text++;
        if (strncmp(text, ".section", 8) == 0)      /* names for line information: the rest of the file */
            break;
        bool skip = text == end;
        for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
            skip = skip || strncmp(text, skipped[i], strlen(skipped[i])) == 0;
        if (!skip)
            buf_fmt(to, "%.*s\n", (int)(end - text), text);
        line = *end ? end + 1 : end;
    }
}

/* helpers.ptx and scrub.ptx, which the driver loads, are what the compiler makes of the sources beside them. */
static void test_helpers(const struct toolkit_paths *t, const char *name, size_t least)
{
    cleanup(buf) struct buf source = {0}, kept = {0}, a = {0}, b = {0};
    struct err err;
    cleanup(str) char *from = xfmt("%s/gpu/device/%s.cu", SOURCE_DIR, name), *to = xfmt("%s/gpu/device/%s.ptx", SOURCE_DIR, name);
    check(file_read(from, 1 << 20, &source, &err) && file_read(to, 1 << 20, &kept, &err));
    struct toolkit_compiled c = compile(t, buf_cstr(&source), "");
    check(c.ok);
    free(c.ptx), free(c.log);
    check(toolkit_compile(t, buf_cstr(&source), "sm_80", "", &c, &err) && c.ok);
    code_lines(&a, c.ptx);
    code_lines(&b, buf_cstr(&kept));
    check(a.size > least && strcmp(buf_cstr(&a), buf_cstr(&b)) == 0);
    free(c.ptx), free(c.log);
}

/* It fills the registers of a multiprocessor only if the assembler keeps all that it reads: nothing spilled, nothing read again. */
static void test_scrub(const struct toolkit_paths *t)
{
    static const char *const targets[] = {"sm_90a", "sm_100a"};
    cleanup(buf) struct buf text = {0};
    struct err err;
    check(file_read(SOURCE_DIR "/gpu/device/scrub.ptx", 1 << 20, &text, &err));
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct toolkit_assembled a = {0};
        check(toolkit_assemble(t, buf_cstr(&text), text.size, targets[i], 0, &a, &err) && a.ok);
        int seen = 0;
        for (int k = 0; k < a.kernel_count; k++) {
            const struct toolkit_kernel *one = &a.kernels[k];
            if (strcmp(one->name, "proteus_scrub") == 0) {
                check(one->resources.registers_thread > 248 && !one->spill_store_bytes && !one->spill_load_bytes && !one->resources.local_bytes_thread);
                seen++;
            }
            if (strcmp(one->name, "proteus_local_4k") == 0) {
                check(one->resources.local_bytes_thread >= 4096 && one->resources.registers_thread <= 32);
                seen++;
            }
        }
        check_int(seen, 2);
        free(a.cubin), free(a.log);
    }
}

int main(void)
{
    test_find();
    test_texts();
    struct toolkit_paths t;
    struct err err;
    if (!toolkit_find(NULL, &t, &err))
        test_skip(err.text);
    check(t.version[0] && t.builtins[0]);
    test_compile_and_assemble(&t);
    test_refusals(&t);
    test_hostile_cubin(&t);
    test_shared_bytes(&t);
    if (strcmp(t.version, "13.0") == 0)      /* another compiler words it differently */
    {
        test_helpers(&t, "helpers", 5000);
        test_helpers(&t, "scrub", 5000);
    }
    test_scrub(&t);
    return test_done();
}

/* NVRTC and nvJitLink inside the compile child: they work with nothing but their own files, and can tell nothing of the host. */
#include "core/clock.h"
#include "gpu/device/device.h"
#include "gpu/sandbox/sandbox.h"
#include "tests/test.h"

#include <sys/stat.h>

static const char *const good = "#include <cuda_bf16.h>\n#include <cuda_fp8.h>\nextern \"C\" __global__ void k(const "
                                "__nv_bfloat16 *x, float *y) { y[threadIdx.x] = __bfloat162float(x[threadIdx.x]); }\n";
static const char *const groups = "#include <cooperative_groups.h>\nextern \"C\" __global__ void k(int *p) { "
                                  "cooperative_groups::this_grid().sync(); *p = 1; }\n";
static const char *const leaks[] = {
    "#include \"/etc/passwd\"\n",
    "#include </etc/passwd>\n",
    "#define F \"/etc/shadow\"\n#include F\n",
    "#include \"../../../../../../etc/passwd\"\n",
    "#include \"/proc/self/environ\"\n",
    "#include \"/proc/self/cmdline\"\n",
    "asm(\".include \\\"/etc/passwd\\\"\");\n",
};

/* Source in, "ok\nPTX bytes, cubin bytes\nlog" out. */
static int be_child(int argc, char **argv)
{
    enum sandbox_role role;
    unsigned layers;
    struct err err = {0};
    struct toolkit_paths t;
    static char source[4096];
    if (!sandbox_enter(argc, argv, &role, &layers, &err) || !toolkit_find(getenv("CUDA_HOME"), &t, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (read(3, source, sizeof source - 1) <= 0)
        return 2;
    struct toolkit_compiled c = {0};
    struct toolkit_assembled a = {0};
    if (!toolkit_compile(&t, source, "sm_90a", "", &c, &err) ||
        (c.ok && !toolkit_assemble(&t, c.ptx, c.ptx_bytes, "sm_90a", 0, &a, &err))) {
        dprintf(3, "error %s", err.text);
        return 0;
    }
    dprintf(3, "%s %zu %zu\n%s\n%s", c.ok ? "ok" : "no", c.ptx_bytes, a.cubin_bytes, c.log, c.ok ? c.ptx : "");
    return 0;
}

static char *compile(const struct toolkit_paths *t, const char *source, int64_t memory_bytes, int64_t wall_ns,
                     struct sandbox_status *status)
{
    const char *const paths[] = {t->nvrtc, t->builtins, t->nvjitlink, t->include, NULL};
    const struct sandbox_limits limits = {
        .cpu_seconds = 20, .memory_bytes = memory_bytes, .file_bytes = 0, .open_files = 64, .processes = 64};
    cleanup(str) char *home = xfmt("CUDA_HOME=%s", t->home);
    const char *const env[] = {home, "ASAN_OPTIONS=detect_leaks=0", NULL};
    struct sandbox_child child = {0};
    struct err err = {0};
    struct buf answer = {0};
    if (!sandbox_spawn(SANDBOX_COMPILE, &limits, &(struct sandbox_paths){paths, NULL}, env, &child, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return buf_take(&answer);
    }
    check(write(child.fd, source, strlen(source)) == (ssize_t)strlen(source));
    int64_t deadline = clock_mono_ns() + wall_ns;
    char chunk[65536];
    ssize_t n;
    while (clock_mono_ns() < deadline && (n = read(child.fd, chunk, sizeof chunk)) > 0)
        buf_add(&answer, chunk, (size_t)n);
    sandbox_wait(&child, deadline, status);
    if (!answer.size)
        fprintf(stderr, "end %d code %d: %s\n", status->end, status->code, sandbox_stderr(&child));
    buf_done(&child.stderr_tail);
    return buf_take(&answer);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return be_child(argc, argv);
    struct toolkit_paths t;
    struct err err = {0};
    struct sandbox_status status;
    if (!toolkit_find(NULL, &t, &err))
        test_skip(err.text);
    const int64_t memory = (int64_t)3 << 30, wall = 30000000000;
    static const unsigned without[] = {0, SANDBOX_NAMESPACES, SANDBOX_LANDLOCK};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        sandbox_without(without[i]);
        cleanup(str) char *answer = compile(&t, good, memory, wall, &status);
        check(strncmp(answer, "ok ", 3) == 0);
        check(strstr(answer, "candidate.cu") && !strstr(answer, t.home));
        printf("compiled and assembled without layers %u: %.0f ms, %.0f MiB\n", without[i],
               (double)status.wall_ns / 1e6, (double)status.peak_rss_bytes / 1048576);
        if (strncmp(answer, "ok ", 3) != 0)
            fprintf(stderr, "%.300s\n", answer);
    }
    for (size_t w = 0; w < 2; w++)
        for (size_t i = 0; i < sizeof leaks / sizeof *leaks; i++) {
            sandbox_without(without[w]);
            cleanup(str) char *answer = compile(&t, leaks[i], memory, wall, &status);
            check(answer[0] && !strstr(answer, "root:") && !strstr(answer, "CUDA_HOME") && !strstr(answer, t.home) &&
                  !strstr(answer, "compile"));
        }
    sandbox_without(0);
    cleanup(str) char *cooperative = compile(&t, groups, memory, wall, &status);
    check(strncmp(cooperative, "ok ", 3) == 0);
    /* A compile bomb ends by a limit, and soon. */
    cleanup(str) char *bomb = compile(&t,
                                      "template <int N> struct A { A<N + 1> a; static const int v = A<N + 1>::v + A<N "
                                      "- 1>::v; };\n__device__ int x = A<0>::v;\n",
                                      memory, wall, &status);
    check(strncmp(bomb, "ok ", 3) != 0 && status.wall_ns < 25000000000);
    cleanup(str) char *itself = compile(&t, "#include __FILE__\n", memory, wall, &status);
    check(strncmp(itself, "ok ", 3) != 0);
    return test_done();
}

/*
 * NVRTC and nvJitLink inside the compile child: they work with nothing but their own files, and can tell nothing of the host.
 *
 * The strongest form of that: whatever a source asks of a path, in every spelling that there is, the answer is the same whether
 * the file is there or not. So each spelling is compiled twice, with the names of two files of which one exists, and the logs and
 * the PTX must be equal but for the name. One child compiles them all, as the judge's child compiles one.
 */
#include "core/clock.h"
#include "gpu/device/device.h"
#include "gpu/sandbox/sandbox.h"
#include "tests/test.h"

#include <sys/stat.h>

#define KERNEL "\nextern \"C\" __global__ void k(int *p) { *p = 1; }\n"
#define SECRET "se3cret_content"
#define WALL_NS ((int64_t)60 * 1000000000)
#define MEMORY_BYTES ((int64_t)3 << 30)

static const char *const good = "#include <cuda_bf16.h>\n#include <cuda_fp8.h>\nextern \"C\" __global__ void k(const "
                                "__nv_bfloat16 *x, float *y) { y[threadIdx.x] = __bfloat162float(x[threadIdx.x]); }\n";
static const char *const groups = "#include <cooperative_groups.h>\nextern \"C\" __global__ void k(int *p) { "
                                  "cooperative_groups::this_grid().sync(); *p = 1; }\n";

/* @ stands for the path. */
static const char *const spellings[] = {
    "#include \"@\"" KERNEL,
    "#include <@>" KERNEL,
    "#include_next \"@\"" KERNEL,
    "#include_next <@>" KERNEL,
    "#import \"@\"" KERNEL,
    "#define F \"@\"\n#include F" KERNEL,
    "#define F <@>\n#include F" KERNEL,
    "#define S2(x) #x\n#define S(x) S2(x)\n#include S(@)" KERNEL,
    "%:include \"@\"" KERNEL,
    "?\?=include \"@\"" KERNEL,
    "#inc\\\nlude \"@\"" KERNEL,
    "# /* */ include /**/ \"@\"" KERNEL,
    "\xef\xbb\xbf#include \"@\"" KERNEL,
    "#include \"../../../../../..@\"" KERNEL,
    "#include \"./include/.././../../../../..//@\"" KERNEL,
    "#include <../../../../../..@>" KERNEL,
    "#include \"/proc/self/root@\"" KERNEL,
    "#include \"/proc/self/cwd/../../../..@\"" KERNEL,
    "#include \"/proc/thread-self/root@\"" KERNEL,
    "#include \"/proc/1/root@\"" KERNEL,
    "#include \"/dev/../@\"" KERNEL,
    "#include \"file://@\"" KERNEL,
    "#embed \"@\"" KERNEL,
    "__device__ const unsigned char e[] = {\n#embed \"@\"\n};" KERNEL,
    "#if __has_include(\"@\")\n#error yes\n#else\n#error no\n#endif" KERNEL,
    "#if __has_include(<@>)\n__device__ int yes;\n#endif" KERNEL,
    "#define H __has_include(\"@\")\n#if H\n#error yes\n#endif" KERNEL,
    "#if __has_include(\"../../../../../..@\")\n#error yes\n#endif" KERNEL,
    "#if __has_include(\"/proc/self/root@\")\n#error yes\n#endif" KERNEL,
    "#if __has_include_next(\"@\")\n#error yes\n#endif" KERNEL,
    "#if __has_embed(\"@\")\n#error yes\n#endif" KERNEL,
    "#pragma GCC dependency \"@\"" KERNEL,
    "#pragma include_alias(\"cuda_bf16.h\", \"@\")\n#include \"cuda_bf16.h\"" KERNEL,
    "_Pragma(\"include_alias(<cuda_bf16.h>, <@>)\")\n#include <cuda_bf16.h>" KERNEL,
    "#pragma hdrfile \"@\"\n_Pragma(\"pch_use @\")" KERNEL,
    "#line 1 \"@\"\nundeclared x;" KERNEL,
    "#line 1 \"@\"\n__device__ const char *f = __FILE__;\n#include __FILE__" KERNEL,
    "# 1 \"@\" 1\n# 2 \"@\" 2\nundeclared x;" KERNEL,
    "#ident \"@\"\n#pragma comment(lib, \"@\")\n#pragma comment(linker, \"-l@\")" KERNEL,
    "import <@>;" KERNEL,
    "export module m; import \"@\";" KERNEL,
    "asm(\".include \\\"@\\\"\");" KERNEL,
    "extern \"C\" __global__ void k(int *p) { asm volatile(\".include \\\"@\\\";\"); }\n",
    "extern \"C\" __global__ void k(int *p) { asm volatile(\".incbin \\\"@\\\";\"); }\n",
    "extern \"C\" __global__ void k(int *p) { asm volatile(\".file 9 \\\"@\\\"; .loc 9 1 1;\"); *p = 1; }\n",
    "extern \"C\" __global__ void k(int *p) { asm volatile(\"@inc <include> \\\"@\\\"\"); }\n",
    "#error @" KERNEL,
    "__global__ void __attribute__((section(\"@\"), alias(\"@\"))) k(int *p) { }\n",
    "#pragma nv_diag_suppress @\n#pragma nv_exec_check_disable\n#pragma message(\"@\")" KERNEL,
};

/* Of files that are there in every child, or in one of its layers: what is asked for must not come, nor what names it. */
static const struct { const char *source, *never; } others[] = {
    {"#include \"/etc/passwd\"" KERNEL, "root:"},
    {"#include \"/proc/self/environ\"" KERNEL, "CUDA_HOME"},
    {"#include \"/proc/self/cmdline\"" KERNEL, "limits="},
    {"#include \"/etc/ld.so.cache\"" KERNEL, "glibc"},
    {"#if __has_include(\"/etc/ld.so.cache\")\n#error it is there\n#endif" KERNEL, "it is there"},
    {"#if __has_include(\"/dev/null\") || __has_include(\"/dev/urandom\")\n#error it is there\n#endif" KERNEL, "it is there"},
    {"#if __has_include(\"../version.json\") || __has_include(\"../lib64/libnvrtc.so\") || __has_include(\"..\")\n#error it is there\n#endif" KERNEL,
     "it is there"},
    {"#if __has_include(\"/lib/x86_64-linux-gnu/libc.so.6\") || __has_include(\"/lib64/libc.so.6\")\n#error it is there\n#endif" KERNEL, "it is there"},
    {"#include \"/dev/fd/3\"" KERNEL, "not a regular"},
    {"#include \"/dev/stdin\"" KERNEL, "not a regular"},
    {"#include \"/dev/zero\"" KERNEL, "not a regular"},
    {"#include \"/dev/urandom\"" KERNEL, "not a regular"},
};

/* In headers of the toolkit a macro can spell where they lie: as bytes of a constant, as numbers in an error. */
static const char *const spelt[] = {
    "#define typedef extern \"C\" __device__ const char *const where = __FILE__; typedef\n#include <curand_philox4x32_x.h>\n#undef typedef\n"
    "extern \"C\" __global__ void k(const char **p) { *p = where; }\n",
    "#define typedef extern \"C\" __device__ const char *const where = __builtin_FILE(); typedef\n#include <curand_philox4x32_x.h>\n#undef typedef\n"
    "extern \"C\" __global__ void k(const char **p) { *p = where; }\n",
    "template <int...> struct show;\n#define typedef show<__FILE__[0], __FILE__[1], __FILE__[2], __FILE__[3], __FILE__[4]> s; typedef\n"
    "#include <curand_philox4x32_x.h>\n",
    "#define typedef _Pragma(\"message(__FILE__)\") static_assert(false, __FILE__); typedef\n#include <curand_philox4x32_x.h>\n",
    "__device__ const char *f = __FILE__;\n#include __FILE__\n",
    "#include <cuda_bf16.h>\n__device__ int x = __nv_bfloat16();\n",
    "#include <cuda/std/tuple>\n__device__ cuda::std::tuple<int, void> t;\n",
};

/* Sources in, each as its size and its bytes; answers out likewise: "ok" or "no", the log, the PTX. */
static int be_child(int argc, char **argv)
{
    enum sandbox_role role;
    unsigned layers;
    struct err err = {0};
    struct toolkit_paths t;
    if (!sandbox_enter(argc, argv, &role, &layers, &err) || !toolkit_find(getenv("CUDA_HOME"), &t, &err) || !toolkit_settle(&t, &err) ||
        !sandbox_narrow(t.include, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    uint32_t size;
    while (fd_read_all(3, &size, sizeof size, &err)) {
        cleanup(str) char *source = xalloc(size + 1);
        cleanup(buf) struct buf answer = {0};
        struct toolkit_compiled c = {0};
        struct toolkit_assembled a = {0};
        if (!fd_read_all(3, source, size, &err))
            return 2;
        if (!toolkit_compile(&t, source, "sm_90a", "", &c, &err) ||
            (c.ok && !toolkit_assemble(&t, c.ptx, c.ptx_bytes, "sm_90a", 0, &a, &err)))
            buf_fmt(&answer, "error %s", err.text);
        else
            buf_fmt(&answer, "%s %s\n%s\n%s", c.ok ? "ok" : "no", c.log, c.ok ? c.ptx : "", c.ok && !a.ok ? a.log : "");      /* else it tells its time */
        size = (uint32_t)answer.size;
        free(c.ptx), free(c.log), free(a.cubin), free(a.log);
        if (!fd_write_all(3, &size, sizeof size, &err) || !fd_write_all(3, answer.data, answer.size, &err))
            return 3;
    }
    return 0;
}

static struct toolkit_paths t;
static struct sandbox_child child;

static bool start(unsigned without)
{
    const char *const paths[] = {t.nvrtc, t.builtins, t.nvjitlink, t.include, NULL};
    const struct sandbox_limits limits = {
        .cpu_seconds = 60, .memory_bytes = MEMORY_BYTES, .file_bytes = 0, .open_files = 64, .processes = 64};
    cleanup(str) char *home = xfmt("CUDA_HOME=%s", t.home);
    const char *const env[] = {home, "ASAN_OPTIONS=detect_leaks=0", NULL};
    struct err err = {0};
    sandbox_without(without);
    bool ok = sandbox_spawn(SANDBOX_COMPILE, &limits, &(struct sandbox_paths){paths, NULL}, env, &child, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    return ok;
}

static struct sandbox_status stop(void)
{
    struct sandbox_status s;
    sandbox_stop(&child, 0, &s);
    buf_done(&child.stderr_tail);
    return s;
}

static char *compile(const char *source)
{
    uint32_t size = (uint32_t)strlen(source);
    struct err err = {0};
    cleanup(str) char *answer = NULL;
    bool ok = fd_write_all(child.fd, &size, sizeof size, &err) && fd_write_all(child.fd, source, size, &err) &&
              fd_read_all(child.fd, &size, sizeof size, &err);
    if (ok)
        answer = xalloc(size + 1);
    ok = ok && fd_read_all(child.fd, answer, size, &err);
    if (!ok)
        fprintf(stderr, "compile: %s; %s\nof: %.200s\n", err.text, sandbox_stderr(&child), source);
    check(ok);
    return ok ? steal(&answer) : xstrdup("");
}

static char *with_path(const char *spelling, const char *path)
{
    struct buf b = {0};
    for (; *spelling; spelling++)
        if (*spelling == '@')
            buf_str(&b, path);
        else
            buf_add(&b, spelling, 1);
    return buf_take(&b);
}

/* The answer with each name of the file as one word, whichever it was. */
static char *without_name(const char *answer, const char *name)
{
    struct buf b = {0};
    size_t n = strlen(name);
    for (; *answer; answer++)
        if (strncmp(answer, name, n) == 0) {
            buf_str(&b, "FILE");
            answer += n - 1;
        } else {
            buf_add(&b, answer, 1);
        }
    return buf_take(&b);
}

static bool says_nothing(const char *answer)
{
    return answer[0] && utf8_valid(answer, strlen(answer)) && !strstr(answer, t.home) && !strstr(answer, SECRET) && !strstr(answer, "ermission") &&
           !strstr(answer, "CUDA_HOME");
}

static void test_spellings(const char *there, const char *absent)
{
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        cleanup(str) char *a = with_path(spellings[i], there), *b = with_path(spellings[i], absent);
        cleanup(str) char *first = compile(a), *second = compile(b);
        cleanup(str) char *one = without_name(first, there), *two = without_name(second, absent);
        bool equal = strcmp(one, two) == 0, silent = says_nothing(first) && says_nothing(second);
        size_t same = 0;
        while (one[same] && one[same] == two[same])
            same++;
        same -= same > 100 ? 100 : same;
        if (!equal || !silent)
            fprintf(stderr, "%s\nanswered, of a file that is there: ..%.400s\nof one that is not: ..%.400s\n", spellings[i], one + same, two + same);
        check(equal);
        check(silent);
    }
}

static void test_others(void)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        cleanup(str) char *answer = compile(others[i].source);
        bool fine = says_nothing(answer) && !strstr(answer, others[i].never);
        if (!fine)
            fprintf(stderr, "%s\nanswered: %.600s\n", others[i].source, answer);
        check(fine);
    }
}

/* The toolkit's folder, in the forms in which a compiler prints constants. */
static void test_spelt(void)
{
    char first[] = "47, 000, 000";
    snprintf(first, sizeof first, "47, %d, %d", t.include[1], t.include[2]);
    for (size_t i = 0; i < sizeof spelt / sizeof *spelt; i++) {
        cleanup(str) char *answer = compile(spelt[i]);
        bool fine = says_nothing(answer) && !strstr(answer, first) && !strstr(answer, "{47,") && !strstr(answer, "<47,");
        if (!fine)
            fprintf(stderr, "%s\nanswered: %.800s\n", spelt[i], answer);
        check(fine);
        check(i > 1 || strncmp(answer, "ok", 2) == 0);       /* else it tried nothing */
    }
}

static void test_works(unsigned without)
{
    cleanup(str) char *answer = compile(good), *cooperative = compile(groups);
    check(strncmp(answer, "ok ", 3) == 0 && strstr(answer, "\"candidate.cu\"") && says_nothing(answer));
    check(strncmp(cooperative, "ok ", 3) == 0 && says_nothing(cooperative));
    if (strncmp(answer, "ok ", 3) != 0)
        fprintf(stderr, "without %u: %.300s\n", without, answer);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return be_child(argc, argv);
    struct err err = {0};
    if (!toolkit_find(NULL, &t, &err))
        test_skip(err.text);
    char folder[] = "/tmp/test_toolkit_XXXXXX", there[64], absent[64];
    static const char text[] = "#error " SECRET "\n";
    check(mkdtemp(folder) && chmod(folder, 0755) == 0);
    snprintf(there, sizeof there, "%s/there.h", folder);
    snprintf(absent, sizeof absent, "%s/absen.h", folder);
    check(file_write(there, text, sizeof text - 1, 0644, &err));
    static const unsigned without[] = {0, SANDBOX_NAMESPACES, SANDBOX_LANDLOCK};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        if (!start(without[i]))
            continue;
        int64_t from = clock_mono_ns();
        test_works(without[i]);
        if (i < 2) {          /* without Landlock the libraries' own files stay readable: of those the empty root holds no others */
            test_spellings(there, absent);
            test_others();
        }
        test_spelt();
        struct sandbox_status s = stop();
        printf("without layers %u: %.1f s, %.0f MiB\n", without[i], (double)(clock_mono_ns() - from) / 1e9, (double)s.peak_rss_bytes / 1048576);
        fflush(stdout);
    }
    unlink(there), rmdir(folder);
    return test_done();
}

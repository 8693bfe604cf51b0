/*
 * Sources and PTX made to keep a compiler busy, to fill its memory or its log: each must end in a verdict on the candidate, soon after
 * its limits, with a log that is short, clean and tells nothing of the host. The whole judge runs, with a shorter limit of processor
 * time than the real one, so that what only that limit ends does not take half a minute each.
 * This program is its own child (argv[1] = "child"). Usage: test_compile_bombs OPS_DIR fast|all
 */
#include "core/clock.h"
#include "gpu/judge/judge.h"
#include "gpu/judge/limits.h"
#include "tests/test.h"

#include <sys/resource.h>

#define KERNEL "extern \"C\" __global__ void k(int *p) { *p = 1; }\n"
#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define CPU_SECONDS 3
#define SLACK_NS (40 * LIMIT_SECOND)         /* for a machine on which much else runs */

static struct op_set ops;
static struct judge_config config = {.ops = &ops, .device = "sim", .threads = 1, .compile_cpu_seconds = CPU_SECONDS};

/* ---- makers of text ---- */

static void times(struct buf *to, int count, const char *text)
{
    for (int i = 0; i < count; i++)
        buf_str(to, text);
}

static void nested(struct buf *to, const char *before, const char *open, const char *middle, const char *close, const char *after, int depth)
{
    buf_str(to, before);
    times(to, depth, open);
    buf_str(to, middle);
    times(to, depth, close);
    buf_str(to, after);
}

/* Ten of the one before, and so on. */
static void laughs(struct buf *to)
{
    buf_str(to, "#define A0 p[0] += 1;\n");
    for (int i = 1; i <= 9; i++) {
        buf_fmt(to, "#define A%d", i);
        for (int k = 0; k < 10; k++)
            buf_fmt(to, " A%d", i - 1);
        buf_str(to, "\n");
    }
    buf_str(to, "extern \"C\" __global__ void k(int *p) { A9 }\n");
}

static void pasted(struct buf *to)
{
    buf_str(to, "#define C(a, b) C2(a, b)\n#define C2(a, b) a##b\n#define X0 xxxxxxxxxxxxxxxx\n");
    for (int i = 1; i <= 30; i++)
        buf_fmt(to, "#define X%d C(X%d, X%d)\n", i, i - 1, i - 1);
    buf_str(to, "__device__ int X30;\n" KERNEL);
}

static void stringised(struct buf *to)
{
    buf_str(to, "#define A0 lol\n");
    for (int i = 1; i <= 12; i++) {
        buf_fmt(to, "#define A%d", i);
        for (int k = 0; k < 10; k++)
            buf_fmt(to, " A%d", i - 1);
        buf_str(to, "\n");
    }
    buf_str(to, "#define S2(x) #x\n#define S(x) S2(x)\n__device__ const char *s = S(A12);\n" KERNEL);
}

static void inlined(struct buf *to)
{
    buf_str(to, "__device__ __forceinline__ float f0(float x) { return x * x + sinf(x); }\n");
    for (int i = 1; i < 14; i++) {
        buf_fmt(to, "__device__ __forceinline__ float f%d(float x) { return ", i);
        for (int k = 0; k < 6; k++)
            buf_fmt(to, "f%d(x) + ", i - 1);
        buf_str(to, "1; }\n");
    }
    buf_str(to, "extern \"C\" __global__ void k(float *p) { *p = f13(*p); }\n");
}

/* One line of 200 KB that each of 20,000 warnings quotes: 4 GB of log, were it all kept. */
static void quoted_line(struct buf *to)
{
    buf_str(to, "extern \"C\" __global__ void k(int *p) { ");
    times(to, 20000, "p[1]=1/0;");
    buf_str(to, " }\n");
}

static void messages(struct buf *to)
{
    struct buf line = {0};
    buf_str(&line, "#pragma message(\"");
    times(&line, 200, "\xc3\xa9");
    buf_str(&line, "\")\n");
    times(to, 550, buf_cstr(&line));
    buf_str(to, KERNEL);
    buf_done(&line);
}

static void warnings(struct buf *to)
{
    times(to, 3000, "#warning \"wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww\"\n");
    buf_str(to, KERNEL);
}

static void errors(struct buf *to) { times(to, 15000, "undeclared_a b;\n"); buf_str(to, KERNEL); }

static void templates_in_log(struct buf *to)
{
    buf_str(to, "template <int N> __device__ int f() { int z = 1 / 0; return z + f<N - 1>(); } template <> __device__ int f<0>() { return 0; }");
    times(to, 200000, " ");
    buf_str(to, "\nextern \"C\" __global__ void k(int *p) { *p = f<180>(); }\n");
}

static void parens(struct buf *to) { nested(to, "extern \"C\" __global__ void k(int *p) { *p = ", "(", "1", ")", "; }\n", 100000); }
static void braces(struct buf *to) { nested(to, "extern \"C\" __global__ void k(int *p) { ", "{", "*p = 1;", "}", "}\n", 100000); }
static void brackets(struct buf *to) { nested(to, "__device__ int a", "[1]", ";\n", "", KERNEL, 80000); }
static void stars(struct buf *to) { nested(to, "__device__ int ", "*", "a;\n", "", KERNEL, 200000); }
static void conditionals(struct buf *to) { nested(to, "", "#if 1\n", KERNEL, "#endif\n", "", 15000); }
static void identifier(struct buf *to) { nested(to, "__device__ int ", "a", ";\n", "", KERNEL, 250000); }
static void initialiser(struct buf *to) { nested(to, "__device__ int a[] = {", "1,", "};\nextern \"C\" __global__ void k(int *p) { *p = a[*p]; }\n", "", "", 120000); }

static void switched(struct buf *to)
{
    buf_str(to, "extern \"C\" __global__ void k(int *p) { switch (*p) {");
    for (int i = 0; i < 6000; i++)
        buf_fmt(to, "case %d:p[%d]=p[%d]*%d;break;\n", i * 7, i, i * 3, i);
    buf_str(to, "} }\n");
}

/* PTX that takes the assembler for ever: values that all live at once, branches from anywhere to anywhere, functions without number. */
static void ptx_registers(struct buf *to)
{
    unsigned seed = 1;
    buf_str(to, HEAD ".visible .entry k(.param .u64 a)\n{\n.reg .b32 %r<1900>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd1,[a];\n");
    for (int i = 0; i < 1900; i++)
        buf_fmt(to, "ld.global.u32 %%r%d,[%%rd1+%d];\n", i, 4 * i);
    for (int i = 0; i < 2600; i++) {
        unsigned n[4];
        for (int k = 0; k < 4; k++)
            n[k] = (seed = seed * 1103515245u + 12345u) / 65536 % 1900;
        buf_fmt(to, "mad.lo.s32 %%r%u,%%r%u,%%r%u,%%r%u;\n", n[0], n[1], n[2], n[3]);
    }
    for (int i = 0; i < 1900; i++)
        buf_fmt(to, "st.global.u32 [%%rd1+%d],%%r%d;\n", 4 * i, i);
    buf_str(to, "ret;\n}\n");
}

static void ptx_branches(struct buf *to)
{
    unsigned seed = 1;
    buf_str(to, HEAD ".visible .entry k(.param .u64 a)\n{\n.reg .b32 %r<300>;\n.reg .pred %p<2>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd1,[a];\n");
    for (int i = 0; i < 1900; i++) {
        seed = seed * 1103515245u + 12345u;
        buf_fmt(to, "L%d: ld.global.u32 %%r%d,[%%rd1+%d];\nsetp.eq.s32 %%p1,%%r%d,%d;\n@%%p1 bra L%u;\n", i, i % 300, 4 * (i % 300), i % 300, i, seed / 65536 % 1900);
    }
    buf_str(to, "ret;\n}\n");
}

static void ptx_functions(struct buf *to)
{
    buf_str(to, HEAD);
    for (int i = 0; i < 12000; i++)
        buf_fmt(to, ".func f%d(){ret;}\n", i);
    buf_str(to, ".visible .entry k(.param .u64 a){ret;}\n");
}

static void ptx_line(struct buf *to)
{
    buf_str(to, HEAD ".visible .entry k(.param .u64 a){.reg .b32 %x;");
    times(to, 14000, "add.s32 %x,%x,1;");
    buf_str(to, "ret;}\n");
}

static void ptx_braces(struct buf *to) { nested(to, HEAD ".visible .entry k(.param .u64 a){", "{", "", "}", "ret;}\n", 100000); }
static void ptx_parens(struct buf *to) { nested(to, HEAD ".visible .entry k(.param .u64 a){ .reg .b32 %r; mov.u32 %r, ", "(", "1", ")", ";ret;}\n", 100000); }
static void ptx_comments(struct buf *to) { nested(to, HEAD, "/* ", "", "*/", "\n.visible .entry k(.param .u64 a){ret;}\n", 40000); }

#define V(code) (UINT64_C(1) << VERDICT_##code)
#define REFUSED (V(COMPILE_ERROR) | V(TIMEOUT) | V(RESOURCE_LIMIT))
#define PTX_REFUSED (REFUSED | V(REJECTED_FORBIDDEN) | V(REJECTED_PLAN))
#define COMPILES UINT64_MAX                  /* a correct program after all: whatever becomes of it */

static const struct bomb { const char *name; void (*make)(struct buf *to); const char *text; uint64_t wanted; bool fast, ptx; } bombs[] = {
    {"recursive templates", NULL, "template <int N> struct A { static const int v = A<N + 1>::v + A<N - 1>::v; };\n__device__ int x = A<0>::v;\n" KERNEL, REFUSED, true, false},
    {"templates, two a level", NULL, "template <int N, int M> struct A { static const int v = A<N - 1, M * 2>::v + A<N - 1, M * 2 + 1>::v; };\n"
     "template <int M> struct A<0, M> { static const int v = M; };\n__device__ int x = A<24, 1>::v;\n" KERNEL, REFUSED, true, false},
    {"types that double", NULL, "template <class A, class B> struct P {};\ntemplate <int N, class T> struct D : D<N - 1, P<T, T>> {};\n"
     "template <class T> struct D<0, T> { using t = T; };\nextern \"C\" __global__ void k(D<26, int>::t *p) { }\n", COMPILES, false, false},
    {"a long constexpr loop", NULL, "constexpr __device__ long f() { long s = 0; for (long i = 0; i < 1000000000000L; i++) s += i; return s; }\n__device__ constexpr long x = f();\n" KERNEL, REFUSED, true, false},
    {"constexpr recursion", NULL, "constexpr __device__ int f(int n) { return n ? f(n - 1) + f(n - 1) : 1; }\n__device__ constexpr int x = f(60);\n" KERNEL, REFUSED, true, false},
    {"unrolled a thousand million times", NULL, "extern \"C\" __global__ void k(float *p) {\n#pragma unroll\nfor (int i = 0; i < 1000; i++)\n#pragma unroll\nfor (int j = 0; j < 1000; j++)\n"
     "#pragma unroll\nfor (int l = 0; l < 1000; l++) p[i * j * l] += p[i + j + l]; }\n", REFUSED, false, false},
    {"registers that do not fit", NULL, "extern \"C\" __global__ void k(float *p) { float a[4000];\n#pragma unroll\nfor (int i = 0; i < 4000; i++) a[i] = p[i];\n#pragma unroll\nfor (int r = 0; r < 20; r++)\n"
     "#pragma unroll\nfor (int i = 0; i < 4000; i++) a[i] = a[i] * a[(i * 7 + r) % 4000] + 1.f;\n#pragma unroll\nfor (int i = 0; i < 4000; i++) p[i] = a[i]; }\n", REFUSED, false, false},
    {"a tebibyte of array", NULL, "__device__ int big[1ull << 40] = {1};\n" KERNEL, REFUSED, false, false},
    {"two gibibytes of array", NULL, "__device__ int big[1 << 29] = {1};\n" KERNEL, REFUSED, false, false},
    {"an array that is computed", NULL, "struct A { int v[1 << 26]; __device__ constexpr A() : v{} { for (int i = 0; i < (1 << 26); i++) v[i] = i; } };\n__device__ constexpr A a;\n"
     "extern \"C\" __global__ void k(int *p) { *p = a.v[*p]; }\n", REFUSED, true, false},
    {"includes itself", NULL, "#include __FILE__\n" KERNEL, REFUSED, true, false},
    {"macros that grow", laughs, NULL, REFUSED, true, false},
    {"macros in a string", stringised, NULL, REFUSED, false, false},
    {"names that grow", pasted, NULL, REFUSED, false, false},
    {"functions that grow", inlined, NULL, REFUSED, false, false},
    {"a line that each warning quotes", quoted_line, NULL, REFUSED, false, false},
    {"messages", messages, NULL, COMPILES, true, false},
    {"warnings", warnings, NULL, COMPILES, false, false},
    {"errors", errors, NULL, V(COMPILE_ERROR), true, false},
    {"warnings of each instance", templates_in_log, NULL, COMPILES, false, false},
    {"nested parentheses", parens, NULL, REFUSED, true, false},
    {"nested blocks", braces, NULL, REFUSED, false, false},
    {"dimensions", brackets, NULL, REFUSED, false, false},
    {"pointers to pointers", stars, NULL, REFUSED, false, false},
    {"nested conditions", conditionals, NULL, COMPILES, false, false},
    {"a long name", identifier, NULL, COMPILES, false, false},
    {"a long initialiser", initialiser, NULL, COMPILES, false, false},
    {"a wide switch", switched, NULL, COMPILES, false, false},
    {"PTX: values that all live", ptx_registers, NULL, COMPILES, false, true},
    {"PTX: branches everywhere", ptx_branches, NULL, COMPILES, false, true},
    {"PTX: functions", ptx_functions, NULL, COMPILES, false, true},
    {"PTX: a long line", ptx_line, NULL, COMPILES, false, true},
    {"PTX: nested blocks", ptx_braces, NULL, PTX_REFUSED, true, true},
    {"PTX: nested parentheses", ptx_parens, NULL, PTX_REFUSED, true, true},
    {"PTX: comments in comments", ptx_comments, NULL, PTX_REFUSED, true, true},
};

static json_t *task_of(const char *language, const char *source)
{
    json_t *task = json_pack("{s:{s:s,s:{s:i,s:i},s:{s:s},s:s},s:s,s:n}", "shape", "op", "rmsnorm", "axes", "R", 2, "N", 64, "dtypes", "io", "f32", "target",
                             "sm_90a", "mode", "triage", "baseline");
    json_t *candidate = json_pack("{s:s,s:{s:[{s:s,s:[i],s:[i],s:[s]}]}}", "language", language, "plan", "steps", "kernel", "k", "grid", 1, "block", 32, "args", "y");
    json_put_str(candidate, "source", source);
    json_put(task, "candidate", candidate);
    return task;
}

static void test_bomb(const struct bomb *b, const char *home)
{
    struct buf source = {0};
    if (b->make)
        b->make(&source);
    else
        buf_str(&source, b->text);
    cleanup(json) json_t *task = task_of(b->ptx ? "ptx" : "cuda", buf_cstr(&source));
    cleanup(judge_result) struct judge_result r = {.gpu_ns = 0};
    struct err err = {0};
    int64_t from = clock_mono_ns();
    bool ok = judge_run(&config, task, NULL, NULL, NULL, &r, &err);
    int64_t took_ns = clock_mono_ns() - from;
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    bool right = ok && (b->wanted >> r.verdict.code & 1) && (r.verdict.code != VERDICT_OK);
    const char *log = ok ? json_str(r.verdict.detail, "log", "") : "";
    bool clean = strlen(log) <= (size_t)LIMIT_LOG_BYTES + 64 && utf8_valid(log, strlen(log)) && !strstr(log, home) && !strstr(r.verdict.text, home);
    printf("  %-34s %7zu bytes: %-18s after %5.1f s, most memory of a child %5ld MiB  %.90s\n", b->name, source.size, ok ? verdict_name(r.verdict.code) : "OUR FAILURE",
           (double)took_ns * 1e-9, children.ru_maxrss / 1024, ok ? r.verdict.text : err.text);
    fflush(stdout);
    if (!right)
        fprintf(stderr, "%s: %s %s\n", b->name, ok ? verdict_name(r.verdict.code) : err.text, ok ? r.verdict.text : "");
    check(right);
    check(clean);
    /* Twice where the compiler itself dies of it, and once more for the assembler. */
    check(took_ns < 3 * CPU_SECONDS * LIMIT_SECOND + SLACK_NS);
    check((int64_t)children.ru_maxrss * 1024 <= LIMIT_COMPILE_MEMORY_BYTES);
    buf_done(&source);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    struct err err = {0};
    struct toolkit_paths paths;
    hash_init();
    if (argc < 3 || !op_set_load(argv[1], &ops, &err))
        return fprintf(stderr, "usage: %s OPS_DIR fast|all: %s\n", argv[0], err.text), 2;
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++)
        if ((strcmp(argv[2], "all") == 0 || bombs[i].fast) && (argc < 4 || strstr(bombs[i].name, argv[3])))
            test_bomb(&bombs[i], paths.home);
    return test_done();
}

/* What the parser takes, what it says about a module, what it refuses, and that hostile text costs no more than its limits. */
#include "tests/test_ptx.h"

#include <time.h>

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"

static struct ptx_module *parse(const char *text, struct ptx_finding *f)
{
    struct ptx_module *m = NULL;
    struct err err = {0};
    check(ptx_parse(text, strlen(text), NULL, &m, f, &err));
    check((m != NULL) == (f->kind == PTX_CLEAN));
    return m;
}
static void good(const char *text)
{
    struct ptx_finding f;
    cleanup(ptx) struct ptx_module *m = parse(text, &f);
    check(m != NULL);
    if (!m)
        fprintf(stderr, "%s\n%s\n", text, f.text);
}
static void bad(const char *text, enum ptx_finding_kind kind, int line)
{
    struct ptx_finding f;
    cleanup(ptx) struct ptx_module *m = parse(text, &f);
    check_int(f.kind, kind);
    if (line)
        check_int(f.ptx_line, line);
    check(*f.text != 0);
}

static void kernels(void)
{
    struct ptx_finding f;
    cleanup(ptx) struct ptx_module *m = parse(HEAD
        ".extern .shared .align 16 .b8 dyn[];\n.shared .align 8 .b8 all[24];\n"
        ".visible .entry one(.param .u64 .ptr .global .align 16 a, .param .u32 n, .param .align 8 .b8 s[24], .param .f64 d)\n.maxntid 256, 1, 1\n.minnctapersm 2\n.reqnctapercluster 2, 1, 1\n"
        "{ .reg .b32 %r<3>; .shared .align 16 .b8 mine[100]; mov.u32 %r1, %envreg2; ret; }\n"
        ".entry two() .reqntid 64, 2 .maxnreg 40 { ret; }\n.func helper() { ret; }\n.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n", &f);
    check(m != NULL);
    if (!m)
        return;
    check_int(ptx_kernel_count(m), 2);
    check_str(ptx_target(m), "sm_90a");
    struct ptx_kernel k;
    check(ptx_kernel_get(m, 0, &k));
    check_str(k.name, "one");
    check_int(k.param_count, 4);
    check_int(k.params[0].bytes, 8);
    check(k.params[0].is_pointer);
    check_int(k.params[1].bytes, 4);
    check(!k.params[1].is_pointer);
    check_int(k.params[2].bytes, 24);
    check_int(k.params[2].align, 8);
    check(!k.params[3].is_pointer);
    check_int(k.maxntid[0], 256);
    check_int(k.cluster[0], 2);
    check_int(k.cluster[1], 1);
    check_int(k.reqntid[0], 0);
    check(k.uses_grid_barrier);
    check(k.static_shared_bytes >= 124 && k.static_shared_bytes <= 256);
    check(ptx_kernel_find(m, "two", &k));
    check_int(k.reqntid[1], 2);
    check_int(k.reqntid[2], 1);
    check(!k.uses_grid_barrier);
    check(!ptx_kernel_find(m, "helper", &k));
    check(!ptx_kernel_get(m, 2, &k));
}

static void accepted(void)
{
    good("");
    good(HEAD "/* a\ncomment */ // another\n");
    good(HEAD ".visible .entry k() { .reg .pred p; .reg .b32 a, b; { .reg .pred p; .reg .b32 a; setp.eq.u32 p, a, 0; @p bra L; L: } setp.eq.u32 p, a, b; ret; }");
    good(HEAD ".visible .entry k() { { L: bra L; } { L: bra L; } }");
    good(HEAD ".global .align 4 .f32 t[2][2] = {{0f3F800000, 1.5}, {-2.0, 0}};\n.const .u32 c = 5, e = 0x10;\n.weak .global .u8 w;\n.visible .global .u64 p = t;\n");
    good(HEAD ".visible .entry k() { .pragma \"nounroll\"; .reg .b64 %rd<2>; prefetch.global.L2 [%rd1]; ld.global.L1::no_allocate.L2::128B.b64 %rd1, [%rd1+-8]; ret; }");
    good(HEAD ".visible .entry k() { .reg .b32 %r<9>; .reg .b64 %rd<3>; tex.2d.v4.s32.f32 {%r1,%r2,%r3,%r4}, [%rd1, {%r5,%r6}]; cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4]; ret; }");
    good(HEAD ".entry k()\n.explicitcluster\n.maxclusterrank 8\n.maxnctapersm 2\n.pragma \"nounroll\";\n{ .pragma \"a\", \"b\"; P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _) .noreturn .abi_preserve 3; T: .calltargets f; ret; }\n.pragma \"c\";\n");
    good(HEAD "@@DWARF .section .debug_info, \"\", @progbits\n.func .noreturn .attribute(.unified(1, 2)) f() { ret; }\n");
    good(HEAD ".section .debug_str { L: .b8 95,90\n.b8 1 }\n");
    good(HEAD ".visible .entry k()\n{\nret;\n}\n\t.file\t1 \"a\\b.cu\", 12, 13\n");
}

static void refused(void)
{
    bad(HEAD ".entry k() { .reg .u32 r; mov.u32 r, 1/0; ret; }", PTX_SYNTAX, 0);
    bad(HEAD ".entry k() { .reg .u32 r; mov.u32 r, (1 < 2; ret; }", PTX_SYNTAX, 0);
    bad("hello", PTX_SYNTAX, 1);
    bad(HEAD ".visible .entry k() { ret; ", PTX_SYNTAX, 0);
    bad(HEAD ".visible .entry k() {\nmov.u32 %r1, 0;\n}", PTX_SYNTAX, 5);
    bad(HEAD ".visible .entry k() { .reg .b32 %r<4>; mov.u32 %r4, 0; }", PTX_SYNTAX, 4);
    bad(HEAD ".visible .entry k() { add.u32 ; } }", PTX_SYNTAX, 4);
    bad(HEAD ".entry k() { ret; }\n.entry k() { ret; }", PTX_SYNTAX, 5);
    bad(HEAD ".address_size 32\n", PTX_SYNTAX, 0);
    bad(HEAD ".global .u32 t[2] = {1, 2, 3};", PTX_SYNTAX, 4);
    bad(HEAD ".global .align 3 .u32 t;", PTX_SYNTAX, 4);
    bad(HEAD ".entry k() { @%p1 ret; }", PTX_SYNTAX, 4);
    bad(HEAD ".entry k() { .reg .b32 %r<3>; mov.b32 %r1, 0f123; }", PTX_SYNTAX, 4);
    bad(HEAD ".file 1 \"abc\n", PTX_SYNTAX, 4);
    bad(HEAD ".entry k() { .reg .b32 %r<2000000>; }", PTX_RESOURCE, 4);
    bad(HEAD ".entry k() { .shared .b8 s[2000000]; }", PTX_RESOURCE, 4);
    bad(HEAD ".global .b8 s[99999999999];", PTX_RESOURCE, 4);
    bad(HEAD ".entry k(.param .b8 s[99999]) { }", PTX_RESOURCE, 4);
    /* what is not known is not passed over: the next instruction would be lost with it */
    bad(HEAD ".entry k() {\n.hidden_thing\ntrap;\nret; }", PTX_SYNTAX, 5);
    bad(HEAD ".entry k() {\n.hidden { trap; }\nret; }", PTX_SYNTAX, 5);
    bad(HEAD ".entry k() {\n.section .debug_str { .b8 1 }\nret; }", PTX_SYNTAX, 5);
    bad(HEAD ".entry k() {\n.pragma \"nounroll\" trap;\nret; }", PTX_SYNTAX, 5);
    bad(HEAD ".entry k() {\n.pragma trap;\nret; }", PTX_SYNTAX, 5);
    bad(HEAD ".entry k() {\nP: .callprototype _ (.param .b32 _)\ntrap;\nret; }", PTX_SYNTAX, 6);
    bad(HEAD ".entry k() {\nP: .callprototype _ (.param .b32 _;\ntrap;\nret; }", PTX_SYNTAX, 5);
    bad(HEAD ".entry k() {\nP: .calltargets a, b\ntrap;\nret; }", PTX_SYNTAX, 6);
    bad(HEAD ".entry k()\n.secret 3\n{ ret; }", PTX_SYNTAX, 5);
    bad(HEAD ".entry k()\n.explicitcluster 3\n{ ret; }", PTX_SYNTAX, 5);
    bad(HEAD ".func .secret g() { ret; }", PTX_SYNTAX, 4);
    bad(HEAD ".secret\n.entry k() { ret; }", PTX_SYNTAX, 4);
    bad(HEAD ".section .text { .b8 1 }\n", PTX_SYNTAX, 4);
    bad(HEAD ".section .debug_str .entry k() { ret; }\n", PTX_SYNTAX, 4);
    bad(HEAD "@ .entry k() { ret; }\n", PTX_SYNTAX, 4);
    struct ptx_finding f;
    cleanup(ptx) struct ptx_module *none = parse(HEAD ".entry k() {\n.hidden_thing\ntrap; ret; }", &f);
    check_str(f.text, "PTX line 5: an unknown directive in a function near \".hidden_thing\"");
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void repeat(struct buf *b, const char *text, int times)
{
    for (int i = 0; i < times; i++)
        buf_str(b, text);
}

/* Text made to be expensive: parsing stays near linear. */
static void hostile(void)
{
    static const struct { const char *start, *part; int times; const char *end; } cases[] = {
        {HEAD ".entry k() {", "{", 100000, ""},
        {HEAD ".entry k() {", "{}", 200000, "}"},
        {HEAD ".entry k() { .reg .b32 %r<9>; mov.b32 %r1, ", "{", 100000, ";"},
        {HEAD ".entry k() { .reg .b32 %r<9>; ld.u32 %r1, ", "[", 100000, ";"},
        {HEAD ".entry k() { .reg .pred %p<9>; L:", "@%p1 bra L;", 50000, "}"},
        {HEAD ".entry k() {", ".reg .b32 %r<100000>;", 50000, "}"},
        {HEAD, ".func f() ;", 50000, ""},
        {HEAD ".entry k() {", "ret;", 200000, "}"},
        {HEAD ".entry k() { .reg .b32 %r<9>;", "add.u32 %r1, %r2, 5;", 100000, "}"},
        {HEAD ".entry k() { .reg .b64 %rd<99>;", "cvt.u32.u64 %rd1, %rd2;", 100000, "}"},
        {HEAD ".entry k() { T: .branchtargets ", "T,", 200000, "T; ret; }"},
        {HEAD, "-", 1000000, ""},
        {HEAD, ".file 1 \"a\"", 20000, ""},
        {HEAD ".entry k() {", ".loc 1 5 6 .loc 2 7 8 ", 100000, "}"},
        {HEAD "", ".entry k() { .reg .b32 %r<900000>; ", 300, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(buf) struct buf b = {0};
        buf_str(&b, cases[i].start);
        repeat(&b, cases[i].part, cases[i].times);
        buf_str(&b, cases[i].end);
        struct ptx_finding f;
        const double start = seconds();
        cleanup(ptx) struct ptx_module *m = parse(b.data, &f);
        const double took = seconds() - start;
        if (took > 2)
            fprintf(stderr, "%.60s...: %.2f s\n", cases[i].part, took);
        check(took < 10);
    }
    /* labels and branches that cross: the flow analysis has an end */
    cleanup(buf) struct buf b = {0};
    buf_str(&b, HEAD ".entry k() { .reg .pred %p<9>;");
    for (int i = 0; i < 6000; i++)
        buf_fmt(&b, "L%d: @%%p1 bra L%d; @%%p2 bra L%d;\n", i, (i * 7919 + 13) % 6000, (i * 104729 + 7) % 6000);
    buf_str(&b, "ret; }");
    struct ptx_finding f;
    const double start = seconds();
    cleanup(ptx) struct ptx_module *m = parse(b.data, &f);
    check(m != NULL);
    check(seconds() - start < 10);
    struct ptx_limits small = ptx_default_limits;
    small.text_bytes = 100;
    struct ptx_module *none = NULL;
    struct err err = {0};
    check(ptx_parse(b.data, b.size, &small, &none, &f, &err) && !none);
    check_int(f.kind, PTX_RESOURCE);
    small = ptx_default_limits;
    small.memory_bytes = 100000;
    check(ptx_parse(b.data, b.size, &small, &none, &f, &err) && !none);
    check_int(f.kind, PTX_RESOURCE);
}

static void names(void)
{
    check_str(ptx_finding_name(PTX_RACE), "race");
    check_str(ptx_finding_verdict(PTX_READ_ONLY), "input_modified");
    check_str(ptx_finding_verdict(PTX_CLEAN), "ok");
}

int main(void)
{
    kernels();
    accepted();
    refused();
    hostile();
    names();
    return test_done();
}

/*
 * One instruction at a time, on operands that are special to it. A case is a snippet, three 64-bit inputs and the 64-bit result.
 * Inputs are %rd1-3, their low halves %r1-3, %f1-3 and %h1-3, doubles %d1-3; results go to %rd9, or to one of
 * %r9 %h9 %f9 %d9 %p9 as the case says. Expected values were worked out by hand from the PTX manual, or are computed here in
 * another way than the emulator's.
 */
#include "tests/test_ptx.h"

#include <inttypes.h>

static const char head[] =
    ".version 9.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .u64 in, .param .u64 out) {\n"
    ".reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<12>; .reg .b64 %rd<16>; .reg .f32 %f<10>; .reg .f64 %d<10>;\n"
    "mov.u32 %r10, %tid.x; mul.wide.u32 %rd10, %r10, 24; ld.param.u64 %rd11, [in]; add.s64 %rd11, %rd11, %rd10;\n"
    "ld.global.u64 %rd1, [%rd11]; ld.global.u64 %rd2, [%rd11+8]; ld.global.u64 %rd3, [%rd11+16];\n"
    "cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; cvt.u32.u64 %r3, %rd3;\n"
    "mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;\n"
    "cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r2; cvt.u16.u32 %h3, %r3;\n"
    "mov.b64 %d1, %rd1; mov.b64 %d2, %rd2; mov.b64 %d3, %rd3;\n"
    "setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r2, 0; setp.ne.u32 %p3, %r3, 0;\n";
static const struct { char kind; const char *text; } tails[] = {
    {'D', ""}, {'r', "cvt.u64.u32 %rd9, %r9;"}, {'h', "cvt.u64.u16 %rd9, %h9;"}, {'f', "mov.b32 %r9, %f9; cvt.u64.u32 %rd9, %r9;"},
    {'d', "mov.b64 %rd9, %d9;"}, {'p', "selp.u64 %rd9, 1, 0, %p9;"},
};

static bool run_one(const char *snippet, char kind, const uint64_t *in, uint64_t *ret, bool quiet)
{
    char text[4096];
    const char *tail = "";
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (tails[i].kind == kind)
            tail = tails[i].text;
    snprintf(text, sizeof text, "%s%s\n%s\nmul.wide.u32 %%rd10, %%r10, 8; ld.param.u64 %%rd11, [out]; add.s64 %%rd11, %%rd11, %%rd10;\n"
             "st.global.u64 [%%rd11], %%rd9; ret; }\n", head, snippet, tail);
    cleanup(bench) struct bench b = {0};
    if (!bench_text(&b, text))
        return false;
    /* lanes 0..31 all get the case; only half of them run, to go the masked way as well */
    uint64_t inputs[32 * 3];
    for (int i = 0; i < 96; i++)
        inputs[i] = in[i % 3];
    bench_buffer(&b, "in", sizeof inputs, false, inputs);
    const uint64_t *out = bench_buffer(&b, "out", 32 * 8, true, NULL);
    if (bench_run(&b) != PTX_CLEAN) {
        if (!quiet)
            fprintf(stderr, "%s: %s\n", snippet, b.finding.text);
        return false;
    }
    for (int i = 1; i < 32; i++)
        if (out[i] != out[0])
            return false;
    *ret = out[0];
    return true;
}

static void one(const char *snippet, char kind, uint64_t a, uint64_t b, uint64_t c, uint64_t want)
{
    const uint64_t in[3] = {a, b, c};
    uint64_t got = 0xbad;
    const bool ok = run_one(snippet, kind, in, &got, false) && got == want;
    if (!ok)
        fprintf(stderr, "%s (%#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 "): got %#" PRIx64 ", wanted %#" PRIx64 "\n", snippet, a, b, c, got, want);
    check(ok);
    /* the same under a predicate that holds, and one that does not */
    char guarded[512];
    if (!strchr(snippet, '@') && !strchr(snippet, '{') && strchr(snippet, ';') == snippet + strlen(snippet) - 1) {
        snprintf(guarded, sizeof guarded, "setp.eq.u32 %%p8, 0, 0; @%%p8 %s", snippet);
        got = 0xbad;
        const bool same = run_one(guarded, kind, in, &got, false) && got == want;
        if (!same)
            fprintf(stderr, "%s: got %#" PRIx64 ", wanted %#" PRIx64 "\n", guarded, got, want);
        check(same);
    }
}

static uint32_t f(float x) { uint32_t r; memcpy(&r, &x, 4); return r; }
static uint64_t d(double x) { uint64_t r; memcpy(&r, &x, 8); return r; }
#define NANF 0x7fc00000u
#define INFF 0x7f800000u
#define CANON 0x7fffffffu

static void integers(void)
{
    one("add.s32 %r9, %r1, %r2;", 'r', 0xffffffff, 2, 0, 1);
    one("add.sat.s32 %r9, %r1, %r2;", 'r', 0x7fffffff, 2, 0, 0x7fffffff);
    one("add.sat.s32 %r9, %r1, %r2;", 'r', 0x80000000, 0xffffffff, 0, 0x80000000);
    one("sub.sat.s32 %r9, %r1, %r2;", 'r', 0x80000000, 1, 0, 0x80000000);
    one("add.s64 %rd9, %rd1, %rd2;", 'D', ~0ull, 5, 0, 4);
    one("add.u16 %h9, %h1, %h2;", 'h', 0xffff, 3, 0, 2);
    one("sub.s32 %r9, %r1, 7;", 'r', 5, 0, 0, 0xfffffffe);
    one("mul.lo.s32 %r9, %r1, %r2;", 'r', 0x10001, 0x10001, 0, 0x20001);
    one("mul.hi.u32 %r9, %r1, %r2;", 'r', 0xffffffff, 0xffffffff, 0, 0xfffffffe);
    one("mul.hi.s32 %r9, %r1, %r2;", 'r', 0xffffffff, 0xffffffff, 0, 0);
    one("mul.hi.s32 %r9, %r1, %r2;", 'r', 0x80000000, 2, 0, 0xffffffff);
    one("mul.hi.u64 %rd9, %rd1, %rd2;", 'D', ~0ull, ~0ull, 0, ~1ull);
    one("mul.hi.s64 %rd9, %rd1, %rd2;", 'D', ~0ull, ~0ull, 0, 0);
    one("mul.wide.s32 %rd9, %r1, %r2;", 'D', 0xffffffff, 3, 0, (uint64_t)-3);
    one("mul.wide.u32 %rd9, %r1, %r2;", 'D', 0xffffffff, 3, 0, 0x2fffffffdull);
    one("mul.wide.s16 %r9, %h1, %h2;", 'r', 0xffff, 3, 0, (uint32_t)-3);
    one("mul.wide.u16 %r9, %h1, %h2;", 'r', 0xffff, 0xffff, 0, 0xfffe0001);
    one("mul.lo.u16 %h9, %h1, %h2;", 'h', 0x101, 0x101, 0, 0x201);
    one("mad.lo.s32 %r9, %r1, %r2, %r3;", 'r', 7, 6, 0xffffffff, 41);
    one("mad.hi.u32 %r9, %r1, %r2, %r3;", 'r', 0x80000000, 4, 5, 7);
    one("mad.wide.s32 %rd9, %r1, %r2, %rd3;", 'D', 0xffffffff, 4, 10, 6);
    one("mad.wide.u32 %rd9, %r1, %r2, %rd3;", 'D', 0xffffffff, 2, 1, 0x1ffffffffull);
    one("div.s32 %r9, %r1, %r2;", 'r', (uint32_t)-7, 2, 0, (uint32_t)-3);
    one("div.s32 %r9, %r1, %r2;", 'r', 0x80000000, 0xffffffff, 0, 0x80000000);
    one("div.s32 %r9, %r1, %r2;", 'r', 7, 0, 0, 0xffffffff);
    one("div.u32 %r9, %r1, %r2;", 'r', 7, 0, 0, 0xffffffff);
    one("div.u32 %r9, %r1, %r2;", 'r', 0xfffffff9, 2, 0, 0x7ffffffc);
    one("rem.s32 %r9, %r1, %r2;", 'r', (uint32_t)-7, 3, 0, (uint32_t)-1);
    one("rem.s32 %r9, %r1, %r2;", 'r', 0x80000000, 0xffffffff, 0, 0);
    one("rem.u32 %r9, %r1, %r2;", 'r', 0xfffffff9, 10, 0, 9);
    one("div.s64 %rd9, %rd1, %rd2;", 'D', 1ull << 63, ~0ull, 0, 1ull << 63);
    one("div.u64 %rd9, %rd1, %rd2;", 'D', 1ull << 63, 3, 0, (1ull << 63) / 3);
    one("rem.s64 %rd9, %rd1, %rd2;", 'D', (uint64_t)-10, 4, 0, (uint64_t)-2);
    one("rem.u64 %rd9, %rd1, %rd2;", 'D', 100, 7, 0, 2);
    one("min.s32 %r9, %r1, %r2;", 'r', 0x80000000, 1, 0, 0x80000000);
    one("min.u32 %r9, %r1, %r2;", 'r', 0x80000000, 1, 0, 1);
    one("max.s64 %rd9, %rd1, %rd2;", 'D', ~0ull, 3, 0, 3);
    one("max.u16 %h9, %h1, %h2;", 'h', 0xffff, 3, 0, 0xffff);
    one("max.s16 %h9, %h1, %h2;", 'h', 0xffff, 3, 0, 3);
    one("abs.s32 %r9, %r1;", 'r', 0x80000000, 0, 0, 0x80000000);
    one("abs.s64 %rd9, %rd1;", 'D', (uint64_t)-9, 0, 0, 9);
    one("neg.s32 %r9, %r1;", 'r', 5, 0, 0, (uint32_t)-5);
    one("neg.s16 %h9, %h1;", 'h', 5, 0, 0, 0xfffb);
    one("sad.s32 %r9, %r1, %r2, %r3;", 'r', 0x80000000, 0x7fffffff, 1, 0);
    one("mul24.lo.u32 %r9, %r1, %r2;", 'r', 0xff000003, 0xff000005, 0, 15);
    one("add.cc.u32 %r9, %r1, %r2; addc.u32 %r9, %r3, 0;", 'r', 0xffffffff, 1, 41, 42);
    one("add.cc.u32 %r8, %r1, %r2; addc.cc.u32 %r8, %r3, %r3; addc.u32 %r9, 0, 0;", 'r', 1, 1, 0xffffffff, 1);
    one("sub.cc.u32 %r8, %r1, %r2; subc.u32 %r9, %r3, 0;", 'r', 1, 2, 10, 9);
    one("mad.lo.cc.u32 %r8, %r1, %r2, %r3; madc.hi.u32 %r9, %r1, %r2, 0;", 'r', 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff);
    one("add.cc.u64 %rd8, %rd1, %rd2; addc.u64 %rd9, %rd3, 0;", 'D', ~0ull, 1, 7, 8);
}

static void bits(void)
{
    one("shl.b32 %r9, %r1, %r2;", 'r', 1, 31, 0, 0x80000000);
    one("shl.b32 %r9, %r1, %r2;", 'r', 1, 32, 0, 0);
    one("shl.b32 %r9, %r1, %r2;", 'r', 1, 0xffffffff, 0, 0);
    one("shr.u32 %r9, %r1, %r2;", 'r', 0x80000000, 32, 0, 0);
    one("shr.s32 %r9, %r1, %r2;", 'r', 0x80000000, 40, 0, 0xffffffff);
    one("shr.s32 %r9, %r1, 4;", 'r', 0x80000000, 0, 0, 0xf8000000);
    one("shl.b64 %rd9, %rd1, %r2;", 'D', 3, 63, 0, 1ull << 63);
    one("shl.b64 %rd9, %rd1, %r2;", 'D', 3, 64, 0, 0);
    one("shr.s64 %rd9, %rd1, %r2;", 'D', 1ull << 63, 100, 0, ~0ull);
    one("shr.u64 %rd9, %rd1, %r2;", 'D', 1ull << 63, 63, 0, 1);
    one("shl.b16 %h9, %h1, %r2;", 'h', 3, 15, 0, 0x8000);
    one("shl.b16 %h9, %h1, %r2;", 'h', 3, 16, 0, 0);
    one("shr.s16 %h9, %h1, %r2;", 'h', 0x8000, 20, 0, 0xffff);
    one("shf.l.wrap.b32 %r9, %r1, %r2, %r3;", 'r', 0x80000000, 1, 33, 3);
    one("shf.l.clamp.b32 %r9, %r1, %r2, %r3;", 'r', 0x80000000, 1, 33, 0x80000000);
    one("shf.r.wrap.b32 %r9, %r1, %r2, %r3;", 'r', 2, 1, 1, 0x80000001);
    one("shf.r.clamp.b32 %r9, %r1, %r2, %r3;", 'r', 2, 7, 32, 7);
    one("and.b32 %r9, %r1, %r2;", 'r', 0xf0, 0x3c, 0, 0x30);
    one("or.b64 %rd9, %rd1, %rd2;", 'D', 1ull << 40, 1, 0, (1ull << 40) | 1);
    one("xor.b16 %h9, %h1, %h2;", 'h', 0xff00, 0x0ff0, 0, 0xf0f0);
    one("not.b16 %h9, %h1;", 'h', 0xff00, 0, 0, 0x00ff);
    one("not.b32 %r9, %r1;", 'r', 0xff00, 0, 0, 0xffff00ff);
    one("cnot.b32 %r9, %r1;", 'r', 0, 0, 0, 1);
    one("popc.b32 %r9, %r1;", 'r', 0xf0f0f0f0, 0, 0, 16);
    one("popc.b64 %r9, %rd1;", 'r', ~0ull, 0, 0, 64);
    one("clz.b32 %r9, %r1;", 'r', 0, 0, 0, 32);
    one("clz.b64 %r9, %rd1;", 'r', 1, 0, 0, 63);
    one("brev.b32 %r9, %r1;", 'r', 1, 0, 0, 0x80000000);
    one("brev.b64 %rd9, %rd1;", 'D', 2, 0, 0, 1ull << 62);
    one("bfind.u32 %r9, %r1;", 'r', 0x00010000, 0, 0, 16);
    one("bfind.s32 %r9, %r1;", 'r', 0xffffffff, 0, 0, 0xffffffff);
    one("bfind.s32 %r9, %r1;", 'r', 0xfffffffb, 0, 0, 2);
    one("bfind.shiftamt.u32 %r9, %r1;", 'r', 0x00010000, 0, 0, 15);
    one("bfind.shiftamt.u32 %r9, %r1;", 'r', 0, 0, 0, 0xffffffff);
    one("bfe.u32 %r9, %r1, %r2, %r3;", 'r', 0xabcd1234, 8, 8, 0x12);
    one("bfe.u32 %r9, %r1, %r2, %r3;", 'r', 0xabcd1234, 16, 32, 0xabcd);
    one("bfe.s32 %r9, %r1, %r2, %r3;", 'r', 0xabcd1234, 24, 8, 0xffffffab);
    one("bfe.s32 %r9, %r1, %r2, %r3;", 'r', 0xabcd1234, 28, 8, 0xfffffffa);
    one("bfe.s32 %r9, %r1, %r2, %r3;", 'r', 0xabcd1234, 40, 8, 0xffffffff);
    one("bfe.s32 %r9, %r1, %r2, 0;", 'r', 0xabcd1234, 4, 0, 0);
    one("bfe.u64 %rd9, %rd1, %r2, %r3;", 'D', 0x123456789abcdef0ull, 32, 16, 0x5678);
    one("bfi.b32 %r9, %r1, %r2, 8, 8;", 'r', 0xff, 0x12345678, 0, 0x1234ff78);
    one("bfi.b32 %r9, %r1, %r2, 40, 8;", 'r', 0xff, 0x12345678, 0, 0x12345678);
    one("bfi.b64 %rd9, %rd1, %rd2, 32, 32;", 'D', 0xcafe, 0x12345678, 0, 0xcafe12345678ull);
    one("prmt.b32 %r9, %r1, %r2, 0x7531;", 'r', 0x33221100, 0x77665544, 0, 0x77553311);
    one("prmt.b32 %r9, %r1, %r2, 0x888f;", 'r', 0x80, 0x7f665544, 0, 0xffffff00);
    one("prmt.b32.f4e %r9, %r1, %r2, 1;", 'r', 0x33221100, 0x77665544, 0, 0x44332211);
    one("prmt.b32.b4e %r9, %r1, %r2, 0;", 'r', 0x33221100, 0x77665544, 0, 0x55667700);
    one("prmt.b32.rc8 %r9, %r1, %r2, 2;", 'r', 0x33221100, 0x77665544, 0, 0x22222222);
    one("prmt.b32.ecl %r9, %r1, %r2, 1;", 'r', 0x33221100, 0x77665544, 0, 0x33221111);
    one("prmt.b32.ecr %r9, %r1, %r2, 1;", 'r', 0x33221100, 0x77665544, 0, 0x11111100);
    one("prmt.b32.rc16 %r9, %r1, %r2, 1;", 'r', 0x33221100, 0x77665544, 0, 0x33223322);
    one("lop3.b32 %r9, %r1, %r2, %r3, 0x96;", 'r', 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x96969696);
    one("lop3.b32 %r9, %r1, %r2, %r3, 0xE8;", 'r', 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0xe8e8e8e8);
    one("dp4a.u32.u32 %r9, %r1, %r2, %r3;", 'r', 0x01020304, 0x01010101, 5, 15);
    one("dp4a.s32.s32 %r9, %r1, %r2, %r3;", 'r', 0xff020304, 0x01010101, 5, 13);
    one("dp4a.s32.u32 %r9, %r1, %r2, %r3;", 'r', 0xff000000, 0xff000000, 0, (uint32_t)-255);
    one("bmsk.clamp.b32 %r9, %r1, %r2;", 'r', 4, 8, 0, 0xff0);
    one("szext.clamp.s32 %r9, %r1, %r2;", 'r', 0x80, 8, 0, 0xffffff80);
    one("mov.b32 %r9, {%h1, %h2};", 'r', 0x1111, 0x2222, 0, 0x22221111);
    one("mov.b64 %rd9, {%r1, %r2};", 'D', 1, 2, 0, 0x200000001ull);
    one("mov.b64 {%r8, %r9}, %rd1;", 'r', 0x1122334455667788ull, 0, 0, 0x11223344);
    one("mov.b64 {%r9, _}, %rd1;", 'r', 0x1122334455667788ull, 0, 0, 0x55667788);
    one("mov.b32 {%h8, %h9}, %r1;", 'h', 0x33445566, 0, 0, 0x3344);
    one("mov.b64 {%h5, %h6, %h7, %h9}, %rd1;", 'h', 0x1122334455667788ull, 0, 0, 0x1122);
    one("mov.b64 %rd9, {%h1, %h2, %h3, %h1};", 'D', 1, 2, 3, 0x0001000300020001ull);
}

static void comparisons(void)
{
    static const struct { const char *op; int lt, eq, gt, un; } cases[] = {
        {"eq", 0, 1, 0, 0}, {"ne", 1, 0, 1, 0}, {"lt", 1, 0, 0, 0}, {"le", 1, 1, 0, 0}, {"gt", 0, 0, 1, 0}, {"ge", 0, 1, 1, 0},
        {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1}, {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1},
        {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "setp.%s.f32 %%p9, %%f1, %%f2;", cases[i].op);
        one(text, 'p', f(1), f(2), 0, (uint64_t)cases[i].lt);
        one(text, 'p', f(2), f(2), 0, (uint64_t)cases[i].eq);
        one(text, 'p', f(0), f(-0.0f), 0, (uint64_t)cases[i].eq);
        one(text, 'p', f(3), f(2), 0, (uint64_t)cases[i].gt);
        one(text, 'p', NANF, f(2), 0, (uint64_t)cases[i].un);
        snprintf(text, sizeof text, "setp.%s.f64 %%p9, %%d1, %%d2;", cases[i].op);
        one(text, 'p', d(1), d(2), 0, (uint64_t)cases[i].lt);
        one(text, 'p', d(NAN), d(2), 0, (uint64_t)cases[i].un);
        snprintf(text, sizeof text, "setp.%s.bf16 %%p9, %%h1, %%h2;", cases[i].op);
        one(text, 'p', 0x3f80, 0x4000, 0, (uint64_t)cases[i].lt);
        one(text, 'p', 0x3f80, 0x7fc0, 0, (uint64_t)cases[i].un);
    }
    one("setp.lt.s32 %p9, %r1, %r2;", 'p', 0xffffffff, 0, 0, 1);
    one("setp.lt.u32 %p9, %r1, %r2;", 'p', 0xffffffff, 0, 0, 0);
    one("setp.hi.u32 %p9, %r1, %r2;", 'p', 0xffffffff, 0, 0, 1);
    one("setp.lo.u32 %p9, %r1, %r2;", 'p', 1, 2, 0, 1);
    one("setp.ls.u32 %p9, %r1, %r2;", 'p', 2, 2, 0, 1);
    one("setp.hs.u32 %p9, %r1, %r2;", 'p', 1, 2, 0, 0);
    one("setp.ge.s64 %p9, %rd1, %rd2;", 'p', ~0ull, 0, 0, 0);
    one("setp.gt.u64 %p9, %rd1, %rd2;", 'p', ~0ull, 0, 0, 1);
    one("setp.lt.s16 %p9, %h1, %h2;", 'p', 0x8000, 0, 0, 1);
    one("setp.lt.u16 %p9, %h1, %h2;", 'p', 0x8000, 0, 0, 0);
    one("setp.lt.and.s32 %p9, %r1, %r2, %p3;", 'p', 1, 2, 0, 0);
    one("setp.lt.or.s32 %p9, %r1, %r2, %p3;", 'p', 5, 2, 1, 1);
    one("setp.lt.xor.s32 %p9, %r1, %r2, !%p3;", 'p', 1, 2, 0, 0);
    one("setp.lt.s32 %p8|%p9, %r1, %r2;", 'p', 1, 2, 0, 0);
    one("setp.lt.and.s32 %p8|%p9, %r1, %r2, %p3;", 'p', 3, 2, 1, 1);
    one("set.lt.u32.s32 %r9, %r1, %r2;", 'r', 1, 2, 0, 0xffffffff);
    one("set.lt.f32.s32 %f9, %r1, %r2;", 'f', 1, 2, 0, f(1));
    one("set.eq.f16.f16 %h9, %h1, %h2;", 'h', 0x3c00, 0x3c00, 0, 0x3c00);
    one("set.gt.bf16x2.bf16x2 %r9, %r1, %r2;", 'r', 0x40003f80, 0x3f804000, 0, 0x3f800000);
    one("setp.eq.f16x2 %p8|%p9, %r1, %r2;", 'p', 0x3c000000, 0x3c003c00, 0, 1);
    one("selp.b32 %r9, %r1, %r2, %p3;", 'r', 5, 6, 0, 6);
    one("selp.b64 %rd9, %rd1, %rd2, !%p3;", 'D', 5, 6, 0, 5);
    one("slct.s32.s32 %r9, %r1, %r2, %r3;", 'r', 5, 6, 0x80000000, 6);
    one("slct.u64.f32 %rd9, %rd1, %rd2, %f3;", 'D', 5, 6, f(-0.0f), 5);
    one("and.pred %p9, %p1, %p2;", 'p', 1, 0, 0, 0);
    one("not.pred %p9, %p1;", 'p', 0, 0, 0, 1);
    one("xor.pred %p9, %p1, %p2;", 'p', 1, 0, 0, 1);
    one("mov.pred %p9, 1;", 'p', 0, 0, 0, 1);
    one("testp.infinite.f32 %p9, %f1;", 'p', 0xff800000, 0, 0, 1);
    one("testp.subnormal.f32 %p9, %f1;", 'p', 1, 0, 0, 1);
    one("testp.notanumber.f32 %p9, %f1;", 'p', NANF, 0, 0, 1);
}

static void floats(void)
{
    one("add.f32 %f9, %f1, %f2;", 'f', f(1e8f), f(1), 0, f(1e8f + 1));
    one("add.f32 %f9, %f1, %f2;", 'f', INFF, 0xff800000, 0, CANON);
    one("mul.f32 %f9, %f1, %f2;", 'f', 0xffc00001, f(1), 0, CANON);
    one("add.rz.f32 %f9, %f1, %f2;", 'f', f(1), 0x33800001, 0, f(1));
    one("add.rp.f32 %f9, %f1, %f2;", 'f', f(1), 0x30000000, 0, 0x3f800001);
    one("add.rm.f32 %f9, %f1, %f2;", 'f', f(1), 0xb0000000, 0, 0x3f7fffff);
    one("add.rn.f32 %f9, %f1, %f2;", 'f', f(1), 0x33800001, 0, 0x3f800001);
    one("mul.rz.f32 %f9, %f1, %f2;", 'f', 0x3f800001, 0x3f800001, 0, 0x3f800002);
    one("mul.rp.f32 %f9, %f1, %f2;", 'f', 0x3f800001, 0x3f800001, 0, 0x3f800003);
    one("fma.rm.f32 %f9, %f1, %f2, %f3;", 'f', f(1), f(1), 0xb0000000, 0x3f7fffff);
    one("fma.rn.f32 %f9, %f1, %f2, %f3;", 'f', 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000);
    one("fma.rn.sat.f32 %f9, %f1, %f2, %f3;", 'f', f(3), f(2), f(1), f(1));
    one("add.sat.f32 %f9, %f1, %f2;", 'f', NANF, f(1), 0, 0);
    one("add.ftz.f32 %f9, %f1, %f2;", 'f', 0x00000001, 0x00000001, 0, 0);
    one("add.f32 %f9, %f1, %f2;", 'f', 0x00000001, 0x00000001, 0, 2);
    one("mul.ftz.f32 %f9, %f1, %f2;", 'f', f(-1e-30f), f(1e-10f), 0, 0x80000000);
    one("mul.ftz.f32 %f8, %f1, %f2; add.f32 %f9, %f3, 0f00000001;", 'f', f(1e-30f), f(1e-10f), 0x00000001, 2);
    one("div.rn.f32 %f9, %f1, %f2;", 'f', f(1), f(3), 0, f(1.0f / 3));
    one("div.approx.f32 %f9, %f1, %f2;", 'f', f(1), 0, 0, INFF);
    one("div.full.f32 %f9, %f1, %f2;", 'f', f(10), f(4), 0, f(2.5f));
    one("rcp.rn.f32 %f9, %f1;", 'f', f(-0.0f), 0, 0, 0xff800000);
    one("rcp.approx.ftz.f32 %f9, %f1;", 'f', 1, 0, 0, INFF);
    one("sqrt.rn.f32 %f9, %f1;", 'f', f(2), 0, 0, f(1.41421356f));
    one("sqrt.rn.f32 %f9, %f1;", 'f', f(-1), 0, 0, CANON);
    one("sqrt.rz.f32 %f9, %f1;", 'f', f(3), 0, 0, 0x3fddb3d7);
    one("rsqrt.approx.f32 %f9, %f1;", 'f', f(4), 0, 0, f(0.5f));
    one("rsqrt.approx.f32 %f9, %f1;", 'f', 0, 0, 0, INFF);
    one("ex2.approx.f32 %f9, %f1;", 'f', f(10), 0, 0, f(1024));
    one("ex2.approx.f32 %f9, %f1;", 'f', f(-149), 0, 0, 1);
    one("ex2.approx.ftz.f32 %f9, %f1;", 'f', f(-140), 0, 0, 0);
    one("ex2.approx.f32 %f9, %f1;", 'f', f(200), 0, 0, INFF);
    one("ex2.approx.f32 %f9, %f1;", 'f', 0xff800000, 0, 0, 0);
    one("lg2.approx.f32 %f9, %f1;", 'f', f(8), 0, 0, f(3));
    one("lg2.approx.f32 %f9, %f1;", 'f', 0, 0, 0, 0xff800000);
    one("lg2.approx.f32 %f9, %f1;", 'f', f(-1), 0, 0, CANON);
    one("lg2.approx.f32 %f9, %f1;", 'f', 1, 0, 0, f(-149));
    one("lg2.approx.f32 %f9, %f1;", 'f', INFF, 0, 0, INFF);
    one("tanh.approx.f32 %f9, %f1;", 'f', f(100), 0, 0, f(1));
    one("sin.approx.f32 %f9, %f1;", 'f', 0, 0, 0, 0);
    one("cos.approx.f32 %f9, %f1;", 'f', 0, 0, 0, f(1));
    for (int i = 0; i < 40; i++) {
        const float x = (float)(i - 20) * 0.71f;
        one("ex2.approx.f32 %f9, %f1;", 'f', f(x), 0, 0, f((float)exp2((double)x)));
        one("tanh.approx.f32 %f9, %f1;", 'f', f(x), 0, 0, f((float)tanh((double)x)));
        one("lg2.approx.f32 %f9, %f1;", 'f', f(fabsf(x) + 0.01f), 0, 0, f((float)log2((double)(fabsf(x) + 0.01f))));
    }
    one("min.f32 %f9, %f1, %f2;", 'f', NANF, f(2), 0, f(2));
    one("min.f32 %f9, %f1, %f2;", 'f', f(-0.0f), f(0), 0, f(-0.0f));
    one("max.f32 %f9, %f1, %f2;", 'f', f(-0.0f), f(0), 0, f(0));
    one("max.f32 %f9, %f1, %f2;", 'f', NANF, 0xffc00000, 0, CANON);
    one("min.NaN.f32 %f9, %f1, %f2;", 'f', f(1), NANF, 0, CANON);
    one("max.ftz.f32 %f9, %f1, %f2;", 'f', 1, f(-1), 0, 0);
    one("neg.f32 %f9, %f1;", 'f', f(1), 0, 0, f(-1));
    one("abs.ftz.f32 %f9, %f1;", 'f', 0x80000001, 0, 0, 0);
    one("copysign.f32 %f9, %f1, %f2;", 'f', f(-1), f(3), 0, f(-3));
    one("add.f64 %d9, %d1, %d2;", 'd', d(1), d(1e-16), 0, d(1));
    one("add.rp.f64 %d9, %d1, %d2;", 'd', d(1), d(1e-30), 0, d(1) + 1);
    one("fma.rn.f64 %d9, %d1, %d2, %d3;", 'd', d(1) + 1, d(1) + 1, d(-1), d(fma(1 + 0x1p-52, 1 + 0x1p-52, -1)));
    one("div.rn.f64 %d9, %d1, %d2;", 'd', d(1), d(3), 0, d(1.0 / 3));
    one("sqrt.rn.f64 %d9, %d1;", 'd', d(2), 0, 0, d(sqrt(2)));
    one("rcp.rn.f64 %d9, %d1;", 'd', d(3), 0, 0, d(1.0 / 3));
    one("min.f64 %d9, %d1, %d2;", 'd', d(NAN), d(3), 0, d(3));
    one("neg.f64 %d9, %d1;", 'd', d(3), 0, 0, d(-3));
}

static void halves(void)
{
    one("add.f16 %h9, %h1, %h2;", 'h', 0x3c00, 0x3c00, 0, 0x4000);
    one("add.f16 %h9, %h1, %h2;", 'h', 0x0001, 0x0001, 0, 0x0002);       /* subnormals */
    one("mul.f16 %h9, %h1, %h2;", 'h', 0x7bff, 0x4000, 0, 0x7c00);       /* overflow */
    one("mul.f16 %h9, %h1, %h2;", 'h', 0x7e00, 0x4000, 0, 0x7fff);
    one("fma.rn.f16 %h9, %h1, %h2, %h3;", 'h', 0x3c01, 0x3c01, 0xbc02, 0x0010); /* 2^-20 survives */
    one("fma.rn.relu.f16 %h9, %h1, %h2, %h3;", 'h', 0x3c00, 0xbc00, 0, 0);
    one("add.rn.bf16 %h9, %h1, %h2;", 'h', 0x3f80, 0x3b80, 0, 0x3f80);   /* 1 + 2^-8: tie to even */
    one("fma.rn.bf16 %h9, %h1, %h2, %h3;", 'h', 0x3b80, 0x3f81, 0x3f80, 0x3f81); /* just above the tie */
    one("fma.rn.bf16 %h9, %h1, %h2, %h3;", 'h', 0x3b80, 0x3f80, 0x3f80, 0x3f80);
    /* 1 + 2^-8 + 2^-100: above the tie only if nothing is lost on the way */
    one("fma.rn.bf16 %h9, %h1, %h2, %h3;", 'h', 0x2680, 0x2680, 0x3f80, 0x3f80);
    one("mul.bf16 %h9, %h1, %h2;", 'h', 0x7f80, 0, 0, 0x7fff);
    one("fma.rn.bf16x2 %r9, %r1, %r2, %r3;", 'r', 0x40003f80, 0x40404040, 0x3f800000, 0x40e04040);
    one("add.f16x2 %r9, %r1, %r2;", 'r', 0x3c004000, 0x3c003c00, 0, 0x40004200);
    one("min.bf16x2 %r9, %r1, %r2;", 'r', 0x3f807fc0, 0xbf804000, 0, 0xbf804000);
    one("max.NaN.f16 %h9, %h1, %h2;", 'h', 0x7e00, 0x3c00, 0, 0x7fff);
    one("max.bf16 %h9, %h1, %h2;", 'h', 0x0001, 0x0002, 0, 0x0002);      /* bf16 subnormals */
    one("neg.bf16x2 %r9, %r1;", 'r', 0x3f803f80, 0, 0, 0xbf80bf80);
    one("abs.f16 %h9, %h1;", 'h', 0xbc00, 0, 0, 0x3c00);
    one("ex2.approx.f16 %h9, %h1;", 'h', 0x4000, 0, 0, 0x4400);
    one("tanh.approx.bf16x2 %r9, %r1;", 'r', 0x42c80000, 0, 0, 0x3f800000);
    one("cvt.f32.bf16 %f9, %h1;", 'f', 0x3f80, 0, 0, f(1));
    one("cvt.rn.bf16.f32 %h9, %f1;", 'h', 0x3f808000, 0, 0, 0x3f80);
    one("cvt.rn.bf16.f32 %h9, %f1;", 'h', 0x3f818000, 0, 0, 0x3f82);
    one("cvt.rz.bf16.f32 %h9, %f1;", 'h', 0x3f81ffff, 0, 0, 0x3f81);
    one("cvt.rn.bf16.f32 %h9, %f1;", 'h', 0xffc00000, 0, 0, 0x7fff);
    one("cvt.rn.bf16.f32 %h9, %f1;", 'h', 0x7f7fffff, 0, 0, 0x7f80);
    one("cvt.rn.satfinite.bf16.f32 %h9, %f1;", 'h', 0xff7fffff, 0, 0, 0xff7f);
    one("cvt.rn.relu.bf16.f32 %h9, %f1;", 'h', f(-2), 0, 0, 0);
    one("cvt.rn.bf16x2.f32 %r9, %f1, %f2;", 'r', f(2), f(1), 0, 0x40003f80);
    one("cvt.rn.f16x2.f32 %r9, %f1, %f2;", 'r', f(2), f(1), 0, 0x40003c00);
    one("cvt.f32.f16 %f9, %h1;", 'f', 0x0001, 0, 0, f(0x1p-24f));
    one("cvt.f32.f16 %f9, %h1;", 'f', 0xfc00, 0, 0, 0xff800000);
    one("cvt.f32.f16 %f9, %h1;", 'f', 0x7e01, 0, 0, CANON);
    one("cvt.rn.f16.f32 %h9, %f1;", 'h', f(65519.99f), 0, 0, 0x7bff);
    one("cvt.rn.f16.f32 %h9, %f1;", 'h', f(65520), 0, 0, 0x7c00);
    one("cvt.rz.f16.f32 %h9, %f1;", 'h', f(1e9f), 0, 0, 0x7bff);
    one("cvt.rn.f16.f32 %h9, %f1;", 'h', f(0x1p-25f), 0, 0, 0);
    one("cvt.rn.f16.f32 %h9, %f1;", 'h', f(0x1.8p-25f), 0, 0, 1);
    one("cvt.rz.f16.f32 %h9, %f1;", 'h', f(0x1.fp-20f), 0, 0, 0x1f);
    one("cvt.rn.f16.f64 %h9, %d1;", 'h', d(1 + 0x1p-11 + 0x1p-40), 0, 0, 0x3c01); /* not rounded twice */
    one("cvt.rn.f16.s32 %h9, %r1;", 'h', 2049, 0, 0, 0x6800);
    one("cvt.rn.satfinite.e4m3x2.f32 %h9, %f1, %f2;", 'h', f(448), f(1), 0, 0x7e38);
    one("cvt.rn.satfinite.e4m3x2.f32 %h9, %f1, %f2;", 'h', f(-1e9f), NANF, 0, 0xfe7f);
    one("cvt.rn.satfinite.e4m3x2.f32 %h9, %f1, %f2;", 'h', f(0x1p-9f), f(0x1p-10f), 0, 0x0100);
    one("cvt.rn.satfinite.e4m3x2.f32 %h9, %f1, %f2;", 'h', f(17), f(19), 0, 0x585a);
    one("cvt.rn.satfinite.e5m2x2.f32 %h9, %f1, %f2;", 'h', f(1e9f), f(1.25f), 0, 0x7b3d);
    one("cvt.rn.f16x2.e4m3x2 %r9, %h1;", 'r', 0x7e38, 0, 0, 0x5f003c00);
    one("cvt.rn.f16x2.e4m3x2 %r9, %h1;", 'r', 0x7f01, 0, 0, 0x7fff1800);
}

static void conversions(void)
{
    one("cvt.s64.s32 %rd9, %r1;", 'D', 0xffffffff, 0, 0, ~0ull);
    one("cvt.u64.u32 %rd9, %r1;", 'D', 0xffffffff, 0, 0, 0xffffffff);
    one("cvt.s32.s8 %r9, %r1;", 'r', 0x1280, 0, 0, 0xffffff80);
    one("cvt.u32.u8 %r9, %r1;", 'r', 0x1280, 0, 0, 0x80);
    one("cvt.s32.s16 %r9, %h1;", 'r', 0x8000, 0, 0, 0xffff8000);
    one("cvt.s16.s8 %h9, %h1;", 'h', 0x80, 0, 0, 0xff80);
    one("cvt.sat.u8.s32 %r9, %r1;", 'r', (uint32_t)-5, 0, 0, 0);
    one("cvt.sat.u8.s32 %r9, %r1;", 'r', 300, 0, 0, 255);
    one("cvt.sat.s16.s32 %h9, %r1;", 'h', 70000, 0, 0, 0x7fff);
    one("cvt.sat.u32.s64 %r9, %rd1;", 'r', 1ull << 40, 0, 0, 0xffffffff);
    one("cvt.sat.s32.u32 %r9, %r1;", 'r', 0xffffffff, 0, 0, 0x7fffffff);
    one("cvt.sat.s64.u64 %rd9, %rd1;", 'D', ~0ull, 0, 0, INT64_MAX);
    one("cvt.rzi.s32.f32 %r9, %f1;", 'r', f(-1.9f), 0, 0, (uint32_t)-1);
    one("cvt.rni.s32.f32 %r9, %f1;", 'r', f(2.5f), 0, 0, 2);
    one("cvt.rni.s32.f32 %r9, %f1;", 'r', f(3.5f), 0, 0, 4);
    one("cvt.rmi.s32.f32 %r9, %f1;", 'r', f(-1.1f), 0, 0, (uint32_t)-2);
    one("cvt.rpi.s32.f32 %r9, %f1;", 'r', f(1.1f), 0, 0, 2);
    one("cvt.rzi.s32.f32 %r9, %f1;", 'r', NANF, 0, 0, 0);
    one("cvt.rzi.s32.f32 %r9, %f1;", 'r', f(1e20f), 0, 0, 0x7fffffff);
    one("cvt.rzi.s32.f32 %r9, %f1;", 'r', f(-1e20f), 0, 0, 0x80000000);
    one("cvt.rzi.u32.f32 %r9, %f1;", 'r', f(-3), 0, 0, 0);
    one("cvt.rzi.u32.f32 %r9, %f1;", 'r', f(4e9f), 0, 0, 4000000000u);
    one("cvt.rzi.s64.f32 %rd9, %f1;", 'D', f(-1e10f), 0, 0, (uint64_t)-10000000000ll);
    one("cvt.rzi.s64.f32 %rd9, %f1;", 'D', NANF, 0, 0, 1ull << 63);
    one("cvt.rzi.u64.f32 %rd9, %f1;", 'D', INFF, 0, 0, ~0ull);
    one("cvt.rzi.s32.f64 %r9, %d1;", 'r', d(NAN), 0, 0, 0x80000000);
    one("cvt.rzi.s32.f64 %r9, %d1;", 'r', d(-7.9), 0, 0, (uint32_t)-7);
    one("cvt.rzi.u8.f32 %r9, %f1;", 'r', f(300), 0, 0, 255);
    one("cvt.rzi.s16.f32 %h9, %f1;", 'h', f(-40000), 0, 0, 0x8000);
    one("cvt.rzi.s32.f16 %r9, %h1;", 'r', 0xc100, 0, 0, (uint32_t)-2);
    one("cvt.rn.f32.s32 %f9, %r1;", 'f', 16777217, 0, 0, f(16777216));
    one("cvt.rp.f32.s32 %f9, %r1;", 'f', 16777217, 0, 0, f(16777218));
    one("cvt.rz.f32.u32 %f9, %r1;", 'f', 0xffffffff, 0, 0, 0x4f7fffff);
    one("cvt.rn.f32.u32 %f9, %r1;", 'f', 0xffffffff, 0, 0, f(4294967296.0f));
    one("cvt.rn.f32.u64 %f9, %rd1;", 'f', ~0ull, 0, 0, f(18446744073709551616.0f));
    one("cvt.rn.f32.s64 %f9, %rd1;", 'f', ~0ull, 0, 0, f(-1));
    one("cvt.rn.f64.u64 %d9, %rd1;", 'd', ~0ull, 0, 0, d(18446744073709551616.0));
    one("cvt.rn.f64.s32 %d9, %r1;", 'd', (uint32_t)-3, 0, 0, d(-3));
    one("cvt.rn.f32.u16 %f9, %h1;", 'f', 0xffff, 0, 0, f(65535));
    one("cvt.rn.f32.s8 %f9, %r1;", 'f', 0xff, 0, 0, f(-1));
    one("cvt.f64.f32 %d9, %f1;", 'd', f(0.1f), 0, 0, d(0.1f));
    one("cvt.rn.f32.f64 %f9, %d1;", 'f', d(0.1), 0, 0, f(0.1f));
    one("cvt.rm.f32.f64 %f9, %d1;", 'f', d(0.1), 0, 0, 0x3dcccccc);
    one("cvt.rni.f32.f32 %f9, %f1;", 'f', f(-0.5f), 0, 0, f(-0.0f));
    one("cvt.rzi.f32.f32 %f9, %f1;", 'f', f(-1.7f), 0, 0, f(-1));
    one("cvt.rpi.f64.f64 %d9, %d1;", 'd', d(1.2), 0, 0, d(2));
    one("cvt.sat.f32.f32 %f9, %f1;", 'f', f(1.7f), 0, 0, f(1));
    one("cvt.sat.f32.f32 %f9, %f1;", 'f', NANF, 0, 0, 0);
    one("cvt.rna.tf32.f32 %r9, %f1;", 'r', 0x3f801000, 0, 0, 0x3f802000);
    one("cvta.shared.u64 %rd8, %rd1; cvta.to.shared.u64 %rd9, %rd8;", 'D', 64, 0, 0, 64);
}

static void wide(void)
{
    one("{.reg .b128 %q<3>; mov.b128 %q0, {%rd1, %rd2}; mov.b128 %q1, %q0; mov.b128 {%rd3, %rd9}, %q1; sub.s64 %rd9, %rd9, %rd3;}", 'D', 3, 10, 0, 7);
    one("{mov.b128 {%rd1, %rd2}, {%rd2, %rd1}; sub.s64 %rd9, %rd1, %rd2;}", 'D', 3, 10, 0, 7);
    one("{.reg .b128 %q<3>; .local .align 16 .b8 l[32]; mov.b128 %q0, {%rd1, %rd2}; st.local.b128 [l+16], %q0; ld.local.b128 %q1, [l+16];"
        "mov.b128 {%rd3, %rd9}, %q1; ld.local.u64 %rd8, [l+16]; mul.lo.u64 %rd9, %rd9, %rd8; sub.s64 %rd9, %rd9, %rd3;}", 'D', 3, 10, 0, 27);
    one("{.shared .align 32 .b8 s[32]; mul.lo.u32 %r4, %r1, 2; st.shared.v8.b32 [s], {%r1, %r4, %r1, %r4, %r1, %r4, %r1, %r2};"
        "ld.shared.v8.b32 {%r5, %r5, %r5, %r5, %r5, %r6, %r7, %r9}, [s]; sub.s32 %r9, %r9, %r6;}", 'r', 3, 10, 0, 4);
}

/* Each lane in 16 bytes of its own: the 32 lanes of a case would add up otherwise. */
static void atomics(void)
{
    static const char *const own = "{.shared .align 16 .b8 s[1024]; .reg .b32 %a<6>; mov.u32 %a0, %tid.x; shl.b32 %a0, %a0, 4; mov.u32 %a1, s; add.u32 %a0, %a0, %a1;"
                                   "st.shared.v2.b32 [%a0], {%r1, %r2}; st.shared.v2.b32 [%a0+8], {%r1, %r2};";
    char text[600];
    snprintf(text, sizeof text, "%s atom.shared.v2.f32.add {%%a2, %%a3}, [%%a0], {%%f3, %%f3}; ld.shared.b32 %%r9, [%%a0+4];}", own);
    one(text, 'r', f(1), f(2), f(3), f(5));
    snprintf(text, sizeof text, "%s red.shared.v4.f32.add [%%a0], {%%f3, %%f3, %%f3, %%f1}; ld.shared.b32 %%r9, [%%a0+12];}", own);
    one(text, 'r', f(1), f(2), f(3), f(3));
    snprintf(text, sizeof text, "%s red.shared.max.noftz.f16x2 [%%a0], %%r3; ld.shared.b32 %%r9, [%%a0];}", own);
    one(text, 'r', 0xbc003c00, 0, 0x4000c000, 0x40003c00);
    snprintf(text, sizeof text, "%s red.shared.min.noftz.bf16x2 [%%a0], %%r3; ld.shared.b32 %%r9, [%%a0];}", own);
    one(text, 'r', 0xbf803f80, 0, 0x4000c000, 0xbf80c000);
}

/* mov and set of special registers, ballots and shuffles are checked in test_ptx_flow.c */
int main(void)
{
    integers();
    bits();
    comparisons();
    floats();
    halves();
    conversions();
    wide();
    atomics();
    uint64_t ignored;
    const uint64_t none[3] = {0};
    check(!run_one("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r1}, {%r1,%r2}, {%f1,%f2,%f3,%f4};", 'f',
                   none, &ignored, true));
    check(!run_one("frobnicate.b32 %r9, %r1;", 'r', none, &ignored, true));
    return test_done();
}
